/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulate/model.h"

#include "tests/simulate/world/dice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR_BYTES_MAX = 700, LARGE_BYTES = 9000, DIRECT_ALIGN = 4096 };

/* Returns bytes 8 n … 8 n + 7 of a tensor at a step. */
static uint64_t word_at(const char *name, uint64_t step, uint64_t n) {
    sim_dice dice = {.state = step * UINT64_C(0x2545f4914f6cdd1d) + n};
    for (; *name; name++) dice.state = dice.state * 31 + (uint8_t)*name;
    return sim_roll(&dice);
}

/* Returns the byte at `index`, which rises by one with each call. *word is kept between the
 * calls. */
static uint8_t next_byte(const char *name, uint64_t step, uint64_t index, bool first,
                         uint64_t *word) {
    if (first || index % 8 == 0) *word = word_at(name, step, index / 8);
    return (uint8_t)(*word >> (index % 8 * 8));
}

static void *taken(void *memory) {
    if (!memory) abort();
    return memory;
}

static void make_tensors(sim_model *model, uint32_t rank_count, uint64_t shape) {
    sim_dice dice = {.state = shape};
    model->tensor_count = rank_count + sim_below(&dice, rank_count + 3);
    model->tensors = taken(TSR_NEW(&model->arena, tsr_tensor, model->tensor_count));
    for (size_t i = 0; i < model->tensor_count; i++) {
        uint64_t size = sim_below(&dice, TENSOR_BYTES_MAX);
        if (sim_chance(&dice, 100000)) size = LARGE_BYTES;
        if (sim_chance(&dice, 100000)) size = 0;
        char *name = taken(tsr_arena_alloc(&model->arena, 16, 1, 1));
        /* The tensors are not sorted by name. */
        snprintf(name, 16, "t%03zu", (i * 7 + 3) % 1000);
        model->tensors[i] = (tsr_tensor){.name = name,
                                         .dtype = TSR_DTYPE_UI8,
                                         .shape = {.rank = 1, .dims = {size}},
                                         .data = model->tensors};
    }
}

sim_model *sim_model_create(uint32_t rank_count, uint64_t shape) {
    sim_model *model = taken(calloc(1, sizeof *model));
    tsr_ctx ctx = {0};
    make_tensors(model, rank_count, shape);
    const tsr_tensor **sorted =
        taken(TSR_NEW(&model->arena, const tsr_tensor *, model->tensor_count));
    const tsr_division division = {.segment_bytes_max = TSR_SEGMENT_BYTES_MAX,
                                   .writer_count = rank_count};
    tsr_result result = tsr_manifest_plan(&ctx, &model->arena, model->tensors, model->tensor_count,
                                          &division, sorted, &model->plan);
    TSR_ASSERT(!result.code);
    tsr_manifest *plan = &model->plan;
    plan->token.bundle_hash = sim_model_bundle();
    plan->token.region = "train";
    plan->token.numerics = "simulated";
    plan->token.topology = "simulated";
    model->tensor_of = taken(TSR_NEW(&model->arena, uint32_t, plan->chunk_count + 1));
    for (uint32_t i = 0, chunk = 0; i < plan->tensor_count; i++)
        for (uint32_t k = 0; k < plan->tensors[i].chunk_count; k++) model->tensor_of[chunk++] = i;
    model->starts = taken(TSR_NEW(&model->arena, uint64_t, plan->segment_count + 1));
    uint64_t size = 0;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        model->starts[i] = size;
        size += (plan->segment_sizes[i] + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN;
    }
    model->staging = taken(aligned_alloc(DIRECT_ALIGN, (size_t)size + DIRECT_ALIGN));
    return model;
}

void sim_model_destroy(sim_model *model) {
    if (!model) return;
    free(model->staging);
    tsr_arena_finish(&model->arena);
    free(model);
}

const uint8_t *sim_model_chunk(const sim_model *model, const tsr_chunk_row *chunk) {
    return model->staging + model->starts[chunk->segment] + chunk->offset;
}

void sim_model_stage(sim_model *model, uint64_t step, uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; i++) {
        const tsr_chunk_row *chunk = &model->plan.chunks[i];
        const char *name = model->plan.tensors[model->tensor_of[i]].name;
        uint8_t *bytes = model->staging + model->starts[chunk->segment] + chunk->offset;
        uint64_t word = 0;
        for (uint32_t k = 0; k < chunk->size_bytes; k++)
            bytes[k] = next_byte(name, step, chunk->first + k, k == 0, &word);
    }
}

bool sim_model_is(const tsr_tensor_row *tensor, const tsr_chunk_row *chunk, uint64_t step,
                  const uint8_t *bytes) {
    uint64_t word = 0;
    for (uint64_t k = chunk->first; k < chunk->first + chunk->count; k++)
        if (bytes[k] != next_byte(tensor->name, step, k, k == chunk->first, &word)) return false;
    return true;
}

tsr_digest sim_model_bundle(void) { return tsr_hash("simulated", 9); }

tsr_position sim_model_position(uint64_t step) {
    return (tsr_position){
        .seed = 1, .step = step, .sample = 32 * step, .virtual_ranks = 1, .shuffle_version = 1};
}
