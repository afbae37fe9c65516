/* D+ = J M^-1 D' in its parts, for bench_fp16_solve: J M^-1, and D' as a
 * sparse matrix. */
#ifndef MOAO_BENCH_FP16_SOLVE_RAW_H
#define MOAO_BENCH_FP16_SOLVE_RAW_H

#include "factor/scalapack.h"
#include "moao/backend.h"
#include "system/system.h"
#include "tor/command.h"

#include <math.h>
#include <stdlib.h>

/* out = J M^-1, v x v, 0 before (docs/model.md, section 6); d: D, t x v. */
static status raw_inverse(const sys *s, const double *d, double *out) {
    const int v = s->dm.nact;
    int info;
    status st = command_normal(s, d, out);
    if (st != MOAO_OK)
        return st;
    dpotrf_("L", &v, out, &v, &info);
    if (info == 0)
        dpotri_("L", &v, out, &v, &info);
    if (info != 0)
        return status_fail(MOAO_NUMERIC, "the normal matrix of the DM is not positive definite");
    for (int64_t j = 0; j < v; j++)
        for (int64_t i = 0; i < j; i++)
            out[i + j * v] = out[j + i * v];
    for (int64_t j = 0; j < v; j++) {
        double mean = 0;
        for (int64_t i = 0; i < v; i++)
            mean += out[i + j * v] / v;
        for (int64_t i = 0; i < v; i++)
            out[i + j * v] -= mean;
    }
    return MOAO_OK;
}

/* D' (v x t) on the device without entries under `cut` of the largest. */
static status raw_stencil(const backend *be, backend_ctx *ctx, backend_type type, int64_t t,
                          int64_t v, const double *d, double cut, backend_rows *out) {
    double most = 0;
    int64_t width = 0;
    int *column = NULL;
    void *value = NULL;
    status st;
    for (int64_t k = 0; k < t * v; k++)
        most = fmax(most, fabs(d[k]));
    for (int64_t i = 0; i < v; i++) {
        int64_t count = 0;
        for (int64_t k = 0; k < t; k++)
            count += fabs(d[k + i * t]) > cut * most;
        width = count > width ? count : width;
    }
    const size_t size = backend_size(type), entries = (size_t)(v * width);
    TRY(ALLOC(column, entries, "a sparse matrix"));
    value = calloc(entries, size);
    for (int64_t i = 0; i < v; i++) {
        int64_t at = 0;
        for (int64_t k = 0; k < width; k++)
            column[i + k * v] = -1;
        for (int64_t k = 0; k < t; k++) {
            const double x = d[k + i * t];
            if (!(fabs(x) > cut * most))
                continue;
            column[i + at * v] = (int)k;
            if (type == BACKEND_D)
                ((double *)value)[i + at++ * v] = x;
            else
                ((float *)value)[i + at++ * v] = (float)x;
        }
    }
    void *place[2];
    const int64_t bytes[2] = {(int64_t)(entries * sizeof *column), (int64_t)(entries * size)};
    for (int k = 0; k < 2; k++) {
        TRY(be->alloc(ctx, (size_t)bytes[k], &place[k]));
        TRY(be->copy(ctx, place[k], bytes[k], k == 0 ? (void *)column : value, bytes[k], bytes[k],
                     1));
    }
    TRY(be->sync(ctx));
    *out = (backend_rows){v, t, width, place[0], place[1]};
done:
    free(column);
    free(value);
    return st;
}

#endif
