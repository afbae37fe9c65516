#include "job/asterism_write.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "maps/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status finish(const char *dir, const char *name, text *t) {
    char *path = NULL;
    status st;
    TRY(t->failed);
    TRY(file_join(dir, name, &path));
    st = file_write_text(path, t->s != NULL ? t->s : "");
done:
    free(path);
    free(t->s);
    return st;
}

static void add_number(text *t, const char *form, double v) {
    text_add(t, ",");
    if (!isnan(v))
        text_add(t, form, v);
}

status ast_write_table(const char *dir, const ast_stars *s, const ast_table *t) {
    text out = {0};
    text_add(&out, "place,figure,full,full_run,guess,rms_nm");
    for (int k = 0; k < t->nkey; k++) {
        text_add(&out, ",");
        text_add_cell(&out, t->key[k], " ");
    }
    for (int i = 0; i < t->choose; i++)
        text_add(&out, ",star_%d", i + 1);
    text_add(&out, "\n");
    for (int i = 0; i < t->n; i++) {
        const ast_combo *a = &t->v[i].a;
        text_add(&out, "%d", i + 1);
        add_number(&out, "%.6g", a->figure);
        text_add(&out, ",,"); /* ast_add_full */
        add_number(&out, "%.6g", a->guess);
        add_number(&out, "%.6g", a->rms);
        for (int k = 0; k < t->nkey; k++) {
            text_add(&out, ",");
            text_add_cell(&out, t->value[t->v[i].variant * t->nkey + k], " ");
        }
        for (int k = 0; k < t->choose; k++) {
            text_add(&out, ",");
            text_add_cell(&out, s->v[a->star[k]].name, " ");
        }
        text_add(&out, "\n");
    }
    return finish(dir, "asterism.csv", &out);
}

/* --- the field */

static void add_place(text *t, const sky *sk, const char *kind, const char *name,
                      const double xy[2], double magnitude, int chosen) {
    double ra = NAN, dec = NAN;
    if (!isnan(sk->ra))
        sky_deproject(sk, xy, &ra, &dec);
    text_add(t, "%s,", kind);
    text_add_cell(t, name, " ");
    add_number(t, "%.4f", xy[0] * ARCSEC_PER_RAD);
    add_number(t, "%.4f", xy[1] * ARCSEC_PER_RAD);
    add_number(t, "%.7f", ra * 180 / M_PI);
    add_number(t, "%.7f", dec * 180 / M_PI);
    add_number(t, "%.3f", magnitude);
    text_add(t, ",%d\n", chosen);
}

status ast_write_field(const char *dir, ast_job *j, const ast_stars *s, const ast_table *t) {
    text out = {0};
    sys all = {0};
    char name[24];
    status st;
    TRY(ast_job_take(j, s, NULL, 0));
    TRY(sys_init(&j->par, &all));
    text_add(&out, "kind,name,x,y,ra,dec,magnitude,chosen\n");
    for (int i = 0; i < all.ntarget; i++) {
        snprintf(name, sizeof name, "%d", i + 1);
        const bool named = j->par.targets_names.n == all.ntarget;
        add_place(&out, &j->sk, "target", named ? j->par.targets_names.v[i] : name, all.targets[i],
                  NAN, 0);
    }
    for (int i = 0; i < all.nsensor; i++) {
        const sensor *o = &all.sensors[i];
        add_place(&out, &j->sk, o->lgs ? "lgs" : "ngs", o->name, o->dir,
                  o->lgs ? NAN : o->noise.magnitude, 1);
    }
    for (int i = 0; i < s->n; i++) {
        int chosen = 0;
        for (int k = 0; k < t->choose && t->n > 0; k++)
            chosen = chosen || t->v[0].a.star[k] == i;
        add_place(&out, &j->sk, "candidate", s->v[i].name, s->v[i].xy, s->v[i].magnitude, chosen);
    }
    st = finish(dir, "field.csv", &out);
    out.s = NULL;
done:
    free(out.s);
    sys_free(&all);
    return st;
}

status ast_write_facts(const char *dir, const ast_job *j, const ast_stars *s,
                       const ast_result *sum) {
    char wanted[96], *path = NULL;
    json f = {0};
    status st;
    want_name(&j->w, wanted, sizeof wanted);
    TRY(file_join(dir, "asterism.json", &path));
    TRY(json_open(&f, path));
    json_string(&f, "want", wanted);
    json_string(&f, "stars", j->cl->stars);
    json_integer(&f, "choose", sum->choose);
    json_integer(&f, "fixed", j->nfixed);
    json_integer(&f, "candidates", s->n);
    json_integer(&f, "order", j->order);
    json_integer(&f, "full_order", j->par.dm_nssp);
    json_number(&f, "combinations", sum->combinations);
    json_number(&f, "looked_at", sum->tried);
    json_integer(&f, "images", sum->computed);
    json_string(&f, "search", sum->greedy ? "greedy with exchange" : "all");
    json_number(&f, "rank_correlation", sum->correlation[1]);
    json_number(&f, "rank_correlation_guess", sum->correlation[0]);
    json_number(&f, "covariances_s", sum->seconds[0]);
    json_number(&f, "search_s", sum->seconds[1]);
    json_number(&f, "images_s", sum->seconds[2]);
    if (!isnan(j->sk.angle))
        json_number(&f, "position_angle", j->sk.angle * 180 / M_PI);
    st = json_close(&f);
done:
    json_abandon(&f);
    free(path);
    return st;
}

status ast_write_parameters(const char *dir, ast_job *j, const ast_stars *s, const ast_combo *a,
                            int choose, int place) {
    char name[40], *effective = NULL;
    text out = {0};
    status st;
    TRY(ast_job_take(j, s, a->star, choose));
    effective = params_effective_text(&j->par);
    if (effective == NULL)
        return status_fail(MOAO_MEMORY, "no memory for parameters");
    text_add(&out, "# place %d of the asterisms that moao found; everything that a run needs\n%s",
             place, effective);
    snprintf(name, sizeof name, "place-%d.yaml", place);
    st = finish(dir, name, &out);
done:
    free(effective);
    return st;
}

status ast_check_parameters(const char *dir, ast_job *j, const ast_stars *s, int choose) {
    ast_combo first = {.figure = NAN};
    params par = {0};
    char *path = NULL;
    status st;
    for (int i = 0; i < choose; i++)
        first.star[i] = i;
    TRY(ast_write_parameters(dir, j, s, &first, choose, 1));
    TRY(file_join(dir, "place-1.yaml", &path));
    const char *const files[] = {path};
    TRY(params_load(NULL, 1, files, 0, NULL, &par));
    st = file_delete(path);
done:
    params_free(&par);
    free(path);
    return st;
}

/* --- full runs */

status ast_read_figure(const char *dir, const want *w, double *figure) {
    results r;
    fitsin_column c;
    double *all = NULL, *v = NULL;
    char column[48];
    long row = -1;
    status st;
    *figure = NAN;
    TRY(results_open(&r, dir));
    for (long i = 0; i < r.nlambda; i++)
        if (fabs(r.lambda[i] * 1e-6 / w->lambda - 1) < 1e-6 && strcmp(r.band[i], w->band) == 0)
            row = i;
    if (row < 0)
        TRY(status_fail(MOAO_INPUT, "%s: its maps have no images of %.6g um%s%s", file_shown(dir),
                        w->lambda * 1e6, w->band[0] != '\0' ? ", band " : "", w->band));
    want_column(w, column, sizeof column - 8);
    strcat(column, "_LONG");
    TRY(fitsin_column_find(&r.in, column, &c, NULL));
    TRY(results_long(&r, &c, &all));
    TRY(ALLOC(v, 2 * (size_t)r.ntarget, "figures of targets"));
    for (long t = 0; t < r.ntarget; t++) {
        v[t] = all[t * r.nlambda + row];
        if (w->quantity == WANT_RMS)
            v[t] = sqrt(v[t]) * w->lambda * 1e9 / (2 * M_PI);
    }
    *figure = want_value(w, (int)r.ntarget, v, v + r.ntarget);
done:
    results_close(&r);
    free(all);
    free(v);
    return st;
}

status ast_add_full(const char *dir, int place, double figure, const char *state) {
    char *path = NULL, *all = NULL;
    text out = {0};
    int line = 0;
    status st;
    TRY(file_join(dir, "asterism.csv", &path));
    TRY(file_read_text(path, &all));
    for (const char *p = all; *p != '\0'; line++) {
        const size_t len = strcspn(p, "\n");
        const char *one = memchr(p, ',', len), *two = one ? memchr(one + 1, ',', len) : NULL;
        if (line == place && two != NULL) {
            const char *rest = two + 1 + strcspn(two + 1, ",\n"); /* behind the figure */
            rest += *rest == ',';
            rest += strcspn(rest, ",\n");
            text_add(&out, "%.*s", (int)(two - p), p);
            add_number(&out, "%.6g", figure);
            text_add(&out, ",%s%.*s\n", state, (int)(p + len - rest), rest);
        } else {
            text_add(&out, "%.*s\n", (int)len, p);
        }
        p += len + (p[len] == '\n');
    }
    st = finish(dir, "asterism.csv", &out);
done:
    free(path);
    free(all);
    return st;
}
