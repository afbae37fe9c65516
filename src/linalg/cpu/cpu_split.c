/* The CPU backend's operands of products in several terms. */
#include "cpu_own.h"
#include "moao/backend_split.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

status split_cpu_two_fp16(int64_t n, int exponent, const float *x, backend_f16 *top,
                          backend_f16 *rest) {
    return fp16_cpu.split(NULL, BACKEND_S, 'A', n, 1, exponent, x, n > 1 ? n : 1, top,
                          n > 1 ? n : 1, rest, n > 1 ? n : 1);
}

static status columns(backend_ctx *ctx, const char *parts, int64_t m, int64_t n,
                      const split_column *list, int exponent, const float *x, int64_t ldx,
                      const float *y, int64_t ldy, backend_f16 *h, int64_t ldh) {
    backend_f16 *half = NULL;
    status st;
    (void)ctx;
    TRY(ALLOC(half, 2 * (size_t)m + 1, "FP16 parts of a column"));
    for (int64_t e = 0; m > 0 && e < n; e++) {
        const split_column c = list[e];
        const float *from = c.from >= 0 ? x + c.from * ldx : y + (-1 - c.from) * ldy;
        TRY(split_cpu_two_fp16(m, exponent, from, half, half + m));
        for (int t = 0; parts[t]; t++)
            memcpy(h + (c.to + t * c.step) * ldh, half + (parts[t] == 'r' ? m : 0),
                   sizeof *h * (size_t)m);
    }
done:
    free(half);
    return st;
}

static status blocks(backend_ctx *ctx, const char *parts, int64_t n, const split_block *list,
                     int64_t most, int exponent, const float *x, backend_f16 *h) {
    backend_f16 *half = NULL;
    status st;
    (void)ctx;
    TRY(ALLOC(half, 2 * (size_t)most + 1, "FP16 parts of a column"));
    for (int64_t e = 0; e < n; e++)
        for (int64_t j = 0; j < list[e].cols; j++) {
            const split_block b = list[e];
            TRY(split_cpu_two_fp16(b.rows, exponent, x + b.from + j * b.rows, half, half + b.rows));
            for (int t = 0; parts[t]; t++)
                memcpy(h + b.to + j * b.ld + t * b.step, half + (parts[t] == 'r' ? b.rows : 0),
                       sizeof *h * (size_t)b.rows);
        }
done:
    free(half);
    return st;
}

static status narrow(backend_ctx *ctx, int64_t n, const split_run *list, int64_t most, int exponent,
                     const float *x, float *s, backend_f16 *h) {
    (void)ctx, (void)most;
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t e = 0; e < n; e++) {
        const split_run r = list[e];
        if (r.kept >= 0)
            memcpy(s + r.kept, x + r.at, sizeof *s * (size_t)r.count);
        else
            fp16_cpu.cast_to_fp16(NULL, BACKEND_S, r.count, 1, exponent, x + r.at, r.count,
                                  h - 1 - r.kept, r.count);
    }
    return MOAO_OK;
}

/* 2^-exponent h for many numbers: the bits of a half, moved to where a single has them, are that of
 * a number 2^112 times smaller, subnormal FP16 numbers too. */
static void spread(int64_t n, int exponent, const backend_f16 *h, float *x) {
    const float up = 0x1p112f, scale = ldexpf(1, -exponent);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t sign = (uint32_t)(h[i] & 0x8000) << 16, rest = h[i] & 0x7fff;
        const uint32_t bits = sign | rest << 13, top = bits | 0x7f800000;
        float small, large; /* infinite or NaN */
        memcpy(&small, &bits, sizeof small);
        memcpy(&large, &top, sizeof large);
        x[i] = (rest < 0x7c00 ? small * up : large) * scale;
    }
}

static status widen(backend_ctx *ctx, int64_t n, const split_run *list, int64_t most, int exponent,
                    const float *s, const backend_f16 *h, float *x) {
    (void)ctx, (void)most;
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t e = 0; e < n; e++) {
        const split_run r = list[e];
        if (r.kept >= 0)
            memcpy(x + r.at, s + r.kept, sizeof *x * (size_t)r.count);
        else
            spread(r.count, exponent, h - 1 - r.kept, x + r.at);
    }
    return MOAO_OK;
}

static status squares(backend_ctx *ctx, int64_t n, const split_part *list, int64_t most,
                      const double *x, double *out) {
    (void)ctx, (void)most;
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t e = 0; e < n; e++)
        for (int64_t j = 0; j < list[e].cols; j++) {
            const double *from = x + list[e].from + j * list[e].ld;
            double sum = 0;
            for (int64_t i = 0; i < list[e].rows; i++)
                sum += from[i] * from[i];
            out[list[e].to + j] = sum;
        }
    return MOAO_OK;
}

const backend_split_ops split_cpu = {.size = sizeof(backend_split_ops),
                                     .columns = columns,
                                     .blocks = blocks,
                                     .narrow = narrow,
                                     .widen = widen,
                                     .squares = squares,
                                     .exponent = split_cpu_exponent,
                                     .take = split_cpu_take,
                                     .pack = split_cpu_pack,
                                     .sum = split_cpu_sum,
                                     .halve = split_cpu_halve};
