/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `matmul`: C = A B over the last two dimensions, with an elementwise epilogue.
 *
 * A panel is as many columns as a tile is wide. A program computes a block of rows of one or more
 * panels; tiles keep their part of C in registers:
 *
 *     for each block of K
 *         copy the block of A to the stack, tile by tile, if it is transposed
 *         for each panel of the program
 *             copy the panel's block of B to the stack, if it is to be packed
 *             for each tile of rows
 *                 accumulators = 0, or what the last block of K left on the stack
 *                 for k: accumulators = fma(a[k], b[k], accumulators)
 *                 epilogue and store, or leave them for the next block of K
 *
 * Every element is one chain over ascending k, whatever the sizes; of pairs of k where dot products
 * compute it (dot.h): then k counts pairs. The plan is a model of the caches: blocks of A and of a
 * panel of B share the second level, partial sums beside them; with few rows B is streamed once,
 * some rows at a time, for reading it takes all the time. It stands in the kernel's attribute
 * `tile`; the schedule's overrides it. B may lie in strips of columns already (schedule/pack.c):
 * then panels are read there. The method is that of Goto and van de Geijn, "Anatomy of High-
 * Performance Matrix Multiplication", 2008, with A left where it lies unless it is transposed.
 */
#include "compiler/tile/dot.h"
#include "compiler/tile/epilogue.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK_ROWS_MAX = 256,                       /* of a program */
    PACKED_ROWS_MAX = 512,                      /* of a program that packs B */
    PANEL_BYTES = 192 * 1024,                   /* of a block of B on the stack */
    SCRATCH_BYTES = 96 * 1024,                  /* of partial sums */
    LOCAL_BYTES = TSR_TARGET_STACK_MAX - 65536, /* of all on the stack */
    A_ROW_BYTES = 4096, /* of a row of A on the stack, if it is whole; else: */
    A_PART_BYTES = 2048,
    DIRECT_BYTES = 32 * 1024,     /* B up to this size lies well in the first-level cache */
    STREAM_BYTES = 256 * 1024,    /* B from this size on is streamed where rows are few */
    FAR_BYTES = 6 * 1024 * 1024,  /* of B between returns to it: they stay in the third level */
    A_PANELS_LEAST = 2,           /* that pay for packing A */
    A_SCRATCH_BYTES = 480 * 1024, /* of partial sums beside a block of A on the stack */
    A_COST = 20, /* to pack an element of A, of B, in multiplications: measured on a Zen 3 */
    B_COST = 8,
    PROGRAMS_WANTED = 16,        /* where A is packed: fewer could leave processors without work */
    PREFETCH_TILES_LEAST = 8,    /* few tiles would each ask for much */
    PREFETCH_K_LEAST = 64,       /* a tile that takes so long hides what is on its way */
    PROGRAM_FLOPS = 1000 * 1000, /* a program does at least so much, if there is so much */
};
static_assert(PANEL_BYTES + SCRATCH_BYTES <= LOCAL_BYTES &&
                  PANEL_BYTES + A_SCRATCH_BYTES <= LOCAL_BYTES / 4 * 3,
              "the local buffers fit the stack, and leave room for A");

/* Sizes of the plan, as they stand in `tile`; 0: not chosen. */
typedef struct sizes {
    int64_t rows;           /* of a tile */
    int64_t width;          /* of a tile, in columns */
    int64_t block_rows;     /* of a program */
    int64_t program_panels; /* of a program */
    int64_t k_block;
} sizes;
enum { SIZES = sizeof(sizes) / sizeof(int64_t) };

typedef struct matmul {
    tsr_tile_group *group;
    tsr_region after;
    tsr_node *given;
    tsr_view *outputs;
    tsr_space space;          /* of the result: [batch ..., M, N] */
    tsr_dtype dtype, compute; /* of the result; of what is computed with, and of locals */
    tsr_gemm_operand a, b;
    int64_t m, n, k, batch; /* k: steps, of ... */
    int64_t unit, depth;    /* ... 2 elements of K where dot.h computes, else 1; of K itself */
    int64_t a_row, a_k;     /* strides of A; of a step */
    int64_t a_batch[TSR_RANK_MAX],
        b_batch[TSR_RANK_MAX]; /* of the batch's dimensions; 0: broadcast */
    bool b_transposed;
    int64_t strip; /* B lies in strips so wide; 0: it does not */
    /* the plan */
    sizes size;
    uint32_t lanes, vectors; /* a tile is vectors * lanes columns wide */
    int64_t panels;          /* of the matrix */
    int64_t k_blocks;
    int64_t far_parts; /* parts of a row of panels that are computed for all rows before the next */
    bool a_packed, b_packed;
    bool b_streamed; /* read where it lies, and large */
    bool asks;       /* the first tile of each panel asks for what of B is read next */
    /* emission */
    MlirValue a_local, panel, scratch; /* [k_block][block_rows], [k_block][width],
                                          [program_panels][block_rows][width] */
    MlirValue a_base, b_base;          /* offsets of the batch's matrices */
    tsr_point point;                   /* of the batch */
    tsr_epilogue epilogue;
} matmul;

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }
static uint32_t batch_rank(const matmul *mm) { return mm->space.rank - 2; }

/* ---- what is to be computed ------------------------------------------------------------------ */

/* Elements between neighbours along each dimension of the batch. */
static void batch_strides(const matmul *mm, const tsr_shape *shape, int64_t *strides) {
    uint32_t from = shape->rank - 2;
    int64_t stride = (int64_t)(shape->dims[from] * shape->dims[from + 1]);
    memset(strides, 0, TSR_RANK_MAX * sizeof *strides);
    for (uint32_t d = batch_rank(mm); d-- > 0 && from > 0;) {
        int64_t dim = (int64_t)shape->dims[--from];
        strides[d] = dim == 1 ? 0 : stride;
        stride *= dim;
    }
}

static tsr_result read_space(matmul *mm) {
    tsr_tile_group *group = mm->group;
    tsr_type result;
    if (!tsr_value_type(tsr_op_result(group->root, 0), &result) || result.shape.rank < 2)
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed matmul", group->name);
    mm->space.rank = result.shape.rank;
    mm->batch = 1;
    for (uint32_t d = 0; d < result.shape.rank; d++) {
        mm->space.dims[d] = (int64_t)result.shape.dims[d];
        if (d < batch_rank(mm)) mm->batch *= mm->space.dims[d];
    }
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

static bool rows_follow(const matmul *mm, const tsr_view *view) {
    uint32_t d = batch_rank(mm) - 1;
    return view->strides[d] == view->strides[d + 1] * mm->space.dims[d + 1];
}

static void drop_stride(const matmul *mm, tsr_view *view) {
    for (uint32_t d = batch_rank(mm) - 1; d + 1 < mm->space.rank; d++)
        view->strides[d] = view->strides[d + 1];
    view->strides[mm->space.rank - 1] = 0;
}

static bool reads_one_b(const matmul *mm) {
    for (uint32_t d = 0; d < batch_rank(mm); d++)
        if (mm->b_batch[d]) return false;
    return true;
}

/* Matrices that all read one B are rows of one product, where the epilogue allows it. */
static void merge_batch(matmul *mm) {
    while (batch_rank(mm) && mm->batch) {
        uint32_t d = batch_rank(mm) - 1;
        for (uint32_t i = 0; i < mm->after.node_count; i++)
            if (mm->after.nodes[i]->kind == TSR_NODE_VIEW &&
                !rows_follow(mm, &mm->after.nodes[i]->view))
                return;
        for (uint32_t i = 0; i < mm->group->output_count; i++)
            if (!rows_follow(mm, &mm->outputs[i])) return;
        if (mm->a_batch[d] != mm->m * mm->depth) return;
        for (uint32_t i = 0; i < mm->after.node_count; i++)
            if (mm->after.nodes[i]->kind == TSR_NODE_VIEW)
                drop_stride(mm, &mm->after.nodes[i]->view);
        for (uint32_t i = 0; i < mm->group->output_count; i++) drop_stride(mm, &mm->outputs[i]);
        mm->m *= mm->space.dims[d];
        mm->batch /= mm->space.dims[d];
        mm->space.dims[d] = mm->m;
        mm->space.dims[d + 1] = mm->n;
        mm->space.rank--;
    }
}

static tsr_result read_matmul(matmul *mm) {
    tsr_tile_group *group = mm->group;
    TRY(group->ctx, tsr_gemm_find_operand(group, 0, &mm->a));
    TRY(group->ctx, tsr_gemm_find_operand(group, 1, &mm->b));
    const tsr_shape *a = &mm->a.matrix.shape, *b = &mm->b.matrix.shape;
    mm->dtype = mm->a.matrix.dtype;
    mm->unit = tsr_dot_takes(group, &mm->a, &mm->b) ? TSR_DOT_PAIR : 1;
    mm->strip = mm->b.line / mm->unit;
    if (mm->b.pairs && mm->unit == 1)
        FAIL(group->ctx, TSR_COMPILE, "'%s': there are no dot products for strips of pairs",
             group->name);
    bool at = tsr_op_flag(group->root, "transpose_a"), bt = tsr_op_flag(group->root, "transpose_b");
    const uint64_t *a_dims = a->dims + a->rank - 2, *b_dims = b->dims + b->rank - 2;
    if (a_dims[!at] != b_dims[bt])
        FAIL(group->ctx, TSR_INTERNAL, "'%s': malformed matmul", group->name);
    mm->compute = tsr_tile_compute_dtype(mm->dtype);
    mm->m = (int64_t)a_dims[at];
    mm->depth = (int64_t)a_dims[!at];
    mm->k = divide_up(mm->depth, mm->unit);
    mm->n = (int64_t)b_dims[!bt];
    mm->a_row = at && mm->m > 1 ? 1 : mm->depth;
    mm->a_k = (at ? mm->m : 1) * mm->unit;
    mm->b_transposed = bt;
    TRY(group->ctx, read_space(mm));
    batch_strides(mm, a, mm->a_batch);
    batch_strides(mm, b, mm->b_batch);
    if (reads_one_b(mm) && !at) merge_batch(mm);
    return TSR_SUCCESS;
}

/* ---- plan ------------------------------------------------------------------------------------ */

static int64_t element_size(const matmul *mm) { return (int64_t)tsr_dtype_size(mm->compute); }

static tsr_result read_sizes(matmul *mm) {
    tsr_tile_group *group = mm->group;
    int64_t given[SIZES] = {0};
    size_t count = 0;
    if (!tsr_op_has(group->op, "tile")) return TSR_SUCCESS;
    bool known = tsr_op_i64s(group->op, "tile", SIZES, given, &count) && count <= SIZES;
    for (size_t i = 0; i < count && known; i++) known = given[i] >= 0;
    if (!known)
        FAIL(group->ctx, TSR_COMPILE, "'%s': tile: expected at most %d sizes of 0 or more",
             group->name, SIZES);
    memcpy(&mm->size, given, sizeof mm->size);
    return TSR_SUCCESS;
}

static int64_t b_bytes(const matmul *mm) { return mm->n * mm->k * element_size(mm); }

static void plan_tile(matmul *mm) {
    const tsr_target *target = mm->group->b.target;
    int64_t size = element_size(mm), rows = 1;
    tsr_gemm_shape shape = {.element_bytes = size,
                            .m = mm->m,
                            .n = mm->n,
                            .width = mm->size.width,
                            .strip = mm->strip,
                            .row_bytes = mm->a_row == 1 ? 0 : mm->a_row * size / mm->unit};
    tsr_gemm_plan_tile(target, &shape, &mm->lanes, &mm->vectors, &rows);
    mm->size.width = (int64_t)mm->lanes * mm->vectors;
    mm->panels = divide_up(mm->n, mm->size.width);
    if (!mm->size.rows || mm->size.rows > target->matmul_rows[mm->vectors - 1])
        mm->size.rows = rows;
}

static void plan_packing(matmul *mm) {
    const tsr_target *target = mm->group->b.target;
    bool changes = mm->unit > 1 || mm->b.dtype != mm->compute; /* better once than in each tile */
    bool large =
        (b_bytes(mm) > DIRECT_BYTES && mm->n != mm->size.width) || (changes && !target->warp_lanes);
    bool plain = !target->warp_lanes && !changes && mm->a_row != 1;
    int64_t rows = 2 * mm->size.rows; /* read B where it lies */
    if (plain) rows = most(rows, tsr_gemm_direct_rows(target, mm->n * element_size(mm)));
    mm->b_packed = !mm->strip && (mm->b_transposed || (large && mm->m > rows));
    mm->b_streamed = !mm->b_packed && !mm->strip && b_bytes(mm) > STREAM_BYTES && mm->panels > 1;
    mm->asks = mm->b_streamed && plain && mm->m > 1;
    mm->a_packed = !target->warp_lanes && mm->a_row == 1 &&
                   ((mm->size.rows > 1 && mm->panels > A_PANELS_LEAST) || mm->unit > 1);
}

static void plan_k(matmul *mm) {
    int64_t size = element_size(mm), limit = mm->k;
    if (mm->b_packed || mm->strip) limit = PANEL_BYTES / (mm->size.width * size);
    if (mm->a_packed)
        limit = least(limit, (mm->k * size > A_ROW_BYTES ? A_PART_BYTES : A_ROW_BYTES) / size);
    if (mm->b_streamed)
        limit = tsr_gemm_streamed_rows(mm->group->b.target, mm->m, mm->size.width * size, mm->asks);
    if (mm->size.k_block) limit = least(limit, mm->size.k_block);
    /* Packing a transpose takes whole squares. */
    mm->size.k_block = tsr_gemm_part(mm->k, limit, mm->b_packed ? mm->lanes : 1);
    mm->k_blocks = most(divide_up(mm->k, most(mm->size.k_block, 1)), 1);
}

static int64_t packed_tile(const matmul *mm) {
    return tsr_gemm_tile_size(mm->compute, mm->size.rows, mm->size.k_block);
}

/* Rows of A that fit the stack beside a panel of B and partial sums. */
static int64_t packed_rows(const matmul *mm) {
    int64_t panel = mm->b_packed ? (mm->size.k_block + mm->lanes) * mm->size.width : 0;
    int64_t bytes = LOCAL_BYTES - panel * element_size(mm);
    if (mm->k_blocks > 1) bytes -= A_SCRATCH_BYTES;
    return bytes / (packed_tile(mm) * element_size(mm)) * mm->size.rows;
}

/* A program packs its block of A once, and each panel of B for this block: what both take, over
 * the multiplications they are for, is least where there are as many programs as wanted. */
static void plan_packed_blocks(const matmul *mm, int64_t *out_rows, int64_t *out_panels) {
    const sizes *s = &mm->size;
    double flops = 2.0 * (double)mm->m * (double)mm->n * (double)mm->k, best = INFINITY;
    int64_t wanted = flops > (double)PROGRAMS_WANTED * PROGRAM_FLOPS
                         ? PROGRAMS_WANTED
                         : (int64_t)(flops / PROGRAM_FLOPS) + 1;
    for (int64_t parts = 1; parts <= mm->panels; parts++) {
        int64_t panels = divide_up(mm->panels, parts), columns = panels * s->width;
        int64_t rows = least(packed_rows(mm), divide_up(mm->m, divide_up(wanted, parts)));
        if (mm->k_blocks > 1) rows = least(rows, A_SCRATCH_BYTES / (columns * element_size(mm)));
        double cost = A_COST / (double)columns;
        if (cost >= best) break;
        if (mm->b_packed) cost += B_COST / (double)most(rows, 1);
        if (cost >= best || rows < least(s->rows, mm->m)) continue;
        best = cost;
        *out_rows = rows;
        *out_panels = panels;
    }
}

static void plan_blocks(matmul *mm) {
    sizes *s = &mm->size;
    int64_t size = element_size(mm), k = most(s->k_block, 1), unit = s->rows;
    int64_t cache = tsr_gemm_second_level(mm->group->b.target) * 4 / 5;
    int64_t scratch = mm->a_packed ? A_SCRATCH_BYTES : SCRATCH_BYTES;
    /* Packing B for many rows is worth more than keeping their A near. */
    int64_t limit = least((cache - s->width * k * size) / (k * size), BLOCK_ROWS_MAX), wanted = 1;
    if (mm->b_packed) limit = PACKED_ROWS_MAX;
    if (mm->asks) limit = BLOCK_ROWS_MAX; /* B is read once */
    if (mm->a_packed) plan_packed_blocks(mm, &limit, &wanted);
    if (mm->k_blocks > 1) limit = least(limit, scratch / (s->width * size));
    if (s->block_rows) limit = s->block_rows;
    if (mm->a_packed) {
        limit = least(limit, packed_rows(mm));
        if (limit > 4 * unit * TSR_GEMM_TILES_TOGETHER) unit *= TSR_GEMM_TILES_TOGETHER;
        limit = limit / unit * unit;
    }
    s->block_rows = tsr_gemm_part(mm->m, most(limit, s->rows), unit);
    double flops = 2.0 * (double)s->block_rows * (double)s->width * (double)mm->k + 1;
    double panels = PROGRAM_FLOPS / flops;
    if (panels > (double)wanted)
        wanted = panels > (double)mm->panels ? mm->panels : (int64_t)panels;
    if (mm->b_streamed && mm->k_blocks > 1)
        wanted = most(wanted, tsr_gemm_run_panels(mm->panels, mm->n * size, mm->m));
    if (s->program_panels) wanted = s->program_panels;
    if (mm->k_blocks > 1) wanted = least(wanted, scratch / (s->block_rows * s->width * size));
    s->program_panels = least(most(wanted, 1), mm->panels);
    int64_t parts = divide_up(mm->panels, s->program_panels);
    int64_t part_bytes = s->program_panels * s->width * mm->k * size;
    mm->far_parts = parts;
    if (b_bytes(mm) > FAR_BYTES && mm->m > s->block_rows)
        mm->far_parts = tsr_gemm_part(parts, FAR_BYTES / most(part_bytes, 1), 1);
}

/* ---- blocks on the stack --------------------------------------------------------------------- */

typedef struct block {
    MlirValue row, row_count; /* of the program */
    MlirValue k0;             /* of this block of K */
    int64_t k_count;
    bool last; /* block of K: epilogue */
} block;

/* A panel of the program, or the edge: the last of the matrix where that is narrower. */
typedef struct panel {
    const block *block;
    MlirValue column, local; /* its first; its number in the program */
    int64_t edge;            /* columns of the edge; 0: a whole panel */
    uint32_t vectors;
    MlirValue masks[TSR_TILE_VECTORS_MAX]; /* null: all lanes */
} panel;

/* A zero stands beside the last element of K. */
static bool is_odd(const matmul *mm, const block *at) { return at->last && mm->depth % mm->unit; }

static void pack_b(matmul *mm, const panel *p) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = p->block;
    int64_t column_stride = mm->b_transposed ? mm->depth : 1;
    int64_t k_stride = mm->b_transposed ? 1 : mm->n;
    MlirValue from = tsr_tile_add(b, tsr_tile_mul(b, p->column, column_stride),
                                  tsr_tile_mul(b, at->k0, k_stride * mm->unit));
    tsr_gemm_pack pack = {.from_dtype = mm->b.dtype,
                          .to_dtype = mm->compute,
                          .lanes = mm->lanes,
                          .vectors = p->vectors,
                          .from = mm->b.buffer,
                          .to = mm->panel,
                          .from_at = tsr_tile_add(b, mm->b_base, from),
                          .to_at = tsr_tile_index(b, 0),
                          .from_step = mm->b_transposed ? column_stride : k_stride,
                          .to_step = mm->size.width * mm->unit,
                          .count = tsr_tile_index(b, at->k_count),
                          .columns = p->edge ? tsr_tile_index(b, p->edge) : tsr_tile_null};
    if (mm->unit > 1)
        (mm->b_transposed ? tsr_dot_pack_columns : tsr_dot_pack_rows)(b, &pack, is_odd(mm, at));
    else
        (mm->b_transposed ? tsr_gemm_pack_columns : tsr_gemm_pack_rows)(b, &pack);
}

/* a_local[tile of the block][k][row of the tile], from A transposed. */
static void pack_a(matmul *mm, const block *at) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue from = tsr_tile_add(b, at->row, tsr_tile_mul(b, at->k0, mm->a_k));
    tsr_gemm_pack_tiles pack = {.from_dtype = mm->a.dtype,
                                .to_dtype = mm->compute,
                                .lanes = b->target->vector_bytes / (uint32_t)element_size(mm),
                                .rows = mm->size.rows,
                                .from = mm->a.buffer,
                                .to = mm->a_local,
                                .from_at = tsr_tile_add(b, mm->a_base, from),
                                .from_step = mm->a_k / mm->unit,
                                .to_tile = packed_tile(mm) * mm->unit,
                                .count = tsr_tile_index(b, at->k_count),
                                .row_count = at->row_count,
                                .rows_left = tsr_tile_sub(b, tsr_tile_index(b, mm->m), at->row)};
    mm->unit > 1 ? tsr_dot_pack_a(b, &pack, is_odd(mm, at)) : tsr_gemm_pack_a(b, &pack);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

typedef struct tile {
    const panel *panel;
    int64_t rows;         /* a full tile's, or the edge's */
    MlirValue row, local; /* its first row: in the matrix, in the program's block */
    bool asks;            /* for what of B is read next */
} tile;

static MlirValue scratch_at(matmul *mm, const tile *t, int64_t row, uint32_t vector) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue first =
        tsr_tile_add(b, tsr_tile_mul(b, t->panel->local, mm->size.block_rows), t->local);
    return tsr_tile_offset(b, tsr_tile_mul(b, tsr_tile_offset(b, first, row), mm->size.width),
                           vector * mm->lanes);
}

static void load_scratch(matmul *mm, const tile *t, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < t->panel->vectors; v++)
            *accumulators++ = tsr_tile_load(b, mm->compute, mm->scratch, scratch_at(mm, t, i, v),
                                            mm->lanes, tsr_tile_null);
}

static void store_scratch(matmul *mm, const tile *t, const MlirValue *accumulators) {
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < t->panel->vectors; v++)
            tsr_tile_store(&mm->group->b, mm->compute, *accumulators++, mm->scratch,
                           scratch_at(mm, t, i, v), tsr_tile_null);
}

/* B as the tile reads it: from the packed panel, from strips, or where it lies. */
static void find_b(matmul *mm, const panel *p, int64_t *vectors, tsr_gemm_tile *gemm) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue k0 = p->block->k0;
    gemm->b = mm->b.buffer;
    gemm->last_lanes = tsr_gemm_last_lanes(b->target, mm->lanes, p->edge);
    if (mm->b_packed) {
        gemm->b = mm->panel;
        gemm->b_at = tsr_tile_index(b, 0);
        gemm->b_step = mm->size.width * mm->unit;
    } else if (mm->strip) {
        gemm->b_at = tsr_gemm_strip_at(b, mm->strip, mm->k, p->column, k0);
        gemm->b_at = tsr_tile_mul(b, gemm->b_at, mm->unit);
        gemm->b_step = mm->strip * mm->unit;
        gemm->b_vectors = vectors;
        tsr_gemm_strip_vectors(mm->strip, mm->k, mm->lanes, (uint32_t)p->vectors, vectors);
        for (uint32_t v = 0; v < p->vectors; v++) vectors[v] *= mm->unit;
    } else {
        gemm->b_at = tsr_tile_add(b, tsr_tile_mul(b, k0, mm->n * mm->unit), p->column);
        gemm->b_at = tsr_tile_add(b, mm->b_base, gemm->b_at);
        gemm->b_step = mm->n * mm->unit;
        gemm->b_row = mm->n;
        gemm->masks = p->masks;
    }
}

/* What of B is read after a panel: the next one, or the program's first of the next block of K. */
static MlirValue find_ahead(matmul *mm, const panel *p) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue column = tsr_tile_offset(b, p->column, mm->size.width), k0 = p->block->k0;
    if (mm->k_blocks > 1) {
        MlirValue first = tsr_tile_sub(b, p->column, tsr_tile_mul(b, p->local, mm->size.width));
        MlirValue below = tsr_tile_offset(b, k0, mm->size.k_block);
        MlirValue last = tsr_tile_icompare(b, TSR_ICMP_EQ, p->local,
                                           tsr_tile_index(b, mm->size.program_panels - 1));
        column = p->edge ? first : tsr_tile_select(b, last, first, column);
        k0 = p->edge ? below : tsr_tile_select(b, last, below, k0);
    }
    return tsr_tile_add(b, mm->b_base, tsr_tile_add(b, tsr_tile_mul(b, k0, mm->n), column));
}

static void multiply(matmul *mm, const tile *t, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = t->panel->block;
    int64_t vectors[TSR_TILE_VECTORS_MAX];
    MlirValue a_at = tsr_tile_mul(b, t->row, mm->a_row);
    a_at = tsr_tile_add(b, a_at, tsr_tile_mul(b, at->k0, mm->a_k));
    tsr_gemm_tile gemm = {.a_dtype = mm->a_packed ? mm->compute : mm->a.dtype,
                          .b_dtype = mm->b_packed ? mm->compute : mm->b.dtype,
                          .lanes = mm->lanes,
                          .vectors = t->panel->vectors,
                          .rows = t->rows,
                          .a = mm->a_packed ? mm->a_local : mm->a.buffer,
                          .a_at = tsr_tile_add(b, mm->a_base, a_at),
                          .a_row = mm->a_packed ? mm->unit : mm->a_row,
                          .a_step = mm->a_packed ? mm->size.rows * mm->unit : mm->a_k,
                          .odd = is_odd(mm, at),
                          .a_padded = mm->a_packed,
                          .unrolled = mm->b_streamed && mm->m == 1};
    if (mm->a_packed)
        gemm.a_at = tsr_tile_mul(b, t->local, packed_tile(mm) / mm->size.rows * mm->unit);
    find_b(mm, t->panel, vectors, &gemm);
    if (t->asks) gemm.ahead = find_ahead(mm, t->panel);
    tsr_gemm_narrow_last(b, &gemm, accumulators);
    MlirValue count = tsr_tile_index(b, at->k_count);
    (mm->unit > 1 ? tsr_dot_multiply : tsr_gemm_multiply)(b, &gemm, count, accumulators);
    tsr_gemm_widen_last(b, &gemm, accumulators);
}

static tsr_epilogue_tile epilogue_tile(const matmul *mm, const tile *t,
                                       const MlirValue *accumulators) {
    const panel *p = t->panel;
    tsr_epilogue_tile after = {.point = mm->point,
                               .row = t->row,
                               .column = p->column,
                               .rows = t->rows,
                               .vectors = p->vectors,
                               .columns = p->edge % mm->lanes ? p->edge : 0,
                               .masks = p->masks,
                               .sums = accumulators};
    after.point.lanes = mm->lanes;
    return after;
}

/* The next panel of B is on its way while this one is computed with: each tile asks for its share
 * of the rows. */
static void prefetch_panel(matmul *mm, const tile *t) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = t->panel->block;
    int64_t share = divide_up(at->k_count, divide_up(mm->size.block_rows, mm->size.rows));
    MlirValue first = tsr_tile_mul(b, tsr_tile_div(b, t->local, mm->size.rows), share);
    MlirValue column = tsr_tile_offset(b, t->panel->column, mm->size.width);
    tsr_tile_loop loop;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, share), 1, 0, NULL);
    MlirValue k = tsr_tile_add(b, tsr_tile_add(b, at->k0, first), loop.index);
    for (int64_t i = 0; i < mm->unit; i++) {
        MlirValue row = tsr_tile_offset(b, tsr_tile_mul(b, k, mm->unit * mm->n), i * mm->n);
        MlirValue from = tsr_tile_add(b, tsr_tile_add(b, mm->b_base, column), row);
        tsr_tile_prefetch_vector(b, mm->b.dtype, mm->b.buffer, from, (uint32_t)mm->size.width);
    }
    tsr_tile_loop_end(b, &loop, NULL);
}

static void prefetch(matmul *mm, const tile *t) {
    bool many = !mm->group->b.target->warp_lanes && t->panel->block->k_count >= PREFETCH_K_LEAST;
    if (!many || t->rows < mm->size.rows || t->panel->edge) return;
    if (mm->b_packed && !mm->b_transposed && mm->panels > 1 &&
        mm->size.block_rows >= PREFETCH_TILES_LEAST * mm->size.rows)
        prefetch_panel(mm, t);
    tsr_epilogue_tile after = epilogue_tile(mm, t, NULL);
    if (t->panel->block->last) tsr_epilogue_prefetch(&mm->epilogue, &after);
}

static tsr_result emit_tile(matmul *mm, const tile *t) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    MlirValue zero = tsr_element_zero(b, mm->compute, mm->lanes);
    for (int64_t i = 0; i < t->rows * t->panel->vectors; i++) accumulators[i] = zero;
    prefetch(mm, t);
    if (mm->k_blocks > 1) load_scratch(mm, t, accumulators);
    multiply(mm, t, accumulators);
    tsr_epilogue_tile after = epilogue_tile(mm, t, accumulators);
    if (t->panel->block->last) return tsr_epilogue_finish(&mm->epilogue, &after);
    store_scratch(mm, t, accumulators);
    return TSR_SUCCESS;
}

/* ---- a program ------------------------------------------------------------------------------- */

/* The tiles of one panel: whole ones, then the edge of the last block of rows. */
static tsr_result emit_panel(matmul *mm, panel *p) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = p->block;
    tsr_tile_loop loop;
    tile t = {.panel = p};
    p->vectors = mm->vectors;
    if (p->edge) p->vectors = (uint32_t)divide_up(p->edge, mm->lanes);
    for (uint32_t v = 0; v < p->vectors; v++) {
        int64_t left = p->edge - (int64_t)(v * mm->lanes);
        bool whole = !p->edge || left >= (int64_t)mm->lanes;
        p->masks[v] = whole ? tsr_tile_null : tsr_tile_mask(b, tsr_tile_index(b, left), mm->lanes);
    }
    if (mm->b_packed) pack_b(mm, p);
    int64_t edge = mm->m % mm->size.rows;
    MlirValue whole = tsr_tile_sub(b, at->row_count, tsr_tile_rem(b, at->row_count, mm->size.rows));
    MlirValue first = tsr_tile_index(b, mm->asks ? mm->size.rows : 0);
    MlirValue ends[] = {tsr_tile_index(b, 0), tsr_tile_min(b, first, whole), whole, at->row_count};
    for (int part = mm->asks ? 0 : 1; part < 3; part++) {
        t.rows = part == 2 ? edge : mm->size.rows;
        t.asks = part == 0;
        if (!t.rows || (part == 1 && mm->asks && mm->m < 2 * t.rows)) continue;
        tsr_tile_loop_begin(b, &loop, ends[part], ends[part + 1], t.rows, 0, NULL);
        t.local = loop.index;
        t.row = tsr_tile_add(b, at->row, loop.index);
        TRY(mm->group->ctx, emit_tile(mm, &t));
        tsr_tile_loop_end(b, &loop, NULL);
    }
    return TSR_SUCCESS;
}

/* The panels from `low` to below `high`. */
static tsr_result emit_panels(matmul *mm, const block *at, MlirValue first_panel, MlirValue low,
                              MlirValue high, int64_t edge) {
    tsr_tile_builder *b = &mm->group->b;
    tsr_tile_loop loop;
    panel p = {.block = at, .edge = edge};
    tsr_tile_loop_begin(b, &loop, low, high, 1, 0, NULL);
    p.column =
        tsr_tile_mul(b, edge ? tsr_tile_index(b, mm->panels - 1) : loop.index, mm->size.width);
    p.local = tsr_tile_sub(b, loop.index, first_panel);
    TRY(mm->group->ctx, emit_panel(mm, &p));
    tsr_tile_loop_end(b, &loop, NULL);
    return TSR_SUCCESS;
}

/* All panels of the program for one block of K. */
static tsr_result emit_k_block(matmul *mm, const block *at, MlirValue first_panel) {
    tsr_tile_builder *b = &mm->group->b;
    int64_t edge = mm->n % mm->size.width, whole = mm->panels - (edge != 0);
    MlirValue zero = tsr_tile_index(b, 0), whole_end = tsr_tile_index(b, whole);
    if (mm->a_packed) pack_a(mm, at);
    if (mm->panels == 1 ||
        (mm->size.program_panels == 1 && !edge && mm->panels % mm->far_parts == 0)) {
        panel p = {.block = at,
                   .column = tsr_tile_mul(b, first_panel, mm->size.width),
                   .local = zero,
                   .edge = edge};
        return emit_panel(mm, &p);
    }
    MlirValue end = tsr_tile_offset(b, first_panel, mm->size.program_panels);
    TRY(mm->group->ctx,
        emit_panels(mm, at, first_panel, first_panel, tsr_tile_min(b, end, whole_end), 0));
    if (!edge) return TSR_SUCCESS;
    /* Once, where the program has the last panel; some programs have none at all. */
    MlirValue has_some = tsr_tile_icompare(b, TSR_ICMP_SLE, first_panel, whole_end);
    MlirValue edge_end = tsr_tile_min(b, end, tsr_tile_index(b, mm->panels));
    return emit_panels(mm, at, first_panel, whole_end,
                       tsr_tile_select(b, has_some, edge_end, whole_end), edge);
}

static void clear_scratch(matmul *mm) {
    tsr_tile_builder *b = &mm->group->b;
    tsr_tile_loop loop;
    MlirValue zero = tsr_element_zero(b, mm->compute, mm->lanes);
    int64_t count = mm->size.program_panels * mm->size.block_rows * mm->size.width;
    tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, count), mm->lanes, 0,
                        NULL);
    tsr_tile_store(b, mm->compute, zero, mm->scratch, loop.index, tsr_tile_null);
    tsr_tile_loop_end(b, &loop, NULL);
}

static tsr_result emit_program(matmul *mm, block *at, MlirValue first_panel) {
    tsr_tile_builder *b = &mm->group->b;
    if (mm->k_blocks > 1) {
        clear_scratch(mm);
        tsr_tile_loop loop;
        tsr_tile_loop_begin(b, &loop, tsr_tile_index(b, 0), tsr_tile_index(b, mm->k_blocks - 1), 1,
                            0, NULL);
        at->k0 = tsr_tile_mul(b, loop.index, mm->size.k_block);
        at->k_count = mm->size.k_block;
        TRY(mm->group->ctx, emit_k_block(mm, at, first_panel));
        tsr_tile_loop_end(b, &loop, NULL);
    }
    at->k0 = tsr_tile_index(b, (mm->k_blocks - 1) * mm->size.k_block);
    at->k_count = mm->k - (mm->k_blocks - 1) * mm->size.k_block;
    at->last = true;
    return emit_k_block(mm, at, first_panel);
}

/* Sets where the matrices of number `batch` lie. */
static void enter_batch(matmul *mm, MlirValue batch) {
    tsr_tile_builder *b = &mm->group->b;
    bool selected[TSR_RANK_MAX] = {false};
    for (uint32_t d = 0; d < batch_rank(mm); d++) selected[d] = true;
    mm->point = (tsr_point){.space = &mm->space};
    tsr_point_unflatten(b, &mm->point, selected, batch);
    mm->a_base = mm->b_base = tsr_tile_index(b, 0);
    for (uint32_t d = 0; d < batch_rank(mm); d++) {
        MlirValue index = mm->point.index[d];
        mm->a_base = tsr_tile_add(b, mm->a_base, tsr_tile_mul(b, index, mm->a_batch[d]));
        mm->b_base = tsr_tile_add(b, mm->b_base, tsr_tile_mul(b, index, mm->b_batch[d]));
    }
}

/* Program `pid` of one matrix: `far_parts` parts of each block of rows, then the next. */
static tsr_result emit_matrix(matmul *mm, MlirValue pid, int64_t blocks) {
    tsr_tile_builder *b = &mm->group->b;
    block at = {.row_count = tsr_tile_index(b, mm->size.block_rows)};
    MlirValue far = tsr_tile_div(b, pid, blocks * mm->far_parts);
    MlirValue rest = tsr_tile_rem(b, pid, blocks * mm->far_parts);
    if (mm->far_parts * mm->size.program_panels >= mm->panels) {
        far = tsr_tile_index(b, 0);
        rest = pid;
    }
    at.row = tsr_tile_mul(b, tsr_tile_div(b, rest, mm->far_parts), mm->size.block_rows);
    if (mm->m % mm->size.block_rows)
        at.row_count =
            tsr_tile_min(b, at.row_count, tsr_tile_sub(b, tsr_tile_index(b, mm->m), at.row));
    MlirValue part =
        tsr_tile_add(b, tsr_tile_mul(b, far, mm->far_parts), tsr_tile_rem(b, rest, mm->far_parts));
    return emit_program(mm, &at, tsr_tile_mul(b, part, mm->size.program_panels));
}

static void make_locals(matmul *mm) {
    tsr_tile_builder *b = &mm->group->b;
    const sizes *s = &mm->size;
    MlirType type = tsr_tile_storage_type(b, mm->unit > 1 ? mm->dtype : mm->compute);
    int64_t steps = divide_up(s->k_block, mm->lanes) * mm->lanes * mm->unit;
    int64_t tiles = divide_up(s->block_rows, s->rows) * mm->unit;
    if (mm->b_packed) mm->panel = tsr_tile_local(b, type, steps * s->width);
    if (mm->a_packed) mm->a_local = tsr_tile_local(b, type, packed_tile(mm) * tiles);
    if (mm->k_blocks > 1)
        mm->scratch = tsr_tile_local(b, tsr_tile_storage_type(b, mm->compute),
                                     s->program_panels * s->block_rows * s->width);
    mm->epilogue = (tsr_epilogue){.region = &mm->after,
                                  .given = mm->given,
                                  .outputs = mm->outputs,
                                  .dtype = mm->dtype,
                                  .dots = mm->unit > 1};
    tsr_epilogue_begin(&mm->epilogue, s->rows * s->width);
}

static tsr_result emit(matmul *mm) {
    tsr_tile_builder *b = &mm->group->b;
    bool inner[TSR_RANK_MAX] = {false};
    inner[mm->space.rank - 1] = true;
    mm->point = (tsr_point){.space = &mm->space};
    tsr_region_levels(&mm->after, &mm->space, inner);
    tsr_region_emit(&mm->after, 0, &mm->point);
    make_locals(mm);
    int64_t blocks = divide_up(mm->m, mm->size.block_rows);
    int64_t parts = divide_up(mm->panels, mm->size.program_panels);
    int64_t programs = blocks * divide_up(parts, mm->far_parts) * mm->far_parts;
    double flops = 2.0 * (double)mm->m * (double)mm->n * (double)mm->k + 1;
    int64_t matrices = programs == 1 && flops < PROGRAM_FLOPS
                           ? least((int64_t)(PROGRAM_FLOPS / flops) + 1, mm->batch)
                           : 1;
    mm->group->grid = divide_up(mm->batch, matrices) * programs;
    MlirValue pid = mm->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    if (matrices == 1) {
        enter_batch(mm, mm->batch > 1 ? tsr_tile_div(b, pid, programs) : tsr_tile_index(b, 0));
        return emit_matrix(mm, mm->batch > 1 ? tsr_tile_rem(b, pid, programs) : pid, blocks);
    }
    tsr_tile_loop loop;
    MlirValue first = tsr_tile_mul(b, pid, matrices);
    MlirValue end =
        tsr_tile_min(b, tsr_tile_offset(b, first, matrices), tsr_tile_index(b, mm->batch));
    tsr_tile_loop_begin(b, &loop, first, end, 1, 0, NULL);
    enter_batch(mm, loop.index);
    TRY(mm->group->ctx, emit_matrix(mm, tsr_tile_index(b, 0), blocks));
    tsr_tile_loop_end(b, &loop, NULL);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_matmul(tsr_tile_group *group) {
    matmul mm = {.group = group};
    TRY(group->ctx, read_matmul(&mm));
    if (!mm.m || !mm.n || !mm.batch) return TSR_SUCCESS;
    TRY(group->ctx, read_sizes(&mm));
    plan_tile(&mm);
    plan_packing(&mm);
    plan_k(&mm);
    plan_blocks(&mm);
    memcpy(group->tile, &mm.size, sizeof mm.size);
    group->tile_count = SIZES;
    TRY(group->ctx, emit(&mm));
    if (mm.unit > 1) tsr_dot_round_all(&group->b, group->b.at.block);
    return TSR_SUCCESS;
}
