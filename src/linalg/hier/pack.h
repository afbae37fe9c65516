/* What the code of trees sends to the backend before its batched calls: arrays of pointers and
 * sizes in one piece, and lists of sums. Host code. */
#ifndef MOAO_HIER_PACK_H
#define MOAO_HIER_PACK_H

#include "internal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arrays that travel together. Sizes are fixed when each is added; the memory serves again. */
typedef struct {
    char *host, *device;
    size_t used, room, device_room;
} pack;

/* Place for `count` elements of `size` bytes: its offset, for pack_host and pack_device. */
status pack_add(pack *p, int64_t count, size_t size, size_t *at);
static inline void *pack_host(const pack *p, size_t at) {
    return p->host + at;
}
static inline void *pack_device(const pack *p, size_t at) {
    return p->device + at;
}
/* Room on the device for what was added (device addresses hold from here on), and the copy of it.
 * Both wait for what still reads the last contents. */
status pack_place(const format *f, pack *p);
status pack_send(const format *f, pack *p);
/* Empty again, with its memory. */
void pack_clear(pack *p);
void pack_free(const format *f, pack *p);

/* The launches of a product: lists of sums that grow on the host, then go to the backend. */
typedef struct {
    hier_gemm_sum *sum;
    hier_gemm_term *term;
    int64_t sums, terms, room_sums, room_terms;
    int launches, room_launches;
    bool skip;             /* the current sum has no rows */
    bool whole;            /* sums of no rows are listed too */
    int64_t *first, *most; /* of each launch its first sum, the largest m, */
    int64_t *inner;        /* the largest inner size of a sum (hier_gemm_sums), */
    int64_t *linked;       /* and how many launches from it on make a chain (1: none) */
    int64_t inner_sum;     /* that of the current sum */
    hier_gemm_sum *on;     /* device */
    hier_gemm_term *on_term;
} plan;

status plan_launch(plan *p);                      /* the sums that follow are another launch */
status plan_sum(plan *p, int64_t row, int64_t m); /* the terms that follow belong to it */
status plan_term(plan *p, const void *a, int64_t lda, bool trans, int64_t k, int from, int64_t row);
status plan_send(const format *f, plan *p);
hier_gemm_sums plan_part(const plan *p, int launch);
/* `levels` launches from `launch` on are a chain (hier_fused); the chain. */
void plan_link(plan *p, int launch, int levels);
hier_fused plan_chain(const plan *p, int launch, bool down, int from);
void plan_free(const format *f, plan *p);
double plan_flops(const plan *p); /* of one vector */

/* Sizes and pointers of one batched call, which is made when all are set: m, n, k and operands a,
 * b, c (elements in the backend's memory; those that a call has not are NULL). */
typedef struct {
    int64_t count;
    size_t size[3], to[3];
    int64_t most[3];
} call;

status call_open(const format *f, pack *p, call *q, int64_t count);
void call_set(pack *p, call *q, int64_t i, int64_t m, int64_t n, int64_t k, char *a, char *b,
              char *c);
batch_dim call_dim(const pack *p, const call *q, int e);             /* size e, after pack_send */
batch_mat call_mat(const pack *p, const call *q, int e, int64_t ld); /* operand e */
/* C := alpha op(A) op(B) + beta C with what was set; sends it first. */
status call_gemm(const format *f, pack *p, call *q, char ta, char tb, double alpha, int64_t lda,
                 int64_t ldb, double beta, int64_t ldc);

/* The identity of order n, of the format's type, in new memory of the backend. */
status identity_make(const format *f, int64_t n, char **one);

/* Device memory. */
status take(const format *f, size_t bytes, void **p);

/* Device memory for a while: what was given back serves again until pool_close, for to allocate and
 * to release takes longer than the work of a small level. Without a pool (pool_open) as take and
 * release. */
typedef struct pool {
    struct {
        void *p;
        size_t bytes;
        bool used;
    } part[64];
    int count;
} pool;
status pool_open(format *f);
void pool_close(format *f);
status borrow(const format *f, size_t bytes, void **p);
void give(const format *f, void *p);

#ifdef __cplusplus
}
#endif
#endif
