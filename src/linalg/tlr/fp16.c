/* Columns of a factor's block column that are kept in FP16, in the backend's memory: first all
 * numbers in single precision stand together, tile by tile, then all in FP16; a list of runs in the
 * backend's memory leads from there to where they stand in one precision and back. u and v have an
 * exponent each, which brings their largest entry to 2^15: FP16 numbers keep all bits down to 2^-29
 * of that, and are wrong by 2^-40 of it below, so that neither each tile nor each column needs an
 * exponent. A half is the first of the two that a solve in terms makes of a number, and the second
 * is 0. */
#include "internal.h"

/* The next run: count numbers from `at` on, of which `kept` are there already. */
static void add_run(split_run *list, int64_t *n, int64_t at, int64_t count, int64_t *kept,
                    bool fp16) {
    if (count > 0)
        list[(*n)++] = (split_run){at, count, fp16 ? -1 - *kept : *kept};
    *kept += count;
}

/* Those of a tile's columns of so many numbers, the first of which is at `at`. */
static void add_runs(const tlr_tile *t, int64_t numbers, int64_t at, panel *p, split_run *list,
                     int64_t *n, int64_t *fp16) {
    const int64_t whole = (t->rank - t->fp16) * numbers, rest = t->fp16 * numbers;
    add_run(list, n, at, whole, &p->leading, false);
    add_run(list, n, at + whole, rest, fp16, true);
    p->longest = largest(p->longest, largest(whole, rest));
}

/* The runs of a block column; *halves: numbers that are kept as such. */
static status list_runs(tlr_work *w, const tlr *a, panel *p, int64_t *fp16) {
    const int64_t tiles = (p->r1 - p->r0) * (p->c1 - p->c0);
    const int64_t each = (int64_t)(sizeof(split_run) / sizeof(int64_t));
    int64_t *host, *there, n = 0;
    void *room = NULL;
    status st;
    TRY(ALLOC(p->row_run, (size_t)(2 * (p->r1 - p->r0 + 1)), "runs of columns"));
    TRY(tlr_work_indices(w, each * 4 * tiles, &host, &there));
    split_run *const list = (split_run *)(void *)host;
    p->leading = p->longest = *fp16 = 0;
    for (int v = 0; v < 2; v++) {
        int64_t *const before = p->row_run + v * (p->r1 - p->r0 + 1);
        for (int64_t i = p->r0; i < p->r1; i++) {
            before[i - p->r0] = n;
            for (int64_t k = p->c0; k < p->c1; k++) {
                const int64_t m = v ? tlr_extent(a->cols, k) : tlr_extent(a->rows, i);
                const tlr_tile *t = panel_tile(p, i, k);
                if (v == 0)
                    add_runs(t, m, p->ubegin[i - p->r0] + t->u * m, p, list, &n, fp16);
                else if (t->kind == TLR_LOWRANK)
                    add_runs(t, m, p->kept_v + p->vbegin[k - p->c0] + t->v * m, p, list, &n, fp16);
            }
        }
        before[p->r1 - p->r0] = n;
    }
    TRY(w->be->alloc(w->ctx, sizeof *p->run * (size_t)largest(n, 1), &room));
    p->run = room;
    st = tlr_work_send(w, each * n, host, (int64_t *)room);
done:
    return st;
}

/* Runs of u (v = 1: of v) in tile rows i0 .. i1, the first of them and how many. */
static int64_t runs_of(const panel *p, int v, int64_t i0, int64_t i1, const split_run **first) {
    const int64_t *before = p->row_run + v * (p->r1 - p->r0 + 1);
    *first = p->run + before[i0 - p->r0];
    return before[i1 - p->r0] - before[i0 - p->r0];
}

static backend_f16 *fp16_of(const panel *p, void *kept) {
    return (backend_f16 *)(void *)((float *)kept + p->leading);
}

void tlr_store_kept(const tlr *a, const panel *p, int64_t *at, const float **fp32,
                    const backend_f16 **fp16) {
    int64_t n[2] = {0, 0};
    for (int v = 0; v < 2; v++)
        for (int64_t i = p->r0; i < p->r1; i++)
            for (int64_t k = p->c0; k < p->c1; k++, at += 2) {
                const tlr_tile *t = panel_tile(p, i, k);
                const int64_t m = v ? tlr_extent(a->cols, k) : tlr_extent(a->rows, i);
                const bool there = v == 0 || t->kind == TLR_LOWRANK;
                if (!a->o.fp16) {
                    at[0] = v ? p->kept_v + p->vbegin[k - p->c0] + t->v * m
                              : p->ubegin[i - p->r0] + t->u * m;
                    continue;
                }
                at[0] = n[0];
                at[1] = -1 - n[1];
                n[0] += there ? (t->rank - t->fp16) * m : 0;
                n[1] += there ? t->fp16 * m : 0;
            }
    *fp32 = a->o.fp16 ? (const float *)(const void *)p->kept : p->fp32;
    *fp16 = a->o.fp16 ? fp16_of(p, p->kept) : NULL;
}

/* u and v in single precision to what is kept of them, in the backend's memory. */
static status narrow(tlr_work *w, const panel *p, const float *from, void *kept) {
    status st = MOAO_OK;
    for (int v = 0; v < 2; v++) {
        const split_run *first;
        const int64_t n = runs_of(p, v, p->r0, p->r1, &first);
        TRY(w->be->split->narrow(w->ctx, n, first, p->longest, split_exponent(p->most[v]), from,
                                 kept, fp16_of(p, kept)));
    }
done:
    return st;
}

status tlr_fp16_widen(tlr_work *w, const panel *p, int64_t i0, int64_t i1, void *kept, float *to) {
    status st = MOAO_OK;
    for (int v = 0; v < 2; v++) {
        const split_run *first;
        const int64_t n = runs_of(p, v, i0, i1, &first);
        TRY(w->be->split->widen(w->ctx, n, first, p->longest, split_exponent(p->most[v]), kept,
                                fp16_of(p, kept), to));
    }
done:
    return st;
}

status tlr_fp16_keep(tlr_work *w, const tlr *a, panel *p, size_t *bytes) {
    const int64_t nu = panel_ubegin(a, p, p->r1), nv = tlr_store_numbers(a, p) - p->kept_v;
    int64_t fp16;
    void *room = NULL, *staged;
    status st;
    TRY(list_runs(w, a, p, &fp16));
    *bytes = sizeof(float) * (size_t)p->leading + sizeof(backend_f16) * (size_t)fp16;
    TRY(a->be->alloc(a->ctx, *bytes + 1, &room));
    p->kept = room;
    TRY(tlr_work_typed(w, BUF_SLOT, BACKEND_S, p->kept_v + nv, &staged));
    float *const u = staged, *const v = u + p->kept_v;
    if (nu > 0)
        TRY(w->be->fp16->cast_to_single(w->ctx, nu, 1, p->u, nu, u, nu));
    if (nv > 0)
        TRY(w->be->fp16->cast_to_single(w->ctx, nv, 1, p->v, nv, v, nv));
    TRY(tlr_store_bounds(w, (int64_t[2]){nu, nv}, (const float *[2]){u, v}, p->most));
    TRY(narrow(w, p, u, room));
    *bytes += sizeof *p->run * (size_t)p->row_run[2 * (p->r1 - p->r0) + 1];
done:
    return st;
}
