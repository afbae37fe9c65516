/* Which asterisms are good: all of them, or a search, by the guess that their variances give. */
#ifndef MOAO_ASTERISM_SEARCH_H
#define MOAO_ASTERISM_SEARCH_H

#include "asterism/score.h"
#include "asterism/want.h"

typedef struct {
    int star[AST_MOST]; /* increasing */
    double guess;       /* want_value of want_guess */
    double figure;      /* from the images; NAN: not computed */
    double rms;         /* root of the mean variance over the targets [nm] */
} ast_combo;

typedef struct {
    int n, room;
    ast_combo *v; /* best first, once it is done */
} ast_list;

typedef struct {
    int choose;
    const want *w;
    const bool *apart; /* [ncand ncand] whether two may be together; NULL: any two */
    int keep;          /* length of the list */
    void (*tell)(double share, const ast_list *l); /* now and then, on rank 0; NULL: nobody */
} ast_search;

/* Number of combinations of k of n; HUGE where that is no int64. */
double ast_combinations(int n, int k);

/* Collective. All combinations, dealt to ranks and threads; every rank gets the same list. */
status ast_search_all(const comm *c, ast_scores *q, const ast_case *k, const ast_search *s,
                      int threads, ast_list *out);
/* Collective. Greedy, star by star, then the best exchange of one star until none is better; from
 * the greedy start and from `starts` random ones (always the same). *tried: combinations looked at.
 * The list holds the best of all that were looked at. */
status ast_search_exchange(const comm *c, ast_scores *q, const ast_case *k, const ast_search *s,
                           int threads, int starts, double *tried, ast_list *out);
/* Collective. One asterism's variances [m^2], var[ntarget]. */
status ast_search_one(ast_worker *w, const int *star, int nstar, double *var);
void ast_list_free(ast_list *l);

/* Local. Put into the list if it is good enough, larger guesses first when `larger`. */
void ast_list_add(ast_list *l, const ast_combo *a, int choose, bool larger);
void ast_list_sort(ast_list *l, int choose, bool larger, bool by_figure);

#endif
