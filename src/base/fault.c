#include "fault.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

typedef int fault_function(int rank, const char *where);

static fault_function *function;

static void find_function(void) {
    *(void **)&function = dlsym(RTLD_DEFAULT, "moao_test_fault");
}

static fault_function *hook(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_function);
    return function;
}

bool fault_possible(void) {
    return hook() != NULL;
}

bool comm_flips(const comm *c, const char *where) {
    return hook() != NULL && hook()(c->rank, where) != 0;
}

status comm_fault(const comm *c, const char *where) {
    return comm_flips(c, where) ? status_fail(MOAO_INTERNAL, "injected fault in %s", where)
                                : MOAO_OK;
}

const char *test_choice(const char *what) {
    typedef const char *choice_function(const char *what);
    choice_function *choose;
    if (hook() == NULL)
        return NULL;
    *(void **)&choose = dlsym(RTLD_DEFAULT, "moao_test_choice");
    return choose != NULL ? choose(what) : NULL;
}

double comm_flip(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= (uint64_t)1 << 56; /* of the exponent: 2^16 times as large, or as small */
    memcpy(&x, &bits, sizeof bits);
    return x;
}
