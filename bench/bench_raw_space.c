/* What rounding to FP16 does to images where products of an exposure are made before the normal
 * matrix M of the mirror is divided by ("raw space") instead of after it. D+ = H D', H = J M^-1, J
 * without piston (model section 6), and cond(M) grows with the mirror.
 *   W  = H V,  V = (D'Ctm0) Cmm0^-1,  dQ = D'(Ctm - beta Ctm0)
 *   Y  = H [(V dT + 1/2 V (K - beta K0) - dQ) V' - beta/2 Q0 V'] H',  Q0 = D'Ctm0
 * against Y of the same with W and D+ (the difference form). All but what is said to be in FP16
 * is in double precision, W included; halves and their sums in single precision are the CPU
 * backend's, bit for bit those of a device but for what tensor cores cut off.
 *
 * bench_raw_space FILE [key=value ...] [all=1] [exact=0]: parameters as of `moao run`; one
 * reconstructor (the first), its exposures, all targets. all=0: only what is asked first, no
 * fallbacks. exact=1: Y in double precision by W, D+ and whole matrices beside the same in raw
 * space, of the first target and exposure. Of psf.residual: phase the products are V dT V' and V
 * dCpm'. */
#include "raw_space_case.h"

/* --- a target */

typedef struct {
    double *v, *w, *q0, *b0w; /* V, W (v x m), D'Ctm0, B0 W' */
    fp16 vh, wh;
} target;

/* c: Cholesky factor of Cmm0. */
static target solve(const matcov *mc0, const double *c, const double *dir) {
    target g;
    double *ctm = ctm_of(mc0, dir, false);
    g.q0 = numbers(size(v, m));
    stencil(false, m, ctm, g.q0);
    free(ctm);
    g.v = numbers(size(v, m));
    g.w = numbers(size(v, m));
    memcpy(g.v, g.q0, sizeof *g.v * size(v, m));
    for (int pass = 0; pass < 2; pass++)
        cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, pass == 0 ? CblasTrans : CblasNoTrans,
                    CblasNonUnit, v, m, 1, c, m, g.v, v);
    gemm('N', 'N', v, m, v, 1, h, v, g.v, v, 0, g.w);
    g.b0w = numbers(size(v, v));
    gemm('N', 'T', v, v, m, 1, g.q0, v, g.v, v, 0, g.b0w);
    both_sides(g.b0w);
    g.vh = to_fp16(BACKEND_D, true, v, m, g.v);
    g.wh = to_fp16(BACKEND_D, false, v, m, g.w);
    return g;
}

static void free_target(target *g) {
    free(g->v), free(g->w), free(g->q0), free(g->b0w);
    drop(&g->vh), drop(&g->wh);
}

/* Adds 1/2 W (K - beta K0) W' -+ beta/2 B0 W' to y. */
static void add_constants(const target *g, const matcov *diff, double beta, double *y) {
    double *x = numbers(2 * (size_t)v), *ones = numbers((size_t)m);
    for (int w = 0; w < s.nsensor; w++)
        for (int axis = 0; axis < 2 && s.sensors[w].lgs; axis++) {
            const int n = s.sensors[w].nsub, first = (int)s.sensors[w].first + axis * n;
            for (int j = 0; j < n; j++)
                ones[j] = 1;
            cblas_dgemv(CblasColMajor, CblasNoTrans, v, n, 1, g->w + size(v, first), v, ones, 1, 0,
                        x, 1);
            cblas_dger(CblasColMajor, v, v, 0.5 * matcov_tiptilt(diff, w), x, 1, x, 1, y, v);
        }
    cblas_daxpy(v * v, (np > 0 ? 0.5 : -0.5) * beta, g->b0w, 1, y, 1);
    free(x), free(ones);
}

/* Y by W from D+ Ctm0, D+ and whole matrices, beside y; c: factor of Cmm0. */
static void check_exact(const matcov *mc0, const matcov *mc, const double *c, const double *dir,
                        const double *y) {
    double *ctm = ctm_of(mc0, dir, false), *w = numbers(size(v, m)), *z, *tt, *other;
    double most = 0;
    gemm('N', 'N', v, m, t, 1, dplus, v, ctm, t, 0, w);
    free(ctm);
    for (int pass = 0; pass < 2; pass++)
        cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, pass == 0 ? CblasTrans : CblasNoTrans,
                    CblasNonUnit, v, m, 1, c, m, w, v);
    tt = lower(mc, false, true);
    z = times_lower(w, tt);
    free(tt);
    if (np == 0) {
        ctm = ctm_of(mc, dir, true);
        gemm('N', 'N', v, m, t, -1, dplus, v, ctm, t, 1, z);
        free(ctm);
    }
    other = numbers(size(v, v));
    gemm('N', 'T', v, v, m, 1, z, v, w, v, 0, other);
    for (int j = 0; j < v; j++)
        for (int i = 0; i <= j; i++) {
            const size_t k = (size_t)i + size(v, j), l = (size_t)j + size(v, i);
            most = fmax(most, fabs(other[k] + other[l] - y[k] - y[l]));
        }
    printf("  in double precision, W, D+ and whole matrices against raw space and differences: "
           "%.1e of the largest value of Cvv\n",
           most / worst_c);
    free(w), free(z), free(other);
}

/* P Ctt P' by the stencil, or the turbulence, into `common`. */
static double *begin_exposure(const profile *p, const matcov *mc) {
    double *ptt = NULL;
    memset(common, 0, psf_sep_count(ps) * sizeof *common);
    check(psf_rest_init(ps, p, &fit));
    if (np > 0) {
        check(psf_phase_common(ps, p, common));
        return NULL;
    }
    double *ctt = numbers(size(t, PANEL)), *q = numbers(size(v, t)), *back = numbers(size(t, v));
    for (int j = 0, n; j < t; j += n) {
        n = t - j < PANEL ? t - j : PANEL;
        check(matcov_fill_ctt(mc, 0, (size_t)t, (size_t)j, (size_t)n, ctt, (size_t)t));
        stencil(false, n, ctt, q + size(v, j));
    }
    free(ctt);
    for (int j = 0; j < t; j++)
        for (int i = 0; i < v; i++)
            back[(size_t)j + size(t, i)] = q[(size_t)i + size(v, j)];
    free(q);
    ptt = numbers(size(v, v));
    stencil(false, v, back, ptt);
    free(back);
    both_sides(ptt);
    psf_accumulate(ps, 0, (size_t)v, ptt, (size_t)v, false, common);
    return ptt;
}

static bool all = true, exact;

static double *minus(double *x, const double *y) {
    for (size_t i = 0; i < size(v, v); i++)
        x[i] -= y[i];
    return x;
}

static void minus_floats(float *x, const double *y) {
    for (size_t i = 0; i < size(v, m); i++)
        x[i] -= (float)y[i];
}

/* The numbers of x in FP16 know them. */
static void round_to_fp16(int rows, int cols, double *x) {
    fp16 r = to_fp16(BACKEND_D, true, rows, cols, x);
    memset(r.lo, 0, sizeof *r.lo * size(rows, cols));
    check(be->fp16->join(NULL, rows, cols, r.exponent, r.hi, rows, r.lo, rows, x, rows));
    drop(&r);
}

static float *copy_floats(const float *x) {
    float *y;
    check(ALLOC(y, size(v, m), "W dT"));
    memcpy(y, x, sizeof *y * size(v, m));
    return y;
}

/* Rows of the table where Y has D+ dCtm. s0: (W dT - D+ dC) W' exactly; raw: (V dT - dQ) V'. */
static void sensor_rows(const target *g, const fp16 *dt, const double *dc, const double *dq,
                        const double *s0) {
    double *rounded = numbers(size(v, m)), *y;
    float *z = times_triangle(&g->wh, dt), *z1;
    /* today's */
    fp16 ph = to_fp16(BACKEND_D, false, v, t, dplus), ch = to_fp16(BACKEND_D, false, t, m, dc);
    z1 = copy_floats(z);
    fp16_product_of('N', v, m, t, -1, &ph, 0, &ch, 0, 1, z1);
    compare("today: W, dT, D+, dCtm", minus(outer_fp16(z1, &g->wh, false), s0), NULL);
    drop(&ph), drop(&ch), free(z1);
    /* raw space */
    memcpy(rounded, dq, sizeof *rounded * size(v, m));
    round_to_fp16(v, m, rounded);
    fp16 vh = {.hi = g->vh.hi, .ld = v, .exponent = g->vh.exponent};
    z1 = times_triangle(&vh, dt);
    float *wide = all ? copy_floats(z1) : NULL;
    minus_floats(z1, rounded);
    y = outer_fp16(z1, &vh, false);
    both_sides(y);
    compare("raw space: V, dT, dQ", minus(y, s0), NULL);
    free(z1);
    if (all) {
        minus_floats(wide, dq);
        y = outer_fp16(wide, &g->vh, true);
        both_sides(y);
        compare("raw space, Y in three products", minus(y, s0), NULL);
        free(wide);
        /* fallback 1: W dT W' in FP16, dQ W' in FP16 with H after it */
        double *y2 = numbers(size(v, v));
        float *minus_q = copy_floats(z);
        for (size_t i = 0; i < size(v, m); i++)
            minus_q[i] = -(float)rounded[i];
        y = outer_fp16(minus_q, &g->wh, false);
        gemm('N', 'N', v, v, v, 1, h, v, y, v, 0, y2);
        free(minus_q), free(y);
        y = outer_fp16(z, &g->wh, false);
        cblas_daxpy(v * v, 1, y, 1, y2, 1);
        free(y);
        compare("fallback 1: W, dT; dQ raw", minus(y2, s0), NULL);
        /* fallback 2: H in one product of FP16 numbers on dQ */
        fp16 hh = to_fp16(BACKEND_D, false, v, v, h), qh = to_fp16(BACKEND_D, false, v, m, dq);
        z1 = copy_floats(z);
        fp16_product_of('N', v, m, v, -1, &hh, 0, &qh, 0, 1, z1);
        compare("fallback 2: W, dT, M^-1, dQ", minus(outer_fp16(z1, &g->wh, false), s0), NULL);
        drop(&hh), drop(&qh), free(z1);
    }
    free(z), free(rounded);
}

/* The same of the residual phase; dcpm: np x m, ct0: W dCpm' exactly. */
static void phase_rows(const target *g, const fp16 *dt, const double *dcpm, const double *s0,
                       const double *ct0) {
    fp16 ph = to_fp16(BACKEND_D, false, np, m, dcpm);
    fp16 vh = {.hi = g->vh.hi, .ld = v, .exponent = g->vh.exponent};
    float *some;
    check(ALLOC(some, size(v, np), "W Cpm'"));
    for (int raw = 0; raw < 2; raw++) {
        const fp16 *w = raw ? &vh : &g->wh;
        float *z = times_triangle(w, dt);
        double *y = outer_fp16(z, w, false), *ct = numbers(size(v, np)), *x;
        if (raw)
            both_sides(y);
        fp16_product_of('T', v, np, m, 1, w, 0, &ph, 0, 0, some);
        for (size_t i = 0; i < size(v, np); i++)
            ct[i] = (double)some[i];
        if (raw) {
            x = ct, ct = numbers(size(v, np));
            gemm('N', 'N', v, np, v, 1, h, v, x, v, 0, ct);
            free(x);
        }
        for (size_t i = 0; i < size(v, np); i++)
            ct[i] -= ct0[i];
        compare(raw ? "raw space: V, dT, dCpm" : "today: W, dT, dCpm", minus(y, s0), ct);
        free(z);
    }
    free(some);
    drop(&ph);
}

static void one_case(const target *g, const double *dir, const matcov *mc0, const matcov *mc,
                     const matcov *still, const matcov *drifting, double beta, const double *dt,
                     const fp16 *dth, const double *ptt, const double *factor, bool first) {
    double *z = times_lower(g->v, dt), *s0 = numbers(size(v, v)), *y = numbers(size(v, v));
    double *dc = NULL, *dq = NULL, *ct = NULL, *ct0 = NULL;
    if (np == 0) {
        dc = ctm_of(drifting, dir, true);
        dq = numbers(size(v, m));
        stencil(false, m, dc, dq);
        cblas_daxpy(v * m, -1, dq, 1, z, 1);
        stencil(true, m, dc, dq); /* what a device would make */
    } else {
        double *x = cpm_of(mc, dir, true);
        ct = numbers(size(v, np)), ct0 = numbers(size(v, np));
        gemm('N', 'T', v, np, m, 1, g->w, v, x, np, 0, ct);
        free(x);
        dc = cpm_of(drifting, dir, true);
        gemm('N', 'T', v, np, m, 1, g->w, v, dc, np, 0, ct0);
    }
    gemm('N', 'T', v, v, m, 1, z, v, g->v, v, 0, s0);
    free(z);
    both_sides(s0);
    memcpy(y, s0, sizeof *y * size(v, v));
    add_constants(g, still, beta, y);
    worst_c = 0;
    for (int j = 0; j < v; j++)
        for (int i = 0; i <= j; i++) {
            const size_t k = (size_t)i + size(v, j), l = (size_t)j + size(v, i);
            worst_c = fmax(worst_c, fabs(y[k] + y[l] + (ptt != NULL ? ptt[k] : 0)));
        }
    exact_y = y, exact_ct = ct;
    exact_images = images(y, ct);
    printf("  SR");
    for (int l = 0; l < opts.nlambda && l < 8; l++)
        printf(" %.4f", exact_images.strehl[l]);
    printf(", variance %.3f rad^2, EE", exact_images.variance);
    for (int i = 0; i < opts.nbox; i++)
        printf(" %.4f", exact_images.ee[0][i]);
    printf(", largest value of %s %.2e m^2\n", np > 0 ? "W Cmm W'" : "Cvv", worst_c);
    if (exact && first)
        check_exact(mc0, mc, factor, dir, y);
    printf("  %-34s %8s %8s  %9s %8s\n", "in halves", "rms dC", "max dC", "d(var)", "max dEE");
    if (np == 0)
        sensor_rows(g, dth, dc, dq, s0);
    else
        phase_rows(g, dth, dc, s0, ct0);
    free(s0), free(y), free(dc), free(dq), free(ct), free(ct0);
}

static void all_cases(void) {
    const profile *p0 = atmos_profile_at(&a, a.tor_time[0]);
    matcov *mc0 = prepared(p0);
    double *c = lower(mc0, false, false);
    int info, first, end;
    target *g;
    dpotrf_("L", &m, c, &m, &info);
    if (info != 0)
        check(status_fail(MOAO_NUMERIC, "Cmm is not positive definite"));
    check(ALLOC(g, (size_t)s.ntarget, "targets"));
    for (int k = 0; k < s.ntarget; k++)
        g[k] = solve(mc0, c, s.targets[k]);
    common = numbers(psf_sep_count(ps));
    atmos_exposures_of(&a, 0, &first, &end);
    for (int e = first; e < end; e++) {
        const profile *p = atmos_profile_at(&a, a.exposure_time[e]);
        const double beta = matcov_scale(p, p0);
        matcov *mc = prepared(p), *still, *drifting;
        double bound;
        check(matcov_prepare_difference(&s, p, p0, beta, false, &still, &bound));
        check(matcov_tabulate(still));
        check(matcov_prepare_difference(&s, p, p0, beta, true, &drifting, &bound));
        check(matcov_tabulate(drifting));
        double *ptt = begin_exposure(p, mc), *dt = lower(still, true, true);
        fp16 dth = to_fp16(BACKEND_D, false, m, m, dt);
        for (int k = 0; k < s.ntarget; k++) {
            printf("exposure at %.0f s, beta %.4f, target %.0f, %.0f arcsec\n", a.exposure_time[e],
                   beta, s.targets[k][0] * ARCSEC_PER_RAD, s.targets[k][1] * ARCSEC_PER_RAD);
            one_case(&g[k], s.targets[k], mc0, mc, still, drifting, beta, dt, &dth, ptt, c,
                     e == first && k == 0);
        }
        psf_fit_free(fit);
        free(ptt), free(dt), drop(&dth);
        matcov_free(mc), matcov_free(still), matcov_free(drifting);
    }
    for (int k = 0; k < s.ntarget; k++)
        free_target(&g[k]);
    free(g), free(c);
    matcov_free(mc0);
}

int main(int argc, char **argv) {
    const char *file = argc > 1 ? argv[1] : "params/canary.yaml",
               **set = malloc(sizeof *set * (size_t)(argc + 1));
    int n = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    check((MPI_Init(NULL, NULL), comm_init(MPI_COMM_SELF, &world)));
    for (int i = 2; i < argc; i++)
        if (!strncmp(argv[i], "all=", 4))
            all = atoi(argv[i] + 4) != 0;
        else if (!strncmp(argv[i], "exact=", 6))
            exact = atoi(argv[i] + 6) != 0;
        else
            set[n++] = argv[i];
    if (argc < 2) {
        set[n++] = "psf.residual=sensor";
        exact = true;
    }
    check(params_load(&world, 1, &file, n, set, &par));
    free(set);
    check(sys_init(&par, &s));
    check(atmos_init(&par, &s, &a));
    params_psf_opts(&par, &opts);
    opts.crop = 64;
    check(psf_init(&s, &opts, &ps));
    np = (int)psf_points(ps, &px, &py);
    m = (int)s.m, t = (int)s.t, v = s.dm.nact;
    printf("# %d measurements, %d truth slopes (%s), %d actuators of a mirror of %d, residual %s",
           m, t, s.ts.gradient ? "mean gradients" : "points", v, s.dm.nssp,
           np > 0 ? "phase" : "sensor");
    if (np > 0)
        printf(", %d points", np);
    printf("\n");
    make_mirror(exact);
    all_cases();
    psf_free(ps);
    free(h), free(dplus), free(common);
    free_stencil(&rows[0]);
    free_stencil(&rows[1]);
    atmos_free(&a);
    sys_free(&s);
    params_free(&par);
    comm_free(&world);
    MPI_Finalize();
    return 0;
}
