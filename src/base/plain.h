/* Text that is safe on a terminal. Local. */
#ifndef MOAO_PLAIN_H
#define MOAO_PLAIN_H

#include <stdio.h>

/* Replace by '?', in place, what a terminal might obey: control characters of ASCII (tabs become
 * blanks) and of the range U+0080 to U+009F, and bytes that are no UTF-8. Returns s. */
char *plain_text(char *s);
/* Such a copy of prefix and s on a line of f. */
void plain_line(FILE *f, const char *prefix, const char *s);

#endif
