/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/region.h"

#include "compiler/ir/attributes.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/open.h"
#include "runtime/base/kernel.h"

#include <string.h>

/* ---- spaces and views ------------------------------------------------------------------------ */

int64_t tsr_space_count(const tsr_space *space) {
    int64_t count = 1;
    for (uint32_t d = 0; d < space->rank; d++) count = tsr_extent_times(count, space->dims[d]);
    return count;
}

static void set_strides(tsr_view *view, const tsr_shape *shape, int64_t pitch,
                        const tsr_space *space, const bool *parallel) {
    uint32_t from = shape->rank;
    int64_t stride = 1;
    for (uint32_t d = space->rank; d-- > 0 && from > 0;) {
        if (parallel && !parallel[d]) continue;
        int64_t size = (int64_t)shape->dims[--from];
        TSR_ASSERT(size == 1 || size == space->dims[d]);
        view->strides[d] = size == 1 ? 0 : stride;
        stride = tsr_extent_times(stride, pitch && from + 1 == shape->rank ? pitch : size);
    }
    TSR_ASSERT(from == 0);
}

void tsr_view_init(tsr_view *view, tsr_dtype dtype, MlirValue buffer, const tsr_shape *shape,
                   const tsr_space *space, const bool *parallel) {
    *view = (tsr_view){.dtype = dtype, .buffer = buffer};
    set_strides(view, shape, 0, space, parallel);
}

void tsr_view_of_argument(tsr_view *view, const tsr_tile_group *group, uint32_t number,
                          const tsr_space *space, const bool *parallel) {
    const tsr_type *type = &group->types[number];
    *view = (tsr_view){.dtype = type->dtype, .buffer = group->buffers[number]};
    set_strides(view, &type->shape, group->pitches[number], space, parallel);
}

typedef struct view_list {
    tsr_region *const *regions;
    uint32_t region_count, view_count;
    tsr_view *views;
} view_list;

/* Calls `call` for each view of the list; stops at the first false. */
static bool each_view(const view_list *list, bool (*call)(tsr_view *view, void *user), void *user) {
    for (uint32_t i = 0; i < list->view_count; i++)
        if (!call(&list->views[i], user)) return false;
    for (uint32_t r = 0; r < list->region_count; r++)
        for (uint32_t i = 0; i < list->regions[r]->node_count; i++) {
            tsr_node *node = list->regions[r]->nodes[i];
            bool viewed = node->kind == TSR_NODE_VIEW || node->kind == TSR_NODE_IOTA;
            if (viewed && !call(&node->view, user)) return false;
        }
    return true;
}

typedef struct merge {
    tsr_space *space;
    uint32_t dim; /* dropped dimension; its stride moves to dim - 1 when merging */
} merge;

static bool can_merge(tsr_view *view, void *user) {
    const merge *m = user;
    return view->strides[m->dim - 1] ==
           tsr_extent_times(view->strides[m->dim], m->space->dims[m->dim]);
}

static bool drop_stride(tsr_view *view, void *user) {
    const merge *m = user;
    size_t after = TSR_RANK_MAX - 1 - m->dim;
    memmove(&view->strides[m->dim], &view->strides[m->dim + 1], after * sizeof view->strides[0]);
    view->strides[TSR_RANK_MAX - 1] = 0;
    return true;
}

static bool merge_stride(tsr_view *view, void *user) {
    const merge *m = user;
    view->strides[m->dim - 1] = view->strides[m->dim];
    return drop_stride(view, user);
}

static void drop_dim(tsr_space *space, uint32_t dim) {
    for (uint32_t d = dim; d + 1 < space->rank; d++) {
        space->dims[d] = space->dims[d + 1];
        space->reduced[d] = space->reduced[d + 1];
    }
    space->rank--;
}

void tsr_space_collapse(tsr_space *space, tsr_region *const *regions, uint32_t region_count,
                        tsr_view *views, uint32_t view_count) {
    view_list list = {regions, region_count, view_count, views};
    merge m = {.space = space};
    for (m.dim = space->rank; m.dim-- > 0;) {
        if (space->dims[m.dim] != 1) continue;
        each_view(&list, drop_stride, &m);
        drop_dim(space, m.dim);
    }
    for (m.dim = space->rank; m.dim-- > 1;) {
        if (space->reduced[m.dim] != space->reduced[m.dim - 1]) continue;
        if (!each_view(&list, can_merge, &m)) continue;
        each_view(&list, merge_stride, &m);
        space->dims[m.dim - 1] = tsr_extent_times(space->dims[m.dim - 1], space->dims[m.dim]);
        drop_dim(space, m.dim);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef struct collector {
    tsr_region *region;
    uint32_t capacity;
    MlirValue given;
    const tsr_space *space;
    const bool *parallel;
} collector;

static tsr_node *find_node(const tsr_region *region, MlirValue source) {
    for (uint32_t i = 0; i < region->node_count; i++)
        if (mlirValueEqual(region->nodes[i]->source, source)) return region->nodes[i];
    return NULL;
}

static tsr_result add_node(collector *c, MlirValue source, tsr_node **out_node) {
    tsr_tile_group *group = c->region->group;
    tsr_type type;
    tsr_node *node = TSR_NEW(group->arena, tsr_node, 1);
    if (!node) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    if (!tsr_tile_group_type(group, source, &type))
        FAIL(group->ctx, TSR_INTERNAL, "'%s' holds a value without an element type", group->name);
    TSR_ASSERT(c->region->node_count < c->capacity);
    node->source = source;
    node->dtype = type.dtype;
    c->region->nodes[c->region->node_count++] = node;
    *out_node = node;
    return TSR_SUCCESS;
}

static tsr_result add_constant(collector *c, tsr_node *node) {
    tsr_tile_group *group = c->region->group;
    MlirAttribute value = tsr_op_attr(node->op, "value");
    tsr_type type;
    void *data = NULL;
    if (mlirAttributeIsADenseElements(value) && mlirDenseElementsAttrIsSplat(value)) {
        node->kind = TSR_NODE_SPLAT;
        return TSR_SUCCESS;
    }
    if (!tsr_attr_elements(value, group->arena, &type, &data))
        FAIL(group->ctx, TSR_INTERNAL, "'%s' holds a constant that is not dense", group->name);
    MlirType element = tsr_tile_storage_type(&group->b, type.dtype);
    int64_t dims[TSR_RANK_MAX];
    uint64_t size = 0;
    for (uint32_t d = 0; d < type.shape.rank; d++) dims[d] = (int64_t)type.shape.dims[d];
    if (!tsr_shape_size(&type.shape, type.dtype, &size))
        FAIL(group->ctx, TSR_INTERNAL, "'%s' holds a constant that is too large", group->name);
    MlirType tensor =
        mlirRankedTensorTypeGet((intptr_t)type.shape.rank, dims, element, mlirAttributeGetNull());
    tsr_attr attrs[] = {{"value", mlirDenseElementsAttrRawBufferGet(tensor, (size_t)size, data)},
                        {NULL, {NULL}}};
    MlirValue buffer = tsr_build_value(&group->b.at, "tile.constant", NULL, 0,
                                       tsr_tile_buffer_type(element, type.shape.rank, dims), attrs);
    node->kind = TSR_NODE_VIEW;
    tsr_view_init(&node->view, type.dtype, buffer, &type.shape, c->space, c->parallel);
    return TSR_SUCCESS;
}

static tsr_result add_iota(collector *c, tsr_node *node) {
    tsr_tile_group *group = c->region->group;
    tsr_type type;
    int64_t axis = 0;
    if (!tsr_tile_group_type(group, node->source, &type) || !tsr_op_i64(node->op, "axis", &axis) ||
        axis < 0 || axis >= (int64_t)type.shape.rank)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed iota", group->name);
    /* Computes the strides as if only the axis had a size: its stride is 1, and all other strides
     * are 0. */
    for (uint32_t d = 0; d < type.shape.rank; d++)
        if (d != axis) type.shape.dims[d] = 1;
    node->kind = TSR_NODE_IOTA;
    tsr_view_init(&node->view, type.dtype, tsr_tile_null, &type.shape, c->space, c->parallel);
    return TSR_SUCCESS;
}

/* Adds a leaf: arguments become views, constants become views or splats, the given value becomes
 * GIVEN. */
static tsr_result add_leaf(collector *c, MlirValue source) {
    tsr_tile_group *group = c->region->group;
    tsr_node *node = NULL;
    if (find_node(c->region, source)) return TSR_SUCCESS;
    TRY(group->ctx, add_node(c, source, &node));
    node->op = tsr_value_owner(source);
    if (tsr_op_is(node->op, TSR_GRAPH_IOTA)) return add_iota(c, node);
    if (!mlirValueIsNull(c->given) && mlirValueEqual(source, c->given)) {
        node->kind = TSR_NODE_GIVEN;
        return TSR_SUCCESS;
    }
    if (!mlirOperationIsNull(node->op)) return add_constant(c, node);
    node->kind = TSR_NODE_VIEW;
    tsr_view_of_argument(&node->view, group, (uint32_t)mlirBlockArgumentGetArgNumber(source),
                         c->space, c->parallel);
    return TSR_SUCCESS;
}

static bool is_leaf(const collector *c, MlirValue source) {
    MlirOperation owner = tsr_value_owner(source);
    return mlirOperationIsNull(owner) || tsr_op_is(owner, TSR_GRAPH_CONSTANT) ||
           tsr_op_is(owner, TSR_GRAPH_IOTA) ||
           (!mlirValueIsNull(c->given) && mlirValueEqual(source, c->given));
}

static tsr_result add_op(collector *c, MlirOperation op) {
    tsr_tile_group *group = c->region->group;
    tsr_node *node = NULL, *operands[TSR_ELEMENT_OPERANDS_MAX];
    size_t count = tsr_op_operand_count(op);
    if (!tsr_element_is(op) || count > TSR_ELEMENT_OPERANDS_MAX)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': %s is not elementwise", group->name, tsr_op_name(op));
    for (size_t i = 0; i < count; i++) {
        MlirValue operand = tsr_op_operand(op, i);
        if (is_leaf(c, operand)) TRY(group->ctx, add_leaf(c, operand));
        operands[i] = find_node(c->region, operand);
        TSR_ASSERT(operands[i]);
    }
    TRY(group->ctx, add_node(c, tsr_op_result(op, 0), &node));
    node->kind = TSR_NODE_OP;
    node->op = op;
    node->operand_count = (uint32_t)count;
    memcpy(node->operands, operands, count * sizeof operands[0]);
    return TSR_SUCCESS;
}

/* needed[i]: op i of the body is in the slice. Users come after their operands, so one backward
 * walk is enough. */
static void mark_needed(const collector *c, const MlirValue *values, uint32_t value_count,
                        const MlirOperation *ops, uint32_t op_count, bool *needed) {
    for (uint32_t i = op_count; i-- > 0;) {
        MlirValue result = tsr_op_result(ops[i], 0);
        if (is_leaf(c, result)) continue;
        for (uint32_t v = 0; v < value_count && !needed[i]; v++)
            needed[i] = mlirValueEqual(values[v], result);
        for (uint32_t u = i + 1; u < op_count && !needed[i]; u++)
            for (size_t k = 0; needed[u] && k < tsr_op_operand_count(ops[u]) && !needed[i]; k++)
                needed[i] = mlirValueEqual(tsr_op_operand(ops[u], k), result);
    }
}

static uint32_t count_ops(MlirBlock block) {
    uint32_t count = 0;
    TSR_FOR_EACH_OP(op, block) count += tsr_op_result_count(op) == 1;
    return count;
}

tsr_result tsr_region_init(tsr_tile_group *group, const MlirValue *values, uint32_t value_count,
                           MlirValue given, const tsr_space *space, const bool *parallel,
                           tsr_region *out_region) {
    uint32_t op_count = count_ops(group->body), filled = 0;
    tsr_region region = {.group = group};
    collector c = {&region, op_count + group->input_count + 1, given, space, parallel};
    region.nodes = TSR_NEW(group->arena, tsr_node *, c.capacity);
    region.results = TSR_NEW(group->arena, tsr_node *, value_count + 1);
    MlirOperation *ops = TSR_NEW(group->arena, MlirOperation, op_count + 1);
    bool *needed = TSR_NEW(group->arena, bool, op_count + 1);
    if (!region.nodes || !region.results || !ops || !needed)
        FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    TSR_FOR_EACH_OP(op, group->body) {
        if (tsr_op_result_count(op) == 1) ops[filled++] = op;
    }
    mark_needed(&c, values, value_count, ops, op_count, needed);
    for (uint32_t i = 0; i < op_count; i++)
        if (needed[i]) TRY(group->ctx, add_op(&c, ops[i]));
    for (uint32_t i = 0; i < value_count; i++) {
        if (is_leaf(&c, values[i])) TRY(group->ctx, add_leaf(&c, values[i]));
        region.results[i] = find_node(&region, values[i]);
        TSR_ASSERT(region.results[i]);
    }
    region.result_count = value_count;
    *out_region = region;
    return TSR_SUCCESS;
}

/* ---- levels ---------------------------------------------------------------------------------- */

void tsr_region_levels(tsr_region *region, const tsr_space *space, const bool *inner) {
    for (uint32_t i = 0; i < region->node_count; i++) {
        tsr_node *node = region->nodes[i];
        node->level = node->kind == TSR_NODE_GIVEN ? 2 : 0;
        bool viewed = node->kind == TSR_NODE_VIEW || node->kind == TSR_NODE_IOTA;
        for (uint32_t d = 0; viewed && d < space->rank; d++) {
            uint32_t level = !node->view.strides[d] ? 0 : inner[d] ? 2 : 1;
            if (level > node->level) node->level = level;
        }
        for (uint32_t k = 0; k < node->operand_count; k++)
            if (node->operands[k]->level > node->level) node->level = node->operands[k]->level;
    }
}

int64_t tsr_region_bytes(const tsr_region *region, const tsr_view *outputs,
                         const tsr_space *space) {
    int64_t bytes = 0;
    uint32_t last = space->rank - 1;
    if (!space->rank) return 1;
    for (uint32_t i = 0; i < region->node_count; i++) {
        const tsr_node *node = region->nodes[i];
        if (node->kind == TSR_NODE_VIEW && node->view.strides[last])
            bytes += (int64_t)tsr_dtype_size(node->dtype);
    }
    for (uint32_t i = 0; outputs && i < region->result_count; i++)
        bytes += (int64_t)tsr_dtype_size(outputs[i].dtype);
    return bytes ? bytes : 1;
}

uint32_t tsr_region_width(const tsr_region *region) {
    uint32_t width = 1;
    for (uint32_t i = 0; i < region->node_count; i++) {
        uint32_t size = (uint32_t)tsr_dtype_size(tsr_tile_compute_dtype(region->nodes[i]->dtype));
        if (size > width) width = size;
    }
    return width;
}

uint32_t tsr_lanes_fit(uint32_t lanes, int64_t count) {
    while (lanes > 1 && (int64_t)lanes / 2 >= count) lanes /= 2;
    return lanes;
}

/* ---- emission -------------------------------------------------------------------------------- */

MlirValue tsr_point_offset(tsr_tile_builder *b, const tsr_point *point, const tsr_view *view) {
    MlirValue offset = tsr_tile_index(b, view->offset);
    for (uint32_t d = 0; d < point->space->rank; d++)
        if (view->strides[d] && !mlirValueIsNull(point->index[d]))
            offset = tsr_tile_add(b, offset, tsr_tile_mul(b, point->index[d], view->strides[d]));
    return offset;
}

void tsr_point_unflatten(tsr_tile_builder *b, tsr_point *point, const bool *selected,
                         MlirValue flat) {
    const tsr_space *space = point->space;
    int64_t inner = 1;
    bool outermost[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d < space->rank; d++) {
        if (!selected[d]) continue;
        outermost[d] = true;
        break;
    }
    for (uint32_t d = space->rank; d-- > 0;) {
        if (!selected[d]) continue;
        MlirValue index = tsr_tile_div(b, flat, inner);
        point->index[d] = outermost[d] ? index : tsr_tile_rem(b, index, space->dims[d]);
        inner = tsr_extent_times(inner, space->dims[d]);
    }
}

/* A number that follows from open dims. */
static MlirValue open_value(tsr_tile_builder *b, const tsr_node *node, uint64_t dim) {
    MlirType type = tsr_tile_value_type(b, node->dtype, 0);
    MlirType whole = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirType wide = tsr_tile_value_type(b, TSR_DTYPE_F64, 0);
    MlirValue value = tsr_tile_to(b, "arith.index_cast", tsr_tile_index(b, (int64_t)dim), whole);
    if (!tsr_dtype_is_float(node->dtype))
        return mlirTypeEqual(type, whole) ? value : tsr_tile_to(b, "arith.trunci", value, type);
    if (!tsr_op_has(node->op, TSR_OPEN_INVERSE_NAME))
        return tsr_tile_to(b, "arith.sitofp", value, type);
    value = tsr_tile_2(b, "arith.divf", tsr_tile_float(b, wide, 1),
                       tsr_tile_to(b, "arith.sitofp", value, wide));
    return mlirTypeEqual(type, wide) ? value : tsr_tile_to(b, "arith.truncf", value, type);
}

MlirValue tsr_splat_value(tsr_tile_builder *b, const tsr_node *node) {
    MlirAttribute element = mlirDenseElementsAttrGetSplatValue(tsr_op_attr(node->op, "value"));
    MlirType type = tsr_tile_value_type(b, node->dtype, 0);
    uint64_t dim;
    if (tsr_dim_read(tsr_op_attr(node->op, TSR_OPEN_VALUE_NAME), &dim))
        return open_value(b, node, dim);
    if (tsr_dtype_is_float(node->dtype))
        return tsr_tile_float(b, type, mlirFloatAttrGetValueDouble(element));
    if (tsr_dtype_is_small(node->dtype))
        return tsr_tile_small(b, node->dtype, type, mlirFloatAttrGetValueDouble(element));
    if (tsr_dtype_is_unsigned(node->dtype))
        return tsr_tile_int(b, type, (int64_t)mlirIntegerAttrGetValueUInt(element));
    if (node->dtype == TSR_DTYPE_I1) {
        bool on = mlirAttributeIsABool(element) ? mlirBoolAttrGetValue(element)
                                                : mlirIntegerAttrGetValueInt(element) != 0;
        return tsr_tile_int(b, type, on);
    }
    return tsr_tile_int(b, type, mlirIntegerAttrGetValueInt(element));
}

MlirValue tsr_node_value(tsr_region *region, const tsr_node *node, const tsr_point *point) {
    return tsr_tile_splat(&region->group->b, node->value, point->lanes);
}

/* The offset, and a multiple of the lane number along the last dimension. */
MlirValue tsr_iota_value(tsr_tile_builder *b, const tsr_node *node, const tsr_point *point) {
    uint32_t rank = point->space->rank;
    int64_t stride = rank ? node->view.strides[rank - 1] : 0;
    MlirType whole = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirType number =
        tsr_dtype_is_float(node->dtype) ? whole : tsr_tile_value_type(b, node->dtype, 0);
    MlirValue value =
        tsr_tile_to(b, "arith.index_cast", tsr_point_offset(b, point, &node->view), number);
    if (point->lanes && stride) {
        MlirValue lane = tsr_tile_iota(b, number, point->lanes);
        MlirValue factor = tsr_tile_int(b, mlirValueGetType(lane), stride);
        if (stride != 1) lane = tsr_tile_2(b, "arith.muli", lane, factor);
        value = tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, value, point->lanes), lane);
    }
    if (!tsr_dtype_is_float(node->dtype)) return value;
    uint32_t lanes = stride ? point->lanes : 0;
    value = tsr_tile_to(b, "arith.sitofp", value, tsr_tile_value_type(b, node->dtype, lanes));
    return tsr_tile_round(b, node->dtype, value);
}

void tsr_region_emit(tsr_region *region, uint32_t level, const tsr_point *point) {
    tsr_tile_builder *b = &region->group->b;
    tsr_point scalar = *point;
    if (level < 2) scalar.lanes = 0;
    for (uint32_t i = 0; i < region->node_count; i++) {
        tsr_node *node = region->nodes[i];
        if (node->level != level) continue;
        if (node->kind == TSR_NODE_SPLAT) {
            node->value = tsr_splat_value(b, node);
        } else if (node->kind == TSR_NODE_VIEW) {
            uint32_t rank = point->space->rank;
            bool varies = rank && node->view.strides[rank - 1];
            MlirValue offset = tsr_point_offset(b, &scalar, &node->view);
            uint32_t lanes = varies ? scalar.lanes : 0;
            if (node->view.stored)
                node->value = tsr_tile_load_stored(b, node->dtype, node->view.buffer, offset, lanes,
                                                   scalar.mask);
            else
                node->value =
                    tsr_tile_load(b, node->dtype, node->view.buffer, offset, lanes, scalar.mask);
        } else if (node->kind == TSR_NODE_IOTA) {
            node->value = tsr_iota_value(b, node, &scalar);
        } else if (node->kind == TSR_NODE_OP) {
            MlirValue operands[TSR_ELEMENT_OPERANDS_MAX];
            for (uint32_t k = 0; k < node->operand_count; k++)
                operands[k] = tsr_node_value(region, node->operands[k], &scalar);
            node->value = tsr_element_build(b, node->op, operands);
        }
    }
}

/* True if the stores are larger than last-level caches, or than the share of one CPU. */
static bool is_large(const tsr_view *view, const tsr_space *space, uint32_t lanes) {
    enum { BYTES_MIN = 32 << 20 };
    int64_t size = (int64_t)tsr_dtype_size(view->dtype), last = (int64_t)space->rank - 1;
    return last >= 0 && lanes && !view->stored && view->strides[last] == 1 && !view->offset &&
           !tsr_extent_is_open(tsr_space_count(space)) &&
           tsr_space_count(space) * size >= BYTES_MIN && lanes * size % TSR_BUFFER_ALIGN_BYTES == 0;
}

bool tsr_view_streams(const tsr_view *view, const tsr_space *space, uint32_t lanes) {
    int64_t size = (int64_t)tsr_dtype_size(view->dtype), last = (int64_t)space->rank - 1;
    if (!is_large(view, space, lanes)) return false;
    for (int64_t d = 0; d < last; d++)
        if (space->dims[d] > 1 && view->strides[d] * size % TSR_BUFFER_ALIGN_BYTES) return false;
    /* Adjacent parts of a tensor are aligned if their size is. */
    return tsr_space_count(space) * size % TSR_BUFFER_ALIGN_BYTES == 0;
}

bool tsr_view_streams_shifted(const tsr_tile_group *group, const tsr_view *view,
                              const tsr_space *space, uint32_t lanes) {
    enum { ROW_BYTES_MIN = 3072 }; /* too many lines of shorter rows belong to two rows */
    int64_t size = (int64_t)tsr_dtype_size(view->dtype);
    return !group->b.target->warp_lanes && is_large(view, space, lanes) &&
           !tsr_view_streams(view, space, lanes) &&
           space->dims[space->rank - 1] * size >= ROW_BYTES_MIN;
}

void tsr_region_store(tsr_region *region, const tsr_view *outputs, const tsr_point *point) {
    tsr_tile_builder *b = &region->group->b;
    for (uint32_t i = 0; i < region->result_count; i++) {
        MlirValue value = tsr_node_value(region, region->results[i], point);
        MlirValue offset = tsr_point_offset(b, point, &outputs[i]);
        if (outputs[i].streamed && point->lanes && mlirValueIsNull(point->mask))
            tsr_tile_store_streamed(b, outputs[i].dtype, value, outputs[i].buffer, offset);
        else if (outputs[i].stored)
            tsr_tile_store_stored(b, value, outputs[i].buffer, offset, point->mask);
        else
            tsr_tile_store(b, outputs[i].dtype, value, outputs[i].buffer, offset, point->mask);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

enum {
    BLOCKED_BYTES = 16,     /* bytes that a lane moves at a time */
    BLOCKED_VIEWS_MAX = 12, /* each takes registers of every lane */
};

/* Adjacent parts of a tensor are aligned if their size is. */
static bool is_even(const tsr_view *view, const tsr_space *space, int64_t columns) {
    uint32_t last = space->rank - 1;
    if (view->strides[last] != 1 || view->offset % TSR_BLOCKED_RUN) return false;
    for (uint32_t d = 0; d < last; d++)
        if (view->strides[d] % TSR_BLOCKED_RUN) return false;
    return columns * (int64_t)tsr_dtype_size(view->dtype) % BLOCKED_BYTES == 0;
}

bool tsr_region_may_block(const tsr_region *region, const tsr_view *outputs, const tsr_space *space,
                          int64_t columns) {
    uint32_t views = region->result_count, last = space->rank - 1;
    if (!space->rank || region->group->b.target->warp_lanes != 32) return false;
    for (uint32_t i = 0; i < region->node_count; i++) {
        const tsr_node *node = region->nodes[i];
        bool moves = node->kind == TSR_NODE_VIEW || node->kind == TSR_NODE_IOTA;
        if (!moves || !node->view.strides[last]) continue;
        /* A lane that computes its own index would need the permuted order. */
        if (node->kind == TSR_NODE_IOTA || !is_even(&node->view, space, columns)) return false;
        views++;
    }
    for (uint32_t i = 0; i < region->result_count; i++)
        if (!is_even(&outputs[i], space, columns)) return false;
    return views <= BLOCKED_VIEWS_MAX;
}

static void emit_vector(const tsr_map_run *run, tsr_point *point, MlirValue column,
                        MlirValue mask) {
    point->lanes = run->lanes;
    point->mask = mask;
    point->index[point->space->rank - 1] = column;
    tsr_region_emit(run->region, 2, point);
    tsr_region_store(run->region, run->outputs, point);
}

void tsr_map_run_emit(const tsr_map_run *run, const tsr_point *line, MlirValue begin,
                      MlirValue count) {
    tsr_tile_builder *b = &run->region->group->b;
    tsr_point point = *line;
    if (run->shifted) {
        point.index[line->space->rank - 1] = begin;
        MlirValue at = tsr_point_offset(b, &point, run->shifted);
        MlirValue head = tsr_tile_until_aligned(b, run->shifted->buffer, at);
        head = tsr_tile_min(b, head, count);
        emit_vector(run, &point, begin, tsr_tile_mask(b, head, run->lanes));
        begin = tsr_tile_add(b, begin, head);
        count = tsr_tile_sub(b, count, head);
    }
    MlirValue tail = tsr_tile_rem(b, count, run->lanes);
    MlirValue whole = tsr_tile_sub(b, count, tail);
    if (run->loops) {
        TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), whole, run->lanes) {
            emit_vector(run, &point, tsr_tile_add(b, begin, loop.index), tsr_tile_null);
        }
    }
    if (!run->tails && !run->shifted) return;
    MlirValue rest = tsr_tile_add(b, begin, whole);
    /* Only if there is a tail: it takes longer than a whole vector. */
    tsr_tile_loop once;
    if (run->blocked) tsr_tile_loop_begin(b, &once, whole, count, run->lanes, 0, NULL);
    emit_vector(run, &point, rest, tsr_tile_mask(b, tail, run->lanes));
    if (run->blocked) tsr_tile_loop_end(b, &once, NULL);
}
