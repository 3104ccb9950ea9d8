/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `cumsum`: sums along an axis, one chain per line in the order of the axis; bf16 and
 * f16 are summed in f32, and each sum is rounded. Vectors go over neighbouring lines.
 */
#include "compiler/tile/kernels/runs.h"

typedef struct cumsum {
    tsr_tile_group *group;
    tsr_axis axis;
    tsr_dtype dtype;
    bool reverse, exclusive;
    MlirValue from, to;
} cumsum;

/* Lines `column` … of one row of lines. */
static void emit_lines(cumsum *c, MlirValue row, MlirValue column, uint32_t lanes, MlirValue mask) {
    tsr_tile_builder *b = &c->group->b;
    MlirValue sum = tsr_element_zero(b, c->dtype, lanes), zero = tsr_tile_index(b, 0);
    MlirValue size = tsr_tile_index(b, c->axis.size);
    TSR_TILE_FOR_CARRIED(b, loop, zero, size, 1, 1, &sum) {
        MlirValue position = loop.index;
        if (c->reverse) position = tsr_tile_sub(b, tsr_tile_offset(b, size, -1), position);
        MlirValue line = tsr_tile_add(b, tsr_tile_mul(b, row, c->axis.size), position);
        MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, line, c->axis.inner), column);
        MlirValue x = tsr_tile_load(b, c->dtype, c->from, at, lanes, mask);
        MlirValue before = sum;
        sum = tsr_element_add(b, c->dtype, before, x);
        tsr_tile_store(b, c->dtype, c->exclusive ? before : sum, c->to, at, mask);
    }
}

tsr_result tsr_tile_lower_cumsum(tsr_tile_group *group) {
    cumsum c = {.group = group};
    uint32_t from = 0;
    int64_t axis = 0;
    TRY(group->ctx, tsr_runs_argument(group, 0, &from));
    const tsr_type *type = &group->types[from];
    if (!tsr_op_i64(group->root, "axis", &axis) || axis < 0 || axis >= (int64_t)type->shape.rank)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed cumulative sum", group->name);
    c.axis = tsr_axis_of(&type->shape, axis);
    c.dtype = type->dtype;
    c.reverse = tsr_op_flag(group->root, "reverse");
    c.exclusive = tsr_op_flag(group->root, "exclusive");
    c.from = group->buffers[from];
    c.to = group->buffers[group->input_count];
    if (!c.axis.outer || !c.axis.size || !c.axis.inner) return TSR_SUCCESS;
    tsr_tile_builder *b = &group->b;
    size_t width = tsr_dtype_size(tsr_tile_compute_dtype(c.dtype));
    uint32_t lanes =
        tsr_lanes_fit(b->target->vector_bytes / (uint32_t)width, tsr_extent_high(b, c.axis.inner));
    if (c.axis.inner == 1) lanes = 0;
    tsr_strip s;
    tsr_strip_begin(group, c.axis.outer, c.axis.inner,
                    2 * tsr_extent_high(b, c.axis.size) * (int64_t)tsr_dtype_size(c.dtype), false,
                    &s);
    TSR_TILE_FOR(b, loop, s.begin, s.end, lanes ? lanes : 1) {
        MlirValue mask = tsr_tile_null;
        if (lanes && (tsr_extent_is_open(c.axis.inner) || c.axis.inner % lanes))
            mask = tsr_tile_mask(b, tsr_tile_sub(b, s.end, loop.index), lanes);
        emit_lines(&c, s.row, loop.index, lanes, mask);
    }
    tsr_strip_end(group, &s);
    return TSR_SUCCESS;
}
