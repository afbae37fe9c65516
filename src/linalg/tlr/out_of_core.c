/* Updates of a left-looking factor out of core. Every block column needs all those before it, so
 * one at a time would bring the factor from the host's memory as often as there are block columns.
 *
 * Block columns are therefore taken in groups. While those of one group are finished one after
 * another, the next group is in a pass over what is finished: each block column that comes from the
 * host's memory updates all of them, in the stream of updates, and the next one is in transit
 * meanwhile. The pass goes on by a part for each block column that is finished, so that both
 * streams have work. What a group misses after its pass, the block columns of the group before it
 * and its own, it gets as they are finished.
 *
 * Bits: which block columns share large products follows from ranks and memory (update.c), and is
 * the same for a block column as where nothing is out of core. Where that depends on ranks that are
 * not known yet, the update waits for them. */
#include "out_of_core.h"
#include "pool.h"
#include "update.h"

enum { SLOTS = 2 * TLR_SHARE }; /* two groups: slot p % SLOTS is block column p's */

/* A block column that waits for updates. */
typedef struct {
    double *d;        /* in own */
    size_t bytes;     /* that it was expected to take */
    int64_t next;     /* the updates by those before it are made */
    int64_t end;      /* of those that the current pass makes */
    tlr_work own;     /* memory: D, and left factors that several block columns share */
    tlr_steps *steps; /* NULL: nothing waits here */
} waiting;

struct tlr_ooc {
    tlr_work *main, *ahead;
    tlr *l;
    tlr_pool *pool; /* with a limit of memory, NULL: without */
    bool apart;
    int most, largest; /* block columns of a group: allowed, and found */
    tlr_ooc_read *read;
    void *arg;
    int64_t a0, a1, b1; /* groups a0 .. a1, which is being finished, and a1 .. b1 */
    waiting slot[SLOTS];
};

static waiting *at(tlr_ooc *x, int64_t p) {
    return &x->slot[p % SLOTS];
}

/* What follows in stream `to` waits for what is in `from`. */
static status after(const tlr_work *to, const tlr_work *from) {
    tlr_pool_met(to->pool, to->side);
    return to->ctx == from->ctx ? MOAO_OK : to->be->wait_for(to->ctx, from->ctx);
}

/* Memory of a slot is that of the stream of main, which fills D and is the last one that uses it;
 * left factors come and go in that of ahead. */
static void open_slot(tlr_ooc *x, int k) {
    tlr_work *own = &x->slot[k].own;
    tlr_work_open(own, x->ahead->be, x->ahead->ctx);
    own->pool = x->pool;
    own->side = TLR_AHEAD;
    own->low = x->pool != NULL;
}

/* Bytes of the blocks on the diagonal, which stay when the factor is made. */
static size_t diag_bytes(const tlr *l) {
    size_t bytes = 0;
    for (int64_t q = 0; q < l->panels; q++)
        bytes += sizeof(double) * (size_t)(l->panel[q].width * l->panel[q].width);
    return bytes;
}

/* The memory that l and the works of both streams take from now on. */
static status open_pool(tlr_ooc *x) {
    const size_t diag = diag_bytes(x->l);
    status st = MOAO_OK;
    if (x->l->o.room > 0)
        st = tlr_pool_open(x->main->be, x->main->ctx, x->ahead->ctx,
                           x->l->o.room > diag ? x->l->o.room - diag : 0, x->l->o.workspace,
                           &x->pool);
    x->l->pool = x->main->pool = x->ahead->pool = x->pool;
    x->main->beside = x->ahead->beside = true;
    x->main->side = TLR_MAIN;
    x->ahead->side = TLR_AHEAD;
    return st;
}

/* All is given back. */
static void close_pool(tlr_ooc *x) {
    x->main->beside = x->ahead->beside = false;
    if (!x->pool)
        return;
    tlr_work_empty(x->main);
    tlr_work_empty(x->ahead);
    tlr_panel_no_spare(x->l);
    for (int64_t q = 0; q < x->l->panels; q++)
        if (!x->l->panel[q].kept) /* one that was not finished */
            tlr_panel_release(x->l, q);
    x->l->pool = x->main->pool = x->ahead->pool = NULL;
    tlr_pool_close(x->pool);
}

status tlr_ooc_open(tlr_work *main, tlr_work *ahead, tlr *l, bool apart, int most,
                    tlr_ooc_read *read, void *arg, tlr_ooc **out) {
    tlr_ooc *x = NULL;
    status st;
    TRY(ALLOC(x, 1, "updates of block columns"));
    *out = x;
    *x = (tlr_ooc){.main = main,
                   .ahead = ahead,
                   .l = l,
                   .apart = apart,
                   .most = most,
                   .read = read,
                   .arg = arg};
    TRY(open_pool(x));
    for (int k = 0; k < SLOTS; k++)
        open_slot(x, k);
done:
    return st;
}

/* Its memory is the next one's, or where room is scarce nobody's. What is in the stream of main is
 * the last that uses it: that has waited for what is in the stream of ahead. */
static void let_go(tlr_ooc *x, int64_t p) {
    waiting *t = at(x, p);
    tlr_steps_close(t->steps);
    t->steps = NULL;
    t->bytes = 0;
    if (x->l->o.room > 0 || x->most < TLR_SHARE) {
        t->own.side = TLR_MAIN;
        tlr_work_close(&t->own);
        open_slot(x, (int)(p % SLOTS));
    }
}

void tlr_ooc_close(tlr_ooc *x) {
    if (!x)
        return;
    for (int k = 0; k < SLOTS; k++) {
        tlr_steps_close(x->slot[k].steps);
        tlr_work_close(&x->slot[k].own);
    }
    close_pool(x);
    free(x);
}

int tlr_ooc_most(const tlr_ooc *x) {
    return x->largest;
}

/* --- groups --- */

/* Where large products that begin at block column q end for p at the latest. */
static int64_t limit_of(const tlr_ooc *x, int64_t p, int64_t q) {
    return x->apart && q < p - 1 ? p - 1 : p;
}

static size_t more_of(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Bytes that block column p takes: D, and left factors of what is known already. */
static size_t bytes_of(tlr_ooc *x, int64_t p, int64_t known) {
    const int64_t rows = panel_rows(x->l, p);
    tlr_steps *steps;
    size_t most = 0;
    if (tlr_steps_open(x->ahead, x->ahead, x->l, p, NULL, rows, &steps) != MOAO_OK)
        return SIZE_MAX / SLOTS;
    for (int64_t q = 0; q >= 0 && q < known;) {
        size_t bytes;
        q = tlr_steps_span(steps, q, limit_of(x, p, q), known, &bytes);
        most = more_of(most, bytes);
    }
    tlr_steps_close(steps);
    return most + sizeof(double) * (size_t)(rows * x->l->panel[p].width);
}

/* Block column p joins, with its entries. */
static status join(tlr_ooc *x, int64_t p, int64_t known) {
    const int64_t rows = panel_rows(x->l, p);
    waiting *t = at(x, p);
    status st;
    t->next = 0;
    t->bytes = x->pool ? bytes_of(x, p, known) : 0;
    t->own.side = TLR_MAIN; /* which fills it */
    TRY(tlr_work_room(&t->own, BUF_PANEL, rows * x->l->panel[p].width, &t->d));
    t->own.side = TLR_AHEAD;
    TRY(tlr_steps_open(x->ahead, &t->own, x->l, p, t->d, rows, &t->steps));
    st = x->read(x->arg, p, t->d);
done:
    if (st != MOAO_OK)
        let_go(x, p);
    return st;
}

/* Numbers of what V of the rows below have in common with V of a block column's rows, about. */
static int64_t core_of(const tlr *l, const panel *p) {
    int64_t count = 0;
    for (int64_t k = 0; k < p->c1 - p->c0; k++)
        count += p->vcols[k] * p->vcols[k] / largest(p->r1 - p->r0, 1) * l->step;
    return count;
}

/* Bytes that the factor has taken or will, but for the slots. For the updates ahead: block columns
 * in transit as large as the largest so far, and left factors and what they are made of. */
static size_t bytes_without(const tlr_ooc *x, int64_t known) {
    const tlr *l = x->l;
    int64_t core = 0, most = 0;
    for (int64_t q = 0; q < known; q++) {
        const panel *p = l->panel + q;
        core = largest(core, core_of(l, p));
        most = largest(most, (int64_t)p->bytes - 8 * p->width * p->width);
    }
    most = tlr_more(most, most);
    const size_t left = sizeof(double) * (size_t)(panel_rows(l, known) * l->o.width * l->step),
                 ahead = (l->o.fp32 ? 4 : 2) * (size_t)most + 8 * (size_t)core +
                         (left < l->o.memory ? left : l->o.memory),
                 has = tlr_work_held(x->ahead);
    return tlr_work_held(x->main) + diag_bytes(l) + more_of(ahead, has) +
           (l->o.fp32 ? 2 : 1) * (size_t)most; /* the one being finished */
}

/* The same of what it has taken. */
static size_t bytes_now(const tlr_ooc *x) {
    return diag_bytes(x->l) + tlr_work_held(x->main) + tlr_work_held(x->ahead) +
           sizeof(double) * (size_t)(x->l->taken[0] + x->l->taken[1]);
}

/* How many block columns from b1 on, which are not more than `most`, the room allows. */
static int64_t that_fit(tlr_ooc *x, int64_t known, int64_t most) {
    int64_t count = 0;
    if (x->l->o.room == 0)
        return most;
    if (known == 0)
        return least(most, 1); /* what a block column takes is not known */
    size_t bytes = bytes_without(x, known);
    for (int k = 0; k < SLOTS; k++)
        bytes += tlr_work_held(&x->slot[k].own);
    for (; count < most; count++) {
        bytes += bytes_of(x, x->b1 + count, known);
        if (bytes > x->l->o.room)
            break;
    }
    return count;
}

/* Whether block column p has a place in the memory that there is, and in addition what will be
 * taken for others, and any place of a block column in transit, which finds another one to grow. */
static bool has_place(tlr_ooc *x, int64_t p, int64_t known) {
    if (!x->pool)
        return true;
    const size_t all = bytes_without(x, known), held = bytes_now(x);
    size_t rest = more_of(all, held) - held;
    rest = more_of(rest, more_of(x->ahead->used.bytes, x->ahead->place[0].bytes));
    for (int k = 0; k < SLOTS; k++) {
        const size_t has = tlr_work_held(&x->slot[k].own);
        rest += more_of(x->slot[k].bytes, has) - has;
    }
    return tlr_pool_fits(x->pool, bytes_of(x, p, known), rest);
}

/* What compression of block column p takes, less than that of those before it. */
static status shrink(tlr_ooc *x, int64_t p) {
    static const int which[] = {BUF_U, BUF_V};
    const tlr *l = x->l;
    const panel *here = l->panel + p;
    const int64_t most = l->o.rank > 0 ? least(l->o.rank, l->b) : l->o.cut,
                  count = (here->r1 - here->r0) * (here->c1 - here->c0) * l->b * most;
    double *at;
    status st = MOAO_OK;
    if (!x->pool || x->main->count[BUF_U] <= count)
        return st;
    for (int k = 0; k < 2; k++)
        tlr_work_drop(x->main, which[k]);
    for (int k = 0; k < 2; k++)
        TRY(tlr_work_room(x->main, which[k], count, &at));
done:
    return st;
}

/* A group from b1 on: what memory allows, `fewest` at least. */
static status open_group(tlr_ooc *x, int64_t known, int64_t fewest) {
    const int64_t rest = least(x->l->panels - x->b1, x->most),
                  count = largest(least(fewest, rest), that_fit(x, known, rest)), b0 = x->b1;
    status st = MOAO_OK;
    while (st == MOAO_OK && x->b1 < b0 + count &&
           (x->b1 < b0 + fewest || has_place(x, x->b1, known)))
        if ((st = join(x, x->b1, known)) == MOAO_OK)
            x->b1++;
    if (st == MOAO_MEMORY && x->b1 >= b0 + fewest) { /* those that are there go together */
        status_clear();
        st = MOAO_OK;
    }
    x->largest = (int)largest(x->largest, x->b1 - b0);
    return st;
}

/* --- passes --- */

/* How far block column p can go: to the end of large products that begin before `until`, which
 * depend on block columns before `known` alone. */
static void plan(tlr_ooc *x, int64_t p, int64_t until, int64_t known) {
    waiting *t = at(x, p);
    size_t bytes;
    for (t->end = t->next; t->end < least(until, p);) {
        const int64_t to = tlr_steps_span(t->steps, t->end, limit_of(x, p, t->end), known, &bytes);
        if (to < 0)
            break;
        t->end = to;
    }
}

static bool takes(tlr_ooc *x, int64_t p, int64_t q) {
    const waiting *t = at(x, p);
    return t->next <= q && q < t->end;
}

/* The first of block columns from p0 to p1 that block column q updates, p1: none. */
static int64_t first_of(tlr_ooc *x, int64_t p0, int64_t p1, int64_t q) {
    int64_t p = p0;
    while (p < p1 && !takes(x, p, q))
        p++;
    return p;
}

/* The first block column from q on, before `known`, that updates any of them. */
static int64_t next_of(tlr_ooc *x, int64_t p0, int64_t p1, int64_t q, int64_t known) {
    while (q < known && first_of(x, p0, p1, q) == p1)
        q++;
    return q;
}

/* What the next run takes first of what is not at hand, and from which tile row on; -1: it is not
 * known, or nothing. */
typedef struct {
    int64_t q, i0;
} hint;

/* Block column q for all that are so far; the one that follows it is in transit meanwhile, after
 * the last one `then`. */
static status run_one(tlr_ooc *x, int64_t p0, int64_t p1, int64_t q, int64_t known, hint then) {
    bool joins[SLOTS] = {false};
    int64_t lowest = p1;
    status st;
    for (int64_t p = p1 - 1; p >= p0; p--)
        if (at(x, p)->next == q && takes(x, p, q)) {
            joins[p % SLOTS] = true;
            at(x, p)->next = q + 1;
            lowest = p;
        }
    const int64_t next = next_of(x, p0, p1, 0, known), after_it = first_of(x, p0, p1, next);
    if (next < known)
        then = (hint){next, x->l->panel[after_it].c0};
    TRY(tlr_store_fetch_rows(x->ahead, x->l, q, x->l->panel[lowest].c0, then.q, then.i0));
    for (int64_t p = lowest; p < p1; p++)
        if (joins[p % SLOTS])
            TRY(tlr_steps_take(at(x, p)->steps, q, limit_of(x, p, q), known));
done:
    return st;
}

/* What is planned for block columns p0 .. p1, by those before `known`: first by the one that was
 * just made, which is at hand, of those that miss it alone. */
static status run(tlr_ooc *x, int64_t p0, int64_t p1, int64_t known, hint then) {
    status st = MOAO_OK;
    int64_t q = next_of(x, p0, p1, 0, known);
    for (int64_t p = p0; p < p1; p++)
        q = at(x, p)->next == known - 1 && takes(x, p, known - 1) ? known - 1 : q;
    for (; q < known; q = next_of(x, p0, p1, 0, known))
        TRY(run_one(x, p0, p1, q, known, then));
done:
    return st;
}

/* With what the pass of the next group goes on, or begins, once block column p - 1, which was just
 * made, has updated all that it can. */
static hint after_this(const tlr_ooc *x, int64_t p) {
    hint h = {x->b1 > x->a1 ? p - 1 : 0, x->a1 < x->l->panels ? x->l->panel[x->a1].c0 : 0};
    for (int64_t k = x->a1; k < x->b1; k++) {
        const int64_t next = x->slot[k % SLOTS].next;
        if (next < h.q)
            h = (hint){next, x->l->panel[k].c0};
    }
    return h.q < p - 1 && x->a1 < x->l->panels ? h : (hint){-1, 0};
}

status tlr_ooc_complete(tlr_ooc *x, int64_t p, double **d) {
    status st;
    if (p > 0)
        let_go(x, p - 1);
    if (p == x->a1) { /* the next group's turn */
        if (x->b1 == p)
            TRY(open_group(x, p, 1));
        x->a0 = p;
        x->a1 = x->b1;
    }
    TRY(after(x->ahead, x->main));
    tlr_work_lap(x->ahead, -1);
    plan(x, p, p, p);
    TRY(run(x, p, p + 1, p, after_this(x, p)));
    tlr_work_lap(x->main, -1);
    *d = at(x, p)->d;
    st = after(x->main, x->ahead);
done:
    return st;
}

status tlr_ooc_begin_ahead(tlr_ooc *x, int64_t p) {
    status st = MOAO_OK;
    if (x->b1 == x->a1)
        TRY(shrink(x, p));
    if (x->b1 == x->a1)
        TRY(open_group(x, p, p + 1 == x->b1 ? 1 : 0));
    tlr_work_lap(x->main, TLR_ENTRIES);
    TRY(tlr_store_feed(x->ahead, x->l)); /* while entries are made */
    st = after(x->ahead, x->main);
done:
    return st;
}

/* The pass of the next group has as many parts as this one has block columns. */
status tlr_passes_look_ahead(tlr_ooc *x, int64_t p) {
    status st;
    if (x->ahead->ctx != x->main->ctx) /* waits for the updates of p */
        TRY(tlr_work_rewind(x->ahead, TLR_SHARE * TLR_LISTED));
    tlr_work_lap(x->ahead, -1);
    for (int64_t k = p + 1; k < x->a1; k++)
        plan(x, k, p, p);
    for (int64_t k = x->a1; k < x->b1; k++)
        plan(x, k, p * (p - x->a0 + 1) / (x->a1 - x->a0), p);
    st = run(x, p + 1, x->b1, p, (hint){-1, 0});
    tlr_work_lap(x->main, -1);
done:
    return st;
}
