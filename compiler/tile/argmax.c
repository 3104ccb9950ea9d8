/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `argmax`: the index of the first largest element along one dimension. A NaN is
 * larger than any number; the first NaN wins. Elements are visited in order, so nothing depends on
 * lanes: scalars where the last dimension is reduced, else vectors along the last, kept one.
 */
#include "compiler/tile/reduce.h"

/* Is x larger than best? */
static MlirValue is_better(tsr_reduction *r, MlirValue x, MlirValue best) {
    tsr_tile_builder *b = &r->group->b;
    if (!tsr_dtype_is_float(r->dtype)) {
        bool is_unsigned = r->dtype == TSR_DTYPE_UI8 || r->dtype == TSR_DTYPE_I1;
        return tsr_tile_icompare(b, is_unsigned ? TSR_ICMP_UGT : TSR_ICMP_SGT, x, best);
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
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 1), tsr_tile_index(b, r->reduced_count), 1, 2,
                        carried);
    MlirValue x = element_at(r, point, loop.index);
    MlirValue better = is_better(r, x, loop.carried[0]);
    MlirValue number = tsr_tile_to(b, "arith.index_cast", loop.index, scalar);
    MlirValue next[2] = {
        tsr_tile_select(b, better, x, loop.carried[0]),
        tsr_tile_select(b, better, tsr_tile_splat(b, number, point->lanes), loop.carried[1])};
    tsr_tile_loop_end(b, &loop, next);
    return loop.carried[1];
}

tsr_result tsr_tile_lower_argmax(tsr_tile_group *group) {
    tsr_reduction r;
    TRY(group->ctx, tsr_reduction_init(group, &r));
    if (!r.kept_count) return TSR_SUCCESS;
    tsr_tile_builder *b = &group->b;
    tsr_point point = {.space = &r.space};
    uint32_t last = r.space.rank - 1, lanes = 0;
    bool inner[TSR_RANK_MAX] = {false}, column[TSR_RANK_MAX] = {false};
    int64_t size = r.along ? 1 : r.space.dims[last], parts = size;
    if (!r.along) {
        lanes = tsr_lanes_fit(2 * group->b.target->vector_bytes / 8, size);
        parts = (size + lanes - 1) / lanes;
        column[last] = true;
    }
    for (uint32_t d = 0; d <= last; d++) inner[d] = r.space.reduced[d] || column[d];
    tsr_region_levels(&r.before, &r.space, inner);
    tsr_region_levels(&r.after, &r.space, column);
    if (r.reduced_count) tsr_region_emit(&r.before, 0, &point);
    tsr_region_emit(&r.after, 0, &point);
    tsr_tile_loop items;
    int64_t bytes = tsr_region_bytes(&r.before, NULL, &r.space) * r.reduced_count;
    tsr_reduction_programs(&r, r.kept_count / size * parts, bytes * (lanes ? lanes : 1), &items);
    tsr_point_unflatten(b, &point, r.outer, tsr_tile_div(b, items.index, parts));
    if (r.reduced_count) tsr_region_emit(&r.before, 1, &point);
    if (!r.along) {
        point.lanes = lanes;
        point.index[last] = tsr_tile_mul(b, tsr_tile_rem(b, items.index, parts), lanes);
        if (size % lanes)
            point.mask = tsr_tile_mask(
                b, tsr_tile_sub(b, tsr_tile_index(b, size), point.index[last]), lanes);
    }
    tsr_reduction_finish(&r, find_first(&r, &point), &point);
    tsr_tile_loop_end(b, &items, NULL);
    return TSR_SUCCESS;
}
