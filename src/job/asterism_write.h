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

/* The wanted figure of a finished run in DIR (maps.fits, long exposure). */
status ast_read_figure(const char *dir, const want *w, double *figure);
/* Put the figures of full runs into DIR/asterism.csv; the one of place i + 1 is full[i], NAN: none.
 */
status ast_add_full(const char *dir, int n, const double *full);

#endif
