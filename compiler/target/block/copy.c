/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of rings, and copies to them. Stage number s of a program has slot (stages used by the
 * programs before + s) mod stages. The number of uses of a slot determines the parity for waits on
 * its barriers.
 */
#include "compiler/target/block/block.h"
#include "compiler/target/block/sizes.h"
#include "compiler/tile/attributes.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 16, SWIZZLE_ROWS = 8, UNROLL_MAX = 8 };

/* ---- slots ----------------------------------------------------------------------------------- */

tsr_slot tsr_block_slot(tsr_emit *emit, LLVMValueRef count, uint32_t stage_count) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef stages = tsr_block_int(emit, stage_count);
    LLVMValueRef round = LLVMBuildUDiv(b, count, stages, "");
    return (tsr_slot){.count = count,
                      .slot = LLVMBuildSub(b, count, LLVMBuildMul(b, round, stages, ""), ""),
                      .parity = LLVMBuildAnd(b, round, tsr_block_int(emit, 1), "")};
}

/* The slot of stage number `stage` (index) of the program. */
static tsr_slot find_position(tsr_emit *emit, LLVMValueRef stage) {
    LLVMValueRef number = LLVMBuildTrunc(emit->builder, stage, tsr_block_i32(emit), "");
    return tsr_block_slot(emit, LLVMBuildAdd(emit->builder, emit->block->base, number, ""),
                          emit->block->stages);
}

LLVMValueRef tsr_block_barrier(tsr_emit *emit, const tsr_slot *at, uint32_t offset) {
    LLVMValueRef part = tsr_block_mul(emit, at->slot, BARRIER_BYTES);
    LLVMValueRef from = tsr_block_add(emit, emit->block->shared, offset);
    return LLVMBuildAdd(emit->builder, from, part, "");
}

void tsr_block_wait(tsr_emit *emit, LLVMValueRef barrier, LLVMValueRef parity) {
    LLVMValueRef args[] = {barrier, parity};
    char text[160];
    snprintf(text, sizeof text,
             "{ .reg .pred p; W: mbarrier.%s_wait.parity.shared.b64 p, [$0], $1; @!p bra W; }",
             emit->block->has_tma ? "try" : "test");
    tsr_block_asm(emit, NULL, text, "r,r,~{memory}", args, 2);
}

LLVMValueRef tsr_block_ring_address(tsr_emit *emit, const tsr_ring *ring) {
    LLVMValueRef from = tsr_block_add(emit, emit->block->shared, ring->offset);
    if (!ring->team_bytes) return from;
    LLVMValueRef own = tsr_block_mul(emit, emit->block->team, ring->team_bytes);
    return LLVMBuildAdd(emit->builder, from, own, "");
}

LLVMValueRef tsr_block_stage(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef stage) {
    LLVMValueRef slot;
    if (ring->stages == emit->block->stages && stage)
        slot = find_position(emit, stage).slot;
    else
        slot = tsr_block_int(emit, 0);
    LLVMValueRef part =
        tsr_block_mul(emit, slot, (int64_t)ring->rows * ring->columns * ring->element_bytes);
    return LLVMBuildAdd(emit->builder, tsr_block_ring_address(emit, ring), part, "");
}

LLVMValueRef tsr_block_chunk(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at,
                             LLVMValueRef row, LLVMValueRef chunk) {
    LLVMBuilderRef b = emit->builder;
    int64_t row_bytes = (int64_t)ring->columns * ring->element_bytes;
    if (!ring->swizzled) {
        at = LLVMBuildAdd(b, at, tsr_block_mul(emit, row, row_bytes), "");
        return LLVMBuildAdd(b, at, tsr_block_mul(emit, chunk, CHUNK_BYTES), "");
    }
    int64_t chunks = TSR_BLOCK_SWIZZLE_BYTES / CHUNK_BYTES;
    LLVMValueRef column = LLVMBuildUDiv(b, chunk, tsr_block_int(emit, chunks), "");
    LLVMValueRef inner = LLVMBuildAnd(b, chunk, tsr_block_int(emit, chunks - 1), "");
    LLVMValueRef phase = LLVMBuildAnd(b, row, tsr_block_int(emit, SWIZZLE_ROWS - 1), "");
    inner = LLVMBuildXor(b, inner, phase, "");
    column = tsr_block_mul(emit, column, (int64_t)ring->rows * TSR_BLOCK_SWIZZLE_BYTES);
    at = LLVMBuildAdd(b, at, column, "");
    at = LLVMBuildAdd(b, at, tsr_block_mul(emit, row, TSR_BLOCK_SWIZZLE_BYTES), "");
    return LLVMBuildAdd(b, at, tsr_block_mul(emit, inner, CHUNK_BYTES), "");
}

/* ---- computing threads ----------------------------------------------------------------------- */

void tsr_block_emit_wait(tsr_emit *emit, MlirOperation op) {
    tsr_block *block = emit->block;
    tsr_slot at = find_position(emit, tsr_emit_operand(emit, op, 0));
    tsr_block_wait(emit, tsr_block_barrier(emit, &at, block->full_at), at.parity);
    LLVMBuildStore(emit->builder, tsr_block_add(emit, at.count, 1), block->used);
    /* Matrix units read the threads' copies through another proxy. */
    if (block->has_wgmma && !block->uses_tma)
        tsr_block_asm(emit, NULL, "fence.proxy.async.shared::cta;", "~{memory}", NULL, 0);
}

static bool read_share(MlirOperation copy, tsr_share *out_share) {
    int64_t values[2] = {0};
    size_t count = 0;
    if (!tsr_op_i64s(copy, TSR_SHARED_NAME, 2, values, &count) || count != 2) return false;
    for (size_t i = 0; i < 2; i++) /* values that do not fit a cluster are refused later */
        if (values[i] < 1 || values[i] > UINT32_MAX) values[i] = UINT32_MAX;
    *out_share = (tsr_share){(uint32_t)values[0], (uint32_t)values[1]};
    return true;
}

tsr_result tsr_block_plan_share(tsr_emit *emit, MlirOperation copy) {
    tsr_block *block = emit->block;
    tsr_share share;
    if (!read_share(copy, &share)) return TSR_SUCCESS;
    if (block->share_count == TSR_BLOCK_SHARES_MAX)
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s' has more than %d shared copies", emit->kernel,
             TSR_BLOCK_SHARES_MAX);
    block->shares[block->share_count++] = share;
    return TSR_SUCCESS;
}

/* Threads copy 16 bytes each; without wgmma columns are multiplied 16 at a time. */
static bool takes_threads(const tsr_ring *ring) {
    uint32_t bytes = ring->rows * ring->columns * ring->element_bytes;
    return bytes % (TSR_BLOCK_GROUP * CHUNK_BYTES) == 0 && ring->rows % BLOCK_ROWS == 0;
}

tsr_result tsr_block_check_copies(tsr_emit *emit) {
    const tsr_block *block = emit->block;
    for (uint32_t i = 0; i < block->ring_count; i++) {
        const tsr_ring *ring = &block->rings[i];
        if (ring->is_copied_to && !block->uses_tma && !takes_threads(ring))
            FAIL(emit->ctx, TSR_COMPILE,
                 "kernel '%s' copies %u rows of %u bytes by threads; expected a multiple of %d "
                 "rows and of %d bytes, or on 'sm_90a' buffers with rows of whole 16 bytes",
                 emit->kernel, ring->rows, ring->columns * ring->element_bytes, BLOCK_ROWS,
                 TSR_BLOCK_GROUP * CHUNK_BYTES);
    }
    for (uint32_t i = 0; i < block->share_count; i++) {
        const tsr_share *share = &block->shares[i];
        if (block->together % ((uint64_t)share->count * share->stride) || !block->uses_tma)
            FAIL(
                emit->ctx, TSR_COMPILE,
                "kernel '%s' shares copies among %u programs, %u apart, of %u%s; expected parts of "
                "these, and rows of whole 16 bytes",
                emit->kernel, share->count, share->stride, block->together,
                block->uses_tma ? "" : ", rows of odd size");
    }
    return TSR_SUCCESS;
}

uint32_t tsr_block_sharers(const tsr_block *block) {
    uint32_t count = 1;
    for (uint32_t i = 0; i < block->share_count; i++) count += block->shares[i].count - 1;
    return count;
}

/* The first block that copies the same part as this block, i32, and this block's number among those
 * blocks. */
static LLVMValueRef first_sharer(tsr_emit *emit, const tsr_share *share, LLVMValueRef *out_own) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef rank = emit->block->rank, stride = tsr_block_int(emit, share->stride);
    LLVMValueRef number = LLVMBuildUDiv(b, rank, stride, "");
    *out_own = LLVMBuildURem(b, number, tsr_block_int(emit, share->count), "");
    return LLVMBuildSub(b, rank, LLVMBuildMul(b, *out_own, stride, ""), "");
}

/* Lane 0 arrives here; each of the next lanes arrives at another block that copies for this one. */
static void arrive_at_all(tsr_emit *emit, LLVMValueRef barrier, LLVMValueRef lane,
                          LLVMValueRef condition) {
    LLVMBuilderRef b = emit->builder;
    const tsr_block *block = emit->block;
    LLVMValueRef mine =
        LLVMBuildICmp(b, LLVMIntULT, lane, tsr_block_int(emit, tsr_block_sharers(block)), "");
    if (condition) mine = LLVMBuildAnd(b, mine, condition, "");
    LLVMValueRef to = block->rank, own;
    int64_t before = 1; /* number of lanes that have a target */
    for (uint32_t i = 0; i < block->share_count; i++) {
        const tsr_share *share = &block->shares[i];
        LLVMValueRef first = first_sharer(emit, share, &own);
        LLVMValueRef number = tsr_block_add(emit, lane, -before); /* among the others */
        LLVMValueRef beyond = LLVMBuildICmp(b, LLVMIntUGE, number, own, "");
        number = LLVMBuildAdd(b, number, LLVMBuildZExt(b, beyond, tsr_block_i32(emit), ""), "");
        LLVMValueRef other = LLVMBuildAdd(b, first, tsr_block_mul(emit, number, share->stride), "");
        LLVMValueRef is_of = LLVMBuildICmp(b, LLVMIntUGE, lane, tsr_block_int(emit, before), "");
        to = LLVMBuildSelect(b, is_of, other, to, "");
        before += share->count - 1;
    }
    LLVMValueRef args[] = {barrier, LLVMBuildZExt(b, mine, tsr_block_i32(emit), ""), to};
    tsr_block_asm(emit, NULL,
                  "{ .reg .pred p; .reg .b32 a; setp.ne.b32 p, $1, 0; "
                  "@p mapa.shared::cluster.u32 a, $0, $2; "
                  "@p mbarrier.arrive.shared::cluster.b64 _, [a]; }",
                  "r,r,r,~{memory}", args, 3);
}

void tsr_block_arrive(tsr_emit *emit, LLVMValueRef barrier, LLVMValueRef condition) {
    LLVMBuilderRef b = emit->builder;
    int64_t threads = emit->block->has_wgmma ? TSR_BLOCK_GROUP : 32;
    LLVMValueRef lane = LLVMBuildAnd(b, emit->block->thread, tsr_block_int(emit, threads - 1), "");
    if (emit->block->share_count) {
        arrive_at_all(emit, barrier, lane, condition);
        return;
    }
    LLVMValueRef mine = LLVMBuildICmp(b, LLVMIntEQ, lane, tsr_block_int(emit, 0), "");
    if (condition) mine = LLVMBuildAnd(b, mine, condition, "");
    LLVMValueRef args[] = {barrier, LLVMBuildZExt(b, mine, tsr_block_i32(emit), "")};
    /* Without wgmma, each lane loads its own elements: their reads must come before the arrival. */
    if (!emit->block->has_wgmma)
        tsr_block_asm(emit, NULL, "bar.warp.sync -1;", "~{memory}", NULL, 0);
    tsr_block_asm(emit, NULL,
                  "{ .reg .pred p; .reg .b64 t; setp.ne.b32 p, $1, 0; "
                  "@p mbarrier.arrive.shared.b64 t, [$0]; }",
                  "r,r,~{memory}", args, 2);
}

void tsr_block_release_deferred(tsr_emit *emit) {
    LLVMBuilderRef b = emit->builder;
    tsr_block *block = emit->block;
    LLVMValueRef count = LLVMBuildLoad2(b, tsr_block_i32(emit), block->deferred, "");
    LLVMValueRef some = LLVMBuildICmp(b, LLVMIntNE, count, tsr_block_int(emit, 0), "");
    tsr_slot at = tsr_block_slot(emit, tsr_block_add(emit, count, -1), block->stages);
    tsr_block_arrive(emit, tsr_block_barrier(emit, &at, block->empty_at), some);
    LLVMBuildStore(b, tsr_block_int(emit, 0), block->deferred);
}

/* While products of wgmma are in flight, the previous stage is released; this one is released with
 * the next. */
void tsr_block_emit_release(tsr_emit *emit, MlirOperation op) {
    tsr_block *block = emit->block;
    tsr_slot at = find_position(emit, tsr_emit_operand(emit, op, 0));
    if (block->stages == 1) tsr_block_wait_products(emit, (MlirValue){NULL});
    if (!block->pending) {
        tsr_block_arrive(emit, tsr_block_barrier(emit, &at, block->empty_at), NULL);
        return;
    }
    tsr_block_release_deferred(emit);
    LLVMBuildStore(emit->builder, tsr_block_add(emit, at.count, 1), block->deferred);
}

/* ---- copying threads ------------------------------------------------------------------------- */

/* Bytes of all copies of the stage; these are in one block. */
static uint32_t stage_bytes(tsr_emit *emit, MlirOperation op, bool *out_last) {
    uint32_t bytes = 0;
    TSR_FOR_EACH_OP(other, mlirOperationGetBlock(op)) {
        if (!tsr_op_is(other, TSR_TILE_ASYNC_COPY)) continue;
        const tsr_ring *ring =
            tsr_block_ring(emit, tsr_op_operand(other, tsr_op_operand_count(other) - 2));
        bytes += ring->rows * ring->columns * ring->element_bytes;
        *out_last = mlirOperationEqual(other, op);
    }
    return bytes;
}

void tsr_block_expect(tsr_emit *emit, LLVMValueRef barrier, uint32_t bytes) {
    LLVMValueRef args[] = {barrier, tsr_block_int(emit, bytes)};
    tsr_block_asm(emit, NULL, "{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [$0], $1; }",
                  "r,r,~{memory}", args, 2);
}

static void begin_stage(tsr_emit *emit, const tsr_slot *at, uint32_t bytes) {
    tsr_block *block = emit->block;
    LLVMValueRef one = tsr_block_int(emit, 1);
    tsr_block_wait(emit, tsr_block_barrier(emit, at, block->empty_at),
                   LLVMBuildXor(emit->builder, at->parity, one, ""));
    LLVMBuildStore(emit->builder, tsr_block_add(emit, at->count, 1), block->used);
    if (!block->uses_tma) return;
    tsr_block_expect(emit, tsr_block_barrier(emit, at, block->full_at), bytes);
}

void tsr_block_copy_boxes(tsr_emit *emit, MlirValue buffer, LLVMValueRef *at, const tsr_ring *ring,
                          LLVMValueRef to, LLVMValueRef barrier, const tsr_share *share) {
    LLVMBuilderRef b = emit->builder;
    size_t rank = (size_t)mlirShapedTypeGetRank(mlirValueGetType(buffer));
    uint32_t box = TSR_BLOCK_SWIZZLE_BYTES / ring->element_bytes;
    uint32_t map = tsr_block_map(emit, buffer, ring->rows, ring->is_factor);
    char text[256], constraints[64] = "r,l,r";
    LLVMValueRef mask = NULL; /* the blocks that receive it */
    if (share) {
        uint32_t sharers = 0;
        LLVMValueRef own, from = first_sharer(emit, share, &own);
        for (uint32_t i = 0; i < share->count; i++) sharers |= 1U << i * share->stride;
        mask = LLVMBuildShl(b, tsr_block_int(emit, sharers), from, "");
        mask = LLVMBuildTrunc(b, mask, LLVMInt16TypeInContext(emit->llvm), "");
    }
    size_t length = 0, used = 5;
    length = (size_t)snprintf(text, sizeof text,
                              "cp.async.bulk.tensor.%zud.shared::cluster.global.mbarrier::"
                              "complete_tx::bytes%s [$0], [$1, {",
                              rank, share ? ".multicast::cluster" : "");
    for (size_t d = 0; d < rank; d++) {
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "%s$%zu", d ? ", " : "", 3 + d);
        used += (size_t)snprintf(constraints + used, sizeof constraints - used, ",r");
    }
    length += (size_t)snprintf(text + length, sizeof text - length, "}], [$2]");
    if (share) snprintf(text + length, sizeof text - length, ", $%zu", 3 + rank);
    strcat(text, ";");
    snprintf(constraints + used, sizeof constraints - used, "%s,~{memory}", share ? ",h" : "");
    for (uint32_t column = 0; column < ring->columns; column += box) {
        int64_t offset = (int64_t)(column / box) * ring->rows * TSR_BLOCK_SWIZZLE_BYTES;
        LLVMValueRef args[4 + TSR_FATBIN_MAP_RANK_MAX] = {
            tsr_block_add(emit, to, offset), tsr_block_map_address(emit, map), barrier};
        memcpy(args + 3, at, rank * sizeof *at);
        args[3] = tsr_block_add(emit, args[3], column);
        args[3 + rank] = mask;
        tsr_block_asm(emit, NULL, text, constraints, args, (unsigned)(3 + rank) + (share != NULL));
    }
}

/* Blocks that share data copy it by turns, a whole stage each. */
static void copy_boxes(tsr_emit *emit, MlirOperation op, const tsr_ring *ring, LLVMValueRef to,
                       const tsr_slot *slot) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef barrier = tsr_block_barrier(emit, slot, emit->block->full_at);
    LLVMBasicBlockRef rest = NULL;
    LLVMValueRef at[TSR_FATBIN_MAP_RANK_MAX];
    size_t rank = tsr_op_operand_count(op) - 3;
    tsr_share share;
    bool shared = read_share(op, &share);
    if (shared) {
        LLVMValueRef own, round = tsr_block_int(emit, share.count);
        first_sharer(emit, &share, &own);
        round = LLVMBuildURem(b, slot->count, round, "");
        rest = tsr_block_if(emit, LLVMBuildICmp(b, LLVMIntEQ, round, own, ""), "turn");
    }
    for (size_t d = 0; d < rank; d++)
        at[d] = LLVMBuildTrunc(emit->builder, tsr_emit_operand(emit, op, rank - d),
                               tsr_block_i32(emit), "");
    tsr_block_copy_boxes(emit, tsr_op_operand(op, 0), at, ring, to, barrier,
                         shared ? &share : NULL);
    if (shared) tsr_block_end_if(emit, rest);
}

/* Arguments of a copy by threads, for each segment. */
typedef struct segments {
    MlirOperation op;
    const tsr_ring *ring;
    LLVMValueRef to;        /* i32 */
    LLVMValueRef row, left; /* i64: the matrix's first row in the buffer; columns from there on */
    LLVMValueRef from;      /* pointer to that position */
    int64_t rows, columns;  /* rows and columns of the buffer */
    int64_t pitch;          /* pitch of the buffer */
    uint32_t bytes;         /* bytes of a segment */
} segments;

static void copy_narrow(tsr_emit *emit, LLVMValueRef to, LLVMValueRef from, LLVMValueRef size) {
    LLVMValueRef args[] = {to, from, size};
    tsr_block_asm(emit, NULL,
                  "{ .reg .pred p; .reg .b16 v; setp.ne.b32 p, $2, 0; mov.b16 v, 0; "
                  "@p ld.global.b16 v, [$1]; st.shared.b16 [$0], v; }",
                  "r,l,r,~{memory}", args, 3);
}

/* Bytes of the segment that are inside the buffer, i32: the rest becomes 0. */
static LLVMValueRef size_of(tsr_emit *emit, const segments *p, LLVMValueRef column,
                            LLVMValueRef inside) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMValueRef size = tsr_block_int(emit, p->bytes);
    if (p->columns * p->ring->element_bytes % p->bytes) {
        LLVMValueRef left = LLVMBuildSub(b, p->left, column, "");
        left = LLVMBuildMul(b, left, tsr_emit_int(i64, p->ring->element_bytes), "");
        LLVMValueRef all = LLVMBuildICmp(b, LLVMIntSGE, left, tsr_emit_int(i64, p->bytes), "");
        left = LLVMBuildTrunc(b, left, tsr_block_i32(emit), "");
        size = LLVMBuildSelect(b, all, size, left, "");
    }
    return LLVMBuildSelect(b, inside, size, tsr_block_int(emit, 0), "");
}

static void copy_segment(tsr_emit *emit, const segments *p, LLVMValueRef number) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    int64_t eb = p->ring->element_bytes, per_row = p->ring->columns * eb / p->bytes;
    int64_t per_chunk = CHUNK_BYTES / p->bytes;
    LLVMValueRef row = LLVMBuildUDiv(b, number, tsr_block_int(emit, per_row), "");
    LLVMValueRef part = LLVMBuildURem(b, number, tsr_block_int(emit, per_row), "");
    LLVMValueRef chunk = LLVMBuildUDiv(b, part, tsr_block_int(emit, per_chunk), "");
    LLVMValueRef rest = LLVMBuildURem(b, part, tsr_block_int(emit, per_chunk), "");
    LLVMValueRef to = tsr_block_chunk(emit, p->ring, p->to, row, chunk);
    to = LLVMBuildAdd(b, to, tsr_block_mul(emit, rest, p->bytes), "");
    LLVMValueRef row64 = LLVMBuildZExt(b, row, i64, ""), part64 = LLVMBuildZExt(b, part, i64, "");
    LLVMValueRef column = LLVMBuildMul(b, part64, tsr_emit_int(i64, (int64_t)p->bytes / eb), "");
    LLVMValueRef inside =
        LLVMBuildAnd(b,
                     LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildAdd(b, p->row, row64, ""),
                                   tsr_emit_int(i64, p->rows), ""),
                     LLVMBuildICmp(b, LLVMIntSLT, column, p->left, ""), "");
    LLVMValueRef offset = LLVMBuildMul(b, row64, tsr_emit_int(i64, p->pitch), "");
    offset = LLVMBuildAdd(b, offset, column, "");
    offset = LLVMBuildMul(b, offset, tsr_emit_int(i64, eb), "");
    offset = LLVMBuildSelect(b, inside, offset, tsr_emit_int(i64, 0), "");
    LLVMValueRef from =
        LLVMBuildGEP2(b, LLVMInt8TypeInContext(emit->llvm), p->from, &offset, 1, "");
    LLVMValueRef size = size_of(emit, p, column, inside);
    if (p->bytes < 4) {
        copy_narrow(emit, to, from, size);
        return;
    }
    LLVMValueRef args[] = {to, from, size};
    char text[80];
    snprintf(text, sizeof text, "cp.async.%s.shared.global [$0], [$1], %u, $2;",
             p->bytes == CHUNK_BYTES ? "cg" : "ca", p->bytes);
    tsr_block_asm(emit, NULL, text, "r,l,r,~{memory}", args, 3);
}

static void copy_segments(tsr_emit *emit, const segments *p) {
    LLVMBuilderRef b = emit->builder;
    const tsr_ring *ring = p->ring;
    uint32_t count = ring->rows * ring->columns * ring->element_bytes / p->bytes;
    uint32_t rounds = (count + TSR_BLOCK_GROUP - 1) / TSR_BLOCK_GROUP;
    for (uint32_t i = 0; i < rounds && rounds <= UNROLL_MAX; i++)
        copy_segment(emit, p, tsr_block_add(emit, emit->block->thread, i * TSR_BLOCK_GROUP));
    if (rounds <= UNROLL_MAX) return;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), loop = tsr_emit_block(emit, "pieces"),
                      done = tsr_emit_block(emit, "copied");
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef number = LLVMBuildPhi(b, tsr_block_i32(emit), "");
    copy_segment(emit, p, number);
    LLVMValueRef next = tsr_block_add(emit, number, TSR_BLOCK_GROUP);
    LLVMValueRef values[] = {emit->block->thread, next};
    LLVMBasicBlockRef from[] = {before, LLVMGetInsertBlock(b)};
    LLVMAddIncoming(number, values, from, 2);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, next, tsr_block_int(emit, count), ""), loop,
                    done);
    LLVMPositionBuilderAtEnd(b, done);
}

/* The largest size whose alignment every segment has: rows with a pitch may end within a chunk. */
static uint32_t piece_bytes(int64_t pitch_bytes) {
    uint32_t bytes = CHUNK_BYTES;
    while (pitch_bytes % bytes) bytes /= 2;
    return bytes;
}

static void copy_by_threads(tsr_emit *emit, MlirOperation op, const tsr_ring *ring,
                            LLVMValueRef to) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    MlirType type = mlirValueGetType(tsr_op_operand(op, 0));
    int64_t rank = mlirShapedTypeGetRank(type);
    segments p = {.op = op,
                  .ring = ring,
                  .to = to,
                  .row = tsr_emit_operand(emit, op, (size_t)rank - 1),
                  .rows = mlirShapedTypeGetDimSize(type, rank - 2),
                  .columns = mlirShapedTypeGetDimSize(type, rank - 1),
                  .pitch = tsr_buffer_row(type)};
    p.bytes = piece_bytes(p.pitch * ring->element_bytes);
    LLVMValueRef column = tsr_emit_operand(emit, op, (size_t)rank), offset = tsr_emit_int(i64, 0);
    for (int64_t d = 0; d < rank; d++) {
        int64_t size = d == rank - 1 ? p.pitch : mlirShapedTypeGetDimSize(type, d);
        offset = LLVMBuildMul(b, offset, tsr_emit_int(i64, size), "");
        offset = LLVMBuildAdd(b, offset, tsr_emit_operand(emit, op, (size_t)d + 1), "");
    }
    offset = LLVMBuildMul(b, offset, tsr_emit_int(i64, ring->element_bytes), "");
    p.from = LLVMBuildGEP2(b, LLVMInt8TypeInContext(emit->llvm), tsr_emit_operand(emit, op, 0),
                           &offset, 1, "");
    p.left = LLVMBuildSub(b, tsr_emit_int(i64, p.columns), column, "");
    copy_segments(emit, &p);
}

void tsr_block_emit_async_copy(tsr_emit *emit, MlirOperation op) {
    tsr_block *block = emit->block;
    size_t count = tsr_op_operand_count(op);
    bool last = false;
    MlirValue stage = tsr_op_operand(op, count - 1);
    const tsr_ring *ring = tsr_block_ring(emit, tsr_op_operand(op, count - 2));
    tsr_slot at = find_position(emit, tsr_emit_get(emit, stage));
    uint32_t bytes = stage_bytes(emit, op, &last);
    if (mlirValueIsNull(block->filled) || !mlirValueEqual(block->filled, stage))
        begin_stage(emit, &at, bytes);
    block->filled = stage;
    LLVMValueRef to = tsr_block_stage(emit, ring, tsr_emit_get(emit, stage));
    if (block->uses_tma) {
        copy_boxes(emit, op, ring, to, &at);
        return;
    }
    copy_by_threads(emit, op, ring, to);
    if (!last) return;
    /* Plain stores of this thread count as done before it arrives. */
    tsr_block_asm(emit, NULL, "fence.acq_rel.cta;", "~{memory}", NULL, 0);
    LLVMValueRef barrier = tsr_block_barrier(emit, &at, block->full_at);
    tsr_block_asm(emit, NULL, "cp.async.mbarrier.arrive.noinc.shared.b64 [$0];", "r,~{memory}",
                  &barrier, 1);
}
