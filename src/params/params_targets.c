/* The targets: a grid, a list, or a file with columns. */
#include "base/cells.h"
#include "base/text.h"
#include "params_load.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_FIELDS = 256, MAX_NAME = 63 };
enum { COLUMN_X, COLUMN_Y, COLUMN_NAME, COLUMN_RA, COLUMN_DEC, COLUMNS };

typedef struct { /* a file while it is read */
    params_loader *l;
    const char *file;
    int line;
    bool header;           /* column names were seen */
    bool commas;           /* they are separated by commas: CSV */
    int ncolumn;           /* that they state */
    int column[COLUMNS];   /* where each stands, -1: nowhere */
    char unit[COLUMNS][8]; /* of bare numbers */
    bool any_name;
    text_list names; /* room for all lines */
} reader;

/* Column that a word names: x, y, name, ra, dec, or "x[mas]" with a unit; -1 for another word. */
static int column_of(const char *word, char unit[8]) {
    static const char *const known[] = {"x", "y", "name", "ra", "dec"};
    size_t n = strcspn(word, "[");
    unit[0] = '\0';
    for (int i = 0; i < COLUMNS; i++) {
        if (strlen(known[i]) != n || strncasecmp(known[i], word, n) != 0)
            continue;
        size_t len = strcspn(word + n + (word[n] == '['), "]");
        if (word[n] == '[' && (len > 7 || strcmp(word + n + 1 + len, "]") != 0))
            return -1;
        snprintf(unit, 8, "%.*s", word[n] == '[' ? (int)len : 0, word + n + 1);
        return i;
    }
    return -1;
}

/* Take a line as column names if it is one: x and y, or ra and dec, are among its words. In a
 * comment, where any words may stand, no other words must be. */
static bool take_header(reader *r, int n, const cell *f, bool comment) {
    int where[COLUMNS] = {-1, -1, -1, -1, -1};
    char unit[COLUMNS][8] = {"", "", "", "", ""}, one[8];
    for (int i = 0; i < n && n <= MAX_FIELDS; i++) {
        int k = column_of(f[i].text, one);
        if ((k < 0 && comment) || (k >= 0 && where[k] >= 0))
            return false;
        if (k < 0)
            continue;
        where[k] = i;
        memcpy(unit[k], one, sizeof one);
    }
    if ((where[COLUMN_X] < 0 || where[COLUMN_Y] < 0) &&
        (where[COLUMN_RA] < 0 || where[COLUMN_DEC] < 0))
        return false;
    r->header = true;
    r->ncolumn = n;
    memcpy(r->column, where, sizeof where);
    memcpy(r->unit, unit, sizeof unit);
    return true;
}

static status read_coordinate(const reader *r, const cell *f, int k, double *out) {
    const param_field *list = param_table_find(&params_main_table, "targets.list");
    ynode node = {.kind = YAML_TREE_SCALAR, .file = r->file, .line = r->line, .text = f->text};
    char text[MAX_NAME + 16];
    param_field real = *list;
    real.kind = KIND_real;
    node.column = f->at;
    if (r->unit[k][0] != '\0' && f->text[strspn(f->text, "+-.0123456789eE")] == '\0') {
        snprintf(text, sizeof text, "%s %s", f->text, r->unit[k]);
        node.text = text;
    }
    return param_real_read(&real, &node, "targets.file", out);
}

static status fail_line(const reader *r, int column, const char *what) {
    return yaml_tree_fail_at(r->file, r->line, column, "targets.file", "%s", what);
}

static bool starts_as_number(const char *s) {
    s += *s == '+' || *s == '-';
    s += *s == '.';
    return isdigit((unsigned char)*s);
}

static status check_fields(const reader *r, int n, const cell *f, size_t len) {
    char what[128];
    if (r->header && n != r->ncolumn) {
        snprintf(what, sizeof what, "%s%d field%s, expected %d as the column names say",
                 n > MAX_FIELDS ? "more than " : "", n > MAX_FIELDS ? MAX_FIELDS : n,
                 text_plural(n), r->ncolumn);
        return fail_line(r, n > r->ncolumn && r->ncolumn < MAX_FIELDS ? f[r->ncolumn].at : 1, what);
    }
    if (!r->header && n < 2) {
        snprintf(what, sizeof what, "%d number, expected x and y", n);
        return fail_line(r, (int)len + 1, what);
    }
    if (!r->header && r->l->par->targets_list.n == 0 && !starts_as_number(f[0].text) &&
        !starts_as_number(f[1].text))
        return fail_line(r, f[0].at, "words without x and y, expected numbers or column names");
    if (!r->header && n > 2 && starts_as_number(f[2].text))
        return fail_line(r, f[2].at, "more than two numbers, expected x and y and a name or none");
    if (!r->header && n > 3)
        return fail_line(r, f[3].at,
                         "more than x, y and a name, expected a name with blanks in double quotes");
    return MOAO_OK;
}

/* Direction of a target that is given by RA and Dec. */
static status read_celestial(const reader *r, const cell *f, double xy[2]) {
    const cell *ra = &f[r->column[COLUMN_RA]], *dec = &f[r->column[COLUMN_DEC]];
    double a, d;
    sky s;
    params_sky(r->l->par, &s);
    if (!params_given(s.ra))
        return fail_line(r, ra->at,
                         "ra and dec without sky.ra and sky.dec, expected the field's "
                         "centre in the parameters");
    if (!sky_read_angle(ra->text, true, &a))
        return fail_line(r, ra->at, "no right ascension, expected hh:mm:ss, or degrees");
    if (!sky_read_angle(dec->text, false, &d) || fabs(d) > M_PI / 2)
        return fail_line(r, dec->at, "no declination, expected dd:mm:ss, or degrees");
    if (!sky_project(&s, a, d, xy) || hypot(xy[0], xy[1]) > 36000 / ARCSEC_PER_RAD)
        return fail_line(r, ra->at, "more than 10 degrees from the field's centre, expected less");
    return MOAO_OK;
}

static status take_target(reader *r, int n, const cell *f, size_t len) {
    point_list *out = &r->l->par->targets_list;
    const int name = r->header ? r->column[COLUMN_NAME] : n > 2 ? 2 : -1;
    status st;
    TRY(check_fields(r, n, f, len));
    if (r->header && r->column[COLUMN_X] < 0)
        TRY(read_celestial(r, f, out->v[out->n]));
    for (int k = 0; k < 2 && !(r->header && r->column[COLUMN_X] < 0); k++)
        TRY(read_coordinate(r, &f[r->header ? r->column[k] : k], k, &out->v[out->n][k]));
    if (name >= 0 && strlen(f[name].text) > MAX_NAME)
        return fail_line(r, f[name].at, "a name longer than 63 bytes, expected less");
    if (name >= 0 && !text_is_utf8(f[name].text))
        return fail_line(r, f[name].at, "a name that is not UTF-8 text, expected letters");
    if ((r->names.v[out->n] = strdup(name >= 0 ? f[name].text : "")) == NULL)
        return status_fail(MOAO_MEMORY, "no memory for names of targets");
    r->any_name = r->any_name || (name >= 0 && f[name].text[0] != '\0');
    r->names.n = ++out->n;
done:
    return st;
}

static status read_line(reader *r, const char *line, size_t len) {
    cell f[MAX_FIELDS];
    const bool first = !r->header && r->l->par->targets_list.n == 0;
    const bool csv = first && cells_by_commas(line, len);
    int n = cells_split(line, len, r->commas || csv, f, MAX_FIELDS);
    size_t hash = strspn(line, " \t\r");
    if (n < 0)
        return fail_line(r, 1, "a double quote that is not closed, expected another one");
    if (r->line == 1 && (strncmp(line, "# %ECSV", 7) == 0 || strncmp(line, "#%ECSV", 6) == 0))
        return fail_line(r, 1,
                         "an ECSV table, whose units are not read here, expected a plain one, "
                         "as moao-stars makes of it");
    if (n == 0 && first && hash < len && line[hash] == '#') {
        hash += 1;
        n = cells_split(line + hash, len - hash, csv, f, MAX_FIELDS);
        r->commas = take_header(r, n > 0 ? n : 0, f, true) && csv;
        return MOAO_OK;
    }
    if (n == 0)
        return MOAO_OK;
    if (first && take_header(r, n, f, false)) {
        r->commas = csv;
        return MOAO_OK;
    }
    if (csv) /* x and y of a file without names of columns */
        n = cells_split(line, len, false, f, MAX_FIELDS);
    return n < 0 ? fail_line(r, 1, "a double quote that is not closed, expected another one")
                 : take_target(r, n, f, len);
}

static status check_units(const reader *r) {
    char why[256], text[16];
    double v;
    for (int k = 0; k < COLUMNS && r->header; k++) {
        snprintf(text, sizeof text, "1 %s", r->unit[k]);
        const bool celestial = k == COLUMN_RA || k == COLUMN_DEC;
        if (r->unit[k][0] != '\0' &&
            (k == COLUMN_NAME || (celestial && strcmp(r->unit[k], "deg")) ||
             !units_parse(text, DIM_ANGLE, "arcsec", false, &v, why, sizeof why)))
            return fail_line(r, 1,
                             "a column's unit is not known, expected an angle as in x[arcsec]");
    }
    return MOAO_OK;
}

static void free_names(text_list *v) {
    for (int i = 0; i < v->n; i++)
        free(v->v[i]);
    free(v->v);
    *v = (text_list){0};
}

static status read_lines(reader *r, const params_file *f) {
    point_list *out = &r->l->par->targets_list;
    size_t lines = 1;
    status st;
    for (size_t i = 0; i < f->len; i++)
        lines += f->data[i] == '\n';
    TRY(ALLOC(out->v, lines, "targets"));
    TRY(ALLOC(r->names.v, lines, "names of targets"));
    r->line = 1;
    for (const char *p = f->data, *end = f->data + f->len; p < end; r->line++) {
        size_t len = strcspn(p, "\n");
        bool before = r->header;
        TRY(read_line(r, p, len));
        if (r->header && !before)
            TRY(check_units(r));
        p += len + 1;
    }
    if (out->n == 0)
        st = yaml_tree_fail_at(r->file, 1, 1, "targets.file",
                               "no target, expected x and y on a line");
done:
    return st;
}

static status read_target_file(params_loader *l, const ynode *at) {
    const char *name = l->par->targets_file;
    const params_file *f;
    text_list *names = &l->par->targets_names;
    reader r = {.l = l, .file = name, .column = {-1, -1, -1, -1, -1}};
    int line, column;
    status st;
    TRY(params_files_get_stated(l->files, name, at->text, &f));
    if (f->error != 0)
        return yaml_tree_fail(at, "targets.file", "%s cannot be read (%s), expected a file", name,
                              params_files_stated_reason(f, at->text));
    r.file = params_files_name(f);
    if (params_files_find_nul(f, &line, &column))
        return yaml_tree_fail_at(name, line, column, "targets.file",
                                 "a NUL character, expected text");
    TRY(read_lines(&r, f));
    if (r.any_name && names->n == 0) {
        free_names(names);
        *names = r.names;
        r.names = (text_list){0};
    }
    free(l->par->targets_file);
    l->par->targets_file = NULL;
done:
    free_names(&r.names);
    return st;
}

static status complete_grid(params *par, const ynode *grid) {
    if (par->targets_grid_nx == 0)
        return yaml_tree_fail(grid, "targets.grid.nx",
                              "missing, expected a whole number in [1, 1000]");
    if (par->targets_grid_ny == 0)
        par->targets_grid_ny = par->targets_grid_nx;
    bool wide = par->targets_grid_nx > 1, high = par->targets_grid_ny > 1;
    if (!params_given(par->targets_grid_width) &&
        (wide || (high && !params_given(par->targets_grid_height))))
        return yaml_tree_fail(grid, "targets.grid.width", "missing, expected an angle in arcsec");
    if (!params_given(par->targets_grid_width))
        par->targets_grid_width = 0;
    if (!params_given(par->targets_grid_height))
        par->targets_grid_height = par->targets_grid_width;
    if (wide && !(par->targets_grid_width > 0))
        return yaml_tree_fail(yaml_tree_get(grid, "width"), "targets.grid.width",
                              "0 for %d targets, expected a positive angle", par->targets_grid_nx);
    if (high && !(par->targets_grid_height > 0))
        return yaml_tree_fail(yaml_tree_get(grid, "height"), "targets.grid.height",
                              "0 for %d targets, expected a positive angle", par->targets_grid_ny);
    return MOAO_OK;
}

/* As many names as targets, short enough for a table. */
static status check_names(const params_loader *l, const ynode *at) {
    const text_list *names = &l->par->targets_names;
    if (names->n == 0)
        return MOAO_OK;
    if (names->n != l->par->targets_list.n)
        return yaml_tree_fail(
            at, "targets.names", "%d name%s for %d target%s, expected one for each", names->n,
            text_plural(names->n), l->par->targets_list.n, text_plural(l->par->targets_list.n));
    for (int i = 0; i < names->n; i++)
        if (strlen(names->v[i]) > MAX_NAME)
            return yaml_tree_fail(at, "targets.names", "a name longer than %d bytes, expected less",
                                  MAX_NAME);
    return MOAO_OK;
}

status params_read_targets(params_loader *l) {
    const ynode *map = yaml_tree_get(l->root, "targets");
    status st;
    TRY(params_check_alternatives(map, "targets", "targets"));
    if (param_node(map, "grid") != NULL)
        return complete_grid(l->par, param_node(map, "grid"));
    if (param_node(map, "file") != NULL)
        TRY(read_target_file(l, param_node(map, "file")));
    else if (param_node(map, "list") == NULL)
        return yaml_tree_fail(map ? map : l->root, "targets",
                              "missing, expected a grid, a list or a file");
    st = check_names(l, param_node(map, "names"));
done:
    return st;
}
