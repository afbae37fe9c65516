#include "memory_limits.h"

#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEAST_STACK (256 << 10) /* with 64 KiB, threads of OpenBLAS have ended by a signal */
/* Address space of one OpenBLAS buffer, which each of its threads takes as it starts, and of what
 * MPI and the smallest case take beside them. */
#define BLAS_BUFFER ((size_t)129 << 20)
#define ELSEWHERE ((size_t)192 << 20)

size_t limits_proc_field(const char *path, const char *name) {
    FILE *f = fopen(path, "re");
    char line[256];
    size_t kib = 0, n = strlen(name);
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, n) == 0)
            kib = strtoull(line + n, NULL, 10);
    if (f != NULL)
        fclose(f);
    return kib * 1024;
}

static size_t limit_of(int which) {
    struct rlimit r;
    if (getrlimit(which, &r) != 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur > SIZE_MAX / 2)
        return SIZE_MAX;
    return (size_t)r.rlim_cur;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* OpenBLAS asks for its buffer at the first product and for ever when it gets none, and keeps it:
 * it shall have it while there is room, so that what is short later is noticed by who can say so.
 */
static void take_blas_buffer(void) {
    enum { N = 256 }; /* smaller products need none */
    double *a = calloc((size_t)N * N, 3 * sizeof *a);
    if (a != NULL)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1.0, a, N, a + N * N, N,
                    0.0, a + 2 * N * N, N);
    free(a);
}

status limits_probe(int threads) {
    const size_t stack = limit_of(RLIMIT_STACK);
    if (stack < LEAST_STACK)
        return status_fail(MOAO_INPUT,
                           "the limit of %zu KiB on a thread's stack (ulimit -s) is too low for "
                           "the libraries: raise it to %d KiB or more",
                           stack >> 10, LEAST_STACK >> 10);
    const size_t limit = least(limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA));
    const size_t need = (size_t)(threads > 1 ? threads : 1) * BLAS_BUFFER + ELSEWHERE;
    if (limit == SIZE_MAX)
        return MOAO_OK;
    void *probe = MAP_FAILED;
    if (limit >= need) { /* one more buffer, as the main thread will ask for it */
        probe = mmap(NULL, BLAS_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (probe != MAP_FAILED)
            munmap(probe, BLAS_BUFFER);
    }
    if (probe != MAP_FAILED) {
        take_blas_buffer();
        return MOAO_OK;
    }
    return status_fail(
        MOAO_INPUT,
        "the limit of %.2f GB on this process's memory (ulimit -v, ulimit -d) is too "
        "low for the %d thread%s of OpenBLAS: raise it to %.2f GB or more%s",
        (double)limit / 1e9, threads, threads == 1 ? "" : "s", (double)(need + BLAS_BUFFER) / 1e9,
        threads > 1 ? ", or set OPENBLAS_NUM_THREADS=1" : "");
}

/* --- control groups */

/* The number in DIR/NAME; SIZE_MAX when there is none ("max"). */
static size_t group_number(const char *dir, const char *name) {
    char path[PATH_MAX + 64];
    unsigned long long v;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    bool known = f != NULL && fscanf(f, "%llu", &v) == 1 && v < (1ULL << 60);
    if (f != NULL)
        fclose(f);
    return known ? (size_t)v : SIZE_MAX;
}

/* Bytes of the group's page cache, which gives way. */
static size_t group_cache(const char *dir) {
    char path[PATH_MAX + 64], line[256];
    size_t bytes = 0;
    unsigned long long v;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "inactive_file %llu", &v) == 1 ||
            sscanf(line, "total_inactive_file %llu", &v) == 1)
            bytes = (size_t)v;
    if (f != NULL)
        fclose(f);
    return bytes;
}

/* From DIR to the group it lies in; false at the mount point. */
static bool group_above(char *dir, const char *top) {
    char *slash = strrchr(dir, '/');
    if (slash == NULL || strlen(dir) <= strlen(top))
        return false;
    *slash = '\0';
    return true;
}

size_t limits_group_room(const char *top, const char *path, const char *limit, const char *usage) {
    char dir[PATH_MAX];
    size_t room = SIZE_MAX;
    snprintf(dir, sizeof dir, "%s%s", top, path);
    do {
        size_t most = group_number(dir, limit), used = group_number(dir, usage);
        if (most != SIZE_MAX) {
            size_t cache = group_cache(dir);
            used = used == SIZE_MAX ? 0 : used > cache ? used - cache : 0;
            room = least(room, most > used ? most - used : 0);
        }
    } while (group_above(dir, top));
    return room;
}

/* Cores of one group: version 2 has quota and period in cpu.max ("max 100000" without a limit),
 * version 1 has a file for each (quota -1). 0: no limit. */
static double group_cores(const char *dir) {
    char path[PATH_MAX + 64];
    double quota = 0, period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    FILE *f = fopen(path, "re");
    if (f != NULL) {
        if (fscanf(f, "%lf %lf", &quota, &period) != 2)
            quota = 0;
        fclose(f);
    } else {
        const size_t q = group_number(dir, "cpu.cfs_quota_us"); /* -1 is read as no number */
        const size_t p = group_number(dir, "cpu.cfs_period_us");
        if (q != SIZE_MAX && p != SIZE_MAX) {
            quota = (double)q;
            period = (double)p;
        }
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

double limits_group_cores(const char *top, const char *path) {
    char dir[PATH_MAX];
    double cores = INFINITY;
    snprintf(dir, sizeof dir, "%s%s", top, path);
    do {
        const double own = group_cores(dir);
        if (own > 0)
            cores = fmin(cores, own);
    } while (group_above(dir, top));
    return cores;
}

/* Whether `controller` is one of the names between the first two colons of a line "N:a,b:/path". */
static bool names_controller(const char *line, const char *controller) {
    const char *p = strchr(line, ':'), *end = p == NULL ? NULL : strchr(p + 1, ':');
    const size_t n = strlen(controller);
    for (; end != NULL && p < end; p += 1 + strcspn(p + 1, ",:"))
        if (strncmp(p + 1, controller, n) == 0 && strchr(",:", p[1 + n]) != NULL)
            return true;
    return false;
}

/* Call `see` for every group of this process that may limit what `controller` manages. Version 2
 * has one hierarchy, "0::/path"; version 1 one for each controller or for several, "N:cpu,cpuacct:
 * /path". In a container the path is often that of the host: then the mount point itself is the
 * group. */
static void visit_groups(const char *controller,
                         void (*see)(const char *top, const char *path, bool second, void *to),
                         void *to) {
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX], first[64];
    snprintf(first, sizeof first, "/sys/fs/cgroup/%s", controller);
    see("/sys/fs/cgroup", "", true, to);
    see(first, "", false, to);
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *path = strstr(line, ":/");
        if (path != NULL && strncmp(line, "0::", 3) == 0)
            see("/sys/fs/cgroup", path + 1, true, to);
        else if (path != NULL && names_controller(line, controller))
            see(first, path + 1, false, to);
    }
    if (f != NULL)
        fclose(f);
}

static void see_room(const char *top, const char *path, bool second, void *to) {
    size_t *room = to;
    *room = least(*room, second ? limits_group_room(top, path, "memory.max", "memory.current")
                                : limits_group_room(top, path, "memory.limit_in_bytes",
                                                    "memory.usage_in_bytes"));
}

/* The limit itself, whatever is in use. */
static void see_limit(const char *top, const char *path, bool second, void *to) {
    size_t *room = to;
    *room = least(
        *room, limits_group_room(top, path, second ? "memory.max" : "memory.limit_in_bytes", ""));
}

static void see_cores(const char *top, const char *path, bool second, void *to) {
    double *cores = to;
    (void)second; /* the files tell */
    *cores = fmin(*cores, limits_group_cores(top, path));
}

static size_t groups_room(void) {
    size_t room = SIZE_MAX;
    visit_groups("memory", see_room, &room);
    return room;
}

size_t limits_node_total(void) {
    const size_t all = limits_proc_field("/proc/meminfo", "MemTotal:");
    size_t limit = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    limit = all > 0 ? all : limit;
    visit_groups("memory", see_limit, &limit);
    return limit;
}

double limits_cores(void) {
    double cores = INFINITY;
    visit_groups("cpu", see_cores, &cores);
    return cores;
}

size_t limits_node(void) {
    size_t available = limits_proc_field("/proc/meminfo", "MemAvailable:");
    if (available == 0)
        available = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return least(available, groups_room());
}

size_t limits_process(void) {
    const char *self = "/proc/self/status";
    size_t resident = limits_proc_field(self, "VmRSS:"), room = SIZE_MAX;
    size_t space = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
    size_t size = limits_proc_field(self, "VmSize:"), vmdata = limits_proc_field(self, "VmData:");
    if (space != SIZE_MAX)
        room = least(room, space > size ? space - size : 0);
    if (data != SIZE_MAX)
        room = least(room, data > vmdata ? data - vmdata : 0);
    return room == SIZE_MAX ? SIZE_MAX : room + resident;
}
