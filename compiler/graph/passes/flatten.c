/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-flatten: if, while and scan become straight-line ops, except for those that stay
 * loops or branches (outline.c).
 *
 *   if     both branches, then `where`. Values from outside enter a branch through a gate,
 *          where(condition, x, 0): in a branch that is not taken, indices are 0, and its gradients
 *          are exactly 0
 *   while  `limit` times: the condition, and-ed with the previous one; the body, gated by it;
 *          `where`
 *   scan   one copy of the body for each slice
 */
#include "compiler/graph/rule.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/value_map.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

typedef struct copier {
    tsr_builder b; /* insertion point: the op with the regions */
    tsr_arena arena;
    tsr_value_map numbers; /* numbers of the original values */
    MlirValue *values;     /* replacement of each value, by number */
    uint32_t value_count;
    size_t value_capacity;
    MlirValue gate;    /* i1; null: no gate */
    bool gate_open;    /* values pass if the gate is true; else if it is false */
    int64_t iteration; /* -1: not in a loop */
    uint64_t made;     /* ops created for all loops of the function */
    bool failed;
} copier;

static void map(copier *c, MlirValue from, MlirValue to) {
    if (c->value_count == c->value_capacity) {
        MlirValue *larger = TSR_ARENA_GROW(&c->arena, c->values, &c->value_capacity, 64);
        TSR_NEED(larger);
        c->values = larger;
    }
    c->values[c->value_count] = to;
    TSR_NEED(tsr_value_map_set(&c->numbers, &c->arena, from, c->value_count++));
}

static void begin_copy(copier *c) {
    tsr_arena_finish(&c->arena);
    c->arena = (tsr_arena){0};
    c->numbers = (tsr_value_map){0};
    c->values = NULL;
    c->value_count = 0;
    c->value_capacity = 0;
}

/* where(gate, x, 0); i1 values need no gate, because no i1 value can cause an error. */
static MlirValue gated(copier *c, MlirValue x) {
    tsr_type type;
    if (mlirValueIsNull(c->gate) || !tsr_value_type(x, &type) || type.dtype == TSR_DTYPE_I1)
        return x;
    MlirOperation owner = tsr_value_owner(x);
    if (tsr_op_is(owner, TSR_GRAPH_CONSTANT)) return x;
    MlirValue zero = tsr_emit_constant(&c->b, type.dtype, 0.0);
    return c->gate_open ? tsr_emit_where(&c->b, c->gate, x, zero)
                        : tsr_emit_where(&c->b, c->gate, zero, x);
}

/* ---- copying a region ------------------------------------------------------------------------ */

static MlirBlock block_of(MlirValue value) {
    return mlirValueIsABlockArgument(value) ? mlirBlockArgumentGetOwner(value)
                                            : mlirOperationGetBlock(tsr_value_owner(value));
}

/* True if the value is defined outside of the op that is flattened. */
static bool is_outside(const copier *c, MlirValue value) {
    MlirBlock of = block_of(value), block = c->b.block;
    while (!mlirBlockIsNull(block) && !mlirBlockEqual(of, block)) {
        MlirOperation parent = mlirBlockGetParentOperation(block);
        block = mlirOperationIsNull(parent) ? (MlirBlock){NULL} : mlirOperationGetBlock(parent);
    }
    return !mlirBlockIsNull(block);
}

/* A planned group is one kernel in each iteration. */
static void group_anew(copier *c, MlirOperation op) {
    const char *group = tsr_op_string(op, TSR_PLANNED_GROUP);
    tsr_buffer path = {0};
    if (c->iteration < 0 || !group) return;
    tsr_buffer_printf(&path, "%s/%" PRId64, group, c->iteration);
    if (!path.failed)
        tsr_op_set(op, TSR_PLANNED_GROUP, tsr_attr_make_string(c->b.context, path.bytes));
    tsr_buffer_finish(&path);
}

/* Maps the operands of the copy, and of the ops in its regions, to their replacements. */
static void rewire(copier *c, MlirOperation copy) {
    group_anew(c, copy);
    for (size_t i = 0; i < tsr_op_operand_count(copy); i++) {
        MlirValue operand = tsr_op_operand(copy, i);
        uint32_t number = tsr_value_map_get(&c->numbers, operand);
        if (number == UINT32_MAX) {
            /* Other values belong to a region of the copy. */
            if (!is_outside(c, operand)) continue;
            map(c, operand, gated(c, operand));
            number = tsr_value_map_get(&c->numbers, operand);
        }
        mlirOperationSetOperand(copy, (intptr_t)i, c->values[number]);
    }
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(copy); r++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(copy, r));
        if (mlirBlockIsNull(block)) continue;
        TSR_FOR_EACH_OP(op, block) rewire(c, op);
    }
}

/* Copies the ops of the block before c->b.before; its arguments must have been mapped.
 * `out_values` receives the yielded values. */
static void copy_block(copier *c, MlirBlock block, MlirValue *out_values) {
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_GRAPH_YIELD)) {
            for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
                MlirValue value = tsr_op_operand(op, i);
                uint32_t number = tsr_value_map_get(&c->numbers, value);
                out_values[i] = number == UINT32_MAX ? value : c->values[number];
            }
            return;
        }
        MlirOperation copy = mlirOperationClone(op);
        rewire(c, copy); /* inserts gates before the copy */
        mlirBlockInsertOwnedOperationBefore(c->b.block, c->b.before, copy);
        for (size_t i = 0; i < tsr_op_result_count(op); i++) {
            MlirValue result = tsr_op_result(copy, i);
            if (tsr_op_is(op, TSR_GRAPH_PARAM)) result = gated(c, result);
            map(c, tsr_op_result(op, i), result);
        }
    }
}

static MlirBlock region(MlirOperation op, intptr_t index) {
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, index));
}

static size_t count_ops(MlirBlock block) {
    size_t count = 0;
    if (mlirBlockIsNull(block)) return 0;
    TSR_FOR_EACH_OP(op, block) {
        count++;
        for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
            count += count_ops(region(op, r));
    }
    return count;
}

/* Checks the limits for one loop and for all loops of the function; loops among the new ops count
 * again. */
static bool check_copies(copier *c, MlirOperation op, uint64_t times, size_t each) {
    uint64_t copies;
    if (__builtin_mul_overflow(times, (uint64_t)each, &copies) ||
        copies > TSR_UNROLLED_COPIES_MAX) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_UNROLL,
                       "%s: %" PRIu64 " iterations of %zu ops; a loop can become at most %d ops",
                       tsr_op_name(op), times, each, TSR_UNROLLED_COPIES_MAX);
        return false;
    }
    c->made += copies;
    if (c->made <= TSR_UNROLLED_ALL_MAX) return true;
    tsr_diag_error(
        mlirOperationGetLocation(op), TSR_DIAG_UNROLL,
        "%s: the loops of one function, including nested loops, would become more than %d ops",
        tsr_op_name(op), TSR_UNROLLED_ALL_MAX);
    return false;
}

/* ---- the ops --------------------------------------------------------------------------------- */

static bool flatten_if(copier *c, MlirOperation op) {
    MlirValue values[2][TSR_RULE_RESULTS_MAX];
    size_t count = tsr_op_result_count(op);
    c->gate = tsr_op_operand(op, 0);
    for (intptr_t i = 0; i < 2; i++) {
        begin_copy(c);
        c->gate_open = i == 0;
        copy_block(c, region(op, i), values[i]);
    }
    for (size_t k = 0; k < count; k++)
        values[0][k] = tsr_emit_where(&c->b, c->gate, values[0][k], values[1][k]);
    tsr_emit_replace(op, count, values[0]);
    return true;
}

static bool flatten_while(copier *c, MlirOperation op) {
    MlirValue carried[TSR_RULE_RESULTS_MAX], next[TSR_RULE_RESULTS_MAX], active = {NULL};
    size_t count = tsr_op_operand_count(op);
    int64_t limit = 0;
    bool read = tsr_op_i64(op, "limit", &limit);
    TSR_ASSERT(read);
    if (!check_copies(c, op, (uint64_t)limit,
                      count_ops(region(op, 0)) + count_ops(region(op, 1)) + count))
        return false;
    for (size_t k = 0; k < count; k++) carried[k] = tsr_op_operand(op, k);
    for (c->iteration = 0; c->iteration < limit; c->iteration++) {
        MlirValue holds;
        begin_copy(c);
        c->gate = (MlirValue){NULL};
        for (size_t k = 0; k < count; k++)
            map(c, mlirBlockGetArgument(region(op, 0), (intptr_t)k), carried[k]);
        copy_block(c, region(op, 0), &holds);
        active =
            c->iteration ? tsr_emit_binary(&c->b, TSR_GRAPH_NAME("and"), active, holds) : holds;
        begin_copy(c);
        c->gate = active;
        c->gate_open = true;
        for (size_t k = 0; k < count; k++)
            map(c, mlirBlockGetArgument(region(op, 1), (intptr_t)k), gated(c, carried[k]));
        copy_block(c, region(op, 1), next);
        for (size_t k = 0; k < count; k++)
            carried[k] = tsr_emit_where(&c->b, active, next[k], carried[k]);
    }
    tsr_emit_replace(op, count, carried);
    return true;
}

/* Slice number `at` along dim 0, without that dim. */
static MlirValue slice_at(copier *c, MlirValue sequence, uint64_t at) {
    tsr_shape shape = tsr_type_of(sequence).shape, slice = {.rank = shape.rank - 1};
    int64_t start[TSR_RANK_MAX] = {(int64_t)at}, size[TSR_RANK_MAX] = {1};
    for (uint32_t d = 1; d < shape.rank; d++) {
        size[d] = (int64_t)shape.dims[d];
        slice.dims[d - 1] = shape.dims[d];
    }
    return tsr_emit_reshape(&c->b, tsr_emit_slice(&c->b, sequence, start, size, NULL), &slice);
}

/* Adds a leading dim of size 1. */
static MlirValue lifted(copier *c, MlirValue x) {
    tsr_shape shape = tsr_type_of(x).shape, lifted_shape = {.rank = shape.rank + 1, .dims = {1}};
    for (uint32_t d = 0; d < shape.rank; d++) lifted_shape.dims[d + 1] = shape.dims[d];
    return tsr_emit_reshape(&c->b, x, &lifted_shape);
}

/* The stacked results of all iterations: parts[k * length + i]. */
static bool flatten_scan(copier *c, MlirOperation op) {
    MlirValue values[TSR_RULE_RESULTS_MAX], next[TSR_RULE_RESULTS_MAX];
    size_t count = tsr_op_result_count(op), inputs = tsr_op_operand_count(op);
    MlirBlock body = region(op, 0);
    int64_t attr = 0;
    int64_t known = 0;
    bool read = tsr_op_i64(op, "carried", &attr);
    size_t carried = (size_t)attr;
    TSR_ASSERT(read);
    if (!tsr_graph_scan_length(op, &known)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_UNROLL,
                       "%s: the number of iterations must be known", tsr_op_name(op));
        return false;
    }
    uint64_t length = (uint64_t)known;
    if (!check_copies(c, op, length, count_ops(body) + 2 * (inputs + count))) return false;
    tsr_arena arena = {0};
    MlirValue *parts = TSR_NEW(&arena, MlirValue, (count - carried) * length + 1);
    TSR_NEED(parts);
    for (size_t k = 0; k < carried; k++) values[k] = tsr_op_operand(op, k);
    for (uint64_t i = 0; i < length; i++) {
        uint64_t at = tsr_op_flag(op, "reverse") ? length - 1 - i : i;
        begin_copy(c);
        c->iteration = (int64_t)i;
        for (size_t k = 0; k < inputs; k++)
            map(c, mlirBlockGetArgument(body, (intptr_t)k),
                k < carried ? values[k] : slice_at(c, tsr_op_operand(op, k), at));
        copy_block(c, body, next);
        for (size_t k = 0; k < carried; k++) values[k] = next[k];
        for (size_t k = carried; k < count; k++)
            parts[(k - carried) * length + at] = lifted(c, next[k]);
    }
    for (size_t k = carried; k < count; k++) {
        tsr_type type = tsr_type_of(tsr_op_result(op, k));
        values[k] = length ? tsr_emit_concat(&c->b, length, parts + (k - carried) * length, 0)
                           : tsr_emit_filled(&c->b, &type, 0.0);
    }
    tsr_arena_finish(&arena);
    tsr_emit_replace(op, count, values);
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool flatten_op(MlirOperation op, uint64_t *made) {
    copier c = {.b = tsr_builder_before(op), .iteration = -1, .made = *made};
    bool done;
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_IF:
        done = flatten_if(&c, op);
        break;
    case TSR_GRAPH_WHILE:
        done = flatten_while(&c, op);
        break;
    default:
        done = flatten_scan(&c, op);
        break;
    }
    tsr_arena_finish(&c.arena);
    *made = c.made;
    return done;
}

static bool has_regions(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_IF || id == TSR_GRAPH_WHILE || id == TSR_GRAPH_SCAN;
}

/* Ops whose regions tessera-autodiff moves into the enclosing block, so they must be flat as well.
 */
static bool asks_derivatives(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_JVP || id == TSR_GRAPH_VJP || id == TSR_GRAPH_CUSTOM_DERIVATIVE;
}

/* Copies may contain such ops themselves: repeat until none remain. */
static bool flatten_block(MlirBlock block, uint64_t *made) {
    bool changed = !mlirBlockIsNull(block);
    while (changed) {
        changed = false;
        TSR_FOR_EACH_OP(op, block) {
            if (!has_regions(op) || tsr_graph_loop_stays(op)) continue;
            if (!flatten_op(op, made)) return false;
            changed = true;
        }
    }
    if (mlirBlockIsNull(block)) return true;
    TSR_FOR_EACH_OP(op, block) {
        if (!asks_derivatives(op)) continue;
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++)
            if (!flatten_block(region(op, i), made)) return false;
    }
    return true;
}

bool tsr_pass_flatten(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        uint64_t made = 0;
        if (tsr_op_is(func, TSR_FUNC_FUNC) && tsr_op_has_body(func) &&
            !flatten_block(tsr_op_body(func), &made))
            return false;
    }
    return true;
}
