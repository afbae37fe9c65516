#include "decimal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

size_t decimal_length(const char *s) {
    size_t i = 0, digits = 0;
    if (s[i] == '+' || s[i] == '-')
        i++;
    for (; isdigit((unsigned char)s[i]); i++)
        digits++;
    if (s[i] == '.')
        for (i++; isdigit((unsigned char)s[i]); i++)
            digits++;
    if (digits == 0)
        return 0;
    if (s[i] == 'e' || s[i] == 'E') {
        size_t j = i + 1;
        if (s[j] == '+' || s[j] == '-')
            j++;
        if (isdigit((unsigned char)s[j])) {
            for (i = j; isdigit((unsigned char)s[i]);)
                i++;
        }
    }
    return i;
}

bool decimal_read(const char *s, double *v) {
    const size_t n = decimal_length(s);
    if (n == 0 || s[n] != '\0')
        return false;
    *v = strtod(s, NULL);
    return isfinite(*v);
}

int decimal_digits(const char *s, int n) {
    int v = 0;
    for (int i = 0; i < n; i++) {
        if (!isdigit((unsigned char)s[i]))
            return -1;
        v = 10 * v + (s[i] - '0');
    }
    return v;
}
