/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a simulated training: a few small tensors for each rank; some are empty.
 * Every byte is a function of the step, so a mix of two generations differs from both.
 */
#ifndef TSR_TESTS_SIMULATE_MODEL_H
#define TSR_TESTS_SIMULATE_MODEL_H

#include "runtime/base/arena.h"
#include "runtime/state/format.h"

typedef struct sim_model {
    tsr_arena arena;
    tsr_tensor *tensors; /* without data: a rank has only its staged chunks */
    size_t tensor_count;
    tsr_manifest plan;   /* the layout of all saves */
    uint32_t *tensor_of; /* for each chunk: its row in plan.tensors */
    uint8_t *staging;    /* the segments, each starting at a multiple of TSR_DIRECT_ALIGN */
    uint64_t *starts;    /* offset of each segment in `staging` */
} sim_model;

/* Returns equal models for equal arguments. */
sim_model *sim_model_create(uint32_t rank_count, uint64_t shape);
void sim_model_destroy(sim_model *model);
/* Writes chunks first … first + count - 1 of that step to the staging buffer. */
void sim_model_stage(sim_model *model, uint64_t step, uint32_t first, uint32_t count);
const uint8_t *sim_model_chunk(const sim_model *model, const tsr_chunk_row *chunk);
/* True if `bytes`, which are a whole tensor, contain the right bytes for this chunk at that
 * step. */
bool sim_model_is(const tsr_tensor_row *tensor, const tsr_chunk_row *chunk, uint64_t step,
                  const uint8_t *bytes);
tsr_digest sim_model_bundle(void);
tsr_position sim_model_position(uint64_t step);

#endif
