/* Cells of CSV: what is quoted, what a spreadsheet would compute, and the value read back. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The cell as written, and the value that a reader of CSV gets of it. */
static void assert_cell(const char *value, const char *written) {
    text t = {0};
    char plain[64] = "";
    size_t n = 0;
    text_add_cell(&t, value, " ");
    assert_int_equal(t.failed, MOAO_OK);
    assert_string_equal(t.s != NULL ? t.s : "", written);
    const bool quoted = written[0] == '"';
    for (const char *p = written + quoted; *p != '\0' && !(quoted && p[0] == '"' && p[1] == '\0');
         p++) {
        plain[n++] = *p;
        p += quoted && *p == '"';
    }
    assert_string_equal(text_cell_value(plain), value);
    free(t.s);
}

static void test_cells(void **state) {
    (void)state;
    assert_cell("", "");
    assert_cell("S1", "S1");
    assert_cell("two words", "\"two words\"");
    assert_cell("a,b", "\"a,b\"");
    assert_cell("5\" off", "\"5\"\" off\"");
    assert_cell("a\r\nb", "\"a\r\nb\"");
}

static void test_formulas(void **state) {
    (void)state;
    assert_cell("=1+1", "\"'=1+1\"");
    assert_cell("@SUM(A1)", "\"'@SUM(A1)\"");
    assert_cell("+A1", "\"'+A1\"");
    assert_cell("-2+3", "\"'-2+3\"");
    assert_cell("\tx", "\"'\tx\"");
    assert_cell("-12.5", "-12.5"); /* numbers stay numbers */
    assert_cell("+.5e-3", "+.5e-3");
    assert_cell("--", "\"'--\"");
    assert_cell("'=x", "\"''=x\""); /* so that what is read is what was written */
    assert_cell("''", "\"'''\"");
    assert_cell("'t is", "\"'t is\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells),
                                       cmocka_unit_test(test_formulas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
