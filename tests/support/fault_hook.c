/* What src/base/fault.h calls, preloaded by tests of the program and linked into those on ranks:
 * MOAO_FAULT=where:rank[:fail|kill|first[:N]] makes the calls with the same `where` on that rank,
 * or only the N-th of them (first: those up to the N-th), fail, or kill the process. */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int moao_test_fault(int rank, const char *where);
__attribute__((visibility("default"))) const char *moao_test_choice(const char *what);

/* MOAO_TEST_PROJECTION=matrix, filter or raw: how D+ is applied (src/tor/command.h).
 * MOAO_TEST_OPERATOR: the pair of factor and product on devices, by its name
 * (src/operator/operator.h). MOAO_TEST_DEVICE=cpu: the backend that serves as a device.
 * MOAO_TEST_SPLIT=integer or native: how a factor in split FP16 is computed.
 * MOAO_TEST_AHEAD=yes or no: whether a thread prepares the next exposure (src/obsseq/tables.h).
 * MOAO_TEST_APART=yes: a thread computes what the mirror leaves, as on GPUs
 * (src/job/run_prepare.c). MOAO_TEST_AGES=tables or sums: how the ages of a closed loop are summed
 * (src/matcov/aged.c). */
const char *moao_test_choice(const char *what) {
    const char *word = strcmp(what, "projection") == 0 ? getenv("MOAO_TEST_PROJECTION")
                       : strcmp(what, "operator") == 0 ? getenv("MOAO_TEST_OPERATOR")
                       : strcmp(what, "device") == 0   ? getenv("MOAO_TEST_DEVICE")
                       : strcmp(what, "split") == 0    ? getenv("MOAO_TEST_SPLIT")
                       : strcmp(what, "ahead") == 0    ? getenv("MOAO_TEST_AHEAD")
                       : strcmp(what, "apart") == 0    ? getenv("MOAO_TEST_APART")
                       : strcmp(what, "ages") == 0     ? getenv("MOAO_TEST_AGES")
                                                       : NULL;
    return word != NULL && *word != '\0' ? word : NULL;
}

int moao_test_fault(int rank, const char *where) {
    const char *spec = getenv("MOAO_FAULT");
    const size_t n = strlen(where);
    static long calls;
    char *end;
    if (spec == NULL || strncmp(spec, where, n) != 0 || spec[n] != ':')
        return 0;
    const long wanted = strtol(spec + n + 1, &end, 10);
    const bool die = strncmp(end, ":kill", 5) == 0, first = strncmp(end, ":first", 6) == 0;
    const char *which = strrchr(end, ':');
    const long call = which != NULL ? strtol(which + 1, NULL, 10) : 0;
    if (wanted != rank || (call > 0 && (++calls > call || (calls < call && !first))))
        return 0;
    if (die)
        raise(SIGKILL);
    return 1;
}
