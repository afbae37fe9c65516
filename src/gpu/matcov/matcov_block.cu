/* Blocks of covariance matrices, cut into jobs for the kernels: one for each pair of axes of two
 * sensors. */
#include "matcov/formula.h"
#include "matcov_host.cuh"
#include <stdlib.h>
#include <string.h>

gpu_cov_edges gpu_cov_edges_of(const backend_cov *c, const gpu_cov_set_direction *aim) {
    gpu_cov_edges p = {};
    memcpy(p.from, c->from, sizeof p.from);
    p.sensors = c->sensors;
    p.layers = c->layers;
    p.structure = c->structure;
    p.sums = c->sums;
    p.aim = *aim;
    return p;
}

gpu_cov_means gpu_cov_means_of(const backend_cov *c, const gpu_cov_set_direction *aim) {
    gpu_cov_means p = {};
    p.part = 'A';
    p.near = c->difference ? GPU_NEAR : 1.0f;
    p.sensors = c->sensors;
    p.layers = c->layers;
    p.gradients = c->gradients;
    p.aim = *aim;
    return p;
}

gpu_cov_pair gpu_cov_pair_of(const backend_cov *c, int gradient, bool swapped) {
    const matcov_class *v = &c->means.classes[gradient];
    const double n = (double)v->parts[0] * v->parts[0] * v->parts[1] * v->parts[1];
    return gpu_cov_pair{gradient,
                        swapped,
                        {v->parts[swapped], v->parts[!swapped]},
                        {v->size[swapped], v->size[!swapped]},
                        formula_slope_scale(v->size[0], v->size[1]) / n};
}

/* A block in transit: the jobs gathered so far. */
struct block {
    backend_cov *c;
    int list;
    backend_type type;
    gpu_cov_edges edges;
    gpu_cov_entries unlike, like;
    gpu_cov_means means[4]; /* by numbers of axes */
    size_t used;            /* of the sums */
};

/* Slopes k0 .. k0 + n of one axis of a sensor, at row or column `at` of the block. */
struct piece {
    int sensor, axis, k0, n;
    int64_t at;
};

static status flush_other(block *b) {
    cudaStream_t stream = b->c->ctx->main.stream;
    if (b->unlike.njob > 0) {
        b->c->surface.made = false;
        b->edges.njob = b->unlike.njob;
        memcpy(b->edges.job, b->unlike.job, b->unlike.njob * sizeof *b->edges.job);
        GPU_TRY(gpu_cov_sum(stream, b->type, &b->edges));
        GPU_TRY(gpu_cov_combine(stream, b->type, &b->unlike));
    }
    b->unlike.njob = 0;
    b->used = 0;
    return MOAO_OK;
}

static status flush_like(block *b) {
    if (b->like.njob > 0)
        GPU_TRY(gpu_cov_look_up(b->c->ctx->main.stream, b->type, &b->like));
    b->like.njob = 0;
    return MOAO_OK;
}

double gpu_cov_field(const backend_cov *c, const gpu_cov_set_direction *aim) {
    double field = hypot(aim->dir[0], aim->dir[1]);
    for (int w = 0; w <= c->nsensor; w++)
        field = fmax(field, hypot(c->host[w].dir[0], c->host[w].dir[1]));
    return 2.0 * field * c->highest + c->drift;
}

double gpu_cov_reach(const backend_cov *c, bool points) {
    double reach = 0.0;
    for (int w = 0; w <= c->nsensor; w++)
        reach = fmax(reach, c->host[w].reach);
    return (points ? 3.0 : 2.0) * reach;
}

status gpu_cov_flush_means(backend_cov *c, backend_type t, gpu_cov_means *p) {
    p->reach = gpu_cov_reach(c, p->px != NULL);
    GPU_TRY(gpu_cov_fill_means(c->ctx->main.stream, t, p, p->reach + gpu_cov_field(c, &p->aim),
                               &c->means));
    p->njob = 0;
    return MOAO_OK;
}

static gpu_cov_job job_of(const piece *r, const piece *c) {
    gpu_cov_job j = {};
    j.rs = (short)r->sensor, j.ra = (char)r->axis, j.rk = r->k0, j.nr = r->n, j.row = r->at;
    j.cs = (short)c->sensor, j.ca = (char)c->axis, j.ck = c->k0, j.nc = c->n, j.col = c->at;
    return j;
}

/* Edge points of k0 .. k0 + n. */
static int edge_count(const host_sensor *h, int axis, int k0, int n) {
    return h->plus[axis][k0 + n - 1] - h->minus[axis][k0] + 1;
}

/* Jobs of a pair without a common lattice; as many columns at a time as there is memory for their
 * sums. */
static status add_other(block *b, const piece *r, const piece *whole) {
    const host_sensor *rows = &b->c->host[r->sensor], *cols = &b->c->host[whole->sensor];
    const bool whole_axis = r->n == rows->nsub;
    const size_t nre = edge_count(rows, r->axis, r->k0, r->n);
    for (piece c = *whole; c.n > 0;) {
        size_t need = nre * edge_count(cols, c.axis, c.k0, c.n);
        if (b->unlike.njob == GPU_COV_JOBS || b->used + need > b->c->nsums)
            GPU_TRY(flush_other(b));
        piece part = c;
        while (part.n > 1 && (need = nre * edge_count(cols, c.axis, c.k0, part.n)) > b->c->nsums)
            part.n = part.n - (part.n + 15) / 16;
        need = nre * edge_count(cols, c.axis, c.k0, part.n);
        gpu_cov_job *j = &b->unlike.job[b->unlike.njob++];
        *j = job_of(r, &part);
        j->order = whole_axis ? GPU_COV_PATCHES : GPU_COV_ROWS;
        j->re = whole_axis ? 0 : rows->minus[r->axis][r->k0], j->nre = (int)nre;
        j->ce = cols->minus[c.axis][c.k0], j->nce = (int)(need / nre);
        j->sums = b->used;
        b->used += need;
        c.k0 += part.n, c.n -= part.n, c.at += part.n;
    }
    return MOAO_OK;
}

/* Subapertures k0 .. k0 + n of a sensor, of which one axis or both are in a block, at `at`. */
struct twin {
    int sensor, axis, axes, k0, n;
    int64_t at[2];
};

/* The pieces with both axes of a subaperture together where both are there. */
static int twins_of(const piece *p, int n, twin *out) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        const piece *x = &p[i], *y = &p[i + 1];
        const bool both = i + 1 < n && x->sensor == y->sensor;
        const int from = both && y->k0 > x->k0 ? y->k0 : x->k0, xe = x->k0 + x->n,
                  ye = both ? y->k0 + y->n : 0, to = xe < ye ? xe : ye;
        if (from >= to) {
            out[count++] = twin{x->sensor, x->axis, 1, x->k0, x->n, {x->at, 0}};
            continue;
        }
        for (int axis = 0; axis < 2; axis++) { /* what one axis has alone, before and after */
            const piece *v = axis ? y : x;
            const int end = v->k0 + v->n;
            if (v->k0 < from)
                out[count++] = twin{v->sensor, axis, 1, v->k0, from - v->k0, {v->at, 0}};
            if (to < end)
                out[count++] = twin{v->sensor, axis, 1, to, end - to, {v->at + to - v->k0, 0}};
        }
        out[count++] =
            twin{x->sensor, 0, 2, from, to - from, {x->at + from - x->k0, y->at + from - y->k0}};
        i++;
    }
    return count;
}

/* A job of a pair of mean gradients without a common lattice. */
static status add_means(block *b, const twin *r, const twin *c, matcov_link link) {
    gpu_cov_means *p = &b->means[2 * (r->axes - 1) + c->axes - 1];
    if (p->part != 'A' && b->like.i0 + r->at[r->axes - 1] + r->n - 1 < b->like.j0 + c->at[0])
        return MOAO_OK;
    if (p->njob == GPU_COV_JOBS)
        GPU_TRY(gpu_cov_flush_means(b->c, b->type, p));
    gpu_cov_mean_job j = {};
    j.rs = (short)r->sensor, j.ra = (char)r->axis, j.rows = (char)r->axes, j.rk = r->k0,
    j.nr = r->n;
    j.cs = (short)c->sensor, j.ca = (char)c->axis, j.cols = (char)c->axes, j.ck = c->k0,
    j.nc = c->n;
    j.whole = r->n == b->c->host[r->sensor].nsub;
    memcpy(j.row, r->at, sizeof j.row);
    memcpy(j.col, c->at, sizeof j.col);
    j.pair = gpu_cov_pair_of(b->c, link.gradient, link.swapped);
    bool done = false;
    /* whose rows are on a lattice */
    if (b->type == BACKEND_S && b->c->difference && b->c->host[r->sensor].noutline == 0)
        GPU_TRY(gpu_cov_by_surface(b->c, p, &j, &done));
    if (!done)
        p->job[p->njob++] = j;
    return MOAO_OK;
}

/* Slopes between points with mean gradients. */
static status add_mixed(block *b, const piece *r, const piece *c) {
    const gpu_cov_job j = job_of(r, c);
    GPU_TRY(flush_other(b)); /* which uses the same memory */
    return gpu_cov_fill_mixed(b->c, &b->edges.aim, b->type, &b->unlike, &j);
}

static status add_like(block *b, const piece *r, const piece *c, matcov_link link) {
    if (b->like.njob == GPU_COV_JOBS)
        GPU_TRY(flush_like(b));
    gpu_cov_job *j = &b->like.job[b->like.njob++];
    *j = job_of(r, c);
    j->table = link.table;
    j->reversed = link.reversed;
    j->own = b->list == MATCOV_CMM && r->sensor == c->sensor;
    j->tiptilt = j->own ? b->c->tiptilt[r->sensor] : 0.0;
    return MOAO_OK;
}

/* The pieces of slopes [from, from + n) of sensors first .. first + count; at most two for each. */
static int cut(const backend_cov *c, int first, int count, int64_t from, int64_t n, piece *out) {
    int pieces = 0;
    int64_t begin = 0;
    for (int i = 0; i < 2 * count; i++) {
        const int nsub = c->host[first + i / 2].nsub;
        const int64_t lo = from > begin ? from : begin, end = begin + nsub,
                      hi = from + n < end ? from + n : end;
        if (lo < hi)
            out[pieces++] =
                piece{first + i / 2, i % 2, (int)(lo - begin), (int)(hi - lo), lo - from};
        begin = end;
    }
    return pieces;
}

static matcov_link link_of(const block *b, int row, int col) {
    const pair_list *k = &b->c->list[b->list];
    return k
        ->links[(b->list == MATCOV_CMM ? row : 0) * k->nsecond + (b->list == MATCOV_CTT ? 0 : col)];
}

static status fill_pieces(block *b, const piece *rows, int nrow, const piece *cols, int ncol) {
    const gpu_cov_entries *e = &b->like;
    for (int j = 0; j < ncol; j++)
        for (int i = 0; i < nrow; i++) {
            const piece *r = &rows[i], *c = &cols[j];
            if (e->part != 'A' && e->i0 + r->at + r->n - 1 < e->j0 + c->at)
                continue;
            const matcov_link link = link_of(b, r->sensor, c->sensor);
            const bool mixed =
                (b->c->host[r->sensor].phase_class < 0) != (b->c->host[c->sensor].phase_class < 0);
            if (link.table >= 0)
                GPU_TRY(add_like(b, r, c, link));
            else if (mixed)
                GPU_TRY(add_mixed(b, r, c));
            else if (link.gradient < 0)
                GPU_TRY(add_other(b, r, c));
        }
    GPU_TRY(flush_like(b));
    return flush_other(b);
}

/* Pairs of mean gradients without a common lattice. */
static status fill_means(block *b, const piece *rows, int nrow, const piece *cols, int ncol) {
    twin *r = (twin *)malloc(3 * (size_t)(nrow + ncol + 2) * sizeof *r);
    status st = r ? MOAO_OK : status_fail(MOAO_MEMORY, "no memory for the parts of a block");
    const int nr = r ? twins_of(rows, nrow, r) : 0, nc = r ? twins_of(cols, ncol, r + nr) : 0;
    for (int j = 0; j < nc; j++)
        for (int i = 0; i < nr && st == MOAO_OK; i++) {
            const matcov_link link = link_of(b, r[i].sensor, r[nr + j].sensor);
            if (link.table < 0 && link.gradient >= 0)
                st = add_means(b, &r[i], &r[nr + j], link);
        }
    for (int i = 0; i < 4 && st == MOAO_OK; i++)
        st = gpu_cov_flush_means(b->c, b->type, &b->means[i]);
    free(r);
    return st;
}

/* Sides of the block, of one sensor each; returns how many. */
static int sides_of(const piece *p, int n, gpu_outline_side *out) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (i == 0 || p[i].sensor != p[i - 1].sensor)
            out[count++] = gpu_outline_side{(short)p[i].sensor, {0, 0}, {0, 0}, {0, 0}};
        gpu_outline_side *s = &out[count - 1];
        s->k0[p[i].axis] = p[i].k0, s->k1[p[i].axis] = p[i].k0 + p[i].n;
        s->at[p[i].axis] = p[i].at - p[i].k0;
    }
    return count;
}

/* What outlines change of all of the block. */
static status add_outlines(block *b, const piece *rows, int nrow, const piece *cols, int ncol) {
    const gpu_cov_entries *e = &b->like;
    gpu_outline_side *r = (gpu_outline_side *)malloc((size_t)(nrow + ncol + 1) * sizeof *r);
    gpu_cov_outlines p = gpu_cov_outlines_of(b->c, &b->edges.aim, b->type);
    status st = r ? MOAO_OK : status_fail(MOAO_MEMORY, "no memory for the parts of a block");
    const int nr = r ? sides_of(rows, nrow, r) : 0, nc = r ? sides_of(cols, ncol, r + nr) : 0;
    p.whole.part = e->part;
    p.whole.a = e->a, p.whole.lda = e->lda, p.whole.i0 = e->i0, p.whole.j0 = e->j0;
    p.both = p.whole;
    for (int j = 0; j < nc; j++)
        for (int i = 0; i < nr && st == MOAO_OK; i++)
            st = gpu_cov_add_outlines(b->c, &p, &r[i], &r[nr + j],
                                      link_of(b, r[i].sensor, r[nr + j].sensor), e->tables);
    if (st == MOAO_OK)
        st = gpu_cov_flush_outlines(b->c, &p);
    free(r);
    return st;
}

status gpu_cov_fill(backend_cov *c, int list, const gpu_cov_set_direction *aim,
                    const gpu_cov_table *tables, backend_type t, char part, unsigned with,
                    matcov_region g, void *a, int64_t lda) {
    gpu_device_guard guard(c->ctx->device);
    const int n = c->nsensor;
    block b = {c, list, t, gpu_cov_edges_of(c, aim), {}, {}, {}, 0};
    piece *rows = (piece *)malloc(2 * (2 * n + 2) * sizeof *rows),
          *cols = rows ? rows + 2 * n + 2 : NULL;
    if (!rows)
        return status_fail(MOAO_MEMORY, "no memory for the parts of a block");
    b.unlike.part = part;
    b.unlike.with = with;
    b.unlike.sensors = c->sensors;
    b.unlike.tables = tables;
    b.unlike.sums = c->sums;
    b.unlike.noise = c->noise;
    b.unlike.a = a;
    b.unlike.lda = lda;
    b.unlike.i0 = g.i0;
    b.unlike.j0 = g.j0;
    b.unlike.first = c->first;
    b.like = b.unlike;
    for (gpu_cov_means &p : b.means) {
        p = gpu_cov_means_of(c, aim);
        p.part = part;
        p.a = a;
        p.lda = lda;
        p.i0 = g.i0;
        p.j0 = g.j0;
    }
    const int nrow =
        list == MATCOV_CMM ? cut(c, 0, n, g.i0, g.ni, rows) : cut(c, n, 1, g.i0, g.ni, rows);
    const int ncol =
        list == MATCOV_CTT ? cut(c, n, 1, g.j0, g.nj, cols) : cut(c, 0, n, g.j0, g.nj, cols);
    status st = fill_pieces(&b, rows, nrow, cols, ncol);
    if (st == MOAO_OK && c->means.nclass > 0)
        st = fill_means(&b, rows, nrow, cols, ncol);
    if (st == MOAO_OK && c->means.nclass > 0)
        st = add_outlines(&b, rows, nrow, cols, ncol);
    free(rows);
    return st;
}

status gpu_cov_fill_single(backend_cov *c, const gpu_cov_set_direction *aim, matcov_slopes k,
                           float to_fp16, void *a, int64_t lda, bool *done) {
    gpu_device_guard guard(c->ctx->device);
    const matcov_link link = c->list[MATCOV_CTM].links[k.sensor];
    const host_sensor *rows = &c->host[c->nsensor], *cols = &c->host[k.sensor];
    *done = k.n == 0;
    if (!c->difference || link.table >= 0 || k.n == 0)
        return MOAO_OK;
    gpu_cov_means p = gpu_cov_means_of(c, aim);
    gpu_cov_mean_job j = {};
    p.a = a, p.lda = lda, p.to_fp16 = to_fp16;
    j.rs = (short)c->nsensor, j.rows = 2, j.nr = rows->nsub, j.whole = true;
    j.cs = (short)k.sensor, j.cols = 2, j.ck = (int)k.k0, j.nc = (int)k.n;
    j.row[1] = rows->nsub, j.col[1] = k.apart;
    j.pair.gradient = -1;
    j.pair.scale = formula_slope_scale(rows->size, cols->size);
    if (link.gradient >= 0)
        j.pair = gpu_cov_pair_of(c, link.gradient, link.swapped);
    GPU_TRY(gpu_cov_by_surface(c, &p, &j, done));
    if (!*done)
        GPU_TRY(gpu_cov_by_pairs(c, &p, &j, gpu_cov_reach(c, false), done));
    if (!*done)
        return MOAO_OK;
    gpu_cov_outlines o = gpu_cov_outlines_of(c, aim, BACKEND_S);
    o.whole.a = a, o.whole.lda = lda, o.whole.to_fp16 = to_fp16;
    o.both = o.whole;
    const gpu_outline_side r = {j.rs, {0, 0}, {j.nr, j.nr}, {0, j.row[1]}};
    const int to = j.ck + j.nc;
    const gpu_outline_side s = {j.cs, {j.ck, j.ck}, {to, to}, {-j.ck, k.apart - j.ck}};
    GPU_TRY(gpu_cov_add_outlines(c, &o, &r, &s, link, NULL));
    return gpu_cov_flush_outlines(c, &o);
}

status gpu_cov_fill_both(backend_cov *c, const gpu_cov_set_direction *aim,
                         const gpu_cov_table *tables, backend_type t, matcov_slopes k, void *a,
                         int64_t lda) {
    const int64_t rows = 2 * c->host[c->nsensor].nsub, nsub = c->host[k.sensor].nsub;
    int64_t first = 0;
    bool done = k.n == 0;
    if (t == BACKEND_S)
        GPU_TRY(gpu_cov_fill_single(c, aim, k, 0.0f, a, lda, &done));
    for (int w = 0; w < k.sensor; w++)
        first += 2 * c->host[w].nsub;
    for (int axis = 0; axis < 2 && !done; axis++)
        GPU_TRY(gpu_cov_fill(c, MATCOV_CTM, aim, tables, t, 'A', 0,
                             matcov_region{0, rows, first + axis * nsub + k.k0, k.n},
                             (char *)a + axis * k.apart * lda * (int64_t)backend_size(t), lda));
    return MOAO_OK;
}
