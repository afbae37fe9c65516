#include "moao/backend.h"
#include "checked.h"
#include "kept.h"
#include "moao/backend_driver.h"
#include "moao/backend_group.h"
#include "moao/backend_hier.h"
#include "moao/backend_integer.h"
#include "moao/backend_split.h"
#include "moao/backend_toeplitz.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libmoao_gpu.so"
#define PLUGIN_PATH (PATH_MAX + 64)

/* What the plugin exports: its own table, or NULL with the reason. It reports failures through
 * `set`. The number in its name changes with the type of an operation, which sizes of tables do not
 * tell. */
#define PLUGIN_ENTRY "moao_gpu_backend_2"
typedef const backend *plugin_entry(__typeof__(status_set) *set, char *why, size_t len);

static struct {
    backend table; /* with checked operations */
    backend_lowrank lowrank;
    bool usable;
    char why[512];
} plugin;

/* Whether the plugin is in a folder that ends at the last '/' of `file`: its path. */
static bool is_beside(const char *file, const char *sub, char path[PLUGIN_PATH]) {
    const char *slash = strrchr(file, '/');
    if (!slash)
        return false;
    snprintf(path, PLUGIN_PATH, "%.*s/%s%s", (int)(slash - file), file, sub, PLUGIN);
    return access(path, R_OK) == 0;
}

/* The file that MOAO_GPU_PLUGIN names, else next to the program, else in lib/moao of its prefix.
 * Nowhere else: a library that somebody put into a folder above is not ours. */
static bool find_plugin(char path[PLUGIN_PATH]) {
    const char *named = getenv("MOAO_GPU_PLUGIN");
    char exe[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (named && *named) {
        snprintf(path, PLUGIN_PATH, "%s", named);
        return true;
    }
    exe[len > 0 ? len : 0] = 0;
    return is_beside(exe, "", path) || is_beside(exe, "../lib/moao/", path);
}

/* Without a driver the plugin is of no use, and its libraries would take 200 MB of memory. */
bool backend_has_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}

/* Every table tells its size first (backend: after its name), so that it can be read whatever else
 * it holds. Some families may be missing. */
static bool tables_fit(const backend *own) {
    const struct {
        const char *name;
        const void *table;
        size_t size;
        bool needed;
    } family[] = {
        {"batched operations", own->batch, sizeof(backend_batch), true},
        {"operations on FP16 numbers", own->fp16, sizeof(backend_fp16), true},
        {"batched operations on complex matrices", own->batch_complex, sizeof(backend_complex),
         false},
        {"products with sparse matrices", own->sparse, sizeof(backend_sparse), true},
        {"low-rank operations", own->lowrank, sizeof(backend_lowrank), true},
        {"Toeplitz products", own->toeplitz, sizeof(backend_toeplitz), false},
        {"products of FP16 numbers in several terms", own->split, sizeof(backend_split_ops), false},
        {"products by integers", own->integer, sizeof(backend_integer), false},
        {"operations of formats", own->hier, sizeof(backend_hier), false},
        {"groups", own->group, sizeof(backend_group), false},
        {"mapped memory", own->mapped, sizeof(backend_mapped), false},
    };
    for (size_t i = 0; i < sizeof family / sizeof family[0]; i++) {
        const size_t size = family[i].table != NULL ? *(const size_t *)family[i].table : 0;
        if (size == family[i].size || (family[i].table == NULL && !family[i].needed))
            continue;
        snprintf(plugin.why, sizeof plugin.why,
                 PLUGIN " belongs to another version: its table of %s has %zu bytes instead of %zu",
                 family[i].name, size, family[i].size);
        return false;
    }
    return true;
}

/* The table that callers get: the backend's own, but with the operations that check. */
static void take_table(const backend *own) {
    if (own->size != sizeof(backend)) {
        snprintf(plugin.why, sizeof plugin.why,
                 PLUGIN " belongs to another version: its table has %zu bytes instead of %zu",
                 own->size, sizeof(backend));
        return;
    }
    if (!tables_fit(own))
        return;
    plugin.table = *own;
    plugin.lowrank = *own->lowrank;
#define CHECK(op) plugin.table.op = checked_##op;
    BACKEND_CHECKED(CHECK)
#undef CHECK
    plugin.table.close = checked_close;
#define CHECK(op) plugin.lowrank.op = checked_##op;
    LOWRANK_CHECKED(CHECK)
#undef CHECK
    plugin.table.batch = &checked_batch;
    plugin.table.batch_complex = own->batch_complex != NULL ? &checked_complex : NULL;
    plugin.table.fp16 = &checked_fp16;
    plugin.table.sparse = &checked_sparse;
    plugin.table.integer = own->integer != NULL ? &checked_integer : NULL;
    plugin.table.lowrank = &plugin.lowrank;
    plugin.usable = true;
}

static void load_plugin(void) {
    char path[PLUGIN_PATH];
    void *lib;
    plugin_entry *entry = NULL;
    if (!find_plugin(path)) {
        snprintf(plugin.why, sizeof plugin.why, "no " PLUGIN); /* find_plugin says where */
        return;
    }
    if (access(path, R_OK) == 0 && !backend_has_driver()) {
        snprintf(plugin.why, sizeof plugin.why,
                 PLUGIN " is there, and no libcuda.so.1: NVIDIA's driver is not installed");
        return;
    }
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *why = dlerror();
        snprintf(plugin.why, sizeof plugin.why, "%s", why ? why : "plugin " PLUGIN " not found");
        return;
    }
    *(void **)&entry = dlsym(lib, PLUGIN_ENTRY);
    if (!entry) {
        snprintf(plugin.why, sizeof plugin.why, "%s is not a plugin of this program", PLUGIN);
    } else {
        const backend *own = entry(status_set, plugin.why, sizeof plugin.why);
        if (own)
            take_table(own);
    }
    if (!plugin.usable)
        dlclose(lib);
}

status backend_get(const char *name, const backend **out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool automatic = !strcmp(name, "auto");
    *out = NULL;
    if (!strcmp(name, "cpu")) {
        *out = &backend_cpu;
        return MOAO_OK;
    }
    if (!automatic && strcmp(name, "gpu"))
        return status_fail(MOAO_INPUT, "unknown backend '%s': cpu, gpu or auto", name);
    pthread_once(&once, load_plugin);
    if (plugin.usable)
        *out = &plugin.table;
    else if (automatic)
        *out = &backend_cpu;
    else
        return status_fail(MOAO_INPUT, "no GPU can be used: %s", plugin.why);
    return MOAO_OK;
}
