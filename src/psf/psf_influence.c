/* Influence functions at the points of the pupil: those of a row, and products with them. A
 * mirror's function of an actuator is a product of factors along x and y (psf_phase.c). */
#include "psf_phase.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#define LEAST 1.2664165549094176e-14 /* exp(-PSF_CUT^2/2): a factor below it is nil */

psf_mirror phase_mirror_at(const psf *p, int i) {
    if (p->nmirror > 0)
        return p->mirror[i];
    return (psf_mirror){.n = p->n,
                        .nact = p->nact,
                        .place = p->place,
                        .row_act = p->row_act,
                        .if_y = p->if_y,
                        .if_x = {p->if_x[0], p->if_x[1]}};
}

static int least_row(const psf *p, int j) { /* of actuators within reach of lattice row j */
    int a = j * p->n / p->lattice - p->if_reach;
    return a < 0 ? 0 : a;
}

static int end_row(const psf *p, int j) {
    int a = j * p->n / p->lattice + 2 + p->if_reach;
    return a > p->n + 1 ? p->n + 1 : a;
}

/* Rows of actuators of a mirror, from y[0] to before y[1], within PSF_CUT x0 of lattice row j. */
static void rows_within(const psf *p, int mirror, int j, int y[2]) {
    if (p->nmirror == 0) {
        y[0] = least_row(p, j);
        y[1] = end_row(p, j);
        return;
    }
    const psf_mirror *m = &p->mirror[mirror];
    const double *of = m->if_y + (size_t)j * (size_t)(m->n + 1);
    y[0] = 0;
    while (y[0] <= m->n && of[y[0]] < LEAST)
        ++y[0];
    y[1] = y[0];
    while (y[1] <= m->n && of[y[1]] >= LEAST)
        ++y[1];
}

static psf_strip influence_aloft(const psf *p, int j, int mirror, double *out) {
    const psf_mirror *m = &p->mirror[mirror];
    const int side = m->n + 1;
    int within[2];
    rows_within(p, mirror, j, within);
    const int y0 = within[0], y1 = within[1];
    const psf_strip s = {p->point_row[j], p->point_row[j + 1] - p->point_row[j],
                         m->first + m->row_act[y0], m->row_act[y1] - m->row_act[y0],
                         p->point_column + p->point_row[j]};
    for (int i = 0; out != NULL && i < s.n; i++) {
        const double *along = m->if_x[j & p->shift] + s.column[i] * side;
        double *to = out + (size_t)i * (size_t)s.nact;
        for (int y = y0; y < y1; y++) {
            const double factor = m->if_y[j * side + y];
            const double *x = along - y * side; /* of the places of this row */
            for (int a = m->row_act[y]; a < m->row_act[y + 1]; a++)
                *to++ = x[m->place[a]] * factor;
        }
    }
    return s;
}

int psf_mirrors(const psf *p) {
    return p->nmirror > 0 ? p->nmirror : 1;
}

size_t phase_side(const psf *p) {
    int most = 0;
    for (int i = 0; i < psf_mirrors(p); i++)
        most = phase_mirror_at(p, i).n > most ? phase_mirror_at(p, i).n : most;
    return (size_t)most + 1;
}

psf_strip psf_influence(const psf *p, int j, int mirror, double *out) {
    if (p->nmirror > 0)
        return influence_aloft(p, j, mirror, out);
    const int side = p->n + 1, b0 = p->row_act[least_row(p, j)];
    const psf_strip s = {p->point_row[j], p->point_row[j + 1] - p->point_row[j], b0,
                         p->row_act[end_row(p, j)] - b0, p->point_column + p->point_row[j]};
    for (int i = 0; out != NULL && i < s.n; i++) {
        const double *along = p->if_x[j & p->shift] + p->point_column[s.first + i] * side;
        for (int b = 0; b < s.nact; b++)
            out[(size_t)i * (size_t)s.nact + (size_t)b] =
                along[p->place[b0 + b] % side] * p->if_y[j * side + p->place[b0 + b] / side];
    }
    return s;
}

/* Actuators of a mirror that reach a row of points, at most, wherever it is aimed. */
static int most_within(const psf_mirror *m) {
    const int reach = (int)(2 * PSF_CUT * m->x0 / m->pitch) + 2;
    int most = 0;
    for (int y = 0; y <= m->n; y++) {
        const int end = y + reach < m->n + 1 ? y + reach : m->n + 1;
        most = m->row_act[end] - m->row_act[y] > most ? m->row_act[end] - m->row_act[y] : most;
    }
    return most;
}

size_t psf_influence_most(const psf *p) {
    size_t most = 1;
    int actuators = 0;
    for (int i = 0; i < p->nmirror; i++)
        actuators = most_within(&p->mirror[i]) > actuators ? most_within(&p->mirror[i]) : actuators;
    for (int j = 0; j < psf_lattice_rows(p); j++) {
        const psf_strip z = psf_influence(p, j, 0, NULL);
        const size_t n = (size_t)z.n * (size_t)(p->nmirror > 0 ? actuators : z.nact);
        most = n > most ? n : most;
    }
    return most;
}

/* --- products with them: along y first, then along x, of whose factors a group of points sees few
 */

#define ROWS PSF_PRODUCT_ROWS
#define GROUP PSF_PRODUCT_POINTS

size_t psf_influence_room(const psf *p) {
    return (size_t)(ROWS + GROUP) * phase_side(p);
}

/* t (ROWS x columns of actuators) = rows of a (leading dimension lda) times scale and the factors
 * along y of lattice row j. */
static void along_y(const psf_mirror *m, int j, const int y[2], int rows, double scale,
                    const double *a, size_t lda, double *t) {
    const int side = m->n + 1;
    memset(t, 0, (size_t)(ROWS * side) * sizeof *t);
    for (int i = y[0]; i < y[1]; i++) {
        const double factor = scale * m->if_y[j * side + i];
        for (int k = m->row_act[i]; k < m->row_act[i + 1]; k++)
            cblas_daxpy(rows, factor, a + (size_t)(m->first + k) * lda, 1,
                        t + ROWS * (m->place[k] - i * side), 1);
    }
}

/* Factors along x of n points of lattice row j: x (columns of actuators within PSF_CUT x0 of any of
 * them, from *first on, as many as are returned, x n). */
static int factors_x(const psf_mirror *m, const double *of, const int *column, int n, int *first,
                     double *x) {
    const int side = m->n + 1;
    int end = 0;
    *first = side;
    for (int i = 0; i < n; i++) {
        const double *f = of + column[i] * side;
        for (int k = 0; k < side; k++)
            if (f[k] >= LEAST) {
                *first = k < *first ? k : *first;
                end = k >= end ? k + 1 : end;
            }
    }
    for (int i = 0; i < n && *first < end; i++)
        memcpy(x + i * (end - *first), of + column[i] * side + *first,
               (size_t)(end - *first) * sizeof *x);
    return end > *first ? end - *first : 0;
}

void psf_influence_product(const psf *p, int j, int mirror, int i0, int n, int rows, double scale,
                           const double *a, size_t lda, double *out, size_t ldout, double *room) {
    const psf_mirror m = phase_mirror_at(p, mirror);
    const int side = m.n + 1;
    const int *column = p->point_column + p->point_row[j] + i0;
    double *x = room + ROWS * side;
    int y[2];
    rows_within(p, mirror, j, y);
    for (int r = 0; r < rows && y[0] < y[1]; r += ROWS) {
        const int some = rows - r < ROWS ? rows - r : ROWS;
        along_y(&m, j, y, some, scale, a + r, lda, room);
        for (int i = 0; i < n; i += GROUP) {
            const int points = n - i < GROUP ? n - i : GROUP;
            int first;
            const int width = factors_x(&m, m.if_x[j & p->shift], column + i, points, &first, x);
            if (width > 0)
                cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, some, points, width, 1.0,
                            room + ROWS * first, ROWS, x, width, 1.0, out + (size_t)i * ldout + r,
                            (int)ldout);
        }
    }
}
