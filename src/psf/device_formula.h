/* Device memory of the PSFs of a backend that keeps all of psf_model there: told to the plan, which
 * may be made where there is no such backend, and taken by it (gpu/psf/psf.cu, which checks that it
 * takes no more). */
#ifndef MOAO_PSF_DEVICE_FORMULA_H
#define MOAO_PSF_DEVICE_FORMULA_H

#include "backend/backend_psf.h"
#include "psf/psf_formula.h"

#define PSF_DEVICE_ALIGN ((size_t)256) /* bytes; of every array */
/* Rows of the lattice whose pairs of points are summed together: one alone leaves a third of an
 * H200 without work. */
#define PSF_ROWS 4

static inline size_t psf_device_sum(const size_t *count, size_t n, size_t size) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (count[i] * size + PSF_DEVICE_ALIGN - 1) / PSF_DEVICE_ALIGN * PSF_DEVICE_ALIGN;
    return sum;
}

/* Actuators along a side of the largest mirror; bytes of places of all mirrors' squares and of
 * factors of their influence functions at the rows or columns of the lattice. */
static inline size_t psf_widest(const psf_model *m) {
    size_t most = (size_t)m->n + 1;
    for (int i = 0; i < m->nmirror; i++)
        most = (size_t)m->mirror[i].n >= most ? (size_t)m->mirror[i].n + 1 : most;
    return most;
}

static inline size_t psf_device_mirrors(const psf_model *m) {
    const size_t rows = (size_t)m->lattice;
    size_t sum = 0;
    for (int i = 0; i < m->nmirror; i++) {
        const size_t across = (size_t)m->mirror[i].n + 1, squares = across * across,
                     factors[] = {rows * across, rows * across, rows * across};
        sum +=
            psf_device_sum(&squares, 1, sizeof(int)) + psf_device_sum(factors, 3, sizeof(double));
    }
    return sum;
}

/* Tables, what the kernels work in, and for each wavelength OTFs, their transforms along y and
 * images. Only sizes of the model are read. */
static inline size_t psf_device_arrays(const psf_model *m) {
    const size_t P = (size_t)m->P, N = (size_t)m->N, half = N / 2 + 1, side = (size_t)m->n + 1;
    const size_t nsep = (size_t)m->nsep, nact = (size_t)m->nact, reach = (size_t)m->reach;
    const size_t nl = (size_t)m->nlambda, nbox = (size_t)m->nbox, crop = (size_t)m->crop;
    const size_t s = (size_t)m->lattice, np = (size_t)m->np, taps = s > 0 ? (size_t)m->taps : 0;
    const size_t wide = nsep + taps, v = s > 0 ? nact : 0, grid = s > 0 ? P : 0;
    const size_t widest = psf_widest(m), own = m->nmirror > 0 ? 0 : nact;
    const size_t nr = (size_t)m->nsample, any = nr > 0, each = any * nl * nsep * nsep;
    const size_t ints[] = {own,
                           side * side,
                           side + 1,
                           P,
                           s > 0 ? s + 1 : 0,
                           np,
                           s * s,
                           grid,
                           grid,
                           s > 0 ? 2 * P - 1 : 0,
                           nr,
                           any * np,
                           any * (s + 1),
                           any * nsep * nsep};
    const size_t tables[] = {own,
                             nsep * nsep,
                             2 * reach + 1,
                             (size_t)m->ntel * P * (2 * P - 1),
                             2 * PSF_NDIR,
                             3 * nl,
                             nl * nbox,
                             nl * nbox * P,
                             s * side,
                             s * side,
                             s * side,
                             grid * taps,
                             grid * taps,
                             s > 0 ? (2 * P - 1) * taps : 0,
                             any * nsep * nsep};
    const size_t work[] = {P * P,
                           s > 0 ? 0 : side * side * nsep,
                           wide * wide,
                           P * wide,
                           PSF_ROWS * widest * v,
                           PSF_ROWS * s * v,
                           PSF_ROWS * s * np,
                           2,
                           P * (2 * P - 1),
                           nl * P * N,
                           nl * P * P,
                           nl * P * P,
                           nl * (1 + nbox) * P,
                           2 * nl * half * half,
                           nl * half * N,
                           nl * PSF_NDIR,
                           nl * (3 + nbox),
                           any * nsep * nsep,
                           each,
                           each,
                           any * 2 * nl * (size_t)m->rings,
                           any * nl,
                           any * nl * P * (2 * P - 1)};
    const size_t floats[] = {nl * crop * crop, nr * np};
    return psf_device_mirrors(m) + psf_device_sum(ints, sizeof ints / sizeof *ints, sizeof(int)) +
           psf_device_sum(tables, sizeof tables / sizeof *tables, sizeof(double)) +
           psf_device_sum(work, sizeof work / sizeof *work, sizeof(double)) +
           psf_device_sum(floats, sizeof floats / sizeof *floats, sizeof(float));
}

/* The same and the work of the transforms. */
static inline size_t psf_model_bytes(const psf_model *m) {
    const size_t half = (size_t)m->N / 2 + 1;
    return psf_device_arrays(m) + 2 * half * (size_t)m->N * sizeof(double);
}

#endif
