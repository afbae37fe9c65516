/* The command line: options are as strict as parameters, blanks around = are understood; launch's
 * and plain's texts. */
#include "base/plain.h"
#include "job/cmdline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ALL "-n -o --ranks --memory --nodes --gflops --time --resume -q"

/* Parse words separated by '|'; the status. */
static status parse(const char *words, cmdline *cl) {
    static char copy[512];
    char *argv[32] = {"run"};
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *p = strtok(copy, "|"); p != NULL; p = strtok(NULL, "|"))
        argv[argc++] = p;
    status_clear();
    return cmdline_parse(argc, argv, ALL, cl);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *words, *message;
    } bad[] = {
        {"a.yaml|--ranks|0", "--ranks 0: a whole number from 1"},
        {"a.yaml|--ranks|-3", "--ranks -3: a whole number"},
        {"a.yaml|--ranks|2147483647", "--ranks 2147483647: a whole number from 1 to 1000000"},
        {"a.yaml|--ranks|99999999999", "--ranks 99999999999: a whole number"},
        {"a.yaml|--ranks|4x", "--ranks 4x: a whole number"},
        {"a.yaml|--ranks| 4", "--ranks  4: a whole number"},
        {"a.yaml|-ranks|4", "unknown option -ranks"},
        {"a.yaml|-resume", "unknown option -resume"},
        {"a.yaml|--rank|4", "unknown option --rank"},
        {"a.yaml|--overwrite", "unknown option --overwrite"},
        {"a.yaml|-", "unknown option -"},
        {"a.yaml|--memory|inf", "--memory inf: a positive number"},
        {"a.yaml|--memory|0x10", "--memory 0x10: a positive number"},
        {"a.yaml|--memory|-1", "--memory -1: a positive number"},
        {"a.yaml|--memory|0", "--memory 0: a positive number"},
        {"a.yaml|--memory|nan", "--memory nan: a positive number"},
        {"a.yaml|--memory|3 m", "--memory 3 m: a positive number is expected, in GB"},
        {"a.yaml|--memory", "--memory needs a value"},
        {"a.yaml|--resume=5", "--resume takes no value"},
        {"a.yaml|--ranks|2|--ranks|3", "--ranks is given twice"},
        {"dm.nssp=3", "no parameter file"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cmdline cl;
        assert_int_equal(parse(bad[i].words, &cl), MOAO_INPUT);
        if (strstr(status_message(), bad[i].message) == NULL)
            fail_msg("%s: %s", bad[i].words, status_message());
        assert_non_null(strstr(status_message(), "; see moao help run"));
        cmdline_free(&cl);
    }
    status_clear();
}

static void test_options(void **state) {
    (void)state;
    cmdline cl;
    assert_int_equal(
        parse("a.yaml|--ranks=8|--memory|64|--time=90 min|-o|x|--resume|--gflops|2.5", &cl),
        MOAO_OK);
    assert_int_equal(cl.ranks, 8);
    assert_true(cl.memory == 64e9 && cl.limit == 5400 && cl.gflops == 2.5 && cl.resume);
    assert_string_equal(cl.dir, "x");
    cmdline_free(&cl);
    assert_int_equal(parse("a.yaml|--memory|500 MB", &cl), MOAO_OK);
    assert_true(cl.memory == 5e8);
    cmdline_free(&cl);
}

static void test_blanks_around_equal(void **state) {
    (void)state;
    static const struct {
        const char *words, *override;
    } good[] = {
        {"a.yaml|telescope.zenith=45", "telescope.zenith=45"},
        {"a.yaml|telescope.zenith = 45", "telescope.zenith=45"},
        {"a.yaml|telescope.zenith|=|45", "telescope.zenith=45"},
        {"a.yaml|telescope.zenith=|45", "telescope.zenith=45"},
        {"a.yaml|telescope.zenith|=45", "telescope.zenith=45"},
        {"a.yaml|telescope.zenith =|-5.5", "telescope.zenith=-5.5"},
        {"telescope.zenith|=|45|a.yaml", "telescope.zenith=45"},
        {"a.yaml|dm.nssp=|-o|out", "dm.nssp="},
        {"a.yaml|title=a = b", "title=a = b"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cmdline cl;
        assert_int_equal(parse(good[i].words, &cl), MOAO_OK);
        assert_int_equal(cl.nfile, 1);
        assert_string_equal(cl.files[0], "a.yaml");
        assert_int_equal(cl.noverride, 1);
        assert_string_equal(cl.overrides[0], good[i].override);
        cmdline_free(&cl);
    }
}

/* What a terminal might obey is gone, all other text stays as it is. */
static void test_plain(void **state) {
    (void)state;
    char bad[] = "a\x1b[2Jb\tc\nd\x7f \xc2\x9b[31m \xff \xc3 \xe2\x82",
         good[] = "\xc3\xa9 \xe2\x82\xac \xc2\xb5m";
    assert_string_equal(plain_text(bad), "a?[2Jb c?d? ??[31m ? ? ??");
    assert_string_equal(plain_text(good), "\xc3\xa9 \xe2\x82\xac \xc2\xb5m");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_blanks_around_equal),
        cmocka_unit_test(test_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
