/* The checkpoint: what was put can be read back after a restart, damage and interruptions never
 * pass for results, and nothing is overwritten without being asked. */
#include "base/file.h"
#include "base/progress.h"
#include "store/store.h"
#include "store/store_accuracy.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NT = 10, NE = 4, NL = 2, NB = 2, CROP = 6, CHUNK = 3 };
#define EFFECTIVE "telescope:\n  diameter: 8\natmosphere:\n  r0: 0.15\n"

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/moao-store-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    status_clear();
    return system(command) != 0;
}

static double scalar_of(int e, int t, int l, int k) {
    return 1000.0 * e + 10.0 * t + l + 0.1 * k;
}

static float pixel_of(int e, int t, int l, int i) {
    return (float)(e * 100 + t + l * 0.25 + i * 0.001);
}

/* Put targets t0.. of an exposure; the values name their place. */
static status put(store *s, int e, int t0, int nt) {
    static double scalars[NT * NL * (3 + NB)];
    static float images[NT * NL * CROP * CROP];
    result_block b = {e, t0, nt, NL, NB, CROP, scalars, images, false, 0, NULL, 0};
    for (int t = 0; t < nt; t++)
        for (int l = 0; l < NL; l++) {
            for (int k = 0; k < 3 + NB; k++)
                scalars[(t * NL + l) * (3 + NB) + k] = scalar_of(e, t0 + t, l, k);
            for (int i = 0; i < CROP * CROP; i++)
                images[(t * NL + l) * CROP * CROP + i] = pixel_of(e, t0 + t, l, i);
        }
    return store_put(s, &b);
}

/* Everything that counts as done has its exact values. */
static void check_done(store *s) {
    double v[NL * (3 + NB)];
    float im[CROP * CROP];
    for (int e = 0; e < NE; e++)
        for (int t = 0; t < NT; t++) {
            if (!store_done(s, e, t))
                continue;
            assert_int_equal(store_read_scalars(s, e, t, v), MOAO_OK);
            for (int l = 0; l < NL; l++) {
                for (int k = 0; k < 3 + NB; k++)
                    assert_true(v[l * (3 + NB) + k] == scalar_of(e, t, l, k));
                assert_int_equal(store_read_image(s, e, t, l, im), MOAO_OK);
                for (int i = 0; i < CROP * CROP; i++)
                    assert_true(im[i] == pixel_of(e, t, l, i));
            }
        }
}

static status open_as(const char *effective, bool resume, bool overwrite, store **s) {
    const store_run run = {effective, NT, NE, NL, NB, CROP, false, 0, 0, 0};
    const store_how how = {resume, overwrite, false};
    status_clear();
    return store_open(dir, &run, &how, s);
}

static store *open_ok(bool resume, bool overwrite) {
    store *s;
    status st = open_as(EFFECTIVE, resume, overwrite, &s);
    if (st != MOAO_OK)
        print_message("%s\n", status_message());
    assert_int_equal(st, MOAO_OK);
    return s;
}

static void put_all(store *s) {
    for (int e = 0; e < NE; e++)
        for (int t = 0; t < NT; t += CHUNK)
            assert_int_equal(put(s, e, t, t + CHUNK < NT ? CHUNK : NT - t), MOAO_OK);
}

static int count_files(const char *suffix) {
    char path[128];
    int n = 0;
    snprintf(path, sizeof path, "%s/checkpoint", dir);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t a = strlen(e->d_name), b = strlen(suffix);
        n += a >= b && strcmp(e->d_name + a - b, suffix) == 0;
    }
    closedir(d);
    return n;
}

/* What was put is read back exactly, before and after a restart, also when ranges overlap. */
static void test_round_trip(void **state) {
    (void)state;
    store *s = open_ok(false, false);
    assert_int_equal(store_done_count(s), 0);
    assert_int_equal(put(s, 2, 3, 4), MOAO_OK);
    assert_int_equal(put(s, 0, 0, 1), MOAO_OK);
    assert_int_equal(put(s, 2, 5, 5), MOAO_OK);
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(store_done_count(s), 8);
        assert_true(store_done(s, 2, 9) && store_done(s, 0, 0));
        assert_false(store_done(s, 2, 2) || store_done(s, 0, 1) || store_done(s, 1, 3));
        check_done(s);
        store_close(s);
        s = open_ok(true, false);
    }
    put_all(s);
    assert_int_equal(store_done_count(s), NE * NT);
    check_done(s);
    store_close(s);
}

/* Results that belong to no target or have another shape are refused; what is not there cannot be
 * read. */
static void test_wrong_blocks(void **state) {
    (void)state;
    double v[NL * (3 + NB)];
    store *s = open_ok(false, false);
    assert_int_equal(put(s, 0, 0, 2), MOAO_OK);
    assert_int_equal(put(s, NE, 0, 1), MOAO_INTERNAL);
    assert_int_equal(put(s, 0, NT - 1, 2), MOAO_INTERNAL);
    double few[3];
    result_block b = {1, 0, 1, 1, 0, 0, few, NULL, false, 0, NULL, 0};
    assert_int_equal(store_put(s, &b), MOAO_INTERNAL);
    assert_int_equal(store_read_scalars(s, 1, 0, v), MOAO_INTERNAL);
    assert_int_equal(store_done_count(s), 2);
    store_close(s);
}

/* A store without images keeps the scalars and says that it has no image. */
static void test_no_images(void **state) {
    (void)state;
    double in[3] = {0.5, NAN, 2}, out[3];
    float im[4];
    const store_run without = {EFFECTIVE, NT, NE, 1, 0, 0, false, 0, 0, 0};
    store *s;
    assert_int_equal(store_open(dir, &without, &(store_how){0}, &s), MOAO_OK);
    result_block b = {1, 4, 1, 1, 0, 0, in, NULL, false, 0, NULL, 0};
    assert_int_equal(store_put(s, &b), MOAO_OK);
    assert_int_equal(store_read_scalars(s, 1, 4, out), MOAO_OK);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(store_read_image(s, 1, 4, 0, im), MOAO_INTERNAL);
    store_close(s);
}

/* Facts survive a restart, the last value counts, and are forgotten by a new run. */
static void test_facts(void **state) {
    (void)state;
    const store_run many = {EFFECTIVE, NT, 200, NL, NB, CROP, true, 0, 0, 0};
    store *s;
    assert_int_equal(store_open(dir, &many, &(store_how){0}, &s), MOAO_OK);
    assert_int_equal(store_get_fact(s, "ranks", -7), -7);
    assert_int_equal(store_set_fact(s, "ranks", 4), MOAO_OK);
    assert_int_equal(store_set_fact(s, "chunk", 7), MOAO_OK);
    assert_int_equal(store_set_fact(s, "ranks", 6), MOAO_OK);
    assert_int_equal(store_set_fact(s, "two words", 1), MOAO_INTERNAL);
    for (int e = 0; e < 150; e++) /* more than there is room for at first */
        assert_int_equal(store_set_precision(s, e, e % 3, 1e-5 * e), MOAO_OK);
    assert_int_equal(store_set_precision(s, 7, false, INFINITY), MOAO_OK);
    store_close(s);
    assert_int_equal(store_open(dir, &many, &(store_how){.resume = true}, &s), MOAO_OK);
    assert_int_equal(store_get_fact(s, "ranks", -7), 6);
    assert_int_equal(store_get_fact(s, "chunk", -7), 7);
    for (int e = 0; e < 151; e++) {
        bool mixed;
        double difference;
        assert_int_equal(store_get_precision(s, e, &mixed, &difference), e < 150);
        assert_int_equal(mixed, e < 150 && e % 3 && e != 7);
        if (e == 7 || e == 150)
            assert_true(e == 7 ? isinf(difference) : isnan(difference));
        else
            assert_true(fabs(difference - 1e-5 * e) <= 1e-12);
    }
    store_close(s);
    assert_int_equal(store_open(dir, &many, &(store_how){.overwrite = true}, &s), MOAO_OK);
    assert_int_equal(store_get_fact(s, "ranks", -7), -7);
    store_close(s);
}

static void expect_refusal(const char *effective, bool resume, const char *word) {
    store *s;
    assert_int_equal(open_as(effective, resume, false, &s), MOAO_INPUT);
    assert_null(s);
    if (strstr(status_message(), word) == NULL || strchr(status_message(), '\n') != NULL)
        fail_msg("'%s' is not one line with '%s'", status_message(), word);
}

/* Nothing is lost unasked: an unfinished or finished run is refused in one line that says what to
 * do, and so are changed parameters on resuming, with the first difference named. */
static void test_refusals(void **state) {
    (void)state;
    store *s = open_ok(false, false);
    store_close(s);
    s = open_ok(false, false); /* nothing was done yet: nothing to lose */
    assert_int_equal(put(s, 0, 0, 3), MOAO_OK);
    store_close(s);
    expect_refusal(EFFECTIVE, false, "--resume");
    expect_refusal(EFFECTIVE, false, "--overwrite");
    const char *changed = "telescope:\n  diameter: 8\natmosphere:\n  r0: 0.17\n";
    expect_refusal(changed, true, "r0");
    expect_refusal(changed, true, "0.15");
    expect_refusal(changed, true, "0.17");
    s = open_ok(true, false);
    assert_int_equal(store_done_count(s), 3);
    put_all(s);
    assert_int_equal(store_discard_parts(s), MOAO_OK);
    store_close(s);
    expect_refusal(EFFECTIVE, false, "finished");
    expect_refusal(changed, true, "r0");
    assert_int_equal(open_as(EFFECTIVE, true, true, &s), MOAO_INPUT);
    s = open_ok(false, true);
    assert_int_equal(store_done_count(s), 0);
    store_close(s);
}

/* After the final files are in place the parts are gone and a resumed run has nothing to do;
 * without the maps the run is computed again. */
static void test_finished(void **state) {
    (void)state;
    char maps[128];
    snprintf(maps, sizeof maps, "%s/maps.fits", dir);
    store *s = open_ok(false, false);
    put_all(s);
    assert_int_equal(file_write_text(maps, "maps"), MOAO_OK);
    assert_int_equal(store_discard_parts(s), MOAO_OK);
    store_close(s);
    assert_int_equal(count_files(".bin"), 0);
    s = open_ok(true, false);
    assert_true(store_finished(s) && store_done(s, 0, 0));
    assert_int_equal(store_done_count(s), NE * NT);
    store_close(s);
    assert_int_equal(unlink(maps), 0);
    s = open_ok(true, false);
    assert_false(store_finished(s) || store_done(s, 0, 0));
    store_close(s);
    assert_int_equal(file_write_text(maps, "maps of somebody"), MOAO_OK);
    expect_refusal(EFFECTIVE, false, "results");
    s = open_ok(false, true);
    assert_false(file_exists(maps));
    store_close(s);
}

/* Two runs cannot write the same directory at once; the lock ends with its owner. */
static void test_lock(void **state) {
    (void)state;
    store *s = open_ok(false, false);
    expect_refusal(EFFECTIVE, true, "another run");
    expect_refusal(EFFECTIVE, false, "another run");
    store_close(s);
    store_close(open_ok(true, false));
}

/* A byte changed anywhere in a part, or a part cut short at any length, makes it count as not done;
 * the other parts stay. */
static void test_damage(void **state) {
    (void)state;
    char path[160];
    store *s = open_ok(false, false);
    assert_int_equal(put(s, 0, 0, 3), MOAO_OK);
    assert_int_equal(put(s, 1, 3, 3), MOAO_OK);
    store_close(s);
    snprintf(path, sizeof path, "%s/checkpoint/part-0001-000003-000003.bin", dir);
    struct stat sb;
    assert_int_equal(stat(path, &sb), 0);
    unsigned char *good = malloc((size_t)sb.st_size + 1);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fread(good, 1, (size_t)sb.st_size, f), sb.st_size);
    fclose(f);
    int dev = open("/dev/null", O_WRONLY), err = dup(STDERR_FILENO);
    for (off_t k = 0; k <= 2 * sb.st_size; k += k < 130 ? 1 : 97) {
        bool cut = k >= sb.st_size;
        off_t n = cut ? k - sb.st_size : sb.st_size;
        f = fopen(path, "wb");
        if (!cut)
            good[k] ^= 0x10;
        assert_int_equal(fwrite(good, 1, (size_t)n, f), n);
        if (!cut)
            good[k] ^= 0x10;
        fclose(f);
        dup2(dev, STDERR_FILENO); /* a warning each time */
        s = open_ok(true, false);
        dup2(err, STDERR_FILENO);
        assert_int_equal(store_done_count(s), n == sb.st_size && cut ? 6 : 3);
        check_done(s);
        store_close(s);
    }
    good[sb.st_size] = 0;
    f = fopen(path, "wb"); /* one byte too many */
    assert_int_equal(fwrite(good, 1, (size_t)sb.st_size + 1, f), sb.st_size + 1);
    fclose(f);
    free(good);
    s = open_ok(true, false);
    assert_int_equal(store_done_count(s), 3);
    assert_int_equal(put(s, 1, 3, 3), MOAO_OK);
    store_close(s);
    s = open_ok(true, false);
    assert_int_equal(store_done_count(s), 6);
    store_close(s);
    close(dev);
    close(err);
}

/* A process killed at any moment of its puts leaves a state that a resumed run accepts: what counts
 * as done is right, at least what had been reported as put is done, and no temporary file survives
 * the next start. */
static void test_kill(void **state) {
    (void)state;
    int killed = 0;
    for (int round = 0; round < 25; round++) {
        int report[2], reported = 0;
        char byte;
        assert_int_equal(pipe(report), 0);
        pid_t pid = fork();
        if (pid == 0) {
            store *s;
            if (open_as(EFFECTIVE, round % 5 != 0, round % 5 == 0, &s) != MOAO_OK)
                _exit(1);
            for (int e = 0; e < NE; e++)
                for (int t = 0; t < NT; t++)
                    if (!store_done(s, e, t)) {
                        if (put(s, e, t, 1) != MOAO_OK || store_set_fact(s, "last", t) != MOAO_OK ||
                            write(report[1], "x", 1) != 1)
                            _exit(2);
                    }
            _exit(0);
        }
        close(report[1]);
        int until = 1 + round % 7;
        while (reported < until && read(report[0], &byte, 1) == 1)
            reported++;
        usleep((useconds_t)(37 * round % 900));
        kill(pid, SIGKILL);
        while (read(report[0], &byte, 1) == 1)
            reported++;
        close(report[0]);
        int how;
        waitpid(pid, &how, 0);
        assert_true(WIFSIGNALED(how) || WEXITSTATUS(how) == 0);
        killed += WIFSIGNALED(how);
        store *s = open_ok(true, false);
        assert_true(store_done_count(s) >= (size_t)reported);
        check_done(s);
        store_close(s);
        assert_int_equal(count_files(".tmp"), 0);
    }
    assert_true(killed > 0);
}

/* A full disk (here: a limit on the size of files) and a directory that cannot be made are one line
 * each with MOAO_IO, and leave nothing half written. */
static void test_full_disk(void **state) {
    (void)state;
    char path[128];
    store *s = open_ok(false, false), *other;
    assert_int_equal(put(s, 0, 0, 1), MOAO_OK);
    struct rlimit was, limit;
    getrlimit(RLIMIT_FSIZE, &was);
    limit = was;
    limit.rlim_cur = 512;
    setrlimit(RLIMIT_FSIZE, &limit);
    status st = put(s, 1, 0, 3);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_int_equal(st, MOAO_IO);
    assert_non_null(strstr(status_message(), "cannot write"));
    assert_int_equal(count_files(".tmp"), 0);
    assert_int_equal(count_files(".bin"), 1);
    assert_int_equal(store_done_count(s), 1);
    store_close(s);
    status_clear();
    snprintf(path, sizeof path, "%s/file", dir);
    assert_int_equal(file_write_text(path, "x"), MOAO_OK);
    snprintf(path, sizeof path, "%s/file/run", dir);
    const store_run run = {EFFECTIVE, NT, NE, NL, NB, CROP, false, 0, 0, 0};
    assert_int_equal(store_open(path, &run, &(store_how){0}, &other), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "not a directory"));
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        CASE(test_round_trip), CASE(test_wrong_blocks), CASE(test_no_images), CASE(test_facts),
        CASE(test_refusals),   CASE(test_finished),     CASE(test_lock),      CASE(test_damage),
        CASE(test_kill),       CASE(test_full_disk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
