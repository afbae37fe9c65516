/* Which stars: from parameters and a catalogue to a ranked table of asterisms. */
#ifndef MOAO_JOB_ASTERISM_H
#define MOAO_JOB_ASTERISM_H

#include "asterism/search.h"
#include "asterism/stars.h"
#include "base/comm.h"
#include "base/text.h"
#include "job/cmdline.h"
#include "params/params.h"

typedef struct { /* the parameters of a case, with the sensors taken apart */
    const cmdline *cl;
    params par;
    sensor_list own; /* those of the file, which owns their names */
    int nfixed;      /* laser stars, and natural ones that are kept */
    int *fixed;      /* [nfixed] in own */
    int like;        /* natural star in own after which candidates' sensors are made */
    want w;
    int order; /* subapertures of the truth sensor for the search */
    sky sk;    /* pointing NAN when there is none */
} ast_job;

/* Collective. Reads the parameters with `overrides` and what the command line says of the search.
 */
status ast_job_init(const comm *c, const cmdline *cl, int noverride, const char *const *overrides,
                    ast_job *j);
void ast_job_free(ast_job *j);
/* Local. What --want (NULL: the mean Strehl ratio) leaves open, from the parameters: the image,
 * else the first one; centre and width of a band. MOAO_INPUT. */
status ast_complete_want(const char *text, const params *par, want *w);
/* Local. The sensors of j->par become the fixed ones and one for each of n stars (index: which;
 * NULL: the first n). */
status ast_job_take(ast_job *j, const ast_stars *s, const int *index, int n);
/* Radius of the field [rad]: --radius, else that of the farthest star or target of the parameters.
 */
double ast_job_radius(const ast_job *j);

typedef struct {         /* what came out for one field */
    int choose;          /* stars of an asterism, fewer than asked where the field has fewer */
    ast_list best;       /* by figure where it is known, then by guess */
    double combinations; /* that there are */
    double tried;        /* that were looked at */
    int computed;        /* figures from images */
    bool greedy;
    double correlation[2]; /* with --sample: ast_job_compare; else NAN */
    double seconds[3];     /* covariances, search, images */
} ast_result;

/* Collective. Ranks the asterisms of a field; the same result on every rank. `quiet`: no lines. */
status ast_job_rank(const comm *c, ast_job *j, const ast_stars *s, bool quiet, ast_result *r);

/* Collective. Everything that `moao asterism` does under mpirun: ranking into cl->dir. */
status ast_job_all(const comm *c, const cmdline *cl);
/* The same for a list of pointings. */
status ast_job_fields(const comm *c, const cmdline *cl);

#endif
