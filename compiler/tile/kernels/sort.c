/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `sort`: the elements of each line along an axis in order, and their original
 * positions.
 *
 * Knuth, "The Art of Computer Programming", volume 3, section 5.2.2, algorithm M (merge exchange;
 * Batcher 1968): a fixed network of compare-exchanges for any length. Ties between elements are
 * broken by their positions, so no two are equal and the sort is stable. The network works in the
 * two results. If lines are contiguous, vectors run along consecutive exchanges, otherwise over
 * neighbouring lines.
 */
#include "compiler/tile/kernels/runs.h"

typedef struct sort {
    tsr_tile_group *group;
    tsr_axis axis;
    tsr_dtype dtype;
    bool descending;
    MlirValue values, positions;
    uint32_t lanes; /* lanes over neighbouring lines; 0: vectors run along the line */
    /* the current line or lines */
    MlirValue base, mask;
} sort;

static MlirValue before(sort *s, MlirValue x, MlirValue y) {
    return tsr_order_before(&s->group->b, s->dtype, s->descending, x, y);
}

static MlirValue not_(tsr_tile_builder *b, MlirValue x) {
    return tsr_tile_2(b, "arith.xori", x, tsr_tile_int(b, mlirValueGetType(x), 1));
}

/* Compares and exchanges the elements, or vectors of elements, at two offsets. */
static void exchange(sort *s, MlirValue low, MlirValue high, uint32_t lanes, MlirValue mask) {
    tsr_tile_builder *b = &s->group->b;
    MlirValue x = tsr_tile_load(b, s->dtype, s->values, low, lanes, mask);
    MlirValue y = tsr_tile_load(b, s->dtype, s->values, high, lanes, mask);
    MlirValue i = tsr_tile_load(b, TSR_DTYPE_I64, s->positions, low, lanes, mask);
    MlirValue j = tsr_tile_load(b, TSR_DTYPE_I64, s->positions, high, lanes, mask);
    MlirValue later = tsr_tile_icompare(b, TSR_ICMP_SLT, j, i);
    MlirValue tied = tsr_tile_2(b, "arith.andi", not_(b, before(s, x, y)), later);
    MlirValue swap = tsr_tile_2(b, "arith.ori", before(s, y, x), tied);
    tsr_tile_store(b, s->dtype, tsr_tile_select(b, swap, y, x), s->values, low, mask);
    tsr_tile_store(b, s->dtype, tsr_tile_select(b, swap, x, y), s->values, high, mask);
    tsr_tile_store(b, TSR_DTYPE_I64, tsr_tile_select(b, swap, j, i), s->positions, low, mask);
    tsr_tile_store(b, TSR_DTYPE_I64, tsr_tile_select(b, swap, i, j), s->positions, high, mask);
}

static MlirValue offset_of(sort *s, MlirValue position) {
    tsr_tile_builder *b = &s->group->b;
    return tsr_tile_add(b, s->base, tsr_tile_mul(b, position, s->axis.inner));
}

/* Exchanges positions i and i + distance for i in [begin, end), `lanes` together; `lanes` divides
 * the length. 0: the vectors run over neighbouring lines. */
static void exchange_run(sort *s, MlirValue begin, MlirValue end, uint32_t lanes,
                         int64_t distance) {
    tsr_tile_builder *b = &s->group->b;
    TSR_TILE_FOR(b, loop, begin, end, lanes ? lanes : 1) {
        MlirValue low = offset_of(s, loop.index);
        MlirValue high = offset_of(s, tsr_tile_offset(b, loop.index, distance));
        exchange(s, low, high, lanes > 1 ? lanes : s->lanes, s->mask);
    }
}

/* Exchanges for every i below size - distance with (i & p) == r. These i form runs of p; the last
 * run may be shorter. */
static void pass(sort *s, int64_t p, int64_t r, int64_t distance) {
    tsr_tile_builder *b = &s->group->b;
    int64_t limit = s->axis.size - distance;
    if (r >= limit) return;
    uint32_t lanes = s->lanes ? 0 : tsr_lanes_fit(b->target->vector_bytes / 8, p);
    int64_t last = (limit - r) % (2 * p), rest = lanes && last < p ? last % lanes : 0;
    MlirValue end = tsr_tile_index(b, limit - rest);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, r), end, 2 * p) {
        MlirValue stop = tsr_tile_min(b, tsr_tile_offset(b, loop.index, p), end);
        exchange_run(s, loop.index, stop, lanes, distance);
    }
    if (!rest) return;
    MlirValue mask = tsr_tile_mask(b, tsr_tile_index(b, rest), lanes);
    exchange(s, offset_of(s, end), offset_of(s, tsr_tile_offset(b, end, distance)), lanes, mask);
}

static void network(sort *s) {
    int64_t top = 1;
    if (s->axis.size < 2) return;
    while (2 * top < s->axis.size) top *= 2;
    for (int64_t p = top; p; p /= 2) {
        pass(s, p, 0, p);
        for (int64_t q = top; q > p; q /= 2) pass(s, p, p, q - p);
    }
}

static void copy_in(sort *s, MlirValue from) {
    tsr_tile_builder *b = &s->group->b;
    MlirType number = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, s->axis.size), 1) {
        MlirValue at = offset_of(s, loop.index);
        MlirValue x = tsr_tile_load_stored(b, s->dtype, from, at, s->lanes, s->mask);
        MlirValue position = tsr_tile_to(b, "arith.index_cast", loop.index, number);
        tsr_tile_store_stored(b, x, s->values, at, s->mask);
        tsr_tile_store(b, TSR_DTYPE_I64, tsr_tile_splat(b, position, s->lanes), s->positions, at,
                       s->mask);
    }
}

tsr_result tsr_tile_lower_sort(tsr_tile_group *group) {
    sort s = {.group = group, .mask = tsr_tile_null};
    uint32_t from = 0;
    int64_t axis = 0;
    TRY(group->ctx, tsr_runs_argument(group, 0, &from));
    const tsr_type *type = &group->types[from];
    if (!tsr_op_i64(group->root, "axis", &axis) || axis < 0 || axis >= (int64_t)type->shape.rank ||
        group->output_count != 2 || group->types[group->input_count + 1].dtype != TSR_DTYPE_I64)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed sort", group->name);
    s.axis = tsr_axis_of(&type->shape, axis);
    s.dtype = type->dtype;
    s.descending = tsr_op_flag(group->root, "descending");
    s.values = group->buffers[group->input_count];
    s.positions = group->buffers[group->input_count + 1];
    if (!s.axis.outer || !s.axis.size || !s.axis.inner) return TSR_SUCCESS;
    tsr_tile_builder *b = &group->b;
    if (s.axis.inner > 1) s.lanes = tsr_lanes_fit(b->target->vector_bytes / 8, s.axis.inner);
    tsr_strip strip;
    /* About log n squared / 2 exchanges per element, each of about 16 bytes. */
    int64_t bytes = 256 * s.axis.size;
    tsr_strip_begin(group, s.axis.outer, s.axis.inner, bytes, false, &strip);
    TSR_TILE_FOR(b, loop, strip.begin, strip.end, s.lanes ? s.lanes : 1) {
        if (s.lanes && s.axis.inner % s.lanes)
            s.mask = tsr_tile_mask(b, tsr_tile_sub(b, strip.end, loop.index), s.lanes);
        s.base =
            tsr_tile_add(b, tsr_tile_mul(b, strip.row, s.axis.size * s.axis.inner), loop.index);
        copy_in(&s, group->buffers[from]);
        network(&s);
    }
    tsr_strip_end(group, &strip);
    return TSR_SUCCESS;
}
