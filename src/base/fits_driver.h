/* What cfitsio reads and writes through: files of file.h instead of its own, which lose the reason
 * of a failure, and the failure itself when it comes with the last bytes. Local. */
#ifndef MOAO_FITS_DRIVER_H
#define MOAO_FITS_DRIVER_H

#include "file.h"

/* The name under which cfitsio can create or open `file`, which is open and belongs to the caller,
 * until it is returned. Failures of the system are kept in file->err. */
status fits_driver_lend(file_out *file, char *name, size_t room);
/* The same of a file of `size` bytes that is open for reading; `owner` gives it back. */
status fits_driver_lend_input(const void *owner, int fd, const char *path, uint64_t size,
                              char *name, size_t room);
void fits_driver_return(const void *owner);

#endif
