/* The one way in which tests get a backend: the same tests on every backend that is usable here, or
 * on the one that the variable MOAO_TEST_BACKEND names. Includes cmocka. */
#ifndef MOAO_TESTS_BACKEND_H
#define MOAO_TESTS_BACKEND_H

#include "moao/backend.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const backend *be; /* under test */
static backend_ctx *ctx;

typedef struct {
    const struct CMUnitTest *tests;
    size_t count;
    void (*opened)(void); /* NULL, or called before the tests of a backend, and after them */
    void (*closing)(void);
} backend_tests;

/* Set for runs under a checking tool or on an emulator: only small sizes. */
static inline bool small(void) {
    return getenv("MOAO_TEST_SMALL") != NULL;
}

/* A call that has to succeed. */
static inline void must(status st) {
    if (st != MOAO_OK)
        fail_msg("%s", status_message());
}

/* Failures on one backend; one that is not usable is a failure only where it is wanted. */
static inline int run_on(const backend_tests *b, const char *name, bool wanted) {
    char text[320];
    if (backend_get(name, &be) != MOAO_OK) {
        print_message("backend %s: %s\n", name, status_message());
        status_clear();
        return wanted;
    }
    if (be->open(0, NULL, &ctx) != MOAO_OK || be->describe(0, text, sizeof text) != MOAO_OK) {
        print_error("backend %s: %s\n", name, status_message());
        return 1;
    }
    print_message("backend %s: %s%s\n", name, text, be == &backend_cpu ? "; no GPU is used" : "");
    if (getenv("MOAO_TEST_ONLY")) /* tests whose names match this pattern */
        cmocka_set_test_filter(getenv("MOAO_TEST_ONLY"));
    if (b->opened)
        b->opened();
    const int failed = _cmocka_run_group_tests(name, b->tests, b->count, NULL, NULL);
    if (b->closing)
        b->closing();
    be->close(ctx);
    return failed;
}

static inline int run_on_backends(const backend_tests *b) {
    const char *only = getenv("MOAO_TEST_BACKEND");
    return only != NULL && *only ? run_on(b, only, true)
                                 : run_on(b, "cpu", true) + run_on(b, "gpu", false);
}

/* With an array of tests and no more to be called. */
#define RUN_ON_BACKENDS(tests)                                                                     \
    run_on_backends(&(backend_tests){(tests), sizeof(tests) / sizeof *(tests), NULL, NULL})

#endif
