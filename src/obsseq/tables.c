#include "obsseq/tables.h"

#include <stdlib.h>

status tables_make(exposure_tables *t) {
    const size_t n = 3 * (t->s->m / 2);
    status st = MOAO_OK;
    for (int i = 0; i < t->nmodel; i++)
        if (t->model[i].mc == NULL)
            TRY(engine_prepare(t->s, psf_is_phase(t->ps), &t->model[i]));
    if (t->wants_mtt && t->mtt == NULL) {
        TRY(ALLOC(t->mtt, psf_sep_count(t->ps), "turbulence of an exposure"));
        TRY(psf_phase_common(t->ps, t->p, t->mtt));
    }
    if (t->wants_fit && t->fit == NULL)
        TRY(psf_rest_init(t->ps, t->p, &t->fit));
    if (t->wants_noise && t->noise == NULL) {
        TRY(ALLOC(t->noise, n, "noise of the sensors"));
        TRY(matcov_noise(t->s, t->p, t->noise));
    }
done:
    return st;
}

static status make_ahead(void *of) {
    exposure_tables *t = of;
    const status st = comm_fault(t->c, "ahead");
    return st != MOAO_OK ? st : tables_make(t);
}

void tables_begin(exposure_tables *t) {
    background_begin(&t->work, t->c->threads, make_ahead, t);
}

status tables_take(exposure_tables *from, exposure_tables *to) {
    const status st = background_end(&from->work);
    for (int i = 0; i < to->nmodel; i++)
        engine_model_take(from->model, from->nmodel, &to->model[i]);
    if (to->wants_mtt) {
        to->mtt = from->mtt;
        from->mtt = NULL;
    }
    if (to->wants_fit) {
        to->fit = from->fit;
        from->fit = NULL;
    }
    if (to->wants_noise) {
        to->noise = from->noise;
        from->noise = NULL;
    }
    tables_drop(from);
    return st;
}

void tables_drop(exposure_tables *t) {
    background_drop(&t->work);
    for (int i = 0; i < t->nmodel; i++)
        engine_model_free(&t->model[i]);
    free(t->mtt);
    psf_fit_free(t->fit);
    free(t->noise);
    *t = (exposure_tables){0};
}

size_t tables_bytes(const sys *s, const psf_opts *o, const matcov_sizes *z, int layerings) {
    const size_t one = psf_sep_count_of(s, o) * sizeof(double) + psf_fit_bytes(s, o) +
                       3 * (s->m / 2) * sizeof(double);
    /* two profiles while one gives way to the next, and those of the next exposure */
    return matcov_prepared_bytes(s, z, 2 + TABLES_MODELS, layerings) + 2 * one;
}
