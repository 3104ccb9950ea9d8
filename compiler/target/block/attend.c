/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.attend "forward": attention of a tile of queries with wgmma. A warp group has 64 queries.
 *
 *     copying                 queries; keys and values of the blocks, in the order of their use
 *     computing, block 0      S = Q K^T; m and P of block 0
 *     block j, from the last  begin S = Q K^T of block j, begin O += P V of the block before
 *                             wait for S: m, P, and the factor for O
 *                             wait for O: multiply it by the factor
 *     at the end              O += P V; O / l is the result, m + log l its logarithm
 *
 * The queries, keys and values of the next tile are copied while this one is computed. Blocks in
 * which a query does not see all keys come first, in separate code. The registers of S are directly
 * the first factor of the second product.
 * Sources: Dao et al., "FlashAttention", 2022; Shah et al., "FlashAttention-3", 2024, section 3.2;
 * PTX ISA 8.5, "wgmma.mma_async".
 */
#include "compiler/target/block/attend.h"

#include "compiler/tile/attributes.h"

#include <string.h>

enum {
    REGISTERS_MAX = TSR_ATTEND_REGISTERS_MAX,
    PINGPONG_THREADS = 2 * TSR_BLOCK_GROUP, /* threads that end and that begin a turn */
};

typedef struct attend {
    tsr_attend of;
    tsr_attend_rows rows;
    bool pingpong;
    LLVMValueRef base, warp_group; /* i32: number of stages before; the thread's warp group */
    tsr_slot query;
    LLVMValueRef result[REGISTERS_MAX], weights[REGISTERS_MAX / 2]; /* memory */
} attend;

static LLVMValueRef greatest(const attend *a, LLVMValueRef x, LLVMValueRef y) {
    LLVMBuilderRef b = a->of.emit->builder;
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, x, y, ""), x, y, "");
}

/* ---- the op ---------------------------------------------------------------------------------- */

void tsr_block_plan_attend(tsr_emit *emit, MlirOperation op) {
    tsr_block *block = emit->block;
    block->has_one_role = !block->has_wgmma;
    if (block->has_one_role) return;
    if (tsr_block_is_backward(op)) {
        tsr_block_plan_grad(emit);
        return;
    }
    tsr_attend a = tsr_block_read_attend(emit, op);
    for (uint32_t i = 0; i < block->ring_count; i++)
        if (&block->rings[i] == a.query_ring || &block->rings[i] == a.key_ring)
            block->rings[i].is_copied_to = true;
    block->stages = a.key_ring->stages;
    block->query_stages = a.query_ring->stages;
    block->pingpong = tsr_op_flag(op, "pingpong");
}

static void find_blocks(attend *a) {
    tsr_emit *emit = a->of.emit;
    tsr_block_find_keys(&a->of);
    a->base = tsr_block_get(emit, emit->block->used);
    a->query =
        tsr_block_slot(emit, tsr_block_get(emit, emit->block->tiles), emit->block->query_stages);
}

static void finish_tile(const attend *a) {
    LLVMBuilderRef b = a->of.emit->builder;
    LLVMValueRef used = LLVMBuildAdd(b, a->base, tsr_block_mul(a->of.emit, a->of.blocks, 2), "");
    tsr_block_set(a->of.emit, a->of.emit->block->used, used);
    tsr_block_set(a->of.emit, a->of.emit->block->tiles,
                  tsr_block_add(a->of.emit, a->query.count, 1));
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void copy(const attend *a, uint32_t buffer, const tsr_ring *ring, const tsr_slot *slot,
                 uint32_t full_at, uint32_t empty_at, LLVMValueRef row, LLVMValueRef head) {
    tsr_emit *emit = a->of.emit;
    LLVMValueRef at[3], full = tsr_block_barrier(emit, slot, full_at);
    tsr_block_locate_head(emit, a->of.op, buffer, head, row, 0, at);
    tsr_block_wait(emit, tsr_block_barrier(emit, slot, empty_at),
                   LLVMBuildXor(emit->builder, slot->parity, tsr_block_int(emit, 1), ""));
    tsr_block_expect(emit, full, ring->rows * ring->columns * ring->element_bytes);
    tsr_block_copy_boxes(emit, tsr_op_operand(a->of.op, buffer), at, ring,
                         tsr_block_slot_address(emit, ring, slot), full, NULL);
}

/* Copies number `number` of the tile's keys and values: block `block` of the keys (1) or values
 * (2). */
static void copy_block(const attend *a, uint32_t buffer, LLVMValueRef number, LLVMValueRef block) {
    const tsr_block *of = a->of.emit->block;
    LLVMValueRef count = LLVMBuildAdd(a->of.emit->builder, a->base, number, "");
    tsr_slot at = tsr_block_slot(a->of.emit, count, of->stages);
    copy(a, buffer, a->of.key_ring, &at, of->full_at, of->empty_at,
         tsr_block_mul(a->of.emit, block, a->of.key_ring->rows), a->of.group);
}

/* Keys of block j have number 2 j - 1 (0 for the first block), values of block j - 1 number 2 j. */
static void copy_tile(const attend *a) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_block *of = emit->block;
    LLVMValueRef last = tsr_block_add(emit, a->of.blocks, -1);
    copy(a, 0, a->of.query_ring, &a->query, of->queries_full_at, of->queries_empty_at, a->of.row,
         a->of.head);
    copy_block(a, 1, tsr_block_int(emit, 0), last);
    tsr_block_loop l =
        tsr_block_loop_begin(emit, tsr_block_int(emit, 1), a->of.blocks, 1, "copies");
    LLVMValueRef number = tsr_block_mul(emit, l.index, 2);
    LLVMValueRef block = LLVMBuildSub(b, last, l.index, "");
    copy_block(a, 1, tsr_block_add(emit, number, -1), block);
    copy_block(a, 2, number, tsr_block_add(emit, block, 1));
    tsr_block_loop_end(emit, &l);
    copy_block(a, 2, tsr_block_add(emit, tsr_block_mul(emit, a->of.blocks, 2), -1),
               tsr_block_int(emit, 0));
}

/* ---- products -------------------------------------------------------------------------------- */

static void order_products(const attend *a, bool take) {
    LLVMBuilderRef b = a->of.emit->builder;
    uint32_t groups = a->of.emit->block->groups;
    if (!a->pingpong || groups < 2) return;
    LLVMValueRef next = tsr_block_add(a->of.emit, a->warp_group, 1);
    next = LLVMBuildURem(b, next, tsr_block_int(a->of.emit, groups), "");
    if (take)
        tsr_block_named_barrier(a->of.emit, "bar.sync $0, $1;", a->warp_group, PINGPONG_THREADS);
    else
        tsr_block_named_barrier(a->of.emit, "bar.arrive $0, $1;", next, PINGPONG_THREADS);
}

static tsr_slot key_slot(const attend *a, LLVMValueRef number) {
    return tsr_block_slot(a->of.emit, LLVMBuildAdd(a->of.emit->builder, a->base, number, ""),
                          a->of.emit->block->stages);
}

static void wait_for(const attend *a, const tsr_slot *at) {
    tsr_block_wait(a->of.emit, tsr_block_barrier(a->of.emit, at, a->of.emit->block->full_at),
                   at->parity);
}

static void release(const attend *a, const tsr_slot *at) {
    tsr_block_arrive(a->of.emit, tsr_block_barrier(a->of.emit, at, a->of.emit->block->empty_at),
                     NULL);
}

/* Begins S = Q K^T of the keys at that slot. */
static void begin_scores(const attend *a, const tsr_slot *at, LLVMValueRef *out_scores) {
    tsr_block_product p = {.a = a->of.query_ring,
                           .b = a->of.key_ring,
                           .element = a->of.element,
                           .a_at = tsr_block_slot_address(a->of.emit, a->of.query_ring, &a->query),
                           .b_at = tsr_block_slot_address(a->of.emit, a->of.key_ring, at),
                           .b_transposed = true,
                           .is_fresh = true,
                           .columns = a->of.key_ring->rows,
                           .steps = (uint32_t)a->of.d / DEPTH,
                           .row_blocks = 1};
    unsigned count = a->of.key_ring->rows / 2;
    tsr_block_unpack(a->of.emit, tsr_block_wgmma(a->of.emit, &p, NULL, count, 0), out_scores,
                     count);
}

/* Begins O += P V of the values at that slot. */
static void begin_result(const attend *a, const tsr_slot *at, LLVMValueRef *out_result) {
    tsr_block_product p = {.b = a->of.key_ring,
                           .element = a->of.element,
                           .b_at = tsr_block_slot_address(a->of.emit, a->of.key_ring, at),
                           .columns = (uint32_t)a->of.d,
                           .steps = a->of.key_ring->rows / DEPTH,
                           .row_blocks = 1};
    LLVMValueRef given[REGISTERS_MAX + REGISTERS_MAX / 2];
    unsigned sums = (unsigned)a->of.d / 2, weights = a->of.key_ring->rows / 4;
    for (unsigned i = 0; i < sums; i++) given[i] = tsr_block_get(a->of.emit, a->result[i]);
    for (unsigned i = 0; i < weights; i++)
        given[sums + i] = tsr_block_get(a->of.emit, a->weights[i]);
    tsr_block_unpack(a->of.emit, tsr_block_wgmma(a->of.emit, &p, given, sums, weights), out_result,
                     sums);
}

static void wait_products(const attend *a, unsigned left, LLVMValueRef *sums, unsigned count) {
    tsr_block_wait_some(a->of.emit, left, sums, count);
}

static void store_weights(const attend *a, LLVMValueRef block, LLVMValueRef *scores) {
    LLVMValueRef pairs[REGISTERS_MAX / 2];
    tsr_block_store_weights(&a->of, &a->rows, block, scores, pairs);
    for (unsigned i = 0; i < a->of.key_ring->rows / 4; i++)
        tsr_block_set(a->of.emit, a->weights[i], pairs[i]);
}

static void first_block(const attend *a) {
    LLVMValueRef scores[REGISTERS_MAX];
    tsr_slot at = key_slot(a, tsr_block_int(a->of.emit, 0));
    wait_for(a, &at);
    order_products(a, true);
    begin_scores(a, &at, scores);
    order_products(a, false);
    wait_products(a, 0, scores, a->of.key_ring->rows / 2);
    release(a, &at);
    if (a->of.masks)
        tsr_block_mask_scores(&a->of, &a->rows, tsr_block_add(a->of.emit, a->of.blocks, -1),
                              scores);
    for (unsigned half = 0; half < HALVES; half++)
        tsr_block_soften(&a->of, &a->rows, half, scores, true);
    store_weights(a, tsr_block_add(a->of.emit, a->of.blocks, -1), scores);
    for (unsigned i = 0; i < (unsigned)a->of.d / 2; i++)
        tsr_block_set(a->of.emit, a->result[i], tsr_emit_float(a->of.f32, 0));
}

static void next_block(const attend *a, LLVMValueRef j, bool masked) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef scores[REGISTERS_MAX], result[REGISTERS_MAX], rescale[HALVES];
    LLVMValueRef number = tsr_block_mul(emit, j, 2);
    tsr_slot keys = key_slot(a, tsr_block_add(emit, number, -1)), values = key_slot(a, number);
    unsigned sums = (unsigned)a->of.d / 2;
    wait_for(a, &keys);
    order_products(a, true);
    begin_scores(a, &keys, scores);
    wait_for(a, &values);
    begin_result(a, &values, result);
    order_products(a, false);
    wait_products(a, 1, scores, a->of.key_ring->rows / 2);
    release(a, &keys);
    LLVMValueRef block = LLVMBuildSub(b, tsr_block_add(emit, a->of.blocks, -1), j, "");
    if (masked) tsr_block_mask_scores(&a->of, &a->rows, block, scores);
    for (unsigned half = 0; half < HALVES; half++)
        rescale[half] = tsr_block_soften(&a->of, &a->rows, half, scores, false);
    wait_products(a, 0, result, sums);
    release(a, &values);
    for (unsigned i = 0; i < sums; i++)
        tsr_block_set(emit, a->result[i], LLVMBuildFMul(b, result[i], rescale[i / 2 % HALVES], ""));
    store_weights(a, block, scores);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Stores boxes of 64 columns through shared memory; the boxes of the previous tile must have left
 * it. */
static void store_result(const attend *a, LLVMValueRef *result) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_ring *ring = a->of.result_ring;
    int64_t stage_bytes = (int64_t)ring->rows * TSR_BLOCK_SWIZZLE_BYTES;
    uint32_t boxes = (uint32_t)a->of.d / BOX_COLUMNS;
    LLVMValueRef rows = tsr_block_mul(emit, a->warp_group, GROUP_ROWS);
    LLVMValueRef from = LLVMBuildAdd(b, tsr_block_ring_address(emit, ring),
                                     tsr_block_mul(emit, rows, TSR_BLOCK_SWIZZLE_BYTES), "");
    tsr_block_first_thread(emit, "cp.async.bulk.wait_group.read 0;", "~{memory}", NULL, 0);
    tsr_block_sync(emit, true);
    for (uint32_t c = 0; c < boxes; c++)
        tsr_block_put_box(emit, ring, a->of.element, from, c * stage_bytes,
                          result + (size_t)c * BOX_REGISTERS);
    tsr_block_asm(emit, NULL, "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0);
    tsr_block_sync(emit, true);
    for (uint32_t c = 0; c < boxes; c++) {
        LLVMValueRef at[3], row = LLVMBuildAdd(b, a->of.row, rows, "");
        tsr_block_locate_head(emit, a->of.op, TSR_ATTEND_RESULT, a->of.head, row,
                              (int64_t)c * BOX_COLUMNS, at);
        tsr_block_copy_box(emit, tsr_op_operand(a->of.op, TSR_ATTEND_RESULT),
                           tsr_block_add(emit, from, c * stage_bytes), at);
    }
    emit->block->stored = true;
}

static void finish_result(const attend *a) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef result[REGISTERS_MAX], factors[HALVES];
    unsigned sums = (unsigned)a->of.d / 2;
    tsr_slot values = key_slot(a, tsr_block_add(emit, tsr_block_mul(emit, a->of.blocks, 2), -1));
    wait_for(a, &values);
    begin_result(a, &values, result);
    for (unsigned half = 0; half < HALVES; half++)
        factors[half] = tsr_block_end_rows(&a->of, &a->rows, half);
    wait_products(a, 0, result, sums);
    release(a, &values);
    for (unsigned i = 0; i < sums; i++)
        result[i] = LLVMBuildFMul(b, result[i], factors[i / 2 % HALVES], "");
    store_result(a, result);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

static void locate_thread(attend *a) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef warp = emit->block->warp;
    a->warp_group = LLVMBuildUDiv(b, warp, tsr_block_int(emit, GROUP_WARPS), "");
    LLVMValueRef row = LLVMBuildAdd(b, a->of.row, tsr_block_mul(emit, warp, BLOCK_ROWS), "");
    a->rows = tsr_block_locate_rows(&a->of, row);
    tsr_block_locate_column(&a->of);
    for (unsigned i = 0; i < (unsigned)a->of.d / 2; i++)
        a->result[i] = tsr_block_memory(emit, a->of.f32);
    for (unsigned i = 0; i < a->of.key_ring->rows / 4; i++)
        a->weights[i] = tsr_block_memory(emit, tsr_block_i32(emit));
}

static void compute_tile(attend *a) {
    tsr_emit *emit = a->of.emit;
    LLVMBuilderRef b = emit->builder;
    const tsr_block *of = emit->block;
    locate_thread(a);
    tsr_block_wait(emit, tsr_block_barrier(emit, &a->query, of->queries_full_at), a->query.parity);
    first_block(a);
    LLVMValueRef from = tsr_block_int(emit, 1);
    if (a->of.masks_more) {
        LLVMValueRef masked = greatest(a, LLVMBuildSub(b, a->of.blocks, a->of.whole, ""), from);
        tsr_block_loop l = tsr_block_loop_begin(emit, from, masked, 1, "masked");
        next_block(a, l.index, true);
        tsr_block_loop_end(emit, &l);
        from = masked;
    }
    tsr_block_loop l = tsr_block_loop_begin(emit, from, a->of.blocks, 1, "keys");
    next_block(a, l.index, false);
    tsr_block_loop_end(emit, &l);
    tsr_block_arrive(emit, tsr_block_barrier(emit, &a->query, of->queries_empty_at), NULL);
    finish_result(a);
}

/* Warp group 0 has the first turn. */
void tsr_block_open_attend(tsr_emit *emit) {
    const tsr_block *block = emit->block;
    LLVMValueRef warps = tsr_block_int(emit, GROUP_WARPS);
    LLVMValueRef group = LLVMBuildUDiv(emit->builder, block->warp, warps, "");
    LLVMValueRef last = tsr_block_int(emit, block->groups - 1);
    if (!block->pingpong || block->groups < 2) return;
    LLVMBasicBlockRef opens = tsr_emit_block(emit, "first_turn"), rest = tsr_emit_block(emit, "");
    LLVMBuildCondBr(emit->builder, LLVMBuildICmp(emit->builder, LLVMIntEQ, group, last, ""), opens,
                    rest);
    LLVMPositionBuilderAtEnd(emit->builder, opens);
    tsr_block_named_barrier(emit, "bar.arrive $0, $1;", tsr_block_int(emit, 0), PINGPONG_THREADS);
    LLVMBuildBr(emit->builder, rest);
    LLVMPositionBuilderAtEnd(emit->builder, rest);
}

tsr_result tsr_block_emit_attend(tsr_emit *emit, MlirOperation op) {
    bool forward = strcmp(tsr_op_string(op, "how"), "forward") == 0;
    bool backward = tsr_block_is_backward(op);
    if (emit->block->has_one_role && !backward) {
        (forward ? tsr_block_emit_attend_sync : tsr_block_emit_grad_sync)(emit, op);
        return TSR_SUCCESS;
    }
    if (!emit->block->has_wgmma || !emit->block->uses_tma || !(forward || backward))
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s' has attention %s; '%s' has no code for it",
             emit->kernel, tsr_op_string(op, "how"), emit->target->name);
    if (backward) {
        tsr_block_emit_grad(emit, op);
        return TSR_SUCCESS;
    }
    attend a = {.of = tsr_block_read_attend(emit, op), .pingpong = tsr_op_flag(op, "pingpong")};
    find_blocks(&a);
    if (emit->block->copies)
        copy_tile(&a);
    else
        compute_tile(&a);
    finish_tile(&a);
    return TSR_SUCCESS;
}
