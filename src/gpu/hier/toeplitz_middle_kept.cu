/* Lines ky of all images of a few pairs of vectors from what is kept of them (toeplitz_middle.cuh):
 * a file of its own because these kernels take long to compile. */
#include "toeplitz_middle.cuh"

status toeplitz_couple_kept(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                            const toeplitz_middle *m, const toeplitz_job *q) {
    return t == BACKEND_D ? middle<double, true>(stream, d, m, q)
                          : middle<float, true>(stream, d, m, q);
}
