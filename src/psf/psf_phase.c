/* The residual phase on the pupil, turbulence minus mirror: sums over pairs of points. Model
 * section 7.
 *
 * The points are those of a lattice inside the annulus: rows h = D/lattice apart, points h apart in
 * a row, every other row shifted by h/2, so that they stand at many places within the cells of the
 * actuators. Pairs are of two such points, so separations have the same lattice. */
#include "psf_phase.h"

#include "moao/clones.h"
#include "moao/cpu_threads.h"

#include <cblas.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_ACROSS 32 /* points across the diameter */
#define LEAST_SQUARE 48 /* the same of a square lattice */
#define MANY 48         /* subapertures from which on two points for each are enough */
#define PARTS 16        /* into which sums are divided, whatever the number of threads */
#define AT_ONCE 16      /* points whose phases are made together */

int phase_lattice(const sys *s, const psf_opts *o) {
    const int nssp = s->dm.nssp;
    if (o->across > 0)
        return o->across;
    if (nssp > MANY)
        return (int)ceil(sqrt(2) * nssp) + (o->square ? 1 : 0);
    const int least = o->square ? LEAST_SQUARE : LEAST_ACROSS;
    const int per_pitch = (least + nssp - 1) / nssp;
    /* a square lattice takes many places within the cells of the actuators by its own step */
    return nssp * (per_pitch > 2 ? per_pitch : 2) + (o->square ? 1 : 0);
}

/* Place of point (i, j) in quarters of h from the corner of the pupil's square. */
static void place_of(int i, int j, int shift, int at[2]) {
    at[0] = shift ? 4 * i + 1 + 2 * (j & 1) : 4 * i + 2;
    at[1] = shift ? 4 * j + 1 : 4 * j + 2;
}

int phase_thinning(int np, int all_pairs) {
    const int many = np / PSF_SAMPLES;
    return np <= (all_pairs > 0 ? all_pairs : PSF_ALL_PAIRS) ? 1
           : many > PSF_THINNING                             ? many
                                                             : PSF_THINNING;
}

/* Columns from a sample to that of the next row: the root of the thinning. */
static int sample_step(int thinning) {
    int step = 1;
    while ((step + 1) * (step + 1) <= thinning)
        step++;
    return step;
}

bool phase_is_sample(int thinning, int column, int row) {
    return (column + sample_step(thinning) * row) % thinning == 0;
}

/* Points inside the pupil by rows; counts them when p is NULL, thinned where that is
 * above 1. `moao check` counts hundreds of times: squares of distances are whole numbers, and only
 * samples are visited. */
static int find_points(int side, const sys *s, int shift, int thinning, psf *p) {
    const int radius = 2 * side;
    const int64_t outer = (int64_t)radius * radius,
                  inner = (int64_t)ceil(s->obs * radius * (s->obs * radius));
    const double quarter = 0.25 * s->diameter / side; /* [m] */
    const int step = sample_step(thinning);
    int count = 0, at[2];
    for (int j = 0; j < side; j++) {
        if (p != NULL)
            p->point_row[j] = count;
        for (int i = (thinning - step * j % thinning) % thinning; i < side; i += thinning) {
            place_of(i, j, shift, at);
            const int64_t x = at[0] - radius, y = at[1] - radius, r2 = x * x + y * y;
            if (r2 >= outer || r2 < inner)
                continue;
            if (s->pupil != NULL && !sys_is_lit(s, (double)x * quarter, (double)y * quarter))
                continue;
            if (p != NULL) {
                p->point_column[count] = i;
                p->px[count] = (at[0] - radius) * 0.25 * p->h;
                p->py[count] = (at[1] - radius) * 0.25 * p->h;
            }
            count++;
        }
    }
    if (p != NULL)
        p->point_row[side] = count;
    return count;
}

int phase_count(int rows, const sys *s, int shift) {
    return find_points(rows, s, shift, 1, NULL);
}

int phase_samples(int rows, const sys *s, int shift, int thinning) {
    return find_points(rows, s, shift, thinning, NULL);
}

/* Factors of the influence functions along x and y at the places of the points. */
static void fill_influence(psf *p) {
    const int side = p->n + 1, rows = p->lattice;
    for (int j = 0; j < rows; j++)
        for (int a = 0; a < side; a++) {
            const double t = 0.25 * p->h / (sqrt(2.0) * p->x0), step = 4.0 * p->lattice * a / p->n;
            int even[2], odd[2], row[2];
            place_of(0, j, p->shift, row);
            place_of(j, 0, p->shift, even);
            place_of(j, 1, p->shift, odd);
            p->if_y[j * side + a] = exp(-pow(t * (row[1] - step), 2));
            p->if_x[0][j * side + a] = exp(-pow(t * (even[0] - step), 2));
            p->if_x[1][j * side + a] = exp(-pow(t * (odd[0] - step), 2));
        }
    p->if_reach = (int)ceil(PSF_CUT * p->x0 / p->pitch);
}

/* Bytes of the factors and places of several mirrors. */
static size_t mirror_sizes(const sys *s, int lattice, size_t *factors) {
    size_t places = 0;
    *factors = 0;
    for (int i = 0; i < s->fit.nmirror; i++) {
        *factors += 3 * (size_t)lattice * ((size_t)s->fit.mirrors[i].nssp + 1);
        places += (size_t)s->fit.mirrors[i].nact + (size_t)s->fit.mirrors[i].nssp + 2;
    }
    return (size_t)s->fit.nmirror * sizeof(psf_mirror) + *factors * sizeof(double) +
           places * sizeof(int);
}

size_t phase_mirror_bytes(const sys *s, const psf_opts *o) {
    size_t factors;
    return o->phase ? mirror_sizes(s, phase_lattice(s, o), &factors) : 0;
}

void phase_mirrors_free(psf *p) {
    if (p->mirror == NULL)
        return;
    free(p->mirror[0].if_y);
    for (int i = 0; i < p->nmirror; i++)
        free(p->mirror[i].place);
    free(p->mirror);
    free(p->model);
}

psf_model_mirror phase_mirror_model(const dmirror *dm) {
    const double x0 = dm->pitch / sqrt(-2 * log(dm->coupling));
    return (psf_model_mirror){.n = dm->nssp,
                              .nact = dm->nact,
                              .first = dm->first,
                              .pitch = dm->pitch,
                              .x0 = x0,
                              .altitude = dm->altitude,
                              .reach = (int)ceil(PSF_CUT * x0 / dm->pitch)};
}

/* Of n + 1 rows of actuators, whose places increase: row[n + 2]. */
static void find_rows(int n, int nact, const int *place, int *row) {
    for (int y = 0, a = 0; y <= n + 1; y++) {
        while (a < nact && place[a] < y * (n + 1))
            a++;
        row[y] = a;
    }
}

static status open_mirrors(psf *p, const sys *s) {
    size_t factors, at = 0;
    double *all = NULL;
    status st;
    if (s->fit.nmirror == 0)
        return MOAO_OK;
    mirror_sizes(s, p->lattice, &factors);
    TRY(ALLOC(p->mirror, (size_t)s->fit.nmirror, "mirrors"));
    p->nmirror = s->fit.nmirror;
    TRY(ALLOC(p->model, (size_t)s->fit.nmirror, "mirrors"));
    TRY(ALLOC(all, factors, "influence functions"));
    p->mirror[0].if_y = all;
    for (int i = 0; i < p->nmirror; i++) {
        const dmirror *from = &s->fit.mirrors[i];
        const size_t size = (size_t)p->lattice * ((size_t)from->nssp + 1);
        int *place = NULL;
        TRY(ALLOC(place, (size_t)(from->nact + from->nssp + 2), "actuators"));
        memcpy(place, from->act, (size_t)from->nact * sizeof *place);
        find_rows(from->nssp, from->nact, place, place + from->nact);
        p->mirror[i] = (psf_mirror){.n = from->nssp,
                                    .nact = from->nact,
                                    .first = from->first,
                                    .place = place,
                                    .row_act = place + from->nact,
                                    .pitch = from->pitch,
                                    .x0 = phase_mirror_model(from).x0,
                                    .altitude = from->altitude,
                                    .if_y = all + at,
                                    .if_x = {all + at + size, all + at + 2 * size}};
        p->model[i] = phase_mirror_model(from);
        p->model[i].place = place;
        at += 3 * size;
    }
    psf_aim(p, (double[2]){0, 0});
done:
    return st;
}

void psf_aim(psf *p, const double dir[2]) {
    for (int i = 0; i < p->nmirror; i++) {
        const psf_mirror *m = &p->mirror[i];
        const int side = m->n + 1;
        const double unit = 1 / (sqrt(2.0) * m->x0), half = 0.5 * p->n * p->pitch;
        for (int j = 0; j < p->lattice; j++)
            for (int a = 0; a < side; a++) {
                int even[2], odd[2], row[2];
                place_of(0, j, p->shift, row);
                place_of(j, 0, p->shift, even);
                place_of(j, 1, p->shift, odd);
                const double at = (a - 0.5 * m->n) * m->pitch;
                const double x = dir[0] * m->altitude - half - at,
                             y = dir[1] * m->altitude - half - at;
                m->if_y[j * side + a] = exp(-pow(unit * (y + 0.25 * p->h * row[1]), 2));
                m->if_x[0][j * side + a] = exp(-pow(unit * (x + 0.25 * p->h * even[0]), 2));
                m->if_x[1][j * side + a] = exp(-pow(unit * (x + 0.25 * p->h * odd[0]), 2));
            }
    }
}

static void count_pairs(psf *p) {
    const int rows = p->lattice;
    for (int j = 0; j < rows; j++)
        for (int k = 0; k < rows; k++)
            for (int a = p->point_row[j]; a < p->point_row[j + 1]; a++) {
                double *norm = p->norm + phase_separation(p, j, k - j, -p->point_column[a]);
                for (int b = p->point_row[k]; b < p->point_row[k + 1]; b++)
                    norm[p->point_column[b]] += 1;
            }
}

status phase_init(psf *p, const sys *s) {
    find_points(p->lattice, s, p->shift, 1, p);
    fill_influence(p);
    count_pairs(p);
    pairwise_init(p);
    phase_weights(p);
    return open_mirrors(p, s);
}

size_t psf_points(const psf *p, const double **x, const double **y) {
    *x = p->px;
    *y = p->py;
    return p->lattice > 0 ? (size_t)p->np : 0;
}

bool psf_is_phase(const psf *p) {
    return p->lattice > 0;
}

/* --- sums over pairs --- */

typedef struct { /* rows a0 .. a0+na of Y and C, and the work space of a thread */
    const psf *p;
    int a0, na;
    const double *y, *ct;
    size_t ldy, ldct;
    double *influence; /* room of psf_influence_product */
    double *g;         /* [points of a row][na] */
    double *grid;      /* [n + 1][points at once][n + 1] columns of g on the square of actuators */
    double *along;     /* [n + 1][points at once][lattice] the same, spread along x */
    double *z;         /* [lattice][points at once][lattice], even rows first */
    double *from, *to; /* [nsample][np] 2 [Z(x, x) - Z(x', x)], [np][nsample] with x' sampled; of
                         all threads, NULL: not wanted */
    double *factor;    /* [lattice][lattice] 4 where there is a point, else 0; of all threads */
} work;

int psf_lattice_rows(const psf *p) {
    return p->lattice;
}

int psf_thin_step(size_t most) {
    return most < 1 ? 1 : (int)((most - 1) / 2 * 2 + 1);
}

int psf_thin(const psf *p, size_t most, int *at) {
    const int step = psf_thin_step(most);
    int n = 0;
    for (int j = 0; j < psf_lattice_rows(p); j++) {
        const psf_strip z = psf_influence(p, j, 0, NULL);
        for (int i = 0; i < z.n; i++)
            if ((z.column[i] + step / 2 * j) % step == 0)
                at[n++] = z.first + i;
    }
    return n;
}

/* g = Y IF' - C for the points of lattice row j. */
static void command_rows(const work *k, int j) {
    const int first = k->p->point_row[j], n = k->p->point_row[j + 1] - first;
    for (int i = 0; i < n; i++)
        for (int a = 0; a < k->na; a++)
            k->g[(size_t)i * (size_t)k->na + (size_t)a] =
                -k->ct[(size_t)(first + i) * k->ldct + (size_t)a];
    for (int m = 0; m < psf_mirrors(k->p); m++)
        psf_influence_product(k->p, j, m, 0, n, k->na, 1.0, k->y, k->ldy, k->g, (size_t)k->na,
                              k->influence);
}

void psf_pair_sums(const psf *p, const double *d, double *all) {
#pragma omp parallel for schedule(dynamic)
    for (int j = 0; j < p->lattice; j++)
        for (int a = p->point_row[j]; a < p->point_row[j + 1]; a++) {
            all[a] = 0;
            for (int l = 0; l < p->lattice; l++) {
                const double *from = d + phase_separation(p, j, l - j, -p->point_column[a]);
                for (int b = p->point_row[l]; b < p->point_row[l + 1]; b++)
                    all[a] += from[p->point_column[b]];
            }
        }
}

void psf_pair_columns(const psf *p, const double *d, int j, int n, double *out) {
#pragma omp parallel for schedule(static)
    for (int l = 0; l < p->lattice; l++)
        for (int a = p->point_row[l]; a < p->point_row[l + 1]; a++) {
            int row = 0; /* of the other point */
            for (int b = j; b < j + n; b++) {
                while (b >= p->point_row[row + 1])
                    row++;
                out[(size_t)a + (size_t)(b - j) * (size_t)p->np] =
                    d[phase_separation(p, l, row - l, -p->point_column[a]) +
                      (size_t)p->point_column[b]];
            }
        }
}

/* z(x') (+)= sum_a IF_a(x') g_a on the whole lattice for n points, a of one mirror: along x in even
 * and in odd rows, which stand elsewhere, then along y. */
static void spread_one(const work *k, const psf_mirror *m, const double *g, int n, double beta) {
    const psf *p = k->p;
    const int side = m->n + 1, rows = p->lattice, wide = rows * n;
    const int from = m->first > k->a0 ? 0 : k->a0 - m->first,
              end = k->a0 + k->na - m->first < m->nact ? k->a0 + k->na - m->first : m->nact;
    memset(k->grid, 0, (size_t)(side * side * n) * sizeof *k->grid);
    for (int i = 0; i < n; i++)
        for (int a = from; a < end; a++)
            k->grid[m->place[a] % side + side * (i + n * (m->place[a] / side))] =
                g[(size_t)i * (size_t)k->na + (size_t)(a + m->first - k->a0)];
    for (int odd = 0; odd < 2; odd++) {
        const int count = (rows + 1 - odd) / 2;
        cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, rows, n * side, side, 1.0,
                    m->if_x[odd], side, k->grid, side, 0.0, k->along, rows);
        if (count > 0)
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, wide, count, side, 1.0, k->along,
                        wide, m->if_y + odd * side, 2 * side, beta,
                        k->z + (size_t)(odd ? (rows + 1) / 2 : 0) * (size_t)wide, wide);
    }
}

static void spread(const work *k, const double *g, int n) {
    for (int i = 0; i < psf_mirrors(k->p); i++) {
        const psf_mirror m = phase_mirror_at(k->p, i);
        spread_one(k, &m, g, n, i > 0);
    }
}

/* Row l of the lattice for the i-th of n points that were spread. */
static const double *row_of(const work *k, int i, int n, int l) {
    const int rows = k->p->lattice, at = l / 2 + (l % 2 ? (rows + 1) / 2 : 0);
    return k->z + (size_t)rows * (size_t)(at * n + i);
}

CLONES static void add_row(int n, const double *restrict factor, double own,
                           const double *restrict z, double *restrict to) {
    for (int i = 0; i < n; i++)
        to[i] += factor[i] * (own - z[i]);
}

/* sum(rho) += 4 [Z(x, x) - Z(x', x)] for the pairs of point a of lattice row j, the i-th of n. */
static void add_pairs(const work *k, int j, int a, int i, int n, double *sum) {
    const psf *p = k->p;
    const int rows = p->lattice;
    const double own = row_of(k, i, n, j)[p->point_column[a]];
    for (int l = 0; l < rows; l++) {
        const int from = p->point_row[l], end = p->point_row[l + 1];
        if (from == end)
            continue;
        const int c = p->point_column[from];
        add_row(p->point_column[end - 1] - c + 1, k->factor + l * rows + c, own,
                row_of(k, i, n, l) + c,
                sum + phase_separation(p, j, l - j, -p->point_column[a]) + c);
    }
}

/* The same pairs one by one, those of a sampled point and any other. */
static void keep_pairs(const work *k, int j, int a, int i, int n) {
    const psf *p = k->p;
    const double own = row_of(k, i, n, j)[p->point_column[a]];
    double *from = p->sample_of[a] < 0 ? NULL : k->from + (size_t)p->sample_of[a] * (size_t)p->np;
    double *to = k->to + (size_t)a * (size_t)p->nsample;
    for (int l = 0; l < p->lattice; l++) {
        const double *z = row_of(k, i, n, l);
        for (int b = p->point_row[l]; from != NULL && b < p->point_row[l + 1]; b++)
            from[b] += 2 * (own - z[p->point_column[b]]);
        for (int r = p->sample_row[l]; r < p->sample_row[l + 1]; r++)
            to[r] = 2 * (own - z[p->point_column[p->sample[r]]]);
    }
}

/* S(x, x') += what its two orders have of it. */
static void join_pairs(const work *k) {
    const size_t np = (size_t)k->p->np, nr = (size_t)k->p->nsample;
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < nr; r++)
        for (size_t b = 0; b < np; b++)
            k->from[r * np + b] += k->to[b * nr + r];
}

static status open_work(const psf *p, int na, work *k) {
    const size_t row = (size_t)(p->lattice), side = phase_side(p);
    status st;
    TRY(ALLOC(k->influence, psf_influence_room(p), "influence functions"));
    TRY(ALLOC(k->g, row * (size_t)na, "commands of a row of points"));
    TRY(ALLOC(k->grid, side * AT_ONCE * side, "commands of some points"));
    TRY(ALLOC(k->along, side * AT_ONCE * row, "phases of some points"));
    TRY(ALLOC(k->z, row * AT_ONCE * row, "phases of some points"));
done:
    return st;
}

size_t psf_phase_work(const sys *s, const psf_opts *o, size_t na, int threads) {
    size_t side = (size_t)s->dm.nssp + 1;
    for (int i = 0; i < s->fit.nmirror; i++)
        side = (size_t)s->fit.mirrors[i].nssp >= side ? (size_t)s->fit.mirrors[i].nssp + 1 : side;
    const size_t row = o->phase ? (size_t)phase_lattice(s, o) : 0;
    const size_t nsep = (2 * row + 1) * (2 * row + 1);
    const size_t spread = row > 0 ? AT_ONCE * (side * side + side * row + row * row) : 0;
    const size_t room = (PSF_PRODUCT_ROWS + PSF_PRODUCT_POINTS) * side;
    const size_t single = psf_pairwise_count_of(s, o) * (2 * sizeof(double) + sizeof(float));
    return (PARTS * nsep + row * row + (size_t)threads * (row * na + spread + room)) *
               sizeof(double) +
           single;
}

static void close_work(work *k) {
    free(k->influence);
    free(k->g);
    free(k->grid);
    free(k->along);
    free(k->z);
}

static status add_part(work k, int part, double *sum) {
    const psf *p = k.p;
    const int rows = p->lattice;
    status st = open_work(p, k.na, &k);
    for (int j = part; j < rows && st == MOAO_OK; j += PARTS) {
        command_rows(&k, j);
        const int from = p->point_row[j], end = p->point_row[j + 1];
        for (int a = from, n; a < end; a += n) {
            n = end - a < AT_ONCE ? end - a : AT_ONCE;
            spread(&k, k.g + (size_t)(a - from) * (size_t)k.na, n);
            for (int i = 0; i < n; i++) {
                add_pairs(&k, j, a + i, i, n, sum);
                if (k.from != NULL)
                    keep_pairs(&k, j, a + i, i, n);
            }
        }
    }
    close_work(&k);
    return st;
}

status psf_accumulate_phase(const psf *p, size_t a0, size_t na, const double *y, size_t ldy,
                            const double *ct, size_t ldct, double *sum, double *pairwise) {
    const size_t nsep = psf_sep_count(p);
    const int rows = p->lattice;
    work k = {.p = p,
              .a0 = (int)a0,
              .na = (int)na,
              .y = y,
              .ct = ct,
              .ldy = ldy,
              .ldct = ldct,
              .from = p->nsample > 0 ? pairwise : NULL};
    double *parts = NULL;
    status st, worst = MOAO_OK;
    if (na == 0)
        return MOAO_OK;
    TRY(ALLOC(parts, PARTS * nsep, "sums over pairs"));
    if (k.from != NULL)
        TRY(ALLOC(k.to, psf_pairwise_count(p), "pairs of points"));
    TRY(ALLOC(k.factor, (size_t)(rows * rows), "points of the pupil"));
    for (int l = 0; l < rows; l++)
        for (int b = p->point_row[l]; b < p->point_row[l + 1]; b++)
            k.factor[l * rows + p->point_column[b]] = 4;
    const int blas = blas_alone();
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < PARTS; i++) {
        const status mine = add_part(k, i, parts + (size_t)i * nsep);
        if (mine != MOAO_OK)
#pragma omp critical
            worst = mine;
    }
    blas_together(blas);
    for (int i = 0; i < PARTS; i++)
        for (size_t s = 0; s < nsep; s++)
            sum[s] += parts[(size_t)i * nsep + s];
    if (k.from != NULL)
        join_pairs(&k);
    st = worst;
done:
    free(k.to);
    free(k.factor);
    free(parts);
    return st;
}
