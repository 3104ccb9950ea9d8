/* SPDX-License-Identifier: Apache-2.0
 *
 * Fragments "acc": which elements a thread holds, and in which registers.
 */
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"
#include "compiler/target/block/sizes.h"

/* mma.sync, MFMA and WMMA: the warps (waves) form two columns if that makes their parts squarer. */
static uint32_t warp_columns(uint32_t warps, int64_t rows, int64_t columns) {
    bool fits = columns % 32 == 0 && warps % 2 == 0 && rows % (BLOCK_ROWS * warps / 2) == 0;
    return fits && columns > rows / warps ? 2 : 1;
}

/* Blocks of 16 x 16. A lane holds adjacent columns of one row, because the units of AMD compute the
 * transposed product (wave.c). */
static void position_of_lane_in_wave(tsr_emit *emit, tsr_layout *l) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef rows = tsr_block_int(emit, BLOCK_ROWS);
    l->pair_rows = 0;
    l->pair_columns = 2;
    l->row = LLVMBuildAdd(b, l->warp_row, LLVMBuildURem(b, emit->lane, rows, ""), "");
    l->column = tsr_block_mul(emit, LLVMBuildUDiv(b, emit->lane, rows, ""), l->block_registers);
    l->column = LLVMBuildAdd(b, l->warp_column, l->column, "");
}

tsr_layout tsr_block_layout(tsr_emit *emit, int64_t rows, int64_t columns) {
    LLVMBuilderRef b = emit->builder;
    const tsr_block *block = emit->block;
    tsr_layout l = {.block_columns = BLOCK_COLUMNS,
                    .block_registers = BLOCK_REGISTERS,
                    .pair_rows = BLOCK_ROWS / HALVES};
    LLVMValueRef warp = block->warp, zero = tsr_block_int(emit, 0);
    if (block->has_wgmma) {
        LLVMValueRef four = tsr_block_int(emit, GROUP_WARPS);
        int64_t group_rows = rows / block->groups;
        l.row_blocks = (uint32_t)(group_rows / GROUP_ROWS);
        l.step = GROUP_ROWS;
        l.column_blocks = (uint32_t)(columns / BLOCK_COLUMNS);
        l.warp_row = tsr_block_mul(emit, LLVMBuildUDiv(b, warp, four, ""), group_rows);
        l.warp_row = LLVMBuildAdd(
            b, l.warp_row, tsr_block_mul(emit, LLVMBuildURem(b, warp, four, ""), BLOCK_ROWS), "");
        l.warp_column = zero;
    } else {
        uint32_t warps = block->waves ? block->waves : block->warps;
        uint32_t per_row = warp_columns(warps, rows, columns);
        int64_t warp_rows = rows / (warps / per_row);
        if (block->waves) {
            l.block_columns = BLOCK_ROWS;
            l.block_registers = BLOCK_ROWS * BLOCK_ROWS / emit->target->wave_lanes;
        }
        LLVMValueRef width = tsr_block_int(emit, per_row);
        l.row_blocks = (uint32_t)(warp_rows / BLOCK_ROWS);
        l.step = BLOCK_ROWS;
        l.column_blocks = (uint32_t)(columns / per_row / l.block_columns);
        l.warp_row = tsr_block_mul(emit, LLVMBuildUDiv(b, warp, width, ""), warp_rows);
        l.warp_column = tsr_block_mul(emit, LLVMBuildURem(b, warp, width, ""), columns / per_row);
    }
    if (block->waves) {
        position_of_lane_in_wave(emit, &l);
        return l;
    }
    LLVMValueRef lane = emit->lane;
    l.row = LLVMBuildAdd(b, l.warp_row, LLVMBuildLShr(b, lane, tsr_block_int(emit, 2), ""), "");
    l.column = LLVMBuildAnd(b, lane, tsr_block_int(emit, 3), "");
    l.column = LLVMBuildAdd(b, l.warp_column, tsr_block_mul(emit, l.column, 2), "");
    return l;
}

tsr_layout tsr_block_layout_of(tsr_emit *emit, MlirValue fragment) {
    int64_t dims[2] = {0};
    bool is_acc = false;
    MlirType element;
    bool known = tsr_shim_tile_fragment(mlirValueGetType(fragment), dims, &element, &is_acc);
    TSR_ASSERT(known);
    return tsr_block_layout(emit, dims[0], dims[1]);
}

unsigned tsr_block_layout_count(const tsr_layout *l) {
    return l->row_blocks * l->column_blocks * l->block_registers;
}

void tsr_block_layout_find(const tsr_layout *l, unsigned number, int64_t *out_row,
                           int64_t *out_column) {
    unsigned block = number / l->block_registers, pair = number % l->block_registers / 2;
    *out_row = (int64_t)(block / l->column_blocks) * l->step + (int64_t)pair * l->pair_rows;
    *out_column =
        (int64_t)(block % l->column_blocks) * l->block_columns + (int64_t)pair * l->pair_columns;
}

void tsr_block_registers(tsr_emit *emit, MlirValue fragment, LLVMValueRef *out_values,
                         unsigned *out_count) {
    tsr_block_wait_products(emit, fragment);
    LLVMValueRef whole = tsr_emit_get(emit, fragment);
    *out_count = LLVMCountStructElementTypes(LLVMTypeOf(whole));
    TSR_ASSERT(*out_count <= TSR_BLOCK_REGISTERS_MAX);
    for (unsigned i = 0; i < *out_count; i++)
        out_values[i] = LLVMBuildExtractValue(emit->builder, whole, i, "");
}

LLVMValueRef tsr_block_pack_registers(tsr_emit *emit, LLVMTypeRef element, LLVMValueRef *values,
                                      unsigned count) {
    LLVMTypeRef types[TSR_BLOCK_REGISTERS_MAX];
    TSR_ASSERT(count <= TSR_BLOCK_REGISTERS_MAX);
    for (unsigned i = 0; i < count; i++) types[i] = element;
    LLVMValueRef whole = LLVMGetPoison(LLVMStructTypeInContext(emit->llvm, types, count, false));
    for (unsigned i = 0; i < count; i++)
        whole = LLVMBuildInsertValue(emit->builder, whole, values[i], i, "");
    return whole;
}

void tsr_block_emit_fill(tsr_emit *emit, MlirOperation op) {
    tsr_layout l = tsr_block_layout_of(emit, tsr_op_result(op, 0));
    LLVMValueRef values[TSR_BLOCK_REGISTERS_MAX], value = tsr_emit_operand(emit, op, 0);
    unsigned count = tsr_block_layout_count(&l);
    TSR_ASSERT(count <= TSR_BLOCK_REGISTERS_MAX);
    for (unsigned i = 0; i < count; i++) values[i] = value;
    tsr_emit_set(emit, op, tsr_block_pack_registers(emit, LLVMTypeOf(value), values, count));
}
