/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions whose last dimension is parallel. Vectors go along it, and the partial results are in
 * a local buffer. If there are up to 64 elements, each is a partial result, and no partial result
 * is stored. On a GPU, warps keep all partial results in registers.
 *
 * A long axis is cut into chunks (tree.h). Either a program computes the result of one chunk, and
 * stores it for a second kernel (reduce_parts.c), or it computes all chunks itself.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/reductions/reduce.h"

#include <string.h>

/* ---- one chunk per program ------------------------------------------------------------------- */

/* The output of chunk results: [outer index][chunk][column]. */
typedef struct chunk_sums {
    MlirValue to;    /* null: a program reduces all rows */
    int64_t chunks;  /* chunks of an outer index */
    MlirValue chunk; /* chunk of the program */
    MlirValue outer; /* outer index of the program */
} chunk_sums;

static chunk_sums begin_chunk_sums(const tsr_reduction *r, MlirValue to) {
    bool has = !mlirValueIsNull(to);
    return (chunk_sums){.to = to, .chunks = has ? (r->reduced_count - 1) / TSR_SUM_CHUNK + 1 : 1};
}

/* Finds the outer index and the chunk of item `number`, in the order of memory. */
static void enter_chunk(tsr_reduction *r, chunk_sums *s, MlirValue number, tsr_point *point) {
    tsr_tile_builder *b = &r->group->b;
    s->outer = tsr_tile_div(b, number, s->chunks);
    s->chunk = tsr_tile_rem(b, number, s->chunks);
    tsr_point_unflatten(b, point, r->outer, s->outer);
}

static void finish_chunk(tsr_reduction *r, const chunk_sums *s, MlirValue result,
                         const tsr_point *point) {
    tsr_tile_builder *b = &r->group->b;
    if (mlirValueIsNull(s->to)) {
        tsr_reduction_finish(r, result, point);
        return;
    }
    uint32_t last = r->space.rank - 1;
    MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, s->outer, s->chunks), s->chunk);
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, r->space.dims[last]), point->index[last]);
    tsr_tile_store(b, r->dtype, result, s->to, at, point->mask);
}

/* ---- with vectors ---------------------------------------------------------------------------- */

/* A program has `width` columns of one outer index and reads their rows in the order of memory; the
 * partial results of all columns are in a local buffer. */
typedef struct columns {
    tsr_reduction *r;
    uint32_t lanes;
    int64_t width, live;  /* live: number of partial results that exist */
    bool at_once;         /* each partial result is one element, which is read when it is added */
    MlirValue local;      /* [partial][column] */
    MlirValue first, end; /* the program's first column, and the number of its columns */
    tsr_point point;
    chunk_sums sums;
} columns;

static MlirValue load_partial(columns *c, MlirValue partial, MlirValue column) {
    tsr_tile_builder *b = &c->r->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, partial, c->width), column);
    return tsr_tile_load(b, c->r->dtype, c->local, at, c->lanes, tsr_tile_null);
}

static void store_partial(columns *c, MlirValue partial, MlirValue column, MlirValue value) {
    tsr_tile_builder *b = &c->r->group->b;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, partial, c->width), column);
    tsr_tile_store(b, c->r->dtype, value, c->local, at, tsr_tile_null);
}

/* The point at a column of the program. */
static tsr_point *at_column(columns *c, MlirValue column) {
    tsr_tile_builder *b = &c->r->group->b;
    uint32_t last = c->r->space.rank - 1;
    int64_t size = c->r->space.dims[last];
    c->point.lanes = c->lanes;
    c->point.index[last] = tsr_tile_add(b, c->first, column);
    if (size % c->lanes)
        c->point.mask = tsr_tile_mask(
            b, tsr_tile_sub(b, tsr_tile_index(b, size), c->point.index[last]), c->lanes);
    return &c->point;
}

uint32_t tsr_reduction_inner(const tsr_reduction *r) {
    uint32_t inner = 0;
    for (uint32_t d = 0; d < r->space.rank; d++)
        if (r->space.reduced[d]) inner = d;
    return inner;
}

/* Prefetches later rows, as long as all reduced dimensions but the last stay the same. */
static void prefetch_rows(columns *c) {
    enum { AHEAD = 4 };
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    uint32_t inner = tsr_reduction_inner(r);
    for (uint32_t i = 0; i < r->before.node_count; i++) {
        const tsr_node *node = r->before.nodes[i];
        int64_t bytes = tsr_space_count(&r->space) * (int64_t)tsr_dtype_size(node->dtype);
        if (node->kind != TSR_NODE_VIEW || !node->view.strides[r->space.rank - 1] ||
            !node->view.strides[inner] || bytes < TSR_PREFETCH_BYTES_MIN)
            continue;
        MlirValue at = tsr_point_offset(b, &c->point, &node->view);
        tsr_tile_prefetch_vector(b, node->dtype, node->view.buffer,
                                 tsr_tile_offset(b, at, AHEAD * node->view.strides[inner]),
                                 c->lanes);
    }
}

/* Adds row `flat` of the reduced elements to partial result `partial`; begin: it is its first
 * row. */
static void add_row(columns *c, MlirValue flat, MlirValue partial, bool begin) {
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    tsr_point_unflatten(b, &c->point, r->space.reduced, flat);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), c->end, c->lanes) {
        tsr_point *point = at_column(c, loop.index);
        tsr_region_emit(&r->before, 2, point);
        MlirValue value = tsr_node_value(&r->before, r->before.results[0], point);
        MlirValue old =
            begin ? tsr_reduction_identity(r, c->lanes) : load_partial(c, partial, loop.index);
        store_partial(c, partial, loop.index, tsr_reduction_combine(r, old, value));
        prefetch_rows(c);
    }
}

/* The last chunk has fewer rows than partial results: the others begin with the identity. */
static void clear_partials(columns *c) {
    tsr_tile_builder *b = &c->r->group->b;
    MlirValue zero = tsr_tile_index(b, 0), end = tsr_tile_index(b, c->live * c->width);
    TSR_TILE_FOR(b, loop, zero, end, c->lanes) {
        store_partial(c, zero, loop.index, tsr_reduction_identity(c->r, c->lanes));
    }
}

/* Adds rows `low` to below `high`, at most `count`. */
static void add_rows(columns *c, MlirValue low, MlirValue high, int64_t count) {
    tsr_tile_builder *b = &c->r->group->b;
    MlirValue zero = tsr_tile_index(b, 0), full = tsr_tile_index(b, TSR_PARTIALS);
    MlirValue begun = tsr_tile_index(b, c->live);
    int64_t rest = c->r->reduced_count % TSR_SUM_CHUNK;
    if (c->sums.chunks > 1 && rest && rest < c->live) {
        clear_partials(c);
        begun = tsr_tile_min(b, begun, tsr_tile_sub(b, high, low));
    }
    TSR_TILE_FOR(b, loop, zero, begun, 1) {
        add_row(c, tsr_tile_add(b, low, loop.index), loop.index, true);
    }
    if (count <= TSR_PARTIALS) return;
    TSR_TILE_FOR(b, block, tsr_tile_add(b, low, full), high, TSR_PARTIALS) {
        MlirValue size = tsr_tile_min(b, full, tsr_tile_sub(b, high, block.index));
        TSR_TILE_FOR(b, loop, zero, size, 1) {
            add_row(c, tsr_tile_add(b, block.index, loop.index), loop.index, false);
        }
    }
}

/* The halving tree over the partial results of `lanes` columns. */
static MlirValue reduce_partials(columns *c, MlirValue column) {
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    int64_t live = c->live;
    if (!live) return tsr_reduction_identity(r, c->lanes);
    for (int64_t half = TSR_PARTIALS / 2; half; half /= 2) {
        if (live <= half) continue;
        TSR_TILE_FOR(b, loop, zero, tsr_tile_index(b, live - half), 1) {
            MlirValue low = load_partial(c, loop.index, column);
            MlirValue high = load_partial(c, tsr_tile_offset(b, loop.index, half), column);
            store_partial(c, loop.index, column, tsr_reduction_combine(r, low, high));
        }
        live = half;
    }
    return load_partial(c, zero, column);
}

/* Partial result k of the halving tree after the partial results `step` and more beyond it are
 * added: few are in registers at a time. Rows are far apart, so those that are read soon are
 * prefetched. */
static MlirValue reduce_at_once(columns *c, int64_t k, int64_t step) {
    enum { AHEAD_BYTES = 512 };
    tsr_reduction *r = c->r;
    tsr_tile_builder *b = &r->group->b;
    if (step < TSR_PARTIALS) {
        MlirValue low = reduce_at_once(c, k, 2 * step);
        if (k + step >= c->live) return low;
        return tsr_reduction_combine(r, low, reduce_at_once(c, k + step, 2 * step));
    }
    tsr_point_unflatten(b, &c->point, r->space.reduced, tsr_tile_index(b, k));
    tsr_region_emit(&r->before, 2, &c->point);
    for (uint32_t i = 0; i < r->before.node_count; i++) {
        const tsr_node *node = r->before.nodes[i];
        int64_t size = (int64_t)tsr_dtype_size(node->dtype),
                bytes = tsr_space_count(&r->space) * size;
        if (node->kind != TSR_NODE_VIEW || !node->view.strides[r->space.rank - 1] ||
            bytes < TSR_PREFETCH_BYTES_MIN)
            continue;
        MlirValue at = tsr_point_offset(b, &c->point, &node->view);
        tsr_tile_prefetch_vector(b, node->dtype, node->view.buffer,
                                 tsr_tile_offset(b, at, AHEAD_BYTES / size), c->lanes);
    }
    MlirValue value = tsr_node_value(&r->before, r->before.results[0], &c->point);
    return tsr_reduction_combine(r, tsr_reduction_identity(r, c->lanes), value);
}

/* True if a program computes all chunks of a long axis. */
static bool is_chunked(const columns *c) {
    return c->sums.chunks == 1 && tsr_sum_is_long(c->r->reduced_count);
}

/* Plans as many columns as the buffer has space for, in even parts; several parts, if they stay
 * wide enough to be read in whole runs. */
static void plan_columns(columns *c) {
    enum { LOCAL_BYTES = 256 * 1024, RUN_BYTES = 512, PARTS = 4, NODES_MAX = 8 };
    tsr_reduction *r = c->r;
    uint32_t width = tsr_region_width(&r->before);
    int64_t bytes = width < 4 ? 4 : width, size = r->space.dims[r->space.rank - 1];
    c->live = r->reduced_count < TSR_PARTIALS ? r->reduced_count : TSR_PARTIALS;
    c->at_once = c->live == r->reduced_count && c->live && !r->group->b.target->arch &&
                 r->before.node_count <= NODES_MAX;
    c->lanes = tsr_lanes_fit(2 * r->group->b.target->vector_bytes / (uint32_t)bytes, size);
    int64_t most = LOCAL_BYTES / bytes / (c->live ? c->live : 1), part = tsr_divide_up(size, PARTS);
    if (part < RUN_BYTES / bytes) part = RUN_BYTES / bytes;
    if (most > part) most = part;
    int64_t parts = tsr_divide_up(size, most);
    if (is_chunked(c)) parts = size; /* one vector each */
    c->width = (tsr_divide_up(size, parts) + c->lanes - 1) / c->lanes * c->lanes;
}

static MlirValue reduce_chunk(void *user, MlirValue first, int64_t count) {
    columns *c = user;
    tsr_tile_builder *b = &c->r->group->b;
    c->live = count < TSR_PARTIALS ? count : TSR_PARTIALS;
    add_rows(c, first, tsr_tile_offset(b, first, count), count);
    return reduce_partials(c, tsr_tile_index(b, 0));
}

/* Adds all rows that the program reduces to the local buffer. */
static void add_all(columns *c) {
    tsr_tile_builder *b = &c->r->group->b;
    MlirValue low = tsr_tile_index(b, 0), high = tsr_tile_index(b, c->r->reduced_count);
    int64_t count = c->r->reduced_count;
    if (c->sums.chunks > 1) {
        low = tsr_tile_mul(b, c->sums.chunk, TSR_SUM_CHUNK);
        high = tsr_tile_min(b, tsr_tile_offset(b, low, TSR_SUM_CHUNK), high);
        count = TSR_SUM_CHUNK;
    }
    add_rows(c, low, high, count);
}

static MlirValue reduce_column(columns *c, MlirValue column) {
    if (c->at_once) return reduce_at_once(c, 0, 1);
    if (!is_chunked(c)) return reduce_partials(c, column);
    tsr_reduction_range range = {.reduce = reduce_chunk, .user = c};
    return tsr_reduction_one_in_chunks(c->r, c->lanes, c->r->reduced_count, &range);
}

static void emit_columns(tsr_reduction *r, MlirValue to) {
    tsr_tile_builder *b = &r->group->b;
    columns c = {.r = r, .point = {.space = &r->space}, .sums = begin_chunk_sums(r, to)};
    uint32_t last = r->space.rank - 1;
    plan_columns(&c);
    int64_t size = r->space.dims[last], parts = tsr_divide_up(size, c.width);
    int64_t rows = c.sums.chunks > 1 ? TSR_SUM_CHUNK : r->reduced_count;
    MlirType type = tsr_tile_storage_type(b, r->dtype);
    if (c.live && !c.at_once) c.local = tsr_tile_local(b, type, c.live * c.width);
    if (c.live) tsr_region_emit(&r->before, 0, &c.point);
    if (mlirValueIsNull(to)) tsr_region_emit(&r->after, 0, &c.point);
    tsr_tile_loop items;
    int64_t bytes = tsr_region_bytes(&r->before, NULL, &r->space) * rows * c.width;
    tsr_reduction_programs(r, r->parallel_count / size * c.sums.chunks * parts, bytes, &items);
    enter_chunk(r, &c.sums, tsr_tile_div(b, items.index, parts), &c.point);
    if (c.live) tsr_region_emit(&r->before, 1, &c.point);
    c.first = tsr_tile_mul(b, tsr_tile_rem(b, items.index, parts), c.width);
    c.end = tsr_tile_index(b, c.width);
    if (size % c.width)
        c.end = tsr_tile_min(b, c.end, tsr_tile_sub(b, tsr_tile_index(b, size), c.first));
    if (c.live && !c.at_once && !is_chunked(&c)) add_all(&c);
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), c.end, c.lanes) {
        tsr_point *point = at_column(&c, loop.index);
        MlirValue result = reduce_column(&c, loop.index);
        if (is_chunked(&c)) point = at_column(&c, loop.index); /* the chunks changed it */
        finish_chunk(r, &c.sums, result, point);
    }
    tsr_tile_loop_end(b, &items, NULL);
}

/* ---- with warps ------------------------------------------------------------------------------ */

/* A warp of a GPU has one column per lane, and keeps all their partial results in registers: the
 * same sums in the same order, without a local buffer. */
typedef struct lanes_strided {
    tsr_reduction *r;
    tsr_point point;
    uint32_t live; /* number of partial results that exist */
    MlirValue values[TSR_PARTIALS];
    chunk_sums sums;
} lanes_strided;

/* Adds `count` rows from `first` on to the first `count` partial results. */
static void add_block(lanes_strided *c, MlirValue first, uint32_t count) {
    tsr_reduction *r = c->r;
    for (uint32_t k = 0; k < count; k++) {
        tsr_point_unflatten(&r->group->b, &c->point, r->space.reduced,
                            tsr_tile_offset(&r->group->b, first, k));
        tsr_region_emit(&r->before, 2, &c->point);
        MlirValue value = tsr_node_value(&r->before, r->before.results[0], &c->point);
        c->values[k] = tsr_reduction_combine(r, c->values[k], value);
    }
}

static void begin_partials(lanes_strided *c) {
    for (uint32_t k = 0; k < TSR_PARTIALS; k++)
        c->values[k] = tsr_reduction_identity(c->r, c->point.lanes);
}

/* Adds rows `low` to below `high`: the first `count` of each `step` rows. */
static void add_blocks(lanes_strided *c, MlirValue low, MlirValue high, int64_t step,
                       uint32_t count) {
    tsr_tile_builder *b = &c->r->group->b;
    TSR_TILE_FOR_CARRIED(b, loop, low, high, step, TSR_PARTIALS, c->values) {
        add_block(c, loop.index, count);
    }
}

/* Adds rows `first` ... first + count - 1. */
static void add_range(lanes_strided *c, MlirValue first, int64_t count) {
    tsr_tile_builder *b = &c->r->group->b;
    int64_t rest = count % TSR_PARTIALS, whole = count - rest;
    MlirValue end = tsr_tile_offset(b, first, whole);
    if (whole) add_blocks(c, first, end, TSR_PARTIALS, TSR_PARTIALS);
    add_block(c, end, (uint32_t)rest);
}

/* Adds the program's chunk. The last chunk may have rows after its whole blocks. */
static void add_chunk(lanes_strided *c) {
    tsr_tile_builder *b = &c->r->group->b;
    int64_t all = c->r->reduced_count, rest = all % TSR_PARTIALS;
    MlirValue low = tsr_tile_mul(b, c->sums.chunk, TSR_SUM_CHUNK);
    MlirValue high = tsr_tile_offset(b, low, TSR_SUM_CHUNK);
    MlirValue whole = tsr_tile_min(b, high, tsr_tile_index(b, all - rest));
    add_blocks(c, low, whole, TSR_PARTIALS, TSR_PARTIALS);
    if (!rest) return;
    add_blocks(c, tsr_tile_index(b, all - rest), tsr_tile_min(b, high, tsr_tile_index(b, all)),
               rest, (uint32_t)rest);
}

static MlirValue reduce_lanes_chunk(void *user, MlirValue first, int64_t count) {
    lanes_strided *c = user;
    begin_partials(c);
    add_range(c, first, count);
    return tsr_reduction_halve(c->r, c->values,
                               count < TSR_PARTIALS ? (uint32_t)count : TSR_PARTIALS);
}

/* True if there are registers for the partial results and for the ops before the sum, and if every
 * warp is full. */
static bool fits_registers(const tsr_reduction *r) {
    enum { NODES_MAX = 24 };
    const tsr_target *target = r->group->b.target;
    return target->arch && tsr_dtype_size(r->dtype) <= 4 && r->before.node_count <= NODES_MAX &&
           r->space.dims[r->space.rank - 1] % (target->vector_bytes / 4) == 0;
}

static MlirValue reduce_lanes(lanes_strided *c) {
    tsr_reduction *r = c->r;
    tsr_reduction_range range = {.reduce = reduce_lanes_chunk, .user = c};
    if (c->sums.chunks == 1 && c->live)
        return tsr_reduction_one_in_chunks(r, c->point.lanes, r->reduced_count, &range);
    begin_partials(c);
    if (c->sums.chunks > 1) add_chunk(c);
    return tsr_reduction_halve(r, c->values, c->live);
}

static void emit_warps(tsr_reduction *r, MlirValue to) {
    tsr_tile_builder *b = &r->group->b;
    lanes_strided c = {.r = r, .point = {.space = &r->space}, .sums = begin_chunk_sums(r, to)};
    uint32_t last = r->space.rank - 1;
    int64_t size = r->space.dims[last];
    c.point.lanes = b->target->vector_bytes / 4;
    c.live = r->reduced_count < TSR_PARTIALS ? (uint32_t)r->reduced_count : TSR_PARTIALS;
    if (c.live) tsr_region_emit(&r->before, 0, &c.point);
    if (mlirValueIsNull(to)) tsr_region_emit(&r->after, 0, &c.point);
    int64_t parts = size / c.point.lanes;
    tsr_tile_loop items;
    tsr_reduction_programs(r, r->parallel_count / size * c.sums.chunks * parts, INT64_MAX, &items);
    enter_chunk(r, &c.sums, tsr_tile_div(b, items.index, parts), &c.point);
    if (c.live) tsr_region_emit(&r->before, 1, &c.point);
    c.point.index[last] = tsr_tile_mul(b, tsr_tile_rem(b, items.index, parts), c.point.lanes);
    MlirValue result = reduce_lanes(&c);
    finish_chunk(r, &c.sums, result, &c.point);
    tsr_tile_loop_end(b, &items, NULL);
}

void tsr_reduction_emit_strided(tsr_reduction *r, MlirValue to) {
    uint32_t last = r->space.rank - 1;
    bool inner[TSR_RANK_MAX] = {false}, column[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d <= last; d++) inner[d] = r->space.reduced[d] || d == last;
    column[last] = true;
    tsr_region_levels(&r->before, &r->space, inner);
    tsr_region_levels(&r->after, &r->space, column);
    fits_registers(r) ? emit_warps(r, to) : emit_columns(r, to);
}
