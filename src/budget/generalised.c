/* Generalised fitting. With F_d of the commands c = sum_d F_d phi_d of known phases in the
 * directions of `optimise`, and H_t = G_t^-1 A_t'/points of the best shape of a target,
 *
 *     V[A_t (H_t phi_t - sum_d F_d phi_d)]
 *
 * which is what these commands leave more than the fitting error: A_t H_t is the projector on the
 * shapes. Rows of A_d and F_d have no mean over the points, so that -D/2 of displaced separations
 * takes the place of the covariance of two phases. V is taken at some points of the pupil, all of
 * which have the three terms. Model section 7, "Error budget". */
#include "budget/generalised.h"

#include "budget/fitting.h"
#include "matcov/formula.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEW 64     /* points at which the variance is taken, at least */
#define COLUMNS 64 /* of covariances that are there at once */

typedef struct {
    const sys *s;
    psf *p;
    const double *f; /* v x nd np */
    int v, np, nd, few;
    int *at;           /* [few] points */
    double *structure; /* [nd + 1][separations] of one direction with each, the target's the last */
    double *cov;       /* np x COLUMNS */
    double *z;         /* v x COLUMNS, or few x np */
    double *y;         /* v x v: sum F_d C_dd' F_d'', not symmetric */
    double *shape, *mean; /* v x v: G_t, then its inverse; v */
    double *some;         /* v x few: A_t at the points */
    double *best;         /* few x np: A_t H_t there */
    double *of;           /* few x nd np: A_t F there */
    double *strip;
} job;

/* --- profiles and layers */

static bool same_layer(const profile *a, int i, const profile *b, int j) {
    return a->h[i] == b->h[j] && a->L0[i] == b->L0[j];
}

static bool same_profile(const profile *a, const profile *b) {
    bool same = a->nlayer == b->nlayer;
    for (int l = 0; same && l < a->nlayer; l++)
        same = same_layer(a, l, b, l) && a->strength[l] == b->strength[l];
    return same;
}

static status one_layer(const profile *from, int l, profile *to) {
    status st;
    *to = (profile){.nlayer = 1};
    TRY(ALLOC(to->h, 1, "layers"));
    TRY(ALLOC(to->L0, 1, "layers"));
    TRY(ALLOC(to->strength, 1, "layers"));
    to->h[0] = from->h[l];
    to->L0[0] = from->L0[l];
    to->strength[0] = 1;
done:
    return st;
}

/* Different profiles of a run, or different layers of them where those are fewer. */
static status find_parts(const atmos *a, generalised *g) {
    int profiles = 0, most = 0;
    bool *first = NULL;
    status st;
    TRY(ALLOC(first, (size_t)a->nprofile, "profiles"));
    for (int i = 0; i < a->nprofile; i++) {
        first[i] = true;
        for (int k = 0; k < i; k++)
            first[i] = first[i] && !same_profile(&a->profiles[k], &a->profiles[i]);
        profiles += first[i];
        most += a->profiles[i].nlayer;
    }
    TRY(ALLOC(g->parts, (size_t)(most > profiles ? most : profiles), "profiles"));
    for (int i = 0; i < a->nprofile; i++)
        for (int l = 0; l < a->profiles[i].nlayer; l++) {
            bool known = a->profiles[i].strength[l] == 0;
            for (int k = 0; k < g->n && !known; k++)
                known = same_layer(&g->parts[k], 0, &a->profiles[i], l);
            if (!known)
                TRY(one_layer(&a->profiles[i], l, &g->parts[g->n++]));
        }
    if (g->n <= profiles)
        goto done;
    for (; g->n > 0; g->n--)
        profile_free(&g->parts[g->n - 1]);
    for (int i = 0; i < a->nprofile; i++)
        if (first[i])
            TRY(profile_still(&a->profiles[i], &g->parts[g->n++]));
done:
    free(first);
    return st;
}

double generalised_of(const generalised *g, const profile *p, int target) {
    const double *value = g->value + (size_t)target * (size_t)g->n;
    double sum = 0;
    for (int k = 0; k < g->n; k++)
        if (same_profile(&g->parts[k], p))
            return value[k];
    for (int l = 0; l < p->nlayer; l++)
        for (int k = 0; k < g->n; k++)
            if (g->parts[k].nlayer == 1 && same_layer(&g->parts[k], 0, p, l))
                sum += p->strength[l] * value[k];
    return sum;
}

/* --- covariances */

/* D of the phases of two directions that are `apart` [rad], at the separations of the points
 * [m^2]. Frequencies beyond the lattice's, which its points take for lower ones, count in no layer
 * that both see at one place. */
static status fill_structure(const job *k, const profile *p, const double apart[2], double *d) {
    double *beyond = NULL;
    const size_t n = psf_sep_count(k->p);
    status st;
    TRY(ALLOC(beyond, n, "structure function beyond the lattice"));
    memset(d, 0, n * sizeof *d);
    for (int l = 0; l < p->nlayer; l++) {
        const double shift[2] = {apart[0] * p->h[l], apart[1] * p->h[l]};
        if (p->strength[l] == 0)
            continue;
        psf_structure_displaced(k->p, p->strength[l], p->L0[l], shift, d);
        if (shift[0] != 0 || shift[1] != 0)
            continue;
        TRY(psf_structure_beyond(k->p, p->L0[l], beyond));
        for (size_t i = 0; i < n; i++)
            d[i] -= p->strength[l] * beyond[i];
    }
done:
    free(beyond);
    return st;
}

/* Those of a direction with all of `optimise`, and with itself. */
static status fill_all(const job *k, const profile *p, const double dir[2]) {
    const size_t n = psf_sep_count(k->p);
    const double none[2] = {0, 0};
    status st = MOAO_OK;
    for (int d = 0; d < k->nd; d++) {
        const double apart[2] = {dir[0] - k->s->fit.dir[d][0], dir[1] - k->s->fit.dir[d][1]};
        TRY(fill_structure(k, p, apart, k->structure + (size_t)d * n));
    }
    st = fill_structure(k, p, none, k->structure + (size_t)k->nd * n);
done:
    return st;
}

/* cov = -D/2 of all points in direction d (nd: the last one) with points j .. j + n of the other.
 */
static void fill_columns(const job *k, int d, int j, int n) {
    psf_pair_columns(k->p, k->structure + (size_t)d * psf_sep_count(k->p), j, n, k->cov);
    for (int64_t i = 0; i < (int64_t)k->np * n; i++)
        k->cov[i] *= -0.5;
}

/* This rank's part of y, of which x'y x is that of sum_dd' F_d C_dd' F_d'': pairs of directions
 * count once, twice. */
static status add_commands(const comm *c, const job *k, const profile *p) {
    const int v = k->v, np = k->np;
    int turn = 0;
    status st = MOAO_OK;
    memset(k->y, 0, (size_t)v * (size_t)v * sizeof *k->y);
    for (int e = 0; e < k->nd; e++) {
        TRY(fill_all(k, p, k->s->fit.dir[e]));
        for (int j = 0; j < np; j += COLUMNS) {
            const int n = np - j < COLUMNS ? np - j : COLUMNS;
            if (turn++ % c->size != c->rank)
                continue;
            for (int d = 0; d <= e; d++) {
                fill_columns(k, d, j, n);
                cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, v, n, np, d < e ? 2 : 1,
                            k->f + (size_t)d * (size_t)np * (size_t)v, v, k->cov, np, d > 0, k->z,
                            v);
            }
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, v, v, n, 1, k->z, v,
                        k->f + ((size_t)e * (size_t)np + (size_t)j) * (size_t)v, v, 1, k->y, v);
        }
    }
done:
    return st;
}

/* --- a target */

/* Influence functions at all points, less their means, by rows of points: at the chosen ones into
 * some, or best += some'A_t/points. */
static void use_shapes(const job *k, bool choose) {
    const int v = k->v;
    if (!choose)
        memset(k->best, 0, (size_t)k->few * (size_t)k->np * sizeof *k->best);
    else
        memset(k->some, 0, (size_t)k->few * (size_t)v * sizeof *k->some);
    for (int m = 0; m < psf_mirrors(k->p); m++)
        for (int j = 0, i = 0; j < psf_lattice_rows(k->p); j++) {
            const psf_strip z = psf_influence(k->p, j, m, k->strip);
            for (; choose && i < k->few && k->at[i] < z.first + z.n; i++)
                memcpy(k->some + (size_t)i * (size_t)v + z.act,
                       k->strip + (size_t)(k->at[i] - z.first) * (size_t)z.nact,
                       (size_t)z.nact * sizeof *k->some);
            if (!choose && z.n > 0 && z.nact > 0)
                cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, k->few, z.n, z.nact,
                            1.0 / k->np, k->z + z.act, v, k->strip, z.nact, 1,
                            k->best + (size_t)z.first * (size_t)k->few, k->few);
        }
}

/* Rows of a (rows x n) less their means, or columns of its transpose. */
static void take_means(int n, int stride, int apart, int rows, double *a) {
    for (int r = 0; r < rows; r++) {
        double mean = 0;
        for (int i = 0; i < n; i++)
            mean += a[(size_t)r * (size_t)apart + (size_t)i * (size_t)stride] / n;
        for (int i = 0; i < n; i++)
            a[(size_t)r * (size_t)apart + (size_t)i * (size_t)stride] -= mean;
    }
}

/* sum_x (a C b')(x, x) of the chosen points, C between direction d of `structure` and the target's:
 * a, of the target's points, few x np; b, few x np. */
static double trace_of(const job *k, int d, const double *a, const double *b) {
    double sum = 0;
    for (int j = 0; j < k->np; j += COLUMNS) {
        const int n = k->np - j < COLUMNS ? k->np - j : COLUMNS;
        fill_columns(k, d, j, n);
        /* columns are points of the target, rows those of d: b C */
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, k->few, n, k->np, 1, b, k->few,
                    k->cov, k->np, 0, k->z, k->few);
        sum += cblas_ddot(k->few * n, k->z, 1, a + (size_t)j * (size_t)k->few, 1);
    }
    return sum;
}

/* A_t H_t and A_t F at the chosen points. */
static status see_target(const job *k, const double dir[2]) {
    const int v = k->v;
    const size_t size = (size_t)v * (size_t)v;
    status st;
    psf_aim(k->p, dir);
    memset(k->shape, 0, size * sizeof *k->shape);
    memset(k->mean, 0, (size_t)v * sizeof *k->mean);
    TRY(mirror_shapes(k->p, v, k->mean, k->shape));
    TRY(fitting_invert(k->s, v, k->shape));
    use_shapes(k, true);
    take_means(k->few, v, 1, v, k->some);
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, v, k->few, v, 1, k->shape, v, k->some, v,
                0, k->z, v);
    use_shapes(k, false);
    take_means(k->np, k->few, 1, k->few, k->best);
    cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, k->few, k->nd * k->np, v, 1, k->some, v,
                k->f, v, 0, k->of, k->few);
done:
    return st;
}

static status variance_of(const job *k, const profile *p, const double dir[2], double *out) {
    const size_t block = (size_t)k->few * (size_t)k->np;
    status st;
    TRY(see_target(k, dir));
    TRY(fill_all(k, p, dir));
    double sum = trace_of(k, k->nd, k->best, k->best);
    for (int d = 0; d < k->nd; d++)
        sum -= 2 * trace_of(k, d, k->best, k->of + (size_t)d * block);
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, k->v, k->few, k->v, 1, k->y, k->v,
                k->some, k->v, 0, k->z, k->v);
    sum += cblas_ddot(k->v * k->few, k->z, 1, k->some, 1);
    *out = fmax(0, sum / k->few);
done:
    return st;
}

/* --- life */

static void choose_points(job *k) {
    k->few = psf_thin(k->p, (size_t)k->np / FEW, k->at);
}

static status open_job(job *k) {
    const size_t v = (size_t)k->v, np = (size_t)k->np, nd = (size_t)k->nd;
    status st;
    TRY(ALLOC(k->at, np, "points of the pupil"));
    choose_points(k);
    const size_t few = (size_t)k->few;
    TRY(ALLOC(k->structure, (nd + 1) * psf_sep_count(k->p), "structure functions"));
    TRY(ALLOC(k->cov, np * COLUMNS, "covariances of phases"));
    TRY(ALLOC(k->z, v * (few > COLUMNS ? few : COLUMNS) + few * COLUMNS, "covariances of phases"));
    TRY(ALLOC(k->y, v * v, "commands of known phases"));
    TRY(ALLOC(k->shape, v * v, "shapes of the mirror"));
    TRY(ALLOC(k->mean, v, "shapes of the mirror"));
    TRY(ALLOC(k->some, v * few, "shapes of the mirror"));
    TRY(ALLOC(k->best, few * np, "shapes of the mirror"));
    TRY(ALLOC(k->of, few * np * nd, "shapes of commands"));
    TRY(ALLOC(k->strip, psf_influence_most(k->p), "influence functions"));
done:
    return st;
}

static void close_job(job *k) {
    double *const all[] = {k->structure, k->cov,  k->z,    k->y,  k->shape,
                           k->mean,      k->some, k->best, k->of, k->strip};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(k->at);
}

/* Collective. One profile or layer, of which this rank computes some targets. */
static status compute_part(const comm *c, job *k, generalised *g, int part) {
    const size_t v = (size_t)k->v;
    status st = add_commands(c, k, &g->parts[part]);
    TRY(comm_agree(c, st));
    comm_sum(c, k->y, v * v);
    for (int t = c->rank; t < k->s->ntarget && st == MOAO_OK; t += c->size)
        st = variance_of(k, &g->parts[part], k->s->targets[t],
                         &g->value[(size_t)t * (size_t)g->n + (size_t)part]);
    st = comm_agree(c, st);
done:
    return st;
}

status generalised_init(const comm *c, const sys *s, psf *p, const double *f, const atmos *a,
                        generalised *g) {
    job k = {.s = s, .p = p, .f = f, .v = sys_commands(s), .np = (int)sys_fit_rows(s)};
    status st;
    *g = (generalised){0};
    if (!sys_shares(s))
        return MOAO_OK;
    k.nd = s->fit.ndir;
    st = find_parts(a, g);
    if (st == MOAO_OK)
        st = ALLOC(g->value, (size_t)s->ntarget * (size_t)g->n, "generalised fitting");
    if (st == MOAO_OK)
        st = open_job(&k);
    TRY(comm_agree(c, st));
    for (int i = 0; i < g->n; i++)
        TRY(compute_part(c, &k, g, i));
    comm_sum(c, g->value, (size_t)s->ntarget * (size_t)g->n);
done:
    close_job(&k);
    if (st != MOAO_OK)
        generalised_free(g);
    return st;
}

void generalised_free(generalised *g) {
    for (int i = 0; g->parts != NULL && i < g->n; i++)
        profile_free(&g->parts[i]);
    free(g->parts);
    free(g->value);
    *g = (generalised){0};
}

/* --- what it takes */

static double few_of(double np) {
    return np < 3 * FEW ? np : 2 * FEW;
}

size_t generalised_bytes(const sys *s, const psf_opts *o) {
    const double v = sys_commands(s), np = (double)psf_points_of(s, o), nd = s->fit.ndir,
                 few = few_of(np);
    if (!sys_shares(s))
        return 0;
    return (size_t)((nd + 2) * (double)psf_sep_count_of(s, o) + np * (COLUMNS + 1) +
                    v * (2 * few + 2 * v + 2 + 1.5 * sqrt(np)) + few * (np * (nd + 1) + COLUMNS)) *
           sizeof(double);
}

double generalised_flops(const sys *s, const psf_opts *o, const atmos *a) {
    const double v = sys_commands(s), np = (double)psf_points_of(s, o), nd = s->fit.ndir,
                 few = few_of(np), all = nd * np;
    double most = 0;
    if (!sys_shares(s))
        return 0;
    for (int i = 0; i < a->nprofile; i++)
        most = fmax(most, a->profiles[i].nlayer);
    return fmin(most, a->nprofile) *
           (v * all * (all + np) + 2 * v * v * all +
            s->ntarget * (v * v * v + 2 * few * (all * (v + np) + v * np + v * v)));
}
