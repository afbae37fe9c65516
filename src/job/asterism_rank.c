/* Ranking the asterisms of a field: covariances at a reduced order, search, images of the best. */
#include "job/asterism.h"

#include "asterism/images.h"
#include "backend/backend.h"
#include "base/progress.h"
#include "job/psf_params.h"

#include <cblas.h>
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

typedef struct { /* geometry and atmosphere of the search */
    sys s;
    atmos a;
    const profile *p;
    psf_opts o;
    double fit_share;
} scene;

/* Subapertures at a reduced order; sensors of 4 or fewer stay what they are. */
static int reduced(int nssp, int order, int full) {
    const int n = (int)lround((double)nssp * order / full);
    return nssp <= 4 || order >= full ? nssp : n < 4 ? 4 : n;
}

/* The profile of the exposure with the median r0. */
static const profile *median_profile(const atmos *a) {
    const profile *best = NULL;
    for (int e = 0; e < a->nexposure; e++) {
        const profile *p = atmos_profile_at(a, a->exposure_time[e]);
        int below = 0, equal = 0;
        for (int i = 0; i < a->nexposure; i++) {
            const double r0 = atmos_profile_at(a, a->exposure_time[i])->r0;
            below += r0 < p->r0;
            equal += r0 == p->r0;
        }
        if (below <= (a->nexposure - 1) / 2 && (a->nexposure - 1) / 2 < below + equal)
            best = best != NULL ? best : p;
    }
    return best;
}

/* Geometry of the sensors that j->par has now, at the order of the search. */
static status scene_init(ast_job *j, scene *u) {
    params *par = &j->par;
    const int full = par->dm_nssp;
    int *nssp = NULL;
    status st;
    *u = (scene){0};
    TRY(ALLOC(nssp, (size_t)par->sensors.n + 1, "sensors"));
    for (int i = 0; i < par->sensors.n; i++) {
        nssp[i] = par->sensors.v[i].nssp;
        par->sensors.v[i].nssp = reduced(nssp[i], j->order, full);
    }
    par->dm_nssp = j->order;
    st = sys_init(par, &u->s);
    for (int i = 0; i < par->sensors.n; i++)
        par->sensors.v[i].nssp = nssp[i];
    par->dm_nssp = full;
    TRY(st);
    TRY(atmos_init(par, &u->s, &u->a));
    u->p = median_profile(&u->a);
    params_psf_opts(par, &u->o);
    u->fit_share = pow((double)j->order / full, 5.0 / 3);
done:
    free(nssp);
    return st;
}

static void scene_free(scene *u) {
    atmos_free(&u->a);
    sys_free(&u->s);
}

/* --- figures of the best from their images --- */

typedef struct {
    const comm *c;
    const ast_job *j;
    const ast_case *k;
    int nthread, choose;
    ast_images **q; /* [nthread] */
    double **value; /* [nthread] 2 ntarget */
    status st;
} painter;

static void painter_free(painter *p) {
    for (int i = 0; i < p->nthread; i++) {
        if (p->q != NULL)
            ast_images_free(p->q[i]);
        if (p->value != NULL)
            free(p->value[i]);
    }
    free(p->q);
    free(p->value);
}

static status painter_init(painter *p, const scene *u) {
    status st;
    TRY(ALLOC(p->q, (size_t)p->nthread, "images"));
    TRY(ALLOC(p->value, (size_t)p->nthread, "images"));
    for (int i = 0; i < p->nthread; i++) {
        TRY(ast_images_init(p->k, &u->o, u->p, u->fit_share, &p->j->w, p->choose, &p->q[i]));
        TRY(ALLOC(p->value[i], 2 * (size_t)p->k->ntarget, "images"));
    }
done:
    return st;
}

/* Figures of the asterisms [from, to) of a list, on every rank. Collective. */
static status paint(painter *p, ast_list *l, int from, int to) {
    double *figure = NULL;
    status st = comm_agree(p->c, ALLOC(figure, (size_t)(to - from) + 1, "figures"));
    if (st != MOAO_OK)
        return st;
#pragma omp parallel for schedule(dynamic) num_threads(p->nthread)
    for (int i = from + p->c->rank; i < to; i += p->c->size) {
        const int t = omp_get_thread_num();
        const status own = ast_images_run(p->q[t], l->v[i].star, p->choose, p->value[t]);
        if (own != MOAO_OK)
            p->st = own;
        figure[i - from] =
            want_value(&p->j->w, p->k->ntarget, p->value[t], p->value[t] + p->k->ntarget);
    }
    st = comm_agree(p->c, p->st);
    if (st == MOAO_OK)
        comm_sum(p->c, figure, (size_t)(to - from));
    for (int i = from; i < to && st == MOAO_OK; i++)
        l->v[i].figure = figure[i - from];
    free(figure);
    return st;
}

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

static status refine(const comm *c, const ast_job *j, const ast_case *k, const scene *u,
                     ast_result *r) {
    const int most = j->cl->refine > 0 ? j->cl->refine : REFINE, block = 32 * c->size;
    const int best = j->cl->full > 0 ? j->cl->full : 3;
    painter p = {.c = c, .j = j, .k = k, .nthread = omp_get_max_threads(), .choose = r->choose};
    const int blas = openblas_get_num_threads();
    status st = painter_init(&p, u);
    TRY(comm_agree(c, st));
    openblas_set_num_threads(1);
    while (r->computed < r->best.n && r->computed < most) {
        int to = r->computed + block;
        to = to < most ? to : most;
        to = to < r->best.n ? to : r->best.n;
        TRY(paint(&p, &r->best, r->computed, to));
        r->computed = to;
        if (j->cl->refine == 0 && r->computed >= 3 * block &&
            is_settled(&r->best, r->computed, best, want_larger(&j->w)))
            break;
    }
    ast_list_sort(&r->best, r->choose, want_larger(&j->w), true);
done:
    openblas_set_num_threads(blas);
    painter_free(&p);
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
    status st = backend_get(par->compute_backend == BACKEND_GPU   ? "gpu"
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

static status check_memory(const comm *c, const ast_job *j, const scene *u) {
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

static status search(const comm *c, ast_job *j, const ast_stars *s, const ast_case *k,
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
        .choose = r->choose, .w = &j->w, .apart = apart, .keep = most, .tell = tell};
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
    scene u = {0};
    ast_case *k = NULL;
    status st;
    *r = (ast_result){.choose = j->cl->choose < s->n ? j->cl->choose : s->n};
    const double from = report_now();
    st = ast_job_take(j, s, NULL, s->n);
    if (st == MOAO_OK)
        st = scene_init(j, &u);
    if (st == MOAO_OK)
        st = check_memory(c, j, &u);
    TRY(comm_agree(c, st));
    if (!quiet && c->rank == 0)
        progress_step("covariances of %d fixed and %d candidate stars, %zu measurements", j->nfixed,
                      s->n, u.s.m);
    TRY(ast_case_init(c, &u.s, j->nfixed, u.p, &k));
    const double made = report_now();
    if (!quiet && c->rank == 0)
        progress_step("asterisms of %d of %d stars", r->choose, s->n);
    if (r->choose > 0)
        TRY(search(c, j, s, k, r));
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
    scene_free(&u);
    return st;
}
