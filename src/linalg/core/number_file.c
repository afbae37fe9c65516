/* Files of numbers (number_file.h). */
#include "number_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ORDER = 0x01020304 };

static status failed(const number_file *s) {
    return status_fail(MOAO_IO, "%s: cannot be %s: %s", s->path, s->writing ? "written" : "read",
                       strerror(errno));
}

static status cut_short(const number_file *s) {
    return status_fail(MOAO_INPUT, "%s: it is cut short", s->path);
}

/* Words in turn: each changes the sum in another way at another place (Fowler, Noll and Vo's, by
 * words). */
static void add(number_file *s, const void *data, size_t words) {
    const char *p = data;
    for (size_t i = 0; i < words; i++) {
        uint64_t w;
        memcpy(&w, p + 8 * i, 8);
        s->sum = (s->sum ^ w) * 0x100000001b3u;
        s->sum ^= s->sum >> 29;
    }
}

static status begin(number_file *s, const char *path, const char *name) {
    s->path = path, s->sum = 0xcbf29ce484222325u;
    s->f = fopen(name, s->writing ? "wb" : "rb");
    return s->f ? MOAO_OK : failed(s);
}

status number_file_create(number_file *s, const char *path) {
    const size_t size = strlen(path) + sizeof ".part";
    status st;
    *s = (number_file){.writing = true};
    TRY(ALLOC(s->part, size, "a name of a file"));
    snprintf(s->part, size, "%s.part", path);
    st = begin(s, path, s->part);
done:
    return st;
}

status number_file_open(number_file *s, const char *path) {
    struct stat about;
    status st;
    *s = (number_file){0};
    TRY(begin(s, path, path));
    if (fstat(fileno(s->f), &about) != 0)
        TRY(failed(s));
    if (!S_ISREG(about.st_mode))
        TRY(status_fail(MOAO_IO, "%s: cannot be read: no file", path));
    s->size = s->left = (int64_t)about.st_size;
done:
    return st;
}

status number_file_words(number_file *s, void *data, size_t words) {
    if (words == 0)
        return MOAO_OK;
    if (s->writing) {
        add(s, data, words);
        return fwrite(data, 8, words, s->f) == words ? MOAO_OK : failed(s);
    }
    if ((double)words * 8 > (double)s->left)
        return cut_short(s);
    if (fread(data, 8, words, s->f) != words)
        return ferror(s->f) ? failed(s) : cut_short(s);
    s->left -= 8 * (int64_t)words;
    add(s, data, words);
    return MOAO_OK;
}

status number_file_array(number_file *s, void *array, int64_t count) {
    void **p = array;
    if (!s->writing) {
        if (count < 0 || count > s->left / 8)
            return cut_short(s);
        const status st = mem_alloc(p, (unsigned long)count, 8, "an array of a file");
        if (st != MOAO_OK)
            return st;
    }
    return number_file_words(s, *p, (size_t)count);
}

status number_file_head(number_file *s, const char magic[8], uint32_t *version, uint32_t latest,
                        const char *what) {
    struct {
        char magic[8];
        uint32_t version, order;
    } h = {.version = s->writing ? *version : 0, .order = ORDER};
    status st;
    memcpy(h.magic, magic, 8);
    if (!s->writing && s->size < (int64_t)sizeof h)
        return status_fail(MOAO_INPUT, "%s: no file of %s", s->path, what);
    TRY(number_file_words(s, &h, sizeof h / 8));
    if (memcmp(h.magic, magic, 8) != 0)
        TRY(status_fail(MOAO_INPUT, "%s: no file of %s", s->path, what));
    if (h.order != ORDER)
        TRY(status_fail(MOAO_INPUT, "%s: written by a machine with another order of bytes",
                        s->path));
    if (h.version < 1 || h.version > latest)
        TRY(status_fail(MOAO_INPUT, "%s: of version %u, this library reads version%s %u", s->path,
                        (unsigned)h.version, latest > 1 ? "s 1 to" : "", (unsigned)latest));
    *version = h.version;
done:
    return st;
}

status number_file_finish(number_file *s) {
    const uint64_t sum = s->sum;
    uint64_t told = sum;
    status st;
    TRY(number_file_words(s, &told, 1));
    if (!s->writing && told != sum)
        TRY(status_fail(MOAO_INPUT, "%s: its sum is wrong: it is damaged", s->path));
    if (!s->writing && s->left > 0)
        TRY(status_fail(MOAO_INPUT, "%s: it has %lld bytes after its end", s->path,
                        (long long)s->left));
    if (s->writing && (fflush(s->f) != 0 || fsync(fileno(s->f)) != 0))
        TRY(failed(s));
    const int closed = fclose(s->f);
    s->f = NULL;
    if (s->writing && (closed != 0 || rename(s->part, s->path) != 0))
        TRY(failed(s));
    free(s->part);
    s->part = NULL;
done:
    return st;
}

void number_file_close(number_file *s) {
    if (s->f)
        fclose(s->f);
    if (s->part)
        remove(s->part);
    free(s->part);
    *s = (number_file){0};
}
