/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a reduction, applied to tensors.
 */
#ifndef TSR_COMPILER_STABLEHLO_REDUCE_H
#define TSR_COMPILER_STABLEHLO_REDUCE_H

#include "compiler/frontend/stablehlo/rules.h"

enum { TSR_HLO_REDUCED_MAX = 16 }; /* operands that are reduced together */

/* The body (region 0) for each element of `a` and `b`, which have `count` tensors each. */
bool tsr_hlo_combine(tsr_hlo_call *c, size_t count, const MlirValue *a, const MlirValue *b,
                     MlirValue *out);
/* True if combining with `init`, which is known, changes nothing. */
bool tsr_hlo_is_identity(const tsr_hlo_call *c, MlirValue init);

#endif
