#include "job/spots.h"

#include "base/file.h"
#include "base/plain.h"
#include "base/text.h"
#include "job/run.h"
#include "maps/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 2, MOST = 4 }; /* passes */
#define SETTLED 0.01          /* relative change of a Strehl ratio */

typedef struct {
    const comm *c;
    const cmdline *cl;
    params par;
    const char *dir;
    double *strehl; /* [sensors] NAN: not wanted */
    int passes;     /* of what is known */
} spots;

static bool wanted(const sensor_params *o) {
    return o->type == SENSOR_NGS && o->spot == SPOT_CORRECTED && !params_given(o->spot_strehl);
}

static bool any_wanted(const params *par) {
    bool any = false;
    for (int w = 0; w < par->sensors.n; w++)
        any = any || wanted(&par->sensors.v[w]);
    return any;
}

/* Words of a command line: those of cl, then more. */
typedef struct {
    cmdline cl;
    char **own;
    int n;
    status failed;
} words;

static void words_open(words *w, const cmdline *cl, int most) {
    *w = (words){.cl = *cl};
    w->cl.overrides = NULL;
    w->failed = ALLOC(w->cl.overrides, (size_t)(cl->noverride + most), "command line");
    if (w->failed == MOAO_OK)
        w->failed = ALLOC(w->own, (size_t)most, "command line");
    for (int i = 0; i < cl->noverride && w->failed == MOAO_OK; i++)
        w->cl.overrides[i] = cl->overrides[i];
}

static void words_add(words *w, text *t) {
    w->failed = w->failed == MOAO_OK ? t->failed : w->failed;
    if (w->failed == MOAO_OK)
        w->cl.overrides[w->cl.noverride++] = w->own[w->n++] = t->s;
    else
        free(t->s);
    *t = (text){0};
}

static void words_close(words *w) {
    for (int i = 0; i < w->n; i++)
        free(w->own[i]);
    free(w->own);
    free(w->cl.overrides);
}

static void add_known(words *w, const spots *k) {
    text t = {0};
    for (int i = 0; i < k->par.sensors.n; i++)
        if (!isnan(k->strehl[i])) {
            text_add(&t, "sensors.%s.spot_strehl=%.4f", k->par.sensors.v[i].name, k->strehl[i]);
            words_add(w, &t);
        }
}

/* The run of the stars with nssp subapertures as targets. */
static void add_stars(words *w, const spots *k, int nssp) {
    const params *par = &k->par;
    text at = {0}, waves = {0}, t = {0};
    for (int i = 0; i < par->sensors.n; i++) {
        const sensor_params *o = &par->sensors.v[i];
        if (!wanted(o) || o->nssp != nssp)
            continue;
        text_add(&at, "%s[%.17g, %.17g]", at.len > 0 ? ", " : "", o->direction[0] * ARCSEC_PER_RAD,
                 o->direction[1] * ARCSEC_PER_RAD);
        text_add(&waves, "%s%.17g", waves.len > 0 ? ", " : "", o->wavelength * 1e6);
    }
    text_add(&t, "targets={list: [%s]}", at.s != NULL ? at.s : "");
    words_add(w, &t);
    text_add(&t, "psf.wavelengths=[%s]", waves.s != NULL ? waves.s : "");
    words_add(w, &t);
    if (nssp > 1) /* a single subaperture is the pupil */
        text_add(&t, "psf.subaperture=%.17g", par->telescope_diameter / nssp);
    if (nssp > 1)
        words_add(w, &t);
    static const char *const fixed[] = {"output.psf=none", "output.budget=none",
                                        "output.matrices=[]", "psf.oversampling=8"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        text_add(&t, "%s", fixed[i]);
        words_add(w, &t);
    }
    const double tor = par->schedule_tor_times.n > 0 ? par->schedule_tor_times.v[0]
                                                     : par->schedule_start,
                 exposure = par->schedule_exposure_times.n > 0 ? par->schedule_exposure_times.v[0]
                                                               : par->schedule_start;
    text_add(&t, "schedule={tor_times: [%.17g], exposure_times: [%.17g]}", tor, exposure);
    words_add(w, &t);
    free(at.s);
    free(waves.s);
}

/* Rank 0. Strehl ratios of the stars with nssp subapertures, each in its row and at its wavelength.
 */
static status read_strehl(const char *dir, spots *k, int nssp) {
    results r = {0};
    fitsin_column c;
    double *v = NULL;
    long at = 0;
    status st;
    TRY(results_open(&r, dir));
    TRY(fitsin_column_find(&r.in, "STREHL_LONG", &c, NULL));
    TRY(results_long(&r, &c, &v));
    for (int i = 0; i < k->par.sensors.n; i++)
        if (wanted(&k->par.sensors.v[i]) && k->par.sensors.v[i].nssp == nssp && at < r.ntarget) {
            k->strehl[i] = fmin(1, fmax(0, v[at * r.nlambda + at]));
            at++;
        }
done:
    results_close(&r);
    free(v);
    return st;
}

static status one_pass(spots *k, int nssp) {
    const int n = k->par.sensors.n;
    text dir = {0};
    words w;
    status st;
    words_open(&w, k->cl, n + 16);
    text_add(&dir, "%s-spots", k->dir);
    add_known(&w, k);
    add_stars(&w, k, nssp);
    TRY(comm_agree(k->c, w.failed != MOAO_OK ? w.failed : dir.failed));
    w.cl.dir = dir.s;
    w.cl.resume = w.cl.verbose = false;
    w.cl.overwrite = w.cl.force = w.cl.quiet = true;
    TRY(run_all(k->c, &w.cl));
    st = k->c->rank == 0 ? read_strehl(dir.s, k, nssp) : MOAO_OK;
    TRY(comm_agree(k->c, st));
    MPI_Bcast(k->strehl, n, MPI_DOUBLE, 0, k->c->mpi);
done:
    words_close(&w);
    free(dir.s);
    return st;
}

/* Whether the stars of another sensor before w are found with it. */
static bool is_first(const params *par, int w) {
    for (int i = 0; i < w; i++)
        if (wanted(&par->sensors.v[i]) && par->sensors.v[i].nssp == par->sensors.v[w].nssp)
            return false;
    return wanted(&par->sensors.v[w]);
}

/* A run that was begun has them in its effective parameters; *found: it is there. */
static status take_earlier(spots *k, bool *found) {
    text path = {0};
    params old = {0};
    int there;
    status st = MOAO_OK;
    text_add(&path, "%s/effective.yaml", k->dir);
    there = k->cl->resume && path.failed == MOAO_OK && k->c->rank == 0 && file_exists(path.s);
    MPI_Bcast(&there, 1, MPI_INT, 0, k->c->mpi);
    *found = there;
    if (!there)
        goto done;
    const char *const files[] = {path.s};
    TRY(params_load(k->c, 1, files, 0, NULL, &old));
    for (int i = 0; i < old.sensors.n && i < k->par.sensors.n; i++)
        if (wanted(&k->par.sensors.v[i]))
            k->strehl[i] = old.sensors.v[i].spot_strehl;
done:
    params_free(&old);
    free(path.s);
    return st;
}

static void tell(const spots *k, int pass) {
    char line[256];
    for (int i = 0; i < k->par.sensors.n && k->c->rank == 0 && !k->cl->quiet; i++) {
        if (isnan(k->strehl[i]))
            continue;
        snprintf(line, sizeof line, "pass %d: Strehl ratio %.4f of a subaperture at %.4g um, of ",
                 pass + 1, k->strehl[i], k->par.sensors.v[i].wavelength * 1e6);
        plain_line(stdout, line, k->par.sensors.v[i].name);
    }
}

static status find(spots *k) {
    const size_t n = (size_t)k->par.sensors.n;
    double *before = NULL;
    bool found;
    status st;
    TRY(take_earlier(k, &found));
    TRY(comm_agree(k->c, ALLOC(before, n, "spots")));
    for (int pass = 0; pass < MOST && !found; pass++) {
        bool settled = pass + 1 >= LEAST;
        memcpy(before, k->strehl, n * sizeof *before);
        for (int w = 0; w < k->par.sensors.n; w++)
            if (is_first(&k->par, w))
                TRY(one_pass(k, k->par.sensors.v[w].nssp));
        tell(k, pass);
        for (size_t i = 0; i < n; i++)
            if (!isnan(k->strehl[i]))
                settled = settled && fabs(k->strehl[i] - before[i]) <= SETTLED * before[i];
        if (settled)
            break;
    }
done:
    free(before);
    return st;
}

status spots_run(const comm *c, const cmdline *cl) {
    spots k = {.c = c, .cl = cl};
    words w = {0};
    status st = params_load(c, cl->nfile, cl->files, cl->noverride, cl->overrides, &k.par);
    if (st != MOAO_OK || !any_wanted(&k.par)) {
        params_free(&k.par);
        status_clear();
        return run_all(c, cl); /* which says what is wrong */
    }
    k.dir = cl->dir != NULL ? cl->dir : k.par.output_directory;
    st = ALLOC(k.strehl, (size_t)k.par.sensors.n, "spots");
    TRY(comm_agree(c, st));
    for (int i = 0; i < k.par.sensors.n; i++)
        k.strehl[i] = NAN;
    TRY(find(&k));
    words_open(&w, cl, k.par.sensors.n + 1);
    add_known(&w, &k);
    TRY(comm_agree(c, w.failed));
    st = run_all(c, &w.cl);
done:
    words_close(&w);
    params_free(&k.par);
    free(k.strehl);
    return st;
}
