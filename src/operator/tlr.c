/* The factor as a tile low-rank matrix (tlr/tlr.h), on the CPU: less memory than the triangle, and
 * W to the accuracy of the dense factor all the same, because every target is refined with Cmm0
 * itself until its residual is small; each step shrinks it by what compression has changed. T of an
 * exposure is not stored: a panel of it is made, used by all targets, and overwritten. */
#include "operator/panels.h"

#include "tlr/tlr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SETTLED 1e-10 /* residual of a target, relative to its right-hand side, that is enough */
#define SLOW 0.25     /* a step must shrink the residual at least by that */
#define NOISE_PART 8  /* tolerance: the least noise of a slope, divided by this */
#define TIGHTER 16    /* of a factor whose steps are slow */

typedef struct {
    linop base;
    int64_t v;        /* rows of W of a target */
    tlr_layout order; /* of the measurements: tiles of near subapertures of one sensor */
    int64_t *first;   /* [sensors + 1] measurements before each */
    tlr *l;
    double tau; /* of l [arcsec^2]; 0: no tile of it is compressed */
    bool say;
    int64_t ldt;   /* of the panel of T */
    double *panel; /* m x width: columns of Cmm0 or of T */
    double *r, *x; /* v x m: residual of a target, and the step that it leads to */
    double *strip; /* while a factor is made: columns of Cmm0 of one sensor, in their own order */
    int held;      /* which one; -1: none */
} compressed;

static int64_t tile_order(int64_t m) {
    return m >= 20000 ? 256 : m >= 5000 ? 128 : 64;
}

static int64_t widest_sensor(const sys *s) {
    int64_t most = 0;
    for (int w = 0; w < s->nsensor; w++)
        most = 2 * s->sensors[w].nsub > most ? 2 * s->sensors[w].nsub : most;
    return most;
}

/* How much compression saves is known when it is done: room for half of what the triangle has, for
 * the blocks on the diagonal, and for what a super-panel is made in. */
static void bytes(const linop_case *z, linop_bytes *b) {
    const size_t m = z->s->m, v = (size_t)z->rows, d = sizeof(double);
    const size_t super = 8 * (size_t)tile_order((int64_t)m), wide = super < m ? super : m;
    linop_add(b, "compressed factor of Cmm0, at least", (m * m / 4 + m * wide) * d);
    linop_add(b, "what it is made in", m * (4 * wide + (size_t)widest_sensor(z->s)) * d);
    linop_add(b, "panel of Cmm0 or of Cmm of an exposure", m * z->width * d);
    linop_add(b, "residual of a target", 2 * v * m * d);
    b->per_target = "W and residual covariance of a target";
    b->target = v * m * d + v * v * d + matcov_target_bytes(z->s, z->nlayer);
}

/* Positions of the subapertures of all sensors, in the pupil, and their order. */
static status order_measurements(compressed *o) {
    const sys *s = o->base.e->s;
    const int64_t points = (int64_t)s->m / 2;
    double *x = NULL, *y = NULL;
    int64_t *start = NULL, at = 0;
    status st;
    TRY(ALLOC(x, (size_t)points, "places of subapertures"));
    TRY(ALLOC(y, (size_t)points, "places of subapertures"));
    TRY(ALLOC(start, (size_t)s->nsensor + 1, "subapertures of sensors"));
    TRY(ALLOC(o->first, (size_t)s->nsensor + 1, "measurements of sensors"));
    for (int w = 0; w < s->nsensor; w++) {
        for (int k = 0; k < s->sensors[w].nsub; k++, at++) {
            x[at] = s->sensors[w].sub[k] % s->sensors[w].nssp;
            y[at] = s->sensors[w].sub[k] / s->sensors[w].nssp;
        }
        start[w + 1] = at;
        o->first[w + 1] = 2 * at;
    }
    TRY(tlr_layout_points(&(tlr_points){s->nsensor, start, x, y, 2}, tile_order((int64_t)s->m),
                          TLR_KD, &o->order));
done:
    free(x), free(y), free(start);
    return st;
}

static void compressed_close(linop *base) {
    compressed *o = (compressed *)base;
    if (o == NULL)
        return;
    const engine *e = base->e;
    tlr_close(o->l);
    void *const mine[] = {o->panel, o->r, o->x, o->strip};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        e->be->release(e->ctx, mine[i]);
    tlr_layout_free(&o->order);
    free(o->first);
    free(o);
}

static status compressed_open(engine *e, const linop_setup *u, linop **out) {
    compressed *o = NULL;
    status st = ALLOC(o, 1, "compressed operator");
    if (st == MOAO_OK) {
        o->base = (linop){.kind = &linop_tlr, .e = e};
        o->v = u->size.rows;
        o->say = u->say && e->c->rank == 0;
        if (strcmp(e->be->name, "cpu") != 0)
            st = status_fail(MOAO_INPUT, "the operator tlr computes on the CPU only");
    }
    if (st == MOAO_OK)
        st = order_measurements(o);
    if (st == MOAO_OK)
        st = engine_doubles(e, e->m * e->width, "columns of Cmm", &o->panel);
    if (st == MOAO_OK)
        st = engine_doubles(e, o->v * e->m, "residual of a target", &o->r);
    if (st == MOAO_OK)
        st = engine_doubles(e, o->v * e->m, "residual of a target", &o->x);
    if (st == MOAO_OK)
        st = engine_work(e, e->be->workspace(BACKEND_TRMM, BACKEND_D, o->v, e->width));
    if ((st = comm_agree(e->c, st)) != MOAO_OK) {
        compressed_close(&o->base);
        o = NULL;
    }
    *out = &o->base;
    return st;
}

/* --- factor */

/* tlr_fill: entries of Cmm0 in the order of the tiles. Tiles do not span sensors, so a sensor has
 * the same place in both orders, and its columns are made once for all super-panels in it. */
static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    compressed *o = arg;
    const engine *e = o->base.e;
    const int64_t m = e->m, *perm = o->order.perm;
    status st = MOAO_OK;
    for (int64_t j = j0; j < j0 + nj; j++) {
        int w = 0;
        while (o->first[w + 1] <= j)
            w++;
        const int64_t from = o->first[w], rows = m - from;
        if (o->held != w)
            TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, from, rows, from,
                                 o->first[w + 1] - from, o->strip, rows));
        o->held = w;
        const double *column = o->strip + (perm[j] - from) * rows;
        for (int64_t i = 0; i < ni;
             i++) /* rows of sensors before this one lie above the diagonal */
            a[i + (j - j0) * lda] = perm[i0 + i] >= from ? column[perm[i0 + i] - from] : 0;
    }
done:
    return st;
}

/* Least eigenvalue of the noise of the two slopes of a subaperture, of all of them. */
static status least_noise(const engine *e, double *least) {
    matcov_model m = {0};
    status st = matcov_model_init(e->mc, &m);
    *least = INFINITY;
    for (int64_t k = 0; st == MOAO_OK && k < e->m / 2; k++) {
        const double xx = m.noise[3 * k], yy = m.noise[3 * k + 1], xy = m.noise[3 * k + 2];
        *least = fmin(*least, (xx + yy) / 2 - hypot((xx - yy) / 2, xy));
    }
    matcov_model_free(&m);
    return st;
}

static void tell(const compressed *o, const tlr_report *report) {
    tlr_stats s;
    tlr_statistics(o->l, &s);
    if (o->say)
        progress_note("factor compressed to %.1e arcsec^2 a tile: mean rank %.1f of %d, %.3f GB of "
                      "the %.3f of the triangle%s",
                      report->tau, s.mean, (int)tile_order(o->base.e->m), s.bytes / 1e9,
                      s.bytes_dense / 1e9,
                      report->dense ? "; compressed it was not positive definite" : "");
}

/* A factor of the profile loaded, with the tolerance in hand. */
static status make_factor(compressed *o, int *minor) {
    engine *e = o->base.e;
    const double from = report_now(), m = (double)e->m;
    const tlr_options with = {.tau = o->tau, .cut = -1, .width = 8 * tile_order(e->m), .seed = 1};
    const tlr_rescue rescue = {.retries = 2, .dense = true};
    const tlr_source source = {.layout = &o->order, .fill = fill, .arg = o};
    tlr_report report;
    status st;
    report_phase("factor: compressed");
    tlr_close(o->l);
    o->l = NULL;
    o->held = -1;
    TRY(engine_doubles(e, e->m * widest_sensor(e->s), "columns of Cmm0 of a sensor", &o->strip));
    st = tlr_factor(e->be, e->ctx, &source, 'L', &with, &rescue, &o->l, &report);
    if (st == MOAO_NUMERIC && report.minor > 0) { /* told by tor_factor, in the sensors' order */
        *minor = (int)o->order.perm[report.minor - 1] + 1;
        status_clear();
        st = MOAO_OK;
    } else if (st == MOAO_OK) {
        o->tau = report.dense ? 0 : report.tau;
        tell(o, &report);
    }
done:
    e->be->release(e->ctx, o->strip);
    o->strip = NULL;
    e->rep->wall[STAGE_FACTOR] += report_now() - from;
    e->rep->flops[STAGE_FACTOR] += m * m * m / 3;
    return st;
}

static status compressed_factor(linop *base, const profile *p, int *minor) {
    compressed *o = (compressed *)base;
    double noise;
    status st;
    TRY(engine_load(base->e, p));
    TRY(least_noise(base->e, &noise));
    o->tau = noise > 0 ? noise / NOISE_PART : 0;
    st = make_factor(o, minor);
done:
    return st;
}

/* --- solve */

/* Frobenius norm of v x m numbers. */
static double norm(const double *a, int64_t count) {
    double s = 0;
    for (int64_t i = 0; i < count; i++)
        s += a[i] * a[i];
    return sqrt(s);
}

/* Columns of x from the order of the tiles into that of the measurements, place by place: `hold` is
 * one column, `seen` m marks. */
static void restore_order(double *x, int64_t v, const int64_t *perm, int64_t m, double *hold,
                          char *seen) {
    const size_t bytes = sizeof(double) * (size_t)v;
    for (int64_t j = 0; j < m; j++)
        seen[j] = 0;
    for (int64_t start = 0; start < m; start++) {
        if (seen[start])
            continue;
        memcpy(hold, x + start * v, bytes);
        for (int64_t to = perm[start];; to = perm[to]) {
            double *place = x + to * v;
            for (int64_t i = 0; i < v; i++) {
                const double was = place[i];
                place[i] = hold[i];
                hold[i] = was;
            }
            seen[to] = 1;
            if (to == start)
                break;
        }
    }
}

/* W += r M^-1, M the compressed matrix; the step is left in x. */
static status take_step(compressed *o, const wrows *w, double *hold, char *seen) {
    const int64_t m = o->base.e->m, v = w->rows, *perm = o->order.perm;
    status st;
    for (int64_t p = 0; p < m; p++)
        memcpy(o->x + p * v, o->r + perm[p] * v, sizeof(double) * (size_t)v);
    TRY(tlr_solve(o->l, 'R', 'A', v, o->x, v > 0 ? v : 1));
    restore_order(o->x, v, perm, m, hold, seen);
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < v; i++)
            w->w[i + j * w->ld] += o->x[i + j * v];
done:
    return st;
}

/* r -= x Cmm0, panel by panel. */
static status subtract_step(compressed *o, int64_t v) {
    engine *e = o->base.e;
    const int64_t m = e->m;
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < m; j += n) {
        n = engine_width(e, j, m);
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, 0, m, j, n, o->panel, m));
        TRY(engine_gemm(e, 'N', 'N', v, n, m, -1.0, o->x, v, o->panel, m, 1.0, o->r + j * v, v));
    }
    e->rep->flops[STAGE_SOLVE] += 4.0 * (double)(v * m) * (double)m;
done:
    return st;
}

/* W of one target from its right-hand side. Where steps are slow, the factor is made anew, tighter,
 * and at last without compression. */
static status solve_target(compressed *o, const wrows *w, double *hold, char *seen) {
    const int64_t m = o->base.e->m, v = w->rows;
    double size, before = 1;
    status st = MOAO_OK;
    for (int64_t j = 0; j < m; j++) {
        memcpy(o->r + j * v, w->w + j * w->ld, sizeof(double) * (size_t)v);
        memset(w->w + j * w->ld, 0, sizeof(double) * (size_t)v);
    }
    size = norm(o->r, v * m);
    while (before > SETTLED && size > 0) {
        TRY(take_step(o, w, hold, seen));
        TRY(subtract_step(o, v));
        const double now = norm(o->r, v * m) / size;
        if (!(now <= SLOW * before) && now > SETTLED) {
            int minor = 0;
            if (o->tau == 0)
                TRY(status_fail(
                    MOAO_NUMERIC,
                    "the residual of W stays at %.1e of its right-hand side: Cmm is too "
                    "badly conditioned; give the sensors more noise",
                    now));
            o->tau = o->tau > 1e-9 ? o->tau / TIGHTER : 0;
            TRY(make_factor(o, &minor));
            if (minor > 0)
                TRY(status_fail(MOAO_NUMERIC, "Cmm is not positive definite"));
        }
        before = now;
    }
done:
    return st;
}

static status compressed_solve(linop *base, int n, const wrows *w, double *const *own) {
    compressed *o = (compressed *)base;
    double *hold = NULL;
    char *seen = NULL;
    status st;
    (void)own;
    report_phase("solve: compressed triangles and residuals");
    TRY(ALLOC(hold, (size_t)o->v, "column of W"));
    TRY(ALLOC(seen, (size_t)base->e->m, "columns of W"));
    for (int k = 0; k < n; k++) {
        TRY(solve_target(o, &w[k], hold, seen));
        engine_progress(base->e);
    }
done:
    free(hold), free(seen);
    return st;
}

/* --- exposures */

/* Columns j .. j + n of T, from row j on. */
static status compressed_panel(linop *base, int64_t j, int64_t n) {
    compressed *o = (compressed *)base;
    engine *e = base->e;
    o->ldt = e->m - j;
    const status st =
        e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, j, o->ldt, j, n, o->panel, o->ldt);
    if (st != MOAO_OK)
        return st;
    for (int64_t i = 0; i < n; i++)
        o->panel[i + i * o->ldt] *= 0.5;
    return engine_flip(e, "flip-t", o->panel + o->ldt / 2);
}

static status compressed_columns(linop *base, const wrows *w, int64_t j, int64_t n, double *z,
                                 int64_t ldz) {
    const compressed *o = (const compressed *)base;
    return panel_product(base->e, w, j, n, o->panel, o->ldt, z, ldz);
}

const linop_kind linop_tlr = {
    .size = sizeof(linop_kind),
    .name = "tlr",
    .exact = true,
    .together = true,
    .bytes = bytes,
    .open = compressed_open,
    .close = compressed_close,
    .factor = compressed_factor,
    .solve = compressed_solve,
    .panel = compressed_panel,
    .columns = compressed_columns,
};
