#include "base/gpu_models.h"

#include "base/machine_constants.h"

#include <ctype.h>
#include <string.h>

/* From NVIDIA's data sheets and white papers of the architectures. FP16 of the GeForce series is
 * half of what sums in FP16 have. */
static const gpu_model model[] = {
    /* name, capability, memory, FP64, vector, FP32, FP16, INT8, bandwidth, SMs, L2 */
    {"Tesla V100", 7, 0, 32, 7.8, 7.8, 15.7, 125, 62, 900, 80, 6},
    {"Tesla T4", 7, 5, 16, 0.25, 0.25, 8.1, 65, 130, 320, 40, 4},
    {"A100 40GB", 8, 0, 40, 19.5, 9.7, 19.5, 312, 624, 1555, 108, 40},
    {"A100 80GB", 8, 0, 80, 19.5, 9.7, 19.5, 312, 624, 2039, 108, 40},
    {"A30", 8, 0, 24, 10.3, 5.2, 10.3, 165, 330, 933, 56, 24},
    {"A10", 8, 6, 24, 0.49, 0.49, 31.2, 125, 250, 600, 72, 6},
    {"A40", 8, 6, 48, 0.58, 0.58, 37.4, 150, 299, 696, 84, 6},
    {"RTX A6000", 8, 6, 48, 0.60, 0.60, 38.7, 155, 310, 768, 84, 6},
    {"RTX 3090", 8, 6, 24, 0.56, 0.56, 35.6, 71, 284, 936, 82, 6},
    {"L4", 8, 9, 24, 0.47, 0.47, 30.3, 121, 242, 300, 58, 48},
    {"L40", 8, 9, 48, 1.41, 1.41, 90.5, 181, 362, 864, 142, 96},
    {"L40S", 8, 9, 48, 1.43, 1.43, 91.6, 362, 733, 864, 142, 96},
    {"RTX 6000 Ada", 8, 9, 48, 1.42, 1.42, 91.1, 364, 728, 960, 142, 96},
    {"RTX 4080", 8, 9, 16, 0.76, 0.76, 48.7, 97, 390, 717, 76, 64},
    {"RTX 4090", 8, 9, 24, 1.29, 1.29, 82.6, 165, 661, 1008, 128, 72},
    {"H100 PCIe", 9, 0, 80, 51, 26, 51, 756, 1513, 2000, 114, 50},
    {"H100 NVL", 9, 0, 94, 60, 30, 60, 835, 1671, 3900, 132, 50},
    {"H100", 9, 0, 80, 67, 34, 67, 989, 1979, 3350, 132, 50},
    {"GH200", 9, 0, 96, 67, 34, 67, 989, 1979, 4000, 132, 50},
    {"H200", 9, 0, 141, 67, 34, 67, 989, 1979, 4800, 132, 50},
    {"B200", 10, 0, 180, 37, 37, 75, 2250, 4500, 7700, 148, 126},
    {"RTX 5080", 12, 0, 16, 0.88, 0.88, 56.3, 113, 450, 960, 84, 64},
    {"RTX 5090", 12, 0, 32, 1.64, 1.64, 105, 210, 838, 1792, 170, 96},
    {"RTX PRO 6000 Blackwell", 12, 0, 96, 1.95, 1.95, 125, 504, 1007, 1792, 188, 128},
};
enum { MODELS = sizeof model / sizeof model[0] };

const gpu_model *gpu_model_at(size_t i) {
    return i < MODELS ? &model[i] : NULL;
}

const gpu_model *gpu_model_reference(void) {
    return gpu_model_find("H200");
}

/* The words of a name: runs of letters and runs of digits, in small letters ("A100-80GB": a 100 80
 * gb). */
enum { WORDS = 12, LETTERS = 16 };
typedef struct {
    int n;
    char word[WORDS][LETTERS];
} words;

static words words_of(const char *name) {
    words w = {0};
    while (*name != '\0' && w.n < WORDS) {
        const bool digit = isdigit((unsigned char)*name) != 0;
        int n = 0;
        while ((digit ? isdigit((unsigned char)*name) : isalpha((unsigned char)*name)) != 0) {
            if (n + 1 < LETTERS)
                w.word[w.n][n++] = (char)tolower((unsigned char)*name);
            name++;
        }
        w.n += n > 0;
        name += n == 0;
    }
    return w;
}
static bool has(const words *w, const char *word) {
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->word[i], word) == 0)
            return true;
    return false;
}
/* Whether all words of `part` are among those of w. */
static bool has_all(const words *w, const words *part) {
    for (int i = 0; i < part->n; i++)
        if (!has(w, part->word[i]))
            return false;
    return part->n > 0;
}

const gpu_model *gpu_model_find(const char *name) {
    const words asked = words_of(name);
    const gpu_model *found = NULL;
    int most = 0, several = 0;
    if (has(&asked, "laptop")) /* another chip than the card of that name */
        return NULL;
    for (size_t i = 0; i < MODELS; i++) {
        const words of = words_of(model[i].name);
        if (has_all(&asked, &of) && of.n > most)
            found = &model[i], most = of.n;
    }
    for (size_t i = 0; i < MODELS && most == 0; i++) {
        const words of = words_of(model[i].name);
        if (has_all(&of, &asked))
            found = &model[i], several++;
    }
    return several > 1 ? NULL : found;
}

const gpu_model *gpu_model_of_device(const char *described) {
    char name[128];
    const size_t n = strcspn(described, "(,");
    if (n >= sizeof name)
        return NULL;
    memcpy(name, described, n);
    name[n] = '\0';
    return gpu_model_find(name);
}

size_t gpu_model_shared(const gpu_model *g) {
    const int kib = g->major == 8 && g->minor == 0    ? 163
                    : g->major == 9 || g->major == 10 ? 227
                    : g->major == 8 || g->major >= 11 ? 99
                    : g->major == 7 && g->minor == 0  ? 96
                                                      : 64;
    return (size_t)kib << 10;
}

/* "24 GB" are 24 GiB, of which the driver, the error correction and a context take some: an H200 of
 * 141 GB gives 150e9 bytes, an H100 of 80 GB 85e9. */
double gpu_model_usable(const gpu_model *g) {
    return 1.03e9 * g->memory;
}

bool gpu_model_serves(const gpu_model *g) {
    return g->major >= 8;
}

double gpu_model_rate(const gpu_model *g) {
    return MACHINE_GPU_RATE * g->fp64 / gpu_model_reference()->fp64;
}
double gpu_model_fp16_exposure(const gpu_model *g) {
    const gpu_model *r = gpu_model_reference();
    return MACHINE_FP16_EXPOSURE * (g->fp16 / r->fp16) / (g->fp64 / r->fp64);
}
bool gpu_model_integer_pays(const gpu_model *g) {
    return g->int8 / 8 > 1.5 * g->fp64;
}
double gpu_model_fp16_solve(const gpu_model *g) {
    return gpu_model_fp16_exposure(g) * MACHINE_FP16_SOLVE / MACHINE_FP16_EXPOSURE;
}
double gpu_model_integers(const gpu_model *g) {
    const gpu_model *r = gpu_model_reference();
    return MACHINE_INTEGERS * (g->int8 / r->int8) / (g->fp64 / r->fp64);
}
double gpu_model_threads(const gpu_model *g) {
    return MACHINE_DEVICE_THREADS * g->fp64_vector / gpu_model_reference()->fp64_vector;
}
double gpu_model_fp32_entries(const gpu_model *g) {
    const gpu_model *r = gpu_model_reference();
    return MACHINE_FP32_ENTRIES * (g->fp32 / r->fp32) / (g->fp64_vector / r->fp64_vector);
}
