/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `reduce`: sum, product, max, min over some dimensions, in 64 partial results whose
 * order does not depend on how the reduced elements lie in memory.
 *
 * Where the last dimension is reduced, a vector of 64 lanes walks along it: lane = partial result.
 * Otherwise vectors go along the last, kept dimension, and the partial results lie in a local
 * buffer.
 */
#include "compiler/tile/reduce.h"

enum { PROGRAM_BYTES = 16 * 1024, COLUMN_BYTES = 256 };

/* ---- shared ---------------------------------------------------------------------------------- */

const tsr_reduction_op tsr_reduction_sum = {"tessera.sum", tsr_element_add, tsr_element_zero};
const tsr_reduction_op tsr_reduction_max = {"tessera.reduce_max", tsr_element_max,
                                            tsr_element_lowest};
static const tsr_reduction_op min = {"tessera.reduce_min", tsr_element_min, tsr_element_highest};
static const tsr_reduction_op prod = {"tessera.reduce_prod", tsr_element_mul, tsr_element_one};
static const tsr_reduction_op *const ops[] = {&tsr_reduction_sum, &tsr_reduction_max, &min, &prod};

const tsr_reduction_op *tsr_reduction_op_of(MlirOperation op) {
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (tsr_op_is(op, ops[i]->name)) return ops[i];
    return NULL;
}

static tsr_result read_space(tsr_reduction *r) {
    tsr_tile_group *group = r->group;
    MlirOperation root = group->root;
    tsr_type type;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    bool known = tsr_value_type(tsr_op_operand(root, 0), &type);
    if (tsr_op_is(root, "tessera.argmax"))
        known = known && tsr_op_i64(root, "axis", &axes[count++]);
    else
        known = known && tsr_op_i64s(root, "axes", TSR_RANK_MAX, axes, &count);
    if (!known) FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed reduction", group->name);
    r->dtype = tsr_tile_compute_dtype(type.dtype);
    r->op = tsr_reduction_op_of(root);
    r->space.rank = type.shape.rank;
    for (uint32_t d = 0; d < type.shape.rank; d++) r->space.dims[d] = (int64_t)type.shape.dims[d];
    for (size_t i = 0; i < count; i++) {
        if (axes[i] < 0 || axes[i] >= type.shape.rank)
            FAIL(group->ctx, TSR_INTERNAL, "'%s': axis %lld of rank %u", group->name,
                 (long long)axes[i], type.shape.rank);
        r->space.reduced[axes[i]] = true;
    }
    return TSR_SUCCESS;
}

static void count_points(tsr_reduction *r) {
    if (!r->space.rank) r->space = (tsr_space){.rank = 1, .dims = {1}, .reduced = {true}};
    uint32_t last = r->space.rank - 1;
    r->kept_count = r->reduced_count = 1;
    r->along = r->space.reduced[last];
    for (uint32_t d = 0; d <= last; d++) {
        r->kept[d] = !r->space.reduced[d];
        r->outer[d] = r->kept[d] && d != last;
        *(r->kept[d] ? &r->kept_count : &r->reduced_count) *= r->space.dims[d];
        r->reduced_dims += r->space.reduced[d];
    }
}

tsr_result tsr_reduction_init(tsr_tile_group *group, tsr_reduction *out_reduction) {
    tsr_reduction r = {.group = group};
    MlirValue operand = tsr_op_operand(group->root, 0), result = tsr_op_result(group->root, 0);
    bool kept[TSR_RANK_MAX] = {false};
    TRY(group->ctx, read_space(&r));
    for (uint32_t d = 0; d < r.space.rank; d++) kept[d] = !r.space.reduced[d];
    r.outputs = TSR_NEW(group->arena, tsr_view, group->output_count);
    if (!r.outputs) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < group->output_count; i++) {
        const tsr_type *type = &group->types[group->input_count + i];
        tsr_view_init(&r.outputs[i], type->dtype, group->buffers[group->input_count + i],
                      &type->shape, &r.space, kept);
    }
    TRY(group->ctx, tsr_region_init(group, &operand, 1, tsr_tile_null, &r.space, NULL, &r.before));
    TRY(group->ctx, tsr_region_init(group, group->returned, group->output_count, result, &r.space,
                                    kept, &r.after));
    for (uint32_t i = 0; i < r.after.node_count; i++)
        if (r.after.nodes[i]->kind == TSR_NODE_GIVEN) r.given = r.after.nodes[i];
    if (!r.given) FAIL(group->ctx, TSR_INTERNAL, "'%s': unused reduction", group->name);
    tsr_region *regions[] = {&r.before, &r.after};
    tsr_space_collapse(&r.space, regions, 2, r.outputs, group->output_count);
    count_points(&r);
    *out_reduction = r;
    return TSR_SUCCESS;
}

MlirValue tsr_reduction_combine(tsr_reduction *r, MlirValue x, MlirValue y) {
    return r->op->combine(&r->group->b, r->dtype, x, y);
}

MlirValue tsr_reduction_identity(tsr_reduction *r, uint32_t lanes) {
    return r->op->identity(&r->group->b, r->dtype, lanes);
}

MlirValue tsr_reduction_tree(tsr_reduction *r, MlirValue partials, uint32_t lanes) {
    tsr_tile_builder *b = &r->group->b;
    for (uint32_t half = lanes / 2; half; half /= 2)
        partials = tsr_reduction_combine(r, tsr_tile_slice(b, partials, 0, half),
                                         tsr_tile_slice(b, partials, half, half));
    return tsr_tile_extract(b, partials, 0);
}

void tsr_reduction_finish(tsr_reduction *r, MlirValue result, const tsr_point *point) {
    r->given->value = tsr_tile_round(&r->group->b, r->given->dtype, result);
    tsr_region_emit(&r->after, 1, point);
    tsr_region_emit(&r->after, 2, point);
    tsr_region_store(&r->after, r->outputs, point);
}

void tsr_reduction_programs(tsr_reduction *r, int64_t count, int64_t bytes_per_item,
                            tsr_tile_loop *loop) {
    tsr_tile_builder *b = &r->group->b;
    int64_t items = bytes_per_item ? PROGRAM_BYTES / bytes_per_item : count;
    if (items < 1) items = 1;
    if (items > count) items = count;
    r->group->grid = (count + items - 1) / items;
    MlirValue begin = tsr_tile_index(b, 0), end = tsr_tile_index(b, count);
    if (r->group->grid > 1) {
        begin = tsr_tile_mul(b, tsr_tile_program_id(b), items);
        end = tsr_tile_min(b, tsr_tile_offset(b, begin, items), end);
    }
    tsr_tile_loop_begin(b, loop, begin, end, 1, 0, NULL);
}

/* ---- along the last dimension ---------------------------------------------------------------- */

/* One run of the last dimension into `partials`. */
static MlirValue reduce_run(tsr_reduction *r, const tsr_point *at, uint32_t lanes,
                            MlirValue partials) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    int64_t size = r->space.dims[last], whole = size - size % lanes;
    tsr_point point = *at;
    point.lanes = lanes;
    if (whole) {
        tsr_tile_loop loop;
        tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), lanes, 1,
                            &partials);
        point.index[last] = loop.index;
        tsr_region_emit(&r->before, 2, &point);
        MlirValue value = tsr_node_value(&r->before, r->before.results[0], &point);
        MlirValue next = tsr_reduction_combine(r, loop.carried[0], value);
        tsr_tile_loop_end(b, &loop, &next);
        partials = loop.carried[0];
    }
    if (size == whole) return partials;
    point.index[last] = tsr_tile_index(b, whole);
    point.mask = tsr_tile_mask(b, tsr_tile_index(b, size - whole), lanes);
    tsr_region_emit(&r->before, 2, &point);
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], &point);
    value = tsr_tile_select(b, point.mask, value, tsr_reduction_identity(r, lanes));
    return tsr_reduction_combine(r, partials, value);
}

/* Several reduced dimensions, the last a multiple of 64 long: lanes keep their partial result. */
static MlirValue reduce_runs(tsr_reduction *r, const tsr_point *at, MlirValue partials) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    bool others[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d < last; d++) others[d] = r->space.reduced[d];
    tsr_point point = *at;
    tsr_tile_loop loop;
    MlirValue runs = tsr_tile_index(b, r->reduced_count / r->space.dims[last]);
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), runs, 1, 1, &partials);
    tsr_point_unflatten(b, &point, others, loop.index);
    MlirValue next = reduce_run(r, &point, TSR_PARTIALS, loop.carried[0]);
    tsr_tile_loop_end(b, &loop, &next);
    return loop.carried[0];
}

/* Several reduced dimensions of any length: element by element. */
static MlirValue reduce_scattered(tsr_reduction *r, const tsr_point *at) {
    tsr_tile_builder *b = &r->group->b;
    MlirType type = tsr_tile_storage_type(b, r->dtype);
    MlirValue local = tsr_tile_local(b, type, TSR_PARTIALS), zero = tsr_tile_index(b, 0);
    tsr_tile_store(b, r->dtype, tsr_reduction_identity(r, TSR_PARTIALS), local, zero,
                   tsr_tile_null);
    tsr_point point = *at;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, zero, tsr_tile_index(b, r->reduced_count), 1, 0, NULL);
    tsr_point_unflatten(b, &point, r->space.reduced, loop.index);
    tsr_region_emit(&r->before, 2, &point);
    MlirValue slot = tsr_tile_rem(b, loop.index, TSR_PARTIALS);
    MlirValue partial = tsr_tile_load(b, r->dtype, local, slot, 0, tsr_tile_null);
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], &point);
    tsr_tile_store(b, r->dtype, tsr_reduction_combine(r, partial, value), local, slot,
                   tsr_tile_null);
    tsr_tile_loop_end(b, &loop, NULL);
    return tsr_tile_load(b, r->dtype, local, zero, TSR_PARTIALS, tsr_tile_null);
}

static void emit_along(tsr_reduction *r) {
    tsr_tile_builder *b = &r->group->b;
    tsr_point point = {.space = &r->space};
    bool none[TSR_RANK_MAX] = {false};
    uint32_t last = r->space.rank - 1, lanes = TSR_PARTIALS;
    tsr_region_levels(&r->before, &r->space, r->space.reduced);
    tsr_region_levels(&r->after, &r->space, none);
    if (r->reduced_count) tsr_region_emit(&r->before, 0, &point);
    tsr_region_emit(&r->after, 0, &point);
    tsr_tile_loop rows;
    int64_t bytes = tsr_region_bytes(&r->before, NULL, &r->space) * r->reduced_count;
    tsr_reduction_programs(r, r->kept_count, bytes, &rows);
    tsr_point_unflatten(b, &point, r->kept, rows.index);
    if (r->reduced_count) tsr_region_emit(&r->before, 1, &point);
    if (r->reduced_dims == 1) lanes = tsr_lanes_fit(lanes, r->space.dims[last]);
    MlirValue partials = tsr_reduction_identity(r, lanes);
    if (r->reduced_count && r->reduced_dims == 1)
        partials = reduce_run(r, &point, lanes, partials);
    else if (r->reduced_count && r->space.dims[last] % TSR_PARTIALS == 0)
        partials = reduce_runs(r, &point, partials);
    else if (r->reduced_count)
        partials = reduce_scattered(r, &point);
    tsr_reduction_finish(r, tsr_reduction_tree(r, partials, lanes), &point);
    tsr_tile_loop_end(b, &rows, NULL);
}

/* ---- across: the last dimension is kept ------------------------------------------------------ */

typedef struct columns {
    tsr_reduction *r;
    uint32_t lanes;
    MlirValue local; /* [partial][lane] */
    const tsr_point *point;
} columns;

static MlirValue load_partial(columns *c, MlirValue partial) {
    tsr_tile_builder *b = &c->r->group->b;
    return tsr_tile_load(b, c->r->dtype, c->local, tsr_tile_mul(b, partial, c->lanes), c->lanes,
                         tsr_tile_null);
}

static void store_partial(columns *c, MlirValue partial, MlirValue value) {
    tsr_tile_builder *b = &c->r->group->b;
    tsr_tile_store(b, c->r->dtype, value, c->local, tsr_tile_mul(b, partial, c->lanes),
                   tsr_tile_null);
}

static MlirValue element_at(columns *c, MlirValue flat) {
    tsr_reduction *r = c->r;
    tsr_point point = *c->point;
    tsr_point_unflatten(&r->group->b, &point, r->space.reduced, flat);
    tsr_region_emit(&r->before, 2, &point);
    return tsr_node_value(&r->before, r->before.results[0], &point);
}

static MlirValue reduce_columns(columns *c) {
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    int64_t count = r->reduced_count;
    int64_t live = count < TSR_PARTIALS ? count : TSR_PARTIALS;
    MlirValue zero = tsr_tile_index(b, 0), identity = tsr_reduction_identity(r, c->lanes);
    tsr_tile_loop loop, block;
    tsr_tile_loop_begin(b, &loop, zero, tsr_tile_index(b, live), 1, 0, NULL);
    MlirValue first = element_at(c, loop.index);
    store_partial(c, loop.index, tsr_reduction_combine(r, identity, first));
    tsr_tile_loop_end(b, &loop, NULL);
    if (count > TSR_PARTIALS) {
        MlirValue high = tsr_tile_index(b, count), full = tsr_tile_index(b, TSR_PARTIALS);
        tsr_tile_loop_begin(b, &block, full, high, TSR_PARTIALS, 0, NULL);
        MlirValue size = tsr_tile_min(b, full, tsr_tile_sub(b, high, block.index));
        tsr_tile_loop_begin(b, &loop, zero, size, 1, 0, NULL);
        MlirValue partial = load_partial(c, loop.index);
        MlirValue value = element_at(c, tsr_tile_add(b, block.index, loop.index));
        store_partial(c, loop.index, tsr_reduction_combine(r, partial, value));
        tsr_tile_loop_end(b, &loop, NULL);
        tsr_tile_loop_end(b, &block, NULL);
    }
    for (int64_t half = TSR_PARTIALS / 2; half; half /= 2) {
        if (live <= half) continue;
        tsr_tile_loop_begin(b, &loop, zero, tsr_tile_index(b, live - half), 1, 0, NULL);
        MlirValue low = load_partial(c, loop.index);
        MlirValue high = load_partial(c, tsr_tile_offset(b, loop.index, half));
        store_partial(c, loop.index, tsr_reduction_combine(r, low, high));
        tsr_tile_loop_end(b, &loop, NULL);
        live = half;
    }
    return load_partial(c, zero);
}

static void emit_across(tsr_reduction *r) {
    tsr_tile_builder *b = &r->group->b;
    tsr_point point = {.space = &r->space};
    uint32_t last = r->space.rank - 1, width = tsr_region_width(&r->before);
    bool inner[TSR_RANK_MAX] = {false}, column[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d <= last; d++) inner[d] = r->space.reduced[d] || d == last;
    column[last] = true;
    tsr_region_levels(&r->before, &r->space, inner);
    tsr_region_levels(&r->after, &r->space, column);
    int64_t size = r->space.dims[last];
    uint32_t lanes = tsr_lanes_fit(COLUMN_BYTES / (width < 4 ? 4 : width), size);
    int64_t parts = (size + lanes - 1) / lanes;
    int64_t live = r->reduced_count < TSR_PARTIALS ? r->reduced_count : TSR_PARTIALS;
    columns c = {r, lanes, tsr_tile_null, &point};
    if (live) c.local = tsr_tile_local(b, tsr_tile_storage_type(b, r->dtype), live * lanes);
    if (live) tsr_region_emit(&r->before, 0, &point);
    tsr_region_emit(&r->after, 0, &point);
    tsr_tile_loop items;
    int64_t bytes = tsr_region_bytes(&r->before, NULL, &r->space) * r->reduced_count * lanes;
    tsr_reduction_programs(r, r->kept_count / size * parts, bytes, &items);
    tsr_point_unflatten(b, &point, r->outer, tsr_tile_div(b, items.index, parts));
    if (live) tsr_region_emit(&r->before, 1, &point);
    point.lanes = lanes;
    point.index[last] = tsr_tile_mul(b, tsr_tile_rem(b, items.index, parts), lanes);
    if (size % lanes)
        point.mask =
            tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, size), point.index[last]), lanes);
    tsr_reduction_finish(r, live ? reduce_columns(&c) : tsr_reduction_identity(r, lanes), &point);
    tsr_tile_loop_end(b, &items, NULL);
}

tsr_result tsr_tile_lower_reduce(tsr_tile_group *group) {
    tsr_reduction r;
    TRY(group->ctx, tsr_reduction_init(group, &r));
    if (!r.kept_count) return TSR_SUCCESS;
    if (r.along)
        emit_along(&r);
    else
        emit_across(&r);
    return TSR_SUCCESS;
}
