#include "factor/factor.h"

#include <stdlib.h>

status factor_open(const factor_kind *kind, engine *e, const plan *p, const double *proj,
                   factor **out) {
    factor *f = NULL;
    status st = comm_agree(e->c, mem_alloc((void **)&f, 1, kind->object, "a factor"));
    if (st == MOAO_OK) {
        f->kind = kind;
        f->e = e;
        st = comm_agree(e->c, kind->open(f, p, proj));
        if (st != MOAO_OK)
            kind->close(f);
    }
    if (st != MOAO_OK) {
        free(f);
        f = NULL;
    }
    *out = f;
    return st;
}

void factor_close(factor *f) {
    if (f == NULL)
        return;
    f->kind->close(f);
    free(f);
}
