/* Instructions that the kernels of several files use: groups of asynchronous copies, and the FP64
 * product of the tensor cores. */
#ifndef MOAO_GPU_DEVICE_CUH
#define MOAO_GPU_DEVICE_CUH

/* What this thread has started to copy since the last call is a group. */
__device__ inline void stage_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Until all of this thread's groups but the last N are there. */
template <int N> __device__ inline void stage_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* c (16 x 8) += a (16 x 8) b (8 x 8), fragments of one warp */
__device__ inline void tensor(double *c, const double *a, const double *b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

#endif
