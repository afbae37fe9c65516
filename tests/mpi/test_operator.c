/* ranks: 1 3
 * timeout: 300
 * A factor and a product that the program does not know, in this file alone, run the demo through
 * the executor: dense, by blocks of pairs of sensors. Its maps are those of the built-in dense
 * pair, also where the product is built in; and of a variant whose T is rough, the check of
 * the sampled target tightens it, or has the reference take over. */
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

typedef struct { /* blocks (a, b), a >= b, of pairs of sensors */
    const engine *e;
    int n;     /* sensors */
    double *a; /* block (a, b) at at(a, b), packed */
} blocks;

typedef struct {
    factor base;
    blocks l;
} block_factor;

typedef struct {
    product base;
    blocks t;
    double grain; /* entries of T beside the diagonal blocks are multiples of it [arcsec^2]; 0: as
                     they are */
} block_product;

static int64_t first(const blocks *o, int a) {
    return a < o->n ? (int64_t)o->e->s->sensors[a].first : o->e->m;
}

static int64_t count(const blocks *o, int a) {
    return first(o, a + 1) - first(o, a);
}

/* Numbers before block (a, b): columns of blocks one after the other. */
static int64_t at(const blocks *o, int a, int b) {
    int64_t sum = 0;
    for (int k = 0; k < b; k++)
        sum += (o->e->m - first(o, k)) * count(o, k);
    return sum + (first(o, a) - first(o, b)) * count(o, b);
}

static void factor_bytes(const sys *s, plan *p) {
    plan_add(p, "blocks of the factor", s->m * s->m * sizeof(double));
}

static void product_bytes(const sys *s, const factor_kind *f, plan *p) {
    (void)f;
    plan_add(p, "blocks of T", s->m * s->m * sizeof(double));
    p->per_target = "W of a target";
    p->target = (size_t)p->rows * s->m * sizeof(double);
}

static status blocks_init(engine *e, blocks *o) {
    *o = (blocks){.e = e, .n = e->s->nsensor};
    return engine_doubles(e, at(o, o->n, o->n), "blocks", &o->a);
}

static void blocks_close(factor *base) {
    base->e->be->release(base->e->ctx, ((block_factor *)base)->l.a);
}

static void release_product(product *base) {
    product_close(base->reference);
    base->e->be->release(base->e->ctx, ((block_product *)base)->t.a);
}

/* Every block (a, b) on or below the diagonal. */
static status fill(engine *e, const blocks *o, bool half) {
    status st = MOAO_OK;
    for (int b = 0; b < o->n; b++)
        for (int a = b; a < o->n; a++)
            TRY(e->mat->fill_cmm(
                e->cov, BACKEND_D, half && a == b ? 'T' : 'A', MATCOV_ALL,
                (matcov_region){first(o, a), count(o, a), first(o, b), count(o, b)},
                o->a + at(o, a, b), count(o, a)));
done:
    return st;
}

/* L_ab, from left to right: what lies to the left of block column b is final. */
static status factor_make(factor *base, const profile *p, int *minor) {
    const blocks *o = &((block_factor *)base)->l;
    engine *e = base->e;
    const double one = 1;
    int info = 0;
    status st;
    TRY(engine_load(e, p));
    TRY(fill(e, o, false));
    for (int b = 0; b < o->n && info == 0; b++) {
        double *diagonal = o->a + at(o, b, b);
        for (int a = b; a < o->n; a++)
            for (int k = 0; k < b; k++)
                TRY(engine_gemm(e, 'N', 'T', count(o, a), count(o, b), count(o, k), -1.0,
                                o->a + at(o, a, k), count(o, a), o->a + at(o, b, k), count(o, b),
                                1.0, o->a + at(o, a, b), count(o, a)));
        TRY(e->be->potrf(e->ctx, BACKEND_D, 'L', count(o, b), diagonal, count(o, b), &info, NULL,
                         0));
        if (info > 0)
            *minor = (int)first(o, b) + info;
        for (int a = b + 1; a < o->n; a++)
            TRY(e->be->trsm(e->ctx, BACKEND_D, 'R', 'L', 'T', 'N', count(o, a), count(o, b), &one,
                            diagonal, count(o, b), o->a + at(o, a, b), count(o, a), NULL, 0));
    }
done:
    return st;
}

static status factor_solve(factor *base, int n, const wrows *w) {
    const blocks *o = &((block_factor *)base)->l;
    engine *e = base->e;
    const double one = 1;
    status st = MOAO_OK;
    for (int k = 0; k < n; k++)
        for (int step = 0; step < 2 * o->n; step++) {
            const bool forward = step < o->n;
            const int b = forward ? step : 2 * o->n - 1 - step;
            double *here = w[k].w + first(o, b) * w[k].ld;
            for (int a = forward ? 0 : b + 1; a < (forward ? b : o->n); a++)
                TRY(engine_gemm(e, 'N', forward ? 'T' : 'N', w[k].rows, count(o, b), count(o, a),
                                -1.0, w[k].w + first(o, a) * w[k].ld, w[k].ld,
                                o->a + (forward ? at(o, b, a) : at(o, a, b)),
                                forward ? count(o, b) : count(o, a), 1.0, here, w[k].ld));
            TRY(e->be->trsm(e->ctx, BACKEND_D, 'R', 'L', forward ? 'T' : 'N', 'N', w[k].rows,
                            count(o, b), &one, o->a + at(o, b, b), count(o, b), here, w[k].ld, NULL,
                            0));
        }
done:
    return st;
}

static status product_load(product *base, const profile *p) {
    block_product *x = (block_product *)base;
    const blocks *o = &x->t;
    status st;
    (void)p;
    for (int b = 0; b < o->n; b++) /* fills leave alone what is above the diagonal */
        memset(o->a + at(o, b, b), 0, (size_t)(count(o, b) * count(o, b)) * sizeof(double));
    TRY(fill(base->e, o, true));
    for (int b = 0; b < o->n && x->grain > 0; b++)
        for (int64_t i = at(o, b, b) + count(o, b) * count(o, b); i < at(o, b + 1, b + 1); i++)
            o->a[i] = rint(o->a[i] / x->grain) * x->grain;
done:
    return st;
}

/* The parts of the columns that lie in each sensor. */
static status product_columns(product *base, const wrows *w, int64_t j, int64_t n, double *z,
                              int64_t ldz) {
    const blocks *o = &((const block_product *)base)->t;
    engine *e = base->e;
    status st = MOAO_OK;
    for (int b = 0; b < o->n; b++) {
        const int64_t from = j > first(o, b) ? j : first(o, b);
        const int64_t to = j + n < first(o, b + 1) ? j + n : first(o, b + 1);
        for (int a = b; a < o->n && from < to; a++)
            TRY(engine_gemm(e, 'N', 'N', w->rows, to - from, count(o, a), 1.0,
                            w->w + first(o, a) * w->ld, w->ld,
                            o->a + at(o, a, b) + (from - first(o, b)) * count(o, a), count(o, a),
                            a > b, z + (from - j) * ldz, ldz));
    }
done:
    return st;
}

static int tightened;

static status rough_reduce_tolerance(product *base, double excess, linop_step from,
                                     linop_step *again) {
    block_product *x = (block_product *)base;
    x->grain /= 4 * excess;
    (void)from;
    *again = ++tightened < 5 ? LINOP_LOAD : LINOP_NOTHING;
    return MOAO_OK;
}

static status blocks_open(factor *base, const plan *p, const double *proj) {
    (void)p, (void)proj;
    return blocks_init(base->e, &((block_factor *)base)->l);
}

static status open_product(product *base, const plan *p, const double *proj) {
    (void)p, (void)proj;
    return blocks_init(base->e, &((block_product *)base)->t);
}

static status open_rough(product *base, const plan *p, const double *proj);

static const factor_kind block_factors = {.size = sizeof(factor_kind),
                                          .name = "blocks",
                                          .word = "dense",
                                          .bytes = factor_bytes,
                                          .object = sizeof(block_factor),
                                          .open = blocks_open,
                                          .close = blocks_close,
                                          .make = factor_make,
                                          .solve = factor_solve};
#define PRODUCT                                                                                    \
    .size = sizeof(product_kind), .word = "exact", .bytes = product_bytes,                         \
    .close = release_product, .object = sizeof(block_product), .load = product_load,               \
    .columns = product_columns
static const product_kind block_products = {PRODUCT, .name = "blocks", .exact = true,
                                            .open = open_product};
/* the same, not exact; the latter cannot be tightened */
static const product_kind rough_products = {PRODUCT, .name = "rough", .open = open_rough,
                                            .tighten = rough_reduce_tolerance};
static const product_kind stubborn_products = {PRODUCT, .name = "stubborn", .open = open_rough};

/* The reference has a T of its own. */
static status open_rough(product *base, const plan *p, const double *proj) {
    status st;
    TRY(open_product(base, p, proj));
    TRY(product_open(&block_products, base->e, p, proj, base->f, &base->reference));
    ((block_product *)base)->grain = 0.01; /* [arcsec^2]: a few percent of a slope's variance */
done:
    return st;
}

static const linop_pair pairs[] = {{"blocks", &block_factors, &block_products},
                                   {"rough", &block_factors, &rough_products},
                                   {"stubborn", &block_factors, &stubborn_products},
                                   {"blocks+panels", &block_factors, &product_panels}};

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
    setenv("MOAO_TEST_OPERATOR", operator, 1);
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
    run_by("blocks+panels", &o);
    assert_true(gap(&o) < 3e-7);
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

/* Tables of another version, or with fields that their functions contradict, and a second pair of a
 * name, are refused. */
static void test_registry(void **state) {
    factor_kind f = block_factors;
    product_kind x = block_products;
    linop_pair other = {"longer", &f, &x};
    (void)state;
    assert_int_equal(linop_register(&pairs[0]), MOAO_INPUT);
    status_clear();
    f.size++;
    assert_int_equal(linop_register(&other), MOAO_INPUT);
    status_clear();
    f.size--;
    x.own_products = true;
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
    setenv("MOAO_TEST_DEVICE", "cpu", 1);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (linop_register(&pairs[i]) != MOAO_OK)
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
