#include "moao/version.h"

int moao_linalg_version(void) {
    return MOAO_LINALG_VERSION;
}
