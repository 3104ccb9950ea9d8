/* SPDX-License-Identifier: Apache-2.0
 *
 * Family `rows` if other dims follow the reduced ones: for example softmax over channels that
 * precede the image positions. A program has some adjacent columns, a vector of each row, and walks
 * over them stage by stage, as emit.c walks over a row: they are read once from memory, and then
 * from a cache. Costly values are cached in a local buffer if later stages or a reduction read
 * them.
 *
 * A reduction has the same partial results as in reduce.c: element i goes to partial result i
 * modulo 64. The partial results are added in the same tree, chunk by chunk if the axis is long.
 * Fusing therefore changes no bit. The tree is emitted depth first together with its leaves, so
 * that few values are live at a time.
 *
 * While stages compute, the program's next columns are prefetched: rows are far apart, and the
 * hardware prefetcher does not detect them.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/rows/rows.h"

#include <string.h>

typedef tsr_row_item item;
typedef tsr_rows rows;

enum {
    LINE_BYTES = 64,
    PROGRAMS = 64, /* minimum number of programs on a CPU; on a GPU it is WARPS */
    WARPS = 4096,
    VECTORS_MAX = 32, /* vectors of columns in a program */
    WALKED_MAX = 16,  /* rows that a GPU reads together */
    WALKED_VALUES = 2 * WALKED_MAX,
};

/* ---- values ---------------------------------------------------------------------------------- */

static MlirValue leaf_value(rows *r, const item *it) {
    tsr_tile_builder *b = &r->group->b;
    tsr_point scalar = r->point;
    const tsr_view *view = &it->node.view;
    MlirValue value;
    if (it->node.kind == TSR_NODE_SPLAT)
        return tsr_tile_splat(b, tsr_splat_value(b, &it->node), r->point.lanes);
    bool trailing = view->strides[r->space.rank - 1] != 0;
    if (!trailing) {
        scalar.lanes = 0;
        scalar.mask = tsr_tile_null;
    }
    if (it->node.kind == TSR_NODE_IOTA)
        value = tsr_iota_value(b, &it->node, &scalar);
    else
        value = tsr_tile_load(b, it->node.dtype, view->buffer, tsr_point_offset(b, &scalar, view),
                              scalar.lanes, scalar.mask);
    return trailing ? value : tsr_tile_splat(b, value, r->point.lanes);
}

/* The offset of the row's vector in a local buffer. */
static MlirValue local_at(rows *r, MlirValue row) {
    return tsr_tile_mul(&r->group->b, row, r->point.lanes);
}

static MlirValue value_of(rows *r, item *it, MlirValue row) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue operands[TSR_ELEMENT_OPERANDS_MAX];
    if (it->level < 2) return it->scalar;
    if (it->walk == r->walk) return it->vector;
    it->walk = r->walk;
    if (it->resident && !r->alone) {
        return it->vector = tsr_tile_load(b, tsr_tile_compute_dtype(it->node.dtype), it->buffer,
                                          local_at(r, row), r->point.lanes, tsr_tile_null);
    }
    if (it->kind == TSR_ROW_LEAF) return it->vector = leaf_value(r, it);
    for (uint32_t k = 0; k < it->operand_count; k++)
        operands[k] = value_of(r, it->operands[k], row);
    return it->vector =
               it->kind == TSR_ROW_SAME ? operands[0] : tsr_element_build(b, it->node.op, operands);
}

/* Moves the point to a row of the columns. */
static void at_row(rows *r, MlirValue row) {
    tsr_point_unflatten(&r->group->b, &r->point, r->space.reduced, row);
    r->walk++;
}

MlirValue tsr_rows_column_alone(rows *r, item *it, MlirValue column) {
    r->alone = true;
    at_row(r, column);
    MlirValue value = value_of(r, it, column);
    r->alone = false;
    return value;
}

static void leave_rows(rows *r) {
    for (uint32_t d = 0; d < r->space.rank; d++)
        if (r->space.reduced[d]) r->point.index[d] = tsr_tile_null;
}

/* Emits the values that are the same in all rows. */
static void emit_constants(rows *r, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue operands[TSR_ELEMENT_OPERANDS_MAX];
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->level == 2 || it->stage != stage || it->kind == TSR_ROW_REDUCE) continue;
        if (it->kind == TSR_ROW_REPAIR) {
            tsr_rows_emit_repair(r, it, stage);
            continue;
        }
        for (uint32_t k = 0; k < it->operand_count; k++) operands[k] = it->operands[k]->scalar;
        it->scalar = it->kind == TSR_ROW_LEAF   ? leaf_value(r, it)
                     : it->kind == TSR_ROW_SAME ? operands[0]
                                                : tsr_element_build(b, it->node.op, operands);
    }
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void store_result(rows *r, uint32_t output, MlirValue value) {
    tsr_tile_builder *b = &r->group->b;
    const tsr_view *view = &r->outputs[output];
    MlirValue at = tsr_point_offset(b, &r->point, view);
    if (mlirValueIsNull(r->point.mask) && tsr_view_streams(view, &r->space, r->point.lanes))
        tsr_tile_store_streamed(b, view->dtype, value, view->buffer, at);
    else
        tsr_tile_store(b, view->dtype, value, view->buffer, at, r->point.mask);
}

/* Prefetches this row of the next columns. */
static void prefetch(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    uint32_t last = r->space.rank - 1;
    for (uint32_t i = 0; i < r->item_count; i++) {
        const item *it = r->items[i];
        const tsr_view *view = &it->node.view;
        if (it->kind != TSR_ROW_LEAF || it->node.kind != TSR_NODE_VIEW || it->level < 2 ||
            !view->strides[last] ||
            tsr_space_count(&r->space) * (int64_t)tsr_dtype_size(view->dtype) <
                TSR_PREFETCH_BYTES_MIN)
            continue;
        MlirValue at = tsr_point_offset(b, &r->point, view);
        tsr_tile_prefetch_vector(b, view->dtype, view->buffer,
                                 tsr_tile_offset(b, at, r->point.lanes), r->point.lanes);
    }
}

static bool is_walked(const rows *r, uint32_t stage) {
    bool walked = false;
    for (uint32_t i = 0; i < r->item_count; i++)
        walked |= r->items[i]->cached && r->items[i]->stage == stage;
    for (uint32_t i = 0; i < r->plain_count; i++)
        walked |= r->whole_rows[i] && r->results[i]->stage == stage;
    return walked;
}

static void cache_row(rows *r, uint32_t stage, MlirValue row) {
    tsr_tile_builder *b = &r->group->b;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->cached && it->stage == stage)
            tsr_tile_store(b, tsr_tile_compute_dtype(it->node.dtype), value_of(r, it, row),
                           it->buffer, local_at(r, row), tsr_tile_null);
    }
}

/* Computes the stage's values of `count` rows from row `first` on. All rows are read before any is
 * stored, so that the reads of several rows are in flight together. */
static void walk_rows(rows *r, uint32_t stage, MlirValue first, uint32_t count) {
    tsr_tile_builder *b = &r->group->b;
    for (uint32_t k = 0; k < count; k++) {
        MlirValue row = k ? tsr_tile_offset(b, first, k) : first;
        at_row(r, row);
        cache_row(r, stage, row);
        for (uint32_t i = 0; i < r->plain_count; i++)
            if (r->whole_rows[i] && r->results[i]->stage == stage)
                r->walked[(size_t)i * count + k] = value_of(r, r->results[i], row);
        if (stage == r->prefetch_stage) prefetch(r);
    }
    for (uint32_t k = 0; k < count; k++) {
        if (count > 1) at_row(r, k ? tsr_tile_offset(b, first, k) : first);
        for (uint32_t i = 0; i < r->plain_count; i++)
            if (r->whole_rows[i] && r->results[i]->stage == stage)
                store_result(r, i, r->walked[(size_t)i * count + k]);
    }
}

/* The number of rows whose inputs and outputs fit in the registers. */
static uint32_t count_walked(const rows *r) {
    uint32_t values = r->plain_count;
    if (!r->group->b.target->arch) return 1;
    for (uint32_t i = 0; i < r->item_count; i++)
        values += r->items[i]->kind == TSR_ROW_LEAF && r->items[i]->level == 2;
    return values * WALKED_MAX <= WALKED_VALUES ? WALKED_MAX
           : values >= WALKED_VALUES            ? 1
                                                : WALKED_VALUES / values;
}

/* Caches and stores the stage's values of each row. */
static void walk(rows *r, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    int64_t count = count_walked(r);
    int64_t whole = r->columns - r->columns % count;
    if (whole) {
        TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), count) {
            walk_rows(r, stage, loop.index, (uint32_t)count);
        }
    }
    if (whole < r->columns)
        walk_rows(r, stage, tsr_tile_index(b, whole), (uint32_t)(r->columns - whole));
    leave_rows(r);
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->cached && r->items[i]->stage == stage) r->items[i]->resident = true;
}

/* Adds row `row` to partial result `to`. */
static MlirValue add_row(rows *r, item *it, MlirValue row, MlirValue to) {
    at_row(r, row);
    return tsr_reduction_combine(&it->rules, to, value_of(r, it->operands[0], row));
}

/* Rows first ... first + count - 1: all rows, or the rows of a chunk. */
typedef struct row_range {
    rows *r;
    item *it;
    MlirValue first;
    int64_t count;
} row_range;

/* Partial result k after the halving tree has added those at distances of `step` and more. Each row
 * is a partial result; there are at most 64. */
static MlirValue reduce_rows(const row_range *p, int64_t k, int64_t step) {
    tsr_reduction *rules = &p->it->rules;
    tsr_tile_builder *b = &p->r->group->b;
    if (step >= TSR_PARTIALS)
        return add_row(p->r, p->it, tsr_tile_offset(b, p->first, k),
                       tsr_reduction_identity(rules, p->r->point.lanes));
    MlirValue low = reduce_rows(p, k, 2 * step);
    if (k + step >= p->count) return low;
    return tsr_reduction_combine(rules, low, reduce_rows(p, k + step, 2 * step));
}

/* The same if a partial result is a chain over every 64th row from row `first` on. */
static MlirValue reduce_chains(const row_range *p, MlirValue first, int64_t step) {
    tsr_tile_builder *b = &p->r->group->b;
    if (step < TSR_PARTIALS) {
        MlirValue low = reduce_chains(p, first, 2 * step);
        MlirValue high = reduce_chains(p, tsr_tile_offset(b, first, step), 2 * step);
        return tsr_reduction_combine(&p->it->rules, low, high);
    }
    MlirValue value = tsr_reduction_identity(&p->it->rules, p->r->point.lanes);
    MlirValue end = tsr_tile_offset(b, p->first, p->count);
    TSR_TILE_FOR_CARRIED(b, loop, first, end, TSR_PARTIALS, 1, &value) {
        value = add_row(p->r, p->it, loop.index, value);
    }
    return value;
}

/* Reduces more than 64 rows with a loop over subtrees; unrolling all 64 chains would be too much
 * code. */
static MlirValue reduce_many(const row_range *p) {
    enum { SUBTREES = 8 };
    rows *r = p->r;
    tsr_reduction *rules = &p->it->rules;
    tsr_tile_builder *b = &r->group->b;
    MlirType type = tsr_tile_storage_type(b, rules->dtype);
    MlirValue local = tsr_tile_local(b, type, (int64_t)SUBTREES * r->point.lanes);
    MlirValue values[SUBTREES];
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, SUBTREES), 1) {
        MlirValue value = reduce_chains(p, tsr_tile_add(b, p->first, loop.index), SUBTREES);
        tsr_tile_store(b, rules->dtype, value, local, local_at(r, loop.index), tsr_tile_null);
    }
    for (uint32_t k = 0; k < SUBTREES; k++)
        values[k] = tsr_tile_load(b, rules->dtype, local, local_at(r, tsr_tile_index(b, k)),
                                  r->point.lanes, tsr_tile_null);
    return tsr_reduction_halve(rules, values, SUBTREES);
}

/* The same on a GPU: a warp holds all partial results, and one loop goes over all rows. */
static MlirValue reduce_resident(const row_range *p) {
    rows *r = p->r;
    tsr_tile_builder *b = &r->group->b;
    MlirValue values[TSR_PARTIALS];
    int64_t whole = p->count - p->count % TSR_PARTIALS;
    for (uint32_t k = 0; k < TSR_PARTIALS; k++)
        values[k] = tsr_reduction_identity(&p->it->rules, r->point.lanes);
    TSR_TILE_FOR_CARRIED(b, loop, p->first, tsr_tile_offset(b, p->first, whole), TSR_PARTIALS,
                         TSR_PARTIALS, values) {
        for (uint32_t k = 0; k < TSR_PARTIALS; k++)
            values[k] = add_row(r, p->it, tsr_tile_offset(b, loop.index, k), values[k]);
    }
    for (int64_t row = whole; row < p->count; row++)
        values[row - whole] =
            add_row(r, p->it, tsr_tile_offset(b, p->first, row), values[row - whole]);
    return tsr_reduction_halve(&p->it->rules, values, TSR_PARTIALS);
}

static MlirValue reduce_range(void *user, MlirValue first, int64_t count) {
    row_range *p = user;
    p->first = first;
    p->count = count;
    if (count <= TSR_PARTIALS) return reduce_rows(p, 0, 1);
    return p->r->group->b.target->arch ? reduce_resident(p) : reduce_many(p);
}

static MlirValue reduce_column(rows *r, item *it) {
    row_range p = {.r = r, .it = it};
    tsr_reduction_range range = {.reduce = reduce_range, .user = &p};
    if (!r->columns) return tsr_reduction_identity(&it->rules, r->point.lanes);
    return tsr_reduction_one_in_chunks(&it->rules, r->point.lanes, r->columns, &range);
}

static void reduce_stage(rows *r, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->kind != TSR_ROW_REDUCE || it->stage != stage) continue;
        it->scalar = tsr_tile_round(b, it->node.dtype, reduce_column(r, it));
        leave_rows(r);
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Merges neighbouring dims that are contiguous in all views. */
static TSR_RESULT collapse(rows *r) {
    tsr_tile_group *group = r->group;
    tsr_region leaves = {.group = group, .nodes = TSR_NEW(group->arena, tsr_node *, r->item_count)};
    tsr_region *regions[] = {&leaves};
    if (!leaves.nodes) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->kind == TSR_ROW_LEAF)
            leaves.nodes[leaves.node_count++] = &r->items[i]->node;
    tsr_space_collapse(&r->space, regions, 1, r->outputs, r->plain_count);
    if (r->space.rank) return TSR_SUCCESS;
    /* Every dim has extent 1: one column stays. Strides after the last dim are 0. */
    r->space.rank = 1;
    r->space.dims[0] = 1;
    r->space.reduced[0] = false;
    return TSR_SUCCESS;
}

/* The number of columns, rounded up to whole vectors. */
static int64_t padded(int64_t columns, uint32_t lanes) { return tsr_round_up(columns, lanes); }

/* Chooses the lanes of a vector. On a CPU a vector has four registers, but at least a cache line,
 * if there are costly values; otherwise a vector is a long run, because memory is then the
 * bottleneck and is read fastest in few runs. The vector is shorter if a buffer of all rows would
 * leave no cache capacity for the inputs, or if the last vector would be mostly empty. */
static uint32_t choose_lanes(const rows *r) {
    enum { BUFFER_BYTES = 128 * 1024, RUN_BYTES = 512 };
    const tsr_target *target = r->group->b.target;
    int64_t trailing = r->space.dims[r->space.rank - 1];
    uint32_t width = 4, bytes = RUN_BYTES;
    for (uint32_t i = 0; i < r->item_count; i++) {
        tsr_dtype dtype = tsr_tile_compute_dtype(r->items[i]->node.dtype);
        if (tsr_dtype_size(dtype) > width) width = (uint32_t)tsr_dtype_size(dtype);
        if (tsr_rows_is_cached_column(r, r->items[i])) bytes = 4 * target->vector_bytes;
    }
    if (target->arch) return tsr_lanes_fit(target->warp_lanes, trailing);
    if (bytes < LINE_BYTES) bytes = LINE_BYTES;
    uint32_t lanes = tsr_lanes_fit(bytes / width, trailing);
    while (lanes * width > LINE_BYTES &&
           (r->columns * (int64_t)(lanes * width) > BUFFER_BYTES ||
            8 * padded(trailing, lanes / 2) < 7 * padded(trailing, lanes)))
        lanes /= 2;
    return lanes;
}

/* Chooses the stage that prefetches the next columns: the first walk after another one, which
 * computes most. A GPU needs no prefetch, because other warps run at the same time. */
static void choose_prefetching(rows *r) {
    r->prefetch_stage = r->stage_count;
    if (r->group->b.target->arch) return;
    for (uint32_t stage = r->stage_count; stage-- > 1;)
        if (is_walked(r, stage)) r->prefetch_stage = stage;
}

static void emit_columns(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    for (uint32_t i = 0; i < r->item_count; i++) r->items[i]->resident = false;
    for (uint32_t stage = 0; stage < r->stage_count; stage++) {
        emit_constants(r, stage);
        if (is_walked(r, stage)) walk(r, stage);
        reduce_stage(r, stage);
    }
    for (uint32_t i = 0; i < r->plain_count; i++)
        if (!r->whole_rows[i])
            tsr_tile_store(b, r->outputs[i].dtype, r->results[i]->scalar, r->outputs[i].buffer,
                           tsr_point_offset(b, &r->point, &r->outputs[i]), r->point.mask);
}

/* Emits rows whose last dim is reduced, one after the other: repairs that also reduce dims before
 * it, and rows whose last dims of extent 1 were dropped. */
static tsr_result emit_single_rows(rows *r) {
    tsr_tile_builder *b = &r->group->b;
    bool outer[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d < r->space.rank; d++) outer[d] = !r->space.reduced[d];
    int64_t each = r->row_count / (b->target->arch ? WARPS : PROGRAMS);
    tsr_tile_loop loop;
    r->prefetch_stage = r->stage_count;
    tsr_tile_share(r->group, r->row_count, each < 1 ? 1 : each, &loop);
    tsr_point_unflatten(b, &r->point, outer, loop.index);
    emit_columns(r);
    tsr_tile_loop_end(b, &loop, NULL);
    return TSR_SUCCESS;
}

/* The last vector of a CPU ends with the last column: some columns are computed twice, with the
 * same bits. A mask that is not constant would be slower, and a branch for each lane on a CPU
 * without masked loads: minutes of compilation. A GPU masks the lanes after the last column. */
static void end_vectors(rows *r, int64_t trailing, uint32_t lanes) {
    tsr_tile_builder *b = &r->group->b;
    MlirValue *first = &r->point.index[r->space.rank - 1];
    if (trailing > (int64_t)lanes && !b->target->arch)
        *first = tsr_tile_min(b, *first, tsr_tile_index(b, trailing - (int64_t)lanes));
    else
        r->point.mask =
            tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, trailing), *first), lanes);
}

tsr_result tsr_rows_emit_columns(rows *r) {
    tsr_tile_group *group = r->group;
    tsr_tile_builder *b = &group->b;
    r->walked = TSR_NEW(group->arena, MlirValue, (size_t)r->plain_count * WALKED_MAX + 1);
    if (!r->walked) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    TRY(group->ctx, collapse(r));
    uint32_t last = r->space.rank - 1;
    if (r->space.reduced[last]) return emit_single_rows(r);
    uint32_t lanes = choose_lanes(r);
    bool outer[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d < last; d++) outer[d] = !r->space.reduced[d];
    r->point.lanes = lanes;
    if (!b->target->arch) tsr_rows_cache_columns(r, lanes);
    choose_prefetching(r);
    int64_t trailing = r->space.dims[last], vectors = padded(trailing, lanes) / lanes;
    int64_t count = r->row_count / trailing * vectors;
    int64_t each = count / (b->target->arch ? WARPS : PROGRAMS);
    each = each < 1 ? 1 : each > VECTORS_MAX ? VECTORS_MAX : each;
    tsr_tile_loop loop;
    tsr_tile_share(group, count, each, &loop);
    tsr_point_unflatten(b, &r->point, outer, tsr_tile_div(b, loop.index, vectors));
    r->point.index[last] = tsr_tile_mul(b, tsr_tile_rem(b, loop.index, vectors), lanes);
    if (trailing % lanes) end_vectors(r, trailing, lanes);
    emit_columns(r);
    tsr_tile_loop_end(b, &loop, NULL);
    return TSR_SUCCESS;
}
