#include "legacy.h"

#include "legacy_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_SENSORS = 1000, MAX_TARGETS = 1000000 };

/* The type of each star: the truth sensor's, last, does not matter. */
static status read_types(legacy_reader *r, int n, int **out) {
    double *v = NULL;
    status st;
    TRY(legacy_read_array(r, "type", n, true, 0, &v));
    TRY(ALLOC(*out, (size_t)n, "types"));
    for (int i = 0; i < n - 1; i++) {
        if (v[i] != 1 && v[i] != 2) {
            st = legacy_fail(r, "type", "a type is neither 1 nor 2, expected 1 (NGS) or 2 (LGS)");
            goto done;
        }
        (*out)[i] = (int)v[i];
    }
done:
    free(v);
    return st;
}

/* Directions, pupil and registration: the part both variants share. */
static status read_geometry(legacy_reader *r, bool full, legacy_system *s) {
    int n = s->nsensor + 1; /* with the truth sensor */
    status st;
    if (!full)
        TRY(legacy_read_whole(r, "nlgs", 0, s->nsensor, &s->nlgs));
    TRY(legacy_read_array(r, "alphaX", n, true, -1e5, &s->direction[0]));
    TRY(legacy_read_array(r, "alphaY", n, true, -1e5, &s->direction[1]));
    TRY(legacy_read_array(r, "XPup", n, true, -1e3, &s->shift[0]));
    TRY(legacy_read_array(r, "YPup", n, true, -1e3, &s->shift[1]));
    TRY(legacy_read_array(r, "thetaML", n, true, -360, &s->rotation));
    TRY(legacy_read_array(r, "thetaCam", n, true, -360, &s->camera));
    TRY(legacy_read_array(r, "sensitivity", n, true, 0, &s->sensitivity));
    /* not used here: files have more numbers than the format asks for */
    TRY(legacy_read_list(r, "tracking", 1, LEGACY_UNUSED, s->tracking, &s->ntracking));
    TRY(legacy_read_list(r, "pasDphi", 1, LEGACY_UNUSED, s->step, &s->nstep));
    TRY(legacy_read_list(r, "ncpu", 1, LEGACY_UNUSED, s->processors, &s->nprocessors));
done:
    return st;
}

static status read_noise(legacy_reader *r, legacy_system *s) {
    int nngs = s->nsensor - s->nlgs;
    status st;
    TRY(legacy_read_array(r, "magnitude", nngs + 1, true, -30, &s->magnitude));
    TRY(legacy_read_one(r, "lgs_flux", 0, 1e20, &s->lgs_return));
    TRY(legacy_read_one(r, "pixel_ngs", 1e-6, 100, &s->pixel[0]));
    TRY(legacy_read_one(r, "pixel_lgs", 1e-6, 100, &s->pixel[1]));
    TRY(legacy_read_one(r, "lambda_ngs", 1e-8, 1e-4, &s->wavelength[0]));
    TRY(legacy_read_one(r, "lambda_lgs", 1e-8, 1e-4, &s->wavelength[1]));
    TRY(legacy_read_one(r, "bandwidth", 1e-12, 1e-4, &s->bandwidth));
    TRY(legacy_read_one(r, "throughput_ngs", 1e-9, 1, &s->throughput[0]));
    TRY(legacy_read_one(r, "throughput_lgs", 1e-9, 1, &s->throughput[1]));
    TRY(legacy_read_one(r, "throughput_atm", 1e-9, 1, &s->t_atm));
    TRY(legacy_read_one(r, "ron", 0, 1e6, &s->ron));
done:
    return st;
}

static status read_laser(legacy_reader *r, bool full, legacy_system *s) {
    status st;
    TRY(legacy_read_one(r, "lgs_cst", 0, 1e12, &s->tiptilt));
    if (!full)
        TRY(legacy_read_one(r, "noise_var", 0, 1e6, &s->noise_variance));
    TRY(legacy_read_one(r, "spot_width", 0, 100, &s->lgs_width));
    TRY(legacy_read_one(r, "lgs_alt", 0, 1e8, &s->lgs_altitude));
    TRY(legacy_read_one(r, "lgs_depth", 0, 1e6, &s->lgs_depth));
    if (full) {
        TRY(legacy_read_array(r, "targetX", s->ntarget, false, -1e5, &s->target[0]));
        TRY(legacy_read_array(r, "targetY", s->ntarget, false, -1e5, &s->target[1]));
    }
done:
    return st;
}

static status check_types(const legacy_reader *r, const legacy_system *s) {
    char what[160];
    int lgs = 0;
    for (int i = 0; i < s->nsensor; i++) {
        lgs += s->type[i] == 2;
        if ((s->type[i] == 2) == (s->inverse_altitude[i] > 0))
            continue;
        snprintf(what, sizeof what,
                 "sensor %d is of type %d with an inverse altitude of %g, expected %s", i + 1,
                 s->type[i], s->inverse_altitude[i],
                 s->type[i] == 2 ? "a positive one for an LGS" : "0 for an NGS");
        return legacy_fail(r, "type", what);
    }
    if (lgs != s->nlgs) {
        snprintf(what, sizeof what, "%d LGS are stated, expected %d as the types say", s->nlgs,
                 lgs);
        return legacy_fail(r, "nlgs", what);
    }
    return MOAO_OK;
}

/* The longer variant has the frame time in third place; found by its line of comment. */
static bool is_full(legacy_reader r) {
    for (int i = 0; i < 4; i++) {
        legacy_skip_blank(&r);
        legacy_next_line(&r);
    }
    legacy_skip_blank(&r);
    size_t n = strcspn(r.p, "\n");
    for (size_t i = 0; i + 5 <= n; i++)
        if (strncasecmp(r.p + i, "frame", 5) == 0)
            return true;
    return false;
}

static status read_head(legacy_reader *r, legacy_system *s) {
    status st;
    int with_truth;
    TRY(legacy_read_one(r, "diam", 0.1, 200, &s->diameter));
    TRY(legacy_read_one(r, "obs", 0, 0.95, &s->obscuration));
    if (s->full)
        TRY(legacy_read_one(r, "Tframe", 1e-9, 3600, &s->frame_time));
    TRY(legacy_read_whole(r, "N WFS", 2, MAX_SENSORS + 1, &with_truth));
    s->nsensor = with_truth - 1;
    if (s->full) {
        TRY(legacy_read_whole(r, "nlgs", 0, s->nsensor, &s->nlgs));
        TRY(legacy_read_whole(r, "nTarget", 1, MAX_TARGETS, &s->ntarget));
    }
    TRY(legacy_read_whole(r, "Nssp", 2, 1000, &s->nssp));
    TRY(legacy_read_array(r, "GsAlt", with_truth, true, 0, &s->inverse_altitude));
    TRY(read_types(r, with_truth, &s->type));
done:
    return st;
}

status legacy_system_parse(const char *name, const char *text, legacy_system *s) {
    legacy_reader r = {name, text, text, 1};
    status st;
    *s = (legacy_system){.full = is_full(r), .frame_time = NAN, .noise_variance = NAN};
    TRY(read_head(&r, s));
    TRY(read_geometry(&r, s->full, s));
    TRY(check_types(&r, s));
    if (s->full)
        TRY(read_noise(&r, s));
    TRY(read_laser(&r, s->full, s));
done:
    return st;
}

void legacy_system_free(legacy_system *s) {
    for (int i = 0; i < 2; i++) {
        free(s->direction[i]);
        free(s->shift[i]);
        free(s->target[i]);
    }
    free(s->inverse_altitude);
    free(s->type);
    free(s->rotation);
    free(s->camera);
    free(s->sensitivity);
    free(s->magnitude);
    *s = (legacy_system){0};
}
