/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `reduce`: sum, product, max, min over some dimensions, in 64 partial results whose
 * order does not depend on the layout of the reduced elements in memory.
 *
 * If the last dimension is reduced, a vector of 64 lanes walks along it: lane = partial result.
 * Otherwise vectors go along the last dimension, which is parallel: reduce_strided.c. Long axes are
 * cut into chunks, and each chunk is reduced in this way (tree.h).
 */
#include "compiler/tile/reductions/reduce.h"

#include "compiler/tile/open.h"

#include <inttypes.h>
#include <string.h>

enum { PROGRAM_BYTES = 16 * 1024, WARPS = 4096 };

/* ---- shared ---------------------------------------------------------------------------------- */

const tsr_reduction_op tsr_reduction_sum = {"add", tsr_element_add, tsr_element_zero};
const tsr_reduction_op tsr_reduction_max = {"maximumf", tsr_element_max, tsr_element_lowest};
const tsr_reduction_op tsr_reduction_max_number = {"maxnumf", tsr_element_max_number,
                                                   tsr_element_lowest};
static const tsr_reduction_op min = {"minimumf", tsr_element_min, tsr_element_highest};
static const tsr_reduction_op prod = {"mul", tsr_element_mul, tsr_element_one};
static const tsr_reduction_op *const ops[TSR_OP_COUNT] = {
    [TSR_GRAPH_SUM] = &tsr_reduction_sum,
    [TSR_GRAPH_REDUCE_MAX] = &tsr_reduction_max,
    [TSR_GRAPH_REDUCE_MIN] = &min,
    [TSR_GRAPH_REDUCE_PROD] = &prod,
};

const tsr_reduction_op *tsr_reduction_op_of(MlirOperation op) { return ops[tsr_op_of(op)]; }

static tsr_result read_space(tsr_reduction *r) {
    tsr_tile_group *group = r->group;
    MlirOperation root = group->root;
    tsr_type type;
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    bool known = tsr_tile_group_type(group, tsr_op_operand(root, 0), &type);
    if (tsr_op_is(root, TSR_GRAPH_ARGMAX))
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
            FAIL(group->ctx, TSR_INTERNAL, "'%s': axis %" PRId64 " of rank %u", group->name,
                 axes[i], type.shape.rank);
        r->space.reduced[axes[i]] = true;
    }
    return TSR_SUCCESS;
}

static void count_points(tsr_reduction *r) {
    if (!r->space.rank) r->space = (tsr_space){.rank = 1, .dims = {1}, .reduced = {true}};
    uint32_t last = r->space.rank - 1;
    r->parallel_count = r->reduced_count = 1;
    r->contiguous = r->space.reduced[last];
    for (uint32_t d = 0; d <= last; d++) {
        r->parallel[d] = !r->space.reduced[d];
        r->outer[d] = r->parallel[d] && d != last;
        int64_t *count = r->parallel[d] ? &r->parallel_count : &r->reduced_count;
        *count = tsr_extent_times(*count, r->space.dims[d]);
        r->reduced_dims += r->space.reduced[d];
    }
}

tsr_result tsr_reduction_init(tsr_tile_group *group, tsr_reduction *out_reduction) {
    tsr_reduction r = {.group = group};
    MlirValue operand = tsr_op_operand(group->root, 0), result = tsr_op_result(group->root, 0);
    bool parallel[TSR_RANK_MAX] = {false};
    TRY(group->ctx, read_space(&r));
    for (uint32_t d = 0; d < r.space.rank; d++) parallel[d] = !r.space.reduced[d];
    r.outputs = TSR_NEW(group->arena, tsr_view, group->output_count);
    if (!r.outputs) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < group->output_count; i++)
        tsr_view_of_argument(&r.outputs[i], group, group->input_count + i, &r.space, parallel);
    TRY(group->ctx, tsr_region_init(group, &operand, 1, tsr_tile_null, &r.space, NULL, &r.before));
    TRY(group->ctx, tsr_region_init(group, group->returned, group->output_count, result, &r.space,
                                    parallel, &r.after));
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

MlirValue tsr_reduction_halve(tsr_reduction *r, MlirValue *values, uint32_t count) {
    for (uint32_t half = TSR_PARTIALS / 2; half; half /= 2) {
        if (count <= half) continue;
        for (uint32_t k = 0; k + half < count; k++)
            values[k] = tsr_reduction_combine(r, values[k], values[k + half]);
        count = half;
    }
    return values[0];
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
    group->grid = tsr_divide_up(count, each);
    tsr_tile_open_grid(group, count, each, 1);
    MlirValue begin = tsr_tile_index(b, 0), end = tsr_tile_open_count(group, count);
    if (group->grid > 1) {
        begin = tsr_tile_mul(b, tsr_tile_program_id(b), each);
        end = tsr_tile_min(b, tsr_tile_offset(b, begin, each), end);
    }
    tsr_tile_loop_begin(b, loop, begin, end, 1, 0, NULL);
}

void tsr_reduction_programs(tsr_reduction *r, int64_t count, int64_t bytes_per_item,
                            tsr_tile_loop *loop) {
    int64_t items = bytes_per_item ? PROGRAM_BYTES / bytes_per_item : count;
    /* Warps of a GPU wait less if there are more warps. */
    if (r->group->b.target->arch && items > count / WARPS) items = count / WARPS;
    if (items < 1) items = 1;
    if (items > count) items = count;
    tsr_tile_share(r->group, count, items, loop);
}

/* ---- along the last dimension ---------------------------------------------------------------- */

/* Adds one vector of the run to partial results number `part`. */
static void visit_run(tsr_reduction *r, tsr_point *point, uint32_t part, tsr_partials *partials) {
    tsr_region_emit(&r->before, 2, point);
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], point);
    if (!mlirValueIsNull(point->mask))
        value = tsr_tile_select(&r->group->b, point->mask, value,
                                tsr_reduction_identity(r, point->lanes));
    partials->values[part] = tsr_reduction_combine(r, partials->values[part], value);
}

void tsr_partials_add_range(tsr_reduction *r, const tsr_point *at, MlirValue first, int64_t count,
                            tsr_partials *partials) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1, lanes = partials->lanes;
    int64_t step = (int64_t)partials->count * lanes;
    int64_t whole = count - count % step;
    tsr_point point = *at;
    point.lanes = lanes;
    if (whole) {
        TSR_TILE_FOR_CARRIED(b, loop, first, tsr_tile_offset(b, first, whole), step,
                             partials->count, partials->values) {
            for (uint32_t k = 0; k < partials->count; k++) {
                point.index[last] = tsr_tile_offset(b, loop.index, k * lanes);
                visit_run(r, &point, k, partials);
            }
        }
    }
    for (uint32_t k = 0; whole + (int64_t)(k * lanes) < count; k++) {
        int64_t begin = whole + (int64_t)(k * lanes);
        point.index[last] = tsr_tile_offset(b, first, begin);
        point.mask = count - begin < (int64_t)lanes
                         ? tsr_tile_mask(b, tsr_tile_index(b, count - begin), lanes)
                         : tsr_tile_null;
        visit_run(r, &point, k, partials);
    }
}

void tsr_partials_add_run(tsr_reduction *r, const tsr_point *at, tsr_partials *partials) {
    int64_t count = r->space.dims[r->space.rank - 1];
    tsr_partials_add_range(r, at, tsr_tile_index(&r->group->b, 0), count, partials);
}

/* Several reduced dimensions, the last a multiple of 64 long: each lane stays in the same partial
 * result. */
static void reduce_runs(tsr_reduction *r, const tsr_point *at, tsr_partials *partials) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    bool others[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d < last; d++) others[d] = r->space.reduced[d];
    tsr_point point = *at;
    MlirValue runs = tsr_tile_index(b, r->reduced_count / r->space.dims[last]);
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), runs, 1, partials->count,
                         partials->values) {
        tsr_point_unflatten(b, &point, others, loop.index);
        tsr_partials_add_run(r, &point, partials);
    }
}

/* The same for a chunk: it is part of a run, or consists of runs read 64 elements at a time. */
static void reduce_run_chunk(tsr_reduction *r, const tsr_point *at, MlirValue first, int64_t count,
                             tsr_partials *partials) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    tsr_point point = *at;
    if (r->space.dims[last] % TSR_SUM_CHUNK == 0) {
        tsr_point_unflatten(b, &point, r->space.reduced, first);
        tsr_partials_add_range(r, &point, point.index[last], count, partials);
        return;
    }
    point.lanes = partials->lanes;
    TSR_TILE_FOR_CARRIED(b, loop, first, tsr_tile_offset(b, first, count), TSR_PARTIALS,
                         partials->count, partials->values) {
        tsr_point_unflatten(b, &point, r->space.reduced, loop.index);
        MlirValue begin = point.index[last];
        for (uint32_t k = 0; k < partials->count; k++) {
            point.index[last] = tsr_tile_offset(b, begin, k * partials->lanes);
            visit_run(r, &point, k, partials);
        }
    }
}

/* Several reduced dimensions of any length: element by element. */
static MlirValue reduce_scattered(tsr_reduction *r, const tsr_point *at, MlirValue local,
                                  MlirValue first, int64_t count) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    tsr_tile_store(b, r->dtype, tsr_reduction_identity(r, TSR_PARTIALS), local, zero,
                   tsr_tile_null);
    tsr_point point = *at;
    TSR_TILE_FOR(b, loop, first, tsr_tile_offset(b, first, count), 1) {
        tsr_point_unflatten(b, &point, r->space.reduced, loop.index);
        tsr_region_emit(&r->before, 2, &point);
        MlirValue slot = tsr_tile_rem(b, loop.index, TSR_PARTIALS);
        MlirValue partial = tsr_tile_load(b, r->dtype, local, slot, 0, tsr_tile_null);
        MlirValue value = tsr_node_value(&r->before, r->before.results[0], &point);
        tsr_tile_store(b, r->dtype, tsr_reduction_combine(r, partial, value), local, slot,
                       tsr_tile_null);
    }
    return tsr_tile_load(b, r->dtype, local, zero, TSR_PARTIALS, tsr_tile_null);
}

typedef struct contiguous {
    tsr_reduction *r;
    const tsr_point *point;
    uint32_t all, lanes; /* lanes of all partial results, and of one vector */
    MlirValue local;     /* partial results that are computed by element, or null */
} contiguous;

static MlirValue reduce_contiguous(void *user, MlirValue first, int64_t count) {
    const contiguous *a = user;
    tsr_partials partials;
    tsr_partials_init(a->r, a->all, a->lanes, &partials);
    if (a->r->reduced_dims == 1)
        tsr_partials_add_range(a->r, a->point, first, count, &partials);
    else if (!mlirValueIsNull(a->local))
        partials.values[0] = reduce_scattered(a->r, a->point, a->local, first, count);
    else if (count == a->r->reduced_count)
        reduce_runs(a->r, a->point, &partials);
    else
        reduce_run_chunk(a->r, a->point, first, count, &partials);
    return tsr_partials_tree(a->r, &partials);
}

static void emit_contiguous(tsr_reduction *r) {
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
    tsr_reduction_programs(r, r->parallel_count, bytes, &rows);
    tsr_point_unflatten(b, &point, r->parallel, rows.index);
    if (r->reduced_count) tsr_region_emit(&r->before, 1, &point);
    if (r->reduced_dims == 1) lanes = tsr_lanes_fit(lanes, r->space.dims[last]);
    uint32_t width = tsr_region_width(&r->before);
    bool scattered = r->reduced_dims > 1 && r->space.dims[last] % TSR_PARTIALS;
    contiguous a = {.r = r, .point = &point, .all = lanes, .lanes = lanes};
    if (scattered)
        a.local = tsr_tile_local(b, tsr_tile_storage_type(b, r->dtype), TSR_PARTIALS);
    else
        a.lanes = tsr_lanes_in_flight(b, width < 4 ? 4 : width);
    tsr_reduction_range range = {.reduce = reduce_contiguous, .user = &a};
    tsr_reduction_finish(r,
                         r->reduced_count
                             ? tsr_reduction_one_in_chunks(r, 0, r->reduced_count, &range)
                             : tsr_reduction_identity(r, 0),
                         &point);
    tsr_tile_loop_end(b, &rows, NULL);
}

tsr_result tsr_tile_lower_reduce(tsr_tile_group *group) {
    tsr_reduction r;
    TRY(group->ctx, tsr_reduction_init(group, &r));
    if (!r.parallel_count) return TSR_SUCCESS;
    if (r.contiguous)
        emit_contiguous(&r);
    else
        tsr_reduction_emit_strided(&r, tsr_tile_null);
    return TSR_SUCCESS;
}
