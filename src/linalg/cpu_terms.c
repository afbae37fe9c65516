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

static status columns(backend_ctx *ctx, int terms, int64_t m, int64_t n, const terms_column *list,
                      int exponent, const float *x, int64_t ldx, const float *y, int64_t ldy,
                      backend_f16 *h, int64_t ldh) {
    backend_f16 *rest = NULL;
    status st;
    (void)ctx;
    TRY(ALLOC(rest, (size_t)m + 1, "halves of a column"));
    for (int64_t e = 0; m > 0 && e < n; e++) {
        const terms_column c = list[e];
        const float *from = c.from >= 0 ? x + c.from * ldx : y + (-1 - c.from) * ldy;
        backend_f16 *to = h + c.to * ldh;
        TRY(two_halves(m, exponent, from, to, rest));
        for (int t = 1; t < terms; t++)
            memcpy(to + t * c.step * ldh, t == 1 ? to : rest, sizeof *to * (size_t)m);
    }
done:
    free(rest);
    return st;
}

static status blocks(backend_ctx *ctx, int terms, int64_t n, const terms_block *list, int64_t most,
                     int exponent, const float *x, backend_f16 *h) {
    backend_f16 *rest = NULL;
    status st;
    (void)ctx;
    TRY(ALLOC(rest, (size_t)most + 1, "halves of a column"));
    for (int64_t e = 0; e < n; e++)
        for (int64_t j = 0; j < list[e].cols; j++) {
            const terms_block b = list[e];
            backend_f16 *to = h + b.to + j * b.ld;
            TRY(two_halves(b.rows, exponent, x + b.from + j * b.rows, to, rest));
            for (int t = 1; t < terms; t++)
                memcpy(to + t * b.step, t == 1 ? rest : to, sizeof *to * (size_t)b.rows);
        }
done:
    free(rest);
    return st;
}

const backend_terms terms_cpu = {
    .size = sizeof(backend_terms), .columns = columns, .blocks = blocks};
