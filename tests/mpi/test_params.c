/* ranks: 1 2 3
 * Rank 0 reads the files, the other ranks get its copies: all have the same parameters, or the same
 * message and status, also for files that only rank 0 can see. */
#include "params/params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static comm world;
static char folder[] = "/tmp/moao-test-XXXXXX";

static const char main_file[] =
    "telescope: {diameter: 8}\ndm: {nssp: 16}\n"
    "sensors: [{type: ngs, nssp: 10, direction: [40, 10], magnitude: 10}]\n"
    "targets: {file: targets.txt}\n"
    "atmosphere: {legacy: {pattern: prof*.txt}}\n";
static const char targets[] = "1 2\n3 4\n";
static const char layers[] =
    "Nlayer\n2\nr0\n0.128916\ncn2\n28.5115 1.88506\nh\n30 12500\nl0\n25 20\n";

static void write_text(const char *name, const char *text) {
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* True when all ranks hold the same text. */
static bool same_everywhere(const char *text) {
    char first[8192] = "";
    snprintf(first, sizeof first, "%s", text);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, world.mpi);
    return strncmp(first, text, sizeof first - 1) == 0;
}

static void all_ranks_get_the_same_parameters(void **state) {
    (void)state;
    const char *file = "main.yaml";
    params p;
    assert_int_equal(params_load(&world, 1, &file, 0, NULL, &p), MOAO_OK);
    assert_int_equal(p.targets_list.n, 2);
    assert_int_equal(p.atmosphere_profiles.n, 2);
    char *text = params_effective_text(&p);
    assert_non_null(text);
    assert_true(same_everywhere(text));
    free(text);
    params_free(&p);
}

static void all_ranks_get_the_same_message(void **state) {
    (void)state;
    static const struct {
        const char *override, *message;
    } c[] = {
        {"telescope.diameter=-1", "command line:1:20: telescope.diameter: '-1' is out of range"},
        {"targets.file=none.txt",
         "command line:1:14: targets.file: none.txt cannot be read (No such file"},
        {"atmosphere.legacy.files=[prof1.txt, prof3.txt]",
         "prof3.txt cannot be read (No such file"},
        {"atmosphere.legacy.pattern=none*",
         "command line:1:27: atmosphere.legacy.pattern: no file matches none*"},
    };
    const char *file = "main.yaml";
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        params p;
        status_clear();
        status st = params_load(&world, 1, &file, 1, &c[i].override, &p);
        params_free(&p);
        assert_int_equal(st, MOAO_INPUT);
        if (strstr(status_message(), c[i].message) == NULL)
            fail_msg("%s", status_message());
        assert_true(same_everywhere(status_message()));
    }
    params p;
    file = "none.yaml";
    status_clear();
    assert_int_equal(params_load(&world, 1, &file, 0, NULL, &p), MOAO_INPUT);
    params_free(&p);
    assert_non_null(strstr(status_message(), "none.yaml:1:1: file: cannot be read"));
    assert_true(same_everywhere(status_message()));
}

/* Only rank 0 stands in the folder of the files. */
static int enter_folder(void **state) {
    (void)state;
    if (world.rank != 0)
        return chdir("/");
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        return 1;
    write_text("main.yaml", main_file);
    write_text("targets.txt", targets);
    write_text("prof1.txt", layers);
    write_text("prof2.txt", layers);
    return 0;
}

static int leave_folder(void **state) {
    (void)state;
    if (world.rank != 0)
        return 0;
    unlink("main.yaml");
    unlink("targets.txt");
    unlink("prof1.txt");
    unlink("prof2.txt");
    return chdir("/") != 0 || rmdir(folder) != 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_the_same_parameters),
        cmocka_unit_test(all_ranks_get_the_same_message),
    };
    int failed = cmocka_run_group_tests(tests, enter_folder, leave_folder);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
