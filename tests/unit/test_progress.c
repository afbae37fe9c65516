/* What the user sees: dated lines without control characters in a log, a bar that stays within the
 * terminal on a terminal; the JSON writer. */
#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/stop.h"

#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

static char text[1 << 16]; /* what the last body wrote to stderr */

/* Run body with stderr in a file; its output goes to `text`. */
static void capture(void (*body)(void)) {
    char path[] = "/tmp/moao-progress-XXXXXX";
    int fd = mkstemp(path), was = dup(STDERR_FILENO);
    assert_true(fd >= 0);
    dup2(fd, STDERR_FILENO);
    body();
    fflush(stderr);
    dup2(was, STDERR_FILENO);
    close(was);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
    unlink(path);
}

/* The same with stderr on a terminal of the given width. */
static void capture_terminal(void (*body)(void), unsigned short width) {
    int master = posix_openpt(O_RDWR | O_NOCTTY), was = dup(STDERR_FILENO);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct winsize w = {.ws_row = 24, .ws_col = width};
    ioctl(slave, TIOCSWINSZ, &w);
    dup2(slave, STDERR_FILENO);
    body();
    fflush(stderr);
    dup2(was, STDERR_FILENO);
    close(was);
    fcntl(master, F_SETFL, O_NONBLOCK);
    size_t n = 0;
    for (ssize_t k; n < sizeof text - 1 && (k = read(master, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)k;
    text[n] = '\0';
    close(slave);
    close(master);
}

static void some_steps(void) {
    progress_init(true, 100);
    progress_part(25, 1000);
    progress_step("matcov of ToR 1/2");
    progress_advance(500);
    progress_advance(1500); /* more than was said: the part stays within its share */
    progress_part(70, 0);
    progress_step("factor");
    progress_note("a note of %d words", 4);
    progress_warn("doubtful: %s", "w\xc2\x9b");
    progress_advance(75);
    progress_part(5, 0);
    progress_step("output");
    progress_end();
}

/* A date in local time as ISO 8601 has it, and a blank. */
static bool is_dated(const char *line) {
    static const char form[] = "dddd-dd-ddTdd:dd:dd ";
    for (size_t i = 0; form[i] != '\0'; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char)line[i]) : line[i] != form[i])
            return false;
    return true;
}

/* In a log every step is one dated line with what is done, and no line holds a control character.
 */
static void test_log(void **state) {
    (void)state;
    unsetenv("MOAO_PROGRESS");
    capture(some_steps);
    int lines = 0, dated = 0;
    for (const char *p = text; *p != '\0'; p++)
        assert_true(*p == '\n' || !iscntrl((unsigned char)*p));
    char *copy = strdup(text);
    for (char *line = strtok(copy, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        lines++;
        dated += is_dated(line);
    }
    free(copy);
    assert_int_equal(lines, 5);
    assert_int_equal(dated, 4);
    assert_non_null(strstr(text, " factor (25% done, "));
    assert_non_null(strstr(text, " matcov of ToR 1/2 (0% done, "));
    assert_non_null(strstr(text, " output (95% done, "));
    assert_non_null(strstr(text, "a note of 4 words\n"));
    assert_non_null(strstr(text, "\nmoao: warning: doubtful: w??\n"));
}

/* On a terminal no drawing is wider than it, notes and warnings stay as lines of their own, and the
 * bar is gone at the end. */
static void test_bar(void **state) {
    (void)state;
    unsetenv("MOAO_PROGRESS");
    for (unsigned short width = 30; width <= 120; width += 45) {
        capture_terminal(some_steps, width);
        int column = 0, widest = 0;
        assert_non_null(strchr(text, '#'));
        for (const char *p = text; *p != '\0'; p++) {
            if (*p == '\r' || *p == '\n')
                column = 0;
            else if (strncmp(p, "\033[K", 3) == 0)
                p += 2;
            else
                column++;
            widest = column > widest ? column : widest;
        }
        assert_true(widest > 0 && widest < (width < 80 ? width : 80));
        assert_non_null(strstr(text, "\r\033[Kmoao: warning: doubtful: w??\r\n"));
        assert_non_null(strstr(text, "\r\033[Ka note of 4 words\r\n"));
        assert_non_null(strstr(text, " 25% left "));
        assert_int_equal(strcmp(text + strlen(text) - 4, "\r\033[K"), 0);
    }
}

static void many_steps(void) {
    progress_init(true, 2e6);
    double from = report_now();
    while (report_now() - from < 0.5) {
        progress_step("psf");
        progress_advance(1);
    }
    progress_end();
}

/* The bar is drawn at most five times a second (and once at the first step), however often work is
 * reported. */
static void test_redraw(void **state) {
    (void)state;
    double from = report_now();
    setenv("MOAO_PROGRESS", "bar", 1); /* also where stderr is no terminal */
    capture(many_steps);
    int most = 3 + (int)((report_now() - from) / 0.2), drawn = 0;
    for (const char *p = text; (p = strstr(p, "psf [")) != NULL; p++)
        drawn++;
    assert_true(drawn >= 1 && drawn <= most);
    setenv("MOAO_PROGRESS", "log", 1);
    capture_terminal(some_steps, 80);
    assert_null(strchr(text, '\033'));
    assert_true(is_dated(text));
    unsetenv("MOAO_PROGRESS");
}

static void silent(void) {
    progress_init(false, 10);
    progress_step("nothing");
    progress_advance(3);
    progress_note("nothing");
    progress_warn("only this");
    progress_end();
}

/* Disabled, only warnings are printed. */
static void test_disabled(void **state) {
    (void)state;
    capture(silent);
    assert_string_equal(text, "moao: warning: only this\n");
}

static const char *heard;

static void listen(const char *phase) {
    heard = phase;
}

/* A phase reaches who listens, and nobody otherwise. */
static void test_phase(void **state) {
    (void)state;
    report_phase("nobody: listens");
    assert_null(heard);
    report_listener = listen;
    report_phase("stage: step");
    assert_string_equal(heard, "stage: step");
    report_listener = NULL;
    report_phase("nobody: again");
    assert_string_equal(heard, "stage: step");
}

/* Nested values, escapes and numbers that JSON lacks. */
static void test_json(void **state) {
    (void)state;
    char path[] = "/tmp/moao-json-XXXXXX", *got;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    json j;
    assert_int_equal(json_open(&j, path), MOAO_OK);
    json_string(&j, "a \"b\"", "line\n\\ \xc3\xa9");
    json_array(&j, "list");
    json_number(&j, NULL, 0.1);
    json_number(&j, NULL, NAN);
    json_object(&j, NULL);
    json_integer(&j, "n", -7);
    json_bool(&j, "t", true);
    json_end(&j);
    json_array(&j, NULL);
    json_end(&j);
    assert_int_equal(json_close(&j), MOAO_OK);
    assert_int_equal(file_read_text(path, &got), MOAO_OK);
    assert_string_equal(
        got,
        "{\n  \"a \\\"b\\\"\": \"line\\u000a\\\\ \xc3\xa9\",\n  \"list\": [\n    0.1,\n    null,\n"
        "    {\n      \"n\": -7,\n      \"t\": true\n    },\n    []\n  ]\n}\n");
    free(got);
    unlink(path);
}

/* How long a run may go on after a signal: 30 s, after USR1 any time, both no longer than until 10
 * s before the end of a job; a moment that is none counts for nothing. */
static void test_grace(void **state) {
    (void)state;
    const time_t now = 1700000000;
    assert_true(stop_grace(SIGINT, NULL, now) == 30 && stop_grace(SIGTERM, NULL, now) == 30);
    assert_true(stop_grace(SIGUSR2, NULL, now) == 30);
    assert_true(isinf(stop_grace(SIGUSR1, NULL, now)));
    assert_true(stop_grace(SIGUSR1, "1700000120", now) == 110);
    assert_true(stop_grace(SIGTERM, "1700000120", now) == 30);
    assert_true(stop_grace(SIGTERM, "1700000025", now) == 15);
    assert_true(stop_grace(SIGUSR1, "1699999999", now) == 0);
    assert_true(isinf(stop_grace(SIGUSR1, "NONE", now)) && stop_grace(SIGINT, "", now) == 30);
}

/* The rest of a part at the pace of those before it; from 5 % on of the work that is reported, at
 * the pace of this part. */
static void test_part_left(void **state) {
    (void)state;
    progress_init(false, 100);
    assert_true(progress_part_left() == 0);
    const double first = report_now();
    progress_part(40, 0);
    double left = progress_part_left();
    assert_true(left <= 40 && left >= 40 - (report_now() - first));
    const double second = report_now();
    progress_part(60, 1e6); /* 40 s of work took no time: a pace of 2/42 */
    left = progress_part_left();
    const double now = report_now();
    assert_true(left <= 60 * (2 + now - first) / 42 && left >= 60 * 2.0 / 42 - (now - second));
    usleep(50000);
    progress_advance(5e5);
    left = progress_part_left();
    assert_true(left > 0.04 && left <= report_now() - second);
    progress_advance(5e5);
    assert_true(progress_part_left() == 0);
}

static int count(const char *in, const char *what) {
    int n = 0;
    for (const char *p = in; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

static void events(void) {
    some_steps();
    progress_error("a \"quoted\" word", 2);
    progress_keep_json();
    setenv("MOAO_PROGRESS", "log", 1);
    progress_run(2, 3, "telescope.zenith=30", "done", 1.5);
}

/* For programs every line is one object with an event; also warnings and failures. */
static void test_events(void **state) {
    (void)state;
    setenv("MOAO_PROGRESS", "json", 1);
    capture(events);
    assert_int_equal(count(text, "\n"), count(text, "{\"event\": \""));
    assert_int_equal(count(text, "\n"), count(text, "}\n"));
    for (const char *p = text; *p != '\0'; p = strchr(p, '\n') + 1)
        assert_int_equal(strncmp(p, "{\"event\": ", 10), 0);
    assert_int_equal(count(text, "\"begin\""), 1);
    assert_non_null(strstr(text, "\"protocol\": 1,\"expected_s\": 100}"));
    assert_int_equal(count(text, "\"step\": \"output\""), 1);
    assert_non_null(strstr(text, "\"done\": 0.25,"));
    assert_non_null(strstr(text, "{\"event\": \"note\",\"text\": \"a note of 4 words\"}"));
    assert_non_null(strstr(text, "{\"event\": \"warning\",\"text\": \"doubtful: w??\"}"));
    assert_non_null(
        strstr(text, "{\"event\": \"error\",\"text\": \"a \\\"quoted\\\" word\",\"code\": 2}"));
    assert_non_null(strstr(text,
                           "\"number\": 2,\"of\": 3,\"folder\": \"telescope.zenith=30\",\"state\": "
                           "\"done\",\"seconds\": 1.5}"));
    assert_true(progress_is_json()); /* kept */
    unsetenv("MOAO_PROGRESS");
    progress_keep_json();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log),    cmocka_unit_test(test_bar),
        cmocka_unit_test(test_redraw), cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_phase),  cmocka_unit_test(test_json),
        cmocka_unit_test(test_grace),  cmocka_unit_test(test_part_left),
        cmocka_unit_test(test_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
