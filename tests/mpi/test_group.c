/* A group of ranks (engine/group.h) with the CPU backend, where the host's memory is the
 * devices': of a node and of all nodes, of which the ranks here are dealt out to two; what is sent
 * arrives from every member, in messages of any size, and a failure is replicated. ranks: 1 2 3 */
#include "engine/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static comm world;

/* Ranks 0 and 1 are one node, 2 is another. */
static comm two_nodes(void) {
    comm c = world;
    MPI_Comm_split(MPI_COMM_WORLD, world.rank / 2, world.rank, &c.node);
    MPI_Comm_rank(c.node, &c.node_rank);
    MPI_Comm_size(c.node, &c.node_size);
    c.nnode = (world.size + 1) / 2;
    return c;
}

static void send_all(device_group *g, int base) {
    enum { ROWS = 5, COLS = 7, LD = 6 };
    double a[LD * COLS];
    char text[100];
    int64_t v[2] = {g->rank, -g->rank};
    for (int root = 0; root < g->size; root++) {
        for (int i = 0; i < LD * COLS; i++)
            a[i] = 1000 * (base + g->rank) + i;
        memset(text, 'a' + g->rank, sizeof text);
        assert_int_equal(group_bcast(g, ROWS, COLS, a, LD, root), MOAO_OK);
        assert_int_equal(group_send(g, text, sizeof text - 1, root), MOAO_OK);
        for (int i = 0; i < LD * COLS; i++) {
            const int from = g->size > 1 && i % LD < ROWS ? root : g->rank;
            assert_true(a[i] == 1000 * (base + from) + i);
        }
        for (int i = 0; i < 99; i++)
            assert_int_equal(text[i], 'a' + (g->size > 1 ? root : g->rank));
        assert_int_equal(text[99], 'a' + g->rank);
    }
    group_largest(g, v, 2);
    assert_int_equal(v[0], g->size - 1);
    assert_int_equal(v[1], 0);
    for (int bad = 0; bad < g->size; bad++)
        assert_int_equal(group_agree(g, g->rank == bad ? MOAO_MEMORY : MOAO_OK), MOAO_MEMORY);
    assert_int_equal(group_agree(g, MOAO_OK), MOAO_OK);
}

static void test_reach(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++)
        for (size_t room = 40; room < 1000; room += 400) {
            comm c = two_nodes();
            device_group g;
            assert_int_equal(group_open(&c, &backend_cpu, NULL, true, all, room, &g), MOAO_OK);
            assert_int_equal(g.size, all ? world.size : c.node_size);
            assert_int_equal(g.rank, all ? world.rank : c.node_rank);
            assert_string_equal(g.why, "");
            send_all(&g, all ? 0 : world.rank / 2 * 2);
            group_close(&g);
            assert_int_equal(g.size, 1);
            MPI_Comm_free(&c.node);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reach)};
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
