/* Calls on files below FAULT_DIR: counted, and one of them fails (preload.h). Streams on such files
 * are made of cookies, because libc's own streams do not call what is preloaded. */
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN, WRITE, FSYNC, RENAME, CLOSE, FTRUNCATE, MMAP, UNLINK, READ, KINDS };
static const char *const kind_name[KINDS] = {"open",      "write", "fsync",  "rename", "close",
                                             "ftruncate", "mmap",  "unlink", "read"};
static const struct {
    const char *name;
    int value;
} errors[] = {{"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EINTR", EINTR},
              {"EROFS", EROFS}, {"EACCES", EACCES}, {"EMFILE", EMFILE}, {"ESTALE", ESTALE}},
  signals[] = {{"KILL", SIGKILL}, {"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"INT", SIGINT}};
enum { NONE = -1, SHORT = -2, SIGNAL = -1000 };

static struct {
    const char *dir;
    size_t dir_len;
    int kind, action; /* action: an errno, NONE, SHORT, or SIGNAL - number */
    long n;
    bool lasting;
    long count[KINDS];
} plan = {.kind = NONE, .action = NONE};

int fault_rank(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank != NULL ? atoi(rank) : 0;
}

void fault_log(const char *fmt, ...) {
    const char *path = getenv("FAULT_LOG");
    char line[PATH_MAX + 200];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (path == NULL || n <= 0 || (size_t)n >= sizeof line)
        return;
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0 && syscall(SYS_write, fd, line, (size_t)n) > 0)
        syscall(SYS_close, fd);
}

static int parse_action(const char *word, size_t len) {
    if (len == 5 && strncmp(word, "SHORT", len) == 0)
        return SHORT;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strlen(errors[i].name) == len && strncmp(word, errors[i].name, len) == 0)
            return errors[i].value;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strlen(signals[i].name) == len && strncmp(word, signals[i].name, len) == 0)
            return SIGNAL - signals[i].value;
    return NONE;
}

__attribute__((constructor)) static void begin(void) {
    const char *spec = getenv("FAULT_CALL");
    char kind[16], action[16];
    int rank;
    long n;
    plan.dir = getenv("FAULT_DIR");
    plan.dir_len = plan.dir != NULL ? strlen(plan.dir) : 0;
    if (spec == NULL || sscanf(spec, "%d:%15[a-z]:%ld:%15s", &rank, kind, &n, action) != 4 ||
        rank != fault_rank())
        return;
    plan.n = n;
    size_t len = strlen(action);
    plan.lasting = len > 0 && action[len - 1] == '*';
    plan.action = parse_action(action, len - plan.lasting);
    for (int k = 0; k < KINDS; k++)
        if (strcmp(kind, kind_name[k]) == 0)
            plan.kind = k;
}

__attribute__((destructor)) static void end(void) {
    for (int k = 0; k < KINDS && plan.dir_len > 0; k++)
        if (plan.count[k] > 0)
            fault_log("count %d %s %ld\n", fault_rank(), kind_name[k], plan.count[k]);
}

static bool below(const char *path) {
    return plan.dir_len > 0 && strncmp(path, plan.dir, plan.dir_len) == 0 &&
           (path[plan.dir_len] == '/' || path[plan.dir_len] == '\0');
}

static bool name_of(int fd, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static bool ours(int fd) {
    int saved = errno;
    char path[PATH_MAX];
    bool is = plan.dir_len > 0 && name_of(fd, path) && below(path);
    errno = saved;
    return is;
}

static bool ours_at(int dirfd, const char *path) {
    int saved = errno;
    char full[2 * PATH_MAX], dir[PATH_MAX];
    bool is = false;
    if (plan.dir_len > 0 && path[0] == '/')
        is = below(path);
    else if (plan.dir_len > 0 &&
             (dirfd == AT_FDCWD ? getcwd(dir, sizeof dir) != NULL : name_of(dirfd, dir))) {
        snprintf(full, sizeof full, "%s/%.4000s", dir, path);
        is = below(full);
    }
    errno = saved;
    return is;
}

/* One more call of a kind: what is to become of it, NONE when nothing. A signal is sent here. */
static int next(int kind) {
    const long n = __atomic_add_fetch(&plan.count[kind], 1, __ATOMIC_SEQ_CST);
    if (kind != plan.kind || n < plan.n || (n > plan.n && !plan.lasting))
        return NONE;
    if (n == plan.n)
        fault_log("hit %s %ld\n", kind_name[kind], n);
    if (plan.action <= SIGNAL) {
        kill(getpid(), SIGNAL - plan.action);
        return NONE;
    }
    return plan.action;
}

/* True when the call must fail; errno is set. */
static bool fails(int kind) {
    const int what = next(kind);
    if (what > 0)
        errno = what;
    return what > 0;
}

static int counted_open(int dirfd, const char *path, int flags, mode_t mode) {
    if (ours_at(dirfd, path) && fails(OPEN))
        return -1;
    return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

static ssize_t counted_write(int fd, const void *data, size_t n, off_t at) {
    const int what = ours(fd) ? next(WRITE) : NONE;
    if (what > 0) {
        errno = what;
        return -1;
    }
    if (what == SHORT && n > 1)
        n /= 2;
    return at < 0 ? syscall(SYS_write, fd, data, n) : syscall(SYS_pwrite64, fd, data, n, at);
}

static ssize_t counted_read(int fd, void *data, size_t n, off_t at) {
    const int what = ours(fd) ? next(READ) : NONE;
    if (what > 0) {
        errno = what;
        return -1;
    }
    if (what == SHORT && n > 1)
        n /= 2;
    return at < 0 ? syscall(SYS_read, fd, data, n) : syscall(SYS_pread64, fd, data, n, at);
}

/* A descriptor whose close fails is closed all the same, as on Linux. */
static int counted_close(int fd) {
    const int what = ours(fd) ? next(CLOSE) : NONE;
    int rc = (int)syscall(SYS_close, fd);
    if (what > 0) {
        errno = what;
        rc = -1;
    }
    return rc;
}

/* --- descriptors */

static mode_t mode_argument(int flags, va_list ap) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

#define OPEN_BODY(dirfd)                                                                           \
    va_list ap;                                                                                    \
    va_start(ap, flags);                                                                           \
    mode_t mode = mode_argument(flags, ap);                                                        \
    va_end(ap);                                                                                    \
    return counted_open(dirfd, path, flags, mode)
int open(const char *path, int flags, ...) {
    OPEN_BODY(AT_FDCWD);
}
int open64(const char *path, int flags, ...) {
    OPEN_BODY(AT_FDCWD);
}
int openat(int dirfd, const char *path, int flags, ...) {
    OPEN_BODY(dirfd);
}
int openat64(int dirfd, const char *path, int flags, ...) {
    OPEN_BODY(dirfd);
}
int creat(const char *path, mode_t mode) {
    return counted_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

ssize_t write(int fd, const void *data, size_t n) {
    return counted_write(fd, data, n, -1);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    return counted_write(fd, data, n, at);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    return counted_write(fd, data, n, at);
}
ssize_t read(int fd, void *data, size_t n) {
    return counted_read(fd, data, n, -1);
}
ssize_t pread(int fd, void *data, size_t n, off_t at) {
    return counted_read(fd, data, n, at);
}
ssize_t pread64(int fd, void *data, size_t n, off64_t at) {
    return counted_read(fd, data, n, at);
}

int close(int fd) {
    return counted_close(fd);
}
int fsync(int fd) {
    return ours(fd) && fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd) {
    return ours(fd) && fails(FSYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}
int ftruncate(int fd, off_t n) {
    return ours(fd) && fails(FTRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}
int ftruncate64(int fd, off64_t n) {
    return ours(fd) && fails(FTRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    if (fd >= 0 && ours(fd) && fails(MMAP))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t offset) {
    return mmap(at, n, prot, flags, fd, offset);
}

/* --- names */

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    if (ours_at(to_dir, to) && fails(RENAME))
        return -1;
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    return renameat2(from_dir, from, to_dir, to, 0);
}
int rename(const char *from, const char *to) {
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int unlinkat(int dirfd, const char *path, int flags) {
    return ours_at(dirfd, path) && fails(UNLINK) ? -1
                                                 : (int)syscall(SYS_unlinkat, dirfd, path, flags);
}
int unlink(const char *path) {
    return unlinkat(AT_FDCWD, path, 0);
}
int remove(const char *path) {
    int rc = unlinkat(AT_FDCWD, path, 0);
    return rc != 0 && errno == EISDIR ? rmdir(path) : rc;
}

/* --- streams */

enum { STREAMS = 1024 };
static struct {
    FILE *f;
    int fd;
} stream[STREAMS];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static ssize_t stream_read(void *cookie, char *data, size_t n) {
    return counted_read((int)(long)cookie, data, n, -1);
}

/* As libc's streams do: goes on after a short write, gives up after an error. */
static ssize_t stream_write(void *cookie, const char *data, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t got = counted_write((int)(long)cookie, data + done, n - done, -1);
        if (got < 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static int stream_seek(void *cookie, off64_t *at, int whence) {
    off64_t now = lseek64((int)(long)cookie, *at, whence);
    if (now < 0)
        return -1;
    *at = now;
    return 0;
}

static void note_stream(FILE *f, int fd, int forget) {
    pthread_mutex_lock(&guard);
    for (int i = 0; i < STREAMS; i++)
        if (forget >= 0 ? stream[i].f != NULL && stream[i].fd == forget : stream[i].f == NULL) {
            stream[i].f = f;
            stream[i].fd = fd;
            break;
        }
    pthread_mutex_unlock(&guard);
}

static int stream_close(void *cookie) {
    note_stream(NULL, 0, (int)(long)cookie);
    return counted_close((int)(long)cookie);
}

static FILE *stream_on(int fd, const char *mode) {
    static const cookie_io_functions_t calls = {stream_read, stream_write, stream_seek,
                                                stream_close};
    FILE *f = fopencookie((void *)(long)fd, mode, calls);
    if (f != NULL)
        note_stream(f, fd, -1);
    return f;
}

static int flags_of(const char *mode) {
    int flags = strchr(mode, '+') != NULL ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    flags |= mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT | O_APPEND : 0;
    flags |= strchr(mode, 'e') != NULL ? O_CLOEXEC : 0;
    return flags | (strchr(mode, 'x') != NULL ? O_EXCL : 0);
}

static void *real(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

FILE *fopen(const char *path, const char *mode) {
    if (!ours_at(AT_FDCWD, path))
        return ((FILE * (*)(const char *, const char *)) real("fopen"))(path, mode);
    int fd = counted_open(AT_FDCWD, path, flags_of(mode), 0666);
    FILE *f = fd >= 0 ? stream_on(fd, mode) : NULL;
    if (fd >= 0 && f == NULL)
        syscall(SYS_close, fd);
    return f;
}
FILE *fopen64(const char *path, const char *mode) {
    return fopen(path, mode);
}
FILE *fdopen(int fd, const char *mode) {
    if (!ours(fd))
        return ((FILE * (*)(int, const char *)) real("fdopen"))(fd, mode);
    return stream_on(fd, mode);
}
int fileno(FILE *f) {
    int fd = -1;
    pthread_mutex_lock(&guard);
    for (int i = 0; i < STREAMS && fd < 0; i++)
        if (stream[i].f == f)
            fd = stream[i].fd;
    pthread_mutex_unlock(&guard);
    return fd >= 0 ? fd : ((int (*)(FILE *))real("fileno"))(f);
}
