#include "pupil.h"
#include "pupil_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SEGMENTS 20000
#define NARROW 0.05 /* gaps over size below which they are closed for functions of the phase */
#define FINE 0.15   /* cells by which the outline may be cut */
#define COARSE 0.6  /* the same in pixels of a map, whose edges are stairs */
#define PARTS 4     /* samples of a map in a cell along an axis, at least */

/* --- shapes; c is the width of a cell, 0: of a point */

/* The part of [t - c/2, t + c/2] within [lo, hi]. */
static double within(double t, double lo, double hi, double c) {
    if (c <= 0)
        return t >= lo && t < hi;
    const double from = fmax(lo, t - 0.5 * c), to = fmin(hi, t + 0.5 * c);
    return to > from ? (to - from) / c : 0;
}

/* A map's pixels on the circles count whole, as their mean is that of the circle. */
static double in_annulus(const pupil *p, double x, double y, double c) {
    const double spare = p->o.map.amplitude != NULL ? 0.75 * p->o.map.pixel : 0;
    const double R = 0.5 * p->o.diameter, r = hypot(x, y), hole = p->o.obs * R;
    return within(r, hole > 0 ? hole - spare : -R, R + spare, c);
}

static double in_spider(const pupil *p, int i, double x, double y, double c) {
    const double a = cos(p->o.spider_angle[i]), b = sin(p->o.spider_angle[i]);
    const double along = a * x + b * y, across = a * y - b * x - p->o.spider_offset[i];
    if (along < -c || fabs(across) > p->o.spider_width + c)
        return 0;
    return within(along, 0, 2 * p->o.diameter, c) *
           within(across, -0.5 * p->o.spider_width, 0.5 * p->o.spider_width, c);
}

/* --- segments */

/* Lattice vectors: neighbours of a hexagon are 60 degrees apart, those of a square 90. */
static void lattice_vectors(const pupil *p, double v[2][2]) {
    const double turn = p->o.segments.tiling == PUPIL_HEXAGONS ? M_PI / 3 : M_PI / 2;
    for (int k = 0; k < 2; k++) {
        v[k][0] = p->pitch * cos(p->o.segments.angle + k * turn);
        v[k][1] = p->pitch * sin(p->o.segments.angle + k * turn);
    }
}

static void centre_of(const pupil *p, int i, int j, double at[2]) {
    double v[2][2];
    lattice_vectors(p, v);
    for (int k = 0; k < 2; k++)
        at[k] = i * v[0][k] + j * v[1][k];
}

/* Lattice indices of the segment whose cell a place is in: the nearest centre. */
static void nearest(const pupil *p, double x, double y, int at[2]) {
    double v[2][2], best = INFINITY;
    lattice_vectors(p, v);
    const double det = v[0][0] * v[1][1] - v[0][1] * v[1][0];
    const int i0 = (int)floor((x * v[1][1] - y * v[1][0]) / det),
              j0 = (int)floor((y * v[0][0] - x * v[0][1]) / det);
    for (int k = 0; k < 4; k++) {
        const int i = i0 + (k & 1), j = j0 + (k >> 1);
        const double dx = x - i * v[0][0] - j * v[1][0], dy = y - i * v[0][1] - j * v[1][1];
        if (dx * dx + dy * dy < best) {
            best = dx * dx + dy * dy;
            at[0] = i;
            at[1] = j;
        }
    }
}

static int number_of(const pupil *p, int i, int j) {
    const int side = 2 * p->reach + 1;
    return abs(i) > p->reach || abs(j) > p->reach ? -1
                                                  : p->number[(j + p->reach) * side + i + p->reach];
}

/* The part of a cell in segment (i, j) of a size from flat to flat. */
static double in_segment(const pupil *p, int i, int j, double x, double y, double size, double c) {
    const int flats = p->o.segments.tiling == PUPIL_HEXAGONS ? 3 : 2;
    double at[2], part = 1;
    if (number_of(p, i, j) < 0)
        return 0;
    centre_of(p, i, j, at);
    for (int k = 0; k < flats && part > 0; k++) {
        const double turn = p->o.segments.angle + k * M_PI / flats;
        const double t = cos(turn) * (x - at[0]) + sin(turn) * (y - at[1]);
        part *= within(t, -0.5 * size, 0.5 * size, c);
    }
    return part;
}

static double in_segments(const pupil *p, double x, double y, double size, double c) {
    int at[2];
    nearest(p, x, y, at);
    double part = in_segment(p, at[0], at[1], x, y, size, c);
    for (int k = 0; k < 9 && part < 1 && c > 0; k++) /* a cell may reach into neighbours */
        if (k != 4)
            part += in_segment(p, at[0] + k % 3 - 1, at[1] + k / 3 - 1, x, y, size, c);
    return fmin(1, part);
}

int pupil_segment_at(const pupil *p, double x, double y) {
    const double c = cos(p->o.angle), s = sin(p->o.angle);
    int at[2];
    if (p->nsegment == 0)
        return -1;
    nearest(p, c * x + s * y, c * y - s * x, at);
    return number_of(p, at[0], at[1]);
}

/* --- cells */

/* Means of amplitude and light of a map over a cell. */
static void map_means(const pupil_map *m, double x, double y, double c, double *a, double *light) {
    const int parts = c > 0 ? (int)fmin(16, PARTS + ceil(c / m->pixel)) : 1;
    double sum = 0, square = 0;
    for (int k = 0; k < parts * parts; k++) {
        const double dx = ((k % parts + 0.5) / parts - 0.5) * c,
                     dy = ((k / parts + 0.5) / parts - 0.5) * c;
        const double i = floor((x + dx) / m->pixel + 0.5 * m->nx),
                     j = floor((y + dy) / m->pixel + 0.5 * m->ny);
        if (i < 0 || j < 0 || i >= m->nx || j >= m->ny)
            continue;
        const double v = m->amplitude[(size_t)j * (size_t)m->nx + (size_t)i];
        sum += v;
        square += v * v;
    }
    *a = sum / (parts * parts);
    *light = square / (parts * parts);
}

/* Means over the cell around (x, y); size: of segments. */
static void means_at(const pupil *p, double x, double y, double size, double c, double *a,
                     double *light) {
    const double ct = cos(p->o.angle), st = sin(p->o.angle);
    const double px = ct * x + st * y, py = ct * y - st * x;
    double clear = in_annulus(p, x, y, c);
    *a = *light = 0;
    for (int i = 0; i < p->o.nspider && clear > 0; i++)
        clear *= 1 - in_spider(p, i, px, py, c);
    if (clear > 0 && p->nsegment > 0)
        clear *= in_segments(p, px, py, size, c);
    if (!(clear > 0))
        return;
    *a = *light = 1;
    if (p->o.map.amplitude != NULL)
        map_means(&p->o.map, px, py, c, a, light);
    *a *= clear;
    *light *= clear;
}

bool pupil_contains(const pupil *p, double x, double y) {
    double a, light;
    means_at(p, x, y, p->closed, 0, &a, &light);
    return a >= 0.5;
}

static void fill_cells(const pupil *p, int n, double size, double *amplitude, double *light) {
    const double c = p->o.diameter / n;
#pragma omp parallel for schedule(dynamic, 16)
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            const size_t at = (size_t)j * (size_t)n + (size_t)i;
            double a, l;
            means_at(p, (i + 0.5 - 0.5 * n) * c, (j + 0.5 - 0.5 * n) * c, size, c, &a, &l);
            if (amplitude != NULL)
                amplitude[at] = a;
            if (light != NULL)
                light[at] = l;
        }
}

void pupil_cells(const pupil *p, int n, double *amplitude, double *light) {
    fill_cells(p, n, p->o.segments.size, amplitude, light);
}

/* --- tables */

/* Integral of the light from the corner to a place in cells: that of cells with their means. */
static double integral(const pupil *p, double x, double y) {
    const size_t row = PUPIL_CELLS + 1;
    x = fmin(fmax(x, 0), PUPIL_CELLS);
    y = fmin(fmax(y, 0), PUPIL_CELLS);
    const int i = (int)fmin(x, PUPIL_CELLS - 1), j = (int)fmin(y, PUPIL_CELLS - 1);
    const double *t = p->light + (size_t)j * row + (size_t)i, u = x - i, v = y - j;
    return (1 - v) * ((1 - u) * t[0] + u * t[1]) + v * ((1 - u) * t[row] + u * t[row + 1]);
}

double pupil_light(const pupil *p, double x, double y, double side) {
    const double c = p->o.diameter / PUPIL_CELLS;
    const double i = x / c + 0.5 * PUPIL_CELLS, j = y / c + 0.5 * PUPIL_CELLS, n = side / c;
    const double sum = integral(p, i + n, j + n) - integral(p, i, j + n) - integral(p, i + n, j) +
                       integral(p, i, j);
    return fmin(1, fmax(0, sum / (n * n)));
}

bool pupil_crosses(const pupil *p, double x, double y, double side) {
    const double c = p->o.diameter / PUPIL_CELLS;
    const int row = PUPIL_CELLS + 1;
    int at[2][2]; /* whole cells, by end and axis */
    for (int axis = 0; axis < 2; axis++) {
        const double from = (axis ? y : x) / c + 0.5 * PUPIL_CELLS;
        at[0][axis] = (int)fmin(fmax(floor(from + 1e-6), 0), PUPIL_CELLS);
        at[1][axis] = (int)fmin(fmax(ceil(from + side / c - 1e-6), 0), PUPIL_CELLS);
    }
    const int *t = p->crossed;
    return t[at[1][1] * row + at[1][0]] - t[at[0][1] * row + at[1][0]] -
               t[at[1][1] * row + at[0][0]] + t[at[0][1] * row + at[0][0]] >
           0;
}

/* Areas and moments from the cells, and the integral of the light. */
static void sum_cells(pupil *p, const double *amplitude, const double *light) {
    const int n = PUPIL_CELLS;
    const double c = p->o.diameter / n;
    pupil_figures *f = &p->figures;
    double mean[2] = {0, 0}, dark = INFINITY;
    for (int j = 0; j < n; j++) {
        double row = 0;
        for (int i = 0; i < n; i++) {
            const size_t at = (size_t)j * (size_t)n + (size_t)i, to = at + (size_t)(n + 1 + j + 1);
            const double x = (i + 0.5 - 0.5 * n) * c, y = (j + 0.5 - 0.5 * n) * c;
            row += light[at];
            p->light[to] = row + p->light[to - (size_t)n - 1];
            f->area += light[at];
            f->amplitude += amplitude[at];
            mean[0] += light[at] * x, mean[1] += light[at] * y;
            f->square[0] += light[at] * (x * x + c * c / 12);
            f->square[1] += light[at] * (y * y + c * c / 12);
            if (amplitude[at] >= 0.5)
                dark = fmin(dark, hypot(x, y) - 0.5 * c);
        }
    }
    for (int k = 0; k < 2; k++)
        f->square[k] = f->square[k] / f->area - mean[k] * mean[k] / (f->area * f->area);
    f->area *= c * c;
    f->amplitude *= c * c;
    f->obs = p->o.obs;
    if ((p->nsegment > 0 || p->o.map.amplitude != NULL) && dark > 2 * c)
        f->obs = fmax(f->obs, dark / (0.5 * p->o.diameter));
    f->min_light = p->o.min_light;
}

static status fill_tables(pupil *p) {
    const size_t n = PUPIL_CELLS, all = n * n;
    double *amplitude = NULL, *light = NULL, tolerance = FINE;
    status st;
    TRY(ALLOC(amplitude, all, "pupil"));
    TRY(ALLOC(light, all, "pupil"));
    TRY(ALLOC(p->light, (n + 1) * (n + 1), "pupil"));
    TRY(ALLOC(p->crossed, (n + 1) * (n + 1), "pupil"));
    pupil_cells(p, PUPIL_CELLS, amplitude, light);
    sum_cells(p, amplitude, light);
    if (!(p->figures.area > 1e-4 * p->o.diameter * p->o.diameter))
        TRY(status_fail(MOAO_INPUT,
                        "telescope: its spiders, segments and map leave no light in the annulus of "
                        "%.4g m with an obscuration of %.3g, expected a pupil",
                        p->o.diameter, p->o.obs));
    fill_cells(p, PUPIL_CELLS, p->closed, amplitude, NULL);
    if (p->o.map.amplitude != NULL)
        tolerance = fmax(FINE, COARSE * p->o.map.pixel * (double)n / p->o.diameter);
    TRY(pupil_find_edges(p, amplitude, tolerance));
done:
    free(amplitude);
    free(light);
    return st;
}

/* --- from options */

static status copy(const void *from, size_t n, size_t size, void *to) {
    void **out = to;
    status st = mem_alloc(out, n, size, "pupil");
    if (st == MOAO_OK && n > 0)
        memcpy(*out, from, n * size);
    return st;
}

static status drop_missing(pupil *p) {
    const pupil_segments *g = &p->o.segments;
    const int side = 2 * p->reach + 1;
    for (int k = 0; k < g->nmissing; k++) {
        int at[2];
        nearest(p, g->missing[k][0], g->missing[k][1], at);
        if (number_of(p, at[0], at[1]) < 0)
            return status_fail(MOAO_INPUT,
                               "telescope.segments.missing: there is no segment at (%.4g, %.4g) m, "
                               "or it is missing already; expected a place on one",
                               g->missing[k][0], g->missing[k][1]);
        p->number[(at[1] + p->reach) * side + at[0] + p->reach] = -1;
    }
    return MOAO_OK;
}

static status find_segments(pupil *p) {
    const pupil_segments *g = &p->o.segments;
    status st;
    if (g->tiling == PUPIL_WHOLE)
        return MOAO_OK;
    p->pitch = g->size + g->gap;
    p->closed = g->gap < NARROW * g->size ? p->pitch : g->size;
    const double far = fmin(g->within[1], 0.5 * p->o.diameter + p->pitch);
    if (!(far / p->pitch < 200))
        return status_fail(MOAO_INPUT,
                           "telescope.segments.size: %.4g m makes more than %d segments, expected "
                           "larger ones",
                           g->size, MOST_SEGMENTS);
    p->reach = (int)(1.2 * far / p->pitch) + 2;
    const int side = 2 * p->reach + 1;
    TRY(ALLOC(p->number, (size_t)(side * side), "segments"));
    for (int k = 0; k < side * side; k++) {
        double at[2];
        centre_of(p, k % side - p->reach, k / side - p->reach, at);
        const double r = hypot(at[0], at[1]);
        p->number[k] = r >= g->within[0] - 1e-9 * p->pitch && r <= far + 1e-9 * p->pitch ? 0 : -1;
    }
    TRY(drop_missing(p));
    TRY(ALLOC(p->centre, (size_t)(side * side), "segments"));
    for (int k = 0; k < side * side; k++)
        if (p->number[k] == 0) {
            const double c = cos(p->o.angle), s = sin(p->o.angle);
            double at[2];
            centre_of(p, k % side - p->reach, k / side - p->reach, at);
            p->centre[p->nsegment][0] = c * at[0] - s * at[1];
            p->centre[p->nsegment][1] = s * at[0] + c * at[1];
            p->number[k] = p->nsegment++;
        }
    if (p->nsegment == 0)
        st = status_fail(MOAO_INPUT, "telescope.segments: none is left between the distances of "
                                     "telescope.segments.within, expected some");
done:
    return st;
}

status pupil_init(const pupil_opts *o, pupil **out) {
    pupil *p = NULL;
    status st;
    *out = NULL;
    if (o->nspider == 0 && o->segments.tiling == PUPIL_WHOLE && o->map.amplitude == NULL)
        return MOAO_OK;
    TRY(ALLOC(p, 1, "pupil"));
    p->o = *o;
    p->o.spider_angle = p->o.spider_offset = NULL;
    p->o.segments.missing = NULL;
    p->o.map.amplitude = NULL;
    TRY(copy(o->spider_angle, (size_t)o->nspider, sizeof(double), &p->o.spider_angle));
    TRY(copy(o->spider_offset, (size_t)o->nspider, sizeof(double), &p->o.spider_offset));
    TRY(copy(o->segments.missing, (size_t)o->segments.nmissing, 2 * sizeof(double),
             &p->o.segments.missing));
    if (o->map.amplitude != NULL)
        TRY(copy(o->map.amplitude, (size_t)o->map.nx * (size_t)o->map.ny, sizeof(double),
                 &p->o.map.amplitude));
    TRY(find_segments(p));
    TRY(fill_tables(p));
    *out = p;
    p = NULL;
done:
    pupil_free(p);
    return st;
}

void pupil_free(pupil *p) {
    if (p == NULL)
        return;
    free((void *)p->o.spider_angle);
    free((void *)p->o.spider_offset);
    free((void *)p->o.segments.missing);
    free(p->o.map.amplitude);
    free(p->number);
    free(p->centre);
    free(p->light);
    free(p->crossed);
    free(p->edge);
    free(p);
}

const pupil_figures *pupil_about(const pupil *p) {
    return &p->figures;
}

int pupil_edges(const pupil *p, const pupil_edge **edges) {
    *edges = p->edge;
    return p->nedge;
}

int pupil_segment_count(const pupil *p, const double (**centres)[2]) {
    *centres = (const double(*)[2])p->centre;
    return p->nsegment;
}

double pupil_segment_radius(const pupil *p) {
    return p->pitch / (p->o.segments.tiling == PUPIL_HEXAGONS ? sqrt(3) : sqrt(2));
}

double pupil_angle(const pupil *p) {
    return p->o.angle;
}

double pupil_piston(const pupil *p) {
    return p->nsegment > 0 ? p->o.segments.piston : 0;
}

double pupil_tiptilt(const pupil *p) {
    return p->nsegment > 0 ? p->o.segments.tiptilt : 0;
}
