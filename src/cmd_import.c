#include "base/file.h"
#include "base/text.h"
#include "commands.h"
#include "params/legacy.h"
#include "params/params.h"
#include "params/params_files.h"
#include "params/params_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cmd_import_usage[] =
    "usage: moao import-legacy SYSTEM PROFILE... -o FILE [--interval TIME] [--force]\n"
    "\n"
    "Make a parameter file from a system file and profile files of the MOAO\n"
    "framework. The profiles are taken in the order of the numbers in their names and\n"
    "copied into the file, which therefore runs anywhere. What the files do not state\n"
    "takes the defaults; each is listed.\n"
    "\n"
    "  -o FILE           the parameter file to write\n"
    "  --interval TIME   time from one profile to the next (default 10 min)\n"
    "  --force           replace FILE when there is one\n";

typedef struct {
    const char *system, *out;
    int nprofile;
    const char **profiles; /* in order */
    double interval;       /* [s] */
    bool force;            /* replace `out` */
} job;

typedef struct {
    text body;
    text notes; /* comment lines: what was left out or defaulted */
} importer;

/* A warning on the terminal, kept as a comment in the file too. */
static void note(importer *im, const char *what, const char *how) {
    fprintf(stderr, "warning: %s: %s\n", what, how);
    text_add(&im->notes, "#   %s: %s\n", what, how);
}

static const char *number(double v, dimension dim, const char *unit, char out[64]) {
    units_format(v, dim, unit, out, 64);
    return out;
}

static void add_number(importer *im, const char *key, double v, const char *where) {
    char s[64];
    text_add(&im->body, "  %s: %s # %s\n", key, number(v, DIM_NONE, "", s), where);
}

/* Name of a file for a comment: one line of plain characters. */
static void add_name(text *t, const char *name) {
    for (; *name; name++)
        text_add(t, "%c", (unsigned char)*name < 0x20 || (unsigned char)*name > 0x7E ? '?' : *name);
}

/* Keys of sensors that both types have under other names of the file: NGS in [0], LGS in [1]. */
static void add_defaults(importer *im, const legacy_system *s, bool lgs) {
    text_add(&im->body,
             "%s_defaults:\n  slope: points # as these files' model has it\n  nssp: %d # Nssp\n",
             lgs ? "lgs" : "ngs", s->nssp);
    if (s->full) {
        add_number(im, "frame_time", s->frame_time, "s, Tframe");
        add_number(im, "ron", s->ron, "e-, read-out noise");
        add_number(im, "pixel", s->pixel[lgs], "arcsec, pixel size");
        add_number(im, "wavelength", s->wavelength[lgs] * 1e6, "um, wave length");
        add_number(im, "throughput", s->throughput[lgs], "transmission");
    } else {
        add_number(im, "noise_variance", s->noise_variance, "arcsec2, noise_var");
    }
    if (s->full && !lgs)
        add_number(im, "bandwidth", s->bandwidth * 1e9, "nm, bandwidth");
    if (s->full && lgs) {
        add_number(im, "lgs_return", s->lgs_return, "ph/m2/s, flux for LGS");
        add_number(im, "atm_transmission", s->t_atm, "atmosphere transmission");
    }
    if (lgs) {
        add_number(im, "tiptilt_variance", s->tiptilt, "arcsec2, lgs_cst");
        add_number(im, "lgs_width", s->lgs_width, "arcsec, spot_width");
        add_number(im, "lgs_depth", s->lgs_depth, "m, lgs_depth");
    }
}

static void add_sensors(importer *im, const legacy_system *s) {
    char a[64], b[64];
    int ngs = 0;
    text_add(&im->body, "sensors: # type, alphaX, alphaY, GsAlt, XPup, YPup, thetaML\n");
    for (int i = 0; i < s->nsensor; i++) {
        bool lgs = s->type[i] == 2;
        text_add(&im->body, "  - {type: %s, direction: [%s, %s]", lgs ? "lgs" : "ngs",
                 number(s->direction[0][i], DIM_NONE, "", a),
                 number(s->direction[1][i], DIM_NONE, "", b));
        if (lgs)
            text_add(&im->body, ", altitude: %.10g", 1 / s->inverse_altitude[i]);
        else if (s->full)
            text_add(&im->body, ", magnitude: %s", number(s->magnitude[ngs++], DIM_NONE, "", a));
        if (s->shift[0][i] != 0 || s->shift[1][i] != 0)
            text_add(&im->body, ", shift: [%s, %s]", number(s->shift[0][i], DIM_NONE, "", a),
                     number(s->shift[1][i], DIM_NONE, "", b));
        if (s->rotation[i] != 0)
            text_add(&im->body, ", rotation: %s", number(s->rotation[i], DIM_NONE, "", a));
        text_add(&im->body, "}\n");
    }
}

static void add_targets(importer *im, const legacy_system *s) {
    char a[64], b[64];
    text_add(&im->body, "targets:\n  list:\n");
    for (int i = 0; i < s->ntarget; i++)
        text_add(&im->body, "    - [%s, %s]\n", number(s->target[0][i], DIM_NONE, "", a),
                 number(s->target[1][i], DIM_NONE, "", b));
    if (s->ntarget == 0)
        text_add(&im->body, "    - [0, 0] # none in the file\n");
}

static void add_array(text *t, const char *key, int n, const double *v) {
    char s[64];
    text_add(t, "        %s: [", key);
    for (int i = 0; i < n; i++)
        text_add(t, "%s%s", i ? ", " : "", number(v[i], DIM_NONE, "", s));
    text_add(t, "]\n");
}

/* Content of an input file, kept in `files`. */
static status read_input(params_files *files, const char *name, const char **content) {
    const params_file *f;
    int line, column;
    status st;
    TRY(params_files_get(files, name, &f));
    *content = f->data;
    if (f->error == 0 && params_files_find_nul(f, &line, &column))
        return yaml_tree_fail_at(name, line, column, "file", "a NUL character, expected text");
    if (f->error != 0)
        st = yaml_tree_fail_at(name, 1, 1, "file", "cannot be read (%s), expected a file",
                               params_files_reason(f));
done:
    return st;
}

static status add_profile(importer *im, params_files *files, const job *j, int i) {
    legacy_profile p = {0};
    const char *content;
    char s[64];
    status st;
    TRY(read_input(files, j->profiles[i], &content));
    TRY(legacy_profile_parse(j->profiles[i], content, &p));
    text_add(&im->body, "    - time: %s # s, ", number(i * j->interval, DIM_NONE, "", s));
    add_name(&im->body, j->profiles[i]);
    text_add(&im->body, "\n      layers: # the strengths count, not the file's r0 of %g m\n", p.r0);
    add_array(&im->body, "altitude", p.n, p.altitude);
    add_array(&im->body, "strength", p.n, p.strength);
    add_array(&im->body, "L0", p.n, p.L0);
done:
    legacy_profile_free(&p);
    return st;
}

/* What the file does not state: the default of the reference. */
static void note_default(importer *im, const char *key, bool lgs) {
    char how[128];
    const param_field *f = param_table_find(&params_sensor_table, key);
    snprintf(how, sizeof how, "not in the file, default %s%s%s (%s)", f->def[lgs],
             *f->unit ? " " : "", f->unit, lgs ? "LGS" : "NGS");
    note(im, key, how);
}

static void note_missing(importer *im, const legacy_system *s) {
    static const char *const absent[] = {
        "frame_time", "ron",       "pixel",      "wavelength",
        "throughput", "bandwidth", "lgs_return", "atm_transmission"};
    for (int i = 0; !s->full && i < 8; i++)
        for (int lgs = 0; lgs < 2; lgs++) {
            bool any = lgs ? s->nlgs > 0 : s->nlgs < s->nsensor;
            const param_field *f = param_table_find(&params_sensor_table, absent[i]);
            if (any && strcmp(f->def[lgs], "-") != 0)
                note_default(im, absent[i], lgs);
        }
    if (!s->full) {
        note(im, "magnitude", "not in the file, not needed as noise_variance is");
        note(im, "targets", "not in the file, one target on the axis");
    }
    note(im, "telescope.zenith", "not in the file, default 0 deg");
    note(im, "loop.delay", "not in the file, default 0 s; the profiles have no wind");
    note(im, "launch", "not in the file, default on the pupil's edge in the star's direction");
    note(im, "psf.wavelengths", "not in the file, default 1.65 um");
    note(im, "schedule",
         "not in the file, an exposure for each profile and a reconstructor an hour");
}

/* The numbers of an item that is left out. */
static void add_unused(text *t, int n, const double *v) {
    char s[64];
    for (int i = 0; i < n; i++)
        text_add(t, "%s%s", i > 0 ? " " : "", number(v[i], DIM_NONE, "", s));
}

/* Items that the model does not have: a warning where they say something, always a comment. */
static void note_unused(importer *im, const legacy_system *s) {
    text t = {0};
    bool any = s->ntracking != 3;
    for (int i = 0; i < s->ntracking; i++)
        any = any || s->tracking[i] != 0;
    if (any) {
        text_add(&t, "telescope tracking is not modelled and left out: ");
        add_unused(&t, s->ntracking, s->tracking);
        note(im, "tracking", t.s != NULL ? t.s : "");
    }
    text_add(&im->notes, "#   pasDphi: step of a table of that program, not needed: ");
    add_unused(&im->notes, s->nstep, s->step);
    text_add(&im->notes, "\n#   ncpu: its processors, not needed: ");
    add_unused(&im->notes, s->nprocessors, s->processors);
    text_add(&im->notes, "\n");
    free(t.s);
}

static void note_ignored(importer *im, const legacy_system *s) {
    bool camera = false, sensitivity = false, altitude = false;
    for (int i = 0; i < s->nsensor; i++) {
        camera = camera || s->camera[i] != 0;
        sensitivity = sensitivity || s->sensitivity[i] != 1;
        altitude = altitude || (s->type[i] == 2 &&
                                !(fabs(s->inverse_altitude[i] * s->lgs_altitude - 1) <= 1e-6));
    }
    if (camera)
        note(im, "thetaCam", "rotations of cameras are not modelled and left out");
    if (sensitivity)
        note(im, "sensitivity", "factors other than 1 are not modelled and left out");
    note_unused(im, s);
    if (altitude)
        note(im, "lgs_alt", "differs from 1/GsAlt, which is taken");
}

static status make_text(const job *j, importer *im) {
    legacy_system s = {0};
    params_files files = {0};
    const char *content;
    char a[64], b[64];
    status st;
    TRY(read_input(&files, j->system, &content));
    TRY(legacy_system_parse(j->system, content, &s));
    text_add(&im->body, "telescope:\n");
    add_number(im, "diameter", s.diameter, "m, tel diam");
    add_number(im, "obscuration", s.obscuration, "cent obs");
    text_add(&im->body, "dm:\n  nssp: %d # Nssp, of the truth sensor too\n", s.nssp);
    if (s.nlgs < s.nsensor)
        add_defaults(im, &s, false);
    if (s.nlgs > 0)
        add_defaults(im, &s, true);
    add_sensors(im, &s);
    add_targets(im, &s);
    text_add(&im->body, "atmosphere:\n  profiles:\n");
    for (int i = 0; i < j->nprofile; i++)
        TRY(add_profile(im, &files, j, i));
    if (j->nprofile > 1)
        text_add(&im->body, "schedule: {tor_interval: 1 h, exposure_interval: %s, end: %s}\n",
                 number(j->interval, DIM_NONE, "", a),
                 number(j->interval * j->nprofile, DIM_NONE, "", b));
    note_missing(im, &s);
    note_ignored(im, &s);
done:
    params_files_free(&files);
    legacy_system_free(&s);
    return st;
}

static status write_file(const job *j, importer *im) {
    text all = {0};
    status st = MOAO_OK;
    text_add(&all, "# Made by moao import-legacy from\n#   ");
    add_name(&all, j->system);
    text_add(&all,
             "\n# and %d profile%s; words after # are those of the files. Not taken from them:\n%s",
             j->nprofile, j->nprofile > 1 ? "s" : "", im->notes.s ? im->notes.s : "");
    text_add(&all, "%s", im->body.s);
    TRY(im->body.failed);
    TRY(im->notes.failed);
    TRY(all.failed);
    TRY(file_write_text(j->out, all.s));
done:
    free(all.s);
    return st;
}

static int compare_names(const void *a, const void *b) {
    return params_files_natural_order(*(const char *const *)a, *(const char *const *)b);
}

static status parse_arguments(int argc, char **argv, job *j) {
    const param_field *interval =
        param_table_find(&params_main_table, "atmosphere.legacy.interval");
    char why[256];
    j->interval = 600;
    for (int i = 1; i < argc; i++) {
        bool out = strcmp(argv[i], "-o") == 0, every = strcmp(argv[i], "--interval") == 0;
        if ((out || every) && i + 1 == argc)
            return status_fail(MOAO_INPUT, "moao import-legacy: %s needs a value", argv[i]);
        if (strcmp(argv[i], "--force") == 0)
            j->force = true;
        else if (out)
            j->out = argv[++i];
        else if (every && !units_parse(argv[++i], DIM_TIME, interval->unit, false, &j->interval,
                                       why, sizeof why))
            return status_fail(MOAO_INPUT,
                               "moao import-legacy: --interval: '%s' %s, expected a time",
                               yaml_tree_quote(argv[i]).s, why);
        else if (!every && argv[i][0] == '-' && argv[i][1] != '\0')
            return status_fail(MOAO_INPUT, "moao import-legacy: unknown option %s", argv[i]);
        else if (!every && j->system == NULL)
            j->system = argv[i];
        else if (!every)
            j->profiles[j->nprofile++] = argv[i];
    }
    if (!(j->interval > 0))
        return status_fail(MOAO_INPUT, "moao import-legacy: --interval must be positive");
    if (j->out != NULL && !j->force && file_exists(j->out))
        return status_fail(
            MOAO_INPUT,
            "moao import-legacy: %s is there already: choose another name, or --force "
            "replaces it",
            j->out);
    if (j->system == NULL || j->nprofile == 0 || j->out == NULL)
        return status_fail(MOAO_INPUT,
                           "moao import-legacy: expected SYSTEM PROFILE... -o FILE; see --help");
    qsort(j->profiles, (size_t)j->nprofile, sizeof *j->profiles, compare_names);
    return MOAO_OK;
}

/* The file is kept even when it needs editing, as the message tells a line of it. */
static status check_file(const job *j) {
    params par;
    status st = params_load(NULL, 1, &j->out, 0, NULL, &par);
    params_free(&par);
    return st;
}

int cmd_import_legacy(int argc, char **argv) {
    job j = {0};
    importer im = {0};
    status st;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(cmd_import_usage, stdout);
            return 0;
        }
    TRY(ALLOC(j.profiles, (size_t)argc, "names of profiles"));
    TRY(parse_arguments(argc, argv, &j));
    TRY(make_text(&j, &im));
    TRY(write_file(&j, &im));
    TRY(check_file(&j));
done:
    command_fail(st);
    free(im.body.s);
    free(im.notes.s);
    free(j.profiles);
    return status_exit_code(st);
}
