/* Thread blocks on the CPU: every thread of a block is a fiber, a stack of its own in the one
 * thread of the process. A fiber runs until it has to wait for others; then the next one that can
 * go on does. When none can, the kernel would hang. MOAO_EMULATOR_ORDER (forward, backward,
 * scattered) says in which order fibers take turns: a kernel that needs a barrier which it lacks
 * often fails in one of them. */
#include "emulator.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <vector>

#ifndef __x86_64__
#error "the emulator changes stacks with instructions of x86-64"
#endif

thread_id threadIdx, blockIdx;
dim3 blockDim, gridDim;

/* Keeps the registers that a function must keep on the stack, and takes up another one. */
extern "C" void emulator_switch(void **left, void *taken);
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace emulator {
alignas(128) unsigned char shared_memory[SHARED_MOST + SHARED_WATCHED];
int capability() {
    const char *named = getenv("MOAO_EMULATOR_CAPABILITY");
    int major, minor;
    return named && sscanf(named, "%d.%d", &major, &minor) == 2 ? 10 * major + minor
                                                                : EMULATED_ARCH / 10;
}
size_t shared_most() {
    static const size_t most = [] {
        const char *named = getenv("MOAO_EMULATOR_SHARED");
        const size_t kib = named ? (size_t)atoi(named) : 0;
        return kib > 0 && kib << 10 < SHARED_MOST ? kib << 10 : SHARED_MOST;
    }();
    return most;
}

namespace {
constexpr size_t STACK = 256 << 10, PAGE = 4096;
enum state { READY, AT_BLOCK, AT_PART, AT_WARP, ENDED };
const char *const STATES[] = {"runs", "waits for the block", "waits for a part of the block",
                              "waits for its warp", "has ended"};

struct fiber {
    char *stack;
    void *top; /* of the stack, while it does not run */
    state at;
    meeting kind;
    unsigned mask; /* of the lanes it waits for; of a part of the block, its barrier */
    uint64_t value;
    bool vote;
};
std::vector<fiber> fibers;
std::vector<const void *> variables;         /* in shared memory, to which the block has come */
size_t in_variables;                         /* bytes */
unsigned threads, current, running, arrived; /* of the block */
void *scheduler;
bool voted;
/* values of the last meeting of a warp's lanes, one for each lowest lane of a mask */
uint64_t met[32][32][32];
const std::function<void()> *body;
long launches, blocks;

struct summary {
    ~summary() {
        fprintf(stderr, "emulator: %ld kernels, %ld blocks\n", launches, blocks);
    }
} at_exit;

void wait_for_turn() {
    emulator_switch(&fibers[current].top, scheduler);
    threadIdx = {current, 0, 0};
}

void begin_fiber() {
    threadIdx = {current, 0, 0};
    (*body)();
    fibers[current].at = ENDED;
    running--;
    emulator_switch(&fibers[current].top, scheduler);
    abort(); /* nobody takes up a fiber that has ended */
}

/* All who still run have come to the block's barrier: they go on. */
void open_barrier() {
    int first = -1;
    if (arrived == 0 || arrived < running)
        return;
    voted = false;
    for (unsigned i = 0; i < threads; i++) {
        fiber &f = fibers[i];
        if (f.at != AT_BLOCK)
            continue;
        if (first >= 0 && f.kind != fibers[(unsigned)first].kind)
            fail("threads %d and %u meet in different barriers", first, i);
        first = (int)i;
        voted |= f.vote;
        f.at = READY;
    }
    arrived = 0;
}

/* All lanes of the mask that still run have come, each with this mask: they go on. */
void open_warp(unsigned warp, unsigned mask) {
    fiber *const lanes = &fibers[32 * warp];
    int first = -1;
    for (unsigned i = 0; i < 32; i++)
        if ((mask >> i & 1) && lanes[i].at != ENDED &&
            (lanes[i].at != AT_WARP || lanes[i].mask != mask))
            return;
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1))
            continue;
        met[warp][__builtin_ctz(mask)][i] = lanes[i].value;
        if (lanes[i].at == ENDED)
            continue;
        if (first >= 0 && lanes[i].kind != lanes[first].kind)
            fail("lanes %d and %u of warp %u meet in different operations", first, i, warp);
        first = (int)i;
        lanes[i].at = READY;
    }
}

/* One fiber less to wait for, in the block and in every meeting of its warp. */
void has_ended(unsigned thread) {
    open_barrier();
    for (unsigned i = thread / 32 * 32; i < thread / 32 * 32 + 32; i++)
        if (fibers[i].at == AT_WARP)
            open_warp(thread / 32, fibers[i].mask);
}

/* A stack whose lowest page cannot be touched: one that is too small ends the program at once. */
char *new_stack() {
    void *p = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE) != 0)
        fail("no memory for the stacks of threads");
    return (char *)p;
}

void start_block() {
    while (fibers.size() < threads)
        fibers.push_back({new_stack(), NULL, READY, BARRIER, 0, 0, false});
    memset(shared_memory, 0xff, sizeof shared_memory);
    variables.clear(), in_variables = 0;
    running = threads, arrived = 0;
    for (unsigned i = 0; i < threads; i++) {
        fiber &f = fibers[i];
        void **top = (void **)(f.stack + STACK - 64);
        *--top = NULL; /* where begin_fiber would return to: the stack is aligned as after a call */
        *--top = (void *)begin_fiber;
        for (int k = 0; k < 6; k++)
            *--top = NULL; /* the registers that emulator_switch takes up */
        f.top = top, f.at = READY, f.value = 0;
    }
}

/* The k-th fiber in the order of this run; 37 has no divisor in common with the number of threads
 * of whole warps. */
unsigned turn(unsigned k) {
    static const char *const order = getenv("MOAO_EMULATOR_ORDER");
    if (!order || !*order || !strcmp(order, "forward"))
        return k;
    if (!strcmp(order, "backward"))
        return threads - 1 - k;
    if (!strcmp(order, "scattered"))
        return (37 * k + 5) % threads;
    fail("MOAO_EMULATOR_ORDER=%s: forward, backward or scattered", order);
}

void report_hang() {
    fprintf(stderr, "emulator: no thread can go on:\n");
    for (unsigned i = 0, from = 0; i < threads; i++) {
        const fiber &f = fibers[i];
        const bool last = i + 1 == threads || fibers[i + 1].at != f.at ||
                          (f.at == AT_WARP && fibers[i + 1].mask != f.mask);
        if (!last)
            continue;
        fprintf(stderr, "  threads %u to %u: %s", from, i, STATES[f.at]);
        fprintf(stderr, f.at == AT_WARP ? ", lanes %08x\n" : "\n", f.mask);
        from = i + 1;
    }
    fail("the kernel hangs");
}

void run_block(size_t shared, size_t allowed) {
    start_block();
    while (running) {
        bool any = false;
        for (unsigned k = 0; k < threads; k++) {
            const unsigned i = turn(k);
            if (fibers[i].at != READY)
                continue;
            any = true, current = i;
            emulator_switch(&scheduler, fibers[i].top);
            if (fibers[i].at == ENDED)
                has_ended(i);
        }
        if (running && !any)
            report_hang();
    }
    if (shared > allowed || (allowed <= SHARED_DEFAULT && shared + in_variables > SHARED_DEFAULT))
        fail("a launch with %zu bytes of shared memory in addition to %zu of its variables, which "
             "was not "
             "allowed",
             shared, in_variables);
    for (size_t i = shared; i < shared + SHARED_WATCHED; i++)
        if (shared_memory[i] != 0xff)
            fail("the block wrote byte %zu of %zu bytes of shared memory", i, shared);
}
} // namespace

void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "emulator: ");
    vfprintf(stderr, format, list);
    fprintf(stderr, " (kernel %ld, block %u %u of %u %u, thread %u of %u)\n", launches, blockIdx.x,
            blockIdx.y, gridDim.x, gridDim.y, current, threads);
    va_end(list);
    fflush(stdout);
    abort();
}

unsigned lane() {
    return current % 32;
}

const uint64_t *meet_warp(meeting kind, unsigned mask, uint64_t value) {
    fiber &f = fibers[current];
    const unsigned warp = current / 32;
    if (!(mask >> lane() & 1))
        fail("a thread is not in the mask %08x that it gives", mask);
    f.at = AT_WARP, f.kind = kind, f.mask = mask, f.value = value;
    open_warp(warp, mask);
    wait_for_turn();
    return met[warp][__builtin_ctz(mask)];
}

bool meet_block(meeting kind, bool vote) {
    fiber &f = fibers[current];
    f.at = AT_BLOCK, f.kind = kind, f.vote = vote;
    arrived++;
    open_barrier();
    wait_for_turn();
    return voted;
}

void meet_part(unsigned number, unsigned count) {
    fiber &f = fibers[current];
    unsigned here = 0;
    if (number < 1 || number > 15 || count % 32 || count > threads)
        fail("barrier %u of %u threads", number, count);
    f.at = AT_PART, f.mask = number;
    for (unsigned i = 0; i < threads; i++)
        here += fibers[i].at == AT_PART && fibers[i].mask == number;
    for (unsigned i = 0; i < threads && here == count; i++)
        if (fibers[i].at == AT_PART && fibers[i].mask == number)
            fibers[i].at = READY;
    wait_for_turn();
}

void set_bits(void *variable, size_t size) {
    for (const void *known : variables)
        if (known == variable)
            return;
    variables.push_back(variable), in_variables += size;
    memset(variable, 0xff, size);
}

void run(dim3 grid, dim3 block, size_t shared, size_t allowed,
         const std::function<void()> &thread) {
    gridDim = grid, blockDim = block, threads = block.x, body = &thread;
    launches++;
    if (threads % 32)
        fail("a block of %u threads: the emulator knows whole warps only", threads);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {x, y, z};
                run_block(shared, allowed);
                blocks++;
            }
}
} // namespace emulator
