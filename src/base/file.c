#define _GNU_SOURCE
#include "file.h"

#include "crc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMPORARY ".moao-%08x.tmp"

/* Repeat a call that a signal interrupted. */
#define RETRY(result, call)                                                                        \
    do                                                                                             \
        (result) = (call);                                                                         \
    while ((result) < 0 && errno == EINTR)

/* --- messages */

static const char *advice(int err) {
    switch (err) {
    case ENOSPC:
    case EDQUOT:
        return "; make room there, or choose another folder with -o";
    case EFBIG:
        return "; raise the limit on file sizes (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case ENOENT:
    case EISDIR:
    case EEXIST:
    case ENAMETOOLONG:
        return "; choose another with -o";
    case ELOOP:
        return "; it is a link: remove it, or choose another folder with -o";
    case EMFILE:
    case ENFILE:
        return "; raise the limit on open files (ulimit -n)";
    default:
        return "; look at the file system there";
    }
}

const char *file_shown(const char *path) {
    enum { MOST = 400 };
    static char shown[2][MOST + 4];
    static int turn;
    const size_t n = strlen(path);
    if (n <= MOST)
        return path;
    turn = 1 - turn;
    snprintf(shown[turn], sizeof shown[turn], "...%s", path + n - MOST);
    return shown[turn];
}

status file_fail(const char *path, const char *what, int err) {
    const bool read = strcmp(what, "read") == 0;
    const char *todo = !read           ? advice(err)
                       : err == EACCES ? "; give this user the right to read it"
                       : err == ENOENT ? ""
                                       : "; look at the file system there";
    return status_fail(MOAO_IO, "%s: cannot %s: %s%s", file_shown(path), what, strerror(err), todo);
}

status file_unusable(const char *path, const char *what, int err) {
    static const int chosen[] = {EACCES, EPERM,  EROFS,        ENOTDIR, ENOENT,
                                 EISDIR, EEXIST, ENAMETOOLONG, ELOOP};
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++)
        if (err == chosen[i])
            return status_fail(MOAO_INPUT, "%s: cannot %s: %s%s", file_shown(path), what,
                               strerror(err), advice(err));
    return file_fail(path, what, err);
}

/* --- names */

void file_limits_as_errors(void) {
    signal(SIGXFSZ, SIG_IGN);
}

bool file_exists(const char *path) {
    struct stat sb;
    return stat(path, &sb) == 0;
}

status file_find(const char *path, bool *there) {
    struct stat sb;
    *there = stat(path, &sb) == 0;
    if (*there || errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ||
        errno == ENAMETOOLONG)
        return MOAO_OK;
    return file_fail(path, "read", errno);
}

status file_make_absolute(char **path) {
    char *here = NULL, *whole = NULL;
    status st = MOAO_OK;
    if ((*path)[0] == '/')
        return st;
    here = getcwd(NULL, 0);
    if (here == NULL)
        return file_fail(*path, "find", errno);
    TRY(file_join(here, *path, &whole));
    free(*path);
    *path = whole;
done:
    free(here);
    return st;
}

int file_open_fd(const char *path, int flags) {
    int fd;
    if ((flags & O_ACCMODE) == O_RDONLY) /* a pipe that nobody writes to is not waited for */
        flags |= O_NONBLOCK;
    RETRY(fd, open(path, flags | O_CLOEXEC, 0666));
    return fd;
}

/* What is no plain file, in words; NULL for one that is. */
static const char *irregular(const struct stat *sb) {
    return S_ISREG(sb->st_mode)   ? NULL
           : S_ISDIR(sb->st_mode) ? "a directory"
                                  : "a pipe or device, no regular file";
}

const char *file_unreadable(const char *path) {
    struct stat sb;
    const char *why;
    const int fd = file_open_fd(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &sb) != 0)
        why = errno == ENOENT ? "there is no such file" : strerror(errno);
    else
        why = irregular(&sb);
    if (fd >= 0)
        close(fd);
    return why;
}

status file_join(const char *dir, const char *name, char **out) {
    size_t n = strlen(dir) + strlen(name) + 2;
    status st = ALLOC(*out, n, "file name");
    if (st == MOAO_OK)
        snprintf(*out, n, "%s/%s", dir, name);
    return st;
}

status file_of_run(const char *dir, const char *name, const char *expected, char **out) {
    status st;
    TRY(file_join(dir, name, out));
    const char *why = file_unreadable(*out);
    if (why != NULL)
        st = status_fail(MOAO_INPUT, "%s: cannot be read (%s), expected %s", file_shown(*out), why,
                         expected);
done:
    return st;
}

status file_near_program(const char *relative, char **out) {
    char exe[PATH_MAX], *full = NULL;
    status st = MOAO_OK;
    *out = NULL;
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(exe, '/');
    if (slash == NULL)
        return st;
    *slash = '\0';
    TRY(file_join(exe, relative, &full));
    *out = realpath(full, NULL);
done:
    free(full);
    return st;
}

status file_delete(const char *path) {
    int failed;
    RETRY(failed, unlink(path));
    return failed && errno != ENOENT ? file_fail(path, "remove", errno) : MOAO_OK;
}

bool file_is_temporary(const char *name) {
    char again[32];
    unsigned number;
    if (sscanf(name, ".moao-%8x.tmp", &number) != 1)
        return false;
    snprintf(again, sizeof again, TEMPORARY, number);
    return strcmp(name, again) == 0;
}

/* The directory part of a path, with its last slash ("" for a plain name), then `name`. */
static status beside(const char *path, const char *name, char **out) {
    const char *slash = strrchr(path, '/');
    const size_t folder = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    const size_t n = folder + strlen(name) + 1;
    status st = ALLOC(*out, n, "file name");
    if (st == MOAO_OK) {
        memcpy(*out, path, folder);
        strcpy(*out + folder, name);
    }
    return st;
}

/* --- directories */

/* fsync; file systems without it for directories (EINVAL) are left alone. Returns errno, 0. */
static int sync_fd(int fd) {
    int failed;
    RETRY(failed, fsync(fd));
    return failed && errno != EINVAL && errno != ENOSYS ? errno : 0;
}

/* Sync the directory that holds `path`, so that a new name in it stays. */
static status sync_parent(const char *path) {
    status st;
    char *dir = NULL;
    int err;
    TRY(beside(path, ".", &dir));
    const int fd = file_open_fd(dir, O_RDONLY | O_DIRECTORY);
    err = fd < 0 ? errno : sync_fd(fd);
    if (fd >= 0)
        close(fd);
    if (err != 0 && err != EACCES) /* a directory may be written to that cannot be read */
        st = file_fail(path, "write its folder", err);
done:
    free(dir);
    return st;
}

static status make_one(const char *dir) {
    struct stat sb;
    int failed;
    RETRY(failed, mkdir(dir, 0777));
    if (!failed)
        return sync_parent(dir);
    const int err = errno; /* stat has reasons of its own */
    if (stat(dir, &sb) != 0)
        return file_unusable(dir, "make the directory", err);
    if (!S_ISDIR(sb.st_mode))
        return status_fail(MOAO_INPUT, "%s: is a file, not a directory; choose another with -o",
                           file_shown(dir));
    return MOAO_OK;
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

/* --- writing */

static unsigned random_number(void) {
    unsigned n;
    if (getrandom(&n, sizeof n, GRND_NONBLOCK) == (ssize_t)sizeof n)
        return n;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned)t.tv_nsec * 2654435761u ^ (unsigned)getpid();
}

/* A new file of a name that nothing has: no link is followed, nothing is overwritten. */
static status create_temporary(file_out *o) {
    status st = MOAO_OK;
    for (int k = 0; k < 100; k++) {
        char name[32];
        snprintf(name, sizeof name, TEMPORARY, random_number());
        TRY(beside(o->path, name, &o->temp));
        o->fd = file_open_fd(o->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
        if (o->fd >= 0) {
            o->open = true;
            return MOAO_OK;
        }
        free(o->temp);
        o->temp = NULL;
        if (errno != EEXIST)
            break;
    }
    st = file_fail(o->path, "write", errno);
done:
    return st;
}

status file_begin(file_out *o, const char *path) {
    status st;
    memset(o, 0, sizeof *o);
    TRY(ALLOC(o->path, strlen(path) + 1, "file name"));
    strcpy(o->path, path);
    st = create_temporary(o);
done:
    if (st != MOAO_OK)
        file_abandon(o);
    return st;
}

static status write_failed(file_out *o, int err) {
    o->err = o->err != 0 ? o->err : err;
    return file_fail(o->path, "write", o->err);
}

status file_write_at(file_out *o, const void *data, size_t size, uint64_t offset) {
    const char *p = data;
    if (o->err != 0)
        return write_failed(o, o->err);
    while (size > 0) {
        ssize_t n;
        RETRY(n, pwrite(o->fd, p, size, (off_t)offset));
        if (n <= 0)
            return write_failed(o, n < 0 ? errno : EIO);
        p += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    o->size = offset > o->size ? offset : o->size;
    return MOAO_OK;
}

static status flush(file_out *o) {
    const size_t n = o->used;
    o->used = 0;
    return file_write_at(o, o->buffer, n, o->size);
}

status file_append(file_out *o, const void *data, size_t size) {
    status st = MOAO_OK;
    if (o->used + size > sizeof o->buffer)
        st = flush(o);
    if (st == MOAO_OK && size > sizeof o->buffer)
        return file_write_at(o, data, size, o->size);
    if (st == MOAO_OK && size > 0) {
        memcpy(o->buffer + o->used, data, size);
        o->used += size;
    }
    return st;
}

status file_finish(file_out *o) {
    struct stat sb;
    status st;
    TRY(flush(o));
    const int err = sync_fd(o->fd);
    if (err != 0)
        TRY(write_failed(o, err));
    if (fstat(o->fd, &sb) != 0)
        TRY(write_failed(o, errno));
    if ((uint64_t)sb.st_size != o->size)
        st = status_fail(MOAO_IO,
                         "%s: cannot write: %llu bytes arrived of %llu; look at the file system "
                         "there",
                         file_shown(o->path), (unsigned long long)sb.st_size,
                         (unsigned long long)o->size);
done:
    return st;
}

/* What close(2) reports at the end of a write is a failure too; interrupted, it has closed. */
static status close_written(file_out *o) {
    const int fd = o->fd;
    o->fd = -1;
    return close(fd) != 0 && errno != EINTR ? write_failed(o, errno) : MOAO_OK;
}

status file_commit(file_out *o) {
    int failed;
    status st;
    TRY(file_finish(o));
    TRY(close_written(o));
    RETRY(failed, rename(o->temp, o->path));
    if (failed)
        TRY(file_fail(o->path, "put the finished file in place", errno));
    o->open = false;
    st = sync_parent(o->path);
done:
    file_abandon(o);
    return st;
}

void file_abandon(file_out *o) {
    if (o->open) {
        if (o->fd >= 0)
            close(o->fd);
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

/* --- names that others can foresee */

/* A plain file, made when it is not there; *fd is -1 after a failure. */
static status open_foreseen(const char *path, int flags, int *fd) {
    struct stat sb;
    status st = MOAO_OK;
    *fd = file_open_fd(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    const int err = errno;
    const bool plain = *fd >= 0 ? fstat(*fd, &sb) == 0 && S_ISREG(sb.st_mode) : err != ENXIO;
    if (!plain) /* ENXIO: a pipe that nobody reads */
        st = status_fail(MOAO_INPUT,
                         "%s: cannot write: not a plain file; remove it, or choose another folder "
                         "with -o",
                         file_shown(path));
    else if (*fd < 0)
        st = file_unusable(path, "write", err);
    if (st != MOAO_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

status file_open_log(const char *path, int *fd) {
    return open_foreseen(path, O_WRONLY | O_APPEND, fd);
}

status file_lock(const char *path, const char *dir, const char *what, int *fd,
                 const char **unlocked) {
    int failed;
    *unlocked = NULL;
    status st = open_foreseen(path, O_RDWR, fd);
    if (st != MOAO_OK)
        return st;
    RETRY(failed, flock(*fd, LOCK_EX | LOCK_NB));
    if (!failed)
        return MOAO_OK;
    if (errno != EWOULDBLOCK) {
        *unlocked = strerror(errno);
        return MOAO_OK;
    }
    close(*fd);
    *fd = -1;
    return status_fail(MOAO_INPUT,
                       "%s: another %s is writing there; wait for its end, or choose another "
                       "directory with -o",
                       file_shown(dir), what);
}

/* --- reading */

status file_read_at(int fd, const char *path, void *out, size_t size, uint64_t offset) {
    char *p = out;
    while (size > 0) {
        ssize_t n;
        RETRY(n, pread(fd, p, size, (off_t)offset));
        if (n < 0)
            return file_fail(path, "read", errno);
        if (n == 0)
            return status_fail(MOAO_IO, "%s: cannot read: it has become shorter", file_shown(path));
        p += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return MOAO_OK;
}

status file_open_plain(const char *path, int *fd, uint64_t *size) {
    struct stat sb = {0};
    status st = MOAO_OK;
    *fd = file_open_fd(path, O_RDONLY);
    if (*fd < 0 || fstat(*fd, &sb) != 0)
        st = file_fail(path, "read", errno);
    else if (irregular(&sb) != NULL)
        st = status_fail(MOAO_IO, "%s: cannot read: %s", file_shown(path), irregular(&sb));
    *size = (uint64_t)sb.st_size;
    if (st != MOAO_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

static status read_whole(const char *path, char **text, uint64_t *size_read) {
    int fd = -1;
    uint64_t size;
    status st;
    *text = NULL;
    TRY(file_open_plain(path, &fd, &size));
    TRY(ALLOC(*text, (size_t)size + 1, path));
    st = file_read_at(fd, path, *text, (size_t)size, 0);
    *size_read = size;
done:
    if (st != MOAO_OK) {
        free(*text);
        *text = NULL;
    }
    if (fd >= 0)
        close(fd);
    return st;
}

status file_read_text(const char *path, char **text) {
    uint64_t size;
    return read_whole(path, text, &size);
}

status file_read_lines(const char *path, char **text) {
    uint64_t size = 0;
    status st = read_whole(path, text, &size);
    if (st == MOAO_OK && strlen(*text) != size) {
        st = status_fail(MOAO_INPUT,
                         "%s: byte %zu is zero, expected text; was it written by another program, "
                         "or in UTF-16?",
                         file_shown(path), strlen(*text) + 1);
        free(*text);
        *text = NULL;
    }
    return st;
}

status file_sum(const char *path, uint64_t *size, uint32_t *crc) {
    enum { CHUNK = 1 << 18 };
    unsigned char *buffer = NULL;
    int fd = -1;
    status st;
    *crc = 0;
    TRY(file_open_plain(path, &fd, size));
    TRY(ALLOC(buffer, CHUNK, "buffer of a file"));
    for (uint64_t at = 0; at < *size; at += CHUNK) {
        const size_t n = *size - at < CHUNK ? (size_t)(*size - at) : CHUNK;
        TRY(file_read_at(fd, path, buffer, n, at));
        *crc = crc_update(*crc, buffer, n);
    }
done:
    if (fd >= 0)
        close(fd);
    free(buffer);
    return st;
}
