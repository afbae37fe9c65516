#include "job/summary.h"

#include "base/plain.h"
#include "base/text.h"
#include "budget/terms.h"
#include "job/advise.h"
#include "maps/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 64, PLACE = 13, ROWS = 40, BOXES = 64, TERMS_SHOWN = 4 };

typedef struct {
    char label[24];
    double *v; /* [ntarget][nlambda] */
} box;

typedef struct {
    long ntarget, nexposure, nlambda;
    double *lambda, *x, *y;           /* [um], [arcsec] */
    char (*band)[32];                 /* [nlambda] results.h */
    char (*name)[NAME];               /* of the targets; "" where they have none */
    double *strehl, *fwhm, *variance; /* [ntarget][nlambda]; -, [mas], [rad^2] */
    double *wfe;                      /* [ntarget] [nm] */
    box boxes[BOXES];                 /* ensquared energies */
    int nbox;
    double *term[BUDGET_TERMS]; /* [ntarget] signed rms [nm]; NULL: no budget */
    char without[80];           /* terms that are in others, "" */
} found;

/* --- reading --- */

/* "EE_75mas_LONG" as "EE 75 mas"; false for another column. */
static bool box_label(const char *column, char label[24]) {
    char side[16];
    int end = 0;
    if (sscanf(column, "EE_%15[0-9.pe+-]mas_LONG%n", side, &end) != 1 || end == 0 ||
        column[end] != '\0')
        return false;
    if (strchr(side, 'p') != NULL) /* the decimal point */
        *strchr(side, 'p') = '.';
    snprintf(label, 24, "EE %.10s mas", side);
    return true;
}

static status read_boxes(results *m, found *r) {
    status st = MOAO_OK;
    for (int i = 1; i <= m->in.ncol && r->nbox < BOXES; i++) {
        fitsin_column c;
        box *b = &r->boxes[r->nbox];
        TRY(fitsin_column_at(&m->in, i, &c));
        if (!box_label(c.name, b->label))
            continue;
        TRY(results_long(m, &c, &b->v));
        r->nbox++;
    }
done:
    return st;
}

static status read_terms(results *m, found *r) {
    status st = MOAO_OK;
    for (int i = 0; i < BUDGET_TERMS; i++) {
        fitsin_column c;
        char column[NAME];
        bool there;
        snprintf(column, sizeof column, "%s_LONG", budget_column(i));
        TRY(fitsin_column_find(&m->in, column, &c, &there));
        if (there)
            TRY(results_term(m, &c, &r->term[i]));
    }
    fitsin_key_text(&m->in, BUDGET_WITHOUT, r->without, sizeof r->without);
done:
    return st;
}

static status read_names(results *m, found *r) {
    fitsin_column c;
    bool there;
    status st;
    TRY(ALLOC(r->name, (size_t)r->ntarget, "names of targets"));
    TRY(fitsin_column_find(&m->in, "NAME", &c, &there));
    for (long t = 0; t < r->ntarget && there; t++) {
        TRY(fitsin_text(&m->in, &c, t + 1, r->name[t], NAME));
        plain_text(r->name[t]);
    }
done:
    return st;
}

/* The columns of one number, and those of one for each wavelength. */
static status read_columns(results *m, found *r) {
    const struct {
        const char *name;
        double **v;
    } one[] = {{"X", &r->x}, {"Y", &r->y}}, each[] = {{"STREHL_LONG", &r->strehl},
                                                      {"FWHM_LONG", &r->fwhm},
                                                      {"VARIANCE_LONG", &r->variance}};
    fitsin_column c;
    status st = MOAO_OK;
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        TRY(fitsin_column_find(&m->in, one[i].name, &c, NULL));
        TRY(results_term(m, &c, one[i].v));
    }
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        TRY(fitsin_column_find(&m->in, each[i].name, &c, NULL));
        TRY(results_long(m, &c, each[i].v));
    }
done:
    return st;
}

static status read_maps(const char *dir, found *r) {
    results m;
    status st;
    TRY(results_open(&m, dir));
    r->ntarget = m.ntarget;
    r->nexposure = m.nexposure;
    r->nlambda = m.nlambda;
    r->lambda = m.lambda;
    r->band = m.band;
    m.lambda = NULL;
    m.band = NULL;
    TRY(read_names(&m, r));
    TRY(read_columns(&m, r));
    TRY(read_boxes(&m, r));
    TRY(read_terms(&m, r));
    TRY(ALLOC(r->wfe, (size_t)r->ntarget, "wavefront errors"));
    for (long t = 0; t < r->ntarget; t++)
        r->wfe[t] = sqrt(r->variance[t * r->nlambda]) * r->lambda[0] * 1e3 / (2 * M_PI);
done:
    results_close(&m);
    return st;
}

static void found_free(found *r) {
    for (int i = 0; i < r->nbox; i++)
        free(r->boxes[i].v);
    for (int i = 0; i < BUDGET_TERMS; i++)
        free(r->term[i]);
    free(r->lambda);
    free(r->band);
    free(r->x);
    free(r->y);
    free(r->name);
    free(r->strehl);
    free(r->fwhm);
    free(r->variance);
    free(r->wfe);
}

/* --- printing --- */

/* A number in 8 columns, with so many decimals where that shows it. */
static void number(double v, int decimals, char out[16]) {
    if (isnan(v))
        snprintf(out, 16, "%8s", "-");
    else if (fabs(v) >= 1e6 || (v != 0 && fabs(v) < 0.5 * pow(10, -decimals)))
        snprintf(out, 16, "%8.1e", v);
    else
        snprintf(out, 16, "%8.*f", decimals, v);
}

/* The middle of a grid is 0, not 1e-17 or -0. */
static double without_dust(double v) {
    return fabs(v) < 1e-6 ? 0 : v;
}

/* Direction of a target in at most PLACE columns [arcsec]. */
static void direction(const found *r, long t, char out[64]) {
    static const char *const form[] = {"%.4g,%.4g", "%.2f,%.2f", "%.1f,%.1f", "%.0f,%.0f"};
    for (int i = 0; i < 4; i++) {
        snprintf(out, 64, form[i], without_dust(r->x[t]), without_dust(r->y[t]));
        if (strlen(out) <= PLACE)
            break;
    }
}

/* Name of a target, cut to PLACE characters, or its direction. */
static void place(const found *r, long t, char out[64]) {
    direction(r, t, out);
    if (r->name[t][0] == '\0')
        return;
    int n = 0;
    size_t cut = 0;
    const char *s = r->name[t];
    for (size_t i = 0; s[i] != '\0'; i++) {
        const bool starts = (s[i] & 0xC0) != 0x80; /* a character of UTF-8 */
        if (starts && n == PLACE - 2)
            cut = i;
        n += starts;
    }
    if (n > PLACE)
        snprintf(out, 64, "%.*s..", (int)cut, s);
    else
        snprintf(out, 64, "%s", s);
    /* printf counts bytes: fill up to the columns */
    size_t len = strlen(out), shown = (size_t)(n > PLACE ? PLACE : n);
    for (; shown < PLACE && len < 63; shown++)
        out[len++] = ' ';
    out[len] = '\0';
}

typedef struct {
    const char *wave, *what;
    int decimals;
    bool squares;    /* the mean is that of the squares */
    const double *v; /* value of target t: v[t * stride] */
    long stride;
} quantity;

/* One line of the table; returns the number of targets that have no value. */
static long print_quantity(const found *r, const quantity *q) {
    long low = -1, high = -1, n = 0;
    double sum = 0;
    char mean[16], least[16], most[16], at_low[64] = "", at_high[64] = "";
    for (long t = 0; t < r->ntarget; t++) {
        const double v = q->v[t * q->stride];
        if (!isfinite(v))
            continue;
        n++;
        sum += q->squares ? v * v : v;
        low = low < 0 || v < q->v[low * q->stride] ? t : low;
        high = high < 0 || v > q->v[high * q->stride] ? t : high;
    }
    sum = n > 0 ? sum / (double)n : NAN;
    number(q->squares ? sqrt(sum) : sum, q->decimals, mean);
    printf("%-10s%-14s%s", q->wave, q->what, mean);
    if (r->ntarget > 1 && n > 0) {
        number(q->v[low * q->stride], q->decimals, least);
        number(q->v[high * q->stride], q->decimals, most);
        place(r, low, at_low);
        place(r, high, at_high);
        for (size_t k = strlen(at_high); k > 0 && at_high[k - 1] == ' '; k--)
            at_high[k - 1] = '\0';
        printf(" %s  %-*s %s  %s", least, PLACE, at_low, most, at_high);
    }
    printf("\n");
    return r->ntarget - n;
}

static void print_head(const found *r) {
    char at[64], exposures[64];
    const bool named = r->name[0][0] != '\0';
    snprintf(exposures, sizeof exposures, "long exposure of %ld exposures", r->nexposure);
    direction(r, 0, at);
    if (r->ntarget == 1)
        printf("\ntarget %s%sat %s arcsec, %s\n\n", r->name[0], named ? " " : "", at,
               r->nexposure > 1 ? exposures : "one exposure");
    else
        printf("\n%ld targets, %s\n\n%32s %8s  %-*s %8s  %s\n", r->ntarget,
               r->nexposure > 1 ? exposures : "one exposure", "mean", "min", PLACE,
               named ? "at" : "at x,y arcsec", "max", named ? "at" : "at x,y arcsec");
}

static void print_table(const found *r) {
    const bool all = r->nlambda * (2 + r->nbox) <= ROWS;
    char wave[32], what[32];
    long wide = 0;
    print_head(r);
    for (long l = 0; l < r->nlambda; l++) {
        if (r->band[l][0] != '\0')
            snprintf(wave, sizeof wave, "%s ", r->band[l]);
        else
            snprintf(wave, sizeof wave, "%.5g um", r->lambda[l]);
        quantity q = {wave, "Strehl ratio", 3, false, r->strehl + l, r->nlambda};
        print_quantity(r, &q);
        q.wave = "";
        for (int i = 0; i < r->nbox && all; i++) {
            q.what = r->boxes[i].label;
            q.v = r->boxes[i].v + l;
            print_quantity(r, &q);
        }
        q = (quantity){"", "FWHM [mas]", 1, false, r->fwhm + l, r->nlambda};
        wide += all ? print_quantity(r, &q) : 0;
    }
    snprintf(what, sizeof what, "%s", "WFE [nm rms]");
    const quantity wfe = {r->nlambda > 1 ? "all" : "", what, 0, true, r->wfe, 1};
    print_quantity(r, &wfe);
    if (all && r->nbox > 0)
        printf("EE: energy in a square of that side, fraction of all\n");
    if (wide == r->ntarget * r->nlambda && r->nexposure > 1)
        printf("FWHM not known: of a long exposure it needs output.psf: long or short\n");
    else if (wide > 0)
        printf("%ld FWHM not known: images that do not fall to half their peak on the grid\n",
               wide);
    if (!all)
        printf("ensquared energies (%d box%s) and FWHM of %ld wavelength%s: maps.fits\n", r->nbox,
               r->nbox == 1 ? "" : "es", r->nlambda, text_plural((double)r->nlambda));
}

/* The largest terms, of the mean of the targets' variances, as run.json has them. */
static void print_terms(const found *r) {
    double mean[BUDGET_TERMS] = {0};
    bool shown[BUDGET_TERMS] = {false};
    if (r->term[BUDGET_TOTAL] == NULL)
        return;
    for (int i = 0; i < BUDGET_TERMS; i++)
        for (long t = 0; r->term[i] != NULL && t < r->ntarget; t++)
            mean[i] += r->term[i][t] * fabs(r->term[i][t]) / (double)r->ntarget;
    printf("\nlargest terms [nm rms]:");
    for (int k = 0; k < TERMS_SHOWN; k++) {
        int largest = -1;
        for (int i = BUDGET_TOTAL + 1; i < BUDGET_TERMS; i++)
            if (!shown[i] && (largest < 0 || fabs(mean[i]) > fabs(mean[largest])))
                largest = i;
        if (mean[largest] == 0)
            break;
        shown[largest] = true;
        printf("%s %s %.0f", k > 0 ? "," : "", budget_words(largest), budget_rms(mean[largest]));
    }
    printf("\n");
    if (r->without[0] != '\0')
        printf("(%s: %s)\n", budget_without(r->without), r->without);
}

static void print_commands(const found *r, const char *dir) {
    text draw = {0}, budget = {0};
    char program[4096];
    advise_results("plot", &draw);
    text_add(&draw, " ");
    advise_word(&draw, dir);
    advise_program(program, sizeof program);
    advise_word(&budget, program);
    text_add(&budget, " budget ");
    advise_word(&budget, dir);
    plain_line(stdout, "draw       ", draw.s != NULL ? draw.s : "");
    if (r->term[BUDGET_TOTAL] != NULL)
        plain_line(stdout, "all terms  ", budget.s != NULL ? budget.s : "");
    free(draw.s);
    free(budget.s);
}

status summary_print(const char *dir, const text_list *names, double seconds, int ranks) {
    found r = {0};
    status st = read_maps(dir, &r);
    if (st != MOAO_OK)
        goto done;
    for (long t = 0; names->n == r.ntarget && t < r.ntarget; t++) {
        snprintf(r.name[t], NAME, "%s", names->v[t]); /* FITS has ASCII only */
        plain_text(r.name[t]);
    }
    print_table(&r);
    print_terms(&r);
    printf("\n");
    if (!isnan(seconds))
        printf("time       %.1f s on %d rank%s (stages, memory: run.json, --verbose)\n", seconds,
               ranks, ranks > 1 ? "s" : "");
    print_commands(&r, dir);
    fflush(stdout);
done:
    found_free(&r);
    return st;
}
