#include "job/sweep_table.h"

#include "base/file.h"
#include "base/fits.h"
#include "base/plain.h"
#include "budget/terms.h"
#include "job/advise.h"
#include "maps/results.h"
#include "params/params_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 64, UNIT = 16 };

typedef struct { /* a column of numbers */
    char name[NAME], unit[UNIT];
    double *value; /* [nrun], NaN: none */
} column;

typedef struct {
    int n, nrun;
    column *v;
    status failed; /* of the first column for which there was no room */
} table;

/* --- states --- */

static bool has(const char *dir, const char *folder, const char *name) {
    text path = {0};
    text_add(&path, "%s/%s/%s", dir, folder, name);
    bool there = path.failed == MOAO_OK && file_exists(path.s);
    free(path.s);
    status_clear();
    return there;
}

bool sweep_finished(const char *dir, const char *folder) {
    return has(dir, folder, "checkpoint/finished") && has(dir, folder, "maps.fits");
}

bool sweep_begun(const char *dir, const char *folder) {
    return has(dir, folder, "checkpoint/effective.yaml");
}

/* --- results of one run --- */

/* Column of a name, made when it is new; NULL when there is no room, and then t->failed says why.
 */
static column *column_of(table *t, const char *name, const char *unit) {
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->v[i].name, name) == 0)
            return &t->v[i];
    column *grown = realloc(t->v, (size_t)(t->n + 1) * sizeof *grown);
    if (grown == NULL) {
        t->failed = status_fail(MOAO_MEMORY, "no memory for a table");
        return NULL;
    }
    t->v = grown;
    column *c = &grown[t->n];
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->unit, sizeof c->unit, "%s", unit);
    if (t->failed == MOAO_OK)
        t->failed = ALLOC(c->value, (size_t)t->nrun, "column of a table");
    if (t->failed != MOAO_OK)
        return NULL;
    for (int i = 0; i < t->nrun; i++)
        c->value[i] = NAN;
    t->n++;
    return c;
}

static void put(table *t, int run, double wave, const char *band, const char *what,
                const char *unit, double v) {
    char name[NAME];
    if (wave > 0 && band[0] != '\0')
        snprintf(name, sizeof name, "%.14s_%.31s_%.6gum", what, band, wave);
    else if (wave > 0)
        snprintf(name, sizeof name, "%.40s_%.6gum", what, wave);
    else
        snprintf(name, sizeof name, "%.60s", what);
    column *c = column_of(t, name, unit);
    if (c != NULL)
        c->value[run] = v;
}

typedef struct {
    double mean, min, max;
} figures;

static figures figures_of(const double *v, long n, long stride) {
    figures f = {0, INFINITY, -INFINITY};
    for (long i = 0; i < n; i++) {
        double x = v[i * stride];
        f.mean += x / (double)n;
        f.min = fmin(f.min, x);
        f.max = fmax(f.max, x);
    }
    return f;
}

static void in_small_letters(const char *name, char lower[NAME]) {
    snprintf(lower, NAME, "%.*s", NAME - 1, name);
    for (; *lower != '\0'; lower++)
        *lower = (char)(*lower >= 'A' && *lower <= 'Z' ? *lower + 32 : *lower);
}

/* One quantity of maps.fits for a run: name as in TARGETS, values [target][wavelength]. */
static void put_quantity(table *t, int run, const char *name, const double *v, long ntarget,
                         int nlambda, const double *lambda, char (*band)[32]) {
    char lower[NAME];
    in_small_letters(name, lower);
    for (int l = 0; l < nlambda; l++) {
        figures f = figures_of(v + l, ntarget, nlambda);
        if (strcmp(lower, "strehl") == 0) {
            put(t, run, lambda[l], band[l], "strehl_mean", "", f.mean);
            put(t, run, lambda[l], band[l], "strehl_min", "", f.min);
            put(t, run, lambda[l], band[l], "strehl_max", "", f.max);
        } else if (strcmp(lower, "variance") == 0) {
            put(t, run, lambda[l], band[l], "rms", "nm",
                sqrt(f.mean) * lambda[l] * 1e3 / (2 * M_PI));
        } else {
            put(t, run, lambda[l], band[l], lower, strcmp(lower, "fwhm") == 0 ? "mas" : "", f.mean);
        }
    }
}

/* A term of the error budget: rms, with its sign, of the mean of the targets' variances. */
static void put_term(table *t, int run, const char *name, const double *v, long ntarget) {
    char lower[NAME];
    double mean = 0;
    in_small_letters(name, lower);
    for (long i = 0; i < ntarget; i++)
        mean += v[i] * fabs(v[i]) / (double)ntarget;
    put(t, run, 0, "", lower, "nm", budget_rms(mean));
}

/* Every column NAME_LONG of the table TARGETS. */
static status read_targets(results *r, table *t, int run) {
    static const char end[] = "_LONG";
    status st = MOAO_OK;
    for (int i = 1; i <= r->in.ncol && st == MOAO_OK; i++) {
        fitsin_column c;
        double *v = NULL;
        TRY(fitsin_column_at(&r->in, i, &c));
        const size_t n = strlen(c.name), k = sizeof end - 1;
        if (n <= k || strcmp(c.name + n - k, end) != 0 || strcmp(c.name, "WFE_STAR_LONG") == 0)
            continue;
        const bool term = strncmp(c.name, "WFE_", 4) == 0;
        st = term ? results_term(r, &c, &v) : results_long(r, &c, &v);
        plain_text(c.name)[n - k] = '\0';
        if (st == MOAO_OK && term)
            put_term(t, run, c.name, v, r->ntarget);
        else if (st == MOAO_OK)
            put_quantity(t, run, c.name, v, r->ntarget, (int)r->nlambda, r->lambda, r->band);
        free(v);
    }
done:
    return st;
}

/* Elapsed time of DIR/FOLDER/run.json. */
static void read_time(table *t, int run, const char *dir, const char *folder) {
    text path = {0};
    char *all = NULL;
    text_add(&path, "%s/%s/run.json", dir, folder);
    if (path.failed == MOAO_OK && file_read_text(path.s, &all) == MOAO_OK) {
        const char *p = strstr(all, "\"elapsed_s\":");
        const double elapsed = p != NULL ? strtod(p + 12, NULL) : NAN;
        if (elapsed >= 0 && isfinite(elapsed))
            put(t, run, 0, "", "elapsed_s", "s", elapsed);
    }
    status_clear();
    free(all);
    free(path.s);
}

static status read_run(table *t, int run, const char *dir, const char *folder) {
    text path = {0};
    results r = {0};
    status st;
    text_add(&path, "%s/%s", dir, folder);
    TRY(path.failed);
    TRY(results_open(&r, path.s));
    if (r.nlambda > SWEEP_COLUMNS)
        TRY(status_fail(MOAO_INPUT, "%s/maps.fits: %ld wavelengths, expected at most %d", path.s,
                        r.nlambda, SWEEP_COLUMNS));
    st = read_targets(&r, t, run);
    if (st == MOAO_OK)
        st = t->failed;
done:
    results_close(&r);
    free(path.s);
    return st;
}

/* --- keys --- */

/* Value of key k in a run's words, "" when it is not there. */
static const char *key_value(const sweep_run *r, int k) {
    const char *equal = strchr(r->word[k], '=');
    return equal != NULL ? equal + 1 : "";
}

/* Whether all values of a key are numbers with the same unit behind; the unit then. */
static bool numeric_key(const sweep_list *l, int k, char unit[UNIT]) {
    unit[0] = '\0';
    for (int i = 0; i < l->nrun; i++) {
        const char *s = key_value(&l->run[i], k);
        char *end;
        double v = strtod(s, &end);
        if (end == s || !isfinite(v) || strpbrk(s, "xXnN") == s + 1)
            return false;
        end += strspn(end, " ");
        if (strlen(end) >= UNIT || strpbrk(end, ",[]{}") != NULL ||
            (i > 0 && strcmp(end, unit) != 0))
            return false;
        strcpy(unit, end);
    }
    if (*unit == '\0') { /* that of a bare number */
        const param_field *f = sweep_field(l->key[k]);
        snprintf(unit, UNIT, "%s", f != NULL ? f->unit : "");
    }
    return true;
}

/* What the columns of the keys are. */
typedef struct {
    bool number;
    char unit[UNIT], form[24];
} key_column;

static status key_columns(const sweep_list *l, key_column **out) {
    status st = ALLOC(*out, (size_t)l->nkey + 1, "columns");
    for (int k = 0; st == MOAO_OK && k < l->nkey; k++)
        (*out)[k].number = numeric_key(l, k, (*out)[k].unit);
    return st;
}

/* --- the files --- */

static const char *state_of(const char *dir, const sweep_run *r) {
    return r->damaged                       ? "damaged"
           : sweep_finished(dir, r->folder) ? "finished"
           : sweep_begun(dir, r->folder)    ? "stopped"
                                            : "missing";
}

static status write_csv(const char *dir, const sweep_list *l, const table *t,
                        const key_column *keys) {
    text out = {0};
    char *path = NULL;
    status st;
    TRY(file_join(dir, "sweep.csv", &path));
    for (int k = 0; k < l->nkey; k++) {
        text_add_cell(&out, l->key[k], "");
        text_add(&out, ",");
    }
    for (int c = 0; c < t->n; c++) {
        text_add_cell(&out, t->v[c].name, "");
        text_add(&out, ",");
    }
    text_add(&out, "folder,status\n");
    for (int i = 0; i < l->nrun; i++) {
        for (int k = 0; k < l->nkey; k++) {
            if (keys[k].number)
                text_add(&out, "%.15g", strtod(key_value(&l->run[i], k), NULL));
            else
                text_add_cell(&out, key_value(&l->run[i], k), "");
            text_add(&out, ",");
        }
        for (int c = 0; c < t->n; c++)
            if (isfinite(t->v[c].value[i]))
                text_add(&out, "%.10g,", t->v[c].value[i]);
            else
                text_add(&out, ",");
        text_add_cell(&out, l->run[i].folder, "");
        text_add(&out, ",%s\n", state_of(dir, &l->run[i]));
    }
    TRY(out.failed);
    st = file_write_text(path, out.s);
done:
    free(out.s);
    free(path);
    return st;
}

/* Width of the column of key k, or of the folders for k = nkey. */
static void text_form(const sweep_list *l, int k, char form[24]) {
    size_t n = 8;
    for (int i = 0; i < l->nrun; i++) {
        size_t width = fitsout_width(k < l->nkey ? key_value(&l->run[i], k) : l->run[i].folder);
        n = width > n ? width : n;
    }
    snprintf(form, 24, "%zuA", n);
}

static void write_rows(fitsout *o, const char *dir, const sweep_list *l, const table *t,
                       const key_column *keys) {
    for (int i = 0; i < l->nrun; i++) {
        const sweep_run *r = &l->run[i];
        for (int k = 0; k < l->nkey; k++) {
            double v = strtod(key_value(r, k), NULL);
            if (keys[k].number)
                fitsout_cells_double(o, k + 1, i + 1, 1, 1, &v);
            else
                fitsout_cell_text(o, k + 1, i + 1, key_value(r, k));
        }
        for (int c = 0; c < t->n; c++)
            fitsout_cells_double(o, l->nkey + c + 1, i + 1, 1, 1, &t->v[c].value[i]);
        fitsout_cell_text(o, l->nkey + t->n + 1, i + 1, r->folder);
        fitsout_cell_text(o, l->nkey + t->n + 2, i + 1, state_of(dir, r));
    }
}

static status write_fits(const char *dir, const sweep_list *l, const table *t, key_column *keys) {
    const int ncol = l->nkey + t->n + 2;
    fitsout o = {0};
    fitsout_column *c = NULL;
    char *path = NULL, *folder = keys[l->nkey].form;
    status st;
    TRY(file_join(dir, "sweep.fits", &path));
    if (ncol > SWEEP_COLUMNS)
        TRY(status_fail(MOAO_INPUT,
                        "%s: %d columns, of which a table of FITS has at most %d; sweep.csv has "
                        "them all",
                        file_shown(path), ncol, SWEEP_COLUMNS));
    TRY(ALLOC(c, (size_t)ncol, "columns"));
    for (int k = 0; k < l->nkey; k++) {
        text_form(l, k, keys[k].form);
        c[k] = (fitsout_column){l->key[k], keys[k].number ? "1D" : keys[k].form,
                                keys[k].number ? keys[k].unit : "", "swept key"};
    }
    for (int k = 0; k < t->n; k++)
        c[l->nkey + k] = (fitsout_column){t->v[k].name, "1D", t->v[k].unit, "long exposure"};
    text_form(l, l->nkey, folder);
    c[ncol - 2] = (fitsout_column){"folder", folder, "", "of the run"};
    c[ncol - 1] = (fitsout_column){"status", "8A", "", "finished, stopped, missing or damaged"};
    TRY(fitsout_create(&o, path));
    fitsout_table(&o, "SWEEP", l->nrun, ncol, c);
    fitsout_integer(&o, "NKEYS", l->nkey, "columns of swept keys, the first ones");
    write_rows(&o, dir, l, t, keys);
    st = fitsout_commit(&o);
done:
    fitsout_abandon(&o);
    free(c);
    free(path);
    return st;
}

static void free_table(table *t) {
    for (int i = 0; i < t->n; i++)
        free(t->v[i].value);
    free(t->v);
}

/* Columns of one wavelength next to one another would come in the order they were found in; elapsed
 * time last. */
static int by_place(const void *a, const void *b) {
    const column *p = a, *q = b;
    bool late = strcmp(p->name, "elapsed_s") == 0, later = strcmp(q->name, "elapsed_s") == 0;
    if (late || later)
        return (int)late - (int)later;
    const char *u = strrchr(p->name, '_'), *v = strrchr(q->name, '_');
    double x = u != NULL ? strtod(u + 1, NULL) : 0, y = v != NULL ? strtod(v + 1, NULL) : 0;
    return x < y ? -1 : x > y ? 1 : 0;
}

void sweep_say_again(const char *dir, const char *folder) {
    text path = {0};
    advise_word(&path, dir);
    text_add(&path, "/");
    advise_word(&path, folder);
    plain_line(stderr, "  to compute it again, remove that folder and repeat the line: rm -r ",
               path.failed == MOAO_OK ? path.s : folder);
    free(path.s);
}

/* The results of run i, or NaN and a line that says what is wrong with them. */
static status take_run(table *t, int i, const char *dir, sweep_run *r) {
    char why[2100];
    status st = read_run(t, i, dir, r->folder);
    if (st == MOAO_OK)
        read_time(t, i, dir, r->folder);
    if (st != MOAO_INPUT && st != MOAO_IO)
        return st;
    for (int c = 0; c < t->n; c++)
        t->v[c].value[i] = NAN;
    snprintf(why, sizeof why, "%s", status_message());
    status_clear();
    if (!r->damaged) {
        plain_line(stderr, "moao sweep: ", why);
        sweep_say_again(dir, r->folder);
    }
    r->damaged = true;
    return MOAO_OK;
}

status sweep_table_write(const char *dir, sweep_list *l, int *nfinished) {
    table t = {.nrun = l->nrun};
    key_column *keys = NULL;
    status st;
    *nfinished = 0;
    TRY(key_columns(l, &keys));
    for (int i = 0; i < l->nrun; i++) {
        if (!sweep_finished(dir, l->run[i].folder))
            continue;
        TRY(take_run(&t, i, dir, &l->run[i]));
        *nfinished += !l->run[i].damaged;
    }
    /* a stable order: by wavelength, then as they came */
    for (int i = 1; i < t.n; i++)
        for (int k = i; k > 0 && by_place(&t.v[k - 1], &t.v[k]) > 0; k--) {
            column swap = t.v[k];
            t.v[k] = t.v[k - 1];
            t.v[k - 1] = swap;
        }
    TRY(write_csv(dir, l, &t, keys));
    st = write_fits(dir, l, &t, keys);
done:
    free(keys);
    free_table(&t);
    return st;
}

status sweep_check(const char *dir, sweep_run *r, double *strehl, char at[SWEEP_AT]) {
    table t = {.nrun = 1};
    status st = take_run(&t, 0, dir, r);
    *strehl = NAN;
    at[0] = '\0';
    for (int i = 0; i < t.n; i++)
        if (strncmp(t.v[i].name, "strehl_mean_", 12) == 0) {
            *strehl = t.v[i].value[0];
            snprintf(at, SWEEP_AT, "%s", t.v[i].name + 12);
        }
    free_table(&t);
    return st;
}
