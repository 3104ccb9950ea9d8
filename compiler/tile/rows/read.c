/* SPDX-License-Identifier: Apache-2.0
 *
 * Family `rows`: reads the group as items, and finds the stages that compute them.
 */
#include "compiler/tile/rows/rows.h"

#include <string.h>

typedef tsr_row_item item;
typedef tsr_rows rows;

static tsr_result new_item(rows *r, tsr_row_item_kind kind, MlirValue source, item **out_item) {
    tsr_tile_group *group = r->group;
    tsr_type type;
    item *made = TSR_NEW(group->arena, item, 1);
    if (!made) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    if (!tsr_value_type(source, &type))
        FAIL(group->ctx, TSR_INTERNAL, "'%s' holds a value without an element type", group->name);
    TSR_ASSERT(r->item_count < r->item_capacity);
    made->kind = kind;
    made->node.source = source;
    made->node.dtype = type.dtype;
    made->node.op = tsr_value_owner(source);
    r->items[r->item_count++] = made;
    *out_item = made;
    return TSR_SUCCESS;
}

static item *find_item(const rows *r, MlirValue source, bool over_parallel) {
    for (uint32_t i = 0; i < r->item_count; i++)
        if (mlirValueEqual(r->items[i]->node.source, source) &&
            (r->items[i]->kind != TSR_ROW_LEAF || r->items[i]->over_parallel == over_parallel))
            return r->items[i];
    return NULL;
}

/* The space that a view covers. */
static tsr_space space_of(const rows *r, bool over_parallel) {
    if (r->has_trailing) return r->space;
    const tsr_shape *dims = over_parallel ? &r->parallel_shape : &r->full;
    tsr_space space = {.rank = dims->rank};
    for (uint32_t d = 0; d < space.rank; d++) space.dims[d] = (int64_t)dims->dims[d];
    return space;
}

/* The dims of the space that a view covers; NULL: all. */
static const bool *dims_of(const rows *r, bool over_parallel) {
    return r->has_trailing && over_parallel ? r->parallel : NULL;
}

/* Replaces the strides over the reduced dims by a single stride over the columns. */
static void merge_columns(const rows *r, tsr_view *view, const tsr_space *space) {
    bool moves = false;
    if (r->has_trailing) return;
    for (uint32_t d = r->parallel_shape.rank; d < space->rank; d++) {
        moves |= view->strides[d] != 0;
        view->strides[d] = 0;
    }
    view->strides[r->parallel_shape.rank] = moves;
}

static tsr_result add_leaf(rows *r, MlirValue source, bool over_parallel, item **out_item) {
    tsr_tile_group *group = r->group;
    item *leaf = find_item(r, source, over_parallel);
    tsr_type type;
    *out_item = leaf;
    if (leaf) return TSR_SUCCESS;
    TRY(group->ctx, new_item(r, TSR_ROW_LEAF, source, &leaf));
    bool known = tsr_value_type(source, &type);
    TSR_ASSERT(known);
    leaf->over_parallel = over_parallel;
    *out_item = leaf;
    tsr_space space = space_of(r, over_parallel);
    if (mlirOperationIsNull(leaf->node.op)) {
        leaf->node.kind = TSR_NODE_VIEW;
        tsr_view_of_argument(&leaf->node.view, group,
                             (uint32_t)mlirBlockArgumentGetArgNumber(source), &space,
                             dims_of(r, over_parallel));
    } else if (tsr_op_is(leaf->node.op, TSR_GRAPH_IOTA)) {
        int64_t axis = 0;
        if (!tsr_op_i64(leaf->node.op, "axis", &axis))
            FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed iota", group->name);
        for (uint32_t d = 0; d < type.shape.rank; d++)
            if (d != axis) type.shape.dims[d] = 1;
        leaf->node.kind = TSR_NODE_IOTA;
        tsr_view_init(&leaf->node.view, type.dtype, tsr_tile_null, &type.shape, &space,
                      dims_of(r, over_parallel));
    } else {
        MlirAttribute value = tsr_op_attr(leaf->node.op, "value");
        if (!mlirAttributeIsADenseElements(value) || !mlirDenseElementsAttrIsSplat(value))
            FAIL(group->ctx, TSR_INTERNAL, "'%s' holds a constant of many values", group->name);
        leaf->node.kind = TSR_NODE_SPLAT;
        return TSR_SUCCESS;
    }
    merge_columns(r, &leaf->node.view, &space);
    return TSR_SUCCESS;
}

static bool is_leaf(MlirValue value) {
    MlirOperation owner = tsr_value_owner(value);
    return mlirOperationIsNull(owner) || tsr_op_is(owner, TSR_GRAPH_CONSTANT) ||
           tsr_op_is(owner, TSR_GRAPH_IOTA);
}

static bool is_repair(MlirOperation op) { return tsr_op_is(op, TSR_GRAPH_REPAIR); }

/* Is the reduction over the last dim? For repairs, all their dims must be the last ones, without
 * gaps. */
static bool is_trailing(MlirOperation reduction) {
    tsr_type from;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_value_type(tsr_op_operand(reduction, 0), &from) ||
        !tsr_op_i64s(reduction, "axes", TSR_RANK_MAX, axes, &count) || !count)
        return false;
    for (size_t i = 0; i < count && is_repair(reduction); i++)
        if (axes[i] != (int64_t)(from.shape.rank - count + i)) return false;
    return axes[count - 1] + 1 == from.shape.rank;
}

bool tsr_rows_are_columns(MlirBlock body) {
    TSR_FOR_EACH_OP(op, body) {
        if ((tsr_reduction_op_of(op) || is_repair(op)) && is_trailing(op)) return false;
    }
    return true;
}

bool tsr_rows_is_sum(MlirOperation op) {
    return tsr_op_is(op, TSR_GRAPH_SUM) && !is_trailing(op) &&
           !tsr_rows_are_columns(mlirOperationGetBlock(op));
}

static tsr_result add_op(rows *r, MlirOperation op) {
    tsr_tile_group *group = r->group;
    const tsr_reduction_op *reduction = tsr_reduction_op_of(op);
    bool same = tsr_op_is(op, TSR_GRAPH_RESHAPE), repairs = is_repair(op);
    size_t count = tsr_op_operand_count(op);
    item *made = NULL, *operands[TSR_ROW_OPERANDS_MAX] = {NULL};
    if ((!reduction && !same && !repairs && !tsr_element_is(op)) ||
        count > (repairs ? TSR_ROW_OPERANDS_MAX : TSR_ELEMENT_OPERANDS_MAX))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': %s is not allowed in a rows kernel", group->name,
             tsr_op_name(op));
    for (size_t i = 0; i < count; i++) {
        MlirValue operand = tsr_op_operand(op, i);
        tsr_type from, to;
        bool known = tsr_value_type(operand, &from) && tsr_value_type(tsr_op_result(op, 0), &to);
        TSR_ASSERT(known);
        /* Reshapes and repairs use the shape of the operand; other ops use the shape of their
         * result. */
        uint32_t rank = same || repairs ? from.shape.rank : to.shape.rank;
        bool over_parallel = !reduction && rank != r->full.rank;
        if (is_leaf(operand))
            TRY(group->ctx, add_leaf(r, operand, over_parallel, &operands[i]));
        else
            operands[i] = find_item(r, operand, false);
        TSR_ASSERT(operands[i]);
    }
    TRY(group->ctx, new_item(r,
                             tsr_rows_is_sum(op) ? TSR_ROW_SUM
                             : reduction         ? TSR_ROW_REDUCE
                             : same              ? TSR_ROW_SAME
                             : repairs           ? TSR_ROW_REPAIR
                                                 : TSR_ROW_OP,
                             tsr_op_result(op, 0), &made));
    made->operand_count = (uint32_t)count;
    memcpy(made->operands, operands, sizeof operands);
    if (!reduction) return TSR_SUCCESS;
    made->rules = (tsr_reduction){
        .group = group, .dtype = tsr_tile_compute_dtype(operands[0]->node.dtype), .op = reduction};
    return TSR_SUCCESS;
}

/* Columns cover all dims; some of the dims are reduced. */
static void read_columns(rows *r, MlirOperation reduction) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    tsr_op_i64s(reduction, "axes", TSR_RANK_MAX, axes, &count);
    r->space.rank = r->full.rank;
    for (size_t i = 0; i < count; i++) r->space.reduced[axes[i]] = true;
    for (uint32_t d = 0; d < r->full.rank; d++) {
        r->space.dims[d] = (int64_t)r->full.dims[d];
        r->parallel[d] = !r->space.reduced[d];
        *(r->parallel[d] ? &r->row_count : &r->columns) *= r->space.dims[d];
    }
}

/* The dims that are not axes. */
static tsr_shape parallel_of_repair(MlirOperation op) {
    tsr_type type;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    bool known = tsr_value_type(tsr_op_operand(op, 0), &type) &&
                 tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count);
    TSR_ASSERT(known && count <= type.shape.rank);
    return tsr_shape_remove(&type.shape, count, axes);
}

/* Reads the reduced shape from the first reduction. */
static tsr_result read_shapes(rows *r) {
    tsr_tile_group *group = r->group;
    MlirOperation reduction = {NULL};
    r->has_trailing = tsr_rows_are_columns(group->body);
    TSR_FOR_EACH_OP(op, group->body) {
        tsr_type from, to;
        bool reduces = tsr_reduction_op_of(op) && !tsr_rows_is_sum(op);
        if (!reduces && !is_repair(op)) continue;
        bool known = tsr_value_type(tsr_op_operand(op, 0), &from) &&
                     tsr_value_type(tsr_op_result(op, 0), &to);
        TSR_ASSERT(known);
        reduction = op;
        r->full = from.shape;
        r->parallel_shape = reduces ? to.shape : parallel_of_repair(op);
        r->trailing = from.shape.rank - r->parallel_shape.rank;
        break;
    }
    if (!r->trailing) FAIL(group->ctx, TSR_INTERNAL, "'%s' reduces nothing", group->name);
    r->row_count = r->columns = 1;
    if (r->has_trailing) {
        read_columns(r, reduction);
        return TSR_SUCCESS;
    }
    r->space.rank = r->parallel_shape.rank + 1;
    for (uint32_t d = 0; d < r->full.rank; d++) {
        int64_t size = (int64_t)r->full.dims[d];
        bool parallel = d < r->parallel_shape.rank;
        *(parallel ? &r->row_count : &r->columns) *= size;
        if (parallel) r->space.dims[d] = size;
    }
    r->space.dims[r->parallel_shape.rank] = r->columns;
    return TSR_SUCCESS;
}

static tsr_result read_results(rows *r) {
    tsr_tile_group *group = r->group;
    r->plain_count = group->output_count - (r->sums ? r->sums->count : 0);
    for (uint32_t i = 0; i < group->output_count; i++) {
        const tsr_type *type = &group->types[group->input_count + i];
        MlirValue value = group->returned[r->sums ? r->sums->order[i] : i];
        bool over_parallel = type->shape.rank != r->full.rank;
        r->results[i] = find_item(r, value, over_parallel);
        TSR_ASSERT(r->results[i]);
        if (i >= r->plain_count) {
            r->results[i]->buffer = group->buffers[group->input_count + i];
            continue;
        }
        tsr_space space = space_of(r, over_parallel);
        tsr_view_of_argument(&r->outputs[i], group, group->input_count + i, &space,
                             dims_of(r, over_parallel));
        merge_columns(r, &r->outputs[i], &space);
        r->whole_rows[i] = !over_parallel && tsr_shape_equal(&type->shape, &r->full);
    }
    return TSR_SUCCESS;
}

static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Does a leaf vary along a row, or down a column? */
static bool varies_in_row(const rows *r, const item *leaf) {
    const int64_t *strides = leaf->node.view.strides;
    if (leaf->node.kind == TSR_NODE_SPLAT) return false;
    if (!r->has_trailing) return strides[r->parallel_shape.rank] != 0;
    for (uint32_t d = 0; d < r->space.rank; d++)
        if (r->space.reduced[d] && strides[d]) return true;
    return false;
}

static void find_stages(rows *r) {
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->kind == TSR_ROW_LEAF) it->level = varies_in_row(r, it) ? 2 : 1;
        for (uint32_t k = 0; k < it->operand_count; k++) {
            const item *operand = it->operands[k];
            it->level = most(it->level, operand->level);
            it->stage = most(it->stage, operand->stage + (operand->kind == TSR_ROW_REDUCE));
        }
        if (it->kind == TSR_ROW_REDUCE || it->kind == TSR_ROW_REPAIR) it->level = 1;
    }
    for (uint32_t i = 0; i < r->item_count; i++)
        r->stage_count = most(r->stage_count, r->items[i]->stage + 1);
    r->prefetch_stage = r->stage_count > 1 ? 1 : 0;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->kind == TSR_ROW_REDUCE)
            r->prefetch_stage = most(r->prefetch_stage, r->items[i]->stage);
}

tsr_result tsr_rows_read(rows *r) {
    tsr_tile_group *group = r->group;
    uint32_t count = 2 * group->input_count + 1;
    TSR_FOR_EACH_OP(op, group->body) count += 2;
    TRY(group->ctx, read_shapes(r));
    r->item_capacity = count;
    r->items = TSR_NEW(group->arena, item *, count);
    r->results = TSR_NEW(group->arena, item *, group->output_count);
    r->outputs = TSR_NEW(group->arena, tsr_view, group->output_count);
    r->whole_rows = TSR_NEW(group->arena, bool, group->output_count);
    if (!r->items || !r->results || !r->outputs || !r->whole_rows)
        FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    TSR_FOR_EACH_OP(op, group->body) {
        if (tsr_op_result_count(op) == 1 && !is_leaf(tsr_op_result(op, 0)))
            TRY(group->ctx, add_op(r, op));
    }
    TRY(group->ctx, read_results(r));
    if (r->row_count) find_stages(r);
    return TSR_SUCCESS;
}
