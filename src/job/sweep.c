#include "job/sweep.h"

#include "base/decimal.h"
#include "params/yaml_tree.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status copy(const char *s, size_t n, char **out) {
    status st = ALLOC(*out, n + 1, "sweep");
    if (st == MOAO_OK)
        memcpy(*out, s, n);
    return st;
}

const param_field *sweep_field(const char *key) {
    static const char *const of_sensor[] = {"sensors", "ngs_defaults", "lgs_defaults"};
    static const char profiles[] = "atmosphere.profiles";
    const char *last = strrchr(key, '.');
    for (int i = 0; i < 3 && last != NULL; i++)
        if (strncmp(key, of_sensor[i], strlen(of_sensor[i])) == 0)
            return param_table_find(&params_sensor_table, last + 1);
    const bool of_profile = strncmp(key, profiles, sizeof profiles - 1) == 0;
    const char *in = of_profile ? strpbrk(key, "]*") : NULL;
    if (in != NULL && strncmp(in, "*]", 2) == 0)
        in++;
    if (in != NULL && in[1] == '.')
        return param_table_find(&params_profile_table, in + 2);
    return param_table_find(&params_main_table, key);
}

/* Brackets that a value of this field begins with. Of an unknown field none: the first run's
 * parameters then tell the mistake. */
static int depth_of(const param_field *f) {
    switch (f != NULL ? f->kind : KIND_real) {
    case KIND_text:
    case KIND_file:
    case KIND_flag:
    case KIND_choice:
    case KIND_count:
    case KIND_real:
        return 0;
    case KIND_pair:
    case KIND_counts:
    case KIND_reals:
    case KIND_words:
    case KIND_files:
        return 1;
    default:
        return 2;
    }
}

static bool is_numeric(const param_field *f) {
    char *end;
    if (f != NULL && f->kind == KIND_text) /* that may be a number, as its default is */
        return strtod(f->def[0], &end) != 0 && *end == '\0';
    return f == NULL || (f->kind == KIND_real || f->kind == KIND_count || f->kind == KIND_reals);
}

static status add_value(sweep_axis *a, const char *s, size_t n) {
    while (n > 0 && isspace((unsigned char)*s))
        s++, n--;
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        n--;
    char **grown = realloc(a->value, (size_t)(a->n + 1) * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for a sweep");
    a->value = grown;
    status st = copy(s, n, &a->value[a->n]);
    a->n += st == MOAO_OK;
    return st;
}

/* --- lists */

/* The items of "[a, b, ...]", at commas outside brackets, braces and quotes. */
static status read_list(const char *text, sweep_axis *a) {
    const size_t len = strlen(text);
    const char *from = text + 1;
    int depth = 0;
    char quote = '\0';
    status st = MOAO_OK;
    for (const char *p = text; *p != '\0' && st == MOAO_OK; p++) {
        if (quote != '\0') {
            if (quote == '"' && *p == '\\' && p[1] != '\0')
                p++; /* \" ends no text */
            else if (*p == quote)
                quote = '\0';
            continue;
        }
        if (*p == '"' || *p == '\'')
            quote = *p;
        depth += (*p == '[' || *p == '{') - (*p == ']' || *p == '}');
        if ((*p == ',' && depth == 1) || (depth == 0 && p == text + len - 1)) {
            st = add_value(a, from, (size_t)(p - from));
            from = p + 1;
        }
        if (a->n > SWEEP_MOST)
            break;
    }
    if (st == MOAO_OK && (depth != 0 || quote != '\0' || from != text + len))
        return status_fail(MOAO_INPUT, "%s=%s: the list is not closed, expected [a, b, ...]",
                           a->key, yaml_tree_quote(text).s);
    for (int i = 0; i < a->n && st == MOAO_OK; i++)
        if (a->value[i][0] == '\0')
            return status_fail(MOAO_INPUT, "%s=%s: an empty value, expected [a, b, ...]", a->key,
                               yaml_tree_quote(text).s);
    return st;
}

/* --- ranges */

/* A number and, behind it, a unit, up to `end`. */
static bool read_number(const char *s, const char *end, double *v, char unit[16]) {
    char word[64], *rest;
    while (s < end && *s == ' ')
        s++;
    if (end - s >= (long)sizeof word)
        return false;
    snprintf(word, sizeof word, "%.*s", (int)(end - s), s);
    rest = word + decimal_length(word);
    *v = rest > word ? strtod(word, NULL) : NAN;
    if (!isfinite(*v))
        return false;
    rest += strspn(rest, " ");
    size_t n = strcspn(rest, " ");
    if (n >= 16 || rest[n + strspn(rest + n, " ")] != '\0')
        return false;
    if (n > 0)
        snprintf(unit, 16, "%.*s", (int)n, rest);
    return true;
}

/* "a..b[:step]" with one unit for all. */
static status read_range(const char *text, sweep_axis *a) {
    const char *dots = strstr(text, ".."), *second = dots + 2, *colon = strchr(second, ':');
    const char *end = text + strlen(text);
    char unit[3][16] = {"", "", ""}, item[64];
    const char *common = "";
    double from, to, step = 1;
    bool good = read_number(text, dots, &from, unit[0]) &&
                read_number(second, colon != NULL ? colon : end, &to, unit[1]) &&
                (colon == NULL || read_number(colon + 1, end, &step, unit[2]));
    for (int i = 0; i < 3; i++)
        if (*unit[i] != '\0') {
            good = good && (*common == '\0' || strcmp(common, unit[i]) == 0);
            common = unit[i];
        }
    if (!good || step == 0)
        return status_fail(MOAO_INPUT,
                           "%s=%s: not a range, expected a..b or a..b:step with one unit behind",
                           a->key, yaml_tree_quote(text).s);
    if (colon == NULL && fabs(to - from) < 1 && to != from)
        return status_fail(MOAO_INPUT, "%s=%s: no step, expected one, as in %g..%g:%g", a->key,
                           yaml_tree_quote(text).s, from, to, fabs(to - from) / 4);
    step = to < from ? -fabs(step) : fabs(step);
    double count = floor((to - from) / step + 1e-9) + 1;
    if (!(count <= SWEEP_MOST))
        return status_fail(MOAO_INPUT, "%s=%s: more than %d values, expected fewer", a->key,
                           yaml_tree_quote(text).s, SWEEP_MOST);
    a->end = to;
    a->missed = fabs(from + (count - 1) * step - to) > 1e-6 * fabs(step);
    status st = MOAO_OK;
    for (int i = 0; i < (int)count && st == MOAO_OK; i++) {
        double v = from + i * step;
        snprintf(item, sizeof item, "%.10g%s%s", fabs(v) < 1e-9 * fabs(step) ? 0.0 : v,
                 *common ? " " : "", common);
        st = add_value(a, item, strlen(item));
    }
    return st;
}

/* --- the grid */

/* Whether an override is swept; its values then. */
static status read_axis(const char *override, sweep_axis *a) {
    const char *equal = strchr(override, '=');
    const char *value = equal + 1 + strspn(equal + 1, " ");
    int brackets = 0;
    status st;
    TRY(copy(override, (size_t)(equal - override), &a->key));
    const param_field *f = sweep_field(a->key);
    for (const char *p = value; *p == '[' || *p == ' '; p++)
        brackets += *p == '[';
    if (brackets > depth_of(f))
        return read_list(value, a);
    if (is_numeric(f) && brackets == 0 && strstr(value, "..") != NULL)
        return read_range(value, a);
done:
    return st;
}

static void free_axis(sweep_axis *a) {
    for (int i = 0; i < a->n; i++)
        free(a->value[i]);
    free(a->value);
    free(a->key);
}

status sweep_parse(const cmdline *cl, sweep_grid *g) {
    status st;
    double runs = 1;
    *g = (sweep_grid){0};
    TRY(ALLOC(g->axis, (size_t)cl->noverride + 1, "sweep"));
    TRY(ALLOC(g->plain, (size_t)cl->noverride + 1, "sweep"));
    for (int i = 0; i < cl->noverride; i++) {
        sweep_axis *a = &g->axis[g->naxis];
        g->naxis++;
        TRY(read_axis(cl->overrides[i], a));
        if (a->n == 0) {
            free_axis(a);
            *a = (sweep_axis){0};
            g->naxis--;
            g->plain[g->nplain++] = cl->overrides[i];
            continue;
        }
        for (int k = 0; k < g->naxis - 1; k++)
            if (strcmp(g->axis[k].key, a->key) == 0)
                TRY(status_fail(MOAO_INPUT, "moao sweep: %s is swept twice", a->key));
        runs *= a->n;
    }
    if (g->naxis == 0)
        TRY(status_fail(MOAO_INPUT,
                        "moao sweep: no key takes several values, expected key=a..b:step "
                        "or key=[a, b, ...]; see moao help sweep"));
    if (runs > SWEEP_MOST)
        TRY(status_fail(MOAO_INPUT, "moao sweep: %.0f runs, expected at most %d", runs,
                        SWEEP_MOST));
    g->nrun = (int)runs;
done:
    return st;
}

void sweep_free(sweep_grid *g) {
    for (int i = 0; i < g->naxis; i++)
        free_axis(&g->axis[i]);
    free(g->axis);
    free(g->plain);
    *g = (sweep_grid){0};
}

const char *sweep_value(const sweep_grid *g, int axis, int i) {
    for (int k = g->naxis - 1; k > axis; k--)
        i /= g->axis[k].n;
    return g->axis[axis].value[i % g->axis[axis].n];
}
