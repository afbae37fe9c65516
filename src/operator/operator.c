#include "operator/operator.h"

#include <stdlib.h>
#include <string.h>

#define MOST 40

/* In the order of their numbers, which checkpoints keep. Others follow as they are registered. */
static linop_pair known[MOST] = {
    {"dense", &factor_dense, &product_stored},
    {"streamed", &factor_host, &product_streamed},
    {"half", &factor_fp16, &product_fp16},
    {"fp16_host", &factor_fp16_host, &product_fp16},
    {"distributed", &factor_distributed, &product_collective},
    {"tlr", &factor_tlr, &product_panels},
    {"grid", &factor_dense, &product_toeplitz},
    {"fp16_lattice_pairs", &factor_fp16, &product_fp16_lattice},
    {"tlr+fp16", &factor_tlr, &product_fp16},
    {"tlr+fp16_lattice", &factor_tlr, &product_fp16_lattice},
    {"tlr+toeplitz", &factor_tlr, &product_toeplitz},
    {"host+fp16", &factor_host, &product_fp16},
    {"host+fp16_lattice", &factor_host, &product_fp16_lattice},
    {"host+toeplitz", &factor_host, &product_toeplitz},
    {"tlr_host", &factor_tlr_host, &product_panels},
    {"tlr_host+fp16", &factor_tlr_host, &product_fp16},
    {"tlr_host+fp16_lattice", &factor_tlr_host, &product_fp16_lattice},
    {"tlr_host+toeplitz", &factor_tlr_host, &product_toeplitz},
    {"integer", &factor_dense_integer, &product_integer},
    {"fp16+exact", &factor_fp16_refined, &product_panels},
    {"fp16+toeplitz", &factor_fp16_refined, &product_toeplitz},
    {"fp16_host+exact", &factor_fp16_host_refined, &product_panels},
    {"fp16_host+toeplitz", &factor_fp16_host_refined, &product_toeplitz},
    {"fp16_host+fp16_lattice", &factor_fp16_host, &product_fp16_lattice},
    {"distributed+exact", &factor_distributed_own, &product_panels},
    {"distributed+fp16", &factor_distributed_own, &product_fp16},
    {"distributed+fp16_lattice", &factor_distributed_own, &product_fp16_lattice},
    {"distributed+toeplitz", &factor_distributed_own, &product_toeplitz},
    {"dense+fp16", &factor_dense, &product_fp16}};

const linop_pair *linop_of(const factor_kind *f, const product_kind *x) {
    for (int i = 0; i < MOST && known[i].name != NULL; i++)
        if (known[i].factor == f && known[i].product == x)
            return &known[i];
    return NULL;
}

const char *linop_format(const linop_pair *pair) {
    const factor_kind *f = pair->factor;
    return f->compressed                                  ? "tlr"
           : strcmp(pair->product->word, "toeplitz") == 0 ? "grid"
           : pair->product->fp16 || f->residuals > 0      ? "half"
                                                          : "dense";
}

const linop_pair *linop_find(const char *name) {
    for (int i = 0; name != NULL && i < MOST && known[i].name != NULL; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

int linop_number(const linop_pair *pair) {
    return pair >= known && pair < known + MOST ? (int)(pair - known) + 1 : 0;
}

const linop_pair *linop_numbered(long number) {
    return number > 0 && number <= MOST && known[number - 1].name != NULL ? &known[number - 1]
                                                                          : NULL;
}

/* Whether the fields of two tables say what their functions are. */
static bool is_whole(const factor_kind *f, const product_kind *x) {
    return f->object >= sizeof(factor) && x->object >= sizeof(product) && f->word != NULL &&
           x->word != NULL && f->open != NULL && f->close != NULL && f->make != NULL &&
           f->bytes != NULL && (f->solve != NULL) != f->split &&
           f->compressed == (f->look != NULL) && (f->together || !f->collective) &&
           x->open != NULL && x->close != NULL && x->bytes != NULL && x->columns != NULL &&
           x->own_products == (x->project != NULL) && x->own_products == (x->outer != NULL) &&
           x->own_products == (x->end != NULL) && x->own_phase == (x->phase != NULL) &&
           x->differences == (x->models != NULL) && !(x->own_products && x->gram != NULL) &&
           x->own_w == (x->store != NULL) && x->own_w == (x->get != NULL) &&
           x->leaves_share == (x->share != NULL) && x->leaves_share == (x->phase_share != NULL) &&
           x->leaves_share == (x->load_lag != NULL) && (!f->split || x->right != NULL);
}

status linop_register(const linop_pair *pair) {
    if (pair->factor->size != sizeof *pair->factor || pair->product->size != sizeof *pair->product)
        return status_fail(MOAO_INPUT,
                           "operator: its tables have %zu and %zu bytes, not %zu and %zu: built "
                           "with another version",
                           pair->factor->size, pair->product->size, sizeof *pair->factor,
                           sizeof *pair->product);
    if (!is_whole(pair->factor, pair->product))
        return status_fail(MOAO_INPUT, "operator %s: fields of its tables contradict its functions",
                           pair->name);
    if (linop_find(pair->name) != NULL)
        return status_fail(MOAO_INPUT, "operator: there is one of the name %s", pair->name);
    for (int i = 0; i < MOST; i++)
        if (known[i].name == NULL) {
            known[i] = *pair;
            return MOAO_OK;
        }
    return status_fail(MOAO_INPUT, "operator: there are %d already", MOST);
}

void linop_bytes(const sys *s, plan *p) {
    const linop_pair *pair = p->pair;
    pair->factor->bytes(s, p);
    pair->product->bytes(s, pair->factor, p);
    if (pair->factor->together && !pair->product->together) /* Y of each: samples of its solve */
        p->target += (size_t)p->rows * (size_t)p->rows * sizeof(double);
}

status linop_open(engine *e, const plan *p, const double *proj, linop **out) {
    const linop_pair *pair = p->pair;
    linop *o = NULL;
    status st;
    TRY(comm_agree(e->c, ALLOC(o, 2, "operator")));
    TRY(factor_open(pair->factor, e, p, proj, &o->f));
    TRY(product_open(pair->product, e, p, proj, o->f, &o->x));
    o->f->refines = o->x->kind->refined;
    o->factor = o->f->kind;
    o->product = o->x->kind;
    o->together = o->product->together;
    if (o->x->reference != NULL) {
        o->reference = o + 1;
        *o->reference = (linop){.factor = o->factor,
                                .product = o->x->reference->kind,
                                .f = o->f,
                                .x = o->x->reference,
                                .together = o->together && o->x->reference->kind->together};
    }
done:
    if (st != MOAO_OK) {
        linop_close(o);
        o = NULL;
    }
    *out = o;
    return st;
}

void linop_close(linop *o) {
    if (o == NULL)
        return;
    product_close(o->x);
    factor_close(o->f);
    free(o);
}

/* --- memory */

static int64_t of_product(const linop *o) {
    return o->product->ground != NULL ? o->product->ground(o->x) : 0;
}

static int64_t of_factor(const linop *o) {
    return o->factor->ground != NULL ? o->factor->ground(o->f) : 0;
}

int64_t linop_ground(const linop *o) {
    return of_factor(o) + of_product(o);
}

int64_t linop_room(const linop *o, int n) {
    return o->factor->room != NULL ? o->factor->room(o->f, n, of_product(o)) : 0;
}

int64_t linop_store(const linop *o, int64_t size) {
    const int64_t own = o->product->own_w ? o->product->store(o->x) : size;
    /* those that are solved for together are so in their places */
    return o->x->solve_in == NULL && !o->factor->split && own < size ? size : own;
}

int64_t linop_own(const linop *o) {
    return o->product->own != NULL ? o->product->own(o->x) : 0;
}

status linop_set_workspace(linop *o, int n, double *room) {
    status st = MOAO_OK;
    if (o->product->set_workspace != NULL)
        TRY(o->product->set_workspace(o->x, room + of_factor(o)));
    if (o->factor->set_workspace != NULL)
        TRY(o->factor->set_workspace(o->f, n, room, of_product(o)));
done:
    return st;
}

/* --- reconstructor */

status linop_factor(linop *o, const profile *p, int *minor) {
    status st;
    TRY(o->factor->make(o->f, p, minor));
    if (o->product->made != NULL)
        TRY(o->product->made(o->x, p));
done:
    return st;
}

status linop_solve(linop *o, int n, const wrows *w, double (*dir)[2], double *const *own) {
    wrows in = {0};
    status st = MOAO_OK;
    if (!o->factor->split) {
        for (int k = 0; k < n && o->x->solve_in != NULL; k++) { /* one */
            in = w[k];
            in.w = o->x->solve_in;
        }
        TRY(o->factor->solve(o->f, n, o->x->solve_in != NULL ? &in : w));
    }
    for (int k = 0; k < n && o->product->keep != NULL; k++)
        TRY(o->product->keep(o->x, dir[k], o->x->solve_in != NULL ? &in : &w[k], &w[k], own[k]));
done:
    return st;
}

status linop_reduce_tolerance(linop *o, double excess, linop_step from, linop_step *again) {
    factor_accuracy *a = &o->f->accuracy;
    status st = MOAO_OK;
    *again = LINOP_NOTHING;
    if (from <= LINOP_SOLVE && o->factor->levels > 0 && a->level + 1 < o->factor->levels) {
        a->level++;
        *again = LINOP_SOLVE;
        return st;
    }
    if (o->factor->tighten != NULL)
        TRY(o->factor->tighten(o->f, excess, from, again));
    if (*again == LINOP_NOTHING && o->product->tighten != NULL)
        TRY(o->product->tighten(o->x, excess, from, again));
done:
    return st;
}
