/* Operands of solves by products of FP16 numbers: X, and the tiles of a block column, as columns
 * that stand where the products take them. */
#include "solve_split.h"

status solve_take_x(solve_job *s) {
    const panel *p = s->p;
    const int64_t q = p - s->l->panel;
    const float *x = s->x + s->l->cols->first[p->c0] * s->ld;
    const bool alone = s->form == 'T';
    const backend *be = s->w->be;
    status st;
    TRY(be->fp16->max_abs(s->w->ctx, BACKEND_S, s->v, p->width, x, s->ld,
                          alone ? s->bound : s->most));
    TRY(be->split->exponent(s->w->ctx, alone ? NULL : s->most, s->bound, 1, s->ex + q));
    st = be->split->take(s->w->ctx, solve_x_parts(s), s->v, p->width, s->ex + q, x, s->ld, p->width,
                         s->a + solve_x_of(s, q) * s->ld, s->ld);
done:
    return st;
}

/* What the inverse of a diagonal block is made in: itself, the same in single precision, its
 * largest modulus, and what the division needs. */
typedef struct {
    double *inverse, *most;
    float *narrow;
    void *work;
    size_t lwork;
} inverse_room;

#define LINE 32 /* doubles: parts are aligned as memory of their own is */

/* Doubles of a matrix, and of what the division needs. */
static int64_t matrix_numbers(const solve_job *s) {
    return (s->widest * s->widest + LINE - 1) / LINE * LINE;
}
static int64_t work_numbers(size_t bytes) {
    return (int64_t)(bytes / sizeof(double) + LINE) / LINE * LINE;
}

static inverse_room room_from(const solve_job *s, double *at, size_t lwork) {
    double *const narrow = at + matrix_numbers(s), *const work = narrow + matrix_numbers(s);
    return (inverse_room){.inverse = at,
                          .narrow = (float *)(void *)narrow,
                          .work = work,
                          .lwork = lwork,
                          .most = work + work_numbers(lwork)};
}

/* Inverse of block column q's diagonal block; `identity` of order n at least. */
static status invert(solve_job *s, int64_t q, const double *identity, const inverse_room *r) {
    const panel *p = s->l->panel + q;
    const int64_t n = p->width;
    const double one = 1;
    int32_t *const e = s->e_inverse + q;
    backend_ctx *const ctx = s->w->ctx;
    const backend *be = s->w->be;
    status st;
    TRY(tlr_dense_copy(s->w, n, n, identity, s->w->identity, r->inverse, n));
    TRY(be->trsm(ctx, BACKEND_D, 'R', 'L', 'N', 'N', n, n, &one, p->diag, n, r->inverse, n, r->work,
                 r->lwork));
    TRY(be->fp16->cast_to_single(ctx, n, n, r->inverse, n, r->narrow, n));
    TRY(be->fp16->max_abs(ctx, BACKEND_S, n, n, r->narrow, n, r->most));
    TRY(be->split->exponent(ctx, NULL, r->most, 1, e));
    st = be->split->take(ctx, 2, n, n, e, r->narrow, n, solve_pad(n), solve_inverse_of(s, q),
                         s->ld_inverse);
done:
    return st;
}

/* Several at a time, for none fills a device. */
status solve_invert(solve_job *s) {
    const size_t lwork = s->w->be->workspace(BACKEND_TRSM, BACKEND_D, s->widest, s->widest);
    const int64_t n = solve_pad(s->widest), cols = 2 * n * s->l->panels,
                  each = 2 * matrix_numbers(s) + work_numbers(lwork) + LINE;
    const int lanes = s->w->ctx ? TLR_STREAMS : 1;
    double *identity, *room;
    void *fp16;
    status st;
    s->ld_inverse = n;
    s->y_cols = 2 * s->widest;
    TRY(tlr_work_identity(s->w, s->widest, &identity));
    TRY(tlr_work_room(s->w, BUF_PRODUCT, lanes * each, &room));
    TRY(tlr_work_typed(s->w, BUF_CORE, BACKEND_S, n / 2 * cols, &fp16));
    s->inverse = fp16;
    /* zeros around them */
    TRY(tlr_full_gemm(s->w, BACKEND_S, 'N', 'N', n / 2, cols, 1, 0, fp16, n / 2, fp16, 1, 0, fp16,
                      n / 2));
    TRY(tlr_work_fork(s->w));
    for (int64_t q = 0; q < s->l->panels; q++) {
        const inverse_room r = room_from(s, room + q % lanes * each, lwork);
        tlr_work_turn(s->w); /* as many streams as rooms */
        TRY(invert(s, q, identity, &r));
    }
    st = tlr_work_join(s->w);
done:
    return st;
}

/* --- where columns go --- */

/* How many columns each tile row and tile column has. */
static void count_columns(solve_job *s) {
    const panel *p = s->p;
    for (int64_t i = s->ia; i < s->ib; i++)
        s->ub[i - s->ia].rows = tlr_extent(s->l->rows, i);
    for (int64_t k = p->c0; k < p->c1; k++)
        s->vb[k - p->c0].rows = tlr_extent(s->l->cols, k);
    for (int64_t i = s->ia; i < s->ib; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            solve_place *u = s->ub + (i - s->ia), *v = s->vb + (k - p->c0);
            const int64_t fp16 = solve_fp16(s, t), n[2] = {t->rank - fp16, fp16};
            solve_spot *at = solve_spot_of(s, i, k);
            at->dense = -1;
            for (int h = 0; h < 2 && t->kind == TLR_LOWRANK; h++) {
                at->u[h] = u->n[h];
                at->v[h] = v->n[h];
                u->n[h] += n[h];
                v->n[h] += n[h];
            }
        }
}

/* Columns of B and, of the side whose products are the second ones, of Z. */
static void place_columns(solve_job *s, solve_place *all, int64_t n, bool second, int64_t *z) {
    for (int64_t j = 0; j < n; j++)
        for (int h = 0; h < 2; h++) {
            all[j].at[h] = s->b_cols;
            s->b_cols += solve_b_parts(s, h) * solve_pad(all[j].n[h]);
            all[j].z[h] = *z;
            *z += second ? solve_z_parts(s, h) * all[j].n[h] : 0;
        }
}

status solve_rows_open(solve_job *s, int64_t ia, int64_t ib) {
    const panel *p = s->p;
    const int64_t nk = p->c1 - p->c0;
    int64_t z = 0;
    status st;
    s->ia = ia;
    s->ib = ib;
    TRY(ALLOC(s->ub, (size_t)(ib - ia), "places of tiles"));
    TRY(ALLOC(s->vb, (size_t)nk, "places of tiles"));
    TRY(ALLOC(s->spots, (size_t)((ib - ia) * nk), "places of tiles"));
    count_columns(s);
    s->b_cols = 0;
    place_columns(s, s->ub, ib - ia, s->form == 'T', &z);
    place_columns(s, s->vb, nk, s->form == 'N', &z);
    for (int64_t i = ia; i < ib; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            if (t->kind != TLR_DENSE)
                continue;
            solve_spot_of(s, i, k)->dense = s->b_cols;
            s->b_cols += solve_b_parts(s, solve_dense_kind(s, t)) * solve_pad(t->rank);
        }
done:
    return st;
}

void solve_rows_close(solve_job *s) {
    free(s->ub);
    free(s->vb);
    free(s->spots);
    s->ub = s->vb = NULL;
    s->spots = NULL;
}

/* Columns of Z of a tile row. */
static int64_t z_columns(const solve_job *s, const panel *p, int64_t i) {
    int64_t n = 0;
    for (int64_t k = p->c0; k < p->c1; k++) {
        const tlr_tile *t = panel_tile(p, i, k);
        const int64_t fp16 = solve_fp16(s, t);
        if (t->kind == TLR_LOWRANK)
            n += solve_z_parts(s, 0) * (t->rank - fp16) + solve_z_parts(s, 1) * fp16;
    }
    return n;
}

int64_t solve_rows_that_fit(const solve_job *s, const panel *p, int64_t ia, int64_t *cols) {
    int64_t i = ia + 1;
    *cols = z_columns(s, p, ia);
    for (; i < p->r1; i++) {
        const int64_t more = z_columns(s, p, i);
        if ((size_t)(*cols + more) * (size_t)s->ld * sizeof(backend_f16) > s->l->o.memory)
            break;
        *cols += more;
    }
    return i;
}

/* --- tiles --- */

/* Columns of U or V of a tile from where they are kept: in single precision, then in FP16. */
static int64_t add_tile(const solve_job *s, bool of_v, int64_t i, int64_t k, split_pack *to) {
    const panel *p = s->p;
    const tlr_tile *t = panel_tile(p, i, k);
    const solve_spot *at = solve_spot_of(s, i, k);
    const solve_place *u = s->ub + (i - s->ia), *v = s->vb + (k - p->c0);
    const solve_place *own = of_v ? v : u, *other = of_v ? u : v;
    const int64_t tiles = (p->r1 - p->r0) * (p->c1 - p->c0),
                  *kept = s->kept + 2 * (t - p->tile + (of_v ? tiles : 0)),
                  cols[2] = {t->rank - t->fp16, t->fp16};
    const bool dense = t->kind == TLR_DENSE, first = of_v == (s->form == 'T');
    int64_t n = 0;
    for (int c = 0; c < 2 && !(of_v && dense); c++) {
        const int h = s->terms > 1 ? c : 0;
        const int64_t before = c > h ? cols[0] : 0;
        const int64_t z = other->z[h] + (of_v ? at->u : at->v)[h] + before;
        const int64_t b =
            dense ? at->dense + before : own->at[h] + (of_v ? at->v : at->u)[h] + before;
        if (cols[c] == 0)
            continue;
        to[n++] = (split_pack){.kept = kept[c],
                               .rows = (int32_t)own->rows,
                               .cols = (int32_t)cols[c],
                               .to = (int32_t)b,
                               .step = (int32_t)solve_pad(dense ? t->rank : own->n[h]),
                               .parts = solve_b_parts(s, h),
                               .place = {first && !dense ? (int32_t)z : -1, (int32_t)other->n[h]}};
    }
    return n;
}

/* Zeros next to `n` columns from `at` on. */
static int64_t add_zeros(int64_t n, int64_t at, int parts, split_pack *to) {
    const int64_t step = solve_pad(n);
    if (step == n)
        return 0;
    *to = (split_pack){.cols = (int32_t)(step - n),
                       .to = (int32_t)(at + n),
                       .step = (int32_t)step,
                       .parts = parts,
                       .place = {-1, 0}};
    return 1;
}

/* U or V in the tile rows current; with what second products have columns of as their inner size,
 * zeros up to whole steps. */
static int64_t add_side(const solve_job *s, bool of_v, split_pack *to) {
    const panel *p = s->p;
    const bool second = of_v == (s->form == 'N');
    const solve_place *all = of_v ? s->vb : s->ub;
    const int64_t places = of_v ? p->c1 - p->c0 : s->ib - s->ia;
    int64_t n = 0;
    for (int64_t i = s->ia; i < s->ib; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            n += add_tile(s, of_v, i, k, to + n);
            if (t->kind == TLR_DENSE && second && !of_v)
                n += add_zeros(t->rank, solve_spot_of(s, i, k)->dense,
                               solve_b_parts(s, solve_dense_kind(s, t)), to + n);
        }
    for (int64_t j = 0; second && j < places; j++)
        for (int h = 0; h < 2; h++)
            n += add_zeros(all[j].n[h], all[j].at[h], solve_b_parts(s, h), to + n);
    return n;
}

status solve_take_tiles(solve_job *s) {
    const panel *p = s->p;
    const int64_t nk = p->c1 - p->c0, rows = s->ib - s->ia,
                  words = (int64_t)(sizeof(split_pack) / sizeof(int64_t));
    const backend *be = s->w->be;
    const float *fp32;
    const backend_f16 *fp16;
    int64_t *host, *there, n[2];
    void *room;
    status st;
    TRY(tlr_work_typed(s->w, BUF_U, BACKEND_S, s->ldb / 2 * s->b_cols, &room));
    s->b = room;
    TRY(tlr_work_typed(s->w, BUF_V, BACKEND_D, s->b_cols, &room));
    s->places = room;
    if (!s->l->o.fp16)
        TRY(tlr_store_typed(s->w, s->l, BACKEND_S, p - s->l->panel, s->ia, s->ib, -1));
    tlr_store_kept(s->l, p, s->kept, &fp32, &fp16);
    TRY(tlr_work_indices(s->w, words * (5 * rows * nk + 2 * (rows + nk)), &host, &there));
    split_pack *const list = (split_pack *)(void *)host;
    n[0] = add_side(s, false, list);
    n[1] = add_side(s, true, list + n[0]);
    TRY(tlr_work_send(s->w, words * (n[0] + n[1]), host, there));
    for (int of_v = 0; of_v < 2; of_v++)
        TRY(be->split->pack(s->w->ctx, n[of_v],
                            (const split_pack *)(void *)there + (of_v ? n[0] : 0),
                            of_v ? s->ev : s->eu, fp32, fp16, s->b, s->ldb, s->places));
done:
    return st;
}
