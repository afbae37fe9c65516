/* In place of cuFFT's header: the transforms of images, by FFTW. A batch of transforms of one
 * dimension, in double precision, from real to half a spectrum or back, with a step between the
 * numbers of a transform and a distance between transforms. */
#ifndef MOAO_EMULATOR_CUFFT_H
#define MOAO_EMULATOR_CUFFT_H
#include "cuda_runtime.h"
#include <fftw3.h>

typedef double2 cufftDoubleComplex;
typedef fftw_plan cufftHandle;
enum cufftResult { CUFFT_SUCCESS, CUFFT_ALLOC_FAILED = 2, CUFFT_INTERNAL_ERROR = 5 };
enum cufftType { CUFFT_D2Z, CUFFT_Z2D };

inline cufftResult cufftCreate(cufftHandle *plan) {
    *plan = NULL;
    return CUFFT_SUCCESS;
}
inline cufftResult cufftDestroy(cufftHandle plan) {
    fftw_destroy_plan(plan);
    return CUFFT_SUCCESS;
}
inline cufftResult cufftSetStream(cufftHandle, cudaStream_t) {
    return CUFFT_SUCCESS;
}
inline cufftResult cufftMakePlanMany(cufftHandle &plan, int rank, int *n, int *in_size,
                                     int in_stride, int in_distance, int *out_size, int out_stride,
                                     int out_distance, cufftType type, int batch, size_t *work) {
    const unsigned flags = FFTW_ESTIMATE | FFTW_UNALIGNED;
    double real[2];
    fftw_complex half[2];
    *work = 0;
    plan = type == CUFFT_D2Z
               ? fftw_plan_many_dft_r2c(rank, n, batch, real, in_size, in_stride, in_distance, half,
                                        out_size, out_stride, out_distance, flags)
               : fftw_plan_many_dft_c2r(rank, n, batch, half, in_size, in_stride, in_distance, real,
                                        out_size, out_stride, out_distance, flags);
    return plan != NULL ? CUFFT_SUCCESS : CUFFT_INTERNAL_ERROR;
}
inline cufftResult cufftExecD2Z(cufftHandle plan, double *in, cufftDoubleComplex *out) {
    fftw_execute_dft_r2c(plan, in, (fftw_complex *)out);
    return CUFFT_SUCCESS;
}
inline cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *in, double *out) {
    fftw_execute_dft_c2r(plan, (fftw_complex *)in, out);
    return CUFFT_SUCCESS;
}
#endif
