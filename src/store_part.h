/* The part files of the store: results of a range of targets under one exposure, with checksums.
 * Local. */
#ifndef MOAO_STORE_PART_H
#define MOAO_STORE_PART_H

#include "status.h"
#include "store.h"

typedef struct { /* what a part holds; images when crop > 0 */
    int exposure, t0, nt, nlambda, nbox, crop;
} part_shape;

/* Name of a part: part-EXPOSURE-T0-NT.bin. */
#define PART_NAME_SIZE 64
void part_name(const part_shape *p, char name[PART_NAME_SIZE]);
/* True when `name` is one; sets exposure, t0 and nt. */
bool part_parse_name(const char *name, part_shape *p);

/* Write `path` whole or not at all. */
status part_write(const char *path, const result_block *b);
/* Read and verify the whole file: magic, byte order, version, sizes, checksums. On success *p is
 * set and *why is NULL; a damaged or unreadable file sets *why to the reason and *p is undefined.
 */
void part_verify(const char *path, part_shape *p, const char **why);

/* Read the scalars of all its targets ([nt][nlambda][3 + nbox]) or one image ([crop][crop]) of an
 * open part. */
status part_read_scalars(int fd, const char *path, const part_shape *p, double *out);
status part_read_image(int fd, const char *path, const part_shape *p, int it, int ilambda,
                       float *out);

#endif
