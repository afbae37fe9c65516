/* Input that would hang, take for ever, or reach where it should not is refused in one line: pipes,
 * runaway YAML, control characters, impossible folders. */
#include "params_case.h"

#include <sys/stat.h>
#include <time.h>

/* What is no regular file is not waited for. */
static void pipes_and_devices(void **state) {
    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    write_changed("{grid: {nx: 4, ny: 2, width: 60, height: 30}}", "{file: pipe}");
    alarm(120);
    expect_mistake(NULL, "bad.yaml:9:17: targets.file: ", "a pipe or device, no regular file");
    write_changed("{grid: {nx: 4, ny: 2, width: 60, height: 30}}", "{file: /dev/zero}");
    expect_mistake(NULL, "bad.yaml:9:17: targets.file: ", "a pipe or device, no regular file");
    unlink("bad.yaml");
    assert_int_equal(rename("pipe", "bad.yaml"), 0);
    expect_mistake(NULL, "bad.yaml:1:1: file: ", "a pipe or device, no regular file");
    alarm(0);
    unlink("bad.yaml");
    assert_int_equal(mistakes_missed, 0);
}

static void deep_and_wide_yaml(void **state) {
    (void)state;
    enum { N = 20000 };
    char *text = malloc(2 * N + 100);
    assert_non_null(text);
    memset(text, '[', N);
    write_bytes("bad.yaml", text, N);
    expect_mistake(NULL, "bad.yaml:1:", "");
    for (int i = 0; i < N; i++)
        memcpy(text + 2 * i, "- ", 2);
    write_bytes("bad.yaml", text, 1000);
    expect_mistake(NULL, "bad.yaml:1:", "nested deeper than");
    int n = sprintf(text, "a: &a [x,x,x,x,x,x,x,x,x,x]\n"); /* ten to the power ten values */
    for (char c = 'b'; c < 'k'; c++)
        n += sprintf(text + n, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c - 1,
                     c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
    write_bytes("bad.yaml", text, (size_t)n);
    expect_mistake(NULL, "bad.yaml:", "values, expected fewer");
    free(text);
    assert_int_equal(mistakes_missed, 0);
}

/* Times grow with the size of a text, not with its square. */
static void absurd_yaml_is_refused_in_time(void **state) {
    (void)state;
    enum { N = 100000 };
    char *text = malloc(20 * N);
    assert_non_null(text);
    struct timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    memset(text, '[', N);
    memset(text + N, ']', N);
    write_bytes("bad.yaml", text, 2 * N);
    expect_mistake(NULL, "bad.yaml:1:", "nested deeper than");
    memset(text, '{', N);
    write_bytes("bad.yaml", text, N);
    expect_mistake(NULL, "bad.yaml:1:", "nested deeper than");
    size_t n = 0;
    for (int i = 0; i < N; i++)
        n += (size_t)sprintf(text + n, "- &a%d x\n", i);
    write_bytes("bad.yaml", text, n);
    expect_mistake(NULL, "bad.yaml:1001:3: syntax: ", "more than 1000 anchors");
    n = 0;
    for (int i = 0; i < N; i++)
        n += (size_t)sprintf(text + n, "k%d: x\n", i);
    write_bytes("bad.yaml", text, n);
    expect_mistake(NULL, "bad.yaml:1:1: syntax: ", "100000 keys in a mapping");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    free(text);
    assert_true(end.tv_sec - begin.tv_sec < 30);
    assert_int_equal(mistakes_missed, 0);
}

/* A folder whose name would fail when the results are written is refused at the start. */
static void impossible_folders(void **state) {
    (void)state;
    char longest[902];
    memset(longest, 'd', sizeof longest);
    longest[900] = '\0';
    status_clear();
    assert_int_equal(params_check_directory("-o", longest), MOAO_OK);
    assert_int_equal(params_check_directory("-o", "./ out"), MOAO_OK);
    longest[900] = 'd';
    longest[901] = '\0';
    assert_int_equal(params_check_directory("-o", longest), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "longer than 900 bytes"));
    status_clear();
    assert_int_equal(params_check_directory("-o", " out"), MOAO_INPUT);
    assert_string_equal(status_message(),
                        "-o ' out': the name begins with a blank, expected one that "
                        "does not (./ may stand before it)");
    status_clear();
    assert_int_equal(params_check_directory("-o", ""), MOAO_INPUT);
    status_clear();
}

/* A message never carries what a terminal would obey. */
static void no_control_characters_reach_the_terminal(void **state) {
    (void)state;
    const char *file = "bad.yaml", text[] = "\"a\\x9b31m\": 1\n";
    params par;
    write_bytes(file, text, sizeof text - 1);
    status_clear();
    assert_int_equal(params_load(NULL, 1, &file, 0, NULL, &par), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "a??31m"));
    params_free(&par);
    status_clear();
}

static int reset(void **state) {
    (void)state;
    mistakes_missed = 0;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pipes_and_devices, reset),
        cmocka_unit_test_setup(deep_and_wide_yaml, reset),
        cmocka_unit_test_setup(absurd_yaml_is_refused_in_time, reset),
        cmocka_unit_test_setup(no_control_characters_reach_the_terminal, reset),
        cmocka_unit_test(impossible_folders),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
