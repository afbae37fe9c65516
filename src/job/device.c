#include "job/device.h"

#include "backend/families.h"
#include "base/fault.h"
#include "job/plan.h"
#include "moao/backend_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A GPU makes covariances of sensors of one delay, of one frame. */
const char *device_host_only(const params *par) {
    for (int w = 0; w < par->sensors.n; w++)
        if (params_given(par->sensors.v[w].delay))
            return "sensors with delays of their own are computed on CPUs";
    if (par->loop_type != LOOP_OPEN && par->loop_lags == LAGS_EXACT)
        return "the covariances of a closed loop are computed on CPUs (loop.lags: equivalent has a "
               "GPU's)";
    if (par->loop_low_type != LOOP_OPEN)
        return "the covariances of two loops are computed on CPUs (loop.low.type: loop has a "
               "GPU's)";
    return NULL;
}

/* The GPU's backend if it is usable; else the reason, which is an error where it was asked for. */
static status find_gpu(bool required, machine *m) {
    status st = families_backend("gpu", &m->be);
    if (st == MOAO_OK && (m->be->matcov == NULL || m->be->psf == NULL))
        st = status_fail(MOAO_INPUT, "the GPU plugin was built without covariances or PSFs");
    if (st == MOAO_OK)
        return st;
    snprintf(m->text, sizeof m->text, "%s", status_message());
    status_clear();
    m->be = NULL;
    if (!required)
        return MOAO_OK;
    return status_fail(MOAO_INPUT,
                       "compute.backend: %s; a GPU needs its driver, the CUDA libraries and the "
                       "plugin (make gpu); compute.backend=cpu does without",
                       m->text);
}

/* --- its start */

bool device_is_likely(const params *par) {
    return par->compute_backend != BACKEND_CPU && device_host_only(par) == NULL &&
           test_choice("device") == NULL && backend_has_driver();
}

/* Failures are device_choose's to tell, and of who opens the device. */
static void start_driver(device_start *d) {
    if (families_backend("gpu", &d->be) != MOAO_OK) {
        d->be = NULL;
        return;
    }
    const int n = d->be->devices(); /* its memory is that of a context, which is made */
    d->known = n > 0 && d->be->memory(d->node_rank % n, &d->free, &d->memory) == MOAO_OK;
}

static void start_libraries(const device_start *d) {
    const int n = d->be != NULL ? d->be->devices() : 0;
    backend_ctx *ctx;
    if (n > 0 && d->be->open(d->node_rank % n, NULL, &ctx) == MOAO_OK)
        d->be->close(ctx);
}

static status start(void *of) {
    device_start *d = of;
    start_driver(d);
    sem_post(&d->driven);
    start_libraries(d);
    return MOAO_OK;
}

void device_begin(const comm *c, device_start *d) {
    *d = (device_start){.node_rank = c->node_rank};
    d->begun = sem_init(&d->driven, 0, 0) == 0;
    background_begin(&d->thread, 1, start, d);
}

void device_wait(device_start *d) {
    while (d->thread.started && sem_wait(&d->driven) != 0) /* a signal */
        ;
}

void device_end(device_start *d) {
    background_drop(&d->thread);
    if (d->begun)
        sem_destroy(&d->driven);
    d->begun = false;
}

/* --- which one */

/* Collective. Most ranks of a node that have a device of one name. */
static status count_sharing(const comm *c, const char name[BACKEND_IDENTITY], int *sharing) {
    char *all = NULL;
    *sharing = 0;
    status st = comm_agree(c, ALLOC(all, (size_t)c->node_size * BACKEND_IDENTITY, "devices"));
    if (st != MOAO_OK)
        return st;
    MPI_Allgather(name, BACKEND_IDENTITY, MPI_CHAR, all, BACKEND_IDENTITY, MPI_CHAR, c->node);
    for (int i = 0; i < c->node_size; i++)
        *sharing += strcmp(all + (size_t)i * BACKEND_IDENTITY, name) == 0;
    free(all);
    MPI_Allreduce(MPI_IN_PLACE, sharing, 1, MPI_INT, MPI_MAX, c->mpi);
    return MOAO_OK;
}

/* Collective. The model of all ranks' devices; NULL where they differ or one is not known. */
static const gpu_model *common_model(const comm *c, const char *described) {
    const gpu_model *mine = gpu_model_of_device(described);
    long range[2] = {mine != NULL ? mine - gpu_model_at(0) : -1, 0};
    range[1] = -range[0];
    MPI_Allreduce(MPI_IN_PLACE, range, 2, MPI_LONG, MPI_MIN, c->mpi);
    return range[0] >= 0 && range[0] == -range[1] ? mine : NULL;
}

status device_choose(const comm *c, const params *par, bool own, const device_start *begun,
                     machine *m) {
    const char *named = test_choice("device");
    status st = MOAO_OK;
    m->devices = m->host = m->own = false;
    m->be = NULL;
    m->model = NULL;
    m->text[0] = '\0';
    if (named != NULL)
        st = families_backend(named, &m->be);
    else if (par->compute_backend == BACKEND_GPU && device_host_only(par) != NULL)
        st = status_fail(MOAO_INPUT, "compute.backend: gpu, but %s; expected auto or cpu",
                         device_host_only(par));
    else if (par->compute_backend != BACKEND_CPU && device_host_only(par) != NULL)
        snprintf(m->text, sizeof m->text, "%s", device_host_only(par));
    else if (par->compute_backend != BACKEND_CPU)
        st = find_gpu(par->compute_backend == BACKEND_GPU, m);
    if (st == MOAO_OK && m->be == NULL && own) {
        st = families_backend("cpu", &m->be); /* each rank for itself */
        m->own = true;
    }
    TRY(comm_agree(c, st));
    int mine = m->be != NULL, all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, c->mpi);
    if (mine && !all) {
        snprintf(m->text, sizeof m->text, "not every rank has a usable GPU");
        m->be = NULL;
    }
    if (m->be == NULL)
        return MOAO_OK;
    m->devices = true;
    m->host = m->be == &backend_cpu;
    const int n = m->be->devices();
    char name[BACKEND_IDENTITY] = "";
    size_t bytes = 0, all_bytes = 0;
    if (n > 0)
        st = m->be->describe(c->node_rank % n, m->text, sizeof m->text);
    if (begun != NULL && begun->known && !m->host)
        bytes = begun->free, all_bytes = begun->memory;
    else if (n > 0 && st == MOAO_OK)
        st = m->be->memory(c->node_rank % n, &bytes, &all_bytes);
    if (n > 0 && st == MOAO_OK)
        st = m->be->identify(c->node_rank % n, name);
    TRY(comm_agree(c, st));
    TRY(count_sharing(c, name, &m->sharing));
    double least[2] = {(double)bytes, (double)all_bytes};
    MPI_Allreduce(MPI_IN_PLACE, least, 2, MPI_DOUBLE, MPI_MIN, c->mpi);
    m->device_free = least[0];
    m->device_memory = least[1];
    m->model = m->host ? NULL : common_model(c, m->text);
done:
    return st;
}
