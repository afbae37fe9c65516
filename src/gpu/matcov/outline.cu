/* Entries of partly lit subapertures: what nodes on their outlines change of tables of whole
 * squares. Model section 4. */
#include "outline_layers.cuh"
#include <cuda_fp16.h>

/* ---- nodes: a warp collects the pairs of places and layers that need them, and computes as many
 * as it has lanes at a time, whichever lanes they belong to */

template <class T, int N> struct collected {
    unsigned short item[2][2 * WARP]; /* close, apart: lane + WARP layer */
    T value[WARP][N];
};

template <class T, int N>
static __device__ __forceinline__ void collect(collected<T, N> &c, int (&n)[2], bool near,
                                               bool apart, int layer) {
    const int lane = threadIdx.x % WARP;
    const unsigned below = (1u << lane) - 1;
#pragma unroll
    for (int set = 0; set < 2; set++) {
        const unsigned some = __ballot_sync(ALL, near && apart == (set == 1));
        if (some >> lane & 1)
            c.item[set][n[set] + __popc(some & below)] = (unsigned short)(lane + WARP * layer);
        n[set] += __popc(some);
    }
}

/* Compute items of which at least `least` have been collected, and add them to their lanes' e:
 * f(lane, layer, set of nodes, value). In an order that depends on nothing else. */
template <class T, int N, class F>
static __device__ __forceinline__ void take(collected<T, N> &c, int (&n)[2], int least, T (&e)[N],
                                            F f) {
    const int lane = threadIdx.x % WARP;
    while (n[0] >= least || n[1] >= least) {
        const int set = n[1] >= least, some = min(set ? n[1] : n[0], WARP);
        n[0] -= set ? 0 : some, n[1] -= set ? some : 0;
        __syncwarp();
        const int item = lane < some ? c.item[set][(set ? n[1] : n[0]) + lane] : 0;
        T v[N] = {};
        if (lane < some)
            f(item % WARP, item / WARP, 1 + set, v);
#pragma unroll
        for (int k = 0; k < N; k++)
            c.value[lane][k] = v[k];
        unsigned mine = some == WARP ? ALL : (1u << some) - 1;
#pragma unroll
        for (int bit = 0; bit < 5; bit++) {
            const unsigned with = __ballot_sync(ALL, item >> bit & 1);
            mine &= lane >> bit & 1 ? with : ~with;
        }
        __syncwarp();
        for (; mine != 0; mine &= mine - 1)
#pragma unroll
            for (int k = 0; k < N; k++)
                e[k] += c.value[__ffs(mine) - 1][k];
    }
    __syncwarp();
}

/* Entry of a lattice, rows' subaperture first. */
static __device__ double lattice_entry(const gpu_outlines &p, const gpu_outline_job &job, int ka,
                                       int kb, int axis_a, int axis_b) {
    const gpu_cov_table &t = *job.table;
    const int2 at = lattice_place(p, job, ka, kb);
    const int kind = is_flipped(job) ? axis_b + 2 * axis_a : axis_a + 2 * axis_b;
    return t.value[((size_t)kind * t.n + at.y) * t.n + at.x];
}

static __device__ void add_entry(double *a, int64_t at, float, double v) {
    a[at] += v;
}
static __device__ void add_entry(float *a, int64_t at, float to_fp16, double v) {
    if (to_fp16 == 0.0f)
        a[at] = (float)(a[at] + v);
    else
        ((__half *)a)[at] =
            __float2half((float)(__half2float(((__half *)a)[at]) + (double)to_fp16 * v));
}

/* Whether a difference has the subaperture of outline k as a whole one. */
template <class P> static __device__ bool left_out(const P &p, const gpu_cov_sensor &s, int k) {
    return p.difference && s.outline.kept[k] < 0;
}

/* The number of a subaperture's outline, or -1. */
static __device__ int outline_number(const gpu_outlines &p, const gpu_cov_sensor &s, int sub) {
    const int k = s.outline.n > 0 ? s.outline.number[sub] : -1;
    return k >= 0 && left_out(p, s, k) ? -1 : k;
}

static __device__ bool holds(const gpu_outline_side &s, int axis, int k) {
    return k >= s.k0[axis] && k < s.k1[axis];
}

/* Adds v to the entry of axes i % 2 and i / 2. s: and what the interpolation gives; table: less the
 * lattice's entry. */
template <class E>
static __device__ void put_entry(const gpu_outlines &p, const gpu_outline_job &job,
                                 const stencil *s, bool table, int k, int kb, bool two, int i,
                                 double v) {
    const matcov_outline &lines = p.sensors[job.one.sensor].outline;
    const int ka = lines.sub[k], number = p.difference ? lines.kept[k] : k;
    const int axis_a = i % 2, axis_b = i / 2;
    if (!holds(job.one, axis_a, ka) || !holds(job.other, axis_b, kb))
        return;
    const int64_t one = job.one.at[axis_a] + (p.compact ? number : ka),
                  other = job.other.at[axis_b] + kb;
    const int64_t row = job.down ? one : other, col = job.down ? other : one,
                  below = p.i0 + row - (p.j0 + col);
    if (p.part != 'A' && below < 0)
        return;
    if (s != NULL)
        v += stencil_entry(p, job, *s, ka, kb, axis_a, axis_b);
    if (table)
        v -= lattice_entry(p, job, ka, kb, axis_a, axis_b);
    if ((p.part == 'T' && below == 0) || (two && p.half))
        v *= 0.5;
    add_entry((E *)p.a, row + col * p.lda, p.to_fp16, v);
}

template <class T> struct whole_block {
    layer_of layer[LAYERS];
    phase_tables<T> phase[LAYERS];
    outline_nodes<T> nodes;
    job_tables tables;
    double2 centre[THREADS];
    stencil moved[THREADS];
    collected<T, 4> warp[THREADS / WARP];
};

/* Outlines with whole subapertures. Grid: subapertures, outlines, jobs. */
template <class E, bool PLAIN>
static __global__
__launch_bounds__(THREADS, OCCUPANCY(E)) void whole(const __grid_constant__ gpu_outlines p) {
    __shared__ whole_block<E> sh;
    const gpu_outline_job &job = p.job[blockIdx.z];
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const int k = job.o0 + blockIdx.y, i = blockIdx.x * THREADS + threadIdx.x;
    const int first = threadIdx.x / WARP * WARP;
    if ((int)blockIdx.y >= job.no || (int)(blockIdx.x * THREADS) >= job.nb || left_out(p, a, k))
        return;
    const int kb = job.kb + min(i, job.nb - 1);
    const int nk = outline_number(p, b, kb);
    const bool two = nk >= 0, mine = i < job.nb && !two;
    const double2 centre = b.centre[kb];
    const bool moves = interpolates<E, PLAIN>(p, job), all = job.table != NULL && !moves;
    const box<double> around = box_of(centre.x, centre.y);
    const E turn[2] = {(E)b.cos_rot, (E)b.sin_rot},
            scale = (E)(formula_slope_scale(1.0, 1.0) / b.size);
    table_sums<E> far = {};
    E e[4] = {0, 0, 0, 0};
    bool held = false, any = job.table != NULL || p.moments;
    sh.centre[threadIdx.x] = centre;
    if (moves)
        sh.moved[threadIdx.x] = stencil_of(p, job, k, kb, nk);
    for (int l0 = 0; l0 < p.nlayer; l0 += LAYERS) {
        const int n = min(LAYERS, p.nlayer - l0);
        int number[2] = {0, 0};
        __syncthreads();
        prepare(p, job, k, l0, n, rough_radius<E, PLAIN>(p, job), sh.layer);
        __syncthreads();
        layer_list list = list_layers(around, sh.layer, n, all, p.moments);
        if (!__syncthreads_or(any_layer(list)))
            continue;
        if (!held && threadIdx.x == 0)
            sh.tables = tables_of(p, job);
        if (!held)
            hold_nodes(a, k, threadIdx.x, THREADS, sh.nodes);
        held = true;
        prepare_phase(p, b, l0, n, EXPANDED, sh.phase);
        __syncthreads();
        for (bool more = true; more;) {
            const int l = next_layer(list);
            more = l >= 0;
            if (more) {
                bool apart = false;
                const bool near = mine && add_far<E, PLAIN>(p, job, sh.tables, sh.layer[l], k,
                                                            centre, -1, far, &apart, &any);
                collect(sh.warp[first / WARP], number, near, apart, l);
            }
            take(sh.warp[first / WARP], number, more ? WARP : 1, e,
                 [&](int of, int l, int set, E *v) {
                     const layer_of &q = sh.layer[l];
                     const double2 to = sh.centre[first + of];
                     outline_whole<E>(sh.phase[l], turn, sh.nodes, set, frame_of<E>(q, to),
                                      (E)q.coef * scale, v);
                     if (job.table != NULL && !moves)
                         return;
                     const four<E> less =
                         replaced_at<E>(p, job, sh.tables, q, sh.moved[first + of],
                                        q.x - q.other * to.x, q.y - q.other * to.y);
                     for (int i = 0; i < 4; i++)
                         v[i] -= less.v[i];
                 });
        }
    }
    if (held)
        turn_sums(sh.tables, far, e);
    /* of two outlines `pairs` adds what nodes change of the interpolation */
    for (int v = 0; v < 4 && ((mine && any) || (i < job.nb && moves && job.down)); v++)
        put_entry<E>(p, job, moves ? &sh.moved[threadIdx.x] : NULL, all, k, kb, two, v,
                     mine ? (double)e[v] : 0.0);
}

/* The sum of e[lane] over a warp. */
template <class T> static __device__ double sum_lanes(const T e[4]) {
    double mine = 0.0;
    for (int v = 0; v < 4; v++) {
        double sum = e[v];
        for (int d = WARP / 2; d > 0; d /= 2)
            sum += __shfl_xor_sync(ALL, sum, d);
        mine = threadIdx.x % WARP == v ? sum : mine;
    }
    return mine;
}

template <class T> struct pairs_block {
    layer_of layer[LAYERS];
    job_tables tables;
    outline_nodes<T> one, other[THREADS / WARP];
};

/* Outlines with outlines, a warp for each pair: a layer a lane without nodes, then all lanes for
 * the nodes of a layer. Grid: the other side's, outlines, jobs. */
template <class E, bool PLAIN>
static __global__
__launch_bounds__(THREADS, OCCUPANCY(E)) void pairs(const __grid_constant__ gpu_outlines p) {
    __shared__ pairs_block<E> sh;
    const gpu_outline_job &job = p.job[blockIdx.z];
    const gpu_cov_sensor &a = p.sensors[job.one.sensor], &b = p.sensors[job.other.sensor];
    const int k = job.o0 + blockIdx.y, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int i = blockIdx.x * (THREADS / WARP) + warp;
    if ((int)blockIdx.y >= job.no || (int)(blockIdx.x * (THREADS / WARP)) >= job.nb ||
        left_out(p, a, k))
        return;
    const int nk = job.kb + min(i, job.nb - 1), kb = b.outline.sub[nk];
    const bool here = i < job.nb && !left_out(p, b, nk);
    const double2 centre = b.centre[kb];
    const bool moves = interpolates<E, PLAIN>(p, job), all = job.table != NULL && !moves;
    const stencil moved = moves ? stencil_of(p, job, k, kb, nk) : stencil{};
    table_sums<E> sums = {};
    E e[4] = {0, 0, 0, 0};
    bool held = false, any = all || p.moments;
    for (int l0 = 0; l0 < p.nlayer; l0 += LAYERS) {
        const int n = min(LAYERS, p.nlayer - l0);
        __syncthreads();
        prepare(p, job, k, l0, n, rough_radius<E, PLAIN>(p, job), sh.layer);
        __syncthreads();
        bool some = all || p.moments;
        for (int w = 0; w < n && !some; w += WARP)
            some = __any_sync(ALL, w + lane < n && is_near(sh.layer[min(w + lane, n - 1)], centre));
        some = some && here;
        if (!__syncthreads_or(some))
            continue;
        if (!held) {
            if (threadIdx.x == 0)
                sh.tables = tables_of(p, job);
            hold_nodes(a, k, threadIdx.x, THREADS, sh.one);
            hold_nodes(b, nk, lane, WARP, sh.other[warp]);
            __syncthreads();
        }
        held = true;
        for (int w = 0; w < n && some; w += WARP) {
            const layer_of &l = sh.layer[min(w + lane, n - 1)];
            bool apart = false, added = false;
            const bool mine =
                w + lane < n && l.table >= 0 &&
                add_far<E, PLAIN>(p, job, sh.tables, l, k, centre, nk, sums, &apart, &added);
            if (mine && !all) {
                const four<E> less =
                    replaced_at<E>(p, job, sh.tables, l, moved, l.x - l.other * centre.x,
                                   l.y - l.other * centre.y);
                for (int v = 0; v < 4; v++)
                    e[v] -= less.v[v];
            }
            unsigned near = __ballot_sync(ALL, mine);
            any |= __any_sync(ALL, added);
            const unsigned far = __ballot_sync(ALL, apart);
            for (; near != 0; near &= near - 1) {
                const layer_of &v = sh.layer[w + __ffs(near) - 1];
                outline_pair<E>(function_of(p, v), sh.one, sh.other[warp],
                                frame_of<E>(v, sizeof(E) == 4 ? centre : make_double2(0.0, 0.0)),
                                (E)v.other, far >> (__ffs(near) - 1) & 1,
                                (E)(v.coef * formula_slope_scale(1.0, 1.0)), e);
            }
        }
    }
    if (!any)
        return;
    if (held)
        turn_sums(sh.tables, sums, e);
    const double mine = sum_lanes(e);
    if (lane < 4 && here)
        put_entry<E>(p, job, NULL, all, k, kb, true, lane, mine);
}

/* Blocks of `points` for each multiprocessor, of two groups of points at least. */
#define POINT_BLOCKS 16

/* A circle about an outline's centre on a layer, in floats and by what they round larger than the
 * reach of nodes: the place p of the pupil is in it where |scale p - (x, y)|^2 <= reach2. */
struct circle {
    float x, y, scale, reach2;
};

template <class T> struct points_block {
    layer_of layer[LAYERS];
    circle reach[LAYERS];
    phase_tables<T> phase[LAYERS];
    outline_nodes<T> nodes;
    double2 place[THREADS];
    collected<T, 2> warp[THREADS / WARP];
};

/* Layers l0 .. l0 + n for subaperture `sub` of the outlines' sensor. */
static __device__ void prepare_point(const gpu_outline_points &p, int l0, int n, int sub,
                                     layer_of *sh, circle *reach) {
    const gpu_cov_sensor &a = p.sensors[p.one];
    if ((int)threadIdx.x >= n)
        return;
    const int l = l0 + threadIdx.x;
    const gpu_cov_layer &lay = p.layers[l];
    const double still[2] = {0.0, 0.0};
    outline_place one, other;
    layer_of &to = sh[threadIdx.x];
    const bool there =
        p.sensor >= 0 ? place_of(p, lay, p.sensor, &other)
                      : formula_on_layer(lay.h, 1.0, INFINITY, p.aim.dir,
                                         p.aim.drifts ? lay.drift : still, &other.c, other.of) != 0;
    const bool seen = place_of(p, lay, p.one, &one) && there && !is_one(p, l - 1);
    to.table = seen ? p.gradients.table[a.phase_class * p.gradients.nlayer + l] : -1;
    to.kolmogorov = l >= p.kolmogorov;
    to.kappa2 = lay.kappa * lay.kappa;
    to.coef = coefficient_of(p, l) * p.scale;
    to.one = one.c, to.other = other.c;
    for (int i = 0; i < 2; i++)
        to.one_of[i] = one.of[i], to.other_of[i] = other.of[i];
    to.x = one.c * a.centre[sub].x + one.of[0] - other.of[0];
    to.y = one.c * a.centre[sub].y + one.of[1] - other.of[1];
    set_reach(to, 0.0, a.size * one.c, a.outline.always, p.radial != NULL ? ROUGH_POINT : 0.0);
    const float far = 1.001f * sqrtf((float)to.near2) + 1e-6f * (float)(fabs(to.x) + fabs(to.y));
    reach[threadIdx.x] =
        circle{(float)to.x, (float)to.y, (float)to.other, to.table < 0 ? -1.0f : far * far};
}

/* Layers l0 .. l0 + n, by all threads. */
template <class E>
static __device__ void prepare_points(const gpu_outline_points &p, int l0, int n, int sub,
                                      points_block<E> &sh) {
    prepare_point(p, l0, n, sub, sh.layer, sh.reach);
    prepare_phase(p, p.sensors[p.one], l0, n, EXPANDED_POINT, sh.phase);
    __syncthreads();
}

/* Layers on which a place of the box may be in reach. */
static __device__ __forceinline__ layer_list list_reached(const box<float> &b, const circle *reach,
                                                          int n) {
    layer_list v;
    v.at = 0;
#pragma unroll
    for (int k = 0; k < LAYERS / WARP; k++) {
        const int l = k * WARP + (int)(threadIdx.x % WARP);
        bool near = false;
        if (l < n) {
            const circle c = reach[l];
            const float dx =
                            fmaxf(0.0f, fmaxf(c.scale * b.low[0] - c.x, c.x - c.scale * b.high[0])),
                        dy =
                            fmaxf(0.0f, fmaxf(c.scale * b.low[1] - c.y, c.y - c.scale * b.high[1]));
            near = dx * dx + dy * dy <= c.reach2;
        }
        v.todo[k] = __ballot_sync(ALL, near);
    }
    return v;
}

/* Add what the listed layers change for the places of a warp, in sh.place; mine: of this lane;
 * whether any does. */
template <class E>
static __device__ __forceinline__ bool add_layers(const gpu_outline_points &p, layer_list list,
                                                  const E turn[2], bool mine, points_block<E> &sh,
                                                  E (&e)[2]) {
    const int first = threadIdx.x / WARP * WARP;
    const E inverse = (E)(1.0 / p.sensors[p.one].size);
    const double2 place = sh.place[threadIdx.x];
    int number[2] = {0, 0};
    bool any = false;
    for (bool more = true; more;) {
        const int l = next_layer(list);
        more = l >= 0;
        if (more) {
            const layer_of &v = sh.layer[l];
            const double dx = v.other * place.x - v.x, dy = v.other * place.y - v.y,
                         r2 = dx * dx + dy * dy;
            const bool near = mine && r2 < v.near2;
            collect(sh.warp[first / WARP], number, near, r2 >= v.apart2, l);
            any |= near;
        }
        take(sh.warp[first / WARP], number, more ? WARP : 1, e, [&](int of, int l, int set, E *v) {
            const layer_of &q = sh.layer[l];
            const double2 to = sh.place[first + of];
            const E dx = (E)(q.other * to.x - q.x), dy = (E)(q.other * to.y - q.y);
            E square[2];
            outline_point<E>(function_of(p, q), sh.nodes, set, frame_of<E>(q, to), (E)q.coef, v);
            phases_at(sh.phase[l], turn, dx, dy, square);
            for (int s = 0; s < 2; s++)
                v[s] -= (E)q.coef * inverse * square[s];
        });
    }
    return any;
}

/* Points with outlines: nodes in place of the table of the outline's square. Few of the layers are
 * near a point, and most points are near none, so a block prepares its outline once and goes
 * through many points. Grid: groups of points, dealt out in turn; outlines. */
template <class E>
static __global__
__launch_bounds__(THREADS) void points(const __grid_constant__ gpu_outline_points p) {
    __shared__ points_block<E> sh;
    const gpu_cov_sensor &a = p.sensors[p.one];
    const int k = p.o0 + blockIdx.y, sub = a.outline.sub[k];
    const E turn[2] = {(E)a.cos_rot, (E)a.sin_rot};
    const bool once = p.nlayer <= LAYERS;
    if (left_out(p, a, k))
        return;
    hold_nodes(a, k, threadIdx.x, THREADS, sh.nodes);
    if (once)
        prepare_points(p, 0, p.nlayer, sub, sh);
    for (int from = blockIdx.x * THREADS; from < p.np; from += gridDim.x * THREADS) {
        const int i = from + threadIdx.x, at = min(i, p.np - 1);
        const double2 place = p.sensor >= 0
                                  ? p.sensors[p.sensor].edge[GPU_COV_ROWS][p.axis][p.first + at]
                                  : make_double2(p.px[at], p.py[at]);
        const box<float> around = box_of((float)place.x, (float)place.y);
        E e[2] = {0, 0};
        bool any = false;
        sh.place[threadIdx.x] = place;
        for (int l0 = 0; l0 < p.nlayer; l0 += LAYERS) {
            const int n = min(LAYERS, p.nlayer - l0);
            if (!once) {
                __syncthreads();
                prepare_points(p, l0, n, sub, sh);
            }
            const layer_list list = list_reached(around, sh.reach, n);
            if (any_layer(list))
                any |= add_layers(p, list, turn, i < p.np, sh, e);
        }
        for (int s = 0; s < 2 && any; s++)
            if (p.wanted[s])
                add_entry((E *)p.a, i + (p.col[s] + sub) * p.lda, p.to_fp16, e[s]);
    }
}

template <class E, bool PLAIN>
static void launch(cudaStream_t stream, dim3 blocks, const gpu_outlines *p, bool both) {
    if (both)
        pairs<E, PLAIN><<<blocks, THREADS, 0, stream>>>(*p);
    else
        whole<E, PLAIN><<<blocks, THREADS, 0, stream>>>(*p);
}

/* Jobs of outlines in the rows, or in the columns: blocks are as many as the largest job needs. */
static status launch_jobs(cudaStream_t stream, backend_type t, const gpu_outlines *all, bool down,
                          bool both) {
    const int each = both ? THREADS / WARP : THREADS;
    int no = 0, nb = 0;
    bool plain = t == BACKEND_D || !all->moments;
    gpu_outlines p = *all;
    p.njob = 0;
    for (int i = 0; i < all->njob; i++) {
        const gpu_outline_job *j = &all->job[i];
        if (j->down != down)
            continue;
        p.job[p.njob++] = *j;
        plain = plain && j->pair.parts[0] * j->pair.parts[1] == 1;
        no = j->no > no ? j->no : no;
        nb = j->nb > nb ? j->nb : nb;
    }
    if (no == 0 || nb == 0)
        return MOAO_OK;
    const dim3 blocks((nb + each - 1) / each, no, p.njob);
    if (t == BACKEND_D && plain)
        launch<double, true>(stream, blocks, &p, both);
    else if (t == BACKEND_D)
        launch<double, false>(stream, blocks, &p, both);
    else if (plain)
        launch<float, true>(stream, blocks, &p, both);
    else
        launch<float, false>(stream, blocks, &p, both);
    LAUNCHED();
    return MOAO_OK;
}

status gpu_outline_add(cudaStream_t stream, backend_type t, const gpu_outlines *p, bool both) {
    GPU_TRY(launch_jobs(stream, t, p, true, both));
    return launch_jobs(stream, t, p, false, both);
}

status gpu_outline_add_points(cudaStream_t stream, backend_type t, const gpu_outline_points *p) {
    if (p->no == 0 || p->np == 0)
        return MOAO_OK;
    const int most = (p->np + 2 * THREADS - 1) / (2 * THREADS),
              wanted = (POINT_BLOCKS * gpu_here().sms + p->no - 1) / p->no;
    const dim3 blocks(wanted < most ? wanted : most, p->no);
    if (t == BACKEND_D)
        points<double><<<blocks, THREADS, 0, stream>>>(*p);
    else
        points<float><<<blocks, THREADS, 0, stream>>>(*p);
    LAUNCHED();
    return MOAO_OK;
}
