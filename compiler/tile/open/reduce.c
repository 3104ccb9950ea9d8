/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions with extents: of any dims, in the order that tile.h states. An item is one result, or
 * a vector of results along the last dim, whose 64 partial results are in a local buffer.
 *
 * Whether an axis is long, and how many chunks it has, a call decides: then either the loop over
 * all elements or that over the chunks does nothing. The binary tree over chunks is a loop for
 * each of its levels.
 */
#include "compiler/tile/reductions/reduce.h"

#include "compiler/tile/open.h"

typedef struct reducer {
    tsr_reduction *r;
    tsr_point *point;
    uint32_t lanes;  /* 0: a scalar */
    MlirValue local; /* [partial][lane] */
    MlirValue count; /* of reduced elements */
    MlirValue chunks;
} reducer;

/* ---- 64 partial results ---------------------------------------------------------------------- */

static uint32_t width_of(const reducer *a) { return a->lanes ? a->lanes : 1; }

static MlirValue element_at(reducer *a, MlirValue number) {
    tsr_reduction *r = a->r;
    tsr_point_unflatten(&r->group->b, a->point, r->space.reduced, number);
    tsr_region_emit(&r->before, 2, a->point);
    return tsr_node_value(&r->before, r->before.results[0], a->point);
}

static MlirValue load_partial(reducer *a, MlirValue partial) {
    tsr_tile_builder *b = &a->r->group->b;
    return tsr_tile_load(b, a->r->dtype, a->local, tsr_tile_mul(b, partial, width_of(a)), a->lanes,
                         tsr_tile_null);
}

static void store_partial(reducer *a, MlirValue partial, MlirValue value) {
    tsr_tile_builder *b = &a->r->group->b;
    tsr_tile_store(b, a->r->dtype, value, a->local, tsr_tile_mul(b, partial, width_of(a)),
                   tsr_tile_null);
}

/* sums(first, end) of tile.h; partial results are numbered from `first` on. */
static MlirValue sums(reducer *a, MlirValue first, MlirValue end) {
    tsr_tile_builder *b = &a->r->group->b;
    MlirValue zero = tsr_tile_index(b, 0), all = tsr_tile_index(b, TSR_PARTIALS);
    TSR_TILE_FOR(b, loop, zero, all, 1) {
        store_partial(a, loop.index, tsr_reduction_identity(a->r, a->lanes));
    }
    TSR_TILE_FOR(b, loop, first, end, 1) {
        MlirValue partial = tsr_tile_rem(b, tsr_tile_sub(b, loop.index, first), TSR_PARTIALS);
        MlirValue value = element_at(a, loop.index);
        store_partial(a, partial, tsr_reduction_combine(a->r, load_partial(a, partial), value));
    }
    for (int64_t half = TSR_PARTIALS / 2; half; half /= 2) {
        TSR_TILE_FOR(b, loop, zero, tsr_tile_index(b, half), 1) {
            MlirValue other = load_partial(a, tsr_tile_offset(b, loop.index, half));
            MlirValue value = tsr_reduction_combine(a->r, load_partial(a, loop.index), other);
            store_partial(a, loop.index, value);
        }
    }
    return load_partial(a, zero);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The subtree of up to 2^level chunks from `first` on. */
static MlirValue tree(reducer *a, uint32_t level, MlirValue first) {
    tsr_tile_builder *b = &a->r->group->b;
    if (!level) {
        MlirValue begin = tsr_tile_mul(b, first, TSR_SUM_CHUNK);
        MlirValue end = tsr_tile_min(b, tsr_tile_offset(b, begin, TSR_SUM_CHUNK), a->count);
        return sums(a, begin, end);
    }
    int64_t half = (int64_t)1 << (level - 1);
    MlirValue value = tsr_reduction_identity(a->r, a->lanes);
    MlirValue end = tsr_tile_min(b, tsr_tile_offset(b, first, 2 * half), a->chunks);
    TSR_TILE_FOR_CARRIED(b, loop, first, end, half, 1, &value) {
        value = tsr_reduction_combine(a->r, value, tree(a, level - 1, loop.index));
    }
    return value;
}

static MlirValue reduce(reducer *a, int64_t high) {
    tsr_tile_builder *b = &a->r->group->b;
    MlirValue zero = tsr_tile_index(b, 0), count = a->count;
    uint32_t levels = 0;
    if (!tsr_sum_is_long(high)) return sums(a, zero, count);
    MlirValue is_long = tsr_tile_icompare(b, TSR_ICMP_SGT, count, tsr_tile_index(b, TSR_SUM_SHORT));
    MlirValue rounded = tsr_tile_offset(b, count, TSR_SUM_CHUNK - 1);
    a->chunks = tsr_tile_select(b, is_long, tsr_tile_div(b, rounded, TSR_SUM_CHUNK), zero);
    while ((int64_t)TSR_SUM_CHUNK << levels < high) levels++;
    MlirValue whole = sums(a, zero, tsr_tile_select(b, is_long, zero, count));
    MlirValue cut = tree(a, levels, zero);
    return tsr_tile_select(b, is_long, cut, whole);
}

/* ---- along the last dim ---------------------------------------------------------------------- */

static void visit(reducer *a, uint32_t part, MlirValue column, MlirValue mask,
                  tsr_partials *partials) {
    tsr_reduction *r = a->r;
    tsr_point point = *a->point;
    point.lanes = partials->lanes;
    point.mask = mask;
    point.index[r->space.rank - 1] = column;
    tsr_region_emit(&r->before, 2, &point);
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], &point);
    if (!mlirValueIsNull(mask))
        value = tsr_tile_select(&r->group->b, mask, value, tsr_reduction_identity(r, point.lanes));
    partials->values[part] = tsr_reduction_combine(r, partials->values[part], value);
}

/* A run of up to TSR_SUM_SHORT elements: vectors of partial results in registers. */
static MlirValue reduce_run(reducer *a, int64_t high) {
    tsr_reduction *r = a->r;
    tsr_tile_builder *b = &r->group->b;
    tsr_partials partials;
    uint32_t width = tsr_region_width(&r->before), all = tsr_lanes_fit(TSR_PARTIALS, high);
    tsr_partials_init(r, all, tsr_lanes_in_flight(b, width < 4 ? 4 : width), &partials);
    MlirValue tail = tsr_tile_rem(b, a->count, all), whole = tsr_tile_sub(b, a->count, tail);
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), whole, all, partials.count,
                         partials.values) {
        for (uint32_t k = 0; k < partials.count; k++)
            visit(a, k, tsr_tile_offset(b, loop.index, k * partials.lanes), tsr_tile_null,
                  &partials);
    }
    TSR_TILE_FOR_CARRIED(b, loop, whole, a->count, all, partials.count, partials.values) {
        for (uint32_t k = 0; k < partials.count; k++) {
            MlirValue column = tsr_tile_offset(b, loop.index, k * partials.lanes);
            MlirValue mask = tsr_tile_mask(b, tsr_tile_sub(b, a->count, column), partials.lanes);
            visit(a, k, column, mask, &partials);
        }
    }
    return tsr_partials_tree(r, &partials);
}

/* ---- argmax ---------------------------------------------------------------------------------- */

static MlirValue find_first(reducer *a) {
    tsr_reduction *r = a->r;
    tsr_tile_builder *b = &r->group->b;
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_I64, a->lanes);
    MlirType scalar = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue carried[2] = {element_at(a, tsr_tile_index(b, 0)), tsr_tile_int(b, type, 0)};
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 1), a->count, 1, 2, carried) {
        MlirValue x = element_at(a, loop.index);
        MlirValue better = tsr_argmax_is_better(r, x, carried[0]);
        MlirValue number = tsr_tile_to(b, "arith.index_cast", loop.index, scalar);
        carried[0] = tsr_tile_select(b, better, x, carried[0]);
        carried[1] = tsr_tile_select(b, better, tsr_tile_splat(b, number, a->lanes), carried[1]);
    }
    return carried[1];
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Moves the point to the columns of item `number`. */
static void enter(reducer *a, MlirValue number, MlirValue parts) {
    tsr_reduction *r = a->r;
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    if (!a->lanes) {
        tsr_point_unflatten(b, a->point, r->parallel, number);
        return;
    }
    tsr_point_unflatten(b, a->point, r->outer, tsr_tile_2(b, "arith.divui", number, parts));
    a->point->index[last] = tsr_tile_mul(b, tsr_tile_2(b, "arith.remui", number, parts), a->lanes);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, r->space.dims[last]), a->point->index[last]);
    a->point->lanes = a->lanes;
    a->point->mask = tsr_tile_mask(b, left, a->lanes);
}

static void set_levels(reducer *a) {
    tsr_reduction *r = a->r;
    bool inner[TSR_RANK_MAX] = {false}, column[TSR_RANK_MAX] = {false};
    uint32_t last = r->space.rank - 1;
    column[last] = a->lanes > 0;
    for (uint32_t d = 0; d <= last; d++) inner[d] = r->space.reduced[d] || column[d];
    tsr_region_levels(&r->before, &r->space, inner);
    tsr_region_levels(&r->after, &r->space, column);
    tsr_region_emit(&r->before, 0, a->point);
    tsr_region_emit(&r->after, 0, a->point);
}

/* Loads of several elements at once need consecutive ones. */
static bool is_strided(const tsr_region *region, uint32_t last) {
    for (uint32_t i = 0; i < region->node_count; i++) {
        int64_t stride = region->nodes[i]->view.strides[last];
        if (region->nodes[i]->kind == TSR_NODE_VIEW && stride != 0 && stride != 1) return true;
    }
    return false;
}

static void plan(reducer *a) {
    tsr_reduction *r = a->r;
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1, width = tsr_region_width(&r->before);
    if (!r->contiguous && !is_strided(&r->before, last) && !is_strided(&r->after, last))
        a->lanes = tsr_lanes_fit(2 * b->target->vector_bytes / (width < 4 ? 4 : width),
                                 tsr_extent_high(b, r->space.dims[last]));
    a->local =
        tsr_tile_local(b, tsr_tile_storage_type(b, r->dtype), (int64_t)TSR_PARTIALS * width_of(a));
    a->count = tsr_tile_index(b, r->reduced_count);
}

tsr_result tsr_open_lower_reduce(tsr_tile_group *group) {
    tsr_reduction r;
    TRY(group->ctx, tsr_reduction_init(group, &r));
    tsr_tile_builder *b = &group->b;
    tsr_point point = {.space = &r.space};
    reducer a = {.r = &r, .point = &point};
    uint32_t last = r.space.rank - 1;
    int64_t high = tsr_extent_high(b, r.reduced_count);
    plan(&a);
    set_levels(&a);
    MlirValue parts = tsr_tile_index(b, 1), items = tsr_tile_index(b, r.parallel_count);
    if (a.lanes) {
        int64_t outer = 1;
        for (uint32_t d = 0; d < last; d++)
            if (r.outer[d]) outer = tsr_extent_times(outer, r.space.dims[d]);
        MlirValue columns = tsr_tile_index(b, r.space.dims[last]);
        parts = tsr_tile_div(b, tsr_tile_offset(b, columns, a.lanes - 1), a.lanes);
        items = tsr_tile_mul(b, parts, outer);
    }
    int64_t bytes = high * tsr_region_bytes(&r.before, NULL, &r.space) * width_of(&a);
    tsr_open_programs(group, tsr_divide_up(tsr_extent_high(b, r.parallel_count), width_of(&a)),
                      bytes);
    tsr_tile_loop loop;
    tsr_open_share(group, items, &loop);
    enter(&a, loop.index, parts);
    tsr_region_emit(&r.before, 1, &point);
    bool is_run = r.contiguous && r.reduced_dims == 1 && !tsr_sum_is_long(high) &&
                  !is_strided(&r.before, last);
    MlirValue result = !r.op ? find_first(&a) : is_run ? reduce_run(&a, high) : reduce(&a, high);
    tsr_reduction_finish(&r, result, &point);
    tsr_tile_loop_end(b, &loop, NULL);
    return TSR_SUCCESS;
}
