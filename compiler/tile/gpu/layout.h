/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups that transpose a tensor (swap two adjacent dims) or copy one,
 * and no more; calls of them before others.
 */
#ifndef TSR_COMPILER_TILE_GPU_LAYOUT_H
#define TSR_COMPILER_TILE_GPU_LAYOUT_H

#include "compiler/mlir.h"

/* Is it a transpose that swaps dims `dim` and `dim + 1` alone? */
bool tsr_gpu_is_transpose(MlirOperation op, size_t dim);
/* The type with these dims swapped; the value transposed. */
MlirType tsr_gpu_transposed_type(MlirType type, size_t dim);
MlirValue tsr_gpu_build_transpose(tsr_builder *b, MlirValue value, size_t dim);

/* A group that transposes values of this type: one that the module has, or a new one at `at`, whose
 * name is `group` and `suffix`, or what of that is free; null: no memory. */
MlirOperation tsr_gpu_find_transposing(tsr_builder *at, MlirModule module, tsr_arena *arena,
                                       const char *group, const char *suffix, MlirType type,
                                       size_t dim);
/* The same of a group that copies values of this type. */
MlirOperation tsr_gpu_find_copying(tsr_builder *at, MlirModule module, tsr_arena *arena,
                                   const char *group, const char *suffix, MlirType type);
/* The value transposed or copied, for `call`: by a call of the group that stands before, or a new
 * one, which has the attributes that are not the call's own. */
MlirValue tsr_gpu_call_before(MlirOperation group, MlirOperation call, MlirValue value);

#endif
