#include "families.h"

status families_backend(const char *name, const backend **out) {
    status st = backend_get(name, out);
    if (st != MOAO_OK)
        return st;
    const struct {
        const char *name;
        const void *table;
        size_t size;
    } family[] = {{"covariances", (*out)->matcov, sizeof(backend_matcov)},
                  {"PSFs", (*out)->psf, sizeof(backend_psf)}};
    for (int i = 0; i < 2; i++) {
        const size_t size = family[i].table != NULL ? *(const size_t *)family[i].table : 0;
        if (family[i].table != NULL && size != family[i].size)
            return status_fail(MOAO_INPUT,
                               "libmoao_gpu.so belongs to another version: its table of %s has %zu "
                               "bytes instead of %zu",
                               family[i].name, size, family[i].size);
    }
    return MOAO_OK;
}
