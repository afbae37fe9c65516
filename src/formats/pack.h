/* What the code of trees sends to the backend before its batched calls: arrays of pointers and
 * sizes in one piece, and lists of sums. Host code. */
#ifndef MOAO_FORMATS_PACK_H
#define MOAO_FORMATS_PACK_H

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
    formats_sum *sum;
    formats_term *term;
    int64_t sums, terms, room_sums, room_terms;
    int launches, room_launches;
    int64_t *first, *most; /* of each launch its first sum, the largest m */
    formats_sum *on;       /* device */
    formats_term *on_term;
} plan;

status plan_launch(plan *p);                      /* the sums that follow are another launch */
status plan_sum(plan *p, int64_t row, int64_t m); /* the terms that follow belong to it */
status plan_term(plan *p, const void *a, int64_t lda, bool trans, int64_t k, int from, int64_t row);
status plan_send(const format *f, plan *p);
formats_sums plan_part(const plan *p, int launch);
void plan_free(const format *f, plan *p);
double plan_flops(const plan *p); /* of one vector */

/* Device memory. */
status take(const format *f, size_t bytes, void **p);

#ifdef __cplusplus
}
#endif
#endif
