/* What the user sees while a run goes on, and the table of stages at its end. */
#ifndef MOAO_PROGRESS_H
#define MOAO_PROGRESS_H

#include "comm.h"
#include "moao/status.h"
#include <stdbool.h>

typedef enum {
    STAGE_SETUP,    /* geometry, D+, plans */
    STAGE_MATCOV,   /* Cmm of a ToR */
    STAGE_FACTOR,   /* Cholesky */
    STAGE_SOLVE,    /* W = D+ Ctm Cmm^-1, its Ctm included */
    STAGE_EXPOSURE, /* covariances, W T, Cvv of the exposures */
    STAGE_PSF,      /* OTFs, PSFs, scalars */
    STAGE_OUTPUT,   /* checkpoint, FITS */
    STAGE_COUNT
} stage;
extern const char *const stage_name[STAGE_COUNT];

/* --- progress: only rank 0 prints; on a terminal one bar of at most 80 columns (stage, done, time
 * left), in a batch log one dated line per step. All local. --- */
void progress_init(bool enabled, double seconds); /* that the whole run is expected to take */
void progress_step(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); /* "ToR 2/6: Cholesky" */
/* The part before is done and the next one begins: its share of those seconds, and the flops that
 * progress_advance will tell of it (0: nothing is told). What is shown as done follows from the
 * parts; the time left from how long they took so far. Work between parts that is told counts for
 * nothing. A part of 0 s: none begins. */
void progress_part(double seconds, double flops);
void progress_advance(double flops); /* done since the last call */
void progress_note(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); /* a line that stays */
void progress_warn(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); /* "moao: warning: ..." */
/* "moao: ..." to who sent a signal, also where progress is not shown. */
void progress_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Time until the end of the current part [s]: what is expected of it, at the pace of the run so
 * far. 0: unknown, or overdue. */
double progress_part_left(void);
void progress_end(void);

/* --- the same for programs: with MOAO_PROGRESS=json every line is an object of JSON instead, for
 * which docs/protocol.md stands. All local. --- */
bool progress_is_json(void);
/* For a command that starts others and then sets the variable for them: what holds now, holds. */
void progress_keep_json(void);
/* A failure as an event; code: the exit code that it will have. */
void progress_error(const char *message, int code);
/* A run of a sweep, from 1, has results, had them before, or failed: "done", "before", "failed";
 * seconds: that it took, 0: not computed now. */
void progress_run(int number, int of, const char *folder, const char *state, double seconds);

/* A factor that is compressed by tiles (job/accuracy.h). */
typedef struct {
    const char *form;        /* tiles; refined: W is refined; dense: nothing is dropped */
    int tile;                /* order of the tiles, 0: not made by this run */
    double tolerance, noise; /* norm of what may be dropped of one, least noise [arcsec^2] */
    int restarts;            /* factors with larger tolerances that were made before it */
    double difference;       /* measured, of Strehl ratios and ensquared energies */
    double mean;             /* rank, an empty tile as 0, a dense one as its size; */
    double mean_lowrank;     /* of low-rank tiles, as what follows */
    long p90, largest, tiles, dense, empty, histogram[16];
    double fp16; /* share of its columns that are kept in FP16 */
    double bytes, bytes_dense;
    long shifts;  /* diagonal blocks to which noise was added for a positive pivot, */
    double shift; /* at most [arcsec^2] */
} report_compression;

/* What compute.verify compares. */
typedef enum { VERIFY_W, VERIFY_RESIDUAL, VERIFY_PHASE, VERIFY_SUBJECTS } verify_subject;

/* --- report: time, flops and idle share of each stage --- */
typedef struct { /* a term of the error budget, rms over the pupil with the sign of its variance:
                    of the mean of the targets' variances, smallest, largest [nm] */
    char name[48];
    double mean, least, most;
} report_term;

typedef struct {
    double wall[STAGE_COUNT];  /* time in the stage on this rank, waiting included [s] */
    double wait[STAGE_COUNT];  /* part of it spent waiting for other ranks [s] */
    double flops[STAGE_COUNT]; /* executed by this rank */
    double dgemm; /* measured dgemm rate of this rank or its device, all ranks computing at once
                     [flop/s] */
    double start; /* of the run [s] */
    double shown; /* flops that the progress bar has been told of */
    bool mixed;   /* precision: exposures in mixed and in double, largest sampled difference of the
                     former */
    int exposures_mixed, exposures_double, exposures_sampled;
    int mixed_over;  /* samples that were over the tolerance */
    int mixed_level; /* most exact W that a sample has asked for */
    double mixed_difference;
    double sample_seconds;             /* of the samples in double precision */
    double entries_rms, entries_worst; /* errors of an entry of Cmm that were seen in these, of the
                                          least slope variance; 0: not looked at */
    const report_compression *compression; /* [ncompression], of the reconstructors */
    int ncompression;
    double mixed_unseen; /* share of the exposures that are not sampled which is over the tolerance
                            at most, at 95 % confidence; NAN: all are sampled, or none at random */
    int layers_over;     /* exposures in which tables by layer were over the tolerance; */
    double layers_difference; /* largest difference that they made in the others; 0: none */
    const char *verify; /* compute.verify: residuals checked, largest relative differences, time */
    long verified;
    double verify_largest[VERIFY_SUBJECTS], verify_seconds;
    report_term *budget; /* [nbudget] of the long exposure, on rank 0 */
    int nbudget;
    int nodes, nodes_added, nodes_checked; /* targets.sampling: nodes that were computed, those that
                                              were added, targets that were compared; 0: exact */
    long node_residuals;                   /* residuals of nodes, of all exposures */
    double node_largest, node_tolerance;   /* largest difference of these */
    double planned;                        /* memory of a rank on the host [bytes] */
    const char *format;                    /* of Cmm and its factor: the word of compute.format, */
    const char *factor, *product;          /* and those of compute.factor and compute.product */
    const char *backend, *device;          /* name and description; NULL: the CPU, by panels */
} report;

double report_now(void); /* monotonic clock [s] */
/* Local. What is done from here on, as "stage: step" (a literal): for a tool in the same process
 * that sets the listener, such as bench/gpu/busy.c, and finds it by its name (which therefore the
 * program exports). */
void report_phase(const char *phase);
extern __attribute__((visibility("default"))) void (*report_listener)(const char *phase);
/* Collective: prints the table on rank 0 (stage, time, GFLOP/s, share of dgemm, idle share =
 * (slowest - mean busy time)/slowest, peak memory) and writes it, with the machine's facts, to
 * DIR/run.json. */
status report_finish(const comm *c, const report *r, const char *dir, bool print);

#endif
