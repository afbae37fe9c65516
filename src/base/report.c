#include "progress.h"

#include "file.h"
#include "json.h"
#include "machine.h"
#include "version.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const stage_name[STAGE_COUNT] = {
    [STAGE_SETUP] = "setup",  [STAGE_MATCOV] = "matcov",     [STAGE_FACTOR] = "factor",
    [STAGE_SOLVE] = "solve",  [STAGE_EXPOSURE] = "exposure", [STAGE_PSF] = "psf",
    [STAGE_OUTPUT] = "output"};

typedef struct { /* what a rank contributes; doubles only, so that it travels as an array of them */
    double wall[STAGE_COUNT], wait[STAGE_COUNT], flops[STAGE_COUNT];
    double dgemm, peak;
} contribution;

typedef struct {  /* one row of the table */
    double time;  /* longest over ranks, waiting included [s] */
    double rate;  /* of all ranks together [flop/s] */
    double share; /* of the machine's dgemm */
    double idle;  /* (slowest - mean busy time) / slowest */
    double flops;
} row;

/* Row of the stages first..last taken together. */
static row make_row(const contribution *all, int n, int first, int last, double dgemm) {
    row r = {0};
    double slowest = 0, mean = 0;
    for (int i = 0; i < n; i++) {
        double wall = 0, busy = 0;
        for (int k = first; k <= last; k++) {
            wall += all[i].wall[k];
            busy += all[i].wall[k] - all[i].wait[k];
            r.flops += all[i].flops[k];
        }
        r.time = fmax(r.time, wall);
        slowest = fmax(slowest, busy);
        mean += busy / n;
    }
    r.rate = r.time > 0 ? r.flops / r.time : 0;
    r.share = dgemm > 0 ? r.rate / dgemm : NAN;
    r.idle = slowest > 0 ? (slowest - mean) / slowest : 0;
    return r;
}

static void print_row(const char *name, const row *r) {
    printf("%-10s %10.2f ", name, r->time);
    if (r->flops > 0)
        printf("%10.1f %8.1f %%", r->rate / 1e9, 100 * r->share);
    else
        printf("%10s %10s", "-", "-");
    printf(" %8.1f %%\n", 100 * r->idle);
}

static void write_row(json *j, const char *name, const row *r) {
    json_object(j, NULL);
    json_string(j, "stage", name);
    json_number(j, "time_s", r->time);
    json_number(j, "flop", r->flops);
    json_number(j, "gflops", r->rate / 1e9);
    json_number(j, "dgemm_share", r->share);
    json_number(j, "idle_share", r->idle);
    json_end(j);
}

static void write_versions(json *j) {
    machine_versions v;
    machine_get_versions(&v);
    json_object(j, "versions");
    json_string(j, "moao", MOAO_VERSION);
    json_string(j, "mpi", v.mpi);
    json_string(j, "blas", v.blas);
    json_string(j, "fftw", v.fftw);
    json_string(j, "cfitsio", v.cfitsio);
    json_end(j);
}

/* Model of the processor, as Linux names it; "" when unknown. */
static void processor(char *out, size_t size) {
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    out[0] = '\0';
    while (f != NULL && out[0] == '\0' && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            snprintf(out, size, "%s", strchr(line, ':') + 2);
            out[strcspn(out, "\n")] = '\0';
        }
    if (f != NULL)
        fclose(f);
}

static void write_machine(json *j, const comm *c, const report *r, const char *hosts,
                          double dgemm) {
    char cpu[128];
    json_object(j, "machine");
    json_integer(j, "nodes", c->nnode);
    json_integer(j, "ranks", c->size);
    json_integer(j, "threads_per_rank", c->threads);
    json_array(j, "hosts");
    for (int i = 0; i < c->size; i++) {
        const char *h = hosts + (size_t)i * MPI_MAX_PROCESSOR_NAME;
        int k = 0;
        while (strcmp(hosts + (size_t)k * MPI_MAX_PROCESSOR_NAME, h) != 0)
            k++;
        if (k == i)
            json_string(j, NULL, h);
    }
    json_end(j);
    processor(cpu, sizeof cpu);
    json_string(j, "processor", cpu);
    json_string(j, "blas_kernel", openblas_get_corename());
    json_string(j, "backend", r->backend != NULL ? r->backend : "cpu");
    if (r->device != NULL)
        json_string(j, "device", r->device);
    json_number(j, "dgemm_gflops", dgemm / 1e9);
    json_end(j);
}

typedef struct {
    row stage[STAGE_COUNT], total;
    double elapsed, dgemm, peak_max, peak_sum;
} summary;

static void write_verify(json *j, const report *r) {
    json_object(j, "verify");
    json_string(j, "verify", r->verify != NULL ? r->verify : "off");
    json_integer(j, "residuals", r->verified);
    json_object(j, "largest_differences");
    json_number(j, "reconstructor", r->verify_largest[VERIFY_W]);
    json_number(j, "residual", r->verify_largest[VERIFY_RESIDUAL]);
    json_number(j, "phase", r->verify_largest[VERIFY_PHASE]);
    json_end(j);
    json_number(j, "time_s", r->verify_seconds);
    json_end(j);
}

static void write_precision(json *j, const report *r) {
    json_object(j, "precision");
    json_string(j, "precision", r->mixed ? "mixed" : "double");
    if (r->mixed) {
        json_integer(j, "exposures_mixed", r->exposures_mixed);
        json_integer(j, "exposures_double", r->exposures_double);
        json_number(j, "largest_difference", r->mixed_difference);
        json_integer(j, "exposures_sampled", r->exposures_sampled);
        json_integer(j, "samples_over_tolerance", r->mixed_over);
        json_number(j, "samples_time_s", r->sample_seconds);
        json_integer(j, "accuracy_level", r->mixed_level);
        if (r->entries_worst > 0) {
            json_number(j, "entry_error_rms", r->entries_rms);
            json_number(j, "entry_error_largest", r->entries_worst);
        }
        if (!isnan(r->mixed_unseen))
            json_number(j, "others_over_tolerance_at_most", r->mixed_unseen);
    }
    json_end(j);
}

static void write_budget(json *j, const report *r) {
    json_array(j, "error_budget_nm");
    for (int i = 0; i < r->nbudget; i++) {
        json_object(j, NULL);
        json_string(j, "term", r->budget[i].name);
        json_number(j, "rms", r->budget[i].mean);
        json_number(j, "least", r->budget[i].least);
        json_number(j, "most", r->budget[i].most);
        json_end(j);
    }
    json_end(j);
}

static void write_compression(json *j, const report *r) {
    if (r->ncompression == 0)
        return;
    json_array(j, "compression");
    for (int k = 0; k < r->ncompression; k++) {
        const report_compression *c = &r->compression[k];
        if (c->tile == 0)
            continue;
        json_object(j, NULL);
        json_integer(j, "reconstructor", k + 1);
        json_string(j, "form", c->form);
        json_number(j, "tolerance_arcsec2", c->tolerance);
        json_number(j, "noise_arcsec2", c->noise);
        json_integer(j, "restarts", c->restarts);
        json_string(j, "precision",
                    c->fp16 > 0        ? "single and half"
                    : c->tolerance > 0 ? "single"
                                       : "double");
        json_number(j, "largest_difference", c->difference);
        json_integer(j, "tile", c->tile);
        json_number(j, "mean_rank", c->mean);
        json_integer(j, "rank_90", c->p90);
        json_integer(j, "largest_rank", c->largest);
        json_integer(j, "tiles", c->tiles);
        json_integer(j, "dense_tiles", c->dense);
        json_integer(j, "empty_tiles", c->empty);
        json_array(j, "ranks");
        for (int i = 0; i < 16; i++)
            json_integer(j, NULL, c->histogram[i]);
        json_end(j);
        json_number(j, "share_of_fp16", c->fp16);
        json_integer(j, "shifts", c->shifts);
        json_number(j, "largest_shift_arcsec2", c->shift);
        json_number(j, "bytes", c->bytes);
        json_number(j, "dense_bytes", c->bytes_dense);
        json_end(j);
    }
    json_end(j);
}

static void write_layers(json *j, const report *r) {
    if (r->layers_over == 0 && !(r->layers_difference > 0))
        return;
    json_object(j, "layers");
    json_number(j, "largest_difference", r->layers_difference);
    json_integer(j, "exposures_over_tolerance", r->layers_over);
    json_end(j);
}

static void write_sampling(json *j, const report *r) {
    if (r->nodes == 0)
        return;
    json_object(j, "sampling");
    json_integer(j, "nodes", r->nodes);
    json_integer(j, "nodes_added", r->nodes_added);
    json_integer(j, "node_residuals", r->node_residuals);
    json_integer(j, "targets_compared", r->nodes_checked);
    json_number(j, "tolerance", r->node_tolerance);
    json_number(j, "largest_difference", r->node_largest);
    if (r->nodes_checked > 0)
        json_number(j, "others_over_tolerance_at_most", fmin(1, 3.0 / r->nodes_checked));
    json_end(j);
}

static status write_file(const comm *c, const report *r, const summary *s, const char *hosts,
                         const char *dir) {
    status st;
    json j = {0};
    char *path = NULL, date[40] = "";
    time_t now = time(NULL);
    struct tm tm;
    TRY(file_join(dir, "run.json", &path));
    TRY(json_open(&j, path));
    if (gmtime_r(&now, &tm) != NULL)
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_string(&j, "finished", date);
    json_number(&j, "elapsed_s", s->elapsed);
    json_string(&j, "format", r->format != NULL ? r->format : "dense");
    json_string(&j, "factor", r->factor != NULL ? r->factor : "dense");
    json_string(&j, "product", r->product != NULL ? r->product : "exact");
    write_versions(&j);
    write_machine(&j, c, r, hosts, s->dgemm);
    json_array(&j, "stages");
    for (int k = 0; k < STAGE_COUNT; k++)
        write_row(&j, stage_name[k], &s->stage[k]);
    write_row(&j, "total", &s->total);
    json_end(&j);
    write_precision(&j, r);
    write_compression(&j, r);
    write_layers(&j, r);
    write_verify(&j, r);
    write_sampling(&j, r);
    if (r->nbudget > 0)
        write_budget(&j, r);
    json_object(&j, "memory");
    json_number(&j, "planned_rank_bytes", r->planned);
    json_number(&j, "peak_rank_bytes", s->peak_max);
    json_number(&j, "peak_sum_bytes", s->peak_sum);
    json_end(&j);
    st = json_close(&j);
done:
    json_abandon(&j);
    free(path);
    return st;
}

static void print_table(const comm *c, const report *r, const summary *s) {
    printf("\n%-10s %10s %10s %10s %10s\n", "stage", "time [s]", "GFLOP/s", "of dgemm", "idle");
    for (int k = 0; k < STAGE_COUNT; k++)
        print_row(stage_name[k], &s->stage[k]);
    print_row("total", &s->total);
    printf("elapsed %.2f s; %d rank%s of %d thread%s on %d node%s; dgemm %.1f GFLOP/s (%s)\n",
           s->elapsed, c->size, c->size > 1 ? "s" : "", c->threads, c->threads > 1 ? "s" : "",
           c->nnode, c->nnode > 1 ? "s" : "", s->dgemm / 1e9,
           r->backend != NULL ? r->backend : openblas_get_corename());
    printf("peak memory: %.1f MiB on the fullest rank, %.1f MiB on all ranks\n",
           s->peak_max / 1048576, s->peak_sum / 1048576);
    fflush(stdout);
}

static void summarise(const contribution *all, int n, double elapsed, summary *s) {
    memset(s, 0, sizeof *s);
    s->elapsed = elapsed;
    for (int i = 0; i < n; i++) {
        s->dgemm += all[i].dgemm;
        s->peak_sum += all[i].peak;
        s->peak_max = fmax(s->peak_max, all[i].peak);
    }
    for (int k = 0; k < STAGE_COUNT; k++)
        s->stage[k] = make_row(all, n, k, k, s->dgemm);
    s->total = make_row(all, n, 0, STAGE_COUNT - 1, s->dgemm);
}

status report_finish(const comm *c, const report *r, const char *dir, bool print) {
    enum { NUMBERS = sizeof(contribution) / sizeof(double) };
    status st;
    contribution mine = {.dgemm = r->dgemm, .peak = (double)machine_memory_peak()}, *all = NULL;
    char name[MPI_MAX_PROCESSOR_NAME] = "", *hosts = NULL;
    size_t nroot = c->rank == 0 ? (size_t)c->size : 0;
    int n;
    memcpy(mine.wall, r->wall, sizeof mine.wall);
    memcpy(mine.wait, r->wait, sizeof mine.wait);
    memcpy(mine.flops, r->flops, sizeof mine.flops);
    st = ALLOC(all, nroot, "reports of the ranks");
    if (st == MOAO_OK)
        st = ALLOC(hosts, nroot * MPI_MAX_PROCESSOR_NAME, "names of the hosts");
    TRY(comm_agree(c, st));
    MPI_Get_processor_name(name, &n);
    MPI_Gather(&mine, NUMBERS, MPI_DOUBLE, all, NUMBERS, MPI_DOUBLE, 0, c->mpi);
    MPI_Gather(name, sizeof name, MPI_CHAR, hosts, sizeof name, MPI_CHAR, 0, c->mpi);
    if (c->rank == 0) {
        summary s;
        summarise(all, c->size, report_now() - r->start, &s);
        if (print)
            print_table(c, r, &s);
        if (dir != NULL)
            st = write_file(c, r, &s, hosts, dir);
    }
    st = comm_agree(c, st);
done:
    free(hosts);
    free(all);
    return st;
}
