/* Entries per second of the covariance fills against the direct evaluation of the closed form, on
 * one core with 10 layers, in one run. Wanted: 15 times for other sensors, 300 times for like
 * ones. */
#include "matcov/matcov.h"

#include <math.h>
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SENSORS 3
#define LAYERS 10

static void check(status st) {
    if (st != MOAO_OK) {
        fprintf(stderr, "bench_matcov: %s\n", status_message());
        exit(1);
    }
}

/* A 38.5 m telescope with two laser stars and a natural one, under ten layers. */
static void make_case(sys *s, profile *p) {
    *s = (sys){.diameter = 38.5, .obs = 0.275, .nsensor = SENSORS, .delay = 0.003};
    s->ts = (sensor){.nssp = 40, .altitude = INFINITY, .mag = 1};
    s->dm = (dmirror){.nssp = 40, .coupling = 0.2, .mu = 3e-3};
    check(ALLOC(s->sensors, SENSORS, "sensors"));
    for (int w = 0; w < SENSORS; w++)
        s->sensors[w] = (sensor){.lgs = w < 2,
                                 .nssp = w < 2 ? 40 : 20,
                                 .dir = {(w - 1) * 8e-4, (w - 0.5) * 3e-4},
                                 .altitude = w < 2 ? 90e3 : INFINITY,
                                 .mag = 1,
                                 .noise = {.variance = 0.01, .tiptilt = 1}};
    check(sys_derive(s));
    *p = (profile){.nlayer = LAYERS, .r0 = 0.15};
    check(ALLOC(p->h, LAYERS, "profile"));
    check(ALLOC(p->L0, LAYERS, "profile"));
    check(ALLOC(p->strength, LAYERS, "profile"));
    check(ALLOC(p->wind[0], LAYERS, "profile"));
    check(ALLOC(p->wind[1], LAYERS, "profile"));
    for (int l = 0; l < LAYERS; l++) {
        p->h[l] = 1500.0 * l;
        p->L0[l] = 20.0 + l;
        p->strength[l] = pow(0.15, -5.0 / 3) / LAYERS;
        p->wind[0][l] = 10;
    }
}

/* Time of this thread's core [s]: not what others take of a shared machine. */
static double cpu_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best time of a few repetitions of a fill; entries per second. */
#define RATE(repeat, entries, call)                                                                \
    __extension__({                                                                                \
        double best = INFINITY;                                                                    \
        for (int r = 0; r < (repeat); r++) {                                                       \
            double from = cpu_time();                                                              \
            call;                                                                                  \
            best = fmin(best, cpu_time() - from);                                                  \
        }                                                                                          \
        (double)(entries) / best;                                                                  \
    })

static double direct(const sys *s, const profile *p, size_t i0, size_t j0, size_t n, double *a) {
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++)
            a[i + j * n] = matcov_direct_cmm(s, p, i0 + 17 * i, j0 + 17 * j);
    return a[0];
}

static void line(const char *what, double rate, double reference, double wanted) {
    printf("%-46s %10.3g entries/s %8.3g ns %8.1f x direct", what, rate, 1e9 / rate,
           rate / reference);
    if (wanted > 0)
        printf("  (wanted %g: %s)", wanted, rate >= wanted * reference ? "reached" : "MISSED");
    printf("\n");
}

int main(int argc, char **argv) {
    comm c;
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
    MPI_Init(&argc, &argv);
    check(comm_init(MPI_COMM_SELF, &c));
    omp_set_num_threads(1);
    make_case(&s, &p);
    double init = 1 / RATE(3, 1, {
                      check(matcov_init(&c, &s, &p, &mc));
                      matcov_free(mc);
                  });
    check(matcov_init(&c, &s, &p, &mc));
    size_t lgs = s.sensors[1].first, ngs = s.sensors[2].first, n = 512;
    double *a = malloc(s.t * n * sizeof *a), dir[2] = {3e-4, 2e-4};
    double reference = fmin(RATE(3, 48 * 48, direct(&s, &p, lgs, ngs, 48, a)),
                            RATE(3, 48 * 48, direct(&s, &p, 0, lgs, 48, a)));
    printf("%d layers, 1 thread; matcov_init %.1f ms\n", LAYERS, 1e3 * init);
    line("direct evaluation", reference, reference, 0);
    for (size_t b = 64; b <= 512; b *= 2) {
        char what[64];
        snprintf(what, sizeof what, "Cmm block %zu x %zu, laser with natural star", b, b);
        line(what,
             RATE(200 * 4096 / (int)(b * b) + 5, b * b,
                  check(matcov_fill_cmm(mc, 500, b, ngs, b, a, b))),
             reference, 15);
        snprintf(what, sizeof what, "Cmm block %zu x %zu, two laser stars", b, b);
        line(what, RATE(200, b * b, check(matcov_fill_cmm(mc, 500, b, lgs, b, a, b))), reference,
             300);
    }
    check(matcov_target_init(mc, dir, true, &mt));
    line("Ctm panel t x 512, laser star, x slopes",
         RATE(5, s.t * n, check(matcov_fill_ctm(mt, 0, n, a, s.t))), reference, 15);
    line("Ctm panel t x 512, laser star, y slopes",
         RATE(5, s.t * n, check(matcov_fill_ctm(mt, (size_t)s.sensors[0].nsub, n, a, s.t))),
         reference, 15);
    line("Ctm panel t x 512, natural star, half sampling",
         RATE(20, s.t * n, check(matcov_fill_ctm(mt, ngs, n, a, s.t))), reference, 300);
    matcov_target_free(mt);
    double target = 1 / RATE(3, 1, {
                        check(matcov_target_init(mc, dir, true, &mt));
                        matcov_target_free(mt);
                    });
    printf("matcov_target_init %.2f ms\n", 1e3 * target);
    free(a);
    matcov_free(mc);
    free(p.h);
    free(p.L0);
    free(p.strength);
    free(p.wind[0]);
    free(p.wind[1]);
    sys_free(&s);
    comm_free(&c);
    MPI_Finalize();
    return 0;
}
