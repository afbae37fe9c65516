/* The CPU backend's operands of products in several terms. */
#include "backend/backend_terms.h"
#include "cpu_own.h"
#include <stdlib.h>
#include <string.h>

/* n numbers in single precision in two halves: top, and what it leaves. */
static status two_halves(int64_t n, int exponent, const float *x, backend_f16 *top,
                         backend_f16 *rest) {
    return half_cpu.split(NULL, BACKEND_S, 'A', n, 1, exponent, x, n > 1 ? n : 1, top,
                          n > 1 ? n : 1, rest, n > 1 ? n : 1);
}

static status columns(backend_ctx *ctx, const char *parts, int64_t m, int64_t n,
                      const terms_column *list, int exponent, const float *x, int64_t ldx,
                      const float *y, int64_t ldy, backend_f16 *h, int64_t ldh) {
    backend_f16 *half = NULL;
    status st;
    (void)ctx;
    TRY(ALLOC(half, 2 * (size_t)m + 1, "halves of a column"));
    for (int64_t e = 0; m > 0 && e < n; e++) {
        const terms_column c = list[e];
        const float *from = c.from >= 0 ? x + c.from * ldx : y + (-1 - c.from) * ldy;
        TRY(two_halves(m, exponent, from, half, half + m));
        for (int t = 0; parts[t]; t++)
            memcpy(h + (c.to + t * c.step) * ldh, half + (parts[t] == 'r' ? m : 0),
                   sizeof *h * (size_t)m);
    }
done:
    free(half);
    return st;
}

static status blocks(backend_ctx *ctx, const char *parts, int64_t n, const terms_block *list,
                     int64_t most, int exponent, const float *x, backend_f16 *h) {
    backend_f16 *half = NULL;
    status st;
    (void)ctx;
    TRY(ALLOC(half, 2 * (size_t)most + 1, "halves of a column"));
    for (int64_t e = 0; e < n; e++)
        for (int64_t j = 0; j < list[e].cols; j++) {
            const terms_block b = list[e];
            TRY(two_halves(b.rows, exponent, x + b.from + j * b.rows, half, half + b.rows));
            for (int t = 0; parts[t]; t++)
                memcpy(h + b.to + j * b.ld + t * b.step, half + (parts[t] == 'r' ? b.rows : 0),
                       sizeof *h * (size_t)b.rows);
        }
done:
    free(half);
    return st;
}

const backend_terms terms_cpu = {
    .size = sizeof(backend_terms), .columns = columns, .blocks = blocks};
