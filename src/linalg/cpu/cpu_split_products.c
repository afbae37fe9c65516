/* The CPU backend's many products in several terms, one after another. */
#include "cpu_own.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

status split_cpu_exponent(backend_ctx *ctx, const double *most, double *bound, double factor,
                          int32_t *out) {
    (void)ctx;
    if (most && !(*most <= *bound) && !isnan(*bound))
        *bound = *most;
    const int e = backend_fp16_exponent(factor * *bound);
    *out = e < -SPLIT_EXPONENT ? -SPLIT_EXPONENT : e > SPLIT_EXPONENT ? SPLIT_EXPONENT : e;
    return MOAO_OK;
}

status split_cpu_take(backend_ctx *ctx, int parts, int64_t m, int64_t n, const int32_t *exponent,
                      const float *x, int64_t ldx, int64_t step, backend_f16 *h, int64_t ldh) {
    if (m == 0 || n == 0)
        return MOAO_OK;
    return parts > 1 ? fp16_cpu.split(ctx, BACKEND_S, 'A', m, n, *exponent, x, ldx, h, ldh,
                                      h + step * ldh, ldh)
                     : fp16_cpu.cast_to_fp16(ctx, BACKEND_S, m, n, *exponent, x, ldx, h, ldh);
}

status split_cpu_pack(backend_ctx *ctx, int64_t n, const split_pack *list, int exponent,
                      const float *s, const backend_f16 *h, backend_f16 *b, int64_t ldb,
                      split_place *places) {
    backend_f16 *const rest = calloc((size_t)ldb + 1, sizeof *rest);
    status st = MOAO_OK;
    (void)ctx;
    if (!rest)
        return status_fail(MOAO_MEMORY, "cannot allocate a column of %lld FP16 numbers",
                           (long long)ldb);
    for (int64_t e = 0; e < n; e++)
        for (int64_t j = 0; j < list[e].cols; j++) {
            const split_pack *t = list + e;
            backend_f16 *const to = b + (t->to + j) * ldb;
            const size_t bytes = sizeof *b * (size_t)t->rows;
            memset(to, 0, sizeof *b * (size_t)ldb);
            if (t->kept < 0)
                memcpy(to, h - 1 - t->kept + j * t->rows, bytes);
            else
                TRY(split_cpu_two_fp16(t->rows, exponent, s + t->kept + j * t->rows, to, rest));
            if (t->parts > 1) {
                memset(to + t->step * ldb, 0, sizeof *b * (size_t)ldb);
                memcpy(to + t->step * ldb, rest, bytes);
            }
            if (t->place.to >= 0)
                places[t->to + j] = (split_place){(int32_t)(t->place.to + j), t->place.step};
        }
done:
    free(rest);
    return st;
}

static float scale_of(const split_products *p, const split_segment *s) {
    return ldexpf(s->scale, -p->exponent[s->of] - (s->of_b < 0 ? 0 : p->exponent[s->of_b]));
}

/* The result of a task, m x cols. */
static status result(const split_products *p, const split_task *t, float *out) {
    status st = MOAO_OK;
    memset(out, 0, sizeof *out * (size_t)(p->m * t->cols));
    for (int k = 0; k < t->segments && st == MOAO_OK; k++) {
        const split_segment *s = p->segment + t->first + k;
        const float before = k > 0 ? scale_of(p, s - 1) / scale_of(p, s) : 1;
        st = fp16_cpu.gemm(NULL, 'N', s->down ? 'N' : 'T', p->m, t->cols, s->inner, 1,
                           p->a + s->a * p->lda, p->lda, p->b + s->b * p->ldb + s->row, p->ldb,
                           before, out, p->m);
    }
    const float scale = t->segments > 0 ? scale_of(p, p->segment + t->first + t->segments - 1) : 0;
    for (int64_t i = 0; i < p->m * t->cols; i++)
        out[i] *= scale;
    return st;
}

status split_cpu_sum(backend_ctx *ctx, const split_products *p, bool add, float *c, int64_t ldc,
                     int64_t c_cols) {
    float *out = NULL;
    status st;
    (void)ctx, (void)c_cols;
    TRY(ALLOC(out, (size_t)(p->m * SPLIT_WIDEST) + 1, "a result"));
    for (int64_t e = 0; p->m > 0 && e < p->count; e++) {
        TRY(result(p, p->task + e, out));
        for (int64_t j = 0; j < p->task[e].cols; j++)
            for (int64_t i = 0; i < p->m; i++) {
                float *const to = c + i + (p->task[e].to + j) * ldc;
                *to = out[i + j * p->m] + (add ? *to : 0);
            }
    }
done:
    free(out);
    return st;
}

status split_cpu_halve(backend_ctx *ctx, const split_products *p, const int32_t *exponent,
                       const split_place *place, backend_f16 *h, int64_t ldh) {
    float *out = NULL;
    backend_f16 *half = NULL;
    status st;
    (void)ctx;
    TRY(ALLOC(out, (size_t)(p->m * SPLIT_WIDEST) + 1, "a result"));
    TRY(ALLOC(half, 2 * (size_t)p->m + 1, "FP16 parts of a column"));
    for (int64_t e = 0; p->m > 0 && e < p->count; e++) {
        TRY(result(p, p->task + e, out));
        for (int64_t j = 0; j < p->task[e].cols; j++) {
            const split_place to = place[p->task[e].to + j];
            TRY(split_cpu_two_fp16(p->m, *exponent, out + j * p->m, half, half + p->m));
            for (int k = 0; k < p->task[e].parts; k++)
                memcpy(h + (to.to + (int64_t)k * to.step) * ldh, half + k * p->m,
                       sizeof *h * (size_t)p->m);
        }
    }
done:
    free(out);
    free(half);
    return st;
}
