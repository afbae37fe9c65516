/* The part files of the store: results of a range of targets under one exposure, with the
 * fingerprint of their run and checksums. Local. */
#ifndef MOAO_STORE_PART_H
#define MOAO_STORE_PART_H

#include "moao/status.h"
#include "store.h"
#include <stdint.h>

typedef struct { /* what a part holds; images when crop > 0; t0 counts the run's nodes, then targets
                  */
    int exposure, t0, nt, nlambda, nbox, crop;
    bool mixed;
    int nbudget;
    int nkept; /* numbers that are kept of each, where they are nodes; 0: they are targets */
} part_shape;

typedef struct { /* the run that parts shall belong to */
    uint64_t fingerprint;
    int ntarget, nexposure, nlambda, nbox, crop, nbudget, nnode, nkept;
} part_run;

typedef struct { /* an open part; {.fd = -1}: none */
    int fd;
    char *path;
    part_shape p;
    uint32_t scalars_crc, *image_crc; /* the latter [nt][nlambda], of nodes [nt] */
    double *scalars;                  /* read and verified, NULL: not yet */
} part_file;

/* Name of a part: part-EXPOSURE-T0-NT.bin. */
#define PART_NAME_SIZE 64
void part_name(const part_shape *p, char name[PART_NAME_SIZE]);
/* True when `name` is one; sets exposure, t0 and nt. */
bool part_parse_name(const char *name, part_shape *p);
/* The shape of results that are to be written. */
part_shape part_of_block(const part_run *run, const result_block *b);
/* Whether a part may be one of the run. */
bool part_fits(const part_shape *p, const part_run *run);

/* Write `path` whole or not at all. */
status part_write(const char *path, const part_run *run, const result_block *b);
/* Read and verify the whole file: magic, byte order, version, run, sizes, checksums. On success *p
 * is set and *why is NULL; otherwise *why is the reason and *p undefined. *old: the file was
 * written by another version of the program. MOAO_MEMORY when it could not be verified. */
status part_verify(const char *path, const part_run *run, part_shape *p, const char **why,
                   bool *old);

/* Open a part that is `expected`; MOAO_IO when it is not. */
status part_open(const char *path, const part_run *run, const part_shape *expected, part_file *f);
void part_close(part_file *f);
/* The scalars of all its targets ([nt][store_scalars], f->scalars), or one image
 * ([crop][crop]; of nodes, with ilambda 0, what is kept of one), verified. */
status part_read_scalars(part_file *f);
status part_read_image(part_file *f, int it, int ilambda, float *out);

#endif
