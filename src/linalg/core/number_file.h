/* Files of numbers, as the library's formats write them: words of 8 bytes in the machine's order of
 * bytes, which begin with a magic word, a version and a mark of that order, and end with a sum over
 * all before it. Local; they wait. */
#ifndef MOAO_NUMBER_FILE_H
#define MOAO_NUMBER_FILE_H

#include <stdint.h>
#include <stdio.h>

typedef struct {
    FILE *f;
    const char *path;
    char *part; /* what is written, until it is complete */
    uint64_t sum;
    bool writing;
    int64_t size, left; /* of a file that is read: its bytes, those that are not read */
} number_file;

/* A file is zero before one of these. MOAO_IO: it cannot be written, or read. */
status number_file_create(number_file *s, const char *path);
status number_file_open(number_file *s, const char *path);

/* The two words that a file begins with; `what`: what such a file is of. *version is that which is
 * written, or that which was read, 1 to `latest`. MOAO_INPUT: another file, version or order of
 * bytes. */
status number_file_head(number_file *s, const char magic[8], uint32_t *version, uint32_t latest,
                        const char *what);

/* Writes words, or reads them. MOAO_INPUT: the file is cut short. */
status number_file_words(number_file *s, void *data, size_t words);

/* The same for an array of `count` words, for which memory is taken when it is read. `count` may be
 * anything: memory is taken only if the file is long enough. */
status number_file_array(number_file *s, void *array, int64_t count);

/* The sum, and the file under its own name; of one that is read, MOAO_INPUT: the sum is another, or
 * something follows it. */
status number_file_finish(number_file *s);

/* Always the last: closes, and removes what is not finished. */
void number_file_close(number_file *s);

#endif
