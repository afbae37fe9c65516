/* Instructions that the kernels of several files use: groups of asynchronous copies, and the FP64
 * product of the tensor cores. */
#ifndef MOAO_GPU_DEVICE_CUH
#define MOAO_GPU_DEVICE_CUH

/* What device code is compiled for; the host's pass sees the newest instructions. */
#if defined(__CUDA_ARCH__)
#define GPU_TARGET __CUDA_ARCH__
#elif defined(EMULATED_ARCH)
#define GPU_TARGET EMULATED_ARCH
#else
#define GPU_TARGET 900
#endif

/* What this thread has started to copy since the last call is a group. */
__device__ inline void stage_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Until all of this thread's groups but the last N are there. */
template <int N> __device__ inline void stage_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* c (8 x 8) += a (8 x 4) b (4 x 8), fragments of one warp */
__device__ inline void tensor_quarter(double *c, double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
}
/* c (16 x 8) += a (16 x 8) b (8 x 8), fragments of one warp. Before sm_90 there is no instruction
 * of that size. */
__device__ inline void tensor(double *c, const double *a, const double *b) {
#if GPU_TARGET < 900
    tensor_quarter(c, a[0], b[0]);
    tensor_quarter(c + 2, a[1], b[0]);
    tensor_quarter(c, a[2], b[1]);
    tensor_quarter(c + 2, a[3], b[1]);
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#endif
}

#endif
