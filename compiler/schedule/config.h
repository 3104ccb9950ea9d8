/* SPDX-License-Identifier: Apache-2.0
 *
 * The config of a module: names, tensors and entries, as the bundle stores them.
 */
#ifndef TSR_COMPILER_SCHEDULE_CONFIG_H
#define TSR_COMPILER_SCHEDULE_CONFIG_H

#include "compiler/ir/mlir.h"
#include "manifests/config.h"

/* Checks that a config can hold the parameters and the optimizer state of a lowered program. If it
 * cannot, fails with TSR_COMPILE; the text gives their number and a remedy. */
TSR_RESULT tsr_module_check_tensors(tsr_ctx *ctx, MlirModule module);

/* Builds the config of a module of Schedule IR or Tile IR. Its tensors are the module's
 * parameters, optimizer state and constants; its entries are the module's functions. An entry that
 * reads the step has the step as its last input. `name` is used if the module has no name.
 * Everything is in the arena. TSR_COMPILE if the result is not a valid config. */
TSR_RESULT tsr_module_config(tsr_ctx *ctx, MlirModule module, const char *name, tsr_arena *arena,
                             tsr_config *out_config);
/* Finds the elements of the config's tensors of kind DATA in that module; null for others. One per
 * tensor, in the arena. */
TSR_RESULT tsr_module_data(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                           tsr_arena *arena, MlirAttribute **out_data);

#endif
