#include "backend.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libmoao_gpu.so"

/* What the plugin exports: its table, or NULL with the reason. It reports failures through `set`.
 */
typedef const backend *plugin_entry(__typeof__(status_set) *set, char *why, size_t len);

static struct {
    const backend *table;
    char why[512];
} plugin;

/* dlopen of the plugin in a folder that ends at the last '/' of `file`; NULL when there is none. */
static void *open_beside(const char *file, const char *sub) {
    char path[PATH_MAX + 64];
    const char *slash = strrchr(file, '/');
    if (!slash)
        return NULL;
    snprintf(path, sizeof path, "%.*s/%s%s", (int)(slash - file), file, sub, PLUGIN);
    return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_plugin(void) {
    static const char *const sub[] = {"", "../lib/moao/", "../", "../../", "../../../", "moao/"};
    const char *named = getenv("MOAO_GPU_PLUGIN");
    char exe[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    Dl_info self;
    void *lib = NULL;
    if (named && *named)
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    exe[len > 0 ? len : 0] = 0;
    for (size_t i = 0; i < sizeof sub / sizeof *sub && !lib; i++)
        lib = open_beside(exe, sub[i]);
    /* as a part of a shared library: beside that library */
    if (!lib && dladdr(&plugin, &self) && self.dli_fname) {
        lib = open_beside(self.dli_fname, "moao/");
        lib = lib ? lib : open_beside(self.dli_fname, "");
    }
    return lib ? lib : dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
}

static void load_plugin(void) {
    void *lib = open_plugin();
    plugin_entry *entry = NULL;
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
        if (plugin.table && plugin.table->size != sizeof(backend)) {
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
