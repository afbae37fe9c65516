/* What the store trusts: only parts, facts and results of its own run, unchanged since they were
 * written; only folders that are its own; and no link leads it elsewhere. */
#include "support/store_case.h"

/* Parts of a run with other parameters do not count, whatever their names; nor those of another
 * number of wavelengths, which would not even fit. A part under another's name neither. */
static void test_foreign_parts(void **state) {
    (void)state;
    char command[400];
    double v[NL * NS];
    store *s = open_ok(OTHER, begin);
    put(s, 0, false);
    store_close(s);
    snprintf(command, sizeof command, "mv '%s' '%s.2'", dir, dir);
    assert_int_equal(system(command), 0);
    s = open_ok(EFFECTIVE, begin);
    put(s, 1, false);
    store_close(s);
    snprintf(command, sizeof command, "cp '%s'.2/checkpoint/part-0000* '%s/checkpoint/'", dir, dir);
    assert_int_equal(system(command), 0);
    s = open_ok(EFFECTIVE, resume);
    assert_int_equal(store_done_count(s), NT);
    assert_false(store_done(s, 0, 0));
    store_close(s);

    store_run fewer = run_of(EFFECTIVE);
    fewer.nlambda = 1; /* room for one in the hands of who reads */
    assert_int_equal(open_run(dir, &fewer, resume, &s), MOAO_OK);
    assert_int_equal(store_done_count(s), 0);
    store_close(s);

    snprintf(command, sizeof command, "cp '%s' ", part(1));
    strcat(command, part(0));
    assert_int_equal(system(command), 0);
    s = open_ok(EFFECTIVE, resume);
    assert_int_equal(store_done_count(s), NT);
    assert_int_equal(store_read_scalars(s, 1, 0, v), MOAO_OK);
    assert_true(v[0] == 100);
    store_close(s);
}

/* Title and compute.* may change; DIR/effective.yaml and the checkpoint's are then those of the run
 * that goes on, also after a killed --overwrite with other parameters. */
static void test_one_truth(void **state) {
    (void)state;
    store *s = open_ok(EFFECTIVE, begin);
    put(s, 0, false);
    store_close(s);
    s = open_ok(RETITLED, resume);
    assert_int_equal(store_done_count(s), NT);
    store_close(s);
    expect_text(in_dir("effective.yaml"), RETITLED);
    expect_text(in_dir("checkpoint/effective.yaml"), RETITLED);
    assert_int_equal(file_write_text(in_dir("effective.yaml"), OTHER), MOAO_OK);
    store_close(open_ok(EFFECTIVE, resume));
    expect_text(in_dir("effective.yaml"), EFFECTIVE);
    /* --overwrite killed after its first step: either run goes on, each with its own parts alone */
    for (int k = 0; k < 2; k++) {
        assert_int_equal(file_write_text(in_dir("checkpoint/effective.yaml"), OTHER), MOAO_OK);
        assert_int_equal(file_write_text(in_dir("maps.fits"), "of the old run"), MOAO_OK);
        s = open_ok(k == 0 ? EFFECTIVE : OTHER, resume);
        assert_int_equal(store_done_count(s), k == 0 ? NT : 0);
        assert_false(file_exists(in_dir("maps.fits")));
        store_close(s);
        expect_text(in_dir("effective.yaml"), k == 0 ? EFFECTIVE : OTHER);
        expect_text(in_dir("checkpoint/effective.yaml"), k == 0 ? EFFECTIVE : OTHER);
    }
    expect_refusal(EFFECTIVE, resume, "r0");
}

/* Without effective.yaml the parts tell by themselves whether they belong. */
static void test_lost_effective(void **state) {
    (void)state;
    store *s = open_ok(EFFECTIVE, begin);
    put(s, 0, false);
    store_close(s);
    assert_int_equal(unlink(in_dir("checkpoint/effective.yaml")), 0);
    expect_refusal(OTHER, resume, "effective.yaml");
    assert_int_equal(file_write_text(in_dir("checkpoint/effective.yaml"), "{]"), MOAO_OK);
    s = open_ok(EFFECTIVE, resume); /* the facts know better */
    assert_int_equal(store_done_count(s), NT);
    store_close(s);
    expect_text(in_dir("checkpoint/effective.yaml"), EFFECTIVE);
    assert_int_equal(unlink(in_dir("checkpoint/effective.yaml")), 0);
    assert_int_equal(unlink(in_dir("checkpoint/facts")), 0);
    expect_refusal(OTHER, resume, "effective.yaml");
    s = open_ok(EFFECTIVE, resume);
    assert_int_equal(store_done_count(s), NT);
    store_close(s);
    char command[200];
    snprintf(command, sizeof command, "rm -r '%s/checkpoint'; echo >'%s/maps.fits'", dir, dir);
    assert_int_equal(system(command), 0);
    expect_refusal(EFFECTIVE, resume, "without a checkpoint");
}

/* Facts that are damaged, of another run or impossible are forgotten, never used. */
static void test_facts(void **state) {
    (void)state;
    store *s = open_ok(EFFECTIVE, begin);
    assert_int_equal(store_set_fact(s, "threads", 3), MOAO_OK);
    put(s, 0, false);
    store_close(s);
    struct stat sb;
    assert_int_equal(stat(in_dir("checkpoint/facts"), &sb), 0);
    for (long k = 0; k < sb.st_size; k++) {
        flip(in_dir("checkpoint/facts"), k);
        s = open_ok(EFFECTIVE, resume);
        assert_int_equal(store_get_fact(s, "threads", -1), -1);
        assert_int_equal(store_done_count(s), NT);
        assert_int_equal(store_set_fact(s, "threads", 3), MOAO_OK);
        store_close(s);
    }
    static const struct {
        const char *key;
        long value;
    } bad[] = {{"threads", 100000}, {"threads", 0}, {"chunk", NT + 1},
               {"chunk", -1},       {"ranks", 0},   {"precision_2", 5}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        s = open_ok(EFFECTIVE, resume);
        assert_int_equal(store_set_fact(s, "threads", 3), MOAO_OK);
        assert_int_equal(store_set_fact(s, bad[i].key, bad[i].value), MOAO_OK);
        store_close(s);
        s = open_ok(EFFECTIVE, resume);
        assert_int_equal(store_get_fact(s, bad[i].key, -77), -77);
        store_close(s);
    }
    s = open_ok(EFFECTIVE, resume);
    assert_int_equal(store_set_fact(s, "threads", 3), MOAO_OK);
    store_close(s);
    s = open_ok(OTHER, overwrite); /* of another run */
    assert_int_equal(store_get_fact(s, "threads", -1), -1);
    store_close(s);
}

/* Parts in mixed precision count only while it is asked for and its fitness is known. */
static void test_precision(void **state) {
    (void)state;
    store_run run = run_of(EFFECTIVE);
    store *s;
    run.mixed = true;
    assert_int_equal(open_run(dir, &run, begin, &s), MOAO_OK);
    assert_int_equal(store_set_precision(s, 0, true, 1e-5), MOAO_OK);
    put(s, 0, true);
    put(s, 1, false);
    store_close(s);
    assert_int_equal(open_run(dir, &run, resume, &s), MOAO_OK);
    assert_int_equal(store_done_count(s), 2 * NT);
    store_close(s);
    assert_int_equal(open_run(dir, &run, resume, &s), MOAO_OK);
    store_close(s);
    s = open_ok(EFFECTIVE, resume); /* double precision now */
    assert_true(!store_done(s, 0, 0) && store_done(s, 1, 0));
    bool mixed;
    double difference;
    assert_false(store_get_precision(s, 0, &mixed, &difference));
    store_close(s);
    assert_int_equal(open_run(dir, &run, resume, &s), MOAO_OK); /* that was forgotten */
    assert_true(!store_done(s, 0, 0) && store_done(s, 1, 0));
    store_close(s);
}

/* A part that changes after it was written is not read, in its scalars nor in its images. */
static void test_changed_under_way(void **state) {
    (void)state;
    double v[NL * NS];
    float im[CROP * CROP];
    store *s = open_ok(EFFECTIVE, begin);
    put(s, 0, false);
    put(s, 1, false);
    assert_int_equal(store_read_image(s, 0, 1, 1, im), MOAO_OK);
    flip(part(0), -1); /* open already; the last image */
    assert_int_equal(store_read_image(s, 0, NT - 1, 0, im), MOAO_OK);
    assert_int_equal(store_read_image(s, 0, NT - 1, 1, im), MOAO_IO);
    assert_non_null(strstr(status_message(), "part-0000"));
    assert_non_null(strstr(status_message(), "--resume"));
    status_clear();
    flip(part(1), 72 + 4 * NT * NL + 8);
    assert_int_equal(store_read_scalars(s, 1, 0, v), MOAO_IO);
    status_clear();
    assert_int_equal(rename(part(1), part(0)), 0);
    assert_int_equal(store_read_scalars(s, 0, 0, v), MOAO_IO);
    store_close(s);
}

/* A checkpoint of the first version is refused in one line: its facts, its note, its parts. */
static void test_old_format(void **state) {
    (void)state;
    store_close(open_ok(EFFECTIVE, begin));
    write_file(in_dir("checkpoint/facts"), "chunk 2\nthreads 1\nranks 2\n", 26);
    expect_refusal(EFFECTIVE, resume, "another version");
    store_close(open_ok(EFFECTIVE, overwrite));
    static const char note[] = "the final files are in place\n";
    write_file(in_dir("checkpoint/finished"), note, sizeof note - 1);
    expect_refusal(EFFECTIVE, resume, "another version");
    store_close(open_ok(EFFECTIVE, overwrite));
    struct { /* its header, whole; one wavelength, no images */
        char magic[8];
        uint32_t order, version;
        int32_t exposure, t0, nt, nlambda, nbox, crop;
        uint64_t scalar_bytes, image_bytes;
        uint32_t body_crc, header_crc;
        double scalars[NT * 3];
    } h = {"moaopar", 0x01020304u, 1, 0, 0, NT, 1, 0, 0, sizeof h.scalars, 0, 0, 0, {0}};
    h.magic[7] = 't';
    h.body_crc = crc_update(0, h.scalars, sizeof h.scalars);
    h.header_crc = crc_update(0, &h, 60);
    write_file(part(0), &h, sizeof h);
    expect_refusal(EFFECTIVE, resume, "another version");
}

static void finish(void) {
    store *s = open_ok(EFFECTIVE, overwrite);
    put(s, 0, false);
    put(s, 1, false);
    assert_int_equal(file_write_text(in_dir("maps.fits"), "the maps"), MOAO_OK);
    assert_int_equal(file_write_text(in_dir("psf.fits"), "the images"), MOAO_OK);
    assert_int_equal(file_write_text(in_dir("run.json"), "{}"), MOAO_OK);
    assert_int_equal(store_discard_parts(s), MOAO_OK);
    store_close(s);
}

/* A finished run counts as finished while every result is there as it was written; otherwise it
 * says what to do and touches nothing. While the parts are there, they serve. */
static void test_finished(void **state) {
    (void)state;
    char command[300];
    finish();
    store *s = open_ok(RETITLED, resume);
    assert_true(store_finished(s));
    expect_text(in_dir("effective.yaml"), EFFECTIVE); /* that of the maps */
    store_close(s);
    assert_int_equal(unlink(in_dir("run.json")), 0); /* no result */
    s = open_ok(EFFECTIVE, resume);
    assert_true(store_finished(s));
    store_close(s);
    for (int k = 0; k < 4; k++) { /* effective.yaml is made anew from the one that is right */
        const char *file = in_dir(k % 2 ? "effective.yaml" : "checkpoint/effective.yaml");
        if (k < 2)
            flip(file, 40);
        else
            assert_int_equal(unlink(file), 0);
        s = open_ok(RETITLED, resume);
        assert_true(store_finished(s));
        store_close(s);
        expect_text(in_dir("effective.yaml"), EFFECTIVE);
        expect_text(in_dir("checkpoint/effective.yaml"), EFFECTIVE);
    }
    assert_int_equal(unlink(in_dir("checkpoint/facts")), 0);
    s = open_ok(EFFECTIVE, resume);
    assert_true(store_finished(s));
    store_close(s);
    assert_int_equal(access(in_dir("checkpoint/facts"), F_OK), 0); /* again */
    flip(in_dir("psf.fits"), 2);
    expect_refusal(EFFECTIVE, resume, "psf.fits has changed");
    assert_int_equal(unlink(in_dir("psf.fits")), 0);
    expect_refusal(EFFECTIVE, resume, "psf.fits is missing");
    expect_text(in_dir("maps.fits"), "the maps");
    flip(in_dir("checkpoint/finished"), 30);
    expect_refusal(EFFECTIVE, resume, "damaged");
    assert_int_equal(unlink(in_dir("maps.fits")), 0);

    finish();
    assert_int_equal(unlink(in_dir("psf.fits")), 0);
    assert_int_equal(unlink(in_dir("maps.fits")), 0);
    s = open_ok(EFFECTIVE, resume); /* nothing to lose: computed again */
    assert_false(store_finished(s) || store_done(s, 0, 0));
    put(s, 0, false);
    put(s, 1, false);
    store_close(s);
    snprintf(command, sizeof command, "cp -r '%s/checkpoint' '%s/kept'", dir, dir);
    assert_int_equal(system(command), 0);
    finish();
    snprintf(command, sizeof command, "mv '%s'/kept/part* '%s/checkpoint/'", dir, dir);
    assert_int_equal(system(command), 0);
    flip(in_dir("maps.fits"), 2);
    s = open_ok(EFFECTIVE, resume);
    assert_false(store_finished(s));
    assert_int_equal(store_done_count(s), NE * NT);
    store_close(s);
}

/* A folder with other files is not taken unasked; log files do not count, nor anything once a run
 * was begun. */
static void test_foreign_folder(void **state) {
    (void)state;
    store *s;
    store_run run = run_of(EFFECTIVE);
    assert_int_equal(open_run("", &run, begin, &s), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "empty name"));
    write_file(in_dir("main.c"), "x", 1);
    expect_refusal(EFFECTIVE, begin, "main.c");
    expect_refusal(EFFECTIVE, overwrite, "--force");
    assert_false(file_exists(in_dir("checkpoint")));
    s = open_ok(EFFECTIVE, (store_how){.force = true});
    put(s, 0, false);
    store_close(s);
    store_close(open_ok(EFFECTIVE, resume)); /* ours now */
    store_close(open_ok(EFFECTIVE, overwrite));
    remove_dir(NULL);
    assert_int_equal(mkdir(dir, 0777), 0);
    write_file(in_dir("slurm-1.out"), "x", 1);
    store_close(open_ok(EFFECTIVE, begin));
}

/* A folder that cannot be made or written: MOAO_INPUT and the system's reason. */
static void test_unusable_folder(void **state) {
    (void)state;
    char path[600];
    store *s;
    const store_run run = run_of(EFFECTIVE);
    snprintf(path, sizeof path, "%s/%0300d", dir, 1);
    assert_int_equal(open_run(path, &run, begin, &s), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "File name too long"));
    char *deep = calloc(1, 6000); /* the reason is told, however long the name */
    snprintf(deep, 6000, "%s", dir);
    while (strlen(deep) < 5000)
        strcat(deep, "/some_folder_or_other");
    assert_int_equal(open_run(deep, &run, begin, &s), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "File name too long; choose"));
    free(deep);
    assert_int_equal(open_run("/proc/none", &run, begin, &s), MOAO_INPUT);
    const uid_t me = geteuid();
    assert_int_equal(chmod(dir, 0555), 0);
    if (me == 0) /* whom nothing is denied */
        assert_int_equal(seteuid(65534), 0);
    status st = open_run(in_dir("out"), &run, begin, &s);
    assert_int_equal(seteuid(me), 0);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(st, MOAO_INPUT);
    assert_non_null(strstr(status_message(), "out: cannot make the directory: Permission denied"));
}

/* Links where the store writes are replaced or refused, never followed; temporary files of others
 * stay, our own go. */
static void test_links(void **state) {
    (void)state;
    static const char *const links[] = {"effective.yaml", "checkpoint/effective.yaml",
                                        "checkpoint/facts", "effective.yaml.tmp"};
    store_close(open_ok(EFFECTIVE, begin));
    write_file(in_dir("precious"), "gold", 4);
    for (int i = 0; i < 4; i++) {
        unlink(in_dir(links[i]));
        assert_int_equal(symlink(in_dir("precious"), in_dir(links[i])), 0);
    }
    write_file(in_dir("checkpoint/other.tmp"), "x", 1);
    write_file(in_dir("checkpoint/.moao-0123abcd.tmp"), "x", 1);
    write_file(in_dir(".moao-0123abcd.tmp"), "x", 1);
    write_file(in_dir(".moao-0123abcd.tmp2"), "x", 1);
    store_close(open_ok(EFFECTIVE, overwrite));
    expect_text(in_dir("precious"), "gold");
    assert_true(file_exists(in_dir("checkpoint/other.tmp")));
    assert_true(file_exists(in_dir(".moao-0123abcd.tmp2")));
    assert_false(file_exists(in_dir("checkpoint/.moao-0123abcd.tmp")));
    assert_false(file_exists(in_dir(".moao-0123abcd.tmp")));
    assert_int_equal(unlink(in_dir("checkpoint/lock")), 0);
    assert_int_equal(symlink(in_dir("precious"), in_dir("checkpoint/lock")), 0);
    expect_refusal(EFFECTIVE, resume, "link");
    expect_text(in_dir("precious"), "gold");
}

/* --overwrite leaves no matrix of the earlier run, and only those go. */
static void test_old_matrices(void **state) {
    (void)state;
    static const char *const names[] = {"Cmm_exp0.fits", "Dplus.fits", "W_tor1_target0.fits",
                                        "mine.fits", "W_tor1.txt"};
    char path[100];
    store_close(open_ok(EFFECTIVE, begin));
    assert_int_equal(mkdir(in_dir("matrices"), 0777), 0);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "matrices/%s", names[i]);
        write_file(in_dir(path), "x", 1);
    }
    store_close(open_ok(EFFECTIVE, resume));
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 5; i++) {
            snprintf(path, sizeof path, "matrices/%s", names[i]);
            assert_int_equal(file_exists(in_dir(path)), pass == 0 || i >= 3);
        }
        store_close(open_ok(OTHER, overwrite));
    }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        CASE(test_foreign_parts), CASE(test_one_truth),       CASE(test_lost_effective),
        CASE(test_facts),         CASE(test_precision),       CASE(test_changed_under_way),
        CASE(test_old_format),    CASE(test_finished),        CASE(test_foreign_folder),
        CASE(test_links),         CASE(test_unusable_folder), CASE(test_old_matrices)};
    warnings = open("/dev/null", O_WRONLY);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
