/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules that are read at a later level. A stage relies on the output of the previous stage and
 * reports anything else as an internal error. For a module that was read, it is the author's
 * error.
 */
#ifndef TSR_COMPILER_IR_LEVEL_H
#define TSR_COMPILER_IR_LEVEL_H

#include "compiler/ir/mlir.h"

/* Reports that a stage failed with `result` on a module that was read. A failure without a
 * diagnostic becomes TSR-0511, at the function that the error's text names first ('so' or @so), or
 * else at the module. Returns TSR_COMPILE; a failure that the module did not cause, such as too
 * little memory, is returned unchanged. */
tsr_result tsr_level_refuse(tsr_ctx *ctx, MlirModule module, const tsr_diag_list *diags,
                            tsr_result result);

#endif
