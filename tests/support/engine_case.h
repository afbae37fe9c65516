/* An engine of the backend under test for a case's system. */
#ifndef TESTS_ENGINE_CASE_H
#define TESTS_ENGINE_CASE_H

#include "engine/engine.h"
#include "support/backend.h"
#include "support/matcov_case.h"

/* Opens e for panels of 64 columns and one row of W; what it is given stays. */
static inline void case_engine(const comm *c, const sys *s, report *rep, engine *e) {
    *e = (engine){.c = c,
                  .s = s,
                  .rep = rep,
                  .be = be,
                  .m = (int64_t)s->m,
                  .t = (int64_t)s->t,
                  .rows = 1,
                  .width = 64};
    case_ok(engine_open(e));
}

#endif
