/* A checkpoint one of whose files is anything: the run goes on without what is not its own, or is
 * refused in one line; and what counts as done is what was put.
 *
 * The first byte of the input chooses the file, the second what becomes of it: bit 0, the rest of
 * the input are changes (two bytes of place, one of value), else the rest is the content; bit 1,
 * the checksums are made right again, so that what is checked after them is tried too. */
#include "base/crc.h"
#include "fuzz.h"
#include "store/store.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TARGETS = 4, EXPOSURES = 2, LAMBDA = 2, BOX = 1, CROP = 4, FILES = 12 };
enum { VALUES = LAMBDA * (3 + BOX), PIXELS = CROP * CROP };
#define FOLDER "run/checkpoint/"

static const store_run the_run = {.effective = "title: \"fuzz\"\ntelescope:\n  diameter: 8\n",
                                  .ntarget = TARGETS,
                                  .nexposure = EXPOSURES,
                                  .nlambda = LAMBDA,
                                  .nbox = BOX,
                                  .crop = CROP};
static struct {
    char name[300];
    uint8_t *data;
    size_t n;
} good[FILES];
static size_t ngood;

/* Numbers that tell exposure, target and place. */
static double scalar_of(int exposure, int target, int i) {
    return 1000 * exposure + 100 * target + i;
}

static void put(store *s, int exposure, int t0) {
    double scalars[2 * VALUES];
    float images[2 * LAMBDA * PIXELS];
    for (int i = 0; i < 2 * VALUES; i++)
        scalars[i] = scalar_of(exposure, t0 + i / VALUES, i % VALUES);
    for (int i = 0; i < 2 * LAMBDA * PIXELS; i++)
        images[i] = (float)(exposure + t0 + i);
    result_block b = {exposure, t0, 2, LAMBDA, BOX, CROP, scalars, images, false, 0, NULL, 0};
    if (store_put(s, &b) != MOAO_OK)
        fuzz_broken("cannot put", status_message());
}

static void remember(const char *name) {
    struct stat sb;
    char path[400];
    snprintf(path, sizeof path, FOLDER "%s", name);
    FILE *f = fopen(path, "rb");
    if (f == NULL || fstat(fileno(f), &sb) != 0 || ngood == FILES)
        abort();
    snprintf(good[ngood].name, sizeof good[ngood].name, "%s", path);
    good[ngood].n = (size_t)sb.st_size;
    good[ngood].data = malloc(good[ngood].n + 1);
    if (good[ngood].data == NULL || fread(good[ngood].data, 1, good[ngood].n, f) != good[ngood].n)
        abort();
    fclose(f);
    ngood++;
}

/* A run of which three parts of four are done. */
static void prepare(void) {
    store *s;
    struct dirent **names;
    const store_how how = {false, true, false};
    if (store_open("run", &the_run, &how, &s) != MOAO_OK)
        fuzz_broken("cannot begin", status_message());
    if (store_set_fact(s, "ranks", 2) != MOAO_OK || store_set_fact(s, "chunk", 2) != MOAO_OK)
        fuzz_broken("cannot set facts", status_message());
    put(s, 0, 0);
    put(s, 0, 2);
    put(s, 1, 0);
    store_close(s);
    int n = scandir(FOLDER, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.' && strcmp(names[i]->d_name, "lock") != 0)
            remember(names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

static uint32_t get32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The checksums of a part (store_part.c) or of a small text (store_sealed.c). */
static void repair(const char *name, uint8_t *data, size_t n) {
    enum {
        NT = 24,
        LAMBDAS = 28,
        BOXES = 32,
        SCALARS_CRC = 44,
        TABLE_CRC = 64,
        HEADER_CRC = 68,
        HEADER = 72
    };
    if (strstr(name, "part-") == NULL) {
        char tail[14];
        if (n < 13)
            return;
        snprintf(tail, sizeof tail, "crc %08x\n", crc_update(0, data, n - 13));
        memcpy(data + n - 13, tail, 13);
        return;
    }
    if (n < HEADER)
        return;
    const uint64_t images = (uint64_t)get32(data + NT) * get32(data + LAMBDAS);
    if (images < 1000 && get32(data + BOXES) < 1000) {
        const uint64_t at = HEADER + 4 * images, bytes = images * (3 + get32(data + BOXES)) * 8;
        if (at + bytes <= n) {
            const uint32_t table = crc_update(0, data + HEADER, 4 * images),
                           scalars = crc_update(0, data + at, bytes);
            memcpy(data + TABLE_CRC, &table, 4);
            memcpy(data + SCALARS_CRC, &scalars, 4);
        }
    }
    const uint32_t header = crc_update(0, data, HEADER_CRC);
    memcpy(data + HEADER_CRC, &header, 4);
}

/* Whether what is done is what was put. */
static void check_read(const store *s, bool exact) {
    double scalars[VALUES];
    float image[PIXELS];
    for (int e = 0; e < EXPOSURES; e++)
        for (int t = 0; t < TARGETS; t++) {
            if (!store_done(s, e, t))
                continue;
            if (store_read_scalars(s, e, t, scalars) != MOAO_OK ||
                store_read_image(s, e, t, LAMBDA - 1, image) != MOAO_OK)
                fuzz_broken("done, but cannot be read", status_message());
            for (int i = 0; i < VALUES && exact; i++)
                if (scalars[i] != scalar_of(e, t, i))
                    fuzz_broken("a number is not the one that was put", "");
        }
}

void fuzz_checkpoint(const uint8_t *data, size_t n) {
    if (ngood == 0)
        prepare();
    if (n < 2)
        return;
    const size_t which = data[0] % ngood;
    const bool changes = data[1] & 1, repaired = data[1] & 2;
    for (size_t i = 0; i < ngood; i++)
        fuzz_write(good[i].name, good[i].data, good[i].n);
    const size_t size = changes ? good[which].n : n - 2;
    uint8_t *content = malloc(size + 1);
    if (content == NULL)
        return;
    memcpy(content, changes ? good[which].data : data + 2, size);
    for (size_t i = 2; changes && size > 0 && i + 2 < n; i += 3)
        content[(data[i] | (size_t)data[i + 1] << 8) % size] = data[i + 2];
    if (repaired)
        repair(good[which].name, content, size);
    fuzz_write(good[which].name, content, size);
    free(content);

    store *s = NULL;
    const store_how how = {true, false, false};
    status st = store_open("run", &the_run, &how, &s);
    if (st != MOAO_OK)
        fuzz_check_message(st);
    else if (!store_finished(s))
        check_read(s, !repaired);
    store_close(s);
}
