#include "engine/plan.h"

void plan_add(plan *p, const char *name, size_t bytes) {
    const plan_memory where = p->devices ? PLAN_DEVICE : PLAN_HOST;
    const int n = p->memory[where].n++;
    p->memory[where].item[n].name = name;
    p->memory[where].item[n].bytes = bytes;
    p->fixed += p->devices ? bytes : 0;
}

size_t plan_device_bytes(const plan *p, int n) {
    const size_t targets = (size_t)n * p->target;
    return p->fixed + (targets > p->least ? targets : p->least);
}
