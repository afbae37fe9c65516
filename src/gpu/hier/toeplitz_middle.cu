/* Lines ky of all images of a few pairs of vectors, in their place (toeplitz_middle.cuh); sizes. */
#include "toeplitz_middle.cuh"

toeplitz_middle toeplitz_middle_of(backend_type t, const toeplitz_steps *s, int g) {
    const int number = 2 * (int)backend_size(t), R = s->radix[0];
    toeplitz_middle m = {};
    if (s->n != 2 || g > 16)
        return m;
    m.images = g <= 12 ? 12 : 16;
    m.lanes = RUN / number;
    m.pitch = R | 1; /* so that runs of neighbouring steps are in different banks, */
    m.rows = m.pitch * (s->order / R);
    m.step = m.rows * m.lanes + 16 / number; /* and neighbouring images */
    if (middle_bytes(t, &m, g) > toeplitz_shared())
        m.lanes = 0;
    return m;
}

status toeplitz_couple(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                       const toeplitz_middle *m, const toeplitz_job *q) {
    if (q->kept != NULL)
        return toeplitz_couple_kept(stream, t, d, m, q);
    return t == BACKEND_D ? middle<double, false>(stream, d, m, q)
                          : middle<float, false>(stream, d, m, q);
}
