/* What the ranking loses by its reduced order. */
#include "job/asterism_scene.h"

#include "base/progress.h"
#include "moao/cpu_threads.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* --- rank correlation --- */

static _Thread_local const double *ranked;

static int by_value(const void *a, const void *b) {
    const double x = ranked[*(const int *)a], y = ranked[*(const int *)b];
    return (x > y) - (x < y);
}

/* Ranks of n values, equal ones sharing theirs. */
static status ranks_of(int n, const double *v, double *rank) {
    int *order = NULL;
    status st = ALLOC(order, (size_t)n, "ranks");
    if (st != MOAO_OK)
        return st;
    for (int i = 0; i < n; i++)
        order[i] = i;
    ranked = v;
    qsort(order, (size_t)n, sizeof *order, by_value);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && v[order[end]] == v[order[i]];)
            end++;
        for (int k = i; k < end; k++)
            rank[order[k]] = (i + end - 1) / 2.0;
    }
    free(order);
    return st;
}

status ast_rank_correlation(int n, const double *a, const double *b, double *correlation) {
    double *ra = NULL, *rb = NULL, aa = 0, bb = 0, ab = 0;
    const double mean = (n - 1) / 2.0;
    status st;
    TRY(ALLOC(ra, (size_t)n, "ranks"));
    TRY(ALLOC(rb, (size_t)n, "ranks"));
    TRY(ranks_of(n, a, ra));
    TRY(ranks_of(n, b, rb));
    for (int i = 0; i < n; i++) {
        aa += (ra[i] - mean) * (ra[i] - mean);
        bb += (rb[i] - mean) * (rb[i] - mean);
        ab += (ra[i] - mean) * (rb[i] - mean);
    }
    *correlation = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
done:
    free(ra);
    free(rb);
    return st;
}

/* --- the sample --- */

/* n asterisms by chance, the same in every run. */
static status draw(int ncand, int choose, int n, ast_list *l) {
    unsigned seed = 20261122;
    status st = ALLOC(l->v, (size_t)n, "asterisms");
    for (int i = 0; i < n && st == MOAO_OK; i++) {
        ast_combo *a = &l->v[l->n++];
        *a = (ast_combo){.figure = NAN, .guess = NAN};
        for (int k = 0, left = choose; left > 0; k++) /* each of what remains with equal chance */
            if ((double)rand_r(&seed) / ((double)RAND_MAX + 1) * (ncand - k) < left)
                a->star[choose - left--] = k;
    }
    l->room = l->n;
    return st;
}

/* Guesses of a list, on the CPU. */
static status guess(const ast_job *j, const ast_case *k, int choose, ast_list *l) {
    ast_scores *q = NULL;
    ast_worker *w = NULL;
    double *var = NULL;
    status st;
    TRY(ast_scores_init(&backend_cpu, 0, k, &q));
    TRY(ast_worker_init(q, choose - 1, 1, &w));
    TRY(ALLOC(var, 2 * (size_t)k->ntarget, "variances"));
    for (int i = 0; i < l->n; i++) {
        TRY(ast_search_one(w, l->v[i].star, choose, var));
        for (int t = 0; t < k->ntarget; t++)
            var[t] = want_guess(&j->w, var[t]);
        l->v[i].guess = want_value(&j->w, k->ntarget, var, var + k->ntarget);
    }
done:
    ast_worker_free(w);
    ast_scores_free(q);
    free(var);
    return st;
}

/* Figures of a list at an order; guesses too when asked for. Collective. */
static status at_order(const comm *c, ast_job *j, int order, int choose, bool guesses,
                       ast_list *l) {
    const int own = j->order;
    int blas = 0;
    ast_scene u = {0};
    ast_case *k = NULL;
    ast_painter p = {.c = c, .j = j, .nthread = omp_get_max_threads(), .choose = choose};
    j->order = order;
    status st = ast_scene_init(j, &u);
    TRY(comm_agree(c, st));
    TRY(ast_case_init(c, &u.s, j->nfixed, u.p, &k));
    if (guesses)
        TRY(comm_agree(c, guess(j, k, choose, l)));
    p.k = k;
    TRY(comm_agree(c, ast_painter_init(&p, &u)));
    blas = blas_alone();
    for (int i = 0; i < l->n; i += 20 * c->size) {
        TRY(ast_paint(&p, l, i, i + 20 * c->size < l->n ? i + 20 * c->size : l->n));
        if (c->rank == 0)
            progress_step("sample at order %d: %d of %d", order, i, l->n);
    }
done:
    blas_together(blas);
    j->order = own;
    ast_painter_free(&p);
    ast_case_free(k);
    ast_scene_free(&u);
    return st;
}

status ast_job_compare(const comm *c, ast_job *j, const ast_stars *s, int n,
                       double correlation[2]) {
    ast_list l = {0};
    double *v = NULL;
    const int choose = j->cl->choose;
    status st = draw(s->n, choose, n, &l);
    if (st == MOAO_OK)
        st = ALLOC(v, 3 * (size_t)n, "figures");
    if (st == MOAO_OK)
        st = ast_job_take(j, s, NULL, s->n);
    TRY(comm_agree(c, st));
    TRY(at_order(c, j, j->order, choose, true, &l));
    for (int i = 0; i < n; i++) {
        v[i] = l.v[i].guess;
        v[n + i] = l.v[i].figure;
    }
    TRY(at_order(c, j, j->par.dm_nssp, choose, false, &l));
    for (int i = 0; i < n; i++)
        v[2 * n + i] = l.v[i].figure;
    for (int i = 0; i < 2; i++)
        TRY(ast_rank_correlation(n, v + i * n, v + 2 * n, &correlation[i]));
done:
    ast_list_free(&l);
    free(v);
    return st;
}
