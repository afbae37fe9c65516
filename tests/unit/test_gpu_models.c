/* The table of GPUs: names as drivers and people say them, what is ambiguous, what follows of a
 * capability. */
#include "base/gpu_models.h"
#include "base/machine_constants.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect_model(const char *name, const char *model) {
    const gpu_model *g = gpu_model_find(name);
    if (model == NULL)
        assert_null(g);
    else if (g == NULL)
        fail_msg("'%s' is no model", name);
    else
        assert_string_equal(g->name, model);
}

/* As the driver calls them, and shorter. */
static void test_names(void **state) {
    (void)state;
    expect_model("NVIDIA GeForce RTX 4090", "RTX 4090");
    expect_model("rtx4090", "RTX 4090");
    expect_model("4090", "RTX 4090");
    expect_model("NVIDIA A100-SXM4-80GB", "A100 80GB");
    expect_model("NVIDIA A100-PCIE-40GB", "A100 40GB");
    expect_model("NVIDIA H100 80GB HBM3", "H100");
    expect_model("NVIDIA H100 PCIe", "H100 PCIe");
    expect_model("NVIDIA GH200 480GB", "GH200");
    expect_model("NVIDIA L4", "L4");
    expect_model("NVIDIA L40S", "L40S");
    expect_model("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada");
    expect_model("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell");
    expect_model("Tesla V100-SXM2-32GB", "Tesla V100");
    expect_model("NVIDIA GeForce RTX 4090 Laptop GPU", NULL);
    expect_model("Quadro RTX 6000", NULL);
    expect_model("A100", NULL); /* of 40 or of 80 GB */
    expect_model("RTX", NULL);
    expect_model("", NULL);
    expect_model("--", NULL);
    /* what a backend says: numbers behind the name are none of it */
    assert_ptr_equal(gpu_model_of_device("NVIDIA H200 (compute 9.0), 132 multiprocessors, 40 GiB"),
                     gpu_model_find("H200"));
    assert_null(gpu_model_of_device("emulator of the kernels"));
}

/* Every model is found by its own name, has rates in the order of hardware, and the capabilities
 * have the shared memory of CUDA's table. */
static void test_table(void **state) {
    (void)state;
    for (size_t i = 0; gpu_model_at(i) != NULL; i++) {
        const gpu_model *g = gpu_model_at(i);
        assert_ptr_equal(gpu_model_find(g->name), g);
        assert_true(g->fp64 > 0 && g->fp64 >= g->fp64_vector && g->fp32 >= g->fp64_vector);
        assert_true(g->fp16 > g->fp32 && g->memory > 0 && g->bandwidth > 0);
        assert_true(g->multiprocessors > 0 && g->l2 > 0);
        assert_int_equal(gpu_model_serves(g), g->major >= 8);
    }
    assert_true(gpu_model_integer_pays(gpu_model_find("H200")));
    assert_true(gpu_model_integer_pays(gpu_model_find("RTX 4090")));
    assert_false(gpu_model_integer_pays(gpu_model_find("Tesla V100")));
    assert_int_equal(gpu_model_shared(gpu_model_find("A100 80GB")), 166912);
    assert_int_equal(gpu_model_shared(gpu_model_find("RTX 3090")), 101376);
    assert_int_equal(gpu_model_shared(gpu_model_find("RTX 4090")), 101376);
    assert_int_equal(gpu_model_shared(gpu_model_find("RTX 5090")), 101376);
    assert_int_equal(gpu_model_shared(gpu_model_find("H100")), 232448);
    assert_int_equal(gpu_model_shared(gpu_model_find("B200")), 232448);
}

/* The reference has what was measured; others follow in proportion. */
static void test_rates(void **state) {
    const gpu_model *h = gpu_model_reference(), *r = gpu_model_find("RTX 4090");
    (void)state;
    assert_true(gpu_model_rate(h) == MACHINE_GPU_RATE);
    assert_true(gpu_model_fp16_exposure(h) == MACHINE_FP16_EXPOSURE);
    assert_true(gpu_model_integers(h) == MACHINE_INTEGERS);
    assert_true(gpu_model_integers(gpu_model_find("RTX 4090")) > 10 * MACHINE_INTEGERS);
    assert_true(gpu_model_fp32_entries(h) == MACHINE_FP32_ENTRIES);
    assert_true(gpu_model_threads(h) == MACHINE_DEVICE_THREADS);
    /* products in FP16: flop/s in proportion to the chips' */
    const double fp16 = gpu_model_rate(r) * gpu_model_fp16_exposure(r) /
                        (gpu_model_rate(h) * gpu_model_fp16_exposure(h));
    assert_true(fabs(fp16 * h->fp16 / r->fp16 - 1) < 1e-12);
    assert_true(gpu_model_usable(r) < 24.0 * (1 << 30));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_rates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
