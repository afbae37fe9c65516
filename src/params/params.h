/* The parameters of a run: read from YAML files and the command line, checked, in SI units.
 *
 * The members come from params.def: path `telescope.diameter` is par->telescope_diameter. Angles
 * are in rad, slope variances in arcsec^2. A real that was not given and has no default is NAN,
 * such a count 0, text NULL, list empty; params_given tells. */
#ifndef MOAO_PARAMS_H
#define MOAO_PARAMS_H

#include "base/comm.h"
#include "moao/status.h"
#include "system/atmos.h"
#include "system/sky.h"
#include "system/system.h"
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int n;
    double *v;
} real_list;

typedef struct {
    int n;
    char **v;
} text_list;

typedef struct {
    int n;
    double (*v)[2];
} point_list;

typedef struct sensor_params sensor_params;
typedef struct profile_params profile_params;

typedef struct {
    int n;
    sensor_params *v;
} sensor_list;

typedef struct {
    int n;
    profile_params *v;
} profile_list;

typedef struct {
    char none; /* defaults are merged into the sensors as they are read */
} sensor_keys;

/* C type of each kind of params.def. */
typedef char *param_text;
typedef char *param_file; /* relative to the parameter file that names it */
typedef bool param_flag;
typedef int param_choice; /* position among the words of the range */
typedef int param_count;
typedef double param_real;
typedef double param_pair[2];
typedef int param_counts[2];
typedef real_list param_reals;
typedef text_list param_words; /* each one of the words of the range */
typedef text_list param_texts;
typedef text_list param_files;
typedef point_list param_points;
typedef sensor_list param_sensors;
typedef profile_list param_profiles;
typedef sensor_keys param_sensor_keys;

enum { SENSOR_NGS, SENSOR_LGS };                                 /* sensors[].type */
enum { RESIDUAL_PHASE, RESIDUAL_SENSOR };                        /* psf.residual */
enum { MODE_MOAO, MODE_GLAO, MODE_LTAO, MODE_MCAO, MODE_SPLIT }; /* mode */
enum { LAGS_EXACT, LAGS_EQUIVALENT };                            /* loop.lags */
enum { FIT_SLOPES, FIT_PHASE };                                  /* reconstructor.fit */
enum { SPLIT_PSEUDO_OPEN, SPLIT_RESIDUAL };                      /* split.slopes */
enum { SPLIT_KNOWN, SPLIT_UNKNOWN };                             /* split.common */
enum { AVERAGE_AUTO, AVERAGE_EXACT, AVERAGE_MEAN }; /* psf.average, as psf_average_kind */
enum { NOISE_PUBLISHED, NOISE_GAUSSIAN };           /* sensors[].noise_model */
enum { SLOPE_GRADIENT, SLOPE_POINTS };              /* sensors[].slope */
/* sensors[].band: its words after `auto` are those of photometry.h; sensors[].photometry */
enum { BAND_AUTO };
enum { PHOTOMETRY_AUTO, PHOTOMETRY_BANDS, PHOTOMETRY_PUBLISHED };
enum { SPOT_AUTO, SPOT_FULL, SPOT_SEEING, SPOT_CORRECTED }; /* sensors[].spot */
enum { WEIGHTING_ENERGY, WEIGHTING_UNIFORM };               /* psf.weighting */
enum { BACKEND_AUTO, BACKEND_CPU, BACKEND_GPU };            /* compute.backend */
/* compute.precision */
enum { PRECISION_PARAM_DOUBLE, PRECISION_PARAM_MIXED, PRECISION_PARAM_AUTO };
enum { DOUBLE_PARAM_NATIVE, DOUBLE_PARAM_INTEGER, DOUBLE_PARAM_AUTO }; /* compute.double */
/* compute.factor, compute.product; compute.format stands for both, and is FORMAT_NONE after loading
 */
enum {
    FACTOR_PARAM_DENSE,
    FACTOR_PARAM_HOST,
    FACTOR_PARAM_TLR,
    FACTOR_PARAM_TLR_HOST,
    FACTOR_PARAM_FP16,
    FACTOR_PARAM_FP16_HOST,
    FACTOR_PARAM_DISTRIBUTED,
    FACTOR_PARAM_AUTO
};
#define FACTOR_PARAM_WORDS                                                                         \
    "dense", "host", "tlr", "tlr_host", "fp16", "fp16_host", "distributed", "auto"
enum { PRODUCT_PARAM_EXACT, PRODUCT_PARAM_FP16, PRODUCT_PARAM_TOEPLITZ, PRODUCT_PARAM_AUTO };
enum { PHASE_PARAM_DIRECT, PHASE_PARAM_LAYERS, PHASE_PARAM_AUTO }; /* compute.phase */
enum { FORMAT_NONE, FORMAT_DENSE, FORMAT_HALF, FORMAT_TLR, FORMAT_GRID, FORMAT_AUTO };
enum { VERIFY_OFF, VERIFY_SAMPLE, VERIFY_FULL };
enum { PSF_SHORT, PSF_LONG, PSF_NONE };                     /* output.psf */
enum { BUDGET_WANTED, BUDGET_NONE };                        /* output.budget */
enum { LATTICE_SHIFTED, LATTICE_SQUARE };                   /* psf.lattice */
enum { SKY_FIELD, SKY_PUPIL };                              /* sky.lgs */
enum { SKY_PUPIL_AUTO, SKY_PUPIL_FIELD, SKY_PUPIL_ZENITH }; /* sky.pupil */
enum { SAMPLING_AUTO, SAMPLING_NODES, SAMPLING_EXACT };     /* targets.sampling */

struct sensor_params { /* after loading: frame_rate and ring not given */
#define SENSOR(key, kind, ...) param_##kind key;
#define SENSOR_IN(group, key, kind, ...) param_##kind group##_##key;
#include "params.def"
};

struct profile_params { /* after loading: layers complete, as strengths; r0, seeing, file and
                           fractions not given */
#define PROFILE_TOP(key, kind, ...) param_##kind key;
#define PROFILE_IN(group, key, kind, ...) param_##kind group##_##key;
#include "params.def"
    char label[64]; /* where it came from */
};

enum { IMAGE_NAME = 32 };
typedef struct { /* what images are of: psf.wavelengths, then psf.bands */
    int n;
    double *lambda;           /* [n] wavelength, or centre of the band [m] */
    double *width;            /* [n] of the band [m]; 0: a single wavelength */
    char (*name)[IMAGE_NAME]; /* [n] of the band; "": a single wavelength */
} image_list;

typedef struct { /* after loading: the atmosphere is in atmosphere_profiles, a targets' file in
                    targets_list */
#define TOP(key, kind, ...) param_##kind key;
#define IN(group, key, kind, ...) param_##kind group##_##key;
#include "params.def"
    text_list notes; /* warnings that arose while reading (parts of legacy files that are not
                        modelled...) */
    pupil_map pupil; /* of telescope.pupil */
    text_list told;  /* what files of spectra came to, for reports */
    image_list images;
} params;

/* Whether an optional real or pair was given. */
static inline bool params_given(double value) {
    return !isnan(value);
}

/* Read parameter files, later ones on top of earlier ones, then the "key=value" overrides; check
 * everything that can be checked before a computation. MOAO_INPUT with a message "file:line:column:
 * key: what is wrong, what is expected". Collective when c is not NULL: rank 0 reads the files, all
 * ranks parse the same bytes and return the same status. Local when c is NULL. params_free also
 * after a failure. */
status params_load(const comm *c, int nfile, const char *const *files, int noverride,
                   const char *const *overrides, params *par);
void params_free(params *par);
/* The mistakes of the last params_load that ended in MOAO_INPUT, a line each, the first of which is
 * the status message: at most 20, and a line that counts the others. NULL beyond the last. Local.
 */
const char *params_mistake(int i);

/* Geometry and atmosphere that follow from the parameters. Local. Free with sys_free, atmos_free.
 */
status sys_init(const params *par, sys *s);
/* Local. The correctors of `par` into s->fit, after sys_derive. */
status params_set_correctors(const params *par, sys *s);
/* Local. The delay is that of the targets' mirror; sensors once more as the common mirror's
 * commands have them, where mode: split has two delays; before sys_derive. MOAO_MEMORY. */
status params_split_delays(const params *par, sys *s);
/* Local. The filters of closed loops into s->loop, s->low.loop and s->fit.split. */
status params_set_loop(const params *par, sys *s);
status atmos_init(const params *par, const sys *s, atmos *a);

/* par->images from psf.wavelengths and psf.bands, which params_load has checked: after a change of
 * the former. MOAO_MEMORY. Local. */
status params_list_images(params *par);
/* "1.65 um", or "band H". Local. */
void params_image_label(const params *par, int i, char *out, size_t n);
/* Checksum of telescope.pupil's image, which is there. Local. */
uint32_t params_pupil_sum(const params *par);

/* Where the field is on the sky, as far as the parameters say (NAN: not given). Local. */
void params_sky(const params *par, sky *s);

/* Refuse a name that no folder of results can have: empty, beginning with a blank (cfitsio would
 * leave it out), too long for the names of files below it. MOAO_INPUT, the message beginning with
 * `option`. Local. */
status params_check_directory(const char *option, const char *name);

/* Doubtful but legal input, one line each: allocates lines[] and its strings; params_free_warnings.
 * Returns their number (0 also when memory is short). Local. */
int params_warnings(const params *par, const sys *s, const atmos *a, char ***lines);
void params_free_warnings(int n, char **lines);

/* Whether an error budget is wanted. */
static inline bool params_wants_budget(const params *par) {
    return par->output_budget == BUDGET_WANTED;
}

/* Whether output.matrices names this matrix. */
bool params_wants_matrix(const params *par, const char *name);

/* The complete effective parameters as a YAML file that needs no other file and gives exactly the
 * same numbers when read again; NULL when memory is short. Free with free(). */
char *params_effective_text(const params *par);

/* Compare two such texts. MOAO_OK when they are equal but for what cannot change results (title,
 * output.directory, compute.*). Else MOAO_INPUT, with one line in `difference` naming the first
 * different key and both values; no status message is set. */
status params_compare_effective(const char *old_text, const char *new_text, char *difference,
                                size_t n);

/* Fingerprint of what params_compare_effective compares: equal texts have equal ones (FNV-1a, 64
 * bits). */
status params_fingerprint(const char *effective, uint64_t *fingerprint);

/* The reference of all parameters: text for a terminal, the page docs/parameters.md, the manual
 * page moao-parameters(5), or a line "table key word..." for each key, for completion. NULL when
 * memory is short. Free with free(). Local. */
typedef enum { REFERENCE_PLAIN, REFERENCE_MARKDOWN, REFERENCE_MAN, REFERENCE_KEYS } reference_form;
char *params_reference(reference_form form);
/* The part of it that a name stands for: a section (telescope, sensors, targets.grid...), a key, or
 * "units"; else all keys whose names or texts have the word, or for which people of the field have
 * it. MOAO_INPUT when there is none. *text: free with free(). Local. */
status params_reference_section(const char *name, char **text);

#endif
