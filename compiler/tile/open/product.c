/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with extents: every element is the chain over k that tile.h states. An item is a panel
 * of columns of one matrix of a batch; its rows are computed a few at a time. A panel of B whose
 * columns are not neighbours in memory is copied to the stack first.
 *
 * Whether K is so long that it is cut into chunks, a call decides: then either the loop over all
 * steps or that over the chunks does nothing.
 */
#include "compiler/tile/open.h"
#include "compiler/tile/products/words.h"
#include "compiler/tile/reductions/tree.h"

#include <string.h>

enum { ROWS = 4, VECTORS = 2, SUMS = ROWS * VECTORS, PANEL_BYTES_MAX = 128 * 1024 };

typedef struct operand {
    tsr_dtype dtype;
    MlirValue buffer;
    int64_t batch[TSR_RANK_MAX]; /* strides of the dims of the batch */
    int64_t outer, depth;        /* strides along the rows or columns of the result, and along K */
} operand;

typedef struct product {
    tsr_tile_group *group;
    tsr_region after;
    tsr_view *outputs;
    tsr_node *given;
    tsr_space space; /* the result: batch, rows, columns */
    operand a, b;
    tsr_gemm_words words;
    tsr_dtype compute;
    int64_t depth;
    uint32_t lanes, vectors;
    MlirValue packed;     /* [k][column of the panel], or null */
    MlirValue a_at, b_at; /* offsets of the matrices */
    MlirValue steps;      /* K */
    tsr_point point;      /* first element of the tile */
    MlirValue masks[VECTORS];
} product;

/* ---- reading --------------------------------------------------------------------------------- */

static TSR_RESULT read_operand(product *p, size_t index, bool is_transposed, operand *out,
                               tsr_shape *out_shape) {
    tsr_tile_group *group = p->group;
    MlirValue value = tsr_op_operand(group->root, index);
    if (!mlirValueIsABlockArgument(value))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu is not an argument", group->name, index);
    intptr_t number = mlirBlockArgumentGetArgNumber(value);
    const tsr_shape *shape = &group->types[number].shape;
    uint32_t rank = shape->rank, skipped = p->space.rank - rank;
    int64_t strides[TSR_RANK_MAX], stride = 1;
    *out = (operand){.dtype = group->types[number].dtype, .buffer = group->buffers[number]};
    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = stride;
        stride = tsr_extent_times(stride, (int64_t)shape->dims[d]);
        if (d + 2 < rank && shape->dims[d] != 1) out->batch[skipped + d] = strides[d];
    }
    bool rows_first = (index == 0) != is_transposed; /* the dims are [outer, K] */
    out->outer = strides[rank - (rows_first ? 2 : 1)];
    out->depth = strides[rank - (rows_first ? 1 : 2)];
    p->depth = (int64_t)shape->dims[rank - (rows_first ? 1 : 2)];
    *out_shape = *shape;
    return TSR_SUCCESS;
}

static TSR_RESULT read(product *p) {
    tsr_tile_group *group = p->group;
    MlirValue result = tsr_op_result(group->root, 0);
    tsr_type type;
    tsr_shape shape;
    if (!tsr_tile_group_type(group, result, &type) || type.shape.rank < 2)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed product", group->name);
    p->space.rank = type.shape.rank;
    for (uint32_t d = 0; d < type.shape.rank; d++) p->space.dims[d] = (int64_t)type.shape.dims[d];
    p->compute = tsr_tile_compute_dtype(type.dtype);
    p->words = tsr_words_of(group->root);
    TRY(group->ctx, read_operand(p, 0, tsr_op_flag(group->root, "transpose_a"), &p->a, &shape));
    TRY(group->ctx, read_operand(p, 1, tsr_op_flag(group->root, "transpose_b"), &p->b, &shape));
    p->outputs = TSR_NEW(group->arena, tsr_view, group->output_count);
    if (!p->outputs) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < group->output_count; i++)
        tsr_view_of_argument(&p->outputs[i], group, group->input_count + i, &p->space, NULL);
    TRY(group->ctx, tsr_region_init(group, group->returned, group->output_count, result, &p->space,
                                    NULL, &p->after));
    for (uint32_t i = 0; i < p->after.node_count; i++)
        if (p->after.nodes[i]->kind == TSR_NODE_GIVEN) p->given = p->after.nodes[i];
    if (!p->given) FAIL(group->ctx, TSR_INTERNAL, "'%s': unused product", group->name);
    return TSR_SUCCESS;
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static MlirValue load_b(product *p, MlirValue k, uint32_t vector) {
    tsr_tile_builder *b = &p->group->b;
    int64_t column = (int64_t)vector * p->lanes;
    if (!mlirValueIsNull(p->packed)) {
        MlirValue at = tsr_tile_mul(b, k, (int64_t)p->vectors * p->lanes);
        return tsr_tile_load(b, p->compute, p->packed, tsr_tile_offset(b, at, column), p->lanes,
                             tsr_tile_null);
    }
    MlirValue first = tsr_tile_offset(b, p->point.index[p->space.rank - 1], column);
    MlirValue at =
        tsr_tile_add(b, tsr_tile_mul(b, k, p->b.depth), tsr_tile_mul(b, first, p->b.outer));
    return tsr_tile_load(b, p->b.dtype, p->b.buffer, tsr_tile_add(b, p->b_at, at), p->lanes,
                         p->masks[vector]);
}

static void clear(product *p, uint32_t rows, MlirValue *sums) {
    MlirValue zero = tsr_element_zero(&p->group->b, p->compute, p->lanes);
    for (uint32_t i = 0; i < rows * p->vectors; i++) sums[i] = zero;
}

/* chain(first, end) of tile.h, for each element of the tile */
static void chain(product *p, uint32_t rows, MlirValue first, MlirValue end, MlirValue *sums) {
    tsr_tile_builder *b = &p->group->b;
    clear(p, rows, sums);
    TSR_TILE_FOR_CARRIED(b, loop, first, end, 1, rows * p->vectors, sums) {
        MlirValue columns[VECTORS];
        for (uint32_t v = 0; v < p->vectors; v++) columns[v] = load_b(p, loop.index, v);
        for (uint32_t r = 0; r < rows; r++) {
            MlirValue row = tsr_tile_offset(b, p->point.index[p->space.rank - 2], r);
            MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, p->a.outer),
                                        tsr_tile_mul(b, loop.index, p->a.depth));
            MlirValue a = tsr_tile_load(b, p->a.dtype, p->a.buffer, tsr_tile_add(b, p->a_at, at), 0,
                                        tsr_tile_null);
            a = tsr_tile_splat(b, a, p->lanes);
            for (uint32_t v = 0; v < p->vectors; v++) {
                MlirValue *sum = &sums[r * p->vectors + v];
                *sum = p->words.is ? tsr_words_dot(b, &p->words, a, columns[v], *sum)
                                   : tsr_tile_3(b, "math.fma", a, columns[v], *sum);
            }
        }
    }
}

/* The sum of up to 32^level chunks from `first` on. */
static void add_chunks(product *p, uint32_t rows, uint32_t level, MlirValue first, MlirValue chunks,
                       MlirValue *sums) {
    tsr_tile_builder *b = &p->group->b;
    MlirValue part[SUMS];
    int64_t each = 1;
    if (!level) {
        MlirValue begin = tsr_tile_mul(b, first, TSR_PRODUCT_CHUNK);
        MlirValue end = tsr_tile_offset(b, begin, TSR_PRODUCT_CHUNK);
        chain(p, rows, begin, tsr_tile_min(b, end, p->steps), sums);
        return;
    }
    for (uint32_t i = 1; i < level; i++) each *= TSR_PRODUCT_GROUP;
    MlirValue end = tsr_tile_min(b, tsr_tile_offset(b, first, each * TSR_PRODUCT_GROUP), chunks);
    clear(p, rows, sums);
    TSR_TILE_FOR_CARRIED(b, loop, first, end, each, rows * p->vectors, sums) {
        add_chunks(p, rows, level - 1, loop.index, chunks, part);
        for (uint32_t i = 0; i < rows * p->vectors; i++)
            sums[i] = tsr_tile_2(b, "arith.addf", sums[i], part[i]);
    }
}

static void multiply(product *p, uint32_t rows, MlirValue *sums) {
    tsr_tile_builder *b = &p->group->b;
    MlirValue zero = tsr_tile_index(b, 0), cut[SUMS];
    int64_t high = tsr_extent_high(b, p->depth), covered = TSR_PRODUCT_CHUNK;
    uint32_t levels = 0;
    if (high <= TSR_PRODUCT_SHORT || p->words.is) {
        chain(p, rows, zero, p->steps, sums);
        return;
    }
    for (; covered < high; covered *= TSR_PRODUCT_GROUP) levels++;
    MlirValue is_long =
        tsr_tile_icompare(b, TSR_ICMP_SGT, p->steps, tsr_tile_index(b, TSR_PRODUCT_SHORT));
    MlirValue rounded = tsr_tile_offset(b, p->steps, TSR_PRODUCT_CHUNK - 1);
    MlirValue chunks =
        tsr_tile_select(b, is_long, tsr_tile_div(b, rounded, TSR_PRODUCT_CHUNK), zero);
    chain(p, rows, zero, tsr_tile_select(b, is_long, zero, p->steps), sums);
    add_chunks(p, rows, levels, zero, chunks, cut);
    for (uint32_t i = 0; i < rows * p->vectors; i++)
        sums[i] = tsr_tile_select(b, is_long, cut[i], sums[i]);
}

static void emit_tile(product *p, uint32_t rows, MlirValue row) {
    tsr_tile_builder *b = &p->group->b;
    uint32_t last = p->space.rank - 1;
    MlirValue sums[SUMS], column = p->point.index[last];
    p->point.index[last - 1] = row;
    multiply(p, rows, sums);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t v = 0; v < p->vectors; v++) {
            tsr_point at = p->point;
            at.index[last - 1] = tsr_tile_offset(b, row, r);
            at.index[last] = tsr_tile_offset(b, column, (int64_t)v * p->lanes);
            at.lanes = p->lanes;
            at.mask = p->masks[v];
            p->given->value = tsr_tile_round(b, p->given->dtype, sums[r * p->vectors + v]);
            tsr_region_emit(&p->after, 1, &at);
            tsr_region_emit(&p->after, 2, &at);
            tsr_region_store(&p->after, p->outputs, &at);
        }
}

/* ---- panels ---------------------------------------------------------------------------------- */

static void plan(product *p) {
    tsr_tile_builder *b = &p->group->b;
    uint32_t size = (uint32_t)tsr_dtype_size(p->compute), last = p->space.rank - 1;
    int64_t columns = tsr_extent_high(b, p->space.dims[last]);
    int64_t high = tsr_extent_high(b, p->depth);
    p->lanes = tsr_lanes_fit(b->target->vector_bytes / size, columns);
    p->vectors = columns > (int64_t)p->lanes ? VECTORS : 1;
    p->packed = tsr_tile_null;
    if (p->b.outer == 1 || p->lanes == 1) return;
    while (p->lanes > 1 && high * p->lanes * p->vectors * size > PANEL_BYTES_MAX) {
        p->vectors = 1;
        p->lanes /= 2;
    }
    if (p->lanes > 1)
        p->packed =
            tsr_tile_local(b, tsr_tile_storage_type(b, p->compute), high * p->lanes * p->vectors);
}

/* Vectors along columns that are not neighbours would load each element by itself. */
static void pack(product *p) {
    tsr_tile_builder *b = &p->group->b;
    uint32_t last = p->space.rank - 1;
    int64_t width = (int64_t)p->vectors * p->lanes;
    MlirValue zero = tsr_tile_index(b, 0), column = p->point.index[last];
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, p->space.dims[last]), column);
    MlirValue count = tsr_tile_min(b, left, tsr_tile_index(b, width));
    MlirValue from = tsr_tile_add(b, p->b_at, tsr_tile_mul(b, column, p->b.outer));
    TSR_TILE_FOR(b, c, zero, count, 1) {
        MlirValue line = tsr_tile_add(b, from, tsr_tile_mul(b, c.index, p->b.outer));
        TSR_TILE_FOR(b, k, zero, p->steps, 1) {
            MlirValue value = tsr_tile_load(
                b, p->b.dtype, p->b.buffer,
                tsr_tile_add(b, line, tsr_tile_mul(b, k.index, p->b.depth)), 0, tsr_tile_null);
            MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, k.index, width), c.index);
            tsr_tile_store(b, p->compute, value, p->packed, at, tsr_tile_null);
        }
    }
}

static MlirValue matrix_at(product *p, const operand *of) {
    tsr_tile_builder *b = &p->group->b;
    MlirValue at = tsr_tile_index(b, 0);
    for (uint32_t d = 0; d + 2 < p->space.rank; d++)
        if (of->batch[d])
            at = tsr_tile_add(b, at, tsr_tile_mul(b, p->point.index[d], of->batch[d]));
    return at;
}

static void emit_panel(product *p, MlirValue item, MlirValue panels) {
    tsr_tile_builder *b = &p->group->b;
    uint32_t last = p->space.rank - 1;
    int64_t width = (int64_t)p->vectors * p->lanes;
    bool batch[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d + 1 < last; d++) batch[d] = true;
    tsr_point_unflatten(b, &p->point, batch, tsr_tile_2(b, "arith.divui", item, panels));
    MlirValue column = tsr_tile_mul(b, tsr_tile_2(b, "arith.remui", item, panels), width);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, p->space.dims[last]), column);
    MlirValue rows = tsr_tile_index(b, p->space.dims[last - 1]);
    p->point.index[last] = column;
    for (uint32_t v = 0; v < p->vectors; v++)
        p->masks[v] = tsr_tile_mask(
            b, tsr_tile_sub(b, left, tsr_tile_index(b, (int64_t)v * p->lanes)), p->lanes);
    p->a_at = matrix_at(p, &p->a);
    p->b_at = matrix_at(p, &p->b);
    if (!mlirValueIsNull(p->packed)) pack(p);
    MlirValue whole = tsr_tile_sub(b, rows, tsr_tile_rem(b, rows, ROWS));
    if (tsr_extent_high(b, p->space.dims[last - 1]) >= ROWS)
        TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), whole, ROWS) { emit_tile(p, ROWS, loop.index); }
    TSR_TILE_FOR(b, loop, whole, rows, 1) { emit_tile(p, 1, loop.index); }
}

tsr_result tsr_open_lower_matmul(tsr_tile_group *group) {
    product p = {.group = group};
    TRY(group->ctx, read(&p));
    tsr_tile_builder *b = &group->b;
    uint32_t last = p.space.rank - 1;
    bool inner[TSR_RANK_MAX] = {false};
    int64_t batch = 1;
    plan(&p);
    int64_t width = (int64_t)p.vectors * p.lanes, columns = p.space.dims[last];
    inner[last] = true;
    for (uint32_t d = 0; d + 1 < last; d++) batch = tsr_extent_times(batch, p.space.dims[d]);
    p.point.space = &p.space;
    p.steps = tsr_tile_index(b, p.depth);
    tsr_region_levels(&p.after, &p.space, inner);
    tsr_region_emit(&p.after, 0, &p.point);
    MlirValue panels =
        tsr_tile_div(b, tsr_tile_offset(b, tsr_tile_index(b, columns), width - 1), width);
    int64_t high = tsr_extent_high(b, batch) * tsr_divide_up(tsr_extent_high(b, columns), width);
    int64_t work = tsr_extent_high(b, p.depth) * tsr_extent_high(b, p.space.dims[last - 1]);
    tsr_tile_loop items;
    tsr_open_programs(group, high, work * (int64_t)tsr_dtype_size(p.compute));
    tsr_open_share(group, tsr_tile_mul(b, panels, batch), &items);
    emit_panel(&p, items.index, panels);
    tsr_tile_loop_end(b, &items, NULL);
    return TSR_SUCCESS;
}
