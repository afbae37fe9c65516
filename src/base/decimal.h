/* Decimal numbers as people write them: [+-]digits[.digits][e[+-]digits], with a digit before or
 * after the point. No hexadecimal, no inf or nan, no blanks, which strtod would take. Local. */
#ifndef MOAO_DECIMAL_H
#define MOAO_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the number at the start of s, 0 when there is none. */
size_t decimal_length(const char *s);
/* A text that is one such number and nothing else; false also when a double does not hold it. */
bool decimal_read(const char *s, double *v);
/* Exactly n digits at s as a number; -1 when there are other characters among them. */
int decimal_digits(const char *s, int n);

#endif
