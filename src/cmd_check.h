/* What `moao check` found, for its two ways to tell it. */
#ifndef MOAO_CMD_CHECK_H
#define MOAO_CMD_CHECK_H

#include "job/advise.h"

typedef struct {
    const setup *u;
    const cmdline *cl;
    request q;
    const char *dir;        /* for results, in the lines to type */
    bool described;         /* the machine by options: `there` only */
    bool measured;          /* dgemm, here */
    const gpu_model *model; /* the card of --gpu, NULL: none */
    advice here;            /* this machine */
    bool elsewhere;         /* `there` is filled */
    advice there;           /* the machine described, or one that would do */
    bool lacking; /* the machine described, or the usual one, is too small: `there` has more */
    double asked; /* memory of its nodes, before [bytes] */
    double need;  /* of a rank there [bytes] */
    double node;  /* memory of a node of `there` [bytes] */
    int cores;    /* of a node of it */
} check_facts;

/* Rank 0. Text of at most 80 columns, or JSON, on standard output. */
status check_print(const check_facts *f);
status check_json(const check_facts *f);

#endif
