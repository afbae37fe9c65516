/* Panels of a factor in the host's memory: they fit where they are made, and hold the triangle. */
#include "factor/host_factor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A multiple of a slice's width; two panels fit into the room of W, but for panels of one slice,
 * for which the plan has room of its own. */
static void width_of_panels(void **state) {
    static const size_t slices[] = {1, 7, 256, 2048, 2816};
    (void)state;
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++)
        for (int v = 1; v < 6000; v += 617)
            for (int targets = 1; targets < 40; targets += 3) {
                const size_t b = host_factor_width(slices[i], (size_t)v, targets);
                assert_true(b > 0 && b % slices[i] == 0);
                assert_true(b == slices[i] || 2 * b <= (size_t)targets * (size_t)v);
            }
    /* transfers hide behind the products from two targets of the ELT on */
    assert_true(host_factor_width(2048, 5336, 2) >= 4096);
    assert_int_equal(host_factor_width(2048, 5336, 1000), 8192);
}

/* All elements on and below the diagonal, and above it less than one panel's triangle for each. */
static void bytes_of_the_host(void **state) {
    static const size_t orders[] = {1, 7, 255, 256, 257, 8191, 102752};
    static const size_t widths[] = {1, 8, 256, 8192};
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            const size_t m = orders[i], b = widths[j];
            const size_t count = host_factor_bytes(m, b) / sizeof(double);
            const size_t triangle = m * (m + 1) / 2, last = m % b;
            assert_int_equal(count, triangle + m / b * (b * (b - 1) / 2) +
                                        (last > 0 ? last * (last - 1) / 2 : 0));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(width_of_panels),
        cmocka_unit_test(bytes_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
