/* One sweep or one search at a time writes in a folder. Local. */
#ifndef MOAO_FOLDER_LOCK_H
#define MOAO_FOLDER_LOCK_H

#include "moao/status.h"

#define FOLDER_LOCK ".moao.lock" /* its name; it stays there */

/* Take the lock of DIR until *fd is closed or the process ends; *fd is -1 after a failure. what:
 * "sweep". MOAO_INPUT when another process has it; a line on stderr where the file system has no
 * locks. */
status folder_lock(const char *dir, const char *what, int *fd);

#endif
