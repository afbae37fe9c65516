/* What `moao check` found, for its two ways to tell it. */
#ifndef MOAO_CMD_CHECK_H
#define MOAO_CMD_CHECK_H

#include "job/advise.h"

typedef struct {
    const setup *u;
    const cmdline *cl;
    const char *dir; /* for results, in the lines to type */
    bool described;  /* the machine by options: `there` only */
    bool measured;   /* dgemm, here */
    advice here;     /* this machine */
    bool elsewhere;  /* `there` is filled */
    advice there;    /* the machine described, or one that would do */
    double node;     /* memory of a node of it [bytes] */
    int cores;       /* of a node of it */
} check_facts;

/* Rank 0. Text of at most 80 columns, or JSON, on standard output. */
status check_print(const check_facts *f);
status check_json(const check_facts *f);

#endif
