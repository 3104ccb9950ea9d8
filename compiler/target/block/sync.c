/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows are copied in chunks of 16 bytes. A thread copies the same chunk of rows whose distance is
 * the number of rows that all threads cover at once, a multiple of 8, so that the swizzle permutes
 * the chunk in the same way in all these rows. Source: PTX ISA 8.0, "cp.async".
 */
#include "compiler/target/block/sync.h"

#include "compiler/target/block/sizes.h"
#include "compiler/tile/attributes.h"

#include <inttypes.h>
#include <stdio.h>

enum { CHUNK_BYTES = 16, CHUNK_ELEMENTS = 8 };

/* Number of chunk `chunk` of row `row` of the head, in its buffer, i32: this takes one register; a
 * pointer would take two. */
static LLVMValueRef find_chunk(tsr_emit *emit, MlirOperation attend, size_t buffer,
                               LLVMValueRef head, LLVMValueRef row, LLVMValueRef chunk) {
    LLVMBuilderRef b = emit->builder;
    MlirType type = mlirValueGetType(tsr_op_operand(attend, buffer));
    LLVMValueRef at[3];
    tsr_block_locate_head(emit, attend, buffer, head, row, 0, at);
    LLVMValueRef number = tsr_block_mul(emit, at[2], mlirShapedTypeGetDimSize(type, 1));
    number = LLVMBuildAdd(b, number, at[1], "");
    number = tsr_block_mul(emit, number, mlirShapedTypeGetDimSize(type, 2) / CHUNK_ELEMENTS);
    LLVMValueRef column = LLVMBuildUDiv(b, at[0], tsr_block_int(emit, CHUNK_ELEMENTS), "");
    return LLVMBuildAdd(b, LLVMBuildAdd(b, number, column, ""), chunk, "");
}

static LLVMValueRef chunk_address(tsr_emit *emit, LLVMValueRef buffer, LLVMValueRef number) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMValueRef wide = LLVMBuildZExt(b, number, i64, "");
    return LLVMBuildGEP2(b, LLVMInt128TypeInContext(emit->llvm), buffer, &wide, 1, "");
}

static int64_t head_pitch(MlirOperation attend, size_t buffer) {
    MlirType type = mlirValueGetType(tsr_op_operand(attend, buffer));
    return mlirShapedTypeGetDimSize(type, 2) / CHUNK_ELEMENTS;
}

tsr_sync_copy tsr_sync_locate_copy(tsr_emit *emit, MlirOperation attend, size_t buffer,
                                   LLVMValueRef head, const tsr_ring *ring) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef per_row = tsr_block_int(emit, ring->columns / CHUNK_ELEMENTS);
    tsr_sync_copy c = {.ring = ring,
                       .buffer = tsr_emit_operand(emit, attend, buffer),
                       .row = LLVMBuildUDiv(b, emit->block->thread, per_row, ""),
                       .chunk = LLVMBuildURem(b, emit->block->thread, per_row, ""),
                       .rows = tsr_attend_dim(attend, buffer, 1),
                       .pitch = head_pitch(attend, buffer)};
    c.from = find_chunk(emit, attend, buffer, head, c.row, c.chunk);
    return c;
}

void tsr_sync_copy_rows(tsr_emit *emit, const tsr_sync_copy *c, LLVMValueRef to, LLVMValueRef row) {
    LLVMBuilderRef b = emit->builder;
    uint32_t threads = emit->block->warps * WARP_LANES;
    uint32_t apart = threads / (c->ring->columns / CHUNK_ELEMENTS);
    bool cut = c->rows % c->ring->rows;
    LLVMValueRef first = LLVMBuildAdd(b, row, c->row, "");
    LLVMValueRef from = LLVMBuildAdd(b, c->from, tsr_block_mul(emit, row, c->pitch), "");
    from = chunk_address(emit, c->buffer, from);
    LLVMValueRef at = tsr_block_chunk(emit, c->ring, to, c->row, c->chunk);
    for (uint32_t r = 0; r < c->ring->rows; r += apart) {
        LLVMValueRef args[] = {at, from, NULL};
        char text[112];
        if (cut) {
            LLVMValueRef inside = LLVMBuildICmp(b, LLVMIntSLT, tsr_block_add(emit, first, r),
                                                tsr_block_int(emit, c->rows), "");
            args[2] = LLVMBuildSelect(b, inside, tsr_block_int(emit, CHUNK_BYTES),
                                      tsr_block_int(emit, 0), "");
        }
        snprintf(text, sizeof text,
                 "cp.async.cg.shared.global.L2::128B [$0+%u], [$1+%" PRId64 "], 16%s;",
                 r * TSR_BLOCK_SWIZZLE_BYTES, r * c->pitch * CHUNK_BYTES, cut ? ", $2" : "");
        tsr_block_asm(emit, NULL, text, cut ? "r,l,r,~{memory}" : "r,l,~{memory}", args,
                      cut ? 3 : 2);
    }
}

void tsr_sync_commit(tsr_emit *emit) {
    tsr_block_asm(emit, NULL, "cp.async.commit_group;", "~{memory}", NULL, 0);
}

static void wait_copies(tsr_emit *emit, uint32_t left) {
    char text[64];
    snprintf(text, sizeof text, "cp.async.wait_group %u;", left);
    tsr_block_asm(emit, NULL, text, "~{memory}", NULL, 0);
}

void tsr_sync_wait(tsr_emit *emit, uint32_t left) {
    wait_copies(emit, left);
    tsr_block_sync(emit, false);
}

void tsr_sync_wait_apart(tsr_emit *emit, uint32_t left) {
    wait_copies(emit, left);
    tsr_block_sync_apart(emit);
}

LLVMValueRef tsr_sync_lane(tsr_emit *emit, tsr_sync_order order, LLVMValueRef row) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef lane = emit->lane, one = tsr_block_int(emit, 1);
    LLVMValueRef second =
        LLVMBuildAnd(b, LLVMBuildLShr(b, lane, tsr_block_int(emit, 3), ""), one, "");
    LLVMValueRef third = LLVMBuildLShr(b, lane, tsr_block_int(emit, 4), "");
    LLVMValueRef below = order == TSR_SYNC_BELOW ? second : third;
    LLVMValueRef beside = order == TSR_SYNC_BELOW ? third : second;
    LLVMValueRef own = LLVMBuildAnd(b, lane, tsr_block_int(emit, 7), "");
    LLVMValueRef at = LLVMBuildOr(b, own, tsr_block_mul(emit, below, 8), "");
    if (row) at = LLVMBuildAdd(b, at, row, "");
    LLVMValueRef chunk = tsr_block_mul(emit, LLVMBuildXor(b, beside, own, ""), CHUNK_BYTES);
    return LLVMBuildAdd(b, tsr_block_mul(emit, at, TSR_BLOCK_SWIZZLE_BYTES), chunk, "");
}

/* Matrices begin at multiples of the swizzle's atom, so that the swizzle permutes the whole
 * address. The permutation is computed here each time: stored addresses would occupy registers. */
void tsr_sync_load(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at, uint32_t row,
                   uint32_t column, bool transposed, LLVMValueRef out[4]) {
    LLVMTypeRef i32 = tsr_block_i32(emit), types[] = {i32, i32, i32, i32};
    LLVMTypeRef type = LLVMStructTypeInContext(emit->llvm, types, 4, false);
    uint32_t offset = (column / BOX_COLUMNS * ring->rows + row) * TSR_BLOCK_SWIZZLE_BYTES;
    char text[160];
    snprintf(text, sizeof text,
             "{ .reg .b32 a; xor.b32 a, $4, %u; "
             "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {$0, $1, $2, $3}, [a+%u]; }",
             column % BOX_COLUMNS / CHUNK_ELEMENTS * CHUNK_BYTES, transposed ? ".trans" : "",
             offset);
    tsr_block_unpack(emit, tsr_block_asm(emit, type, text, "=r,=r,=r,=r,r,~{memory}", &at, 1), out,
                     4);
}

void tsr_sync_meet(tsr_emit *emit) {
    tsr_block_asm(emit, NULL, "bar.warp.sync -1;", "~{memory}", NULL, 0);
}

/* A pair is in the chunk of its 8 columns. The swizzle moves the same chunk of different rows to
 * different positions, so that a warp uses all banks. */
void tsr_sync_put_rows(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef to, LLVMValueRef row,
                       LLVMValueRef *pairs, uint32_t count) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef lane = emit->lane;
    LLVMValueRef beside = LLVMBuildAnd(b, lane, tsr_block_int(emit, 3), "");
    row = LLVMBuildAdd(b, row, LLVMBuildLShr(b, lane, tsr_block_int(emit, 2), ""), "");
    to = LLVMBuildAdd(b, to, tsr_block_mul(emit, beside, 4), "");
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef at = tsr_block_chunk(emit, ring, to, row, tsr_block_int(emit, i / HALVES));
        int64_t half = (int64_t)(i % HALVES) * BLOCK_COLUMNS * TSR_BLOCK_SWIZZLE_BYTES;
        LLVMValueRef args[] = {tsr_block_add(emit, at, half), pairs[i]};
        tsr_block_asm(emit, NULL, "st.shared.b32 [$0], $1;", "r,r,~{memory}", args, 2);
    }
}

void tsr_sync_store_rows(tsr_emit *emit, MlirOperation attend, size_t buffer, LLVMValueRef head,
                         const tsr_ring *ring, LLVMValueRef from, LLVMValueRef row, uint32_t count,
                         LLVMValueRef first) {
    LLVMBuilderRef b = emit->builder;
    uint32_t per_row = ring->columns / CHUNK_ELEMENTS, apart = WARP_LANES / per_row;
    int64_t rows = tsr_attend_dim(attend, buffer, 1), pitch = head_pitch(attend, buffer);
    LLVMValueRef chunk = LLVMBuildURem(b, emit->lane, tsr_block_int(emit, per_row), "");
    LLVMValueRef own = LLVMBuildUDiv(b, emit->lane, tsr_block_int(emit, per_row), "");
    row = LLVMBuildAdd(b, row, own, "");
    first = LLVMBuildAdd(b, first, row, "");
    LLVMValueRef to = chunk_address(emit, tsr_emit_operand(emit, attend, buffer),
                                    find_chunk(emit, attend, buffer, head, first, chunk));
    for (uint32_t r = 0; r < count; r += apart) {
        LLVMValueRef inside = LLVMBuildICmp(b, LLVMIntSLT, tsr_block_add(emit, first, r),
                                            tsr_block_int(emit, rows), "");
        LLVMValueRef args[] = {
            to, tsr_block_chunk(emit, ring, from, tsr_block_add(emit, row, r), chunk),
            LLVMBuildZExt(b, inside, tsr_block_i32(emit), "")};
        char text[192];
        snprintf(text, sizeof text,
                 "{ .reg .pred p; .reg .b32 x<4>; setp.ne.b32 p, $2, 0; ld.shared.v4.b32 {x0, x1, "
                 "x2, x3}, [$1]; @p st.global.v4.b32 [$0+%" PRId64 "], {x0, x1, x2, x3}; }",
                 r * pitch * CHUNK_BYTES);
        tsr_block_asm(emit, NULL, text, "l,r,r,~{memory}", args, 3);
    }
}
