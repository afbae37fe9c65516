#include "operator/operator.h"

#include <string.h>

#define MOST 16

/* in the order of their numbers, which checkpoints keep */
static const linop_kind *known[MOST] = {
    &linop_dense,       &linop_host, &linop_fp16,     &linop_fp16_host,
    &linop_distributed, &linop_tlr,  &linop_toeplitz, &linop_fp16_lattice_pairs};

const linop_kind *linop_find(const char *name) {
    for (int i = 0; name != NULL && i < MOST && known[i] != NULL; i++)
        if (strcmp(known[i]->name, name) == 0)
            return known[i];
    return NULL;
}

int linop_number(const linop_kind *kind) {
    for (int i = 0; i < MOST; i++)
        if (known[i] == kind)
            return i + 1;
    return 0;
}

const linop_kind *linop_numbered(long number) {
    return number > 0 && number <= MOST ? known[number - 1] : NULL;
}

status linop_register(const linop_kind *kind) {
    if (kind->size != sizeof *kind)
        return status_fail(MOAO_INPUT,
                           "operator: its table has %zu bytes, not %zu: built with "
                           "another version",
                           kind->size, sizeof *kind);
    if (linop_find(kind->name) != NULL)
        return status_fail(MOAO_INPUT, "operator: there is one of the name %s", kind->name);
    for (int i = 0; i < MOST; i++)
        if (known[i] == NULL) {
            known[i] = kind;
            return MOAO_OK;
        }
    return status_fail(MOAO_INPUT, "operator: there are %d already", MOST);
}

status linop_reduce_tolerance(linop *o, double excess, linop_step from, linop_step *again) {
    const int levels = o->kind->levels;
    *again = LINOP_NOTHING;
    if (from <= LINOP_SOLVE && levels > 0 && o->accuracy.level + 1 < levels) {
        o->accuracy.level++;
        *again = LINOP_SOLVE;
        return MOAO_OK;
    }
    return o->kind->tighten != NULL ? o->kind->tighten(o, excess, from, again) : MOAO_OK;
}

void linop_add(linop_bytes *b, const char *name, size_t bytes) {
    b->item[b->nitem].name = name;
    b->item[b->nitem++].bytes = bytes;
}
