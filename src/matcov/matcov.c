#include "matcov.h"

#include "aged.h"
#include "base/fault.h"
#include "formula.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The first of the pairs of sensors. */
static status choose_rows(matcov *mc) {
    status st = MOAO_OK;
    mc->rows = mc->feet;
    if (!mc->lay.aged)
        goto done;
    mc->rows = NULL;
    TRY(ALLOC(mc->rows, (size_t)mc->nsensor, "footprints"));
    memcpy(mc->rows, mc->feet, (size_t)mc->nsensor * sizeof *mc->rows);
    for (int w = 0; w < mc->nsensor; w++)
        mc->rows[w].drifts = true;
done:
    return st;
}

/* What every rank prepares alike: geometry, layers, tables of the structure functions; targets: of
 * the truth sensor and the phase too. Room for noise, and with `noise` the profile's. */
static status prepare(const sys *s, const profile *p, bool targets, bool noise, matcov *mc) {
    status st;
    mc->s = s;
    mc->p = p;
    TRY(structure_table_init(&mc->karman, 0));
    TRY(structure_table_init(&mc->kolmogorov, 1));
    TRY(layers_init(p, s->delay, &mc->karman, &mc->kolmogorov, &mc->lay));
    mc->slopes = mc->phase = mc->lay;
    mc->slopes.coef = mc->lay.coef_slopes[0][0];
    mc->phase.coef = mc->lay.coef_phase[0];
    TRY(ALLOC(mc->feet, (size_t)s->nsensor, "footprints"));
    mc->nsensor = s->nsensor;
    for (int w = 0; w < s->nsensor; w++) {
        TRY(footprint_init(s, &s->sensors[w], &mc->feet[w]));
        TRY(outline_init(s, &s->sensors[w], &mc->feet[w]));
    }
    sensor ts = truth_sensor(s, (double[2]){0.0, 0.0});
    TRY(footprint_init(s, &ts, &mc->ts));
    mc->ts.loop = -1;
    TRY(ALLOC(mc->noise, 3 * (s->m / 2), "noise of the sensors"));
    TRY(ALLOC(mc->tiptilt, (size_t)s->nsensor, "tip-tilt of laser stars"));
    if (noise)
        TRY(noise_of_profile(s, p, mc->noise, mc->tiptilt));
    mc->ts.kind = -1;
    TRY(gradients_init(mc->feet, mc->nsensor, targets ? &mc->ts : NULL, &mc->lay, &mc->kolmogorov,
                       &mc->means));
    TRY(choose_rows(mc));
    TRY(lattice_table_plan(mc->rows, mc->nsensor, mc->feet, mc->nsensor, true, false, &mc->pairs));
    TRY(lattice_table_plan(&mc->ts, 1, &mc->ts, 1, false, false, &mc->self));
done:
    return st;
}

/* Where the loop is closed. */
static status make_aged(matcov *mc) {
    return mc->aged == NULL && aged_wanted(mc) ? aged_make(mc, &mc->aged) : MOAO_OK;
}

/* Rank r computes tables first[r] <= i < first[r+1] of n. */
static int share(const comm *c, int rank, int n) {
    return (int)((int64_t)n * rank / c->size);
}

/* Collective. Every rank gets every table from the rank that computed it. */
static void gather(const comm *c, lattice_table *k) {
    for (int rank = 0; rank < c->size; rank++)
        for (int i = share(c, rank, k->ntable); i < share(c, rank + 1, k->ntable); i++) {
            const like *t = &k->tables[i];
            int kinds = t->steps[0] == t->steps[1] ? LIKE_KINDS - 1 : LIKE_KINDS;
            MPI_Bcast(t->value[0], kinds * t->n * t->n, MPI_DOUBLE, rank, c->mpi);
        }
}

status matcov_init(const comm *c, const sys *s, const profile *p, matcov **mc) {
    status st;
    *mc = NULL;
    st = ALLOC(*mc, 1, "covariances");
    if (st == MOAO_OK)
        st = comm_fault(c, "matcov");
    if (st == MOAO_OK)
        st = prepare(s, p, true, true, *mc);
    if (st == MOAO_OK)
        st = lattice_table_allocate(&(*mc)->pairs);
    if (st == MOAO_OK)
        st = lattice_table_allocate(&(*mc)->self);
    if (st == MOAO_OK)
        st = make_aged(*mc);
    if (st == MOAO_OK)
        st = lattice_table_compute(&(*mc)->pairs, &(*mc)->slopes, &(*mc)->means, (*mc)->aged,
                                   share(c, c->rank, (*mc)->pairs.ntable),
                                   share(c, c->rank + 1, (*mc)->pairs.ntable));
    if (st == MOAO_OK)
        st = lattice_table_compute(&(*mc)->self, &(*mc)->lay, &(*mc)->means, NULL, 0,
                                   (*mc)->self.ntable);
    TRY(comm_agree(c, st));
    gather(c, &(*mc)->pairs);
done:
    if (st != MOAO_OK) {
        matcov_free(*mc);
        *mc = NULL;
    }
    return st;
}

status prepare_profile(const sys *s, const profile *p, bool noise, matcov **mc) {
    status st;
    TRY(ALLOC(*mc, 1, "covariances"));
    TRY(prepare(s, p, true, noise, *mc));
done:
    if (st != MOAO_OK) {
        matcov_free(*mc);
        *mc = NULL;
    }
    return st;
}

status matcov_prepare(const sys *s, const profile *p, matcov **mc) {
    return prepare_profile(s, p, true, mc);
}

status matcov_prepare_clusters(const sys *s, const profile *p, matcov **mc) {
    bool points = false;
    status st;
    for (int w = 0; w < s->nsensor; w++)
        points = points || !s->sensors[w].gradient;
    TRY(ALLOC(*mc, 1, "covariances"));
    TRY(prepare(s, p, points, true, *mc)); /* points and mean gradients meet by the phase */
    if (points)
        TRY(matcov_tabulate(*mc));
done:
    if (st != MOAO_OK) {
        matcov_free(*mc);
        *mc = NULL;
    }
    return st;
}

status matcov_tabulate(matcov *mc) {
    status st = MOAO_OK;
    lattice_table *const all[] = {&mc->pairs, &mc->self};
    const layers *const lay[] = {&mc->slopes, &mc->lay};
    TRY(make_aged(mc));
    for (int i = 0; i < 2; i++)
        if (all[i]->values == NULL) {
            TRY(lattice_table_allocate(all[i]));
            TRY(lattice_table_compute(all[i], lay[i], &mc->means, i == 0 ? mc->aged : NULL, 0,
                                      all[i]->ntable));
        }
done:
    return st;
}

void matcov_free(matcov *mc) {
    if (mc == NULL)
        return;
    lattice_table_free(&mc->self);
    lattice_table_free(&mc->pairs);
    aged_free(mc->aged);
    gradients_free(&mc->means);
    free(mc->tiptilt);
    free(mc->noise);
    footprint_free(&mc->ts);
    for (int w = 0; w < mc->nsensor; w++)
        footprint_free(&mc->feet[w]);
    if (mc->rows != mc->feet)
        free(mc->rows); /* which borrows */
    free(mc->feet);
    layers_free(&mc->lay);
    free(mc);
}

/* Add the noise covariances (xx, yy, xy of each subaperture) of sensor w to a block, `share` of
 * them between its columns and the rows of `with`, the same sensor or a copy of it. */
static void add_noise(const matcov *mc, int w, int with, double share, cov_block b) {
    const sensor *o = &mc->s->sensors[w];
    const size_t rows = mc->s->sensors[with].first;
    const size_t n = (size_t)o->nsub, last = b.j0 + b.nj,
                 end = o->first + 2 * n < last ? o->first + 2 * n : last;
    for (size_t col = o->first > b.j0 ? o->first : b.j0; col < end; col++) {
        size_t j = col - o->first, k = j % n;
        const double *v = mc->noise + 3 * (o->first / 2 + k);
        double *to = b.a + (col - b.j0) * b.ld;
        size_t row[2] = {rows + k, rows + n + k};
        double add[2] = {share * (j < n ? v[0] : v[2]), share * (j < n ? v[2] : v[1])};
        for (int i = 0; i < 2; i++)
            if (row[i] >= b.i0 && row[i] < b.i0 + b.ni)
                to[row[i] - b.i0] += add[i];
    }
}

/* Reconstructors of a split system know no time: each copy of the sensors, of so many slopes, has
 * its own. */
static void part_delays(size_t slopes, cov_block b) {
    for (size_t j = 0; j < b.nj; j++)
        for (size_t i = 0; i < b.ni; i++)
            if ((b.i0 + i) / slopes != (b.j0 + j) / slopes)
                b.a[i + j * b.ld] = 0;
}

/* Copies of a sensor with different loops have frames in common. */
static void add_shared_noise(const matcov *mc, cov_block b) {
    const int stars = sys_stars(mc->s);
    for (int w = 0; mc->p->loop[0] != NULL && w < mc->nsensor; w++)
        for (int v = w % stars; v < mc->nsensor; v += stars) {
            const loop_filter *f = profile_loop(mc->p, mc->s->sensors[w].loop);
            if (v != w)
                add_noise(mc, w, v,
                          loop_shared_noise(f, profile_loop(mc->p, mc->s->sensors[v].loop)) /
                              f->noise,
                          b);
        }
}

/* Copies of a laser star's sensor miss the same tip-tilt. */
static void add_shared_tiptilt(const matcov *mc, cov_block b) {
    const sys *s = mc->s;
    const size_t slopes = sys_slopes(s);
    for (size_t j = b.j0; j < b.j0 + b.nj; j++) {
        int w, axis, isub;
        sys_slope_at(s, j, &w, &axis, &isub);
        const size_t nsub = (size_t)s->sensors[w].nsub, copy = j / slopes,
                     first = s->sensors[w].first % slopes + (size_t)axis * nsub;
        for (size_t c = 0; mc->tiptilt[w] != 0 && c < s->m / slopes; c++)
            for (size_t k = 0; c != copy && k < nsub; k++) {
                const size_t i = c * slopes + first + k;
                if (i >= b.i0 && i < b.i0 + b.ni)
                    b.a[i - b.i0 + (j - b.j0) * b.ld] += mc->tiptilt[w];
            }
    }
}

status fill_cmm_with(const matcov *mc, unsigned with, cov_block b) {
    fill_source src = {.rows = mc->rows,
                       .cols = mc->feet,
                       .nrow = mc->nsensor,
                       .ncol = mc->nsensor,
                       .pairs = &mc->pairs,
                       .lay = &mc->slopes,
                       .means = &mc->means,
                       .aged = mc->aged,
                       .constant = with & MATCOV_TIPTILT ? mc->tiptilt : NULL};
    status st = fill_block(&src, b);
    for (int w = 0; with & MATCOV_NOISE && st == MOAO_OK && w < mc->nsensor; w++)
        add_noise(mc, w, w, 1, b);
    if (with & MATCOV_NOISE && st == MOAO_OK)
        add_shared_noise(mc, b);
    if (with & MATCOV_TIPTILT && st == MOAO_OK && mc->s->fit.split.copies > 0)
        add_shared_tiptilt(mc, b);
    if (mc->s->fit.split.copies > 0 && mc->p->of_tor)
        part_delays(sys_slopes(mc->s), b);
    return st;
}

status matcov_fill_cmm(const matcov *mc, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                       size_t ld) {
    return fill_cmm_with(mc, MATCOV_ALL, (cov_block){i0, ni, j0, nj, a, ld});
}

status matcov_fill_ctt(const matcov *mc, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                       size_t ld) {
    fill_source src = {.rows = &mc->ts,
                       .cols = &mc->ts,
                       .nrow = 1,
                       .ncol = 1,
                       .pairs = &mc->self,
                       .lay = &mc->lay,
                       .means = &mc->means};
    return fill_block(&src, (cov_block){i0, ni, j0, nj, a, ld});
}

status matcov_target_init(const matcov *mc, const double dir[2], bool shifted, matcov_target **mt) {
    status st;
    TRY(ALLOC(*mt, 1, "covariances of a target"));
    matcov_target *t = *mt;
    t->mc = mc;
    t->ts = mc->ts;
    memcpy(t->ts.dir, dir, sizeof t->ts.dir);
    t->ts.drifts = shifted;
    TRY(lattice_table_plan(&t->ts, 1, mc->feet, mc->nsensor, false, true, &t->pairs));
    TRY(lattice_table_compute(&t->pairs, &mc->phase, &mc->means, NULL, 0, t->pairs.ntable));
done:
    if (st != MOAO_OK) {
        matcov_target_free(*mt);
        *mt = NULL;
    }
    return st;
}

void matcov_target_free(matcov_target *mt) {
    if (mt == NULL)
        return;
    lattice_table_free(&mt->pairs);
    free(mt);
}

static fill_source of_target(const matcov_target *mt) {
    const matcov *mc = mt->mc;
    return (fill_source){.rows = &mt->ts,
                         .cols = mc->feet,
                         .nrow = 1,
                         .ncol = mc->nsensor,
                         .pairs = &mt->pairs,
                         .lay = &mc->phase,
                         .means = &mc->means};
}

status matcov_fill_ctm(const matcov_target *mt, size_t j0, size_t nj, double *a, size_t ld) {
    const fill_source src = of_target(mt);
    return fill_block(&src, (cov_block){0, 2 * (size_t)mt->ts.nsub, j0, nj, a, ld});
}

status matcov_fill_ctm_both(const matcov_target *mt, matcov_slopes k, double *a, size_t ld) {
    const fill_source src = of_target(mt);
    return fill_block_axes(&src, 2 * (size_t)mt->ts.nsub, k, a, ld);
}
