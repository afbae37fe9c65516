/* How accurate products by integers are (moao/backend_integer.h). */
#include "integer_constants.h"

static bool in_range(int moduli, int64_t k) {
    return moduli >= 2 && moduli <= INTEGER_MODULI && k >= 0 && k <= INTEGER_LONGEST;
}

/* Norms after scaling are above 0.98 (T - sqrt(k) / 2) / 2: half by the power of two, 1 % by the
 * coarse sum of squares. Each entry is wrong by 1/2. */
double integer_error(int moduli, int64_t k) {
    if (!in_range(moduli, k))
        return (double)NAN;
    const double least = 0.49 * sqrt(integer_square(moduli, k)), root = sqrt((double)k);
    return least > 0 ? root / least + (double)k / (4 * least * least) + 0x1p-52 : (double)INFINITY;
}

int integer_moduli(int64_t k, double tolerance) {
    for (int n = 2; n <= INTEGER_MODULI; n++)
        if (in_range(n, k) && (tolerance > 0 ? integer_error(n, k) <= tolerance
                                             : integer_constants_of(n).top >= 0x1p54))
            return n;
    return 0;
}
