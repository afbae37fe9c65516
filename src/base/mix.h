/* Numbers that look random, the same in every run. */
#ifndef MOAO_MIX_H
#define MOAO_MIX_H

#include <stdint.h>

/* Mixes the bits of a number (SplitMix64 by Steele et al. 2014). */
static inline uint64_t mix_bits(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
