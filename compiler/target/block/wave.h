/* SPDX-License-Identifier: Apache-2.0
 *
 * Products on the matrix units of AMD GPUs: a program runs on a block of waves, in one role. The
 * Tile IR is the same as for NVIDIA GPUs (block.h); what differs:
 *
 *     before the loop        each thread loads its part of step 0 to registers
 *     tile.async_copy        nothing: its loads were begun one step before
 *     tile.wait_async        store the registers to the stage, barrier, begin the loads of the
 *                            next step
 *     tile.mma               MFMA or WMMA from the stage, while these loads are in flight
 *
 * With two stages, one barrier for each step is enough: a wave stores to a stage when all waves
 * have met at the barrier of the step before, so they have read the stage of two steps before.
 *
 * Addresses of shared memory are offsets in it, because LLVM must see whose memory it is.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_WAVE_H
#define TSR_COMPILER_TARGET_BLOCK_WAVE_H

#include "compiler/target/block/block.h"

enum {
    TSR_WAVE_CHUNK_BYTES = 16, /* that a thread copies at a time */
    TSR_WAVE_CHUNK_WORDS = TSR_WAVE_CHUNK_BYTES / 4,
};

/* Emits one kernel; see tsr_emit_warp_func. */
TSR_RESULT tsr_emit_wave_func(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *out_launch);
/* The same as tsr_emit_block_op. */
TSR_RESULT tsr_emit_wave_op(tsr_emit *emit, MlirOperation op, bool *out_known);

/* wave_copy.c: begins the loads of the loop's first step; stores the loads of this step to their
 * stage, and begins those of the next one. */
TSR_RESULT tsr_wave_before_loop(tsr_emit *emit, MlirOperation loop);
TSR_RESULT tsr_wave_emit_wait(tsr_emit *emit, MlirOperation wait);
/* A tile.async_copy: loads if a step's loads are being emitted. */
void tsr_wave_emit_copy(tsr_emit *emit, MlirOperation copy);

/* wave_mma.c */
TSR_RESULT tsr_wave_emit_mma(tsr_emit *emit, MlirOperation mma);

/* A pointer to shared memory at an offset, i32. */
LLVMValueRef tsr_wave_shared(tsr_emit *emit, LLVMValueRef offset);
/* Stores two neighbours of a row of f32 as `element`, each if it is inside (i32, 0: no);
 * `together`: the first decides for both, and they are aligned; `whole`: both are inside. */
void tsr_wave_store_pair(tsr_emit *emit, MlirType element, LLVMValueRef at,
                         const LLVMValueRef inside[2], bool together, bool whole,
                         LLVMValueRef *values);

#endif
