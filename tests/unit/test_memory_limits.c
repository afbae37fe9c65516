/* Limits that others have set: of control groups, from files as the kernel writes them; of the
 * process. */
#include "base/memory_limits.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "/tmp/moao-limits-XXXXXX";

static void put(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", top, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void make_folder(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", top, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

static void remove_top(void) {
    char path[128];
    snprintf(path, sizeof path, "rm -r '%s'", top);
    assert_int_equal(system(path), 0);
    strcpy(top + sizeof top - 7, "XXXXXX");
}

static size_t room(const char *path) {
    return limits_group_room(top, path, "memory.max", "memory.current");
}

/* The least room of a group and of every one it lies in counts; a file that the page cache holds is
 * room; "max" is no limit. */
static void test_groups(void **state) {
    (void)state;
    assert_non_null(mkdtemp(top));
    make_folder("job");
    make_folder("job/step");
    assert_true(room("/job/step") == SIZE_MAX);
    put("job/step/memory.max", "max\n");
    put("job/step/memory.current", "5000\n");
    assert_true(room("/job/step") == SIZE_MAX);
    put("job/memory.max", "100000\n");
    put("job/memory.current", "30000\n");
    assert_int_equal(room("/job/step"), 70000);
    put("job/memory.stat", "anon 1000\nfile 20000\ninactive_file 12000\n");
    assert_int_equal(room("/job/step"), 82000);
    put("job/step/memory.max", "9000\n");
    assert_int_equal(room("/job/step"), 4000);
    put("job/step/memory.current", "9500\n");
    assert_int_equal(room("/job/step"), 0);
    assert_int_equal(room("/job"), 82000);
    assert_true(room("") == SIZE_MAX);
    assert_true(room("/elsewhere") == SIZE_MAX);
    remove_top();
}

/* The quota of processor time, in the files of both versions of control groups: the least of a
 * group and those it lies in; "max" and -1 are none. */
static void test_cores(void **state) {
    (void)state;
    assert_non_null(mkdtemp(top));
    make_folder("job");
    make_folder("job/step");
    assert_true(limits_group_cores(top, "/job/step") == INFINITY);
    put("job/step/cpu.max", "max 100000\n");
    assert_true(limits_group_cores(top, "/job/step") == INFINITY);
    put("job/cpu.max", "150000 100000\n");
    assert_true(limits_group_cores(top, "/job/step") == 1.5);
    put("job/step/cpu.max", "50000 100000\n");
    assert_true(limits_group_cores(top, "/job/step") == 0.5);
    assert_true(limits_group_cores(top, "/job") == 1.5);
    remove_top();
    assert_non_null(mkdtemp(top));
    make_folder("docker");
    put("cpu.cfs_quota_us", "-1\n");
    put("cpu.cfs_period_us", "100000\n");
    assert_true(limits_group_cores(top, "/docker") == INFINITY);
    put("docker/cpu.cfs_quota_us", "200000\n");
    put("docker/cpu.cfs_period_us", "50000\n");
    assert_true(limits_group_cores(top, "/docker") == 4);
    assert_true(limits_cores() > 0);
    remove_top();
}

/* The files of control groups are those of `top` while this is set; others are the system's. */
static bool redirected;
FILE *fopen(const char *path, const char *mode) {
    static const struct {
        const char *there, *here;
    } moved[] = {{"/sys/fs/cgroup", ""}, {"/proc/self/cgroup", "/self"}};
    static FILE *(*system_fopen)(const char *, const char *);
    char other[PATH_MAX];
    if (system_fopen == NULL) { /* a pointer to an object stands for one to a function */
        void *found = dlsym(RTLD_NEXT, "fopen");
        memcpy(&system_fopen, &found, sizeof found);
    }
    for (int i = 0; redirected && i < 2; i++) {
        const size_t n = strlen(moved[i].there);
        if (strncmp(path, moved[i].there, n) == 0) {
            snprintf(other, sizeof other, "%s%s%s", top, moved[i].here, path + n);
            return system_fopen(other, mode);
        }
    }
    return system_fopen(path, mode);
}

/* What a process sees of the groups in `top`. */
static void expect_seen(double room_left, double limit, double cores) {
    redirected = true;
    const size_t node = limits_node(), total = limits_node_total();
    const double seen = limits_cores();
    redirected = false;
    assert_true((double)node == room_left);
    assert_true((double)total == limit);
    assert_true(seen == cores);
}

/* Limits of the group that a process is in: in a container the mount point itself, elsewhere the
 * path in /proc/self/cgroup, of both versions. */
static void test_own_groups(void **state) {
    (void)state;
    redirected = true;
    assert_true(limits_node() > 9000 && limits_node_total() > 9000); /* no group, no file */
    assert_true(limits_cores() == INFINITY);
    redirected = false;
    assert_non_null(mkdtemp(top));
    put("memory.max", "9000\n");
    put("memory.current", "2000\n");
    put("cpu.max", "300000 100000\n");
    expect_seen(7000, 9000, 3);
    put("self", "0::/\n");
    expect_seen(7000, 9000, 3);
    make_folder("job");
    put("self", "0::/job\n");
    put("job/memory.max", "6000\n");
    put("job/memory.current", "1500\n");
    put("job/cpu.max", "150000 100000\n");
    expect_seen(4500, 6000, 1.5);
    remove_top();
    assert_non_null(mkdtemp(top));
    make_folder("memory");
    make_folder("memory/job");
    make_folder("cpu");
    make_folder("cpu/job");
    put("self", "4:cpuset:/job\n3:cpu,cpuacct:/job\n2:memory:/job\n");
    put("memory/memory.limit_in_bytes", "8000\n");
    put("memory/memory.usage_in_bytes", "1000\n");
    expect_seen(7000, 8000, INFINITY);
    put("memory/job/memory.limit_in_bytes", "5000\n");
    put("memory/job/memory.usage_in_bytes", "1000\n");
    put("cpu/job/cpu.cfs_quota_us", "100000\n");
    put("cpu/job/cpu.cfs_period_us", "50000\n");
    expect_seen(4000, 5000, 2);
    remove_top();
}

/* In a child: with a limit on the address space the process may reach less than that limit; too low
 * a limit is refused before OpenBLAS asks for its buffers, for as many threads as it has. */
static void test_process(void **state) {
    (void)state;
    assert_true(limits_process() == SIZE_MAX || limits_process() > 0);
#ifdef __SANITIZE_ADDRESS__
    return; /* its shadow takes terabytes of address space: every limit is too low */
#endif
    pid_t child = fork();
    if (child == 0) {
        const size_t limit = (size_t)1400 << 20;
        struct rlimit r = {limit, limit};
        if (setrlimit(RLIMIT_AS, &r) != 0)
            _exit(1);
        if (!(limits_process() < limit && limits_process() > 0))
            _exit(2);
        const size_t before = limits_process(), own = (size_t)400 << 20;
        volatile char *some = malloc(own); /* what it uses is within what it may use in all */
        for (size_t i = 0; some != NULL && i < own; i += 1024)
            some[i] = 1;
        const double less = (double)before - (double)limits_process();
        if (some == NULL || !(fabs(less) < 0.5 * (double)own))
            _exit(5);
        free((void *)some);
        if (limits_probe(1) != MOAO_OK)
            _exit(3);
        if (limits_probe(16) != MOAO_INPUT || strstr(status_message(), "ulimit -v") == NULL)
            _exit(4);
        _exit(0);
    }
    int how;
    assert_true(waitpid(child, &how, 0) == child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_true(limits_node() > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_groups), cmocka_unit_test(test_cores),
                                       cmocka_unit_test(test_own_groups),
                                       cmocka_unit_test(test_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
