/* The covariances with their arguments checked. */
#include "families.h"
#include "linalg/core/checked.h"

static const backend_cov_head *cov_of(const backend_cov *c) {
    return (const backend_cov_head *)c;
}

static backend_cov_target_head *target_of(backend_cov_target *t) {
    return (backend_cov_target_head *)t;
}

static bool part_ok(char part) {
    return backend_is(part, "ALT");
}

static status fill_cmm(backend_cov *c, backend_type t, char part, unsigned with, matcov_region g,
                       void *a, int64_t lda) {
    const backend_cov_head *h = cov_of(c);
    const bool fine = part_ok(part) && with <= MATCOV_ALL && matcov_block_ok(t, h->m, h->m, g, lda);
    const extent x[] = {{a, g.ni, g.nj, lda, backend_size(t)}};
    const status st = extents_check(checked_range(fine, "fill_cmm"), "fill_cmm", 1, x);
    return st == MOAO_OK ? h->own->fill_cmm(c, t, part, with, g, a, lda) : st;
}

static status fill_ctt(backend_cov *c, backend_type t, char part, matcov_region g, void *a,
                       int64_t lda) {
    const backend_cov_head *h = cov_of(c);
    const bool fine = part_ok(part) && matcov_block_ok(t, h->t, h->t, g, lda);
    const extent x[] = {{a, g.ni, g.nj, lda, backend_size(t)}};
    const status st = extents_check(checked_range(fine, "fill_ctt"), "fill_ctt", 1, x);
    return st == MOAO_OK ? h->own->fill_ctt(c, t, part, g, a, lda) : st;
}

static status aim(backend_cov_target *t, const double dir[2], bool shifted) {
    backend_cov_target_head *h = target_of(t);
    const status st = h->cov->own->aim(t, dir, shifted);
    h->aimed = st == MOAO_OK;
    return st;
}

static status admit_target(const backend_cov_target_head *h, bool fine, const char *name) {
    if (fine && !h->aimed)
        return status_fail(MOAO_INPUT, "%s: the target was not aimed", name);
    return checked_range(fine, name);
}

static status fill_ctm(backend_cov_target *v, backend_type t, matcov_region g, void *a,
                       int64_t lda) {
    const backend_cov_target_head *h = target_of(v);
    const bool fine = matcov_block_ok(t, h->cov->t, h->cov->m, g, lda);
    const extent to[] = {{a, g.ni, g.nj, lda, backend_size(t)}};
    const status st = extents_check(admit_target(h, fine, "fill_ctm"), "fill_ctm", 1, to);
    return st == MOAO_OK ? h->cov->own->fill_ctm(v, t, g, a, lda) : st;
}

static status fill_cpm(backend_cov_target *v, backend_type t, matcov_points p, int64_t j0,
                       int64_t nj, void *a, int64_t lda) {
    const backend_cov_target_head *h = target_of(v);
    const bool fine = matcov_block_ok(t, p.n, h->cov->m, (matcov_region){0, p.n, j0, nj}, lda);
    const extent to[] = {{a, p.n, nj, lda, backend_size(t)}};
    const status st = extents_check(admit_target(h, fine, "fill_cpm"), "fill_cpm", 1, to);
    return st == MOAO_OK ? h->cov->own->fill_cpm(v, t, p, j0, nj, a, lda) : st;
}

void checked_matcov(const backend_matcov *own, backend_matcov *table) {
    *table = *own;
    table->fill_cmm = fill_cmm;
    table->fill_ctt = fill_ctt;
    table->aim = aim;
    table->fill_ctm = fill_ctm;
    table->fill_cpm = fill_cpm;
}
