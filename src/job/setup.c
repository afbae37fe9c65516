#include "job/setup.h"

#include "progress.h"
#include "psf/psf_params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROP_DEFAULT 128 /* pixels: +-21 lambda/D for a grid of 3 D */

static bool is_option(const char *arg, const char *name) {
    return strcmp(arg, name) == 0;
}

/* The value of an option that takes one, or a message. */
static status option_value(int argc, char **argv, int *i, const char **value) {
    if (*i + 1 >= argc)
        return status_fail(MOAO_INPUT, "moao %s: %s needs a value; see moao %s --help", argv[0],
                           argv[*i], argv[0]);
    *value = argv[++*i];
    return MOAO_OK;
}

status cmdline_parse(int argc, char **argv, const char *allowed, cmdline *cl) {
    memset(cl, 0, sizeof *cl);
    status st;
    TRY(ALLOC(cl->files, (size_t)argc, "command line"));
    TRY(ALLOC(cl->overrides, (size_t)argc, "command line"));
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value = NULL;
        if (arg[0] != '-') {
            FILE *f = strchr(arg, '=') != NULL ? fopen(arg, "r")
                                               : NULL; /* a file may have = in its name */
            if (strchr(arg, '=') != NULL && f == NULL)
                cl->overrides[cl->noverride++] = arg;
            else
                cl->files[cl->nfile++] = arg;
            if (f != NULL)
                fclose(f);
            continue;
        }
        char word[64];
        snprintf(word, sizeof word, "%.60s ", arg);
        if (strstr(allowed, word) == NULL)
            TRY(status_fail(MOAO_INPUT, "moao %s: unknown option %s; see moao %s --help", argv[0],
                            arg, argv[0]));
        if (is_option(arg, "--resume"))
            cl->resume = true;
        else if (is_option(arg, "--overwrite"))
            cl->overwrite = true;
        else if (is_option(arg, "--force"))
            cl->force = true;
        else if (is_option(arg, "-q"))
            cl->quiet = true;
        else {
            TRY(option_value(argc, argv, &i, &value));
            char *end = NULL;
            if (is_option(arg, "-o"))
                cl->dir = value;
            else if (is_option(arg, "--ranks"))
                cl->ranks = (int)strtol(value, &end, 10);
            else
                cl->memory = 1e9 * strtod(value, &end);
            if (end != NULL && (*end != '\0' || cl->ranks < 0 || !(cl->memory >= 0)))
                TRY(status_fail(MOAO_INPUT, "moao %s: %s %s: a positive number is expected",
                                argv[0], arg, value));
        }
    }
    if (cl->nfile == 0)
        TRY(status_fail(MOAO_INPUT, "moao %s: no parameter file; see moao %s --help", argv[0],
                        argv[0]));
done:
    return st;
}

void cmdline_free(cmdline *cl) {
    free(cl->files);
    free(cl->overrides);
    memset(cl, 0, sizeof *cl);
}

status setup_init(const comm *c, const cmdline *cl, setup *u) {
    memset(u, 0, sizeof *u);
    status st;
    TRY(params_load(c, cl->nfile, cl->files, cl->noverride, cl->overrides, &u->par));
    st = sys_init(&u->par, &u->s);
    if (st == MOAO_OK)
        st = atmos_init(&u->par, &u->s, &u->a);
    TRY(comm_agree(c, st));
    params_psf_opts(&u->par, &u->o);
    if (u->o.crop == 0)
        u->o.crop = CROP_DEFAULT;
    TRY(comm_agree(c, psf_init(&u->s, &u->o, &u->ps)));
    u->o.crop = psf_crop_size(u->ps);
done:
    return st;
}

void setup_free(setup *u) {
    psf_free(u->ps);
    atmos_free(&u->a);
    sys_free(&u->s);
    params_free(&u->par);
    memset(u, 0, sizeof *u);
}

/* What is asked for beyond the images of the PSF. */
static void warn_images(const setup *u) {
    const params *par = &u->par;
    const int n = psf_grid_size(u->ps);
    double box = 0, field = INFINITY, lambda = 0;
    for (int i = 0; i < u->o.nbox; i++)
        box = fmax(box, u->o.box[i]);
    for (int l = 0; l < u->o.nlambda; l++)
        if (n * psf_image_pixel(u->ps, l) < field) {
            field = n * psf_image_pixel(u->ps, l);
            lambda = u->o.lambda[l];
        }
    if (box > field)
        progress_warn(
            "psf.ee_boxes: %.4g mas is more than the image at %.4g um has, %.4g mas; raise "
            "psf.oversampling or take a smaller box",
            box * ARCSEC_PER_RAD * 1e3, lambda * 1e6, field * ARCSEC_PER_RAD * 1e3);
    if (par->output_crop > n)
        progress_warn("output.crop: %d pixels are more than the grid's %d, which are kept",
                      par->output_crop, n);
}

status setup_warn(const setup *u) {
    char **line = NULL;
    int n = params_warnings(&u->par, &u->s, &u->a, &line);
    for (int i = 0; i < n; i++)
        progress_warn("%s", line[i]);
    params_free_warnings(n, line);
    warn_images(u);
    const profile *worst = atmos_profile_at(&u->a, u->a.exposure_time[0]);
    for (int e = 1; e < u->a.nexposure; e++) {
        const profile *p = atmos_profile_at(&u->a, u->a.exposure_time[e]);
        if (p->r0 < worst->r0)
            worst = p;
    }
    psf_fit *f = NULL;
    status st = psf_fit_init(u->ps, worst, &f);
    for (int l = 0; l < u->o.nlambda && st == MOAO_OK; l++) {
        double strehl = psf_fit_strehl(u->ps, f, l);
        if (strehl < 0.05)
            progress_warn("psf.wavelengths: at %.4g um the fitting error alone limits the Strehl "
                          "ratio to %.2g (r0 "
                          "%.3g m, actuator pitch %.3g m): the PSF model is doubtful there",
                          u->o.lambda[l] * 1e6, strehl, worst->r0, u->s.dm.pitch);
    }
    psf_fit_free(f);
    return st;
}
