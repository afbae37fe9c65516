#include "store_sealed.h"

#include "base/crc.h"
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 80, TAIL = 13 }; /* room for the first two lines; bytes of the last one */
#define TAIL_FORMAT "crc %08" PRIx32 "\n"

static void make_head(const char *kind, uint64_t run, char head[HEAD]) {
    snprintf(head, HEAD, "moao %s 2\nrun %016" PRIx64 "\n", kind, run);
}

status sealed_write(const char *path, const char *kind, uint64_t run, const char *text) {
    status st;
    file_out o = {0};
    char head[HEAD], tail[TAIL + 1];
    make_head(kind, run, head);
    const uint32_t crc = crc_update(crc_update(0, head, strlen(head)), text, strlen(text));
    snprintf(tail, sizeof tail, TAIL_FORMAT, crc);
    TRY(file_begin(&o, path));
    TRY(file_append(&o, head, strlen(head)));
    TRY(file_append(&o, text, strlen(text)));
    TRY(file_append(&o, tail, strlen(tail)));
    st = file_commit(&o);
done:
    file_abandon(&o);
    return st;
}

/* What the whole text is; where it is good, `all` is cut down to the lines between. */
static sealed_state unseal(char *all, const char *kind, uint64_t run) {
    char head[HEAD], tail[TAIL + 1];
    const size_t n = strlen(all);
    if (n > 0 && all[n - 1] == '\n' && strncmp(all, "moao ", 5) != 0 &&
        strstr(all, "\ncrc ") == NULL)
        return SEALED_OLD; /* whole lines, but the first version had neither of these */
    if (n < TAIL)
        return SEALED_DAMAGED;
    snprintf(tail, sizeof tail, TAIL_FORMAT, crc_update(0, all, n - TAIL));
    if (strcmp(all + n - TAIL, tail) != 0)
        return SEALED_DAMAGED;
    make_head(kind, run, head);
    const size_t first = strcspn(head, "\n") + 1;
    if (strncmp(all, head, first) != 0)
        return SEALED_OLD;
    if (strncmp(all, head, strlen(head)) != 0)
        return SEALED_FOREIGN;
    all[n - TAIL] = '\0';
    memmove(all, all + strlen(head), n - TAIL - strlen(head) + 1);
    return SEALED_GOOD;
}

status sealed_read(const char *path, const char *kind, uint64_t run, char **text,
                   sealed_state *state) {
    bool there;
    *text = NULL;
    *state = SEALED_NONE;
    status st = file_find(path, &there);
    if (st != MOAO_OK || !there)
        return st;
    if ((st = file_read_text(path, text)) != MOAO_OK)
        return st;
    *state = unseal(*text, kind, run);
    if (*state != SEALED_GOOD) {
        free(*text);
        *text = NULL;
    }
    return MOAO_OK;
}
