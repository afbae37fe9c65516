/* A plugin whose tables have the sizes of another version: MOAO_TEST_TABLE names one (batch, half,
 * lowrank, sparse, matcov, psf, group, or backend for the table itself), MOAO_TEST_BYTES is what
 * its size is off by, or "missing". It has no operation: a program that takes it has not looked. */
#include "backend/backend_matcov.h"
#include "backend/backend_psf.h"
#include "moao/backend_group.h"
#include <stdlib.h>
#include <string.h>

static backend_batch batch = {.size = sizeof batch};
static backend_fp16 half = {.size = sizeof half};
static backend_lowrank lowrank = {.size = sizeof lowrank};
static backend_sparse sparse = {.size = sizeof sparse};
static backend_matcov matcov = {.size = sizeof matcov};
static backend_psf psf = {.size = sizeof psf};
static backend_group group = {.size = sizeof group};

static int devices(void) {
    return 1;
}
static status describe(int d, char *text, size_t len) {
    (void)d;
    strncpy(text, "plugin of the tests", len);
    return MOAO_OK;
}

static backend table = {
    .name = "gpu",
    .size = sizeof table,
    .devices = devices,
    .describe = describe,
    .batch = &batch,
    .fp16 = &half,
    .lowrank = &lowrank,
    .sparse = &sparse,
    .matcov = &matcov,
    .psf = &psf,
    .group = &group,
};

const backend *moao_gpu_backend_2(void *set, char *why, size_t len);
const backend *moao_gpu_backend_2(void *set, char *why, size_t len) {
    const struct {
        const char *name;
        const void **where;
        size_t *size;
    } family[] = {
        {"backend", NULL, &table.size},
        {"batch", (const void **)&table.batch, &batch.size},
        {"half", (const void **)&table.fp16, &half.size},
        {"lowrank", (const void **)&table.lowrank, &lowrank.size},
        {"sparse", (const void **)&table.sparse, &sparse.size},
        {"matcov", (const void **)&table.matcov, &matcov.size},
        {"psf", (const void **)&table.psf, &psf.size},
        {"group", (const void **)&table.group, &group.size},
    };
    const char *name = getenv("MOAO_TEST_TABLE"), *bytes = getenv("MOAO_TEST_BYTES");
    (void)set, (void)why, (void)len;
    for (size_t i = 0; name && bytes && i < sizeof family / sizeof family[0]; i++)
        if (!strcmp(name, family[i].name)) {
            if (!strcmp(bytes, "missing"))
                *family[i].where = NULL;
            else
                *family[i].size += (size_t)strtol(bytes, NULL, 10);
        }
    return &table;
}
