/* A checkpoint one of whose files is anything: the run goes on without what is not its own, or refuses in one line.
 * The first byte chooses the file; a part whose first byte says so gets a right checksum again, so that what
 * comes after the checksums is tried too. */
#include "fuzz.h"
#include "store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TARGETS = 4, EXPOSURES = 2, LAMBDA = 2, BOX = 1, CROP = 4 };
#define EFFECTIVE "telescope:\n  diameter: 8\ntitle: fuzz\n"
