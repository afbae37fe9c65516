/* The error budget: columns of TARGETS, and the summary of a run. */
#include "maps_parts.h"

#include "budget/terms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NM 1e9
#define STAR "WFE_STAR"

/* Terms in the order of the columns; then the stars'. */
static const int order[BUDGET_TERMS] = {
    BUDGET_TOTAL, BUDGET_TOMOGRAPHY, BUDGET_NOISE,  BUDGET_ALIASING, BUDGET_FITTING,
    BUDGET_LAG,   BUDGET_JITTER,     BUDGET_STATIC, BUDGET_SODIUM,   BUDGET_GENERALISED};

static bool has_term(const maps_data *m, int term) {
    if (term == BUDGET_SODIUM)
        return m->par->errors_sodium_altitude > 0 || m->par->errors_sodium_drift > 0;
    return term != BUDGET_GENERALISED || sys_shares(m->s);
}

/* The i-th term that has columns. */
static int term_at(const maps_data *m, int i) {
    int k = -1;
    while (i >= 0)
        i -= has_term(m, order[++k]);
    return order[k];
}

static int terms_of(const maps_data *m) {
    int n = 0;
    for (int i = 0; i < BUDGET_TERMS; i++)
        n += has_term(m, i);
    return n;
}

int maps_budget_count(const maps_data *m) {
    return m->nbudget > 0 ? 2 * (terms_of(m) + 1) : 0;
}

void maps_budget_columns(const maps_data *m, fitsout_column *columns, maps_text *text) {
    for (int i = 0; 2 * i < maps_budget_count(m); i++) {
        const bool star = i == terms_of(m);
        const char *name = star ? STAR : budget_column(term_at(m, i));
        const int each = star ? m->nbudget - BUDGET_TERMS : 1;
        maps_text *a = &text[2 * i], *b = &text[2 * i + 1];
        snprintf(a->name, sizeof a->name, "%s", name);
        snprintf(b->name, sizeof b->name, "%s_LONG", name);
        snprintf(a->form, sizeof a->form, "%dD", each * m->nexposure);
        snprintf(b->form, sizeof b->form, "%dD", each);
        snprintf(a->title, sizeof a->title, "rms of the phase: %s",
                 star ? "noise of each star" : budget_words(term_at(m, i)));
        columns[2 * i] = (fitsout_column){a->name, a->form, "nm", a->title};
        columns[2 * i + 1] = (fitsout_column){b->name, b->form, "nm", "the same, long exposure"};
    }
}

/* After the table was begun: shapes of cells, and what the columns are. */
void maps_budget_header(fitsout *o, const maps_data *m, int first) {
    long dims[2] = {m->nexposure, m->nbudget - BUDGET_TERMS};
    if (m->nbudget == 0)
        return;
    fits_write_tdim(o->f, first + 2 * terms_of(m), 2, dims, &o->err);
    fitsout_comment(o, "WFE_...: error budget, rms over the pupil with the sign of the variance:");
    fitsout_comment(o, "x |x| of the terms add up to WFE_TOTAL^2. Cells: exposure; WFE_STAR:");
    fitsout_comment(o, "exposure (fast), star (slow), rows of GUIDESTARS, parts of WFE_NOISE.");
    fitsout_comment(o, "_LONG: of the mean of the variances.");
    if (m->par->psf_residual == RESIDUAL_SENSOR)
        fitsout_text(o, BUDGET_WITHOUT, BUDGET_WITHOUT_WORDS, "of psf.residual sensor");
    else if (m->par->reconstructor_fit == FIT_PHASE)
        fitsout_text(o, BUDGET_WITHOUT, BUDGET_FIT_WORDS, "of reconstructor.fit phase");
}

void maps_budget_cells(fitsout *o, const maps_data *m, int first, int t) {
    const size_t ne = (size_t)m->nexposure, nt = (size_t)m->ntarget;
    const int terms = terms_of(m);
    for (int i = 0; i < terms + m->nbudget - BUDGET_TERMS; i++) {
        const int star = i < terms ? 0 : i - terms;
        const int term = i < terms ? term_at(m, i) : BUDGET_TERMS + star;
        const int col = first + 2 * (i < terms ? i : terms);
        for (int e = 0; e < m->nexposure; e++) {
            const double v =
                NM * budget_rms(m->budget[((size_t)term * ne + (size_t)e) * nt + (size_t)t]);
            fitsout_cells_double(o, col, t + 1, 1 + star * m->nexposure + e, 1, &v);
        }
        const double v = NM * budget_rms(m->budget_mean[(size_t)term * nt + (size_t)t]);
        fitsout_cells_double(o, col + 1, t + 1, 1 + star, 1, &v);
    }
}

status maps_budget_load(maps_data *m, int e, int t, const double *terms) {
    const size_t ne = (size_t)m->nexposure, nt = (size_t)m->ntarget, n = (size_t)m->nbudget;
    status st = MOAO_OK;
    if (m->budget == NULL) {
        TRY(ALLOC(m->budget, n * ne * nt, "error budgets"));
        TRY(ALLOC(m->budget_mean, n * nt, "error budgets"));
    }
    for (size_t i = 0; i < n; i++) {
        m->budget[(i * ne + (size_t)e) * nt + (size_t)t] = terms[i];
        m->budget_mean[i * nt + (size_t)t] += terms[i] / (double)ne;
    }
done:
    return st;
}

status maps_budget_summary(const maps_data *m, report *rep) {
    status st = MOAO_OK;
    if (m->nbudget == 0)
        return st;
    TRY(ALLOC(rep->budget, (size_t)m->nbudget, "summary of the error budget"));
    for (int i = 0; i < m->nbudget; i++) {
        if (i < BUDGET_TERMS && !has_term(m, order[i]))
            continue;
        const double *v =
            m->budget_mean + (size_t)(i < BUDGET_TERMS ? order[i] : i) * (size_t)m->ntarget;
        report_term *r = &rep->budget[rep->nbudget++];
        double mean = 0;
        *r = (report_term){.least = INFINITY, .most = -INFINITY};
        for (int t = 0; t < m->ntarget; t++) {
            mean += v[t] / m->ntarget;
            r->least = fmin(r->least, NM * budget_rms(v[t]));
            r->most = fmax(r->most, NM * budget_rms(v[t]));
        }
        r->mean = NM * budget_rms(mean);
        if (i < BUDGET_TERMS)
            snprintf(r->name, sizeof r->name, "%s", budget_words(order[i]));
        else
            snprintf(r->name, sizeof r->name, "noise of %.32s",
                     m->s->sensors[i - BUDGET_TERMS].name);
    }
done:
    return st;
}
