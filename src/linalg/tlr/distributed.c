/* A factor that is spread over the members that made it (tlr_options.distributed): each keeps the
 * tile rows that are its own. Tile rows are cut into blocks of whole block columns, dealt out in
 * turn, the same ones in every block column; a block is a part (procs.c). So of the updates
 * D_I -= L_I L_K^T of a block column, I a member's own rows, K those of the block column, L_I is at
 * hand, and L_K comes from one member to all before the updates begin: each column of the factor
 * travels once while it is made.
 *
 * Solves need all of a block column. They go over the block columns in rounds, in which all members
 * take part, with right-hand sides or without: each sends what it keeps of the next block column.
 * What is used stands where it would stand in a whole block column, so the bits are those of one
 * member with the same blocks. A member that fails in a round goes on sending and receiving, and
 * tells at its end.
 *
 * Kept: of each own block the U of its tile rows side by side, then V of each tile column in these
 * rows. */
#include "distributed.h"

/* Rows of block column p in the block columns q0 .. q1 before it, from their owner. */
typedef struct {
    void *at;
    size_t bytes;
    int64_t p, q0, q1;
    int64_t *begin; /* [panels] where those of a block column begin [numbers] */
} some_rows;

struct tlr_distributed {
    tlr_procs m;
    /* by the block column before p alone, and by all others: they may be in use at the same time */
    some_rows rows[2];
    /* the current round */
    backend_type type;
    const char *forms;
    int64_t panels, turns, turn;
    char *message;
};

/* --- places --- */

static size_t kept_size(const tlr *l) {
    return backend_size(tlr_kept(l));
}

/* Numbers of V of tile column c in tile rows i0 .. i1. */
static int64_t v_numbers(const tlr *l, const panel *p, int64_t c, int64_t i0, int64_t i1) {
    return (panel_vcol(p, i1, c) - panel_vcol(p, i0, c)) * tlr_extent(l->cols, c);
}

/* Numbers of tile rows i0 .. i1. */
static int64_t row_numbers(const tlr *l, const panel *p, int64_t i0, int64_t i1) {
    int64_t n = panel_ubegin(l, p, i1) - panel_ubegin(l, p, i0);
    for (int64_t c = p->c0; c < p->c1; c++)
        n += v_numbers(l, p, c, i0, i1);
    return n;
}

/* The same of all rows that member r keeps. */
static int64_t member_numbers(const tlr *l, int64_t q, int r) {
    int64_t n = 0, i0, i1;
    for (int64_t k = r; k < tlr_parts(l); k += l->spread->m.size) {
        tlr_part(l, q, k, &i0, &i1);
        n += row_numbers(l, l->panel + q, i0, i1);
    }
    return n;
}

/* Where block k, one of those of its member, begins in what that keeps. */
static int64_t block_begin(const tlr *l, int64_t q, int64_t k) {
    int64_t n = 0, i0, i1;
    for (int64_t b = k % l->spread->m.size; b < k; b += l->spread->m.size) {
        tlr_part(l, q, b, &i0, &i1);
        n += row_numbers(l, l->panel + q, i0, i1);
    }
    return n;
}

/* n numbers of one type to another; those that are widened with the rest of the list. */
static status move(tlr_work *w, widen_list *wide, backend_type ft, const void *from,
                   backend_type tt, void *to, int64_t n) {
    const int64_t bytes = n * (int64_t)backend_size(ft);
    if (n == 0)
        return MOAO_OK;
    if (ft == tt)
        return w->be->copy(w->ctx, to, bytes, from, bytes, bytes, 1);
    return ft == BACKEND_S ? tlr_widen_add(w, wide, from, to, n)
                           : w->be->fp16->cast_to_single(w->ctx, n, 1, from, n, to, n);
}

static void *number(backend_type t, const void *p, int64_t k) {
    return (char *)(uintptr_t)p + k * (int64_t)backend_size(t);
}

/* Where tile rows i0 .. i1 of a block column stand: U of all side by side, V of a tile column after
 * that of another, each in these rows. */
typedef struct {
    backend_type type;
    void *u, *v;
    int64_t i0, i1;
} stand;

/* Side by side with nothing between u and v. */
static stand packed(const tlr *l, const panel *p, void *at, int64_t begin, int64_t i0, int64_t i1) {
    void *u = number(tlr_kept(l), at, begin);
    return (stand){tlr_kept(l), u,
                   number(tlr_kept(l), u, panel_ubegin(l, p, i1) - panel_ubegin(l, p, i0)), i0, i1};
}

/* As products use them. */
static stand whole(const panel *p, backend_type t) {
    return t == BACKEND_D ? (stand){t, p->u, p->v, p->r0, p->r1}
                          : (stand){t, p->fp32, p->fp32 + p->kept_v, p->r0, p->r1};
}

/* Tile rows j0 .. j1 from one place to the other. */
static status convert(tlr_work *w, const tlr *l, const panel *p, const stand *from, const stand *to,
                      int64_t j0, int64_t j1) {
    widen_list wide = {.count = 0};
    int64_t at = 0, there = 0;
    status st;
    TRY(move(w, &wide, from->type,
             number(from->type, from->u, panel_ubegin(l, p, j0) - panel_ubegin(l, p, from->i0)),
             to->type, number(to->type, to->u, panel_ubegin(l, p, j0) - panel_ubegin(l, p, to->i0)),
             panel_ubegin(l, p, j1) - panel_ubegin(l, p, j0)));
    for (int64_t c = p->c0; c < p->c1; c++) {
        TRY(move(w, &wide, from->type,
                 number(from->type, from->v, at + v_numbers(l, p, c, from->i0, j0)), to->type,
                 number(to->type, to->v, there + v_numbers(l, p, c, to->i0, j0)),
                 v_numbers(l, p, c, j0, j1)));
        at += v_numbers(l, p, c, from->i0, from->i1);
        there += v_numbers(l, p, c, to->i0, to->i1);
    }
    st = tlr_widen_run(w, &wide);
done:
    return st;
}

/* All blocks of member r between what it keeps and a place for the whole block column. */
static status convert_member(tlr_work *w, const tlr *l, int64_t q, int r, void *kept,
                             const stand *all, bool to_kept) {
    const panel *p = l->panel + q;
    int64_t begin = 0, i0, i1;
    status st = MOAO_OK;
    for (int64_t k = r; k < tlr_parts(l); k += l->spread->m.size) {
        tlr_part(l, q, k, &i0, &i1);
        const stand block = packed(l, p, kept, begin, i0, i1);
        TRY(to_kept ? convert(w, l, p, all, &block, i0, i1)
                    : convert(w, l, p, &block, all, i0, i1));
        begin += row_numbers(l, p, i0, i1);
    }
done:
    return st;
}

/* --- a block column that is finished --- */

status tlr_distributed_open(tlr *l, const tlr_procs *m) {
    status st;
    if (!l->o.distributed || !m || m->size < 2)
        return MOAO_OK;
    TRY(ALLOC(l->spread, 1, "spread factor"));
    l->spread->m = *m;
    for (int k = 0; k < 2; k++)
        TRY(ALLOC(l->spread->rows[k].begin, (size_t)l->panels, "rows of block columns"));
done:
    return st;
}

void tlr_distributed_close(tlr *l) {
    for (int k = 0; l->spread && k < 2; k++) {
        l->be->release(l->ctx, l->spread->rows[k].at);
        free(l->spread->rows[k].begin);
    }
    if (l->spread)
        l->be->release(l->ctx, l->spread->message);
    free(l->spread);
    l->spread = NULL;
}

double tlr_distributed_elsewhere(const tlr *l, int64_t panels) {
    double bytes = 0;
    for (int64_t q = 0; l->spread && q < panels; q++)
        for (int r = 0; r < l->spread->m.size; r++)
            if (r != l->spread->m.rank)
                bytes += (double)((size_t)member_numbers(l, q, r) * kept_size(l));
    return bytes;
}

/* Largest modulus of what this member keeps of u and of v. Waits. */
static status bounds(tlr_work *w, const tlr *l, int64_t q, double most[2]) {
    const panel *p = l->panel + q;
    int64_t i0, i1;
    status st = MOAO_OK;
    most[0] = most[1] = 0;
    for (int64_t k = l->spread->m.rank; k < tlr_parts(l); k += l->spread->m.size) {
        double here[2];
        tlr_part(l, q, k, &i0, &i1);
        const int64_t nu = panel_ubegin(l, p, i1) - panel_ubegin(l, p, i0),
                      nv = row_numbers(l, p, i0, i1) - nu;
        const float *u = number(BACKEND_S, p->kept, block_begin(l, q, k));
        TRY(tlr_store_bounds(w, (int64_t[2]){nu, nv}, (const float *[2]){u, u + nu}, here));
        for (int x = 0; x < 2; x++)
            most[x] = here[x] > most[x] ? here[x] : most[x];
    }
done:
    return st;
}

/* Those of all members. */
static status share_bounds(tlr_work *w, const tlr *l, int64_t q, status local) {
    panel *p = l->panel + q;
    status st = local == MOAO_OK ? bounds(w, l, q, p->most) : local;
    int64_t bits[2] = {tlr_bits_of(p->most[0]), tlr_bits_of(p->most[1])};
    st = tlr_merge(&l->spread->m, st, bits, 2);
    for (int x = 0; x < 2; x++)
        p->most[x] = tlr_number_of(bits[x]);
    return st;
}

static status keep(tlr_work *w, tlr *l, int64_t q) {
    panel *p = l->panel + q;
    const int64_t n = member_numbers(l, q, l->spread->m.rank);
    const stand made = {BACKEND_D, p->u, p->v, p->r0, p->r1};
    void *room = NULL;
    status st;
    p->kept_v = tlr_store_begin_of_v(l, p);
    TRY(l->be->alloc(l->ctx, (size_t)largest(n, 1) * kept_size(l), &room));
    p->kept = room;
    p->bytes = (double)((size_t)largest(tlr_store_numbers(l, p), 1) * kept_size(l)) +
               8.0 * (double)(p->width * p->width); /* as where one has all of it */
    st = convert_member(w, l, q, l->spread->m.rank, room, &made, true);
done:
    return st;
}

status tlr_distributed_store(tlr_work *w, tlr *l, int64_t q) {
    panel *p = l->panel + q;
    status st = keep(w, l, q);
    if (tlr_takes_split(l))
        st = share_bounds(w, l, q, st);
    if (st != MOAO_OK) { /* u and v are still the panel's own */
        tlr_store_release(l, p);
        return st;
    }
    tlr_panel_give(l, p);
    return st;
}

/* --- what updates use --- */

/* The owner's rows, of its block k, to the message. */
static status pack_rows(tlr_work *w, const tlr *l, const some_rows *r, int64_t k) {
    const int64_t j0 = l->panel[r->p].c0, j1 = l->panel[r->p].c1;
    int64_t i0, i1;
    status st = MOAO_OK;
    for (int64_t q = r->q0; q < r->q1; q++) {
        const panel *p = l->panel + q;
        tlr_part(l, q, k, &i0, &i1);
        const stand mine = packed(l, p, p->kept, block_begin(l, q, k), i0, i1),
                    message = packed(l, p, r->at, r->begin[q], j0, j1);
        TRY(convert(w, l, p, &mine, &message, j0, j1));
    }
done:
    return st;
}

status tlr_distributed_gather(tlr_work *w, const tlr *l, int64_t q0, int64_t q1, int64_t p) {
    if (!l->spread || q0 >= q1)
        return MOAO_OK;
    const tlr_procs *m = &l->spread->m;
    some_rows *r = &l->spread->rows[q1 == p];
    const int64_t k = l->panel[p].c0 / l->block, owner = k % m->size;
    int64_t n = 0;
    status st;
    for (int64_t q = q0; q < q1; q++) {
        r->begin[q] = n;
        n += row_numbers(l, l->panel + q, l->panel[p].c0, l->panel[p].c1);
    }
    r->p = p;
    r->q0 = q0;
    r->q1 = q1;
    st = tlr_store_room(w, &r->at, &r->bytes, (size_t)n * kept_size(l));
    if (st == MOAO_OK && owner == m->rank)
        st = pack_rows(w, l, r, k);
    TRY(tlr_merge(m, st, NULL, 0));
    if (n > 0)
        st = m->bcast(m->arg, r->at, (size_t)n * kept_size(l), (int)owner);
done:
    return st;
}

/* Rows j0 .. j1, of block k, to the place in w; *found: whether they are at hand. */
static status bring(tlr_work *w, const tlr *l, backend_type t, int64_t q, int64_t k, int64_t j0,
                    int64_t j1, bool *found) {
    const panel *p = l->panel + q;
    const stand all = whole(p, t);
    stand from = {0};
    int64_t i0, i1;
    *found = k % l->spread->m.size == l->spread->m.rank;
    if (*found) {
        tlr_part(l, q, k, &i0, &i1);
        from = packed(l, p, p->kept, block_begin(l, q, k), i0, i1);
    }
    for (int x = 0; x < 2 && !*found; x++) {
        const some_rows *r = &l->spread->rows[x];
        const panel *there = l->panel + r->p;
        *found = r->q0 <= q && q < r->q1 && there->c0 <= j0 && j1 <= there->c1;
        if (*found)
            from = packed(l, p, r->at, r->begin[q], there->c0, there->c1);
    }
    return *found ? convert(w, l, p, &from, &all, j0, j1) : MOAO_OK;
}

status tlr_distributed_rows(tlr_work *w, const tlr *l, backend_type t, int64_t q, int64_t i0,
                            int64_t i1) {
    panel *p = l->panel + q;
    status st;
    TRY(tlr_store_place(w, l, t, q));
    bool *const there = w->used.row;
    for (int64_t i = largest(i0, p->r0), end; i < i1; i = end) {
        const int64_t k = i / l->block;
        for (end = i + 1;
             end < i1 && end / l->block == k && there[end - p->r0] == there[i - p->r0];)
            end++;
        bool found = there[i - p->r0];
        if (!found)
            TRY(bring(w, l, t, q, k, i, end, &found));
        if (!found)
            return status_fail(MOAO_INTERNAL, "rows of a spread factor are not at hand");
        memset(there + (i - p->r0), true, (size_t)(end - i) * sizeof *there);
    }
done:
    return st;
}

/* --- rounds --- */

status tlr_distributed_begin(tlr_work *w, const tlr *l, backend_type t, int64_t passes,
                             const char *forms, int64_t panels) {
    tlr_distributed *s = l->spread;
    int64_t most = 0;
    void *room = NULL;
    status st = MOAO_OK;
    if (!s)
        return st;
    s->type = t;
    s->forms = forms;
    s->panels = panels;
    s->turn = 0;
    tlr_store_forget(w); /* what is there has rows of other use */
    for (int64_t q = 0; q < panels; q++) {
        for (int r = 0; r < s->m.size; r++)
            most = largest(most, member_numbers(l, q, r));
        st = st == MOAO_OK ? tlr_store_place(w, l, t, q) : st; /* room for the largest */
    }
    if (st == MOAO_OK)
        st = l->be->alloc(l->ctx, (size_t)largest(most, 1) * kept_size(l), &room);
    s->message = room;
    st = tlr_merge(&s->m, st, &passes, 1);
    s->turns = st == MOAO_OK ? passes * (int64_t)strlen(forms) * panels : 0;
    if (st != MOAO_OK) {
        l->be->release(l->ctx, s->message);
        s->message = NULL;
    }
    return st;
}

/* What member r keeps of block column q comes to all; it itself has it. Returns where it is. */
static void *send(const tlr *l, int64_t q, int r, int64_t n, status *st) {
    const tlr_procs *m = &l->spread->m;
    void *p = r == m->rank ? l->panel[q].kept : l->spread->message;
    if (n > 0)
        *st = m->bcast(m->arg, p, (size_t)n * kept_size(l), r);
    return p;
}

/* The block column whose turn it is. */
static int64_t whose_turn(const tlr_distributed *s) {
    const int64_t k = s->turn % s->panels;
    const char form = s->forms[s->turn / s->panels % (int64_t)strlen(s->forms)];
    return form == 'T' ? k : s->panels - 1 - k;
}

/* It comes from all members; w: and to its place there, NULL: it is not used. */
static status take_turn(tlr_work *w, const tlr *l) {
    tlr_distributed *s = l->spread;
    const int64_t q = whose_turn(s);
    const panel *p = l->panel + q;
    stand all = {0};
    status st = MOAO_OK;
    s->turn++;
    if (w && (st = tlr_store_place(w, l, s->type, q)) == MOAO_OK)
        all = whole(p, s->type);
    for (int r = 0; r < s->m.size; r++) {
        status now = MOAO_OK;
        void *kept = send(l, q, r, member_numbers(l, q, r), &now);
        st = st == MOAO_OK ? now : st;
        if (w && st == MOAO_OK)
            st = convert_member(w, l, q, r, kept, &all, false);
    }
    if (w && st == MOAO_OK)
        memset(w->used.row, true, (size_t)(p->r1 - p->r0) * sizeof *w->used.row);
    return st;
}

status tlr_distributed_next(tlr_work *w, const tlr *l, int64_t q) {
    const tlr_distributed *s = l->spread;
    if (!s)
        return MOAO_OK;
    if (s->turn >= s->turns || whose_turn(s) != q)
        return status_fail(MOAO_INTERNAL, "block columns of a distributed factor are out of turn");
    return take_turn(w, l);
}

status tlr_distributed_end(tlr_work *w, const tlr *l, status local) {
    tlr_distributed *s = l->spread;
    status st = local;
    if (!s)
        return st;
    while (s->turn < s->turns) {
        const status now = take_turn(NULL, l);
        st = st == MOAO_OK ? now : st;
    }
    if (st == MOAO_OK)
        st = l->be->sync(l->ctx);
    tlr_store_forget(w);
    l->be->release(l->ctx, s->message);
    s->message = NULL;
    s->turns = 0;
    return tlr_merge(&s->m, st, NULL, 0);
}
