/* The folder of a run: what may be in it, what a run leaves there. Local. */
#ifndef MOAO_STORE_FOLDER_H
#define MOAO_STORE_FOLDER_H

#include "moao/status.h"
#include <stdbool.h>
#include <stdint.h>

/* The files a run leaves, the NULL-terminated list; the first three hold its results. */
extern const char *const folder_results[];
enum { FOLDER_FITS = 3 };

/* MOAO_INPUT when `dir` is empty, or is there and holds anything that no run leaves (log files
 * aside). */
status folder_refuse_foreign(const char *dir);
/* Remove what a killed run left half written in `dir` and in the folders that runs make there. */
status folder_sweep(const char *dir);
/* Remove DIR/NAME when it is there. */
status folder_remove(const char *dir, const char *name);
/* Remove the matrices that a run wrote, DIR/matrices/NAME.fits with the names that runs give. */
status folder_remove_matrices(const char *dir);
/* Whether DIR/NAME is there. */
status folder_has(const char *dir, const char *name, bool *has);

/* Note the sizes and checksums of the results and of effective.yaml in `dir` as a sealed text. */
status folder_note(const char *dir, const char *path, uint64_t run);

typedef struct {
    bool right;      /* what the note has is all there and unchanged */
    bool any;        /* at least one FITS file is there */
    char wrong[200]; /* the first file that is not right, and why */
    bool effective;  /* effective.yaml in `dir` is as the run wrote it */
    uint64_t size;   /* of effective.yaml then */
    uint32_t crc;
    char report[100]; /* the same of run.json, which is no result; "": nothing */
} folder_state;
/* Compare them with the lines of such a note. */
status folder_compare(const char *dir, const char *note, folder_state *s);

#endif
