/* Mean gradients in a closed loop: tables of the sums over ages. With slopes of rows k T younger
 * than those of columns, and coefficients a_k,
 *
 *     C(q) = sum_k a_k C_0(q - V k T),     q: separation of rows and columns on the layer,
 *
 * of which C_0 is that of a layer at rest. C is sampled on two grids, a fine one where separations
 * that some age makes small lie, and a coarse one of all others: one evaluation of their cubic
 * B-splines is all ages'. The same of the phase at nodes of outlines with slopes, and of the
 * structure function between such nodes. Model section 6, "The loop in time". */
#include "aged.h"

#include "base/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps of the grids in subapertures, and how far the fine one reaches beyond all ages: there
 * coarse steps are those of functions that vary over as many subapertures. */
#define FINE 0.1
#define COARSE (2.0 / 3.0)
#define REACH 6.2
/* The same between nodes, which come close to each other. */
#define FINE_NODES (1.0 / 32.0)
#define COARSE_NODES 0.25
#define REACH_NODES 1.5
#define EDGE 6 /* steps beyond what a grid serves */
/* Measurements from which on the tables take less time than they save. */
#define PAYS 500

typedef struct {
    double drift[2], coef; /* of the rows [m] */
} age;

/* --- ages of layers */

static bool same_layer(const layers *lay, int i, int j) {
    return lay->h[i] == lay->h[j] && lay->kappa[i] == lay->kappa[j] &&
           lay->table[i] == lay->table[j] && lay->wind[0][i] == lay->wind[0][j] &&
           lay->wind[1][i] == lay->wind[1][j];
}

/* Each layer once, at rest, with coefficient 1; of: the layer of each entry of lay. */
static status list_layers(const layers *lay, aged_tables *g) {
    const size_t n = (size_t)lay->n;
    layers *once = &g->once;
    double **const member[] = {&once->h,        &once->kappa,   &once->coef,   &once->drift[0],
                               &once->drift[1], &once->wind[0], &once->wind[1]};
    status st;
    TRY(ALLOC(g->of, n, "layers"));
    TRY(ALLOC(g->first, n, "layers"));
    for (size_t i = 0; i < sizeof member / sizeof *member; i++)
        TRY(ALLOC(*member[i], n, "layers"));
    TRY(ALLOC(once->table, n, "layers"));
    once->nloop = 1;
    for (int k = 0; k < lay->n; k++) {
        int l = 0;
        while (l < once->n && !same_layer(lay, g->first[l], k))
            l++;
        g->of[k] = l;
        if (l < once->n)
            continue;
        g->first[l] = k;
        once->h[l] = lay->h[k];
        once->kappa[l] = lay->kappa[k];
        once->table[l] = lay->table[k];
        once->coef[l] = 1;
        once->nground += lay->h[k] == 0.0;
        once->n++;
    }
    once->most = once->n;
done:
    return st;
}

/* Ages of layer l for a pair of loops; returns how many. */
static int list_ages(const aged_tables *g, const layers *lay, const aged_pair *p, int l, age *to) {
    const double *coef =
        lay->nloop > 1 ? lay->coef_slopes[p->loop[0]][p->loop[1]] : lay->coef_slopes[0][0];
    int n = 0;
    for (int k = 0; k < lay->n; k++)
        if (g->of[k] == l && coef[k] != 0.0)
            to[n++] = (age){{lay->drift[0][k], lay->drift[1][k]}, coef[k]};
    return n;
}

/* Largest displacement of an age. */
static double span_of(const age *a, int n) {
    double most = 0;
    for (int k = 0; k < n; k++)
        most = fmax(most, hypot(a[k].drift[0], a[k].drift[1]));
    return most;
}

/* --- grids */

static matcov_gradient shape_of(int kinds, double size, const double step[2], double inner,
                                double reach) {
    matcov_gradient t = {.near2 = INFINITY, .inner = inner, .kinds = kinds};
    for (int g = 0; g < 2; g++) {
        const int n = (int)ceil((g == 0 ? inner : fmax(inner, reach)) / (step[g] * size)) + EDGE;
        t.half[g] = n * step[g] * size;
        t.inverse[g] = 1 / (step[g] * size);
        t.side[g] = 2 * n + 1;
    }
    return t;
}

typedef struct { /* of a table that is to be filled: base NULL: the structure function */
    const gradients *g;
    const matcov_gradient *base;
    gradient_axes axes[2];
    bool phase;
    const structure_table *d;
    double kappa;
    const age *ages; /* in the table's axes */
    int n;
} source;

/* Row j of grid k of a table: its kinds at to[kind], n of them; x, y, none: scratch. */
static void fill_row(const source *s, const matcov_gradient *t, int k, int j, double *const to[4],
                     double *x, double *y, double *none) {
    const size_t n = (size_t)t->side[k], whole = (n + 7) / 8 * 8;
    const double unit = s->base == NULL ? s->kappa : 1.0;
    for (size_t i = 0; i < whole; i++) {
        x[i] = unit * ((double)i / t->inverse[k] - t->half[k]);
        y[i] = unit * (j / t->inverse[k] - t->half[k]);
    }
    for (int i = 0; i < s->n; i++) {
        const double x0 = -unit * s->ages[i].drift[0], y0 = -unit * s->ages[i].drift[1],
                     coef = s->ages[i].coef;
        if (s->base == NULL)
            structure_kernel_best()(s->d, whole, x, y, x0, y0, coef, to[0]);
        else if (s->phase)
            gradient_add_phase(s->base, s->g->values, s->axes[0].turn, n, x, y, x0, y0, coef, to[0],
                               to[1]);
        else
            gradient_add_axes(s->base, s->g->values, s->axes, n, x, y, x0, y0, coef,
                              (double *const[]){to[0], to[1], t->kinds == 3 ? none : to[2],
                                                t->kinds == 3 ? to[2] : to[3]});
    }
}

/* A table's values to coefficients, at near. */
static status fill_table(const source *s, const matcov_gradient *t, double *near) {
    const int most = t->side[0] > t->side[1] ? t->side[0] : t->side[1];
    const size_t line = ((size_t)most + 7) / 8 * 8;
    double *grids = NULL, *at = NULL;
    status st = MOAO_OK;
    TRY(ALLOC(grids, gradient_near_size(t) + (size_t)most, "tables of a closed loop"));
    at = grids;
    for (int k = 0; k < 2 && st == MOAO_OK; k++) {
        const size_t n = (size_t)t->side[k], cells = n * n;
#pragma omp parallel for schedule(dynamic)
        for (int j = 0; j < t->side[k]; j++) {
            double *work = aligned_alloc(64, 7 * line * sizeof *work), *to[4];
            if (work == NULL) {
#pragma omp critical(aged)
                st = status_fail(MOAO_MEMORY, "no memory for tables of a closed loop");
                continue;
            }
            memset(work, 0, 7 * line * sizeof *work);
            for (int i = 0; i < 4; i++)
                to[i] = work + (size_t)i * line;
            fill_row(s, t, k, j, to, work + 4 * line, work + 5 * line, work + 6 * line);
            for (int i = 0; i < t->kinds; i++)
                memcpy(at + (size_t)i * cells + (size_t)j * n, to[i], n * sizeof *at);
            free(work);
        }
        at += (size_t)t->kinds * cells;
    }
    TRY(st);
    gradient_to_splines(t, grids, grids + gradient_near_size(t), near);
done:
    free(grids);
    return st;
}

/* --- a pair of kinds of sensors, of two loops */

/* Of all sensors of a pair: the largest separation on layer l, mean sizes there [m]; false: no two
 * of them see it. */
static bool extent_of(const matcov *mc, const aged_tables *g, const aged_pair *p, int l,
                      double *reach, double size[2]) {
    bool any = false;
    *reach = 0;
    for (int i = 0; i < mc->nsensor; i++)
        for (int j = 0; j < mc->nsensor; j++) {
            const footprint *f[2] = {&mc->feet[i], &mc->feet[j]};
            double c[2], of[2][2], far = 0;
            bool seen = true;
            for (int k = 0; k < 2; k++)
                seen = seen && f[k]->kind == p->kind[k] && f[k]->loop == p->loop[k] &&
                       footprint_metres(&g->once, l, f[k], &c[k], of[k]);
            if (!seen)
                continue;
            for (int k = 0; k < 2; k++) {
                double most = 0;
                for (int a = 0; a < f[k]->nsub; a++)
                    most = fmax(most, hypot(f[k]->centre[0][a], f[k]->centre[1][a]));
                size[k] = c[k] * f[k]->size;
                far += c[k] * most + size[k];
            }
            *reach = fmax(*reach, far + hypot(of[0][0] - of[1][0], of[0][1] - of[1][1]));
            any = true;
        }
    return any;
}

/* Ages in axes that are turned by `turn`, or opposite. */
static void turn_ages(const age *from, int n, double turn, double sign, age *to) {
    const double c = cos(turn), s = sin(turn);
    for (int k = 0; k < n; k++)
        to[k] = (age){{sign * (c * from[k].drift[0] + s * from[k].drift[1]),
                       sign * (c * from[k].drift[1] - s * from[k].drift[0])},
                      from[k].coef};
}

/* One more table of a pair. */
static status add_table(aged_pair *p, const source *s, matcov_gradient t, int *number) {
    const size_t n = gradient_near_size(&t), all = p->means.nvalue + n;
    double *grown = realloc(p->values, all * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for tables of a closed loop (%.2f GB)",
                           (double)all * sizeof(double) / 1e9);
    p->values = grown;
    t.near = p->means.nvalue;
    *number = p->means.ntable++;
    p->tables[*number] = t;
    p->means.nvalue = all;
    return fill_table(s, &t, p->values + t.near);
}

/* Rotation of the sensors of a kind. */
static double rotation_of(const matcov *mc, int kind) {
    for (int w = 0; w < mc->nsensor; w++)
        if (mc->feet[w].kind == kind)
            return mc->feet[w].rot;
    return 0;
}

/* Slopes with slopes on layer l. */
static status add_slopes(const matcov *mc, aged_pair *p, int l, int base, const age *ages, int n,
                         double reach, age *turned) {
    const bool swapped = p->kind[0] > p->kind[1];
    const double first = rotation_of(mc, p->kind[swapped]),
                 turn = rotation_of(mc, p->kind[!swapped]) - first;
    const gradients *g = &mc->means;
    const matcov_gradient *t = &g->tables[base];
    source s = {.g = g, .base = t, .ages = turned, .n = n};
    const double size = t->inner / GRADIENT_INNER;
    const double step[2] = {FINE, COARSE};
    turn_ages(ages, n, first, 1, turned);
    for (int b = 0; b < 2; b++)
        s.axes[b] =
            (gradient_axes){.rows = {1, 0},
                            .v = {b == 0 ? cos(turn) : -sin(turn), b == 0 ? sin(turn) : cos(turn)},
                            .turn = {1, 0},
                            .kind = {gradient_kind(t->kinds, 0, b), gradient_kind(t->kinds, 1, b)}};
    return add_table(p, &s, shape_of(t->kinds, size, step, REACH * size + span_of(ages, n), reach),
                     &p->index[3 * l]);
}

/* The phase at nodes of sensors k of the pair with slopes of the others. */
static status add_phase(const matcov *mc, aged_pair *p, int l, int k, int base, const age *ages,
                        int n, double reach, age *turned) {
    const gradients *g = &mc->means;
    const matcov_gradient *t = &g->tables[base];
    const source s = {
        .g = g, .base = t, .axes = {{.turn = {1, 0}}}, .phase = true, .ages = turned, .n = n};
    const double size = t->inner / GRADIENT_INNER_PHASE, step[2] = {FINE, COARSE};
    turn_ages(ages, n, rotation_of(mc, p->kind[!k]), k == 0 ? 1 : -1, turned);
    return add_table(p, &s, shape_of(2, size, step, REACH * size + span_of(ages, n), reach),
                     &p->index[3 * l + 1 + !k]);
}

/* The structure function between nodes. */
static status add_plane(const matcov *mc, const aged_tables *g, aged_pair *p, int l,
                        const age *ages, int n, double size, double reach) {
    const source s = {
        .g = &mc->means, .d = g->once.table[l], .kappa = g->once.kappa[l], .ages = ages, .n = n};
    const double step[2] = {FINE_NODES, COARSE_NODES};
    return add_table(p, &s, shape_of(1, size, step, REACH_NODES * size + span_of(ages, n), reach),
                     &p->plane[l]);
}

/* Tables of layer l. */
static status add_layer(const matcov *mc, const aged_tables *g, aged_pair *p, int l, age *ages,
                        bool outlined) {
    const int entry = g->first[l], n = list_ages(g, &mc->lay, p, l, ages),
              base = mc->means.classes[p->class].table[entry];
    age *turned = ages + mc->lay.n;
    double reach, size[2];
    status st = MOAO_OK;
    p->index[3 * l] = p->index[3 * l + 1] = p->index[3 * l + 2] = p->plane[l] = -1;
    if (base < 0 || !extent_of(mc, g, p, l, &reach, size))
        return st;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n; i++) { /* the ages' line, for distances from it */
            const double v = hypot(g->wind[0][l], g->wind[1][l]),
                         at = v > 0 ? -(ages[i].drift[0] * g->wind[0][l] +
                                        ages[i].drift[1] * g->wind[1][l]) /
                                          v
                                    : 0;
            p->line[2 * l + k] = k == 0 ? fmin(p->line[2 * l], at) : fmax(p->line[2 * l + 1], at);
        }
    TRY(add_slopes(mc, p, l, base, ages, n, reach, turned));
    if (!outlined)
        return st;
    for (int k = 0; k < 2; k++) {
        const int of = mc->means.classes[mc->means.phase_of[p->kind[!k]]].table[entry];
        if (k == 1 && p->kind[0] == p->kind[1]) { /* ages are those of both signs */
            p->index[3 * l + 1] = p->index[3 * l + 2];
            break;
        }
        TRY(add_phase(mc, p, l, k, of, ages, n, reach, turned));
    }
    TRY(add_plane(mc, g, p, l, ages, n, fmin(size[0], size[1]), reach));
done:
    return st;
}

/* What a pair has in place of the tables of each age. */
static void point_to(const matcov *mc, const aged_tables *g, aged_pair *p) {
    const int n = g->once.n;
    gradients *m = &p->means;
    m->tables = p->tables;
    m->values = p->values;
    m->classes = p->classes;
    for (int l = 0; l < n; l++) {
        p->table[l] = p->index[3 * l];
        p->table[n + l] = p->index[3 * l + 1];
        p->table[2 * n + l] = p->index[3 * l + 2];
    }
    p->classes[p->class].table = p->table;
    for (int k = 0; k < 2; k++) {
        const int phase = mc->means.phase_of[p->kind[k]];
        if (phase >= 0)
            p->classes[phase].table = p->table + (1 + k) * n;
    }
    m->planes = p->plane;
    m->wind[0] = g->wind[0];
    m->wind[1] = g->wind[1];
    m->line = p->line;
}

static status fill_pair(const matcov *mc, const aged_tables *g, aged_pair *p, age *ages) {
    const size_t n = (size_t)g->once.n;
    bool swapped, outlined = false;
    status st;
    for (int w = 0; w < mc->nsensor; w++)
        for (int k = 0; k < 2; k++)
            outlined = outlined || (mc->feet[w].kind == p->kind[k] &&
                                    mc->feet[w].loop == p->loop[k] && mc->feet[w].outline.n > 0);
    const footprint of[2] = {{.kind = p->kind[0]}, {.kind = p->kind[1]}};
    p->class = gradients_class(&mc->means, &of[0], &of[1], &swapped);
    p->means = mc->means;
    p->means.ntable = 0;
    p->means.nvalue = GRADIENT_LINES; /* in the place of radial functions, which no entry needs */
    TRY(ALLOC(p->values, p->means.nvalue, "tables of a closed loop"));
    TRY(ALLOC(p->tables, 4 * n, "tables of a closed loop"));
    TRY(ALLOC(p->index, 3 * n, "tables of a closed loop"));
    TRY(ALLOC(p->table, 3 * n, "tables of a closed loop"));
    TRY(ALLOC(p->plane, n, "tables of a closed loop"));
    TRY(ALLOC(p->line, 2 * n, "tables of a closed loop"));
    TRY(ALLOC(p->classes, (size_t)mc->means.nclass, "tables of a closed loop"));
    memcpy(p->classes, mc->means.classes, (size_t)mc->means.nclass * sizeof *p->classes);
    for (int l = 0; l < g->once.n; l++)
        TRY(add_layer(mc, g, p, l, ages, outlined));
    point_to(mc, g, p);
done:
    return st;
}

/* --- life */

static const aged_pair *pair_of(const aged_tables *g, const footprint *a, const footprint *b) {
    for (int i = 0; i < g->n; i++) {
        const aged_pair *p = &g->pair[i];
        if (p->kind[0] == a->kind && p->kind[1] == b->kind && p->loop[0] == a->loop &&
            p->loop[1] == b->loop)
            return p;
    }
    return NULL;
}

/* One kind in two loops has ages of one sign, of which phase tables would need both orders. */
static bool may_have(const footprint *a, const footprint *b) {
    return a->kind >= 0 && b->kind >= 0 && (a->kind != b->kind || a->loop == b->loop);
}

bool matcov_sums_ages(const sys *s) {
    bool means = sys_shares(s) && s->m >= PAYS;
    for (int w = 0; w < s->nsensor; w++)
        means = means && s->sensors[w].gradient;
    return means;
}

bool aged_wanted(const matcov *mc) {
    const char *word = test_choice("ages");
    bool any = false;
    for (int w = 0; w < mc->nsensor; w++)
        any = any || mc->feet[w].kind >= 0;
    return any && mc->lay.aged && sys_shares(mc->s) && !mc->difference &&
           (word != NULL ? strcmp(word, "tables") == 0 : matcov_sums_ages(mc->s));
}

status aged_make(const matcov *mc, aged_tables **out) {
    const size_t most = (size_t)mc->nsensor * (size_t)mc->nsensor;
    aged_tables *g = NULL;
    age *ages = NULL;
    status st;
    *out = NULL;
    TRY(ALLOC(g, 1, "tables of a closed loop"));
    TRY(list_layers(&mc->lay, g));
    for (int i = 0; i < 2; i++) {
        TRY(ALLOC(g->wind[i], (size_t)g->once.n, "layers"));
        for (int l = 0; l < g->once.n; l++)
            g->wind[i][l] = mc->lay.wind[i][g->first[l]];
    }
    TRY(ALLOC(g->pair, most, "tables of a closed loop"));
    TRY(ALLOC(ages, 2 * (size_t)mc->lay.n, "ages of slopes"));
    for (int i = 0; i < mc->nsensor; i++)
        for (int j = 0; j < mc->nsensor; j++) {
            const footprint *a = &mc->feet[i], *b = &mc->feet[j];
            if (!may_have(a, b) || pair_of(g, a, b) != NULL)
                continue;
            aged_pair *p = &g->pair[g->n++];
            p->kind[0] = a->kind, p->kind[1] = b->kind;
            p->loop[0] = a->loop, p->loop[1] = b->loop;
            TRY(fill_pair(mc, g, p, ages));
        }
    *out = g;
    g = NULL;
done:
    aged_free(g);
    free(ages);
    return st;
}

void aged_free(aged_tables *g) {
    if (g == NULL)
        return;
    for (int i = 0; i < g->n; i++) {
        aged_pair *p = &g->pair[i];
        free(p->values);
        free(p->tables);
        free(p->index);
        free(p->table);
        free(p->plane);
        free(p->line);
        free(p->classes);
    }
    free(g->pair);
    free(g->of);
    free(g->first);
    free(g->wind[0]);
    free(g->wind[1]);
    layers_free(&g->once);
    free(g);
}

const gradients *aged_between(const aged_tables *g, const footprint *a, const footprint *b,
                              layers *lay) {
    const aged_pair *p = g != NULL && may_have(a, b) ? pair_of(g, a, b) : NULL;
    if (p == NULL)
        return NULL;
    *lay = g->once;
    return &p->means;
}
