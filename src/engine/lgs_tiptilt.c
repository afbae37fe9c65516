#include "engine/lgs_tiptilt.h"

#include <stdlib.h>

int tiptilt_constants(const sys *s) {
    int n = 0;
    for (int w = 0; w < s->nsensor; w++)
        n += s->sensors[w].lgs ? 2 : 0;
    return n;
}

status tiptilt_axes(engine *e, double *axes) {
    const sys *s = e->s;
    const int64_t count = e->m * tiptilt_constants(s);
    double *a = NULL;
    int k = 0;
    status st;
    TRY(ALLOC(a, (size_t)count, "tip-tilt constants"));
    for (int w = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2 && s->sensors[w].lgs; axis++, k++)
            for (int i = 0; i < s->sensors[w].nsub; i++)
                a[(int64_t)s->sensors[w].first + axis * s->sensors[w].nsub + i + k * e->m] = 1;
    TRY(engine_copy(e, axes, a, count));
    TRY(engine_sync(e));
done:
    free(a);
    return st;
}

void tiptilt_fp16(const engine *e, double *diagonal) {
    const sys *s = e->s;
    const int n = tiptilt_constants(s);
    for (int w = 0, k = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2 && s->sensors[w].lgs; axis++, k++)
            diagonal[k + k * n] = 0.5 * matcov_tiptilt(e->mc, w);
}
