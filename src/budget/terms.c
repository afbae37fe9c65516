#include "budget/terms.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *column, *words;
} name[BUDGET_TERMS] = {
    [BUDGET_TOTAL] = {"WFE_TOTAL", "total"},
    [BUDGET_TOMOGRAPHY] = {"WFE_TOMO", "tomography"},
    [BUDGET_NOISE] = {"WFE_NOISE", "noise"},
    [BUDGET_ALIASING] = {"WFE_ALIAS", "aliasing"},
    [BUDGET_FITTING] = {"WFE_FIT", "fitting"},
    [BUDGET_LAG] = {"WFE_LAG", "servo lag"},
    [BUDGET_JITTER] = {"WFE_JITTER", "jitter"},
    [BUDGET_STATIC] = {"WFE_STATIC", "static"},
    [BUDGET_SODIUM] = {"WFE_SODIUM", "sodium focus"},
    [BUDGET_GENERALISED] = {"WFE_GENFIT", "generalised fit"},
};

double budget_rms(double variance) {
    return variance < 0 ? -sqrt(-variance) : sqrt(variance);
}

const char *budget_column(int term) {
    return name[term].column;
}

const char *budget_words(int term) {
    return name[term].words;
}

const char *budget_without(const char *words) {
    return strcmp(words, BUDGET_FIT_WORDS) == 0 ? "reconstructor.fit: phase"
                                                : "psf.residual: sensor";
}
