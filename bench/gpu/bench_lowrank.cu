/* Batched QR, SVD, sketches and recompression on one GPU against the fastest of the vendor's ways.
 *
 *   bench_lowrank [CSV file] [word ...]      only rows whose name begins with one of the words
 *   MOAO_BENCH_TIMES=5                       repetitions; the median counts
 *   MOAO_BENCH_OURS=1                        without the vendor's side
 *
 * us: one call on the whole batch, inputs refilled before each outside the timed region. copy:
 * share of a device-to-device copy, each input read and each output written once. Errors are those
 * of a few matrices of the batch: norm(A - Q R) or norm(A - U S V^T) over norm(A), and the largest
 * entry of Q^T Q - I (of the worse of U and V), ours and the vendor's (of its first matrix).
 * sweeps: of rotations, mean and worst of all matrices, from a call that is not timed. */
#include "lowrank_vendor.cuh"

enum Op { GEQRF, QR_Q, QR_R, ORMQR, SVD, RSVD, ARA, SUM };
struct Row {
    const char *name;
    Op op;
    int64_t m, n, count;
    char kind, jobu, jobv;
    double tol;
    int64_t most, k; /* largest rank; columns of each factor of a sum */
    double asked;    /* ratio */
    bool single;
};

static double copy_rate; /* bytes per second */
static int times = 5;

static double median_us(const std::function<void()> &refill, const std::function<void()> &call) {
    cudaEvent_t t0, t1;
    std::vector<float> ms;
    CU(cudaEventCreate(&t0));
    CU(cudaEventCreate(&t1));
    for (int r = -1; r < times; r++) {
        float x;
        refill();
        CU(cudaEventRecord(t0, stream));
        call();
        CU(cudaEventRecord(t1, stream));
        CU(cudaEventSynchronize(t1));
        CU(cudaEventElapsedTime(&x, t0, t1));
        if (r >= 0)
            ms.push_back(x);
    }
    CU(cudaGetLastError());
    std::sort(ms.begin(), ms.end());
    CU(cudaEventDestroy(t0));
    CU(cudaEventDestroy(t1));
    return 1e3 * ms[ms.size() / 2];
}

static void measure_copy() {
    const size_t bytes = (size_t)2 << 30;
    Memory a((int64_t)bytes / 8), b((int64_t)bytes / 8);
    const double us = median_us(
        [] {}, [&] { CU(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream)); });
    copy_rate = 2 * (double)bytes / us * 1e6;
    printf("# copy %.0f GB/s\n", copy_rate * 1e-9);
}

/* b := a + by b */
static __global__ void bring_near(const double *a, double *b, double by, int64_t n) {
    for (int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; e < n;
         e += (int64_t)gridDim.x * blockDim.x)
        b[e] = a[e] + by * b[e];
}

/* Everything that a row works on. */
struct Data {
    const Row &q;
    backend_type t;
    int64_t m, n, k, size, most;
    Memory a0, a, s, u, v, r, f0, f; /* f: factors of a sum, copies to refill from in f0 */
    int *info;
    int64_t *rank, *widths = NULL; /* widths: columns of each sum's factors (kind 'V') */
    int *sweeps = NULL;            /* where gesvj leaves them; NULL: a timed call */
    void *work = NULL;
    size_t lwork = 0;
    batch_cut cut = {};
    std::vector<int64_t> ranks, width;
    double sweeps_mean = 0;
    int sweeps_worst = 0;
    double us = 0, vendor_us = 0, off = 0, bent = 0, vendor_off = 0, vendor_bent = 0;
    double sound_us = 0; /* the fastest whose vectors are orthonormal and whose product is A */
    const char *way = "none", *sound = "none";

    explicit Data(const Row &row)
        : q(row), t(row.single ? BACKEND_S : BACKEND_D), m(row.m), n(row.n), k(std::min(m, n)),
          size(row.count * m * n), most(row.most ? row.most : k), a0(row.op == SUM ? 1 : size),
          a(row.op == SUM ? 1 : size), s(row.count * std::max(m, n)), u(row.count * m * most),
          v(row.count * n * most), r(row.count * k * n), f0(row.count * 2 * (m + n) * row.k),
          f(row.count * 2 * (m + n) * row.k) {
        CU(cudaMalloc(&info, (size_t)row.count * sizeof(int)));
        CU(cudaMalloc(&rank, (size_t)row.count * sizeof(int64_t)));
        cut.tol = row.tol, cut.kind = 'R', cut.norm = 'F', cut.most = most;
        const batch_op op[] = {BATCH_QR,    BATCH_QR,   BATCH_QR,  BATCH_QR,
                               BATCH_GESVJ, BATCH_RSVD, BATCH_ARA, BATCH_RECOMPRESS};
        if (row.op >= QR_Q && row.op != ORMQR)
            lwork = be->lowrank->workspace(op[row.op], t, row.count, m, n,
                                           row.op == SUM ? 2 * row.k : most + 8);
        CU(cudaMalloc(&work, lwork + 256));
        if (row.op == SUM) {
            fill<double>(f0, 'G', 2 * (m + n) * row.k, 1, row.count);
            width.assign((size_t)row.count, row.k);
            if (row.kind == 'V') {
                for (int64_t b = 0; b < row.count; b++)
                    width[(size_t)b] = 8 + (int64_t)((hashed((uint64_t)b + 3) + 1) / 2 *
                                                     ((double)row.k - 7) * (1 - 1e-12));
                CU(cudaMalloc(&widths, width.size() * 8));
                CU(cudaMemcpy(widths, width.data(), width.size() * 8, cudaMemcpyHostToDevice));
            }
            if (row.kind == 'N') /* U2 is U but for 1e-9 */
                bring_near<<<1056, 256, 0, stream>>>(f0, f0.p + row.count * (m + n) * row.k, 1e-9,
                                                     row.count * m * row.k);
        } else if (row.single)
            fill<float>((float *)a0.p, row.kind, m, n, row.count);
        else
            fill<double>(a0, row.kind, m, n, row.count);
        CU(cudaStreamSynchronize(stream));
    }
    ~Data() {
        cudaFree(info), cudaFree(rank), cudaFree(work), cudaFree(widths);
    }
    size_t element() const {
        return backend_size(t);
    }
    void refill() {
        if (q.op == SUM)
            CU(cudaMemcpyAsync(f, f0, (size_t)(q.count * 2 * (m + n) * q.k) * 8,
                               cudaMemcpyDeviceToDevice, stream));
        else
            CU(cudaMemcpyAsync(a, a0, (size_t)size * element(), cudaMemcpyDeviceToDevice, stream));
    }
    /* factors of a sum, one batch after the other: U (m x 2 k room), V, U2, V2 */
    double *part(int p) const {
        const int64_t at[] = {0, m * q.k, (m + n) * q.k, (2 * m + n) * q.k};
        return f.p + q.count * at[p];
    }
    void ours();
    void count_sweeps();
    template <class T> void check_each();
    void check_ours();
    double width_of(int64_t b) const {
        return (double)(width.empty() ? q.k : width[(size_t)b]);
    }
    void check_sum(int64_t b);
    double bytes() const;
};

void Data::ours() {
    const backend_lowrank *l = be->lowrank;
    const batch_dim dm = batch_size(m), dn = batch_size(n);
    const batch_mat A = batch_strided(a, m, m * n), S = batch_strided(s, k, k),
                    U = batch_strided(u, m, m * most), V = batch_strided(v, n, n * most),
                    R = batch_strided(r, k, k * n);
    const double one = 1, minus = -1;
    const bool is_cut = q.tol > 0 || q.most || sweeps;
    const batch_dim columns = {q.k, widths};
    cut.sweeps = sweeps;
    switch (q.op) {
    case GEQRF:
        OK(l->geqrf(ctx, t, q.count, dm, dn, A, S, info));
        break;
    case QR_Q:
    case QR_R:
        OK(l->qr(ctx, t, q.op == QR_Q ? 'Q' : 'R', q.count, dm, dn, A, R, info, work, lwork));
        break;
    case ORMQR: /* C in r: m x n */
        OK(l->ormqr(ctx, t, 'L', 'T', q.count, dm, dn, dn, A, S, batch_strided(u, m, m * n)));
        break;
    case SVD:
        OK(l->gesvj(ctx, t, q.jobu, q.jobv, is_cut ? &cut : NULL, q.count, dm, dn, A, S, U, V, rank,
                    info, work, lwork));
        break;
    case RSVD:
        OK(l->rsvd(ctx, t, q.jobu, q.jobv, &cut, 8, 0, 1, q.count, dm, dn, A, S, U, V, rank, info,
                   work, lwork));
        break;
    case ARA:
        OK(l->ara(ctx, t, 'L', &cut, 1, q.count, dm, dn, A, U, V, rank, info, work, lwork));
        break;
    default:
        OK(l->recompress(ctx, t, 'L', &cut, q.count, dm, dn, &one, columns,
                         batch_strided(part(0), m, m * q.k), batch_strided(part(1), n, n * q.k),
                         &minus, columns, batch_strided(part(2), m, m * q.k),
                         batch_strided(part(3), n, n * q.k), rank, info, work, lwork));
    }
}

/* Of the same matrices, in a call of its own. */
void Data::count_sweeps() {
    std::vector<int> h((size_t)q.count);
    if (q.op != SVD)
        return;
    CU(cudaMalloc(&sweeps, h.size() * sizeof(int)));
    refill();
    ours();
    CU(cudaMemcpyAsync(h.data(), sweeps, h.size() * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CU(cudaStreamSynchronize(stream));
    CU(cudaFree(sweeps));
    sweeps = NULL;
    for (int x : h)
        sweeps_mean += (double)x / (double)q.count, sweeps_worst = std::max(sweeps_worst, x);
}

/* A sum: what was cut, over its norm; the orthogonality of U, and that V is A^T U: then the squares
 * of V and of what was cut are those of A. */
void Data::check_sum(int64_t b) {
    const int64_t kept = std::min(ranks[(size_t)b], most),
                  at[] = {0, m * q.k, (m + n) * q.k, (2 * m + n) * q.k};
    const Host u1 = fetch(f0.p + q.count * at[0] + b * m * q.k, m, m, q.k),
               v1 = fetch(f0.p + q.count * at[1] + b * n * q.k, n, n, q.k),
               u2 = fetch(f0.p + q.count * at[2] + b * m * q.k, m, m, q.k),
               v2 = fetch(f0.p + q.count * at[3] + b * n * q.k, n, n, q.k),
               x1 = fetch(part(0) + b * m * q.k, m, m, kept),
               x2 = fetch(part(1) + b * n * q.k, n, n, kept);
    Host x;
    double all = 0, found = 0;
    x.m = m, x.n = n, x.v.resize((size_t)(m * n));
    for (int64_t j = 0; j < n; j++)
        for (int64_t p = 0; p < (int64_t)width_of(b); p++)
            for (int64_t i = 0; i < m; i++)
                x.v[(size_t)(i + j * m)] += u1.at(i, p) * v1.at(j, p) - u2.at(i, p) * v2.at(j, p);
    for (double y : x.v)
        all += y * y;
    for (double y : x2.v)
        found += y * y;
    const double rest = residual(x, x1, NULL, x2, kept);
    off = std::max(off, rest);
    bent = std::max({bent, skew(x1, kept), fabs(1 - found / all - rest * rest)});
}

/* The first, a middle and the last matrix; mean rank. */
void Data::check_ours() {
    std::vector<int> h((size_t)q.count);
    CU(cudaMemcpy(h.data(), info, h.size() * sizeof(int), cudaMemcpyDeviceToHost));
    for (size_t b = 0; b < h.size(); b++)
        if (h[b] != 0 && !(h[b] == -3 && (q.op == SUM || q.op == RSVD))) {
            printf("# %s: info %d of matrix %zu\n", q.name, h[b], b);
            break;
        }
    if (q.op >= SVD && (q.tol > 0 || q.most)) {
        ranks.resize((size_t)q.count);
        CU(cudaMemcpy(ranks.data(), rank, ranks.size() * 8, cudaMemcpyDeviceToHost));
    }
    if (q.single)
        check_each<float>();
    else
        check_each<double>();
}
template <class T> void Data::check_each() {
    const T *const A0 = (const T *)a0.p, *const A = (const T *)a.p, *const S = (const T *)s.p,
                   *const U = (const T *)u.p, *const V = (const T *)v.p, *const R = (const T *)r.p;
    for (int64_t b : {(int64_t)0, q.count / 2, q.count - 1}) {
        if (q.op == SUM && !q.single) {
            if (ranks[(size_t)b] <= q.k)
                check_sum(b);
            continue;
        }
        if (q.op == QR_R || q.op == ORMQR || q.op == SUM ||
            (q.op == SVD && (q.jobu == 'N' || q.jobv == 'N')))
            return;
        const int64_t kept = ranks.empty() ? k : std::min(ranks[(size_t)b], most);
        const Host x = fetch(A0 + b * m * n, m, m, n), sv = fetch(S + b * k, k, k, 1);
        if (q.op == GEQRF) {
            factor_errors(x, fetch(A + b * m * n, m, m, n), sv, &off, &bent);
            continue;
        }
        if (q.op == QR_Q) {
            const Host w = fetch(A + b * m * n, m, m, k), y = fetch(R + b * k * n, k, k, n);
            off = std::max(off, residual(x, w, NULL, transposed(y), k));
            bent = std::max(bent, skew(w, k));
            continue;
        }
        const Host x1 = fetch(U + b * m * most, m, m, kept),
                   x2 = fetch(V + b * n * most, n, n, kept);
        const bool carries = q.op == ARA || q.jobv == 'S';
        off = std::max(off, residual(x, x1, carries ? NULL : sv.v.data(), x2, kept));
        bent = std::max(bent, skew(x1, kept));
        if (!carries)
            bent = std::max(bent, skew(x2, kept));
    }
}

double Data::bytes() const {
    const double e = (double)element(), b = (double)q.count, mn = (double)(m * n);
    double r2 = 0;
    for (int64_t x : ranks)
        r2 += (double)x;
    switch (q.op) {
    case GEQRF:
        return b * 2 * mn * e;
    case QR_Q:
        return b * e * (mn + (double)(m * k + k * n));
    case QR_R:
        return b * e * (mn + (double)(k * n));
    case ORMQR:
        return b * e * 3 * mn;
    case SUM: {
        double columns = 0;
        for (int64_t i = 0; i < q.count; i++)
            columns += 2 * width_of(i);
        return e * (double)(m + n) * (columns + r2);
    }
    default:
        if (!ranks.empty())
            return e * (b * mn + (double)(m + n) * r2);
        return b * e *
               (mn + (q.jobu != 'N' ? (double)(m * k) : 0) + (q.jobv != 'N' ? (double)(n * k) : 0));
    }
}

#include "lowrank_sides.cuh"

static double flops(const Row &q) {
    const double m = (double)std::max(q.m, q.n), n = (double)std::min(q.m, q.n),
                 b = (double)q.count;
    if (q.op == GEQRF || q.op == QR_R)
        return b * (2 * m * n * n - 2 * n * n * n / 3);
    if (q.op == QR_Q)
        return b * (4 * m * n * n - 4 * n * n * n / 3);
    if (q.op == SVD)
        return b * (6 * m * n * n + 11 * n * n * n);
    if (q.op == RSVD)
        return b * 4 * m * n * (double)(q.most + 8);
    return 0;
}

static const Row rows[] = {
#include "lowrank_rows.inc"
};

static void run(const Row &q) {
    Data d(q);
    char what[96];
    double mean = 0;
    d.refill();
    if (q.op == ORMQR)
        OK(be->lowrank->geqrf(ctx, d.t, q.count, batch_size(q.m), batch_size(q.n),
                              batch_strided(d.a, q.m, q.m * q.n), batch_strided(d.s, d.k, d.k),
                              d.info));
    d.us = median_us(
        [&] {
            if (q.op != ORMQR)
                d.refill();
        },
        [&] { d.ours(); });
    d.check_ours();
    d.count_sweeps();
    vendor(d);
    for (int64_t r : d.ranks)
        mean += (double)r / (double)d.ranks.size();
    snprintf(what, sizeof what, "%s %c%c %c %" PRId64 "x%" PRId64 " x%" PRId64 "%s", q.name,
             q.jobu ? q.jobu : '-', q.jobv ? q.jobv : '-', q.kind, q.m, q.n, q.count,
             q.single ? " FP32" : "");
    const double share = 100 * d.bytes() / copy_rate / (d.us * 1e-6);
    printf("%-38s %10.1f us %5.1f%% copy %6.2f TF/s", what, d.us, share, flops(q) / d.us * 1e-6);
    if (!d.ranks.empty())
        printf(" rank %5.1f", mean);
    if (q.op == SVD)
        printf(" sweeps %.2f worst %d", d.sweeps_mean, d.sweeps_worst);
    printf(" err %.1e orth %.1e", d.off, d.bent);
    if (d.vendor_us > 0)
        printf(" | %s %.1f us err %.1e orth %.1e: ratio %.2f (asked %g)%s", d.way, d.vendor_us,
               d.vendor_off, d.vendor_bent, d.vendor_us / d.us, q.asked,
               d.vendor_us / d.us >= q.asked ? "" : " SHORT");
    if (d.sound_us > d.vendor_us)
        printf(" | sound: %s %.1f us: ratio %.2f", d.sound, d.sound_us, d.sound_us / d.us);
    printf("\n");
    fflush(stdout);
    if (csv) {
        fprintf(csv, "%s,%.2f,%.2f,%.2f,%.3f,%.1f,%.2e,%.2e,%.2e,%.2e,%.2f,\"%s\",\"%s\",%.3f,%d\n",
                what, d.us, d.vendor_us, d.sound_us, share, mean, d.off, d.bent, d.vendor_off,
                d.vendor_bent, q.asked, d.way, d.sound, d.sweeps_mean, d.sweeps_worst);
        fflush(csv);
    }
}

int main(int argc, char **argv) {
    const char *path = argc > 1 && strstr(argv[1], ".csv") ? argv[1] : NULL;
    const int words = path ? 2 : 1;
    if (getenv("MOAO_BENCH_TIMES"))
        times = atoi(getenv("MOAO_BENCH_TIMES"));
    bench_open(NULL);
    csv = path ? fopen(path, "a") : NULL;
    if (csv && ftell(csv) == 0)
        fprintf(csv, "row,us,vendor_us,sound_us,share,rank,error,orthogonality,vendor_error,"
                     "vendor_orthogonality,asked,vendor,sound,sweeps,sweeps_worst\n");
    OK(cusolverDnCreate(&solver));
    OK(cusolverDnSetStream(solver, stream));
    OK(cusolverDnCreateParams(&params));
    OK(cusolverDnCreateGesvdjInfo(&jacobi));
    OK(cusolverDnXgesvdjSetSortEig(jacobi, 1));
    measure_copy();
    for (const Row &q : rows) {
        bool wanted = argc <= words;
        for (int w = words; w < argc; w++)
            wanted |= !strncmp(q.name, argv[w], strlen(argv[w]));
        if (wanted)
            run(q);
    }
    return 0;
}
