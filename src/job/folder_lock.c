#include "job/folder_lock.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>

status folder_lock(const char *dir, const char *what, int *fd) {
    char *path = NULL;
    const char *unlocked;
    status st;
    *fd = -1;
    TRY(file_join(dir, FOLDER_LOCK, &path));
    TRY(file_lock(path, dir, what, fd, &unlocked));
    if (unlocked != NULL)
        fprintf(stderr, "moao: no file locks here (%s): let only one %s write there at a time\n",
                unlocked, what);
done:
    free(path);
    return st;
}
