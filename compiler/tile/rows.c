/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `rows`: reductions over the same last dims, and elementwise ops before, between and
 * after them (compiler/schedule/rows.h), row by row. A row is read from memory once and stays in
 * cache while it is gone over again.
 *
 * A value is constant along a row (level 0 or 1: a scalar) or not (level 2). Its stage is the
 * number of reductions, one behind the other, that it waits for. For each stage: its scalars, then
 * one walk over the row that accumulates the stage's reductions and stores its results. What a
 * later stage needs again is computed again where that is cheap; else it is kept in a buffer as
 * long as a row, or read back from the result that it is.
 *
 * Reductions have 64 partial results, as in reduce.c: fusing changes no bit. With native numerics
 * they have as many as a vector has elements; where a row is a few vectors, the lanes of a GPU hold
 * it; and where all results have 16 bits, exponentials are the unit's approximations.
 */
#include "compiler/tile/reduce.h"

#include <string.h>

enum {
    LOCAL_BYTES_MAX = 192 * 1024,
    HELD_ELEMENTS_MAX = 4096, /* of all that lanes hold, 128 each */
    HELD_REGISTERS = 168,     /* of a lane then: 12 warps on a multiprocessor */
    FEW_ELEMENTS = 2048,
    FEW_REGISTERS = 128,                                  /* 16 warps */
    CHUNKS_MAX = HELD_ELEMENTS_MAX / TSR_SPREAD_ELEMENTS, /* vectors of a row that is held */
    CHEAP = 3,                                            /* ops that are rather done again */
};

typedef enum item_kind { ITEM_LEAF, ITEM_OP, ITEM_SAME, ITEM_REDUCE } item_kind;

typedef struct item {
    tsr_node node; /* LEAF: VIEW, SPLAT or PLACE; else its op and dtype */
    item_kind kind;
    bool over_kept; /* a view over the kept dims alone */
    struct item *operands[TSR_ELEMENT_OPERANDS_MAX];
    uint32_t operand_count, level, stage;
    bool kept;        /* for later stages */
    MlirValue buffer; /* of what is kept; null: none */
    bool in_result;   /* buffer is a result, read at the row's place */
    bool held;        /* by lanes, all of the row: for later stages */
    MlirValue chunks[CHUNKS_MAX];
    uint32_t asked;   /* bits of the stages that ask for it */
    MlirValue scalar; /* levels 0 and 1, and reductions */
    MlirValue vector; /* level 2, in the walk `walk` */
    uint32_t walk;
    tsr_partials partials; /* REDUCE, during its walk */
    tsr_reduction rules;   /* REDUCE */
} item;

typedef struct rows {
    tsr_tile_group *group;
    tsr_space space; /* the kept dims, then one of all columns */
    tsr_shape full, kept_shape;
    uint32_t trailing;
    int64_t row_count, columns;
    item **items; /* operands before users */
    uint32_t item_count, item_capacity;
    item **results;
    tsr_view *outputs;
    bool *whole_rows; /* by output: one element per column */
    uint32_t stage_count, prefetch_stage, walk;
    int64_t local_bytes, held_elements; /* held: most at a time, counted as f32 */
    bool holds;     /* the row is gone over without a loop; what later stages need, lanes hold */
    uint32_t chunk; /* of it, in the walk */
    tsr_point point;
} rows;

/* ---- reading --------------------------------------------------------------------------------- */

static tsr_result new_item(rows *r, item_kind kind, MlirValue source, item **out_item) {
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

static item *find_item(const rows *r, MlirValue source, bool over_kept) {
    for (uint32_t i = 0; i < r->item_count; i++)
        if (mlirValueEqual(r->items[i]->node.source, source) &&
            (r->items[i]->kind != ITEM_LEAF || r->items[i]->over_kept == over_kept))
            return r->items[i];
    return NULL;
}

/* Strides over the kept dims, then over the columns. */
static void init_view(const rows *r, tsr_view *view, tsr_dtype dtype, MlirValue buffer,
                      const tsr_shape *shape, bool over_kept) {
    tsr_space whole = {.rank = over_kept ? r->kept_shape.rank : r->full.rank};
    const tsr_shape *dims = over_kept ? &r->kept_shape : &r->full;
    tsr_view plain;
    for (uint32_t d = 0; d < whole.rank; d++) whole.dims[d] = (int64_t)dims->dims[d];
    tsr_view_init(&plain, dtype, buffer, shape, &whole, NULL);
    *view = (tsr_view){.dtype = dtype, .buffer = buffer};
    for (uint32_t d = 0; d < r->kept_shape.rank; d++) view->strides[d] = plain.strides[d];
    bool moves = false;
    for (uint32_t d = r->kept_shape.rank; d < whole.rank; d++) moves |= plain.strides[d] != 0;
    view->strides[r->kept_shape.rank] = moves;
}

static tsr_result add_leaf(rows *r, MlirValue source, bool over_kept, item **out_item) {
    tsr_tile_group *group = r->group;
    item *leaf = find_item(r, source, over_kept);
    tsr_type type;
    *out_item = leaf;
    if (leaf) return TSR_SUCCESS;
    TRY(group->ctx, new_item(r, ITEM_LEAF, source, &leaf));
    bool known = tsr_value_type(source, &type);
    TSR_ASSERT(known);
    leaf->over_kept = over_kept;
    *out_item = leaf;
    MlirValue buffer = tsr_tile_null;
    if (mlirOperationIsNull(leaf->node.op)) {
        leaf->node.kind = TSR_NODE_VIEW;
        buffer = group->buffers[mlirBlockArgumentGetArgNumber(source)];
    } else if (tsr_op_is(leaf->node.op, "tessera.iota")) {
        int64_t axis = 0;
        if (!tsr_op_i64(leaf->node.op, "axis", &axis))
            FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed iota", group->name);
        for (uint32_t d = 0; d < type.shape.rank; d++)
            if (d != axis) type.shape.dims[d] = 1;
        leaf->node.kind = TSR_NODE_PLACE;
    } else {
        MlirAttribute value = tsr_op_attr(leaf->node.op, "value");
        if (!mlirAttributeIsADenseElements(value) || !mlirDenseElementsAttrIsSplat(value))
            FAIL(group->ctx, TSR_INTERNAL, "'%s' holds a constant of many values", group->name);
        leaf->node.kind = TSR_NODE_SPLAT;
        return TSR_SUCCESS;
    }
    init_view(r, &leaf->node.view, type.dtype, buffer, &type.shape, over_kept);
    return TSR_SUCCESS;
}

static bool is_leaf(MlirValue value) {
    MlirOperation owner = tsr_value_owner(value);
    return mlirOperationIsNull(owner) || tsr_op_is(owner, "tessera.constant") ||
           tsr_op_is(owner, "tessera.iota");
}

static tsr_result add_op(rows *r, MlirOperation op) {
    tsr_tile_group *group = r->group;
    const tsr_reduction_op *reduction = tsr_reduction_op_of(op);
    bool same = tsr_op_is(op, "tessera.reshape");
    size_t count = tsr_op_operand_count(op);
    item *made = NULL, *operands[TSR_ELEMENT_OPERANDS_MAX] = {NULL};
    if ((!reduction && !same && !tsr_element_is(op)) || count > TSR_ELEMENT_OPERANDS_MAX)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': %s has no place in rows", group->name,
             tsr_op_name(op));
    for (size_t i = 0; i < count; i++) {
        MlirValue operand = tsr_op_operand(op, i);
        tsr_type from, to;
        bool known = tsr_value_type(operand, &from) && tsr_value_type(tsr_op_result(op, 0), &to);
        TSR_ASSERT(known);
        /* A reshape reads the shape it has; others read over the shape of their result. */
        uint32_t rank = same ? from.shape.rank : to.shape.rank;
        bool over_kept = !reduction && rank != r->full.rank;
        if (is_leaf(operand))
            TRY(group->ctx, add_leaf(r, operand, over_kept, &operands[i]));
        else
            operands[i] = find_item(r, operand, false);
        TSR_ASSERT(operands[i]);
    }
    TRY(group->ctx, new_item(r,
                             reduction ? ITEM_REDUCE
                             : same    ? ITEM_SAME
                                       : ITEM_OP,
                             tsr_op_result(op, 0), &made));
    made->operand_count = (uint32_t)count;
    memcpy(made->operands, operands, sizeof operands);
    if (!reduction) return TSR_SUCCESS;
    made->rules = (tsr_reduction){
        .group = group, .dtype = tsr_tile_compute_dtype(operands[0]->node.dtype), .op = reduction};
    return TSR_SUCCESS;
}

/* The shape reduced, from the first reduction. */
static tsr_result read_shapes(rows *r) {
    tsr_tile_group *group = r->group;
    TSR_FOR_EACH_OP(op, group->body) {
        tsr_type from, to;
        if (!tsr_reduction_op_of(op)) continue;
        bool known = tsr_value_type(tsr_op_operand(op, 0), &from) &&
                     tsr_value_type(tsr_op_result(op, 0), &to);
        TSR_ASSERT(known);
        r->full = from.shape;
        r->kept_shape = to.shape;
        r->trailing = from.shape.rank - to.shape.rank;
        break;
    }
    if (!r->trailing) FAIL(group->ctx, TSR_INTERNAL, "'%s' reduces nothing", group->name);
    r->row_count = r->columns = 1;
    r->space.rank = r->kept_shape.rank + 1;
    for (uint32_t d = 0; d < r->full.rank; d++) {
        int64_t size = (int64_t)r->full.dims[d];
        bool kept = d < r->kept_shape.rank;
        *(kept ? &r->row_count : &r->columns) *= size;
        if (kept) r->space.dims[d] = size;
    }
    r->space.dims[r->kept_shape.rank] = r->columns;
    return TSR_SUCCESS;
}

static tsr_result read_results(rows *r) {
    tsr_tile_group *group = r->group;
    for (uint32_t i = 0; i < group->output_count; i++) {
        const tsr_type *type = &group->types[group->input_count + i];
        bool over_kept = type->shape.rank != r->full.rank;
        r->results[i] = find_item(r, group->returned[i], over_kept);
        TSR_ASSERT(r->results[i]);
        init_view(r, &r->outputs[i], type->dtype, group->buffers[group->input_count + i],
                  &type->shape, over_kept);
        r->whole_rows[i] = !over_kept && tsr_shape_equal(&type->shape, &r->full);
    }
    return TSR_SUCCESS;
}

static tsr_result read(rows *r) {
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
    return read_results(r);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void find_stages(rows *r) {
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->kind == ITEM_LEAF) {
            bool view = it->node.kind != TSR_NODE_SPLAT;
            it->level = view && it->node.view.strides[r->kept_shape.rank] ? 2 : 1;
        }
        for (uint32_t k = 0; k < it->operand_count; k++) {
            const item *operand = it->operands[k];
            it->level = most(it->level, operand->level);
            it->stage = most(it->stage, operand->stage + (operand->kind == ITEM_REDUCE));
        }
        if (it->kind == ITEM_REDUCE) it->level = 1;
    }
    for (uint32_t i = 0; i < r->item_count; i++)
        r->stage_count = most(r->stage_count, r->items[i]->stage + 1);
    r->prefetch_stage = r->stage_count > 1 ? 1 : 0;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->kind == ITEM_REDUCE)
            r->prefetch_stage = most(r->prefetch_stage, r->items[i]->stage);
}

static bool is_cheap(MlirOperation op) {
    static const char *const names[] = {"add", "sub",  "mul",     "max",   "min",  "neg",
                                        "abs", "relu", "compare", "where", "cast", "broadcast",
                                        "and", "or",   "xor",     "not",   "sign", "clamp"};
    const char *name = tsr_op_name(op) + strlen("tessera.");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Would computing it again, down to leaves and what is kept, take more than a few cheap ops? */
static uint32_t work_of(const item *it) {
    uint32_t work = 0;
    if (it->level < 2 || it->kind == ITEM_LEAF || it->kept) return 0;
    for (uint32_t k = 0; k < it->operand_count; k++) work += work_of(it->operands[k]);
    work += it->kind == ITEM_OP && !is_cheap(it->node.op) ? 8 : 1;
    return work < 1000 ? work : 1000;
}

static bool is_result_in_full(rows *r, const item *it, uint32_t *out_output) {
    for (uint32_t i = 0; i < r->group->output_count; i++) {
        if (r->results[i] != it || !r->whole_rows[i] || tsr_dtype_is_narrow(it->node.dtype))
            continue;
        *out_output = i;
        return true;
    }
    return false;
}

/* Whatever is as long as a row is walked in whole vectors of at least so many lanes. */
static bool streams(const rows *r, uint32_t output) {
    uint32_t lanes = r->group->b.target->vector_bytes / 4;
    return tsr_view_streams(&r->outputs[output], &r->space, lanes > 16 ? lanes : 16);
}

static void keep(rows *r, item *it) {
    tsr_tile_builder *b = &r->group->b;
    tsr_dtype dtype = tsr_tile_compute_dtype(it->node.dtype);
    uint32_t output = 0;
    if (is_result_in_full(r, it, &output) && !streams(r, output)) {
        it->kept = it->in_result = true;
        it->buffer = r->outputs[output].buffer;
        it->node.view = r->outputs[output];
        return;
    }
    int64_t bytes = r->columns * (int64_t)tsr_dtype_size(dtype);
    if (bytes > LOCAL_BYTES_MAX - r->local_bytes) return;
    r->local_bytes += bytes;
    it->kept = true;
    it->buffer = tsr_tile_local(b, tsr_tile_storage_type(b, dtype), r->columns);
}

static void find_kept(rows *r) {
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        bool later = false;
        for (uint32_t u = 0; u < r->item_count; u++)
            for (uint32_t k = 0; k < r->items[u]->operand_count; k++)
                later |= r->items[u]->operands[k] == it && r->items[u]->stage > it->stage;
        if (it->kind == ITEM_OP && it->level == 2 && later && work_of(it) > CHEAP) keep(r, it);
    }
}

/* What is read of 16 bits is held so, and widened in each stage anew. */
static bool is_packed(const item *it) {
    return it->kind == ITEM_LEAF && tsr_dtype_is_narrow(it->node.dtype);
}

/* What operands of `it` are asked for in: the stages it is computed in. */
static void ask_operands(const item *it, uint32_t stages) {
    for (uint32_t k = 0; k < it->operand_count; k++)
        if (it->operands[k]->level == 2) it->operands[k]->asked |= stages;
}

/* Room for it from the first stage it is asked for in to the last one? */
static bool take_room(rows *r, const item *it, int64_t *room) {
    uint32_t first = (uint32_t)__builtin_ctz(it->asked);
    uint32_t last = 31U - (uint32_t)__builtin_clz(it->asked);
    int64_t size = is_packed(it) ? r->columns / 2 : r->columns;
    for (uint32_t s = first; s < last; s++)
        if (room[s] < size) return false;
    for (uint32_t s = first; s < last; s++) {
        room[s] -= size;
        if (HELD_ELEMENTS_MAX - room[s] > r->held_elements)
            r->held_elements = HELD_ELEMENTS_MAX - room[s];
    }
    return first < last;
}

/* Lanes hold of a row what is costly to compute again, and what is read, while there is room. */
static void find_held(rows *r) {
    enum { STAGES_MAX = 31 };
    int64_t room[STAGES_MAX];
    for (uint32_t s = 0; s < STAGES_MAX; s++) room[s] = HELD_ELEMENTS_MAX;
    for (uint32_t i = 0; i < r->group->output_count; i++)
        if (r->whole_rows[i]) r->results[i]->asked |= 1U << r->results[i]->stage;
    for (uint32_t i = r->item_count; i-- > 0;) {
        item *it = r->items[i];
        bool read = it->kind == ITEM_LEAF && it->node.kind == TSR_NODE_VIEW;
        if (it->kind == ITEM_REDUCE) ask_operands(it, 1U << it->stage);
        if (it->level < 2 || !it->asked) continue;
        bool costly = it->kind == ITEM_OP && work_of(it) > CHEAP;
        it->held = (read || costly) && take_room(r, it, room);
        ask_operands(it, it->held ? 1U << (uint32_t)__builtin_ctz(it->asked) : it->asked);
    }
}

/* ---- emission -------------------------------------------------------------------------------- */

static MlirValue load_kept(rows *r, const item *it) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    tsr_dtype dtype = tsr_tile_compute_dtype(it->node.dtype);
    MlirValue at =
        it->in_result ? tsr_point_offset(b, &r->point, &it->node.view) : r->point.index[last];
    return tsr_tile_load(b, dtype, it->buffer, at, r->point.lanes, r->point.mask);
}

static MlirValue leaf_value(rows *r, const item *it, const tsr_point *point) {
    tsr_tile_builder *b = &r->group->b;
    if (it->node.kind == TSR_NODE_SPLAT) return tsr_splat_value(b, &it->node);
    if (it->node.kind == TSR_NODE_PLACE) return tsr_place_value(b, &it->node, point);
    return tsr_tile_load(b, it->node.dtype, it->node.view.buffer,
                         tsr_point_offset(b, point, &it->node.view), point->lanes, point->mask);
}

static MlirValue packed_value(rows *r, item *it, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue *chunk = &it->chunks[r->chunk];
    bool first = mlirValueIsNull(*chunk);
    if (first)
        *chunk = tsr_tile_load_stored(b, it->node.dtype, it->node.view.buffer,
                                      tsr_point_offset(b, &r->point, &it->node.view),
                                      r->point.lanes, tsr_tile_null);
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_F32, r->point.lanes);
    tsr_attr attrs[] = {{TSR_AGAIN_NAME, tsr_attr_make_i64(b->at.context, stage)}, {0}};
    return tsr_build_value(&b->at, "arith.extf", chunk, 1, type, first ? NULL : attrs);
}

/* The value at the point of the walk. */
static MlirValue value_of(rows *r, item *it, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    if (it->level < 2) return tsr_tile_splat(b, it->scalar, r->point.lanes);
    if (it->walk == r->walk) return it->vector;
    it->walk = r->walk;
    if (it->held && is_packed(it)) {
        it->vector = packed_value(r, it, stage);
    } else if (it->held && !mlirValueIsNull(it->chunks[r->chunk])) {
        it->vector = it->chunks[r->chunk];
    } else if (it->kept && it->stage < stage) {
        it->vector = load_kept(r, it);
    } else if (it->kind == ITEM_LEAF) {
        it->vector = leaf_value(r, it, &r->point);
    } else {
        MlirValue operands[TSR_ELEMENT_OPERANDS_MAX];
        for (uint32_t k = 0; k < it->operand_count; k++)
            operands[k] = value_of(r, it->operands[k], stage);
        it->vector =
            it->kind == ITEM_SAME ? operands[0] : tsr_element_build(b, it->node.op, operands);
    }
    if (it->held && !is_packed(it)) it->chunks[r->chunk] = it->vector;
    return it->vector;
}

static void emit_scalars(rows *r, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    tsr_point point = r->point;
    point.lanes = 0;
    point.mask = point.index[r->space.rank - 1] = tsr_tile_null;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        MlirValue operands[TSR_ELEMENT_OPERANDS_MAX];
        if (it->level == 2 || it->stage != stage || it->kind == ITEM_REDUCE) continue;
        for (uint32_t k = 0; k < it->operand_count; k++) operands[k] = it->operands[k]->scalar;
        it->scalar = it->kind == ITEM_LEAF   ? leaf_value(r, it, &point)
                     : it->kind == ITEM_SAME ? operands[0]
                                             : tsr_element_build(b, it->node.op, operands);
    }
}

static void store_result(rows *r, uint32_t output, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    const tsr_view *view = &r->outputs[output];
    MlirValue value = value_of(r, r->results[output], stage);
    MlirValue at = tsr_point_offset(b, &r->point, view);
    if (mlirValueIsNull(r->point.mask) && streams(r, output))
        tsr_tile_store_streamed(b, view->dtype, value, view->buffer, at);
    else
        tsr_tile_store(b, view->dtype, value, view->buffer, at, r->point.mask);
}

/* The row after this one, into the caches: while this one is gone over for the
 * last time but one, memory has nothing to do. */
static void prefetch(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t kept = r->kept_shape.rank;
    for (uint32_t i = 0; i < r->item_count; i++) {
        const item *it = r->items[i];
        if (it->kind != ITEM_LEAF || it->node.kind != TSR_NODE_VIEW || it->level < 2) continue;
        const tsr_view *view = &it->node.view;
        int64_t bytes = r->row_count * r->columns * (int64_t)tsr_dtype_size(view->dtype);
        if (!kept || !view->strides[kept - 1] || bytes < TSR_PREFETCH_BYTES_MIN) continue;
        MlirValue at = tsr_point_offset(b, &r->point, view);
        tsr_tile_prefetch_vector(b, view->dtype, view->buffer,
                                 tsr_tile_offset(b, at, view->strides[kept - 1]), r->point.lanes);
    }
}

/* One vector of the walk: `part` of the partial results. */
static void visit(rows *r, uint32_t stage, uint32_t part) {
    tsr_tile_builder *b = &r->group->b;
    r->walk++;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->stage != stage) continue;
        if (it->kind == ITEM_REDUCE) {
            MlirValue value = value_of(r, it->operands[0], stage), *to = &it->partials.values[part];
            if (!mlirValueIsNull(r->point.mask))
                value = tsr_tile_select(b, r->point.mask, value,
                                        tsr_reduction_identity(&it->rules, r->point.lanes));
            *to = tsr_reduction_combine(&it->rules, *to, value);
        } else if (it->kept && !it->in_result) {
            tsr_tile_store(b, tsr_tile_compute_dtype(it->node.dtype), value_of(r, it, stage),
                           it->buffer, r->point.index[r->space.rank - 1], r->point.mask);
        }
    }
    for (uint32_t i = 0; i < r->group->output_count; i++)
        if (r->whole_rows[i] && r->results[i]->stage == stage) store_result(r, i, stage);
    if (stage == r->prefetch_stage && !r->holds) prefetch(r);
}

static uint32_t count_reductions(const rows *r, uint32_t stage) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->item_count; i++)
        count += r->items[i]->kind == ITEM_REDUCE && r->items[i]->stage == stage;
    return count;
}

/* So many that what is read and summed up fits the registers of a thread. */
static uint32_t native_lanes(const rows *r) {
    enum { FEW = 5, SOME = 8 };
    uint32_t vectors = 0;
    for (uint32_t i = 0; i < r->item_count; i++)
        vectors += r->items[i]->kind == ITEM_REDUCE ||
                   (r->items[i]->kind == ITEM_LEAF && r->items[i]->level == 2);
    return (uint32_t)TSR_NATIVE_LANES / (vectors <= FEW ? 1U : vectors <= SOME ? 2U : 4U);
}

/* Lanes of all partial results of a stage, and of the vectors it goes in: two
 * registers, more where there would be too many. */
static uint32_t lanes_of(const rows *r, uint32_t stage, uint32_t *out_lanes) {
    uint32_t reductions = count_reductions(r, stage), width = 4;
    for (uint32_t i = 0; i < r->item_count; i++)
        width =
            most(width, (uint32_t)tsr_dtype_size(tsr_tile_compute_dtype(r->items[i]->node.dtype)));
    if (r->holds) return *out_lanes = TSR_SPREAD_ELEMENTS;
    if (r->group->is_native && width == 4) /* a GPU's: many loads are on their way at a time */
        return *out_lanes = tsr_lanes_fit(native_lanes(r), r->columns);
    uint32_t lanes = reductions ? tsr_lanes_in_flight(&r->group->b, width)
                                : 2 * r->group->b.target->vector_bytes / width;
    uint32_t all = tsr_lanes_fit(reductions ? TSR_PARTIALS : lanes, r->columns);
    if (lanes > all) lanes = all;
    while (all / lanes * reductions > TSR_PARTIAL_VECTORS_MAX && lanes < all) lanes *= 2;
    *out_lanes = lanes;
    return all;
}

/* A GPU's lanes can hold the row: it is a few whole vectors of f32. */
static bool may_hold(const rows *r) {
    if (!r->group->is_native || r->stage_count > 8 || r->columns > HELD_ELEMENTS_MAX ||
        r->columns % TSR_SPREAD_ELEMENTS)
        return false;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (tsr_dtype_size(tsr_tile_compute_dtype(r->items[i]->node.dtype)) > 4) return false;
    return true;
}

static bool has_walk(const rows *r, uint32_t stage) {
    for (uint32_t i = 0; i < r->group->output_count; i++)
        if (r->whole_rows[i] && r->results[i]->stage == stage) return true;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->stage == stage &&
            (r->items[i]->kind == ITEM_REDUCE || (r->items[i]->kept && !r->items[i]->in_result)))
            return true;
    return false;
}

/* The partial results of the stage's reductions to `values`, or from them. */
static uint32_t carry(rows *r, uint32_t stage, MlirValue *values, bool from) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->kind != ITEM_REDUCE || it->stage != stage) continue;
        size_t size = it->partials.count * sizeof *values;
        TSR_ASSERT(count + it->partials.count <= TSR_TILE_CARRIED_MAX);
        if (from)
            memcpy(it->partials.values, values + count, size);
        else
            memcpy(values + count, it->partials.values, size);
        count += it->partials.count;
    }
    return count;
}

static void walk(rows *r, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t lanes, all = lanes_of(r, stage, &lanes), last = r->space.rank - 1;
    int64_t whole = r->columns - r->columns % all;
    MlirValue carried[TSR_TILE_CARRIED_MAX];
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->kind == ITEM_REDUCE && r->items[i]->stage == stage)
            tsr_partials_init(&r->items[i]->rules, all, lanes, &r->items[i]->partials);
    r->point.lanes = lanes;
    r->point.mask = tsr_tile_null;
    for (r->chunk = 0; r->holds && r->chunk < whole / lanes; r->chunk++) {
        r->point.index[last] = tsr_tile_index(b, (int64_t)r->chunk * lanes);
        visit(r, stage, r->chunk % (all / lanes));
    }
    if (whole && !r->holds) {
        tsr_tile_loop loop;
        uint32_t count = carry(r, stage, carried, false);
        tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), all, count,
                            carried);
        carry(r, stage, loop.carried, true);
        for (uint32_t part = 0; part < all / lanes; part++) {
            r->point.index[last] = tsr_tile_offset(b, loop.index, part * lanes);
            visit(r, stage, part);
        }
        carry(r, stage, carried, false);
        tsr_tile_loop_end(b, &loop, carried);
        carry(r, stage, loop.carried, true);
    }
    for (uint32_t part = 0; whole + (int64_t)(part * lanes) < r->columns; part++) {
        int64_t begin = whole + (int64_t)(part * lanes), left = r->columns - begin;
        r->point.index[last] = tsr_tile_index(b, begin);
        r->point.mask = left < (int64_t)lanes ? tsr_tile_mask(b, tsr_tile_index(b, left), lanes)
                                              : tsr_tile_null;
        visit(r, stage, part);
    }
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->kind != ITEM_REDUCE || it->stage != stage) continue;
        MlirValue result = tsr_partials_tree(&it->rules, &it->partials);
        it->scalar = tsr_tile_round(b, it->node.dtype, result);
    }
}

static void emit_row(rows *r, MlirValue row) {
    tsr_tile_builder *b = &r->group->b;
    bool outer[TSR_RANK_MAX] = {false};
    uint32_t last = r->space.rank - 1;
    for (uint32_t d = 0; d < last; d++) outer[d] = true;
    tsr_point_unflatten(b, &r->point, outer, row);
    for (uint32_t i = 0; i < r->item_count; i++)
        memset(r->items[i]->chunks, 0, sizeof r->items[i]->chunks);
    for (uint32_t stage = 0; stage < r->stage_count; stage++) {
        emit_scalars(r, stage);
        if (has_walk(r, stage)) walk(r, stage);
    }
    tsr_point point = r->point;
    point.lanes = 0;
    point.mask = point.index[last] = tsr_tile_null;
    for (uint32_t i = 0; i < r->group->output_count; i++)
        if (!r->whole_rows[i])
            tsr_tile_store(b, r->outputs[i].dtype, r->results[i]->scalar, r->outputs[i].buffer,
                           tsr_point_offset(b, &point, &r->outputs[i]), tsr_tile_null);
}

/* Do all vectors along a row begin where 8 of its elements do, and does none count its places? */
static bool may_spread(const rows *r) {
    uint32_t last = r->space.rank - 1;
    for (uint32_t i = 0; i < r->item_count + r->group->output_count; i++) {
        bool is_output = i >= r->item_count;
        const item *it = is_output ? NULL : r->items[i];
        if (is_output && !r->whole_rows[i - r->item_count]) continue;
        if (it && (it->kind != ITEM_LEAF || it->level < 2)) continue;
        if (it && it->node.kind != TSR_NODE_VIEW) return false;
        const tsr_view *view = it ? &it->node.view : &r->outputs[i - r->item_count];
        size_t size = tsr_dtype_size(view->dtype);
        if (view->strides[last] != 1 || view->offset % TSR_SPREAD_RUN ||
            !tsr_dtype_is_float(view->dtype) || (size != 2 && size != 4))
            return false;
        for (uint32_t d = 0; d < last; d++)
            if (view->strides[d] % TSR_SPREAD_RUN) return false;
    }
    return true;
}

static bool is_narrow(const rows *r) {
    for (uint32_t i = 0; i < r->group->output_count; i++)
        if (!tsr_dtype_is_narrow(r->outputs[i].dtype)) return false;
    return true;
}

tsr_result tsr_tile_lower_rows(tsr_tile_group *group) {
    rows r = {.group = group};
    TRY(group->ctx, read(&r));
    if (!r.row_count) return TSR_SUCCESS;
    r.point.space = &r.space;
    find_stages(&r);
    r.holds = may_hold(&r);
    if (r.holds) {
        find_held(&r);
        group->registers = r.held_elements <= FEW_ELEMENTS ? FEW_REGISTERS : HELD_REGISTERS;
    } else {
        find_kept(&r);
    }
    int64_t bytes = 1;
    for (uint32_t i = 0; i < r.item_count; i++)
        if (r.items[i]->level == 2) bytes += r.columns * (r.items[i]->kind == ITEM_LEAF ? 4 : 1);
    tsr_reduction any = {.group = group};
    tsr_tile_loop loop;
    tsr_reduction_programs(&any, r.row_count, bytes, &loop);
    emit_row(&r, loop.index);
    tsr_tile_loop_end(&group->b, &loop, NULL);
    if (group->is_native && is_narrow(&r)) tsr_tile_approximate(&group->b, group->b.at.block);
    if (group->is_native && may_spread(&r)) tsr_tile_spread(&group->b, group->b.at.block);
    return TSR_SUCCESS;
}
