/* What a run has finished, kept on disk as it goes: the checkpoint and, at the end, the source of
 * the maps.
 *
 * One part file per (exposure, range of targets), written under a temporary name, synced and
 * renamed, so it is there whole or not at all. Only rank 0 calls these functions; all are local. */
#ifndef MOAO_STORE_H
#define MOAO_STORE_H

#include "status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct { /* results of targets t0 .. t0+nt-1 under one exposure */
    int exposure, t0, nt, nlambda, nbox, crop;
    double *
        scalars; /* [nt][nlambda][3 + nbox]: strehl, fwhm [rad], variance [rad^2], ee of each box */
    float *images; /* [nt][nlambda][crop][crop], or NULL when no PSF is wanted */
} result_block;

typedef struct store store;

/* Open the store of directory `dir` (made when missing). `effective` is the text of the effective
 * parameters (params_effective_text). resume false: refuses a directory that holds an unfinished or
 * finished run, saying what to do, unless `overwrite`. resume true: refuses changed parameters,
 * naming the first difference, and loads what is done; a damaged part counts as not done, with a
 * warning. */
status store_open(const char *dir, const char *effective, int ntarget, int nexposure, bool resume,
                  bool overwrite, store **s);
void store_close(store *s);
bool store_done(const store *s, int exposure, int target);
size_t store_done_count(const store *s);
/* Small facts of the first run that a resumed one must reuse for bit-for-bit equality (ranks,
 * threads, chunk size...): text kept beside the parts. Get returns the default when unknown. */
status store_set_fact(store *s, const char *key, long value);
long store_get_fact(const store *s, const char *key, long missing);
status store_put(store *s, const result_block *b);
/* Read back scalars ([nlambda][3 + nbox]) or one image ([crop][crop]) of a finished (exposure,
 * target). */
status store_read_scalars(const store *s, int exposure, int target, double *out);
status store_read_image(const store *s, int exposure, int target, int ilambda, float *out);
/* True for a resumed run whose final files were in place already: there is nothing to do,
 * everything counts as done, and nothing can be read back. */
bool store_finished(const store *s);
/* Remove the parts, after the final files are in place; the effective parameters stay. */
status store_discard_parts(store *s);

#endif
