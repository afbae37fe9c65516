/* The factor where m x m numbers do not fit in the device: L lies in pinned memory of the host, in
 * panels of columns, and passes by in pieces of r->w columns, one on its way while the device works
 * with the one before. All targets of a chunk use a piece while it is there. T of an exposure is
 * never stored: a panel of it is made, used by all targets, and overwritten. Nothing waits for the
 * host: three contexts of one device (work, transfers in, transfers out) wait for each other. The
 * host stays one piece or panel ahead of them, and so learns of failures while they are fresh. */
#include "resident/internal.h"

#include "base/progress.h"

#include <stdlib.h>

struct resident_stream {
    backend_ctx *in, *out;
    int64_t b;        /* columns of a panel of L, a multiple of r->w */
    int npanel;       /* of them */
    double **panel;   /* [npanel] on the host: rows from the panel's first column to m, packed */
    double *room;     /* on the device: two panels of L in turn, later W and Y of the targets */
    double *piece[2]; /* on the device, m x r->w each */
    double **y;       /* [nw] v x v, in the room */
    backend_cov_target **target; /* [nw] */
    int *info;                   /* [npanel] on the device */
};

/* Wait for the transfers in, and what they had to wait for. */
static status keep_pace(resident *r) {
    status st = r->be->sync(r->stream->in);
    return st == MOAO_OK && comm_alarmed(r->u.c) ? MOAO_INTERNAL : st;
}

/* --- pieces of L on their way to the device */

typedef struct { /* columns c .. c + n of L, within one panel, from row i on */
    int64_t c, n, i;
} piece;

typedef struct {
    resident *r;
    const piece *list; /* in the order of their use */
    int64_t count, at;
} feed;

/* Start the transfer of a piece, when what was given to the work's stream until now is done. */
static status send(const feed *f, int64_t k) {
    resident *r = f->r;
    const resident_stream *s = r->stream;
    const piece *p = &f->list[k];
    const int64_t j = p->c / s->b * s->b, rows = r->m - p->i, d = (int64_t)sizeof(double);
    const double *from = s->panel[p->c / s->b] + (p->i - j) + (p->c - j) * (r->m - j);
    status st = r->be->after(s->in, r->ctx);
    return st != MOAO_OK ? st
                         : r->be->copy(s->in, s->piece[k % 2], r->m * d, from, (r->m - j) * d,
                                       rows * d, p->n);
}

/* The next piece, in *a with leading dimension m, for work that comes after this call. The one
 * after it starts to move before that work: its place was used by the piece before. */
static status next_piece(feed *f, const piece **p, const double **a) {
    resident *r = f->r;
    const int64_t k = f->at++;
    status st;
    TRY(k == 0 ? send(f, 0) : keep_pace(r)); /* the work with the piece before is queued */
    TRY(r->be->after(r->ctx, r->stream->in));
    if (k + 1 < f->count)
        TRY(send(f, k + 1));
    *p = &f->list[k];
    *a = r->stream->piece[k % 2];
done:
    return st;
}

/* --- factor, from left to right by panels of columns */

/* All pieces of the passes over L that a factor takes: for each panel what lies to its left, but
 * for the panel just before, which is still on the device. */
static status list_factor(const resident *r, piece **list, int64_t *count) {
    const int64_t b = r->stream->b, per = b / r->w, n = r->stream->npanel;
    status st = ALLOC(*list, (size_t)(n * n * per / 2 + 1), "list of pieces");
    *count = 0;
    for (int64_t k = 2; k < n && st == MOAO_OK; k++)
        for (int64_t c = 0; c < (k - 1) * b; c += r->w)
            (*list)[(*count)++] = (piece){c, r->w, k * b};
    return st;
}

/* panel (rows x n, leading dimension rows) -= a a(0:n, :)', a rows x k: on and below the diagonal.
 */
static status subtract(resident *r, int64_t rows, int64_t n, int64_t k, const double *a,
                       int64_t lda, double *panel) {
    const double minus = -1, one = 1;
    status st;
    TRY(r->be->syrk(r->ctx, BACKEND_D, 'L', 'N', n, k, &minus, a, lda, &one, panel, rows, r->work,
                    r->lwork));
    if (rows > n)
        TRY(resident_gemm(r, 'N', 'T', rows - n, n, k, -1.0, a + n, lda, a, lda, 1.0, panel + n,
                          rows));
done:
    return st;
}

/* One panel on its way to the host; what comes next into the other streams waits for the panel
 * before it, whose place is needed anew and whose copy in the host's memory is read from now on. */
static status keep_panel(resident *r, int k, const double *panel) {
    resident_stream *s = r->stream;
    const int64_t rows = r->m - k * s->b, n = rows < s->b ? rows : s->b;
    const int64_t bytes = rows * n * (int64_t)sizeof(double);
    status st;
    TRY(r->be->after(r->ctx, s->out));
    TRY(r->be->after(s->in, s->out));
    TRY(r->be->after(s->out, r->ctx));
    TRY(r->be->copy(s->out, s->panel[k], bytes, panel, bytes, bytes, 1));
done:
    return st;
}

/* Panel k of Cmm0, and of L. */
static status one_panel(resident *r, feed *f, int k) {
    resident_stream *s = r->stream;
    const backend *be = r->be;
    const int64_t m = r->m, j = k * s->b, rows = m - j, n = rows < s->b ? rows : s->b;
    double *panel = s->room + (k % 2) * m * s->b;
    const double one = 1;
    status st;
    TRY(r->mat->fill_cmm(r->cov, BACKEND_D, 'L', MATCOV_ALL, j, rows, j, n, panel, rows));
    if (k > 0)
        TRY(subtract(r, rows, n, s->b, s->room + ((k - 1) % 2) * m * s->b + s->b, rows + s->b,
                     panel));
    while (f->at < f->count && f->list[f->at].i == j) {
        const piece *p;
        const double *a;
        TRY(next_piece(f, &p, &a));
        TRY(subtract(r, rows, n, p->n, a, m, panel));
    }
    TRY(be->potrf(r->ctx, BACKEND_D, 'L', n, panel, rows, s->info + k, r->work, r->lwork));
    if (rows > n)
        TRY(be->trsm(r->ctx, BACKEND_D, 'R', 'L', 'T', 'N', rows - n, n, &one, panel, rows,
                     panel + n, rows, r->work, r->lwork));
    TRY(keep_panel(r, k, panel));
done:
    return st;
}

status stream_factor(resident *r, const profile *p, int *minor) {
    resident_stream *s = r->stream;
    const size_t bytes = (size_t)s->npanel * sizeof(int);
    const double from = report_now(), m = (double)r->m;
    piece *list = NULL;
    int *info = NULL;
    feed f = {.r = r};
    status st;
    TRY(resident_load(r, p));
    TRY(list_factor(r, &list, &f.count));
    TRY(ALLOC(info, (size_t)s->npanel, "list of panels"));
    f.list = list;
    for (int k = 0; k < s->npanel; k++)
        TRY(one_panel(r, &f, k));
    TRY(r->be->after(r->ctx, s->out));
    TRY(r->be->copy(r->ctx, info, (int64_t)bytes, s->info, (int64_t)bytes, (int64_t)bytes, 1));
    TRY(resident_sync(r));
    *minor = 0;
    for (int k = s->npanel - 1; k >= 0; k--)
        *minor = info[k] > 0 ? (int)(k * s->b) + info[k] : *minor;
    r->u.rep->flops[STAGE_FACTOR] += m * m * m / 3;
done:
    if (st != MOAO_OK)
        r->be->sync(r->ctx); /* nothing may write to info any more */
    free(info);
    free(list);
    r->u.rep->wall[STAGE_FACTOR] += report_now() - from;
    return st;
}

/* --- solve */

/* X L' = W from the left to the right: columns of a piece, then what they give to those after. */
static status forward(resident *r, const piece *p, const double *l, double *w) {
    const int64_t m = r->m, v = r->v, below = m - p->c - p->n;
    const double one = 1;
    double *here = w + p->c * v;
    status st = r->be->trsm(r->ctx, BACKEND_D, 'R', 'L', 'T', 'N', v, p->n, &one, l, m, here, v,
                            r->work, r->lwork);
    if (st == MOAO_OK && below > 0)
        st = resident_gemm(r, 'N', 'T', v, below, p->n, -1.0, here, v, l + p->n, m, 1.0,
                           here + p->n * v, v);
    return st;
}

/* X L = W from the right to the left: what the columns after those of a piece give to them. */
static status backward(resident *r, const piece *p, const double *l, double *w) {
    const int64_t m = r->m, v = r->v, below = m - p->c - p->n;
    const double one = 1;
    double *here = w + p->c * v;
    status st = MOAO_OK;
    if (below > 0)
        st = resident_gemm(r, 'N', 'N', v, p->n, below, -1.0, here + p->n * v, v, l + p->n, m, 1.0,
                           here, v);
    if (st == MOAO_OK)
        st = r->be->trsm(r->ctx, BACKEND_D, 'R', 'L', 'N', 'N', v, p->n, &one, l, m, here, v,
                         r->work, r->lwork);
    return st;
}

status stream_solve(resident *r) {
    const int64_t m = r->m, n = r->ch.nmine > 0 ? (m + r->w - 1) / r->w : 0;
    feed f = {.r = r, .count = 2 * n};
    piece *list = NULL;
    status st = ALLOC(list, (size_t)f.count, "list of pieces");
    if (st != MOAO_OK)
        return st;
    for (int64_t k = 0, c = 0; k < n; k++, c += r->w)
        list[k] = list[2 * n - 1 - k] = (piece){c, resident_width(r, c, m), c};
    f.list = list;
    while (f.at < f.count) {
        const bool first = f.at < n;
        const piece *p;
        const double *l;
        TRY(next_piece(&f, &p, &l));
        for (int k = 0; k < r->ch.nmine; k++)
            TRY(first ? forward(r, p, l, r->wt[k]) : backward(r, p, l, r->wt[k]));
    }
done:
    free(list);
    return st;
}

/* --- exposures */

/* Columns j .. j + n of z = W T - D+ Ctm for one target, and their share of Y. t: rows from j on of
 * these columns of T, leading dimension m. */
static status residual_panel(resident *r, int k, int64_t j, int64_t n, const double *t) {
    const int64_t m = r->m, v = r->v;
    double *w = r->wt[k] + j * v;
    status st;
    TRY(resident_gemm(r, 'N', 'N', v, n, m - j, 1.0, w, v, t, m, 0.0, r->z, v));
    r->target = r->stream->target[k];
    TRY(resident_project(r, false, j, n, -1.0, 1.0, r->z));
    TRY(resident_gemm(r, 'N', 'T', v, v, n, 1.0, r->z, v, w, v, j > 0, r->stream->y[k], v));
done:
    return st;
}

status stream_residuals(resident *r) {
    const resident_stream *s = r->stream;
    const int64_t m = r->m, v = r->v;
    double *t = s->piece[0];
    status st;
    /* what lies above the diagonal of T: products read it, fills leave it alone */
    TRY(resident_gemm(r, 'N', 'N', r->w, r->w, 1, 0.0, t, m, t, m, 0.0, t, m));
    for (int k = 0; k < r->ch.nmine; k++)
        TRY(r->mat->aim(s->target[k], r->u.s->targets[r->ch.mine + k], true));
    for (int64_t j = 0, n; r->ch.nmine > 0 && j < m; j += n) {
        n = resident_width(r, j, m);
        TRY(keep_pace(r)); /* until the panel before the last one is done */
        TRY(r->be->after(s->in, r->ctx));
        TRY(r->mat->fill_cmm(r->cov, BACKEND_D, 'T', MATCOV_ALL, j, m - j, j, n, t, m));
        for (int k = 0; k < r->ch.nmine; k++)
            TRY(residual_panel(r, k, j, n, t));
        r->u.rep->flops[STAGE_EXPOSURE] +=
            2.0 * r->ch.nmine * (double)(v * n) * (double)(m - j - n / 2 + r->t + v);
        rows_progress(&r->team);
    }
done:
    return st;
}

double *stream_y(const resident *r, int k) {
    return r->stream->y[k];
}

/* --- life */

static int64_t aligned(int64_t count) {
    return (count + 31) / 32 * 32;
}

/* The room for n targets, W and Y of each at a multiple of 256 bytes, and for two panels of L, as
 * wide as the plan's memory allows or, where the device has less than that, n targets. */
static status take_room(resident *r, int n) {
    resident_stream *s = r->stream;
    const int64_t w = aligned(r->v * r->m), each = w + aligned(r->v * r->v);
    const int targets = n == r->most ? r->u.plan->fits : n;
    s->b = (int64_t)device_plan_factor_width(r->u.plan, r->u.s, targets);
    const int64_t panels = 2 * s->b * r->m, most = n * each > panels ? n * each : panels;
    status st = resident_doubles(r, most, "W of the targets and panels of the factor", &s->room);
    if (st != MOAO_OK)
        return st;
    for (int k = 0; k < n; k++) {
        r->wt[k] = s->room + k * each;
        s->y[k] = r->wt[k] + w;
    }
    r->nw = n;
    return MOAO_OK;
}

/* For as many targets as a rank gets of a chunk, or fewer where memory ends. */
static status take_targets(resident *r) {
    resident_stream *s = r->stream;
    status st;
    TRY(ALLOC(r->wt, (size_t)r->most, "targets of a device"));
    TRY(ALLOC(s->y, (size_t)r->most, "targets of a device"));
    TRY(ALLOC(s->target, (size_t)r->most, "targets of a device"));
    for (int n = r->most; n > 0; n--) {
        st = take_room(r, n);
        if (st != MOAO_MEMORY || n == 1)
            break;
        status_clear();
    }
    s->target[0] = r->target; /* opened with the covariances */
    for (int k = 1; k < r->nw && st == MOAO_OK; k++)
        st = r->mat->open_target(r->cov, &s->target[k]);
done:
    return st;
}

/* Workspace for all panels and pieces. */
static status take_work(resident *r) {
    const backend *be = r->be;
    const int64_t b = r->stream->b;
    for (int64_t j = 0; j < r->m; j += r->w) {
        const int64_t rows = r->m - j, n = rows < b ? rows : b;
        const size_t need[] = {
            be->workspace(BACKEND_SYRK, BACKEND_D, n, b),
            be->workspace(BACKEND_POTRF, BACKEND_D, n, n),
            be->workspace(BACKEND_TRSM, BACKEND_D, rows - n, n),
            be->workspace(BACKEND_TRSM, BACKEND_D, r->v, rows < r->w ? rows : r->w)};
        for (size_t i = 0; i < sizeof need / sizeof *need; i++)
            r->lwork = need[i] > r->lwork ? need[i] : r->lwork;
    }
    return resident_array(r, r->lwork, "work", &r->work);
}

#define SAY_EVERY 8e9 /* bytes */

/* The host's memory for L, panel by panel: the system may take seconds to find it. */
static status take_panels(resident *r) {
    resident_stream *s = r->stream;
    const double all = (double)device_plan_host_bytes(r->u.s, (size_t)s->b);
    double taken = 0;
    int said = 0;
    status st;
    s->npanel = (int)((r->m + s->b - 1) / s->b);
    TRY(ALLOC(s->panel, (size_t)s->npanel, "panels of the factor"));
    TRY(resident_array(r, (size_t)s->npanel * sizeof(int), "numbers", (void **)&s->info));
    for (int k = 0; k < s->npanel; k++) {
        const int64_t rows = r->m - k * s->b, n = rows < s->b ? rows : s->b;
        const size_t bytes = (size_t)(rows * n) * sizeof(double);
        if (r->u.c->rank == 0 && (int)(taken / SAY_EVERY) > said) {
            said = (int)(taken / SAY_EVERY);
            progress_note("host memory for the factor: %.0f of %.0f GB", taken / 1e9, all / 1e9);
        }
        if (r->be->alloc_host(r->ctx, bytes, (void **)&s->panel[k]) != MOAO_OK) {
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

status panels_open(resident *r) {
    resident_stream *s = NULL;
    status st;
    TRY(ALLOC(s, 1, "factor in the host's memory"));
    r->stream = s;
    TRY(r->be->open(r->device, NULL, &s->in));
    TRY(r->be->open(r->device, NULL, &s->out));
    for (int i = 0; i < 2; i++)
        TRY(resident_doubles(r, r->m * r->w, "pieces of the factor", &s->piece[i]));
    TRY(take_targets(r));
    TRY(take_work(r));
    TRY(take_panels(r));
    r->y = s->y[0];
done:
    return st;
}

void panels_close(resident *r) {
    resident_stream *s = r->stream;
    if (s == NULL)
        return;
    r->be->close(s->in); /* nothing moves any more */
    r->be->close(s->out);
    for (int k = 0; s->target != NULL && k < r->nw; k++) {
        r->target = s->target[k] == r->target ? NULL : r->target;
        r->mat->close_target(s->target[k]);
    }
    for (int k = 0; s->panel != NULL && k < s->npanel; k++)
        r->be->release_host(r->ctx, s->panel[k]);
    void *const mine[] = {s->room, s->piece[0], s->piece[1], s->info};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        r->be->release(r->ctx, mine[i]);
    free(s->panel);
    free(s->y);
    free(s->target);
    free(s);
    r->y = NULL;
    r->stream = NULL;
}
