#include "asterism/want.h"

#include "base/decimal.h"
#include "params/params_table.h"
#include "params/units.h"
#include "system/system.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORDS = 12, LONGEST = 32 };

static status bad(const char *text, const char *what) {
    return status_fail(
        MOAO_INPUT,
        "--want '%.60s': %s, expected mean, min, max, median or pN, then strehl, ee BOX "
        "or rms, as in \"min ee 75mas at 1.65um\" or \"mean strehl in H\"",
        text, what);
}

/* Words of a text; -1: too many or too long. */
static int split(const char *text, char word[WORDS][LONGEST]) {
    int n = 0;
    for (const char *p = text + strspn(text, " \t"); *p != '\0'; p += strspn(p, " \t")) {
        const size_t len = strcspn(p, " \t");
        if (n == WORDS || len >= LONGEST)
            return -1;
        for (size_t i = 0; i < len; i++)
            word[n][i] = p[i];
        word[n++][len] = '\0';
        p += len;
    }
    return n;
}

/* A number with its unit, in one word or two; *i moves behind it. */
static bool measure(char word[WORDS][LONGEST], int n, int *i, dimension dim, const char *unit,
                    double *v) {
    char text[2 * LONGEST + 2], why[256];
    if (*i >= n)
        return false;
    snprintf(text, sizeof text, "%s", word[*i]);
    if (*i + 1 < n && text[strspn(text, "0123456789.")] == '\0' &&
        isalpha((unsigned char)word[*i + 1][0]) && strcasecmp(word[*i + 1], "at") != 0 &&
        strcasecmp(word[*i + 1], "in") != 0 && strcasecmp(word[*i + 1], "over") != 0) {
        snprintf(text, sizeof text, "%s %s", word[*i], word[*i + 1]);
        ++*i;
    }
    ++*i;
    return units_parse(text, dim, unit, false, v, why, sizeof why) && *v > 0;
}

static bool read_over(const char *word, want *w) {
    static const struct {
        const char *word;
        want_over over;
        double percent;
    } known[] = {{"mean", WANT_MEAN, 0},
                 {"min", WANT_MIN, 0},
                 {"max", WANT_MAX, 0},
                 {"median", WANT_PERCENTILE, 50}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(word, known[i].word) == 0) {
            w->over = known[i].over;
            w->percent = known[i].percent;
            return true;
        }
    w->over = WANT_PERCENTILE;
    w->percent = -1;
    return tolower((unsigned char)word[0]) == 'p' && decimal_read(word + 1, &w->percent) &&
           w->percent >= 0 && w->percent <= 100;
}

/* Whether the parameters of the case may have the box and the wavelength. */
static bool is_parameter(const char *path, double v) {
    const param_field *f = param_table_find(&params_main_table, path);
    return f != NULL && param_in_range(f, v);
}

status want_parse(const char *text, want *w) {
    char word[WORDS][LONGEST];
    const int n = split(text, word);
    int i = 2;
    *w = (want){0};
    if (n < 2)
        return bad(text, n < 0 ? "too many words" : "too few words");
    if (!read_over(word[0], w))
        return bad(text, "its first word is not known");
    if (strcasecmp(word[1], "strehl") == 0)
        w->quantity = WANT_STREHL;
    else if (strcasecmp(word[1], "rms") == 0)
        w->quantity = WANT_RMS;
    else if (strcasecmp(word[1], "ee") != 0)
        return bad(text, "its quantity is not known");
    else if (w->quantity = WANT_EE, !measure(word, n, &i, DIM_ANGLE, "mas", &w->box))
        return bad(text, "the box is no angle");
    if (w->quantity == WANT_EE && !is_parameter("psf.ee_boxes", w->box))
        return bad(text, "the box is out of the range of psf.ee_boxes");
    if (i < n && strcasecmp(word[i], "at") == 0) {
        i++;
        if (!measure(word, n, &i, DIM_WAVELENGTH, "um", &w->lambda))
            return bad(text, "the wavelength is none");
        if (!is_parameter("psf.wavelengths", w->lambda))
            return bad(text, "the wavelength is out of the range of psf.wavelengths");
    }
    if (i + 1 < n && strcasecmp(word[i], "in") == 0 && !(w->lambda > 0)) {
        if (strlen(word[i + 1]) >= sizeof w->band)
            return bad(text, "the band is none");
        snprintf(w->band, sizeof w->band, "%.*s", (int)sizeof w->band - 1, word[i + 1]);
        i += 2;
    }
    if (i + 1 < n && strcasecmp(word[i], "over") == 0 && strcasecmp(word[i + 1], "targets") == 0)
        i += 2;
    return i == n ? MOAO_OK : bad(text, "its end is not understood");
}

void want_column(const want *w, char *out, size_t n) {
    if (w->quantity == WANT_EE)
        snprintf(out, n, "EE_%.6gmas", w->box * ARCSEC_PER_RAD * 1e3);
    else
        snprintf(out, n, "%s", w->quantity == WANT_STREHL ? "STREHL" : "VARIANCE");
    for (char *p = out; *p != '\0'; p++)
        if (*p == '.')
            *p = 'p';
}

void want_name(const want *w, char *out, size_t n) {
    char over[16], box[24] = "", wave[40] = "";
    if (w->over == WANT_PERCENTILE)
        snprintf(over, sizeof over, w->percent == 50 ? "median" : "p%g", w->percent);
    else
        snprintf(over, sizeof over, "%s",
                 w->over == WANT_MEAN  ? "mean"
                 : w->over == WANT_MIN ? "min"
                                       : "max");
    if (w->quantity == WANT_EE)
        snprintf(box, sizeof box, " %.6gmas", w->box * ARCSEC_PER_RAD * 1e3);
    if (w->band[0] != '\0')
        snprintf(wave, sizeof wave, " in %.28s", w->band);
    else if (w->lambda > 0)
        snprintf(wave, sizeof wave, " at %.6gum", w->lambda * 1e6);
    snprintf(out, n, "%s %s%s%s", over,
             w->quantity == WANT_EE       ? "ee"
             : w->quantity == WANT_STREHL ? "strehl"
                                          : "rms",
             box, wave);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double want_value(const want *w, int n, const double *v, double *scratch) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(v[i]))
            return NAN;
        sum += v[i];
        scratch[i] = v[i];
    }
    if (w->over == WANT_MEAN)
        return sum / n;
    qsort(scratch, (size_t)n, sizeof *scratch, by_value);
    const double share = w->over == WANT_MIN ? 0 : w->over == WANT_MAX ? 1 : w->percent / 100;
    const double at = share * (n - 1);
    const int low = (int)at < n - 1 ? (int)at : n - 1, high = low < n - 1 ? low + 1 : low;
    return scratch[low] + (at - low) * (scratch[high] - scratch[low]);
}

bool want_larger(const want *w) {
    return w->quantity != WANT_RMS;
}

double want_guess(const want *w, double variance) {
    const double wave = 2 * M_PI / w->lambda;
    if (w->quantity == WANT_RMS)
        return 1e9 * sqrt(fmax(variance, 0));
    return exp(-variance * wave * wave);
}
