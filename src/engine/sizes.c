#include "engine/sizes.h"

void linop_add(linop_bytes *b, const char *name, size_t bytes) {
    b->item[b->nitem].name = name;
    b->item[b->nitem++].bytes = bytes;
}
