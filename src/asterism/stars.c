#include "asterism/stars.h"

#include "base/cells.h"
#include "base/decimal.h"
#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { RA, DEC, X, Y, MAGNITUDE, NAME, COLUMNS };
enum { FIELDS = 512 };

static const double ARCSEC = M_PI / 648000;

typedef struct {
    const char *path;
    int line;
    bool commas;         /* CSV */
    int n;               /* cells of the line */
    cell *cell;          /* [FIELDS] */
    int column[COLUMNS]; /* where each stands, -1: nowhere */
    int ncolumn;         /* 0: no names seen yet */
    int *at;             /* line of each star */
    ast_left_out *left;
} reader;

static status bad(const reader *r, const char *what) {
    return status_fail(MOAO_INPUT, "%s:%d: %s", file_shown(r->path), r->line, what);
}

static void leave_out(ast_left_out *left, ast_reason why, int line, const char *what,
                      const char *cell) {
    if (left->count[why]++ > 0)
        return;
    left->line[why] = line;
    snprintf(left->first[why], sizeof left->first[why], "%s '%.40s'", what, cell);
}

void ast_left_out_text(const ast_left_out *left, ast_reason why, char *out, size_t n) {
    const bool one = left->count[why] == 1;
    static const char *const what[AST_REASONS][2] = {
        {"row without a position is left out", "rows without a position are left out"},
        {"star without a magnitude is left out", "stars without a magnitude are left out"},
        {"row is a star of another row and counts once",
         "rows are stars of another row and count once"}};
    snprintf(out, n, "%d %s (%sline %d: %s)", left->count[why], what[why][!one],
             one ? "" : "the first in ", left->line[why], left->first[why]);
}

/* The line of column names. */
static status take_names(reader *r, bool magnitudes) {
    static const struct {
        const char *word;
        int column;
    } known[] = {
        {"ra", RA},         {"dec", DEC},   {"x", X},    {"y", Y}, {"magnitude", MAGNITUDE},
        {"mag", MAGNITUDE}, {"name", NAME}, {"id", NAME}};
    for (int i = 0; i < COLUMNS; i++)
        r->column[i] = -1;
    for (int i = 0; i < r->n; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcasecmp(r->cell[i].text, known[k].word) == 0 && r->column[known[k].column] < 0)
                r->column[known[k].column] = i;
    r->ncolumn = r->n;
    const bool sky = r->column[RA] >= 0 && r->column[DEC] >= 0;
    if (!sky && (r->column[X] < 0 || r->column[Y] < 0))
        return bad(
            r, "no columns ra and dec, nor x and y, expected a first line that names the columns; "
               "moao-stars converts FITS, VOTable and other tables");
    if (magnitudes && r->column[MAGNITUDE] < 0)
        return bad(r, "no column magnitude (or mag); moao-stars finds the bands of catalogues, and "
                      "makes a table with one");
    return MOAO_OK;
}

/* *there: whether the cells have a place; what stands for none is no mistake. */
static status take_place(reader *r, ast_star *a, bool *there) {
    const bool sky = r->column[RA] >= 0 && r->column[DEC] >= 0;
    static const char *const names[2][2] = {{"x", "y"}, {"ra", "dec"}};
    double v[2];
    *there = true;
    for (int i = 0; i < 2 && *there; i++) {
        const char *word = r->cell[r->column[(sky ? RA : X) + i]].text;
        double plain;
        const bool known =
            !sky ? decimal_read(word, &v[i]) && fabs(v[i]) <= 36000
                 : sky_read_angle(word, i == 0, &v[i]) &&
                       (i == 0 ? v[0] >= -M_PI && v[0] <= 2 * M_PI : fabs(v[1]) <= M_PI / 2);
        *there = known;
        if (!known && !cell_is_missing(word) && !(sky && decimal_read(word, &plain)))
            return bad(r, sky ? "ra or dec is no coordinate, expected degrees, or hh:mm:ss and "
                                "dd:mm:ss"
                              : "x or y is no number within 10 degrees, expected arcsec");
        if (!known)
            leave_out(r->left, AST_NO_PLACE, r->line, names[sky][i], word);
    }
    if (*there && sky)
        a->ra = v[0], a->dec = v[1];
    for (int i = 0; i < 2 && *there && !sky; i++)
        a->xy[i] = v[i] * ARCSEC;
    return MOAO_OK;
}

static status take_star(reader *r, bool magnitudes, ast_star *a, bool *taken) {
    const int *at = r->column;
    status st;
    *a = (ast_star){.ra = NAN, .dec = NAN, .xy = {NAN, NAN}, .magnitude = NAN};
    if (r->n != r->ncolumn)
        return bad(r, "not as many values as there are columns");
    TRY(take_place(r, a, taken));
    const char *word = at[MAGNITUDE] >= 0 ? r->cell[at[MAGNITUDE]].text : "";
    if (!decimal_read(word, &a->magnitude) && !cell_is_missing(word) && *taken)
        return bad(r, "the magnitude is no number");
    if (cell_is_missing(word) || !(a->magnitude >= AST_BRIGHTEST && a->magnitude <= AST_FAINTEST))
        a->magnitude = NAN;
    if (*taken && magnitudes && isnan(a->magnitude)) {
        leave_out(r->left, AST_NO_MAGNITUDE, r->line, "magnitude", word);
        *taken = false;
    }
    if (at[NAME] >= 0) {
        const char *name = r->cell[at[NAME]].text;
        size_t n = strlen(name) < sizeof a->name ? strlen(name) : sizeof a->name - 1;
        while (n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80) /* no part of a character */
            n--;
        memcpy(a->name, name, n);
    }
done:
    return st;
}

/* --- a star that is there twice --- */

typedef struct {
    const ast_star *star;
    int index;
} placed;

static double height(const ast_star *a) {
    return isnan(a->dec) ? a->xy[1] : a->dec;
}

static int by_height(const void *pa, const void *pb) {
    const placed *a = pa, *b = pb;
    const double x = height(a->star), y = height(b->star);
    return x != y ? (x > y) - (x < y) : a->index - b->index;
}

static bool is_same(const ast_star *a, const ast_star *b) {
    const double across =
        isnan(a->dec) ? a->xy[0] - b->xy[0] : remainder(a->ra - b->ra, 2 * M_PI) * cos(a->dec);
    return hypot(across, height(a) - height(b)) <= AST_TWICE_APART &&
           (fabs(a->magnitude - b->magnitude) < 0.005 || strcmp(a->name, b->name) == 0);
}

/* The later ones of equal stars leave the list. */
static status drop_twice(reader *r, ast_stars *s) {
    placed *p = NULL;
    bool *gone = NULL;
    int kept = 0;
    status st;
    TRY(ALLOC(p, (size_t)s->n + 1, "stars"));
    TRY(ALLOC(gone, (size_t)s->n + 1, "stars"));
    for (int i = 0; i < s->n; i++)
        p[i] = (placed){&s->v[i], i};
    qsort(p, (size_t)s->n, sizeof *p, by_height);
    for (int i = 0; i < s->n; i++)
        for (int j = i + 1; j < s->n && height(p[j].star) - height(p[i].star) <= AST_TWICE_APART &&
                            !gone[p[i].index];
             j++) {
            const int later = p[i].index > p[j].index ? p[i].index : p[j].index;
            gone[later] = gone[later] || (!gone[p[j].index] && is_same(p[i].star, p[j].star));
        }
    for (int i = 0; i < s->n; i++) {
        if (gone[i])
            leave_out(r->left, AST_TWICE, r->at[i], "name", s->v[i].name);
        else
            s->v[kept++] = s->v[i];
    }
    s->n = kept;
done:
    free(p);
    free(gone);
    return st;
}

/* --- a table --- */

static status read_line(reader *r, const char *p, size_t len, bool magnitudes, ast_stars *s) {
    bool taken;
    status st;
    if (r->ncolumn == 0)
        r->commas = cells_by_commas(p, len);
    r->n = cells_split(p, len, r->commas, r->cell, FIELDS);
    if (r->n < 0)
        return bad(r, "a double quote that is not closed, expected another one");
    if (r->n > FIELDS)
        return bad(r, "more than 512 columns, expected fewer; see moao-stars");
    if (r->n == 0)
        return MOAO_OK;
    if (r->ncolumn == 0)
        return take_names(r, magnitudes);
    ast_star *a = &s->v[s->n];
    TRY(take_star(r, magnitudes, a, &taken));
    r->at[s->n] = r->line;
    if (a->name[0] == '\0')
        snprintf(a->name, sizeof a->name, "star %d", s->n + 1);
    s->n += taken;
done:
    return st;
}

status ast_stars_read(const char *path, bool magnitudes, ast_stars *s, ast_left_out *left) {
    reader r = {.path = path, .left = left};
    char *all = NULL;
    size_t lines = 1;
    status st;
    *s = (ast_stars){0};
    *left = (ast_left_out){0};
    const char *why = file_unreadable(path);
    if (why != NULL)
        return status_fail(MOAO_INPUT, "%s: %s, expected a table with a line of column names",
                           file_shown(path), why);
    TRY(file_read_lines(path, &all));
    for (const char *p = all; *p != '\0'; p++)
        lines += *p == '\n';
    TRY(ALLOC(s->v, lines, "stars"));
    TRY(ALLOC(r.at, lines, "lines of stars"));
    TRY(ALLOC(r.cell, FIELDS, "cells of a line"));
    for (const char *p = all; *p != '\0';) {
        const size_t len = strcspn(p, "\n");
        r.line++;
        TRY(read_line(&r, p, len, magnitudes, s));
        p += len + (p[len] == '\n');
    }
    if (r.ncolumn == 0)
        st = bad(&r, "no table, expected a line of column names and one line a star");
    s->celestial = r.ncolumn > 0 && r.column[RA] >= 0 && r.column[DEC] >= 0;
    if (st == MOAO_OK && magnitudes)
        st = drop_twice(&r, s);
done:
    free(r.at);
    free(r.cell);
    free(all);
    return st;
}

void ast_stars_free(ast_stars *s) {
    free(s->v);
    *s = (ast_stars){0};
}

static int by_magnitude(const void *a, const void *b) {
    const ast_star *x = a, *y = b;
    if (x->magnitude != y->magnitude)
        return x->magnitude < y->magnitude ? -1 : 1;
    return strcmp(x->name, y->name);
}

status ast_stars_of_field(const ast_stars *all, const sky *sk, double radius, double limit,
                          int most, ast_stars *out) {
    status st = ALLOC(out->v, (size_t)all->n + 1, "stars of a field");
    out->n = 0;
    out->celestial = all->celestial;
    if (st != MOAO_OK)
        return st;
    if (all->celestial && (isnan(sk->ra) || isnan(sk->dec)))
        return status_fail(MOAO_INPUT,
                           "the stars are given by RA and Dec, expected sky.ra and sky.dec "
                           "in the parameters");
    for (int i = 0; i < all->n; i++) {
        ast_star a = all->v[i];
        if (!isnan(limit) && !(a.magnitude <= limit))
            continue;
        if (all->celestial && !sky_project(sk, a.ra, a.dec, a.xy))
            continue;
        if (!all->celestial && !isnan(sk->ra))
            sky_deproject(sk, a.xy, &a.ra, &a.dec);
        if (hypot(a.xy[0], a.xy[1]) <= radius)
            out->v[out->n++] = a;
    }
    qsort(out->v, (size_t)out->n, sizeof *out->v, by_magnitude);
    out->n = out->n < most ? out->n : most;
    return st;
}
