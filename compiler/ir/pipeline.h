/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines of p ranks and m microbatches: the order in which each rank runs its forward and
 * backward steps. Chunks v > 1: interleaved, rank r holds the stages r, p + r, … (v stages); m is
 * a multiple of p.
 *
 * Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
 * Megatron-LM", 2021, sections 2.2.1 and 2.2.2. A rank does one thing at a time; all steps are
 * assumed to take the same time.
 */
#ifndef TSR_COMPILER_IR_PIPELINE_H
#define TSR_COMPILER_IR_PIPELINE_H

#include "compiler/ir/mlir.h"

enum {
    TSR_PIPELINE_RANKS_MAX = 4096,
    TSR_PIPELINE_MICROBATCHES_MAX = 1 << 16,
    TSR_PIPELINE_CHUNKS_MAX = 64,
};

typedef struct tsr_wavefront {
    uint32_t ranks, microbatches, chunks; /* each at least 1 */
} tsr_wavefront;

typedef struct tsr_wavefront_step {
    bool backward;
    uint32_t microbatch, chunk;
} tsr_wavefront_step;

/* Forward steps of a rank before its first backward step. */
uint32_t tsr_wavefront_warmup(const tsr_wavefront *pipeline, uint32_t rank);
/* Total steps of a rank: 2 * microbatches * chunks. */
uint32_t tsr_wavefront_step_count(const tsr_wavefront *pipeline);
/* Step `index` of a rank, from 0. */
tsr_wavefront_step tsr_wavefront_step_at(const tsr_wavefront *pipeline, uint32_t rank,
                                         uint32_t index);
/* The maximum number of activations that are alive on a rank at once. */
uint32_t tsr_wavefront_live(const tsr_wavefront *pipeline, uint32_t rank);
/* The fraction of the time that each rank waits. */
double tsr_wavefront_bubble(const tsr_wavefront *pipeline);

/* Reads a tsched.pipeline or tsched.pipeline.region; false after an error was emitted. */
bool tsr_wavefront_read(MlirOperation op, tsr_wavefront *out_wavefront);

/* Module attribute: the pipelines that tsched-apply found before it removed the plans, a
 * dictionary each: schedule, axis, function, ranks, microbatches, chunks, stages. */
#define TSR_PLANNED_PIPELINES "tsched.pipelines"
/* Appends to that attribute the pipelines that are still in the module. False after an error. */
bool tsr_pipelines_note(MlirModule module);

#endif
