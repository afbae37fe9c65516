/* Sums of small products, the operation that products with trees are made of, against plain loops:
 * every size of blocks for which a backend may have a kernel of its own, many sums and few, factors
 * as they lie and transposed, odd sizes and leading dimensions, sums without terms, neighbours with
 * common operands. */
#include "support/formats_case.h"

typedef struct {
    int64_t count, most, nvec;
    char side;
    double alpha, beta;
    bool odd; /* sizes and leading dimensions that allow no wide accesses */
} sums_case;

static uint64_t seed;
static int64_t pick(int64_t n) { /* 0 .. n - 1 */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

enum { ROWS = 400, MOST_TERMS = 5, DEEPEST = 41 }; /* of each operand; of a sum; inner size */

static double entry(backend_type t, const formats_operand *x, char side, int64_t row, int64_t j) {
    return number(t, x->p, side == 'L' ? row + j * x->ld : j + row * x->ld);
}

/* Largest difference between backend and loops, relative to the largest number. */
static double error_of(const sums_case *c, backend_type t) {
    const size_t size = backend_size(t);
    const int64_t odd = c->odd ? 1 : 4, lda = c->most + (c->odd ? 3 : 4),
                  ldt = DEEPEST + (c->odd ? 2 : 3);
    const int64_t flat = (lda > ldt ? lda : ldt) * (c->most + DEEPEST);
    formats_sum *sum = calloc((size_t)c->count, sizeof *sum);
    formats_term *term = calloc((size_t)(c->count * MOST_TERMS), sizeof *term);
    int64_t terms = 0, row = 0;
    char *a = random_host(t, flat, 7, 5); /* seven factors for all */
    void *da = device_copy(a, size * (size_t)(flat * 7));
    for (int64_t s = 0; s < c->count; s++) {
        const int64_t m = s == 3 ? 0 : c->most - pick(c->most < 8 ? c->most : 8) / odd * odd;
        const int64_t common = terms - (s > 0 ? sum[s - 1].terms : 0);
        sum[s] = (formats_sum){row, (int32_t)m, (int32_t)pick(MOST_TERMS), terms};
        row += m;
        for (int e = 0; e < sum[s].terms; e++) {
            const bool turned = pick(2);
            formats_term *q = term + terms++;
            *q = (formats_term){(char *)da + size * (size_t)(flat * pick(7)),
                                pick(ROWS - DEEPEST) / odd * odd,
                                (int32_t)(turned ? ldt : lda),
                                (int32_t)((1 + pick(DEEPEST)) / odd * odd),
                                (int32_t)pick(2),
                                turned};
            if (pick(2) && common + e < sum[s].first) /* as the sum before */
                q->row = term[common + e].row, q->k = term[common + e].k,
                q->from = term[common + e].from;
        }
    }
    const int64_t pad = c->odd ? 3 : 2, ldx = (c->side == 'L' ? ROWS : c->nvec + c->nvec % 2) + pad,
                  ldy = (c->side == 'L' ? row + row % 2 : c->nvec + c->nvec % 2) + pad;
    const int64_t xs = ldx * (c->side == 'L' ? c->nvec : ROWS),
                  ys = ldy * (c->side == 'L' ? c->nvec : row);
    formats_operand x[FORMATS_OPERANDS] = {{NULL, 1}}, dx[FORMATS_OPERANDS] = {{NULL, 1}};
    for (int f = 0; f < 2; f++) {
        x[f] = (formats_operand){random_host(t, xs, 1, 20 + (uint64_t)f), ldx};
        dx[f] = (formats_operand){device_copy(x[f].p, size * (size_t)xs), ldx};
    }
    void *y0 = random_host(t, ys, 1, 30), *y = malloc(size * (size_t)ys + 1);
    if (c->beta == 0)
        memset(y0, 0xff, size * (size_t)ys);
    void *dy = device_copy(y0, size * (size_t)ys);
    formats_sum *dsum = device_copy(sum, sizeof *sum * (size_t)c->count);
    formats_term *dterm = device_copy(term, sizeof *term * (size_t)(terms + 1));
    const formats_sums s = {c->count, c->most, dsum, dterm};
    must(be->formats->sums(ctx, t, c->side, &s, c->nvec, c->alpha, dx, c->beta, dy, ldy));
    to_host(y, dy, size * (size_t)ys);
    double worst = 0, largest = 0;
    for (int64_t b = 0; b < c->count; b++)
        for (int64_t i = 0; i < sum[b].m; i++)
            for (int64_t j = 0; j < c->nvec; j++) {
                const int64_t r = sum[b].row + i, at = c->side == 'L' ? r + j * ldy : j + r * ldy;
                double want = c->beta == 0 ? 0 : c->beta * number(t, y0, at);
                for (int e = 0; e < sum[b].terms && c->alpha != 0; e++) {
                    const formats_term *q = term + sum[b].first + e;
                    const void *of = a + ((const char *)q->a - (char *)da);
                    for (int64_t k = 0; k < q->k; k++)
                        want += c->alpha *
                                number(t, of, q->trans ? k + i * q->lda : i + k * q->lda) *
                                entry(t, x + q->from, c->side, q->row + k, j);
                }
                const double had = number(t, y, at), d = fabs(had - want);
                worst = d <= worst ? worst : d;
                largest = fmax(largest, fabs(want));
            }
    const int64_t inside = c->side == 'L' ? row : c->nvec;
    for (int64_t j = 0; j < ys / ldy; j++) /* what lies between the columns */
        assert_memory_equal((char *)y + size * (size_t)(j * ldy + inside),
                            (char *)y0 + size * (size_t)(j * ldy + inside),
                            size * (size_t)(ldy - inside));
    for (int f = 0; f < 2; f++)
        be->release(ctx, (void *)dx[f].p), free((void *)x[f].p);
    be->release(ctx, da), be->release(ctx, dy), be->release(ctx, dsum), be->release(ctx, dterm);
    free(a), free(y0), free(y), free(sum), free(term);
    return largest > 0 ? worst / largest : worst;
}

static void test_sums(void **state) {
    static const int64_t most[] = {5, 20, 32, 44, 64, 100, 130}, nvec[] = {1, 3, 13, 29, 66, 131};
    (void)state;
    int n = 0;
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        for (size_t j = 0; j < sizeof nvec / sizeof *nvec; j++)
            for (int q = 0; q < 4; q++, n++) {
                if (small() && (n % 3 != 0 || (q & 1 && nvec[j] < 60)))
                    continue;
                const int64_t tiles = (most[i] + 63) / 64 * ((nvec[j] + 63) / 64);
                const sums_case c = {.count = n % 5 == 4 ? 9 : 290 / tiles,
                                     .most = most[i],
                                     .nvec = nvec[j],
                                     .side = q & 1 ? 'R' : 'L',
                                     .alpha = n % 11 == 10 ? 0 : 1.5,
                                     .beta = n % 2 ? -0.5 : 0,
                                     .odd = q & 2};
                for (int t = 0; t < 2; t++) {
                    const backend_type type = t ? BACKEND_S : BACKEND_D;
                    if (t && n % 4 != 0)
                        continue;
                    const double e = error_of(&c, type);
                    if (!(e < (t ? 1e-5 : 1e-13)))
                        fail_msg(
                            "%d sums of up to %d rows, %d vectors, side %c, %s, type %c: error %g",
                            (int)c.count, (int)c.most, (int)c.nvec, c.side, c.odd ? "odd" : "even",
                            t ? 'S' : 'D', e);
                }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
    return RUN_ON_BACKENDS(tests);
}
