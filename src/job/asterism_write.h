/* What `moao asterism` leaves in its folder. Rank 0 only; local.
 *
 *   asterism.csv   the best: place, figures, stars
 *   field.csv      everything in the field: targets, laser stars, candidates and who is in the best
 *   asterism.json  what was asked, how it was searched
 *   place-N.yaml   complete parameter files of the best ones, at full order
 *   coverage.csv   with --fields, instead: one line a field */
#ifndef MOAO_ASTERISM_WRITE_H
#define MOAO_ASTERISM_WRITE_H

#include "job/asterism.h"

typedef struct { /* one asterism of the table */
    ast_combo a;
    int variant; /* of the swept keys */
} ast_row;

typedef struct {
    int n, choose;
    ast_row *v;         /* best first */
    int nkey, nvariant; /* swept keys; value[variant * nkey + key] */
    char **key, **value;
} ast_table;

status ast_write_table(const char *dir, const ast_stars *s, const ast_table *t);
/* With the sensors of the best in j->par. */
status ast_write_field(const char *dir, ast_job *j, const ast_stars *s, const ast_table *t);
status ast_write_facts(const char *dir, const ast_job *j, const ast_stars *s,
                       const ast_result *sum);
/* Parameters with the stars of one asterism. */
status ast_write_parameters(const char *dir, ast_job *j, const ast_stars *s, const ast_combo *a,
                            int choose, int place);

/* Whether a run accepts such parameters, before anything is searched: those of the first `choose`
 * stars are written as ast_write_parameters does, read again, and removed. MOAO_INPUT with DIR's
 * file, which then stays, and line. */
status ast_check_parameters(const char *dir, ast_job *j, const ast_stars *s, int choose);

/* The wanted figure of a finished run in DIR (maps.fits, long exposure). */
status ast_read_figure(const char *dir, const want *w, double *figure);
/* Put a full run into DIR/asterism.csv: the row of its place gets the figure (NAN: none) and a
 * state in words, "done" or why there is none. */
status ast_add_full(const char *dir, int place, double figure, const char *state);

#endif
