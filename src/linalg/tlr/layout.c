/* Order of the rows and columns, and boundaries of tiles: near points stand together. */
#include "moao/tlr.h"

#include <math.h>
#include <stdlib.h>

void tlr_layout_free(tlr_layout *l) {
    free(l->first);
    free(l->perm);
    *l = (tlr_layout){0};
}

/* A point, with what it is sorted by. */
typedef struct {
    double key;
    int64_t at; /* which point */
} item;

static int by_key(const void *a, const void *b) {
    const item *p = a, *q = b;
    if (p->key != q->key)
        return p->key < q->key ? -1 : 1;
    return (p->at > q->at) - (p->at < q->at); /* the same order everywhere */
}

/* Where leaves of nearly equal size begin: `size` [leaves] points each. */
static void cut_evenly(int64_t n, int64_t leaves, int64_t *size) {
    for (int64_t k = 0; k < leaves; k++)
        size[k] = n * (k + 1) / leaves - n * k / leaves;
}

/* Coordinate k of point i is axis[k][stride i]. */
typedef struct {
    int dim;
    int64_t stride;
    const double *axis[3];
} cloud;

/* Halve the number of leaves, by cutting the longest side at the point that this needs. */
static void split(const cloud *p, int64_t n, item *it, int64_t leaves, int64_t *size) {
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    int along = 0;
    if (leaves == 1) {
        *size = n;
        return;
    }
    for (int k = 0; k < p->dim; k++) {
        for (int64_t i = 0; i < n; i++) {
            const double at = p->axis[k][p->stride * it[i].at];
            low[k] = fmin(low[k], at);
            high[k] = fmax(high[k], at);
        }
        if (high[k] - low[k] > high[along] - low[along])
            along = k;
    }
    for (int64_t i = 0; i < n; i++)
        it[i].key = p->axis[along][p->stride * it[i].at];
    qsort(it, (size_t)n, sizeof *it, by_key);
    const int64_t half = leaves / 2, left = n * half / leaves;
    split(p, left, it, half, size);
    split(p, n - left, it + left, leaves - half, size + half);
}

/* Points of group g into order, and the sizes of their leaves [points]; number of leaves. */
static int64_t order_group(const tlr_points *p, int64_t b, tlr_order order, int64_t g, item *it,
                           int64_t *size) {
    const int64_t from = p->start[g], n = p->start[g + 1] - from, per_leaf = b / p->each;
    const int64_t leaves = n / per_leaf + (n % per_leaf > 0);
    for (int64_t i = 0; i < n; i++)
        it[i] = (item){0, from + i};
    if (n == 0)
        return 0;
    if (order == TLR_KD)
        split(&(cloud){2, 1, {p->x, p->y}}, n, it, leaves, size);
    else
        cut_evenly(n, leaves, size);
    return leaves;
}

/* The entries of a leaf's points, entry by entry: first x of all of them, then y. */
static void put_leaf(const tlr_points *p, const int64_t *group, const item *it, int64_t size,
                     int64_t *perm) {
    for (int64_t e = 0; e < p->each; e++)
        for (int64_t i = 0; i < size; i++) {
            const int64_t at = it[i].at, g = group[at], from = p->start[g],
                          points = p->start[g + 1] - from;
            perm[e * size + i] = p->each * from + e * points + at - from;
        }
}

static status check_points(const tlr_points *p, int64_t b) {
    if (p->groups < 0 || p->each < 1 || b < p->each || (p->groups > 0 && p->start[0] != 0))
        return status_fail(MOAO_INPUT, "tile layout: tiles of %lld indices cannot hold a point",
                           (long long)b);
    for (int64_t g = 0; g < p->groups; g++)
        if (p->start[g + 1] < p->start[g])
            return status_fail(MOAO_INPUT, "tile layout: group %lld ends before it begins",
                               (long long)g);
    for (int64_t i = 0; p->x && i < (p->groups ? p->start[p->groups] : 0); i++)
        if (!isfinite(p->x[i]) || !isfinite(p->y[i]))
            return status_fail(MOAO_INPUT, "tile layout: point %lld has no finite position",
                               (long long)i);
    return MOAO_OK;
}

status tlr_layout_points(const tlr_points *p, int64_t b, tlr_order order, tlr_layout *l) {
    const int64_t points = p->groups > 0 ? p->start[p->groups] : 0;
    int64_t *size = NULL, *group = NULL, done = 0;
    item *it = NULL;
    status st;
    *l = (tlr_layout){0};
    TRY(check_points(p, b));
    TRY(ALLOC(size, (size_t)points + 1, "sizes of tiles"));
    TRY(ALLOC(group, (size_t)points + 1, "groups of points"));
    TRY(ALLOC(it, (size_t)points + 1, "order of points"));
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t i = p->start[g]; i < p->start[g + 1]; i++)
            group[i] = g;
    for (int64_t g = 0; g < p->groups; g++)
        l->nt += order_group(p, b, order, g, it + p->start[g], size + l->nt);
    TRY(ALLOC(l->first, (size_t)l->nt + 1, "tile boundaries"));
    TRY(ALLOC(l->perm, (size_t)(points * p->each) + 1, "order of rows"));
    for (int64_t k = 0; k < l->nt; k++) {
        put_leaf(p, group, it + done, size[k], l->perm + p->each * done);
        done += size[k];
        l->first[k + 1] = p->each * done;
    }
    l->n = points * p->each;
done:
    free(size), free(group), free(it);
    if (st != MOAO_OK)
        tlr_layout_free(l);
    return st;
}

status tlr_layout_cloud(int dim, int64_t n, const double *at, int64_t b, tlr_layout *l) {
    const cloud p = {dim, dim, {at, at + (dim > 1), at + 2 * (dim > 2)}};
    int64_t *size = NULL;
    item *it = NULL;
    status st;
    *l = (tlr_layout){0};
    if (dim < 1 || dim > 3)
        return status_fail(MOAO_INPUT, "tile layout: %d dimensions, not 1 to 3", dim);
    TRY(tlr_layout_plain(n, b, l));
    for (int64_t i = 0; i < n * dim; i++)
        if (!isfinite(at[i]))
            TRY(status_fail(MOAO_INPUT, "tile layout: point %lld has no finite position",
                            (long long)(i / dim)));
    TRY(ALLOC(size, (size_t)l->nt + 1, "sizes of tiles"));
    TRY(ALLOC(it, (size_t)n + 1, "order of points"));
    for (int64_t i = 0; i < n; i++)
        it[i] = (item){0, i};
    if (n > 0)
        split(&p, n, it, l->nt, size);
    for (int64_t k = 0; k < l->nt; k++)
        l->first[k + 1] = l->first[k] + size[k];
    for (int64_t i = 0; i < n; i++)
        l->perm[i] = it[i].at;
done:
    free(size), free(it);
    if (st != MOAO_OK)
        tlr_layout_free(l);
    return st;
}

status tlr_layout_plain(int64_t n, int64_t b, tlr_layout *l) {
    status st;
    *l = (tlr_layout){0};
    if (n < 0 || b < 1)
        return status_fail(MOAO_INPUT, "tile layout: %lld indices in tiles of %lld", (long long)n,
                           (long long)b);
    l->n = n;
    l->nt = n / b + (n % b > 0);
    TRY(ALLOC(l->first, (size_t)l->nt + 1, "tile boundaries"));
    TRY(ALLOC(l->perm, (size_t)n + 1, "order of rows"));
    for (int64_t k = 0; k <= l->nt; k++)
        l->first[k] = k < l->nt ? k * b : n;
    for (int64_t i = 0; i < n; i++)
        l->perm[i] = i;
done:
    if (st != MOAO_OK)
        tlr_layout_free(l);
    return st;
}
