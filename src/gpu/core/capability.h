/* What a device is and has, asked of the driver once for each: the one place for the shared memory
 * of a block, the number of multiprocessors and the second-level cache by which kernels choose
 * their variants and sizes. */
#ifndef MOAO_GPU_CAPABILITY_H
#define MOAO_GPU_CAPABILITY_H

#include "error.cuh"

struct gpu_capability {
    int major, minor; /* compute capability */
    int sms;          /* multiprocessors */
    size_t l2;        /* second-level cache [bytes] */
    /* Whether kernels wait for their predecessor in the stream themselves (wait_for_predecessor of
     * batch_device.cuh): device and code are of 9.0 or later. Without the wait in the kernel an
     * early launch would be a race. */
    bool early;
};

/* Of device d, for the life of the program. MOAO_TEST_GPU_CAPABILITY=8.6 takes a device for one of
 * that capability, where its own is not less: with the shared memory of a block of such devices,
 * without the kernels of Hopper, without early launches. */
status gpu_capability_of(int d, gpu_capability *is);
/* Of the current device; zero where it cannot be asked. */
gpu_capability gpu_here();
/* Shared memory that a block may have [bytes]: the least of the devices that serve, so that every
 * choice, and the workspace that goes with it, is the same for all. */
size_t gpu_shared_most();
/* Allows a kernel so much dynamic shared memory on the current device; MOAO_INPUT where a block has
 * less than that and the kernel's shared memory of fixed size. Required before every launch with
 * dynamic shared memory: without it both together are up to 48 KiB. */
status gpu_allow_shared(const void *kernel, size_t bytes);

/* Whether the plugin has code for device d, by its compute capability; false: why says which GPU it
 * is and what there is code for. Creates no context. */
bool gpu_has_code(int d, char *why, size_t len);
/* The same by asking the driver, which compiles intermediate code if it has to: MOAO_INPUT. The
 * device is current. */
status gpu_check_code(int d);

#endif
