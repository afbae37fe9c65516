/* The facts of a store: a short list of names and numbers, kept as a sealed text. Local. */
#ifndef MOAO_STORE_FACTS_H
#define MOAO_STORE_FACTS_H

#include "moao/status.h"
#include "store_sealed.h"

enum { FACT_KEY = 32 };

typedef struct {
    char key[FACT_KEY];
    long value;
} fact;

typedef struct { /* {0}: none */
    fact *v;
    int n, room;
} fact_list;

void facts_free(fact_list *l);
long facts_get(const fact_list *l, const char *key, long missing);
/* Add or change one; MOAO_INTERNAL when `key` is no name. */
status facts_set(fact_list *l, const char *key, long value);
/* Drop those whose name begins so. */
void facts_forget(fact_list *l, const char *prefix);
status facts_write(const char *path, uint64_t run, const fact_list *l);
/* What the file holds; nothing, unless *state is SEALED_GOOD. A value that no run of this shape can
 * have makes it SEALED_DAMAGED. */
status facts_read(const char *path, uint64_t run, int ntarget, int nexposure, fact_list *l,
                  sealed_state *state);

#endif
