/* Tables by layer (obsseq/layer_tables.h): whether they pay, and what they take. From counts. */
#include "job/plan.h"

#include "base/machine_constants.h"
#include "obsseq/budget.h"

#include <math.h>

/* Columns that a point of a layer is interpolated from: along y 6 for each of 1.5 places a point, 6
 * along x. */
#define TAPS 15

/* Evaluations that a look-up of sums over ages takes as much time as. */
#define AGED 2.0

void plan_count_ages(const sys *s, const atmos *a, double *slopes, double *phase) {
    const bool summed = matcov_sums_ages(s);
    *slopes = *phase = 0;
    for (int i = 0; i < a->nprofile; i++) {
        const profile *p = &a->profiles[i];
        double of[2] = {0, 0};
        for (int l = 0; l < p->nlayer; l++)
            for (int k = 0; k < 2 && p->strength[l] > 0; k++) {
                const double n = matcov_ages(p, l, k == 0);
                of[k] += k == 0 && summed ? fmin(n, AGED) : n;
            }
        *slopes = fmax(*slopes, of[0]);
        *phase = fmax(*phase, of[1]);
    }
}

static bool takes_lag(const request *q, const profile *p) {
    return q->o->budget && budget_lags(q->s, p) && !budget_by_totals(q->s, p);
}

/* Time that they save, of one core [s]. */
static double saved(const request *q) {
    const double m = (double)q->s->m, v = sys_commands(q->s), points = (double)q->points;
    double slopes, phase;
    plan_count_ages(q->s, q->a, &slopes, &phase);
    const double direct = points * m * (phase * MACHINE_EVALUATION + 2 * v * MACHINE_FLOP),
                 made = m * (q->layers.evaluations * MACHINE_EVALUATION +
                             q->layers.columns * 2 * v * MACHINE_FLOP),
                 target = plan_look_up_flops(q) * MACHINE_FLOP;
    return q->a->nexposure * (q->s->ntarget * (direct - target) - direct - made);
}

status plan_count_layers(request *q) {
    status st = MOAO_OK;
    q->layers = (layer_tables_size){0};
    q->layers_kept = -1;
    q->layers_pay = false;
    if (!sys_shares(q->s) || !q->o->phase)
        goto done;
    for (int i = 0; i < q->a->nprofile; i++) {
        const profile *p = &q->a->profiles[i];
        layer_tables_size z;
        TRY(layer_tables_count(q->s, p, q->points, takes_lag(q, p), &z));
        q->layers.columns = fmax(q->layers.columns, z.columns);
        q->layers.evaluations = fmax(q->layers.evaluations, z.evaluations);
    }
    q->layers_pay = saved(q) >= q->par->compute_auto_saves;
done:
    return st;
}

bool plan_wants_layers(const request *q) {
    if (q->layers.columns == 0)
        return false;
    if (q->layers_kept >= 0)
        return q->layers_kept > 0;
    return q->par->compute_phase == PHASE_PARAM_LAYERS ||
           (q->par->compute_phase == PHASE_PARAM_AUTO && q->layers_pay);
}

double plan_layers_value(const request *q, double value) {
    return q->layers.evaluations * (double)q->s->m * value;
}

double plan_layers_flops(const request *q) {
    return 2 * q->layers.columns * sys_commands(q->s) * (double)q->s->m;
}

double plan_look_up_flops(const request *q) {
    return 2.0 * TAPS * q->nlayer * (double)q->points * sys_commands(q->s);
}
