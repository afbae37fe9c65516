/* What the ranking of asterisms works on: the case at a reduced order, and images of single
 * asterisms. */
#ifndef MOAO_JOB_ASTERISM_SCENE_H
#define MOAO_JOB_ASTERISM_SCENE_H

#include "asterism/images.h"
#include "job/asterism.h"

typedef struct { /* geometry and atmosphere of the search */
    sys s;
    atmos a;
    const profile *p;
    psf_opts o;
    double fit_share;
} ast_scene;

/* Local. Geometry of the sensors that j->par has now, at j->order; the profile is that of the
 * exposure with the median r0. ast_scene_free also after a failure. */
status ast_scene_init(const ast_job *j, ast_scene *u);
void ast_scene_free(ast_scene *u);

typedef struct {
    const comm *c;
    const ast_job *j;
    const ast_case *k;
    int nthread, choose;
    ast_images **q; /* [nthread] */
    double **value; /* [nthread] 2 ntarget */
    status st;
} ast_painter;

/* Local: p's first members (c, j, k, nthread, choose) are set. ast_painter_free also after a
 * failure. */
status ast_painter_init(ast_painter *p, const ast_scene *u);
void ast_painter_free(ast_painter *p);
/* Collective. Figures of the asterisms [from, to) of a list, on every rank. BLAS is to have one
 * thread. */
status ast_paint(ast_painter *p, ast_list *l, int from, int to);

/* Collective. What is lost by the reduced order: n random asterisms of the field by their guesses
 * and images at the order of the search, and by their images at the full one. Spearman's rank
 * correlations with the latter: [0] of the guess, [1] of the images. */
status ast_job_compare(const comm *c, ast_job *j, const ast_stars *s, int n, double correlation[2]);

/* Local. Spearman's rank correlation of n pairs; NAN where one side is all equal. */
status ast_rank_correlation(int n, const double *a, const double *b, double *correlation);

#endif
