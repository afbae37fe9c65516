#define _GNU_SOURCE
#include "base/file.h"
#include "base/progress.h"
#include "base/text.h"
#include "params/params.h"
#include "store_accuracy.h"
#include "store_folder.h"
#include "store_private.h"
#include "store_sealed.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WARNINGS = 10 }; /* of parts that are left out */

static status refuse_version(const store *s) {
    return status_fail(MOAO_INPUT,
                       "%s: the checkpoint there is of another version of the program, which this "
                       "one does not read; go on with that version, choose another directory with "
                       "-o, or start again with --overwrite",
                       s->dir);
}

static status read_facts(store *s, sealed_state *known) {
    char *path = NULL;
    sealed_state state;
    status st;
    TRY(store_path(s, "facts", &path));
    TRY(facts_read(path, s->run.fingerprint, s->run.nnode + s->run.ntarget, s->run.nexposure,
                   &s->facts, &state));
    *known = state;
    if (state == SEALED_OLD)
        TRY(refuse_version(s));
    if (!s->mixed)
        facts_forget(&s->facts, "precision_");
done:
    free(path);
    return st;
}

static bool is_mixed(const store *s, int exposure) {
    bool mixed;
    double difference;
    return store_get_precision(s, exposure, &mixed, &difference) && mixed;
}

/* Whether the run's factors are compressed, and how accurate they are is known. */
static bool is_compressed(const store *s) {
    store_compression c;
    for (int k = 0; k < s->run.nexposure; k++)
        if (store_get_compression(s, k, &c))
            return true;
    return false;
}

/* Take in one part of the directory; what is damaged or of another run is left out with a warning.
 */
static status load_part(store *s, const char *name, const part_shape *named) {
    char *path = NULL;
    const char *why;
    part_shape p;
    bool old;
    status st;
    TRY(store_path(s, name, &path));
    TRY(part_verify(path, &s->run, &p, &why, &old));
    if (old)
        TRY(refuse_version(s));
    if (why == NULL && (p.exposure != named->exposure || p.t0 != named->t0 || p.nt != named->nt))
        why = "its name is that of another part";
    if (why == NULL && p.mixed && !(s->mixed && (is_mixed(s, p.exposure) || is_compressed(s))))
        why = s->mixed ? "how far its mixed precision may be trusted is not known"
                       : "it is in mixed precision";
    if (why == NULL)
        TRY(store_add_part(s, &p));
    else if (++s->left_out <= MOST_WARNINGS)
        progress_warn("%s: left out, %s; it will be computed again", path, why);
done:
    free(path);
    return st;
}

/* Call f for every part in the checkpoint, in the order of names. */
static status for_each_part(store *s, status (*f)(store *, const char *, const part_shape *)) {
    status st = MOAO_OK;
    struct dirent **names = NULL;
    int n;
    do
        n = scandir(s->checkpoint, &names, NULL, alphasort);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return file_fail(s->checkpoint, "read", errno);
    for (int i = 0; i < n; i++) {
        part_shape p;
        if (st == MOAO_OK && part_parse_name(names[i]->d_name, &p))
            st = f(s, names[i]->d_name, &p);
        free(names[i]);
    }
    free(names);
    return st;
}

static status remove_part(store *s, const char *name, const part_shape *p) {
    (void)p;
    return folder_remove(s->checkpoint, name);
}

status store_remove_parts(store *s) {
    return for_each_part(s, remove_part);
}

static status count_part(store *s, const char *name, const part_shape *p) {
    (void)name;
    (void)p;
    s->nparts++;
    return MOAO_OK;
}

static status load_parts(store *s) {
    status st = for_each_part(s, load_part);
    if (st == MOAO_OK && s->left_out > MOST_WARNINGS)
        progress_warn("%s: %d more part%s left out, to be computed again", s->checkpoint,
                      s->left_out - MOST_WARNINGS, text_plural(s->left_out - MOST_WARNINGS));
    return st;
}

/* --- a directory that is not empty */

static status refuse_changes(const store *s) {
    char *path = NULL, *then = NULL;
    char difference[512];
    status st;
    TRY(store_path(s, "effective.yaml", &path));
    TRY(file_read_text(path, &then));
    if (params_compare_effective(then, s->effective, difference, sizeof difference) != MOAO_OK)
        st = status_fail(MOAO_INPUT,
                         "%s: --resume with changed parameters: %s; change it back, choose another "
                         "directory with -o, or start again with --overwrite",
                         s->dir, difference);
done:
    free(then);
    free(path);
    return st;
}

/* A directory with results that would be lost. */
status store_refuse_results(store *s, bool resume) {
    status st;
    const char *what = NULL;
    bool has = false;
    s->nparts = 0;
    TRY(for_each_part(s, count_part));
    TRY(folder_has(s->checkpoint, "finished", &has));
    if (has)
        what = "a finished run: add --overwrite to replace it";
    else if (s->nparts > 0)
        what = "an unfinished run: add --resume to go on, --overwrite to start again";
    for (int i = 0; folder_results[i] != NULL && what == NULL; i++) {
        TRY(folder_has(s->dir, folder_results[i], &has));
        if (has)
            what = resume
                       ? "results without a checkpoint to resume: add --overwrite to replace them"
                       : "earlier results: add --overwrite to replace them";
    }
    if (what != NULL)
        st = status_fail(MOAO_INPUT, "%s: holds %s, or choose another directory with -o",
                         file_shown(s->dir), what);
done:
    s->nparts = 0;
    return st;
}

/* The effective parameters in the checkpoint, for the next resume, and beside the results, for
 * people.
 */
static status write_effective(const store *s, const char *dir) {
    char *path = NULL;
    status st;
    TRY(file_join(dir, "effective.yaml", &path));
    st = file_write_text(path, s->effective);
done:
    free(path);
    return st;
}

static status remove_results(const store *s) {
    status st = MOAO_OK;
    for (int i = 0; folder_results[i] != NULL && st == MOAO_OK; i++)
        st = folder_remove(s->dir, folder_results[i]);
    return st;
}

/* Ended at any moment, the directory belongs to the old run or to the new one: to the new one once
 * its effective parameters are in the checkpoint, as old parts do not fit them. */
status store_start_anew(store *s) {
    status st;
    facts_free(&s->facts);
    TRY(folder_remove(s->checkpoint, "finished"));
    TRY(write_effective(s, s->checkpoint));
    TRY(store_write_facts(s));
    TRY(store_remove_parts(s));
    TRY(remove_results(s));
    TRY(folder_remove_matrices(s->dir));
    st = write_effective(s, s->dir);
done:
    return st;
}

/* Whether the results of all targets are there, whatever nodes are. */
static bool all_done(const store *s) {
    for (int e = 0; e < s->run.nexposure; e++)
        for (int t = 0; t < s->run.ntarget; t++)
            if (!store_done(s, e, t))
                return false;
    return true;
}

/* A finished run whose files are not all as it left them; its parts, if any, are loaded. */
static status repair(store *s, const folder_state *f) {
    if (all_done(s)) {
        progress_warn("%s: %s; the results are made again from the checkpoint", s->dir, f->wrong);
        return folder_remove(s->checkpoint, "finished");
    }
    if (f->any)
        return status_fail(MOAO_INPUT,
                           "%s: the run is finished, but %s: put the file back, start again with "
                           "--overwrite, or choose another directory with -o",
                           file_shown(s->dir), f->wrong);
    progress_warn("%s: the finished maps are gone; they will be computed again", s->dir);
    return folder_remove(s->checkpoint, "finished");
}

/* effective.yaml of a finished run, in the directory and in the checkpoint: from the one that is as
 * it was, else the text of this call, which may have another title. */
static status restore_effective(store *s, const folder_state *f) {
    char *kept = NULL, *right = NULL, *text = NULL;
    uint64_t size;
    uint32_t crc;
    bool there, same = false;
    status st;
    TRY(store_path(s, "effective.yaml", &kept));
    TRY(file_find(kept, &there));
    if (there && (st = file_sum(kept, &size, &crc)) == MOAO_OK)
        same = size == f->size && crc == f->crc;
    if (st == MOAO_IO) /* then it cannot serve */
        status_clear();
    else
        TRY(st);
    if (same && f->effective)
        goto done;
    progress_warn("%s: effective.yaml is not as the run wrote it: it is written anew", s->dir);
    if (same || f->effective) {
        TRY(file_join(same ? s->checkpoint : s->dir, "effective.yaml", &right));
        TRY(file_read_text(right, &text));
        free(s->effective);
        s->effective = text;
    }
    TRY(write_effective(s, s->checkpoint));
    st = write_effective(s, s->dir);
done:
    free(right);
    free(kept);
    return st;
}

/* The finished run that the directory holds, if it does: its files are verified. */
static status load_finished(store *s) {
    char *path = NULL, *note = NULL;
    sealed_state state;
    folder_state f = {.right = false};
    status st;
    TRY(store_path(s, "finished", &path));
    TRY(sealed_read(path, "finished", s->run.fingerprint, &note, &state));
    if (state == SEALED_OLD)
        TRY(refuse_version(s));
    if (state == SEALED_NONE)
        goto done;
    if (state == SEALED_GOOD) {
        TRY(folder_compare(s->dir, note, &f));
    } else {
        f.any = true;
        snprintf(f.wrong, sizeof f.wrong, "checkpoint/finished %s",
                 state == SEALED_FOREIGN ? "is of another run" : "is damaged");
    }
    if (f.report[0] != '\0')
        progress_warn("%s: %s", s->dir, f.report);
    if (f.right) {
        s->finished = true;
        TRY(restore_effective(s, &f));
        TRY(store_remove_parts(s));
    } else {
        st = repair(s, &f);
    }
done:
    free(note);
    free(path);
    return st;
}

status store_load(store *s) {
    bool known, finished;
    sealed_state facts;
    status st;
    TRY(folder_has(s->checkpoint, "effective.yaml", &known));
    TRY(folder_has(s->checkpoint, "finished", &finished));
    TRY(read_facts(s, &facts));
    if (facts == SEALED_GOOD) /* of this run, whatever became of effective.yaml */
        known = true;
    else if (known)
        TRY(refuse_changes(s));
    if (facts == SEALED_DAMAGED || facts == SEALED_FOREIGN)
        progress_warn(
            "%s/facts: left out, it %s: last digits may differ from those of the first run",
            s->checkpoint, facts == SEALED_DAMAGED ? "is damaged" : "belongs to another run");
    TRY(load_parts(s));
    if (!known && s->left_out > 0)
        TRY(status_fail(MOAO_INPUT,
                        "%s: the checkpoint has lost its effective.yaml and holds parts that are "
                        "not of this run; choose another directory with -o, or start again with "
                        "--overwrite",
                        s->dir));
    if (!known && s->done == 0 && !finished)
        TRY(store_refuse_results(s, true));
    TRY(load_finished(s));
    if (s->finished) {
        if (facts != SEALED_GOOD)
            st = store_write_facts(s);
        goto done;
    }
    TRY(remove_results(s)); /* of a run that ended while it put them in place */
    /* those of this call, as PARAMETERS of maps.fits will have them */
    TRY(write_effective(s, s->checkpoint));
    TRY(write_effective(s, s->dir));
    st = store_write_facts(s);
done:
    return st;
}
