/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `matmul`: C = A B with an elementwise epilogue.
 *
 * A program computes a block of rows of one or more panels; a panel is as many columns as a tile is
 * wide. Tiles of rows_per_tile rows keep their part of C in registers over all of K:
 *
 *     for each panel of the program
 *         for each block of K (one, unless a packed panel would not fit the stack)
 *             copy the block of B's panel to the stack, if it is to be packed
 *             for each tile of rows
 *                 accumulators = 0, or what the last block left
 *                 for k: accumulators = fma(a[k], b[k], accumulators)
 *                 epilogue and store, or leave them for the next block
 *
 * Every element is one chain over ascending k, whatever the sizes. A is read where it lies, as
 * scalars. B is packed if it is transposed, if its edge would need slow masks, or if it is large
 * and used by several tiles; else read where it lies. The method is that of Goto and van de Geijn,
 * "Anatomy of High-Performance Matrix Multiplication", 2008, without packing A.
 */
#include "compiler/tile/region.h"

#include <string.h>

enum {
    ROWS_MAX = 16,               /* of a tile */
    BLOCK_ROWS_MIN = 64,         /* of a program */
    BLOCK_ROWS_MAX = 256,        /* of a program */
    A_BYTES = 768 * 1024,        /* of a program's rows of A: they stay in the second-level cache */
    PANEL_BYTES = 256 * 1024,    /* of a packed block of B */
    DIRECT_BYTES = 32 * 1024,    /* B up to this size lies well in the first-level cache */
    PROGRAM_FLOPS = 1000 * 1000, /* a program does at least so much, if there is so much */
    TILE_MAX = ROWS_MAX * TSR_TILE_VECTORS_MAX,
};

typedef struct matmul {
    tsr_tile_group *group;
    tsr_region after;
    tsr_node *given;
    tsr_view *outputs;
    tsr_space space; /* [M, N] */
    tsr_dtype dtype;
    MlirValue a, b; /* buffers */
    int64_t m, n, k;
    int64_t a_row, a_k; /* strides of A */
    bool b_transposed;
    /* the plan */
    uint32_t lanes, vectors;  /* a tile is vectors * lanes columns wide */
    int64_t width, panels;    /* columns of a panel; panels of the matrix */
    int64_t rows, block_rows; /* of a tile; of a program */
    int64_t program_panels;
    int64_t k_block, k_blocks; /* rows of B packed at once; how often */
    bool packed;
    MlirValue panel, scratch; /* local buffers: [k_block][width], [block_rows][width] */
    MlirValue masks[TSR_TILE_VECTORS_MAX]; /* of the current panel; null: all lanes */
} matmul;

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

static tsr_result find_operand(matmul *mm, size_t index, MlirValue *out_buffer,
                               const tsr_shape **out_shape) {
    tsr_tile_group *group = mm->group;
    MlirValue operand = tsr_op_operand(group->root, index);
    if (!mlirValueIsABlockArgument(operand))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': operand %zu of the matmul is not an argument",
             group->name, index);
    intptr_t number = mlirBlockArgumentGetArgNumber(operand);
    *out_buffer = group->buffers[number];
    *out_shape = &group->types[number].shape;
    mm->dtype = group->types[number].dtype;
    return TSR_SUCCESS;
}

static tsr_result read_matmul(matmul *mm) {
    tsr_tile_group *group = mm->group;
    const tsr_shape *a = NULL, *b = NULL;
    TRY(group->ctx, find_operand(mm, 0, &mm->a, &a));
    TRY(group->ctx, find_operand(mm, 1, &mm->b, &b));
    bool at = tsr_op_flag(group->root, "transpose_a"), bt = tsr_op_flag(group->root, "transpose_b");
    if (a->rank != 2 || b->rank != 2 || a->dims[!at] != b->dims[bt] ||
        !tsr_dtype_is_float(mm->dtype))
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed matmul", group->name);
    mm->m = (int64_t)a->dims[at];
    mm->k = (int64_t)a->dims[!at];
    mm->n = (int64_t)b->dims[!bt];
    mm->a_row = at ? 1 : mm->k;
    mm->a_k = at ? mm->m : 1;
    mm->b_transposed = bt;
    mm->space = (tsr_space){.rank = 2, .dims = {mm->m, mm->n}};
    mm->outputs = TSR_NEW(group->arena, tsr_view, group->output_count);
    if (!mm->outputs) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < group->output_count; i++) {
        const tsr_type *type = &group->types[group->input_count + i];
        tsr_view_init(&mm->outputs[i], type->dtype, group->buffers[group->input_count + i],
                      &type->shape, &mm->space, NULL);
    }
    TRY(group->ctx, tsr_region_init(group, group->returned, group->output_count,
                                    tsr_op_result(group->root, 0), &mm->space, NULL, &mm->after));
    for (uint32_t i = 0; i < mm->after.node_count; i++)
        if (mm->after.nodes[i]->kind == TSR_NODE_GIVEN) mm->given = mm->after.nodes[i];
    if (!mm->given) FAIL(group->ctx, TSR_INTERNAL, "'%s': unused matmul", group->name);
    return TSR_SUCCESS;
}

/* ---- plan ------------------------------------------------------------------------------------ */

/* The width that wastes least: columns computed, over how well a tile of that width runs. */
static void plan_width(matmul *mm) {
    static const double speed[TSR_TILE_VECTORS_MAX] = {0.80, 0.97, 1.0, 0.98};
    const tsr_target *target = mm->group->b.target;
    uint32_t lanes = target->vector_bytes / (uint32_t)tsr_dtype_size(mm->dtype);
    double best = 0;
    for (uint32_t v = 1; v <= TSR_TILE_VECTORS_MAX; v++) {
        if (!target->matmul_rows[v - 1]) continue;
        double cost = (double)(divide_up(mm->n, (int64_t)lanes * v) * v) / speed[v - 1];
        if (best > 0 && cost >= best) continue;
        best = cost;
        mm->vectors = v;
    }
    mm->lanes = mm->vectors == 1 ? tsr_lanes_fit(lanes, mm->n) : lanes;
    mm->width = (int64_t)mm->lanes * mm->vectors;
    mm->panels = divide_up(mm->n, mm->width);
}

static void plan_rows(matmul *mm) {
    int64_t most = mm->group->b.target->matmul_rows[mm->vectors - 1];
    mm->rows = divide_up(mm->m, divide_up(mm->m, most));
    int64_t block = A_BYTES / (mm->k * (int64_t)tsr_dtype_size(mm->dtype) + 1);
    block = block < BLOCK_ROWS_MIN   ? BLOCK_ROWS_MIN
            : block > BLOCK_ROWS_MAX ? BLOCK_ROWS_MAX
                                     : block;
    block = divide_up(mm->m, divide_up(mm->m, block));
    mm->block_rows = mm->m <= block ? mm->m : divide_up(block, mm->rows) * mm->rows;
    double flops = 2.0 * (double)mm->block_rows * (double)mm->width * (double)mm->k + 1;
    double panels = PROGRAM_FLOPS / flops;
    mm->program_panels = panels < 1                    ? 1
                         : panels > (double)mm->panels ? mm->panels
                                                       : (int64_t)panels;
}

static void plan_packing(matmul *mm) {
    const tsr_target *target = mm->group->b.target;
    int64_t size = (int64_t)tsr_dtype_size(mm->dtype), tiles = divide_up(mm->block_rows, mm->rows);
    bool edge = mm->n % mm->width != 0, slow_masks = target->vector_bytes < 64;
    bool large = mm->n * mm->k * size > DIRECT_BYTES && mm->n != mm->width;
    mm->packed = mm->b_transposed || (edge && slow_masks && tiles > 1) || (large && tiles > 2);
    mm->k_block = mm->k;
    mm->k_blocks = 1;
    int64_t most = PANEL_BYTES / (mm->width * size);
    if (!mm->packed || mm->k <= most) return;
    mm->k_blocks = divide_up(mm->k, most);
    mm->k_block = divide_up(divide_up(mm->k, mm->k_blocks), mm->lanes) * mm->lanes;
    mm->k_blocks = divide_up(mm->k, mm->k_block);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* B[k0 + kk][column …] as it lies, row by row. */
static void pack_rows(matmul *mm, MlirValue column, MlirValue k0, int64_t count) {
    tsr_tile_builder *b = &mm->group->b;
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, count), 1, 0, NULL);
    MlirValue k = tsr_tile_add(b, k0, loop.index);
    MlirValue from = tsr_tile_add(b, tsr_tile_mul(b, k, mm->n), column);
    MlirValue to = tsr_tile_mul(b, loop.index, mm->width);
    for (uint32_t v = 0; v < mm->vectors; v++) {
        MlirValue value = tsr_tile_load(
            b, mm->dtype, mm->b, tsr_tile_offset(b, from, v * mm->lanes), mm->lanes, mm->masks[v]);
        tsr_tile_store(b, mm->dtype, value, mm->panel, tsr_tile_offset(b, to, v * mm->lanes),
                       tsr_tile_null);
    }
    tsr_tile_loop_end(b, &loop, NULL);
}

/* The same from B transposed: squares of lanes x lanes through registers. Rows of the panel beyond
 * `count` are there, and zero. */
static void pack_columns(matmul *mm, MlirValue panel_column, MlirValue k0, int64_t count) {
    tsr_tile_builder *b = &mm->group->b;
    uint32_t lanes = mm->lanes;
    bool masked = count % lanes || mm->n % mm->width;
    MlirValue rows[64], zero = tsr_tile_index(b, 0);
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, zero, tsr_tile_index(b, count), lanes, 0, NULL);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, count), loop.index);
    for (uint32_t v = 0; v < mm->vectors; v++) {
        MlirValue column = tsr_tile_offset(b, panel_column, v * lanes);
        MlirValue from =
            tsr_tile_add(b, tsr_tile_mul(b, column, mm->k), tsr_tile_add(b, k0, loop.index));
        for (uint32_t i = 0; i < lanes; i++) {
            MlirValue mask = tsr_tile_null;
            if (masked) {
                MlirValue there = tsr_tile_icompare(b, TSR_ICMP_SLT, tsr_tile_offset(b, column, i),
                                                    tsr_tile_index(b, mm->n));
                mask = tsr_tile_mask(b, tsr_tile_select(b, there, left, zero), lanes);
            }
            rows[i] = tsr_tile_load(b, mm->dtype, mm->b, tsr_tile_offset(b, from, i * mm->k), lanes,
                                    mask);
        }
        tsr_tile_transpose(b, lanes, rows);
        MlirValue to = tsr_tile_offset(b, tsr_tile_mul(b, loop.index, mm->width), v * lanes);
        for (uint32_t i = 0; i < lanes; i++)
            tsr_tile_store(b, mm->dtype, rows[i], mm->panel, tsr_tile_offset(b, to, i * mm->width),
                           tsr_tile_null);
    }
    tsr_tile_loop_end(b, &loop, NULL);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

typedef struct tile {
    int64_t rows;         /* a full tile's, or the edge's */
    MlirValue row, local; /* its first row: in the matrix, in the program's block */
    MlirValue column;     /* of the panel */
    MlirValue k0;         /* first k of this block */
    int64_t k_count;
    bool last; /* block of K: epilogue */
} tile;

static MlirValue scratch_at(matmul *mm, const tile *t, int64_t row, uint32_t vector) {
    tsr_tile_builder *b = &mm->group->b;
    return tsr_tile_offset(b, tsr_tile_mul(b, tsr_tile_offset(b, t->local, row), mm->width),
                           vector * mm->lanes);
}

static void load_scratch(matmul *mm, const tile *t, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < mm->vectors; v++)
            accumulators[i * mm->vectors + v] = tsr_tile_load(
                b, mm->dtype, mm->scratch, scratch_at(mm, t, i, v), mm->lanes, tsr_tile_null);
}

static void store_scratch(matmul *mm, const tile *t, const MlirValue *accumulators) {
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < mm->vectors; v++)
            tsr_tile_store(&mm->group->b, mm->dtype, accumulators[i * mm->vectors + v], mm->scratch,
                           scratch_at(mm, t, i, v), tsr_tile_null);
}

static void load_b_row(matmul *mm, const tile *t, MlirValue k, MlirValue *out_row) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue buffer = mm->packed ? mm->panel : mm->b;
    MlirValue at = tsr_tile_mul(b, k, mm->packed ? mm->width : mm->n);
    if (!mm->packed) at = tsr_tile_add(b, at, t->column);
    for (uint32_t v = 0; v < mm->vectors; v++)
        out_row[v] = tsr_tile_load(b, mm->dtype, buffer, tsr_tile_offset(b, at, v * mm->lanes),
                                   mm->lanes, mm->packed ? tsr_tile_null : mm->masks[v]);
}

/* The loop over k; `accumulators` in and out. */
static void multiply(matmul *mm, const tile *t, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    uint32_t count = (uint32_t)t->rows * mm->vectors;
    MlirValue next[TILE_MAX], row[TSR_TILE_VECTORS_MAX];
    MlirValue a_base =
        tsr_tile_add(b, tsr_tile_mul(b, t->row, mm->a_row), tsr_tile_mul(b, t->k0, mm->a_k));
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, t->k_count), 1, count,
                        accumulators);
    load_b_row(mm, t, loop.index, row);
    MlirValue a_at = tsr_tile_add(b, a_base, tsr_tile_mul(b, loop.index, mm->a_k));
    for (int64_t i = 0; i < t->rows; i++) {
        MlirValue a = tsr_tile_load(b, mm->dtype, mm->a, tsr_tile_offset(b, a_at, i * mm->a_row), 0,
                                    tsr_tile_null);
        a = tsr_tile_splat(b, a, mm->lanes);
        for (uint32_t v = 0; v < mm->vectors; v++) {
            uint32_t at = (uint32_t)i * mm->vectors + v;
            next[at] = tsr_tile_3(b, "math.fma", a, row[v], loop.carried[at]);
        }
    }
    tsr_tile_loop_end(b, &loop, next);
    memcpy(accumulators, loop.carried, count * sizeof *accumulators);
}

/* All values are computed before any is stored: outputs may lie over operands of the epilogue. */
static tsr_result finish_tile(matmul *mm, const tile *t, const MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    uint32_t outputs = mm->after.result_count;
    size_t count = (size_t)t->rows * mm->vectors * outputs;
    MlirValue *values = TSR_NEW(mm->group->arena, MlirValue, count);
    if (!values) FAIL(mm->group->ctx, TSR_MEMORY, "no memory to lower '%s'", mm->group->name);
    tsr_point point = {.space = &mm->space, .lanes = mm->lanes};
    for (int pass = 0; pass < 2; pass++) {
        MlirValue *value = values;
        for (int64_t i = 0; i < t->rows; i++) {
            point.index[0] = tsr_tile_offset(b, t->row, i);
            if (pass == 0) tsr_region_emit(&mm->after, 1, &point);
            for (uint32_t v = 0; v < mm->vectors; v++) {
                point.index[1] = tsr_tile_offset(b, t->column, v * mm->lanes);
                point.mask = mm->masks[v];
                mm->given->value = accumulators[i * mm->vectors + v];
                if (pass == 0) tsr_region_emit(&mm->after, 2, &point);
                for (uint32_t o = 0; o < outputs; o++, value++) {
                    const tsr_view *to = &mm->outputs[o];
                    if (pass == 0)
                        *value = tsr_node_value(&mm->after, mm->after.results[o], &point);
                    else
                        tsr_tile_store(b, to->dtype, *value, to->buffer,
                                       tsr_point_offset(b, &point, to), point.mask);
                }
            }
        }
    }
    return TSR_SUCCESS;
}

static tsr_result emit_tile(matmul *mm, const tile *t) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue accumulators[TILE_MAX];
    MlirValue zero = tsr_element_zero(b, mm->dtype, mm->lanes);
    for (int64_t i = 0; i < t->rows * mm->vectors; i++) accumulators[i] = zero;
    if (mm->k_blocks > 1) load_scratch(mm, t, accumulators);
    multiply(mm, t, accumulators);
    if (t->last) return finish_tile(mm, t, accumulators);
    store_scratch(mm, t, accumulators);
    return TSR_SUCCESS;
}

/* ---- a program ------------------------------------------------------------------------------- */

/* All tiles of the block for one block of K: whole ones, then the edge of the last block of rows.
 */
static tsr_result emit_tiles(matmul *mm, tile *t, MlirValue block_row, MlirValue row_count) {
    tsr_tile_builder *b = &mm->group->b;
    tsr_tile_loop loop;
    int64_t edge = mm->m % mm->rows;
    MlirValue whole = tsr_tile_sub(b, row_count, tsr_tile_rem(b, row_count, mm->rows));
    for (int part = 0; part < 2; part++) {
        t->rows = part ? edge : mm->rows;
        if (!t->rows) continue;
        tsr_tile_loop_begin(b, &loop, part ? whole : tsr_tile_index(b, 0), part ? row_count : whole,
                            t->rows, 0, NULL);
        t->local = loop.index;
        t->row = tsr_tile_add(b, block_row, loop.index);
        TRY(mm->group->ctx, emit_tile(mm, t));
        tsr_tile_loop_end(b, &loop, NULL);
    }
    return TSR_SUCCESS;
}

static tsr_result emit_k_block(matmul *mm, tile *t, MlirValue block_row, MlirValue row_count) {
    if (mm->packed) (mm->b_transposed ? pack_columns : pack_rows)(mm, t->column, t->k0, t->k_count);
    return emit_tiles(mm, t, block_row, row_count);
}

static void clear_scratch(matmul *mm) {
    tsr_tile_builder *b = &mm->group->b;
    tsr_tile_loop loop;
    MlirValue zero = tsr_element_zero(b, mm->dtype, mm->lanes);
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0),
                        tsr_tile_index(b, mm->block_rows * mm->width), mm->lanes, 0, NULL);
    tsr_tile_store(b, mm->dtype, zero, mm->scratch, loop.index, tsr_tile_null);
    tsr_tile_loop_end(b, &loop, NULL);
}

static tsr_result emit_panel(matmul *mm, MlirValue panel, MlirValue block_row,
                             MlirValue row_count) {
    tsr_tile_builder *b = &mm->group->b;
    tile t = {.column = tsr_tile_mul(b, panel, mm->width)};
    for (uint32_t v = 0; v < mm->vectors; v++) {
        mm->masks[v] = tsr_tile_null;
        if (mm->n % mm->width == 0) continue;
        MlirValue from = tsr_tile_offset(b, t.column, v * mm->lanes);
        mm->masks[v] = tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, mm->n), from), mm->lanes);
    }
    if (mm->k_blocks > 1) {
        clear_scratch(mm);
        tsr_tile_loop loop;
        tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, mm->k_blocks - 1), 1,
                            0, NULL);
        t.k0 = tsr_tile_mul(b, loop.index, mm->k_block);
        t.k_count = mm->k_block;
        TRY(mm->group->ctx, emit_k_block(mm, &t, block_row, row_count));
        tsr_tile_loop_end(b, &loop, NULL);
    }
    t.k0 = tsr_tile_index(b, (mm->k_blocks - 1) * mm->k_block);
    t.k_count = mm->k - (mm->k_blocks - 1) * mm->k_block;
    t.last = true;
    return emit_k_block(mm, &t, block_row, row_count);
}

static tsr_result emit(matmul *mm) {
    tsr_tile_builder *b = &mm->group->b;
    const bool inner[TSR_RANK_MAX] = {false, true};
    tsr_point point = {.space = &mm->space};
    tsr_region_levels(&mm->after, &mm->space, inner);
    tsr_region_emit(&mm->after, 0, &point);
    MlirType type = tsr_tile_storage_type(b, mm->dtype);
    int64_t packed_rows = divide_up(mm->k_block, mm->lanes) * mm->lanes;
    if (mm->packed) mm->panel = tsr_tile_local(b, type, packed_rows * mm->width);
    if (mm->k_blocks > 1) mm->scratch = tsr_tile_local(b, type, mm->block_rows * mm->width);
    int64_t blocks = divide_up(mm->m, mm->block_rows);

    int64_t parts = divide_up(mm->panels, mm->program_panels);
    mm->group->grid = blocks * parts;
    MlirValue pid = mm->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue block_row = tsr_tile_mul(b, tsr_tile_div(b, pid, parts), mm->block_rows);
    MlirValue row_count = tsr_tile_index(b, mm->block_rows);
    if (mm->m % mm->block_rows)
        row_count =
            tsr_tile_min(b, row_count, tsr_tile_sub(b, tsr_tile_index(b, mm->m), block_row));
    MlirValue panel = tsr_tile_mul(b, tsr_tile_rem(b, pid, parts), mm->program_panels);
    if (mm->program_panels == 1) return emit_panel(mm, panel, block_row, row_count);
    MlirValue end = tsr_tile_min(b, tsr_tile_offset(b, panel, mm->program_panels),
                                 tsr_tile_index(b, mm->panels));
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, panel, end, 1, 0, NULL);
    TRY(mm->group->ctx, emit_panel(mm, loop.index, block_row, row_count));
    tsr_tile_loop_end(b, &loop, NULL);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_matmul(tsr_tile_group *group) {
    matmul mm = {.group = group};
    TRY(group->ctx, read_matmul(&mm));
    if (!mm.m || !mm.n) return TSR_SUCCESS;
    plan_width(&mm);
    plan_rows(&mm);
    plan_packing(&mm);
    return emit(&mm);
}
