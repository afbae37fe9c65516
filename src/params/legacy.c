#include "legacy.h"

#include "base/decimal.h"
#include "legacy_read.h"
#include "yaml_tree.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LIST = 1000000 };

static int column(const legacy_reader *r) {
    return (int)(r->p - r->line_start) + 1;
}

status legacy_fail(const legacy_reader *r, const char *key, const char *what) {
    return yaml_tree_fail_at(r->file, r->line, column(r), key, "%s", what);
}

void legacy_next_line(legacy_reader *r) {
    r->p += strcspn(r->p, "\n");
    if (*r->p == '\n') {
        r->p++;
        r->line++;
        r->line_start = r->p;
    }
}

void legacy_skip_blank(legacy_reader *r) {
    while (isspace((unsigned char)*r->p)) {
        if (*r->p == '\n') {
            r->line++;
            r->line_start = r->p + 1;
        }
        r->p++;
    }
}

static bool at_number(const legacy_reader *r) {
    return *r->p != '\0' && strchr("+-.0123456789", *r->p) != NULL;
}

/* One finite number at the reader's place. */
static status read_number(legacy_reader *r, const char *key, double *v) {
    const char *end = r->p + decimal_length(r->p);
    char what[160];
    *v = end > r->p ? strtod(r->p, NULL) : NAN;
    if ((*end != '\0' && !isspace((unsigned char)*end)) || !isfinite(*v)) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(r->p, " \t\r\n"), r->p);
        snprintf(what, sizeof what, "'%s' is not a finite number, expected one",
                 yaml_tree_quote(word).s);
        return legacy_fail(r, key, what);
    }
    r->p = end;
    return MOAO_OK;
}

status legacy_read_list(legacy_reader *r, const char *key, int least, int most, double *v, int *n) {
    char what[160];
    status st;
    legacy_skip_blank(r);
    if (*r->p == '\0') {
        snprintf(what, sizeof what, "the file ends, expected a line of comment and %d number%s",
                 least, least == 1 ? "" : "s");
        return legacy_fail(r, key, what);
    }
    if (at_number(r))
        return legacy_fail(r, key,
                           "a number (more than in this list?), expected a line of comment");
    legacy_next_line(r);
    int count = 0;
    for (legacy_skip_blank(r); at_number(r); legacy_skip_blank(r)) {
        double x;
        TRY(read_number(r, key, &x));
        if (count >= most) {
            snprintf(what, sizeof what, "more than %d number%s, expected %d", most,
                     most == 1 ? "" : "s", most);
            return legacy_fail(r, key, what);
        }
        v[count++] = x;
        /* a word after a number on its line is a mistake, not the next comment */
        while (*r->p == ' ' || *r->p == '\t' || *r->p == '\r')
            r->p++;
        if (*r->p != '\n' && *r->p != '\0' && !at_number(r))
            TRY(read_number(r, key, &x));
    }
    if (count < least) {
        snprintf(what, sizeof what, "%d number%s, expected %d", count, count == 1 ? "" : "s",
                 least);
        return legacy_fail(r, key, what);
    }
    if (n != NULL)
        *n = count;
    st = MOAO_OK;
done:
    return st;
}

status legacy_read_one(legacy_reader *r, const char *key, double low, double high, double *v) {
    char what[160];
    status st;
    TRY(legacy_read_list(r, key, 1, 1, v, NULL));
    if (!(*v >= low && *v <= high)) {
        snprintf(what, sizeof what, "%g is out of range, expected %g to %g", *v, low, high);
        st = legacy_fail(r, key, what);
    }
done:
    return st;
}

status legacy_read_whole(legacy_reader *r, const char *key, int low, int high, int *v) {
    double x;
    status st;
    TRY(legacy_read_one(r, key, low, high, &x));
    if (x != floor(x))
        return legacy_fail(r, key, "not a whole number, expected one");
    *v = (int)x;
done:
    return st;
}

status legacy_read_array(legacy_reader *r, const char *key, int n, bool short_by_one, double low,
                         double **v) {
    char what[160];
    status st;
    int count;
    TRY(ALLOC(*v, (size_t)n, key));
    TRY(legacy_read_list(r, key, short_by_one ? n - 1 : n, n, *v, &count));
    for (int i = 0; i < count; i++) {
        if ((*v)[i] >= low)
            continue;
        snprintf(what, sizeof what, "number %d is %g, expected none below %g", i + 1, (*v)[i], low);
        return legacy_fail(r, key, what);
    }
done:
    return st;
}

status legacy_profile_parse(const char *name, const char *text, legacy_profile *p) {
    legacy_reader r = {name, text, text, 1};
    status st;
    *p = (legacy_profile){0};
    TRY(legacy_read_whole(&r, "layers", 1, MAX_LIST, &p->n));
    TRY(legacy_read_one(&r, "r0", 0, 1e6, &p->r0));
    TRY(legacy_read_array(&r, "strength", p->n, false, 0, &p->strength));
    TRY(legacy_read_array(&r, "altitude", p->n, false, 0, &p->altitude));
    TRY(legacy_read_array(&r, "L0", p->n, false, 1e-3, &p->L0));
done:
    return st;
}

void legacy_profile_free(legacy_profile *p) {
    free(p->strength);
    free(p->altitude);
    free(p->L0);
    *p = (legacy_profile){0};
}
