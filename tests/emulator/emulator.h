/* The emulator of thread blocks (emulator.cpp): what the functions of device code (device.h) and
 * the launch of a kernel (cuda_runtime.h) ask of it.
 *
 * Emulated: grids and blocks of one dimension of threads, barriers of blocks, of a part of one and
 * of warps, exchange between the lanes of a warp, shared memory and its limits, atomics, copies to
 * shared memory, the tensor instructions of FP64 and of FP16 numbers. Not emulated: time, occupancy
 * and registers; the memory model (one thread runs at a time, from one meeting to the next, and all
 * others see at once what it wrote); streams (a launch ends before the call returns); the limits of
 * global memory. Only on x86-64. */
#ifndef MOAO_EMULATOR_H
#define MOAO_EMULATOR_H
#include <cstddef>
#include <cstdint>
#include <functional>

/* For which devices kernels are compiled, as __CUDA_ARCH__ (emulator.mk). */
#ifndef EMULATED_ARCH
#define EMULATED_ARCH 900
#endif

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {
    }
};
struct thread_id {
    unsigned x, y, z;
};
extern thread_id threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulator {
/* Shared memory of the block that runs. Before a block begins, all its bits are set: what a kernel
 * reads before it writes it is NaN. What lies behind the size of the launch is looked at after. */
constexpr size_t SHARED_DEFAULT = 48 << 10, SHARED_MOST = 227 << 10, SHARED_WATCHED = 4 << 10;
extern unsigned char shared_memory[SHARED_MOST + SHARED_WATCHED];
/* The same for a variable in shared memory, by the first thread of a block that comes to it. */
void set_bits(void *variable, size_t size);
/* What a block may have: SHARED_MOST, or the KiB of MOAO_EMULATOR_SHARED (99 of an RTX 4090, 163 of
 * an A100). */
size_t shared_most();
/* The compute capability of the device, times ten: EMULATED_ARCH, or MOAO_EMULATOR_CAPABILITY. */
int capability();

/* Where threads meet; those who meet must be in the same kind of operation. */
enum meeting { BARRIER, BARRIER_OR, SYNCWARP, SHUFFLE, SHUFFLE_XOR, BALLOT, TENSOR, MATRICES };

/* Runs `thread` for every thread of every block, one block after the other. `allowed`: the dynamic
 * shared memory that the kernel may have; where that is SHARED_DEFAULT, it is with its variables.
 */
void run(dim3 grid, dim3 block, size_t shared, size_t allowed, const std::function<void()> &thread);
/* Waits for the block's threads; whether `vote` was set in any. */
bool meet_block(meeting kind, bool vote);
/* Waits until `count` threads of the block have come to its barrier of this number, 1 to 15. */
void meet_part(unsigned number, unsigned count);
/* Waits for the lanes of `mask`; the 32 values that they brought, good until this thread's next
 * meeting. */
const uint64_t *meet_warp(meeting kind, unsigned mask, uint64_t value);
/* This thread's place in its warp. */
unsigned lane();
/* Says what is wrong in which block and thread, and ends the program. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
} // namespace emulator

#endif
