/* Files of tile low-rank, HSS and H2 matrices, which anybody may have written: each is read, and
 * then multiplies and solves, or it is refused in one line.
 *
 * The first byte of an input says which good file is changed, and with its highest bit that the sum
 * is left as it is; then come changes, each a byte that says which kind:
 *   0  two bytes of place, one of value: a byte of the file
 *   1  two bytes of place, eight of value: a word of the file
 *   2  two bytes: the file is cut there
 *   3  the rest: the whole file */
#include "fuzz.h"
#include "moao/from_points.h"
#include "moao/hier_file.h"
#include "moao/tlr_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 4, N = 40, MOST = 1 << 16, COLUMNS = 2 };
#define NAME "matrix"

static const backend *be;
static backend_ctx *ctx;
static struct {
    uint8_t *data;
    size_t size;
} good[FILES];
static uint8_t *now;

static void must(status st) {
    if (st != MOAO_OK)
        fuzz_broken("cannot begin", status_message());
}

static void remember(int file) {
    FILE *f = fopen(NAME, "rb");
    good[file].data = malloc(MOST);
    if (f == NULL || good[file].data == NULL)
        abort();
    good[file].size = fread(good[file].data, 1, MOST, f);
    if (good[file].size == MOST)
        fuzz_broken("a file of another size was expected", "");
    fclose(f);
}

static status entries(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                      int64_t lda) {
    (void)arg;
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++)
            a[i + j * lda] = exp(-fabs((double)(i0 + i - j0 - j)) / 8) + (i0 + i == j0 + j);
    return MOAO_OK;
}

/* A factor by tiles, HSS with and without a factor, H2. */
static void prepare(void) {
    static double at[2 * N];
    const gp_kernel kernel = {MOAO_GP_MATERN, 1, {0.5}, 0.5, 0.5};
    tlr_layout layout;
    tlr *l;
    format *f;
    must(backend_get("cpu", &be));
    must(be->open(0, NULL, &ctx));
    must(tlr_layout_plain(N, 8, &layout));
    const tlr_source s = {.layout = &layout, .fill = entries};
    must(tlr_factor(be, ctx, &s, 'L', &(tlr_options){.tau = 1e-3, .cut = -1, .width = 16}, NULL, &l,
                    NULL));
    must(moao_tlr_save(l, NAME));
    remember(0);
    tlr_close(l), tlr_layout_free(&layout);
    for (int i = 0; i < 2 * N; i++)
        at[i] = fabs(sin(12.9898 * i));
    for (int file = 1; file < FILES; file++) {
        const hier_options o = {
            .type = file == 2 ? BACKEND_D : BACKEND_S, .tol = 1e-3, .leaf = 8, .lean = true};
        must((file == 3 ? moao_h2_from_points : moao_hss_from_points)(
            be, ctx, &kernel, file == 3 ? 2 : 1, N, at, &o, &f));
        if (file == 1)
            must(hier_factor(f, 0.1));
        must(moao_hier_save(f, NAME));
        remember(file);
        hier_close(f);
    }
    now = malloc(MOST);
    if (now == NULL)
        abort();
}

static size_t change(const uint8_t *p, size_t n, size_t size) {
    while (n > 2) {
        const int kind = p[0] & 3;
        const size_t used = kind == 0 ? 4 : kind == 1 ? 11 : 3;
        if (n < used)
            break;
        const size_t at = p[1] | (size_t)p[2] << 8;
        if (kind == 0 && size > 0) {
            now[at % size] = p[3];
        } else if (kind == 1 && size >= 8) {
            memcpy(now + 8 * (at % (size / 8)), p + 3, 8);
        } else if (kind == 2) {
            size = at % (size + 1);
        } else if (kind == 3) {
            size = n - 1 < MOST ? n - 1 : MOST;
            memcpy(now, p + 1, size);
            break;
        }
        p += used, n -= used;
    }
    return size;
}

/* The sum of what is there, in its last word. */
static void add_sum(size_t size) {
    uint64_t sum = 0xcbf29ce484222325u, w;
    if (size < 8)
        return;
    for (size_t i = 0; i + 1 < size / 8; i++) {
        memcpy(&w, now + 8 * i, 8);
        sum = (sum ^ w) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    memcpy(now + size / 8 * 8 - 8, &sum, 8);
}

static double *numbers(int64_t count) {
    double *x = malloc(sizeof *x * (size_t)(count + 1));
    if (x == NULL)
        abort();
    for (int64_t i = 0; i < count; i++)
        x[i] = 1;
    return x;
}

static void use_tiles(void) {
    tlr_layout layout;
    tlr *a;
    bool factor;
    status_clear();
    const status st = moao_tlr_load(be, ctx, NAME, &layout, &a, &factor, NULL);
    if (st != MOAO_OK) {
        fuzz_check_message(st);
        return;
    }
    const int64_t n = layout.n, ld = n > 0 ? n : 1;
    double *x = numbers(n * COLUMNS), *y = numbers(n * COLUMNS);
    (void)(factor ? tlr_solve(a, 'L', 'A', COLUMNS, x, ld)
                  : tlr_apply(a, 'L', 'N', COLUMNS, 1, x, ld, 0, y, ld));
    free(x), free(y);
    tlr_close(a), tlr_layout_free(&layout);
}

static void use_tree(void) {
    hier_info info;
    format *f;
    status_clear();
    const status st = moao_hier_restore(be, ctx, NAME, &f);
    if (st != MOAO_OK) {
        fuzz_check_message(st);
        return;
    }
    hier_describe(f, &info);
    const int64_t n = info.rows, ld = n > 0 ? n : 1;
    const size_t apply = hier_workspace(f, 'L', COLUMNS), solve = hier_solve_workspace(f, COLUMNS);
    double *x = numbers(n * COLUMNS), *y = numbers(n * COLUMNS);
    char *work = malloc(apply + solve + 1);
    if (work == NULL)
        abort();
    (void)hier_apply(f, 'L', 'N', 'A', COLUMNS, 1, x, ld, 0, y, ld, work, apply);
    if (solve > 0)
        (void)hier_solve(f, 'N', COLUMNS, x, ld, work, solve);
    else if (info.kind == HIER_HSS)
        (void)hier_factor(f, 0.5);
    free(x), free(y), free(work);
    hier_close(f);
}

void fuzz_matrices(const uint8_t *data, size_t n) {
    if (be == NULL)
        prepare();
    if (n == 0)
        return;
    const int file = data[0] % FILES;
    memcpy(now, good[file].data, good[file].size);
    const size_t size = change(data + 1, n - 1, good[file].size);
    if (!(data[0] & 0x80))
        add_sum(size);
    fuzz_write(NAME, now, size);
    use_tiles(); /* each reader gets every file: it says that it is not its own */
    use_tree();
    status_clear();
}
