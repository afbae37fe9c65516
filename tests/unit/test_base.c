/* What everything stands on: messages and exit codes, memory that is asked for, checksums, files
 * that are written whole or not at all and read as they are. */
#include "base/crc.h"
#include "base/file.h"
#include "moao/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

static int make_dir(void **state) {
    (void)state;
    status_clear();
    strcpy(dir, "/tmp/moao-base-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    status_clear();
    return system(command) != 0;
}

static const char *in_dir(const char *name) {
    static char path[4][128];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", dir, name);
    return path[i];
}

/* Number of names in the folder. */
static int count(void) {
    char command[160];
    int n = -1;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", dir);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

/* The first message counts; nothing in it can steer a terminal; a code for each end. */
static void test_messages(void **state) {
    (void)state;
    assert_int_equal(status_fail(MOAO_INPUT, "a\tb\nc\x1b[1md\x7f \xc2\x9b \xc3\xa9 %d", 7),
                     MOAO_INPUT);
    assert_string_equal(status_message(), "a?b?c?[1md? ?? \xc3\xa9 7");
    assert_int_equal(status_fail(MOAO_MEMORY, "later"), MOAO_MEMORY);
    assert_string_equal(status_message(), "a?b?c?[1md? ?? \xc3\xa9 7");
    status_adopt("later");
    assert_string_equal(status_message(), "a?b?c?[1md? ?? \xc3\xa9 7");
    status_clear();
    status_adopt("told");
    assert_string_equal(status_message(), "told");
    status_clear();
    assert_int_equal(status_fail(MOAO_INTERNAL, "odd"), MOAO_INTERNAL);
    assert_non_null(strstr(status_message(), "odd [internal error at "));
    assert_non_null(strstr(status_message(), "test_base.c:"));
    static const struct {
        status st;
        int code;
    } end[] = {{MOAO_OK, 0},      {MOAO_STOPPED, 3}, {MOAO_INPUT, 2},   {MOAO_MEMORY, 1},
               {MOAO_NUMERIC, 1}, {MOAO_IO, 1},      {MOAO_INTERNAL, 1}};
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        assert_int_equal(status_exit_code(end[i].st), end[i].code);
}

/* Sizes that no machine has, of which some overflow, are refused; what is taken is 0. */
static void test_memory(void **state) {
    (void)state;
    static const struct {
        unsigned long count, size;
    } none[] = {{~0ul, 2}, {~0ul, 1}, {1ul << 33, 1ul << 33}, {~0ul / 8 + 2, 8}, {1, ~0ul - 3}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        void *p = &p;
        assert_int_equal(mem_alloc(&p, none[i].count, none[i].size, "a test"), MOAO_MEMORY);
        assert_null(p);
        assert_non_null(strstr(status_message(), "a test: "));
        status_clear();
    }
    for (unsigned long n = 0; n < 200; n += 7) {
        void *p;
        assert_int_equal(mem_alloc(&p, n, 3, "a test"), MOAO_OK);
        assert_true(p != NULL && (uintptr_t)p % 64 == 0);
        for (unsigned long i = 0; i < 3 * n; i++)
            assert_int_equal(((char *)p)[i], 0);
        free(p);
    }
}

/* CRC-32 of the standard's text, and of parts of it. */
static void test_checksum(void **state) {
    (void)state;
    const char *text = "123456789";
    assert_int_equal(crc_update(0, text, 9), 0xCBF43926u);
    assert_int_equal(crc_update(0, text, 0), 0);
    for (size_t n = 0; n <= 9; n++)
        assert_int_equal(crc_update(crc_update(0, text, n), text + n, 9 - n), 0xCBF43926u);
}

/* A file whose size is not that of what was written is not put in place, though no call failed: the
 * old one stays, and nothing else. */
static void test_not_all_arrived(void **state) {
    (void)state;
    const char old[] = "what was there", new[] = "longer than what was there before";
    const int before = count();
    char *back = NULL;
    file_out o;
    assert_int_equal(file_begin(&o, in_dir("c")), MOAO_OK);
    assert_int_equal(file_append(&o, old, strlen(old)), MOAO_OK);
    assert_int_equal(file_commit(&o), MOAO_OK);
    for (int turn = 0; turn < 3; turn++) { /* too short, empty, too long */
        const off_t size = turn == 0 ? (off_t)strlen(new) - 1 : turn == 1 ? 0 : 100;
        assert_int_equal(file_begin(&o, in_dir("c")), MOAO_OK);
        assert_int_equal(file_write_at(&o, new, strlen(new), 0), MOAO_OK);
        assert_int_equal(truncate(o.temp, size), 0);
        assert_int_equal(file_commit(&o), MOAO_IO);
        assert_non_null(strstr(status_message(), "bytes arrived of 33"));
        status_clear();
        assert_int_equal(file_read_text(in_dir("c"), &back), MOAO_OK);
        assert_string_equal(back, old);
        free(back);
        assert_int_equal(count(), before + 1);
    }
    assert_int_equal(unlink(in_dir("c")), 0);
}

/* The numbers of temporary names, one after another, while there are any; else none is random. */
static const unsigned *numbers;
ssize_t getrandom(void *to, size_t size, unsigned flags) {
    (void)flags;
    if (numbers == NULL || size != sizeof *numbers)
        return -1;
    memcpy(to, numbers++, size);
    return (ssize_t)size;
}

/* Temporary names that something has, a file or a link, are passed over and left as they are. */
static void test_name_in_use(void **state) {
    (void)state;
    static const unsigned some[] = {0x1234abcd, 7, 8, 9};
    char *back;
    file_out o;
    assert_int_equal(file_write_text(in_dir("d"), "another file"), MOAO_OK);
    assert_int_equal(file_write_text(in_dir(".moao-1234abcd.tmp"), "of another run"), MOAO_OK);
    assert_int_equal(symlink(in_dir("d"), in_dir(".moao-00000007.tmp")), 0);
    assert_int_equal(symlink(in_dir("nowhere"), in_dir(".moao-00000008.tmp")), 0);
    numbers = some;
    assert_int_equal(file_begin(&o, in_dir("e")), MOAO_OK);
    assert_string_equal(o.temp, in_dir(".moao-00000009.tmp"));
    numbers = NULL;
    assert_int_equal(file_append(&o, "mine", 4), MOAO_OK);
    assert_int_equal(file_commit(&o), MOAO_OK);
    static const char *const expected[][2] = {
        {"d", "another file"}, {".moao-1234abcd.tmp", "of another run"}, {"e", "mine"}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(file_read_text(in_dir(expected[i][0]), &back), MOAO_OK);
        assert_string_equal(back, expected[i][1]);
        free(back);
    }
    assert_int_equal(access(in_dir("nowhere"), F_OK), -1);
    assert_int_equal(count(), 5);
}

/* Pieces of all sizes round that of the buffer arrive whole and in order, whatever came before; a
 * file that is not finished leaves nothing. */
static void test_written_whole(void **state) {
    (void)state;
    const size_t room = sizeof((file_out *)NULL)->buffer, most = 2 * room + 300;
    char *all = malloc(most), *back = NULL;
    for (size_t i = 0; i < most; i++)
        all[i] = (char)(1 + i * 2654435761u % 251);
    for (int before = 0; before < 3; before++)
        for (int more = 0; more < 5; more++) {
            const size_t first = before == 0   ? 0
                                 : before == 1 ? 100
                                               : room - 2,
                         second = room - first + (size_t)more - 2, third = 77;
            file_out o;
            uint64_t size;
            uint32_t crc;
            assert_int_equal(file_begin(&o, in_dir("a")), MOAO_OK);
            assert_int_equal(file_append(&o, all, first), MOAO_OK);
            assert_int_equal(file_append(&o, all + first, second), MOAO_OK);
            assert_int_equal(file_append(&o, all + first + second, third), MOAO_OK);
            assert_int_equal(count(), before + more > 0 ? 2 : 1); /* that of the last turn */
            assert_int_equal(file_commit(&o), MOAO_OK);
            const size_t n = first + second + third;
            assert_int_equal(file_read_text(in_dir("a"), &back), MOAO_OK);
            assert_memory_equal(back, all, n);
            assert_int_equal(back[n], 0);
            free(back);
            assert_int_equal(file_sum(in_dir("a"), &size, &crc), MOAO_OK);
            assert_true(size == n && crc == crc_update(0, all, n));
        }
    file_out o;
    assert_int_equal(file_begin(&o, in_dir("b")), MOAO_OK);
    assert_int_equal(file_append(&o, all, most), MOAO_OK);
    file_abandon(&o);
    assert_int_equal(count(), 1);
    free(all);
}

/* What is read: nothing that is no plain file, nothing beyond an end; what is not there is no error
 * to remove; only our own names are taken for temporary ones. */
static void test_read(void **state) {
    (void)state;
    char *text, bytes[8];
    bool there;
    assert_int_equal(file_write_text(in_dir("a"), "hello"), MOAO_OK);
    const int fd = file_open_fd(in_dir("a"), 0);
    assert_true(fd >= 0);
    assert_int_equal(file_read_at(fd, "a", bytes, 5, 0), MOAO_OK);
    assert_int_equal(file_read_at(fd, "a", bytes, 6, 0), MOAO_IO);
    assert_non_null(strstr(status_message(), "shorter"));
    status_clear();
    assert_int_equal(file_read_at(fd, "a", bytes, 1, 5), MOAO_IO);
    status_clear();
    close(fd);
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_not_equal(file_read_text(in_dir("pipe"), &text), MOAO_OK);
    assert_null(text);
    status_clear();
    assert_int_not_equal(file_read_text(dir, &text), MOAO_OK);
    status_clear();
    assert_int_equal(file_find(in_dir("a"), &there), MOAO_OK);
    assert_true(there);
    assert_int_equal(file_delete(in_dir("a")), MOAO_OK);
    assert_int_equal(file_delete(in_dir("a")), MOAO_OK);
    assert_int_equal(file_find(in_dir("a"), &there), MOAO_OK);
    assert_false(there);
    assert_true(file_is_temporary(".moao-0123abcd.tmp"));
    static const char *const others[] = {".moao-0123abcd.tmp2", ".moao-123.tmp",
                                         ".moao-0123ABCD.tmp",  "moao-0123abcd.tmp",
                                         ".moao-0x23abcd.tmp",  ".moao-0123abcd"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(file_is_temporary(others[i]));
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {CASE(test_messages),    CASE(test_memory),
                                       CASE(test_checksum),    CASE(test_not_all_arrived),
                                       CASE(test_name_in_use), CASE(test_written_whole),
                                       CASE(test_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
