#include "backend.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libmoao_gpu.so"
#define PLUGIN_PATH (PATH_MAX + 64)

/* What the plugin exports: its table, or NULL with the reason. It reports failures through `set`.
 */
typedef const backend *plugin_entry(__typeof__(status_set) *set, char *why, size_t len);

static struct {
    const backend *table;
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

/* The file that MOAO_GPU_PLUGIN names, else beside the program, else in lib/moao of its prefix.
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
static bool has_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}

static void load_plugin(void) {
    char path[PLUGIN_PATH];
    void *lib;
    plugin_entry *entry = NULL;
    if (!find_plugin(path)) {
        snprintf(plugin.why, sizeof plugin.why,
                 "no " PLUGIN " beside the program or in lib/moao of its prefix");
        return;
    }
    if (access(path, R_OK) == 0 && !has_driver()) {
        snprintf(plugin.why, sizeof plugin.why, "there is no driver (libcuda.so.1)");
        return;
    }
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *why = dlerror();
        snprintf(plugin.why, sizeof plugin.why, "%s", why ? why : "plugin " PLUGIN " not found");
        return;
    }
    *(void **)&entry = dlsym(lib, "moao_gpu_backend");
    if (!entry) {
        snprintf(plugin.why, sizeof plugin.why, "%s is not a plugin of this program", PLUGIN);
    } else {
        plugin.table = entry(status_set, plugin.why, sizeof plugin.why);
        if (plugin.table && (plugin.table->size != sizeof(backend) || !plugin.table->lowrank ||
                             plugin.table->lowrank->size != sizeof(backend_lowrank))) {
            plugin.table = NULL;
            snprintf(plugin.why, sizeof plugin.why, "%s belongs to another version", PLUGIN);
        }
    }
    if (!plugin.table)
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
    if (plugin.table)
        *out = plugin.table;
    else if (automatic)
        *out = &backend_cpu;
    else
        return status_fail(MOAO_INPUT, "no GPU can be used: %s", plugin.why);
    return MOAO_OK;
}
