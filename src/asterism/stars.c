#include "asterism/stars.h"

#include "base/file.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { RA, DEC, X, Y, MAGNITUDE, NAME, COLUMNS };
enum { FIELDS = 200, WORD = 64 };

static const double ARCSEC = M_PI / 648000;

typedef struct {
    const char *path;
    int line;
    int n;               /* fields of the line */
    char (*field)[WORD]; /* [FIELDS] */
    int column[COLUMNS]; /* where each stands, -1: nowhere */
    int ncolumn;         /* 0: no names seen yet */
} reader;

static status bad(const reader *r, const char *what) {
    return status_fail(MOAO_INPUT, "%s:%d: %s", file_shown(r->path), r->line, what);
}

/* Fields of a line: commas or blanks part them, double quotes hold them together. */
static void split(reader *r, const char *p, size_t len) {
    const char *end = p + len;
    const bool commas = memchr(p, ',', len) != NULL;
    r->n = 0;
    for (;;) {
        while (p < end && isspace((unsigned char)*p))
            p++;
        if (p == end || *p == '#' || r->n == FIELDS)
            return;
        const bool quoted = *p == '"';
        char *to = r->field[r->n++];
        size_t used = 0;
        for (p += quoted; p < end; p++) {
            if (quoted ? *p == '"'
                       : *p == ',' || *p == '#' || (!commas && isspace((unsigned char)*p)))
                break;
            if (used < WORD - 1)
                to[used++] = iscntrl((unsigned char)*p) ? ' ' : *p;
        }
        while (used > 0 && to[used - 1] == ' ')
            used--;
        to[used] = '\0';
        p += quoted && p < end;
        while (p < end && isspace((unsigned char)*p))
            p++;
        if (p < end && *p == ',') {
            p++;
            while (p < end && isspace((unsigned char)*p))
                p++;
            if (p == end && r->n < FIELDS) /* an empty last field */
                r->field[r->n++][0] = '\0';
        }
    }
}

/* The line of column names. */
static status take_names(reader *r) {
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
            if (strcasecmp(r->field[i], known[k].word) == 0 && r->column[known[k].column] < 0)
                r->column[known[k].column] = i;
    r->ncolumn = r->n;
    const bool sky = r->column[RA] >= 0 && r->column[DEC] >= 0;
    if (!sky && (r->column[X] < 0 || r->column[Y] < 0))
        return bad(
            r, "no columns ra and dec, nor x and y, expected a first line that names the columns; "
               "moao-stars converts FITS, VOTable and other tables");
    return MOAO_OK;
}

static bool number(const char *text, double *v) {
    char *end;
    *v = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*v);
}

static status take_star(reader *r, ast_star *a) {
    const int *at = r->column;
    double v[2];
    *a = (ast_star){.ra = NAN, .dec = NAN, .xy = {NAN, NAN}, .magnitude = NAN};
    if (r->n != r->ncolumn)
        return bad(r, "not as many values as there are columns");
    if (at[RA] >= 0 && at[DEC] >= 0) {
        if (!sky_read_angle(r->field[at[RA]], true, &a->ra) ||
            !sky_read_angle(r->field[at[DEC]], false, &a->dec) || fabs(a->dec) > M_PI / 2)
            return bad(r, "ra or dec is no coordinate, expected degrees, or hh:mm:ss and dd:mm:ss");
    } else {
        for (int i = 0; i < 2; i++) {
            if (!number(r->field[at[X + i]], &v[i]) || fabs(v[i]) > 36000)
                return bad(r, "x or y is no number, expected arcsec");
            a->xy[i] = v[i] * ARCSEC;
        }
    }
    if (at[MAGNITUDE] >= 0 && !number(r->field[at[MAGNITUDE]], &a->magnitude)) {
        const char *word = r->field[at[MAGNITUDE]];
        if (*word != '\0' && strcasecmp(word, "nan") != 0 && strcmp(word, "--") != 0)
            return bad(r, "the magnitude is no number");
        a->magnitude = NAN;
    }
    if (at[NAME] >= 0)
        snprintf(a->name, sizeof a->name, "%.31s", r->field[at[NAME]]);
    return MOAO_OK;
}

status ast_stars_read(const char *path, bool magnitudes, ast_stars *s, int *without) {
    reader r = {.path = path};
    char *all = NULL;
    size_t lines = 1;
    status st;
    *s = (ast_stars){0};
    *without = 0;
    const char *why = file_unreadable(path);
    if (why != NULL)
        return status_fail(MOAO_INPUT, "%s: %s, expected a table with a line of column names",
                           file_shown(path), why);
    TRY(file_read_lines(path, &all));
    for (const char *p = all; *p != '\0'; p++)
        lines += *p == '\n';
    TRY(ALLOC(s->v, lines, "stars"));
    TRY(ALLOC(r.field, FIELDS, "fields of a line"));
    for (const char *p = all; *p != '\0';) {
        const size_t len = strcspn(p, "\n");
        r.line++;
        split(&r, p, len);
        p += len + (p[len] == '\n');
        if (r.n == 0)
            continue;
        if (r.ncolumn == 0) {
            TRY(take_names(&r));
            continue;
        }
        ast_star *a = &s->v[s->n];
        TRY(take_star(&r, a));
        if (a->name[0] == '\0')
            snprintf(a->name, sizeof a->name, "star %d", s->n + 1);
        if (magnitudes && isnan(a->magnitude))
            ++*without;
        else
            s->n++;
    }
    if (r.ncolumn == 0)
        st = bad(&r, "no table, expected a line of column names and one line a star");
    s->celestial = r.ncolumn > 0 && r.column[RA] >= 0 && r.column[DEC] >= 0;
done:
    free(r.field);
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
