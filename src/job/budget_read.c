#include "job/budget_read.h"

#include "base/file.h"
#include "base/plain.h"
#include "maps/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status names_of(fitsin *in, const fitsin_column *c, long n, char (*out)[BUDGET_NAME]) {
    status st = MOAO_OK;
    for (long i = 0; i < n; i++) {
        TRY(fitsin_text(in, c, i + 1, out[i], BUDGET_NAME));
        plain_text(out[i]);
    }
done:
    return st;
}

/* A column of numbers: `each` of the `repeat` of a cell, from `first` on; in new memory. */
static status numbers(results *r, const char *name, long repeat, long first, long each,
                      double **out) {
    fitsin_column c;
    status st = fitsin_column_find(&r->in, name, &c, NULL);
    return st == MOAO_OK ? fitsin_numbers(&r->in, &c, repeat, first, each, out) : st;
}

static status read_terms(results *r, budget *b) {
    const long ne = b->nexposure;
    status st = MOAO_OK;
    for (long i = 0; i < BUDGET_TERMS + b->nstar; i++) {
        const bool star = i >= BUDGET_TERMS;
        const char *name = star ? "WFE_STAR" : budget_column((int)i);
        fitsin_column c;
        bool there = true;
        if (i == BUDGET_SODIUM || i == BUDGET_GENERALISED)
            TRY(fitsin_column_find(&r->in, name, &c, &there));
        if (!there)
            continue;
        const long k = star ? i - BUDGET_TERMS : 0, n = star ? b->nstar : 1;
        char mean[BUDGET_NAME];
        snprintf(mean, sizeof mean, "%s_LONG", name);
        TRY(numbers(r, name, n * ne, k * ne, ne, &b->terms[i].exposures));
        TRY(numbers(r, mean, n, k, 1, &b->terms[i].mean));
        if (!star)
            snprintf(b->terms[i].name, BUDGET_NAME, "%s", budget_words((int)i));
    }
done:
    return st;
}

/* Mean Strehl ratio, at the first wavelength, of what is shown. */
static status read_strehl(results *r, budget *b) {
    const bool all = b->exposure == 0;
    const long n = r->nlambda * (all ? 1 : b->nexposure);
    double *v = NULL;
    status st = numbers(r, all ? "STREHL_LONG" : "STREHL", n, all ? 0 : b->exposure - 1, 1, &v);
    for (long t = 0; st == MOAO_OK && t < b->ntarget; t++)
        if (b->chosen < 0 || t == b->chosen)
            b->strehl += v[t] / (b->chosen < 0 ? (double)b->ntarget : 1);
    free(v);
    return st;
}

static status choose_target(budget *b) {
    char *end;
    const long number = b->target != NULL ? strtol(b->target, &end, 10) : 0;
    b->chosen = -1;
    if (b->target == NULL)
        return MOAO_OK;
    for (long t = 0; t < b->ntarget && b->chosen < 0; t++)
        if (strcmp(b->names[t], b->target) == 0)
            b->chosen = (int)t;
    if (b->chosen < 0 && *end == '\0' && number >= 1 && number <= b->ntarget)
        b->chosen = (int)number - 1;
    return b->chosen >= 0
               ? MOAO_OK
               : status_fail(MOAO_INPUT, "--target: there is no %.80s: expected a name or 1 to %ld",
                             b->target, b->ntarget);
}

static status read_stars(results *r, budget *b) {
    char(*stars)[BUDGET_NAME] = NULL;
    fitsin_column c;
    status st;
    TRY(fitsin_table(&r->in, "GUIDESTARS"));
    const long n = r->in.rows;
    TRY(ALLOC(b->terms, (size_t)(BUDGET_TERMS + n), "terms of the budget"));
    b->nstar = n;
    TRY(ALLOC(stars, (size_t)n, "names of stars"));
    TRY(fitsin_column_find(&r->in, "NAME", &c, NULL));
    TRY(names_of(&r->in, &c, n, stars));
    for (long w = 0; w < n; w++)
        snprintf(b->terms[BUDGET_TERMS + w].name, BUDGET_NAME, "%s", stars[w]);
done:
    free(stars);
    return st;
}

static status read_tables(results *r, budget *b) {
    fitsin_column c;
    bool there;
    status st;
    b->nexposure = r->nexposure;
    b->lambda = r->lambda[0];
    results_label(r, 0, b->at, sizeof b->at);
    TRY(read_stars(r, b));
    TRY(fitsin_table(&r->in, "TARGETS"));
    b->ntarget = r->ntarget;
    TRY(fitsin_column_find(&r->in, budget_column(BUDGET_TOTAL), &c, &there));
    if (!there)
        TRY(status_fail(MOAO_INPUT,
                        "%s: this run has no error budget: it needs output.budget: terms and "
                        "this version of the program or a later one",
                        file_shown(r->in.path)));
    fitsin_key_text(&r->in, BUDGET_WITHOUT, b->merged, sizeof b->merged);
    TRY(ALLOC(b->names, (size_t)b->ntarget, "names of targets"));
    TRY(fitsin_column_find(&r->in, "NAME", &c, &there));
    if (there)
        TRY(names_of(&r->in, &c, b->ntarget, b->names));
    TRY(choose_target(b));
    if (b->exposure > b->nexposure)
        TRY(status_fail(MOAO_INPUT, "--exposure: there is no %d: expected 1 to %ld", b->exposure,
                        b->nexposure));
    TRY(numbers(r, "X", 1, 0, 1, &b->x));
    TRY(numbers(r, "Y", 1, 0, 1, &b->y));
    TRY(read_terms(r, b));
    st = read_strehl(r, b);
done:
    return st;
}

status budget_read(budget *b) {
    results r;
    status st = results_open(&r, b->dir);
    if (st == MOAO_OK)
        st = read_tables(&r, b);
    results_close(&r);
    return st;
}

void budget_free(budget *b) {
    for (long i = 0; b->terms != NULL && i < BUDGET_TERMS + b->nstar; i++) {
        free(b->terms[i].exposures);
        free(b->terms[i].mean);
    }
    free(b->terms);
    free(b->names);
    free(b->x);
    free(b->y);
}
