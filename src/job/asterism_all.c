/* `moao asterism` under mpirun: one field, with variants of swept keys, or a list of fields. */
#include "job/asterism_scene.h"
#include "job/asterism_write.h"

#include "base/file.h"
#include "base/plain.h"
#include "base/progress.h"
#include "base/text.h"
#include "job/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Candidates of a field: the brightest ones. */
#define MOST_STARS 60
/* Rows of the table. */
#define ROWS 100

/* --- swept keys: laser stars at other places --- */

/* The grid of the swept keys, of one point where there is none. */
static status read_grid(const cmdline *cl, sweep_grid *g) {
    status st = sweep_parse(cl, g);
    if (st != MOAO_OK && g->nplain == cl->noverride && g->naxis == 0) { /* nothing is swept */
        status_clear();
        g->nrun = 1;
        st = MOAO_OK;
    }
    return st;
}

/* --- one field --- */

typedef struct {
    const comm *c;
    const cmdline *cl;
    sweep_grid g;
    sweep_list l;  /* its variants */
    ast_stars all; /* the catalogue */
    ast_job j;     /* of the current variant */
    ast_table t;
    ast_result sum; /* over the variants */
} task;

static void task_free(task *q) {
    sweep_list_free(&q->l);
    ast_stars_free(&q->all);
    ast_job_free(&q->j);
    free(q->t.v);
    free(q->t.key);
    free(q->t.value);
    sweep_free(&q->g);
}

static void warn_left_out(const comm *c, const char *path, const ast_left_out *left) {
    char line[240];
    for (int i = 0; i < AST_REASONS && c->rank == 0; i++)
        if (left->count[i] > 0) {
            ast_left_out_text(left, (ast_reason)i, line, sizeof line);
            progress_warn("%s: %s", file_shown(path), line);
        }
}

/* Catalogue and command line on every rank. */
static status task_init(const comm *c, const cmdline *cl, task *q) {
    ast_left_out left;
    status st;
    *q = (task){.c = c, .cl = cl, .sum = {.correlation = {NAN, NAN}}};
    TRY(read_grid(cl, &q->g));
    TRY(sweep_list_make(&q->g, &q->l));
    TRY(ast_stars_read(cl->stars, true, &q->all, &left));
    warn_left_out(c, cl->stars, &left);
done:
    return st;
}

/* The job of a variant, replacing the one before. */
static status take_variant(task *q, int variant) {
    const sweep_run *r = &q->l.run[variant];
    ast_job_free(&q->j);
    return ast_job_init(q->c, q->cl, r->n, (const char *const *)r->word, &q->j);
}

static _Thread_local bool larger_first;

static int by_figure(const void *pa, const void *pb) {
    const ast_row *a = pa, *b = pb;
    const double x = a->a.figure, y = b->a.figure;
    if (isnan(x) || isnan(y) || x == y)
        return isnan(x) != isnan(y) ? (isnan(x) ? 1 : -1) : a->variant - b->variant;
    return (x > y) == larger_first ? -1 : 1;
}

/* The best of a variant into the table of all. */
static status add_rows(task *q, int variant, const ast_result *r) {
    const int n = r->best.n < ROWS ? r->best.n : ROWS;
    ast_row *grown = realloc(q->t.v, (size_t)(q->t.n + n + 1) * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for asterisms");
    q->t.v = grown;
    for (int i = 0; i < n; i++)
        if (!isnan(r->best.v[i].figure))
            q->t.v[q->t.n++] = (ast_row){r->best.v[i], variant};
    q->t.choose = r->choose;
    q->sum.choose = r->choose;
    q->sum.combinations += r->combinations;
    q->sum.tried += r->tried;
    q->sum.computed += r->computed;
    q->sum.greedy = r->greedy;
    for (int i = 0; i < 3; i++)
        q->sum.seconds[i] += r->seconds[i];
    return MOAO_OK;
}

/* Whether a star is a natural star that --keep keeps. */
static bool is_kept(const ast_job *j, const ast_star *a) {
    for (int i = 0; i < j->nfixed; i++) {
        const sensor_params *f = &j->own.v[j->fixed[i]];
        if (f->type == SENSOR_NGS &&
            hypot(f->direction[0] - a->xy[0], f->direction[1] - a->xy[1]) <= AST_TWICE_APART)
            return true;
    }
    return false;
}

/* Stars of the field of the current job, without those that are kept already. */
static status field_of(const task *q, const sky *sk, ast_stars *s) {
    int n = 0;
    status st = ast_stars_of_field(&q->all, sk, ast_job_radius(&q->j),
                                   q->cl->faintest > 0 ? q->cl->faintest : NAN, q->all.n, s);
    for (int i = 0; st == MOAO_OK && i < s->n; i++)
        if (!is_kept(&q->j, &s->v[i]))
            s->v[n++] = s->v[i];
    const int most = q->cl->most > 0 ? q->cl->most : MOST_STARS;
    s->n = n < most ? n : most;
    return st;
}

static status check_count(const task *q, const ast_stars *s) {
    if (s->n >= q->cl->choose)
        return MOAO_OK;
    return status_fail(
        MOAO_INPUT,
        "%s: %d stars%s within %.4g arcsec of the centre, expected at least the %d to "
        "choose; see --limit, --radius and sky.ra",
        file_shown(q->cl->stars), s->n, q->cl->faintest > 0 ? " that bright" : "",
        ast_job_radius(&q->j) * ARCSEC_PER_RAD, q->cl->choose);
}

static void print_table(const task *q, const ast_stars *s) {
    char wanted[96], line[200];
    want_name(&q->j.w, wanted, sizeof wanted);
    printf("%5s  %-10.10s  %7s  stars   (%s, order %d)\n", "place", "figure", "rms", wanted,
           q->j.order);
    for (int i = 0; i < q->t.n && i < 10; i++) {
        const ast_combo *a = &q->t.v[i].a;
        int used = snprintf(line, sizeof line, "%5d  %-10.4g  %4.0f nm", i + 1, a->figure, a->rms);
        for (int k = 0; k < q->g.naxis && used < 80; k++)
            used += snprintf(line + used, sizeof line - (size_t)used, "  %s",
                             sweep_value(&q->g, k, q->t.v[i].variant));
        for (int k = 0; k < q->t.choose && used < 80; k++)
            used += snprintf(line + used, sizeof line - (size_t)used, "%s%s", k > 0 ? ", " : "  ",
                             s->v[a->star[k]].name);
        line[80] = '\0';
        plain_line(stdout, "", line);
    }
}

static status swept_values(task *q) {
    ast_table *t = &q->t;
    status st;
    t->nkey = q->g.naxis;
    t->nvariant = q->g.nrun;
    TRY(ALLOC(t->key, (size_t)t->nkey, "swept keys"));
    TRY(ALLOC(t->value, (size_t)t->nkey * (size_t)t->nvariant, "swept keys"));
    for (int k = 0; k < t->nkey; k++) {
        t->key[k] = q->g.axis[k].key;
        for (int i = 0; i < t->nvariant; i++)
            t->value[i * t->nkey + k] = (char *)sweep_value(&q->g, k, i);
    }
done:
    return st;
}

/* Rank 0: every file; params of the best with the variant's own job. Collective, as jobs are. */
static status write_all(task *q, const ast_stars *s) {
    const char *dir = q->cl->dir;
    const int full = q->cl->full > 0 ? q->cl->full : 3;
    const bool writes = q->c->rank == 0;
    status st = writes ? ast_write_table(dir, s, &q->t) : MOAO_OK;
    if (st == MOAO_OK && writes)
        st = ast_write_facts(dir, &q->j, s, &q->sum);
    TRY(comm_agree(q->c, st));
    for (int i = (full < q->t.n ? full : q->t.n) - 1; i >= 0;
         i--) { /* the winner last: its field */
        TRY(take_variant(q, q->t.v[i].variant));
        st = writes ? ast_write_parameters(dir, &q->j, s, &q->t.v[i].a, q->t.choose, i + 1)
                    : MOAO_OK;
        TRY(comm_agree(q->c, st));
    }
    TRY(comm_agree(q->c, writes ? ast_write_field(dir, &q->j, s, &q->t) : MOAO_OK));
done:
    return st;
}

status ast_job_all(const comm *c, const cmdline *cl) {
    task q;
    ast_stars s = {0};
    ast_result r = {0};
    status st;
    TRY(comm_agree(c, task_init(c, cl, &q)));
    for (int i = 0; i < q.g.nrun; i++) {
        TRY(take_variant(&q, i));
        ast_stars_free(&s);
        st = field_of(&q, &q.j.sk, &s);
        if (st == MOAO_OK)
            st = check_count(&q, &s);
        if (st == MOAO_OK && c->rank == 0)
            st = ast_check_parameters(cl->dir, &q.j, &s, cl->choose);
        TRY(comm_agree(c, st));
        TRY(ast_job_rank(c, &q.j, &s, cl->quiet, &r));
        st = add_rows(&q, i, &r);
        ast_list_free(&r.best);
        TRY(comm_agree(c, st));
    }
    q.sum.correlation[0] = q.sum.correlation[1] = NAN;
    if (cl->sample > 0)
        TRY(ast_job_compare(c, &q.j, &s, cl->sample, q.sum.correlation));
    larger_first = want_larger(&q.j.w);
    qsort(q.t.v, (size_t)q.t.n, sizeof *q.t.v, by_figure);
    q.t.n = q.t.n < ROWS ? q.t.n : ROWS;
    TRY(comm_agree(c, swept_values(&q)));
    TRY(write_all(&q, &s));
    if (c->rank == 0 && !cl->quiet) {
        printf("%.0f asterism%s of %d of %d star%s: %.0f scored (%s), %d by their images\n"
               "covariances %.1f s, search %.1f s, images %.1f s\n",
               q.sum.combinations, text_plural(q.sum.combinations), q.t.choose, s.n,
               text_plural(s.n), q.sum.tried, q.sum.greedy ? "exchange" : "all", q.sum.computed,
               q.sum.seconds[0], q.sum.seconds[1], q.sum.seconds[2]);
        print_table(&q, &s);
        if (cl->sample > 0)
            printf(
                "%d random asterism%s at order %d against %d: rank correlation %.3f (guess %.3f)\n",
                cl->sample, text_plural(cl->sample), q.j.order, q.j.par.dm_nssp,
                q.sum.correlation[1], q.sum.correlation[0]);
    }
done:
    ast_list_free(&r.best);
    ast_stars_free(&s);
    task_free(&q);
    return st;
}

/* --- a list of fields --- */

static void add_line(text *out, const task *q, const ast_star *f, const ast_stars *s,
                     const ast_result *r) {
    const ast_combo *a = &r->best.v[0];
    text_add_cell(out, f->name, " ");
    text_add(out, ",%.7f,%.7f,%d,%d,%.6g,%.6g", f->ra * 180 / M_PI, f->dec * 180 / M_PI, s->n,
             r->choose, a->figure, a->rms);
    for (int k = 0; k < q->cl->choose; k++) {
        text_add(out, ",");
        if (k < r->choose)
            text_add_cell(out, s->v[a->star[k]].name, " ");
    }
    text_add(out, "\n");
}

static status one_field(task *q, const ast_star *f, text *out) {
    ast_stars s = {0};
    ast_result r = {0};
    status st;
    q->j.sk.ra = f->ra;
    q->j.sk.dec = f->dec;
    if (isnan(q->j.sk.angle))
        q->j.sk.angle = 0;
    TRY(comm_agree(q->c, field_of(q, &q->j.sk, &s)));
    TRY(ast_job_rank(q->c, &q->j, &s, true, &r));
    if (q->c->rank == 0)
        add_line(out, q, f, &s, &r);
    q->sum.combinations += r.combinations;
    if (q->c->rank == 0 && !q->cl->quiet) {
        char line[160];
        snprintf(line, sizeof line, "%-24.24s  %4d stars  %-10.4g  %5.0f nm", f->name, s.n,
                 r.best.v[0].figure, r.best.v[0].rms);
        plain_line(stdout, "", line);
        fflush(stdout);
    }
done:
    ast_list_free(&r.best);
    ast_stars_free(&s);
    return st;
}

status ast_job_fields(const comm *c, const cmdline *cl) {
    task q;
    ast_stars fields = {0};
    text out = {0};
    char *path = NULL;
    ast_left_out left;
    status st = task_init(c, cl, &q);
    if (st == MOAO_OK && q.g.naxis > 0)
        st = status_fail(MOAO_INPUT, "moao asterism --fields: %s is swept, expected one value",
                         q.g.axis[0].key);
    if (st == MOAO_OK)
        st = ast_stars_read(cl->fields, false, &fields, &left);
    if (st == MOAO_OK)
        warn_left_out(c, cl->fields, &left);
    if (st == MOAO_OK && (!fields.celestial || !q.all.celestial))
        st = status_fail(MOAO_INPUT, "%s: expected columns ra and dec, as fields are on the sky",
                         fields.celestial ? cl->stars : cl->fields);
    TRY(comm_agree(c, st));
    TRY(take_variant(&q, 0));
    text_add(&out, "field,ra,dec,candidates,chosen,figure,rms_nm");
    for (int k = 0; k < cl->choose; k++)
        text_add(&out, ",star_%d", k + 1);
    text_add(&out, "\n");
    for (int i = 0; i < fields.n; i++)
        TRY(one_field(&q, &fields.v[i], &out));
    q.sum.choose = cl->choose;
    if (c->rank == 0) {
        st = out.failed;
        if (st == MOAO_OK)
            st = file_join(cl->dir, "coverage.csv", &path);
        if (st == MOAO_OK)
            st = file_write_text(path, out.s);
        if (st == MOAO_OK)
            st = ast_write_facts(cl->dir, &q.j, &q.all, &q.sum);
    }
    st = comm_agree(c, st);
done:
    free(path);
    free(out.s);
    ast_stars_free(&fields);
    task_free(&q);
    return st;
}
