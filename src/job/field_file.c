#include "job/field_file.h"

#include "base/file.h"
#include "maps/maps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FARTHEST 1.5 /* steps from a direction to the nearest node */

static status wrong(const field_file *f, const char *what) {
    return status_fail(
        MOAO_INPUT, "%s: %s, expected the field.fits of this run as it was written (output.field)",
        file_shown(f->in.path), what);
}

static status read_key(field_file *f, const char *key, double low, double high, double *v) {
    char what[80];
    if (fits_key_number(f->in.f, key, v) && *v >= low && *v <= high)
        return MOAO_OK;
    snprintf(what, sizeof what, "table NODES has no sensible keyword %s", key);
    return wrong(f, what);
}

static status read_column(field_file *f, const char *name, double **out) {
    fitsin_column c;
    const status st = fitsin_column_find(&f->in, name, &c, NULL);
    return st == MOAO_OK ? fitsin_numbers(&f->in, &c, 1, 0, 1, out) : st;
}

/* Places of the nodes along their axes. */
static void find_extent(field_file *file) {
    const field *f = &file->f;
    for (int k = 0; k < 2; k++) {
        file->low[k] = INFINITY;
        file->high[k] = -INFINITY;
    }
    for (int i = 0; i < f->nnode; i++) {
        const double *q = f->node[i].at, *a = f->axis;
        const double c[2] = {a[0] * q[0] + a[1] * q[1], a[0] * q[1] - a[1] * q[0]};
        for (int k = 0; k < 2; k++) {
            file->low[k] = fmin(file->low[k], c[k]);
            file->high[k] = fmax(file->high[k], c[k]);
        }
    }
}

static status read_nodes(field_file *file, const setup *u) {
    field *f = &file->f;
    double *x = NULL, *y = NULL, *tor = NULL, *source = NULL, line, nkept, step;
    status st;
    TRY(fitsin_table(&file->in, "NODES"));
    TRY(read_key(file, "NODESTEP", 1e-9, 1e6, &step));
    TRY(read_key(file, "AXISX", -1, 1, &f->axis[0]));
    TRY(read_key(file, "AXISY", -1, 1, &f->axis[1]));
    TRY(read_key(file, "LINE", 0, 1, &line));
    TRY(read_key(file, "NKEPT", 1, 1e12, &nkept));
    f->step = step / ARCSEC_PER_RAD;
    f->line = line > 0;
    if (file->in.rows > 10000000 || fabs(hypot(f->axis[0], f->axis[1]) - 1) > 1e-6)
        TRY(wrong(file, "table NODES is not one of nodes"));
    if (nkept != (double)psf_kept_count(u->ps))
        TRY(wrong(file, "it has other numbers than this case"));
    file->nkept = psf_kept_count(u->ps);
    TRY(read_column(file, "X", &x));
    TRY(read_column(file, "Y", &y));
    TRY(read_column(file, "TOR", &tor));
    TRY(read_column(file, "SOURCE", &source));
    f->nnode = f->capacity = (int)file->in.rows;
    TRY(ALLOC(f->node, (size_t)f->nnode, "nodes"));
    for (int i = 0; i < f->nnode; i++) {
        if (!(fabs(x[i]) <= 36000 && fabs(y[i]) <= 36000 && tor[i] >= 1 && tor[i] <= u->a.ntor))
            TRY(wrong(file, "table NODES has a node that no run has"));
        f->node[i] = (field_node){.at = {x[i] / ARCSEC_PER_RAD, y[i] / ARCSEC_PER_RAD},
                                  .kind = source[i] > 0 ? NODE_LATTICE : NODE_CHECK,
                                  .target = -1,
                                  .tor = (int)tor[i] - 1};
    }
    find_extent(file);
done:
    free(x);
    free(y);
    free(tor);
    free(source);
    return st;
}

status field_file_open(const char *dir, const setup *u, field_file *file) {
    char *path = NULL;
    status st;
    *file = (field_file){0};
    TRY(file_of_run(dir, "field.fits", "a run with output.field: true", &path));
    TRY(fitsin_open(&file->in, path));
    st = read_nodes(file, u);
done:
    free(path);
    if (st != MOAO_OK)
        field_file_close(file);
    return st;
}

void field_file_close(field_file *file) {
    fitsin_close(&file->in);
    free(file->f.node);
    *file = (field_file){0};
}

status field_file_check(const field_file *file, const double at[2]) {
    const field *f = &file->f;
    const double c[2] = {f->axis[0] * at[0] + f->axis[1] * at[1],
                         f->axis[0] * at[1] - f->axis[1] * at[0]};
    double nearest = INFINITY;
    bool inside = true;
    for (int k = 0; k < 2; k++)
        inside = inside && c[k] >= file->low[k] - 1e-6 * f->step &&
                 c[k] <= file->high[k] + 1e-6 * f->step;
    for (int i = 0; i < f->nnode; i++)
        if (field_is_source(&f->node[i]))
            nearest = fmin(nearest, hypot(f->node[i].at[0] - at[0], f->node[i].at[1] - at[1]));
    if (inside && nearest <= FARTHEST * f->step)
        return MOAO_OK;
    return status_fail(MOAO_INPUT,
                       "[%.10g, %.10g] arcsec is not between the nodes of this run, which are %.3g "
                       "arcsec apart; run it with targets that reach as far",
                       at[0] * ARCSEC_PER_RAD, at[1] * ARCSEC_PER_RAD, f->step * ARCSEC_PER_RAD);
}

/* All that is kept under an exposure: [nnode][nkept], finite. */
static status read_kept(field_file *file, int exposure, double **out) {
    char name[24];
    fitsin_column c;
    status st;
    snprintf(name, sizeof name, "KEPT_%d", exposure + 1);
    TRY(fitsin_table(&file->in, name));
    if (file->in.rows != file->f.nnode)
        TRY(wrong(file, "a table of numbers has other rows than NODES"));
    TRY(fitsin_column_find(&file->in, "KEPT", &c, NULL));
    TRY(fitsin_numbers(&file->in, &c, (long)file->nkept, 0, (long)file->nkept, out));
    for (size_t i = 0; i < (size_t)file->f.nnode * file->nkept; i++)
        if (!(fabs((*out)[i]) < 1e30)) {
            free(*out);
            *out = NULL;
            return wrong(file, "a number is not finite");
        }
done:
    return st;
}

typedef struct { /* what images of a direction are made with */
    double *numbers, *sum, *logs, *scalars;
    float *images;
    size_t ns, np; /* of a direction */
} workspace;

static status images_of(const setup *u, const field_weights *w, const double *kept, size_t nkept,
                        const psf_fit *fit, int i, workspace *s) {
    memset(s->numbers, 0, nkept * sizeof *s->numbers);
    for (int k = w->first[i]; k < w->first[i + 1]; k++)
        for (size_t j = 0; j < nkept; j++)
            s->numbers[j] += w->w[k] * kept[(size_t)w->node[k] * nkept + j];
    psf_unkeep(u->ps, s->numbers, s->sum, s->logs);
    psf_use_logs(u->ps, s->logs);
    return psf_compute_all(u->ps, s->sum, fit, s->scalars, s->images);
}

/* Adds the results of an exposure, times a share. */
static status add_exposure(field_file *file, const setup *u, int e, double share, int n,
                           const double (*at)[2], workspace *s, double *scalars, float *images) {
    const profile *p = atmos_profile_at(&u->a, u->a.exposure_time[e]);
    double *kept = NULL;
    field_weights w = {0};
    psf_fit *fit = NULL;
    status st;
    TRY(read_kept(file, e, &kept));
    TRY(field_interpolate(&file->f, atmos_tor_of(&u->a, e), -1, n, at, NULL, &w));
    TRY(psf_rest_init(u->ps, p, &fit));
    for (int i = 0; i < n; i++) {
        TRY(images_of(u, &w, kept, file->nkept, fit, i, s));
        for (size_t k = 0; k < s->ns; k++)
            scalars[(size_t)i * s->ns + k] += share * s->scalars[k];
        for (size_t k = 0; k < s->np; k++)
            images[(size_t)i * s->np + k] += (float)(share * (double)s->images[k]);
    }
done:
    free(kept);
    field_weights_free(&w);
    psf_fit_free(fit);
    return st;
}

status field_file_images(field_file *file, const setup *u, int exposure, int n,
                         const double (*at)[2], double *scalars, float *images) {
    const size_t nl = (size_t)psf_images(u->ps), nq = 3 + (size_t)psf_boxes(u->ps);
    const size_t crop = (size_t)psf_crop_size(u->ps), nsep = psf_sep_count(u->ps);
    const int first = exposure < 0 ? 0 : exposure,
              end = exposure < 0 ? u->a.nexposure : exposure + 1;
    workspace s = {.ns = nl * nq, .np = nl * crop * crop};
    status st;
    memset(scalars, 0, (size_t)n * s.ns * sizeof *scalars);
    memset(images, 0, (size_t)n * s.np * sizeof *images);
    TRY(ALLOC(s.numbers, file->nkept, "a direction"));
    TRY(ALLOC(s.sum, nsep, "a direction"));
    TRY(ALLOC(s.logs, nsep * (size_t)psf_wavelengths(u->ps), "a direction"));
    TRY(ALLOC(s.scalars, s.ns, "a direction"));
    TRY(ALLOC(s.images, s.np, "a direction"));
    for (int e = first; e < end; e++)
        TRY(add_exposure(file, u, e, 1.0 / (end - first), n, at, &s, scalars, images));
    for (int i = 0; i < n && end - first > 1; i++)
        for (size_t l = 0; l < nl; l++)
            scalars[(size_t)i * s.ns + l * nq + 1] =
                maps_image_fwhm(images + (size_t)i * s.np + l * crop * crop, (int)crop) *
                psf_image_pixel(u->ps, (int)l);
done:
    free(s.numbers);
    free(s.sum);
    free(s.logs);
    free(s.scalars);
    free(s.images);
    return st;
}
