/* No prefix of a good parameter file and no random change of its bytes crashes the parser or leaves
 * it without a one-line message; what is accepted gives effective parameters that are accepted
 * again. */
#include "params_case.h"

static uint32_t seed = 12345;

static uint32_t next_random(void) { /* xorshift: the same changes on every machine */
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

static void try_text(const char *text, size_t n) {
    const char *file = "fuzz.yaml";
    params p, q;
    write_bytes(file, text, n);
    status_clear();
    status st = params_load(NULL, 1, &file, 0, NULL, &p);
    const char *message = status_message();
    if (st == MOAO_OK) {
        char *effective = params_effective_text(&p);
        assert_non_null(effective);
        write_bytes(file, effective, strlen(effective));
        if (params_load(NULL, 1, &file, 0, NULL, &q) != MOAO_OK)
            fail_msg("%s in\n%s\nfrom\n%.*s", status_message(), effective, (int)n, text);
        params_free(&q);
        free(effective);
    } else if (st != MOAO_INPUT || strchr(message, '\n') != NULL ||
               strncmp(message, "fuzz.yaml:", 10) != 0) {
        fail_msg("status %d: %s", (int)st, message);
    }
    params_free(&p);
    params_free(&p); /* idempotent */
}

static void prefixes(void **state) {
    (void)state;
    for (size_t n = 0; n <= strlen(params_case); n++)
        try_text(params_case, n);
}

static void random_changes(void **state) {
    (void)state;
    static const char likely[] = "0123456789.-+eE:,[]{}\"'#&*!|>%@ \n\t\r\\\xc3\xa9\xff";
    size_t n = strlen(params_case);
    char *text = malloc(n + 1);
    assert_non_null(text);
    for (int i = 0; i < 800; i++) {
        memcpy(text, params_case, n + 1);
        for (uint32_t k = 1 + next_random() % 4; k > 0; k--) {
            char c = next_random() % 4 ? likely[next_random() % (sizeof likely - 1)]
                                       : (char)next_random();
            text[next_random() % n] = c;
        }
        try_text(text, n);
    }
    free(text);
}

/* Pieces of the file in a wrong place. */
static void random_copies(void **state) {
    (void)state;
    size_t n = strlen(params_case);
    char *text = malloc(n + 1);
    assert_non_null(text);
    for (int i = 0; i < 300; i++) {
        memcpy(text, params_case, n + 1);
        size_t len = 1 + next_random() % 40;
        memmove(text + next_random() % (n - len), text + next_random() % (n - len), len);
        try_text(text, n);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes),
        cmocka_unit_test(random_changes),
        cmocka_unit_test(random_copies),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
