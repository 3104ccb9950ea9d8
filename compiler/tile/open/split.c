/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/open/split.h"

#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/schedule/schedule.h"
#include "runtime/base/array.h"

#include <stdio.h>

enum { OPERANDS_MAX = 64, SUFFIX_BYTES = 32 };

typedef struct splitter {
    tsr_ctx *ctx;
    tsr_arena *arena;
    MlirModule module;
    MlirOperation call, group;
    tsr_value_map inside; /* results of the group's ops: numbers of `values` */
    MlirValue *values;    /* the same values in the entry */
    uint32_t value_count;
} splitter;

static bool is_constant(MlirOperation op) {
    const tsr_op_row *row = mlirOperationIsNull(op) ? NULL : tsr_op_row_find(op);
    return row && row->op_class == TSR_CLASS_CONSTANT;
}

/* A function of the op alone; its arguments are the operands that are no constants. */
static MlirOperation make_part(const splitter *s, MlirOperation op) {
    MlirContext context = mlirModuleGetContext(s->module);
    MlirLocation location = mlirOperationGetLocation(op);
    MlirType inputs[OPERANDS_MAX], results[OPERANDS_MAX];
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    MlirRegion region = mlirRegionCreate();
    intptr_t input_count = 0, result_count = (intptr_t)tsr_op_result_count(op);
    mlirRegionAppendOwnedBlock(region, block);
    MlirOperation copy = mlirOperationClone(op);
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        MlirValue operand = tsr_op_operand(op, i);
        MlirOperation owner = tsr_value_owner(operand);
        if (is_constant(owner)) {
            MlirOperation constant = mlirOperationClone(owner);
            mlirBlockAppendOwnedOperation(block, constant);
            mlirOperationSetOperand(copy, (intptr_t)i, tsr_op_result(constant, 0));
            continue;
        }
        inputs[input_count++] = mlirValueGetType(operand);
        mlirOperationSetOperand(copy, (intptr_t)i,
                                mlirBlockAddArgument(block, mlirValueGetType(operand), location));
    }
    mlirBlockAppendOwnedOperation(block, copy);
    MlirValue returned[OPERANDS_MAX];
    for (intptr_t i = 0; i < result_count; i++) {
        returned[i] = tsr_op_result(copy, (size_t)i);
        results[i] = mlirValueGetType(returned[i]);
    }
    tsr_builder inside = tsr_builder_at_end(block, location);
    tsr_build(&inside, &(tsr_op_desc){.name = "tsched.return",
                                      .operand_count = (size_t)result_count,
                                      .operands = returned});
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(context, "")},
        {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(context, input_count, inputs,
                                                                 result_count, results))},
        {"kind", tsr_attr_make_string(context, tsr_op_group_kind(tsr_op_row_find(op)))},
        {"source", tsr_attr_make_string(context, "default")},
        {"flops", tsr_op_attr(s->group, "flops")},
        {"bytes", tsr_op_attr(s->group, "bytes")}};
    tsr_builder outside = tsr_builder_before(s->group);
    return tsr_build(&outside, &(tsr_op_desc){.name = "tsched.func",
                                              .attr_count = TSR_COUNT(attrs),
                                              .attrs = attrs,
                                              .region_count = 1,
                                              .regions = &region});
}

/* The value of the entry that is this value of the group. */
static MlirValue outside_of(const splitter *s, MlirValue value) {
    if (mlirValueIsABlockArgument(value))
        return tsr_op_operand(s->call, (size_t)mlirBlockArgumentGetArgNumber(value));
    uint32_t number = tsr_value_map_get(&s->inside, value);
    TSR_ASSERT(number != UINT32_MAX); /* ops are in order, and constants are inside */
    return s->values[number];
}

static MlirOperation call_part(const splitter *s, MlirOperation part, MlirOperation op) {
    MlirContext context = mlirModuleGetContext(s->module);
    MlirValue operands[OPERANDS_MAX];
    MlirType results[OPERANDS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (!is_constant(tsr_value_owner(tsr_op_operand(op, i))))
            operands[count++] = outside_of(s, tsr_op_operand(op, i));
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        results[i] = mlirValueGetType(tsr_op_result(op, i));
    const tsr_attr callee = {"callee", tsr_attr_make_symbol(context, tsr_op_symbol(part))};
    tsr_builder b = tsr_builder_before(s->call);
    return tsr_build(&b, &(tsr_op_desc){.name = "tsched.call",
                                        .operand_count = count,
                                        .operands = operands,
                                        .result_count = tsr_op_result_count(op),
                                        .results = results,
                                        .attr_count = 1,
                                        .attrs = &callee});
}

static TSR_RESULT split_op(splitter *s, MlirOperation op, size_t number, MlirOperation *out_call) {
    char suffix[SUFFIX_BYTES];
    snprintf(suffix, sizeof suffix, "part%zu", number);
    if (tsr_op_operand_count(op) > OPERANDS_MAX || tsr_op_result_count(op) > OPERANDS_MAX)
        FAIL(s->ctx, TSR_COMPILE, "'%s': %s has %zu operands; at most %d are possible",
             tsr_op_symbol(s->group), tsr_op_name(op), tsr_op_operand_count(op), OPERANDS_MAX);
    MlirOperation part = tsr_clone_find(s->module, s->group, suffix);
    if (mlirOperationIsNull(part)) {
        part = make_part(s, op);
        mlirOperationRemoveFromParent(part);
        tsr_clone_add(s->module, s->group, part, suffix);
    }
    *out_call = call_part(s, part, op);
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        if (!tsr_value_map_set(&s->inside, s->arena, tsr_op_result(op, i), s->value_count))
            FAIL(s->ctx, TSR_MEMORY, "no memory to split '%s'", tsr_op_symbol(s->group));
        s->values[s->value_count++] = tsr_op_result(*out_call, i);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_open_split(tsr_ctx *ctx, tsr_arena *arena, MlirModule module, MlirOperation call,
                          tsr_open_parts *out_parts) {
    MlirOperation group = tsr_module_find(module, tsr_op_string(call, "callee"));
    splitter s = {.ctx = ctx, .arena = arena, .module = module, .call = call, .group = group};
    MlirBlock body = tsr_op_body(group);
    MlirOperation end = mlirBlockGetTerminator(body);
    size_t ops = 0, values = 0;
    TSR_FOR_EACH_OP(op, body) {
        ops++;
        values += tsr_op_result_count(op);
    }
    tsr_open_parts parts = {.calls = TSR_NEW(arena, MlirOperation, ops + 1)};
    s.values = TSR_NEW(arena, MlirValue, values + 1);
    if (!parts.calls || !s.values) FAIL(ctx, TSR_MEMORY, "no memory to split a group");
    TSR_FOR_EACH_OP(op, body) {
        if (is_constant(op) || tsr_op_is(op, TSR_SCHED_RETURN)) continue;
        TRY(ctx, split_op(&s, op, parts.count, &parts.calls[parts.count]));
        parts.count++;
    }
    for (size_t i = 0; i < tsr_op_result_count(call); i++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(call, i),
                                      outside_of(&s, tsr_op_operand(end, i)));
    mlirOperationDestroy(call);
    *out_parts = parts;
    return TSR_SUCCESS;
}
