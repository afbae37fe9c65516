/* Numbers measured on the reference machines: which of two methods is taken, how large its pieces
 * are, and what times a plan expects. On another machine results stay right; a run may take longer
 * than it could, and forecasts are off. Sizes of kernels are with the kernels (src/gpu,
 * src/linalg). */
#ifndef MOAO_MACHINE_CONSTANTS_H
#define MOAO_MACHINE_CONSTANTS_H

/* --- columns of a panel of large systems on a GPU: tiles of a product in whole rounds */

/* 22 tiles of 128 columns (FP64) or of 192 (FP16): with the 42 tiles of 5336 actuators 7 rounds of
 * the 132 multiprocessors of an H100 or H200. D+ Ctm takes 0.22 s with 2816 columns, 0.24 s with
 * 2048 (5.1 rounds). */
#define MACHINE_PANEL 2816
#define MACHINE_PANEL_FP16 4224
/* Columns of a panel of smaller systems, from these numbers of measurements on: on a GPU; on the
 * CPUs of all ranks, with blocks of that size. */
#define MACHINE_LARGE 4096
#define MACHINE_VERY_LARGE 32768
#define MACHINE_PANEL_SMALL 256
#define MACHINE_PANEL_MIDDLE 1024
#define MACHINE_PANEL_CPU 512
#define MACHINE_BLOCK_CPU 128
/* Rows of a product of the Cholesky factor: what it reads and writes then stays in the second-level
 * cache of a GPU, which a product with a narrow strip that is as long as the matrix leaves (H200,
 * strips of 1024 columns: 57 instead of 50 TFLOP/s, as much as with strips of 4096). */
#define MACHINE_PRODUCT_ROWS 4096

/* --- where one method takes less time than another */

/* Subapertures of the mirror from which on D+ is applied as a filter and H. On a processor filter
 * and H take 0.87 of the time of a product with D+ at 20, 0.6 at 40
 * (bench/results/projection-cpu.txt); on an H200 1.08 at 40, where the filter alone takes half of
 * it, 0.63 at 84 (bench/results/filter-h200.txt). */
#define MACHINE_FILTER_PAYS 20
#define MACHINE_FILTER_PAYS_GPU 40
/* Transforms of sensors on a common lattice on a GPU, in FP16: from so many measurements on, where
 * covariances of sensors on a common lattice are that share of Cmm. At 102,752 measurements and
 * 0.51 a target takes 0.125 s instead of 0.16 (bench/results/mixed-h200.txt). */
#define MACHINE_LATTICE_MEASUREMENTS 32768
#define MACHINE_LATTICE_SHARE 0.25

/* What a method has to win over another one: one part in so many. */
#define MACHINE_GAIN 20
/* Rows of W on a rank of CPUs beyond which more gain little: receiving the panels is then a few
 * percent of the products' time (docs/scaling.md), and checkpoints still come after minutes. */
#define MACHINE_ROWS_PER_RANK 24576
/* Measurements up to which a second thread does not pay; the work of a step grows as their square.
 */
#define MACHINE_ONE_THREAD 1500.0
/* Measurements below which the rate of dgemm is measured quickly. */
#define MACHINE_QUICK 4000
/* Measurements for each thread where there is one target, so that no other rank takes the cores:
 * most of the time is then covariances, which threads share at little cost. */
#define MACHINE_THREAD_ALONE 800.0

/* --- times of a GPU, for forecasts: an H200 (docs/figures.json) */

#define MACHINE_GPU_RATE 64e12      /* dgemm [flop/s] */
#define MACHINE_DEVICE_THREADS 1100 /* threads of a CPU whose evaluations it replaces */
#define MACHINE_FP16_EXPOSURE 11    /* products of FP16 numbers are that much faster, */
#define MACHINE_FP16_SOLVE 6        /* also where some take three, */
#define MACHINE_SPLIT_FACTOR 2.5    /* a factor by eight moduli, FP16 parts included */
#define MACHINE_FP16_CHECK                                                                         \
    4                          /* exposures of a target in double precision that the check         \
                                  of a reconstructor takes (docs/performance.md) */
#define MACHINE_FP32_ENTRIES 4 /* and entries in single precision */

/* --- times of a CPU, for forecasts: one core of an x86-64 server [s] */

/* Double precision by integers (moao/integer_factor.h) in units of what native products reach in a
 * run; and measurements times that from which on it is faster as a whole: with 51,200 the factor
 * takes two thirds of the time, with 20,480 as much (bench/results/integer-h200.txt). */
#define MACHINE_INTEGERS 1.7
#define MACHINE_INTEGER_MEASUREMENTS 55000
#define MACHINE_THREAD_RATE 20e9 /* dgemm of a thread where none was measured [flop/s] */
#define MACHINE_EFFICIENCY 0.8   /* fraction of dgemm's rate that a run's linear algebra reaches */
#define MACHINE_EVALUATION 3e-9  /* of the structure function */
#define MACHINE_TRANSFORM 1.5e-9 /* a point of a Fourier transform, each doubling of its size */
#define MACHINE_START 1.0        /* start of a run */

/* --- times of exposures on a CPU, by which `auto` chooses their form: bench/results/cpu-grid.txt
 * [s], one core of an AMD EPYC (Zen) */

/* An entry of Cmm or Ctm on a layer, and one of Cpm, in double precision, far from each other; near
 * ones (NEAR, in units of 1 / nssp^2) take twice that, a processor with AVX-512 half. What an entry
 * of Cpm takes besides, and Cmm of a sample more than that of a run. */
#define MACHINE_LOOK_UP 4.2e-9
#define MACHINE_LOOK_UP_PHASE 3.1e-9
#define MACHINE_NEAR 210.0
#define MACHINE_ENTRY_PHASE 1.9e-8
#define MACHINE_SAMPLED 1.1
/* By tiles: an evaluation on a layer, and what goes with it once for all layers. */
#define MACHINE_LOOK_UP_TILED 3.2e-9
#define MACHINE_ENTRY_TILED 9e-9
#define MACHINE_ENTRY_TILED_PHASE 2.4e-8
/* A floating-point operation in double precision, single takes half; one of a product with tiles;
 * one of a product by transforms, for each vector, number and doubling of the lattice. */
#define MACHINE_FLOP 2.6e-11
#define MACHINE_FLOP_TILED 4e-11
#define MACHINE_BUTTERFLY 1.3e-10
/* An exposure besides; the first one of a run takes so much more of one target's time, for memory
 * that is touched for the first time. */
#define MACHINE_PASS 3e-3
#define MACHINE_FIRST 0.05

#endif
