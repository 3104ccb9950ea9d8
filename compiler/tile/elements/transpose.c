/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel families `transpose` and `reshape`. A transpose that keeps the last dimension, and every
 * reshape, is a copy with other strides: the map family. Otherwise square blocks of the input's and
 * the output's last dimension are transposed in registers.
 */
#include "compiler/tile/kernels/runs.h"
#include "compiler/tile/open.h"

enum { PROGRAM_BYTES = 16 * 1024, BLOCK_MAX = 16 };

typedef struct transpose {
    tsr_tile_group *group;
    tsr_dtype dtype;
    tsr_view from, to;
    tsr_space space;          /* index space of the output */
    uint32_t row, column;     /* dimensions: the input's last, the output's last */
    bool outer[TSR_RANK_MAX]; /* all other dimensions */
    uint32_t lanes;
    tsr_point point;
} transpose;

tsr_result tsr_tile_lower_copy(tsr_tile_group *group, const tsr_view *from, tsr_view *to,
                               tsr_space *space) {
    tsr_node *node = TSR_NEW(group->arena, tsr_node, 1);
    tsr_node **nodes = TSR_NEW(group->arena, tsr_node *, 1);
    if (!node || !nodes) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    *node = (tsr_node){.kind = TSR_NODE_VIEW, .dtype = from->dtype, .view = *from};
    nodes[0] = node;
    tsr_region region = {
        .group = group, .node_count = 1, .result_count = 1, .nodes = nodes, .results = nodes};
    tsr_region *regions[] = {&region};
    tsr_space_collapse(space, regions, 1, to, 1);
    if (group->has_extents)
        tsr_open_emit_map(group, &region, to, space);
    else
        tsr_tile_emit_map(group, &region, to, space);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_reshape(tsr_tile_group *group) {
    uint32_t number = 0;
    TRY(group->ctx, tsr_runs_argument(group, 0, &number));
    const tsr_shape *shape = &group->types[number].shape;
    tsr_dtype dtype = group->types[number].dtype;
    tsr_space space = {.rank = 1, .dims = {1}};
    for (uint32_t d = 0; d < shape->rank; d++)
        space.dims[0] = tsr_extent_times(space.dims[0], (int64_t)shape->dims[d]);
    tsr_view from = {
        .dtype = dtype, .buffer = group->buffers[number], .strides = {1}, .stored = true};
    tsr_view to = {.dtype = dtype,
                   .buffer = group->buffers[group->input_count],
                   .strides = {1},
                   .stored = true};
    return tsr_tile_lower_copy(group, &from, &to, &space);
}

/* ---- transpose ------------------------------------------------------------------------------- */

static tsr_result read_transpose(transpose *t) {
    tsr_tile_group *group = t->group;
    uint32_t number = 0;
    int64_t permutation[TSR_RANK_MAX], strides[TSR_RANK_MAX], stride = 1;
    size_t count = 0;
    TRY(group->ctx, tsr_runs_argument(group, 0, &number));
    const tsr_shape *from = &group->types[number].shape;
    const tsr_shape *to = &group->types[group->input_count].shape;
    if (!tsr_op_i64s(group->root, "permutation", TSR_RANK_MAX, permutation, &count) ||
        count != from->rank || count != to->rank)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed permutation", group->name);
    for (uint32_t d = from->rank; d-- > 0;) {
        strides[d] = stride;
        stride = tsr_extent_times(stride, (int64_t)from->dims[d]);
    }
    t->dtype = group->types[number].dtype;
    t->space.rank = to->rank;
    t->from = (tsr_view){.dtype = t->dtype, .buffer = group->buffers[number], .stored = true};
    t->to =
        (tsr_view){.dtype = t->dtype, .buffer = group->buffers[group->input_count], .stored = true};
    stride = 1;
    for (uint32_t d = to->rank; d-- > 0;) {
        if (permutation[d] < 0 || permutation[d] >= (int64_t)from->rank)
            FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed permutation", group->name);
        t->space.dims[d] = (int64_t)to->dims[d];
        t->from.strides[d] = strides[permutation[d]];
        t->to.strides[d] = stride;
        stride = tsr_extent_times(stride, t->space.dims[d]);
    }
    return TSR_SUCCESS;
}

/* Loads a block from (row, column) on along the rows, transposes it, and stores it along the
 * columns. */
static void emit_block(transpose *t, MlirValue row, MlirValue column, bool masked) {
    tsr_tile_builder *b = &t->group->b;
    MlirValue rows[BLOCK_MAX], zero = tsr_tile_index(b, 0), mask = tsr_tile_null;
    MlirValue row_end = tsr_tile_index(b, t->space.dims[t->row]);
    MlirValue column_end = tsr_tile_index(b, t->space.dims[t->column]);
    MlirValue row_count = tsr_tile_sub(b, row_end, row);
    MlirValue column_count = tsr_tile_sub(b, column_end, column);
    t->point.index[t->row] = row;
    t->point.index[t->column] = column;
    MlirValue from = tsr_point_offset(b, &t->point, &t->from);
    MlirValue to = tsr_point_offset(b, &t->point, &t->to);
    for (uint32_t i = 0; i < t->lanes; i++) {
        MlirValue offset = tsr_tile_offset(b, from, i * t->from.strides[t->column]);
        if (masked) {
            MlirValue there =
                tsr_tile_icompare(b, TSR_ICMP_SLT, tsr_tile_index(b, i), column_count);
            mask = tsr_tile_mask(b, tsr_tile_select(b, there, row_count, zero), t->lanes);
        }
        rows[i] = tsr_tile_load_stored(b, t->dtype, t->from.buffer, offset, t->lanes, mask);
    }
    tsr_tile_transpose(b, t->lanes, rows);
    for (uint32_t i = 0; i < t->lanes; i++) {
        MlirValue offset = tsr_tile_offset(b, to, i * t->to.strides[t->row]);
        if (masked) {
            MlirValue there = tsr_tile_icompare(b, TSR_ICMP_SLT, tsr_tile_index(b, i), row_count);
            mask = tsr_tile_mask(b, tsr_tile_select(b, there, column_count, zero), t->lanes);
        }
        tsr_tile_store_stored(b, rows[i], t->to.buffer, offset, mask);
    }
}

/* One item is a strip: `lanes` columns, all rows. Whole blocks come first, then the blocks at an
 * edge. */
static void emit_strip(transpose *t, MlirValue item) {
    tsr_tile_builder *b = &t->group->b;
    int64_t rows = t->space.dims[t->row], columns = t->space.dims[t->column], lanes = t->lanes;
    int64_t strips = tsr_divide_up(columns, lanes), whole = rows - rows % lanes;
    tsr_point_unflatten(b, &t->point, t->outer, tsr_tile_div(b, item, strips));
    MlirValue strip = tsr_tile_rem(b, item, strips), zero = tsr_tile_index(b, 0);
    MlirValue column = tsr_tile_mul(b, strip, lanes);
    MlirValue end = tsr_tile_index(b, whole);
    if (columns % lanes) {
        MlirValue inside =
            tsr_tile_icompare(b, TSR_ICMP_SLT, strip, tsr_tile_index(b, columns / lanes));
        end = tsr_tile_select(b, inside, end, zero);
    }
    if (whole && columns >= lanes) {
        TSR_TILE_FOR(b, loop, zero, end, lanes) { emit_block(t, loop.index, column, false); }
    }
    if (columns % lanes || rows % lanes) {
        TSR_TILE_FOR(b, loop, end, tsr_tile_index(b, rows), lanes) {
            emit_block(t, loop.index, column, true);
        }
    }
}

static void emit_blocks(transpose *t) {
    tsr_tile_builder *b = &t->group->b;
    int64_t rows = t->space.dims[t->row], columns = t->space.dims[t->column], outer = 1;
    for (uint32_t d = 0; d < t->space.rank; d++) {
        t->outer[d] = d != t->row && d != t->column;
        if (t->outer[d]) outer *= t->space.dims[d];
    }
    uint32_t size = (uint32_t)tsr_dtype_size(t->dtype), lanes = b->target->vector_bytes / size;
    t->lanes =
        tsr_lanes_fit(lanes < BLOCK_MAX ? lanes : BLOCK_MAX, rows < columns ? columns : rows);
    t->point.space = &t->space;
    int64_t count = outer * (tsr_divide_up(columns, t->lanes));
    int64_t items = PROGRAM_BYTES / (2 * rows * t->lanes * size);
    if (items < 1) items = 1;
    if (items > count) items = count;
    t->group->grid = tsr_divide_up(count, items);
    tsr_tile_open_grid(t->group, count, items, 1);
    MlirValue begin = tsr_tile_index(b, 0), end = tsr_tile_open_count(t->group, count);
    if (t->group->grid > 1) {
        begin = tsr_tile_mul(b, tsr_tile_program_id(b), items);
        end = tsr_tile_min(b, tsr_tile_offset(b, begin, items), end);
    }
    TSR_TILE_FOR(b, loop, begin, end, 1) { emit_strip(t, loop.index); }
}

tsr_result tsr_tile_lower_transpose(tsr_tile_group *group) {
    transpose t = {.group = group};
    TRY(group->ctx, read_transpose(&t));
    if (!tsr_space_count(&t.space)) return TSR_SUCCESS;
    tsr_view views[] = {t.to, t.from};
    tsr_space_collapse(&t.space, NULL, 0, views, 2);
    t.to = views[0];
    t.from = views[1];
    if (group->has_extents || !t.space.rank || t.from.strides[t.space.rank - 1] == 1)
        return tsr_tile_lower_copy(group, &t.from, &t.to, &t.space);
    t.column = t.space.rank - 1;
    for (uint32_t d = 0; d < t.space.rank; d++)
        if (t.from.strides[d] == 1) t.row = d;
    emit_blocks(&t);
    return TSR_SUCCESS;
}
