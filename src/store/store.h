/* What a run has finished, kept on disk as it goes: the checkpoint and, at the end, the source of
 * the maps.
 *
 * One part file per (exposure, range of targets), written under a temporary name, synced and
 * renamed, so it is there whole or not at all. Every part carries the fingerprint of its run and
 * checksums; what is read is verified each time. Only rank 0 calls these functions; all are local.
 */
#ifndef MOAO_STORE_H
#define MOAO_STORE_H

#include "moao/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct { /* results of targets t0 .. t0+nt-1 under one exposure */
    int exposure, t0, nt, nlambda, nbox, crop;
    /* [nt][store_scalars]: of each wavelength strehl, fwhm [rad], variance [rad^2], ee of each box;
     * then the terms (obsseq/budget.h) [m^2] */
    double *scalars;
    float *images; /* [nt][nlambda][crop][crop], or NULL when no PSF is wanted */
    bool mixed;    /* computed in mixed precision */
    int nbudget;   /* terms of the error budget, 0: none */
    /* of nodes (field/field.h), which are numbered by themselves: [nt][nkept] what images are made
     * of (psf_keep); NULL: of targets */
    float *kept;
    size_t nkept;
} result_block;

/* Numbers that are kept of a target and exposure. */
static inline size_t store_scalars(int nlambda, int nbox, int nbudget) {
    return (size_t)nlambda * (3 + (size_t)nbox) + (size_t)nbudget;
}

typedef struct {           /* the run whose results a store holds */
    const char *effective; /* text of the effective parameters (params_effective_text) */
    int ntarget, nexposure, nlambda, nbox;
    int crop;     /* side of the images, 0: none are kept */
    bool mixed;   /* exposures may be in mixed precision */
    int nbudget;  /* terms of the error budget, 0: none */
    int nnode;    /* nodes at most between which targets are interpolated, 0: none */
    size_t nkept; /* numbers that are kept of a node */
} store_run;

typedef struct { /* what the user allows */
    bool resume, overwrite, force;
} store_how;

typedef struct store store;

/* Open the store of directory `dir` (made when missing). Refused with MOAO_INPUT, in one line that
 * says what to do: a directory that cannot be used; one in which no run was begun but which holds
 * files that are not ours (log files aside), unless how->force; without how->resume one with an
 * unfinished or finished run, unless how->overwrite. With how->resume: refuses changed parameters,
 * naming the first difference, and checkpoints of another version of the program, and loads what is
 * done; a part that is damaged or of another run counts as not done, with a warning. A finished
 * run's files are verified: see store_finished. */
status store_open(const char *dir, const store_run *run, const store_how *how, store **s);
void store_close(store *s);
bool store_done(const store *s, int exposure, int target);
bool store_node_done(const store *s, int exposure, int node);
size_t store_done_count(const store *s);
/* Small facts of the first run that a resumed one must reuse for bit-for-bit equality (ranks,
 * threads, chunk size...): text kept beside the parts, with a checksum. Get returns the default
 * when unknown. */
status store_set_fact(store *s, const char *key, long value);
long store_get_fact(const store *s, const char *key, long missing);
status store_put(store *s, const result_block *b);
/* Read back scalars ([store_scalars]) or one image ([crop][crop]) of a finished (exposure,
 * target). MOAO_IO when they are not what was put. */
status store_read_scalars(const store *s, int exposure, int target, double *out);
status store_read_image(const store *s, int exposure, int target, int ilambda, float *out);
/* The same of a node: scalars, and what is kept of it ([nkept]; NULL: not wanted). */
status store_read_node(const store *s, int exposure, int node, double *scalars, float *kept);
/* True for a resumed run whose final files are in place, with the sizes and checksums that it
 * wrote: there is nothing to do, everything counts as done, and nothing can be read back. */
bool store_finished(const store *s);
/* Once the final files are in place: note their checksums, then remove the parts; the effective
 * parameters stay. */
status store_discard_parts(store *s);

#endif
