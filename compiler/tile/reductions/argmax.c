/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `argmax`: the index of the first largest element along one dimension. A NaN is
 * larger than any number; the first NaN wins. The result does not depend on the lanes. Along the
 * last dimension a long run is read twice, in vectors: first for the largest element, then for the
 * first element that equals it. Short runs, and all runs on a GPU, are computed as scalars in
 * order. If another dimension is reduced, vectors along the last one are computed in order.
 */
#include "compiler/tile/reductions/reduce.h"

enum { RUN_LEAST = 32, RUN_MOST = INT32_MAX - 2 * TSR_PARTIALS };

MlirValue tsr_argmax_is_better(tsr_reduction *r, MlirValue x, MlirValue best) {
    tsr_tile_builder *b = &r->group->b;
    if (!tsr_dtype_is_float(r->dtype)) {
        bool is_signed = tsr_dtype_is_signed(r->dtype);
        return tsr_tile_icompare(b, is_signed ? TSR_ICMP_SGT : TSR_ICMP_UGT, x, best);
    }
    MlirValue larger = tsr_tile_fcompare(b, TSR_FCMP_OGT, x, best);
    MlirValue nan = tsr_tile_fcompare(b, TSR_FCMP_UNO, x, x);
    MlirValue number = tsr_tile_fcompare(b, TSR_FCMP_OEQ, best, best);
    return tsr_tile_2(b, "arith.ori", larger, tsr_tile_2(b, "arith.andi", nan, number));
}

static MlirValue element_at(tsr_reduction *r, const tsr_point *at, MlirValue flat) {
    tsr_point point = *at;
    tsr_point_unflatten(&r->group->b, &point, r->space.reduced, flat);
    tsr_region_emit(&r->before, 2, &point);
    return tsr_node_value(&r->before, r->before.results[0], &point);
}

static MlirValue find_first(tsr_reduction *r, const tsr_point *point) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_I64, point->lanes);
    MlirType scalar = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue carried[2] = {tsr_tile_null, tsr_tile_int(b, type, 0)};
    if (!r->reduced_count) return carried[1];
    carried[0] = element_at(r, point, zero);
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 1), tsr_tile_index(b, r->reduced_count), 1, 2,
                         carried) {
        MlirValue x = element_at(r, point, loop.index);
        MlirValue better = tsr_argmax_is_better(r, x, carried[0]);
        MlirValue number = tsr_tile_to(b, "arith.index_cast", loop.index, scalar);
        carried[0] = tsr_tile_select(b, better, x, carried[0]);
        carried[1] =
            tsr_tile_select(b, better, tsr_tile_splat(b, number, point->lanes), carried[1]);
    }
    return carried[1];
}

/* ---- a long run in vectors ------------------------------------------------------------------- */

static bool is_long_run(const tsr_reduction *r) {
    return r->contiguous && !r->group->b.target->warp_lanes && r->reduced_count >= RUN_LEAST &&
           r->reduced_count <= RUN_MOST;
}

static MlirValue is_equal(tsr_reduction *r, MlirValue x, MlirValue largest) {
    tsr_tile_builder *b = &r->group->b;
    if (!tsr_dtype_is_float(r->dtype)) return tsr_tile_icompare(b, TSR_ICMP_EQ, x, largest);
    MlirValue equal = tsr_tile_fcompare(b, TSR_FCMP_OEQ, x, largest);
    MlirValue nan = tsr_tile_fcompare(b, TSR_FCMP_UNO, x, x);
    MlirValue none = tsr_tile_fcompare(b, TSR_FCMP_UNO, largest, largest);
    return tsr_tile_2(b, "arith.ori", equal, tsr_tile_2(b, "arith.andi", nan, none));
}

/* The smaller of `first` and the positions of elements that equal `largest`, for the vector at the
 * point. */
static MlirValue visit_positions(tsr_reduction *r, const tsr_point *point, MlirValue largest,
                                 MlirValue first) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t lanes = point->lanes, last = r->space.rank - 1;
    MlirType scalar = tsr_tile_value_type(b, TSR_DTYPE_I32, 0);
    tsr_region_emit(&r->before, 2, point);
    MlirValue x = tsr_node_value(&r->before, r->before.results[0], point);
    MlirValue hit = is_equal(r, x, tsr_tile_splat(b, largest, lanes));
    if (!mlirValueIsNull(point->mask)) hit = tsr_tile_2(b, "arith.andi", hit, point->mask);
    MlirValue begin = tsr_tile_to(b, "arith.index_cast", point->index[last], scalar);
    MlirValue position = tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, begin, lanes),
                                    tsr_tile_iota(b, scalar, lanes));
    MlirValue none = tsr_tile_int(b, tsr_tile_value_type(b, TSR_DTYPE_I32, lanes), INT32_MAX);
    return tsr_tile_2(b, "arith.minsi", first, tsr_tile_select(b, hit, position, none));
}

static MlirValue find_equal(tsr_reduction *r, const tsr_point *at, MlirValue largest,
                            uint32_t lanes) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    int64_t size = r->reduced_count, whole = size - size % lanes;
    tsr_point point = *at;
    point.lanes = lanes;
    MlirValue first = tsr_tile_int(b, tsr_tile_value_type(b, TSR_DTYPE_I32, lanes), INT32_MAX);
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), lanes, 1,
                         &first) {
        point.index[last] = loop.index;
        first = visit_positions(r, &point, largest, first);
    }
    if (whole < size) {
        point.index[last] = tsr_tile_index(b, whole);
        point.mask = tsr_tile_mask(b, tsr_tile_index(b, size - whole), lanes);
        first = visit_positions(r, &point, largest, first);
    }
    for (uint32_t half = lanes / 2; half; half /= 2)
        first = tsr_tile_2(b, "arith.minsi", tsr_tile_slice(b, first, 0, half),
                           tsr_tile_slice(b, first, half, half));
    return tsr_tile_to(b, "arith.extsi", tsr_tile_extract(b, first, 0),
                       tsr_tile_value_type(b, TSR_DTYPE_I64, 0));
}

static MlirValue find_in_run(tsr_reduction *r, const tsr_point *point) {
    uint32_t lanes = tsr_lanes_fit(TSR_PARTIALS, r->reduced_count);
    tsr_partials partials;
    r->op = &tsr_reduction_max;
    tsr_partials_init(r, lanes, tsr_lanes_in_flight(&r->group->b, sizeof(int32_t)), &partials);
    tsr_partials_add_run(r, point, &partials);
    return find_equal(r, point, tsr_partials_tree(r, &partials), partials.lanes);
}

tsr_result tsr_tile_lower_argmax(tsr_tile_group *group) {
    tsr_reduction r;
    TRY(group->ctx, tsr_reduction_init(group, &r));
    if (!r.parallel_count) return TSR_SUCCESS;
    tsr_tile_builder *b = &group->b;
    tsr_point point = {.space = &r.space};
    uint32_t last = r.space.rank - 1, lanes = 0;
    bool inner[TSR_RANK_MAX] = {false}, column[TSR_RANK_MAX] = {false};
    int64_t size = r.contiguous ? 1 : r.space.dims[last], parts = size;
    if (!r.contiguous) {
        lanes = tsr_lanes_fit(2 * group->b.target->vector_bytes / 8, size);
        parts = tsr_divide_up(size, lanes);
        column[last] = true;
    }
    for (uint32_t d = 0; d <= last; d++) inner[d] = r.space.reduced[d] || column[d];
    tsr_region_levels(&r.before, &r.space, inner);
    tsr_region_levels(&r.after, &r.space, column);
    if (r.reduced_count) tsr_region_emit(&r.before, 0, &point);
    tsr_region_emit(&r.after, 0, &point);
    tsr_tile_loop items;
    int64_t bytes = tsr_region_bytes(&r.before, NULL, &r.space) * r.reduced_count;
    tsr_reduction_programs(&r, r.parallel_count / size * parts, bytes * (lanes ? lanes : 1),
                           &items);
    tsr_point_unflatten(b, &point, r.outer, tsr_tile_div(b, items.index, parts));
    if (r.reduced_count) tsr_region_emit(&r.before, 1, &point);
    if (!r.contiguous) {
        point.lanes = lanes;
        point.index[last] = tsr_tile_mul(b, tsr_tile_rem(b, items.index, parts), lanes);
        if (size % lanes)
            point.mask = tsr_tile_mask(
                b, tsr_tile_sub(b, tsr_tile_index(b, size), point.index[last]), lanes);
    }
    MlirValue found = is_long_run(&r) ? find_in_run(&r, &point) : find_first(&r, &point);
    tsr_reduction_finish(&r, found, &point);
    tsr_tile_loop_end(b, &items, NULL);
    return TSR_SUCCESS;
}
