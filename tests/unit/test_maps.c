/* maps.fits, psf.fits and matrices: read back with cfitsio, they hold what the store held, with
 * axes, units, checksums and the parameters of the run; they appear whole or not at all. */
#include "base/file.h"
#include "maps/maps.h"
#include "maps/maps_parts.h"
#include "matcov/matcov.h"

#include <dirent.h>
#include <fitsio.h>
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

enum { NL = 2, NB = 2, NE = 3 };
static char dir[64];

static int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/moao-maps-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    status_clear();
    return system(command) != 0;
}

static const char *in_dir(const char *name) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Unfinished files in the folder. */
static int count_temporary(void) {
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += file_is_temporary(e->d_name);
    closedir(d);
    return n;
}

typedef struct {
    params par;
    sys s;
    atmos a;
    psf *p;
    store *st;
    int crop;
} run;

static const char *const yaml =
    "title: a caf\xc3\xa9 with a title that is far too long for one card of eighty columns of a "
    "header\n"
    "telescope: {diameter: 4.2, obscuration: 0.25, zenith: 30}\n"
    "dm: {nssp: 7}\n"
    "sensors:\n"
    "  - {name: bright, type: ngs, direction: [10, -20], nssp: 7, magnitude: 9}\n"
    "  - {type: lgs, direction: [0, 30], nssp: 6, altitude: 90 km, rotation: 2, shift: [0.1, 0]}\n"
    "atmosphere:\n"
    "  profiles:\n"
    "    - {time: 0, r0: 0.15, layers: {altitude: [0, 5000], fraction: [0.6, 0.4]}}\n"
    "    - {time: 1000, r0: 0.1, layers: {altitude: [0, 5000], fraction: [0.5, 0.5]}}\n"
    "schedule: {tor_times: [0, 900], exposure_times: [0, 600, 1200]}\n"
    "psf: {wavelengths: [1.25, 2.2], ee_boxes: [80, 37.5]}\n"
    "output: {crop: 32}\n";
static const char grid[] = "targets: {grid: {nx: 3, ny: 2, width: 40, height: 10}}\n";
static const char list[] =
    "targets: {list: [[0, 0], [5, -7.5], [3, 1], [9, 9]], names: [A, B 2, C, D]}\n";

static double scalar_of(int e, int t, int l, int k) {
    if (k == SCALAR_FWHM)
        return (30 + e + 0.1 * t + 10 * l) / (1e3 * ARCSEC_PER_RAD);
    return 0.1 * e + 0.01 * t + 0.001 * l + k;
}

/* A Gaussian core on a broad halo. */
static float pixel_of(int n, int e, int t, int l, int i) {
    double x = i % n - n / 2, y = i / n - n / 2, r2 = x * x + y * y,
           sigma = 1.5 + 0.3 * l + 0.05 * t;
    return (float)((0.5 + 0.1 * e) * exp(-r2 / (2 * sigma * sigma)) + 1e-4 / (1 + r2 / 50));
}

static void fill_store(run *r) {
    int n = r->crop;
    bool images = r->par.output_psf != PSF_NONE;
    double *scalars = calloc((size_t)r->s.ntarget * NL * (3 + NB), sizeof *scalars);
    float *im = calloc((size_t)r->s.ntarget * NL * (size_t)(n * n), sizeof *im);
    for (int e = 0; e < NE; e++) {
        for (int t = 0; t < r->s.ntarget; t++)
            for (int l = 0; l < NL; l++) {
                for (int k = 0; k < 3 + NB; k++)
                    scalars[(t * NL + l) * (3 + NB) + k] = scalar_of(e, t, l, k);
                for (int i = 0; i < n * n; i++)
                    im[(t * NL + l) * n * n + i] = pixel_of(n, e, t, l, i);
            }
        result_block b = {e,     0, r->s.ntarget, NL, NB, n, scalars, images ? im : NULL,
                          false, 0, NULL,         0};
        assert_int_equal(store_put(r->st, &b), MOAO_OK);
    }
    free(im);
    free(scalars);
}

static void run_begin(run *r, const char *targets, const char *psf_kind, bool compress) {
    char text[4096], kind[64], comp[64];
    memset(r, 0, sizeof *r);
    snprintf(text, sizeof text, "%s%s", yaml, targets);
    assert_int_equal(file_write_text(in_dir("in.yaml"), text), MOAO_OK);
    const char *file = in_dir("in.yaml");
    snprintf(kind, sizeof kind, "output.psf=%s", psf_kind);
    snprintf(comp, sizeof comp, "output.compress=%s", compress ? "true" : "false");
    const char *over[] = {kind, comp};
    status st = params_load(NULL, 1, &file, 2, over, &r->par);
    if (st != MOAO_OK)
        fail_msg("%s", status_message());
    assert_int_equal(sys_init(&r->par, &r->s), MOAO_OK);
    assert_int_equal(atmos_init(&r->par, &r->s, &r->a), MOAO_OK);
    psf_opts o = {NL,   r->par.psf_wavelengths.v,  NB, r->par.psf_ee_boxes.v, 4, 3,
                  true, .crop = r->par.output_crop};
    assert_int_equal(psf_init(&r->s, &o, &r->p), MOAO_OK);
    r->crop = psf_crop_size(r->p);
    char *effective = params_effective_text(&r->par);
    const store_run what = {.effective = effective,
                            .ntarget = r->s.ntarget,
                            .nexposure = NE,
                            .nlambda = NL,
                            .nbox = NB,
                            .crop = strcmp(psf_kind, "none") == 0 ? 0 : r->crop};
    const store_how how = {.overwrite = true, .force = true};
    assert_int_equal(store_open(dir, &what, &how, &r->st), MOAO_OK);
    free(effective);
    assert_int_equal(store_set_fact(r->st, "ranks", 5), MOAO_OK);
    fill_store(r);
}

static status run_write(run *r) {
    return maps_write(dir, &r->par, &r->s, &r->a, r->p, r->st, NULL, NULL);
}

static void run_end(run *r) {
    store_close(r->st);
    psf_free(r->p);
    atmos_free(&r->a);
    sys_free(&r->s);
    params_free(&r->par);
}

static fitsfile *open_fits(const char *name) {
    fitsfile *f = NULL;
    int err = 0;
    fits_open_diskfile(&f, in_dir(name), READONLY, &err);
    assert_int_equal(err, 0);
    return f;
}

static void move_to(fitsfile *f, const char *extname, int version) {
    int err = 0;
    char name[40];
    snprintf(name, sizeof name, "%s", extname);
    if (fits_movnam_hdu(f, ANY_HDU, name, version, &err))
        fail_msg("no extension %s %d", extname, version);
}

static double key_of(fitsfile *f, const char *key) {
    double v = NAN;
    int err = 0;
    fits_read_key(f, TDOUBLE, key, &v, NULL, &err);
    if (err)
        fail_msg("no keyword %s", key);
    return v;
}

static void expect_text(fitsfile *f, const char *key, const char *text) {
    char v[FLEN_VALUE];
    int err = 0;
    fits_read_key(f, TSTRING, key, v, NULL, &err);
    assert_int_equal(err, 0);
    assert_string_equal(v, text);
}

static double cell(fitsfile *f, const char *column, long row, long element) {
    char name[40];
    int col, err = 0, any;
    double v, none = NAN;
    snprintf(name, sizeof name, "%s", column);
    fits_get_colnum(f, CASESEN, name, &col, &err);
    fits_read_col(f, TDOUBLE, col, row, element, 1, &none, &v, &any, &err);
    if (err)
        fail_msg("no cell %s %ld %ld", column, row, element);
    return v;
}

static void close_fits(fitsfile *f) {
    int err = 0;
    fits_close_file(f, &err);
    assert_int_equal(err, 0);
}

/* Every HDU of a file has a right CHECKSUM and DATASUM; returns their number. */
static int check_sums(const char *name) {
    int n, err = 0;
    fitsfile *f = open_fits(name);
    fits_get_num_hdus(f, &n, &err);
    for (int i = 1; i <= n; i++) {
        int data, hdu;
        fits_movabs_hdu(f, i, NULL, &err);
        fits_verify_chksum(f, &data, &hdu, &err);
        assert_int_equal(err, 0);
        assert_int_equal(data, 1);
        assert_int_equal(hdu, 1);
    }
    close_fits(f);
    return n;
}

static void expect_near(double a, double b, double tol) {
    if (!(fabs(a - b) <= tol))
        fail_msg("%.17g is not %.17g within %g", a, b, tol);
}

/* One map, short or long, against what the store was given. */
static void check_map(fitsfile *f, const char *name, int k, double scale, bool is_long) {
    double v[6 * NE * NL];
    int any, err = 0, naxis;
    long size[4], ne = is_long ? 1 : NE;
    char ext[40];
    snprintf(ext, sizeof ext, "%s%s", name, is_long ? "_LONG" : "");
    move_to(f, ext, 0);
    fits_get_img_dim(f, &naxis, &err);
    fits_get_img_size(f, 4, size, &err);
    assert_int_equal(naxis, is_long ? 3 : 4);
    assert_true(size[0] == 3 && size[1] == 2 && size[2] == (is_long ? NL : NE));
    fits_read_img(f, TDOUBLE, 1, 6 * ne * NL, NULL, v, &any, &err);
    assert_int_equal(err, 0);
    for (int l = 0; l < NL; l++)
        for (int e = 0; e < ne; e++)
            for (int t = 0; t < 6; t++) {
                double got = v[(l * ne + e) * 6 + t], want = scalar_of(e, t, l, k) * scale;
                if (is_long)
                    want = (scalar_of(0, t, l, k) + scalar_of(1, t, l, k) + scalar_of(2, t, l, k)) /
                           3 * scale;
                expect_near(got, want, is_long ? 1e-14 * (1 + fabs(want)) : 0);
            }
}

/* Maps of a grid: values, axes, units and names of all quantities; tables; all checksums. */
static void test_grid(void **state) {
    (void)state;
    run r;
    double mas = 1e3 * ARCSEC_PER_RAD;
    run_begin(&r, grid, "none", false);
    assert_int_equal(run_write(&r), MOAO_OK);
    assert_int_equal(check_sums("maps.fits"), 1 + 2 * (3 + NB) + 5);
    assert_false(file_exists(in_dir("psf.fits")));
    fitsfile *f = open_fits("maps.fits");
    assert_true(key_of(f, "NRANKS") == 5 && key_of(f, "NMEAS") == (double)r.s.m);
    for (int is_long = 0; is_long < 2; is_long++) {
        check_map(f, "STREHL", SCALAR_STREHL, 1, is_long);
        check_map(f, "VARIANCE", SCALAR_VARIANCE, 1, is_long);
        expect_text(f, "BUNIT", "rad2");
        check_map(f, "EE_80mas", SCALAR_EE, 1, is_long);
        check_map(f, "EE_37p5mas", SCALAR_EE + 1, 1, is_long);
        expect_near(key_of(f, "EEBOX"), 37.5, 1e-12);
        expect_text(f, "CTYPE1", "X");
        expect_text(f, "CUNIT2", "arcsec");
        expect_near(key_of(f, "CRVAL1"), -20, 1e-12);
        expect_near(key_of(f, "CDELT1"), 20, 1e-12);
        expect_near(key_of(f, "CRVAL2"), -5, 1e-12);
        expect_near(key_of(f, "CDELT2"), 10, 1e-12);
        expect_text(f, is_long ? "CTYPE3" : "CTYPE4", "LAMBDA");
    }
    check_map(f, "FWHM", SCALAR_FWHM, mas, false);
    expect_text(f, "BUNIT", "mas");
    move_to(f, "TARGETS", 0);
    for (int t = 0; t < 6; t++)
        for (int l = 0; l < NL; l++) {
            for (int e = 0; e < NE; e++)
                assert_true(cell(f, "EE_80mas", t + 1, l * NE + e + 1) ==
                            scalar_of(e, t, l, SCALAR_EE));
            expect_near(cell(f, "STREHL_LONG", t + 1, l + 1), scalar_of(1, t, l, 0), 1e-14);
            assert_true(isnan(cell(f, "FWHM_LONG", t + 1, l + 1)));
        }
    expect_near(cell(f, "X", 6, 1), 20, 1e-12);
    expect_near(cell(f, "Y", 6, 1), 5, 1e-12);
    close_fits(f);
    run_end(&r);
}

/* The other tables: guide stars as registered, exposures with reconstructor and profile, and the
 * parameters line by line, which read again give the same parameters. */
static void test_tables(void **state) {
    (void)state;
    run r;
    run_begin(&r, grid, "none", false);
    assert_int_equal(run_write(&r), MOAO_OK);
    fitsfile *f = open_fits("maps.fits");
    move_to(f, "GUIDESTARS", 0);
    expect_near(cell(f, "X", 1, 1), 10, 1e-12);
    expect_near(cell(f, "ROTATION", 2, 1), 2, 1e-12);
    expect_near(cell(f, "ALTITUDE", 2, 1), 90e3 / cos(M_PI / 6), 1e-6);
    assert_true(isnan(cell(f, "ALTITUDE", 1, 1)) && isnan(cell(f, "MAGNITUD", 2, 1)));
    for (int w = 0; w < 2; w++) {
        noise_figures n;
        matcov_noise_figures(&r.s, atmos_profile_at(&r.a, 0), w, &n);
        assert_true(n.variance > 0 && n.photons > 0);
        expect_near(cell(f, "NOISEVAR", w + 1, 1), n.variance, 1e-14);
        expect_near(cell(f, "PHOTONS", w + 1, 1), n.photons, 1e-14 * n.photons);
        expect_near(cell(f, "SPOT", w + 1, 1), n.across, 1e-14);
        expect_near(cell(f, "SPOTLONG", w + 1, 1), n.along, 1e-14);
    }
    move_to(f, "EXPOSURES", 0);
    const double tor[] = {1, 1, 2}, time[] = {0, 600, 1200}, r0[] = {0.15, 0.15, 0.1};
    for (int e = 0; e < NE; e++) {
        assert_true(cell(f, "TOR", e + 1, 1) == tor[e] && cell(f, "TIME", e + 1, 1) == time[e]);
        double along = r0[e] * pow(cos(M_PI / 6), 0.6);
        expect_near(cell(f, "R0", e + 1, 1), along, 1e-9);
        expect_near(cell(f, "SEEING", e + 1, 1), 0.976 * 500e-9 / along * ARCSEC_PER_RAD, 1e-9);
    }
    move_to(f, "PARAMETERS", 0);
    long n;
    int err = 0, any;
    fits_get_num_rows(f, &n, &err);
    FILE *out = fopen(in_dir("again.yaml"), "w");
    for (long i = 1; i <= n; i++) {
        char line[8192], *p = line, none[] = "";
        fits_read_col(f, TSTRING, 1, i, 1, 1, none, &p, &any, &err);
        assert_int_equal(err, 0);
        fprintf(out, "%s\n", line);
    }
    fclose(out);
    close_fits(f);
    params again;
    char difference[256], *then = params_effective_text(&r.par), *now;
    const char *file = in_dir("again.yaml");
    if (params_load(NULL, 1, &file, 0, NULL, &again) != MOAO_OK)
        fail_msg("%s", status_message());
    now = params_effective_text(&again);
    assert_int_equal(params_compare_effective(then, now, difference, sizeof difference), MOAO_OK);
    free(then);
    free(now);
    params_free(&again);
    run_end(&r);
}

/* Targets that are no grid: the table has their values, and no map pretends to a grid. */
static void test_list(void **state) {
    (void)state;
    run r;
    run_begin(&r, list, "none", false);
    assert_int_equal(run_write(&r), MOAO_OK);
    assert_int_equal(check_sums("maps.fits"), 1 + 5);
    fitsfile *f = open_fits("maps.fits");
    move_to(f, "TARGETS", 0);
    assert_true(key_of(f, "GRIDNX") == 0);
    expect_near(cell(f, "Y", 2, 1), -7.5, 1e-12);
    assert_true(cell(f, "STREHL", 4, 1 * NE + 2 + 1) == scalar_of(2, 3, 1, 0));
    char name[64] = "", *p = name, none[] = "";
    int err = 0, any, col;
    fits_get_colnum(f, CASEINSEN, "NAME", &col, &err);
    fits_read_col(f, TSTRING, col, 2, 1, 1, none, &p, &any, &err);
    assert_string_equal(name, "B 2");
    close_fits(f);
    run_end(&r);
}

/* Largest difference of the images of one wavelength from what the store was given. */
static double cube_error(fitsfile *f, const run *r, bool is_long, int l) {
    int n = r->crop, any, err = 0;
    long count = (long)n * n * r->s.ntarget;
    float *v = malloc((size_t)count * sizeof *v);
    double worst = 0;
    for (int e = 0; e < (is_long ? 1 : NE); e++) {
        move_to(f, is_long ? "PSF_LONG" : "PSF_SHORT", is_long ? l + 1 : l * NE + e + 1);
        fits_read_img(f, TFLOAT, 1, count, NULL, v, &any, &err);
        assert_int_equal(err, 0);
        for (long k = 0; k < count; k++) {
            int i = (int)(k % (n * n)), t = (int)(k / (n * n));
            double want = pixel_of(n, e, t, l, i);
            if (is_long)
                want = ((double)pixel_of(n, 0, t, l, i) + (double)pixel_of(n, 1, t, l, i) +
                        (double)pixel_of(n, 2, t, l, i)) /
                       3;
            double d = fabs(v[k] - want);
            worst = d <= worst || isnan(worst) ? worst : d;
        }
    }
    free(v);
    return worst;
}

/* psf.fits: short ones exactly, long ones as their mean; pixel scale and axes; FWHM of the mean in
 * the maps. */
static void test_psf(void **state) {
    (void)state;
    run r;
    run_begin(&r, grid, "short", false);
    assert_int_equal(run_write(&r), MOAO_OK);
    assert_int_equal(check_sums("psf.fits"), 1 + NL * (NE + 1) + 4);
    fitsfile *f = open_fits("psf.fits");
    for (int l = 0; l < NL; l++) {
        expect_near(cube_error(f, &r, false, l), 0, 0);
        expect_near(cube_error(f, &r, true, l), 0, 1e-7);
        expect_near(key_of(f, "CDELT1"), psf_image_pixel(r.p, l) * ARCSEC_PER_RAD, 1e-15);
        expect_near(key_of(f, "LAMBDA"), l == 0 ? 1.25 : 2.2, 1e-12);
        assert_true(key_of(f, "CRPIX1") == r.crop / 2 + 1);
    }
    close_fits(f);
    f = open_fits("maps.fits");
    move_to(f, "TARGETS", 0);
    for (int t = 0; t < 6; t++) { /* half of the peak, halo included: solved by fixed point */
        double sigma = 1.5 + 0.3 + 0.05 * t, rad = sigma, half = (0.6 + 1e-4) / 2;
        for (int k = 0; k < 100; k++)
            rad = sigma * sqrt(-2 * log((half - 1e-4 / (1 + rad * rad / 50)) / 0.6));
        double want = 2 * rad * psf_image_pixel(r.p, 1) * 1e3 * ARCSEC_PER_RAD;
        expect_near(cell(f, "FWHM_LONG", t + 1, 2), want, 1e-4 * want);
    }
    close_fits(f);
    run_end(&r);
}

/* Only the long exposure is asked for; compressed images stay within the step of 1e-7 and take less
 * room. */
static void test_compressed(void **state) {
    (void)state;
    struct stat plain, packed;
    run r;
    run_begin(&r, list, "long", false);
    assert_int_equal(run_write(&r), MOAO_OK);
    assert_int_equal(stat(in_dir("psf.fits"), &plain), 0);
    run_end(&r);
    run_begin(&r, list, "long", true);
    assert_int_equal(run_write(&r), MOAO_OK);
    assert_int_equal(check_sums("psf.fits"), 1 + NL + 4);
    assert_int_equal(stat(in_dir("psf.fits"), &packed), 0);
    assert_true(packed.st_size < plain.st_size);
    fitsfile *f = open_fits("psf.fits");
    for (int l = 0; l < NL; l++)
        expect_near(cube_error(f, &r, true, l), 0, 1.5e-7);
    close_fits(f);
    run_end(&r);
}

/* A full disk (a limit on the size of files) is one line and MOAO_IO; the earlier file stays, no
 * part of a new one is left. */
static void test_full_disk(void **state) {
    (void)state;
    run r;
    run_begin(&r, grid, "short", false);
    assert_int_equal(file_write_text(in_dir("psf.fits"), "earlier"), MOAO_OK);
    struct rlimit was, limit;
    getrlimit(RLIMIT_FSIZE, &was);
    limit = was;
    limit.rlim_cur = 8192;
    setrlimit(RLIMIT_FSIZE, &limit);
    status st = run_write(&r);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_int_equal(st, MOAO_IO);
    assert_non_null(strstr(status_message(), "cannot write"));
    assert_null(strchr(status_message(), '\n'));
    assert_false(file_exists(in_dir("maps.fits")));
    assert_int_equal(count_temporary(), 0);
    char *text;
    assert_int_equal(file_read_text(in_dir("psf.fits"), &text), MOAO_OK);
    assert_string_equal(text, "earlier");
    free(text);
    status_clear();
    assert_int_equal(unlink(in_dir("psf.fits")), 0);
    assert_int_equal(mkdir(in_dir("maps.fits"), 0777), 0);
    assert_int_equal(run_write(&r), MOAO_IO); /* in the way: a directory of that name */
    assert_int_equal(count_temporary(), 0);
    run_end(&r);
}

/* Where only one of the two files has room, neither appears. */
static void test_both_or_none(void **state) {
    (void)state;
    run r;
    struct stat maps, psf;
    struct rlimit was, limit;
    run_begin(&r, grid, "long", false);
    assert_int_equal(run_write(&r), MOAO_OK);
    assert_int_equal(stat(in_dir("maps.fits"), &maps), 0);
    assert_int_equal(stat(in_dir("psf.fits"), &psf), 0);
    assert_true(maps.st_size != psf.st_size);
    unlink(in_dir("maps.fits"));
    unlink(in_dir("psf.fits"));
    getrlimit(RLIMIT_FSIZE, &was);
    limit = was;
    limit.rlim_cur = (rlim_t)(maps.st_size < psf.st_size ? maps.st_size : psf.st_size);
    setrlimit(RLIMIT_FSIZE, &limit);
    status st = run_write(&r);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_int_equal(st, MOAO_IO);
    assert_non_null(strstr(status_message(), "File too large"));
    assert_false(file_exists(in_dir("maps.fits")) || file_exists(in_dir("psf.fits")));
    assert_int_equal(count_temporary(), 0);
    status_clear();
    run_end(&r);
}

/* FWHM of an image: a Gaussian of any width, and the Airy pattern (1.02899 lambda/D), to 1e-4. */
static void test_image_fwhm(void **state) {
    (void)state;
    enum { N = 64 };
    static float im[N * N];
    for (double sigma = 1.3; sigma < 9; sigma += 0.77) {
        for (int i = 0; i < N * N; i++) {
            double x = i % N - N / 2, y = i / N - N / 2;
            im[i] = (float)(0.3 * exp(-(x * x + y * y) / (2 * sigma * sigma)));
        }
        double want = sigma * 2 * sqrt(2 * log(2));
        expect_near(maps_image_fwhm(im, N), want, 1e-4 * want);
    }
    for (int i = 0; i < N * N; i++) {
        double x = i % N - N / 2, y = i / N - N / 2,
               u = M_PI * hypot(x, y) / 3; /* 3 pixels a lambda/D */
        im[i] = (float)(u == 0 ? 1 : 4 * j1(u) * j1(u) / (u * u));
    }
    expect_near(maps_image_fwhm(im, N), 3 * 1.02899, 1e-4 * 3);
    memset(im, 0, sizeof im);
    assert_true(isnan(maps_image_fwhm(im, N)));
    for (int i = 0; i < N * N; i++)
        im[i] = 1;
    assert_true(isnan(maps_image_fwhm(im, N)));
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {CASE(test_grid),       CASE(test_tables),
                                       CASE(test_list),       CASE(test_psf),
                                       CASE(test_compressed), CASE(test_full_disk),
                                       CASE(test_image_fwhm), CASE(test_both_or_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
