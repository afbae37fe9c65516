/* Blocks of covariance matrices, cut into jobs for the kernels: one for each pair of axes of two
 * sensors. */
#include "matcov/formula.h"
#include "matcov_host.cuh"
#include <stdlib.h>
#include <string.h>

gpu_cov_edges gpu_cov_edges_of(const backend_cov *c, const gpu_cov_aim *aim) {
    gpu_cov_edges p = {};
    memcpy(p.from, c->from, sizeof p.from);
    p.sensors = c->sensors;
    p.layers = c->layers;
    p.structure = c->structure;
    p.sums = c->sums;
    p.aim = *aim;
    return p;
}

gpu_cov_means gpu_cov_means_of(const backend_cov *c, const gpu_cov_aim *aim) {
    gpu_cov_means p = {};
    p.part = 'A';
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

/* A block on its way: the jobs gathered so far. */
struct block {
    backend_cov *c;
    int list;
    backend_type type;
    gpu_cov_edges edges;
    gpu_cov_entries unlike, like;
    gpu_cov_means means;
    size_t used; /* of the sums */
};

/* Slopes k0 .. k0 + n of one axis of a sensor, at row or column `at` of the block. */
struct piece {
    int sensor, axis, k0, n;
    int64_t at;
};

static status flush_unlike(block *b) {
    cudaStream_t stream = b->c->ctx->main.stream;
    if (b->unlike.njob > 0) {
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

static status flush_means(block *b) {
    if (b->means.njob > 0)
        GPU_TRY(gpu_cov_fill_means(b->c->ctx->main.stream, b->type, &b->means));
    b->means.njob = 0;
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

/* Jobs of a pair that is not alike; as many columns at a time as there is memory for their sums. */
static status add_unlike(block *b, const piece *r, const piece *whole) {
    const host_sensor *rows = &b->c->host[r->sensor], *cols = &b->c->host[whole->sensor];
    const bool whole_axis = r->n == rows->nsub;
    const size_t nre = edge_count(rows, r->axis, r->k0, r->n);
    for (piece c = *whole; c.n > 0;) {
        size_t need = nre * edge_count(cols, c.axis, c.k0, c.n);
        if (b->unlike.njob == GPU_COV_JOBS || b->used + need > b->c->nsums)
            GPU_TRY(flush_unlike(b));
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

/* A job of a pair of mean gradients that is not alike. */
static status add_means(block *b, const piece *r, const piece *c, matcov_link link) {
    if (b->means.njob == GPU_COV_JOBS)
        GPU_TRY(flush_means(b));
    gpu_cov_mean_job j = {};
    j.rs = (short)r->sensor, j.ra = (char)r->axis, j.rk = r->k0, j.nr = r->n, j.row = r->at;
    j.cs = (short)c->sensor, j.ca = (char)c->axis, j.ck = c->k0, j.nc = c->n, j.col = c->at;
    j.pair = gpu_cov_pair_of(b->c, link.gradient, link.swapped);
    b->means.job[b->means.njob++] = j;
    return MOAO_OK;
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

static status fill_pieces(block *b, const piece *rows, int nrow, const piece *cols, int ncol) {
    const pair_list *k = &b->c->list[b->list];
    const gpu_cov_entries *e = &b->like;
    for (int j = 0; j < ncol; j++)
        for (int i = 0; i < nrow; i++) {
            const piece *r = &rows[i], *c = &cols[j];
            if (e->part != 'A' && e->i0 + r->at + r->n - 1 < e->j0 + c->at)
                continue;
            const int a = b->list == MATCOV_CMM ? r->sensor : 0,
                      s = b->list == MATCOV_CTT ? 0 : c->sensor;
            const matcov_link link = k->links[a * k->nsecond + s];
            GPU_TRY(link.table >= 0      ? add_like(b, r, c, link)
                    : link.gradient >= 0 ? add_means(b, r, c, link)
                                         : add_unlike(b, r, c));
        }
    GPU_TRY(flush_like(b));
    GPU_TRY(flush_means(b));
    return flush_unlike(b);
}

status gpu_cov_fill(backend_cov *c, int list, const gpu_cov_aim *aim, const gpu_cov_table *tables,
                    backend_type t, char part, unsigned with, gpu_cov_region g, void *a,
                    int64_t lda) {
    gpu_device_guard guard(c->ctx->device);
    const int n = c->nsensor;
    block b = {c, list, t, gpu_cov_edges_of(c, aim), {}, {}, gpu_cov_means_of(c, aim), 0};
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
    b.means.part = part;
    b.means.a = a;
    b.means.lda = lda;
    b.means.i0 = g.i0;
    b.means.j0 = g.j0;
    const int nrow =
        list == MATCOV_CMM ? cut(c, 0, n, g.i0, g.ni, rows) : cut(c, n, 1, g.i0, g.ni, rows);
    const int ncol =
        list == MATCOV_CTT ? cut(c, n, 1, g.j0, g.nj, cols) : cut(c, 0, n, g.j0, g.nj, cols);
    const status st = fill_pieces(&b, rows, nrow, cols, ncol);
    free(rows);
    return st;
}
