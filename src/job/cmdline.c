#include "job/cmdline.h"

#include "params/units.h"
#include "params/yaml_tree.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { TAKES_NOTHING, TAKES_TEXT, TAKES_COUNT, TAKES_REAL } taking;

typedef struct {
    const char *name;
    taking takes;
    size_t offset; /* in cmdline */
    double most;   /* of a number */
    dimension dim;
    const char *unit; /* of a bare number */
} option;

#define MEMBER(m) offsetof(cmdline, m)

static const option options[] = {
    {"-o", TAKES_TEXT, MEMBER(dir), 0, DIM_NONE, ""},
    {"-n", TAKES_COUNT, MEMBER(ranks), 1e6, DIM_NONE, ""},
    {"-q", TAKES_NOTHING, MEMBER(quiet), 0, DIM_NONE, ""},
    {"--verbose", TAKES_NOTHING, MEMBER(verbose), 0, DIM_NONE, ""},
    {"--resume", TAKES_NOTHING, MEMBER(resume), 0, DIM_NONE, ""},
    {"--overwrite", TAKES_NOTHING, MEMBER(overwrite), 0, DIM_NONE, ""},
    {"--force", TAKES_NOTHING, MEMBER(force), 0, DIM_NONE, ""},
    {"--json", TAKES_NOTHING, MEMBER(json), 0, DIM_NONE, ""},
    {"--effective", TAKES_NOTHING, MEMBER(effective), 0, DIM_NONE, ""},
    {"--slurm", TAKES_NOTHING, MEMBER(slurm), 0, DIM_NONE, ""},
    {"--table", TAKES_NOTHING, MEMBER(table), 0, DIM_NONE, ""},
    {"--ranks", TAKES_COUNT, MEMBER(ranks), 1e6, DIM_NONE, ""},
    {"--nodes", TAKES_COUNT, MEMBER(nodes), 1e5, DIM_NONE, ""},
    {"--cores", TAKES_COUNT, MEMBER(cores), 1e4, DIM_NONE, ""},
    {"--gpus", TAKES_COUNT, MEMBER(gpus), 64, DIM_NONE, ""},
    {"--gpu", TAKES_TEXT, MEMBER(gpu), 0, DIM_NONE, ""},
    {"--gflops", TAKES_REAL, MEMBER(gflops), 1e9, DIM_NONE, ""},
    {"--memory", TAKES_REAL, MEMBER(memory), 1e15, DIM_BYTES, "GB"},
    {"--time", TAKES_REAL, MEMBER(limit), 3.2e7, DIM_TIME, "h"},
    {"--stars", TAKES_TEXT, MEMBER(stars), 0, DIM_NONE, ""},
    {"--fields", TAKES_TEXT, MEMBER(fields), 0, DIM_NONE, ""},
    {"--want", TAKES_TEXT, MEMBER(want), 0, DIM_NONE, ""},
    {"--keep", TAKES_TEXT, MEMBER(keep), 0, DIM_NONE, ""},
    {"--choose", TAKES_COUNT, MEMBER(choose), 16, DIM_NONE, ""},
    {"--most", TAKES_COUNT, MEMBER(most), 1e4, DIM_NONE, ""},
    {"--order", TAKES_COUNT, MEMBER(order), 1e3, DIM_NONE, ""},
    {"--refine", TAKES_COUNT, MEMBER(refine), 1e7, DIM_NONE, ""},
    {"--full", TAKES_COUNT, MEMBER(full), 1e3, DIM_NONE, ""},
    {"--sample", TAKES_COUNT, MEMBER(sample), 1e5, DIM_NONE, ""},
    {"--limit", TAKES_REAL, MEMBER(faintest), 40, DIM_NONE, ""},
    {"--radius", TAKES_REAL, MEMBER(radius), 0.17, DIM_ANGLE, "arcsec"},
    {"--apart", TAKES_REAL, MEMBER(apart), 0.17, DIM_ANGLE, "arcsec"},
    {"--greedy", TAKES_NOTHING, MEMBER(greedy), 0, DIM_NONE, ""},
};

enum { NOPTION = sizeof options / sizeof *options };

/* Whether `word` of n letters is one of the words of a list. */
static bool has_word(const char *list, const char *word, size_t n) {
    for (const char *p = list; *p != '\0';) {
        size_t k = strcspn(p, " ");
        if (k == n && strncmp(p, word, n) == 0)
            return true;
        p += k + strspn(p + k, " ");
    }
    return false;
}

static status read_count(const option *o, const char *text, int *v) {
    char *end;
    errno = 0;
    long x = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != '\0' || errno != 0 || x < 1 ||
        (double)x > o->most)
        return status_fail(MOAO_INPUT, "%s %s: a whole number from 1 to %.0f is expected", o->name,
                           yaml_tree_quote(text).s, o->most);
    *v = (int)x;
    return MOAO_OK;
}

static status read_real(const option *o, const char *text, double *v) {
    char why[256];
    if (!units_parse(text, o->dim, o->unit, false, v, why, sizeof why) || !(*v > 0) || *v > o->most)
        return status_fail(MOAO_INPUT, "%s %s: a positive number is expected%s%s", o->name,
                           yaml_tree_quote(text).s, *o->unit ? ", in " : "", o->unit);
    return MOAO_OK;
}

/* The option at argv[*i], with its value behind = or in the next word. */
static status read_option(int argc, char **argv, const char *allowed, int *i,
                          unsigned long long *given, cmdline *cl) {
    const char *arg = argv[*i], *equal = strchr(arg, '='),
               *value = equal != NULL ? equal + 1 : NULL;
    const size_t n = equal != NULL ? (size_t)(equal - arg) : strlen(arg);
    int k = 0;
    while (k < NOPTION && (strlen(options[k].name) != n || strncmp(options[k].name, arg, n) != 0))
        k++;
    if (k == NOPTION || !has_word(allowed, arg, n))
        return status_fail(MOAO_INPUT, "unknown option %s", yaml_tree_quote(arg).s);
    const option *o = &options[k];
    void *member = (char *)cl + o->offset;
    if (o->takes != TAKES_NOTHING && (*given & (1ull << k)))
        return status_fail(MOAO_INPUT, "%s is given twice", o->name);
    *given |= 1ull << k;
    if (o->takes == TAKES_NOTHING) {
        *(bool *)member = true;
        return value == NULL ? MOAO_OK : status_fail(MOAO_INPUT, "%s takes no value", o->name);
    }
    if (value == NULL && *i + 1 >= argc)
        return status_fail(MOAO_INPUT, "%s needs a value", o->name);
    value = value != NULL ? value : argv[++*i];
    if (o->takes == TAKES_COUNT)
        return read_count(o, value, member);
    if (o->takes == TAKES_REAL)
        return read_real(o, value, member);
    *(const char **)member = value;
    return MOAO_OK;
}

/* --- key=value */

static bool blank(char c) {
    return c == ' ' || c == '\t';
}

/* "key=value" from a key and a value with blanks around, in new memory. */
static status join(const char *key, size_t nkey, const char *value, char **out) {
    while (nkey > 0 && blank(*key))
        key++, nkey--;
    while (nkey > 0 && blank(key[nkey - 1]))
        nkey--;
    value += strspn(value, " \t");
    status st = ALLOC(*out, nkey + strlen(value) + 2, "command line");
    if (st == MOAO_OK)
        sprintf(*out, "%.*s=%s", (int)nkey, key, value);
    return st;
}

/* Whether the word behind "key=" is its value: not an option, nor a key=value of its own. */
static bool is_value(const char *word) {
    bool number = word[0] == '-' && (isdigit((unsigned char)word[1]) || word[1] == '.');
    return (word[0] != '-' || number) && strchr(word, '=') == NULL;
}

/* The override that starts at argv[*i] (an = in it, or as the next word), put together from up to
 * three words; *out is NULL when the word stands for itself. */
static status read_override(int argc, char **argv, int *i, char **out) {
    const char *arg = argv[*i], *equal = strchr(arg, '='), *value;
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    size_t nkey = equal != NULL ? (size_t)(equal - arg) : strlen(arg);
    *out = NULL;
    if (equal == NULL) { /* key =value, key = value */
        value = next + 1;
        ++*i;
    } else {
        value = equal + 1;
    }
    if (value[strspn(value, " \t")] == '\0' && *i + 1 < argc && is_value(argv[*i + 1]))
        value = argv[++*i];
    else if (equal != NULL && nkey > 0 && !blank(equal[-1]) && !blank(arg[0]))
        return MOAO_OK;
    return join(arg, nkey, value, out);
}

/* A word that is no option. */
static status read_word(int argc, char **argv, int *i, int *njoined, cmdline *cl) {
    const char *arg = argv[*i], *next = *i + 1 < argc ? argv[*i + 1] : "";
    bool file = access(arg, F_OK) == 0; /* a file may have = in its name */
    if (file || (strchr(arg, '=') == NULL && next[0] != '=')) {
        cl->files[cl->nfile++] = arg;
        return MOAO_OK;
    }
    char *made;
    status st = read_override(argc, argv, i, &made);
    if (st == MOAO_OK)
        cl->overrides[cl->noverride++] = made != NULL ? made : arg;
    if (made != NULL)
        cl->joined[(*njoined)++] = made;
    return st;
}

status cmdline_parse(int argc, char **argv, const char *allowed, cmdline *cl) {
    memset(cl, 0, sizeof *cl);
    status st;
    unsigned long long given = 0;
    int njoined = 0;
    TRY(ALLOC(cl->files, (size_t)argc, "command line"));
    TRY(ALLOC(cl->overrides, (size_t)argc, "command line"));
    TRY(ALLOC(cl->joined, (size_t)argc + 1, "command line"));
    for (int i = 1; i < argc && st == MOAO_OK; i++)
        st = argv[i][0] == '-' ? read_option(argc, argv, allowed, &i, &given, cl)
                               : read_word(argc, argv, &i, &njoined, cl);
    if (st == MOAO_OK && cl->nfile == 0 && !cl->table)
        st = status_fail(MOAO_INPUT, "no parameter file");
done:
    if (st == MOAO_INPUT) {
        char why[600];
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        st = status_fail(MOAO_INPUT, "moao %s: %s; see moao help %s", argv[0], why, argv[0]);
    }
    return st;
}

void cmdline_free(cmdline *cl) {
    for (char **p = cl->joined; p != NULL && *p != NULL; p++)
        free(*p);
    free(cl->joined);
    free(cl->files);
    free(cl->overrides);
    memset(cl, 0, sizeof *cl);
}
