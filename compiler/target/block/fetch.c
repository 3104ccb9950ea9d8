/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.load_fragment: a fragment that the copy engine loads box by box, to the slots that results
 * leave from. The first thread of each warp group requests one box for each slot before the program
 * multiplies, and each later box when the previous contents of its slot have left. The warp that
 * reads 16 rows of a box puts its results into the same rows: no other warp needs to wait for that.
 */
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"
#include "compiler/target/block/sizes.h"

#include <stdio.h>

enum {
    BOX_BYTES = GROUP_ROWS * TSR_BLOCK_SWIZZLE_BYTES,
    PARTS = 4, /* parts of a box: one ldmatrix reads one part */
    PART_PAIRS = 4,
};

static MlirValue ring_of(MlirOperation op) {
    return tsr_op_operand(op, tsr_op_operand_count(op) - 1);
}

static tsr_boxes boxes_of(tsr_emit *emit, MlirOperation op) {
    int64_t dims[2] = {0};
    bool is_acc = false;
    MlirType element;
    tsr_shim_tile_fragment(mlirValueGetType(tsr_op_result(op, 0)), dims, &element, &is_acc);
    tsr_layout layout = tsr_block_layout(emit, dims[0], dims[1]);
    return tsr_block_boxes(tsr_block_ring(emit, ring_of(op)), &layout);
}

tsr_result tsr_block_plan_fetch(tsr_emit *emit, MlirOperation op) {
    tsr_block *block = emit->block;
    const tsr_ring *ring = tsr_block_ring(emit, ring_of(op));
    if (!block->has_tma || !mlirOperationIsNull(block->fetch.op))
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s' loads %s; expected %s", emit->kernel,
             block->has_tma ? "more than one fragment" : "a fragment",
             block->has_tma ? "one" : "'sm_90a'");
    block->fetch.op = op;
    block->fetch.slots = ring->stages * ring->rows / GROUP_ROWS / block->groups;
    return TSR_SUCCESS;
}

/* The barrier of the warp group's slot of box `number`. */
static LLVMValueRef barrier_of(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number) {
    LLVMBuilderRef b = emit->builder;
    const tsr_block *block = emit->block;
    LLVMValueRef group = LLVMBuildUDiv(b, block->warp, tsr_block_int(emit, GROUP_WARPS), "");
    if (block->teams > 1)
        group = LLVMBuildAdd(b, group, tsr_block_mul(emit, block->team, block->groups), "");
    LLVMValueRef first = tsr_block_mul(emit, group, (int64_t)boxes->slots * BARRIER_BYTES);
    first = LLVMBuildAdd(b, first, block->shared, "");
    return tsr_block_add(emit, first,
                         block->fetch.full_at + (int64_t)(number % boxes->slots) * BARRIER_BYTES);
}

static void ask_box(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number) {
    LLVMBuilderRef b = emit->builder;
    MlirOperation op = emit->block->fetch.op;
    size_t rank = tsr_op_operand_count(op) - 2;
    LLVMValueRef at[TSR_FATBIN_MAP_RANK_MAX];
    tsr_ring box = {
        .rows = GROUP_ROWS, .columns = boxes->columns, .element_bytes = boxes->ring->element_bytes};
    for (size_t d = 0; d < rank; d++)
        at[d] = LLVMBuildTrunc(b, tsr_emit_operand(emit, op, rank - d), tsr_block_i32(emit), "");
    at[0] = tsr_block_add(emit, at[0], (int64_t)(number % boxes->row_boxes) * boxes->columns);
    at[1] = LLVMBuildAdd(b, at[1], tsr_block_group_row(emit, boxes), "");
    at[1] = tsr_block_add(emit, at[1], (int64_t)(number / boxes->row_boxes) * GROUP_ROWS);
    int64_t offset = 0;
    LLVMValueRef to = tsr_block_box_slot(emit, boxes, number, &offset);
    LLVMValueRef barrier = barrier_of(emit, boxes, number);
    tsr_block_expect(emit, barrier, BOX_BYTES);
    tsr_block_copy_boxes(emit, tsr_op_operand(op, 0), at, &box, tsr_block_add(emit, to, offset),
                         barrier, NULL);
}

void tsr_block_emit_fetch(tsr_emit *emit, MlirOperation op) {
    LLVMBuilderRef b = emit->builder;
    tsr_boxes boxes = boxes_of(emit, op);
    LLVMValueRef lane =
        LLVMBuildAnd(b, emit->block->thread, tsr_block_int(emit, TSR_BLOCK_GROUP - 1), "");
    LLVMBasicBlockRef rest =
        tsr_block_if(emit, LLVMBuildICmp(b, LLVMIntEQ, lane, tsr_block_int(emit, 0), ""), "ask");
    tsr_block_asm(emit, NULL, "cp.async.bulk.wait_group.read 0;", "~{memory}", NULL, 0);
    for (uint32_t i = 0; i < boxes.slots && i < boxes.all; i++) ask_box(emit, &boxes, i);
    tsr_block_end_if(emit, rest);
}

void tsr_block_fetch_next(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number) {
    /* While other slots are free, do not wait until the copy that just began has read its slot. */
    uint32_t left = boxes->slots > 2, next = number - left + boxes->slots;
    char text[64];
    if (number < left || next >= boxes->all) return;
    snprintf(text, sizeof text, "cp.async.bulk.wait_group.read %u;", left);
    tsr_block_asm(emit, NULL, text, "~{memory}", NULL, 0);
    ask_box(emit, boxes, next);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Loads four matrices of 8 x 8 to two values for each of four registers: the data that put_part of
 * box.c writes. */
static void read_part(tsr_emit *emit, LLVMValueRef address, MlirType element,
                      LLVMValueRef *out_values) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = tsr_block_i32(emit), f32 = LLVMFloatTypeInContext(emit->llvm);
    LLVMTypeRef types[] = {i32, i32, i32, i32};
    LLVMValueRef whole =
        tsr_block_asm(emit, LLVMStructTypeInContext(emit->llvm, types, PART_PAIRS, false),
                      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];",
                      "=r,=r,=r,=r,r,~{memory}", &address, 1);
    for (unsigned i = 0; i < PART_PAIRS; i++) {
        LLVMValueRef pair = LLVMBuildExtractValue(b, whole, i, "");
        for (unsigned e = 0; e < 2; e++) {
            LLVMValueRef value = pair;
            if (mlirTypeIsABF16(element)) {
                value = e ? LLVMBuildAnd(b, pair, tsr_block_int(emit, 0xffff0000), "")
                          : LLVMBuildShl(b, pair, tsr_block_int(emit, 16), "");
                value = LLVMBuildBitCast(b, value, f32, "");
            } else {
                LLVMTypeRef halves = LLVMVectorType(LLVMHalfTypeInContext(emit->llvm), 2);
                value = LLVMBuildBitCast(b, pair, halves, "");
                value = LLVMBuildExtractElement(b, value, tsr_block_int(emit, e), "");
                value = LLVMBuildFPExt(b, value, f32, "");
            }
            out_values[2 * i + e] = value;
        }
    }
}

void tsr_block_take_box(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number,
                        LLVMValueRef *out_values) {
    LLVMBuilderRef b = emit->builder;
    tsr_block_fetch *fetch = &emit->block->fetch;
    uint32_t slot = number % boxes->slots;
    uint32_t uses = (boxes->all - slot + boxes->slots - 1) / boxes->slots; /* uses by one program */
    int64_t offset = 0;
    LLVMValueRef parity = tsr_block_mul(emit, tsr_block_get(emit, fetch->programs), uses);
    parity = tsr_block_add(emit, parity, number / boxes->slots);
    parity = LLVMBuildAnd(b, parity, tsr_block_int(emit, 1), "");
    tsr_block_wait(emit, barrier_of(emit, boxes, number), parity);
    LLVMValueRef from = tsr_block_box_slot(emit, boxes, number, &offset);
    MlirType element = mlirShapedTypeGetElementType(mlirValueGetType(tsr_op_operand(fetch->op, 0)));
    if (mlirTypeIsAF32(element)) {
        tsr_block_get_wide(emit, boxes->ring, from, offset, out_values);
        return;
    }
    for (unsigned p = 0; p < PARTS; p++) {
        LLVMValueRef address = tsr_block_part_address(emit, boxes->ring, from, p);
        read_part(emit, tsr_block_add(emit, address, offset), element,
                  out_values + (size_t)2 * PART_PAIRS * p);
    }
}
