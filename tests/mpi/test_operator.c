/* ranks: 1 3
 * timeout: 300
 * A format of Cmm that the program does not know, in this file alone, runs the demo through the
 * executor: dense, by blocks of pairs of sensors. Its maps are those of the built-in dense format;
 * and of a variant whose T is rough, the check of the sampled target tightens it, or has the
 * reference take over. */
#include "job/run.h"
#include "operator/operator.h"

#include <fitsio.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static comm world;

/* --- the format */

typedef struct {
    linop base;
    int n;         /* sensors */
    double *l, *t; /* blocks of the factor and of T: block (a, b), a >= b, at at(a, b), packed */
    int64_t v;
    double grain; /* entries of T beside the diagonal blocks are multiples of it [arcsec^2]; 0: as
                     they are */
} blocks;

static int64_t first(const blocks *o, int a) {
    return a < o->n ? (int64_t)o->base.e->s->sensors[a].first : o->base.e->m;
}

static int64_t count(const blocks *o, int a) {
    return first(o, a + 1) - first(o, a);
}

/* Numbers before block (a, b): columns of blocks one after the other. */
static int64_t at(const blocks *o, int a, int b) {
    int64_t sum = 0;
    for (int k = 0; k < b; k++)
        sum += (o->base.e->m - first(o, k)) * count(o, k);
    return sum + (first(o, a) - first(o, b)) * count(o, b);
}

static void bytes(const linop_case *z, linop_bytes *b) {
    linop_add(b, "blocks of the factor and of T", 2 * z->s->m * z->s->m * sizeof(double));
    b->per_target = "W of a target";
    b->target = (size_t)z->rows * z->s->m * sizeof(double);
}

static void blocks_close(linop *base) {
    blocks *o = (blocks *)base;
    if (o == NULL)
        return;
    blocks_close(base->reference);
    base->e->be->release(base->e->ctx, o->l);
    base->e->be->release(base->e->ctx, o->t);
    free(o);
}

static status blocks_open(engine *e, const linop_setup *u, linop **out);

/* Every block (a, b) on or below the diagonal. */
static status fill(blocks *o, bool half, double *to) {
    engine *e = o->base.e;
    status st = MOAO_OK;
    for (int b = 0; b < o->n; b++)
        for (int a = b; a < o->n; a++)
            TRY(e->mat->fill_cmm(e->cov, BACKEND_D, half && a == b ? 'T' : 'A', MATCOV_ALL,
                                 first(o, a), count(o, a), first(o, b), count(o, b),
                                 to + at(o, a, b), count(o, a)));
done:
    return st;
}

/* L_ab, from left to right: what lies to the left of block column b is final. */
static status blocks_factor(linop *base, const profile *p, int *minor) {
    blocks *o = (blocks *)base;
    engine *e = base->e;
    const double one = 1;
    int info = 0;
    status st;
    TRY(engine_load(e, p));
    TRY(fill(o, false, o->l));
    for (int b = 0; b < o->n && info == 0; b++) {
        double *diagonal = o->l + at(o, b, b);
        for (int a = b; a < o->n; a++)
            for (int k = 0; k < b; k++)
                TRY(engine_gemm(e, 'N', 'T', count(o, a), count(o, b), count(o, k), -1.0,
                                o->l + at(o, a, k), count(o, a), o->l + at(o, b, k), count(o, b),
                                1.0, o->l + at(o, a, b), count(o, a)));
        TRY(e->be->potrf(e->ctx, BACKEND_D, 'L', count(o, b), diagonal, count(o, b), &info, NULL,
                         0));
        if (info > 0)
            *minor = (int)first(o, b) + info;
        for (int a = b + 1; a < o->n; a++)
            TRY(e->be->trsm(e->ctx, BACKEND_D, 'R', 'L', 'T', 'N', count(o, a), count(o, b), &one,
                            diagonal, count(o, b), o->l + at(o, a, b), count(o, a), NULL, 0));
    }
done:
    return st;
}

static status blocks_solve(linop *base, int n, const wrows *w, double *const *own) {
    blocks *o = (blocks *)base;
    engine *e = base->e;
    const double one = 1;
    status st = MOAO_OK;
    (void)own;
    for (int k = 0; k < n; k++)
        for (int step = 0; step < 2 * o->n; step++) {
            const bool forward = step < o->n;
            const int b = forward ? step : 2 * o->n - 1 - step;
            double *here = w[k].w + first(o, b) * w[k].ld;
            for (int a = forward ? 0 : b + 1; a < (forward ? b : o->n); a++)
                TRY(engine_gemm(e, 'N', forward ? 'T' : 'N', w[k].rows, count(o, b), count(o, a),
                                -1.0, w[k].w + first(o, a) * w[k].ld, w[k].ld,
                                o->l + (forward ? at(o, b, a) : at(o, a, b)),
                                forward ? count(o, b) : count(o, a), 1.0, here, w[k].ld));
            TRY(e->be->trsm(e->ctx, BACKEND_D, 'R', 'L', forward ? 'T' : 'N', 'N', w[k].rows,
                            count(o, b), &one, o->l + at(o, b, b), count(o, b), here, w[k].ld, NULL,
                            0));
        }
done:
    return st;
}

static status blocks_load(linop *base, const profile *p) {
    blocks *o = (blocks *)base;
    status st;
    (void)p;
    for (int b = 0; b < o->n; b++) /* fills leave alone what is above the diagonal */
        memset(o->t + at(o, b, b), 0, (size_t)(count(o, b) * count(o, b)) * sizeof(double));
    TRY(fill(o, true, o->t));
    for (int b = 0; b < o->n && o->grain > 0; b++)
        for (int64_t i = at(o, b, b) + count(o, b) * count(o, b); i < at(o, b + 1, b + 1); i++)
            o->t[i] = rint(o->t[i] / o->grain) * o->grain;
done:
    return st;
}

/* The parts of the columns that lie in each sensor. */
static status blocks_columns(linop *base, const wrows *w, int64_t j, int64_t n, double *z,
                             int64_t ldz) {
    const blocks *o = (const blocks *)base;
    engine *e = base->e;
    status st = MOAO_OK;
    for (int b = 0; b < o->n; b++) {
        const int64_t from = j > first(o, b) ? j : first(o, b);
        const int64_t to = j + n < first(o, b + 1) ? j + n : first(o, b + 1);
        for (int a = b; a < o->n && from < to; a++)
            TRY(engine_gemm(e, 'N', 'N', w->rows, to - from, count(o, a), 1.0,
                            w->w + first(o, a) * w->ld, w->ld,
                            o->t + at(o, a, b) + (from - first(o, b)) * count(o, a), count(o, a),
                            a > b, z + (from - j) * ldz, ldz));
    }
done:
    return st;
}

static int tightened;

static status rough_reduce_tolerance(linop *base, double excess, linop_step from,
                                     linop_step *again) {
    blocks *o = (blocks *)base;
    o->grain /= 4 * excess;
    (void)from;
    *again = ++tightened < 5 ? LINOP_LOAD : LINOP_NOTHING;
    return MOAO_OK;
}

static const linop_kind kind_blocks = {.size = sizeof(linop_kind),
                                       .name = "blocks",
                                       .exact = true,
                                       .bytes = bytes,
                                       .open = blocks_open,
                                       .close = blocks_close,
                                       .factor = blocks_factor,
                                       .solve = blocks_solve,
                                       .load = blocks_load,
                                       .columns = blocks_columns};
static linop_kind kind_rough,
    kind_stubborn; /* the same, not exact; the latter cannot be tightened */

static status new_blocks(engine *e, const linop_setup *u, const linop_kind *kind, linop **out) {
    blocks *o = NULL;
    status st = ALLOC(o, 1, "blocks");
    if (st == MOAO_OK) {
        *o = (blocks){.base = {.kind = kind, .e = e}, .n = e->s->nsensor, .v = u->size.rows};
        st = engine_doubles(e, at(o, o->n, o->n), "blocks", &o->l);
    }
    if (st == MOAO_OK)
        st = engine_doubles(e, at(o, o->n, o->n), "blocks", &o->t);
    *out = &o->base;
    return comm_agree(e->c, st);
}

static status blocks_open(engine *e, const linop_setup *u, linop **out) {
    return new_blocks(e, u, &kind_blocks, out);
}

/* The reference has a T of its own and the factor of this one, once that is there. */
static status open_rough(engine *e, const linop_setup *u, const linop_kind *kind, linop **out) {
    status st;
    TRY(new_blocks(e, u, kind, out));
    TRY(new_blocks(e, u, &kind_blocks, &(*out)->reference));
    ((blocks *)*out)->grain = 0.01; /* [arcsec^2]: a few percent of a slope's variance */
done:
    return st;
}

static status rough_open(engine *e, const linop_setup *u, linop **out) {
    return open_rough(e, u, &kind_rough, out);
}

static status stubborn_open(engine *e, const linop_setup *u, linop **out) {
    return open_rough(e, u, &kind_stubborn, out);
}

/* --- runs */

static char folder[64] = "/tmp/moao-operator-XXXXXX";

#define MOST 1000

typedef struct {
    int n;
    float strehl[MOST];
    char precision[16]; /* of the first exposure */
} outcome;

/* What a run's maps.fits says. */
static void read_maps(const char *path, outcome *o) {
    fitsfile *f = NULL;
    int bad = 0, column = 0, type = 0;
    long repeat = 0, width = 0, rows = 0;
    char *word = o->precision;
    fits_open_file(&f, path, READONLY, &bad);
    fits_movnam_hdu(f, BINARY_TBL, "TARGETS", 0, &bad);
    fits_get_num_rows(f, &rows, &bad);
    fits_get_colnum(f, CASEINSEN, "STREHL", &column, &bad);
    fits_get_coltype(f, column, &type, &repeat, &width, &bad);
    o->n = (int)(rows * repeat);
    assert_true(bad == 0 && o->n > 0 && o->n <= MOST);
    fits_read_col(f, TFLOAT, column, 1, 1, o->n, NULL, o->strehl, NULL, &bad);
    fits_movnam_hdu(f, BINARY_TBL, "EXPOSURES", 0, &bad);
    fits_get_colnum(f, CASEINSEN, "PRECISN", &column, &bad);
    fits_read_col(f, TSTRING, column, 1, 1, 1, NULL, &word, NULL, &bad);
    fits_close_file(f, &bad);
    assert_int_equal(bad, 0);
}

/* The demo, cut down, by an operator; its outcome on rank 0. */
static void run_by(const char *operator, outcome * o) {
    char out[128], path[160];
    snprintf(out, sizeof out, "%s/%s", folder, operator);
    snprintf(path, sizeof path, "%s/maps.fits", out);
    char *argv[] = {"run",
                    "params/demo.yaml",
                    "targets={grid: {nx: 3, ny: 1, width: 40}}",
                    "schedule={tor_times: [0], exposure_times: [0, 20 min]}",
                    "lgs_defaults.slope=points",
                    "ngs_defaults.slope=points",
                    "output.psf=none",
                    "-o",
                    out,
                    "-q"};
    cmdline cl = {0};
    setenv("MOAO_OPERATOR", operator, 1);
    assert_int_equal(cmdline_parse(sizeof argv / sizeof *argv, argv, "-o -q", &cl), MOAO_OK);
    const status st = run_all(&world, &cl);
    if (st != MOAO_OK)
        print_error("%s\n", status_message());
    assert_int_equal(st, MOAO_OK);
    cmdline_free(&cl);
    if (world.rank == 0)
        read_maps(path, o);
}

static outcome dense;

/* Largest difference of Strehl ratios from those of the dense operator. */
static double gap(const outcome *o) {
    double most = 0;
    assert_int_equal(o->n, dense.n);
    for (int i = 0; i < o->n; i++) {
        assert_true(dense.strehl[i] > 0.05 && dense.strehl[i] < 1);
        most = fmax(most, fabs((double)o->strehl[i] - (double)dense.strehl[i]));
    }
    return most;
}

static void test_demo(void **state) {
    outcome o = {0};
    (void)state;
    run_by("dense", &dense);
    run_by("blocks", &o);
    assert_true(gap(&o) < 3e-7); /* single precision in the file */
    if (world.rank == 0)
        assert_string_equal(o.precision, "double");
}

/* A rough T is noticed on the sampled target, and made finer until that is within the tolerance. */
static void test_reduces_tolerance(void **state) {
    outcome o = {0};
    (void)state;
    run_by("rough", &o);
    assert_true(tightened > 0 && tightened < 5);
    if (world.rank == 0)
        assert_string_equal(o.precision, "mixed");
    assert_true(gap(&o) < 1e-3);
}

/* Where it cannot be made finer, all targets are computed with the reference. */
static void test_falls_back(void **state) {
    outcome o = {0};
    (void)state;
    run_by("stubborn", &o);
    assert_true(gap(&o) < 3e-7);
    if (world.rank == 0)
        assert_string_equal(o.precision, "double");
}

/* A table of another version, and a second one of a name, are refused. */
static void test_registry(void **state) {
    linop_kind other = kind_blocks;
    (void)state;
    assert_int_equal(linop_register(&kind_blocks), MOAO_INPUT);
    other.name = "longer";
    other.size++;
    status_clear();
    assert_int_equal(linop_register(&other), MOAO_INPUT);
    assert_null(linop_find("longer"));
    status_clear();
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    if (world.rank == 0 && mkdtemp(folder) == NULL)
        return 1;
    comm_bcast(&world, folder, sizeof folder);
    setenv("MOAO_RESIDENT_BACKEND", "cpu", 1);
    kind_rough = kind_stubborn = kind_blocks;
    kind_rough.name = "rough";
    kind_stubborn.name = "stubborn";
    kind_rough.exact = kind_stubborn.exact = false;
    kind_rough.open = rough_open;
    kind_stubborn.open = stubborn_open;
    kind_rough.tighten = rough_reduce_tolerance;
    if (linop_register(&kind_blocks) != MOAO_OK || linop_register(&kind_rough) != MOAO_OK ||
        linop_register(&kind_stubborn) != MOAO_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo), cmocka_unit_test(test_reduces_tolerance),
        cmocka_unit_test(test_falls_back), cmocka_unit_test(test_registry)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (world.rank == 0 && system(command) != 0)
        failed++;
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
