/* The list of the best asterisms: bounded, without doubles when it is sorted. */
#include "asterism/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int choose;
    bool larger, by_figure;
} order;

static _Thread_local order ordering; /* qsort has no argument for it */

static int by_stars(const ast_combo *a, const ast_combo *b) {
    for (int i = 0; i < ordering.choose; i++)
        if (a->star[i] != b->star[i])
            return a->star[i] < b->star[i] ? -1 : 1;
    return 0;
}

/* Better first; what is not known comes last; equals by their stars, so that the order is one. */
static int compare(const void *pa, const void *pb) {
    const ast_combo *a = pa, *b = pb;
    const double x = ordering.by_figure ? a->figure : a->guess,
                 y = ordering.by_figure ? b->figure : b->guess;
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y) ? by_stars(a, b) : isnan(x) ? 1 : -1;
    if (x != y)
        return (x > y) == ordering.larger ? -1 : 1;
    return by_stars(a, b);
}

void ast_list_sort(ast_list *l, int choose, bool larger, bool by_figure) {
    ordering = (order){choose, larger, by_figure};
    qsort(l->v, (size_t)l->n, sizeof *l->v, compare);
    int kept = 0;
    for (int i = 0; i < l->n; i++)
        if (kept == 0 || by_stars(&l->v[kept - 1], &l->v[i]) != 0)
            l->v[kept++] = l->v[i];
    l->n = kept;
}

void ast_list_add(ast_list *l, const ast_combo *a, int choose, bool larger) {
    if (isnan(a->guess))
        return;
    if (l->n == l->room) { /* keep the better half */
        ast_list_sort(l, choose, larger, false);
        l->n = l->n < l->room / 2 ? l->n : l->room / 2;
    }
    l->v[l->n++] = *a;
}

void ast_list_free(ast_list *l) {
    free(l->v);
    *l = (ast_list){0};
}
