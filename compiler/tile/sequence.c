/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/sequence.h"

#include "compiler/tile/attributes.h"

#include <stdio.h>
#include <string.h>

enum { VALUES_MAX = 512, ATTRIBUTES_MAX = 16, NAME_BYTES = 512 };

/* The name of a step's kernel. */
static const char *step_name(const tsr_tile_group *group, const tsr_tile_step *step) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%s", group->name, step->suffix);
    return tsr_arena_strdup(group->arena, name);
}

static const tsr_type *type_of(const tsr_tile_group *group, const tsr_tile_sequence *sequence,
                               uint32_t value) {
    if (value < group->input_count) return &group->types[value];
    value -= group->input_count;
    for (uint32_t s = 0; s < sequence->step_count; s++) {
        const tsr_tile_step *step = &sequence->steps[s];
        if (value < step->output_count) return &step->outputs[value];
        value -= step->output_count;
    }
    TSR_ASSERT(!"a value that no step computes");
    return NULL;
}

/* The pitch of the group's argument that is this value; 0 for values between steps. */
static int64_t pitch_of(const tsr_tile_group *group, const tsr_tile_sequence *sequence,
                        uint32_t value) {
    if (value < group->input_count) return group->pitches[value];
    for (uint32_t i = 0; i < group->output_count; i++)
        if (sequence->results[i] == value) return group->pitches[group->input_count + i];
    return 0;
}

/* The number of the step's first output. */
static uint32_t first_made(const tsr_tile_group *group, const tsr_tile_sequence *sequence,
                           uint32_t index) {
    uint32_t value = group->input_count;
    for (uint32_t s = 0; s < index; s++) value += sequence->steps[s].output_count;
    return value;
}

tsr_result tsr_tile_step_group(const tsr_tile_group *group, const tsr_tile_sequence *sequence,
                               uint32_t index, tsr_tile_group *out_step) {
    const tsr_tile_step *step = &sequence->steps[index];
    uint32_t count = step->input_count + step->output_count;
    tsr_tile_group made = {.ctx = group->ctx,
                           .arena = group->arena,
                           .b = {.target = group->b.target, .at = group->b.at},
                           .name = step_name(group, step),
                           .op = group->op,
                           .body = group->body,
                           .input_count = step->input_count,
                           .output_count = step->output_count,
                           .buffers = TSR_NEW(group->arena, MlirValue, count),
                           .types = TSR_NEW(group->arena, tsr_type, count),
                           .pitches = TSR_NEW(group->arena, int64_t, count),
                           .returned = group->returned,
                           .root = group->root,
                           .is_native = group->is_native,
                           .is_aside = !step->is_main,
                           .over = step->over};
    if (!made.name || !made.buffers || !made.types || !made.pitches)
        FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < step->input_count; i++) {
        made.types[i] = *type_of(group, sequence, step->inputs[i]);
        made.pitches[i] = pitch_of(group, sequence, step->inputs[i]);
    }
    uint32_t first = first_made(group, sequence, index);
    for (uint32_t i = 0; i < step->output_count; i++)
        made.pitches[step->input_count + i] = pitch_of(group, sequence, first + i);
    memcpy(made.types + step->input_count, step->outputs, step->output_count * sizeof *made.types);
    *out_step = made;
    return TSR_SUCCESS;
}

/* Copies the call's attributes, except the callee. */
static size_t read_attributes(MlirOperation call, const char *callee, tsr_attr *attrs) {
    MlirContext context = mlirOperationGetContext(call);
    size_t count = 0;
    attrs[count++] = (tsr_attr){"callee", tsr_attr_make_symbol(context, callee)};
    for (intptr_t i = 0; i < mlirOperationGetNumDiscardableAttributes(call); i++) {
        MlirNamedAttribute named = mlirOperationGetDiscardableAttribute(call, i);
        if (count == ATTRIBUTES_MAX) break;
        attrs[count++] = (tsr_attr){mlirIdentifierStr(named.name).data, named.attribute};
    }
    return count;
}

static tsr_result replace_call(tsr_tile_group *group, const tsr_tile_sequence *sequence,
                               MlirOperation call) {
    MlirContext context = mlirOperationGetContext(call);
    MlirValue values[VALUES_MAX], operands[TSR_SEQUENCE_ARGUMENTS_MAX];
    MlirType types[TSR_SEQUENCE_ARGUMENTS_MAX];
    tsr_attr attrs[ATTRIBUTES_MAX + 1];
    uint32_t count = 0;
    tsr_builder at = tsr_builder_before(call);
    TSR_ASSERT(group->input_count + TSR_SEQUENCE_STEPS_MAX * TSR_SEQUENCE_ARGUMENTS_MAX <=
               VALUES_MAX);
    for (; count < group->input_count; count++) values[count] = tsr_op_operand(call, count);
    for (uint32_t s = 0; s < sequence->step_count; s++) {
        const tsr_tile_step *step = &sequence->steps[s];
        const char *name = step_name(group, step);
        if (!name) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
        for (uint32_t i = 0; i < step->input_count; i++) operands[i] = values[step->inputs[i]];
        for (uint32_t i = 0; i < step->output_count; i++)
            types[i] = tsr_type_make(context, &step->outputs[i]);
        size_t attr_count = read_attributes(call, name, attrs);
        if (step->over)
            attrs[attr_count++] =
                (tsr_attr){TSR_OVER_NAME, tsr_attr_make_i64(context, (int64_t)step->over - 1)};
        MlirOperation made = tsr_build(&at, &(tsr_op_desc){.name = "tsched.call",
                                                           .operand_count = step->input_count,
                                                           .operands = operands,
                                                           .result_count = step->output_count,
                                                           .results = types,
                                                           .attr_count = attr_count,
                                                           .attrs = attrs});
        for (uint32_t i = 0; i < step->output_count; i++) values[count++] = tsr_op_result(made, i);
    }
    for (uint32_t i = 0; i < group->output_count; i++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(call, i), values[sequence->results[i]]);
    mlirOperationDestroy(call);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_call_sequence(tsr_tile_group *group, const tsr_tile_sequence *sequence,
                                  MlirBlock module) {
    TSR_FOR_EACH_OP(entry, module) {
        if (!tsr_op_is(entry, TSR_FUNC_FUNC) || !tsr_op_has_body(entry)) continue;
        TSR_FOR_EACH_OP(call, tsr_op_body(entry)) {
            const char *callee =
                tsr_op_is(call, TSR_SCHED_CALL) ? tsr_op_string(call, "callee") : NULL;
            if (callee && strcmp(callee, group->name) == 0)
                TRY(group->ctx, replace_call(group, sequence, call));
        }
    }
    return TSR_SUCCESS;
}
