/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on blocks of ops for pass tessera-autodiff: copy, erase unused ops, splice a block in
 * position of its op.
 */
#include "compiler/graph/derivatives/autodiff.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <string.h>

MlirBlock tsr_region_block(MlirOperation op, intptr_t index) {
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, index));
}

bool tsr_value_is_float(MlirValue value) {
    tsr_type type;
    return tsr_value_type(value, &type) && tsr_dtype_is_float(type.dtype);
}

MlirValue tsr_emit_zeros(tsr_builder *b, MlirValue like) {
    tsr_type type = tsr_type_of(like);
    return tsr_emit_filled(b, &type, 0.0);
}

/* ---- copies ---------------------------------------------------------------------------------- */

void tsr_copies_set(tsr_copies *c, MlirValue from, MlirValue to) {
    if (c->count == c->capacity) {
        MlirValue *larger = TSR_ARENA_GROW(c->arena, c->values, &c->capacity, 64);
        TSR_NEED(larger);
        c->values = larger;
    }
    c->values[c->count] = to;
    bool set = tsr_value_map_set(&c->numbers, c->arena, from, c->count++);
    TSR_NEED(set);
}

bool tsr_copies_has(const tsr_copies *c, MlirValue value) {
    return tsr_value_map_get(&c->numbers, value) != UINT32_MAX;
}

MlirValue tsr_copies_get(const tsr_copies *c, MlirValue value) {
    uint32_t number = tsr_value_map_get(&c->numbers, value);
    return number == UINT32_MAX ? value : c->values[number];
}

static void rewire(const tsr_copies *c, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        mlirOperationSetOperand(op, (intptr_t)i, tsr_copies_get(c, tsr_op_operand(op, i)));
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
        MlirBlock block = tsr_region_block(op, r);
        if (mlirBlockIsNull(block)) continue;
        TSR_FOR_EACH_OP(inner, block) rewire(c, inner);
    }
}

void tsr_copies_ops(tsr_copies *c, MlirBlock from, tsr_builder *to) {
    TSR_FOR_EACH_OP(op, from) {
        if (tsr_op_is(op, TSR_GRAPH_YIELD)) return;
        MlirOperation copy = mlirOperationClone(op);
        rewire(c, copy);
        mlirBlockInsertOwnedOperationBefore(to->block, to->before, copy);
        for (size_t i = 0; i < tsr_op_result_count(op); i++)
            tsr_copies_set(c, tsr_op_result(op, i), tsr_op_result(copy, i));
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool is_yield(MlirOperation op) { return tsr_op_is(op, TSR_GRAPH_YIELD); }

void tsr_block_yield(MlirBlock block, MlirLocation location, const MlirValue *values,
                     size_t count) {
    MlirOperation end = mlirBlockGetTerminator(block);
    if (is_yield(end)) mlirOperationDestroy(end);
    tsr_builder b = tsr_builder_at_end(block, location);
    tsr_build(&b, &(tsr_op_desc){
                      .name = TSR_GRAPH_NAME("yield"), .operand_count = count, .operands = values});
}

/* In reverse order: erasing an op may leave the producers of its operands unused. */
void tsr_block_sweep(MlirBlock block) {
    tsr_arena arena = {0};
    size_t count = 0, at = 0;
    TSR_FOR_EACH_OP(op, block) count++;
    MlirOperation *ops = TSR_NEW(&arena, MlirOperation, count + 1);
    TSR_NEED(ops);
    TSR_FOR_EACH_OP(op, block) ops[at++] = op;
    while (count-- > 0) {
        bool read = is_yield(ops[count]);
        for (size_t k = 0; k < tsr_op_result_count(ops[count]); k++)
            read = read || tsr_value_is_used(tsr_op_result(ops[count], k));
        if (!read) mlirOperationDestroy(ops[count]);
    }
    tsr_arena_finish(&arena);
}

static void move_out(MlirBlock block, MlirOperation before) {
    TSR_FOR_EACH_OP(op, block) {
        if (!is_yield(op)) mlirOperationMoveBefore(op, before);
    }
}

void tsr_block_splice(MlirOperation op, const MlirValue *values) {
    MlirBlock block = tsr_region_block(op, 0);
    MlirOperation end = mlirBlockGetTerminator(block);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(block, i), values[i]);
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(op, i), tsr_op_operand(end, i));
    move_out(block, op);
    mlirOperationDestroy(op);
}

MlirBlock tsr_scratch_open(tsr_builder *builder) {
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    MlirRegion body = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(body, block);
    tsr_build(builder,
              &(tsr_op_desc){.name = TSR_GRAPH_NAME("jvp"), .region_count = 1, .regions = &body});
    return block;
}

void tsr_scratch_close(MlirBlock block) {
    MlirOperation holder = mlirBlockGetParentOperation(block);
    move_out(block, holder);
    mlirOperationDestroy(holder);
}
