/* Solves with the factor of an HSS matrix: launches of sums, made once. */
#include "hss_factor.h"
#include <stdlib.h>

/* --- launches of a solve
 * ----------------------------------------------------------------------------- */

enum { FROM_X, FROM_Y, FROM_S, FROM_V };

static void rows_of_workspaces(struct hss_factor *q, int levels) {
    for (int l = levels; l >= 0; l--) {
        factor_level *v = q->level + l;
        for (int64_t i = 0; i < v->nodes; i++) {
            v->y[i] = q->rows_y, v->s[i] = q->rows_s, v->v[i] = q->rows_v, v->t[i] = q->rows_t;
            q->rows_y += v->n[i], q->rows_s += 2 * v->k[i];
            q->rows_v += v->n[i] + v->k[i], q->rows_t += v->k[i];
        }
    }
}

/* First rows of a level's nodes in the two workspaces: y or, transposed, v; s or t. */
static const int64_t *rows_long(const factor_level *v, bool turned) {
    return turned ? v->v : v->y;
}
static const int64_t *rows_short(const factor_level *v, bool turned) {
    return turned ? v->t : v->s;
}

/* Element of G of node i, or of its W. */
static char *element(const hss *h, const factor_level *v, bool g, int64_t i, int64_t row,
                     int64_t col) {
    const int64_t ld = g ? v->ldg : v->rows, cols = g ? v->rows + v->most : v->rows;
    return (g ? v->g : v->w) +
           (int64_t)backend_size(h->f.o.type) * (i * cols * ld + row + col * ld);
}

/* A sum writes one workspace, so the two that a node fills on the way up take two launches. `each`:
 * rows that go up for a column of the basis. */
static status plan_up(const hss *h, struct hss_factor *q, bool turned, int64_t each, plan *p) {
    const int levels = h->t.levels;
    status st = MOAO_OK;
    for (int l = levels; l >= 0; l--)
        for (int part = 0; part < 2; part++) {
            const factor_level *v = q->level + l;
            TRY(plan_launch(p));
            for (int64_t i = 0; i < v->nodes; i++) {
                const int64_t e = v->n[i] - v->k[i];
                TRY(plan_sum(p, part ? rows_short(v, turned)[i] : rows_long(v, turned)[i],
                             part ? each * v->k[i] : e));
                TRY(plan_term(
                    p, element(h, v, !turned, i, 0, part ? e : 0), turned ? v->rows : v->ldg, true,
                    l == levels ? v->n[i] : each * v->n[i], l == levels ? FROM_X : FROM_S,
                    l == levels ? h->t.first[tree_node(l, i)] : rows_short(v + 1, turned)[2 * i]));
            }
        }
done:
    return st;
}

/* `each`: rows that go down for a column of the basis. */
static status plan_down(const hss *h, struct hss_factor *q, bool turned, int64_t each, plan *p) {
    const int levels = h->t.levels;
    status st = MOAO_OK;
    for (int l = 0; l <= levels; l++) {
        const factor_level *v = q->level + l, *low = v + 1;
        TRY(plan_launch(p));
        for (int64_t i = 0; i < (l < levels ? 2 : 1) * v->nodes; i++) {
            const int64_t node = l < levels ? i / 2 : i;
            const int64_t at = l < levels && i & 1 ? each * low->k[i - 1] : 0;
            if (l < levels)
                TRY(plan_sum(p, rows_long(low, turned)[i] + low->n[i] - low->k[i],
                             each * low->k[i]));
            else
                TRY(plan_sum(p, h->t.first[tree_node(l, i)], v->n[i]));
            TRY(plan_term(p, element(h, v, turned, node, at, 0), turned ? v->ldg : v->rows, false,
                          v->n[node] + (turned ? v->k[node] : 0), turned ? FROM_V : FROM_Y,
                          rows_long(v, turned)[node]));
        }
    }
done:
    return st;
}

/* A^-1: up by G', down by W: of a node y, then b~ and z (2 k), and y~ (k) back. A^-T: the same
 * matrices transposed, in the other order: up by W' (t, then t~), down by G (b~ and z). */
static status plan_way(const hss *h, struct hss_factor *q, bool turned) {
    plan *p = turned ? &q->turned : &q->straight;
    status st;
    TRY(plan_up(h, q, turned, turned ? 1 : 2, p));
    TRY(plan_down(h, q, turned, turned ? 2 : 1, p));
    TRY(plan_send(&h->f, p));
done:
    return st;
}

/* --- the operations
 * ----------------------------------------------------------------------------------- */

void hss_factor_free(hss *h) {
    struct hss_factor *q = h->factor;
    if (!q)
        return;
    for (int l = 0; l <= h->t.levels; l++) {
        factor_level *v = q->level + l;
        free(v->n), free(v->k), free(v->y), free(v->s), free(v->v), free(v->t);
        h->f.be->release(h->f.ctx, v->g), h->f.be->release(h->f.ctx, v->w);
    }
    plan_free(&h->f, &q->straight), plan_free(&h->f, &q->turned);
    free(q);
    h->factor = NULL;
}

size_t hss_solve_workspace(const format *f, int64_t nvec) {
    const struct hss_factor *q = ((const hss *)f)->factor;
    const size_t row = backend_size(f->o.type) * (size_t)nvec;
    return q ? hier_aligned(row * (size_t)(q->rows_y + q->rows_v)) +
                   hier_aligned(row * (size_t)(q->rows_s + q->rows_t))
             : 0;
}

status hss_solve(const format *f, char trans, int64_t nvec, void *x, int64_t ldx, void *work) {
    const hss *h = (const hss *)f;
    const struct hss_factor *q = h->factor;
    if (!q)
        return status_fail(MOAO_INPUT, "an HSS matrix solves after hier_factor");
    const bool turned = trans != 'N' && !f->symmetric;
    const plan *p = turned ? &q->turned : &q->straight;
    const int64_t ld_long = turned ? q->rows_v : q->rows_y,
                  ld_short = turned ? q->rows_t : q->rows_s;
    const int64_t lds = ld_short > 0 ? ld_short : 1, ldl = ld_long > 0 ? ld_long : 1;
    char *big = work, *small = big + hier_aligned(backend_size(f->o.type) *
                                                  (size_t)(nvec * (q->rows_y + q->rows_v)));
    const hier_operand from[HIER_OPERANDS] = {{x, ldx}, {big, ldl}, {small, lds}, {big, ldl}};
    status st = MOAO_OK;
    for (int l = 0; l < p->launches; l++) {
        const bool up = l < 2 * (h->t.levels + 1), last = l + 1 == p->launches;
        const hier_gemm_sums s = plan_part(p, l);
        void *to = last ? x : up && l % 2 ? (void *)small : big;
        if (s.most > 0)
            TRY(f->be->hier->sums(f->ctx, f->o.type, 'L', &s, nvec, 1, from, 0, to,
                                  last          ? ldx
                                  : up && l % 2 ? lds
                                                : ldl));
    }
done:
    return st;
}

status hss_solve_launch(hss *h) {
    status st;
    rows_of_workspaces(h->factor, h->t.levels);
    TRY(plan_way(h, h->factor, false));
    if (!h->f.symmetric)
        TRY(plan_way(h, h->factor, true));
done:
    return st;
}

status hss_solve_prepare(hss *h, double shift) {
    status st;
    TRY(hss_solve_launch(h));
    st = hss_condition(h, shift);
done:
    return st;
}
