/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of attention in bf16 or f16, computed in f32. Separate kernels widen the operands and
 * round the results, because the results contain sums while they are computed. With dot products
 * this is true only for the query's gradient (pairs.c). If there are many keys, the kernel has
 * slots for sums of chunks (gradient.h) as one more result, which is not read afterwards.
 */
#include "compiler/tile/attention/gradient.h"
#include "compiler/tile/products/dot.h"
#include "compiler/tile/sequence.h"
#include "runtime/base/array.h"

#include <string.h>

enum { CHUNK = 8192, GRADIENTS = 3 };

static const char *const before[] = {"_wide0", "_wide1", "_wide2", "_wide3", "_wide4"};
static const char *const after[] = {"_round0", "_round1", "_round2"};

/* Converts all elements of the first argument and stores them in the second. */
static tsr_result lower_cast(tsr_tile_group *step, const void *plan) {
    tsr_tile_builder *b = &step->b;
    tsr_dtype from = step->types[0].dtype, to = step->types[1].dtype;
    uint32_t lanes = b->target->vector_bytes / (uint32_t)sizeof(float);
    uint64_t count = 1;
    (void)plan;
    for (uint32_t d = 0; d < step->types[0].shape.rank; d++) count *= step->types[0].shape.dims[d];
    int64_t all = (int64_t)count, programs = tsr_divide_up(all, CHUNK);
    step->grid = programs ? programs : 1;
    MlirValue begin = tsr_tile_mul(b, tsr_tile_program_id(b), CHUNK);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, all), begin), mask = tsr_tile_null;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_min(b, left, tsr_tile_index(b, CHUNK)),
                 lanes) {
        MlirValue at = tsr_tile_add(b, begin, loop.index);
        if (all % lanes) mask = tsr_tile_mask(b, tsr_tile_sub(b, left, loop.index), lanes);
        tsr_tile_store(b, to, tsr_tile_load(b, from, step->buffers[0], at, lanes, mask),
                       step->buffers[1], at, mask);
    }
    if (step->has_dot) tsr_dot_round_all(b, b->at.block);
    return TSR_SUCCESS;
}

static tsr_result lower_gradient(tsr_tile_group *step, const void *plan) {
    (void)plan;
    return tsr_tile_lower_attention_grad(step);
}

static tsr_type widened(const tsr_type *type) {
    tsr_type wide = *type;
    if (tsr_dtype_is_narrow(type->dtype)) wide.dtype = TSR_DTYPE_F32;
    return wide;
}

static void add_cast(tsr_tile_sequence *sequence, const char *suffix, uint32_t from, tsr_type to) {
    sequence->steps[sequence->step_count++] = (tsr_tile_step){.suffix = suffix,
                                                              .inputs = {from},
                                                              .input_count = 1,
                                                              .outputs = {to},
                                                              .output_count = 1,
                                                              .lower = lower_cast};
}

/* Plans gradients by dot products: operands are not widened, and only the query's gradient is
 * rounded afterwards. */
static void plan_pairs(const tsr_tile_group *group, tsr_tile_sequence *out_sequence) {
    uint32_t count = group->input_count;
    tsr_tile_step step = {.suffix = "",
                          .input_count = count,
                          .output_count = GRADIENTS,
                          .is_main = true,
                          .lower = tsr_attention_lower_pairs_grad};
    *out_sequence = (tsr_tile_sequence){.step_count = 0};
    for (uint32_t i = 0; i < count; i++) step.inputs[i] = i;
    for (uint32_t i = 0; i < GRADIENTS; i++) {
        step.outputs[i] = group->types[count + i];
        out_sequence->results[i] = count + i;
    }
    step.outputs[0] = widened(&step.outputs[0]);
    out_sequence->steps[out_sequence->step_count++] = step;
    add_cast(out_sequence, after[0], count, group->types[count]);
    out_sequence->results[0] = count + GRADIENTS;
}

/* Adds kernels that widen operands of bf16 or f16. False if an operand is not an argument of the
 * group. */
static bool widen_operands(tsr_tile_group *group, tsr_tile_sequence *sequence,
                           tsr_tile_step *gradient) {
    static const size_t operands[] = {0, 1, 2, 3, 5}; /* all but the logarithms and the mask */
    uint32_t count = group->input_count;
    for (size_t i = 0; i < TSR_COUNT(operands); i++) {
        MlirValue operand = tsr_op_operand(group->root, operands[i]);
        if (!mlirValueIsABlockArgument(operand)) return false;
        uint32_t argument = (uint32_t)mlirBlockArgumentGetArgNumber(operand);
        if (gradient->inputs[argument] != argument) continue; /* widened for an earlier operand */
        add_cast(sequence, before[i], argument, widened(&group->types[argument]));
        gradient->inputs[argument] = count++;
    }
    return true;
}

/* Adds the kernel's results and, if there are many keys, slots for the gradient of queries. Returns
 * true if it added slots. */
static bool add_gradient(tsr_tile_group *group, tsr_tile_sequence *sequence,
                         tsr_tile_step *gradient) {
    tsr_type operands[3];
    for (size_t i = 0; i < 3; i++)
        if (!tsr_value_type(tsr_op_operand(group->root, i), &operands[i])) return false;
    for (uint32_t i = 0; i < GRADIENTS; i++)
        gradient->outputs[i] = widened(&group->types[group->input_count + i]);
    uint32_t slots = tsr_attention_grad_key_slots(&operands[0], &operands[1], &operands[2]);
    if (slots) {
        tsr_type *more = &gradient->outputs[gradient->output_count++];
        *more = gradient->outputs[0];
        more->shape.rank++;
        for (uint32_t d = more->shape.rank - 1; d > 0; d--)
            more->shape.dims[d] = more->shape.dims[d - 1];
        more->shape.dims[0] = slots;
    }
    sequence->steps[sequence->step_count++] = *gradient;
    return slots > 0;
}

void tsr_tile_plan_wide_grad(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                             bool *out_taken) {
    tsr_tile_sequence *sequence = out_sequence;
    tsr_tile_step gradient = {.suffix = "", .is_main = true, .lower = lower_gradient};
    *out_taken = false;
    if (group->output_count != GRADIENTS || group->input_count > TSR_SEQUENCE_ARGUMENTS_MAX) return;
    tsr_dtype dtype = group->types[group->input_count].dtype;
    if (group->has_dot && dtype == TSR_DTYPE_BF16) {
        plan_pairs(group, sequence);
        *out_taken = true;
        return;
    }
    *sequence = (tsr_tile_sequence){.step_count = 0};
    gradient.input_count = group->input_count;
    gradient.output_count = GRADIENTS;
    for (uint32_t i = 0; i < group->input_count; i++) gradient.inputs[i] = i;
    bool narrow = tsr_dtype_is_narrow(dtype);
    if (narrow && !widen_operands(group, sequence, &gradient)) return;
    uint32_t first = group->input_count + sequence->step_count;
    bool has_slots = add_gradient(group, sequence, &gradient);
    for (uint32_t i = 0; i < GRADIENTS; i++) {
        if (narrow) add_cast(sequence, after[i], first + i, group->types[group->input_count + i]);
        sequence->results[i] = first + i;
        if (narrow) sequence->results[i] += gradient.output_count;
    }
    *out_taken = narrow || has_slots;
}
