#include "support/fault_hook.c"
