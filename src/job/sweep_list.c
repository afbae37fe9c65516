/* The list of a sweep's runs: names of folders, and the file runs.txt. */
#include "base/file.h"
#include "base/fits.h"
#include "job/advise.h"
#include "job/sweep.h"
#include "params/yaml_tree.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST "runs.txt"
#define FIRST "# moao sweep of"

enum { LONGEST_NAME = 180, MOST_KEYS = 100 };

static void free_run(sweep_run *r) {
    for (int k = 0; k < r->n; k++)
        free(r->word[k]);
    free(r->word);
    free(r->folder);
}

void sweep_list_free(sweep_list *l) {
    for (int i = 0; i < l->nkey; i++)
        free(l->key[i]);
    for (int i = 0; i < l->nrun; i++)
        free_run(&l->run[i]);
    free(l->key);
    free(l->run);
    *l = (sweep_list){0};
}

static status copy(const char *s, char **out) {
    status st = ALLOC(*out, strlen(s) + 1, "list of runs");
    if (st == MOAO_OK)
        strcpy(*out, s);
    return st;
}

/* "key=value" with what file systems and shells take as it is. */
static void add_plain(text *t, const char *key, const char *value) {
    for (const char *p = key; *p != '\0'; p++)
        if (*p == '*')
            text_add(t, "all");
        else if (*p != '[' && *p != ']')
            text_add(t, "%c", isalnum((unsigned char)*p) || strchr("._-", *p) ? *p : '_');
    text_add(t, "=");
    for (const char *p = value; *p != '\0'; p++)
        if (*p != ' ' && *p != '[' && *p != ']' && *p != '"' && *p != '\'')
            text_add(t, "%c", isalnum((unsigned char)*p) || strchr("._+-", *p) ? *p : '_');
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether two runs would share a folder. */
static bool any_twice(const sweep_list *l) {
    char **name = malloc((size_t)l->nrun * sizeof *name);
    bool twice = false;
    for (int i = 0; name != NULL && i < l->nrun; i++)
        name[i] = l->run[i].folder;
    if (name != NULL)
        qsort(name, (size_t)l->nrun, sizeof *name, by_name);
    for (int i = 1; name != NULL && i < l->nrun; i++)
        twice = twice || strcmp(name[i], name[i - 1]) == 0;
    free(name);
    return twice;
}

static status make_run(const sweep_grid *g, int i, bool numbered, sweep_run *r) {
    status st;
    text name = {0}, word = {0};
    TRY(ALLOC(r->word, (size_t)(g->naxis + g->nplain), "list of runs"));
    for (int k = 0; k < g->naxis; k++) {
        text_add(&name, "%s", k > 0 ? "," : "");
        add_plain(&name, g->axis[k].key, sweep_value(g, k, i));
        word.len = 0;
        text_add(&word, "%s=%s", g->axis[k].key, sweep_value(g, k, i));
        TRY(word.failed);
        TRY(copy(word.s, &r->word[r->n]));
        r->n++;
    }
    for (int k = 0; k < g->nplain; k++) {
        TRY(copy(g->plain[k], &r->word[r->n]));
        r->n++;
    }
    TRY(name.failed);
    if (name.len == 0 || name.len > LONGEST_NAME || numbered) {
        name.len = 0;
        text_add(&name, "run-%05d", i + 1);
    }
    st = copy(name.s, &r->folder);
done:
    free(name.s);
    free(word.s);
    return st;
}

/* A line of the list is a line of text, for this program, for xargs and for people. */
static status check_word(const char *word, const char *value) {
    for (const unsigned char *p = (const unsigned char *)word; *p != '\0'; p++)
        if (*p < 0x20 || *p == 0x7f)
            return status_fail(MOAO_INPUT,
                               "%s: a new line or another control character, which the list of "
                               "runs cannot hold; in double quotes, YAML has \\n and \\t for them",
                               yaml_tree_quote(word).s);
    const size_t key = strcspn(word, "="), cell = fitsout_width(value);
    if (cell > FITSOUT_CELL)
        return status_fail(MOAO_INPUT,
                           "%.*s: a value of %zu characters, of which sweep.fits holds %d; make it "
                           "shorter, or put it into files and sweep their names",
                           (int)key, word, cell, FITSOUT_CELL);
    return MOAO_OK;
}

static status check_words(const sweep_grid *g) {
    status st = MOAO_OK;
    for (int k = 0; k < g->nplain; k++)
        TRY(check_word(g->plain[k], strchr(g->plain[k], '\0')));
    for (int k = 0; k < g->naxis; k++) {
        const char *key = g->axis[k].key;
        const size_t n = fitsout_width(key);
        TRY(check_word(key, strchr(key, '\0')));
        if (n > FITSOUT_NAME)
            TRY(status_fail(MOAO_INPUT,
                            "%s: %zu characters, of which the name of a column of sweep.fits has "
                            "%d; call the sensor by its number, as in sensors[0].magnitude",
                            yaml_tree_quote(key).s, n, FITSOUT_NAME));
        for (int i = 0; i < g->axis[k].n; i++) {
            text word = {0};
            text_add(&word, "%s=%s", key, g->axis[k].value[i]);
            st =
                word.failed != MOAO_OK ? word.failed : check_word(word.s, word.s + strlen(key) + 1);
            free(word.s);
            TRY(st);
        }
    }
done:
    return st;
}

status sweep_list_make(const sweep_grid *g, sweep_list *l) {
    status st;
    *l = (sweep_list){0};
    TRY(check_words(g));
    for (int numbered = 0; numbered < 2; numbered++) {
        *l = (sweep_list){0};
        TRY(ALLOC(l->key, (size_t)g->naxis, "list of runs"));
        TRY(ALLOC(l->run, (size_t)g->nrun, "list of runs"));
        for (int k = 0; k < g->naxis; k++, l->nkey++)
            TRY(copy(g->axis[k].key, &l->key[k]));
        for (int i = 0; i < g->nrun; i++, l->nrun++)
            TRY(make_run(g, i, numbered, &l->run[i]));
        if (numbered || !any_twice(l))
            break;
        sweep_list_free(l);
    }
done:
    return st;
}

/* --- the file */

/* Next word of a line as xargs has it: blanks part words, quotes and backslashes keep them. Returns
 * what follows, NULL at the end and when w->failed. */
static const char *next_word(const char *p, text *w) {
    char quote = '\0';
    w->len = 0;
    text_add(w, "%s", "");
    p += strspn(p, " \t");
    if (*p == '\0')
        return NULL;
    for (; *p != '\0' && (quote != '\0' || (*p != ' ' && *p != '\t')); p++) {
        if (quote == '\0' && (*p == '"' || *p == '\''))
            quote = *p;
        else if (*p == quote)
            quote = '\0';
        else if (*p == '\\' && quote == '\0' && p[1] != '\0')
            text_add(w, "%c", *++p);
        else
            text_add(w, "%c", *p);
    }
    return w->failed == MOAO_OK ? p : NULL;
}

static status add_word(char ***list, int *n, const char *word) {
    char **grown = realloc(*list, (size_t)(*n + 1) * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for the list of runs");
    *list = grown;
    status st = copy(word, &grown[*n]);
    *n += st == MOAO_OK;
    return st;
}

/* Whether a folder is one of the sweep's own. */
static bool is_folder(const char *name) {
    return name != NULL && name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* Whether the first words of a run are "key=value" of the sweep's keys, and fit into its table. */
static bool has_keys(const sweep_run *r, const sweep_list *l) {
    bool all = r->n >= l->nkey && fitsout_width(r->folder) <= FITSOUT_CELL;
    for (int k = 0; k < l->nkey && all; k++) {
        const size_t n = strlen(l->key[k]);
        all = strncmp(r->word[k], l->key[k], n) == 0 && r->word[k][n] == '=' &&
              fitsout_width(r->word[k]) <= FITSOUT_CELL;
    }
    return all;
}

/* "-o FOLDER key=value ..." */
static status read_line(const char *path, const char *line, sweep_list *l) {
    text w = {0};
    status st = MOAO_OK;
    sweep_run r = {0};
    const char *p = next_word(line, &w);
    if (p != NULL && strcmp(w.s, "-o") == 0 && (p = next_word(p, &w)) != NULL)
        st = copy(w.s, &r.folder);
    while (st == MOAO_OK && p != NULL && (p = next_word(p, &w)) != NULL)
        st = add_word(&r.word, &r.n, w.s);
    if (st == MOAO_OK && w.failed != MOAO_OK)
        st = w.failed;
    else if (st == MOAO_OK && l->nkey == 0)
        st = status_fail(MOAO_INPUT, "%s: a run before the line %s KEYS, expected that first", path,
                         FIRST);
    else if (st == MOAO_OK && (!is_folder(r.folder) || !has_keys(&r, l)))
        st = status_fail(MOAO_INPUT,
                         "%s: %s: not a run of this sweep, expected -o FOLDER and the keys of the "
                         "first line, in that order",
                         path, yaml_tree_quote(line).s);
    sweep_run *grown =
        st == MOAO_OK ? realloc(l->run, (size_t)(l->nrun + 1) * sizeof *grown) : NULL;
    if (st == MOAO_OK && grown == NULL)
        st = status_fail(MOAO_MEMORY, "no memory for the list of runs");
    if (grown != NULL) {
        l->run = grown;
        l->run[l->nrun++] = r;
    } else {
        free_run(&r);
    }
    free(w.s);
    return st;
}

/* The keys behind "# moao sweep of", which come once. */
static status read_keys(const char *path, const char *p, sweep_list *l) {
    text w = {0};
    status st = MOAO_OK;
    if (l->nkey > 0)
        st = status_fail(MOAO_INPUT, "%s: a second line %s KEYS, expected one", path, FIRST);
    while (st == MOAO_OK && (p = next_word(p, &w)) != NULL)
        st = w.s[0] == '\0' || fitsout_width(w.s) > FITSOUT_NAME || l->nkey >= MOST_KEYS
                 ? status_fail(MOAO_INPUT,
                               "%s: more than %d keys, or one of none or more than %d characters",
                               path, MOST_KEYS, FITSOUT_NAME)
                 : add_word(&l->key, &l->nkey, w.s);
    free(w.s);
    return st != MOAO_OK ? st : w.failed;
}

status sweep_list_read(const char *dir, sweep_list *l) {
    char *path = NULL, *all = NULL;
    status st;
    *l = (sweep_list){0};
    TRY(file_join(dir, LIST, &path));
    if (!file_exists(path))
        goto done;
    TRY(file_read_lines(path, &all));
    for (char *line = all, *next; line != NULL && st == MOAO_OK; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (strncmp(line, FIRST, sizeof FIRST - 1) == 0)
            st = read_keys(path, line + sizeof FIRST - 1, l);
        else if (*line != '#' && line[strspn(line, " \t")] != '\0')
            st = read_line(path, line, l);
    }
    if (st == MOAO_OK && l->nkey == 0)
        st = status_fail(MOAO_INPUT, "%s: not the list of a sweep, expected a line %s KEYS", path,
                         FIRST);
done:
    free(all);
    free(path);
    return st;
}

status sweep_list_write(const char *dir, const sweep_list *l) {
    char *path = NULL;
    text t = {0};
    status st;
    TRY(file_join(dir, LIST, &path));
    text_add(&t, FIRST);
    for (int i = 0; i < l->nkey; i++) {
        text_add(&t, " ");
        advise_word(&t, l->key[i]);
    }
    text_add(&t,
             "\n# The folder of each run, and its overrides; campaign.sbatch reads this too.\n");
    for (int i = 0; i < l->nrun; i++) {
        text_add(&t, "-o ");
        advise_word(&t, l->run[i].folder);
        for (int k = 0; k < l->run[i].n; k++) {
            text_add(&t, " ");
            advise_word(&t, l->run[i].word[k]);
        }
        text_add(&t, "\n");
    }
    TRY(t.failed);
    st = file_write_text(path, t.s);
done:
    free(t.s);
    free(path);
    return st;
}

status sweep_list_join(sweep_list *l, sweep_list *old, const char *dir) {
    bool same = old->nkey == l->nkey;
    status st;
    char **known = NULL;
    for (int k = 0; same && k < l->nkey; k++)
        same = strcmp(l->key[k], old->key[k]) == 0;
    if (!same)
        return status_fail(MOAO_INPUT,
                           "%s: holds a sweep of other keys; choose another folder with -o", dir);
    const int n = l->nrun;
    TRY(ALLOC(known, (size_t)n, "list of runs"));
    for (int i = 0; i < n; i++)
        known[i] = l->run[i].folder;
    qsort(known, (size_t)n, sizeof *known, by_name);
    sweep_run *grown = realloc(l->run, (size_t)(n + old->nrun) * sizeof *grown);
    if (grown == NULL)
        TRY(status_fail(MOAO_MEMORY, "no memory for the list of runs"));
    l->run = grown;
    for (int i = 0; i < old->nrun; i++)
        if (bsearch(&old->run[i].folder, known, (size_t)n, sizeof *known, by_name) == NULL) {
            l->run[l->nrun++] = old->run[i];
            old->run[i] = (sweep_run){0};
        }
done:
    free(known);
    return st;
}
