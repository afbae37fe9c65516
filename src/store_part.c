#define _GNU_SOURCE
#include "store_part.h"

#include "crc.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "moaopart"
#define BYTE_ORDER_MARK 0x01020304u
#define FORMAT_VERSION 1u

typedef struct { /* of the file; no padding: 8 + 8 * 4 + 2 * 8 + 2 * 4 bytes */
    char magic[8];
    uint32_t order, version;
    int32_t exposure, t0, nt, nlambda, nbox, crop;
    uint64_t scalar_bytes, image_bytes;
    uint32_t body_crc, header_crc; /* the latter of all bytes before it */
} part_header;
_Static_assert(sizeof(part_header) == 64, "the header of a part has no padding");

void part_name(const part_shape *p, char name[PART_NAME_SIZE]) {
    snprintf(name, PART_NAME_SIZE, "part-%04d-%06d-%06d.bin", p->exposure, p->t0, p->nt);
}

bool part_parse_name(const char *name, part_shape *p) {
    char again[PART_NAME_SIZE];
    memset(p, 0, sizeof *p);
    if (sscanf(name, "part-%9d-%9d-%9d.bin", &p->exposure, &p->t0, &p->nt) != 3)
        return false;
    part_name(p, again);
    return strcmp(name, again) == 0;
}

static uint64_t scalar_bytes(const part_shape *p) {
    return (uint64_t)p->nt * (uint64_t)p->nlambda * (3 + (uint64_t)p->nbox) * sizeof(double);
}

static uint64_t image_bytes(const part_shape *p) {
    return (uint64_t)p->nt * (uint64_t)p->nlambda * (uint64_t)p->crop * (uint64_t)p->crop *
           sizeof(float);
}

status part_write(const char *path, const result_block *b) {
    status st;
    file_out o = {0};
    part_shape p = {b->exposure, b->t0,   b->nt,
                    b->nlambda,  b->nbox, b->images == NULL ? 0 : b->crop};
    part_header h = {.order = BYTE_ORDER_MARK,
                     .version = FORMAT_VERSION,
                     .exposure = p.exposure,
                     .t0 = p.t0,
                     .nt = p.nt,
                     .nlambda = p.nlambda,
                     .nbox = p.nbox,
                     .crop = p.crop,
                     .scalar_bytes = scalar_bytes(&p),
                     .image_bytes = image_bytes(&p)};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    h.body_crc = crc_update(0, b->scalars, h.scalar_bytes);
    if (p.crop > 0)
        h.body_crc = crc_update(h.body_crc, b->images, h.image_bytes);
    h.header_crc = crc_update(0, &h, offsetof(part_header, header_crc));
    TRY(file_begin(&o, path));
    TRY(file_append(&o, &h, sizeof h));
    TRY(file_append(&o, b->scalars, h.scalar_bytes));
    if (p.crop > 0)
        TRY(file_append(&o, b->images, h.image_bytes));
    st = file_commit(&o);
done:
    file_abandon(&o);
    return st;
}

/* NULL when the header is sound and the file has the size it announces, else what is wrong. */
static const char *check_header(const part_header *h, part_shape *p, uint64_t size) {
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        return "not a part of a checkpoint";
    if (h->order != BYTE_ORDER_MARK)
        return "written by a machine of another byte order";
    if (h->version != FORMAT_VERSION)
        return "written by another version of the program";
    if (h->header_crc != crc_update(0, h, offsetof(part_header, header_crc)))
        return "its header is damaged";
    *p = (part_shape){h->exposure, h->t0, h->nt, h->nlambda, h->nbox, h->crop};
    if (p->nt <= 0 || p->nlambda <= 0 || p->nbox < 0 || p->crop < 0 ||
        h->scalar_bytes != scalar_bytes(p) || h->image_bytes != image_bytes(p))
        return "its header is inconsistent";
    if (size != sizeof *h + h->scalar_bytes + h->image_bytes)
        return "it has the wrong size";
    return NULL;
}

void part_verify(const char *path, part_shape *p, const char **why) {
    enum { CHUNK = 1 << 18 };
    static unsigned char buffer[CHUNK];
    struct stat sb;
    part_header h;
    FILE *f = fopen(path, "re");
    if (f == NULL || fstat(fileno(f), &sb) != 0) {
        *why = strerror(errno);
        goto done;
    }
    if (fread(&h, sizeof h, 1, f) != 1) {
        *why = "it is truncated";
        goto done;
    }
    if ((*why = check_header(&h, p, (uint64_t)sb.st_size)) != NULL)
        goto done;
    uint32_t crc = 0;
    size_t n;
    while ((n = fread(buffer, 1, CHUNK, f)) > 0)
        crc = crc_update(crc, buffer, n);
    if (ferror(f) || crc != h.body_crc)
        *why = "its checksum is wrong";
done:
    if (f != NULL)
        fclose(f);
}

static status read_at(int fd, const char *path, void *out, size_t n, uint64_t offset) {
    char *p = out;
    while (n > 0) {
        ssize_t got = pread(fd, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return status_fail(MOAO_IO, "%s: cannot read: %s", path,
                               got < 0 ? strerror(errno) : "it has become shorter");
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return MOAO_OK;
}

status part_read_scalars(int fd, const char *path, const part_shape *p, double *out) {
    return read_at(fd, path, out, scalar_bytes(p), sizeof(part_header));
}

status part_read_image(int fd, const char *path, const part_shape *p, int it, int ilambda,
                       float *out) {
    uint64_t one = (uint64_t)p->crop * (uint64_t)p->crop * sizeof(float);
    uint64_t k = (uint64_t)it * (uint64_t)p->nlambda + (uint64_t)ilambda;
    return read_at(fd, path, out, one, sizeof(part_header) + scalar_bytes(p) + k * one);
}
