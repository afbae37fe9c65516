/* Arrays and lists in transit to the backend. */
#include "nested.h"
#include <stdlib.h>
#include <string.h>

status pack_add(pack *p, int64_t count, size_t size, size_t *at) {
    const size_t bytes = hier_aligned((size_t)count * size);
    if (p->used + bytes > p->room) {
        const size_t room = 2 * p->room + bytes + 65536;
        char *more = realloc(p->host, room);
        if (!more)
            return status_fail(MOAO_MEMORY, "no memory for arrays of %zu bytes", room);
        p->host = more, p->room = room;
    }
    *at = p->used;
    if (bytes > 0)
        memset(p->host + p->used, 0, bytes);
    p->used += bytes;
    return MOAO_OK;
}

status pack_place(const format *f, pack *p) {
    status st = f->be->sync(f->ctx);
    if (st != MOAO_OK || p->used <= p->device_room)
        return st;
    f->be->release(f->ctx, p->device);
    p->device = NULL, p->device_room = 0;
    st = f->be->alloc(f->ctx, p->used + p->used / 2, (void **)&p->device);
    if (st == MOAO_OK)
        p->device_room = p->used + p->used / 2;
    return st;
}

status pack_send(const format *f, pack *p) {
    const int64_t bytes = (int64_t)p->used;
    const status st = f->be->copy(f->ctx, p->device, bytes, p->host, bytes, bytes, 1);
    return st != MOAO_OK ? st : f->be->sync(f->ctx);
}

void pack_clear(pack *p) {
    p->used = 0;
}

void pack_free(const format *f, pack *p) {
    free(p->host);
    f->be->release(f->ctx, p->device);
    *p = (pack){0};
}

static status grow(void **array, int64_t *room, int64_t used, size_t size) {
    if (used < *room)
        return MOAO_OK;
    const int64_t more = 2 * *room + 1024;
    void *p = realloc(*array, (size_t)more * size);
    if (!p)
        return status_fail(MOAO_MEMORY, "no memory for a list of %lld sums", (long long)more);
    *array = p, *room = more;
    return MOAO_OK;
}

status plan_launch(plan *p) {
    status st = MOAO_OK;
    if (p->launches == p->room_launches) {
        const int room = 2 * p->room_launches + 64;
        int64_t **list[] = {&p->first, &p->most, &p->inner, &p->linked};
        for (int i = 0; i < 4; i++) {
            int64_t *more = realloc(*list[i], sizeof *more * (size_t)room);
            if (!more)
                return status_fail(MOAO_MEMORY, "no memory for the launches of a format");
            *list[i] = more;
        }
        p->room_launches = room;
    }
    p->first[p->launches] = p->sums, p->most[p->launches] = p->inner[p->launches] = 0;
    p->linked[p->launches] = 1;
    p->launches++;
    return st;
}

status plan_sum(plan *p, int64_t row, int64_t m) {
    const status st = grow((void **)&p->sum, &p->room_sums, p->sums, sizeof *p->sum);
    p->skip = m == 0, p->inner_sum = 0;
    if (st == MOAO_OK && (m > 0 || p->whole)) {
        p->sum[p->sums++] = (hier_gemm_sum){row, (int32_t)m, 0, p->terms};
        if (m > p->most[p->launches - 1])
            p->most[p->launches - 1] = m;
    }
    return st;
}

status plan_term(plan *p, const void *a, int64_t lda, bool trans, int64_t k, int from,
                 int64_t row) {
    const status st = grow((void **)&p->term, &p->room_terms, p->terms, sizeof *p->term);
    if (st == MOAO_OK && k > 0 && !p->skip) {
        p->term[p->terms++] = (hier_gemm_term){a, row, (int32_t)lda, (int32_t)k, from, trans};
        p->sum[p->sums - 1].terms++;
        p->inner_sum += (k + 7) / 8 * 8;
        if (p->inner_sum > p->inner[p->launches - 1])
            p->inner[p->launches - 1] = p->inner_sum;
    }
    return st;
}

status plan_send(const format *f, plan *p) {
    status st;
    f->be->release(f->ctx, p->on), f->be->release(f->ctx, p->on_term);
    p->on = NULL, p->on_term = NULL;
    TRY(hier_upload(f, p->sum, sizeof *p->sum * (size_t)p->sums, (void **)&p->on));
    TRY(hier_upload(f, p->term, sizeof *p->term * (size_t)p->terms, (void **)&p->on_term));
done:
    return st;
}

hier_gemm_sums plan_part(const plan *p, int l) {
    const int64_t end = l + 1 < p->launches ? p->first[l + 1] : p->sums;
    return (hier_gemm_sums){end - p->first[l], p->most[l], p->on + p->first[l], p->on_term,
                            p->inner[l]};
}

void plan_link(plan *p, int l, int levels) {
    p->linked[l] = levels;
}

hier_fused plan_chain(const plan *p, int l, bool down, int from) {
    const int levels = (int)p->linked[l];
    hier_fused c = {.levels = levels, .down = down, .from = from};
    for (int i = 0; i < levels; i++)
        c.level[i] = plan_part(p, l + i);
    c.count = c.level[down ? 0 : levels - 1].count;
    return c;
}

double plan_flops(const plan *p) {
    double flops = 0;
    for (int64_t i = 0; i < p->sums; i++)
        for (int64_t e = 0; e < p->sum[i].terms; e++)
            flops += 2.0 * p->sum[i].m * p->term[p->sum[i].first + e].k;
    return flops;
}

void plan_free(const format *f, plan *p) {
    free(p->sum), free(p->term), free(p->first), free(p->most), free(p->inner), free(p->linked);
    f->be->release(f->ctx, p->on), f->be->release(f->ctx, p->on_term);
    *p = (plan){0};
}

status call_open(const format *f, pack *p, call *q, int64_t count) {
    status st = MOAO_OK;
    *q = (call){.count = count};
    pack_clear(p);
    for (int e = 0; e < 3; e++) {
        TRY(pack_add(p, count, sizeof(int64_t), &q->size[e]));
        TRY(pack_add(p, count, sizeof(void *), &q->to[e]));
    }
    TRY(pack_place(f, p));
done:
    return st;
}

void call_set(pack *p, call *q, int64_t i, int64_t m, int64_t n, int64_t k, char *a, char *b,
              char *c) {
    const int64_t size[3] = {m, n, k};
    char *const to[3] = {a, b, c};
    for (int e = 0; e < 3; e++) {
        ((int64_t *)pack_host(p, q->size[e]))[i] = size[e];
        ((char **)pack_host(p, q->to[e]))[i] = to[e];
        q->most[e] = size[e] > q->most[e] ? size[e] : q->most[e];
    }
}

batch_dim call_dim(const pack *p, const call *q, int e) {
    return (batch_dim){q->most[e], pack_device(p, q->size[e])};
}
batch_mat call_mat(const pack *p, const call *q, int e, int64_t ld) {
    return batch_pointers(pack_device(p, q->to[e]), ld);
}

status call_gemm(const format *f, pack *p, call *q, char ta, char tb, double alpha, int64_t lda,
                 int64_t ldb, double beta, int64_t ldc) {
    const float as = (float)alpha, bs = (float)beta;
    const bool d = f->o.type == BACKEND_D;
    const status st = pack_send(f, p);
    return st != MOAO_OK
               ? st
               : f->be->batch->gemm(
                     f->ctx, f->o.type, ta, tb, q->count, call_dim(p, q, 0), call_dim(p, q, 1),
                     call_dim(p, q, 2), d ? (const void *)&alpha : &as, call_mat(p, q, 0, lda),
                     call_mat(p, q, 1, ldb), d ? (const void *)&beta : &bs, call_mat(p, q, 2, ldc));
}

status identity_make(const format *f, int64_t n, char **one) {
    const size_t size = backend_size(f->o.type);
    void *host = NULL;
    status st;
    TRY(mem_alloc(&host, (unsigned long)(n * n), size, "an identity"));
    for (int64_t i = 0; i < n; i++)
        number_set(f->o.type, host, i * (n + 1), 1);
    TRY(hier_upload(f, host, (size_t)(n * n) * size, (void **)one));
done:
    free(host);
    return st;
}

void nested_level_free(const format *f, nested_level *v) {
    free(v->size), free(v->rank), free(v->up);
    f->be->release(f->ctx, v->u), f->be->release(f->ctx, v->b);
    *v = (nested_level){0};
}

status take(const format *f, size_t bytes, void **p) {
    return f->be->alloc(f->ctx, bytes, p);
}

status pool_open(format *f) {
    return ALLOC(f->pool, 1, "a pool of memory");
}

void pool_close(format *f) {
    for (int i = 0; f->pool && i < f->pool->count; i++)
        f->be->release(f->ctx, f->pool->part[i].p);
    free(f->pool);
    f->pool = NULL;
}

/* The smallest part that is large enough, else a new one, for which a free one too small goes. */
status borrow(const format *f, size_t bytes, void **p) {
    pool *q = f->pool;
    int best = -1;
    status st;
    *p = NULL;
    for (int i = 0; q && i < q->count; i++)
        if (!q->part[i].used && q->part[i].bytes >= bytes &&
            (best < 0 || q->part[i].bytes < q->part[best].bytes))
            best = i;
    if (best >= 0) {
        q->part[best].used = true, *p = q->part[best].p;
        return MOAO_OK;
    }
    for (int i = 0; q && i < q->count && best < 0; i++)
        if (!q->part[i].used) {
            f->be->release(f->ctx, q->part[i].p);
            q->part[i].p = NULL, q->part[i].bytes = 0, best = i;
        }
    if (q && best < 0 && q->count < 64)
        best = q->count++;
    st = f->be->alloc(f->ctx, bytes, p);
    if (q && best >= 0) {
        q->part[best].p = *p, q->part[best].bytes = st == MOAO_OK ? bytes : 0;
        q->part[best].used = st == MOAO_OK;
    }
    return st;
}

void give(const format *f, void *p) {
    pool *q = f->pool;
    for (int i = 0; q && p && i < q->count; i++)
        if (q->part[i].p == p) {
            q->part[i].used = false;
            return;
        }
    f->be->release(f->ctx, p);
}
