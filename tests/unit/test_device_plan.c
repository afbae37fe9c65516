/* Panels of a factor in the host's memory: they fit where they are made, and hold the triangle. */
#include "resident/device_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static sys sizes(size_t m, int v) {
    sys s = {.m = m};
    s.dm.nact = v;
    return s;
}

/* A multiple of a piece's width; two panels fit into the room of W, but for panels of one piece,
 * for which the plan has room of its own. */
static void width_of_panels(void **state) {
    static const size_t pieces[] = {1, 7, 256, 2048, 2816};
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        for (int v = 1; v < 6000; v += 617)
            for (int targets = 1; targets < 40; targets += 3) {
                const device_plan p = {.width = pieces[i], .streamed = true};
                const sys s = sizes(102752, v);
                const size_t b = device_plan_factor_width(&p, &s, targets);
                assert_true(b > 0 && b % p.width == 0);
                assert_true(b == p.width || 2 * b <= (size_t)targets * (size_t)v);
            }
    /* transfers hide behind the products from two targets of the ELT on */
    const device_plan p = {.width = 2048, .streamed = true};
    const sys s = sizes(102752, 5336);
    assert_true(device_plan_factor_width(&p, &s, 2) >= 4096);
    assert_int_equal(device_plan_factor_width(&p, &s, 1000), 8192);
}

/* All elements on and below the diagonal, and above it less than one panel's triangle for each. */
static void bytes_of_the_host(void **state) {
    static const size_t orders[] = {1, 7, 255, 256, 257, 8191, 102752};
    static const size_t widths[] = {1, 8, 256, 8192};
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            const size_t m = orders[i], b = widths[j];
            const sys s = sizes(m, 1);
            const size_t count = device_plan_host_bytes(&s, b) / sizeof(double);
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
