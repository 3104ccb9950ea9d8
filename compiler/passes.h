/* SPDX-License-Identifier: Apache-2.0
 *
 * Every pass of passes.def, one file each. False after an error.
 */
#ifndef TSR_COMPILER_PASSES_H
#define TSR_COMPILER_PASSES_H

#include "compiler/ir/mlir.h"

#define X(function, name, summary) bool function(MlirModule module);
#include "compiler/passes.def"
#undef X

/* Functions have one block: there is nothing to simplify between blocks, and no need to scan
 * every op once more for it. */
#define TSR_CANONICALIZE "canonicalize{region-simplify=disabled}"

#endif
