/* Ranking the asterisms of a field: covariances at a reduced order, search, images of the best. */
#include "job/asterism_scene.h"

#include "backend/families.h"
#include "base/progress.h"
#include "base/text.h"
#include "moao/cpu_threads.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Combinations up to which all are looked at without being asked for. */
#define MOST_COMBINATIONS 200000.0
/* Figures computed at most from images unless --refine says otherwise. */
#define REFINE 400
/* Random starts of the exchange beside the greedy one. */
#define STARTS 3

/* --- figures of the best from their images --- */

/* Whether no asterism behind the first n can be among the `best` of them, as far as figures follow
 * the guesses: a straight line through all, and above it as far as any of them was. */
static bool is_settled(const ast_list *l, int n, int best, bool larger) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0, above = 0, worst;
    const double sign = larger ? 1 : -1;
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (sorted == NULL || n <= best || n >= l->n) {
        free(sorted);
        return n >= l->n;
    }
    for (int i = 0; i < n; i++) {
        const double x = l->v[i].guess, y = l->v[i].figure;
        sx += x, sy += y, sxx += x * x, sxy += x * y;
        sorted[i] = sign * y;
    }
    const double det = n * sxx - sx * sx;
    const double slope = det > 0 ? (n * sxy - sx * sy) / det : 0, level = (sy - slope * sx) / n;
    for (int i = 0; i < n; i++)
        above = fmax(above, sign * (l->v[i].figure - level - slope * l->v[i].guess));
    for (int k = 0; k < best; k++) /* the best come to the front */
        for (int i = k + 1; i < n; i++)
            if (sorted[i] > sorted[k]) {
                const double x = sorted[i];
                sorted[i] = sorted[k];
                sorted[k] = x;
            }
    worst = sorted[best - 1];
    free(sorted);
    return sign * (level + slope * l->v[n].guess) + above < worst;
}

static status refine(const comm *c, const ast_job *j, const ast_case *k, const ast_scene *u,
                     ast_result *r) {
    const int most = j->cl->refine > 0 ? j->cl->refine : REFINE, block = 32 * c->size;
    const int best = j->cl->full > 0 ? j->cl->full : 3;
    ast_painter p = {.c = c, .j = j, .k = k, .nthread = omp_get_max_threads(), .choose = r->choose};
    int blas = 0;
    status st = ast_painter_init(&p, u);
    TRY(comm_agree(c, st));
    blas = blas_alone();
    while (r->computed < r->best.n && r->computed < most) {
        int to = r->computed + block;
        to = to < most ? to : most;
        to = to < r->best.n ? to : r->best.n;
        TRY(ast_paint(&p, &r->best, r->computed, to));
        r->computed = to;
        if (j->cl->refine == 0 && r->computed >= 3 * block &&
            is_settled(&r->best, r->computed, best, want_larger(&j->w)))
            break;
    }
    ast_list_sort(&r->best, r->choose, want_larger(&j->w), true);
done:
    blas_together(blas);
    ast_painter_free(&p);
    return st;
}

/* --- the search --- */

static double last_told;

static void tell(double share, const ast_list *l) {
    (void)l;
    if (report_now() - last_told < 5)
        return;
    last_told = report_now();
    progress_step("asterisms: %.0f %% looked at", 100 * share);
}

/* Which candidates may be together. */
static status keep_apart(const ast_job *j, const ast_stars *s, bool **apart) {
    status st = MOAO_OK;
    if (!(j->cl->apart > 0))
        return st;
    TRY(ALLOC(*apart, (size_t)s->n * (size_t)s->n, "pairs of stars"));
    for (int a = 0; a < s->n; a++)
        for (int b = 0; b < s->n; b++)
            (*apart)[a * s->n + b] =
                hypot(s->v[a].xy[0] - s->v[b].xy[0], s->v[a].xy[1] - s->v[b].xy[1]) >= j->cl->apart;
done:
    return st;
}

/* The backend of the parameters, a device for this rank, and threads that call it. */
static status choose_backend(const comm *c, const params *par, const backend **be, int *device,
                             int *threads) {
    status st = families_backend(par->compute_backend == BACKEND_GPU   ? "gpu"
                                 : par->compute_backend == BACKEND_CPU ? "cpu"
                                                                       : "auto",
                                 be);
    if (st != MOAO_OK)
        return st;
    const bool cpu = *be == &backend_cpu;
    *device = cpu ? 0 : c->node_rank % (*be)->devices();
    *threads = cpu ? omp_get_max_threads() : 2; /* so that one fills the gaps of the other */
    return MOAO_OK;
}

static status check_memory(const comm *c, const ast_job *j, const ast_scene *u) {
    const double bytes = ast_case_bytes(&u->s, j->nfixed);
    const double room = j->par.compute_memory > 0 ? j->par.compute_memory : (double)c->memory;
    if (bytes <= room)
        return MOAO_OK;
    return status_fail(
        MOAO_INPUT,
        "%d candidates at order %d take %.3g GB on every rank, which has %.3g; lower "
        "--order or --most, or start fewer ranks",
        u->s.nsensor - j->nfixed, j->order, bytes / 1e9, room / 1e9);
}

static status search(const comm *c, ast_job *j, const ast_stars *s, const ast_case *k, bool quiet,
                     ast_result *r) {
    const backend *be;
    ast_scores *q = NULL;
    bool *apart = NULL;
    int device = 0, threads = 1;
    const int most = j->cl->refine > 0 ? j->cl->refine : REFINE;
    status st = choose_backend(c, &j->par, &be, &device, &threads);
    if (st == MOAO_OK)
        st = keep_apart(j, s, &apart);
    if (st == MOAO_OK)
        st = ast_scores_init(be, device, k, &q);
    TRY(comm_agree(c, st));
    const ast_search a = {
        .choose = r->choose, .w = &j->w, .apart = apart, .keep = most, .tell = quiet ? NULL : tell};
    last_told = report_now();
    r->combinations = ast_combinations(s->n, r->choose);
    r->greedy = j->cl->greedy || r->combinations > MOST_COMBINATIONS;
    if (r->greedy) {
        TRY(ast_search_exchange(c, q, k, &a, threads, STARTS, &r->tried, &r->best));
    } else {
        TRY(ast_search_all(c, q, k, &a, threads, &r->best));
        r->tried = r->combinations;
    }
    if (r->best.n == 0)
        st = status_fail(MOAO_INPUT,
                         "no asterism of %d stars that keep apart; choose fewer, or lower "
                         "--apart",
                         r->choose);
done:
    ast_scores_free(q);
    free(apart);
    return st;
}

/* Without a star there is one asterism. */
static status take_none(ast_result *r) {
    status st = ALLOC(r->best.v, 1, "asterisms");
    if (st == MOAO_OK)
        r->best.v[0] = (ast_combo){.figure = NAN, .guess = NAN, .rms = NAN};
    r->best.n = r->best.room = st == MOAO_OK;
    r->combinations = r->tried = 1;
    return st;
}

status ast_job_rank(const comm *c, ast_job *j, const ast_stars *s, bool quiet, ast_result *r) {
    ast_scene u = {0};
    ast_case *k = NULL;
    status st;
    *r = (ast_result){.choose = j->cl->choose < s->n ? j->cl->choose : s->n};
    const double from = report_now();
    if (j->nfixed + s->n == 0) /* nothing to guide on: no figure */
        return comm_agree(c, take_none(r));
    st = ast_job_take(j, s, NULL, s->n);
    if (st == MOAO_OK)
        st = ast_scene_init(j, &u);
    if (st == MOAO_OK)
        st = check_memory(c, j, &u);
    TRY(comm_agree(c, st));
    if (!quiet && c->rank == 0)
        progress_step("covariances of %d fixed and %d candidate star%s, %zu measurements",
                      j->nfixed, s->n, text_plural(s->n), u.s.m);
    TRY(ast_case_init(c, &u.s, j->nfixed, u.p, &k));
    const double made = report_now();
    if (!quiet && c->rank == 0)
        progress_step("asterisms of %d of %d star%s", r->choose, s->n, text_plural(s->n));
    if (r->choose > 0)
        TRY(search(c, j, s, k, quiet, r));
    else
        TRY(comm_agree(c, take_none(r)));
    const double found = report_now();
    if (!quiet && c->rank == 0)
        progress_step("images of the best");
    TRY(refine(c, j, k, &u, r));
    r->seconds[0] = made - from;
    r->seconds[1] = found - made;
    r->seconds[2] = report_now() - found;
done:
    ast_case_free(k);
    ast_scene_free(&u);
    return st;
}
