/* Tile low-rank matrices in files (moao/tlr_file.h). In this order, in 8 byte words: the head,
 * first [nt + 1] and perm [n] of the layout, kind and rank of each tile of each block column, of
 * each block column u, v and the block on the diagonal, the sum. Of a factor in single precision
 * (version 2) u and v are pairs of numbers in a word, each filled up to a whole one by a 0. */
#include "internal.h"
#include "linalg/core/number_file.h"
#include "moao/tlr_file.h"

#include <math.h>
#include <stdlib.h>

enum { DOUBLE = 1, SINGLE = 2, BLOCK = 1 << 16 }; /* versions; numbers at a time */
/* Bits of head.form; of version 1 it is FACTOR or 0. Above them the terms of solves. */
enum { FACTOR = 1, FP32 = 2, MIXED = 4, TERMS = 8 };
#define WHAT "a tile low-rank matrix"

/* After the two words that say what it is. */
typedef struct {
    int64_t n, nt, width, form;
    double tau;
    uint64_t seed;
} head;

typedef struct {
    number_file f;
    double *host; /* [BLOCK] */
    float *fp32;  /* [BLOCK] */
} stream;

/* So many numbers of s->host, in single precision in the file. */
static status narrow_words(stream *s, int64_t count) {
    status st = MOAO_OK;
    if (s->f.writing)
        for (int64_t k = 0; k < count + count % 2; k++)
            s->fp32[k] = k < count ? (float)s->host[k] : 0;
    TRY(number_file_words(&s->f, s->fp32, (size_t)(count + 1) / 2));
    for (int64_t k = 0; !s->f.writing && k < count; k++)
        s->host[k] = s->fp32[k];
done:
    return st;
}

/* Numbers between the file and doubles in the backend's memory; those read have to be finite. */
static status numbers(stream *s, const tlr *a, bool fp32, double *there, int64_t count) {
    status st = MOAO_OK;
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t now = count - i < BLOCK ? count - i : BLOCK, bytes = 8 * now;
        if (s->f.writing) {
            TRY(a->be->copy(a->ctx, s->host, bytes, there + i, bytes, bytes, 1));
            TRY(a->be->sync(a->ctx));
        }
        TRY(fp32 ? narrow_words(s, now) : number_file_words(&s->f, s->host, (size_t)now));
        for (int64_t k = 0; !s->f.writing && k < now; k++)
            if (!isfinite(s->host[k]))
                TRY(status_fail(MOAO_INPUT, "%s: a number of its tiles is %g", s->f.path,
                                s->host[k]));
        if (!s->f.writing) {
            TRY(a->be->copy(a->ctx, there + i, bytes, s->host, bytes, bytes, 1));
            TRY(a->be->sync(a->ctx));
        }
    }
done:
    return st;
}

/* Numbers of u (side 0) and of v of a block column whose tiles are known. */
static int64_t count_of(const tlr *a, const panel *p, int side) {
    int64_t count = 0;
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            if (side == 0)
                count += t->rank * tlr_extent(a->rows, i);
            else if (t->kind == TLR_LOWRANK)
                count += t->rank * tlr_extent(a->cols, k);
        }
    return count;
}

static status tiles(stream *s, const tlr *a, const panel *p) {
    status st = MOAO_OK;
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            tlr_tile *t = panel_tile(p, i, k);
            const int64_t m = tlr_extent(a->rows, i), n = tlr_extent(a->cols, k);
            int32_t word[2] = {(int32_t)t->kind, t->rank};
            TRY(number_file_words(&s->f, word, 1));
            const int64_t most = word[0] == TLR_EMPTY   ? 0
                                 : word[0] == TLR_DENSE ? n
                                 : m > n                ? m
                                                        : n;
            if (word[0] < TLR_EMPTY || word[0] > TLR_DENSE || word[1] < 0 || word[1] > most ||
                (word[0] == TLR_DENSE && word[1] != n))
                TRY(status_fail(MOAO_INPUT, "%s: tile (%lld, %lld) has kind %d and rank %d",
                                s->f.path, (long long)i, (long long)k, (int)word[0], (int)word[1]));
            if (!s->f.writing)
                *t = (tlr_tile){.kind = (tlr_kind)word[0], .rank = word[1], .dropped = NAN};
        }
done:
    return st;
}

/* Whether u and v are in single precision: of a factor alone. */
static bool in_fp32(const tlr *a) {
    return a->factor && a->o.fp32;
}

/* Words of u or v in the file. */
static int64_t words_of(const tlr *a, int64_t count) {
    return in_fp32(a) ? (count + 1) / 2 : count;
}

/* u, v and the block on the diagonal of block column q; those in another form than doubles pass
 * through doubles, which holds every one of them. */
static status panel_numbers(stream *s, tlr_work *w, tlr *a, int64_t q) {
    panel *p = a->panel + q;
    status st;
    TRY(s->f.writing ? tlr_store_fetch(w, a, q, -1) : tlr_panel_reserve(a, q));
    TRY(numbers(s, a, in_fp32(a), p->u, count_of(a, p, 0)));
    TRY(numbers(s, a, in_fp32(a), p->v, count_of(a, p, 1)));
    TRY(numbers(s, a, false, p->diag, p->width * p->width));
    if (!s->f.writing)
        TRY(tlr_store_panel(w, NULL, a, q));
done:
    return st;
}

/* All after the layout; of a matrix that is read, room is taken when its ranks are known to fit
 * into what is left of the file. */
static status matrix(stream *s, tlr *a) {
    const int64_t rest = s->f.left;
    double need = 8;
    tlr_work w;
    status st = MOAO_OK;
    tlr_work_open(&w, a->be, a->ctx);
    for (int64_t q = 0; q < a->panels; q++)
        TRY(tiles(s, a, a->panel + q));
    for (int64_t q = 0; q < a->panels; q++) {
        const panel *p = a->panel + q;
        const int64_t some =
            words_of(a, count_of(a, p, 0)) + words_of(a, count_of(a, p, 1)) + p->width * p->width;
        need += 8 * ((double)some + (double)(p->r1 - p->r0) * (double)(p->c1 - p->c0));
    }
    if (!s->f.writing && need != (double)rest)
        TRY(status_fail(MOAO_INPUT, "%s: its tiles take %.0f bytes, and it has %.0f for them",
                        s->f.path, need, (double)rest));
    for (int64_t q = 0; q < a->panels; q++)
        TRY(panel_numbers(s, &w, a, q));
    if (!s->f.writing)
        tlr_panel_no_spare(a);
    TRY(a->be->sync(a->ctx));
done:
    tlr_work_close(&w);
    return st;
}

static status write_all(stream *s, const tlr *a) {
    const bool fp32 = in_fp32(a);
    head h = {.n = a->rows->n,
              .nt = a->rows->nt,
              .width = a->o.width,
              .form = (a->factor ? FACTOR : 0) | (fp32 ? FP32 : 0) |
                      (fp32 && a->o.mixed ? MIXED : 0) | (fp32 ? TERMS * a->o.terms : 0),
              .tau = a->o.tau,
              .seed = a->o.seed};
    uint32_t version = fp32 ? SINGLE : DOUBLE;
    status st;
    TRY(number_file_head(&s->f, "MOAOTLR", &version, version, WHAT));
    TRY(number_file_words(&s->f, &h, sizeof h / 8));
    TRY(number_file_words(&s->f, a->rows->first, (size_t)h.nt + 1));
    TRY(number_file_words(&s->f, a->rows->perm, (size_t)h.n));
    TRY(matrix(s, (tlr *)a)); /* which is not changed by writing */
    st = number_file_finish(&s->f);
done:
    return st;
}

status moao_tlr_save(const tlr *a, const char *path) {
    stream s = {0};
    status st;
    if (!a->symmetric || a->spread || (a->factor && a->o.fp16))
        return status_fail(MOAO_INPUT,
                           "%s: a matrix that is rectangular, distributed or has columns in FP16 "
                           "is not saved",
                           path);
    TRY(ALLOC(s.host, BLOCK, "a part of a file"));
    TRY(ALLOC(s.fp32, BLOCK, "a part of a file"));
    TRY(number_file_create(&s.f, path));
    st = write_all(&s, a);
done:
    number_file_close(&s.f);
    free(s.host), free(s.fp32);
    return st;
}

/* Whether a file of that version may say so. */
static bool form_ok(int64_t form, uint32_t version) {
    const int64_t terms = form / TERMS;
    return version == DOUBLE ? form == 0 || form == FACTOR
                             : form > 0 && (form & FACTOR) && (form & FP32) && terms <= 3 &&
                                   (terms == 0 || (form & MIXED));
}

/* A head that a file of so many bytes may have. */
static status check_head(const stream *s, const head *h, uint32_t version, int64_t size) {
    if (!form_ok(h->form, version))
        return status_fail(MOAO_INPUT, "%s: numbers of form %lld do not fit version %u", s->f.path,
                           (long long)h->form, (unsigned)version);
    if (h->n < 0 || h->n > size / 8 || h->n > INT32_MAX || h->nt < (h->n > 0) || h->nt > h->n ||
        h->width < 1 || !(h->tau >= 0 && isfinite(h->tau)))
        return status_fail(MOAO_INPUT,
                           "%s: %lld rows, %lld tiles and block columns of %lld do not fit %lld "
                           "bytes",
                           s->f.path, (long long)h->n, (long long)h->nt, (long long)h->width,
                           (long long)size);
    return MOAO_OK;
}

/* Boundaries that increase up to n, and an order that has every row once. */
static status read_layout(stream *s, const head *h, tlr_layout *l) {
    char *seen = NULL;
    status st;
    TRY(ALLOC(seen, (size_t)h->n + 1, "order of rows"));
    l->n = h->n, l->nt = h->nt;
    TRY(number_file_array(&s->f, &l->first, h->nt + 1));
    TRY(number_file_array(&s->f, &l->perm, h->n));
    bool good = l->first[0] == 0 && l->first[h->nt] == h->n;
    for (int64_t i = 0; i < h->nt; i++)
        good = good && l->first[i + 1] > l->first[i] && l->first[i + 1] <= h->n;
    for (int64_t i = 0; i < h->n && good; i++) {
        good = l->perm[i] >= 0 && l->perm[i] < h->n && !seen[l->perm[i]];
        if (good)
            seen[l->perm[i]] = 1;
    }
    if (!good)
        st = status_fail(MOAO_INPUT, "%s: its tiles or the order of its rows are none", s->f.path);
done:
    free(seen);
    return st;
}

/* Whether the words of all tiles can be in so many bytes, before memory for them is taken. */
static status check_tiles(const stream *s, const head *h, const tlr_layout *l, int64_t rest) {
    int64_t b = 1;
    double words = 0;
    for (int64_t i = 0; i < l->nt; i++)
        b = tlr_extent(l, i) > b ? tlr_extent(l, i) : b;
    const int64_t step = h->width / b > 1 ? h->width / b : 1;
    for (int64_t k = 0; k < l->nt; k += step)
        words += k + step < l->nt ? (double)step * (double)(l->nt - k - step) : 0;
    if (8 * words > (double)rest)
        return status_fail(MOAO_INPUT, "%s: %.0f tiles in %.0f bytes: it is cut short", s->f.path,
                           words, (double)rest);
    return MOAO_OK;
}

static status read_all(stream *s, const backend *be, backend_ctx *ctx, tlr_layout *layout,
                       tlr **out, bool *factor, double *tau) {
    head h;
    uint32_t version;
    status st;
    TRY(number_file_head(&s->f, "MOAOTLR", &version, SINGLE, WHAT));
    TRY(number_file_words(&s->f, &h, sizeof h / 8));
    TRY(check_head(s, &h, version, s->f.size));
    TRY(read_layout(s, &h, layout));
    TRY(check_tiles(s, &h, layout, s->f.left));
    const tlr_options o = {.tau = h.tau,
                           .cut = -1,
                           .width = h.width,
                           .seed = h.seed,
                           .fp32 = h.form & FP32,
                           .mixed = h.form & MIXED,
                           .terms = (int)(h.form / TERMS)};
    TRY(tlr_new(be, ctx, layout, layout, true, &o, out));
    (*out)->factor = *factor = h.form & FACTOR;
    *tau = h.tau;
    TRY(matrix(s, *out));
    st = number_file_finish(&s->f);
done:
    return st;
}

status moao_tlr_load(const backend *be, backend_ctx *ctx, const char *path, tlr_layout *layout,
                     tlr **out, bool *factor, double *tau) {
    bool unread;
    double none;
    stream s = {0};
    status st;
    *layout = (tlr_layout){0};
    *out = NULL;
    TRY(ALLOC(s.host, BLOCK, "a part of a file"));
    TRY(ALLOC(s.fp32, BLOCK, "a part of a file"));
    TRY(number_file_open(&s.f, path));
    st = read_all(&s, be, ctx, layout, out, factor ? factor : &unread, tau ? tau : &none);
done:
    number_file_close(&s.f);
    free(s.host), free(s.fp32);
    if (st != MOAO_OK) {
        tlr_close(*out);
        *out = NULL;
        tlr_layout_free(layout);
    }
    return st;
}
