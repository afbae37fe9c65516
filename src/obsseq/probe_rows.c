#include "obsseq/obsseq.h"

#include <cblas.h>
#include <string.h>

void obsseq_probe(const rowteam *t, const rowchunk *ch, const double *y, probe *p) {
    const int rows = ch->nlrow, m = (int)t->s->m;
    memset(p->q, 0, (size_t)p->n * t->s->m * sizeof *p->q);
    memset(p->y, 0, (size_t)p->n * sizeof *p->y);
    for (int k = 0; k < ch->nmine && rows > 0; k++) {
        const int i = probe_find(p, ch->mine + k);
        if (i < 0)
            continue;
        const double *x = p->x + (size_t)i * (size_t)ch->nrow;
        const double *yk = y + (size_t)k * (size_t)rows * (size_t)ch->nrow;
        cblas_dgemv(CblasColMajor, CblasTrans, rows, m, 1.0, ch->w + (size_t)k * (size_t)rows,
                    (int)ch->ld, x + ch->row0, 1, 0.0, p->q + (size_t)i * t->s->m, 1);
        for (int j = 0; j < ch->nrow; j++)
            p->y[i] += x[j] * cblas_ddot(rows, x + ch->row0, 1, yk + (size_t)j * (size_t)rows, 1);
    }
}

status obsseq_forms(const rowteam *t, const profile *prof, bool shifted, const probe *p, double *a,
                    double *b) {
    matcov *mc = NULL;
    matcov_model model = {0};
    probe_conditions o = {.c = t->c, .s = t->s, .be = &backend_cpu, .shifted = shifted};
    status st = matcov_init(t->c, t->s, prof, &mc);
    if (st != MOAO_OK)
        goto done;
    o.mat = matcov_backend(o.be);
    st = o.be->open(0, NULL, &o.ctx);
    if (st == MOAO_OK)
        st = matcov_model_init(mc, &model);
    if (st == MOAO_OK)
        st = o.mat->open(o.ctx, &model, &o.cov);
    if (st == MOAO_OK)
        st = o.mat->open_target(o.cov, &o.target);
    TRY(comm_agree(t->c, st));
    st = probe_forms(&o, p, a, b);
done:
    if (o.target != NULL)
        o.mat->close_target(o.target);
    if (o.cov != NULL)
        o.mat->close(o.cov);
    if (o.ctx != NULL)
        o.be->close(o.ctx);
    matcov_model_free(&model);
    matcov_free(mc);
    return st;
}
