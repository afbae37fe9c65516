#include "asterism/search.h"

#include "moao/cpu_threads.h"

#include <float.h>
#include <math.h>
#include <mpi.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

double ast_combinations(int n, int k) {
    double count = 1;
    for (int i = 1; i <= k; i++)
        count = count * (n - k + i) / i;
    return k < 0 || k > n ? 0 : floor(count + 0.5);
}

/* --- a team of threads, each with a worker and a list --- */

typedef struct {
    const comm *c;
    const ast_case *k;
    const ast_search *s;
    int nthread, range;
    ast_worker **worker; /* [nthread] */
    ast_list *list;      /* [nthread] */
    double **var;        /* [nthread] range x ntarget */
    double **guess;      /* [nthread] 2 ntarget */
    int blas;            /* threads of BLAS before */
    status st;
} team;

static void team_free(team *t) {
    for (int i = 0; i < t->nthread; i++) {
        if (t->worker != NULL)
            ast_worker_free(t->worker[i]);
        if (t->list != NULL)
            ast_list_free(&t->list[i]);
        if (t->var != NULL)
            free(t->var[i]);
        if (t->guess != NULL)
            free(t->guess[i]);
    }
    free(t->worker);
    free(t->list);
    free(t->var);
    free(t->guess);
    blas_together(t->blas);
}

static status list_init(ast_list *l, int keep) {
    *l = (ast_list){.room = 2 * (keep > 8 ? keep : 8)};
    return ALLOC(l->v, (size_t)l->room, "asterisms");
}

/* Each thread calls BLAS by itself, so that BLAS gets no threads of its own. */
static status team_init(const comm *c, ast_scores *q, const ast_case *k, const ast_search *s,
                        int threads, team *t) {
    *t = (team){.c = c, .k = k, .s = s, .nthread = threads > 0 ? threads : 1, .range = k->ncand};
    const size_t n = (size_t)t->nthread, nt = (size_t)k->ntarget;
    status st;
    TRY(ALLOC(t->worker, n, "workers"));
    TRY(ALLOC(t->list, n, "workers"));
    TRY(ALLOC(t->var, n, "workers"));
    TRY(ALLOC(t->guess, n, "workers"));
    for (size_t i = 0; i < n; i++) {
        TRY(ast_worker_init(q, s->choose - 1, t->range, &t->worker[i]));
        TRY(list_init(&t->list[i], s->keep));
        TRY(ALLOC(t->var[i], (size_t)t->range * nt, "variances"));
        TRY(ALLOC(t->guess[i], 2 * nt, "variances"));
    }
    t->blas = blas_alone();
done:
    return st;
}

/* --- one base and a range of further stars --- */

static bool allowed(const team *t, const int *base, int nbase, int k) {
    for (int a = 0; a < nbase; a++)
        if (base[a] == k || (t->s->apart != NULL && !t->s->apart[base[a] * t->k->ncand + k]))
            return false;
    return true;
}

static int by_number(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* The guess for the stars of a base and k, from the variances. */
static ast_combo judge(const team *t, const double *var, double *guess, const int *base, int nbase,
                       int k) {
    const int nt = t->k->ntarget;
    ast_combo a = {.figure = NAN};
    double mean = 0;
    for (int i = 0; i < nt; i++) {
        guess[i] = isnan(var[i]) ? NAN : want_guess(t->s->w, var[i]);
        mean += var[i] / nt;
    }
    a.guess = want_value(t->s->w, nt, guess, guess + nt);
    a.rms = 1e9 * sqrt(fmax(mean, 0));
    memcpy(a.star, base, (size_t)nbase * sizeof *base);
    a.star[nbase] = k;
    qsort(a.star, (size_t)nbase + 1, sizeof *a.star, by_number);
    return a;
}

/* Variances with every k of a range; value[k] (may be NULL) gets the guesses. Complete asterisms go
 * into the thread's list. */
static void look(team *t, int thread, const int *base, int nbase, int k0, int k1, double *value) {
    status st = ast_worker_run(t->worker[thread], base, nbase, k0, k1, t->var[thread]);
    if (st != MOAO_OK) {
#pragma omp critical(ast_failure)
        t->st = st;
        return;
    }
    for (int k = k0; k < k1; k++) {
        const double *var = t->var[thread] + (size_t)(k - k0) * (size_t)t->k->ntarget;
        if (!allowed(t, base, nbase, k))
            continue;
        const ast_combo a = judge(t, var, t->guess[thread], base, nbase, k);
        if (value != NULL)
            value[k] = a.guess;
        if (nbase + 1 == t->s->choose)
            ast_list_add(&t->list[thread], &a, t->s->choose, want_larger(t->s->w));
    }
}

/* The lists of all threads and ranks as one on every rank: the `keep` best. Collective. */
static status gather(team *t, ast_list *out) {
    const ast_search *s = t->s;
    const bool larger = want_larger(s->w);
    const int size = (int)sizeof(ast_combo);
    int *count = NULL, *offset = NULL, total = 0;
    ast_list own = {0}, all = {0};
    status st = list_init(&own, s->keep);
    for (int i = 0; i < t->nthread && st == MOAO_OK; i++)
        for (int j = 0; j < t->list[i].n; j++)
            ast_list_add(&own, &t->list[i].v[j], s->choose, larger);
    if (st == MOAO_OK) {
        ast_list_sort(&own, s->choose, larger, false);
        own.n = own.n < s->keep ? own.n : s->keep;
        st = ALLOC(count, 2 * (size_t)t->c->size, "asterisms");
    }
    TRY(comm_agree(t->c, st));
    offset = count + t->c->size;
    MPI_Allgather(&own.n, 1, MPI_INT, count, 1, MPI_INT, t->c->mpi);
    for (int r = 0; r < t->c->size; r++) {
        offset[r] = total * size;
        total += count[r];
        count[r] *= size;
    }
    TRY(comm_agree(t->c, ALLOC(all.v, (size_t)total + 1, "asterisms")));
    MPI_Allgatherv(own.v, own.n * size, MPI_BYTE, all.v, count, offset, MPI_BYTE, t->c->mpi);
    all.n = all.room = total;
    ast_list_sort(&all, s->choose, larger, false);
    all.n = all.n < s->keep ? all.n : s->keep;
    *out = all;
    all = (ast_list){0};
done:
    free(count);
    ast_list_free(&own);
    ast_list_free(&all);
    return st;
}

/* --- all combinations --- */

/* All bases of nbase stars to which a later one can be added, one after another. */
static status list_bases(int ncand, int nbase, int **out, long *count) {
    const double all = ast_combinations(ncand - 1, nbase);
    int star[AST_MOST];
    long n = 0;
    status st = ALLOC(*out, (size_t)all * (size_t)(nbase + 1), "combinations");
    if (st != MOAO_OK)
        return st;
    for (int i = 0; i < nbase; i++)
        star[i] = i;
    for (n = 0; n < (long)all; n++) {
        memcpy(*out + n * nbase, star, (size_t)nbase * sizeof *star);
        int i = nbase - 1;
        while (i >= 0 && star[i] == ncand - 1 - nbase + i)
            i--;
        if (i >= 0)
            star[i]++;
        for (int k = i + 1; i >= 0 && k < nbase; k++)
            star[k] = star[k - 1] + 1;
    }
    *count = n;
    return st;
}

status ast_search_all(const comm *c, ast_scores *q, const ast_case *k, const ast_search *s,
                      int threads, ast_list *out) {
    const int nbase = s->choose - 1;
    int *bases = NULL;
    long count = 0, done_here = 0;
    team t;
    status st = list_bases(k->ncand, nbase, &bases, &count);
    *out = (ast_list){0};
    if (st == MOAO_OK)
        st = team_init(c, q, k, s, threads, &t);
    else
        t = (team){0};
    TRY(comm_agree(c, st));
#pragma omp parallel for schedule(dynamic) num_threads(t.nthread)
    for (long i = c->rank; i < count; i += c->size) {
        const int *base = bases + i * nbase;
        if (t.st == MOAO_OK)
            look(&t, omp_get_thread_num(), base, nbase, nbase > 0 ? base[nbase - 1] + 1 : 0,
                 k->ncand, NULL);
#pragma omp atomic
        done_here++;
        if (omp_get_thread_num() == 0 && c->rank == 0 && s->tell != NULL)
            s->tell((double)done_here * c->size / (double)count, &t.list[0]);
    }
    TRY(comm_agree(c, t.st));
    st = gather(&t, out);
done:
    team_free(&t);
    free(bases);
    return st;
}

/* --- greedy, with exchange --- */

/* Guesses value[b][k] for nb bases of nbase stars with every star: bases and parts of the
 * candidates are dealt to ranks and threads. Collective. */
static status look_all(team *t, const int (*base)[AST_MOST], int nb, int nbase, double *value) {
    const int nc = t->k->ncand, workers = t->c->size * t->nthread;
    int parts = (2 * workers + nb - 1) / nb;
    parts = parts > nc ? nc : parts;
    for (int i = 0; i < nb * nc; i++)
        value[i] = 0;
#pragma omp parallel for schedule(dynamic) num_threads(t->nthread)
    for (int i = t->c->rank; i < nb * parts; i += t->c->size) {
        const int b = i / parts, p = i % parts;
        double *own = value + (size_t)b * (size_t)nc;
        for (int k = nc * p / parts; k < nc * (p + 1) / parts; k++)
            own[k] = NAN; /* what is not allowed stays so */
        if (t->st == MOAO_OK && nc * p / parts < nc * (p + 1) / parts)
            look(t, omp_get_thread_num(), base[b], nbase, nc * p / parts, nc * (p + 1) / parts,
                 own);
    }
    const status st = comm_agree(t->c, t->st);
    if (st == MOAO_OK)
        comm_sum(t->c, value, (size_t)nb * (size_t)nc);
    return st;
}

/* Place of the best of n values, -1 when all are NAN. */
static int best_of(const double *value, int n, bool larger) {
    int best = -1;
    for (int i = 0; i < n; i++)
        if (!isnan(value[i]) &&
            (best < 0 || (larger ? value[i] > value[best] : value[i] < value[best])))
            best = i;
    return best;
}

/* Exchange one star after another as long as that makes it better; *at: the guess of star[]. */
static status exchange(team *t, int *star, double *at, double *value, double *tried) {
    const int n = t->s->choose, nc = t->k->ncand;
    const bool larger = want_larger(t->s->w);
    int base[AST_MOST][AST_MOST];
    status st = MOAO_OK;
    for (;;) {
        for (int out = 0; out < n; out++)
            for (int i = 0, to = 0; i < n; i++)
                if (i != out)
                    base[out][to++] = star[i];
        TRY(look_all(t, (const int(*)[AST_MOST])base, n, n - 1, value));
        *tried += (double)n * (nc - n + 1);
        const int best = best_of(value, n * nc, larger);
        const double gain = best < 0 ? 0 : (larger ? 1 : -1) * (value[best] - *at);
        if (best < 0 || !(isnan(*at) || gain > 1e-9 * fabs(*at)))
            break;
        *at = value[best];
        star[best / nc] = best % nc;
    }
done:
    return st;
}

/* Stars added one by one, the best each time. */
static status grow(team *t, int *star, double *at, double *value, double *tried) {
    int base[1][AST_MOST] = {{0}};
    status st = MOAO_OK;
    *at = NAN;
    for (int n = 0; n < t->s->choose; n++) {
        memcpy(base[0], star, (size_t)n * sizeof *star);
        TRY(look_all(t, (const int(*)[AST_MOST])base, 1, n, value));
        *tried += t->k->ncand - n;
        const int best = best_of(value, t->k->ncand, want_larger(t->s->w));
        if (best < 0)
            return status_fail(
                MOAO_INPUT,
                "no asterism of %d stars that keep apart; choose fewer, or lower --apart",
                t->s->choose);
        star[n] = best;
        *at = value[best];
    }
done:
    return st;
}

/* n of the candidates by chance, the same on every rank and in every run. False where none are
 * found that keep apart. */
static bool draw(const team *t, unsigned *seed, int *star) {
    for (int n = 0, tries = 0; tries < 100 * t->s->choose; tries++) {
        const int k = (int)((double)rand_r(seed) / ((double)RAND_MAX + 1) * t->k->ncand);
        if (allowed(t, star, n, k))
            star[n++] = k;
        if (n == t->s->choose)
            return true;
    }
    return false;
}

status ast_search_exchange(const comm *c, ast_scores *q, const ast_case *k, const ast_search *s,
                           int threads, int starts, double *tried, ast_list *out) {
    double *value = NULL, at;
    int star[AST_MOST] = {0};
    unsigned seed = 20260721;
    team t;
    status st = team_init(c, q, k, s, threads, &t);
    *out = (ast_list){0};
    *tried = 0;
    if (st == MOAO_OK)
        st = ALLOC(value, (size_t)s->choose * (size_t)k->ncand, "guesses");
    TRY(comm_agree(c, st));
    for (int i = 0; i <= starts; i++) {
        if (i == 0)
            TRY(grow(&t, star, &at, value, tried));
        else if (!draw(&t, &seed, star))
            continue;
        if (i > 0)
            at = NAN;
        TRY(exchange(&t, star, &at, value, tried));
        if (c->rank == 0 && s->tell != NULL)
            s->tell((double)(i + 1) / (starts + 1), &t.list[0]);
    }
    st = gather(&t, out);
done:
    free(value);
    team_free(&t);
    return st;
}

status ast_search_one(ast_worker *w, const int *star, int nstar, double *var) {
    return ast_worker_run(w, star, nstar - 1, star[nstar - 1], star[nstar - 1] + 1, var);
}
