/* Motion of the image as spectra and lines of vibrations, and the loop's rejection: into
 * errors.jitter and errors.windshake, which are what the loop leaves. */
#include "base/cells.h"
#include "base/decimal.h"
#include "params_load.h"
#include "system/motion.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FREQUENCY, ALONG_X, ALONG_Y, COLUMNS };

typedef struct { /* a table of text: frequencies and one or two columns */
    const char *key;
    const char *file;
    int line;
    bool plain; /* numbers without a unit: a rejection, whose one column is its power */
    bool begun; /* a line of numbers or names was there */
    bool commas;
    int at[COLUMNS];      /* where the columns are; -1: not there */
    double unit[COLUMNS]; /* of a number [rad^2/Hz] */
    int n;
    double *value[COLUMNS];
} table;

static status fail_at(const table *t, int column, const char *what) {
    return yaml_tree_fail_at(t->file, t->line, column, t->key, "%s", what);
}

/* --- names of columns */

static bool is_one_of(const char *name, size_t n, const char *words) {
    char own[32];
    if (n + 3 > sizeof own)
        return false;
    snprintf(own, sizeof own, " %.*s ", (int)n, name);
    for (char *p = own; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    return strstr(words, own) != NULL;
}

/* The unit between brackets behind a name. */
static bool unit_of(const char *bracket, int column, double *unit) {
    static const double mas = 1e-3 / ARCSEC_PER_RAD, arcsec = 1 / ARCSEC_PER_RAD;
    char text[32];
    const size_t n = strcspn(bracket + 1, "])");
    if (*bracket == '\0')
        return true;
    if (n == 0 || bracket[1 + n] == '\0' || n + 3 > sizeof text)
        return false;
    snprintf(text, sizeof text, " %.*s ", (int)n, bracket + 1);
    if (column == FREQUENCY)
        return strcmp(text, " Hz ") == 0;
    if (strstr(" mas2/Hz mas^2/Hz ", text) != NULL)
        *unit = mas * mas;
    else if (strstr(" arcsec2/Hz arcsec^2/Hz ", text) != NULL)
        *unit = arcsec * arcsec;
    else if (strstr(" rad2/Hz rad^2/Hz ", text) != NULL)
        *unit = 1;
    else
        return false;
    return true;
}

static status take_names(table *t, int n, const cell *f) {
    static const char *const words[COLUMNS] = {" f freq frequency ", " x tip psd psd_x rejection ",
                                               " y tilt psd_y "};
    for (int k = 0; k < COLUMNS; k++)
        t->at[k] = -1;
    for (int i = 0; i < n; i++) {
        const size_t len = strcspn(f[i].text, " [(");
        const char *bracket = f[i].text + strcspn(f[i].text, "[(");
        int k = 0;
        while (k < COLUMNS && !is_one_of(f[i].text, len, words[k]))
            k++;
        if (k == COLUMNS || t->at[k] >= 0)
            return fail_at(t, f[i].at,
                           "a column's name, expected frequency, x and y, each once, or frequency "
                           "and psd or rejection");
        if (!unit_of(bracket, k, &t->unit[k]))
            return fail_at(t, f[i].at,
                           "a column's unit is not known, expected Hz, and mas2/Hz, arcsec2/Hz or "
                           "rad2/Hz");
        t->at[k] = i;
    }
    if (t->at[FREQUENCY] < 0 || t->at[ALONG_X] < 0)
        return fail_at(t, 1, "names of columns without frequency and x, expected both");
    return MOAO_OK;
}

/* --- numbers */

static status take_numbers(table *t, int n, const cell *f) {
    const int columns = 2 + (t->at[ALONG_Y] >= 0);
    if (n != columns)
        return fail_at(t, 1,
                       columns == 3 ? "not three numbers, expected frequency and spectra along x "
                                      "and y"
                                    : "not two numbers, expected a frequency and a value");
    for (int k = 0; k < columns; k++) {
        const cell *c = &f[t->at[k]];
        double v;
        if (!decimal_read(c->text, &v) || !(v >= 0) || isinf(v))
            return fail_at(t, c->at, "expected a number of 0 or more");
        if (k == FREQUENCY && t->n > 0 && !(v > t->value[FREQUENCY][t->n - 1]))
            return fail_at(t, c->at, "a frequency that is not above the one before it");
        t->value[k][t->n] = v * t->unit[k];
    }
    t->n++;
    return MOAO_OK;
}

static status take_line(table *t, const char *line, size_t len) {
    cell f[COLUMNS + 1];
    const bool csv = t->begun ? t->commas : cells_by_commas(line, len);
    const int n = cells_split(line, len, csv, f, COLUMNS + 1);
    double v;
    if (n < 0)
        return fail_at(t, 1, "a double quote that is not closed, expected another one");
    if (n == 0)
        return MOAO_OK;
    if (t->begun)
        return take_numbers(t, n, f);
    t->begun = true;
    t->commas = csv;
    if (n < 2 || n > COLUMNS - t->plain)
        return fail_at(t, 1,
                       t->plain ? "expected two columns, frequency and rejection of power"
                                : "expected frequency and spectra along x and y, or one for both");
    if (!decimal_read(f[0].text, &v))
        return take_names(t, n, f);
    t->at[ALONG_Y] = n == COLUMNS ? ALONG_Y : -1;
    return take_numbers(t, n, f);
}

static void free_table(table *t) {
    for (int k = 0; k < COLUMNS; k++)
        free(t->value[k]);
}

/* The table in the file that a key of errors names. */
static status read_table(params_loader *l, const char *key, const char *name, bool plain,
                         table *t) {
    static const double mas2 = 1e-6 / (ARCSEC_PER_RAD * ARCSEC_PER_RAD);
    const ynode *at = param_node(l->root, key);
    const params_file *f;
    size_t lines = 1;
    status st;
    *t = (table){.key = key, .plain = plain, .at = {0, 1, -1}, .unit = {1, mas2, mas2}};
    if (plain)
        t->unit[ALONG_X] = 1;
    TRY(params_files_get_stated(l->files, name, at->text, &f));
    if (f->error != 0)
        return yaml_tree_fail(at, key, "%s cannot be read (%s), expected a file", name,
                              params_files_stated_reason(f, at->text));
    t->file = params_files_name(f);
    int column;
    if (params_files_find_nul(f, &t->line, &column))
        return fail_at(t, column, "a NUL character, expected text");
    for (size_t i = 0; i < f->len; i++)
        lines += f->data[i] == '\n';
    for (int k = 0; k < COLUMNS; k++)
        TRY(ALLOC(t->value[k], lines, "a spectrum"));
    t->line = 1;
    for (const char *p = f->data, *end = f->data + f->len; p < end; t->line++) {
        const size_t len = strcspn(p, "\n");
        TRY(take_line(t, p, len));
        p += len + 1;
    }
    if (t->n < 2)
        st = yaml_tree_fail_at(t->file, 1, 1, key, "%d line%s of numbers, expected two or more",
                               t->n, t->n == 1 ? "" : "s");
done:
    return st;
}

/* --- what is left */

static status add_spectrum(params_loader *l, const char *key, char **file, const rejection *r,
                           double rms[2]) {
    const rejection off = {0};
    double before[2], after[2];
    table t = {0};
    status st = MOAO_OK;
    if (*file == NULL)
        return MOAO_OK;
    TRY(read_table(l, key, *file, false, &t));
    for (int k = 0; k < 2; k++) {
        const double *s = t.value[k == 1 && t.at[ALONG_Y] >= 0 ? ALONG_Y : ALONG_X];
        before[k] = sqrt(motion_variance(t.n, t.value[FREQUENCY], s, &off));
        after[k] = sqrt(motion_variance(t.n, t.value[FREQUENCY], s, r));
        rms[k] = hypot(rms[k], after[k]);
    }
    const double mas = 1e3 * ARCSEC_PER_RAD;
    st = params_tell(l->par, "%s: %.4g x %.4g mas rms, of which the loop leaves %.4g x %.4g", key,
                     before[0] * mas, before[1] * mas, after[0] * mas, after[1] * mas);
    free(*file);
    *file = NULL;
done:
    free_table(&t);
    return st;
}

static status add_vibrations(params_loader *l, const rejection *r, double rms[2]) {
    params *par = l->par;
    real_list *f = &par->errors_vibrations_frequency;
    real_list *const line[2] = {&par->errors_vibrations_x, &par->errors_vibrations_y};
    double before[2] = {0, 0}, after[2] = {0, 0};
    if (f->n == 0 && line[0]->n == 0 && line[1]->n == 0)
        return MOAO_OK;
    for (int k = 0; k < 2; k++)
        if (line[k]->n != f->n)
            return yaml_tree_fail(param_node(l->root, "errors.vibrations"), "errors.vibrations",
                                  "%d frequencies with %d and %d rms along x and y, expected as "
                                  "many of each",
                                  f->n, line[0]->n, line[1]->n);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < f->n; i++) {
            before[k] = hypot(before[k], line[k]->v[i]);
            after[k] = hypot(after[k], line[k]->v[i] * sqrt(rejection_at(r, f->v[i])));
        }
        rms[k] = hypot(rms[k], after[k]);
        free(line[k]->v);
        *line[k] = (real_list){0};
    }
    free(f->v);
    *f = (real_list){0};
    const double mas = 1e3 * ARCSEC_PER_RAD;
    return params_tell(par,
                       "errors.vibrations: %.4g x %.4g mas rms, of which the loop leaves %.4g x "
                       "%.4g",
                       before[0] * mas, before[1] * mas, after[0] * mas, after[1] * mas);
}

/* The closed loop of tip and tilt, where there is something that it acts on. */
static void take_split(const params *par, rejection *r) {
    const loop_filter own = params_target_filter(par);
    if (par->split_slopes == SPLIT_RESIDUAL)
        r->behind = own;
    else if (par->split_common == SPLIT_KNOWN)
        r->loop = own;
}

static status take_loop(params_loader *l, rejection *r) {
    params *par = l->par;
    const bool closed = par->loop_type != LOOP_OPEN;
    const bool some = par->errors_vibrations_frequency.n > 0 || par->errors_jitter_psd != NULL ||
                      par->errors_windshake_psd != NULL;
    const ynode *at = param_node(l->root, "errors.rejection");
    loop_filter low;
    status st = MOAO_OK;
    if (r->kind == REJECTION_LOOP && !closed)
        return yaml_tree_fail(at, "errors.rejection",
                              "loop with loop.type: open, expected delay, or a closed loop");
    r->kind = closed && some ? REJECTION_LOOP : REJECTION_OFF;
    if (r->kind == REJECTION_OFF)
        return st;
    TRY(params_check_loop(l));
    params_filters(par, &r->loop, &low);
    const bool own = low.type != LOOP_OPEN;
    if (own)
        r->loop = low;
    if (par->mode == MODE_SPLIT)
        take_split(par, r);
    if (r->loop.optimal)
        st = yaml_tree_fail(
            param_node(l->root, own ? "loop.low.gain" : "loop.gain"),
            own ? "loop.low.gain" : "loop.gain",
            "optimal with spectra of motion that this loop is to reject, expected a number, or "
            "another errors.rejection");
done:
    return st;
}

static status read_rejection(params_loader *l, table *t, rejection *r) {
    params *par = l->par;
    const ynode *at = param_node(l->root, "errors.rejection");
    status st = MOAO_OK;
    *r = (rejection){.kind = par->errors_rejection,
                     .delay = par->loop_delay,
                     .frame = par->loop_integration,
                     .gain = par->errors_loop_gain};
    if (r->kind == REJECTION_LOOP || r->kind == REJECTION_AUTO)
        TRY(take_loop(l, r));
    if (r->kind == REJECTION_TABLE) {
        if (par->errors_rejection_file == NULL)
            return yaml_tree_fail(at, "errors.rejection",
                                  "file without errors.rejection_file, expected the file's name");
        TRY(read_table(l, "errors.rejection_file", par->errors_rejection_file, true, t));
        r->n = t->n;
        r->frequency = t->value[FREQUENCY];
        r->power = t->value[ALONG_X];
    } else if (par->errors_rejection_file != NULL)
        return yaml_tree_fail(param_node(l->root, "errors.rejection_file"), "errors.rejection_file",
                              "given without errors.rejection: file, expected this too");
    if (r->kind == REJECTION_INTEGRATOR && !(r->frame > 0))
        return yaml_tree_fail(at, "errors.rejection",
                              "integrator without loop.integration, expected the time of a frame");
    if (!rejection_is_stable(r))
        return yaml_tree_fail(
            at, "errors.rejection",
            "an integrator of gain %g with a delay of %g ms after frames of %g ms "
            "is not stable, expected a smaller errors.loop_gain",
            r->gain, 1e3 * r->delay, 1e3 * r->frame);
done:
    return st;
}

status params_read_motion(params_loader *l) {
    params *par = l->par;
    table t = {0};
    rejection r;
    status st;
    TRY(read_rejection(l, &t, &r));
    TRY(add_spectrum(l, "errors.jitter_psd", &par->errors_jitter_psd, &r, par->errors_jitter));
    TRY(add_spectrum(l, "errors.windshake_psd", &par->errors_windshake_psd, &r,
                     par->errors_windshake));
    TRY(add_vibrations(l, &r, par->errors_jitter));
    free(par->errors_rejection_file);
    par->errors_rejection_file = NULL;
    par->errors_rejection = REJECTION_OFF;
done:
    free_table(&t);
    return st;
}
