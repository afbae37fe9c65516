/* Sweeps of the GPU's singular value decomposition of up to 128 columns, by a model of it on the
 * CPU (src/gpu/lowrank/svd_core.cuh, svd_warp.cuh: rows and columns sorted, two QR factorisations,
 * rotations in the same order of pairs with the same rule to end), as it is and with what might
 * save some of them: columns sorted again, more QR factorisations, coarser tangents, and sweeps in
 * single precision first. These have columns of norm about 1 with powers of two beside them, so
 * that graded matrices stay in range; J is multiplied up (J) or taken from a QR of L^T X (Q), made
 * orthonormal in double precision, and X = L J goes on in double. Errors of the values, over the
 * largest and over their own, and the largest cosine of two columns are in (n + 4) u, the worst of
 * a kind; start: the largest cosine of L J. bench_rotations [matrices of each kind, 2]
 * [orders, 16 32 64 128] */
#include "rotations_case.h"

#define SWEEPS 30
#define EPS 0x1p-53

/* ---- Rotations */

typedef struct {
    bool single, product; /* precision of the columns; J as well */
    bool calm_ends;       /* a sweep of small rotations is the last one, else one of none */
    bool sorted;          /* columns by their norms before every sweep */
    int bits;             /* of tangents */
    double tol, floor, calm;
    matrix x, j;
    double square[MOST], scale[MOST]; /* column c is scale[c] times what is stored */
    double most[MOST];
    bool weak;
    double rotated; /* the largest cosine or tangent of a sweep's rotations */
    int count;      /* rotations of a sweep */
} rotations;

static double entry(const rotations *r, double x) {
    return r->single ? (double)(float)x : x;
}
static double product_of(const rotations *r, int a, int b) {
    double s[8] = {0}; /* as many lanes */
    for (int i = 0; i < order; i++)
        s[i % 8] = entry(r, s[i % 8] + r->x[a][i] * r->x[b][i]);
    for (int d = 4; d; d /= 2)
        for (int i = 0; i < d; i++)
            s[i] = entry(r, s[i] + s[i + d]);
    return s[0] * r->scale[a] * r->scale[b];
}
static void refresh(rotations *r) {
    for (int c = 0; c < order; c++)
        r->square[c] = product_of(r, c, c);
    r->weak = false;
}
static void turn(const rotations *r, double *x, double *y, double cx, double sx, double sy) {
    for (int i = 0; i < order; i++) {
        const double u = x[i], v = y[i];
        x[i] = entry(r, cx * u - sx * v), y[i] = entry(r, cx * v + sy * u);
    }
}
static double rounded(double t, int bits) {
    int e;
    const double m = frexp(t, &e);
    return ldexp(rint(ldexp(m, bits)), e - bits);
}
static void rotate(rotations *r, int a, int b) {
    const double xx = r->square[a], yy = r->square[b];
    if (!(xx > r->floor && yy > r->floor))
        return;
    const double p = product_of(r, a, b), u = 1 / sqrt(xx), v = 1 / sqrt(yy), cosine = p * u * v;
    if (!(fabs(cosine) > r->tol))
        return;
    const double half = 0.5 * ((yy - xx) * u) * v;
    const double zeta = half / cosine,
                 exact = copysign(1 / (fabs(zeta) + sqrt(1 + zeta * zeta)), zeta);
    const double t = rounded(!isfinite(zeta) ? 0.5 * cosine / half : exact, r->bits);
    const double c = 1 / sqrt(1 + t * t), sn = c * t, ratio = r->scale[b] / r->scale[a];
    /* the stored columns keep their scales */
    turn(r, r->x[a], r->x[b], entry(r, c), entry(r, sn * ratio), entry(r, sn / ratio));
    if (r->product)
        turn(r, r->j[a], r->j[b], entry(r, c), entry(r, sn), entry(r, sn));
    r->square[a] = xx - t * p, r->square[b] = yy + t * p;
    r->weak |= !(8 * r->square[a] > xx) || !(8 * r->square[b] > yy);
    r->rotated = fmax(r->rotated, fmax(fabs(cosine), fabs(t)));
    r->count++;
}
/* All pairs once. Above 32 columns two x and two y make a group, below one of each. */
static void sweep(rotations *r) {
    const int per = order > 32 ? 2 : 1, most = order / (2 * per);
    int x[MOST / 2][2], y[MOST / 2][2];
    r->rotated = 0, r->count = 0;
    for (int g = 0; g < most; g++)
        for (int e = 0; e < per; e++)
            x[g][e] = 2 * per * g + e, y[g][e] = 2 * per * g + per + e;
    for (int c = 0; c < order && per == 2; c += 2)
        rotate(r, c, c + 1);
    refresh(r);
    for (int group = most;; group /= 2) {
        for (int s = 0; s < group; s++) {
            for (int g = 0; g < most && s; g++)
                if (!(g & (s & -s)))
                    for (int e = 0; e < per; e++) {
                        const int other = g ^ (s & -s), was = y[g][e];
                        y[g][e] = y[other][e], y[other][e] = was;
                    }
            if (r->weak || s % (per == 2 ? 8 : 16) == 0)
                refresh(r);
            for (int round = 0; round < per; round++)
                for (int g = 0; g < most; g++)
                    for (int e = 0; e < per; e++)
                        rotate(r, x[g][e], y[g][e ^ round]);
        }
        if (group == 1)
            return;
        for (int g = 0; g < most; g++) /* the lower half has all x, the upper one all y */
            for (int e = 0; e < per && !(g & group / 2); e++) {
                const int other = g ^ group / 2, was = y[g][e];
                y[g][e] = x[other][e], x[other][e] = y[other][e], y[other][e] = was;
            }
    }
}
/* A column that rotations have left nothing of but rounding errors never meets another one again.
 */
static void drop(rotations *r, double noise) {
    refresh(r);
    for (int c = 0; c < order; c++) {
        r->most[c] = fmax(r->most[c], r->square[c]);
        if (r->square[c] <= noise * r->most[c])
            memset(r->x[c], 0, sizeof r->x[c]);
    }
    refresh(r);
}
static void sort_columns(rotations *r) {
    static matrix x;
    double square[MOST], most[MOST];
    int at[MOST] = {0};
    memcpy(x, r->x, sizeof x), memcpy(square, r->square, sizeof square);
    memcpy(most, r->most, sizeof most);
    for (int c = 0; c < order; c++)
        at[c] = c;
    keys = square, qsort(at, (size_t)order, sizeof *at, by_key);
    for (int c = 0; c < order; c++) {
        memcpy(r->x[c], x[at[c]], sizeof x[c]);
        r->square[c] = square[at[c]], r->most[c] = most[at[c]];
    }
}
/* Until a sweep is calm (above 32 columns) or rotates nothing; how many. */
static int rotate_all(rotations *r, double noise, int rotated[]) {
    memset(r->most, 0, sizeof r->most);
    for (int n = 0; n < SWEEPS; n++) {
        drop(r, noise);
        if (r->sorted)
            sort_columns(r);
        sweep(r);
        rotated[n] = r->count;
        if (r->count == 0 || (r->calm_ends && r->rotated <= r->calm))
            return n + 1;
    }
    return SWEEPS;
}

/* ---- J */

/* c := a b, or a^T b. */
static void multiply(matrix c, matrix a, matrix b, bool turned) {
    static matrix t;
    memcpy(t, a, sizeof t);
    if (!turned)
        transpose(t);
    for (int j = 0; j < order; j++)
        for (int i = 0; i < order; i++)
            c[j][i] = dot(t[i], b[j]);
}
/* J (3 I - J^T J) / 2, twice. */
static void orthonormal(matrix j) {
    static matrix g, t;
    for (int step = 0; step < 2; step++) {
        multiply(g, j, j, true);
        for (int c = 0; c < order; c++)
            for (int i = 0; i < order; i++)
                g[c][i] = (i == c ? 1.5 : 0) - 0.5 * g[c][i];
        multiply(t, j, g, false);
        memcpy(j, t, sizeof t);
    }
}
/* J of X = L J with orthogonal columns: Q of L^T X, the columns in descending order. */
static void recover(matrix j, matrix l, matrix x) {
    static matrix w, y;
    double norm[MOST] = {0};
    int at[MOST] = {0};
    for (int c = 0; c < order; c++)
        norm[c] = dot(x[c], x[c]), at[c] = c;
    keys = norm, qsort(at, (size_t)order, sizeof *at, by_key);
    for (int c = 0; c < order; c++)
        for (int i = 0; i < order; i++)
            w[c][i] = norm[at[c]] > 0 ? x[at[c]][i] / sqrt(norm[at[c]]) : 0;
    multiply(y, l, w, true);
    qr(y, j);
}

/* ---- Errors */

static double seen(double worst, double e) {
    return e > worst || e != e ? e : worst;
}
typedef struct {
    double values, relative, skew; /* in (n + 4) u */
} errors;
static void errors_of(errors *e, matrix x, const long double *s) {
    double norm[MOST] = {0};
    int at[MOST] = {0};
    const double unit = (order + 4) * EPS;
    for (int c = 0; c < order; c++)
        norm[c] = sqrt(dot(x[c], x[c])), at[c] = c;
    keys = norm, qsort(at, (size_t)order, sizeof *at, by_key);
    for (int c = 0; c < order; c++) {
        const double off = (double)fabsl(norm[at[c]] - s[c]);
        e->values = seen(e->values, off / (double)s[0] / unit);
        e->relative = seen(e->relative, off / (double)s[c] / unit);
        for (int b = 0; b < c; b++)
            if (norm[b] > 0 && norm[c] > 0)
                e->skew = seen(e->skew, fabs(dot(x[b], x[c])) / norm[b] / norm[c] / unit);
    }
}

/* ---- The ways */

/* Of all matrices of a kind. */
typedef struct {
    int sweeps, most, single, single_most, done;
    double start;
    errors e;
} result;

static double largest_cosine(const rotations *r) {
    double w = 0;
    for (int b = 0; b < order; b++)
        for (int c = 0; c < b; c++)
            if (r->square[b] > 0 && r->square[c] > 0)
                w = fmax(w, fabs(product_of(r, b, c)) / sqrt(r->square[b]) / sqrt(r->square[c]));
    return w;
}
/* calm32: what ends the sweeps in single precision. */
static void solve(result *out, matrix l, const long double *s, char way, double calm32) {
    static rotations r, d;
    int rotated[SWEEPS];
    memset(&d, 0, sizeof d);
    const double root = sqrt((double)order);
    d.tol = EPS * (root > 10 ? root : 10), d.calm = sqrt(d.tol / (4.0 * order));
    if (way == 'S')
        d.calm = fmin(d.calm, 0x1p17 * d.tol);
    d.sorted = way == 'O';
    memcpy(d.x, l, sizeof(matrix));
    if (way == 'P')
        qr(d.x, NULL), transpose(d.x), qr(d.x, NULL), transpose(d.x);
    d.floor = 0x1p-960, d.bits = way == 'S' ? 19 : 24, d.calm_ends = order > 32 || way == 'S';
    for (int c = 0; c < order; c++)
        d.scale[c] = 1;
    if (way == 'J' || way == 'Q') {
        memset(&r, 0, sizeof r);
        r.single = r.calm_ends = true, r.product = way == 'J', r.bits = 24,
        r.tol = 0x1p-24 * (root > 10 ? root : 10);
        r.calm = calm32, r.floor = d.floor;
        for (int c = 0; c < order; c++) {
            const double norm = sqrt(dot(l[c], l[c]));
            r.scale[c] = norm > 0 ? scalbn(1, ilogb(norm)) : 1, r.j[c][c] = 1;
            for (int i = 0; i < order; i++)
                r.x[c][i] = (float)(l[c][i] / r.scale[c]);
        }
        const int n = rotate_all(&r, 1024 * 0x1p-48, rotated);
        out->single += n, out->single_most = n > out->single_most ? n : out->single_most;
        for (int c = 0; c < order; c++)
            for (int i = 0; i < order; i++)
                r.x[c][i] *= r.scale[c];
        if (way == 'J')
            orthonormal(r.j);
        else
            recover(r.j, l, r.x);
        multiply(d.x, l, r.j, false);
        refresh(&d);
        out->start = fmax(out->start, largest_cosine(&d));
    }
    const int n = rotate_all(&d, 1024 * EPS * EPS, rotated);
    out->sweeps += n, out->most = n > out->most ? n : out->most, out->done++;
    errors_of(&out->e, d.x, s);
}

static void print(const char *way, const result *r) {
    printf("  %-8s single %4.1f (%2d)  double %4.1f (%2d)  start %.0e  errors %7.2f %9.2g %6.2f\n",
           way, (double)r->single / r->done, r->single_most, (double)r->sweeps / r->done, r->most,
           r->start, r->e.values, r->e.relative, r->e.skew);
}

int main(int argc, char **argv) {
    static const char kinds[] = "GNCWKEODBRS";
    static const char *const names[] = {"normal entries",     "normal, columns of equal norms",
                                        "geometric over 1e7", "geometric over 1e14",
                                        "covariance tiles",   "clusters",
                                        "orthogonal",         "rank n / 2",
                                        "B D, 20 decades",    "D B, 20 decades",
                                        "D B D, 20 decades"};
    /* as it is; columns sorted before each sweep; four QR factorisations instead of two; by shears;
     * in single precision first, until a sweep is calm to 0.01 or 0.1 */
    static const struct {
        const char *name;
        char way;
        double calm;
    } ways[] = {{"now", '-', 0},    {"sorted", 'O', 0},    {"four QR", 'P', 0},
                {"shears", 'S', 0}, {"J 0.01", 'J', 0.01}, {"Q 0.01", 'Q', 0.01},
                {"Q 0.1", 'Q', 0.1}};
    enum { WAYS = sizeof ways / sizeof *ways };
    static matrix a, l;
    static long double s[MOST];
    const int count = argc > 1 ? atoi(argv[1]) : 2, sizes[] = {16, 32, 64, 128};
    for (int at = 0; at < (argc > 2 ? argc - 2 : 4); at++) {
        order = argc > 2 ? atoi(argv[2 + at]) : sizes[at];
        if (order < 4 || order > MOST || (order & (order - 1))) {
            fprintf(stderr, "orders: 4, 8, ... %d\n", MOST);
            return 1;
        }
        for (int k = 0; kinds[k]; k++) {
            result r[WAYS] = {{0}};
            for (int b = 0; b < count; b++) {
                make(a, kinds[k]);
                reference(a, s);
                memcpy(l, a, sizeof l);
                triangle(l);
                for (int w = 0; w < WAYS; w++)
                    solve(&r[w], l, s, ways[w].way, ways[w].calm);
            }
            printf("%d %c %s\n", order, kinds[k], names[k]);
            for (int w = 0; w < WAYS; w++)
                print(ways[w].name, &r[w]);
        }
    }
    return 0;
}
