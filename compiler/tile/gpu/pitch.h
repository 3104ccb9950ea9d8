/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which tensors have a pitch (tsr_buffer_make): factors of products on matrix units whose
 * rows are not multiples of 128 bytes are padded so that each row begins at such a multiple.
 *
 * A tensor may have a pitch if a kernel of the entry writes it, and only kernels that can carry
 * pitches (tsr_carries) read it, either directly or through a reshape that keeps its rows. A factor
 * gets a pitch if the padding adds at most half of its size, and if the model of products predicts
 * that its products gain more than elementwise kernels lose; their rows then end in partial
 * vectors.
 */
#ifndef TSR_COMPILER_TILE_GPU_PITCH_H
#define TSR_COMPILER_TILE_GPU_PITCH_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/region.h"

/* The suffix of the names of groups that were cloned for pitches. */
#define TSR_PITCHED_SUFFIX "pitched"

/* Returns the pitch that a tensor of this type would have, in elements: rows of whole lines. The
 * type must be one that matrix units support. Returns 0 if its rows are whole lines already, if
 * there is only one row, or if the rows would grow by more than half. */
int64_t tsr_gpu_pitch(const tsr_type *type);

/* Sets attribute TSR_PITCHES_NAME of the groups; calls of one group that differ in their pitches
 * get separate clones. Only for native numerics. */
TSR_RESULT tsr_gpu_choose_pitches(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                  tsr_arena *arena);

#endif
