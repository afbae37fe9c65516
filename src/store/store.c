#define _GNU_SOURCE
#include "store_private.h"

#include "base/file.h"
#include "base/progress.h"
#include "params/params.h"
#include "store_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

status store_path(const store *s, const char *name, char **out) {
    return file_join(s->checkpoint, name, out);
}

size_t store_cell(const store *s, int exposure, int target) {
    return (size_t)exposure * (size_t)(s->run.nnode + s->run.ntarget) + (size_t)target;
}

size_t store_cells(const store *s) {
    return store_cell(s, s->run.nexposure, 0);
}

/* One writer per directory. File systems without locks do not stop a run. */
static status take_lock(store *s) {
    char *path = NULL;
    const char *unlocked;
    status st;
    TRY(store_path(s, "lock", &path));
    TRY(file_lock(path, s->dir, "run", &s->lock_fd, &unlocked));
    if (unlocked != NULL)
        progress_warn("%s: no file locks here (%s): let only one run write there at a time", s->dir,
                      unlocked);
done:
    free(path);
    return st;
}

/* --- facts */

long store_get_fact(const store *s, const char *key, long missing) {
    return facts_get(&s->facts, key, missing);
}

status store_write_facts(store *s) {
    char *path = NULL;
    status st;
    TRY(store_path(s, "facts", &path));
    st = facts_write(path, s->run.fingerprint, &s->facts);
done:
    free(path);
    return st;
}

status store_set_fact(store *s, const char *key, long value) {
    status st = facts_set(&s->facts, key, value);
    return st == MOAO_OK ? store_write_facts(s) : st;
}

/* --- parts */

status store_add_part(store *s, const part_shape *p) {
    if (s->nparts == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 64;
        part_shape *parts = realloc(s->parts, (size_t)capacity * sizeof *parts);
        if (parts == NULL)
            return status_fail(MOAO_MEMORY, "no memory for the list of %d checkpoint parts",
                               capacity);
        s->parts = parts;
        s->capacity = capacity;
    }
    for (int t = p->t0; t < p->t0 + p->nt; t++) {
        int *of = &s->part_of[store_cell(s, p->exposure, t)];
        s->done += *of < 0;
        *of = s->nparts;
    }
    s->parts[s->nparts++] = *p;
    return MOAO_OK;
}

/* --- life */

static status set_run(store *s, const char *dir, const store_run *run) {
    status st;
    uint64_t h;
    s->lock_fd = s->open_part = -1;
    part_close(&s->open);
    s->mixed = run->mixed;
    TRY(params_fingerprint(run->effective, &h));
    const int shape[] = {run->ntarget, run->nexposure, run->nlambda, run->nbox,
                         run->crop,    run->nbudget,   run->nnode,   (int)run->nkept};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        h = (h ^ (unsigned)shape[i]) * 0x100000001b3u;
    s->run = (part_run){h,         run->ntarget, run->nexposure, run->nlambda,   run->nbox,
                        run->crop, run->nbudget, run->nnode,     (int)run->nkept};
    TRY(ALLOC(s->effective, strlen(run->effective) + 1, "effective parameters"));
    strcpy(s->effective, run->effective);
    TRY(ALLOC(s->dir, strlen(dir) + 1, "directory name"));
    strcpy(s->dir, dir);
    TRY(file_join(dir, "checkpoint", &s->checkpoint));
    TRY(ALLOC(s->part_of, store_cells(s), "list of what is done"));
    for (size_t i = 0; i < store_cells(s); i++)
        s->part_of[i] = -1;
done:
    return st;
}

static status open_folder(store *s, bool force) {
    status st;
    bool begun = false;
    TRY(folder_has(s->checkpoint, "effective.yaml", &begun));
    if (!begun)
        TRY(folder_has(s->checkpoint, "facts", &begun));
    if (!force && !begun)
        TRY(folder_refuse_foreign(s->dir));
    TRY(file_make_dir(s->checkpoint));
    TRY(take_lock(s));
    st = folder_sweep(s->dir);
done:
    return st;
}

status store_open(const char *dir, const store_run *run, const store_how *how, store **out) {
    status st;
    store *s = NULL;
    *out = NULL;
    if (how->resume && how->overwrite)
        return status_fail(MOAO_INPUT, "%s: --resume and --overwrite exclude each other", dir);
    file_limits_as_errors();
    TRY(ALLOC(s, 1, "store"));
    s->open.fd = -1;
    TRY(set_run(s, dir, run));
    TRY(open_folder(s, how->force));
    if (how->resume) {
        TRY(store_load(s));
    } else {
        if (!how->overwrite)
            TRY(store_refuse_results(s, false));
        TRY(store_start_anew(s));
    }
    *out = s;
done:
    if (st != MOAO_OK)
        store_close(s);
    return st;
}

static void close_part(store *s) {
    part_close(&s->open);
    s->open_part = -1;
}

void store_close(store *s) {
    if (s == NULL)
        return;
    close_part(s);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    facts_free(&s->facts);
    free(s->part_of);
    free(s->parts);
    free(s->checkpoint);
    free(s->effective);
    free(s->dir);
    free(s);
}

bool store_done(const store *s, int exposure, int target) {
    return s->finished || s->part_of[store_cell(s, exposure, s->run.nnode + target)] >= 0;
}

bool store_node_done(const store *s, int exposure, int node) {
    return s->finished || s->part_of[store_cell(s, exposure, node)] >= 0;
}

bool store_finished(const store *s) {
    return s->finished;
}

size_t store_done_count(const store *s) {
    return s->finished ? store_cells(s) : s->done;
}

status store_put(store *s, const result_block *b) {
    char name[PART_NAME_SIZE];
    char *path = NULL;
    const part_shape p = part_of_block(&s->run, b);
    status st;
    if (!part_fits(&p, &s->run))
        return status_fail(MOAO_INTERNAL,
                           "results of exposure %d, targets %d to %d do not fit the run",
                           b->exposure, b->t0, b->t0 + b->nt - 1);
    part_name(&p, name);
    TRY(store_path(s, name, &path));
    close_part(s);
    TRY(part_write(path, &s->run, b));
    st = store_add_part(s, &p);
done:
    free(path);
    return st;
}

/* Open the part that holds (exposure, target), unless it is open already; nodes count first. */
static status open_part_of(store *s, int exposure, int target) {
    char name[PART_NAME_SIZE];
    char *path = NULL;
    status st;
    const int i = s->part_of[store_cell(s, exposure, target)];
    if (i < 0)
        return status_fail(MOAO_INTERNAL, "exposure %d of %s %d is not in the checkpoint", exposure,
                           target < s->run.nnode ? "node" : "target",
                           target < s->run.nnode ? target : target - s->run.nnode);
    if (s->open_part == i)
        return MOAO_OK;
    close_part(s);
    part_name(&s->parts[i], name);
    TRY(store_path(s, name, &path));
    TRY(part_open(path, &s->run, &s->parts[i], &s->open));
    s->open_part = i;
done:
    free(path);
    return st;
}

/* What is cached does not change what the store holds. */
static store *caching(const store *s) {
    store *p;
    memcpy(&p, &s, sizeof p);
    return p;
}

/* Of a place among the nodes and targets. */
static status read_scalars(store *s, int exposure, int place, double *out) {
    const size_t n = store_scalars(s->run.nlambda, s->run.nbox, s->run.nbudget);
    status st;
    TRY(open_part_of(s, exposure, place));
    TRY(part_read_scalars(&s->open));
    memcpy(out, s->open.scalars + (size_t)(place - s->open.p.t0) * n, n * sizeof *out);
done:
    if (st != MOAO_OK)
        close_part(s);
    return st;
}

status store_read_scalars(const store *s, int exposure, int target, double *out) {
    return read_scalars(caching(s), exposure, s->run.nnode + target, out);
}

status store_read_node(const store *cs, int exposure, int node, double *scalars, float *kept) {
    store *s = caching(cs);
    const status st = read_scalars(s, exposure, node, scalars);
    return st == MOAO_OK && kept != NULL ? part_read_image(&s->open, node - s->open.p.t0, 0, kept)
                                         : st;
}

status store_read_image(const store *cs, int exposure, int target, int ilambda, float *out) {
    store *s = caching(cs);
    status st;
    if (s->run.crop == 0 || ilambda < 0 || ilambda >= s->run.nlambda)
        return status_fail(MOAO_INTERNAL, "%s: there is no image of wavelength %d",
                           file_shown(s->dir), ilambda);
    target += s->run.nnode;
    TRY(open_part_of(s, exposure, target));
    st = part_read_image(&s->open, target - s->open.p.t0, ilambda, out);
done:
    return st;
}

status store_discard_parts(store *s) {
    status st;
    char *path = NULL;
    close_part(s);
    TRY(store_path(s, "finished", &path));
    TRY(folder_note(s->dir, path, s->run.fingerprint));
    s->finished = true;
    st = store_remove_parts(s);
done:
    free(path);
    return st;
}
