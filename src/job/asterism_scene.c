#include "job/asterism_scene.h"

#include "job/setup.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

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

status ast_scene_init(const ast_job *j, ast_scene *u) {
    const int full = j->par.dm_nssp, n = j->par.sensors.n;
    params less = j->par; /* the same lists, and sensors of fewer subapertures */
    status st;
    *u = (ast_scene){0};
    TRY(ALLOC(less.sensors.v, (size_t)n + 1, "sensors"));
    for (int i = 0; i < n; i++) {
        less.sensors.v[i] = j->par.sensors.v[i];
        less.sensors.v[i].nssp = reduced(j->par.sensors.v[i].nssp, j->order, full);
    }
    less.dm_nssp = j->order;
    st = sys_init(&less, &u->s);
    free(less.sensors.v);
    TRY(st);
    TRY(atmos_init(&j->par, &u->s, &u->a));
    u->p = median_profile(&u->a);
    params_psf_opts(&j->par, &u->o);
    u->fit_share = pow((double)j->order / full, 5.0 / 3);
done:
    return st;
}

void ast_scene_free(ast_scene *u) {
    atmos_free(&u->a);
    sys_free(&u->s);
}

/* --- figures of the best from their images --- */

void ast_painter_free(ast_painter *p) {
    for (int i = 0; i < p->nthread; i++) {
        if (p->q != NULL)
            ast_images_free(p->q[i]);
        if (p->value != NULL)
            free(p->value[i]);
    }
    free(p->q);
    free(p->value);
}

status ast_painter_init(ast_painter *p, const ast_scene *u) {
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

status ast_paint(ast_painter *p, ast_list *l, int from, int to) {
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
