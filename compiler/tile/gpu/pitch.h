/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tensors lie with a pitch (tsr_buffer_make): factors of products on matrix units, whose rows
 * are no multiples of 128 bytes, begin at such places.
 *
 * A tensor may have one where a kernel of the entry makes it, and nothing but kernels, which all
 * can carry it (tsr_carries), read it, as it is or through a reshape that keeps its rows. It gets
 * one where that is no more than half as much memory again, and where the model of products says
 * that those which touch it win more than elementwise kernels lose, whose rows then end in parts of
 * vectors.
 */
#ifndef TSR_COMPILER_TILE_GPU_PITCH_H
#define TSR_COMPILER_TILE_GPU_PITCH_H

#include "compiler/tile/region.h"

/* Behind the name of a group that was made for pitches. */
#define TSR_PITCHED_SUFFIX "pitched"

/* That a tensor of this type would have: whole lines, in elements that matrix units know. 0: its
 * rows are such, there is but one, or they would be more than half as long again. */
int64_t tsr_gpu_pitch(const tsr_type *type);

/* Attribute TSR_PITCHES_NAME of the groups; calls of one group that differ in it get groups of
 * their own. For native numerics alone. */
TSR_RESULT tsr_gpu_choose_pitches(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                  tsr_arena *arena);

#endif
