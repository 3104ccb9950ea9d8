/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout in shared memory of a box of a fragment (64 rows of 128 bytes, or as many columns if
 * it is transposed), and the code that stores registers there. Source: PTX ISA 8.5, "stmatrix".
 */
#include "compiler/target/block/block.h"
#include "compiler/target/block/sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PARTS = 4, /* parts of a box of 64 columns */
    PART_PAIRS = BOX_PART_REGISTERS / 2,
    WIDE_REGISTERS = BOX_REGISTERS / 2, /* registers of a box of f32 */
};

/* i32, in its warp group. */
static LLVMValueRef first_row_of_warp(tsr_emit *emit) {
    LLVMValueRef warp =
        LLVMBuildAnd(emit->builder, emit->block->warp, tsr_block_int(emit, GROUP_WARPS - 1), "");
    return tsr_block_mul(emit, warp, BLOCK_ROWS);
}

/* The address for four matrices of 8 x 8, 16 rows of each warp. The address differs between boxes
 * only by their start. Transposed, they are 16 rows of the box, 16 columns for each warp. */
static LLVMValueRef part_address(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from,
                                 unsigned part, bool transposed) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef lane = emit->lane, eight = tsr_block_int(emit, 8);
    LLVMValueRef row = LLVMBuildURem(b, lane, eight, "");
    LLVMValueRef second = LLVMBuildAnd(b, LLVMBuildLShr(b, lane, tsr_block_int(emit, 3), ""),
                                       tsr_block_int(emit, 1), "");
    LLVMValueRef half = LLVMBuildLShr(b, lane, tsr_block_int(emit, 4), "");
    LLVMValueRef down = transposed ? half : second, column_step = transposed ? second : half;
    row = LLVMBuildAdd(b, row, tsr_block_mul(emit, down, BLOCK_ROWS / HALVES), "");
    LLVMValueRef first = first_row_of_warp(emit), chunks = LLVMBuildUDiv(b, first, eight, "");
    if (transposed) {
        row = tsr_block_add(emit, row, (int64_t)part * BLOCK_ROWS);
        column_step = LLVMBuildAdd(b, column_step, chunks, "");
    } else {
        row = LLVMBuildAdd(b, row, first, "");
        column_step = tsr_block_add(emit, column_step, 2 * (int64_t)part);
    }
    return tsr_block_chunk(emit, ring, from, row, column_step);
}

LLVMValueRef tsr_block_part_address(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from,
                                    unsigned part) {
    return part_address(emit, ring, from, part, false);
}

/* Stores half a part, 8 columns, as two matrices: these come first. */
void tsr_block_put_part(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        unsigned part, bool transposed, LLVMValueRef *pairs, unsigned count) {
    bool whole = count == PART_PAIRS;
    char text[96];
    LLVMValueRef args[1 + PART_PAIRS] = {part_address(emit, ring, from, part, transposed)};
    memcpy(args + 1, pairs, count * sizeof *pairs);
    snprintf(text, sizeof text,
             "stmatrix.sync.aligned.m8n8.x%u%s.shared.b16 [$0+%" PRId64 "], {%s};", count,
             transposed ? ".trans" : "", at, whole ? "$1, $2, $3, $4" : "$1, $2");
    tsr_block_asm(emit, NULL, text, whole ? "r,r,r,r,r,~{memory}" : "r,r,r,~{memory}", args,
                  1 + count);
}

/* The two neighbours of a lane have 8 bytes, and the neighbours of four lanes have 32 bytes: even
 * rows begin with column block `block` of a box, odd rows with block + 2, so that half a warp uses
 * all banks. */
static LLVMValueRef wide_address(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from,
                                 unsigned block) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef lane = emit->lane, one = tsr_block_int(emit, 1);
    LLVMValueRef row = LLVMBuildLShr(b, lane, tsr_block_int(emit, 2), "");
    LLVMValueRef odd = LLVMBuildAnd(b, row, one, "");
    LLVMValueRef chunk = LLVMBuildAnd(b, LLVMBuildLShr(b, lane, one, ""), one, "");
    LLVMValueRef swapped =
        LLVMBuildXor(b, tsr_block_mul(emit, odd, 4), tsr_block_int(emit, 2 * (int64_t)block), "");
    chunk = LLVMBuildOr(b, chunk, swapped, "");
    row = LLVMBuildAdd(b, first_row_of_warp(emit), row, "");
    LLVMValueRef half = tsr_block_mul(emit, LLVMBuildAnd(b, lane, one, ""), 8);
    return LLVMBuildAdd(b, tsr_block_chunk(emit, ring, from, row, chunk), half, "");
}

/* Swaps the first two and the last two column blocks in odd rows. */
static void swap_wide(tsr_emit *emit, LLVMValueRef *values, LLVMValueRef *out_values) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef bit = LLVMBuildAnd(b, emit->lane, tsr_block_int(emit, 4), "");
    LLVMValueRef odd = LLVMBuildICmp(b, LLVMIntNE, bit, tsr_block_int(emit, 0), "");
    for (unsigned i = 0; i < WIDE_REGISTERS; i++)
        out_values[i] = LLVMBuildSelect(b, odd, values[i ^ (WIDE_REGISTERS / 2)], values[i], "");
}

void tsr_block_put_wide(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        LLVMValueRef *values) {
    LLVMValueRef swapped[WIDE_REGISTERS];
    char text[64];
    swap_wide(emit, values, swapped);
    for (unsigned i = 0; i < WIDE_REGISTERS; i += 2) {
        LLVMValueRef args[] = {wide_address(emit, ring, from, i / BLOCK_REGISTERS), swapped[i],
                               swapped[i + 1]};
        snprintf(text, sizeof text, "st.shared.v2.f32 [$0+%" PRId64 "], {$1, $2};",
                 at + (int64_t)(i / 2 % 2) * 8 * TSR_BLOCK_SWIZZLE_BYTES);
        tsr_block_asm(emit, NULL, text, "r,f,f,~{memory}", args, 3);
    }
}

void tsr_block_get_wide(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        LLVMValueRef *out_values) {
    LLVMTypeRef f32 = LLVMFloatTypeInContext(emit->llvm), types[] = {f32, f32};
    LLVMTypeRef both = LLVMStructTypeInContext(emit->llvm, types, 2, false);
    LLVMValueRef swapped[WIDE_REGISTERS];
    char text[64];
    for (unsigned i = 0; i < WIDE_REGISTERS; i += 2) {
        LLVMValueRef address = wide_address(emit, ring, from, i / BLOCK_REGISTERS);
        snprintf(text, sizeof text, "ld.shared.v2.f32 {$0, $1}, [$2+%" PRId64 "];",
                 at + (int64_t)(i / 2 % 2) * 8 * TSR_BLOCK_SWIZZLE_BYTES);
        LLVMValueRef pair = tsr_block_asm(emit, both, text, "=f,=f,r,~{memory}", &address, 1);
        for (unsigned e = 0; e < 2; e++)
            swapped[i + e] = LLVMBuildExtractValue(emit->builder, pair, e, "");
    }
    swap_wide(emit, swapped, out_values);
}

void tsr_block_put_pairs(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                         LLVMValueRef *pairs) {
    for (unsigned p = 0; p < PARTS; p++)
        tsr_block_put_part(emit, ring, from, at, p, false, pairs + (size_t)PART_PAIRS * p,
                           PART_PAIRS);
}

void tsr_block_narrow_part(tsr_emit *emit, MlirType element, LLVMValueRef *values, unsigned count,
                           LLVMValueRef *out_pairs) {
    for (unsigned i = 0; i < count; i++)
        out_pairs[i] = tsr_block_narrow(emit, element, values[2 * i], values[2 * i + 1]);
}

void tsr_block_put_parts(tsr_emit *emit, const tsr_ring *ring, MlirType element, LLVMValueRef from,
                         int64_t at, unsigned count, bool transposed, LLVMValueRef *values) {
    for (unsigned p = 0; 2 * PART_PAIRS * p < count; p++) {
        LLVMValueRef pairs[PART_PAIRS], *first = values + (size_t)2 * PART_PAIRS * p;
        unsigned left = count / 2 - PART_PAIRS * p, own = left < PART_PAIRS ? left : PART_PAIRS;
        tsr_block_narrow_part(emit, element, first, own, pairs);
        tsr_block_put_part(emit, ring, from, at, p, transposed, pairs, own);
    }
}

void tsr_block_put_box(tsr_emit *emit, const tsr_ring *ring, MlirType element, LLVMValueRef from,
                       int64_t at, LLVMValueRef *values) {
    tsr_block_put_parts(emit, ring, element, from, at, BOX_REGISTERS, false, values);
}
