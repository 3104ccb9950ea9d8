/* SPDX-License-Identifier: Apache-2.0
 *
 * Every pass of passes.def, one file each. False after an error.
 */
#ifndef TSR_COMPILER_PASSES_H
#define TSR_COMPILER_PASSES_H

#include "compiler/mlir.h"

#define X(function, name, summary) bool function(MlirModule module);
#include "compiler/passes.def"
#undef X

#endif
