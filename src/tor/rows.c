#include "tor/rows.h"

#include <stdlib.h>
#include <string.h>

void rows_share(int count, int ngroup, int g, int *t0, int *nt) {
    *t0 = (int)((long)count * g / ngroup);
    *nt = (int)((long)count * (g + 1) / ngroup) - *t0;
}

status team_init(const comm *c, int group_size, int nrow, size_t width, team *t) {
    status st = MOAO_OK;
    *t = (team){.c = c,
                .group = MPI_COMM_NULL,
                .ngroup = c->size / group_size,
                .group_size = group_size,
                .mygroup = c->rank / group_size,
                .member = c->rank % group_size,
                .nrow = nrow};
    rows_share(nrow, group_size, t->member, &t->row0, &t->nlrow);
    if (group_size == 1)
        return st;
    MPI_Comm_split(c->mpi, t->mygroup, t->member, &t->group);
    TRY(ALLOC(t->count, 2 * (size_t)group_size, "columns per rank"));
    TRY(ALLOC(t->packed, 2 * (size_t)nrow * width, "rows of a group's target"));
done:
    return comm_agree(c, st);
}

void team_free(team *t) {
    free(t->count);
    free(t->packed);
    if (t->c != NULL && t->group != MPI_COMM_NULL)
        MPI_Comm_free(&t->group);
    *t = (team){0};
}

chunk team_chunk(const team *t, int first, int count) {
    chunk ch = {.first = first, .count = count};
    rows_share(count, t->ngroup, t->mygroup, &ch.mine, &ch.nmine);
    ch.mine += first;
    return ch;
}

void team_owned(const team *t, const chunk *ch, int member, int *k0, int *n) {
    rows_share(ch->nmine, t->group_size, member, k0, n);
}

int team_owner(const team *t, const chunk *ch, int k) {
    int i = -1, k0, n;
    do
        team_owned(t, ch, ++i, &k0, &n);
    while (k >= k0 + n);
    return i;
}

status team_agree(const team *t, status local) {
    int code = (int)local;
    if (t->group_size > 1)
        MPI_Allreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, t->group);
    return (status)code;
}

void team_gather(const team *t, size_t rows, size_t w, double *a) {
    const int n = t->group_size;
    for (int i = 0, j0, nj; i < n && n > 1; i++) {
        rows_share((int)w, n, i, &j0, &nj);
        t->count[i] = nj * (int)rows;
        t->count[n + i] = j0 * (int)rows;
    }
    if (n > 1)
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, a, t->count, t->count + n, MPI_DOUBLE,
                       t->group);
}

void team_rows(const team *t, size_t n, const double *w, int64_t ldw, double *out) {
    double *part = t->packed;
    for (int i = 0; i < t->group_size; i++) {
        int r0, nr;
        rows_share(t->nrow, t->group_size, i, &r0, &nr);
        const size_t bytes = (size_t)nr * sizeof(double);
        for (size_t j = 0; i == t->member && j < n; j++)
            memcpy(part + j * (size_t)nr, w + (int64_t)j * ldw, bytes);
        MPI_Bcast(part, nr * (int)n, MPI_DOUBLE, i, t->group);
        for (size_t j = 0; j < n; j++)
            memcpy(out + j * (size_t)t->nrow + r0, part + j * (size_t)nr, bytes);
    }
}

status team_outer(const team *t, engine *e, int64_t n, const double *z, int64_t ldz,
                  const double *w, int64_t ldw, double beta, double *y) {
    double *mine = t->packed, *other = mine + (size_t)t->nrow * (size_t)n;
    status st = MOAO_OK;
    for (int64_t j = 0; j < n; j++)
        memcpy(mine + j * t->nlrow, w + j * ldw, (size_t)t->nlrow * sizeof(double));
    for (int i = 0; i < t->group_size; i++) { /* the rows of each member in turn */
        int r0, nr;
        rows_share(t->nrow, t->group_size, i, &r0, &nr);
        double *b = i == t->member ? mine : other;
        TIMED_WAIT(e->rep, STAGE_EXPOSURE, MPI_Bcast(b, nr * (int)n, MPI_DOUBLE, i, t->group));
        if (st == MOAO_OK && nr > 0 && t->nlrow > 0)
            st = engine_gemm(e, 'N', 'T', t->nlrow, nr, n, 1.0, z, ldz, b, nr, beta,
                             y + (size_t)r0 * (size_t)t->nlrow, t->nlrow);
    }
    return st;
}
