#include "store_facts.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 4096 }; /* of compute.threads */

void facts_free(fact_list *l) {
    free(l->v);
    *l = (fact_list){0};
}

static fact *find(const fact_list *l, const char *key) {
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->v[i].key, key) == 0)
            return &l->v[i];
    return NULL;
}

long facts_get(const fact_list *l, const char *key, long missing) {
    const fact *f = find(l, key);
    return f != NULL ? f->value : missing;
}

status facts_set(fact_list *l, const char *key, long value) {
    fact *f = find(l, key);
    if (key[0] == '\0' || strlen(key) >= FACT_KEY || strpbrk(key, " \t\n") != NULL)
        return status_fail(MOAO_INTERNAL, "'%s' is no name of a fact", key);
    if (f == NULL && l->n == l->room) {
        const int room = l->room > 0 ? 2 * l->room : 64;
        fact *grown = realloc(l->v, (size_t)room * sizeof *grown);
        if (grown == NULL)
            return status_fail(MOAO_MEMORY, "no memory for %d facts", room);
        l->v = grown;
        l->room = room;
    }
    if (f == NULL) {
        f = &l->v[l->n++];
        strcpy(f->key, key);
    }
    f->value = value;
    return MOAO_OK;
}

void facts_forget(fact_list *l, const char *prefix) {
    int kept = 0;
    for (int i = 0; i < l->n; i++)
        if (strncmp(l->v[i].key, prefix, strlen(prefix)) != 0)
            l->v[kept++] = l->v[i];
    l->n = kept;
}

status facts_write(const char *path, uint64_t run, const fact_list *l) {
    const size_t room = (size_t)l->n * (FACT_KEY + 24) + 1;
    char *text = NULL;
    size_t n = 0;
    status st;
    TRY(ALLOC(text, room, "facts"));
    for (int i = 0; i < l->n; i++)
        n += (size_t)snprintf(text + n, room - n, "%s %ld\n", l->v[i].key, l->v[i].value);
    st = sealed_write(path, "facts", run, text);
done:
    free(text);
    return st;
}

/* Whether a run of this shape can have such a fact. */
static bool is_sane(const fact *f, int ntarget, int nexposure) {
    int e = -1, used = 0;
    if (strcmp(f->key, "ranks") == 0)
        return f->value >= 1 && f->value <= INT_MAX;
    if (strcmp(f->key, "threads") == 0)
        return f->value >= 1 && f->value <= MOST_THREADS;
    if (strcmp(f->key, "loop_gain") == 0 || strcmp(f->key, "low_gain") == 0)
        return f->value >= 1 && f->value <= 2000000;
    if (strcmp(f->key, "chunk") == 0)
        return f->value >= 1 && f->value <= ntarget;
    if (sscanf(f->key, "precision_%9d%n", &e, &used) == 1 && f->key[used] == '\0')
        return e >= 0 && e < nexposure;
    return true;
}

status facts_read(const char *path, uint64_t run, int ntarget, int nexposure, fact_list *l,
                  sealed_state *state) {
    char *text = NULL, *rest = NULL;
    status st;
    facts_free(l);
    TRY(sealed_read(path, "facts", run, &text, state));
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        fact f;
        if (sscanf(line, "%31s %ld", f.key, &f.value) != 2 || !is_sane(&f, ntarget, nexposure)) {
            facts_free(l);
            *state = SEALED_DAMAGED;
            break;
        }
        TRY(facts_set(l, f.key, f.value));
    }
done:
    free(text);
    return st;
}
