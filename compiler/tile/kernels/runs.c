/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/kernels/runs.h"

#include "compiler/tile/open.h"

enum { PROGRAM_BYTES = 32 * 1024 };

tsr_result tsr_runs_argument(tsr_tile_group *group, size_t index, uint32_t *out_number) {
    MlirValue operand = tsr_op_operand(group->root, index);
    size_t results = tsr_op_result_count(group->root);
    if (!mlirValueIsABlockArgument(operand))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu is not an argument", group->name, index);
    bool alone = group->output_count == results;
    for (size_t i = 0; alone && i < results; i++)
        alone = mlirValueEqual(group->returned[i], tsr_op_result(group->root, i));
    if (!alone)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': %s must be the only op", group->name,
             tsr_op_name(group->root));
    *out_number = (uint32_t)mlirBlockArgumentGetArgNumber(operand);
    return TSR_SUCCESS;
}

tsr_axis tsr_axis_of(const tsr_shape *shape, int64_t axis) {
    tsr_axis a = {1, 1, 1};
    TSR_ASSERT(axis >= 0 && axis < (int64_t)shape->rank);
    for (uint32_t d = 0; d < shape->rank; d++) {
        int64_t *count = d < axis ? &a.outer : d == axis ? &a.size : &a.inner;
        *count = tsr_extent_times(*count, (int64_t)shape->dims[d]);
    }
    return a;
}

MlirValue tsr_tile_max(tsr_tile_builder *b, MlirValue x, MlirValue y) {
    int64_t a = 0, c = 0;
    if (tsr_tile_index_known(x, &a) && tsr_tile_index_known(y, &c))
        return tsr_tile_index(b, a > c ? a : c);
    return tsr_tile_2(b, "arith.maxsi", x, y);
}

MlirValue tsr_order_before(tsr_tile_builder *b, tsr_dtype dtype, bool descending, MlirValue x,
                           MlirValue y) {
    if (!tsr_dtype_is_float(dtype)) {
        tsr_tile_icmp less = tsr_dtype_is_signed(dtype) ? TSR_ICMP_SLT : TSR_ICMP_ULT;
        return descending ? tsr_tile_icompare(b, less, y, x) : tsr_tile_icompare(b, less, x, y);
    }
    MlirValue less = tsr_tile_fcompare(b, descending ? TSR_FCMP_OGT : TSR_FCMP_OLT, x, y);
    MlirValue number = tsr_tile_fcompare(b, TSR_FCMP_OEQ, x, x);
    MlirValue nan = tsr_tile_fcompare(b, TSR_FCMP_UNO, y, y);
    return tsr_tile_2(b, "arith.ori", less, tsr_tile_2(b, "arith.andi", number, nan));
}

/* ---- strips ---------------------------------------------------------------------------------- */

/* Whole rows, whose number or length a call gives. */
static void begin_open(tsr_tile_group *group, int64_t rows, int64_t columns, int64_t bytes,
                       tsr_strip *out_strip) {
    tsr_tile_builder *b = &group->b;
    tsr_strip s = {.width = tsr_extent_high(b, columns)};
    tsr_open_programs(group, tsr_extent_high(b, rows), s.width * bytes);
    tsr_open_share(group, tsr_tile_index(b, rows), &s.loop);
    s.row = s.loop.index;
    s.begin = tsr_tile_index(b, 0);
    s.end = tsr_tile_index(b, columns);
    *out_strip = s;
}

void tsr_strip_begin(tsr_tile_group *group, int64_t rows, int64_t columns, int64_t bytes,
                     bool whole_rows, tsr_strip *out_strip) {
    tsr_tile_builder *b = &group->b;
    if (group->has_extents) {
        begin_open(group, rows, columns, bytes, out_strip);
        return;
    }
    int64_t width = columns, parts = 1, items_each = 1;
    int64_t most = PROGRAM_BYTES / bytes > 256 ? PROGRAM_BYTES / bytes / 256 * 256 : 256;
    if (columns > most && !whole_rows) width = most;
    parts = tsr_divide_up(columns, width);
    int64_t items = rows * parts;
    if (parts == 1 && columns < most) items_each = most / columns;
    if (items_each > items) items_each = items;
    group->grid = tsr_divide_up(items, items_each);
    tsr_tile_open_grid(group, items, items_each, 1);
    MlirValue first = tsr_tile_index(b, 0), last = tsr_tile_open_count(group, items);
    if (group->grid > 1) {
        first = tsr_tile_mul(b, tsr_tile_program_id(b), items_each);
        last = tsr_tile_min(b, tsr_tile_offset(b, first, items_each), last);
    }
    tsr_strip s = {.width = width};
    tsr_tile_loop_begin(b, &s.loop, first, last, 1, 0, NULL);
    s.row = tsr_tile_div(b, s.loop.index, parts);
    s.begin = tsr_tile_mul(b, tsr_tile_rem(b, s.loop.index, parts), width);
    s.end = columns % width
                ? tsr_tile_min(b, tsr_tile_offset(b, s.begin, width), tsr_tile_index(b, columns))
                : tsr_tile_offset(b, s.begin, width);
    *out_strip = s;
}

void tsr_strip_end(tsr_tile_group *group, tsr_strip *strip) {
    tsr_tile_loop_end(&group->b, &strip->loop, NULL);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Processes whole vectors, then the remainder under a mask. */
typedef struct walker {
    const tsr_run *run;
    MlirValue from, from_offset, to, to_offset;
    MlirValue fill; /* null: copy */
    uint32_t lanes;
} walker;

static void step(tsr_tile_builder *b, const walker *w, MlirValue at, MlirValue mask) {
    MlirValue value = w->fill;
    if (mlirValueIsNull(value))
        value = tsr_tile_load_stored(b, w->run->dtype, w->from, tsr_tile_add(b, w->from_offset, at),
                                     w->lanes, mask);
    tsr_tile_store_stored(b, value, w->to, tsr_tile_add(b, w->to_offset, at), mask);
}

static void walk(tsr_tile_builder *b, walker *w) {
    int64_t known = 0, lanes = w->lanes;
    bool is_known = tsr_tile_index_known(w->run->count, &known);
    MlirValue zero = tsr_tile_index(b, 0), count = w->run->count;
    if (!is_known) count = tsr_tile_max(b, count, zero);
    if (is_known && known <= 0) return;
    MlirValue tail = tsr_tile_rem(b, count, lanes), whole = tsr_tile_sub(b, count, tail);
    if (!mlirValueIsNull(w->fill)) w->fill = tsr_tile_splat(b, w->fill, w->lanes);
    if (!is_known || known >= lanes) {
        TSR_TILE_FOR(b, loop, zero, whole, lanes) { step(b, w, loop.index, tsr_tile_null); }
    }
    if (lanes > 1 && (!is_known || known % lanes))
        step(b, w, whole, tsr_tile_mask(b, tail, w->lanes));
}

static uint32_t lanes_of(tsr_tile_builder *b, const tsr_run *run) {
    uint32_t lanes = 2 * b->target->vector_bytes / (uint32_t)tsr_dtype_size(run->dtype);
    return tsr_lanes_fit(lanes < 64 ? lanes : 64, tsr_extent_high(b, run->most));
}

void tsr_run_copy(tsr_tile_builder *b, const tsr_run *run, MlirValue from, MlirValue from_offset,
                  MlirValue to, MlirValue to_offset) {
    walker w = {run, from, from_offset, to, to_offset, tsr_tile_null, lanes_of(b, run)};
    walk(b, &w);
}

void tsr_run_fill(tsr_tile_builder *b, const tsr_run *run, MlirValue value, MlirValue to,
                  MlirValue to_offset) {
    walker w = {run, tsr_tile_null, tsr_tile_null, to, to_offset, value, lanes_of(b, run)};
    walk(b, &w);
}
