/* In place of cuBLAS's header, when kernels are compiled for the emulator, which has no cuBLAS. */
#ifndef MOAO_EMULATOR_CUBLAS_V2_H
#define MOAO_EMULATOR_CUBLAS_V2_H
typedef void *cublasHandle_t;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
#endif
