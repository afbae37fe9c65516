/* What a process gives a GPU to do and when, by CUPTI's activity records. The CUDA driver loads
 * this library into any program: CUDA_INJECTION64_PATH=build/bench/gpu/libmoao_busy.so
 * MOAO_BUSY=busy.csv moao run ... At exit it writes the file named (of rank N of several:
 * busy.csv.N), which scripts/gpu-busy.py reads: lines "kind,start,end,asked,stream,name" in
 * nanoseconds of one clock. Kinds: kernel, memcpy and memset on the device, asked for by the host
 * at `asked`; host, a call of the CUDA runtime or driver that took longer than LONG_CALL; phase,
 * from a mark of the program (report_phase) to the next one. */
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER ((size_t)4 << 20)
#define LONG_CALL 20000 /* [ns] */

typedef struct {
    char kind; /* k, c, s: kernel, memcpy, memset; h: call of the host; p: phase */
    uint32_t correlation, stream;
    uint64_t start, end;
    const char *name;
} record;

typedef struct {
    record *r;
    size_t n, room;
    int failed; /* memory ended: records are missing */
} list;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static list done, calls, phases; /* on the device, of the host, of the program */

static void add(list *l, record r) {
    pthread_mutex_lock(&lock);
    if (l->n == l->room) {
        size_t room = l->room > 0 ? 2 * l->room : 4096;
        record *more = realloc(l->r, room * sizeof *more);
        if (more != NULL) {
            l->r = more;
            l->room = room;
        }
    }
    if (l->n < l->room)
        l->r[l->n++] = r;
    else
        l->failed = 1;
    pthread_mutex_unlock(&lock);
}

/* Called by the program: phase is a string that stays. */
static void on_phase(const char *phase) {
    uint64_t now = 0;
    cuptiGetTimestamp(&now);
    add(&phases, (record){.kind = 'p', .start = now, .end = now, .name = phase});
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *records) {
    *buffer = aligned_alloc(8, BUFFER);
    *size = *buffer != NULL ? BUFFER : 0;
    *records = 0;
}

static void take_record(const CUpti_Activity *a) {
    if (a->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel9 *k = (const void *)a;
        char *name = strdup(k->name != NULL ? k->name : "?");
        add(&done, (record){'k', k->correlationId, k->streamId, k->start, k->end, name});
    } else if (a->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        static const char *const kinds[] = {
            "?",         "to device", "to host",        "?", "?", "?", "?", "?",
            "on device", "on host",   "between devices"};
        const CUpti_ActivityMemcpy5 *c = (const void *)a;
        const char *name = c->copyKind < sizeof kinds / sizeof *kinds ? kinds[c->copyKind] : "?";
        add(&done, (record){'c', c->correlationId, c->streamId, c->start, c->end, name});
    } else if (a->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *s = (const void *)a;
        add(&done, (record){'s', s->correlationId, s->streamId, s->start, s->end, "memset"});
    } else if (a->kind == CUPTI_ACTIVITY_KIND_RUNTIME || a->kind == CUPTI_ACTIVITY_KIND_DRIVER) {
        const CUpti_ActivityAPI *c = (const void *)a;
        const char *name = NULL;
        CUpti_CallbackDomain domain = a->kind == CUPTI_ACTIVITY_KIND_RUNTIME
                                          ? CUPTI_CB_DOMAIN_RUNTIME_API
                                          : CUPTI_CB_DOMAIN_DRIVER_API;
        if (cuptiGetCallbackName(domain, c->cbid, &name) != CUPTI_SUCCESS || name == NULL)
            name = "?";
        add(&calls, (record){'h', c->correlationId, 0, c->start, c->end, name});
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid) {
    CUpti_Activity *a = NULL;
    (void)context, (void)stream, (void)size;
    while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &a) == CUPTI_SUCCESS)
        take_record(a);
    free(buffer);
}

static int by_correlation(const void *a, const void *b) {
    const record *x = a, *y = b;
    return x->correlation != y->correlation
               ? (x->correlation > y->correlation) - (x->correlation < y->correlation)
               : (x->start > y->start) - (x->start < y->start);
}

/* When the host asked for what has this number: the start of the outermost call. */
static uint64_t asked(const record *r) {
    size_t lo = 0, hi = calls.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (calls.r[mid].correlation < r->correlation)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < calls.n && calls.r[lo].correlation == r->correlation ? calls.r[lo].start : r->start;
}

static void put(FILE *f, const char *kind, const record *r, uint64_t when) {
    fprintf(f, "%s,%llu,%llu,%llu,%u,\"%s\"\n", kind, (unsigned long long)r->start,
            (unsigned long long)r->end, (unsigned long long)when, r->stream, r->name);
}

static void write_all(FILE *f) {
    fprintf(f, "kind,start,end,asked,stream,name\n");
    for (size_t i = 0; i < phases.n; i++) {
        record p = phases.r[i];
        if (i + 1 < phases.n)
            p.end = phases.r[i + 1].start;
        else
            cuptiGetTimestamp(&p.end);
        put(f, "phase", &p, p.start);
    }
    for (size_t i = 0; i < done.n; i++) {
        const record *r = &done.r[i];
        put(f, r->kind == 'k' ? "kernel" : r->kind == 'c' ? "memcpy" : "memset", r, asked(r));
    }
    for (size_t i = 0; i < calls.n; i++)
        if (calls.r[i].end - calls.r[i].start > LONG_CALL)
            put(f, "host", &calls.r[i], calls.r[i].start);
}

static void finish(void) {
    const char *path = getenv("MOAO_BUSY"), *rank = getenv("OMPI_COMM_WORLD_RANK"),
               *ranks = getenv("OMPI_COMM_WORLD_SIZE");
    char name[4096];
    size_t dropped = 0;
    cuptiActivityFlushAll(1);
    cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
    if (done.n == 0)
        return; /* a launcher that only looked for devices */
    path = path != NULL ? path : "busy.csv";
    if (rank != NULL && ranks != NULL && strcmp(ranks, "1") != 0)
        snprintf(name, sizeof name, "%s.%s", path, rank);
    else
        snprintf(name, sizeof name, "%s", path);
    if (calls.n > 0)
        qsort(calls.r, calls.n, sizeof *calls.r, by_correlation);
    FILE *f = fopen(name, "w");
    if (f == NULL) {
        perror(name);
        return;
    }
    write_all(f);
    fclose(f);
    if (dropped > 0 || done.failed || calls.failed || phases.failed)
        fprintf(stderr, "%s: records are missing (%zu dropped, or no memory)\n", name, dropped);
}

/* The driver calls it when the program initialises CUDA. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
    static const CUpti_ActivityKind kinds[] = {
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};
    void (**listener)(const char *) =
        (void (**)(const char *))dlsym(RTLD_DEFAULT, "report_listener");
    CUptiResult e = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    for (size_t i = 0; e == CUPTI_SUCCESS && i < sizeof kinds / sizeof *kinds; i++)
        e = cuptiActivityEnable(kinds[i]);
    if (e != CUPTI_SUCCESS) {
        const char *text = "?";
        cuptiGetResultString(e, &text);
        fprintf(stderr, "CUPTI: %s\n", text);
        return 0;
    }
    if (listener != NULL)
        *listener = on_phase;
    atexit(finish);
    return 1;
}
