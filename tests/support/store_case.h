/* What the tests of the store share: a folder of their own, runs that open it, results whose values
 * name their place. */
#ifndef MOAO_TESTS_STORE_CASE_H
#define MOAO_TESTS_STORE_CASE_H

#include "base/crc.h"
#include "base/file.h"
#include "store/store.h"
#include "store/store_accuracy.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { NT = 4, NE = 2, NL = 2, NB = 1, CROP = 4, NS = 3 + NB };
#define EFFECTIVE                                                                                  \
    "title: a\ntelescope:\n  diameter: 8\natmosphere:\n  r0: 0.15\ncompute:\n  threads: 1\n"
#define RETITLED                                                                                   \
    "title: b\ntelescope:\n  diameter: 8\natmosphere:\n  r0: 0.15\ncompute:\n  threads: 2\n"
#define OTHER                                                                                      \
    "title: a\ntelescope:\n  diameter: 8\natmosphere:\n  r0: 0.17\ncompute:\n  threads: 1\n"

static char dir[64];
static int warnings = -1; /* stderr goes there */

static inline int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/moao-trust-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static inline int remove_dir(void **state) {
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s' '%s.2'", dir, dir);
    status_clear();
    return system(command) != 0;
}

static inline const char *in_dir(const char *name) {
    static char path[4][200];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

static inline store_run run_of(const char *effective) {
    return (store_run){effective, NT, NE, NL, NB, CROP, false, 0, 0, 0};
}

static inline status open_run(const char *folder, const store_run *run, store_how how, store **s) {
    int err = dup(STDERR_FILENO);
    status_clear();
    fflush(stderr);
    dup2(warnings, STDERR_FILENO);
    status st = store_open(folder, run, &how, s);
    fflush(stderr);
    dup2(err, STDERR_FILENO);
    close(err);
    return st;
}

static inline store *open_ok(const char *effective, store_how how) {
    store *s;
    const store_run run = run_of(effective);
    if (open_run(dir, &run, how, &s) != MOAO_OK)
        fail_msg("%s", status_message());
    return s;
}

static const store_how begin = {0}, resume = {.resume = true}, overwrite = {.overwrite = true};

static inline void expect_refusal(const char *effective, store_how how, const char *word) {
    store *s;
    const store_run run = run_of(effective);
    assert_int_equal(open_run(dir, &run, how, &s), MOAO_INPUT);
    assert_null(s);
    if (strstr(status_message(), word) == NULL || strchr(status_message(), '\n') != NULL ||
        strstr(status_message(), "src/") != NULL)
        fail_msg("'%s' is not one line with '%s'", status_message(), word);
}

/* Everything of an exposure, values that name their place. */
static inline void put(store *s, int e, bool mixed) {
    double scalars[NT * NL * NS];
    float images[NT * NL * CROP * CROP];
    for (int i = 0; i < NT * NL * NS; i++)
        scalars[i] = 100 * e + i;
    for (int i = 0; i < NT * NL * CROP * CROP; i++)
        images[i] = (float)(e + i);
    const result_block b = {e, 0, NT, NL, NB, CROP, scalars, images, mixed, 0, NULL, 0};
    assert_int_equal(store_put(s, &b), MOAO_OK);
}

static inline const char *part(int e) {
    char name[80];
    snprintf(name, sizeof name, "checkpoint/part-%04d-000000-%06d.bin", e, NT);
    return in_dir(name);
}

static inline void write_file(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static inline void flip(const char *path, long at) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int c = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 1, f);
    fclose(f);
}

static inline void expect_text(const char *path, const char *text) {
    char *found;
    assert_int_equal(file_read_text(path, &found), MOAO_OK);
    assert_string_equal(found, text);
    free(found);
}

#endif
