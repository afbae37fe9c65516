#include "residual/product.h"

#include <stdlib.h>

status product_open(const product_kind *kind, engine *e, const plan *p, const double *proj,
                    factor *f, product **out) {
    product *x = NULL;
    status st = comm_agree(e->c, mem_alloc((void **)&x, 1, kind->object, "a product"));
    if (st == MOAO_OK) {
        x->kind = kind;
        x->e = e;
        x->f = f;
        st = comm_agree(e->c, kind->open(x, p, proj));
        if (st != MOAO_OK)
            kind->close(x);
    }
    if (st != MOAO_OK) {
        free(x);
        x = NULL;
    }
    *out = x;
    return st;
}

void product_close(product *x) {
    if (x == NULL)
        return;
    x->kind->close(x);
    free(x);
}

const product_kind *product_exact(const factor_kind *f) {
    return f == &factor_dense           ? &product_stored
           : f == &factor_dense_integer ? &product_integer
           : f == &factor_host          ? &product_streamed
           : f->collective              ? &product_collective
                                        : &product_panels;
}
