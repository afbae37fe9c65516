/* moao-tester: checks and times the routines of the library at sizes from the command line. */
#include "tester.h"

#include <errno.h>
#include <getopt.h>
#include <omp.h>
#include <strings.h>
#include <time.h>

const backend *be;
backend_ctx *ctx;

extern void openblas_set_num_threads(int);

enum { MOST = 256, PASS = 30 };

/* A list of values of an option. */
typedef struct {
    const char *name, *what;
    int64_t value[MOST];
    int count;
} sizes;

enum { M, N, K, NRHS, RANK, TILE, SIZES };
static sizes size[SIZES] = {{"m", "rows; without: n", {0}, 0},
                            {"n", "columns, order", {100}, 1},
                            {"k", "inner size, entries in a row; without: n", {0}, 0},
                            {"nrhs", "columns of right-hand sides and vectors", {10}, 1},
                            {"rank", "columns of low-rank matrices", {16}, 1},
                            {"tile", "rows of a tile", {64}, 1}};

typedef struct {
    const char *name, *letters, *what;
    char given[8];
} letters;
enum { SIDE, UPLO, TRANSA, TRANSB, DIAG, TYPE, LETTERS };
static letters letter[LETTERS] = {
    {"side", "LR", "the triangle's or the symmetric matrix's", "L"},
    {"uplo", "LU", "triangle", "L"},
    {"transa", "NT", "op(A)", "N"},
    {"transb", "NT", "op(B)", "N"},
    {"diag", "NU", "a unit diagonal or not", "N"},
    {"type", "DS", "double or single precision; formats are in double precision", "D"}};

static struct {
    const char *device;
    int64_t batch, checks;
    double tol, perturb;
    uint64_t seed;
    int repeat;
    bool rival, csv;
} option = {.device = "auto", .checks = 8, .tol = 1e-6, .seed = 1, .repeat = 3, .rival = true};

static const routine *const families[] = {dense_routines, lowrank_routines, product_routines,
                                          format_routines};
enum { FAMILIES = sizeof families / sizeof *families };

static const char usage[] =
    "usage: moao-tester ROUTINE[,ROUTINE...] [OPTION...]\n"
    "Checks and times routines of moao's library of linear algebra, and LAPACK on this processor\n"
    "with the same numbers. ROUTINE is a name or a family from the list below, or all.\n"
    "\n"
    "Sizes are lists: 100,200 or FROM:TO:STEP or FROM:TO:FACTORx, as 16:512:2x. All combinations\n"
    "are run.\n"
    "\n"
    "Sizes\n";
static const char usage_options[] =
    "\n"
    "Options\n"
    "  --batch N        so many matrices in a call; without: one large matrix where there is such\n"
    "                   an operation, else 100 matrices\n"
    "  --device NAME    cpu, gpu, or auto (the default): the GPU where there is one\n"
    "  --tol X          tolerance of what is compressed (default 1e-6): relative for ara,\n"
    "                   recompress and products; of formats in the units of an entry\n"
    "  --repeat N       timed runs after one that warms up; the median counts (default 3)\n"
    "  --check N        matrices of a batch that are checked (default 8); 0: none; all\n"
    "  --lapack yes|no  time LAPACK too (default yes); it has the threads of OMP_NUM_THREADS\n"
    "  --seed N         of the random numbers (default 1)\n"
    "  --csv            the table as comma-separated values\n"
    "  --perturb X      change an entry of each result by X times its largest one before the\n"
    "                   check, which has to fail: shows what a check notices\n"
    "  --help           this text\n"
    "\n"
    "Columns: residual, the error of a product with a random vector over the norms, in units of\n"
    "rounding times the order, passes up to 30; of what is compressed in units of the tolerance,\n"
    "which ara and recompress pass up to 1.01, rsvd in units of the least error of such a rank, "
    "up\n"
    "to 3. orthogonal: largest entry of Q' Q - I in units of rounding times the rows, up to 30.\n"
    "time: of one call, all its matrices [ms], median. rate: GFLOP/s by the operations of "
    "LAPACK's\n"
    "algorithm; of formats those of the dense way. LAPACK: its time on the CPU [ms], for formats\n"
    "of the dense matrix; times: LAPACK's time over ours.\n"
    "Exit code: 0 all passed, 1 a result is wrong or a call failed, 2 bad options.\n";

static void print_help(void) {
    fputs(usage, stdout);
    for (int i = 0; i < SIZES; i++)
        printf("  --%-6s LIST    %s%s\n", size[i].name, size[i].what,
               i == N      ? " (default 100)"
               : i == NRHS ? " (default 10)"
               : i == RANK ? " (default 16)"
               : i == TILE ? " (default 64)"
                           : "");
    puts("\nLetters are lists, as N,T.");
    for (int i = 0; i < LETTERS; i++)
        printf("  --%-6s LIST    of %c, %c: %s (default %s)\n", letter[i].name,
               letter[i].letters[0], letter[i].letters[1], letter[i].what, letter[i].given);
    fputs(usage_options, stdout);
    for (int f = 0; f < FAMILIES; f++) {
        printf("\nFamily %s\n", families[f]->family);
        for (const routine *r = families[f]; r->name; r++)
            printf("  %-14s %s%s\n", r->name, r->what,
                   r->forms == (ONE | BATCH) ? "; --batch" : "");
    }
}

/* --- options ------------------------------------------------------------------------------------
 */

static int bad(const char *name, const char *text, const char *expected) {
    fprintf(stderr, "moao-tester: --%s %s: %s is expected (moao-tester --help)\n", name, text,
            expected);
    return 2;
}

static bool number(const char **p, int64_t *v) {
    char *end;
    errno = 0;
    *v = strtoll(*p, &end, 10);
    if (end == *p || errno || *v < 0)
        return false;
    *p = end;
    return true;
}

/* One element of a list: a number, or a range. */
static bool range(sizes *s, const char **p) {
    int64_t from, to, step = 1;
    bool factor = false;
    if (!number(p, &from))
        return false;
    to = from;
    if (**p == ':') {
        ++*p;
        if (!number(p, &to) || **p != ':')
            return false;
        ++*p;
        if (!number(p, &step))
            return false;
        factor = **p == 'x';
        *p += factor;
        if (step < 1 || (factor && (step < 2 || from < 1)))
            return false;
    }
    for (int64_t v = from; v <= to; v = factor ? v * step : v + step) {
        if (s->count == MOST || v > INT32_MAX)
            return false;
        s->value[s->count++] = v;
    }
    return from <= to;
}

static int read_sizes(sizes *s, const char *text) {
    const char *p = text;
    s->count = 0;
    do {
        if (!range(s, &p))
            return bad(s->name, text, "a list of up to 256 sizes, as 100,200 or 16:512:2x,");
    } while (*p == ',' && *++p);
    return *p || p[-1] == ',' ? bad(s->name, text, "a list of sizes, as 100,200 or 16:512:2x,") : 0;
}

static int read_letters(letters *l, const char *text) {
    size_t count = 0;
    for (const char *p = text; *p; p++) {
        const char c = (char)(*p >= 'a' && *p <= 'z' ? *p - 32 : *p);
        if (c == ',')
            continue;
        if (!strchr(l->letters, c) || count + 1 == sizeof l->given)
            return bad(l->name, text,
                       l->letters[0] == 'D' ? "a list of D and S" : "a list of its letters");
        l->given[count++] = c;
    }
    l->given[count] = '\0';
    return count ? 0 : bad(l->name, text, "a letter");
}

static int read_count(const char *name, const char *text, int64_t least, int64_t *v) {
    const char *p = text;
    if (number(&p, v) && !*p && *v >= least)
        return 0;
    return bad(name, text, least ? "a number, at least 1," : "a number");
}

static int read_real(const char *name, const char *text, double *v) {
    char *end;
    *v = strtod(text, &end);
    return end == text || *end || !(*v >= 0) ? bad(name, text, "a number, at least 0,") : 0;
}

static int read_other(const char *name, const char *text) {
    int64_t v = 0;
    if (!strcmp(name, "device")) {
        option.device = text;
        return 0;
    }
    if (!strcmp(name, "batch"))
        return read_count(name, text, 1, &option.batch);
    if (!strcmp(name, "tol"))
        return read_real(name, text, &option.tol);
    if (!strcmp(name, "perturb"))
        return read_real(name, text, &option.perturb);
    if (!strcmp(name, "check") && !strcmp(text, "all")) {
        option.checks = INT64_MAX;
        return 0;
    }
    if (!strcmp(name, "check"))
        return read_count(name, text, 0, &option.checks);
    if (!strcmp(name, "lapack")) {
        option.rival = !strcmp(text, "yes");
        return option.rival || !strcmp(text, "no") ? 0 : bad(name, text, "yes or no");
    }
    const int rc = read_count(name, text, !strcmp(name, "repeat"), &v);
    if (!strcmp(name, "repeat"))
        option.repeat = (int)(v < 1000 ? v : 1000);
    else
        option.seed = (uint64_t)v;
    return rc;
}

static int read_option(int which, const char *text) {
    static const char *const others[] = {"device", "batch",  "tol",    "perturb",
                                         "check",  "lapack", "repeat", "seed"};
    return which < SIZES             ? read_sizes(&size[which], text)
           : which < SIZES + LETTERS ? read_letters(&letter[which - SIZES], text)
                                     : read_other(others[which - SIZES - LETTERS], text);
}

enum { CSV = 100, HELP };
static int read_options(int argc, char **argv) {
    struct option known[SIZES + LETTERS + 11] = {0};
    static const char *const others[] = {"device", "batch",  "tol",    "perturb",
                                         "check",  "lapack", "repeat", "seed"};
    static char name[] = "moao-tester"; /* for getopt's messages */
    int k = 0, c, rc = 0;
    for (int i = 0; i < SIZES; i++, k++)
        known[k] = (struct option){size[i].name, required_argument, NULL, k + 1};
    for (int i = 0; i < LETTERS; i++, k++)
        known[k] = (struct option){letter[i].name, required_argument, NULL, k + 1};
    for (int i = 0; i < 8; i++, k++)
        known[k] = (struct option){others[i], required_argument, NULL, k + 1};
    known[k++] = (struct option){"csv", no_argument, NULL, CSV};
    known[k] = (struct option){"help", no_argument, NULL, HELP};
    argv[0] = name;
    while (rc == 0 && (c = getopt_long(argc, argv, "h", known, NULL)) != -1)
        if (c == 'h' || c == HELP)
            return print_help(), -1;
        else if (c == '?')
            rc = 2;
        else if (c == CSV)
            option.csv = true;
        else
            rc = read_option(c - 1, optarg);
    return rc;
}

/* --- one line of the table ----------------------------------------------------------------------
 */

typedef struct {
    double residual, orthogonality, seconds, flops, rival;
    bool right;
} outcome;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *x, int count) {
    qsort(x, (size_t)count, sizeof *x, by_value);
    return x[count / 2];
}

static status run(job *j, outcome *o) {
    double t[1000];
    status st = MOAO_OK;
    for (int r = -1; r < j->s->repeat; r++) {
        for (int i = 0; i < ARRAYS; i++)
            TRY(array_reset(&j->x[i], j->s->type));
        TRY(be->sync(ctx));
        const double from = now();
        TRY(j->of->run(j));
        TRY(be->sync(ctx));
        if (r >= 0)
            t[r] = now() - from;
    }
    o->seconds = median(t, j->s->repeat);
done:
    return st;
}

/* The first and the last matrix of a batch, and some between. */
static status check(job *j) {
    const setting *s = j->s;
    const int64_t count = count_of(s), many = s->checks < count ? s->checks : count;
    status st = MOAO_OK;
    if (many == 0)
        goto done;
    for (int i = 0; i < ARRAYS; i++)
        if (j->x[i].result)
            TRY(array_fetch(&j->x[i], s));
    TRY(be->copy(ctx, j->rank_found, 8 * count, j->ranks, 8 * count, 8 * count, 1));
    TRY(be->sync(ctx));
    for (int64_t i = 0; i < many; i++)
        TRY(j->of->check(j, many > 1 ? i * (count - 1) / (many - 1) : 0));
done:
    return st;
}

/* LAPACK, one matrix for each core where there are several. */
static status race(job *j, outcome *o) {
    const int64_t count = count_of(j->s);
    const int most = j->s->repeat < 3 ? j->s->repeat : 3;
    double t[3];
    status st = MOAO_OK;
    for (int r = -1; r < most; r++) {
        for (int i = 0; i < ARRAYS; i++) {
            const array *x = &j->x[i];
            const size_t bytes = backend_size(j->s->type) * (size_t)(ld_of(x) * x->cols * x->count);
            if (!x->sent)
                continue;
            if (r < 0)
                TRY(mem_alloc(&j->rival[i], bytes, 1, "operands of LAPACK"));
            memcpy(j->rival[i], x->sent, bytes);
        }
        const double from = now();
        if (j->s->batch) {
            openblas_set_num_threads(1);
#pragma omp parallel for schedule(dynamic)
            for (int64_t b = 0; b < count; b++)
                j->of->rival(j, b);
            openblas_set_num_threads(omp_get_max_threads());
        } else {
            j->of->rival(j, 0);
        }
        if (r >= 0)
            t[r] = now() - from;
    }
    o->rival = median(t, most);
done:
    return st;
}

static status measure(const routine *of, const setting *s, outcome *o) {
    job j = {.s = s, .of = of, .residual = NAN, .orthogonality = NAN, .limit = PASS};
    status st;
    *o = (outcome){NAN, NAN, NAN, of->flops(s) * (double)count_of(s), NAN, false};
    TRY(of->prepare(&j));
    for (int i = 0; i < ARRAYS; i++)
        if (j.x[i].given)
            TRY(array_send(&j.x[i], s->type));
    TRY(run(&j, o));
    TRY(check(&j));
    if (s->rival && of->rival)
        TRY(race(&j, o));
    o->residual = j.residual, o->orthogonality = j.orthogonality;
    o->right = s->checks == 0 || (o->residual <= j.limit && !(o->orthogonality > PASS));
done:
    if (of->end)
        of->end(&j);
    for (int i = 0; i < ARRAYS; i++)
        array_free(&j.x[i]), free(j.rival[i]);
    be->release(ctx, j.work), be->release(ctx, j.info), be->release(ctx, j.ranks);
    free(j.rank_found);
    return st;
}

/* --- the table ----------------------------------------------------------------------------------
 */

static void print_head(void) {
    if (option.csv)
        puts("routine,type,m,n,k,nrhs,rank,batch,side,uplo,transa,transb,diag,residual,orthogonal,"
             "time [ms],rate [GFLOP/s],LAPACK [ms],times,result");
    else
        printf("%-13s %s %6s %6s %6s %6s %5s %-6s %8s %8s %10s %9s %10s %7s\n", "routine", "t", "m",
               "n", "k", "batch", "rank", "letter", "residual", "orthog.", "time [ms]", "GFLOP/s",
               "LAPACK[ms]", "times");
}

static void field(char *text, size_t len, const char *format, double v) {
    if (isnan(v))
        snprintf(text, len, "%s", option.csv ? "" : "-");
    else
        snprintf(text, len, format, v);
}

static void print(const routine *of, const setting *s, const outcome *o) {
    char f[6][32];
    const double value[] = {o->residual,      o->orthogonality,
                            1e3 * o->seconds, o->flops / o->seconds / 1e9,
                            1e3 * o->rival,   o->rival / o->seconds};
    static const char *const format[] = {"%.2g", "%.2g", "%.4g", "%.4g", "%.4g", "%.3g"};
    const char type = s->type == BACKEND_D ? 'd' : 's', *verdict = !o->right   ? "WRONG"
                                                                   : s->checks ? "ok"
                                                                               : "not checked";
    for (int i = 0; i < 6; i++)
        field(f[i], sizeof f[i], format[i], value[i]);
    if (option.csv)
        printf("%s,%c,%lld,%lld,%lld,%lld,%lld,%lld,%c,%c,%c,%c,%c,%s,%s,%s,%s,%s,%s,%s\n",
               of->name, type, (long long)s->m, (long long)s->n, (long long)s->k,
               (long long)s->nrhs, (long long)s->rank, (long long)s->batch, s->side, s->uplo,
               s->transa, s->transb, s->diag, f[0], f[1], f[2], f[3], f[4], f[5], verdict);
    else
        printf("%-13s %c %6lld %6lld %6lld %6lld %5lld %c%c%c%c%c  %8s %8s %10s %9s %10s %7s  %s\n",
               of->name, type, (long long)s->m, (long long)s->n, (long long)s->k,
               (long long)s->batch, (long long)s->rank, s->side, s->uplo, s->transa, s->transb,
               s->diag, f[0], f[1], f[2], f[3], f[4], f[5], verdict);
    fflush(stdout);
}

/* All combinations: digits of a number whose bases are the lengths of the lists. */
static bool combination(int64_t at, setting *s) {
    int64_t v[SIZES];
    char c[LETTERS];
    for (int i = 0; i < SIZES; i++) {
        const int count = size[i].count ? size[i].count : 1;
        v[i] = size[i].count ? size[i].value[at % count] : -1;
        at /= count;
    }
    for (int i = 0; i < LETTERS; i++) {
        const int64_t count = (int64_t)strlen(letter[i].given);
        c[i] = letter[i].given[at % count];
        at /= count;
    }
    *s = (setting){.type = c[TYPE] == 'D' ? BACKEND_D : BACKEND_S,
                   .m = v[M] < 0 ? v[N] : v[M],
                   .n = v[N],
                   .k = v[K] < 0 ? v[N] : v[K],
                   .nrhs = v[NRHS],
                   .rank = v[RANK],
                   .tile = v[TILE],
                   .batch = option.batch,
                   .checks = option.checks,
                   .side = c[SIDE],
                   .uplo = c[UPLO],
                   .transa = c[TRANSA],
                   .transb = c[TRANSB],
                   .diag = c[DIAG],
                   .tol = option.tol,
                   .perturb = option.perturb,
                   .seed = option.seed,
                   .repeat = option.repeat,
                   .rival = option.rival};
    return at == 0;
}

/* Wrong results of one routine at all sizes. */
static int sweep(const routine *of) {
    int wrong = 0;
    setting s;
    for (int64_t at = 0; combination(at, &s); at++) {
        outcome o;
        if (of->forms == OWN) {
            if (s.type == BACKEND_S && strlen(letter[TYPE].given) > 1)
                continue;
            s.type = !strcmp(of->name, "fp16_gemm") ? BACKEND_S : BACKEND_D, s.batch = 0;
        } else if (of->forms == ONE) {
            s.batch = 0;
        } else if (of->forms == BATCH && !s.batch) {
            s.batch = 100;
        }
        if (measure(of, &s, &o) != MOAO_OK) {
            printf("%-13s m %lld n %lld k %lld: %s\n", of->name, (long long)s.m, (long long)s.n,
                   (long long)s.k, status_message());
            status_clear();
            wrong++;
            continue;
        }
        print(of, &s, &o);
        wrong += !o.right;
    }
    return wrong;
}

/* The routines that one word means; -1: none. */
static int sweep_word(const char *word, size_t len) {
    int wrong = 0;
    bool known = false;
    for (int f = 0; f < FAMILIES; f++)
        for (const routine *r = families[f]; r->name; r++)
            if ((strlen(r->name) == len && !strncmp(r->name, word, len)) ||
                (strlen(r->family) == len && !strncmp(r->family, word, len)) ||
                (len == 3 && !strncmp("all", word, 3))) {
                known = true;
                wrong += sweep(r);
            }
    return known ? wrong : -1;
}

int main(int argc, char **argv) {
    char text[320];
    int wrong = 0;
    const int rc = argc < 2 ? (print_help(), 2) : read_options(argc, argv);
    if (rc != 0)
        return rc < 0 ? 0 : rc;
    if (optind + 1 != argc) {
        fprintf(stderr, "moao-tester: one list of routines is expected, as gesvj,qr or all "
                        "(moao-tester --help)\n");
        return 2;
    }
    if (backend_get(option.device, &be) != MOAO_OK || be->open(0, NULL, &ctx) != MOAO_OK ||
        be->describe(0, text, sizeof text) != MOAO_OK) {
        fprintf(stderr, "moao-tester: %s\n", status_message());
        return 2;
    }
    if (!option.csv)
        printf("%s: %s; LAPACK: %d threads\n", be->name, text, omp_get_max_threads());
    print_head();
    for (const char *p = argv[optind]; *p; p += strspn(p, ",")) {
        const size_t len = strcspn(p, ",");
        const int some = sweep_word(p, len);
        if (some < 0) {
            fprintf(stderr, "moao-tester: there is no routine %.*s (moao-tester --help)\n",
                    (int)len, p);
            return 2;
        }
        wrong += some;
        p += len;
    }
    if (wrong)
        fprintf(stderr, "moao-tester: %d of the results are wrong\n", wrong);
    be->close(ctx);
    return wrong ? 1 : 0;
}
