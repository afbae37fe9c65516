/* Allocations that the program itself asks for, told from those of libraries by the address that
 * the call returns to: counted, and one of them gives NULL (preload.h). */
#include "preload.h"

#include <cblas.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static uintptr_t text_from, text_to, base; /* of the program */
static long wanted = -1, count;
static bool places; /* every allocation is logged, none fails */

static int find_text(struct dl_phdr_info *about, size_t size, void *data) {
    (void)size;
    (void)data;
    base = about->dlpi_addr;
    for (int i = 0; i < about->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &about->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
            text_from = base + p->p_vaddr;
            text_to = text_from + p->p_memsz;
        }
    }
    return 1; /* the first object is the program */
}

__attribute__((constructor)) static void begin(void) {
    const char *spec = getenv("FAULT_ALLOC");
    int rank;
    long n;
    char word[8];
    if (spec == NULL)
        return;
    dl_iterate_phdr(find_text, NULL);
    if (sscanf(spec, "%d:%ld", &rank, &n) == 2 && rank == fault_rank())
        wanted = n;
    else if (sscanf(spec, "%d:%7s", &rank, word) == 2 && rank == fault_rank())
        places = strcmp(word, "places") == 0;
}

__attribute__((destructor)) static void end(void) {
    if (text_to > 0)
        fault_log("count %d alloc %ld\n", fault_rank(), count);
}

/* Where the n-th allocation was asked for: the program's functions, innermost first, relative to
 * its base. */
static void log_callers(const char *what, long n) {
    enum { DEEP = 20, LONGEST = 20 }; /* frames; characters of one */
    void *frame[DEEP];
    char line[DEEP * LONGEST] = "";
    size_t length = 0;
    const int found = backtrace(frame, DEEP);
    for (int i = 0; i < found; i++)
        if ((uintptr_t)frame[i] >= text_from && (uintptr_t)frame[i] < text_to)
            length += (size_t)sprintf(line + length, " %#lx",
                                      (unsigned long)((uintptr_t)frame[i] - base));
    fault_log("%s alloc %ld%s\n", what, n, line);
}

/* True when this allocation is the one that must fail. */
static bool fails(const void *caller) {
    const uintptr_t at = (uintptr_t)caller;
    if (at < text_from || at >= text_to)
        return false;
    const long n = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (n != wanted) {
        if (places)
            log_callers("place", n);
        return false;
    }
    log_callers("hit", n);
    errno = ENOMEM;
    return true;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t n) {
    return fails(CALLER) ? NULL : __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    return fails(CALLER) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    return fails(CALLER) ? NULL : __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    return fails(CALLER) ? NULL : __libc_memalign(align, n);
}
char *strdup(const char *s) {
    const size_t n = strlen(s) + 1;
    char *copy = fails(CALLER) ? NULL : __libc_malloc(n);
    return copy != NULL ? memcpy(copy, s, n) : NULL;
}
char *strndup(const char *s, size_t most) {
    const size_t n = strnlen(s, most);
    char *copy = fails(CALLER) ? NULL : __libc_malloc(n + 1);
    if (copy != NULL) {
        memcpy(copy, s, n);
        copy[n] = '\0';
    }
    return copy;
}

/* The products that measure the machine's rate at the start take longer than all of a tiny run:
 * their result is of no interest. */
void cblas_dgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb,
                 blasint m, blasint n, blasint k, double alpha, const double *a, blasint lda,
                 const double *b, blasint ldb, double beta, double *c, blasint ldc) {
    typedef void product(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, blasint,
                         blasint, blasint, double, const double *, blasint, const double *, blasint,
                         double, double *, blasint);
    static product *real;
    if (real == NULL)
        real = (product *)dlsym(RTLD_NEXT, "cblas_dgemm");
    if (m != 1024 || n != 1024 || k != 1024)
        real(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
