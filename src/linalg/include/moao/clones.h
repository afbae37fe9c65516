/* CLONES before a function: one version of it per instruction set, chosen when the program starts;
 * where the compiler cannot, the plain one. */
#ifndef MOAO_CLONES_H
#define MOAO_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) &&   \
    !defined(__SANITIZE_ADDRESS__) && !defined(__AVX2__)
#if __GNUC__ >= 12
#define MOAO_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else /* which know the levels by processors that have them */
#define MOAO_CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#endif
#else
#define MOAO_CLONES
#endif

#endif
