/* Operands of solves by products of halves: X, and the tiles of a super-panel, as columns that
 * stand where the products take them. */
#include "solve_terms.h"

status solve_take_x(solve_job *s) {
    const tlr_layout *l = s->l->cols;
    const panel *p = s->p;
    const int64_t from = l->first[p->c0], n = p->width, q = p - s->l->panel;
    int64_t *host, *there;
    terms_column *c;
    double *most, found;
    status st;
    TRY(tlr_work_room(s->w, BUF_BOUND, 1, &most));
    TRY(s->w->be->half->max_abs(s->w->ctx, BACKEND_S, s->v, n, s->x + from * s->ld, s->ld, most));
    TRY(tlr_dense_copy(s->w, 1, 1, most, 1, &found, 1));
    TRY(tlr_work_indices(s->w, 3 * n, &host, &there));
    c = (terms_column *)(void *)host;
    for (int64_t t = p->c0; t < p->c1; t++)
        for (int64_t i = l->first[t]; i < l->first[t + 1]; i++)
            c[i - from] = (terms_column){i, solve_x_at(s, t) + i - l->first[t], tlr_extent(l, t)};
    TRY(tlr_work_send(s->w, 3 * n, host, there));
    TRY(s->w->be->sync(s->w->ctx));
    s->bound = s->form == 'T' || !(found <= s->bound) ? found : s->bound;
    s->ex[q] = terms_exponent(s->bound);
    st = s->w->be->terms->columns(s->w->ctx, solve_left_parts(s) > 1 ? "hr" : "h", s->v, n,
                                  (const terms_column *)there, s->ex[q], s->x, s->ld, NULL, 1, s->a,
                                  s->ld);
done:
    return st;
}

void solve_lay_out(solve_job *s) {
    const panel *p = s->p;
    int64_t z = 0, b = 0;
    for (int64_t i = s->ia; i < s->ib; i++)
        s->ub[i - s->ia] = (solve_place){.rows = tlr_extent(s->l->rows, i)};
    for (int64_t k = p->c0; k < p->c1; k++)
        s->vb[k - p->c0] = (solve_place){.rows = tlr_extent(s->l->cols, k)};
    for (int64_t i = s->ia; i < s->ib; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            solve_spot *at = solve_spot_of(s, i, k);
            *at = (solve_spot){.dense = -1};
            if (t->kind != TLR_LOWRANK)
                continue;
            at->n[1] = solve_halves_of(s, t);
            at->n[0] = t->rank - at->n[1];
            for (int h = 0; h < 2; h++) {
                at->u[h] = s->ub[i - s->ia].n[h];
                at->v[h] = s->vb[k - p->c0].n[h];
                s->ub[i - s->ia].n[h] += at->n[h];
                s->vb[k - p->c0].n[h] += at->n[h];
            }
        }
    for (int side = 0; side < 2; side++) {
        solve_place *all = side ? s->vb : s->ub;
        const int64_t n = side ? p->c1 - p->c0 : s->ib - s->ia;
        const bool second = (side == 0) == (s->form == 'T');
        for (int64_t j = 0; j < n; j++)
            for (int h = 0; h < 2; h++) {
                all[j].at[h] = b;
                b += solve_right_parts(s, h) * solve_pad(all[j].n[h]);
                all[j].z[h] = z;
                z += second ? solve_z_parts(s, h) * all[j].n[h] : 0;
            }
    }
    for (int64_t i = s->ia; i < s->ib; i++)
        for (int64_t k = p->c0; k < p->c1; k++)
            if (panel_tile(p, i, k)->kind == TLR_DENSE) {
                const tlr_tile *t = panel_tile(p, i, k);
                solve_spot_of(s, i, k)->dense = b;
                b += solve_right_parts(s, solve_halves_of(s, t) > 0) * solve_pad(t->rank);
            }
    s->b_cols = b;
}

/* Columns of a tile to B, of all that has so many parts. */
typedef struct {
    terms_block *list;
    int64_t n, most;
} blocks;

static void add_block(const solve_job *s, blocks *b, int64_t from, int64_t rows, int64_t cols,
                      int64_t to, int64_t step) {
    if (cols == 0)
        return;
    b->list[b->n++] = (terms_block){from, rows, cols, to * s->ldb, s->ldb, step * s->ldb};
    b->most = largest(b->most, rows * cols);
}

/* U (of_v: V) to B, what has so many parts. */
static status take_some(solve_job *s, bool of_v, int parts) {
    const panel *p = s->p;
    int64_t *host, *there;
    blocks b = {0};
    status st;
    TRY(tlr_work_indices(s->w, 12 * (s->ib - s->ia) * (p->c1 - p->c0), &host, &there));
    b.list = (terms_block *)(void *)host;
    for (int64_t i = s->ia; i < s->ib; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const solve_spot *at = solve_spot_of(s, i, k);
            const solve_place *all = of_v ? s->vb + (k - p->c0) : s->ub + (i - s->ia);
            int64_t from = of_v ? p->kept_v + p->vbegin[k - p->c0] + t->v * all->rows
                                : p->ubegin[i - p->r0] + t->u * all->rows;
            if (at->dense >= 0 && !of_v && solve_right_parts(s, solve_halves_of(s, t) > 0) == parts)
                add_block(s, &b, from, all->rows, t->rank, at->dense, solve_pad(t->rank));
            for (int h = 0; h < 2; from += at->n[h] * all->rows, h++)
                if (solve_right_parts(s, h) == parts)
                    add_block(s, &b, from, all->rows, at->n[h],
                              all->at[h] + (of_v ? at->v : at->u)[h], solve_pad(all->n[h]));
        }
    TRY(tlr_work_send(s->w, 6 * b.n, host, there));
    st = s->w->be->terms->blocks(s->w->ctx, parts > 1 ? "hr" : "h", b.n, (const terms_block *)there,
                                 b.most, of_v ? s->ev : s->eu, p->singles, s->b);
done:
    return st;
}

status solve_take_tiles(solve_job *s) {
    void *room;
    status st;
    TRY(tlr_work_typed(s->w, BUF_U, BACKEND_S, s->ldb / 2 * s->b_cols, &room));
    s->b = solve_as_halves(room);
    /* zeros between them */
    TRY(s->w->be->half->gemm(s->w->ctx, 'N', 'N', s->ldb / 2, s->b_cols, 0, 0, s->b, s->ldb, s->b,
                             s->ldb, 0, room, s->ldb / 2));
    for (int parts = 1; parts <= 2; parts++)
        for (int of_v = 0; of_v < 2; of_v++)
            TRY(take_some(s, of_v, parts));
done:
    return st;
}

/* Columns of Z of a tile row. */
static int64_t z_columns(const solve_job *s, const panel *p, int64_t i) {
    int64_t n = 0;
    for (int64_t k = p->c0; k < p->c1; k++) {
        const tlr_tile *t = panel_tile(p, i, k);
        if (t->kind == TLR_LOWRANK)
            n += solve_z_parts(s, 0) * (t->rank - solve_halves_of(s, t)) +
                 solve_z_parts(s, 1) * solve_halves_of(s, t);
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
