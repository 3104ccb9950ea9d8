/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups that only transpose a tensor (swap two adjacent dims) or only copy one, and calls of these
 * groups that are inserted before other calls.
 */
#ifndef TSR_COMPILER_TILE_GPU_LAYOUT_H
#define TSR_COMPILER_TILE_GPU_LAYOUT_H

#include "compiler/ir/mlir.h"

/* True if the op is a transpose that swaps only dims `dim` and `dim + 1`. */
bool tsr_gpu_is_transpose(MlirOperation op, size_t dim);
/* The type with dims `dim` and `dim + 1` swapped; the value transposed in the same way. */
MlirType tsr_gpu_transposed_type(MlirType type, size_t dim);
MlirValue tsr_gpu_build_transpose(tsr_builder *b, MlirValue value, size_t dim);

/* Returns a group that transposes values of this type. If the module has no such group, builds one
 * at `at`; its name is `group` and `suffix`, with a number if that name is taken. Returns null if
 * memory runs out. */
MlirOperation tsr_gpu_find_transposing(tsr_builder *at, MlirModule module, tsr_arena *arena,
                                       const char *group, const char *suffix, MlirType type,
                                       size_t dim);
/* Returns a group that copies values of this type, in the same way. */
MlirOperation tsr_gpu_find_copying(tsr_builder *at, MlirModule module, tsr_arena *arena,
                                   const char *group, const char *suffix, MlirType type);
/* Returns the value transposed or copied, for `call`: the result of an earlier call of the group,
 * or of a new call with the discardable attributes of `call`. */
MlirValue tsr_gpu_call_before(MlirOperation group, MlirOperation call, MlirValue value);

#endif
