/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings of a program, and their places in shared memory.
 */
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"

#include <string.h>

uint32_t tsr_block_element_bytes(MlirType element) { return mlirTypeIsAF32(element) ? 4 : 2; }

tsr_result tsr_block_add_ring(tsr_emit *emit, MlirOperation op) {
    int64_t dims[3] = {0};
    MlirType element;
    tsr_block *block = emit->block;
    MlirValue value = tsr_op_result(op, 0);
    bool known = tsr_shim_tile_shared(mlirValueGetType(value), dims, &element);
    TSR_ASSERT(known);
    if (block->ring_count == TSR_BLOCK_RINGS_MAX)
        FAIL(emit->ctx, TSR_COMPILE, "kernel '%s' has more than %d rings", emit->kernel,
             TSR_BLOCK_RINGS_MAX);
    tsr_ring *ring = &block->rings[block->ring_count++];
    *ring = (tsr_ring){.value = value,
                       .stages = (uint32_t)dims[0],
                       .rows = (uint32_t)dims[1],
                       .columns = (uint32_t)dims[2],
                       .element_bytes = tsr_block_element_bytes(element),
                       .swizzled = strcmp(tsr_op_string(op, "swizzle"), "xor") == 0};
    uint32_t bytes = ring->stages * ring->rows * ring->columns * ring->element_bytes;
    ring->team_bytes =
        (bytes + TSR_BLOCK_RING_ALIGN - 1) / TSR_BLOCK_RING_ALIGN * TSR_BLOCK_RING_ALIGN;
    return TSR_SUCCESS;
}

static void locate_some(tsr_block *block, bool copied) {
    for (uint32_t i = 0; i < block->ring_count; i++) {
        tsr_ring *ring = &block->rings[i];
        uint32_t bytes = ring->team_bytes;
        if (ring->is_copied_to != copied) continue;
        if (copied || block->teams == 1) ring->team_bytes = 0;
        ring->offset = block->shared_bytes;
        block->shared_bytes += ring->team_bytes ? bytes * block->teams : bytes;
    }
}

/* Stages are shared by the teams; each team has its own copy of all other shared memory. The
 * exchange buffers of programs that share K overlap the stages (sum.c). */
void tsr_block_locate_rings(tsr_block *block) {
    locate_some(block, true);
    uint32_t exchange = (block->exchange_bytes + TSR_BLOCK_RING_ALIGN - 1) / TSR_BLOCK_RING_ALIGN *
                        TSR_BLOCK_RING_ALIGN;
    if (block->shared_bytes < exchange) block->shared_bytes = exchange;
    locate_some(block, false);
}

tsr_ring *tsr_block_find_ring(tsr_block *block, MlirValue value) {
    for (uint32_t i = 0; i < block->ring_count; i++)
        if (mlirValueEqual(block->rings[i].value, value)) return &block->rings[i];
    TSR_ASSERT(!"a ring that is not in the program");
    return NULL;
}

const tsr_ring *tsr_block_ring(tsr_emit *emit, MlirValue value) {
    return tsr_block_find_ring(emit->block, value);
}

void tsr_block_mark_factors(tsr_block *block, MlirOperation mma) {
    for (size_t i = 0; i < 2; i++)
        for (uint32_t r = 0; r < block->ring_count; r++)
            if (mlirValueEqual(block->rings[r].value, tsr_op_operand(mma, i)))
                block->rings[r].is_factor = true;
}
