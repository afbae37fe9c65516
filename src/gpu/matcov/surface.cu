/* Pairs of sensors at infinity, and points of the pupil with such sensors, in single precision: all
 * layers have the same scale for them, so the sum over layers is a function of the difference of
 * two positions in the pupil. It is made on a lattice of an eighth of the smaller subaperture, in
 * the axes of the rows' sensor (of the columns' where the rows are points), and interpolated by
 * cubics. Model section 4.
 *
 * The lattice is a matrix, x down, y across. Where the rows are slopes, whose pitch is `fold`
 * steps, every fold-th x is next to the following one, so that neighbours read neighbours; y too.
 */
#include "matcov_host.cuh"
#include "near.cuh"
#include <math.h>

#define THREADS 256
#define COLS 16
#define FINE 8   /* steps of the smaller subaperture */
#define MARGIN 2 /* steps at either side of what is needed */
#define WORTH 2  /* entries of a pair for each number of the lattice from which it is worth it */

/* ---- the lattice */

static int extent(double most, double pitch, int fold, int rows) {
    const int n = (int)ceil(most / pitch) + 2 * MARGIN + 2;
    return ((n + fold - 1) / fold + rows) * fold;
}

/* Shape of the surface of a job; false: none, or it is not worth it. */
static bool shape_of(const backend_cov *c, const gpu_cov_mean_job *j, gpu_surface *s) {
    const bool points = j->rows == 0;
    const host_sensor *cols = &c->host[j->cs], *rows = points ? cols : &c->host[j->rs];
    double reach = 0.0;
    if (!isinf(cols->altitude) || !isinf(rows->altitude))
        return false;
    for (int w = 0; w <= c->nsensor; w++)
        reach = fmax(reach, c->host[w].reach);
    const double size = fmin(rows->size, cols->size);
    *s = gpu_surface{};
    s->fold = points ? 1 : (int)ceil(FINE * rows->size / size - 1e-9);
    s->pitch = points ? cols->size / FINE : rows->size / s->fold;
    const double high = (points ? reach : 0.0) + cols->reach;
    for (int i = 0; i < 2; i++) {
        const double first =
            points ? -reach : rows->shift[i] + (0.5 - 0.5 * rows->nssp) * rows->size;
        s->n[i] = extent(2.0 * high, s->pitch, s->fold, points ? 0 : rows->nssp);
        s->cells[i] = s->n[i] / s->fold;
        s->base[i] = first - cols->reach - MARGIN * s->pitch;
        s->first[i] = first;
    }
    s->planes = points ? 2 : 4;
    const double numbers = (double)s->n[0] * s->n[1],
                 entries = (double)cols->nsub * (points ? (double)j->nr : (double)rows->nsub);
    const size_t bytes = (size_t)(s->n[0] + s->n[1]) * sizeof(double2) +
                         (size_t)s->n[0] * s->n[1] * s->planes * sizeof(float);
    return entries > WORTH * numbers && bytes <= c->nsums * sizeof(double);
}

/* Positions of the lattice in the pupil: (x, base) of the rows and (0, -y) of the columns, whose
 * difference is (x, base + y). */
static __global__ void places(gpu_surface s, const gpu_cov_sensor *frame, double2 *x, double2 *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double cr = frame->cos_rot, sr = frame->sin_rot;
    if (i < s.n[0]) {
        const double at = s.base[0] + (i % s.cells[0] * s.fold + i / s.cells[0]) * s.pitch;
        x[i] = make_double2(cr * at - sr * s.base[1], sr * at + cr * s.base[1]);
    }
    if (i < s.n[1]) {
        const double at = -(i % s.cells[1] * s.fold + i / s.cells[1]) * s.pitch;
        y[i] = make_double2(-sr * at, cr * at);
    }
}

static bool same_surface(const gpu_surface *a, const gpu_cov_mean_job *j,
                         const gpu_cov_set_direction *aim) {
    return a->made && a->rs == j->rs && a->cs == j->cs && a->aim.drifts == aim->drifts &&
           a->aim.dir[0] == aim->dir[0] && a->aim.dir[1] == aim->dir[1];
}

/* The lattice of a job, unless it is there. *done becomes false where there is no way to it. */
static status make_surface(backend_cov *c, const gpu_cov_means *p, const gpu_cov_mean_job *job,
                           gpu_surface *s, bool *done) {
    cudaStream_t stream = c->ctx->main.stream;
    const bool points = job->rows == 0;
    const int most = s->n[0] > s->n[1] ? s->n[0] : s->n[1], nr = points ? 1 : 2;
    const int64_t plane = (int64_t)s->n[0] * s->n[1];
    double2 *x = (double2 *)c->sums, *y = x + s->n[0];
    s->value = (float *)(y + s->n[1]);
    if (same_surface(&c->surface, job, &p->aim)) {
        *s = c->surface;
        return MOAO_OK;
    }
    *done = false;
    gpu_cov_means q = *p;
    gpu_cov_mean_job *j = &q.job[0];
    places<<<(most + 127) / 128, 128, 0, stream>>>(*s, c->sensors + (points ? job->cs : job->rs), x,
                                                   y);
    LAUNCHED();
    *j = *job;
    j->ra = j->ca = 0, j->rows = points ? 0 : 2, j->cols = 2, j->whole = false;
    j->rk = j->ck = 0, j->nr = s->n[0], j->nc = s->n[1];
    for (int i = 0; i < 2; i++) {
        j->row[i] = i * plane;
        j->col[i] = (int64_t)i * nr * s->n[1];
    }
    q.njob = 1, q.part = 'A', q.i0 = q.j0 = 0;
    q.row_place = x, q.col_place = y;
    q.a = s->value, q.lda = s->n[0], q.to_fp16 = 0.0f;
    q.reach = hypot((s->n[0] + 1) * s->pitch, (s->n[1] + 1) * s->pitch);
    c->surface.made = false;
    GPU_TRY(gpu_cov_by_pairs(c, &q, j, q.reach, done));
    if (!*done && j->pair.gradient >= 0) {
        GPU_TRY(gpu_cov_fill_means(stream, BACKEND_S, &q, q.reach + gpu_cov_field(c, &p->aim),
                                   &c->means));
        *done = true;
    }
    s->made = *done;
    s->rs = job->rs, s->cs = job->cs;
    s->aim = p->aim;
    c->surface = *s;
    return MOAO_OK;
}

/* ---- entries */

/* Weights of the cubic through four places, 0 <= f < 1 from the second to the third. */
static __device__ __forceinline__ void weights(float f, float w[4]) {
    const float a = f + 1.0f, b = f - 1.0f, d = f - 2.0f;
    w[0] = f * b * d * (-1.0f / 6.0f);
    w[1] = a * b * d * 0.5f;
    w[2] = a * f * d * -0.5f;
    w[3] = a * f * b * (1.0f / 6.0f);
}

struct column {
    int x[4], y[4]; /* of the slopes' lattice: where the four places are, but for the row's own */
    float wx[4], wy[4];
    int2 whole; /* of points: steps, to be added to the row's, */
    float2 part;
};

struct block_of {
    gpu_surface s;
    gpu_cov_mean_job job;
    const gpu_cov_sensor *sensors;
    const double *px, *py;
    void *a;
    float to_fp16;
    int64_t lda, i0, j0;
    char part;
};

/* Places g .. g + 4 of one direction, `step` numbers apart. */
static __device__ void four_places(const gpu_surface &s, int i, int g, int step, int out[4]) {
    for (int k = 0; k < 4; k++)
        out[k] = ((g + k) % s.fold * s.cells[i] + (g + k) / s.fold) * step;
}

template <int RA> static __device__ void prepare(const block_of &p, int col0, column *sh) {
    const int k = threadIdx.x, j = p.job.ck + min(col0 + k, p.job.nc - 1);
    const gpu_cov_sensor &cols = p.sensors[p.job.cs], &frame = RA > 0 ? p.sensors[p.job.rs] : cols;
    if (k >= COLS)
        return;
    const double2 q = in_axes(frame, cols.centre[j].x, cols.centre[j].y);
    /* steps from the base to the first row, or, of points, to the middle of the pupil */
    const double ux = ((RA > 0 ? p.s.first[0] : 0.0) - q.x - p.s.base[0]) / p.s.pitch,
                 uy = ((RA > 0 ? p.s.first[1] : 0.0) - q.y - p.s.base[1]) / p.s.pitch;
    const int ix = (int)floor(ux), iy = (int)floor(uy);
    const float fx = (float)(ux - ix), fy = (float)(uy - iy);
    sh[k].whole = make_int2(ix, iy);
    sh[k].part = make_float2(fx, fy);
    weights(fx, sh[k].wx);
    weights(fy, sh[k].wy);
    four_places(p.s, 0, ix - 1, 1, sh[k].x);
    four_places(p.s, 1, iy - 1, p.s.n[0], sh[k].y);
}

static __device__ __forceinline__ void put(const block_of &p, int a, int b, int i, int j, float v) {
    const int64_t row = p.job.row[a] + i, col = p.job.col[b] + j, below = p.i0 + row - (p.j0 + col);
    if (p.part != 'A' && below < 0)
        return;
    put_single(p.a, row + col * p.lda, p.to_fp16, p.part == 'T' && below == 0 ? 0.5f * v : v);
}

/* RA, CA: numbers of axes of the rows (0: points) and of the columns. Grid: rows, columns. */
template <int RA, int CA>
static __global__ __launch_bounds__(THREADS) void look_up(const __grid_constant__ block_of p) {
    __shared__ column sh[COLS];
    constexpr int NR = RA > 1 ? RA : 1;
    const int col0 = blockIdx.y * COLS, row = blockIdx.x * THREADS + threadIdx.x;
    const int k = p.job.rk + min(row, p.job.nr - 1), nx = p.s.n[0];
    const int64_t plane = (int64_t)p.s.n[0] * p.s.n[1];
    const gpu_cov_sensor &rows = p.sensors[RA > 0 ? p.job.rs : p.job.cs];
    int2 whole;
    float2 part = make_float2(0.0f, 0.0f);
    prepare<RA>(p, col0, sh);
    if (RA > 0) {
        whole = rows.place[k];
    } else {
        const double2 at = in_axes(rows, p.px[k], p.py[k]);
        const double ux = at.x / p.s.pitch, uy = at.y / p.s.pitch;
        whole = make_int2((int)floor(ux), (int)floor(uy));
        part = make_float2((float)(ux - whole.x), (float)(uy - whole.y));
    }
    __syncthreads();
    if (row >= p.job.nr)
        return;
    for (int c = 0; c < COLS && col0 + c < p.job.nc; c++) {
        const column &at = sh[c];
        int x[4], y[4];
        float wx[4], wy[4];
        if (RA > 0) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[i] = at.x[i] + whole.x, y[i] = at.y[i] + whole.y * nx, wx[i] = at.wx[i],
                wy[i] = at.wy[i];
        } else {
            float fx = part.x + at.part.x, fy = part.y + at.part.y;
            const int cx = fx >= 1.0f, cy = fy >= 1.0f;
            const int gx = min(max(whole.x + at.whole.x + cx, 1), nx - 3),
                      gy = min(max(whole.y + at.whole.y + cy, 1), p.s.n[1] - 3);
            weights(fx - cx, wx);
            weights(fy - cy, wy);
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[i] = gx - 1 + i, y[i] = (gy - 1 + i) * nx;
        }
#pragma unroll
        for (int b = 0; b < CA; b++)
#pragma unroll
            for (int a = 0; a < NR; a++) {
                const int of_row = RA == 1 ? p.job.ra : a, of_col = CA == 1 ? p.job.ca : b;
                const float *v = p.s.value + (of_row + (RA > 0 ? 2 : 1) * of_col) * plane;
                float sum = 0.0f;
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float *line = v + y[j];
                    sum += wy[j] * (wx[0] * __ldg(line + x[0]) + wx[1] * __ldg(line + x[1]) +
                                    wx[2] * __ldg(line + x[2]) + wx[3] * __ldg(line + x[3]));
                }
                put(p, a, b, row, col0 + c, sum);
            }
    }
}

template <int RA, int CA> static status launch(cudaStream_t stream, const block_of *p) {
    const dim3 blocks((p->job.nr + THREADS - 1) / THREADS, (p->job.nc + COLS - 1) / COLS);
    look_up<RA, CA><<<blocks, THREADS, 0, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_cov_by_surface(backend_cov *c, const gpu_cov_means *p, const gpu_cov_mean_job *job,
                          bool *done) {
    cudaStream_t stream = c->ctx->main.stream;
    block_of b = {};
    *done = job->nr > 0 && job->nc > 0 && shape_of(c, job, &b.s);
    if (!*done)
        return MOAO_OK;
    GPU_TRY(make_surface(c, p, job, &b.s, done));
    if (!*done)
        return MOAO_OK;
    b.job = *job;
    b.sensors = c->sensors;
    b.px = p->px, b.py = p->py;
    b.a = p->a, b.to_fp16 = p->to_fp16, b.lda = p->lda, b.i0 = p->i0, b.j0 = p->j0,
    b.part = p->part;
    switch (job->rows * 2 + job->cols - 1) {
    case 0:
        return launch<0, 1>(stream, &b);
    case 1:
        return launch<0, 2>(stream, &b);
    case 2:
        return launch<1, 1>(stream, &b);
    case 3:
        return launch<1, 2>(stream, &b);
    case 4:
        return launch<2, 1>(stream, &b);
    default:
        return launch<2, 2>(stream, &b);
    }
}
