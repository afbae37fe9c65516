/* Numbers of a random test matrix, the same on every backend and in every type: Philox4x32-10
 * (Salmon et al., SC11) with the seed as key and the place in the matrix as counter. Nothing is
 * stored; entry (i, j) needs one call for four rows i of column j. */
#ifndef MOAO_BACKEND_RANDOM_H
#define MOAO_BACKEND_RANDOM_H

#include <stdint.h>

#ifdef __CUDACC__
#define MOAO_BACKEND_HOST_DEVICE __host__ __device__
#else
#define MOAO_BACKEND_HOST_DEVICE
#endif

/* One block of four words: counter c, key k, both overwritten. */
MOAO_BACKEND_HOST_DEVICE static inline void moao_backend_philox(uint32_t c[4], uint32_t k[2]) {
    for (int round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t c0 = (uint32_t)(q >> 32) ^ c[1] ^ k[0],
                       c2 = (uint32_t)(p >> 32) ^ c[3] ^ k[1];
        c[0] = c0, c[1] = (uint32_t)q, c[2] = c2, c[3] = (uint32_t)p;
        k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
    }
}

/* Entries (4 i4, j) to (4 i4 + 3, j): uniform in (-1, 1), odd multiples of 2^-24, exact in single
 * precision. Never +-1 alone: two equal columns would cancel in half of the samples. */
MOAO_BACKEND_HOST_DEVICE static inline void moao_backend_random(uint64_t seed, int64_t i4,
                                                                int64_t j, float x[4]) {
    uint32_t c[4] = {(uint32_t)i4, (uint32_t)(i4 >> 32), (uint32_t)j, 0},
             k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    moao_backend_philox(c, k);
    for (int e = 0; e < 4; e++) {
        const int32_t word = (int32_t)(c[e] >> 8) - (1 << 23);
        x[e] = (float)(2 * word + 1) * 0x1p-24f;
    }
}

#endif
