/* The mean of exp(-D/2) over the pairs of points of a separation. Model section 7.
 *
 * OTF = OTF_tel exp(-k^2 mu/2) c, mu the mean of D (psf_lattice.c), k = 2 pi/lambda, and c the mean
 * of exp(-z/2), z = k^2 (S - <S>) of single pairs, from which D_turb cancels. The mean of z is 0,
 * so c = 1 + mean[exp(-z/2) - 1 + z/2], where no pair counts less than nothing and few are enough.
 */
#include "moao/clones.h"
#include "psf_phase.h"

#include <math.h>
#include <string.h>

size_t psf_pairwise_count(const psf *p) {
    return (size_t)p->nsample * (size_t)p->np;
}

/* Sampled points by rows, and the runs of neighbours. */
static void find_samples(psf *p) {
    int n = 0;
    for (int j = 0; j < p->lattice; j++) {
        p->sample_row[j] = n;
        for (int a = p->point_row[j], end = p->point_row[j + 1]; a < end; a++) {
            const bool mine = phase_is_sample(p->thinning, p->point_column[a], j);
            p->sample_of[a] = mine ? n : -1;
            if (mine)
                p->sample[n++] = a;
        }
        for (int a = p->point_row[j + 1] - 1, end = a + 1; a >= p->point_row[j]; a--) {
            if (a + 1 < end && p->point_column[a + 1] != p->point_column[a] + 1)
                end = a + 1;
            p->run_end[a] = end;
        }
    }
    p->sample_row[p->lattice] = n;
}

void pairwise_init(psf *p) {
    if (p->nsample == 0)
        return;
    find_samples(p);
    memset(p->excess, 0, (size_t)(p->nsep * p->nsep) * sizeof *p->excess);
    for (int j = 0; j < p->lattice; j++)
        for (int r = p->sample_row[j]; r < p->sample_row[j + 1]; r++)
            for (int l = 0; l < p->lattice; l++) {
                double *count =
                    p->excess + phase_separation(p, j, l - j, -p->point_column[p->sample[r]]);
                for (int b = p->point_row[l]; b < p->point_row[l + 1]; b++)
                    count[p->point_column[b]] += 1;
            }
    for (int i = 0; i < p->nsep * p->nsep; i++) {
        p->ring_of[i] = (int)lround(phase_length(p, i) / p->h);
        if (p->norm[i] > 0)
            p->sampled[i] = p->excess[i] + p->excess[phase_opposite(p, i)];
    }
}

void psf_use_pairwise(psf *p, const float *pairwise, const double *s) {
    p->pairwise = p->nsample > 0 ? pairwise : NULL;
    p->logs = NULL;
    for (int i = 0; p->pairwise != NULL && i < p->nsep * p->nsep; i++)
        if (p->norm[i] > 0)
            p->pair_mean[i] = (s[i] + s[phase_opposite(p, i)]) / (2 * p->norm[i]);
}

void psf_round_pairwise(const psf *p, const double *sum, float *pairwise) {
    const size_t count = psf_pairwise_count(p);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++)
        pairwise[i] = (float)sum[i];
}

/* sum(rho) += exp(-z/2) - 1 + z/2 of n pairs at places next to one another; half: k^2/2. */
CLONES static void add_run(int n, double half, const float *restrict s, const double *restrict mean,
                           double *restrict sum) {
#pragma omp simd
    for (int i = 0; i < n; i++)
        sum[i] += psf_excess_term((float)(half * (mean[i] - s[i])));
}

/* Those of separations of dj rows. */
static void add_rows(psf *p, int dj, double half) {
    memset(p->excess + (dj + p->lattice) * p->nsep, 0, (size_t)p->nsep * sizeof *p->excess);
    for (int j = 0; j < p->lattice; j++)
        for (int r = p->sample_row[j]; r < p->sample_row[j + 1]; r++) {
            if (j + dj < 0 || j + dj >= p->lattice)
                continue;
            const float *s = p->pairwise + (size_t)r * (size_t)p->np;
            const size_t at = phase_separation(p, j, dj, -p->point_column[p->sample[r]]);
            for (int b = p->point_row[j + dj], end; b < p->point_row[j + dj + 1]; b = end) {
                const size_t to = at + (size_t)p->point_column[b];
                end = p->run_end[b];
                add_run(end - b, half, s + b, p->pair_mean + to, p->excess + to);
            }
        }
}

/* ln c from the sums, of separations with sampled pairs; elsewhere that of the ring, all pairs of
 * nearly that length. */
static void log_means(psf *p) {
    const int all = p->nsep * p->nsep, rings = PAIRWISE_RINGS(p->nsep);
    double *sum = p->ring, *count = p->ring + rings;
    memset(p->ring, 0, 2 * (size_t)rings * sizeof *p->ring);
    for (int i = 0; i < all; i++)
        if (p->sampled[i] > 0) {
            const int r = p->ring_of[i];
            sum[r] += p->excess[i];
            count[r] += 0.5 * p->sampled[i];
        }
    for (int i = 0; i < all; i++) {
        const int j = phase_opposite(p, i), r = p->ring_of[i];
        if (!(p->norm[i] > 0) || j < i)
            continue;
        const double mean = p->sampled[i] > 0 ? (p->excess[i] + p->excess[j]) / p->sampled[i]
                            : count[r] > 0    ? sum[r] / count[r]
                                              : 0;
        p->excess[i] = p->excess[j] = log1p(i == j ? 0 : mean);
    }
}

/* ln c at one wavelength into p->excess. */
static void find_logs(psf *p, double lambda) {
    const double wave = 2 * M_PI / lambda;
#pragma omp parallel for schedule(dynamic)
    for (int dj = -p->lattice; dj <= p->lattice; dj++)
        add_rows(p, dj, 0.5 * wave * wave);
    log_means(p);
}

void psf_logs(psf *p, const float *pairwise, const double *s, double *logs) {
    const size_t all = psf_sep_count(p);
    psf_use_pairwise(p, pairwise, s);
    for (int l = 0; l < p->nmono; l++) {
        find_logs(p, p->mono[l]);
        memcpy(logs + (size_t)l * all, p->excess, all * sizeof *logs);
    }
}

void psf_use_logs(psf *p, const double *logs) {
    p->pairwise = NULL;
    p->logs = p->nsample > 0 ? logs : NULL;
}

void pairwise_add_excess(psf *p, int imono) {
    const double wave = 2 * M_PI / p->mono[imono];
    if (p->logs == NULL)
        find_logs(p, p->mono[imono]);
    phase_add_grid(p, p->logs != NULL ? p->logs + (size_t)imono * psf_sep_count(p) : p->excess,
                   1 / (wave * wave));
}
