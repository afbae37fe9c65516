/* Messages of failures: each thread has its own first one, and workers of OpenMP lose none. Memory
 * of sizes that overflow. */
#include "moao/status.h"
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TURNS = 20000 };

typedef struct {
    int number, wrong;
    pthread_barrier_t *together;
} worker;

/* Fails twice and expects the first message, time and again; then keeps one until all are there. */
static void *fails(void *arg) {
    worker *w = arg;
    char want[64];
    for (int i = 0; i < TURNS; i++) {
        snprintf(want, sizeof want, "thread %d, failure %d", w->number, i);
        if (status_fail(MOAO_INPUT, "thread %d, failure %d", w->number, i) != MOAO_INPUT ||
            status_fail(MOAO_IO, "a later one of thread %d", w->number) != MOAO_IO)
            w->wrong++;
        w->wrong += strcmp(status_message(), want) != 0;
        if (i + 1 < TURNS)
            status_clear();
    }
    const char *kept = status_message();
    pthread_barrier_wait(w->together);
    w->wrong += strcmp(kept, want) != 0 || strcmp(status_message(), want) != 0;
    status_clear();
    w->wrong += status_message()[0] != '\0';
    return NULL;
}

/* What the program ends with: 2 its input, 3 stopped and can go on. */
static void test_exit_codes(void **state) {
    (void)state;
    assert_int_equal(status_exit_code(MOAO_OK), 0);
    assert_int_equal(status_exit_code(MOAO_INPUT), 2);
    assert_int_equal(status_exit_code(MOAO_STOPPED), 3);
    assert_int_equal(status_exit_code(MOAO_IO), 1);
    assert_int_equal(status_exit_code(MOAO_MEMORY), 1);
    assert_int_equal(status_exit_code(MOAO_NUMERIC), 1);
    assert_int_equal(status_exit_code(MOAO_INTERNAL), 1);
}

static void test_two_threads(void **state) {
    pthread_barrier_t together;
    pthread_t id[2];
    worker w[2];
    (void)state;
    assert_int_equal(pthread_barrier_init(&together, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        w[i] = (worker){i, 0, &together};
        assert_int_equal(pthread_create(&id[i], NULL, fails, &w[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(id[i], NULL);
        assert_int_equal(w[i].wrong, 0);
    }
    pthread_barrier_destroy(&together);
    assert_string_equal(status_message(), "");
}

/* A failure inside a parallel region, in a thread that is not the caller's, is known after it. */
static void test_openmp_worker(void **state) {
    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        char want[64];
        int teams = 1;
        snprintf(want, sizeof want, "worker, turn %d", turn);
#pragma omp parallel num_threads(2)
        {
#pragma omp single
            teams = omp_get_num_threads();
            if (omp_get_thread_num() == omp_get_num_threads() - 1)
                status_fail(MOAO_NUMERIC, "worker, turn %d", turn);
        }
        assert_in_range(teams, 1, 2);
        assert_string_equal(status_message(), want);
        status_clear();
        assert_string_equal(status_message(), "");
    }
}

/* Sizes whose product does not fit are refused; it would be 16 here. */
static void test_sizes(void **state) {
    (void)state;
    const unsigned long half = (SIZE_MAX >> 1) + 1;
    void *p = state;
    assert_int_equal(mem_alloc(&p, half + 8, 2, "numbers"), MOAO_MEMORY);
    assert_null(p);
    assert_non_null(strstr(status_message(), "numbers: "));
    assert_int_equal(mem_alloc(&p, SIZE_MAX - 8, 1, "bytes"), MOAO_MEMORY);
    assert_null(p);
    assert_int_equal(mem_alloc(&p, 2, 8, "numbers"), MOAO_OK);
    assert_memory_equal(p, ((char[16]){0}), 16);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_openmp_worker),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
