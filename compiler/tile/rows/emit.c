/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `rows`: reductions over the same last dims, and elementwise ops before, between and
 * after them (compiler/schedule/fusion/rows.h), row by row. A row is read from memory once and
 * stays in cache during the other walks over it.
 *
 * A value is constant along a row (level 0 or 1: a scalar) or not (level 2). The stage of a value
 * is the length of the longest chain of reductions that it depends on. Each stage computes its
 * scalars, then walks once over the row, which accumulates the stage's reductions and stores its
 * results. Values that a later stage needs again are recomputed if that is cheap; otherwise they
 * are cached in a buffer as long as a row, or read back if they are a result.
 *
 * Reductions have the order of reduce.c, also for a long row in chunks: fusing changes no bit. With
 * native numerics there are as many partial results as a vector has elements; if a row is a few
 * vectors, the lanes of a GPU hold it; and if all results have 16 bits, exponentials are the
 * hardware's approximations.
 */
#include "compiler/tile/attributes.h"
#include "compiler/tile/rows/rows.h"

#include <string.h>

typedef tsr_row_item item;
typedef tsr_rows rows;

static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

static MlirValue load_cached(rows *r, const item *it) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    tsr_dtype dtype = tsr_tile_compute_dtype(it->node.dtype);
    MlirValue at =
        it->in_result ? tsr_point_offset(b, &r->point, &it->node.view) : r->point.index[last];
    return tsr_tile_load(b, dtype, it->buffer, at, r->point.lanes, r->point.mask);
}

static MlirValue leaf_value(rows *r, const item *it, const tsr_point *point) {
    tsr_tile_builder *b = &r->group->b;
    if (it->node.kind == TSR_NODE_SPLAT) return tsr_splat_value(b, &it->node);
    if (it->node.kind == TSR_NODE_IOTA) return tsr_iota_value(b, &it->node, point);
    if (it->ahead && !r->alone) return tsr_rows_load_ahead(r, it);
    return tsr_tile_load(b, it->node.dtype, it->node.view.buffer,
                         tsr_point_offset(b, point, &it->node.view), point->lanes, point->mask);
}

static MlirValue packed_value(rows *r, item *it, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue *chunk = &it->chunks[r->chunk];
    bool first = mlirValueIsNull(*chunk);
    if (first)
        *chunk = it->ahead ? tsr_rows_load_ahead(r, it)
                           : tsr_tile_load_stored(b, it->node.dtype, it->node.view.buffer,
                                                  tsr_point_offset(b, &r->point, &it->node.view),
                                                  r->point.lanes, r->point.mask);
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_F32, r->point.lanes);
    tsr_attr attrs[] = {{TSR_AGAIN_NAME, tsr_attr_make_i64(b->at.context, stage)}, {0}};
    return tsr_build_value(&b->at, "arith.extf", chunk, 1, type, first ? NULL : attrs);
}

/* The value at the point of the walk. */
static MlirValue value_of(rows *r, item *it, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    if (it->level < 2) return tsr_tile_splat(b, it->scalar, r->point.lanes);
    if (it->walk == r->walk) return it->vector;
    it->walk = r->walk;
    bool resident = it->resident && !r->alone;
    if (resident && tsr_row_is_packed(it)) {
        it->vector = packed_value(r, it, stage);
    } else if (resident && !mlirValueIsNull(it->chunks[r->chunk])) {
        it->vector = it->chunks[r->chunk];
    } else if (it->cached && it->stage < stage && !r->alone) {
        it->vector = load_cached(r, it);
    } else if (it->kind == TSR_ROW_LEAF) {
        it->vector = leaf_value(r, it, &r->point);
    } else {
        MlirValue operands[TSR_ELEMENT_OPERANDS_MAX];
        for (uint32_t k = 0; k < it->operand_count; k++)
            operands[k] = value_of(r, it->operands[k], stage);
        it->vector =
            it->kind == TSR_ROW_SAME ? operands[0] : tsr_element_build(b, it->node.op, operands);
    }
    if (resident && !tsr_row_is_packed(it)) it->chunks[r->chunk] = it->vector;
    return it->vector;
}

MlirValue tsr_rows_value_alone(rows *r, item *it, MlirValue column, uint32_t stage) {
    if (r->has_trailing) return tsr_rows_column_alone(r, it, column);
    r->point.index[r->space.rank - 1] = column;
    r->walk++;
    r->alone = true;
    r->point.lanes = 0;
    r->point.mask = tsr_tile_null;
    MlirValue value = value_of(r, it, stage);
    r->alone = false;
    return value;
}

static void emit_scalars(rows *r, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    tsr_point point = r->point;
    point.lanes = 0;
    point.mask = point.index[r->space.rank - 1] = tsr_tile_null;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        MlirValue operands[TSR_ELEMENT_OPERANDS_MAX];
        if (it->level == 2 || it->stage != stage || it->kind == TSR_ROW_REDUCE ||
            it->kind == TSR_ROW_SUM || it->ahead)
            continue;
        if (it->kind == TSR_ROW_REPAIR) {
            tsr_rows_emit_repair(r, it, stage);
            continue;
        }
        for (uint32_t k = 0; k < it->operand_count; k++) operands[k] = it->operands[k]->scalar;
        it->scalar = it->kind == TSR_ROW_LEAF   ? leaf_value(r, it, &point)
                     : it->kind == TSR_ROW_SAME ? operands[0]
                                                : tsr_element_build(b, it->node.op, operands);
    }
}

static void store_result(rows *r, uint32_t output, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    const tsr_view *view = &r->outputs[output];
    MlirValue value = value_of(r, r->results[output], stage);
    MlirValue at = tsr_point_offset(b, &r->point, view);
    bool streams = r->shifted ? r->shifted == output + 1 : tsr_rows_stream(r, output);
    if (mlirValueIsNull(r->point.mask) && streams)
        tsr_tile_store_streamed(b, view->dtype, value, view->buffer, at);
    else
        tsr_tile_store(b, view->dtype, value, view->buffer, at, r->point.mask);
}

/* Prefetches the next row: memory is idle during the last walk but one over this row. */
static void prefetch(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t parallel = r->parallel_shape.rank;
    for (uint32_t i = 0; i < r->item_count; i++) {
        const item *it = r->items[i];
        if (it->kind != TSR_ROW_LEAF || it->node.kind != TSR_NODE_VIEW || it->level < 2) continue;
        const tsr_view *view = &it->node.view;
        int64_t bytes = r->row_count * r->columns * (int64_t)tsr_dtype_size(view->dtype);
        if (!parallel || !view->strides[parallel - 1] || bytes < TSR_PREFETCH_BYTES_MIN) continue;
        MlirValue at = tsr_point_offset(b, &r->point, view);
        tsr_tile_prefetch_vector(b, view->dtype, view->buffer,
                                 tsr_tile_offset(b, at, view->strides[parallel - 1]),
                                 r->point.lanes);
    }
}

/* Adds to the program's part of a sum over rows. */
static void add_to_sum(rows *r, item *it, MlirValue value) {
    tsr_tile_builder *b = &r->group->b;
    if (r->holds) {
        MlirValue *to = &it->sums[r->chunk];
        *to = tsr_tile_2(b, "arith.addf", *to, value);
        return;
    }
    MlirValue at = tsr_tile_add(b, r->sums_at, r->point.index[r->space.rank - 1]);
    MlirValue old = tsr_tile_load(b, TSR_DTYPE_F32, it->buffer, at, r->point.lanes, r->point.mask);
    tsr_tile_store(b, TSR_DTYPE_F32, tsr_tile_2(b, "arith.addf", old, value), it->buffer, at,
                   r->point.mask);
}

/* Processes one vector of the walk; `part`: the index of its partial results. */
static void visit(rows *r, uint32_t stage, uint32_t part) {
    tsr_tile_builder *b = &r->group->b;
    r->walk++;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->stage != stage) continue;
        if (it->kind == TSR_ROW_SUM) {
            add_to_sum(r, it, value_of(r, it->operands[0], stage));
        } else if (it->kind == TSR_ROW_REDUCE) {
            MlirValue value = value_of(r, it->operands[0], stage), *to = &it->partials.values[part];
            if (!mlirValueIsNull(r->point.mask))
                value = tsr_tile_select(b, r->point.mask, value,
                                        tsr_reduction_identity(&it->rules, r->point.lanes));
            *to = tsr_reduction_combine(&it->rules, *to, value);
        } else if (it->cached && !it->in_result) {
            tsr_tile_store(b, tsr_tile_compute_dtype(it->node.dtype), value_of(r, it, stage),
                           it->buffer, r->point.index[r->space.rank - 1], r->point.mask);
        }
    }
    for (uint32_t i = 0; i < r->plain_count; i++)
        if (r->whole_rows[i] && r->results[i]->stage == stage) store_result(r, i, stage);
    if (stage == r->prefetch_stage && !r->holds) prefetch(r);
}

static uint32_t count_reductions(const rows *r, uint32_t stage) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->item_count; i++)
        count += r->items[i]->kind == TSR_ROW_REDUCE && r->items[i]->stage == stage;
    return count;
}

/* The number of lanes for which inputs and sums fit in the registers of a thread. */
static uint32_t native_lanes(const rows *r) {
    enum { FEW = 5, SOME = 8 };
    uint32_t vectors = 0;
    for (uint32_t i = 0; i < r->item_count; i++)
        vectors += r->items[i]->kind == TSR_ROW_REDUCE ||
                   (r->items[i]->kind == TSR_ROW_LEAF && r->items[i]->level == 2);
    return (uint32_t)TSR_NATIVE_LANES / (vectors <= FEW ? 1U : vectors <= SOME ? 2U : 4U);
}

/* Returns the lanes of all partial results of a stage; *out_lanes: the lanes of its vectors, which
 * have two registers, or more registers if there would be too many vectors. */
static uint32_t lanes_of(const rows *r, uint32_t stage, uint32_t *out_lanes) {
    uint32_t reductions = count_reductions(r, stage), width = 4;
    for (uint32_t i = 0; i < r->item_count; i++)
        width =
            most(width, (uint32_t)tsr_dtype_size(tsr_tile_compute_dtype(r->items[i]->node.dtype)));
    if (r->holds) return *out_lanes = tsr_rows_chunk(r);
    if (r->group->is_native && width == 4) /* on a GPU many loads are in flight at a time */
        return *out_lanes = tsr_lanes_fit(native_lanes(r), r->columns);
    uint32_t lanes = reductions ? tsr_lanes_in_flight(&r->group->b, width)
                                : 2 * r->group->b.target->vector_bytes / width;
    uint32_t all = tsr_lanes_fit(reductions ? TSR_PARTIALS : lanes, r->columns);
    if (lanes > all) lanes = all;
    while (all / lanes * reductions > TSR_PARTIAL_VECTORS_MAX && lanes < all) lanes *= 2;
    *out_lanes = lanes;
    return all;
}

static bool has_walk(const rows *r, uint32_t stage) {
    for (uint32_t i = 0; i < r->plain_count; i++)
        if (r->whole_rows[i] && r->results[i]->stage == stage) return true;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->stage == stage &&
            (r->items[i]->kind == TSR_ROW_REDUCE || r->items[i]->kind == TSR_ROW_SUM ||
             (r->items[i]->cached && !r->items[i]->in_result)))
            return true;
    return false;
}

/* Copies the partial results of the stage's reductions to `values`, or back; returns their number.
 */
static uint32_t carry(rows *r, uint32_t stage, MlirValue *values, bool from) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->kind != TSR_ROW_REDUCE || it->stage != stage) continue;
        size_t size = it->partials.count * sizeof *values;
        TSR_ASSERT(count + it->partials.count <= TSR_TILE_CARRIED_MAX);
        if (from)
            memcpy(it->partials.values, values + count, size);
        else
            memcpy(values + count, it->partials.values, size);
        count += it->partials.count;
    }
    return count;
}

/* Returns 1 + the output that a walk without reductions stores past the caches, if the walk begins
 * with the elements before the row's first cache line; else 0. */
static uint32_t find_shifted(const rows *r, uint32_t stage) {
    if (r->holds || count_reductions(r, stage)) return 0;
    for (uint32_t i = 0; i < r->plain_count; i++)
        if (r->whole_rows[i] && r->results[i]->stage == stage && tsr_rows_stream_shifted(r, i))
            return i + 1;
    return 0;
}

static void visit_masked(rows *r, uint32_t stage, MlirValue begin, MlirValue count) {
    r->point.index[r->space.rank - 1] = begin;
    r->point.mask = tsr_tile_mask(&r->group->b, count, r->point.lanes);
    visit(r, stage, 0);
}

static void walk_shifted(rows *r, uint32_t stage, uint32_t output) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t lanes, last = r->space.rank - 1;
    const tsr_view *view = &r->outputs[output];
    lanes_of(r, stage, &lanes);
    r->point.lanes = lanes;
    r->point.index[last] = tsr_tile_null;
    MlirValue start = tsr_point_offset(b, &r->point, view), zero = tsr_tile_index(b, 0);
    /* Vectors shorter than a cache line: several may precede the first cache line. */
    MlirValue head = tsr_tile_rem(b, tsr_tile_until_aligned(b, view->buffer, start), lanes);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, r->columns), head);
    MlirValue rest = tsr_tile_rem(b, left, lanes);
    MlirValue end = tsr_tile_sub(b, tsr_tile_index(b, r->columns), rest);
    visit_masked(r, stage, zero, head);
    r->shifted = output + 1;
    r->point.mask = tsr_tile_null;
    TSR_TILE_FOR(b, loop, head, end, lanes) {
        r->point.index[last] = loop.index;
        visit(r, stage, 0);
    }
    visit_masked(r, stage, end, rest);
    r->shifted = 0;
}

static bool reduces(const item *it, uint32_t stage) {
    return it->kind == TSR_ROW_REDUCE && it->stage == stage;
}

/* Reduces elements first ... first + count - 1 of the row into partial results. */
static void walk_range(rows *r, uint32_t stage, MlirValue first, int64_t count) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t lanes, all = lanes_of(r, stage, &lanes), last = r->space.rank - 1;
    int64_t whole = count - count % all;
    MlirValue carried[TSR_TILE_CARRIED_MAX];
    for (uint32_t i = 0; i < r->item_count; i++)
        if (reduces(r->items[i], stage))
            tsr_partials_init(&r->items[i]->rules, all, lanes, &r->items[i]->partials);
    r->point.lanes = lanes;
    r->point.mask = tsr_tile_null;
    for (r->chunk = 0; r->holds && r->chunk < whole / lanes; r->chunk++) {
        r->point.index[last] = tsr_tile_offset(b, first, (int64_t)r->chunk * lanes);
        visit(r, stage, r->chunk % (all / lanes));
    }
    if (whole && !r->holds) {
        tsr_tile_loop loop;
        uint32_t values = carry(r, stage, carried, false);
        tsr_tile_loop_begin(b, &loop, first, tsr_tile_offset(b, first, whole), all, values,
                            carried);
        carry(r, stage, loop.carried, true);
        for (uint32_t part = 0; part < all / lanes; part++) {
            r->point.index[last] = tsr_tile_offset(b, loop.index, part * lanes);
            visit(r, stage, part);
        }
        carry(r, stage, carried, false);
        tsr_tile_loop_end(b, &loop, carried);
        carry(r, stage, loop.carried, true);
    }
    for (uint32_t part = 0; whole + (int64_t)(part * lanes) < count; part++, r->chunk++) {
        int64_t begin = whole + (int64_t)(part * lanes), left = count - begin;
        r->point.index[last] = tsr_tile_offset(b, first, begin);
        r->point.mask = left < (int64_t)lanes ? tsr_tile_mask(b, tsr_tile_index(b, left), lanes)
                                              : tsr_tile_null;
        visit(r, stage, part);
    }
}

/* The arguments of a reduction of a chunk of the row. */
typedef struct row_chunk {
    rows *r;
    uint32_t stage;
} row_chunk;

static void reduce_range(void *user, MlirValue first, int64_t count, MlirValue *out_results) {
    const row_chunk *c = user;
    rows *r = c->r;
    walk_range(r, c->stage, first, count);
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (!reduces(it, c->stage)) continue;
        *out_results++ =
            r->holds ? tsr_tile_reduction(&r->group->b, it->rules.op->kind, it->partials.values[0])
                     : tsr_partials_tree(&it->rules, &it->partials);
    }
}

static void walk(rows *r, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t shifted = find_shifted(r, stage), count = 0;
    tsr_reduction *rules[TSR_REDUCTIONS_MAX];
    MlirValue results[TSR_REDUCTIONS_MAX];
    row_chunk chunk = {.r = r, .stage = stage};
    if (shifted) {
        walk_shifted(r, stage, shifted - 1);
        return;
    }
    for (uint32_t i = 0; i < r->item_count; i++) {
        if (!reduces(r->items[i], stage)) continue;
        TSR_ASSERT(count < TSR_REDUCTIONS_MAX);
        rules[count++] = &r->items[i]->rules;
    }
    tsr_reduction_chunks chunks = {.rules = rules,
                                   .count = count,
                                   .elements = r->columns,
                                   .reduce = reduce_range,
                                   .user = &chunk};
    /* Native numerics on a GPU use a different order of summation. */
    if (!count || r->holds || r->group->is_native)
        reduce_range(&chunk, tsr_tile_index(b, 0), r->columns, results);
    else
        tsr_reduction_in_chunks(&chunks, results);
    count = 0;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (reduces(r->items[i], stage))
            r->items[i]->scalar = tsr_tile_round(b, r->items[i]->node.dtype, results[count++]);
}

void tsr_rows_set_row(rows *r, MlirValue row) {
    bool outer[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d + 1 < r->space.rank; d++) outer[d] = true;
    tsr_point_unflatten(&r->group->b, &r->point, outer, row);
}

static void emit_row(rows *r, MlirValue row) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    tsr_rows_set_row(r, row);
    for (uint32_t i = 0; i < r->item_count; i++)
        memset(r->items[i]->chunks, 0, sizeof r->items[i]->chunks);
    for (uint32_t stage = 0; stage < r->stage_count; stage++) {
        emit_scalars(r, stage);
        if (has_walk(r, stage)) walk(r, stage);
    }
    tsr_point point = r->point;
    point.lanes = 0;
    point.mask = point.index[last] = tsr_tile_null;
    for (uint32_t i = 0; i < r->plain_count; i++)
        if (!r->whole_rows[i])
            tsr_tile_store(b, r->outputs[i].dtype, r->results[i]->scalar, r->outputs[i].buffer,
                           tsr_point_offset(b, &point, &r->outputs[i]), tsr_tile_null);
}

/* True if all vectors along a row begin at multiples of 8 elements, and no input is an iota. */
static bool may_block(const rows *r) {
    uint32_t last = r->space.rank - 1;
    for (uint32_t i = 0; i < r->item_count + r->plain_count; i++) {
        bool is_output = i >= r->item_count;
        const item *it = is_output ? NULL : r->items[i];
        if (is_output && !r->whole_rows[i - r->item_count]) continue;
        if (it && (it->kind != TSR_ROW_LEAF || it->level < 2)) continue;
        if (it && it->node.kind != TSR_NODE_VIEW) return false;
        const tsr_view *view = it ? &it->node.view : &r->outputs[i - r->item_count];
        size_t size = tsr_dtype_size(view->dtype);
        if (view->strides[last] != 1 || view->offset % TSR_BLOCKED_RUN ||
            !tsr_dtype_is_float(view->dtype) || (size != 2 && size != 4))
            return false;
        /* A row with a pitch may begin aligned without having an aligned length: sums must have the
         * same order as without a pitch. */
        for (uint32_t d = 0; d < last; d++)
            if (view->strides[d] % TSR_BLOCKED_RUN ||
                (view->strides[d] && r->columns % TSR_BLOCKED_RUN))
                return false;
    }
    return true;
}

static bool is_narrow(const rows *r) {
    if (r->sums && r->sums->count) return false;
    for (uint32_t i = 0; i < r->plain_count; i++)
        if (!tsr_dtype_is_narrow(r->outputs[i].dtype)) return false;
    return true;
}

/* Begins a vector of a row of sums: returns its offset, and sets lanes and mask. */
static MlirValue begin_chunk(rows *r, int64_t begin, uint32_t lanes) {
    tsr_tile_builder *b = &r->group->b;
    int64_t left = r->columns - begin;
    r->point.lanes = lanes;
    r->point.mask =
        left < (int64_t)lanes ? tsr_tile_mask(b, tsr_tile_index(b, left), lanes) : tsr_tile_null;
    return tsr_tile_offset(b, r->sums_at, begin);
}

static uint32_t count_chunks(const rows *r) {
    return (uint32_t)((r->columns - 1) / tsr_rows_chunk(r) + 1);
}

/* Copies the values carried from a row to the next one to `values`, or back: sums that lanes hold,
 * and values fetched ahead. Returns their number. */
static uint32_t carry_resident(rows *r, MlirValue *values, bool from) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        for (uint32_t k = 0; it->kind == TSR_ROW_SUM && k < count_chunks(r); k++, count++)
            *(from ? &it->sums[k] : &values[count]) = from ? values[count] : it->sums[k];
    }
    return tsr_rows_carry_ahead(r, values, count, from);
}

/* Sets the sums to zero; they are in their buffers if lanes do not hold them. */
static void begin_sums(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t lanes = r->holds ? tsr_rows_chunk(r) : b->target->vector_bytes / 4;
    MlirValue zero = tsr_tile_float(b, tsr_tile_value_type(b, TSR_DTYPE_F32, lanes), 0);
    for (uint32_t i = r->plain_count; i < r->group->output_count; i++)
        for (uint32_t k = 0; r->holds && k < TSR_ROW_CHUNKS_MAX; k++) r->results[i]->sums[k] = zero;
    if (r->holds) return;
    int64_t whole = r->columns - r->columns % lanes;
    for (uint32_t i = r->plain_count; i < r->group->output_count; i++) {
        MlirValue buffer = r->results[i]->buffer;
        TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), lanes) {
            tsr_tile_store(b, TSR_DTYPE_F32, zero, buffer, tsr_tile_add(b, r->sums_at, loop.index),
                           tsr_tile_null);
        }
        MlirValue at = whole < r->columns ? begin_chunk(r, whole, lanes) : tsr_tile_null;
        if (whole < r->columns) tsr_tile_store(b, TSR_DTYPE_F32, zero, buffer, at, r->point.mask);
    }
}

/* Stores the sums; if programs share a block, its first program stores their total. */
static void store_sums(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t lanes = tsr_rows_chunk(r);
    MlirValue zero = tsr_tile_index(b, 0), is_first = tsr_tile_null, local = tsr_tile_null;
    if (r->block_programs > 1) {
        MlirValue side = tsr_tile_rem(b, tsr_tile_program_id(b), r->block_programs);
        is_first = tsr_tile_icompare(b, TSR_ICMP_EQ, side, zero);
        local = tsr_tile_local_own(b, tsr_tile_storage_type(b, TSR_DTYPE_F32), lanes);
    }
    for (uint32_t i = r->plain_count; i < r->group->output_count; i++)
        for (int64_t k = 0; k * lanes < r->columns; k++) {
            MlirValue at = begin_chunk(r, k * lanes, lanes), sum = r->results[i]->sums[k];
            if (r->block_programs > 1) {
                MlirValue left = tsr_tile_index(b, r->columns - k * lanes);
                sum = tsr_tile_add_programs(b, sum, local);
                r->point.mask = tsr_tile_mask(b, tsr_tile_select(b, is_first, left, zero), lanes);
            }
            tsr_tile_store(b, TSR_DTYPE_F32, sum, r->results[i]->buffer, at, r->point.mask);
        }
}

/* Emits a program that loops over its rows; it has one row in the buffer of each sum. */
static void emit_summed(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    const tsr_rows_sums *s = r->sums;
    MlirValue program = tsr_tile_program_id(b), carried[TSR_TILE_CARRIED_MAX];
    r->group->grid = s->outer * s->parts * r->block_programs;
    r->sums_at = tsr_tile_mul(b, tsr_tile_div(b, program, r->block_programs), r->columns);
    int64_t programs = s->parts * r->block_programs; /* programs of one position */
    MlirValue part = tsr_tile_rem(b, program, programs), all = tsr_tile_index(b, s->rows);
    tsr_rows_span span = {.first = tsr_tile_mul(b, tsr_tile_div(b, program, programs), s->rows),
                          .begin = part,
                          .end = all,
                          .step = programs};
    if (!b->target->arch) {
        span.begin = tsr_tile_mul(b, part, s->per_program);
        span.end = tsr_tile_min(b, tsr_tile_offset(b, span.begin, s->per_program), all);
        span.step = 1;
    }
    begin_sums(r);
    tsr_rows_begin_ahead(r, &span);
    uint32_t count = r->holds ? carry_resident(r, carried, false) : 0;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, span.begin, span.end, span.step, count, carried);
    if (count) carry_resident(r, loop.carried, true);
    tsr_rows_fetch_ahead(r, &span, loop.index);
    emit_row(r, tsr_tile_add(b, span.first, loop.index));
    if (count) carry_resident(r, carried, false);
    tsr_tile_loop_end(b, &loop, carried);
    if (r->stages) tsr_tile_fetched(b, 0); /* waits for the last rows, which nothing reads */
    if (!count) return;
    carry_resident(r, loop.carried, true);
    store_sums(r);
}

static void emit_plain(rows *r) {
    int64_t bytes = 1;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->level == 2)
            bytes += r->columns * (r->items[i]->kind == TSR_ROW_LEAF ? 4 : 1);
    tsr_reduction any = {.group = r->group};
    tsr_tile_loop loop;
    tsr_reduction_programs(&any, r->row_count, bytes, &loop);
    emit_row(r, loop.index);
    tsr_tile_loop_end(&r->group->b, &loop, NULL);
}

tsr_result tsr_rows_emit(tsr_tile_group *group, const tsr_rows_sums *sums) {
    rows r = {.group = group, .sums = sums};
    TRY(group->ctx, tsr_rows_read(&r));
    if (!r.row_count) return TSR_SUCCESS;
    r.point.space = &r.space;
    if (r.has_trailing) return tsr_rows_emit_columns(&r);
    r.even = may_block(&r);
    tsr_rows_sums divided;
    if (!sums && !group->open_high && tsr_rows_divide(&r, &divided)) r.sums = &divided;
    tsr_rows_choose(&r);
    if (r.sums)
        emit_summed(&r);
    else
        emit_plain(&r);
    if (group->is_native && is_narrow(&r)) tsr_tile_approximate(&group->b, group->b.at.block);
    if (group->is_native && r.even)
        tsr_tile_set_blocked(&group->b, group->b.at.block, r.columns % TSR_BLOCKED_RUN == 0);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_rows(tsr_tile_group *group) { return tsr_rows_emit(group, NULL); }
