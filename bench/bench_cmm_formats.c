/* Hierarchical formats of the covariance of measurements: bench_cmm_formats [DIAMETER
 * [TOLERANCE...]], without words 3 m and 1e-3 of a slope's variance. The stars and pitches of
 * params/mosaic.yaml with a smaller diameter [m] and a field as much smaller, the ten layers of
 * params/elt-small.yaml. HSS with clusters of all sensors together and sensor by sensor, H2 sensor
 * by sensor with what is apart on every layer: mean and largest rank, numbers kept (of these in
 * dense blocks) and operations of a product with one vector, in units of the dense matrix's, rms
 * error of an entry in units of the variance, processor time [s]. */
#include "engine/cmm_source.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FULL 38.9 /* diameter of params/mosaic.yaml [m] */

static const double stars[][2] = {{222, 0},        {111, 192.26},  {-111, 192.26}, {-222, 0},
                                  {-111, -192.26}, {111, -192.26}, {30, 65},       {-80, 45},
                                  {-35, -95},      {120, -60},     {190, 150},     {-190, 150},
                                  {-170, -180},    {90, -250}};
#define NSENSOR ((int)(sizeof stars / sizeof *stars))
#define NLGS 6
static const double altitude[] = {30, 200, 500, 1300, 2600, 4500, 6500, 9000, 12000, 16000};
static const double fraction[] = {0.34, 0.14, 0.1, 0.08, 0.05, 0.07, 0.05, 0.06, 0.08, 0.03};
#define NLAYER ((int)(sizeof altitude / sizeof *altitude))

static status make(double diameter, sys *s, profile *p) {
    const double scale = diameter / FULL, airmass = 1 / cos(acos(-1.0) / 6);
    status st;
    *s = (sys){.diameter = diameter, .obs = 0.275, .airmass = airmass, .nsensor = NSENSOR};
    s->ts = (sensor){.name = "TS", .nssp = (int)lround(84 * scale), .altitude = INFINITY, .mag = 1};
    s->dm = (dmirror){.nssp = s->ts.nssp, .coupling = 0.2, .mu = 3e-3};
    TRY(ALLOC(s->sensors, NSENSOR, "sensors"));
    for (int w = 0; w < NSENSOR; w++) {
        sensor *o = &s->sensors[w];
        *o = (sensor){.lgs = w < NLGS,
                      .nssp = (int)lround((w < NLGS ? 76 : 67) * scale),
                      .altitude = w < NLGS ? 9e4 * airmass : INFINITY,
                      .mag = 1,
                      .noise = {.variance = 1e-4}};
        for (int i = 0; i < 2; i++)
            o->dir[i] = scale * stars[w][i] / ARCSEC_PER_RAD;
    }
    *p = (profile){.nlayer = NLAYER, .r0 = 0.157};
    TRY(ALLOC(p->h, NLAYER, "layers"));
    TRY(ALLOC(p->L0, NLAYER, "layers"));
    TRY(ALLOC(p->strength, NLAYER, "layers"));
    for (int i = 0; i < 2; i++)
        TRY(ALLOC(p->wind[i], NLAYER, "layers"));
    for (int l = 0; l < NLAYER; l++) {
        p->h[l] = altitude[l] * airmass;
        p->L0[l] = 25;
        p->strength[l] = fraction[l] * pow(p->r0, -5.0 / 3) * airmass;
    }
    st = sys_derive(s);
done:
    return st;
}

static double processor(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One format at an absolute tolerance; a rank beyond the format's bound is said. */
static status one(engine *e, const profile *p, hier_kind kind, cmm_clusters how, double variance,
                  double tol) {
    const hier_options o = {.kind = kind,
                            .type = BACKEND_D,
                            .tol = tol * variance,
                            .leaf = kind == HIER_H2 ? 16 : 0,
                            .seed = 1,
                            .mean_split = how == CMM_BY_SENSOR && kind == HIER_H2,
                            .lean = true};
    const double dense = (double)e->m * (double)e->m;
    hier_source s;
    format *f = NULL;
    hier_info info;
    double rms, worst;
    status st;
    TRY(cmm_source_open(e, how, p, MATCOV_NOISE, &s));
    printf("%-4s %-22s %.0e  ", kind == HIER_H2 ? "H2" : "HSS",
           how == CMM_JOINT ? "all sensors together" : "sensor by sensor", tol);
    const double from = processor();
    st = hier_open(e->be, e->ctx, &s, &o, &f);
    if (st == MOAO_MEMORY) {
        printf("no: %s\n", status_message());
        status_clear();
        st = MOAO_OK;
        goto done;
    }
    TRY(st);
    const double made = processor() - from;
    TRY(hier_check(f, &s, 256, 1, &rms, &worst));
    hier_describe(f, &info);
    printf("%6d %6d  %8.2f %8.2f %8.2f  %.1e  %8.2f\n", info.rank_mean, info.rank_max,
           (double)info.bytes / (8 * dense), (double)info.bytes_dense_part / (8 * dense),
           info.flops / dense, rms / variance, made);
done:
    hier_close(f);
    cmm_source_close(&s);
    return st;
}

static status run(const comm *world, double diameter, int ntol, char **tol) {
    report rep = {0};
    sys s = {0};
    profile p = {0};
    engine e = {.c = world, .s = &s, .rep = &rep, .rows = 1, .width = 64};
    double variance;
    status st;
    TRY(make(diameter, &s, &p));
    e.m = (int64_t)s.m, e.t = (int64_t)s.t;
    TRY(backend_get("cpu", &e.be));
    TRY(engine_open(&e));
    TRY(engine_load(&e, &p));
    TRY(e.mat->fill_cmm(e.cov, BACKEND_D, 'A', 0, 0, 1, 0, 1, &variance, 1));
    printf("%lld measurements\n%-27s %s    mean largest     bytes    dense    flops  rms      "
           "made\n",
           (long long)e.m, "clusters", "tol");
    for (int i = 0; i < ntol; i++) {
        const double t = atof(tol[i]);
        TRY(one(&e, &p, HIER_HSS, CMM_JOINT, variance, t));
        TRY(one(&e, &p, HIER_H2, CMM_BY_SENSOR, variance, t));
    }
done:
    engine_close(&e);
    sys_free(&s);
    free(p.h), free(p.L0), free(p.strength), free(p.wind[0]), free(p.wind[1]);
    return st;
}

int main(int argc, char **argv) {
    char *standard[] = {"1e-3"};
    comm c;
    status st;
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false", 0);
    MPI_Init(NULL, NULL);
    TRY(comm_init(MPI_COMM_WORLD, &c));
    TRY(run(&c, argc > 1 ? atof(argv[1]) : 3, argc > 2 ? argc - 2 : 1,
            argc > 2 ? argv + 2 : standard));
    comm_free(&c);
    MPI_Finalize();
done:
    if (st != MOAO_OK)
        fprintf(stderr, "%s\n", status_message());
    return status_exit_code(st);
}
