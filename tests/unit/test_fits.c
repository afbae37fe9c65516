/* FITS files: wherever the room for one ends, no cut file appears; what is in place was read back;
 * any folder's name will do. */
#include "base/file.h"
#include "base/fits.h"
#include "maps/matrix_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[100];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/moao-fits-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/a.fits", dir);
    return 0;
}

static int remove_dir(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    status_clear();
    return system(command) != 0;
}

static const char *in_dir(const char *name) {
    static char full[200];
    snprintf(full, sizeof full, "%s/%s", dir, name);
    return full;
}

static int count_files(void) {
    int n = -2;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* An image of 40 x 30 and a table, the image compressed or not. */
static status begin(fitsout *o, bool compressed) {
    static double pixels[40 * 30];
    static const fitsout_column column = {"X", "1D", "m", "a number"};
    long size[2] = {40, 30}, first[2] = {1, 1};
    for (int i = 0; i < 40 * 30; i++)
        pixels[i] = i % 17;
    status st = fitsout_create(o, path);
    if (st != MOAO_OK)
        return st;
    fitsout_image(o, "IMAGE", DOUBLE_IMG, 2, size, compressed ? 1e-3 : 0);
    fitsout_pixels_double(o, first, size, pixels);
    fitsout_table(o, "TABLE", 500, 1, &column);
    fitsout_cells_double(o, 1, 1, 1, 500, pixels);
    return MOAO_OK;
}

static status write_file(bool compressed) {
    fitsout o = {0};
    status st = begin(&o, compressed);
    if (st == MOAO_OK)
        st = fitsout_commit(&o);
    fitsout_abandon(&o);
    return st;
}

/* Room for any number of bytes: either all of the file, or one line with the system's reason and
 * nothing. cfitsio writes the last ones when it closes the file, and forgets that they failed. */
static void test_room_ends(void **state) {
    (void)state;
    for (int compressed = 0; compressed < 2; compressed++) {
        struct stat sb;
        struct rlimit was, limit;
        int failed = 0;
        assert_int_equal(write_file(compressed), MOAO_OK);
        assert_int_equal(stat(path, &sb), 0);
        assert_int_equal(sb.st_size % 2880, 0);
        assert_int_equal(unlink(path), 0);
        getrlimit(RLIMIT_FSIZE, &was);
        limit = was;
        for (off_t room = sb.st_size; room >= 0; room -= room == sb.st_size ? 1 : 331) {
            limit.rlim_cur = (rlim_t)room;
            setrlimit(RLIMIT_FSIZE, &limit);
            status st = write_file(compressed);
            setrlimit(RLIMIT_FSIZE, &was);
            assert_int_equal(st, room == sb.st_size ? MOAO_OK : MOAO_IO);
            if (st == MOAO_OK) {
                assert_int_equal(unlink(path), 0);
                continue;
            }
            assert_non_null(strstr(status_message(), "a.fits: cannot write: File too large"));
            assert_null(strstr(status_message(), "src/"));
            assert_int_equal(count_files(), 0);
            status_clear();
            failed++;
        }
        assert_true(failed > 20);
    }
}

/* A byte that is not as it was written is found when the file is read back, wherever it is. */
static void test_read_back(void **state) {
    (void)state;
    struct stat sb;
    assert_int_equal(write_file(false), MOAO_OK);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(unlink(path), 0);
    for (off_t at = 0; at < sb.st_size; at += 577) {
        fitsout o = {0};
        int err = 0;
        assert_int_equal(begin(&o, false), MOAO_OK);
        fits_write_date(o.f, &err);
        fits_write_chksum(o.f, &err);
        unsigned char byte;
        assert_int_equal(err, 0);
        assert_int_equal(fits_close_file(o.f, &err), 0);
        o.f = NULL;
        assert_int_equal(pread(o.out.fd, &byte, 1, at), 1);
        byte ^= 4;
        assert_int_equal(pwrite(o.out.fd, &byte, 1, at), 1);
        assert_int_not_equal(fitsout_verify(&o), MOAO_OK);
        assert_non_null(strstr(status_message(), "read back"));
        fitsout_abandon(&o);
        assert_int_equal(count_files(), 0);
        status_clear();
    }
}

/* A matrix all at once. */
static status write_matrix(const char *dir, const char *name, const char *unit, const char *title,
                           const double *a, size_t rows, size_t cols, size_t ld) {
    matrix_file *f;
    status st = maps_matrix_open(dir, name, unit, title, rows, cols, &f);
    if (st == MOAO_OK)
        st = maps_matrix_columns(f, 0, cols, a, ld);
    return st == MOAO_OK ? maps_matrix_close(f, true) : st;
}

/* Blanks before a folder's name, brackets, and paths longer than cfitsio's names of files. */
static void test_odd_paths(void **state) {
    (void)state;
    char odd[3000], cwd[1000];
    const double one = 1;
    assert_non_null(getcwd(cwd, sizeof cwd));
    assert_int_equal(chdir(dir), 0);
    size_t n = (size_t)snprintf(odd, sizeof odd, "  (x) [1]");
    for (int k = 0; k < 12; k++)
        n += (size_t)snprintf(odd + n, sizeof odd - n, "/%0200d", k);
    assert_int_equal(file_make_dir(odd), MOAO_OK);
    assert_int_equal(write_matrix(odd, "A", "", "", &one, 1, 1, 1), MOAO_OK);
    strcat(odd, "/matrices/A.fits");
    assert_true(file_exists(odd));
    assert_int_equal(chdir(cwd), 0);
}

/* The files' names of this program are not those of cfitsio's own functions, which they would
 * replace inside the library: it still opens files by itself. */
static void test_library_by_itself(void **state) {
    (void)state;
    fitsfile *f;
    int err = 0, n = 0;
    assert_int_equal(write_file(true), MOAO_OK);
    assert_int_equal(fits_open_diskfile(&f, path, READONLY, &err), 0);
    assert_int_equal(fits_get_num_hdus(f, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_int_equal(fits_close_file(f, &err), 0);
}

/* A matrix written at once, and by panels in any order, is the same; an abandoned one leaves
 * nothing. */
static void test_matrix(void **state) {
    (void)state;
    enum { ROWS = 37, COLS = 23, LD = 41 };
    static double a[LD * COLS], back[ROWS * COLS];
    matrix_file *m;
    int any, err = 0;
    for (int i = 0; i < LD * COLS; i++)
        a[i] = i % LD < ROWS ? i : NAN;
    assert_int_equal(write_matrix(dir, "Ctm", "arcsec2", "a title", a, ROWS, COLS, LD), MOAO_OK);
    assert_int_equal(maps_matrix_open(dir, "W", "m/arcsec", "panels", ROWS, COLS, &m), MOAO_OK);
    assert_int_equal(maps_matrix_columns(m, 10, 13, a + 10 * LD, LD), MOAO_OK);
    assert_int_equal(maps_matrix_columns(m, 0, 3, a, LD), MOAO_OK);
    assert_int_equal(maps_matrix_columns(m, 3, 7, a + 3 * LD, LD), MOAO_OK);
    assert_int_equal(maps_matrix_columns(m, 20, 4, a, LD), MOAO_INTERNAL);
    assert_false(file_exists(in_dir("matrices/W.fits")));
    assert_int_equal(maps_matrix_close(m, true), MOAO_OK);
    const char *names[] = {"Ctm", "W"};
    for (int k = 0; k < 2; k++) {
        char path[64];
        snprintf(path, sizeof path, "matrices/%s.fits", names[k]);
        char unit[FLEN_VALUE];
        fitsfile *f;
        fits_open_diskfile(&f, in_dir(path), READONLY, &err);
        fits_movabs_hdu(f, 2, NULL, &err);
        fits_read_key(f, TSTRING, "BUNIT", unit, NULL, &err);
        assert_string_equal(unit, k == 0 ? "arcsec2" : "m/arcsec");
        fits_read_img(f, TDOUBLE, 1, ROWS * COLS, NULL, back, &any, &err);
        assert_int_equal(err, 0);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLS; j++)
                assert_true(back[i * COLS + j] == a[i + j * LD]);
        fits_close_file(f, &err);
    }
    assert_int_equal(maps_matrix_open(dir, "R", "", "gone", ROWS, COLS, &m), MOAO_OK);
    assert_int_equal(maps_matrix_close(m, false), MOAO_OK);
    assert_false(file_exists(in_dir("matrices/R.fits")));
    assert_int_equal(count_files(), 1); /* the folder */
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {CASE(test_room_ends), CASE(test_read_back),
                                       CASE(test_odd_paths), CASE(test_library_by_itself),
                                       CASE(test_matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
