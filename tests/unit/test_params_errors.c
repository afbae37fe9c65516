/* Every mistake in a parameter file is told in one line that names file, line, column and key, with
 * the status MOAO_INPUT. */
#include "params_case.h"

typedef struct {
    const char *old, *new, *place, *phrase;
} mistake;

static void check_all(const mistake *m, size_t n) {
    for (size_t i = 0; i < n; i++) {
        write_changed(m[i].old, m[i].new);
        expect_mistake(NULL, m[i].place, m[i].phrase);
    }
}
#define CHECK(list) check_all(list, sizeof(list) / sizeof *(list))

static void good_file_loads(void **state) {
    (void)state;
    params par;
    write_case("good.yaml");
    load("good.yaml", NULL, &par);
    params_free(&par);
}

static void wrong_numbers(void **state) {
    (void)state;
    static const mistake m[] = {
        {"diameter: 8", "diameter: nan",
         "bad.yaml:2:23: telescope.diameter: ", "'nan' is not a number, expected a length in m"},
        {"diameter: 8", "diameter: inf", "bad.yaml:2:23: telescope.diameter: ", "not finite"},
        {"diameter: 8", "diameter: 1e400",
         "bad.yaml:2:23: telescope.diameter: ", "beyond what a double holds"},
        {"diameter: 8", "diameter: -8", "bad.yaml:2:23: telescope.diameter: ",
         "out of range, expected a length in m in [0.1, 200]"},
        {"diameter: 8", "diameter: 8x", "bad.yaml:2:23: telescope.diameter: ", "units m, km"},
        {"diameter: 8", "diameter: 0x8",
         "bad.yaml:2:23: telescope.diameter: ", "is not a number with"},
        {"diameter: 8", "diameter: eight",
         "bad.yaml:2:23: telescope.diameter: ", "'eight' is not a number"},
        {"diameter: 8", "diameter: ''", "bad.yaml:2:23: telescope.diameter: ", "no value"},
        {"diameter: 8", "diameter: ", "bad.yaml:2:23: telescope.diameter: ", "no value"},
        {"diameter: 8", "diameter: [8]",
         "bad.yaml:2:23: telescope.diameter: ", "a list, expected a length"},
        {"diameter: 8", "diameter: {a: 8}",
         "bad.yaml:2:23: telescope.diameter: ", "a mapping, expected a length"},
        {"diameter: 8", "diameter: 8 s",
         "bad.yaml:2:23: telescope.diameter: ", "is a time, not a length"},
        {"diameter: 8", "diameter: 8 m m",
         "bad.yaml:2:23: telescope.diameter: ", "is not a number with"},
        {"diameter: 8", "diameter: \"38,5\"", "bad.yaml:2:23: telescope.diameter: ", "'38,5'"},
        {"0.14", "0.96", "bad.yaml:2:39: telescope.obscuration: ", "out of range"},
        {"nssp: 16", "nssp: 16.5", "bad.yaml:3:12: dm.nssp: ", "'16.5' is not a whole number"},
        {"nssp: 16", "nssp: 16 m", "bad.yaml:3:12: dm.nssp: ", "is not a whole number"},
        {"nssp: 16", "nssp: 99999999999999999999", "bad.yaml:3:12: dm.nssp: ", "out of range"},
        {"nssp: 16", "nssp: 1", "bad.yaml:3:12: dm.nssp: ", "out of range"},
        {"magnitude: 10", "magnitude: 10 mag",
         "bad.yaml:6:59: sensors[0].magnitude: ", "'10 mag' is not a number"},
        {"magnitude: 10", "magnitude: 10 m", "bad.yaml:6:59: sensors[0].magnitude: ", "has a unit"},
        {"[40, 10]", "[40]",
         "bad.yaml:6:38: sensors[0].direction: ", "a list of 1, expected a list of two"},
        {"[40, 10]", "[40, x]", "bad.yaml:6:43: sensors[0].direction[1]: ", "'x' is not a number"},
        {"[40, 10]", "40", "bad.yaml:6:38: sensors[0].direction: ", "is not a list"},
        {"psf:", "compute: {memory: 8}\npsf:", "bad.yaml:15:19: compute.memory: ",
         "'8' is 8 bytes, expected an amount with its unit, such as 8 GB"},
        {"[1.65, 2.2]", "[Q]", "bad.yaml:15:21: psf.wavelengths[0]: ",
         "'Q' is not a number, expected a wavelength in um in [0.3, 30], or a band such as H"},
        {"magnitude: 10", "magnitude: 10, frame_rate: 2 ms",
         "bad.yaml:6:75: sensors[0].frame_rate: ", "is a time, not a rate"},
        {"magnitude: 10", "magnitude: 10, frame_rate: 0",
         "bad.yaml:6:75: sensors[0].frame_rate: ", "out of range"},
        {"[1.65, 2.2]", "[]", "bad.yaml:15:20: psf.wavelengths: ", "an empty list"},
        {"[1.65, 2.2]", "[1.65, 2.2 km]", "bad.yaml:15:27: psf.wavelengths[1]: ", "out of range"},
    };
    CHECK(m);
    assert_int_equal(mistakes_missed, 0);
}

static void wrong_words(void **state) {
    (void)state;
    static const mistake m[] = {
        {"diameter", "diametr",
         "bad.yaml:2:13: telescope.diametr: ", "unknown key, did you mean diameter?"},
        {"psf:", "compute: {tlr_order: joint}\npsf:", "bad.yaml:15:22: compute.tlr_order: ",
         "no longer a parameter, measurements are ordered sensor by sensor: remove it"},
        {"dm:", "diameter: 8\ndm:", "bad.yaml:3:1: diameter: ", "did you mean telescope.diameter?"},
        {"magnitude: 11", "magnitud: 11",
         "bad.yaml:7:49: sensors[1].magnitud: ", "did you mean magnitude?"},
        {"psf:", "foobarbaz: 1\npsf:", "bad.yaml:15:1: foobarbaz: ",
         "expected one of title, telescope"},
        {"type: ngs", "type: NGSS",
         "bad.yaml:6:12: sensors[0].type: ", "'NGSS' is not known, expected one of ngs, lgs"},
        {"{wavelengths", "{weighting: both, wavelengths",
         "bad.yaml:15:18: psf.weighting: ", "expected one of energy, uniform"},
        {"psf:", "output: {compress: yes}\npsf:", "bad.yaml:15:20: output.compress: ",
         "expected true or false"},
        {"psf:", "output: {matrices: [Cmm, cmm]}\npsf:", "bad.yaml:15:26: output.matrices[1]: ",
         "'cmm' is not known"},
        {"psf:", "output: {directory: ' out'}\npsf:", "bad.yaml:15:21: output.directory: ",
         "the name begins with a blank"},
        {"psf:", "output: {directory: ''}\npsf:", "bad.yaml:15:21: output.directory: ",
         "an empty name"},
        {"psf:", "output: {crop: 33}\npsf:", "bad.yaml:15:16: output.crop: ", "odd"},
        {"psf:", "compute: {grid: [2, 0]}\npsf:", "bad.yaml:15:17: compute.grid: ", "one is 0"},
        {"diameter: 8", "diameter: 8, diameter: 9",
         "bad.yaml:2:26: diameter: ", "duplicate key (first on line 2)"},
        {"dm:", "telescope: {}\ndm:", "bad.yaml:3:1: telescope: ", "duplicate key"},
        {"telescope: {diameter: 8, obscuration: 0.14}", "telescope: 8",
         "bad.yaml:2:12: telescope: ", "not a mapping"},
        {"direction: [30", "magnitude: 3, direction: [30",
         "bad.yaml:8:17: sensors[2].magnitude: ", "does not apply to a laser"},
        {"magnitude: 10}", "magnitude: 10, altitude: 90 km}",
         "bad.yaml:6:63: sensors[0].altitude: ", "does not apply to a natural"},
        {"nssp: 12,", "type: lgs, nssp: 12,",
         "bad.yaml:4:22: lgs_defaults.type: ", "belongs to one sensor"},
        {"nssp: 12,", "nssq: 12,", "bad.yaml:4:16: lgs_defaults.nssq: ", "did you mean nssp?"},
        {"  - {type: ngs, nssp: 10, direction: [40, 10]",
         "  - {name: a name of more than 31 bytes is no name, type: ngs, nssp: 10, direction: [40, "
         "10]",
         "bad.yaml:6:12: sensors[0].name: ", "longer than 31 bytes"},
        {"nssp: 12, altitude", "slope: mean, nssp: 12, altitude",
         "bad.yaml:4:23: lgs_defaults.slope: ", "expected one of gradient, points"},
    };
    CHECK(m);
    assert_int_equal(mistakes_missed, 0);
}

static void missing_keys(void **state) {
    (void)state;
    static const mistake m[] = {
        {"diameter: 8, ", "",
         "bad.yaml:2:12: telescope.diameter: ", "missing, expected a length in m"},
        {"telescope: {diameter: 8, obscuration: 0.14}\n", "",
         "bad.yaml:1:1: telescope.diameter: ", "missing"},
        {"type: ngs, ", "", "bad.yaml:6:5: sensors[0].type: ", "missing"},
        {"nssp: 10, ", "", "bad.yaml:6:5: sensors[0].nssp: ", "missing"},
        {", magnitude: 10", "",
         "bad.yaml:6:5: sensors[0].magnitude: ", "missing, expected a magnitude or noise_variance"},
        {", altitude: 90 km", "",
         "bad.yaml:8:5: sensors[2].altitude: ", "missing, expected a length in m"},
        {"nx: 4, ", "", "bad.yaml:9:17: targets.grid.nx: ", "missing"},
        {", width: 60", "", "bad.yaml:9:17: targets.grid.width: ", "missing"},
        {"width: 60", "width: 0", "bad.yaml:9:39: targets.grid.width: ", "0 for 4 targets"},
        {"targets: {grid: {nx: 4, ny: 2, width: 60, height: 30}}\n", "",
         "bad.yaml:1:1: targets: ", "missing, expected a grid, a list or a file"},
        {"{grid: {nx: 4, ny: 2, width: 60, height: 30}}", "{list: [[0, 0]], file: a.txt}",
         "bad.yaml:9:27: targets.file: ", "given with list"},
        {"{grid: {nx: 4, ny: 2, width: 60, height: 30}}", "{list: []}",
         "bad.yaml:9:17: targets.list: ", "an empty list"},
        {"{grid: {nx: 4, ny: 2, width: 60, height: 30}}", "{list: [0, 0]}",
         "bad.yaml:9:18: targets.list[0]: ", "is not a list"},
        {"r0: 0.15, ", "", "bad.yaml:12:7: atmosphere.profiles[0].r0: ", "missing"},
        {"altitude: [0, 4000, 10000], ", "",
         "bad.yaml:12:35: atmosphere.profiles[0].layers.altitude: ", "missing"},
        {", fraction: [0.6, 0.3, 0.1]", "",
         "bad.yaml:12:35: atmosphere.profiles[0].layers.fraction: ",
         "missing, expected fractions or strengths"},
    };
    CHECK(m);
    assert_int_equal(mistakes_missed, 0);
}

static void inconsistent_values(void **state) {
    (void)state;
    static const mistake m[] = {
        {"[0.6, 0.3, 0.1]", "[0.6, 0.3]",
         "bad.yaml:12:74: atmosphere.profiles[0].layers.fraction: ", "2 values, expected 3"},
        {"[0.6, 0.3, 0.1]", "[0.6, 0.3, 0.1], L0: [25, 25]",
         "bad.yaml:12:95: atmosphere.profiles[0].layers.L0: ", "2 values, expected 3"},
        {"[0.6, 0.3, 0.1]", "[0.6, 0.3, 0.1], wind_speed: [10]",
         "bad.yaml:12:103: atmosphere.profiles[0].layers.wind_speed: ", "1 value, expected 3"},
        {"[0.6, 0.3, 0.1]", "[0.6, 0.3, -0.1]",
         "bad.yaml:12:85: atmosphere.profiles[0].layers.fraction[2]: ", "out of range"},
        {"[0.6, 0.3, 0.1]", "[0, 0, 0]",
         "bad.yaml:12:74: atmosphere.profiles[0].layers.fraction: ", "all zero"},
        {"[0.6, 0.3, 0.1]", "[0.6, 0.3, 0.1], strength: [1, 2, 3]",
         "bad.yaml:12:91: atmosphere.profiles[0].layers.strength: ", "given with fraction"},
        {"[20, 10]", "[20, -10]",
         "bad.yaml:13:77: atmosphere.profiles[1].layers.strength[1]: ", "out of range"},
        {"[0.6, 0.3, 0.1]", "[0.6, 0.3, 0.1], L0: 0",
         "bad.yaml:12:95: atmosphere.profiles[0].layers.L0: ", "out of range"},
        {"time: 10 min", "time: 0",
         "bad.yaml:13:14: atmosphere.profiles[1].time: ", "expected increasing times"},
        {"[0, 300, 600]", "[0, 300, 300]",
         "bad.yaml:14:58: schedule.exposure_times[2]: ", "expected increasing times"},
        {"[0, 600]", "[600, 0]",
         "bad.yaml:14:29: schedule.tor_times[1]: ", "expected increasing times"},
        {"[0, 600]", "[1, 600]",
         "bad.yaml:14:49: schedule.exposure_times: ", "before the first reconstructor"},
        {"tor_times: [0, 600]", "tor_interval: 600", "bad.yaml:14:11: schedule.end: ", "missing"},
        {"tor_times: [0, 600]", "tor_interval: 600, end: -1",
         "bad.yaml:14:36: schedule.end: ", "not after the start"},
        {"tor_times: [0, 600]", "tor_interval: 0.001, end: 1 d",
         "bad.yaml:14:26: schedule.tor_interval: ", "more than 100000 times"},
        {"tor_times: [0, 600]", "tor_times: [0], tor_interval: 600, end: 1",
         "bad.yaml:14:28: schedule.tor_interval: ", "given with tor_times"},
        {"altitude: 90 km", "altitude: 9 km",
         "bad.yaml:4:36: sensors[2].altitude: ", "below layers with 10.0 % of r0^(-5/3)"},
        {"0.14}\ndm: {nssp: 16}", "0.95}\ndm: {nssp: 3}",
         "bad.yaml:3:12: dm.nssp: ", "leaves no valid subaperture"},
        {"tor_times: [0, 600]", "tor_interval: 600, start: 0, end: 1e-8",
         "bad.yaml:14:46: schedule.end: ", "leaves no time for tor_interval"},
        {"exposure_times: [0, 300, 600]", "exposure_interval: 1e7, end: 1e-3",
         "bad.yaml:14:62: schedule.end: ", "leaves no time for exposure_interval"},
        {"r0: 0.15", "r0: 0.15, seeing: 0.7",
         "bad.yaml:12:27: atmosphere.profiles[0].seeing: ", "given with r0"},
        {"magnitude: 10", "magnitude: 10, frame_time: 1, frame_rate: 1",
         "bad.yaml:6:78: sensors[0].frame_rate: ", "given with frame_time"},
        {"direction: [30, -30]", "direction: [30, -30], ring: {n: 2, radius: 3}",
         "bad.yaml:8:39: sensors[2].ring: ", "given with direction"},
        {"direction: [30, -30]", "ring: {n: 2}",
         "bad.yaml:8:23: sensors[2].ring.radius: ", "missing, expected an angle in arcsec"},
        {"direction: [30, -30]", "ring: {n: 0, radius: 3}",
         "bad.yaml:8:27: sensors[2].ring.n: ", "out of range"},
        {"direction: [30, -30]", "ring: {n: 2, radius: 3, angel: 3}",
         "bad.yaml:8:41: sensors[2].ring.angel: ", "did you mean angle?"},
        {"direction: [30, -30]", "ring: 6", "bad.yaml:8:23: sensors[2].ring: ", "not a mapping"},
        {"direction: [30, -30]", "ring: {n: 1000, radius: 3}",
         "bad.yaml:8:5: sensors[2]: ", "1002 sensors, expected at most 1000"},
        {"lgs_defaults: {nssp: 12", "lgs_defaults: {ring: {n: 2, radius: 3}, nssp: 12",
         "bad.yaml:4:22: lgs_defaults.ring: ", "belongs to one sensor"},
        {"{grid: {nx: 4, ny: 2, width: 60, height: 30}}", "{list: [[1, 2]], names: [a, b]}",
         "bad.yaml:9:34: targets.names: ", "2 names for 1 target"},
        {"height: 30}}", "height: 30}, names: [a]}",
         "bad.yaml:9:56: targets.names: ", "given with grid"},
        {"profiles:\n", "file: a.yaml\n  profiles:\n",
         "bad.yaml:12:3: atmosphere.profiles: ", "given with file"},
    };
    CHECK(m);
    assert_int_equal(mistakes_missed, 0);
}

static void light_of_stars(void **state) {
    (void)state;
    static const mistake m[] = {
        {"magnitude: 10", "magnitude: 10, photons: 90",
         "bad.yaml:6:63: sensors[0].photons: ", "given with magnitude"},
        {"magnitude: 10", "magnitude: 10, spectral_type: G2III",
         "bad.yaml:6:78: sensors[0].spectral_type: ",
         "'G2III' is no main-sequence type, expected B9 to M6"},
        {"magnitude: 10", "magnitude: 10, band: W",
         "bad.yaml:6:69: sensors[0].band: ", "expected one of auto, U, B, V"},
        {"direction: [30, -30]", "ring: {n: 3, radius: 3}, lgs_return: [1e6, 2e6]",
         "bad.yaml:8:54: sensors[2].lgs_return: ",
         "a list of 2, expected one value for all or a list of 3, one for each star"},
    };
    CHECK(m);
    assert_int_equal(mistakes_missed, 0);
}

/* A laser star below turbulence, of whichever profile, whether its altitude is its own or that of
 * all.
 */
static void stars_below_layers(void **state) {
    (void)state;
    static const mistake m[] = {
        {"altitude: [0, 4000, 10000]", "altitude: [0, 4000, 95000]",
         "bad.yaml:4:36: sensors[2].altitude: ", "below layers with 10.0 % of r0^(-5/3)"},
        {"altitude: [0, 5000]", "altitude: [0, 95000]",
         "bad.yaml:4:36: sensors[2].altitude: ", "below layers with 33.3 % of r0^(-5/3)"},
        {"altitude: [0, 5000]", "altitude: [0, 90000]",
         "bad.yaml:4:36: sensors[2].altitude: ", "below layers with 33.3 % of r0^(-5/3)"},
        {"direction: [30, -30]", "direction: [30, -30], altitude: 4 km",
         "bad.yaml:8:49: sensors[2].altitude: ", "below layers with 40.0 % of r0^(-5/3)"},
    };
    CHECK(m);
    write_changed("strength: [20, 10]", "strength: [200, 10]"); /* less than 5 % may be */
    params par;
    load("bad.yaml", "atmosphere.profiles[1].layers.altitude=[0, 95000]", &par);
    params_free(&par);
    assert_int_equal(mistakes_missed, 0);
}

/* A sensor whose subapertures all lie in the obscuration, whichever it is, beside finer ones. */
static void sensors_without_light(void **state) {
    (void)state;
    write_changed("nssp: 10, direction: [40, 10]", "nssp: 5, direction: [40, 10]");
    expect_mistake("telescope.obscuration=0.9", "bad.yaml:6:", "leaves no valid subaperture");
    expect_mistake("telescope.obscuration=0.9", "bad.yaml:6:", "sensors[0].nssp: 5 with");
    write_changed("nssp: 10, direction: [-30, 35]", "nssp: 5, direction: [-30, 35]");
    expect_mistake("telescope.obscuration=0.9", "bad.yaml:7:", "sensors[1].nssp: 5 with");
    write_changed("nssp: 12,", "nssp: 5,");
    expect_mistake("telescope.obscuration=0.9", "bad.yaml:4:", "sensors[2].nssp: 5 with");
    assert_int_equal(mistakes_missed, 0);
}

/* Where the field is: what is needed beside what, and what no sky has. */
static void sky_that_cannot_be(void **state) {
    (void)state;
    static const struct {
        const char *sky, *place, *phrase;
    } of[] = {
        {"ra: 150 deg, dec: -10 deg, latitude: 60 deg, hour_angle: 180 deg",
         "sky: ", "deg from the zenith, expected less than 80"},
        {"ra: 150 deg, dec: -10 deg, latitude: -90 deg, hour_angle: 10 deg",
         "sky: ", "is 80.0 deg from the zenith"},
        {"ra: 150 deg, dec: -91 deg", "sky.dec: ", "no such angle"},
        {"ra: 361 deg, dec: 10 deg", "sky.ra: ", "no such angle"},
        {"ra: 150 deg, dec: 10:00:75", "sky.dec: ", "no such angle"},
        {"ra: 150 deg", "sky.dec: ", "missing"},
        {"dec: 10 deg", "sky.ra: ", "missing"},
        {"ra: 150 deg, dec: -10 deg, hour_angle: 1 h", "sky.latitude: ", "missing"},
        {"hour_angle: 1 h, latitude: 10 deg", "sky.ra: ", "missing"},
        {"ra: 150 deg, dec: -10 deg, latitude: -24 deg, lgs: pupil", "sky.hour_angle: ", "missing"},
        {"ra: 150 deg, dec: -10 deg, latitude: -24 deg, time: 2026-11-22T03:14:15",
         "sky.longitude: ", "missing"},
        {"ra: 150 deg, dec: -10 deg, latitude: -24 deg, longitude: 3 deg, time: 2026-02-30",
         "sky.time: ", "expected"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[300];
        snprintf(text, sizeof text, "title: good\nsky: {%s}\n", of[i].sky);
        write_changed("title: good\n", text);
        expect_mistake(NULL, "bad.yaml:2:", of[i].place);
        expect_mistake(NULL, "bad.yaml:2:", of[i].phrase);
    }
    assert_int_equal(mistakes_missed, 0);
}

static void missing_files(void **state) {
    (void)state;
    static const mistake m[] = {
        {"{grid: {nx: 4, ny: 2, width: 60, height: 30}}", "{file: none.txt}",
         "bad.yaml:9:17: targets.file: ", "none.txt cannot be read (No such file"},
        {"{time: 0, r0: 0.15, layers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1]}}",
         "{file: none.txt}",
         "bad.yaml:12:14: atmosphere.profiles[0].file: ", "none.txt cannot be read"},
        {"{time: 0, r0: 0.15, layers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1]}}",
         "{file: none.yaml}",
         "bad.yaml:12:14: atmosphere.profiles[0].file: ", "none.yaml cannot be read"},
        {"{time: 0, r0: 0.15, layers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1]}}",
         "{file: .}", "bad.yaml:12:14: atmosphere.profiles[0].file: ", "Is a directory"},
    };
    CHECK(m);
    unlink("bad.yaml");
    expect_mistake(NULL, "bad.yaml:1:1: file: ", "cannot be read (No such file");
    write_changed("{grid: {nx: 4, ny: 2, width: 60, height: 30}}", "{file: t.txt}");
    write_bytes("t.txt", "# x y\n1 2\n3 four\n", 17);
    expect_mistake(NULL, "t.txt:3:3: targets.file: ", "'four' is not a number");
    write_bytes("t.txt", "1 2 3\n", 6);
    expect_mistake(NULL, "t.txt:1:5: targets.file: ", "more than two");
    write_bytes("t.txt", "1\n", 2);
    expect_mistake(NULL, "t.txt:1:2: targets.file: ", "expected x and y");
    write_bytes("t.txt", "\n", 1);
    expect_mistake(NULL, "t.txt:1:1: targets.file: ", "no target");
    write_bytes("t.txt", "1 2\n3\0004\n5 6\n", 12);
    expect_mistake(NULL, "t.txt:2:2: targets.file: ", "a NUL character");
    write_bytes("t.txt", "lo la\n1 2\n", 10);
    expect_mistake(NULL, "t.txt:1:1: targets.file: ", "words without x and y");
    write_bytes("t.txt", "ra dec\n1 2\n", 11);
    expect_mistake(NULL, "t.txt:2:1: targets.file: ", "ra and dec without sky.ra and sky.dec");
    write_bytes("t.txt", "x y name\n1 2\n", 13);
    expect_mistake(NULL,
                   "t.txt:2:1: targets.file: ", "2 fields, expected 3 as the column names say");
    write_bytes("t.txt", "x[s] y\n1 2\n", 11);
    expect_mistake(NULL, "t.txt:1:1: targets.file: ", "unit is not known");
    write_bytes("t.txt", "# %ECSV 1.0\nx y\n1 2\n", 20);
    expect_mistake(NULL, "t.txt:1:1: targets.file: ", "an ECSV table");
    write_bytes("t.txt", "name,x,y\n\"A,1,2\n", 16);
    expect_mistake(NULL, "t.txt:2:1: targets.file: ", "double quote that is not closed");
    write_bytes("t.txt", "1 2 the star\n", 13);
    expect_mistake(NULL, "t.txt:1:9: targets.file: ", "in double quotes");
    assert_int_equal(mistakes_missed, 0);
}

/* Profile files of the framework must hold what a parameter file may state, as effective.yaml does.
 */
static void legacy_values_out_of_range(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *phrase;
    } l[] = {
        {"n\n1\nr0\n1\ns\n2e6\nh\n0\nl\n25\n",
         "p.txt:1:1: layers.strength: ", "layer 1 has 2e+06, expected a turbulence strength"},
        {"n\n1\nr0\n1\ns\n2\nh\n2e5\nl\n25\n",
         "p.txt:1:1: layers.altitude: ", "layer 1 has 200000"},
        {"n\n1\nr0\n1\ns\n2\nh\n2\nl\n0.01\n", "p.txt:1:1: layers.L0: ", "layer 1 has 0.01"},
    };
    write_changed(
        "{time: 0, r0: 0.15, layers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1]}}",
        "{file: p.txt}");
    for (size_t i = 0; i < sizeof l / sizeof *l; i++) {
        write_bytes("p.txt", l[i].text, strlen(l[i].text));
        expect_mistake(NULL, l[i].place, l[i].phrase);
    }
    write_bytes("p.txt", "n\n1\nr0\n1\ns\n2\0h\n2\nl\n25\n", 22);
    expect_mistake(NULL, "p.txt:6:2: atmosphere.profiles[0].file: ", "a NUL character");
    write_bytes("p.txt", "n\n1\nr0\n1\ns\n2\nh\n2\nl\n25\n", 22);
    expect_mistake("atmosphere={legacy: {files: [p.txt, p.txt], start: 1e9}}",
                   "command line:1:", "expected increasing times up to 1e9 s");
    expect_mistake("atmosphere={legacy: {files: [p.txt, p.txt], start: 1e8, interval: 1e-9}}",
                   "command line:1:", "expected increasing times up to 1e9 s");
    assert_int_equal(mistakes_missed, 0);
}

static void wrong_yaml(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *phrase;
    } y[] = {
        {"", "bad.yaml:1:1: syntax: ", "empty"},
        {"# only a comment\n", "bad.yaml:1:1: syntax: ", "empty"},
        {"- a\n- b\n", "bad.yaml:1:1: syntax: ", "not a mapping"},
        {"just text\n", "bad.yaml:1:1: syntax: ", "not a mapping"},
        {"a: [1, 2\nb: 3\n", "bad.yaml:2:2: syntax: ", "expected"},
        {"a: 1\n  b: 2\n", "bad.yaml:2:4: syntax: ", "mapping values are not allowed"},
        {"a: \"open\n", "bad.yaml:2:1: syntax: ", "unexpected end"},
        {"a: *nowhere\n", "bad.yaml:1:4: syntax: ", "undefined alias"},
        {"a: 1\n---\nb: 2\n", "bad.yaml:2:1: syntax: ", "second document"},
        {"title: a\xff\n", "bad.yaml:1:9: syntax: ", "UTF-8"},
        {"title: \"a\\0b\"\n", "bad.yaml:1:8: syntax: ", "NUL"},
        {"title: a\x01\n", "bad.yaml:1:9: syntax: ", "control characters"},
        {"[a]: 1\n", "bad.yaml:1:1: syntax: ", "as a key"},
        {"a:\n\tb: 1\n", "bad.yaml:2:1: syntax: ", "a tab character, expected blanks before a key"},
        {"a:\n  b: 1\n  \tc: 2\n", "bad.yaml:3:3: syntax: ", "a tab character"},
        {"a: &x [*x]\n", "bad.yaml:1:", "nested deeper than"},
        {"a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n",
         "bad.yaml:1:1: a: ", "unknown key"},
    };
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) {
        write_bytes("bad.yaml", y[i].text, strlen(y[i].text));
        expect_mistake(NULL, y[i].place, y[i].phrase);
    }
    assert_int_equal(mistakes_missed, 0);
}

static void wrong_overrides(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *phrase;
    } o[] = {
        {"telescope.diametr=3", "command line:1:11: telescope.diametr: ", "did you mean diameter?"},
        {"telescope.diameter=nan", "command line:1:20: telescope.diameter: ", "not a number"},
        {"telescope.diameter=", "command line:1:19: telescope.diameter: ", "no value"},
        {"atmosphere={file: }", "command line:1:19: atmosphere.file: ", "no value"},
        {"telescope.diameter", "command line:1:1: telescope.diameter: ", "expected key=value"},
        {"=3", "command line:1:1: syntax: ", "no key"},
        {"a..b=3", "command line:1:3: a..b: ", "not a key"},
        {"a b=3", "command line:1:2: a b: ", "not part of a key"},
        {"sensors[3].nssp=3", "command line:1:8: sensors[3].nssp: ", "expected 0 to 2"},
        {"sensors[-1].nssp=3", "command line:1:8: sensors[-1].nssp: ", "not an index"},
        {"sensors[0.nssp=3", "command line:1:8: sensors[0.nssp: ", "not an index"},
        {"sensors.nssp=3", "command line:1:9: sensors.nssp: ",
         "no sensor has this name, expected one of NGS 1, NGS 2, LGS 1"},
        {"sensors.=3", "command line:1:9: sensors.: ", "no name"},
        {"sensors.LGS2.nssp=3", "command line:1:9: sensors.LGS2.nssp: ", "no sensor has this name"},
        {"sensors.NGS1.magnitud=3",
         "command line:1:14: sensors[0].magnitud: ", "did you mean magnitude?"},
        {"dm[0]=3", "command line:1:3: dm[0]: ", "no list"},
        {"sensors[2].magnitude=3", "command line:1:12: sensors[2].magnitude: ", "does not apply"},
        {"psf.wavelengths=[1.65", "command line:1:22: syntax: ", "in psf.wavelengths="},
        {"psf.wavelengths=[1.65, 2 s]", "command line:1:24: psf.wavelengths[1]: ", "is a time"},
    };
    write_changed("good", "good");
    for (size_t i = 0; i < sizeof o / sizeof *o; i++)
        expect_mistake(o[i].text, o[i].place, o[i].phrase);
    assert_int_equal(mistakes_missed, 0);
}

static int reset(void **state) {
    (void)state;
    mistakes_missed = 0;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(good_file_loads, reset),
        cmocka_unit_test_setup(wrong_numbers, reset),
        cmocka_unit_test_setup(wrong_words, reset),
        cmocka_unit_test_setup(missing_keys, reset),
        cmocka_unit_test_setup(inconsistent_values, reset),
        cmocka_unit_test_setup(light_of_stars, reset),
        cmocka_unit_test_setup(stars_below_layers, reset),
        cmocka_unit_test_setup(sensors_without_light, reset),
        cmocka_unit_test_setup(sky_that_cannot_be, reset),
        cmocka_unit_test_setup(missing_files, reset),
        cmocka_unit_test_setup(legacy_values_out_of_range, reset),
        cmocka_unit_test_setup(wrong_yaml, reset),
        cmocka_unit_test_setup(wrong_overrides, reset),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
