#define _GNU_SOURCE
#include "store_folder.h"

#include "base/file.h"
#include "store_sealed.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EFFECTIVE "effective.yaml"

const char *const folder_results[] = {"maps.fits", "psf.fits", "field.fits", "run.json", NULL};

status folder_has(const char *dir, const char *name, bool *has) {
    char *path = NULL;
    status st;
    TRY(file_join(dir, name, &path));
    st = file_find(path, has);
done:
    free(path);
    return st;
}

status folder_remove(const char *dir, const char *name) {
    char *path = NULL;
    status st;
    TRY(file_join(dir, name, &path));
    st = file_delete(path);
done:
    free(path);
    return st;
}

static bool ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

/* Ours, or what people put beside it before a run begins. */
static bool is_expected(const char *name) {
    static const char *const names[] = {".", "..", EFFECTIVE, "checkpoint", "matrices"};
    static const char *const ends[] = {".log", ".out", ".err"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    for (int i = 0; folder_results[i] != NULL; i++)
        if (strcmp(name, folder_results[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i]))
            return true;
    return file_is_temporary(name) || strncmp(name, ".nfs", 4) == 0;
}

status folder_refuse_foreign(const char *dir) {
    status st = MOAO_OK;
    if (dir[0] == '\0')
        return status_fail(MOAO_INPUT, "the folder for results has an empty name; give one with "
                                       "-o or output.directory (is a variable not set?)");
    DIR *d = opendir(dir);
    if (d == NULL && (errno == ENOENT || errno == EACCES || errno == ENOTDIR))
        return MOAO_OK; /* not there yet, or the next step says why it cannot be used */
    if (d == NULL)
        return file_unusable(dir, "read the folder", errno);
    for (struct dirent *e; st == MOAO_OK && (e = readdir(d)) != NULL;)
        if (!is_expected(e->d_name))
            st = status_fail(MOAO_INPUT,
                             "%s: holds other files (%s), and no run was begun there; choose "
                             "another directory with -o, or add --force to use this one",
                             file_shown(dir), e->d_name);
    closedir(d);
    return st;
}

/* Remove the files of a folder whose names are `ours`. */
static status sweep_one(const char *dir, bool (*ours)(const char *name)) {
    status st = MOAO_OK;
    DIR *d = opendir(dir);
    for (struct dirent *e; d != NULL && st == MOAO_OK && (e = readdir(d)) != NULL;)
        if (ours(e->d_name))
            st = folder_remove(dir, e->d_name);
    if (d != NULL)
        closedir(d);
    return st;
}

static bool is_matrix(const char *name) {
    static const char *const starts[] = {"Cmm0_tor", "Cmm_exp", "Ctm0_tor",   "Ctm_exp",
                                         "Ctt_exp",  "R_tor",   "W_tor",      "Cee_exp",
                                         "Cvv_exp",  "D.fits",  "Dplus.fits", "Ranks_tor"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return ends_with(name, ".fits");
    return false;
}

status folder_remove_matrices(const char *dir) {
    char *path = NULL;
    status st;
    TRY(file_join(dir, "matrices", &path));
    st = sweep_one(path, is_matrix);
done:
    free(path);
    return st;
}

status folder_sweep(const char *dir) {
    static const char *const below[] = {"checkpoint", "matrices"};
    status st = sweep_one(dir, file_is_temporary);
    for (size_t i = 0; i < sizeof below / sizeof *below && st == MOAO_OK; i++) {
        char *path = NULL;
        st = file_join(dir, below[i], &path);
        if (st == MOAO_OK)
            st = sweep_one(path, file_is_temporary);
        free(path);
    }
    return st;
}

/* Add a line about DIR/NAME, if it is there. */
static status note_one(const char *dir, const char *name, char *text, size_t size) {
    char *path = NULL;
    uint64_t bytes;
    uint32_t crc;
    const size_t n = strlen(text);
    bool there;
    status st;
    TRY(file_join(dir, name, &path));
    TRY(file_find(path, &there));
    if (!there)
        goto done;
    TRY(file_sum(path, &bytes, &crc));
    snprintf(text + n, size - n, "%s %" PRIu64 " %08" PRIx32 "\n", name, bytes, crc);
done:
    free(path);
    return st;
}

status folder_note(const char *dir, const char *path, uint64_t run) {
    char text[400] = "";
    status st;
    TRY(note_one(dir, EFFECTIVE, text, sizeof text));
    for (int i = 0; folder_results[i] != NULL; i++)
        TRY(note_one(dir, folder_results[i], text, sizeof text));
    st = sealed_write(path, "finished", run, text);
done:
    return st;
}

/* *why: NULL when the file has this size and checksum; else what is wrong. */
static status compare_one(const char *path, uint64_t size, uint32_t crc, const char **why) {
    uint64_t size_now;
    uint32_t crc_now;
    bool there;
    status st;
    *why = "is missing";
    TRY(file_find(path, &there));
    if (!there)
        goto done;
    *why = "cannot be read";
    st = file_sum(path, &size_now, &crc_now);
    if (st == MOAO_IO) {
        status_clear();
        return MOAO_OK;
    }
    TRY(st);
    *why = size_now != size ? "has another size than the run gave it"
           : crc_now != crc ? "has changed since the run wrote it"
                            : NULL;
done:
    return st;
}

status folder_compare(const char *dir, const char *note, folder_state *s) {
    status st = MOAO_OK;
    *s = (folder_state){.right = true};
    for (int i = 0; i < FOLDER_FITS && !s->any; i++)
        TRY(folder_has(dir, folder_results[i], &s->any));
    for (const char *line = note; *line != '\0'; line += strcspn(line, "\n") + 1) {
        char name[40], *path = NULL;
        uint64_t size;
        uint32_t crc;
        if (sscanf(line, "%39s %" SCNu64 " %" SCNx32, name, &size, &crc) != 3)
            return status_fail(MOAO_IO, "%s: cannot read the note of its results", dir);
        TRY(file_join(dir, name, &path));
        const char *why;
        st = compare_one(path, size, crc, &why);
        free(path);
        TRY(st);
        if (strcmp(name, EFFECTIVE) == 0) {
            s->effective = why == NULL;
            s->size = size;
            s->crc = crc;
        } else if (why == NULL) {
            continue;
        } else if (strcmp(name, "run.json") == 0) {
            snprintf(s->report, sizeof s->report, "%s %s", name, why);
        } else if (s->right) {
            snprintf(s->wrong, sizeof s->wrong, "%s %s", name, why);
            s->right = false;
        }
    }
done:
    return st;
}
