/* The same tests on every backend that is usable here, or on the one that the variable
 * MOAO_TEST_BACKEND names. Include it after cmocka.h. */
#ifndef MOAO_TEST_BACKENDS_H
#define MOAO_TEST_BACKENDS_H

#include "backend/backend.h"

#include <stdlib.h>

static const backend *be; /* under test */
static backend_ctx *ctx;

typedef struct {
    const struct CMUnitTest *tests;
    size_t count;
    void (*chosen)(void); /* called when be is set */
} backend_tests;

/* Failures on one backend; one that is not usable is a failure only where it is wanted. */
static int run_on(const backend_tests *b, const char *name, bool wanted) {
    char text[256];
    if (backend_get(name, &be) != MOAO_OK) {
        print_message("backend %s: %s\n", name, status_message());
        status_clear();
        return wanted;
    }
    b->chosen();
    if (be->open(0, NULL, &ctx) != MOAO_OK || be->describe(0, text, sizeof text) != MOAO_OK) {
        print_error("backend %s: %s\n", name, status_message());
        return 1;
    }
    print_message("backend %s: %s\n", name, text);
    int failed = _cmocka_run_group_tests(name, b->tests, b->count, NULL, NULL);
    be->close(ctx);
    return failed;
}

static int run_on_backends(const backend_tests *b) {
    const char *only = getenv("MOAO_TEST_BACKEND");
    return only != NULL && *only ? run_on(b, only, true)
                                 : run_on(b, "cpu", true) + run_on(b, "gpu", false);
}

#endif
