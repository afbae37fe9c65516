/* Texts in the ASCII of FITS files: every one is given back. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void there_and_back(const char *s) {
    text t = {0};
    text_add_ascii(&t, s);
    assert_int_equal(t.failed, MOAO_OK);
    for (const unsigned char *p = (const unsigned char *)t.s; *p != '\0'; p++)
        assert_in_range(*p, 0x20, 0x7e);
    assert_int_equal(strlen(t.s), t.len);
    if (t.len > 0) {
        assert_int_not_equal(t.s[0], ' ');
        assert_int_not_equal(t.s[t.len - 1], ' ');
    }
    assert_string_equal(text_from_ascii(t.s), s);
    free(t.s);
}

/* Every byte, alone and between others; characters of every length; what looks like an escape. */
static void test_ascii(void **state) {
    (void)state;
    static const char *const odd[] = {"",
                                      " ",
                                      "  a  ",
                                      "M\xc3\xbcller",
                                      "\xe6\x98\x9f",
                                      "\xf0\x9f\x94\xad",
                                      "\xef\xbf\xbd",
                                      "\\u00fc",
                                      "\\\\u0041",
                                      "\\u",
                                      "\\U0001F52D",
                                      "\\u005Cu0041",
                                      "a\\",
                                      "\xc3",
                                      "\xe6\x98",
                                      "\xed\xa0\x80",
                                      "\xff\xfe",
                                      "\xc0\xaf",
                                      "\xf4\x90\x80\x80",
                                      "a\xc2\x85z",
                                      "'\"&/"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        there_and_back(odd[i]);
    for (int c = 1; c < 256; c++) {
        const char one[2] = {(char)c, '\0'}, three[4] = {'a', (char)c, 'b', '\0'};
        there_and_back(one);
        there_and_back(three);
    }
    text t = {0};
    text_add_ascii(&t, "a \xc3\xbc\n\xff\\u");
    assert_string_equal(t.s, "a \\u00FC\\u000A\\uDCFF\\u005Cu");
    free(t.s);
}

/* What others wrote is kept where it is no escape. */
static void test_foreign(void **state) {
    (void)state;
    static const char *const same[] = {"\\u00f",      "\\u0000", "\\uD800",
                                       "\\U00110000", "\\x41",   "u0041"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char copy[32];
        strcpy(copy, same[i]);
        assert_string_equal(text_from_ascii(copy), same[i]);
    }
    char two[] = "\\u0041\\U00000042";
    assert_string_equal(text_from_ascii(two), "AB");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ascii),
                                       cmocka_unit_test(test_foreign)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
