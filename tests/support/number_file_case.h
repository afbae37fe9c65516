/* What the tests of files of numbers share: the file as words of 8 bytes, and its sum. */
#ifndef MOAO_TESTS_NUMBER_FILE_CASE_H
#define MOAO_TESTS_NUMBER_FILE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "moao/status.h"

enum { FILE_WORDS = 1 << 18 };

static char path[64];

typedef struct {
    int64_t words;
    uint64_t *w;
} content;

static content read_file(void) {
    FILE *f = fopen(path, "rb");
    content c = {0, malloc(8 * FILE_WORDS)};
    assert_non_null(f);
    c.words = (int64_t)fread(c.w, 8, FILE_WORDS, f);
    assert_true(c.words < FILE_WORDS);
    fclose(f);
    return c;
}

static void write_file(const void *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

/* With the sum that belongs to it. */
static void write_summed(content *c) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (int64_t i = 0; i + 1 < c->words; i++) {
        sum = (sum ^ c->w[i]) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    c->w[c->words - 1] = sum;
    write_file(c->w, 8 * (size_t)c->words);
}

/* A file was refused as it should be: in one line, with its name and a word. */
static void expect_refusal(status st, status as, const char *word) {
    if (st != as || !strstr(status_message(), word) || strchr(status_message(), '\n') ||
        !strstr(status_message(), path))
        fail_msg("status %d, \"%s\", not %d with %s", (int)st, status_message(), (int)as, word);
    status_clear();
}

#endif
