#include "plain.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at s, 0 when it is none or a control character. */
static int sequence(const unsigned char *s) {
    int n = s[0] < 0x80 ? 1 : s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : s[0] >= 0xC2 ? 2 : 0;
    if (s[0] > 0xF4 || (n == 1 && (s[0] < 0x20 || s[0] == 0x7F)))
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return n == 2 && s[0] == 0xC2 && s[1] < 0xA0 ? 0 : n;
}

char *plain_text(char *s) {
    for (unsigned char *p = (unsigned char *)s; *p != '\0';) {
        int n = sequence(p);
        if (n == 0)
            *p = *p == '\t' ? ' ' : '?';
        p += n > 0 ? n : 1;
    }
    return s;
}

void plain_line(FILE *f, const char *prefix, const char *s) {
    char *copy = strdup(s);
    fprintf(f, "%s%s\n", prefix, copy != NULL ? plain_text(copy) : "no memory for a message");
    free(copy);
}
