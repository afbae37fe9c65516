#include "params_files.h"

#include "base/file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 28 }; /* a parameter file of more than 256 MB is a mistake */

static status add(params_files *b, const char *path, params_file **f) {
    params_file **grown = realloc(b->file, (size_t)(b->n + 1) * sizeof *grown);
    if (grown != NULL)
        b->file = grown;
    *f = calloc(1, sizeof **f);
    if (grown == NULL || *f == NULL || ((*f)->path = strdup(path)) == NULL) {
        free(*f);
        return status_fail(MOAO_MEMORY, "no memory for the list of parameter files");
    }
    grown[b->n++] = *f;
    return MOAO_OK;
}

static const params_file *find(const params_files *b, const char *path) {
    for (int i = 0; i < b->n; i++)
        if (strcmp(b->file[i]->path, path) == 0)
            return b->file[i];
    return NULL;
}

/* A regular file, open for reading; not opened for good, a pipe that nobody writes to would block.
 */
static int open_regular(const char *path, params_file *f) {
    struct stat about;
    int in = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (in < 0 || fstat(in, &about) != 0)
        f->error = errno;
    else if (S_ISDIR(about.st_mode))
        f->error = EISDIR;
    else if (!S_ISREG(about.st_mode))
        f->error = FILE_NOT_REGULAR;
    else if (about.st_size > MAX_FILE)
        f->error = EFBIG;
    return in;
}

/* The file may grow meanwhile; what is read is what counts. */
static status read_open(int in, params_file *f) {
    size_t room = 0;
    for (;;) {
        if (f->len == room) {
            room = room ? 2 * room : 1 << 16;
            char *grown = room <= 2 * (size_t)MAX_FILE ? realloc(f->data, room + 1) : NULL;
            if (grown == NULL)
                return status_fail(MOAO_MEMORY, "no memory for %zu bytes of %s", room, f->path);
            f->data = grown;
        }
        ssize_t n = read(in, f->data + f->len, room - f->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            f->error = errno;
        if (n <= 0)
            break;
        f->len += (size_t)n;
    }
    f->data[f->len] = '\0';
    return MOAO_OK;
}

static status read_whole(const char *path, params_file *f) {
    status st = MOAO_OK;
    int in = open_regular(path, f);
    if (f->error == 0)
        st = read_open(in, f);
    if (in >= 0)
        close(in);
    if (f->error != 0)
        f->len = 0;
    return st;
}

const char *params_files_reason(const params_file *f) {
    return f->error == FILE_NOT_REGULAR ? "a pipe or device, no regular file" : strerror(f->error);
}

bool params_files_find_nul(const params_file *f, int *line, int *column) {
    const char *nul = f->len > 0 ? memchr(f->data, '\0', f->len) : NULL, *start = f->data;
    *line = 1;
    for (const char *p = f->data; nul != NULL && p < nul; p++)
        if (*p == '\n') {
            start = p + 1;
            ++*line;
        }
    *column = nul != NULL ? (int)(nul - start) + 1 : 1;
    return nul != NULL;
}

status params_files_get(params_files *b, const char *path, const params_file **f) {
    params_file *added;
    if ((*f = find(b, path)) != NULL)
        return MOAO_OK;
    if (b->sealed)
        return status_fail(MOAO_INTERNAL, "parameter file %s was not read by rank 0", path);
    status st = add(b, path, &added);
    if (st == MOAO_OK)
        st = read_whole(path, added);
    *f = added;
    return st;
}

/* Folders of shipped parameter files, from the program's: as installed, and in the sources. */
static const char *const shipped[] = {"../share/moao/params", "../params"};

/* The first of them that is there, in new memory; NULL without any. */
static status shipped_folder(char **out) {
    status st = MOAO_OK;
    *out = NULL;
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped && *out == NULL && st == MOAO_OK; i++)
        st = file_near_program(shipped[i], out);
    return st;
}

status params_files_get_stated(params_files *b, const char *path, const char *stated,
                               const params_file **f) {
    params_file *here;
    char *folder = NULL, *name = NULL;
    const bool known = find(b, path) != NULL;
    status st;
    TRY(params_files_get(b, path, f));
    here = (params_file *)find(b, path);
    if (known || here->error != ENOENT || stated == NULL || stated[0] == '/')
        return MOAO_OK;
    TRY(shipped_folder(&folder));
    if (folder == NULL)
        return MOAO_OK;
    TRY(file_join(folder, stated, &name));
    here->error = 0;
    TRY(read_whole(name, here));
    if (here->error != ENOENT) {
        here->found = name;
        name = NULL;
    }
done:
    free(folder);
    free(name);
    return st;
}

const char *params_files_name(const params_file *f) {
    return f->found != NULL && f->found[0] != '\0' ? f->found : f->path;
}

const char *params_files_stated_reason(const params_file *f, const char *stated) {
    static char text[1024];
    char *folder = NULL;
    snprintf(text, sizeof text, "%s", params_files_reason(f));
    if (f->error == ENOENT && stated != NULL && stated[0] != '/' &&
        shipped_folder(&folder) == MOAO_OK && folder != NULL)
        snprintf(text, sizeof text, "%s, nor in %s", strerror(ENOENT), file_shown(folder));
    free(folder);
    return text;
}

int params_files_natural_order(const char *a, const char *b) {
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            while (*a == '0' && isdigit((unsigned char)a[1]))
                a++;
            while (*b == '0' && isdigit((unsigned char)b[1]))
                b++;
            size_t na = strspn(a, "0123456789"), nb = strspn(b, "0123456789");
            if (na != nb)
                return na < nb ? -1 : 1;
            int order = strncmp(a, b, na);
            if (order != 0)
                return order;
            a += na;
            b += nb;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != '\0') - (*b != '\0');
}

static int compare_names(const void *a, const void *b) {
    return params_files_natural_order(*(char *const *)a, *(char *const *)b);
}

static status join_names(char **names, size_t n, params_file *f) {
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += strlen(names[i]) + 1;
    f->data = calloc(len + 1, 1);
    if (f->data == NULL)
        return status_fail(MOAO_MEMORY, "no memory for names of files");
    for (size_t i = 0; i < n; i++) {
        size_t k = strlen(names[i]);
        memcpy(f->data + f->len, names[i], k);
        f->data[f->len + k] = '\n';
        f->len += k + 1;
    }
    return MOAO_OK;
}

status params_files_match(params_files *b, const char *pattern, const params_file **f) {
    params_file *added;
    glob_t g;
    char *key = malloc(strlen(pattern) + 10);
    if (key == NULL)
        return status_fail(MOAO_MEMORY, "no memory for a pattern");
    sprintf(key, "pattern: %s", pattern); /* apart from a file of this name */
    status st = MOAO_OK;
    if ((*f = find(b, key)) == NULL && b->sealed)
        st = status_fail(MOAO_INTERNAL, "pattern %s was not read by rank 0", pattern);
    else if (*f == NULL && (st = add(b, key, &added)) == MOAO_OK) {
        *f = added;
        if (glob(pattern, 0, NULL, &g) == 0) {
            qsort(g.gl_pathv, g.gl_pathc, sizeof *g.gl_pathv, compare_names);
            st = join_names(g.gl_pathv, g.gl_pathc, added);
            globfree(&g);
        } else {
            added->error = ENOENT;
        }
    }
    free(key);
    return st;
}

static status broadcast_bytes(const comm *c, char **data, size_t *len) {
    unsigned long long n = *len;
    status st = MOAO_OK;
    MPI_Bcast(&n, 1, MPI_UNSIGNED_LONG_LONG, 0, c->mpi);
    if (c->rank != 0 && (*data = calloc((size_t)n + 1, 1)) == NULL)
        st = status_fail(MOAO_MEMORY, "no memory for a parameter file of %llu bytes", n);
    TRY(comm_agree(c, st));
    *len = (size_t)n;
    if (n > 0) /* at most MAX_FILE, which an int holds */
        MPI_Bcast(*data, (int)n, MPI_BYTE, 0, c->mpi);
done:
    return st;
}

/* The same number of empty files on every rank. */
static status broadcast_count(const comm *c, params_files *b) {
    status st = MOAO_OK;
    int n = b->n;
    MPI_Bcast(&n, 1, MPI_INT, 0, c->mpi);
    if (c->rank != 0) {
        b->file = calloc((size_t)n + 1, sizeof *b->file);
        for (b->n = 0; b->file != NULL && b->n < n; b->n++)
            if ((b->file[b->n] = calloc(1, sizeof **b->file)) == NULL)
                break;
        if (b->file == NULL || b->n < n)
            st = status_fail(MOAO_MEMORY, "no memory for the list of parameter files");
    }
    return comm_agree(c, st);
}

status params_files_broadcast(const comm *c, params_files *b) {
    status st;
    TRY(broadcast_count(c, b));
    for (int i = 0; i < b->n; i++) {
        params_file *f = b->file[i];
        size_t path_len = f->path ? strlen(f->path) : 0;
        size_t found_len = f->found ? strlen(f->found) : 0;
        MPI_Bcast(&f->error, 1, MPI_INT, 0, c->mpi);
        TRY(broadcast_bytes(c, &f->path, &path_len));
        TRY(broadcast_bytes(c, &f->found, &found_len));
        TRY(broadcast_bytes(c, &f->data, &f->len));
    }
    b->sealed = true;
done:
    return st;
}

void params_files_free(params_files *b) {
    for (int i = 0; i < b->n; i++) {
        free(b->file[i]->path);
        free(b->file[i]->found);
        free(b->file[i]->data);
        free(b->file[i]);
    }
    free(b->file);
    *b = (params_files){0};
}
