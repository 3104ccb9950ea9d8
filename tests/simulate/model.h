/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a simulated training: a few small tensors for each rank, some of them empty, whose
 * every byte is a function of the step. So a mix of two generations cannot pass for either.
 */
#ifndef TSR_TESTS_SIMULATE_MODEL_H
#define TSR_TESTS_SIMULATE_MODEL_H

#include "runtime/base/arena.h"
#include "runtime/state/format.h"

typedef struct sim_model {
    tsr_arena arena;
    tsr_tensor *tensors; /* without data: a rank has no more than what it stages */
    size_t tensor_count;
    tsr_manifest plan;   /* what all saves look like */
    uint32_t *tensor_of; /* by chunk: row of plan.tensors */
    uint8_t *staging;    /* the segments, each from a multiple of TSR_DIRECT_ALIGN */
    uint64_t *starts;    /* of each segment in staging */
} sim_model;

/* The same for the same numbers. */
sim_model *sim_model_create(uint32_t rank_count, uint64_t shape);
void sim_model_destroy(sim_model *model);
/* Chunks first … first + count - 1 as they are at that step. */
void sim_model_stage(sim_model *model, uint64_t step, uint32_t first, uint32_t count);
const uint8_t *sim_model_chunk(const sim_model *model, const tsr_chunk_row *chunk);
/* Are these, of a whole tensor, the bytes of one of its chunks at that step? */
bool sim_model_is(const tsr_tensor_row *tensor, const tsr_chunk_row *chunk, uint64_t step,
                  const uint8_t *bytes);
tsr_digest sim_model_bundle(void);
tsr_position sim_model_position(uint64_t step);

#endif
