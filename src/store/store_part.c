#define _GNU_SOURCE
#include "store_part.h"

#include "base/crc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "moaopart"
#define BYTE_ORDER_MARK 0x01020304u
#define FORMAT_VERSION 5u

/* A part is this header, the CRC-32 of each image, the scalars, the images; of nodes, what is kept
 * of each stands for an image. */
typedef struct { /* no padding: 8 + 2 * 4 + 8 * 4 + 2 * 4 + 2 * 8 + 2 * 4 bytes */
    char magic[8];
    uint32_t order, version;
    int32_t exposure, t0, nt, nlambda, nbox, crop, mixed, nbudget;
    uint32_t scalars_crc;
    int32_t nkept;
    uint64_t fingerprint, size; /* the latter of the whole file */
    uint32_t table_crc;         /* of the images' */
    uint32_t header_crc;        /* of all bytes before it */
} part_header;
_Static_assert(sizeof(part_header) == 80, "the header of a part has no padding");

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

bool part_fits(const part_shape *p, const part_run *run) {
    const bool nodes = p->nkept > 0;
    const int first = nodes ? 0 : run->nnode, count = nodes ? run->nnode : run->ntarget;
    return p->exposure >= 0 && p->exposure < run->nexposure && p->t0 >= first && p->nt > 0 &&
           p->nt <= count && p->t0 - first <= count - p->nt && p->nlambda == run->nlambda &&
           p->nbox == run->nbox && p->crop == (nodes ? 0 : run->crop) &&
           p->nkept == (nodes ? run->nkept : 0) && p->nbudget == run->nbudget;
}

part_shape part_of_block(const part_run *run, const result_block *b) {
    const bool nodes = b->kept != NULL;
    return (part_shape){.exposure = b->exposure,
                        .t0 = b->t0 + (nodes ? 0 : run->nnode),
                        .nt = b->nt,
                        .nlambda = b->nlambda,
                        .nbox = b->nbox,
                        .crop = nodes || b->images == NULL ? 0 : b->crop,
                        .mixed = b->mixed,
                        .nbudget = b->nbudget,
                        .nkept = nodes ? (int)b->nkept : 0};
}

/* --- bytes of the pieces, of a shape that fits a run */

static size_t scalar_bytes(const part_shape *p) {
    return (size_t)p->nt * store_scalars(p->nlambda, p->nbox, p->nbudget) * sizeof(double);
}

static size_t image_bytes(const part_shape *p) {
    return (p->nkept > 0 ? (size_t)p->nkept : (size_t)p->crop * (size_t)p->crop) * sizeof(float);
}

static size_t image_count(const part_shape *p) {
    return p->nkept > 0 ? (size_t)p->nt : p->crop > 0 ? (size_t)p->nt * (size_t)p->nlambda : 0;
}

static size_t scalars_at(const part_shape *p) {
    return sizeof(part_header) + image_count(p) * sizeof(uint32_t);
}

static uint64_t image_at(const part_shape *p, size_t i) {
    return scalars_at(p) + scalar_bytes(p) + i * image_bytes(p);
}

/* --- writing */

static part_header make_header(const part_run *run, const part_shape *p, uint32_t scalars_crc,
                               uint32_t table_crc) {
    part_header h = {.order = BYTE_ORDER_MARK,
                     .version = FORMAT_VERSION,
                     .exposure = p->exposure,
                     .t0 = p->t0,
                     .nt = p->nt,
                     .nlambda = p->nlambda,
                     .nbox = p->nbox,
                     .crop = p->crop,
                     .mixed = p->mixed,
                     .nbudget = p->nbudget,
                     .scalars_crc = scalars_crc,
                     .nkept = p->nkept,
                     .fingerprint = run->fingerprint,
                     .size = image_at(p, image_count(p)),
                     .table_crc = table_crc};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    h.header_crc = crc_update(0, &h, offsetof(part_header, header_crc));
    return h;
}

status part_write(const char *path, const part_run *run, const result_block *b) {
    status st;
    file_out o = {0};
    uint32_t *table = NULL;
    const part_shape p = part_of_block(run, b);
    const size_t n = image_count(&p), np = image_bytes(&p);
    const float *images = b->kept != NULL ? b->kept : b->images;
    TRY(ALLOC(table, n, "checksums of images"));
    for (size_t i = 0; i < n; i++)
        table[i] = crc_update(0, (const char *)images + i * np, np);
    const part_header h = make_header(run, &p, crc_update(0, b->scalars, scalar_bytes(&p)),
                                      crc_update(0, table, n * sizeof *table));
    TRY(file_begin(&o, path));
    TRY(file_append(&o, &h, sizeof h));
    TRY(file_append(&o, table, n * sizeof *table));
    TRY(file_append(&o, b->scalars, scalar_bytes(&p)));
    if (n > 0)
        TRY(file_append(&o, images, n * np));
    st = file_commit(&o);
done:
    file_abandon(&o);
    free(table);
    return st;
}

/* --- reading */

/* NULL when the header is sound and of a part of the run; else what is wrong. */
static const char *check_header(const part_header *h, const part_run *run, part_shape *p,
                                uint64_t size, bool *old) {
    *old = false;
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        return "not a part of a checkpoint";
    if (h->order != BYTE_ORDER_MARK)
        return "written by a machine of another byte order";
    *old = h->version < FORMAT_VERSION;
    if (*old)
        return "written by another version of the program";
    if (h->header_crc != crc_update(0, h, offsetof(part_header, header_crc)))
        return "its header is damaged";
    *old = h->version != FORMAT_VERSION;
    if (*old)
        return "written by another version of the program";
    *p = (part_shape){h->exposure, h->t0,         h->nt,      h->nlambda, h->nbox,
                      h->crop,     h->mixed != 0, h->nbudget, h->nkept};
    if (h->fingerprint != run->fingerprint || !part_fits(p, run))
        return "it belongs to a run with other parameters";
    if (h->size != image_at(p, image_count(p)) || size != h->size)
        return "it has the wrong size";
    return NULL;
}

/* Open a part, its header and its table of checksums verified; *why: what is wrong, else NULL. */
static status open_verified(const char *path, const part_run *run, part_file *f, const char **why,
                            bool *old) {
    struct stat sb;
    part_header h;
    *old = false;
    *f = (part_file){.fd = file_open_fd(path, O_RDONLY | O_NONBLOCK)};
    if (f->fd < 0 || fstat(f->fd, &sb) != 0) {
        *why = strerror(errno);
        return MOAO_OK;
    }
    *why = "it is truncated";
    if (!S_ISREG(sb.st_mode) || (size_t)sb.st_size < sizeof h)
        return MOAO_OK;
    *why = "it cannot be read";
    if (file_read_at(f->fd, path, &h, sizeof h, 0) != MOAO_OK)
        return MOAO_OK;
    if ((*why = check_header(&h, run, &f->p, (uint64_t)sb.st_size, old)) != NULL)
        return MOAO_OK;
    const size_t table = image_count(&f->p) * sizeof *f->image_crc;
    f->scalars_crc = h.scalars_crc;
    const status st = ALLOC(f->image_crc, image_count(&f->p), "checksums of images");
    if (st != MOAO_OK)
        return st;
    if (file_read_at(f->fd, path, f->image_crc, table, sizeof h) != MOAO_OK)
        *why = "it cannot be read";
    else if (crc_update(0, f->image_crc, table) != h.table_crc)
        *why = "its checksum is wrong";
    return MOAO_OK;
}

/* CRC-32 of n bytes at `at`, read through `buffer`; false when they cannot be read. */
static bool sum_bytes(const part_file *f, const char *path, uint64_t at, size_t n, uint32_t *crc) {
    enum { CHUNK = 1 << 18 };
    static unsigned char buffer[CHUNK];
    *crc = 0;
    for (size_t done = 0, now; done < n; done += now) {
        now = n - done < CHUNK ? n - done : CHUNK;
        if (file_read_at(f->fd, path, buffer, now, at + done) != MOAO_OK)
            return false;
        *crc = crc_update(*crc, buffer, now);
    }
    return true;
}

status part_verify(const char *path, const part_run *run, part_shape *p, const char **why,
                   bool *old) {
    part_file f;
    uint32_t crc;
    status st;
    TRY(open_verified(path, run, &f, why, old));
    *p = f.p;
    if (*why == NULL &&
        (!sum_bytes(&f, path, scalars_at(p), scalar_bytes(p), &crc) || crc != f.scalars_crc))
        *why = "its checksum is wrong";
    for (size_t i = 0; *why == NULL && i < image_count(p); i++)
        if (!sum_bytes(&f, path, image_at(p, i), image_bytes(p), &crc) || crc != f.image_crc[i])
            *why = "its checksum is wrong";
    if (*why != NULL)
        status_clear(); /* the reason is *why */
done:
    part_close(&f);
    return st;
}

static status changed(const char *path, const char *why) {
    return status_fail(MOAO_IO,
                       "%s: changed since it was written, %s; go on with --resume, which computes "
                       "it again",
                       file_shown(path), why);
}

status part_open(const char *path, const part_run *run, const part_shape *expected, part_file *f) {
    const char *why;
    bool old;
    status st;
    TRY(open_verified(path, run, f, &why, &old));
    if (why != NULL)
        TRY(changed(path, why));
    if (f->p.exposure != expected->exposure || f->p.t0 != expected->t0 || f->p.nt != expected->nt ||
        f->p.mixed != expected->mixed || f->p.nkept != expected->nkept)
        TRY(changed(path, "it is another part"));
    TRY(ALLOC(f->path, strlen(path) + 1, "file name"));
    strcpy(f->path, path);
done:
    if (st != MOAO_OK)
        part_close(f);
    return st;
}

void part_close(part_file *f) {
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f->image_crc);
    free(f->scalars);
    *f = (part_file){.fd = -1};
}

status part_read_scalars(part_file *f) {
    status st = MOAO_OK;
    if (f->scalars != NULL)
        return MOAO_OK;
    const size_t n = scalar_bytes(&f->p);
    double *v = NULL;
    TRY(ALLOC(v, n / sizeof *v, "results of a checkpoint part"));
    TRY(file_read_at(f->fd, f->path, v, n, scalars_at(&f->p)));
    if (crc_update(0, v, n) != f->scalars_crc)
        TRY(changed(f->path, "its checksum is wrong"));
    f->scalars = v;
    v = NULL;
done:
    free(v);
    return st;
}

status part_read_image(part_file *f, int it, int ilambda, float *out) {
    const size_t n = image_bytes(&f->p);
    const size_t of = f->p.nkept > 0 ? 1 : (size_t)f->p.nlambda;
    const size_t i = (size_t)it * of + (size_t)ilambda;
    status st = file_read_at(f->fd, f->path, out, n, image_at(&f->p, i));
    if (st == MOAO_OK && crc_update(0, out, n) != f->image_crc[i])
        st = changed(f->path, "the checksum of an image is wrong");
    return st;
}
