/* All of the library: dense, batched, tile low-rank and hierarchical linear algebra on CPUs and
 * GPUs. docs/library.md is the way in; each header stands alone, too. */
#ifndef MOAO_LINALG_H
#define MOAO_LINALG_H

#include "backend.h"
#include "backend_batch.h"
#include "backend_complex.h"
#include "backend_fp16.h"
#include "backend_integer.h"
#include "backend_lowrank.h"
#include "backend_sparse.h"
#include "backend_toeplitz.h"
#include "batched.h"
#include "batched_complex.h"
#include "from_dense.h"
#include "from_points.h"
#include "gp.h"
#include "hier.h"
#include "hier_file.h"
#include "integer_factor.h"
#include "status.h"
#include "tlr.h"
#include "tlr_file.h"
#include "toeplitz.h"
#include "version.h"

#endif
