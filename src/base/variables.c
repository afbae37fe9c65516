#include "variables.h"

#include "fault.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "MOAO_"

extern char **environ;

/* docs/variables.md says the same; a test compares them */
const variable variables[] = {
    {"MOAO_GPU_PLUGIN", NULL, "file",
     "The plugin for GPUs, instead of libmoao_gpu.so next to the program or in lib/moao of its "
     "prefix."},
    {"MOAO_NCCL", NULL, "file",
     "NVIDIA's NCCL, instead of libnccl.so.2 where the linker finds it."},
    {"MOAO_MPI", "openmpi|mpich", NULL,
     "Which program of a wheel is started; without it the one whose MPI library is found first."},
    {"MOAO_PROGRESS", "bar|log|json", NULL,
     "How a run shows its progress; without it a bar on a terminal, else a log. json: lines for "
     "programs."},
    {"MOAO_START_SECONDS", NULL, "seconds",
     "How long moao run -n waits for its ranks to begin; 60 without it, 0: for ever."},
    {"MOAO_LAUNCH", NULL, "command", "What starts the ranks in the batch scripts."},
    {"MOAO_MAX_RESTARTS", NULL, "number", "Requeues of a batch job at most."},
    {"MOAO_SCRIPTS", NULL, "folder", "Where the batch scripts find each other."},
    {"MOAO_RANKS", NULL, "number", "Ranks of each run of campaign.sbatch without SLURM."},
    {"MOAO_DEPS", "yes|no", NULL, "no: make demo and make check install no packages."},
    {"MOAO_CHECK_MEMORY", "yes|no", NULL,
     "yes: a program whose operations reach beyond an array ends there, for tests."},
    {"MOAO_TEST_GPU_CAPABILITY", NULL, "number",
     "A compute capability below a GPU's own, with whose shared memory and kernels it computes, "
     "for "
     "tests."},
    {"MOAO_LAUNCHER", NULL, "name",
     "Set by moao run -n for its ranks: where they say that they began and ended."},
    {"MOAO_FAULT", NULL, "place:rank[:fail|kill|first[:n]]",
     "A fault for the tests of this project, which preload it; an installed program refuses it."},
    {NULL, NULL, NULL, NULL}};

/* Whether a word is one of a list separated by |. */
static bool is_among(const char *word, const char *words) {
    const size_t n = strlen(word);
    for (const char *p = words; p != NULL; p = strchr(p, '|'), p += p != NULL)
        if (strncmp(p, word, n) == 0 && (p[n] == '|' || p[n] == '\0'))
            return true;
    return false;
}

static status check_value(const variable *v) {
    const char *value = getenv(v->name);
    if (value == NULL || *value == '\0')
        return MOAO_OK;
    if (strcmp(v->name, "MOAO_FAULT") == 0 && !fault_possible())
        return status_fail(MOAO_INPUT,
                           "MOAO_FAULT: faults are for the tests of this project alone, which "
                           "preload them: unset it");
    if (v->words == NULL || is_among(value, v->words))
        return MOAO_OK;
    return status_fail(MOAO_INPUT, "%s=%.60s: expected one of %s, or nothing", v->name, value,
                       v->words);
}

/* Letters to add, drop or change to make b of a, at most `most`, else more than that. */
static int distance(const char *a, const char *b, int most) {
    while (*a != '\0' && *a == *b)
        a++, b++;
    if (*a == '\0' && *b == '\0')
        return 0;
    if (most == 0)
        return 1;
    int least = most;
    if (*a != '\0') {
        const int d = distance(a + 1, b, most - 1);
        least = d < least ? d : least;
    }
    if (*b != '\0') {
        const int d = distance(a, b + 1, most - 1);
        least = d < least ? d : least;
    }
    if (*a != '\0' && *b != '\0') {
        const int d = distance(a + 1, b + 1, most - 1);
        least = d < least ? d : least;
    }
    return least + 1;
}

/* The variable that a name was meant to be, NULL: none is near; nor where it is one. */
static const variable *meant(const char *name) {
    const variable *near = NULL;
    for (const variable *v = variables; v->name != NULL; v++) {
        const int d = distance(name, v->name, 2);
        if (d == 0)
            return NULL;
        near = d <= 2 && near == NULL ? v : near;
    }
    return near;
}

status variables_check(char *warning, size_t size) {
    status st = MOAO_OK;
    *warning = '\0';
    for (const variable *v = variables; v->name != NULL && st == MOAO_OK; v++)
        st = check_value(v);
    for (char **e = environ; e != NULL && *e != NULL && *warning == '\0'; e++) {
        char name[64];
        const size_t n = strcspn(*e, "=");
        if (strncmp(*e, PREFIX, strlen(PREFIX)) != 0 || n >= sizeof name)
            continue;
        memcpy(name, *e, n);
        name[n] = '\0';
        const variable *v = meant(name);
        if (v != NULL)
            snprintf(warning, size, "%s is no variable of moao: %s is one (moao help variables)",
                     name, v->name);
    }
    return st;
}

void variables_print(void) {
    for (const variable *v = variables; v->name != NULL; v++)
        printf("%s=%s\n    %s\n", v->name, v->words != NULL ? v->words : v->value, v->sentence);
}
