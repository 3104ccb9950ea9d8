/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-local-collectives: on one rank, which has every position, collectives are local
 * data movement. Sums over positions follow the binary tree of ascending positions: n leaves are
 * split at the largest power of two below n. Sums of squares are computed from the whole value;
 * the collectives of a virtual rank's part are left to tessera-virtual-ranks.
 */
#include "compiler/graph/emit.h"
#include "compiler/process/guard.h"
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"

static MlirValue flat(tsr_builder *b, MlirValue x) {
    tsr_type type = tsr_type_of(x);
    tsr_shape line = {.rank = 1};
    bool fits = tsr_shape_count(&type.shape, &line.dims[0]);
    TSR_ASSERT(fits);
    return type.shape.rank == 1 ? x : tsr_emit_reshape(b, x, &line);
}

static size_t half_of(size_t count) {
    size_t half = 1;
    while (2 * half < count) half *= 2;
    return half;
}

/* The recursion depth is the logarithm of the number of operands. */
static MlirValue tree_sum(tsr_builder *b, MlirOperation op, size_t first, size_t count) {
    if (count == 1) return tsr_op_operand(op, first);
    size_t half = half_of(count);
    MlirValue left = tree_sum(b, op, first, half);
    return tsr_emit_add(b, left, tree_sum(b, op, first + half, count - half));
}

static MlirValue slice(tsr_builder *b, MlirOperation op, MlirValue of) {
    int64_t begin = 0, end = 0;
    bool read = tsr_op_i64(op, "begin", &begin) && tsr_op_i64(op, "end", &end);
    TSR_ASSERT(read);
    return tsr_emit_slice(b, flat(b, of), &begin, &(int64_t){end - begin}, NULL);
}

static MlirValue joined(tsr_builder *b, MlirOperation op, tsr_arena *arena) {
    size_t count = tsr_op_operand_count(op);
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    MlirValue *parts = TSR_NEW(arena, MlirValue, count + 1);
    TSR_NEED(parts);
    for (size_t i = 0; i < count; i++) parts[i] = tsr_op_operand(op, i);
    MlirValue line = count == 1 ? parts[0] : tsr_emit_concat(b, count, parts, 0);
    return type.shape.rank == 1 ? line : tsr_emit_reshape(b, line, &type.shape);
}

MlirValue tsr_sr_square(tsr_builder *b, MlirOperation op, MlirValue x) {
    double scale = 1;
    x = tsr_emit_cast(b, x, tsr_type_of(tsr_op_result(op, 0)).dtype);
    if (tsr_op_f64(op, "scale", &scale)) x = tsr_emit_mul(b, x, tsr_emit_number(b, x, scale));
    return tsr_emit_mul(b, x, x);
}

/* Sums of squares of a whole value, padded with zeros at its end. The gradient is squared before
 * any data movement, because a moved summand of each virtual rank would be summed separately from
 * the gradient. */
static MlirValue squares(tsr_builder *b, MlirOperation op) {
    uint64_t parts = tsr_type_of(tsr_op_result(op, 0)).shape.dims[0];
    MlirValue x = tsr_op_operand(op, 0);
    tsr_shape shape = tsr_type_of(x).shape, rows = {.rank = 2, .dims = {parts}};
    uint64_t count = 0;
    bool fits = tsr_shape_count(&shape, &count);
    TSR_ASSERT(fits);
    rows.dims[1] = (count + parts - 1) / parts;
    int64_t more = (int64_t)(parts * rows.dims[1] - count);
    x = tsr_sr_square(b, op, x);
    if (more) x = tsr_emit_pad(b, flat(b, x), &(int64_t){0}, &more, NULL, 0.0);
    x = tsr_emit_reshape(b, x, &rows);
    return tsr_emit_reduce(b, TSR_GRAPH_NAME("sum"), x, 1, &(int64_t){1});
}

static void lower(MlirOperation op, tsr_arena *arena) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue value;
    switch (tsr_op_of(op)) {
    case TSR_SR_ALL_REDUCE:
        value = tree_sum(&b, op, 0, tsr_op_operand_count(op));
        break;
    case TSR_SR_REDUCE_SCATTER:
        value = slice(&b, op, tree_sum(&b, op, 0, tsr_op_operand_count(op)));
        break;
    case TSR_SR_SHARD_SLICE:
        value = slice(&b, op, tsr_op_operand(op, 0));
        break;
    case TSR_SR_BROADCAST:
        value = tsr_op_operand(op, 0);
        break;
    case TSR_SR_ALL_GATHER:
    case TSR_SR_ASSEMBLE:
        value = joined(&b, op, arena);
        break;
    case TSR_SR_SQUARES:
        if (tsr_op_is(tsr_value_owner(tsr_op_operand(op, 0)), TSR_SR_VRANK_PART)) return;
        value = squares(&b, op);
        break;
    default:
        return;
    }
    tsr_emit_replace(op, 1, &value);
}

bool tsr_pass_local_collectives(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        tsr_arena arena = {0};
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) lower(op, &arena);
        tsr_arena_finish(&arena);
    }
    return true;
}
