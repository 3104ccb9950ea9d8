/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-split-products, before autodiff: one product can compute several matrices side by
 * side, such as queries, keys and values. If its parameter is split along the columns, a virtual
 * rank needs the same columns of each of these matrices, not adjacent columns of all of them. So a
 * slice of such a product becomes a product with a slice of the parameter; the ops between them,
 * such as the bias, are computed for each slice.
 *
 *   split (add (matmul %x, cast %w), %bias)     add (matmul %x, cast (slice %w)), (slice %bias)
 */
#include "compiler/graph/emit.h"
#include "compiler/graph/rule.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/process/guard.h"
#include "compiler/resilience/passes.h"
#include "compiler/resilience/resilience.h"
#include "runtime/base/array.h"

enum { DEPTH_MAX = 16 };

/* Elements [start, start + size) along dim `axis`. */
typedef struct range {
    int axis;
    uint64_t start, size;
} range;

typedef struct slice {
    int axis;
    MlirValue value;
} slice;

/* What is known about values while one op is replaced: each value is examined and sliced once,
 * however many ops read it. Numbers in `found` are a dim and whether the value comes from a product
 * with a split parameter. */
typedef struct splitting {
    tsr_arena arena;
    tsr_value_map found;
    tsr_value_map made; /* value -> its slice in `slices` */
    slice *slices;
    uint32_t slice_count;
    size_t slice_capacity;
} splitting;

static bool is_map(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    return row && row->op_class == TSR_CLASS_MAP && tsr_op_result_count(op) == 1 &&
           tsr_op_operand_count(op) <= TSR_RULE_OPERANDS_MAX;
}

static bool is_static(MlirValue value) {
    tsr_type type;
    return tsr_value_type(value, &type) && tsr_type_is_static(&type);
}

static bool all_static(MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (!is_static(tsr_op_operand(op, i))) return false;
    return is_static(tsr_op_result(op, 0));
}

/* The dim of a matrix B that becomes the last dim of the product. */
static int column_dim(MlirOperation matmul) {
    int rank = (int)tsr_type_of(tsr_op_operand(matmul, 1)).shape.rank;
    return tsr_op_flag(matmul, "transpose_b") ? rank - 2 : rank - 1;
}

/* True if the value is a parameter that is split along this dim, perhaps in another type. */
static bool is_split_param(MlirValue value, int dim) {
    MlirOperation op = tsr_value_owner(value);
    int64_t split = 0;
    for (int i = 0; i < DEPTH_MAX && !mlirOperationIsNull(op) && tsr_op_is(op, TSR_GRAPH_CAST); i++)
        op = tsr_value_owner(tsr_op_operand(op, 0));
    if (mlirOperationIsNull(op) || !tsr_op_is(op, TSR_GRAPH_PARAM)) return false;
    if (!tsr_op_has(op, TSR_LAYOUT_AXIS)) return false;
    if (tsr_op_has(op, TSR_LAYOUT_DIM) && !tsr_op_i64(op, TSR_LAYOUT_DIM, &split)) return false;
    return split == dim;
}

static bool is_split_product(MlirOperation op, int axis) {
    if (!tsr_op_is(op, TSR_GRAPH_MATMUL) || !all_static(op)) return false;
    int rank = (int)tsr_type_of(tsr_op_result(op, 0)).shape.rank;
    int rank_b = (int)tsr_type_of(tsr_op_operand(op, 1)).shape.rank;
    return axis == rank - 1 && rank_b >= 2 && is_split_param(tsr_op_operand(op, 1), column_dim(op));
}

/* The dim of operand `i` of an elementwise op that corresponds to dim `axis` of its result; -1 if
 * the operand is the same for all of its elements. */
static int operand_axis(MlirOperation op, size_t i, int axis) {
    tsr_shape shape = tsr_type_of(tsr_op_operand(op, i)).shape;
    int at = axis - (int)(tsr_type_of(tsr_op_result(op, 0)).shape.rank - shape.rank);
    return at < 0 || shape.dims[at] == 1 ? -1 : at;
}

static bool comes_from_product(splitting *s, MlirValue value, int axis, int depth);

static bool reads_product(splitting *s, MlirOperation op, int axis, int depth) {
    if (mlirOperationIsNull(op) || depth > DEPTH_MAX) return false;
    if (is_split_product(op, axis)) return true;
    if (!is_map(op) || !all_static(op)) return false;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        int at = operand_axis(op, i, axis);
        if (at >= 0 && comes_from_product(s, tsr_op_operand(op, i), at, depth + 1)) return true;
    }
    return false;
}

/* True if elementwise ops alone are between the value and such a product. */
static bool comes_from_product(splitting *s, MlirValue value, int axis, int depth) {
    uint32_t number = tsr_value_map_get(&s->found, value);
    if (number != UINT32_MAX && (int)(number / 2) == axis) return number % 2;
    bool found = reads_product(s, tsr_value_owner(value), axis, depth);
    bool set = tsr_value_map_set(&s->found, &s->arena, value, 2 * (uint32_t)axis + (found ? 1 : 0));
    TSR_NEED(set);
    return found;
}

static MlirValue emit_range(tsr_builder *b, MlirValue value, const range *r) {
    tsr_shape shape = tsr_type_of(value).shape;
    int64_t start[TSR_RANK_MAX] = {0}, size[TSR_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++) size[i] = (int64_t)shape.dims[i];
    start[r->axis] = (int64_t)r->start;
    size[r->axis] = (int64_t)r->size;
    return tsr_emit_slice(b, value, start, size, NULL);
}

static MlirValue clone_with(tsr_builder *b, MlirOperation op, const MlirValue *operands,
                            const range *r) {
    MlirOperation copy = mlirOperationClone(op);
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    mlirBlockInsertOwnedOperationBefore(b->block, b->before, copy);
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        mlirOperationSetOperand(copy, (intptr_t)i, operands[i]);
    type.shape.dims[r->axis] = r->size;
    mlirValueSetType(tsr_op_result(copy, 0), tsr_type_make(b->context, &type));
    return tsr_op_result(copy, 0);
}

static MlirValue sliced(splitting *s, tsr_builder *b, MlirValue value, const range *r, int depth);

static MlirValue compute_slice(splitting *s, tsr_builder *b, MlirValue value, const range *r,
                               int depth) {
    MlirOperation op = tsr_value_owner(value);
    MlirValue operands[TSR_RULE_OPERANDS_MAX];
    bool known = !mlirOperationIsNull(op) && depth <= 2 * DEPTH_MAX;
    bool casts = known && tsr_op_is(op, TSR_GRAPH_CAST) && all_static(op);
    if (known && is_split_product(op, r->axis)) {
        range columns = {column_dim(op), r->start, r->size};
        operands[0] = tsr_op_operand(op, 0);
        operands[1] = sliced(s, b, tsr_op_operand(op, 1), &columns, depth + 1);
        return clone_with(b, op, operands, r);
    }
    if (!casts && !(known && comes_from_product(s, value, r->axis, 0)))
        return emit_range(b, value, r);
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        range at = {operand_axis(op, i, r->axis), r->start, r->size};
        operands[i] = tsr_op_operand(op, i);
        if (at.axis >= 0) operands[i] = sliced(s, b, operands[i], &at, depth + 1);
    }
    return clone_with(b, op, operands, r);
}

/* These elements of the value, computed from slices. All slices of a value along a dim that are
 * made for one result are the same. */
static MlirValue sliced(splitting *s, tsr_builder *b, MlirValue value, const range *r, int depth) {
    uint32_t number = tsr_value_map_get(&s->made, value);
    if (number != UINT32_MAX && s->slices[number].axis == r->axis) return s->slices[number].value;
    MlirValue made = compute_slice(s, b, value, r, depth);
    if (s->slice_count == s->slice_capacity) {
        slice *larger = TSR_ARENA_GROW(&s->arena, s->slices, &s->slice_capacity, 16);
        TSR_NEED(larger);
        s->slices = larger;
    }
    bool set = tsr_value_map_set(&s->made, &s->arena, value, s->slice_count);
    TSR_NEED(set);
    s->slices[s->slice_count++] = (slice){r->axis, made};
    return made;
}

/* The elements of a result of the op that is replaced. */
static MlirValue slice_result(splitting *s, tsr_builder *b, MlirValue from, const range *r) {
    s->made = (tsr_value_map){0};
    s->slice_count = 0;
    return sliced(s, b, from, r, 0);
}

static void split_parts(splitting *s, MlirOperation op) {
    int64_t axis = 0;
    MlirValue results[TSR_RULE_RESULTS_MAX], from = tsr_op_operand(op, 0);
    size_t count = tsr_op_result_count(op);
    if (!tsr_op_i64(op, "axis", &axis) || !all_static(op)) return;
    if (!comes_from_product(s, from, (int)axis, 0)) return;
    tsr_builder b = tsr_builder_before(op);
    range r = {.axis = (int)axis};
    for (size_t i = 0; i < count; i++) {
        r.size = tsr_type_of(tsr_op_result(op, i)).shape.dims[axis];
        results[i] = slice_result(s, &b, from, &r);
        r.start += r.size;
    }
    tsr_emit_replace(op, count, results);
}

/* A slice of adjacent elements along one dim. */
static void split_slice(splitting *s, MlirOperation op) {
    int64_t start[TSR_RANK_MAX], stride[TSR_RANK_MAX];
    size_t starts = 0, strides = 0;
    range r = {.axis = -1};
    if (!all_static(op) || !tsr_op_i64s(op, "start", TSR_RANK_MAX, start, &starts)) return;
    bool strided = tsr_op_i64s(op, "stride", TSR_RANK_MAX, stride, &strides);
    tsr_shape from = tsr_type_of(tsr_op_operand(op, 0)).shape;
    tsr_shape to = tsr_type_of(tsr_op_result(op, 0)).shape;
    for (uint32_t i = 0; i < from.rank && i < starts; i++) {
        if (strided && i < strides && stride[i] != 1) return;
        if (from.dims[i] == to.dims[i]) continue;
        if (r.axis >= 0) return;
        r = (range){(int)i, (uint64_t)start[i], to.dims[i]};
    }
    if (r.axis < 0 || !comes_from_product(s, tsr_op_operand(op, 0), r.axis, 0)) return;
    tsr_builder b = tsr_builder_before(op);
    MlirValue made = slice_result(s, &b, tsr_op_operand(op, 0), &r);
    tsr_emit_replace(op, 1, &made);
}

static bool has_layouts(MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_has(op, TSR_LAYOUT_AXIS)) return true;
    }
    return false;
}

bool tsr_pass_split_products(MlirModule module) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        tsr_entry_kind kind;
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func) ||
            !tsr_graph_entry_kind(func, &kind) || kind != TSR_ENTRY_TRAIN ||
            !has_layouts(tsr_op_body(func)))
            continue;
        MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(func));
        for (MlirOperation next; !mlirOperationIsNull(op); op = next) {
            next = mlirOperationGetNextInBlock(op);
            splitting s = {0};
            if (tsr_op_is(op, TSR_GRAPH_SPLIT))
                split_parts(&s, op);
            else if (tsr_op_is(op, TSR_GRAPH_SLICE))
                split_slice(&s, op);
            tsr_arena_finish(&s.arena);
        }
    }
    return true;
}
