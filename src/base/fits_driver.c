#include "fits_driver.h"

#include <fitsio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Exported by the library and stable since its version 2, but declared only in its internal header.
 */
int fits_register_driver(char *prefix, int (*init)(void), int (*shutdown)(void),
                         int (*setoptions)(int), int (*getoptions)(int *), int (*getversion)(int *),
                         int (*checkfile)(char *, char *, char *), int (*open)(char *, int, int *),
                         int (*create)(char *, int *), int (*truncate)(int, LONGLONG),
                         int (*close)(int), int (*fremove)(char *), int (*size)(int, LONGLONG *),
                         int (*flush)(int), int (*seek)(int, LONGLONG),
                         int (*read)(int, void *, long), int (*write)(int, void *, long));

#define PREFIX "moao://"
enum { SLOTS = 16 };

static struct {
    file_out *file; /* NULL: free */
    uint64_t at;    /* next byte to be read or written */
} slot[SLOTS];

static int create(char *name, int *handle) {
    const long i = strtol(name, NULL, 10);
    if (i < 0 || i >= SLOTS || slot[i].file == NULL)
        return FILE_NOT_CREATED;
    slot[i].at = 0;
    *handle = (int)i;
    return 0;
}

static int open_lent(char *name, int mode, int *handle) {
    (void)mode;
    return create(name, handle) == 0 ? 0 : FILE_NOT_OPENED;
}

static int close_lent(int handle) {
    (void)handle; /* the file belongs to who lent it */
    return 0;
}

static int get_size(int handle, LONGLONG *size) {
    *size = (LONGLONG)slot[handle].file->size;
    return 0;
}

static int flush(int handle) {
    (void)handle;
    return 0;
}

static int seek(int handle, LONGLONG at) {
    slot[handle].at = (uint64_t)at;
    return 0;
}

static int read_some(int handle, void *out, long n) {
    file_out *f = slot[handle].file;
    if (slot[handle].at + (uint64_t)n > f->size)
        return END_OF_FILE;
    if (file_read_at(f->fd, f->path, out, (size_t)n, slot[handle].at) != MOAO_OK)
        return READ_ERROR;
    slot[handle].at += (uint64_t)n;
    return 0;
}

static int write_some(int handle, void *data, long n) {
    if (file_write_at(slot[handle].file, data, (size_t)n, slot[handle].at) != MOAO_OK)
        return WRITE_ERROR;
    slot[handle].at += (uint64_t)n;
    return 0;
}

static int register_once(void) {
    static int done;
    char prefix[] = PREFIX;
    if (done)
        return 0;
    int err = fits_init_cfitsio();
    if (err == 0)
        err = fits_register_driver(prefix, NULL, NULL, NULL, NULL, NULL, NULL, open_lent, create,
                                   NULL, close_lent, NULL, get_size, flush, seek, read_some,
                                   write_some);
    done = err == 0;
    return err;
}

status fits_driver_lend(file_out *file, char *name, size_t size) {
    const int err = register_once();
    if (err != 0)
        return status_fail(MOAO_INTERNAL, "cfitsio takes no driver (its error %d)", err);
    fits_driver_return(file);
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].file == NULL) {
            slot[i].file = file;
            snprintf(name, size, PREFIX "%d", i);
            return MOAO_OK;
        }
    return status_fail(MOAO_INTERNAL, "%s: more than %d FITS files at a time", file->path, SLOTS);
}

void fits_driver_return(const file_out *file) {
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].file == file)
            slot[i].file = NULL;
}
