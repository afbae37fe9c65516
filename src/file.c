#define _GNU_SOURCE
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void file_limits_as_errors(void) {
    signal(SIGXFSZ, SIG_IGN);
}

bool file_exists(const char *path) {
    struct stat sb;
    return stat(path, &sb) == 0;
}

static status make_one(const char *dir) {
    struct stat sb;
    if (mkdir(dir, 0777) == 0 || (stat(dir, &sb) == 0 && S_ISDIR(sb.st_mode)))
        return MOAO_OK;
    int err = errno;
    if (stat(dir, &sb) == 0)
        return status_fail(MOAO_IO, "%s: is a file, not a directory; choose another with -o", dir);
    return status_fail(MOAO_IO, "%s: cannot make the directory: %s", dir, strerror(err));
}

status file_make_dir(const char *dir) {
    status st;
    char *copy = NULL;
    TRY(ALLOC(copy, strlen(dir) + 1, "directory name"));
    strcpy(copy, dir);
    for (char *p = copy + 1; dir[0] != '\0' && *p != '\0'; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        st = make_one(copy);
        *p = '/';
        if (st != MOAO_OK)
            goto done;
    }
    st = make_one(copy);
done:
    free(copy);
    return st;
}

status file_join(const char *dir, const char *name, char **out) {
    size_t n = strlen(dir) + strlen(name) + 2;
    status st = ALLOC(*out, n, "file name");
    if (st == MOAO_OK)
        snprintf(*out, n, "%s/%s", dir, name);
    return st;
}

status file_temp_name(const char *path, char **out) {
    size_t n = strlen(path) + 5;
    status st = ALLOC(*out, n, "file name");
    if (st == MOAO_OK)
        snprintf(*out, n, "%s.tmp", path);
    return st;
}

/* Sync a file or directory by name. File systems without sync of directories (EINVAL) are left
 * alone. */
static status sync_name(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return status_fail(MOAO_IO, "%s: cannot open: %s", path, strerror(errno));
    int err = fsync(fd) == 0 ? 0 : errno;
    if (close(fd) != 0 && err == 0)
        err = errno;
    if (err != 0 && err != EINVAL && err != ENOSYS)
        return status_fail(MOAO_IO, "%s: cannot write: %s", path, strerror(err));
    return MOAO_OK;
}

static status sync_parent(const char *path) {
    status st;
    char *dir = NULL;
    TRY(ALLOC(dir, strlen(path) + 2, "directory name"));
    strcpy(dir, path);
    char *slash = strrchr(dir, '/');
    if (slash == NULL)
        strcpy(dir, ".");
    else
        slash[slash == dir] = '\0';
    st = sync_name(dir, O_RDONLY | O_DIRECTORY);
done:
    free(dir);
    return st;
}

status file_publish(const char *temp, const char *path) {
    status st;
    TRY(sync_name(temp, O_RDONLY));
    if (rename(temp, path) != 0)
        st = status_fail(MOAO_IO, "%s: cannot put the finished file in place: %s", path,
                         strerror(errno));
done:
    if (st != MOAO_OK)
        unlink(temp);
    else
        st = sync_parent(path);
    return st;
}

status file_begin(file_out *o, const char *path) {
    status st;
    memset(o, 0, sizeof *o);
    TRY(ALLOC(o->path, strlen(path) + 1, "file name"));
    strcpy(o->path, path);
    TRY(file_temp_name(path, &o->temp));
    o->f = fopen(o->temp, "we");
    if (o->f == NULL)
        st = status_fail(MOAO_IO, "%s: cannot write: %s", path, strerror(errno));
done:
    if (st != MOAO_OK)
        file_abandon(o);
    return st;
}

status file_append(file_out *o, const void *data, size_t size) {
    if (size > 0 && fwrite(data, 1, size, o->f) != size)
        return status_fail(MOAO_IO, "%s: cannot write: %s", o->path, strerror(errno));
    return MOAO_OK;
}

status file_commit(file_out *o) {
    status st = MOAO_OK;
    FILE *f = o->f;
    o->f = NULL;
    bool bad = ferror(f) != 0;
    errno = bad ? EIO : 0;
    if (fclose(f) != 0 || bad) {
        st = status_fail(MOAO_IO, "%s: cannot write: %s", o->path, strerror(errno));
        unlink(o->temp);
    } else {
        st = file_publish(o->temp, o->path);
    }
    file_abandon(o);
    return st;
}

void file_abandon(file_out *o) {
    if (o->f != NULL) {
        fclose(o->f);
        unlink(o->temp);
    }
    free(o->path);
    free(o->temp);
    memset(o, 0, sizeof *o);
}

status file_write_text(const char *path, const char *text) {
    status st;
    file_out o = {0};
    TRY(file_begin(&o, path));
    TRY(file_append(&o, text, strlen(text)));
    st = file_commit(&o);
done:
    file_abandon(&o);
    return st;
}

status file_read_text(const char *path, char **text) {
    status st = MOAO_OK;
    *text = NULL;
    FILE *f = fopen(path, "re");
    struct stat sb;
    if (f == NULL || fstat(fileno(f), &sb) != 0 || !S_ISREG(sb.st_mode)) {
        st = status_fail(MOAO_IO, "%s: cannot read: %s", path,
                         f == NULL ? strerror(errno) : "not a plain file");
        goto done;
    }
    TRY(ALLOC(*text, (size_t)sb.st_size + 1, path));
    if (fread(*text, 1, (size_t)sb.st_size, f) != (size_t)sb.st_size)
        st = status_fail(MOAO_IO, "%s: cannot read: %s", path, strerror(errno));
done:
    if (st != MOAO_OK) {
        free(*text);
        *text = NULL;
    }
    if (f != NULL)
        fclose(f);
    return st;
}
