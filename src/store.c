#define _GNU_SOURCE
#include "store.h"

#include "file.h"
#include "params.h"
#include "progress.h"
#include "store_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* DIR/checkpoint/ holds
 *   effective.yaml  the effective parameters: its presence says that a run was begun here
 *   facts           lines "key value"
 *   part-*.bin      what is done
 *   finished        written when the final files are in place, before the parts are removed
 *   lock            locked (flock) while a run writes here; the lock ends with the process */
enum { FACT_KEY = 32 };

typedef struct {
    char key[FACT_KEY];
    long value;
} fact;

struct store {
    char *dir, *checkpoint;
    int ntarget, nexposure;
    part_shape *parts;
    int nparts, capacity;
    int *part_of; /* [nexposure * ntarget] index in parts, -1: not done */
    size_t done;
    bool finished;
    int lock_fd;
    fact *facts;
    int nfacts, facts_room;
    int open_part, open_fd; /* the part that was read last, -1: none */
    double *open_scalars;   /* its scalars, NULL: not read */
};

static status checkpoint_path(const store *s, const char *name, char **out) {
    return file_join(s->checkpoint, name, out);
}

static bool checkpoint_has(const store *s, const char *name) {
    char *path = NULL;
    bool has = checkpoint_path(s, name, &path) == MOAO_OK && file_exists(path);
    free(path);
    return has;
}

/* Remove DIR/NAME when it is there. */
static status remove_file(const char *dir, const char *name) {
    char *path = NULL;
    status st;
    TRY(file_join(dir, name, &path));
    if (unlink(path) != 0 && errno != ENOENT)
        st = status_fail(MOAO_IO, "%s: cannot remove: %s", path, strerror(errno));
done:
    free(path);
    return st;
}

/* One writer per directory. File systems without locks do not stop a run. */
static status take_lock(store *s) {
    char *path = NULL;
    status st;
    TRY(checkpoint_path(s, "lock", &path));
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (s->lock_fd < 0) {
        st = status_fail(MOAO_IO, "%s: cannot write: %s", path, strerror(errno));
    } else if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            st =
                status_fail(MOAO_INPUT,
                            "%s: another run is writing there; wait for its end, or choose another "
                            "directory with -o",
                            s->dir);
        else
            progress_warn("%s: no file locks here (%s): let only one run write there at a time",
                          s->dir, strerror(errno));
    }
done:
    free(path);
    return st;
}

/* Room for one more. */
static status grow_facts(store *s) {
    if (s->nfacts < s->facts_room)
        return MOAO_OK;
    const int room = s->facts_room > 0 ? 2 * s->facts_room : 64;
    fact *facts = realloc(s->facts, (size_t)room * sizeof *facts);
    if (facts == NULL)
        return status_fail(MOAO_MEMORY, "no memory for %d facts", room);
    s->facts = facts;
    s->facts_room = room;
    return MOAO_OK;
}

static status read_facts(store *s) {
    char *path = NULL, *text = NULL;
    status st = MOAO_OK;
    s->nfacts = 0;
    if (!checkpoint_has(s, "facts"))
        return MOAO_OK;
    TRY(checkpoint_path(s, "facts", &path));
    TRY(file_read_text(path, &text));
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        TRY(grow_facts(s));
        fact *f = &s->facts[s->nfacts];
        s->nfacts += sscanf(line, "%31s %ld", f->key, &f->value) == 2;
    }
done:
    free(text);
    free(path);
    return st;
}

long store_get_fact(const store *s, const char *key, long missing) {
    for (int i = 0; i < s->nfacts; i++)
        if (strcmp(s->facts[i].key, key) == 0)
            return s->facts[i].value;
    return missing;
}

status store_set_fact(store *s, const char *key, long value) {
    status st = MOAO_OK;
    char *path = NULL, *text = NULL;
    size_t n = 0, room;
    int i = 0;
    if (key[0] == '\0' || strlen(key) >= FACT_KEY || strpbrk(key, " \t\n") != NULL)
        return status_fail(MOAO_INTERNAL, "'%s' is no name of a fact", key);
    while (i < s->nfacts && strcmp(s->facts[i].key, key) != 0)
        i++;
    TRY(grow_facts(s));
    strcpy(s->facts[i].key, key);
    s->facts[i].value = value;
    s->nfacts += i == s->nfacts;
    room = (size_t)s->nfacts * (FACT_KEY + 24);
    TRY(ALLOC(text, room, "facts"));
    for (i = 0; i < s->nfacts; i++)
        n += (size_t)snprintf(text + n, room - n, "%s %ld\n", s->facts[i].key, s->facts[i].value);
    TRY(checkpoint_path(s, "facts", &path));
    st = file_write_text(path, text);
done:
    free(text);
    free(path);
    return st;
}

static status add_part(store *s, const part_shape *p) {
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
        int *of = &s->part_of[(size_t)p->exposure * (size_t)s->ntarget + (size_t)t];
        s->done += *of < 0;
        *of = s->nparts;
    }
    s->parts[s->nparts++] = *p;
    return MOAO_OK;
}

static bool in_range(const store *s, const part_shape *p) {
    return p->exposure >= 0 && p->exposure < s->nexposure && p->t0 >= 0 && p->nt > 0 &&
           p->nt <= s->ntarget && p->t0 <= s->ntarget - p->nt;
}

static bool same_results(const part_shape *a, const part_shape *b) {
    return a->nlambda == b->nlambda && a->nbox == b->nbox && a->crop == b->crop;
}

/* Take in one part of the directory; a damaged one is left out with a warning. */
static status load_part(store *s, const char *name, const part_shape *named) {
    char *path = NULL;
    const char *why;
    part_shape p;
    status st;
    TRY(checkpoint_path(s, name, &path));
    part_verify(path, &p, &why);
    if (why == NULL && (p.exposure != named->exposure || p.t0 != named->t0 || p.nt != named->nt ||
                        !in_range(s, &p) || (s->nparts > 0 && !same_results(&p, &s->parts[0]))))
        why = "it does not belong to this run";
    if (why == NULL)
        st = add_part(s, &p);
    else
        progress_warn("%s: left out, %s; it will be computed again", path, why);
done:
    free(path);
    return st;
}

/* Call f for every part in the checkpoint, in the order of names. Unfinished temporary files are
 * removed. */
static status for_each_part(store *s, status (*f)(store *, const char *, const part_shape *)) {
    status st = MOAO_OK;
    struct dirent **names = NULL;
    int n = scandir(s->checkpoint, &names, NULL, alphasort);
    if (n < 0)
        return status_fail(MOAO_IO, "%s: cannot read: %s", s->checkpoint, strerror(errno));
    for (int i = 0; i < n; i++) {
        part_shape p;
        if (st != MOAO_OK)
            ;
        else if (part_parse_name(names[i]->d_name, &p))
            st = f(s, names[i]->d_name, &p);
        else if (file_is_temporary(names[i]->d_name))
            st = remove_file(s->checkpoint, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return st;
}

static status remove_part(store *s, const char *name, const part_shape *p) {
    (void)p;
    return remove_file(s->checkpoint, name);
}

static status count_part(store *s, const char *name, const part_shape *p) {
    (void)name;
    (void)p;
    s->nparts++;
    return MOAO_OK;
}

static status refuse_changes(const store *s, const char *effective) {
    char *path = NULL, *then = NULL;
    char difference[512];
    status st;
    TRY(checkpoint_path(s, "effective.yaml", &path));
    TRY(file_read_text(path, &then));
    if (params_compare_effective(then, effective, difference, sizeof difference) != MOAO_OK)
        st = status_fail(MOAO_INPUT,
                         "%s: --resume with changed parameters: %s; change it back, choose another "
                         "directory with -o, or start again with --overwrite",
                         s->dir, difference);
done:
    free(then);
    free(path);
    return st;
}

static const char *const final_files[] = {"maps.fits", "psf.fits", "run.json"};
enum { FINAL_FILES = sizeof final_files / sizeof *final_files };

/* A directory with results that would be lost. */
static status refuse_results(store *s) {
    status st;
    const char *what = NULL;
    char *path = NULL;
    s->nparts = 0;
    TRY(for_each_part(s, count_part));
    if (checkpoint_has(s, "finished"))
        what = "a finished run: add --overwrite to replace it";
    else if (s->nparts > 0)
        what = "an unfinished run: add --resume to go on, --overwrite to start again";
    for (int i = 0; i < FINAL_FILES && what == NULL; i++) {
        TRY(file_join(s->dir, final_files[i], &path));
        if (file_exists(path))
            what = "earlier results: add --overwrite to replace them";
        free(path);
        path = NULL;
    }
    if (what != NULL)
        st = status_fail(MOAO_INPUT, "%s: holds %s, or choose another directory with -o", s->dir,
                         what);
done:
    s->nparts = 0;
    free(path);
    return st;
}

/* Remove what an earlier run left, so that at no moment something old looks like part of the new
 * run. */
static status start_anew(store *s, const char *effective) {
    status st;
    char *path = NULL;
    TRY(remove_file(s->checkpoint, "finished"));
    TRY(for_each_part(s, remove_part));
    TRY(remove_file(s->checkpoint, "facts"));
    for (int i = 0; i < FINAL_FILES; i++)
        TRY(remove_file(s->dir, final_files[i]));
    TRY(file_join(s->dir, "effective.yaml", &path));
    TRY(file_write_text(path, effective));
    free(path);
    path = NULL;
    TRY(checkpoint_path(s, "effective.yaml", &path));
    st = file_write_text(path, effective);
done:
    free(path);
    return st;
}

/* Go on with the run that the directory holds, if any. */
static status load(store *s, const char *effective) {
    status st;
    char *maps = NULL;
    TRY(refuse_changes(s, effective));
    TRY(file_join(s->dir, final_files[0], &maps));
    if (checkpoint_has(s, "finished") && !file_exists(maps)) {
        progress_warn("%s: the finished maps are gone; they will be computed again", maps);
        TRY(start_anew(s, effective));
    }
    TRY(read_facts(s));
    s->finished = checkpoint_has(s, "finished");
    st = for_each_part(s, s->finished ? remove_part : load_part);
done:
    free(maps);
    return st;
}

status store_open(const char *dir, const char *effective, int ntarget, int nexposure, bool resume,
                  bool overwrite, store **out) {
    status st;
    store *s = NULL;
    *out = NULL;
    if (resume && overwrite)
        return status_fail(MOAO_INPUT, "%s: --resume and --overwrite exclude each other", dir);
    file_limits_as_errors();
    TRY(ALLOC(s, 1, "store"));
    s->lock_fd = s->open_fd = s->open_part = -1;
    s->ntarget = ntarget;
    s->nexposure = nexposure;
    TRY(ALLOC(s->dir, strlen(dir) + 1, "directory name"));
    strcpy(s->dir, dir);
    TRY(file_join(dir, "checkpoint", &s->checkpoint));
    TRY(ALLOC(s->part_of, (size_t)nexposure * (size_t)ntarget, "list of what is done"));
    for (size_t i = 0; i < (size_t)nexposure * (size_t)ntarget; i++)
        s->part_of[i] = -1;
    TRY(file_make_dir(s->checkpoint));
    TRY(take_lock(s));
    if (resume && checkpoint_has(s, "effective.yaml")) {
        TRY(load(s, effective));
    } else {
        if (!overwrite)
            TRY(refuse_results(s));
        TRY(start_anew(s, effective));
    }
    *out = s;
done:
    if (st != MOAO_OK)
        store_close(s);
    return st;
}

static void close_part(store *s) {
    if (s->open_fd >= 0)
        close(s->open_fd);
    free(s->open_scalars);
    s->open_scalars = NULL;
    s->open_fd = s->open_part = -1;
}

void store_close(store *s) {
    if (s == NULL)
        return;
    close_part(s);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    free(s->facts);
    free(s->part_of);
    free(s->parts);
    free(s->checkpoint);
    free(s->dir);
    free(s);
}

bool store_done(const store *s, int exposure, int target) {
    return s->finished || s->part_of[(size_t)exposure * (size_t)s->ntarget + (size_t)target] >= 0;
}

bool store_finished(const store *s) {
    return s->finished;
}

size_t store_done_count(const store *s) {
    return s->finished ? (size_t)s->nexposure * (size_t)s->ntarget : s->done;
}

status store_put(store *s, const result_block *b) {
    char name[PART_NAME_SIZE];
    char *path = NULL;
    part_shape p = {b->exposure, b->t0,   b->nt,
                    b->nlambda,  b->nbox, b->images == NULL ? 0 : b->crop};
    status st;
    if (!in_range(s, &p) || (s->nparts > 0 && !same_results(&p, &s->parts[0])))
        return status_fail(MOAO_INTERNAL,
                           "results of exposure %d, targets %d to %d do not fit the run",
                           b->exposure, b->t0, b->t0 + b->nt - 1);
    part_name(&p, name);
    TRY(checkpoint_path(s, name, &path));
    close_part(s);
    TRY(part_write(path, b));
    st = add_part(s, &p);
done:
    free(path);
    return st;
}

/* Open the part that holds (exposure, target), unless it is open already. */
static status open_part_of(const store *cs, int exposure, int target, part_shape *p, char **path) {
    store *s = (store *)cs; /* what is cached does not change what the store holds */
    char name[PART_NAME_SIZE];
    status st;
    int i = s->part_of[(size_t)exposure * (size_t)s->ntarget + (size_t)target];
    *path = NULL;
    if (i < 0)
        return status_fail(MOAO_INTERNAL, "exposure %d of target %d is not in the checkpoint",
                           exposure, target);
    *p = s->parts[i];
    part_name(p, name);
    TRY(checkpoint_path(s, name, path));
    if (s->open_part == i)
        return MOAO_OK;
    close_part(s);
    s->open_fd = open(*path, O_RDONLY | O_CLOEXEC);
    if (s->open_fd < 0)
        st = status_fail(MOAO_IO, "%s: cannot read: %s", *path, strerror(errno));
    else
        s->open_part = i;
done:
    return st;
}

status store_read_scalars(const store *cs, int exposure, int target, double *out) {
    store *s = (store *)cs;
    part_shape p;
    char *path = NULL;
    status st;
    TRY(open_part_of(s, exposure, target, &p, &path));
    size_t n = (size_t)p.nlambda * (3 + (size_t)p.nbox);
    if (s->open_scalars == NULL) {
        TRY(ALLOC(s->open_scalars, (size_t)p.nt * n, "results of a checkpoint part"));
        TRY(part_read_scalars(s->open_fd, path, &p, s->open_scalars));
    }
    memcpy(out, s->open_scalars + (size_t)(target - p.t0) * n, n * sizeof *out);
done:
    if (st != MOAO_OK)
        close_part(s);
    free(path);
    return st;
}

status store_read_image(const store *s, int exposure, int target, int ilambda, float *out) {
    part_shape p;
    char *path = NULL;
    status st;
    TRY(open_part_of(s, exposure, target, &p, &path));
    if (p.crop == 0 || ilambda < 0 || ilambda >= p.nlambda)
        st = status_fail(MOAO_INTERNAL, "%s: has no image of wavelength %d", path, ilambda);
    else
        st = part_read_image(s->open_fd, path, &p, target - p.t0, ilambda, out);
done:
    free(path);
    return st;
}

status store_discard_parts(store *s) {
    status st;
    char *path = NULL;
    close_part(s);
    TRY(checkpoint_path(s, "finished", &path));
    TRY(file_write_text(path, "the final files are in place\n"));
    s->finished = true;
    st = for_each_part(s, remove_part);
done:
    free(path);
    return st;
}
