/* Fitting error and aliasing. With IF the influence functions at the points, M = I - 11'/points,
 * A = M IF and G = A'A/points,
 *
 *     fitting               fitting.c
 *     fitting and aliasing  V[phi - IF D+ s_t] = V[phi] + <D+'G D+, Ctt> - 2/points <A D+, Cpt>
 *
 * What multiplies Ctt and Cpt depends on the mirror alone, and is used for every outer scale at
 * once. Direction and altitude do not matter, so a layer of strength 1 on the ground stands for all
 * of an outer scale. The truth sensor's part is computed in truth.c. */
#include "budget/aliasing.h"

#include "base/background.h"
#include "budget/fitting.h"
#include "budget/truth.h"

#include <math.h>
#include <semaphore.h>
#include <stdlib.h>

#define MOST_SCALES 16 /* outer scales, before they are taken from a table */

/* --- outer scales */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Different ones of all layers; where they are many, steps of their logarithm. */
static status find_scales(const atmos *a, mirror_budget *b) {
    size_t most = MOST_SCALES + 1;
    int n = 0;
    status st;
    for (int i = 0; i < a->nprofile; i++)
        most += (size_t)a->profiles[i].nlayer;
    TRY(ALLOC(b->L0, most, "outer scales"));
    for (int i = 0; i < a->nprofile; i++)
        for (int l = 0; l < a->profiles[i].nlayer; l++)
            if (a->profiles[i].strength[l] > 0)
                b->L0[n++] = a->profiles[i].L0[l];
    qsort(b->L0, (size_t)n, sizeof *b->L0, by_size);
    for (int i = 0; i < n; i++)
        if (b->n == 0 || b->L0[i] > b->L0[b->n - 1])
            b->L0[b->n++] = b->L0[i];
    const int infinite = b->n > 0 && isinf(b->L0[b->n - 1]);
    if (b->n - infinite > MOST_SCALES) {
        const double low = b->L0[0], ratio = b->L0[b->n - 1 - infinite] / low;
        for (int i = 0; i < MOST_SCALES; i++)
            b->L0[i] = low * pow(ratio, i / (MOST_SCALES - 1.0));
        b->L0[MOST_SCALES] = INFINITY;
        b->n = MOST_SCALES + infinite;
    }
    TRY(ALLOC(b->fitting, (size_t)b->n * (size_t)b->ndir, "fitting errors"));
    TRY(ALLOC(b->aliasing, (size_t)b->n, "aliasing"));
done:
    return st;
}

static double value_at(const mirror_budget *b, const double *of, double L0) {
    int i = 0;
    while (i < b->n - 1 && b->L0[i] < L0 * (1 - 1e-12))
        i++;
    if (i == 0 || isinf(L0) || fabs(b->L0[i] - L0) <= 1e-12 * L0)
        return of[i];
    const double x = log(L0 / b->L0[i - 1]) / log(b->L0[i] / b->L0[i - 1]);
    return of[i - 1] + x * (of[i] - of[i - 1]);
}

void mirror_budget_of(const mirror_budget *b, const profile *p, int target, double *fitting,
                      double *aliasing, double *more) {
    const double *of = b->fitting + (b->ndir > 1 ? (size_t)target * (size_t)b->n : 0);
    *fitting = *aliasing = 0;
    *more = generalised_of(&b->more, p, target);
    for (int l = 0; l < p->nlayer; l++)
        if (p->strength[l] > 0) {
            *fitting += p->strength[l] * value_at(b, of, p->L0[l]);
            *aliasing += p->strength[l] * value_at(b, b->aliasing, p->L0[l]);
        }
}

/* --- life */

/* Of psf.residual: sensor. */
static status init_of_sensor(const sys *s, const psf *p, mirror_budget *b) {
    const size_t v = (size_t)s->dm.nact;
    double strength = 1, none = 0;
    status st;
    TRY(ALLOC(b->influence, v * v, "shapes of the mirror"));
    psf_variance_weights(p, b->influence);
    for (int i = 0; i < b->n; i++) {
        const profile one = {.nlayer = 1, .h = &none, .L0 = &b->L0[i], .strength = &strength};
        TRY(psf_fit_ideal(p, &one, &b->fitting[i]));
    }
done:
    return st;
}

/* Into sums[n]: this rank's part of V[phi - IF D+ s_t]. */
static status add_uncorrected(const comm *c, const sys *s, const psf *p, const double *dplus,
                              const mirror_budget *b, const double *mean, double *sums) {
    double *d = NULL, strength = 1, none = 0;
    status st;
    TRY(ALLOC(d, psf_sep_count(p), "structure function by separation"));
    for (int i = 0; c->rank == 0 && i < b->n; i++) {
        const profile one = {.nlayer = 1, .h = &none, .L0 = &b->L0[i], .strength = &strength};
        TRY(psf_structure(p, &one, d));
        sums[i] = 0.5 * psf_pair_mean(p, d);
    }
    st = truth_variance(c, s, p, dplus, mean, b->n, b->L0, sums);
done:
    free(d);
    return st;
}

/* This rank's part of fitting error and aliasing, in a thread of its own or not. */
typedef struct mirror_work {
    comm c; /* of this rank: its number among how many, threads */
    const sys *s;
    psf *p;
    const double *dplus;
    const mirror_budget *b;
    double *mean; /* [v] of the influence functions */
    double *sums; /* [n ndir] what fitting leaves, [n] fitting and aliasing */
    background thread;
    sem_t shaped;  /* G is there, or will not be */
    sem_t command; /* D+ exists, or will not (dropped), for which the thread `waits` */
    bool waits, posted, dropped, waited, done;
    status shape_st, st;
} mirror_work;

/* A signal interrupts it. */
static void wait_for(sem_t *s) {
    while (sem_wait(s) != 0)
        continue;
}

static status do_work(void *of) {
    mirror_work *k = of;
    const mirror_budget *b = k->b;
    status st;
    psf_aim(k->p, (double[2]){0, 0}); /* nothing where a thread computes (may_run_apart) */
    st = mirror_shapes(k->p, sys_commands(k->s), k->mean, b->influence);
    k->shape_st = st;
    sem_post(&k->shaped);
    if (st != MOAO_OK)
        return st;
    TRY(fitting_variance(&k->c, k->s, k->p, b->n, b->L0, k->sums));
    if (k->waits)
        wait_for(&k->command);
    if (!k->s->fit.phase && !k->dropped)
        st = add_uncorrected(&k->c, k->s, k->p, k->dplus, b, k->mean, k->sums + b->n * b->ndir);
done:
    return st;
}

static void post_command(mirror_work *k, bool dropped) {
    if (!k->waits || k->posted)
        return;
    k->dropped = dropped;
    k->posted = true;
    sem_post(&k->command);
}

static void free_work(mirror_work *k) {
    if (k == NULL)
        return;
    post_command(k, true);
    background_drop(&k->thread);
    sem_destroy(&k->shaped);
    sem_destroy(&k->command);
    free(k->mean);
    free(k->sums);
    free(k);
}

static status begin_of_phase(const comm *c, const sys *s, psf *p, const double *dplus,
                             mirror_budget *b) {
    const size_t v = (size_t)sys_commands(s), n = (size_t)b->n;
    mirror_work *k = NULL;
    status st;
    TRY(ALLOC(k, 1, "error budget"));
    *k = (mirror_work){.c = *c, .s = s, .p = p, .dplus = dplus, .b = b};
    sem_init(&k->shaped, 0, 0);
    sem_init(&k->command, 0, 0);
    b->work = k;
    TRY(ALLOC(k->sums, n * (size_t)b->ndir + n, "variances"));
    TRY(ALLOC(k->mean, v, "influence functions"));
    TRY(ALLOC(b->influence, v * v, "shapes of the mirror"));
done:
    return st;
}

/* Whether what a run on devices does meanwhile leaves p and BLAS on the host alone. */
static bool may_run_apart(const sys *s, const psf *p) {
    return !sys_is_aloft(s) && !psf_on_host(p) && !s->fit.split.on && !sys_low_follows(s);
}

bool mirror_budget_is_early(const sys *s, const psf *p) {
    return psf_is_phase(p) && !sys_shares(s) && !s->fit.phase && may_run_apart(s, p);
}

enum { AT_ONCE, APART, EARLY };

static status begin(const comm *c, const sys *s, psf *p, const double *dplus, const atmos *a,
                    int when, mirror_budget *b) {
    status st;
    *b = (mirror_budget){.ndir = psf_is_phase(p) ? fitting_directions(s) : 1};
    st = find_scales(a, b);
    if (st == MOAO_OK)
        st = psf_is_phase(p) ? begin_of_phase(c, s, p, dplus, b) : init_of_sensor(s, p, b);
    TRY(comm_agree(c, st));
    if (psf_is_phase(p)) /* aims p, and gathers over the ranks */
        TRY(generalised_init(c, s, p, dplus, a, &b->more));
    if (b->work != NULL && when != AT_ONCE && may_run_apart(s, p)) {
        b->work->waits = when == EARLY;
        /* who feeds a device has a core of its own */
        background_begin(&b->work->thread, c->threads - (c->threads > 2), do_work, b->work);
    } else {
        st = mirror_budget_end(c, b);
    }
done:
    if (st != MOAO_OK)
        mirror_budget_free(b);
    return st;
}

status mirror_budget_begin(const comm *c, const sys *s, psf *p, const double *dplus, const atmos *a,
                           mirror_budget *b) {
    return begin(c, s, p, dplus, a, APART, b);
}

status mirror_budget_begin_early(const comm *c, const sys *s, psf *p, const double *dplus,
                                 const atmos *a, mirror_budget *b) {
    return begin(c, s, p, dplus, a, EARLY, b);
}

void mirror_budget_command(mirror_budget *b) {
    if (b->work != NULL)
        post_command(b->work, false);
}

status mirror_budget_init(const comm *c, const sys *s, psf *p, const double *dplus, const atmos *a,
                          mirror_budget *b) {
    return begin(c, s, p, dplus, a, AT_ONCE, b);
}

/* Waits for the thread, or computes where there is none. */
static void finish(mirror_work *k) {
    if (k->done)
        return;
    k->st = k->thread.work != NULL ? background_end(&k->thread) : do_work(k);
    k->done = true;
}

status mirror_budget_shapes(const mirror_budget *b) {
    mirror_work *k = b->work;
    if (k == NULL)
        return MOAO_OK;
    if (!k->thread.started)
        finish(k);
    if (!k->waited)
        wait_for(&k->shaped);
    k->waited = true;
    if (k->shape_st != MOAO_OK)
        finish(k);
    return k->shape_st;
}

status mirror_budget_end(const comm *c, mirror_budget *b) {
    mirror_work *k = b->work;
    const size_t n = (size_t)b->n, all = n * (size_t)b->ndir;
    status st = MOAO_OK;
    if (k == NULL)
        return st;
    finish(k);
    TRY(comm_agree(c, k->st));
    comm_sum(c, k->sums, all + n);
    for (size_t i = 0; i < all; i++)
        b->fitting[i] = k->sums[i];
    for (size_t i = 0; i < n; i++)
        b->aliasing[i] = k->s->fit.phase ? 0 : k->sums[all + i] - k->sums[i];
done:
    free_work(k);
    b->work = NULL;
    return st;
}

void mirror_budget_free(mirror_budget *b) {
    free_work(b->work);
    free(b->L0);
    free(b->fitting);
    free(b->aliasing);
    free(b->influence);
    generalised_free(&b->more);
    *b = (mirror_budget){0};
}

/* --- what it takes */

size_t mirror_budget_bytes(const sys *s) {
    return (size_t)sys_commands(s) * (size_t)sys_commands(s) * sizeof(double);
}

size_t mirror_budget_work(const sys *s, const psf_opts *o) {
    if (!o->phase)
        return 0;
    const size_t truth =
                     s->fit.phase ? generalised_bytes(s, o) : truth_bytes(s, psf_points_of(s, o)),
                 fitting = fitting_bytes(s, o);
    return truth > fitting ? truth : fitting;
}

double mirror_budget_flops(const sys *s, const psf_opts *o, const atmos *a) {
    if (!o->phase)
        return 0;
    return fitting_flops(s, o) +
           (s->fit.phase ? generalised_flops(s, o, a) : truth_flops(s, psf_points_of(s, o)));
}
