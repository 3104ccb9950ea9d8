/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.attend "forward" with mma.sync: a warp has 16 queries, or 32 that share the loaded keys and
 * values. Threads copy and compute.
 *
 *     begin       Q and K, V of the first block
 *     block j, from the last:
 *         wait for K: begin the next copies; S = Q K^T; m and P of block j; O times the change of m
 *         wait for V: begin the next copies; O += P V
 *     at the end  O / l is the result, m + log l its logarithm
 *
 * Keys and values use the stages of their ring in turn: the number of copies in flight is the
 * number of stages minus one. All warps must have read a stage before the next copy to it; they
 * synchronize where they wait. The registers of S are directly the first factor of the second
 * product. The result leaves through the slot of the queries, where each warp reads only its own
 * rows.
 * Source: Dao, "FlashAttention-2", 2023.
 */
#include "compiler/target/block/attend.h"
#include "compiler/target/block/sync.h"
#include "compiler/tile/attributes.h"

#include <math.h>

enum {
    REGISTERS_MAX = TSR_ATTEND_REGISTERS_MAX,
    ROW_BLOCKS_MAX = 2,
    PARTS = 2,                /* parts of a block: keys, values */
    QUERY_REGISTERS_MAX = 32, /* registers for queries that are kept */
};

typedef struct attend {
    tsr_attend of;
    uint32_t row_blocks;             /* per warp */
    LLVMValueRef warp_row, query_at; /* i32: the warp's first row; address of the queries */
    LLVMValueRef query_lane, key_lane, value_lane; /* i32, see tsr_sync_lane */
    tsr_attend_rows rows[ROW_BLOCKS_MAX];
    tsr_sync_copy copies[PARTS];
    bool holds; /* the queries are kept in registers */
    LLVMValueRef queries[ROW_BLOCKS_MAX * QUERY_REGISTERS_MAX];
    LLVMValueRef result[ROW_BLOCKS_MAX][REGISTERS_MAX]; /* memory */
} attend;

/* ---- copies ---------------------------------------------------------------------------------- */

/* The address of the stage for number `number` of the tile's keys and values. */
static LLVMValueRef stage_address(const attend *a, LLVMValueRef number) {
    tsr_slot at = tsr_block_slot(a->of.emit, number, a->of.key_ring->stages);
    return tsr_block_slot_address(a->of.emit, a->of.key_ring, &at);
}

/* Begins to copy the part that is `ahead` parts after the keys of block j from the last, if it
 * exists. */
static void copy_ahead(const attend *a, LLVMValueRef j, uint32_t ahead) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef number = tsr_block_add(emit, tsr_block_mul(emit, j, PARTS), ahead);
    j = tsr_block_add(emit, j, ahead / PARTS);
    LLVMValueRef some = LLVMBuildICmp(b, LLVMIntSLT, j, a->of.blocks, "");
    LLVMBasicBlockRef rest = tsr_block_if(emit, some, "ahead");
    LLVMValueRef block = LLVMBuildSub(b, tsr_block_add(emit, a->of.blocks, -1), j, "");
    tsr_sync_copy_rows(emit, &a->copies[ahead % PARTS], stage_address(a, number),
                       tsr_block_mul(emit, block, a->of.key_ring->rows));
    tsr_block_end_if(emit, rest);
    tsr_sync_commit(emit);
}

/* Waits until part `part` after the keys of block j has arrived and all warps have finished the
 * part before it, whose slot is refilled. Returns the address of the part. */
static LLVMValueRef meet(const attend *a, LLVMValueRef j, uint32_t part) {
    tsr_emit *emit = a->of.emit;
    uint32_t stages = a->of.key_ring->stages;
    tsr_sync_wait(emit, stages - 2);
    copy_ahead(a, j, part + stages - 1);
    return stage_address(a, tsr_block_add(emit, tsr_block_mul(emit, j, PARTS), part));
}

static void begin(attend *a) {
    tsr_emit *emit = a->of.emit;
    const tsr_ring *ring = a->of.query_ring;
    tsr_sync_copy queries = tsr_sync_locate_copy(emit, a->of.op, 0, a->of.head, ring);
    for (uint32_t i = 0; i < PARTS; i++)
        a->copies[i] = tsr_sync_locate_copy(emit, a->of.op, i + 1, a->of.group, a->of.key_ring);
    a->query_at = tsr_block_ring_address(emit, ring);
    tsr_sync_copy_rows(emit, &queries, a->query_at, a->of.row);
    for (uint32_t i = 0; i + 1 < a->of.key_ring->stages; i++)
        copy_ahead(a, tsr_block_int(emit, 0), i);
}

/* ---- products -------------------------------------------------------------------------------- */

static void load_queries(const attend *a, uint32_t m, uint32_t step, LLVMValueRef out[4]) {
    LLVMValueRef at = LLVMBuildAdd(a->of.emit->builder, a->query_at, a->query_lane, "");
    tsr_sync_load(a->of.emit, a->of.query_ring, at, m * BLOCK_ROWS, step * DEPTH, false, out);
}

/* Loads the queries as the product needs them: 4 registers for each row block and step. */
static void hold_queries(attend *a) {
    uint32_t steps = (uint32_t)a->of.d / DEPTH;
    a->holds =
        steps * BLOCK_REGISTERS <= QUERY_REGISTERS_MAX / 2 && a->row_blocks == ROW_BLOCKS_MAX;
    if (!a->holds) return;
    tsr_sync_wait(a->of.emit, a->of.key_ring->stages - 2);
    for (uint32_t m = 0; m < a->row_blocks; m++)
        for (uint32_t s = 0; s < steps; s++)
            load_queries(a, m, s, a->queries + (size_t)(m * steps + s) * BLOCK_REGISTERS);
}

/* S = Q K^T of the keys at that address; the scores of the row blocks are consecutive. */
static void multiply_keys(const attend *a, LLVMValueRef at, LLVMValueRef *out_scores) {
    tsr_emit *emit = a->of.emit;
    uint32_t columns = a->of.key_ring->rows, steps = (uint32_t)a->of.d / DEPTH;
    at = LLVMBuildAdd(emit->builder, at, a->key_lane, "");
    LLVMValueRef x[ROW_BLOCKS_MAX][4], y[4];
    for (uint32_t i = 0; i < a->row_blocks * columns / 2; i++)
        out_scores[i] = tsr_emit_float(a->of.f32, 0);
    for (uint32_t s = 0; s < steps; s++) {
        for (uint32_t m = 0; m < a->row_blocks; m++) {
            if (!a->holds) load_queries(a, m, s, x[m]);
            for (uint32_t i = 0; i < 4 && a->holds; i++)
                x[m][i] = a->queries[(m * steps + s) * BLOCK_REGISTERS + i];
        }
        for (uint32_t j = 0; j < columns; j += 2 * BLOCK_COLUMNS) {
            tsr_sync_load(emit, a->of.key_ring, at, j, s * DEPTH, false, y);
            for (uint32_t m = 0; m < a->row_blocks; m++)
                for (uint32_t k = 0; k < 2; k++)
                    tsr_block_multiply(emit, a->of.element,
                                       out_scores + (m * columns + j) / 2 + (size_t)4 * k, x[m],
                                       y + (size_t)2 * k);
        }
    }
}

/* O += P V of the values at that address. `weights`: pairs of each row block. */
static void multiply_values(const attend *a, LLVMValueRef at, LLVMValueRef *weights) {
    tsr_emit *emit = a->of.emit;
    uint32_t rows = a->of.key_ring->rows;
    LLVMValueRef sums[ROW_BLOCKS_MAX][REGISTERS_MAX], y[4];
    at = LLVMBuildAdd(emit->builder, at, a->value_lane, "");
    for (uint32_t m = 0; m < a->row_blocks; m++)
        for (uint32_t i = 0; i < a->of.d / 2; i++)
            sums[m][i] = tsr_block_get(emit, a->result[m][i]);
    for (uint32_t s = 0; s < rows / DEPTH; s++)
        for (uint32_t j = 0; j < a->of.d; j += 2 * BLOCK_COLUMNS) {
            tsr_sync_load(emit, a->of.key_ring, at, s * DEPTH, j, true, y);
            for (uint32_t m = 0; m < a->row_blocks; m++)
                for (uint32_t k = 0; k < 2; k++)
                    tsr_block_multiply(emit, a->of.element, sums[m] + j / 2 + (size_t)4 * k,
                                       weights + (m * rows) / 4 + (size_t)4 * s, y + (size_t)2 * k);
        }
    for (uint32_t m = 0; m < a->row_blocks; m++)
        for (uint32_t i = 0; i < a->of.d / 2; i++) tsr_block_set(emit, a->result[m][i], sums[m][i]);
}

/* Block j from the last. Warps synchronize between the weights and their product: then values are
 * read as early as possible, and the assembler sums up weights before the product needs registers.
 */
static void add_block(const attend *a, LLVMValueRef j, bool masked) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    uint32_t rows = a->of.key_ring->rows;
    LLVMValueRef scores[ROW_BLOCKS_MAX * REGISTERS_MAX],
        weights[ROW_BLOCKS_MAX * REGISTERS_MAX / 2];
    LLVMValueRef block = LLVMBuildSub(b, tsr_block_add(emit, a->of.blocks, -1), j, "");
    multiply_keys(a, meet(a, j, 0), scores);
    for (uint32_t m = 0; m < a->row_blocks; m++) {
        LLVMValueRef *own = scores + (size_t)m * rows / 2, rescale[HALVES];
        if (masked) tsr_block_mask_scores(&a->of, &a->rows[m], block, own);
        for (unsigned half = 0; half < HALVES; half++)
            rescale[half] = tsr_block_soften(&a->of, &a->rows[m], half, own, false);
        tsr_block_store_weights(&a->of, &a->rows[m], block, own, weights + (size_t)m * rows / 4);
        for (unsigned i = 0; i < (unsigned)a->of.d / 2; i++)
            tsr_block_set(emit, a->result[m][i],
                          LLVMBuildFMul(b, tsr_block_get(emit, a->result[m][i]),
                                        rescale[i / 2 % HALVES], ""));
    }
    multiply_values(a, meet(a, j, 1), weights);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Stores the warp's rows over those of its queries, and copies them from there with 16 bytes per
 * thread. */
static void store_result(const attend *a, LLVMValueRef (*pairs)[REGISTERS_MAX / 2]) {
    tsr_emit *emit = a->of.emit;
    const tsr_ring *ring = a->of.query_ring;
    tsr_sync_meet(emit); /* the queries have been read */
    for (uint32_t m = 0; m < a->row_blocks; m++)
        tsr_sync_put_rows(emit, ring, a->query_at,
                          tsr_block_add(emit, a->warp_row, (int64_t)m * BLOCK_ROWS), pairs[m],
                          (uint32_t)a->of.d / 4);
    tsr_sync_meet(emit);
    tsr_sync_store_rows(emit, a->of.op, TSR_ATTEND_RESULT, a->of.head, ring, a->query_at,
                        a->warp_row, a->row_blocks * BLOCK_ROWS, a->of.row);
}

static void finish(const attend *a) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef pairs[ROW_BLOCKS_MAX][REGISTERS_MAX / 2];
    for (uint32_t m = 0; m < a->row_blocks; m++) {
        LLVMValueRef factors[HALVES];
        for (unsigned half = 0; half < HALVES; half++)
            factors[half] = tsr_block_end_rows(&a->of, &a->rows[m], half);
        for (unsigned i = 0; i < (unsigned)a->of.d / 4; i++) {
            LLVMValueRef two[2];
            for (unsigned e = 0; e < 2; e++)
                two[e] = LLVMBuildFMul(b, tsr_block_get(emit, a->result[m][2 * i + e]),
                                       factors[i % HALVES], "");
            pairs[m][i] = tsr_block_narrow(emit, a->of.element, two[0], two[1]);
        }
    }
    store_result(a, pairs);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static void locate_warp(attend *a) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    a->row_blocks = a->of.query_ring->rows / emit->block->warps / BLOCK_ROWS;
    a->warp_row = tsr_block_mul(emit, emit->block->warp, (int64_t)a->row_blocks * BLOCK_ROWS);
    LLVMValueRef first = LLVMBuildAdd(b, a->of.row, a->warp_row, "");
    a->key_lane = tsr_sync_lane(emit, TSR_SYNC_BESIDE, NULL);
    a->value_lane = tsr_sync_lane(emit, TSR_SYNC_BELOW, NULL);
    a->query_lane = tsr_sync_lane(emit, TSR_SYNC_BELOW, a->warp_row);
    for (uint32_t m = 0; m < a->row_blocks; m++) {
        a->rows[m] =
            tsr_block_locate_rows(&a->of, tsr_block_add(emit, first, (int64_t)m * BLOCK_ROWS));
        for (unsigned half = 0; half < HALVES; half++) {
            tsr_block_set(emit, a->rows[m].highest[half],
                          tsr_emit_float(a->of.f32, -(double)INFINITY));
            tsr_block_set(emit, a->rows[m].total[half], tsr_emit_float(a->of.f32, 0));
        }
        for (unsigned i = 0; i < (unsigned)a->of.d / 2; i++) {
            a->result[m][i] = tsr_block_memory(emit, a->of.f32);
            tsr_block_set(emit, a->result[m][i], tsr_emit_float(a->of.f32, 0));
        }
    }
    tsr_block_locate_column(&a->of);
}

void tsr_block_emit_attend_sync(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    attend a = {.of = tsr_block_read_attend(emit, op)};
    LLVMValueRef from = tsr_block_int(emit, 0);
    tsr_block_find_keys(&a.of);
    begin(&a);
    locate_warp(&a);
    hold_queries(&a);
    if (a.of.masks) {
        LLVMValueRef masked = LLVMBuildSub(b, a.of.blocks, a.of.whole, "");
        tsr_block_loop l = tsr_block_loop_begin(emit, from, masked, 1, "masked");
        add_block(&a, l.index, true);
        tsr_block_loop_end(emit, &l);
        from = masked;
    }
    tsr_block_loop l = tsr_block_loop_begin(emit, from, a.of.blocks, 1, "keys");
    add_block(&a, l.index, false);
    tsr_block_loop_end(emit, &l);
    finish(&a);
}
