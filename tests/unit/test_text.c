/* Cells of CSV: what is quoted, what a spreadsheet would compute, the value read back; cells of
 * lines. */
#include "base/cells.h"
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

/* The cells of a line, with bars between. */
static void assert_split(const char *line, bool commas, int n, const char *expected) {
    cell c[4];
    char all[4 * CELL_BYTES + 8] = "";
    assert_int_equal(cells_split(line, strlen(line), commas, c, 4), n);
    for (int i = 0; i < n && n <= 4; i++) {
        strcat(all, i > 0 ? "|" : "");
        strcat(all, c[i].text);
    }
    if (n >= 0 && n <= 4)
        assert_string_equal(all, expected);
}

static void test_lines(void **state) {
    (void)state;
    assert_split("Gaia DR3 1, 2,3", true, 3, "Gaia DR3 1|2|3");
    assert_split("a,,\r", true, 3, "a||");
    assert_split(",1,", true, 3, "|1|");
    assert_split("a,1, # near", true, 3, "a|1|");
    assert_split("NGC#5,1 # near", true, 2, "NGC#5|1");
    assert_split("\"a, \"\"b\"\"\",1", true, 2, "a, \"b\"|1");
    assert_split("\"'=1+1\",\"'t\"", true, 2, "=1+1|'t");
    assert_split("1 2 three", true, 3, "1|2|three"); /* no commas after all */
    assert_split("1, 2 three#four", false, 3, "1|2|three");
    assert_split("1\t\"2 3\"", false, 2, "1|2 3");
    assert_split("\xEF\xBB\xBFx,y", true, 2, "x|y");
    assert_split("  # comment, with a comma", true, 0, "");
    assert_split("", true, 0, "");
    assert_split("1 2 3 4 5", false, 5, "");
    assert_split("1,2,3,4,", true, 5, "");
    assert_split("\"open,1", true, -1, "");
    assert_true(cells_by_commas("a b,c", 5));
    assert_false(cells_by_commas("\"a,b\" c", 7));
    assert_true(cell_is_missing("NULL") && cell_is_missing("") && cell_is_missing("~"));
    assert_false(cell_is_missing("0") || cell_is_missing("nano"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells),
                                       cmocka_unit_test(test_formulas),
                                       cmocka_unit_test(test_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
