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
    const void *owner; /* NULL: free */
    file_out *file;    /* NULL: for reading alone, and what there is to say of it follows */
    int fd;
    const char *path;
    uint64_t size;
    uint64_t at; /* next byte to be read or written */
} slot[SLOTS];

static int create(char *name, int *handle) {
    const long i = strtol(name, NULL, 10);
    if (i < 0 || i >= SLOTS || slot[i].owner == NULL)
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

static uint64_t size_of(int handle) {
    return slot[handle].file != NULL ? slot[handle].file->size : slot[handle].size;
}

static int get_size(int handle, LONGLONG *size) {
    *size = (LONGLONG)size_of(handle);
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
    const file_out *f = slot[handle].file;
    const uint64_t size = size_of(handle), at = slot[handle].at;
    if (n < 0 || at > size || (uint64_t)n > size - at)
        return END_OF_FILE;
    if (file_read_at(f != NULL ? f->fd : slot[handle].fd, f != NULL ? f->path : slot[handle].path,
                     out, (size_t)n, at) != MOAO_OK)
        return READ_ERROR;
    slot[handle].at += (uint64_t)n;
    return 0;
}

static int write_some(int handle, void *data, long n) {
    if (slot[handle].file == NULL)
        return READONLY_FILE;
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

static status take_slot(const void *owner, const char *path, int *at, char *name, size_t room) {
    const int err = register_once();
    if (err != 0)
        return status_fail(MOAO_INTERNAL, "cfitsio takes no driver (its error %d)", err);
    fits_driver_return(owner);
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].owner == NULL) {
            memset(&slot[i], 0, sizeof slot[i]);
            slot[i].owner = owner;
            snprintf(name, room, PREFIX "%d", i);
            *at = i;
            return MOAO_OK;
        }
    return status_fail(MOAO_INTERNAL, "%s: more than %d FITS files at a time", path, SLOTS);
}

status fits_driver_lend(file_out *file, char *name, size_t room) {
    int i = 0;
    status st = take_slot(file, file->path, &i, name, room);
    if (st == MOAO_OK)
        slot[i].file = file;
    return st;
}

status fits_driver_lend_input(const void *owner, int fd, const char *path, uint64_t size,
                              char *name, size_t room) {
    int i = 0;
    status st = take_slot(owner, path, &i, name, room);
    if (st == MOAO_OK) {
        slot[i].fd = fd;
        slot[i].path = path;
        slot[i].size = size;
    }
    return st;
}

void fits_driver_return(const void *owner) {
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].owner == owner)
            slot[i].owner = NULL;
}
