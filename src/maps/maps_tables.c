#include "maps_parts.h"

#include "matcov/matcov.h"
#include "operator/operator.h"
#include "psf/psf_formula.h"
#include "store/store_accuracy.h"
#include "system/photometry.h"
#include "version.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAS_PER_RAD (1e3 * ARCSEC_PER_RAD)

/* "80" or "37p5": part of the name of an extension or column. */
static void box_name(double box, char *out, size_t size) {
    snprintf(out, size, "EE_%.6gmas", box * MAS_PER_RAD);
    for (char *p = out; *p != '\0'; p++)
        if (*p == '.')
            *p = 'p';
}

void maps_quantity_at(const maps_data *m, int i, maps_quantity *q) {
    static const maps_quantity fixed[] = {
        {"STREHL", SCALAR_STREHL, "", 1, 0, "Strehl ratio"},
        {"FWHM", SCALAR_FWHM, "mas", MAS_PER_RAD, 0, "full width at half maximum of the PSF"},
        {"VARIANCE", SCALAR_VARIANCE, "rad2", 1, 0, "residual phase variance, fitting included"}};
    int nbox = m->nscalar - SCALAR_EE;
    if (i == 0 || i > nbox) {
        *q = fixed[i == 0 ? 0 : i - nbox];
        return;
    }
    memset(q, 0, sizeof *q);
    q->scalar = SCALAR_EE + i - 1;
    q->unit = "";
    q->scale = 1;
    q->box = m->par->psf_ee_boxes.v[i - 1];
    box_name(q->box, q->name, sizeof q->name);
    snprintf(q->title, sizeof q->title, "energy in a box of %.6g mas, share of all",
             q->box * MAS_PER_RAD);
}

/* Of the images at a wavelength those of the mean of exp(-D/2), as a fraction of all. */
static double exact_fraction(const maps_data *m, int l) {
    const size_t n = (size_t)m->nexposure * (size_t)m->ntarget;
    const double *variance =
        m->value + ((size_t)SCALAR_VARIANCE * (size_t)m->nlambda + (size_t)l) * n;
    size_t exact = 0;
    if (m->par->psf_residual == RESIDUAL_SENSOR || m->par->psf_average == AVERAGE_MEAN)
        return 0;
    for (size_t i = 0; i < n; i++)
        exact += psf_average_needed(m->par->psf_average == AVERAGE_EXACT, variance[i]);
    return n > 0 ? (double)exact / (double)n : 0;
}

static void write_average(fitsout *o, const maps_data *m) {
    double least = 1, most = 0;
    for (int l = 0; l < m->nlambda; l++) {
        least = fmin(least, exact_fraction(m, l));
        most = fmax(most, exact_fraction(m, l));
    }
    fitsout_text(o, "AVERAGE",
                 least == 1  ? "exact"
                 : most == 0 ? "mean"
                             : "auto",
                 "mean of exp(-D/2), exp of the mean, or either");
}

/* Which exposures were computed in mixed precision, and how far it is from double. */
static void write_precision(fitsout *o, const maps_data *m) {
    int mixed = 0;
    double most = 0;
    for (int e = 0; e < m->nexposure; e++) {
        bool is_mixed;
        double difference;
        if (!store_get_precision(m->st, e, &is_mixed, &difference) || !is_mixed)
            continue;
        mixed++;
        most = fmax(most, difference);
    }
    fitsout_text(o, "PRECISN", mixed > 0 ? "mixed" : "double", "arithmetic of the exposures");
    fitsout_integer(o, "NMIXED", mixed, "exposures in mixed precision");
    if (mixed > 0)
        fitsout_real(o, "MIXDIFF", most, "largest difference of Strehl or EE seen");
}

/* Whether factors were compressed by tiles; the worst of the reconstructors. */
static void write_compression(fitsout *o, const maps_data *m) {
    static const char *const name[] = {"tiles", "refined", "dense"};
    store_compression most = {0}, c;
    int n = 0;
    for (int k = 0; k < m->a->ntor; k++)
        if (store_get_compression(m->st, k, &c)) {
            most.form = c.form > most.form ? c.form : most.form;
            most.tolerance = fmax(most.tolerance, c.tolerance);
            most.difference = fmax(most.difference, c.difference);
            most.rank = fmax(most.rank, c.rank);
            most.bytes = fmax(most.bytes, c.bytes);
            n++;
        }
    if (n == 0 || most.form < 0 || most.form > COMPRESSION_DENSE)
        return;
    fitsout_text(o, "FACTOR", name[most.form], "compressed factor: tiles, W refined, or all dense");
    fitsout_real(o, "TLRTOL", most.tolerance, "[arcsec2] norm of what may be dropped of a tile");
    fitsout_real(o, "TLRRANK", most.rank, "mean rank of a tile");
    fitsout_real(o, "TLRBYTES", most.bytes, "[byte] of the factor");
    fitsout_real(o, "TLRDIFF", most.difference, "change of Strehl or EE by the compression, seen");
}

/* Whether targets were interpolated between nodes, and how exact that is. */
static void write_sampling(fitsout *o, const maps_data *m) {
    const maps_sampling *s = m->sampling;
    fitsout_text(o, "SAMPLING", s != NULL ? "nodes" : "exact", "targets.sampling that computed");
    if (s == NULL)
        return;
    fitsout_integer(o, "NNODE", s->nodes, "directions that were computed");
    fitsout_integer(o, "NNODERES", s->residuals, "residuals of nodes, of all exposures");
    fitsout_real(o, "NODESTEP", s->step * ARCSEC_PER_RAD, "[arcsec] of the lattice of nodes");
    fitsout_real(o, "SAMPTOL", s->tolerance, "targets.tolerance, of Strehl or EE");
    fitsout_integer(o, "NCHECK", s->checked, "targets that were compared with exact ones");
    fitsout_real(o, "SAMPDIFF", s->largest, "largest difference of Strehl or EE of these");
    if (s->checked > 0)
        fitsout_real(o, "SAMPREST", fmin(1, 3.0 / s->checked),
                     "others over SAMPTOL: at most this fraction, 95 %");
}

/* SAMPLED and SAMPERR, the last columns of TARGETS; their cells of a target. */
static void sampled_columns(fitsout_column columns[2]) {
    columns[0] = (fitsout_column){"SAMPLED", "12A", "", "node: computed; or interpolated"};
    columns[1] = (fitsout_column){"SAMPERR", "1D", "", "error expected of Strehl and EE by that"};
}

/* A target that became a node under a later reconstructor was interpolated before; a fine node is
 * in the exposures that follow from others. */
static void sampled_cells(fitsout *o, const maps_data *m, int col, int t) {
    const maps_sampling *s = m->sampling;
    const field_node *n = s->node_of[t] >= 0 ? &s->f->node[s->node_of[t]] : NULL;
    const bool node = n != NULL && n->tor == 0 && !(n->fine && s->f->whole_from > 0);
    fitsout_cell_text(o, col, t + 1, node ? "node" : "interpolated");
    fitsout_cells_double(o, col + 1, t + 1, 1, 1, &s->error[t]);
}

/* Facts of the run that the store remembers. */
static void write_facts(fitsout *o, const maps_data *m) {
    static const struct {
        const char *fact, *key, *comment;
    } facts[] = {{"ranks", "NRANKS", "number of ranks of the run"},
                 {"threads", "NTHREADS", "threads of a rank"},
                 {"chunk", "CHUNK", "targets computed together"}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        long value = store_get_fact(m->st, facts[i].fact, -1);
        if (value >= 0)
            fitsout_integer(o, facts[i].key, value, facts[i].comment);
    }
    const linop_pair *pair = linop_numbered(store_get_fact(m->st, "format", 0));
    if (pair != NULL)
        fitsout_text(o, "FORMAT", linop_format(pair), "the two below in a word of compute.format");
    if (pair != NULL)
        fitsout_text(o, "CFACTOR", pair->factor->word, "compute.factor that computed");
    if (pair != NULL)
        fitsout_text(o, "CPRODUCT", pair->product->word, "compute.product that computed");
    if (pair != NULL)
        fitsout_text(o, "CDOUBLE", store_get_fact(m->st, "moduli", 0) > 0 ? "integer" : "native",
                     "compute.double of factor, W and exposures");
    if (pair != NULL && store_get_fact(m->st, "moduli_exposure", 0) > 0)
        fitsout_integer(o, "CMODULI", store_get_fact(m->st, "moduli_exposure", 0),
                        "moduli of products of exposures by integers");
    if (pair != NULL && pair->factor->split)
        fitsout_integer(o, "NMODULI", store_get_fact(m->st, "split_moduli", 0),
                        "of the FP16 factor by integers; 0: by FP64");
    write_precision(o, m);
    write_compression(o, m);
    write_sampling(o, m);
}

/* The image's motion that the images contain. */
static void motion_header(fitsout *o, const params *par) {
    static const char *const key[] = {"JITTERX", "JITTERY"};
    for (int k = 0; k < 2; k++)
        fitsout_real(o, key[k],
                     hypot(par->errors_jitter[k], par->errors_windshake[k]) * MAS_PER_RAD,
                     k == 0 ? "[mas] rms of the image's motion along x"
                            : "[mas] rms of the image's motion along y");
}

/* What of the annulus is lit. A Strehl ratio is over the peak of this pupil without errors: times
 * PUPPEAK, over that of the clear annulus. */
static void pupil_header(fitsout *o, const maps_data *m) {
    const sys *s = m->s;
    const double(*centres)[2];
    fitsout_real(o, "PUPAREA", sys_area(s), "[m2] collecting area of the pupil");
    fitsout_real(o, "PUPPEAK", sys_peak(s), "peak at Strehl ratio 1 / clear annulus' peak");
    if (s->pupil == NULL)
        return;
    const int n = pupil_segment_count(s->pupil, &centres);
    fitsout_real(o, "PUPANGLE", pupil_angle(s->pupil) * 180 / M_PI,
                 "[deg] rotation of map, spiders and segments");
    if (n == 0)
        return;
    fitsout_integer(o, "NSEGMENT", n, "segments of the pupil");
    fitsout_real(o, "SEGPIST", pupil_piston(s->pupil) * 1e9, "[nm] rms piston of the segments");
    fitsout_real(o, "SEGTILT", pupil_tiptilt(s->pupil) * MAS_PER_RAD,
                 "[mas] rms tilt of the segments along an axis");
}

/* Of a split system: delays, slopes, what the model of the common mirror lacks. */
static void split_header(fitsout *o, const maps_data *m) {
    const split_control *c = &m->s->fit.split;
    if (m->s->loop.type == LOOP_OPEN) {
        fitsout_real(o, "COMDEL", sys_common_delay(m->s), "[s] delay of the common mirror");
    } else { /* the common mirror has the loop's cards */
        fitsout_real(o, "TARFRMS", c->own.frames, "frames of delay of a target's mirror");
        fitsout_real(o, "TARGAIN", c->own.gain, "gain of its leaky filter; 1: none");
    }
    fitsout_text(o, "SPLSLOPE", c->residual ? "residual" : "pseudo_open",
                 "slopes of a target's mirror: split.slopes");
    fitsout_text(o, "SPLKNOWN",
                 c->residual  ? "none"
                 : c->unknown ? "unknown"
                              : "known",
                 "common mirror's shape: split.common");
    fitsout_real(o, "SPLSHX", c->shift[0], "[m] sensors see the common mirror shifted");
    fitsout_real(o, "SPLSHY", c->shift[1], "[m] the same along y");
    fitsout_real(o, "SPLROT", c->rot * 180 / M_PI, "[deg] and rotated");
    fitsout_real(o, "SPLSCALE", c->scale, "and magnified");
}

/* Mirrors, and what their commands are fitted to. */
static void corrector_header(fitsout *o, const maps_data *m) {
    const sys *s = m->s;
    char key[16];
    static const char *const mode[] = {"moao", "glao", "ltao", "mcao", "split"};
    fitsout_text(o, "MODE", mode[m->par->mode], "what corrects a target: mode");
    if (s->fit.ndir > 0)
        fitsout_integer(o, "NOPTIM", s->fit.ndir, "directions that shared commands are fitted to");
    if (s->fit.ndir > 0 && !s->fit.split.on)
        fitsout_text(o, "CPHASE", store_get_fact(m->st, "layers", 0) > 0 ? "layers" : "direct",
                     "covariances of the phase: compute.phase");
    if (s->fit.nmirror > 0)
        fitsout_integer(o, "NMIRROR", s->fit.nmirror,
                        s->fit.split.on ? "mirrors: common, of each target"
                                        : "mirrors that targets share");
    for (int i = 0; i < s->fit.nmirror && i < 99; i++) {
        snprintf(key, sizeof key, "MIRALT%d", i + 1);
        fitsout_real(o, key, s->fit.mirrors[i].altitude, "[m] altitude, along the line of sight");
        snprintf(key, sizeof key, "MIRPIT%d", i + 1);
        fitsout_real(o, key, s->fit.mirrors[i].pitch, "[m] pitch of its actuators");
    }
    if (s->fit.split.on)
        split_header(o, m);
    fitsout_text(o, "FIT", m->par->reconstructor_fit == FIT_PHASE ? "phase" : "slopes",
                 "what commands are fitted to: reconstructor.fit");
}

/* Of stars for low orders. */
static void low_header(fitsout *o, const sys *s) {
    static const char *const control[] = {"split", "cascade", "independent", "joint"};
    static const char *const modes[] = {"tiptilt", "focus", "plate_scale", "all"};
    static const char *const type[] = {"loop", "integrator", "leaky"};
    const loop_filter *f = &s->low.loop;
    int n = 0;
    if (!s->low.on)
        return;
    for (int w = 0; w < s->nsensor; w++)
        n += s->sensors[w].low;
    fitsout_integer(o, "LONSTAR", n, "stars for low orders: low_order");
    fitsout_text(o, "LOCTRL", control[s->low.control], "low orders: loop.low.control");
    if (s->low.control != LOW_JOINT)
        fitsout_text(o, "LOMODES", modes[s->low.modes], "which ones: loop.low.modes");
    fitsout_text(o, "LOLOOP", type[f->type], "their control in time: loop.low.type");
    if (f->type == LOOP_OPEN)
        return;
    fitsout_real(o, "LODEL", f->delay, "[s] pure delay with about the same servo lag");
    fitsout_real(o, "LOGAIN", f->gain, "gain of the loop of low orders");
    fitsout_real(o, "LOFRMS", f->frames, "its frames of delay, from middle to middle");
    fitsout_real(o, "LORATE", 1 / f->period, "[Hz] its frames");
    fitsout_real(o, "LONOIS", f->noise, "of the variance of noise: sum of h^2");
}

static void loop_header(fitsout *o, const sys *s) {
    static const char *const type[] = {"open", "integrator", "leaky"};
    const loop_filter *f = &s->loop;
    fitsout_text(o, "LOOP", type[f->type], "control in time: loop.type");
    if (f->type == LOOP_OPEN) {
        fitsout_real(o, "LOOPDEL", s->delay, "[s] delay of the loop");
        return;
    }
    fitsout_real(o, "LOOPDEL", f->delay, "[s] pure delay with about the same servo lag");
    fitsout_real(o, "LOOPGAIN", f->gain, "gain of the loop");
    fitsout_real(o, "LOOPFRMS", f->frames, "frames of delay, from middle to middle");
    fitsout_real(o, "LOOPRATE", 1 / f->period, "[Hz] frames of the loop");
    fitsout_real(o, "LOOPNOIS", f->noise, "of the variance of noise: sum of h^2");
    fitsout_text(o, "LOOPLAGS", f->exact ? "exact" : "equivalent", "covariances: loop.lags");
}

void maps_run_header(fitsout *o, const maps_data *m, const char *const *comments) {
    const sys *s = m->s;
    char key[24];
    fitsout_text(o, "CREATOR", "moao " MOAO_VERSION, "program that wrote this file");
    if (m->par->title != NULL && m->par->title[0] != '\0')
        fitsout_text(o, "TITLE", m->par->title, "");
    fitsout_real(o, "TELDIAM", s->diameter, "[m] diameter of the telescope");
    fitsout_real(o, "OBSCUR", s->obs, "central obscuration / diameter");
    pupil_header(o, m);
    fitsout_real(o, "ZENITH", s->zenith * 180 / M_PI, "[deg] zenith angle");
    maps_sky_header(o, m);
    loop_header(o, s);
    low_header(o, s);
    motion_header(o, m->par);
    fitsout_integer(o, "NSENSOR", sys_stars(s), "wavefront sensors");
    fitsout_integer(o, "NMEAS", (long)sys_slopes(s), "measurements");
    fitsout_integer(o, "TSNSSP", s->ts.nssp, "subapertures across, truth sensor");
    fitsout_integer(o, "NACT", sys_commands(s), "actuators");
    fitsout_integer(o, "NTARGET", m->ntarget, "targets");
    fitsout_integer(o, "NTOR", m->a->ntor, "tomographic reconstructors");
    fitsout_integer(o, "NEXPOSUR", m->nexposure, "short exposures");
    fitsout_integer(o, "NLAMBDA", m->nlambda, "wavelengths");
    for (int i = 0; i < m->nlambda && i < 99; i++) { /* what fits the names of keywords */
        snprintf(key, sizeof key, "LAMBDA%d", i + 1);
        fitsout_real(o, key, m->par->images.lambda[i] * 1e6,
                     m->par->images.width[i] > 0 ? "[um] centre of a band" : "[um] wavelength");
        snprintf(key, sizeof key, "BAND%d", i + 1);
        if (m->par->images.width[i] > 0)
            fitsout_text(o, key, m->par->images.name[i], "that the images are integrated over");
    }
    corrector_header(o, m);
    write_average(o, m);
    write_facts(o, m);
    for (; *comments != NULL; comments++)
        fitsout_comment(o, *comments);
    fitsout_comment(o, "All parameters: extension PARAMETERS, a file that the program reads.");
}

/* One target's row: short exposures of one quantity, wavelength slow. */
static void target_cells(fitsout *o, const maps_data *m, const maps_quantity *q, int col, int t,
                         double *cells) {
    size_t ne = (size_t)m->nexposure, nt = (size_t)m->ntarget, nl = (size_t)m->nlambda;
    const double *value = m->value + (size_t)q->scalar * nl * ne * nt;
    const double *mean = m->mean + (size_t)q->scalar * nl * nt;
    for (size_t k = 0; k < nl * ne; k++)
        cells[k] = value[k * nt + (size_t)t] * q->scale;
    fitsout_cells_double(o, col, t + 1, 1, (long)(nl * ne), cells);
    for (size_t k = 0; k < nl; k++)
        cells[k] = mean[k * nt + (size_t)t] * q->scale;
    fitsout_cells_double(o, col + 1, t + 1, 1, (long)nl, cells);
}

/* Names, forms and comments of the columns of results, two a quantity. */
static void result_columns(const maps_data *m, fitsout_column *columns, char (*text)[3][80]) {
    for (int i = 0; i < m->nscalar; i++) {
        maps_quantity q;
        maps_quantity_at(m, i, &q);
        char(*a)[80] = text[2 * i], (*b)[80] = text[2 * i + 1];
        snprintf(a[0], sizeof *a, "%s", q.name);
        snprintf(a[1], sizeof *a, "%dD", m->nlambda * m->nexposure);
        snprintf(a[2], sizeof *a, "%s", q.title);
        snprintf(b[0], sizeof *b, "%s_LONG", q.name);
        snprintf(b[1], sizeof *b, "%dD", m->nlambda);
        snprintf(b[2], sizeof *b, "the same, of the long exposure");
        columns[2 * i] = (fitsout_column){a[0], a[1], q.unit, a[2]};
        columns[2 * i + 1] = (fitsout_column){b[0], b[1], q.unit, b[2]};
    }
}

/* A column of texts is as wide as the longest, as the file has it. */
static void widen(size_t *longest, const char *value) {
    const size_t n = fitsout_width(value);
    *longest = n > *longest ? n : *longest;
}

void maps_table_targets(fitsout *o, const maps_data *m, bool results) {
    const bool named = m->par->targets_names.n == m->ntarget;
    const int sky_at = named ? 5 : 4, fixed = sky_at - 1 + (maps_on_sky(m) ? 2 : 0);
    const int nq = results ? m->nscalar : 0, nb = results ? maps_budget_count(m) : 0;
    const bool sampled = results && m->sampling != NULL;
    const int ncol = fixed + 2 * nq + nb + (sampled ? 2 : 0), budget = fixed + 2 * nq + 1;
    long dims[2] = {m->nexposure, m->nlambda};
    fitsout_column *columns = calloc((size_t)ncol, sizeof *columns);
    char(*text)[3][80] = calloc(2 * (size_t)nq + 1, sizeof *text);
    maps_text *terms = calloc((size_t)nb + 1, sizeof *terms);
    double *cells = calloc((size_t)m->nlambda * (size_t)m->nexposure, sizeof *cells);
    if (columns == NULL || text == NULL || terms == NULL || cells == NULL) {
        o->err = o->err != 0 ? o->err : MEMORY_ALLOCATION;
        goto done;
    }
    columns[0] = (fitsout_column){"TARGET", "1J", "", "number of the target"};
    columns[1] = (fitsout_column){"X", "1D", "arcsec", "direction"};
    columns[2] = (fitsout_column){"Y", "1D", "arcsec", "direction"};
    char form[32];
    size_t longest = 1;
    for (int i = 0; i < m->par->targets_names.n; i++)
        widen(&longest, m->par->targets_names.v[i]);
    snprintf(form, sizeof form, "%zuA", longest);
    if (named)
        columns[3] = (fitsout_column){"NAME", form, "", "of the target"};
    if (maps_on_sky(m)) {
        columns[sky_at - 1] = (fitsout_column){"RA", "1D", "deg", "ICRS"};
        columns[sky_at] = (fitsout_column){"DEC", "1D", "deg", "ICRS"};
    }
    if (results)
        result_columns(m, columns + fixed, text);
    if (nb > 0)
        maps_budget_columns(m, columns + budget - 1, terms);
    if (sampled)
        sampled_columns(columns + ncol - 2);
    fitsout_table(o, "TARGETS", m->ntarget, ncol, columns);
    fitsout_integer(o, "GRIDNX", m->s->grid[0], "targets along x, 0: they are no grid");
    fitsout_integer(o, "GRIDNY", m->s->grid[1], "targets along y");
    for (int i = 0; i < nq; i++)
        fits_write_tdim(o->f, fixed + 2 * i + 1, 2, dims, &o->err);
    if (results)
        fitsout_comment(o, "Cells: exposure (fast), wavelength (slow); _LONG: wavelength.");
    if (nb > 0)
        maps_budget_header(o, m, budget);
    for (int t = 0; t < m->ntarget; t++) {
        double at[2] = {m->s->targets[t][0] * ARCSEC_PER_RAD, m->s->targets[t][1] * ARCSEC_PER_RAD};
        fitsout_cell_integer(o, 1, t + 1, t + 1);
        fitsout_cells_double(o, 2, t + 1, 1, 1, &at[0]);
        fitsout_cells_double(o, 3, t + 1, 1, 1, &at[1]);
        if (named)
            fitsout_cell_text(o, 4, t + 1, m->par->targets_names.v[t]);
        maps_sky_cells(o, m, sky_at, t + 1, m->s->targets[t]);
        for (int i = 0; i < nq; i++) {
            maps_quantity q;
            maps_quantity_at(m, i, &q);
            target_cells(o, m, &q, fixed + 2 * i + 1, t, cells);
        }
        if (nb > 0)
            maps_budget_cells(o, m, budget, t);
        if (sampled)
            sampled_cells(o, m, ncol - 1, t);
    }
done:
    free(cells);
    free(terms);
    free(text);
    free(columns);
}

/* Whether its light follows from a magnitude or return; its photons from a magnitude. */
static bool has_light(const sensor *g) {
    return !(g->noise.photons > 0);
}

static bool by_magnitude(const sensor *g) {
    return !g->lgs && has_light(g) && !(g->noise.variance >= 0);
}

static const char *band_of(const sensor *g) {
    return g->noise.zero > 0 ? photometry_band_name(g->noise.band) : "published";
}

/* Row of sensor w, its noise under a profile; at_sky: column of its right ascension. */
static void guidestar_cells(fitsout *o, const maps_data *m, const profile *first, int w,
                            int at_sky) {
    const sys *s = m->s;
    const sensor *g = &s->sensors[w];
    noise_figures noise;
    matcov_noise_figures(s, first, w, &noise);
    const struct {
        int col;
        double value;
    } real[] = {{18, g->noise.wavelength * 1e6},
                {20, by_magnitude(g) ? sys_zero_photons(&g->noise) : NAN},
                {3, g->dir[0] * ARCSEC_PER_RAD},
                {4, g->dir[1] * ARCSEC_PER_RAD},
                {5, isfinite(g->altitude) ? g->altitude : NAN},
                {8, g->mag},
                {9, g->rot * 180 / M_PI},
                {10, g->shift[0]},
                {11, g->shift[1]},
                {12, has_light(g) && !g->lgs ? g->noise.magnitude : NAN},
                {13, has_light(g) && g->lgs ? g->noise.lgs_return : NAN},
                {14, noise.variance},
                {15, noise.photons},
                {16, noise.across},
                {17, noise.along},
                {21, noise.raised},
                {22, g->noise.corrected ? g->noise.core : NAN},
                {23, g->noise.frame_time},
                {24, sys_delay_of(s, g)}};
    fitsout_cell_text(o, 1, w + 1, g->name);
    fitsout_cell_text(o, 2, w + 1, g->lgs ? "LGS" : "NGS");
    fitsout_cell_text(o, 19, w + 1, by_magnitude(g) ? band_of(g) : "");
    fitsout_cell_integer(o, 6, w + 1, g->nssp);
    fitsout_cell_integer(o, 7, w + 1, g->nsub);
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        fitsout_cells_double(o, real[i].col, w + 1, 1, 1, &real[i].value);
    maps_sky_cells(o, m, at_sky, w + 1, g->dir);
}

void maps_table_guidestars(fitsout *o, const maps_data *m) {
    char form[32];
    size_t longest = 32;
    for (int w = 0; w < sys_stars(m->s); w++)
        widen(&longest, m->s->sensors[w].name);
    snprintf(form, sizeof form, "%zuA", longest);
    const fitsout_column columns[] = {
        {"NAME", form, "", "of the sensor"},
        {"TYPE", "3A", "", "NGS or LGS"},
        {"X", "1D", "arcsec", "direction of the guide star"},
        {"Y", "1D", "arcsec", "direction of the guide star"},
        {"ALTITUDE", "1D", "m", "along the line of sight; NaN: at infinity"},
        {"NSSP", "1J", "", "subapertures across the diameter"},
        {"NSUB", "1J", "", "valid subapertures"},
        {"MAGNIF", "1D", "", "registration: magnification"},
        {"ROTATION", "1D", "deg", "registration: rotation, counterclockwise"},
        {"SHIFTX", "1D", "m", "registration: shift"},
        {"SHIFTY", "1D", "m", "registration: shift"},
        {"MAGNITUD", "1D", "mag", "of an NGS"},
        {"RETURN", "1D", "ph m-2 s-1", "of an LGS, at the primary mirror"},
        {"NOISEVAR", "1D", "arcsec2", "of a slope, mean over the subapertures"},
        {"PHOTONS", "1D", "photon", "electrons per subaperture and frame"},
        {"SPOT", "1D", "arcsec", "FWHM of a spot (across its elongation)"},
        {"SPOTLONG", "1D", "arcsec", "the same along the elongation, mean"},
        {"WAVELEN", "1D", "um", "of the sensor"},
        {"BAND", "9A", "", "of MAGNITUD; published: one constant for all"},
        {"ZEROPHOT", "1D", "ph m-2 s-1", "of magnitude 0 in the sensor's band"},
        {"RAISED", "1D", "", "share of slopes with raised noise"},
        {"SPOTSR", "1D", "", "Strehl of a subaperture, of corrected spots"},
        {"FRAMETIM", "1D", "s", "time of a frame, of which are PHOTONS"},
        {"DELAY", "1D", "s", "from a frame's middle to the mirror's shape"},
        {"RA", "1D", "deg", "ICRS"},
        {"DEC", "1D", "deg", "ICRS"}};
    const int ncol = (int)(sizeof columns / sizeof *columns) - (maps_on_sky(m) ? 0 : 2);
    const sys *s = m->s;
    const profile *first = atmos_profile_at(m->a, m->a->exposure_time[0]);
    fitsout_table(o, "GUIDESTARS", sys_stars(s), ncol, columns);
    fitsout_comment(o, "Noise and spots: under the profile of the first exposure.");
    for (int w = 0; w < sys_stars(s); w++)
        guidestar_cells(o, m, first, w, ncol - 1);
}

void maps_table_exposures(fitsout *o, const maps_data *m) {
    char form[32];
    size_t longest = 64;
    for (int e = 0; e < m->nexposure; e++)
        widen(&longest, atmos_profile_at(m->a, m->a->exposure_time[e])->label);
    snprintf(form, sizeof form, "%zuA", longest);
    const fitsout_column columns[] = {
        {"EXPOSURE", "1J", "", "number of the exposure"},
        {"TIME", "1D", "s", "of the exposure"},
        {"TOR", "1J", "", "number of the reconstructor in force"},
        {"TORTIME", "1D", "s", "at which it was computed"},
        {"R0", "1D", "m", "at 500 nm along the line of sight"},
        {"SEEING", "1D", "arcsec", "0.976 x 500 nm / r0 along the line of sight"},
        {"PROFTIME", "1D", "s", "start of the profile in force"},
        {"PROFILE", form, "", "where that profile came from"},
        {"PRECISN", "6A", "", "arithmetic: mixed or double"},
        {"MIXDIFF", "1D", "", "Strehl or EE, mixed - double; NaN: not sampled"}};
    enum { NCOL = sizeof columns / sizeof *columns };
    fitsout_table(o, "EXPOSURES", m->nexposure, NCOL, columns);
    for (int e = 0; e < m->nexposure; e++) {
        int k = atmos_tor_of(m->a, e);
        const profile *p = atmos_profile_at(m->a, m->a->exposure_time[e]);
        double r0 = isfinite(p->r0) ? p->r0 : NAN, seeing = SEEING_LAMBDA / p->r0 * ARCSEC_PER_RAD;
        fitsout_cell_integer(o, 1, e + 1, e + 1);
        fitsout_cells_double(o, 2, e + 1, 1, 1, &m->a->exposure_time[e]);
        fitsout_cell_integer(o, 3, e + 1, k + 1);
        fitsout_cells_double(o, 4, e + 1, 1, 1, &m->a->tor_time[k]);
        fitsout_cells_double(o, 5, e + 1, 1, 1, &r0);
        fitsout_cells_double(o, 6, e + 1, 1, 1, &seeing);
        fitsout_cells_double(o, 7, e + 1, 1, 1, &p->time);
        fitsout_cell_text(o, 8, e + 1, p->label);
        bool mixed;
        double difference;
        store_get_precision(m->st, e, &mixed, &difference);
        fitsout_cell_text(o, 9, e + 1, mixed ? "mixed" : "double");
        fitsout_cells_double(o, 10, e + 1, 1, 1, &difference);
    }
}

/* Mean over the exposures of the factor of the Strehl ratio by scintillation. */
static double scintillation(const maps_data *m, double lambda) {
    double sum = 0;
    for (int e = 0; e < m->nexposure; e++)
        sum += exp(-profile_scintillation(atmos_profile_at(m->a, m->a->exposure_time[e]), lambda));
    return sum / m->nexposure;
}

/* Of which wavelengths images of bands are the sum; nothing where there are none. */
static void table_bands(fitsout *o, const maps_data *m) {
    static const fitsout_column columns[] = {{"ILAMBDA", "1J", "", "row of WAVELENGTHS, from 1"},
                                             {"LAMBDA", "1D", "um", "wavelength"},
                                             {"WEIGHT", "1D", "", "share of the band's photons"}};
    const double *lambda, *share;
    long rows = 0, row = 1;
    for (int i = 0; i < m->nlambda; i++)
        rows += m->par->images.width[i] > 0 ? psf_image_parts(m->ps, i, &lambda, &share) : 0;
    if (rows == 0)
        return;
    fitsout_table(o, "BANDS", rows, 3, columns);
    fitsout_comment(o, "An image of a band is the sum of those at these wavelengths:");
    fitsout_comment(o, "weights are of photons, of the peaks they go with weight / lambda^2.");
    for (int i = 0; i < m->nlambda; i++) {
        const int n = psf_image_parts(m->ps, i, &lambda, &share);
        for (int k = 0; k < n && m->par->images.width[i] > 0; k++, row++) {
            const double um = lambda[k] * 1e6;
            fitsout_cell_integer(o, 1, row, i + 1);
            fitsout_cells_double(o, 2, row, 1, 1, &um);
            fitsout_cells_double(o, 3, row, 1, 1, &share[k]);
        }
    }
}

void maps_table_wavelengths(fitsout *o, const maps_data *m) {
    char form[24];
    snprintf(form, sizeof form, "%dA", IMAGE_NAME);
    const fitsout_column columns[] = {
        {"LAMBDA", "1D", "um", "wavelength, or centre of a band"},
        {"PIXEL", "1D", "mas", "side of a pixel of psf.fits"},
        {"DIFFLIM", "1D", "mas", "lambda / diameter"},
        {"EXACT", "1D", "", "images of the mean of exp(-D/2), of all"},
        {"SCINT", "1D", "", "factor of Strehl by scintillation, not in it"},
        {"WIDTH", "1D", "um", "of the band; 0: a single wavelength"},
        {"BAND", form, "", "its name"}};
    enum { NUMBERS = 6 };
    const image_list *images = &m->par->images;
    fitsout_table(o, "WAVELENGTHS", m->nlambda, NUMBERS + 1, columns);
    for (int i = 0; i < m->nlambda; i++) {
        double lambda = images->lambda[i];
        double v[NUMBERS] = {
            lambda * 1e6,         m->pixel[i] * MAS_PER_RAD, lambda / m->s->diameter * MAS_PER_RAD,
            exact_fraction(m, i), scintillation(m, lambda),  images->width[i] * 1e6};
        for (int k = 0; k < NUMBERS; k++)
            fitsout_cells_double(o, k + 1, i + 1, 1, 1, &v[k]);
        fitsout_cell_text(o, NUMBERS + 1, i + 1, images->name[i]);
    }
    table_bands(o, m);
}

void maps_table_parameters(fitsout *o, const char *effective) {
    size_t nline = 0, width = 1, n;
    char form[32], *line;
    for (const char *p = effective; *p != '\0'; p += n + (p[n] == '\n')) {
        n = strcspn(p, "\n");
        width = n > width ? n : width;
        nline++;
    }
    snprintf(form, sizeof form, "%zuA", width);
    const fitsout_column column = {"LINE", form, "", "line of the parameter file"};
    line = malloc(width + 1);
    if (line == NULL) {
        o->err = o->err != 0 ? o->err : MEMORY_ALLOCATION;
        return;
    }
    fitsout_table(o, "PARAMETERS", (long)nline, 1, &column);
    long row = 1;
    for (const char *p = effective; *p != '\0'; p += n + (p[n] == '\n')) {
        n = strcspn(p, "\n");
        memcpy(line, p, n);
        line[n] = '\0';
        fitsout_cell_line(o, 1, row++, line);
    }
    free(line);
}
