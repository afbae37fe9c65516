/* The factor where m x m numbers do not fit in the device: L lies in pinned memory of the host, in
 * panels of columns, and is streamed from host memory in slices of the engine's width, one in
 * transit while the device works with the one before. All targets of a chunk use a slice while it
 * is there. Nothing waits for the host: three contexts of one device (work, transfers in, transfers
 * out) wait for events of each other. The host stays one slice or panel ahead of them, and so
 * learns of failures while they are fresh. */
#include "factor/host_factor.h"

#include "factor/cholesky.h"
#include "factor/panels.h"

#include <stdlib.h>

typedef struct {
    factor base;
    backend_ctx *in, *out;
    int64_t v; /* rows of W of a target */
    int most, planned;
    int64_t b;        /* columns of a panel of L, a multiple of the engine's width */
    int npanel;       /* of them */
    double **panel;   /* [npanel] on the host: rows from the panel's first column to m, packed */
    double *room;     /* on the device, in the workspace: two panels of L in turn */
    double *slice[2]; /* on the device, m x width each */
    int *info;        /* [npanel] on the device */
} streamed;

/* Columns of a panel of the factor that suffice: sending what lies to the left of a panel of B
 * columns takes 3600 / B of the time of the products made with it (50 TFLOP/s, 55 GB/s). */
#define FACTOR_WIDTH ((size_t)8192)

size_t host_factor_width(size_t width, size_t rows, int targets) {
    const size_t room = (size_t)targets * rows / 2;
    const size_t b = (room < FACTOR_WIDTH ? room : FACTOR_WIDTH) / width * width;
    return b > width ? b : width;
}

size_t host_factor_bytes(size_t m, size_t factor_width) {
    size_t bytes = 0;
    for (size_t j = 0; j < m; j += factor_width)
        bytes += (m - j) * (m - j < factor_width ? m - j : factor_width) * sizeof(double);
    return bytes;
}

/* Two slices of the factor in turn, one of which serves the exposures. Two of its panels are made
 * in the room of W; where that is less than a slice is wide, there must be more. */
static void bytes(const sys *s, plan *p) {
    const size_t m = s->m, v = (size_t)p->rows, d = sizeof(double);
    plan_add(p, "pieces of the factor, of Cmm of an exposure", 2 * m * p->width * d);
    if (2 * p->width > v)
        plan_add(p, "panels of the factor, beyond the room of W", (2 * p->width - v) * m * d);
}

static size_t host_bytes(const sys *s, const plan *p, int targets) {
    return host_factor_bytes(s->m, host_factor_width(p->width, (size_t)p->rows, targets));
}

status host_factor_pace(factor *base) {
    const streamed *o = (const streamed *)base;
    status st = base->e->be->sync(o->in);
    return st == MOAO_OK && comm_alarmed(base->e->c) ? MOAO_INTERNAL : st;
}

status host_factor_follow(factor *base) {
    return base->e->be->wait_for(((const streamed *)base)->in, base->e->ctx);
}

/* Columns and rows of panel k of L. */
static int64_t panel_rows(const streamed *o, int64_t k) {
    return o->base.e->m - k * o->b;
}

static int64_t panel_cols(const streamed *o, int64_t k) {
    return panel_rows(o, k) < o->b ? panel_rows(o, k) : o->b;
}

/* --- slices of L in transit to the device */

typedef struct { /* columns c .. c + n of L, within one panel, from row i on */
    int64_t c, n, i;
} slice;

typedef struct {
    streamed *o;
    slice *list; /* in the order of their use */
    int64_t count, at;
} feed;

/* Start the transfer of a slice, when what was given to the work's stream until now is done. */
static status send(const feed *f, int64_t k) {
    streamed *o = f->o;
    const engine *e = o->base.e;
    const slice *p = &f->list[k];
    const int64_t of = p->c / o->b, j = of * o->b, d = (int64_t)sizeof(double);
    const double *from = o->panel[of] + (p->i - j) + (p->c - j) * panel_rows(o, of);
    status st = e->be->wait_for(o->in, e->ctx);
    return st != MOAO_OK ? st
                         : e->be->copy(o->in, o->slice[k % 2], e->m * d, from,
                                       panel_rows(o, of) * d, (e->m - p->i) * d, p->n);
}

/* The next slice, in *a with leading dimension m, for work that comes after this call. The one
 * after it starts to move before that work: its place was used by the slice before. */
static status next_slice(feed *f, const slice **p, const double **a) {
    streamed *o = f->o;
    const int64_t k = f->at++;
    status st;
    TRY(k == 0 ? send(f, 0)
               : host_factor_pace(&o->base)); /* the work with the slice before is queued */
    TRY(o->base.e->be->wait_for(o->base.e->ctx, o->in));
    if (k + 1 < f->count)
        TRY(send(f, k + 1));
    *p = &f->list[k];
    *a = o->slice[k % 2];
done:
    return st;
}

/* --- factor, from left to right by panels of columns */

/* All slices of the passes over L that a factor takes: for each panel what lies to its left, but
 * for the panel just before, which is still on the device. */
static status list_factor(streamed *o, feed *f) {
    const int64_t w = o->base.e->width, per = o->b / w, n = o->npanel;
    *f = (feed){.o = o};
    status st = ALLOC(f->list, (size_t)(n * n * per / 2 + 1), "list of slices");
    for (int64_t k = 2; k < n && st == MOAO_OK; k++)
        for (int64_t c = 0; c < (k - 1) * o->b; c += w)
            f->list[f->count++] = (slice){c, w, k * o->b};
    return st;
}

/* One panel in transit to the host; what comes next into the other streams waits for the panel
 * before it, whose place is needed anew and whose copy in the host's memory is read from now on. */
static status keep_panel(streamed *o, int k, const double *panel) {
    const engine *e = o->base.e;
    const int64_t bytes = panel_rows(o, k) * panel_cols(o, k) * (int64_t)sizeof(double);
    status st;
    TRY(e->be->wait_for(e->ctx, o->out));
    TRY(e->be->wait_for(o->in, o->out));
    TRY(e->be->wait_for(o->out, e->ctx));
    TRY(e->be->copy(o->out, o->panel[k], bytes, panel, bytes, bytes, 1));
done:
    return st;
}

/* Panel k of Cmm0, and of L. */
static status one_panel(streamed *o, feed *f, int k) {
    engine *e = o->base.e;
    const int64_t m = e->m, b = o->b, j = k * b, rows = panel_rows(o, k), n = panel_cols(o, k);
    double *panel = o->room + (k % 2) * m * b;
    status st;
    TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'L', MATCOV_ALL, (matcov_region){j, rows, j, n}, panel,
                         rows));
    if (k > 0)
        TRY(cholesky_update(e, e->ctx, rows, n, b, o->room + ((k - 1) % 2) * m * b + b, rows + b,
                            panel, rows, rows, true));
    while (f->at < f->count && f->list[f->at].i == j) {
        const slice *p;
        const double *a;
        TRY(next_slice(f, &p, &a));
        TRY(cholesky_update(e, e->ctx, rows, n, p->n, a, m, panel, rows, rows, true));
    }
    TRY(cholesky_make(e, rows, n, panel, rows, o->info + k));
    TRY(keep_panel(o, k, panel));
done:
    return st;
}

static status streamed_make(factor *base, const profile *p, int *minor) {
    streamed *o = (streamed *)base;
    engine *e = base->e;
    const double from = report_now(), m = (double)e->m;
    feed f = {0};
    status st;
    TRY(engine_load(e, p));
    TRY(list_factor(o, &f));
    for (int k = 0; k < o->npanel; k++)
        TRY(one_panel(o, &f, k));
    TRY(e->be->wait_for(e->ctx, o->out));
    TRY(cholesky_minor(e, o->npanel, o->b, o->info, 0, 1, minor));
    e->rep->flops[STAGE_FACTOR] += m * m * m / 3;
done:
    free(f.list);
    e->rep->wall[STAGE_FACTOR] += report_now() - from;
    return st;
}

/* --- solve */

status streamed_triangles(factor *base, bool forward, bool backward, int n, const wrows *w) {
    streamed *o = (streamed *)base;
    engine *e = base->e;
    const int64_t m = e->m, fp16 = n > 0 ? (m + e->width - 1) / e->width : 0;
    feed f = {.o = o};
    status st = ALLOC(f.list, 2 * (size_t)fp16, "list of slices");
    if (st != MOAO_OK)
        return st;
    for (int64_t k = 0; k < fp16 && forward; k++)
        f.list[f.count++] = (slice){k * e->width, engine_width(e, k * e->width, m), k * e->width};
    const int64_t ahead = f.count;
    for (int64_t k = fp16 - 1; k >= 0 && backward; k--)
        f.list[f.count++] = (slice){k * e->width, engine_width(e, k * e->width, m), k * e->width};
    while (f.at < f.count) {
        const bool first = f.at < ahead;
        const slice *p;
        const double *l;
        TRY(next_slice(&f, &p, &l));
        for (int k = 0; k < n; k++)
            TRY(first ? panel_forward(e, &w[k], p->c, p->n, l, m)
                      : panel_backward(e, &w[k], p->c, p->n, l, m));
    }
done:
    free(f.list);
    return st;
}

status streamed_columns_of(factor *base, int64_t j, int64_t n, double *to, int64_t ld) {
    const streamed *o = (const streamed *)base;
    const engine *e = base->e;
    const int64_t d = sizeof(double);
    status st = MOAO_OK;
    for (int64_t c = j, some; c < j + n && st == MOAO_OK; c += some) {
        const int64_t of = c / o->b, j0 = of * o->b, ldl = panel_rows(o, of);
        some = j0 + o->b < j + n ? j0 + o->b - c : j + n - c;
        /* what lies above the diagonal of a panel is there, but not above the panel */
        const int64_t i = j > j0 ? j : j0;
        st = e->be->copy(e->ctx, to + (i - j) + (c - j) * ld, ld * d,
                         o->panel[of] + (i - j0) + (c - j0) * ldl, ldl * d, (e->m - i) * d, some);
    }
    return st;
}

static status streamed_solve(factor *base, int n, const wrows *w) {
    const status st = streamed_triangles(base, true, true, n, w);
    for (int k = 0; k < n && st == MOAO_OK; k++)
        base->e->rep->flops[STAGE_SOLVE] +=
            2.0 * (double)(w[k].rows * base->e->m) * (double)base->e->m;
    return st;
}

/* --- life */

/* As wide as the plan's memory allows or, where the device has less than that, n targets. */
static int64_t panel_width(const streamed *o, int n) {
    return (int64_t)host_factor_width((size_t)o->base.e->width, (size_t)o->v,
                                      n == o->most ? o->planned : n);
}

static int64_t streamed_room(const factor *base, int n, int64_t kept) {
    const streamed *o = (const streamed *)base;
    return kept + 2 * panel_width(o, n) * base->e->m;
}

/* Workspace for all panels and slices. */
static size_t most_work(const streamed *o) {
    const backend *be = o->base.e->be;
    const int64_t m = o->base.e->m, w = o->base.e->width;
    size_t most = 0;
    for (int64_t j = 0; j < m; j += o->b) { /* panels of the factor */
        const int64_t rows = m - j, n = rows < o->b ? rows : o->b;
        const size_t need[] = {be->workspace(BACKEND_SYRK, BACKEND_D, n, o->b),
                               be->workspace(BACKEND_POTRF, BACKEND_D, n, n),
                               be->workspace(BACKEND_TRSM, BACKEND_D, rows - n, n),
                               be->workspace(BACKEND_TRSM, BACKEND_D, o->v, n)};
        for (size_t i = 0; i < sizeof need / sizeof *need; i++)
            most = need[i] > most ? need[i] : most;
    }
    for (int64_t j = 0; j < m; j += w) { /* and of W */
        const size_t need = be->workspace(BACKEND_TRSM, BACKEND_D, o->v, m - j < w ? m - j : w);
        most = need > most ? need : most;
    }
    return most;
}

#define SAY_EVERY 8e9 /* bytes */

/* The host's memory for L, panel by panel: the system may take seconds to find it. */
static status take_panels(streamed *o) {
    engine *e = o->base.e;
    const double all = (double)host_factor_bytes((size_t)e->m, (size_t)o->b);
    double taken = 0;
    int said = 0;
    status st;
    o->npanel = (int)((e->m + o->b - 1) / o->b);
    TRY(ALLOC(o->panel, (size_t)o->npanel, "panels of the factor"));
    TRY(engine_array(e, (size_t)o->npanel * sizeof(int), "numbers", (void **)&o->info));
    for (int k = 0; k < o->npanel; k++) {
        const size_t bytes = (size_t)(panel_rows(o, k) * panel_cols(o, k)) * sizeof(double);
        if (e->c->rank == 0 && (int)(taken / SAY_EVERY) > said) {
            said = (int)(taken / SAY_EVERY);
            progress_note("host memory for the factor: %.0f of %.0f GB", taken / 1e9, all / 1e9);
        }
        if (e->be->alloc_host(e->ctx, bytes, (void **)&o->panel[k]) != MOAO_OK) {
            status_clear();
            TRY(status_fail(MOAO_MEMORY,
                            "the host has no room for the factor of Cmm: %.2f GB of the %.2f GB "
                            "that this rank needs were there; use fewer ranks on this node, a node "
                            "with more memory, or a GPU that holds the factor",
                            taken / 1e9, all / 1e9));
        }
        taken += (double)bytes;
    }
done:
    return st;
}

static status streamed_set_workspace(factor *base, int n, double *room, int64_t kept) {
    streamed *o = (streamed *)base;
    status st;
    o->room = room + kept;
    o->b = panel_width(o, n);
    TRY(engine_work(base->e, most_work(o)));
    TRY(take_panels(o));
done:
    return st;
}

static void streamed_close(factor *base) {
    streamed *o = (streamed *)base;
    const engine *e = base->e;
    e->be->close(o->in); /* nothing moves any more */
    e->be->close(o->out);
    for (int k = 0; o->panel != NULL && k < o->npanel; k++)
        e->be->release_host(e->ctx, o->panel[k]);
    ENGINE_RELEASE(e, o->slice[0], o->slice[1], o->info);
    free(o->panel);
}

static status streamed_open(factor *base, const plan *p, const double *proj) {
    streamed *o = (streamed *)base;
    engine *e = base->e;
    status st;
    (void)proj;
    o->v = p->rows;
    o->most = p->most;
    o->planned = p->fits;
    TRY(e->be->open(e->device, NULL, &o->in));
    TRY(e->be->open(e->device, NULL, &o->out));
    for (int i = 0; i < 2; i++)
        TRY(engine_doubles(e, e->m * e->width, "slices of the factor", &o->slice[i]));
    base->panel = o->slice[0];
done:
    return st;
}

const factor_kind factor_host = {
    .size = sizeof(factor_kind),
    .object = sizeof(streamed),
    .name = "host",
    .word = "host",
    .together = true,
    .on_host = true,
    .shares_panel = true,
    .bytes = bytes,
    .host = host_bytes,
    .open = streamed_open,
    .close = streamed_close,
    .room = streamed_room,
    .set_workspace = streamed_set_workspace,
    .make = streamed_make,
    .solve = streamed_solve,
};
