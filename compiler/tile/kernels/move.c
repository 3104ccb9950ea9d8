/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel families `slice`, `pad` and `concat`.
 *
 * A slice is a copy from a view with other strides and an offset. Padding fills a row of the
 * result, then copies the matching row of the operand, if there is one. A row of a concatenation
 * consists of a run of each operand.
 */
#include "compiler/tile/kernels/runs.h"

tsr_result tsr_tile_lower_slice(tsr_tile_group *group) {
    uint32_t from = 0;
    int64_t start[TSR_RANK_MAX], stride[TSR_RANK_MAX];
    size_t starts = 0, strides = 0;
    TRY(group->ctx, tsr_runs_argument(group, 0, &from));
    const tsr_type *type = &group->types[from];
    const tsr_shape *out = &group->types[group->input_count].shape;
    bool known = tsr_tile_group_numbers(group, group->root, "start", start, &starts);
    if (tsr_op_has(group->root, "stride"))
        known = known && tsr_op_i64s(group->root, "stride", TSR_RANK_MAX, stride, &strides);
    else
        for (; strides < starts; strides++) stride[strides] = 1;
    if (!known || starts != type->shape.rank || strides != starts || out->rank != type->shape.rank)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed slice", group->name);
    tsr_space space = {.rank = out->rank};
    tsr_view source = {.dtype = type->dtype, .buffer = group->buffers[from], .stored = true};
    tsr_view result = {
        .dtype = type->dtype, .buffer = group->buffers[group->input_count], .stored = true};
    int64_t dense = 1, out_dense = 1;
    for (uint32_t d = out->rank; d-- > 0;) {
        space.dims[d] = (int64_t)out->dims[d];
        source.strides[d] = tsr_extent_times(dense, stride[d]);
        source.offset = tsr_extent_plus(source.offset, tsr_extent_times(dense, start[d]));
        result.strides[d] = out_dense;
        dense = tsr_extent_times(dense, (int64_t)type->shape.dims[d]);
        out_dense = tsr_extent_times(out_dense, space.dims[d]);
    }
    return tsr_tile_lower_copy(group, &source, &result, &space);
}

/* ---- pad ------------------------------------------------------------------------------------- */

typedef struct pad {
    tsr_tile_group *group;
    tsr_dtype dtype;
    tsr_space space; /* the result */
    int64_t from_dims[TSR_RANK_MAX], low[TSR_RANK_MAX], high[TSR_RANK_MAX], gap[TSR_RANK_MAX];
    MlirValue from, to, value;
    tsr_strip strip;
    MlirValue from_row; /* offset of the operand's row */
    MlirValue valid;    /* i1: there is one; null: always */
} pad;

static tsr_result read_pad(pad *p) {
    tsr_tile_group *group = p->group;
    uint32_t from = 0;
    size_t lows = 0, highs = 0, gaps = 0;
    double value = 0;
    TRY(group->ctx, tsr_runs_argument(group, 0, &from));
    const tsr_shape *shape = &group->types[from].shape,
                    *out = &group->types[group->input_count].shape;
    bool known = tsr_tile_group_numbers(group, group->root, "low", p->low, &lows) &&
                 tsr_tile_group_numbers(group, group->root, "high", p->high, &highs) &&
                 tsr_op_f64(group->root, "value", &value);
    if (tsr_op_has(group->root, "interior"))
        known = known && tsr_op_i64s(group->root, "interior", TSR_RANK_MAX, p->gap, &gaps);
    else
        gaps = lows;
    if (!known || lows != shape->rank || highs != lows || gaps != lows || out->rank != lows)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed padding", group->name);
    p->dtype = group->types[from].dtype;
    p->space.rank = out->rank;
    for (uint32_t d = 0; d < out->rank; d++) {
        p->space.dims[d] = (int64_t)out->dims[d];
        p->from_dims[d] = (int64_t)shape->dims[d];
    }
    p->from = group->buffers[from];
    p->to = group->buffers[group->input_count];
    MlirType stored = tsr_tile_storage_type(&group->b, p->dtype);
    if (tsr_dtype_is_float(p->dtype))
        p->value = tsr_tile_float(&group->b, stored, value);
    else if (tsr_dtype_is_small(p->dtype))
        p->value = tsr_tile_small(&group->b, p->dtype, stored, value);
    else
        p->value = tsr_tile_int(&group->b, stored, (int64_t)value);
    return TSR_SUCCESS;
}

static MlirValue both(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    return mlirValueIsNull(x) ? y : tsr_tile_2(b, "arith.andi", x, y);
}

/* Finds the row of the operand that is copied into this row of the result. */
static void find_row(pad *p) {
    tsr_tile_builder *b = &p->group->b;
    uint32_t last = p->space.rank - 1;
    tsr_point point = {.space = &p->space};
    bool outer[TSR_RANK_MAX] = {false};
    int64_t stride = p->from_dims[last];
    for (uint32_t d = 0; d < last; d++) outer[d] = true;
    tsr_point_unflatten(b, &point, outer, p->strip.row);
    p->from_row = tsr_tile_index(b, 0);
    p->valid = tsr_tile_null;
    for (uint32_t d = last; d-- > 0; stride = tsr_extent_times(stride, p->from_dims[d])) {
        MlirValue zero = tsr_tile_index(b, 0);
        MlirValue at = tsr_tile_sub(b, point.index[d], tsr_tile_index(b, p->low[d]));
        MlirValue position = tsr_tile_div(b, at, p->gap[d] + 1);
        if (p->low[d]) p->valid = both(b, p->valid, tsr_tile_icompare(b, TSR_ICMP_SGE, at, zero));
        if (p->low[d] || p->high[d] || !p->from_dims[d])
            p->valid = both(
                b, p->valid,
                tsr_tile_icompare(b, TSR_ICMP_SLT, position, tsr_tile_index(b, p->from_dims[d])));
        if (p->gap[d])
            p->valid =
                both(b, p->valid,
                     tsr_tile_icompare(b, TSR_ICMP_EQ, tsr_tile_rem(b, at, p->gap[d] + 1), zero));
        p->from_row = tsr_tile_add(b, p->from_row, tsr_tile_mul(b, position, stride));
    }
}

static MlirValue if_valid(pad *p, MlirValue yes, MlirValue no) {
    return mlirValueIsNull(p->valid) ? yes : tsr_tile_select(&p->group->b, p->valid, yes, no);
}

static void emit_pad_row(pad *p) {
    tsr_tile_builder *b = &p->group->b;
    const tsr_strip *s = &p->strip;
    uint32_t last = p->space.rank - 1;
    int64_t low = p->low[last], gap = p->gap[last], size = p->from_dims[last];
    MlirValue zero = tsr_tile_index(b, 0);
    MlirValue to_row = tsr_tile_mul(b, s->row, p->space.dims[last]);
    MlirValue columns = tsr_tile_sub(b, s->end, s->begin);
    tsr_run run = {p->dtype, columns, s->width};
    if (!low && !p->high[last] && !gap) run.count = if_valid(p, zero, columns);
    tsr_run_fill(b, &run, p->value, p->to, tsr_tile_add(b, to_row, s->begin));
    if (b->target->warp_lanes) tsr_tile_barrier(b); /* other lanes overwrite some of the values */
    if (gap) {
        TSR_TILE_FOR(b, loop, zero, if_valid(p, tsr_tile_index(b, size), zero), 1) {
            MlirValue value = tsr_tile_load_stored(
                b, p->dtype, p->from, tsr_tile_add(b, p->from_row, loop.index), 0, tsr_tile_null);
            MlirValue column = tsr_tile_offset(b, tsr_tile_mul(b, loop.index, gap + 1), low);
            tsr_tile_store_stored(b, value, p->to, tsr_tile_add(b, to_row, column), tsr_tile_null);
        }
        return;
    }
    MlirValue begin = tsr_tile_max(b, s->begin, tsr_tile_index(b, low));
    MlirValue end = tsr_tile_min(b, s->end, tsr_tile_offset(b, tsr_tile_index(b, low), size));
    MlirValue source = tsr_tile_add(b, p->from_row, tsr_tile_sub(b, begin, tsr_tile_index(b, low)));
    run.count = if_valid(p, tsr_tile_sub(b, end, begin), zero);
    tsr_run_copy(b, &run, p->from, source, p->to, tsr_tile_add(b, to_row, begin));
}

tsr_result tsr_tile_lower_pad(tsr_tile_group *group) {
    pad p = {.group = group};
    TRY(group->ctx, read_pad(&p));
    int64_t count = tsr_space_count(&p.space);
    if (!count) return TSR_SUCCESS;
    if (!p.space.rank) {
        p.space = (tsr_space){.rank = 1, .dims = {1}};
        p.from_dims[0] = 1;
    }
    int64_t columns = p.space.dims[p.space.rank - 1], rows = 1;
    for (uint32_t d = 0; d + 1 < p.space.rank; d++) rows = tsr_extent_times(rows, p.space.dims[d]);
    tsr_strip_begin(group, rows, columns, (int64_t)tsr_dtype_size(p.dtype),
                    p.gap[p.space.rank - 1] != 0, &p.strip);
    find_row(&p);
    emit_pad_row(&p);
    tsr_strip_end(group, &p.strip);
    return TSR_SUCCESS;
}

/* ---- concat ---------------------------------------------------------------------------------- */

tsr_result tsr_tile_lower_concat(tsr_tile_group *group) {
    tsr_tile_builder *b = &group->b;
    int64_t axis = 0, at = 0;
    const tsr_type *out = &group->types[group->input_count];
    if (!tsr_op_i64(group->root, "axis", &axis) || axis < 0 || axis >= (int64_t)out->shape.rank)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed concatenation", group->name);
    tsr_axis whole = tsr_axis_of(&out->shape, axis);
    int64_t columns = tsr_extent_times(whole.size, whole.inner);
    uint32_t numbers[64];
    size_t count = tsr_op_operand_count(group->root);
    TSR_ASSERT(count <= 64);
    for (size_t i = 0; i < count; i++) TRY(group->ctx, tsr_runs_argument(group, i, &numbers[i]));
    if (!whole.outer || !columns) return TSR_SUCCESS;
    tsr_strip s;
    tsr_strip_begin(group, whole.outer, columns, (int64_t)tsr_dtype_size(out->dtype), false, &s);
    MlirValue to_row = tsr_tile_mul(b, s.row, columns);
    for (size_t i = 0; i < count; i++) {
        tsr_axis part = tsr_axis_of(&group->types[numbers[i]].shape, axis);
        int64_t length = tsr_extent_times(part.size, part.inner);
        int64_t most = tsr_extent_high(b, length);
        MlirValue begin = tsr_tile_max(b, s.begin, tsr_tile_index(b, at));
        MlirValue end = tsr_tile_min(b, s.end, tsr_tile_index(b, tsr_extent_plus(at, length)));
        MlirValue source = tsr_tile_add(b, tsr_tile_mul(b, s.row, length),
                                        tsr_tile_sub(b, begin, tsr_tile_index(b, at)));
        tsr_run run = {out->dtype, tsr_tile_sub(b, end, begin), most < s.width ? most : s.width};
        if (length)
            tsr_run_copy(b, &run, group->buffers[numbers[i]], source,
                         group->buffers[group->input_count], tsr_tile_add(b, to_row, begin));
        at = tsr_extent_plus(at, length);
    }
    tsr_strip_end(group, &s);
    return TSR_SUCCESS;
}
