/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `reduce`: sum, product, max, min over some dimensions, in 64 partial results whose
 * order does not depend on how the reduced elements lie in memory.
 *
 * Where the last dimension is reduced, a vector of 64 lanes walks along it: lane = partial result.
 * Otherwise vectors go along the last, kept dimension, and the partial results lie in a local
 * buffer; of up to 64 elements each is a partial result, and none is stored.
 */
#include "compiler/tile/reduce.h"

#include <string.h>

enum { PROGRAM_BYTES = 16 * 1024, WARPS = 4096 };

/* ---- shared ---------------------------------------------------------------------------------- */

const tsr_reduction_op tsr_reduction_sum = {"tessera.sum", "add", tsr_element_add,
                                            tsr_element_zero};
const tsr_reduction_op tsr_reduction_max = {"tessera.reduce_max", "maximumf", tsr_element_max,
                                            tsr_element_lowest};
const tsr_reduction_op tsr_reduction_max_number = {NULL, "maxnumf", tsr_element_max_number,
                                                   tsr_element_lowest};
static const tsr_reduction_op min = {"tessera.reduce_min", "minimumf", tsr_element_min,
                                     tsr_element_highest};
static const tsr_reduction_op prod = {"tessera.reduce_prod", "mul", tsr_element_mul,
                                      tsr_element_one};
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
    for (uint32_t i = 0; i < group->output_count; i++)
        tsr_view_of_argument(&r.outputs[i], group, group->input_count + i, &r.space, kept);
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

uint32_t tsr_lanes_in_flight(const tsr_tile_builder *b, uint32_t width_bytes) {
    enum { REGISTERS = 4 };
    return REGISTERS * b->target->vector_bytes / width_bytes;
}

void tsr_partials_init(tsr_reduction *r, uint32_t all, uint32_t lanes, tsr_partials *out_partials) {
    if (lanes > all) lanes = all;
    while (all / lanes > TSR_PARTIAL_VECTORS_MAX) lanes *= 2;
    *out_partials = (tsr_partials){.count = all / lanes, .lanes = lanes};
    MlirValue identity = tsr_reduction_identity(r, lanes);
    for (uint32_t k = 0; k < out_partials->count; k++) out_partials->values[k] = identity;
}

MlirValue tsr_partials_tree(tsr_reduction *r, const tsr_partials *partials) {
    MlirValue values[TSR_PARTIAL_VECTORS_MAX];
    memcpy(values, partials->values, sizeof values);
    for (uint32_t half = partials->count / 2; half; half /= 2)
        for (uint32_t k = 0; k < half; k++)
            values[k] = tsr_reduction_combine(r, values[k], values[k + half]);
    return tsr_reduction_tree(r, values[0], partials->lanes);
}

void tsr_reduction_finish(tsr_reduction *r, MlirValue result, const tsr_point *point) {
    r->given->value = tsr_tile_round(&r->group->b, r->given->dtype, result);
    tsr_region_emit(&r->after, 1, point);
    tsr_region_emit(&r->after, 2, point);
    tsr_region_store(&r->after, r->outputs, point);
}

void tsr_tile_share(tsr_tile_group *group, int64_t count, int64_t each, tsr_tile_loop *loop) {
    tsr_tile_builder *b = &group->b;
    group->grid = (count + each - 1) / each;
    MlirValue begin = tsr_tile_index(b, 0), end = tsr_tile_index(b, count);
    if (group->grid > 1) {
        begin = tsr_tile_mul(b, tsr_tile_program_id(b), each);
        end = tsr_tile_min(b, tsr_tile_offset(b, begin, each), end);
    }
    tsr_tile_loop_begin(b, loop, begin, end, 1, 0, NULL);
}

void tsr_reduction_programs(tsr_reduction *r, int64_t count, int64_t bytes_per_item,
                            tsr_tile_loop *loop) {
    int64_t items = bytes_per_item ? PROGRAM_BYTES / bytes_per_item : count;
    /* Warps of a GPU wait less where there are more of them. */
    if (r->group->b.target->arch && items > count / WARPS) items = count / WARPS;
    if (items < 1) items = 1;
    if (items > count) items = count;
    tsr_tile_share(r->group, count, items, loop);
}

/* ---- along the last dimension ---------------------------------------------------------------- */

/* One vector of the run, partial results number `part`. */
static void visit_run(tsr_reduction *r, tsr_point *point, uint32_t part, tsr_partials *partials) {
    tsr_region_emit(&r->before, 2, point);
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], point);
    if (!mlirValueIsNull(point->mask))
        value = tsr_tile_select(&r->group->b, point->mask, value,
                                tsr_reduction_identity(r, point->lanes));
    partials->values[part] = tsr_reduction_combine(r, partials->values[part], value);
}

void tsr_partials_add_run(tsr_reduction *r, const tsr_point *at, tsr_partials *partials) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1, lanes = partials->lanes;
    int64_t size = r->space.dims[last], step = (int64_t)partials->count * lanes;
    int64_t whole = size - size % step;
    tsr_point point = *at;
    point.lanes = lanes;
    if (whole) {
        tsr_tile_loop loop;
        tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), step,
                            partials->count, partials->values);
        memcpy(partials->values, loop.carried, partials->count * sizeof *loop.carried);
        for (uint32_t k = 0; k < partials->count; k++) {
            point.index[last] = tsr_tile_offset(b, loop.index, k * lanes);
            visit_run(r, &point, k, partials);
        }
        tsr_tile_loop_end(b, &loop, partials->values);
        memcpy(partials->values, loop.carried, partials->count * sizeof *loop.carried);
    }
    for (uint32_t k = 0; whole + (int64_t)(k * lanes) < size; k++) {
        int64_t begin = whole + (int64_t)(k * lanes);
        point.index[last] = tsr_tile_index(b, begin);
        point.mask = size - begin < (int64_t)lanes
                         ? tsr_tile_mask(b, tsr_tile_index(b, size - begin), lanes)
                         : tsr_tile_null;
        visit_run(r, &point, k, partials);
    }
}

/* Several reduced dimensions, the last a multiple of 64 long: lanes keep their partial result. */
static void reduce_runs(tsr_reduction *r, const tsr_point *at, tsr_partials *partials) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    bool others[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d < last; d++) others[d] = r->space.reduced[d];
    tsr_point point = *at;
    tsr_tile_loop loop;
    MlirValue runs = tsr_tile_index(b, r->reduced_count / r->space.dims[last]);
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), runs, 1, partials->count, partials->values);
    memcpy(partials->values, loop.carried, partials->count * sizeof *loop.carried);
    tsr_point_unflatten(b, &point, others, loop.index);
    tsr_partials_add_run(r, &point, partials);
    tsr_tile_loop_end(b, &loop, partials->values);
    memcpy(partials->values, loop.carried, partials->count * sizeof *loop.carried);
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
    tsr_partials partials;
    uint32_t width = tsr_region_width(&r->before);
    bool scattered = r->reduced_dims > 1 && r->space.dims[last] % TSR_PARTIALS;
    tsr_partials_init(r, lanes, scattered ? lanes : tsr_lanes_in_flight(b, width < 4 ? 4 : width),
                      &partials);
    if (r->reduced_count && r->reduced_dims == 1)
        tsr_partials_add_run(r, &point, &partials);
    else if (r->reduced_count && scattered)
        partials.values[0] = reduce_scattered(r, &point);
    else if (r->reduced_count)
        reduce_runs(r, &point, &partials);
    tsr_reduction_finish(r, tsr_partials_tree(r, &partials), &point);
    tsr_tile_loop_end(b, &rows, NULL);
}

/* ---- across: the last dimension is kept ------------------------------------------------------ */

/* A program takes `width` columns of one place of the outer dimensions and goes over their rows in
 * the order of memory; the partial results of all of them lie in a local buffer. */
typedef struct columns {
    tsr_reduction *r;
    uint32_t lanes;
    int64_t width, live;  /* live: partial results there are */
    bool at_once;         /* each is one element: read where it is added */
    MlirValue local;      /* [partial][column] */
    MlirValue first, end; /* the program's first column, and how many it has */
    tsr_point point;
} columns;

static MlirValue load_partial(columns *c, MlirValue partial, MlirValue column) {
    tsr_tile_builder *b = &c->r->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, partial, c->width), column);
    return tsr_tile_load(b, c->r->dtype, c->local, at, c->lanes, tsr_tile_null);
}

static void store_partial(columns *c, MlirValue partial, MlirValue column, MlirValue value) {
    tsr_tile_builder *b = &c->r->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, partial, c->width), column);
    tsr_tile_store(b, c->r->dtype, value, c->local, at, tsr_tile_null);
}

/* The point at a column of the program. */
static tsr_point *at_column(columns *c, MlirValue column) {
    tsr_tile_builder *b = &c->r->group->b;
    uint32_t last = c->r->space.rank - 1;
    int64_t size = c->r->space.dims[last];
    c->point.lanes = c->lanes;
    c->point.index[last] = tsr_tile_add(b, c->first, column);
    if (size % c->lanes)
        c->point.mask = tsr_tile_mask(
            b, tsr_tile_sub(b, tsr_tile_index(b, size), c->point.index[last]), c->lanes);
    return &c->point;
}

uint32_t tsr_reduction_inner(const tsr_reduction *r) {
    uint32_t inner = 0;
    for (uint32_t d = 0; d < r->space.rank; d++)
        if (r->space.reduced[d]) inner = d;
    return inner;
}

/* Rows some way ahead, so far as all reduced dimensions but the last stay the same. */
static void prefetch_rows(columns *c) {
    enum { AHEAD = 4 };
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    uint32_t inner = tsr_reduction_inner(r);
    for (uint32_t i = 0; i < r->before.node_count; i++) {
        const tsr_node *node = r->before.nodes[i];
        int64_t bytes = tsr_space_count(&r->space) * (int64_t)tsr_dtype_size(node->dtype);
        if (node->kind != TSR_NODE_VIEW || !node->view.strides[r->space.rank - 1] ||
            !node->view.strides[inner] || bytes < TSR_PREFETCH_BYTES_MIN)
            continue;
        MlirValue at = tsr_point_offset(b, &c->point, &node->view);
        tsr_tile_prefetch_vector(b, node->dtype, node->view.buffer,
                                 tsr_tile_offset(b, at, AHEAD * node->view.strides[inner]),
                                 c->lanes);
    }
}

/* Row `flat` of the reduced elements into partial result `partial`; begin: its first. */
static void add_row(columns *c, MlirValue flat, MlirValue partial, bool begin) {
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    tsr_tile_loop loop;
    tsr_point_unflatten(b, &c->point, r->space.reduced, flat);
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), c->end, c->lanes, 0, NULL);
    tsr_point *point = at_column(c, loop.index);
    tsr_region_emit(&r->before, 2, point);
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], point);
    MlirValue old =
        begin ? tsr_reduction_identity(r, c->lanes) : load_partial(c, partial, loop.index);
    store_partial(c, partial, loop.index, tsr_reduction_combine(r, old, value));
    prefetch_rows(c);
    tsr_tile_loop_end(b, &loop, NULL);
}

static void add_rows(columns *c) {
    tsr_tile_builder *b = &c->r->group->b;
    int64_t count = c->r->reduced_count;
    MlirValue zero = tsr_tile_index(b, 0), high = tsr_tile_index(b, count);
    MlirValue full = tsr_tile_index(b, TSR_PARTIALS);
    tsr_tile_loop loop, block;
    tsr_tile_loop_begin(b, &loop, zero, tsr_tile_index(b, c->live), 1, 0, NULL);
    add_row(c, loop.index, loop.index, true);
    tsr_tile_loop_end(b, &loop, NULL);
    if (count <= TSR_PARTIALS) return;
    tsr_tile_loop_begin(b, &block, full, high, TSR_PARTIALS, 0, NULL);
    MlirValue size = tsr_tile_min(b, full, tsr_tile_sub(b, high, block.index));
    tsr_tile_loop_begin(b, &loop, zero, size, 1, 0, NULL);
    add_row(c, tsr_tile_add(b, block.index, loop.index), loop.index, false);
    tsr_tile_loop_end(b, &loop, NULL);
    tsr_tile_loop_end(b, &block, NULL);
}

/* The halving tree over the partial results of `lanes` columns. */
static MlirValue reduce_partials(columns *c, MlirValue column) {
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    int64_t live = c->live;
    tsr_tile_loop loop;
    if (!live) return tsr_reduction_identity(r, c->lanes);
    for (int64_t half = TSR_PARTIALS / 2; half; half /= 2) {
        if (live <= half) continue;
        tsr_tile_loop_begin(b, &loop, zero, tsr_tile_index(b, live - half), 1, 0, NULL);
        MlirValue low = load_partial(c, loop.index, column);
        MlirValue high = load_partial(c, tsr_tile_offset(b, loop.index, half), column);
        store_partial(c, loop.index, column, tsr_reduction_combine(r, low, high));
        tsr_tile_loop_end(b, &loop, NULL);
        live = half;
    }
    return load_partial(c, zero, column);
}

/* Partial result k as the halving tree leaves it once those `step` and more behind it are added:
 * few are in registers at a time. What is read soon is asked for: rows are far apart. */
static MlirValue reduce_at_once(columns *c, int64_t k, int64_t step) {
    enum { AHEAD_BYTES = 512 };
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    if (step < TSR_PARTIALS) {
        MlirValue low = reduce_at_once(c, k, 2 * step);
        if (k + step >= c->live) return low;
        return tsr_reduction_combine(r, low, reduce_at_once(c, k + step, 2 * step));
    }
    tsr_point_unflatten(b, &c->point, r->space.reduced, tsr_tile_index(b, k));
    tsr_region_emit(&r->before, 2, &c->point);
    for (uint32_t i = 0; i < r->before.node_count; i++) {
        const tsr_node *node = r->before.nodes[i];
        int64_t size = (int64_t)tsr_dtype_size(node->dtype),
                bytes = tsr_space_count(&r->space) * size;
        if (node->kind != TSR_NODE_VIEW || !node->view.strides[r->space.rank - 1] ||
            bytes < TSR_PREFETCH_BYTES_MIN)
            continue;
        MlirValue at = tsr_point_offset(b, &c->point, &node->view);
        tsr_tile_prefetch_vector(b, node->dtype, node->view.buffer,
                                 tsr_tile_offset(b, at, AHEAD_BYTES / size), c->lanes);
    }
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], &c->point);
    return tsr_reduction_combine(r, tsr_reduction_identity(r, c->lanes), value);
}

/* As many columns as the buffer holds, in even parts; several parts where they stay wide enough to
 * be read in whole runs. */
static void plan_columns(columns *c) {
    enum { LOCAL_BYTES = 256 * 1024, RUN_BYTES = 512, PARTS = 4, NODES_MAX = 8 };
    tsr_reduction *r = c->r;
    uint32_t width = tsr_region_width(&r->before);
    int64_t bytes = width < 4 ? 4 : width, size = r->space.dims[r->space.rank - 1];
    c->live = r->reduced_count < TSR_PARTIALS ? r->reduced_count : TSR_PARTIALS;
    c->at_once = c->live == r->reduced_count && c->live && !r->group->b.target->arch &&
                 r->before.node_count <= NODES_MAX;
    c->lanes = tsr_lanes_fit(2 * r->group->b.target->vector_bytes / (uint32_t)bytes, size);
    int64_t most = LOCAL_BYTES / bytes / (c->live ? c->live : 1), part = (size + PARTS - 1) / PARTS;
    if (part < RUN_BYTES / bytes) part = RUN_BYTES / bytes;
    if (most > part) most = part;
    int64_t parts = (size + most - 1) / most;
    c->width = ((size + parts - 1) / parts + c->lanes - 1) / c->lanes * c->lanes;
}

static void emit_across(tsr_reduction *r) {
    tsr_tile_builder *b = &r->group->b;
    columns c = {.r = r, .point = {.space = &r->space}};
    uint32_t last = r->space.rank - 1;
    bool inner[TSR_RANK_MAX] = {false}, column[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d <= last; d++) inner[d] = r->space.reduced[d] || d == last;
    column[last] = true;
    tsr_region_levels(&r->before, &r->space, inner);
    tsr_region_levels(&r->after, &r->space, column);
    plan_columns(&c);
    int64_t size = r->space.dims[last], parts = (size + c.width - 1) / c.width;
    MlirType type = tsr_tile_storage_type(b, r->dtype);
    if (c.live && !c.at_once) c.local = tsr_tile_local(b, type, c.live * c.width);
    if (c.live) tsr_region_emit(&r->before, 0, &c.point);
    tsr_region_emit(&r->after, 0, &c.point);
    tsr_tile_loop items, loop;
    int64_t bytes = tsr_region_bytes(&r->before, NULL, &r->space) * r->reduced_count * c.width;
    tsr_reduction_programs(r, r->kept_count / size * parts, bytes, &items);
    tsr_point_unflatten(b, &c.point, r->outer, tsr_tile_div(b, items.index, parts));
    if (c.live) tsr_region_emit(&r->before, 1, &c.point);
    c.first = tsr_tile_mul(b, tsr_tile_rem(b, items.index, parts), c.width);
    c.end = tsr_tile_index(b, c.width);
    if (size % c.width)
        c.end = tsr_tile_min(b, c.end, tsr_tile_sub(b, tsr_tile_index(b, size), c.first));
    if (c.live && !c.at_once) add_rows(&c);
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), c.end, c.lanes, 0, NULL);
    tsr_point *point = at_column(&c, loop.index);
    MlirValue result = c.at_once ? reduce_at_once(&c, 0, 1) : reduce_partials(&c, loop.index);
    tsr_reduction_finish(r, result, point);
    tsr_tile_loop_end(b, &loop, NULL);
    tsr_tile_loop_end(b, &items, NULL);
}

/* ---- across, by warps ------------------------------------------------------------------------ */

/* A warp of a GPU takes as many columns as it has lanes, and holds all partial results of them in
 * registers: the same sums in the same order, without a local buffer. */
typedef struct lanes_across {
    tsr_reduction *r;
    tsr_point point;
    uint32_t live; /* partial results there are */
    MlirValue values[TSR_PARTIALS];
} lanes_across;

/* Rows `first` … into their partial results, the first `count` of them. */
static void add_block(lanes_across *c, MlirValue first, uint32_t count) {
    tsr_reduction *r = c->r;
    for (uint32_t k = 0; k < count; k++) {
        tsr_point_unflatten(&r->group->b, &c->point, r->space.reduced,
                            tsr_tile_offset(&r->group->b, first, k));
        tsr_region_emit(&r->before, 2, &c->point);
        MlirValue value = tsr_node_value(&r->before, r->before.results[0], &c->point);
        c->values[k] = tsr_reduction_combine(r, c->values[k], value);
    }
}

static void add_blocks(lanes_across *c) {
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    int64_t whole = r->reduced_count - r->reduced_count % TSR_PARTIALS;
    if (whole) {
        tsr_tile_loop loop;
        tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), TSR_PARTIALS,
                            TSR_PARTIALS, c->values);
        memcpy(c->values, loop.carried, sizeof c->values);
        add_block(c, loop.index, TSR_PARTIALS);
        tsr_tile_loop_end(b, &loop, c->values);
        memcpy(c->values, loop.carried, sizeof c->values);
    }
    add_block(c, tsr_tile_index(b, whole), (uint32_t)(r->reduced_count - whole));
}

MlirValue tsr_reduction_halve(tsr_reduction *r, MlirValue *values, uint32_t count) {
    for (uint32_t half = TSR_PARTIALS / 2; half; half /= 2) {
        if (count <= half) continue;
        for (uint32_t k = 0; k + half < count; k++)
            values[k] = tsr_reduction_combine(r, values[k], values[k + half]);
        count = half;
    }
    return values[0];
}

/* So many registers are there for what lies before the sum, too; and every warp is full. */
static bool fits_registers(const tsr_reduction *r) {
    enum { NODES_MAX = 24 };
    const tsr_target *target = r->group->b.target;
    return target->arch && tsr_dtype_size(r->dtype) <= 4 && r->before.node_count <= NODES_MAX &&
           r->space.dims[r->space.rank - 1] % (target->vector_bytes / 4) == 0;
}

static void emit_across_warps(tsr_reduction *r) {
    tsr_tile_builder *b = &r->group->b;
    lanes_across c = {.r = r, .point = {.space = &r->space}};
    uint32_t last = r->space.rank - 1;
    int64_t size = r->space.dims[last];
    bool inner[TSR_RANK_MAX] = {false}, column[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d <= last; d++) inner[d] = r->space.reduced[d] || d == last;
    column[last] = true;
    tsr_region_levels(&r->before, &r->space, inner);
    tsr_region_levels(&r->after, &r->space, column);
    c.point.lanes = b->target->vector_bytes / 4;
    c.live = r->reduced_count < TSR_PARTIALS ? (uint32_t)r->reduced_count : TSR_PARTIALS;
    if (c.live) tsr_region_emit(&r->before, 0, &c.point);
    tsr_region_emit(&r->after, 0, &c.point);
    int64_t parts = size / c.point.lanes;
    tsr_tile_loop items;
    tsr_reduction_programs(r, r->kept_count / size * parts, INT64_MAX, &items);
    tsr_point_unflatten(b, &c.point, r->outer, tsr_tile_div(b, items.index, parts));
    if (c.live) tsr_region_emit(&r->before, 1, &c.point);
    c.point.index[last] = tsr_tile_mul(b, tsr_tile_rem(b, items.index, parts), c.point.lanes);
    for (uint32_t k = 0; k < TSR_PARTIALS; k++)
        c.values[k] = tsr_reduction_identity(r, c.point.lanes);
    add_blocks(&c);
    tsr_reduction_finish(r, tsr_reduction_halve(r, c.values, c.live), &c.point);
    tsr_tile_loop_end(b, &items, NULL);
}

tsr_result tsr_tile_lower_reduce(tsr_tile_group *group) {
    tsr_reduction r;
    TRY(group->ctx, tsr_reduction_init(group, &r));
    if (!r.kept_count) return TSR_SUCCESS;
    if (r.along)
        emit_along(&r);
    else if (fits_registers(&r))
        emit_across_warps(&r);
    else
        emit_across(&r);
    return TSR_SUCCESS;
}
