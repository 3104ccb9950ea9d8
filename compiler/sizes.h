/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of open dims that the caller of the compiler gives.
 */
#ifndef TSR_COMPILER_SIZES_H
#define TSR_COMPILER_SIZES_H

#include "compiler/compile.h"
#include "compiler/ir/mlir.h"

/* Notes them on the module, for pass tessera-bind-dims. */
void tsr_sizes_note(const tsr_compile_options *options, tsr_arena *arena, MlirModule module);

#endif
