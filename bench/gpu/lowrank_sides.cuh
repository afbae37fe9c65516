/* The vendor's side of a row of bench_lowrank.cu, which includes this after Data: each way is timed
 * and its errors measured; the fastest one stays in d. */
#ifndef MOAO_BENCH_LOWRANK_SIDES_CUH
#define MOAO_BENCH_LOWRANK_SIDES_CUH

static void keep(Data &d, const char *way, double us, double off, double bent) {
    printf("#   %-34s %11.1f us  error %.1e  orthogonality %.1e\n", way, us, off, bent);
    if (!(off < INFINITY && bent < INFINITY)) /* no result at all */
        return;
    if (bent < 1e-8 &&
        off < (d.q.op == RSVD || d.q.op == SUM ? 1
               : d.q.tol > 0                   ? 1.1 * d.q.tol
                                               : 1e-8) &&
        (d.sound_us == 0 || us < d.sound_us))
        d.sound_us = us, d.sound = way;
    if (d.vendor_us == 0 || us < d.vendor_us)
        d.vendor_us = us, d.way = way, d.vendor_off = off, d.vendor_bent = bent;
}
/* Errors of the vendor's U (m x n in u), s, V (n x n in v) of the first matrix. */
static void svd_errors(const Data &d, const double *s, const double *u, const double *v, int64_t m,
                       int64_t n, int64_t rank, double *off, double *bent) {
    const Host x = fetch(d.a0.p, m, m, n), hs = fetch(s, n, n, 1), hu = fetch(u, m, m, rank),
               hv = fetch(v, n, n, rank);
    *off = residual(x, hu, hs.v.data(), hv, rank);
    *bent = std::max(skew(hu, rank), skew(hv, rank));
}

static void vendor_svd(Data &d, bool values, int64_t rank) {
    const int64_t m = d.m, n = d.n, count = d.q.count;
    Memory s(n * count), u(m * n * count), v(n * n * count);
    double off = 0, bent = 0;
    const auto refill = [&] { d.refill(); };
    if (n <= 32 && m <= 32) {
        Gesvdj w(d.a, s, u, v, m, n, count, !values);
        const double us = median_us(refill, [&] { w.run(); });
        if (!values)
            svd_errors(d, s, u, v, m, n, n, &off, &bent);
        keep(d, "gesvdjBatched", us, off, bent);
    }
    {
        Gesvda w(d.a, s, u, v, m, n, rank, count, !values);
        const double us = median_us(refill, [&] { w.run(); });
        if (!values)
            svd_errors(d, s, u, v, m, n, rank, &off, &bent);
        keep(d, "gesvdaStridedBatched", us, off, bent);
    }
    if (n <= 512 && !values) {
        Eigen w(d.a, s, u, v, m, n, count);
        const double us = median_us(refill, [&] { w.run(); });
        svd_errors(d, s, u, v, m, n, rank, &off, &bent);
        keep(d, "gemm, XsyevBatched, gemm", us, off, bent);
    }
    if (n > 32 && n <= 512 && !values) {
        Streams w(d.a, s, u, v, m, n);
        const double us = median_us(refill, [&] { w.run(); });
        svd_errors(d, s, u, v, m, n, rank, &off, &bent);
        keep(d, "gesvdj on 16 streams", us * (double)count / Streams::STREAMS, off, bent);
    }
}

static void vendor_qr(Data &d) {
    const int64_t m = d.m, n = d.n, count = d.q.count;
    const auto refill = [&] { d.refill(); };
    Pointers pa(d.a, m * n, count), pt(d.s, n, count);
    int info;
    if (d.q.op != QR_Q) {
        const double us = median_us(refill, [&] {
            OK(cublasDgeqrfBatched(blas, (int)m, (int)n, pa.p, (int)m, pt.p, &info, (int)count));
        });
        double off = 0, bent = 0;
        factor_errors(fetch(d.a0.p, m, m, n), fetch(d.a.p, m, m, n), fetch(d.s.p, n, n, 1), &off,
                      &bent);
        keep(d, "geqrfBatched", us, off, bent);
        return;
    }
    Memory g1(n * n * count), g2(n * n * count), r(n * n * count);
    CholeskyQr2 w(d.a, g1, g2, r, m, n, count);
    const double us = median_us(refill, [&] { w.run(); });
    const Host q = fetch(d.a.p, m, m, n);
    keep(d, "CholeskyQR2", us,
         residual(fetch(d.a0.p, m, m, n), q, NULL, transposed(fetch(r.p, n, n, n)), n), skew(q, n));
}

/* C := (I - V T V^T)^T C with V and T at hand */
static void vendor_ormqr(Data &d) {
    const int64_t m = d.m, n = d.n, count = d.q.count;
    Memory t(n * n * count), w(n * n * count), z(n * n * count), c(m * n * count);
    const double us =
        median_us([&] { d.refill(); },
                  [&] {
                      gemm(true, false, n, n, m, d.a, m, m * n, c, m, m * n, w, n, n * n, count);
                      gemm(true, false, n, n, n, t, n, n * n, w, n, n * n, z, n, n * n, count);
                      gemm(false, false, m, n, n, d.a, m, m * n, z, n, n * n, c, m, m * n, count);
                  });
    keep(d, "three gemms with V and T", us, 0, 0);
}

/* Fixed rank: gemm, CholeskyQR2, gemm, gesvda of B^T, gemm. */
static void vendor_sketch(Data &d, int64_t l) {
    const int64_t m = d.m, n = d.n, count = d.q.count;
    Memory omega(n * l), y(m * l * count), g1(l * l * count), g2(l * l * count), r(l * l * count),
        bt(n * l * count), s(l * count), w(n * l * count), x(l * l * count), u(m * l * count);
    fill<double>(omega, 'G', n, l, 1);
    CholeskyQr2 qr(y, g1, g2, r, m, l, count);
    Gesvda svd(bt, s, w, x, n, l, std::min(l, d.most), count);
    const double us =
        median_us([&] { d.refill(); },
                  [&] {
                      gemm(false, false, m, l, n, d.a, m, m * n, omega, n, 0, y, m, m * l, count);
                      qr.run();
                      gemm(true, false, n, l, m, d.a, m, m * n, y, m, m * l, bt, n, n * l, count);
                      svd.run();
                      gemm(false, false, m, l, l, y, m, m * l, x, l, l * l, u, m, m * l, count);
                  });
    const int64_t rank = std::min(l, d.most);
    const Host a = fetch(d.a0.p, m, m, n), hs = fetch(s.p, l, l, 1), hu = fetch(u.p, m, m, rank),
               hw = fetch(w.p, n, n, rank);
    keep(d, "gemm, CholeskyQR2, gemm, gesvda", us, residual(a, hu, hs.v.data(), hw, rank),
         std::max(skew(hu, rank), skew(hw, rank)));
}

/* Cholesky factors of both Gram matrices, the core, gesvda of it, two gemms. */
static void vendor_sum(Data &d) {
    const int64_t m = d.m, n = d.n, k = 2 * d.q.k, count = d.q.count;
    Memory u0(m * k * count), v0(n * k * count), u(m * k * count), v(n * k * count),
        gu(k * k * count), gv(k * k * count), core(k * k * count), s(k * count), x(k * k * count),
        y(k * k * count), xu(m * k * count), yv(n * k * count);
    fill<double>(u0, 'G', m, k, count), fill<double>(v0, 'G', n, k, count);
    GramFactor fu(u, gu, m, k, count), fv(v, gv, n, k, count);
    Gesvda svd(core, s, x, y, k, k, d.most, count);
    const double us = median_us(
        [&] {
            const size_t bu = (size_t)(m * k * count) * 8, bv = (size_t)(n * k * count) * 8;
            CU(cudaMemcpyAsync(u, u0, bu, cudaMemcpyDeviceToDevice, stream));
            CU(cudaMemcpyAsync(v, v0, bv, cudaMemcpyDeviceToDevice, stream));
        },
        [&] {
            fu.factor(), fu.solve(), fv.factor();
            fu.clear(), fv.clear();
            gemm(false, true, k, k, k, gu, k, k * k, gv, k, k * k, core, k, k * k, count);
            svd.run();
            gemm(false, false, m, d.most, k, u, m, m * k, x, k, k * k, xu, m, m * k, count);
            gemm(true, false, k, d.most, k, gu, k, k * k, x, k, k * k, y, k, k * k, count);
            gemm(false, false, n, d.most, k, v, n, n * k, y, k, k * k, yv, n, n * k, count);
        });
    /* as check_sum of ours: what was cut, and the squares that neither V nor that has */
    const Host hu0 = fetch(u0.p, m, m, k), hv0 = fetch(v0.p, n, n, k),
               hu = fetch(xu.p, m, m, d.most), hv = fetch(yv.p, n, n, d.most);
    Host a;
    a.m = m, a.n = n, a.v.resize((size_t)(m * n));
    double all = 0, found = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t i = 0; i < m; i++)
                a.v[(size_t)(i + j * m)] += hu0.at(i, p) * hv0.at(j, p);
    for (double x1 : a.v)
        all += x1 * x1;
    for (double x1 : hv.v)
        found += x1 * x1;
    const double rest = residual(a, hu, NULL, hv, d.most);
    keep(d, "Gram, potrf, trsm, gesvda, gemm", us, rest,
         std::max(skew(hu, d.most), fabs(1 - found / all - rest * rest)));
}

static void vendor(Data &d) {
    const Row &q = d.q;
    if (q.single || (q.op == SUM && q.kind == 'N') || getenv("MOAO_BENCH_OURS"))
        return;
    if (q.op == GEQRF || q.op == QR_Q || q.op == QR_R)
        vendor_qr(d);
    else if (q.op == ORMQR)
        vendor_ormqr(d);
    else if (q.op == SVD)
        vendor_svd(d, q.jobu == 'N' && q.jobv == 'N', q.most ? q.most : d.n);
    else if (q.op == RSVD)
        vendor_sketch(d, q.most + 8);
    else if (q.op == ARA) {
        if (d.n <= 512)
            vendor_svd(d, false, d.most);
        vendor_sketch(d, d.most);
    } else
        vendor_sum(d);
}

#endif
