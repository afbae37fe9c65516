/* No prefix of a good parameter file and no random change of its bytes crashes the parser or leaves
 * it without a one-line message; what is accepted gives effective parameters that are accepted
 * again and give themselves. The same for lists of targets, profile files and overrides.
 * seconds: 50 (under valgrind) */
#include "params_case.h"

static uint32_t seed = 12345;

static uint32_t next_random(void) { /* xorshift: the same changes on every machine */
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

/* Every notation that has a canonical form of its own, and every kind of file. */
static const char notations[] =
    "telescope: {diameter: 8, obscuration: 0.14}\n"
    "dm: {nssp: 8}\n"
    "lgs_defaults: {nssp: 8, altitude: 90 km, frame_rate: 500 Hz}\n"
    "sensors:\n"
    "  - {name: L, type: LGS, ring: {n: 3, radius: 1 arcmin, angle: 90}}\n"
    "  - {type: NGS, nssp: 8, direction: [-30, 35], magnitude: 11, wavelength: R}\n"
    "targets: {file: t.txt}\n"
    "atmosphere: {profiles: [{seeing: 0.7, layers: {altitude: [0, 5e3], fraction: [1, 2]}},\n"
    "  {time: 9, file: p.txt}, {time: 20, r0: 0.1, file: p.txt}]}\n"
    "schedule: {tor_interval: 9, exposure_interval: 3, end: 20}\n"
    "psf: {wavelengths: [J, H, 2.2 um]}\n";
static const char targets[] = "x y name\n1 2 A\n-3.5, 4 \"B C\" # last\n";
static const char layers[] = "n\n2\nr0\n0.13\ncn2\n28.5 1.9\nh\n30 12500\nl0\n25 20\n";

/* What the parser must do with the file as it is. */
static void try_load(const char *file, int noverride, const char *const *overrides,
                     const char *from) {
    params p, q;
    status_clear();
    status st = params_load(NULL, 1, &file, noverride, overrides, &p);
    const char *message = status_message();
    if (st == MOAO_OK) {
        const char *kept = "effective.yaml";
        char *effective = params_effective_text(&p);
        assert_non_null(effective);
        write_bytes(kept, effective, strlen(effective));
        if (params_load(NULL, 1, &kept, 0, NULL, &q) != MOAO_OK)
            fail_msg("%s in\n%s\nfrom\n%s", status_message(), effective, from);
        char *again = params_effective_text(&q);
        assert_non_null(again);
        if (strcmp(effective, again) != 0)
            fail_msg("%s\nand again\n%s\nfrom\n%s", effective, again, from);
        params_free(&q);
        free(again);
        free(effective);
    } else if (st != MOAO_INPUT || strpbrk(message, "\n\r\x1b") != NULL ||
               strstr(message, ": ") == NULL || strstr(message, "expected") == NULL) {
        if (strstr(message, "did you mean") == NULL)
            fail_msg("status %d: %s", (int)st, message);
    }
    params_free(&p);
    params_free(&p); /* idempotent */
}

static void try_text(const char *text, size_t n) {
    write_bytes("fuzz.yaml", text, n);
    try_load("fuzz.yaml", 0, NULL, text);
}

/* Random changes of a text into `name`, of which `main_file` is read. */
static void change_and_try(const char *base, const char *name, const char *main_file, int times) {
    static const char *const words[] = {"1e-310", "1e9",  "inf", "1e-320 rad", "0", "[]",
                                        "{}",     "-1e9", "K",   "\"",         "x", "1e308"};
    static const char likely[] = "0123456789.-+eE:,[]{}\"'#&*!|>%@ \n\t\r\\\xc3\xa9\xff\0";
    size_t n = strlen(base);
    char *text = malloc(n + 64);
    assert_non_null(text);
    if (getenv("MOAO_TEST_SMALL") != NULL) /* under sanitizers, which take their time */
        times /= 4;
    for (int i = 0; i < times; i++) {
        memcpy(text, base, n + 1);
        size_t len = n;
        for (uint32_t k = 1 + next_random() % 3; k > 0; k--) {
            size_t at = next_random() % len;
            const char *word = words[next_random() % (sizeof words / sizeof *words)];
            size_t w = strlen(word), cut = strcspn(text + at, " ,]}\n");
            if (next_random() % 2 && w + len < n + 60 && at + cut <= len) { /* a value */
                memmove(text + at + w, text + at + cut, len - at - cut + 1);
                memcpy(text + at, word, w);
                len = len + w - cut;
            } else if (len > 0) {
                text[at] = next_random() % 4 ? likely[next_random() % (sizeof likely - 1)]
                                             : (char)next_random();
            }
            if (len == 0)
                break;
        }
        write_bytes(name, text, len);
        try_load(main_file, 0, NULL, text);
    }
    free(text);
    write_bytes(name, base, n);
}

static void notations_and_their_files(void **state) {
    (void)state;
    write_bytes("t.txt", targets, sizeof targets - 1);
    write_bytes("p.txt", layers, sizeof layers - 1);
    write_bytes("n.yaml", notations, sizeof notations - 1);
    params p;
    load("n.yaml", NULL, &p);
    assert_int_equal(p.targets_names.n, 2);
    assert_int_equal(p.atmosphere_profiles.n, 3);
    params_free(&p);
    change_and_try(notations, "n.yaml", "n.yaml", 1000);
    change_and_try(targets, "t.txt", "n.yaml", 600);
    change_and_try(layers, "p.txt", "n.yaml", 600);
}

static void overrides(void **state) {
    (void)state;
    static const char *const good[] = {"sensors.L2.direction=[1, 2]", "sensors[0].ring.n=2",
                                       "sensors.L.ring={n: 4}", "psf.wavelengths=[J, K]",
                                       "atmosphere.profiles[0].r0=0.2"};
    static const char likely[] = "0123456789.-[]{}=,: LNGSringdiect\"";
    char text[2][64];
    const char *two[2] = {text[0], text[1]};
    write_bytes("t.txt", targets, sizeof targets - 1);
    write_bytes("p.txt", layers, sizeof layers - 1);
    write_bytes("n.yaml", notations, sizeof notations - 1);
    for (int i = 0; i < 500; i++) {
        for (int k = 0; k < 2; k++) {
            strcpy(text[k], good[next_random() % (sizeof good / sizeof *good)]);
            for (uint32_t c = next_random() % 3; c > 0; c--)
                text[k][next_random() % strlen(text[k])] =
                    likely[next_random() % (sizeof likely - 1)];
        }
        try_load("n.yaml", 2, two, text[0]);
    }
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
        cmocka_unit_test(prefixes),      cmocka_unit_test(random_changes),
        cmocka_unit_test(random_copies), cmocka_unit_test(notations_and_their_files),
        cmocka_unit_test(overrides),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
