/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel family `matmul`: C = A B over the last two dimensions, with an elementwise epilogue.
 *
 * A panel has as many columns as a tile. A program computes a block of rows of one or more panels;
 * tiles keep their part of C in registers:
 *
 *     for each block of K
 *         copy the block of A to the stack, tile by tile, if it is transposed
 *         for each panel of the program
 *             copy the panel's block of B to the stack, if it is to be packed and the first tile
 *             does not pack it while it multiplies
 *             for each tile of rows
 *                 accumulators = 0, or the sums of the last block of K from the stack
 *                 for k: accumulators = fma(a[k], b[k], accumulators)
 *                 epilogue and store, or keep them for the next block of K
 *
 * An epilogue that reads many operands in addition to the product is computed while the next tile
 * multiplies, one vector after every few steps of k: multiplications hide its divisions and the
 * latency of memory.
 *
 * Every element is one chain over ascending k, for all sizes. A long K is cut into chunks, one
 * chain each, whose sums are added on the stack (tree.h). If dot products compute the product
 * (dot.h), chains have pairs of k, and k counts pairs. The plan is a model of the caches: blocks of
 * A and of a panel of B share the second level with partial sums. With few rows B is streamed once,
 * a few rows at a time, because reading B takes all the time. The plan is written to the kernel's
 * attribute `tile`; the schedule's attribute overrides it. If B is stored in strips of columns
 * already (schedule/pack.c), panels are read from there. If there are few rows, and B is contiguous
 * along K, as A is, A and B are swapped: then A is packed, B is read in place, and tiles are of C
 * transposed. The method is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication", 2008, except that A is read in place unless it is transposed.
 */
#include "compiler/tile/products/matmul.h"

#include "compiler/ir/targets/target.h"
#include "compiler/tile/open.h"

#include <string.h>

enum {
    ASKING_STEPS_LEAST = 8, /* minimum steps of a part of the loop that prefetches a row */
    PREFETCH_K_LEAST = 64,  /* a tile with this number of steps hides the latency of prefetches */
};

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* ---- blocks on the stack --------------------------------------------------------------------- */

typedef struct block {
    MlirValue row, row_count; /* the program's rows */
    tsr_matmul_open open;     /* of open_rows */
    MlirValue k0;             /* first step of this block of K */
    int64_t k_count;
    bool last; /* it is the last block of K: the epilogue follows */
    MlirValue first_panel, panel_end;
} block;

/* A panel of the program, or the edge: the last panel of the matrix, if it is narrower. */
typedef struct panel {
    const block *block;
    MlirValue column, local; /* its first column; its index in the program */
    int64_t edge;            /* columns of the edge; 0: a whole panel */
    uint32_t vectors;
    MlirValue masks[TSR_TILE_VECTORS_MAX]; /* null: all lanes */
} panel;

/* True if the last element of K is paired with a zero. */
static bool is_odd(const tsr_matmul *mm, const block *at) {
    return at->last && mm->depth % mm->unit;
}

static void pack_b(tsr_matmul *mm, const panel *p) {
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

/* Packs A, which is transposed, to a_local[tile of the block][k][row of the tile]. */
static void pack_a(tsr_matmul *mm, const block *at) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue from = tsr_tile_add(b, at->row, tsr_tile_mul(b, at->k0, mm->a_k));
    tsr_gemm_pack_tiles pack = {.from_dtype = mm->a.dtype,
                                .to_dtype = mm->compute,
                                .lanes =
                                    b->target->vector_bytes / (uint32_t)tsr_matmul_element_size(mm),
                                .rows = mm->size.rows,
                                .from = mm->a.buffer,
                                .to = mm->a_local,
                                .from_at = tsr_tile_add(b, mm->a_base, from),
                                .from_step = mm->a_k / mm->unit,
                                .to_tile = tsr_matmul_packed_tile(mm) * mm->unit,
                                .count = tsr_tile_index(b, at->k_count),
                                .row_count = at->row_count,
                                .rows_left = tsr_tile_sub(b, tsr_tile_index(b, mm->m), at->row)};
    mm->unit > 1 ? tsr_dot_pack_a(b, &pack, is_odd(mm, at)) : tsr_gemm_pack_a(b, &pack);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

typedef struct tile {
    const panel *panel;
    int64_t rows;         /* rows of a full tile, or of the edge */
    MlirValue row, local; /* its first row: in the matrix, in the program's block */
    bool first;           /* it is the first of its panel, which has additional work */
    bool defers;          /* its sums are deferred; ... */
    bool follows;         /* ... and the sums of the tile before are finished while it multiplies */
} tile;

/* The offset of the tile's sums in scratch. If there is one block of K, scratch only contains the
 * sums of one tile. */
static MlirValue scratch_at(tsr_matmul *mm, const tile *t, int64_t row, uint32_t vector) {
    tsr_tile_builder *b = &mm->group->b;
    if (mm->k_blocks == 1) return tsr_tile_index(b, row * mm->size.width + vector * mm->lanes);
    MlirValue first =
        tsr_tile_add(b, tsr_tile_mul(b, t->panel->local, mm->size.block_rows), t->local);
    return tsr_tile_offset(b, tsr_tile_mul(b, tsr_tile_offset(b, first, row), mm->size.width),
                           vector * mm->lanes);
}

/* The offset of the chains that continue in the next block of K: after the sums of chunks, if there
 * are any. */
static MlirValue chain_at(tsr_matmul *mm, const tile *t, int64_t row, uint32_t vector) {
    int64_t sums = mm->chunks ? tsr_product_slots(mm->chunks) : 0;
    return tsr_tile_offset(&mm->group->b, scratch_at(mm, t, row, vector), sums * mm->slot);
}

static void load_scratch(tsr_matmul *mm, const tile *t, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < t->panel->vectors; v++)
            *accumulators++ = tsr_tile_load(b, mm->compute, mm->scratch, chain_at(mm, t, i, v),
                                            mm->lanes, tsr_tile_null);
}

static void store_scratch(tsr_matmul *mm, const tile *t, const MlirValue *accumulators) {
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < t->panel->vectors; v++)
            tsr_tile_store(&mm->group->b, mm->compute, *accumulators++, mm->scratch,
                           chain_at(mm, t, i, v), tsr_tile_null);
}

static tsr_product_sums chunk_sums(const tsr_matmul *mm) {
    return (tsr_product_sums){.dtype = mm->compute,
                              .buffer = mm->scratch,
                              .slot = mm->slot,
                              .slots = tsr_product_slots(mm->chunks)};
}

/* The offsets of the tile's vectors. */
static tsr_product_offsets chunk_offsets(tsr_matmul *mm, const tile *t,
                                         int64_t offsets[TSR_GEMM_TILE_MAX]) {
    uint32_t count = 0;
    for (int64_t i = 0; i < t->rows; i++)
        for (uint32_t v = 0; v < t->panel->vectors; v++)
            offsets[count++] = i * mm->size.width + v * (int64_t)mm->lanes;
    return (tsr_product_offsets){
        .at = scratch_at(mm, t, 0, 0), .offsets = offsets, .count = count, .lanes = mm->lanes};
}

/* Sets the B that the tile reads: the packed panel, strips, or B in place. */
static void find_b(tsr_matmul *mm, const tile *t, int64_t *vectors, tsr_gemm_tile *gemm) {
    tsr_tile_builder *b = &mm->group->b;
    const panel *p = t->panel;
    MlirValue k0 = p->block->k0;
    bool packs = mm->packs && t->first;
    gemm->b = mm->b.buffer;
    gemm->last_lanes = tsr_gemm_last_lanes(b->target, mm->lanes, p->edge);
    if (mm->b_packed && !packs) {
        gemm->b = mm->panel;
        gemm->b_dtype = mm->compute;
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
        if (packs) gemm->copy = mm->panel;
        gemm->copy_step = mm->size.width * mm->unit;
    }
}

/* True for the last of the program's panels. */
static MlirValue is_last(const tsr_matmul *mm, const panel *p) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = p->block;
    MlirValue last = mm->at_once
                         ? tsr_tile_offset(b, tsr_tile_sub(b, at->panel_end, at->first_panel), -1)
                         : tsr_tile_index(b, mm->size.program_panels - 1);
    return tsr_tile_icompare(b, TSR_ICMP_EQ, p->local, last);
}

/* The offset of the part of B that is read after a panel: the next panel or, after the program's
 * last one, the first panel of the next block of K or of the next program. */
static MlirValue find_ahead(const tsr_matmul *mm, const panel *p) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue column = tsr_tile_offset(b, p->column, mm->size.width), k0 = p->block->k0;
    if (p->block->last && mm->k_blocks > 1) {
        k0 = tsr_tile_select(b, is_last(mm, p), tsr_tile_index(b, 0), k0);
    } else if (mm->k_blocks > 1) {
        MlirValue first = tsr_tile_sub(b, p->column, tsr_tile_mul(b, p->local, mm->size.width));
        MlirValue below = tsr_tile_offset(b, k0, mm->size.k_block);
        MlirValue last = is_last(mm, p);
        column = p->edge ? first : tsr_tile_select(b, last, first, column);
        k0 = p->edge ? below : tsr_tile_select(b, last, below, k0);
    }
    MlirValue row = tsr_tile_mul(b, k0, mm->n * mm->unit);
    return tsr_tile_add(b, mm->b_base, tsr_tile_add(b, row, column));
}

static bool asks_for_share(const tsr_matmul *mm, const tile *t) {
    return mm->asking_tiles && !t->first && t->rows == mm->size.rows && !t->panel->edge &&
           t->panel->block->k_count >= PREFETCH_K_LEAST;
}

static void multiply_steps(const tsr_matmul *mm, const tsr_gemm_tile *gemm, MlirValue first,
                           MlirValue count, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    tsr_gemm_tile part = *gemm;
    part.a_at = tsr_tile_add(b, gemm->a_at, tsr_tile_mul(b, first, gemm->a_step));
    part.b_at = tsr_tile_add(b, gemm->b_at, tsr_tile_mul(b, first, gemm->b_step));
    part.copy_at = tsr_tile_mul(b, first, gemm->copy_step);
    if (!mlirValueIsNull(gemm->ahead))
        part.ahead = tsr_tile_add(b, gemm->ahead, tsr_tile_mul(b, first, gemm->b_step));
    if (mm->unit > 1)
        tsr_dot_multiply(b, &part, count, accumulators);
    else
        tsr_gemm_multiply(b, &part, count, accumulators);
}

/* The lanes of the vectors that rows of a transposed tile become. */
static uint32_t transposed_lanes(const tsr_matmul *mm) {
    uint32_t lanes = 2;
    while (lanes < mm->size.rows) lanes *= 2;
    return lanes;
}

static tsr_epilogue_tile transposed_tile(const tsr_matmul *mm, const tile *t, MlirValue *out_mask) {
    tsr_tile_builder *b = &mm->group->b;
    uint32_t lanes = transposed_lanes(mm);
    bool whole = t->rows == lanes;
    *out_mask = whole ? tsr_tile_null : tsr_tile_mask(b, tsr_tile_index(b, t->rows), lanes);
    tsr_epilogue_tile after = {.point = mm->point,
                               .row = t->panel->column,
                               .column = t->row,
                               .rows = t->panel->edge ? t->panel->edge : mm->size.width,
                               .vectors = 1,
                               .columns = whole ? 0 : t->rows,
                               .masks = out_mask};
    after.point.lanes = lanes;
    return after;
}

static tsr_epilogue_tile epilogue_tile(const tsr_matmul *mm, const tile *t,
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

/* True for whole tiles that take long enough. */
static bool may_prefetch(const tsr_matmul *mm, const tile *t) {
    bool many = !mm->group->b.target->warp_lanes && t->panel->block->k_count >= PREFETCH_K_LEAST;
    return many && t->rows >= mm->size.rows && !t->panel->edge;
}

/* The number of steps of the loop over k in which one row of the epilogue's operands and results is
 * prefetched. */
static int64_t steps_per_row(const tsr_matmul *mm, const tile *t) {
    return tsr_divide_up(t->panel->block->k_count, mm->transposed ? mm->size.width : t->rows);
}

/* True if these rows are prefetched in parts of the loop. The first tile of a panel does not
 * prefetch them, because it may copy B while it multiplies. */
static bool asks_for_rows(const tsr_matmul *mm, const tile *t) {
    return may_prefetch(mm, t) && !t->first && t->panel->block->last &&
           steps_per_row(mm, t) >= ASKING_STEPS_LEAST;
}

/* Prefetches the row for the part of the loop that begins at `k`. */
static void ask_for_row(const tsr_matmul *mm, const tile *t, MlirValue k) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue mask;
    tsr_epilogue_tile after =
        mm->transposed ? transposed_tile(mm, t, &mask) : epilogue_tile(mm, t, NULL);
    MlirValue row = tsr_tile_div(b, k, steps_per_row(mm, t));
    tsr_epilogue_prefetch_row(&mm->epilogue, &after, tsr_tile_add(b, after.row, row));
}

static void ask_for_b(const tsr_matmul *mm, const tile *t, MlirValue k, int64_t share,
                      int64_t part) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = t->panel->block;
    MlirValue tiles = tsr_tile_div(b, at->row_count, mm->size.rows);
    MlirValue number = tsr_tile_sub(b, tsr_tile_div(b, t->local, mm->size.rows), tiles);
    MlirValue first = tsr_tile_mul(b, tsr_tile_offset(b, number, mm->asking_tiles), share);
    MlirValue row = tsr_tile_add(b, first, tsr_tile_div(b, k, part)), zero = tsr_tile_index(b, 0);
    row = tsr_tile_mul(b, tsr_tile_2(b, "arith.maxsi", row, zero), mm->n * mm->unit);
    row = tsr_tile_add(b, find_ahead(mm, t->panel), row);
    for (int64_t i = 0; i < mm->unit; i++)
        tsr_tile_prefetch_vector(b, mm->b.dtype, mm->b.buffer, tsr_tile_offset(b, row, i * mm->n),
                                 (uint32_t)mm->size.width);
}

/* The loop over k from `low` to below `high`, in parts: each part prefetches a step's rows of the
 * next panel, or a row of the epilogue's operands and results, so that few lines are in flight at
 * once. Tiles that are not among the last prefetch the first row of the panel again, which is
 * already in the cache. */
static void multiply_asking(tsr_matmul *mm, const tile *t, const tsr_gemm_tile *gemm, MlirValue low,
                            MlirValue high, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = t->panel->block;
    bool b_ahead = asks_for_share(mm, t), rows = asks_for_rows(mm, t);
    int64_t share = b_ahead ? tsr_divide_up(at->k_count, mm->asking_tiles) : 1;
    int64_t each = tsr_divide_up(at->k_count, share), part = each;
    if (rows) part = least(part, steps_per_row(mm, t));
    int64_t whole = at->k_count - gemm->odd;
    uint32_t count = (uint32_t)t->rows * t->panel->vectors;
    tsr_gemm_tile even = *gemm;
    even.odd = false;
    TSR_TILE_FOR_CARRIED(b, loop, low, high, part, count, accumulators) {
        if (b_ahead) ask_for_b(mm, t, loop.index, share, each);
        if (rows) ask_for_row(mm, t, loop.index);
        MlirValue steps = tsr_tile_index(b, part);
        if (whole % part || mm->chunks)
            steps = tsr_tile_min(b, steps, tsr_tile_sub(b, high, loop.index));
        multiply_steps(mm, &even, loop.index, steps, accumulators);
    }
    if (gemm->odd)
        multiply_steps(mm, gemm, tsr_tile_index(b, whole), tsr_tile_index(b, 1), accumulators);
}

/* The loop over k in as many parts as a tile has vectors. After each part, the epilogue of one
 * vector of the tile before is computed. For each row, the operands and results of this tile's
 * epilogue are prefetched, and rows of the next panel. */
static void multiply_finishing(tsr_matmul *mm, const tile *t, const tsr_gemm_tile *gemm,
                               MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = t->panel->block;
    uint32_t vectors = t->panel->vectors, count = (uint32_t)t->rows * vectors;
    int64_t share = asks_for_share(mm, t) ? tsr_divide_up(at->k_count, mm->asking_tiles) : 0;
    int64_t each = tsr_divide_up(share, t->rows), done = mm->between * count;
    tsr_epilogue_tile own = epilogue_tile(mm, t, NULL), before = own;
    before.row = tsr_tile_offset(b, own.row, -mm->size.rows);
    tsr_gemm_tile even = *gemm;
    even.odd = false;
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, t->rows), 1, count,
                         accumulators) {
        MlirValue asked = tsr_tile_mul(b, loop.index, each);
        for (int64_t i = 0; i < each; i++) ask_for_b(mm, t, tsr_tile_offset(b, asked, i), share, 1);
        tsr_epilogue_prefetch_row(&mm->epilogue, &own, tsr_tile_add(b, own.row, loop.index));
        MlirValue step = tsr_tile_mul(b, loop.index, mm->between * vectors);
        for (uint32_t v = 0; v < vectors; v++) {
            tsr_epilogue_finish_deferred(&mm->epilogue, &before, loop.index, v);
            multiply_steps(mm, &even, tsr_tile_offset(b, step, v * mm->between),
                           tsr_tile_index(b, mm->between), accumulators);
        }
    }
    if (done < at->k_count)
        multiply_steps(mm, gemm, tsr_tile_index(b, done), tsr_tile_index(b, at->k_count - done),
                       accumulators);
}

/* Multiplies steps `first` ... first + count - 1, or fewer at the block's end. */
static void multiply_range(tsr_matmul *mm, const tile *t, const tsr_gemm_tile *gemm,
                           MlirValue first, int64_t count, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = t->panel->block;
    MlirValue steps = tsr_tile_index(b, count);
    if (count && at->k_count % count)
        steps = tsr_tile_min(b, steps, tsr_tile_sub(b, tsr_tile_index(b, at->k_count), first));
    MlirValue end = tsr_tile_offset(b, tsr_tile_add(b, first, steps), -(int64_t)gemm->odd);
    tsr_gemm_narrow_last(b, gemm, accumulators);
    if (t->follows)
        multiply_finishing(mm, t, gemm, accumulators);
    else if (asks_for_share(mm, t) || asks_for_rows(mm, t))
        multiply_asking(mm, t, gemm, first, end, accumulators);
    else
        multiply_steps(mm, gemm, first, steps, accumulators);
    tsr_gemm_widen_last(b, gemm, accumulators);
}

/* Multiplies the block's chunks one after the other: the sums of each chunk are added to the sums
 * on the stack. In the last block the accumulators become the sum of all chunks. */
static void multiply_chunks(tsr_matmul *mm, const tile *t, const tsr_gemm_tile *gemm,
                            MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = t->panel->block;
    tsr_product_sums sums = chunk_sums(mm);
    int64_t offsets[TSR_GEMM_TILE_MAX];
    tsr_product_offsets where = chunk_offsets(mm, t, offsets);
    MlirValue next[TSR_GEMM_TILE_MAX], zero = tsr_tile_index(b, 0);
    if (mm->k_blocks == 1) tsr_product_clear(b, &sums, &where);
    TSR_TILE_FOR(b, loop, zero, tsr_tile_index(b, at->k_count), TSR_PRODUCT_CHUNK) {
        memcpy(next, accumulators, where.count * sizeof *next);
        multiply_range(mm, t, gemm, loop.index, TSR_PRODUCT_CHUNK, next);
        MlirValue chunk = tsr_tile_div(b, tsr_tile_add(b, at->k0, loop.index), TSR_PRODUCT_CHUNK);
        tsr_product_push(b, &sums, &where, tsr_product_carries(b, chunk, mm->chunks), next);
    }
    if (at->last) tsr_product_finish(b, &sums, &where, accumulators);
}

static void multiply(tsr_matmul *mm, const tile *t, MlirValue *accumulators) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = t->panel->block;
    int64_t vectors[TSR_TILE_VECTORS_MAX];
    MlirValue a_at = tsr_tile_mul(b, t->row, mm->a_row);
    a_at = tsr_tile_add(b, a_at, tsr_tile_mul(b, at->k0, mm->a_k));
    tsr_gemm_tile gemm = {.words = mm->words,
                          .a_dtype = mm->a_packed ? mm->compute : mm->a.dtype,
                          .b_dtype = mm->b.dtype,
                          .lanes = mm->lanes,
                          .vectors = t->panel->vectors,
                          .rows = t->rows,
                          .a = mm->a_packed ? mm->a_local : mm->a.buffer,
                          .a_at = tsr_tile_add(b, mm->a_base, a_at),
                          .a_row = mm->a_packed ? mm->unit : mm->a_row,
                          .a_step = mm->a_packed ? mm->size.rows * mm->unit : mm->a_k,
                          .odd = is_odd(mm, at),
                          .a_padded = mm->a_packed,
                          .unrolled = mm->b_streamed && mm->m == 1 && !mm->chunks_by_tiles};
    if (mm->a_packed)
        gemm.a_at =
            tsr_tile_mul(b, t->local, tsr_matmul_packed_tile(mm) / mm->size.rows * mm->unit);
    find_b(mm, t, vectors, &gemm);
    if (mm->asks && t->first) gemm.ahead = find_ahead(mm, t->panel);
    if (mm->chunks_by_tiles)
        multiply_chunks(mm, t, &gemm, accumulators);
    else
        multiply_range(mm, t, &gemm, tsr_tile_index(b, 0), at->k_count, accumulators);
}

/* Transposes the sums of a tile of C transposed. */
static void transpose_sums(const tsr_matmul *mm, const tile *t, const MlirValue *sums,
                           MlirValue *out_rows) {
    tsr_tile_builder *b = &mm->group->b;
    uint32_t lanes = transposed_lanes(mm), vectors = t->panel->vectors;
    for (uint32_t v = 0; v < vectors; v++)
        for (uint32_t from = 0; from < mm->lanes; from += lanes, out_rows += lanes) {
            for (uint32_t i = 0; i < lanes; i++)
                out_rows[i] = i < t->rows ? tsr_tile_slice(b, sums[i * vectors + v], from, lanes)
                                          : tsr_element_zero(b, mm->compute, lanes);
            tsr_tile_transpose(b, lanes, out_rows);
        }
}

static void prefetch(tsr_matmul *mm, const tile *t) {
    if (!may_prefetch(mm, t) || !t->panel->block->last || asks_for_rows(mm, t)) return;
    MlirValue mask;
    tsr_epilogue_tile after =
        mm->transposed ? transposed_tile(mm, t, &mask) : epilogue_tile(mm, t, NULL);
    tsr_epilogue_prefetch(&mm->epilogue, &after);
}

static tsr_result finish_transposed(tsr_matmul *mm, const tile *t, const MlirValue *accumulators) {
    MlirValue rows[TSR_GEMM_TILE_MAX], mask;
    tsr_epilogue_tile after = transposed_tile(mm, t, &mask);
    TSR_ASSERT(mm->size.width <= TSR_GEMM_TILE_MAX);
    transpose_sums(mm, t, accumulators, rows);
    after.sums = rows;
    return tsr_epilogue_finish(&mm->epilogue, &after);
}

static tsr_result emit_tile(tsr_matmul *mm, const tile *t) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue accumulators[TSR_GEMM_TILE_MAX];
    MlirValue zero = tsr_element_zero(b, mm->compute, mm->lanes);
    for (int64_t i = 0; i < t->rows * t->panel->vectors; i++) accumulators[i] = zero;
    prefetch(mm, t);
    if (mm->k_blocks > 1 && !mm->chunks_by_tiles) load_scratch(mm, t, accumulators);
    multiply(mm, t, accumulators);
    if (!t->panel->block->last) {
        if (!mm->chunks_by_tiles) store_scratch(mm, t, accumulators);
        return TSR_SUCCESS;
    }
    if (mm->chunks && !mm->chunks_by_tiles) {
        int64_t offsets[TSR_GEMM_TILE_MAX];
        tsr_product_sums sums = chunk_sums(mm);
        tsr_product_offsets where = chunk_offsets(mm, t, offsets);
        tsr_product_finish(b, &sums, &where, accumulators);
    }
    if (mm->transposed) return finish_transposed(mm, t, accumulators);
    tsr_epilogue_tile after = epilogue_tile(mm, t, accumulators);
    if (!t->defers) return tsr_epilogue_finish(&mm->epilogue, &after);
    tsr_epilogue_defer(&mm->epilogue, &after);
    return TSR_SUCCESS;
}

/* Finishes the sums of the last tile that deferred them, if there was one. */
static void finish_deferred(tsr_matmul *mm, const panel *p, MlirValue whole) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue zero = tsr_tile_index(b, 0);
    MlirValue last = tsr_tile_2(b, "arith.maxsi", tsr_tile_offset(b, whole, -mm->size.rows), zero);
    TSR_TILE_FOR(b, once, last, whole, mm->size.rows) {
        tile t = {
            .panel = p, .rows = mm->size.rows, .row = tsr_tile_add(b, p->block->row, once.index)};
        tsr_epilogue_tile after = epilogue_tile(mm, &t, NULL);
        TSR_TILE_FOR(b, rows, zero, tsr_tile_index(b, t.rows), 1) {
            for (uint32_t v = 0; v < p->vectors; v++)
                tsr_epilogue_finish_deferred(&mm->epilogue, &after, rows.index, v);
        }
    }
}

/* ---- a program ------------------------------------------------------------------------------- */

/* Emits the tiles of one panel: a loop for each height, of which at most two have tiles. */
static tsr_result emit_open_panel(tsr_matmul *mm, panel *p) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = p->block;
    tile t = {.panel = p};
    for (t.rows = least(mm->size.rows, mm->m); t.rows > 0; t.rows--) {
        MlirValue low, high;
        tsr_matmul_find_tiles(mm, &at->open, at->row_count, t.rows, &low, &high);
        TSR_TILE_FOR(b, loop, low, high, t.rows) {
            t.local = loop.index;
            t.row = tsr_tile_add(b, at->row, loop.index);
            TRY(mm->group->ctx, emit_tile(mm, &t));
        }
    }
    return TSR_SUCCESS;
}

/* Emits the tiles of one panel: whole ones, then the rest of the last block of rows. */
static tsr_result emit_panel(tsr_matmul *mm, panel *p) {
    tsr_tile_builder *b = &mm->group->b;
    const block *at = p->block;
    tile t = {.panel = p};
    p->vectors = mm->vectors;
    if (p->edge) p->vectors = (uint32_t)tsr_divide_up(p->edge, mm->lanes);
    for (uint32_t v = 0; v < p->vectors; v++) {
        int64_t left = p->edge - (int64_t)(v * mm->lanes);
        bool whole = !p->edge || left >= (int64_t)mm->lanes;
        p->masks[v] = whole ? tsr_tile_null : tsr_tile_mask(b, tsr_tile_index(b, left), mm->lanes);
    }
    bool defers = mm->defers && at->last && !p->edge;
    bool first_apart = mm->asks || mm->packs || defers;
    if (mm->b_packed && !mm->packs) pack_b(mm, p);
    if (mm->open_rows) return emit_open_panel(mm, p);
    int64_t edge = mm->m % mm->size.rows;
    MlirValue whole = tsr_tile_sub(b, at->row_count, tsr_tile_rem(b, at->row_count, mm->size.rows));
    MlirValue first = tsr_tile_index(b, first_apart ? mm->size.rows : 0);
    MlirValue ends[] = {tsr_tile_index(b, 0), tsr_tile_min(b, first, whole), whole, at->row_count};
    for (int part = first_apart ? 0 : 1; part < 3; part++) {
        t.rows = part == 2 ? edge : mm->size.rows;
        t.first = part == 0;
        t.defers = defers && part < 2;
        t.follows = defers && part == 1;
        if (defers && part == 2) finish_deferred(mm, p, whole);
        if (!t.rows || (part == 1 && first_apart && mm->m < 2 * t.rows)) continue;
        TSR_TILE_FOR(b, loop, ends[part], ends[part + 1], t.rows) {
            t.local = loop.index;
            t.row = tsr_tile_add(b, at->row, loop.index);
            TRY(mm->group->ctx, emit_tile(mm, &t));
        }
    }
    return TSR_SUCCESS;
}

/* Emits the panels from `low` to below `high`. */
static tsr_result emit_panels(tsr_matmul *mm, const block *at, MlirValue low, MlirValue high,
                              int64_t edge) {
    tsr_tile_builder *b = &mm->group->b;
    panel p = {.block = at, .edge = edge};
    TSR_TILE_FOR(b, loop, low, high, 1) {
        p.column =
            tsr_tile_mul(b, edge ? tsr_tile_index(b, mm->panels - 1) : loop.index, mm->size.width);
        p.local = tsr_tile_sub(b, loop.index, at->first_panel);
        TRY(mm->group->ctx, emit_panel(mm, &p));
    }
    return TSR_SUCCESS;
}

/* Emits all panels of the program for one block of K. */
static tsr_result emit_k_block(tsr_matmul *mm, const block *at) {
    tsr_tile_builder *b = &mm->group->b;
    int64_t edge = mm->n % mm->size.width, whole = mm->panels - (edge != 0);
    MlirValue zero = tsr_tile_index(b, 0), whole_end = tsr_tile_index(b, whole);
    if (mm->a_packed) pack_a(mm, at);
    if (mm->panels == 1 || (mm->panels_at_once == 1 && !edge && mm->panels % mm->far_parts == 0)) {
        panel p = {.block = at,
                   .column = tsr_tile_mul(b, at->first_panel, mm->size.width),
                   .local = zero,
                   .edge = edge};
        return emit_panel(mm, &p);
    }
    MlirValue end = at->panel_end;
    TRY(mm->group->ctx, emit_panels(mm, at, at->first_panel, tsr_tile_min(b, end, whole_end), 0));
    if (!edge) return TSR_SUCCESS;
    /* Runs once if the program has the last panel; some programs then have no panels. */
    MlirValue has_some = tsr_tile_icompare(b, TSR_ICMP_SLE, at->first_panel, whole_end);
    MlirValue edge_end = tsr_tile_min(b, end, tsr_tile_index(b, mm->panels));
    return emit_panels(mm, at, whole_end, tsr_tile_select(b, has_some, edge_end, whole_end), edge);
}

/* The number of partial sums of a slot. */
static MlirValue scratch_count(tsr_matmul *mm, const block *at) {
    tsr_tile_builder *b = &mm->group->b;
    int64_t each = mm->size.block_rows * mm->size.width;
    if (mm->at_once) return tsr_tile_mul(b, tsr_tile_sub(b, at->panel_end, at->first_panel), each);
    return tsr_tile_index(b, mm->panels_at_once * each);
}

static void clear_scratch(tsr_matmul *mm, const block *at) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue zero = tsr_element_zero(b, mm->compute, mm->lanes);
    MlirValue count = scratch_count(mm, at);
    for (int64_t slot = 0; slot < tsr_matmul_slots(mm); slot++) {
        TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), count, mm->lanes) {
            tsr_tile_store(b, mm->compute, zero, mm->scratch,
                           tsr_tile_offset(b, loop.index, slot * mm->slot), tsr_tile_null);
        }
    }
}

/* Called after each block of K: after the last block of a chunk, its sums are added to the sums of
 * the earlier chunks, and chains begin again. */
static void end_chunk(tsr_matmul *mm, const block *at, MlirValue k_block) {
    tsr_tile_builder *b = &mm->group->b;
    tsr_product_sums sums = chunk_sums(mm);
    int64_t blocks = TSR_PRODUCT_CHUNK / mm->size.k_block, chains = sums.slots * mm->slot;
    static const int64_t here[] = {0};
    MlirValue zero = tsr_tile_index(b, 0), none = tsr_element_zero(b, mm->compute, mm->lanes);
    MlirValue next = tsr_tile_rem(b, tsr_tile_offset(b, k_block, 1), blocks);
    MlirValue ends = tsr_tile_icompare(b, TSR_ICMP_EQ, next, zero);
    MlirValue times = tsr_tile_select(b, ends, tsr_tile_index(b, 1), zero);
    TSR_TILE_FOR(b, once, zero, times, 1) {
        MlirValue carries = tsr_product_carries(b, tsr_tile_div(b, k_block, blocks), mm->chunks);
        TSR_TILE_FOR(b, loop, zero, scratch_count(mm, at), mm->lanes) {
            MlirValue chain = tsr_tile_offset(b, loop.index, chains);
            MlirValue sum =
                tsr_tile_load(b, mm->compute, mm->scratch, chain, mm->lanes, tsr_tile_null);
            tsr_product_offsets where = {
                .at = loop.index, .offsets = here, .count = 1, .lanes = mm->lanes};
            tsr_product_push(b, &sums, &where, carries, &sum);
            tsr_tile_store(b, mm->compute, none, mm->scratch, chain, tsr_tile_null);
        }
    }
}

static tsr_result emit_program(tsr_matmul *mm, block *at) {
    tsr_tile_builder *b = &mm->group->b;
    if (mm->k_blocks > 1) {
        clear_scratch(mm, at);
        TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, mm->k_blocks - 1), 1) {
            at->k0 = tsr_tile_mul(b, loop.index, mm->size.k_block);
            at->k_count = mm->size.k_block;
            TRY(mm->group->ctx, emit_k_block(mm, at));
            if (mm->chunks && !mm->chunks_by_tiles) end_chunk(mm, at, loop.index);
        }
    }
    at->k0 = tsr_tile_index(b, (mm->k_blocks - 1) * mm->size.k_block);
    at->k_count = mm->k - (mm->k_blocks - 1) * mm->size.k_block;
    at->last = true;
    return emit_k_block(mm, at);
}

/* Emits all programs that the thread runs, with as many panels at once as fit. */
static tsr_result emit_at_once(tsr_matmul *mm, block *at) {
    tsr_tile_builder *b = &mm->group->b;
    MlirValue end = tsr_tile_mul(b, tsr_tile_program_end(b), mm->size.program_panels);
    end = tsr_tile_min(b, end, tsr_tile_index(b, mm->panels));
    TSR_TILE_FOR(b, loop, at->first_panel, end, mm->panels_at_once) {
        at->first_panel = loop.index;
        at->panel_end = tsr_tile_min(b, tsr_tile_offset(b, loop.index, mm->panels_at_once), end);
        TRY(mm->group->ctx, emit_program(mm, at));
    }
    return TSR_SUCCESS;
}

/* Emits program `pid` of one matrix: `far_parts` parts of each block of rows, then the next
 * parts. */
static tsr_result emit_matrix(tsr_matmul *mm, MlirValue pid, int64_t blocks) {
    tsr_tile_builder *b = &mm->group->b;
    block at = {.row_count = tsr_tile_index(b, mm->size.block_rows)};
    MlirValue far = tsr_tile_div(b, pid, blocks * mm->far_parts);
    MlirValue rest = tsr_tile_rem(b, pid, blocks * mm->far_parts);
    if (mm->far_parts * mm->size.program_panels >= mm->panels) {
        far = tsr_tile_index(b, 0);
        rest = pid;
    }
    at.row = tsr_tile_mul(b, tsr_tile_div(b, rest, mm->far_parts), mm->size.block_rows);
    if (mm->open_rows)
        at.row =
            tsr_matmul_find_rows(mm, tsr_tile_div(b, rest, mm->far_parts), &at.open, &at.row_count);
    else if (mm->m % mm->size.block_rows)
        at.row_count =
            tsr_tile_min(b, at.row_count, tsr_tile_sub(b, tsr_tile_index(b, mm->m), at.row));
    MlirValue part =
        tsr_tile_add(b, tsr_tile_mul(b, far, mm->far_parts), tsr_tile_rem(b, rest, mm->far_parts));
    at.first_panel = tsr_tile_mul(b, part, mm->size.program_panels);
    at.panel_end = tsr_tile_offset(b, at.first_panel, mm->size.program_panels);
    return mm->at_once ? emit_at_once(mm, &at) : emit_program(mm, &at);
}

static void make_locals(tsr_matmul *mm) {
    tsr_tile_builder *b = &mm->group->b;
    const tsr_matmul_sizes *s = &mm->size;
    MlirType type = tsr_tile_storage_type(b, mm->unit > 1 ? mm->dtype : mm->compute);
    int64_t steps = tsr_round_up(s->k_block, mm->lanes) * mm->unit;
    int64_t tiles = tsr_divide_up(s->block_rows, s->rows) * mm->unit;
    if (mm->b_packed) mm->panel = tsr_tile_local(b, type, steps * s->width);
    if (mm->a_packed) mm->a_local = tsr_tile_local(b, type, tsr_matmul_packed_tile(mm) * tiles);
    mm->slot = (mm->k_blocks > 1 ? mm->panels_at_once * s->block_rows : s->rows) * s->width;
    if (mm->k_blocks > 1 || mm->chunks)
        mm->scratch = tsr_tile_local(b, tsr_tile_storage_type(b, mm->compute),
                                     mm->slot * tsr_matmul_slots(mm));
    mm->epilogue = (tsr_epilogue){.region = &mm->after,
                                  .given = mm->given,
                                  .outputs = mm->outputs,
                                  .dtype = mm->dtype,
                                  .dots = mm->unit > 1};
    tsr_epilogue_begin(&mm->epilogue, s->rows * s->width);
    if (mm->defers) tsr_epilogue_begin_deferred(&mm->epilogue, s->rows * s->width);
}

static tsr_result emit(tsr_matmul *mm) {
    tsr_tile_builder *b = &mm->group->b;
    mm->point = (tsr_point){.space = &mm->space};
    tsr_region_emit(&mm->after, 0, &mm->point);
    make_locals(mm);
    int64_t blocks = tsr_divide_up(mm->m, mm->size.block_rows);
    int64_t parts = tsr_divide_up(mm->panels, mm->size.program_panels);
    int64_t programs = blocks * tsr_round_up(parts, mm->far_parts);
    double flops = 2.0 * (double)mm->m * (double)mm->n * (double)mm->k + 1;
    double each = (double)tsr_matmul_program_flops(mm);
    int64_t matrices =
        programs == 1 && flops < each ? least((int64_t)(each / flops) + 1, mm->batch) : 1;
    mm->group->grid = tsr_divide_up(mm->batch, matrices) * programs;
    if (mm->open_rows)
        tsr_tile_open_grid(mm->group, mm->m, mm->size.block_rows, parts);
    else
        tsr_tile_open_grid(mm->group, mm->batch, matrices, programs);
    MlirValue pid = mm->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    if (matrices == 1) {
        tsr_matmul_enter_batch(mm, mm->batch > 1 ? tsr_tile_div(b, pid, programs)
                                                 : tsr_tile_index(b, 0));
        return emit_matrix(mm, mm->batch > 1 ? tsr_tile_rem(b, pid, programs) : pid, blocks);
    }
    MlirValue first = tsr_tile_mul(b, pid, matrices);
    MlirValue end = tsr_tile_min(b, tsr_tile_offset(b, first, matrices),
                                 tsr_tile_open_count(mm->group, mm->batch));
    TSR_TILE_FOR(b, loop, first, end, 1) {
        tsr_matmul_enter_batch(mm, loop.index);
        TRY(mm->group->ctx, emit_matrix(mm, tsr_tile_index(b, 0), blocks));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_matmul(tsr_tile_group *group) {
    tsr_matmul mm = {.group = group};
    TRY(group->ctx, tsr_matmul_read(&mm));
    if (!mm.m || !mm.n || !mm.batch) return TSR_SUCCESS;
    if (!tsr_matmul_plan(&mm))
        FAIL(group->ctx, TSR_COMPILE, "'%s': %s", group->name, group->refusal);
    TRY(group->ctx, emit(&mm));
    if (mm.unit > 1) tsr_dot_round_all(&group->b, group->b.at.block);
    return TSR_SUCCESS;
}
