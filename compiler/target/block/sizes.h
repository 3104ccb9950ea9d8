/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes that the hardware's warp groups, fragments and mbarriers have; for this folder's files.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_SIZES_H
#define TSR_COMPILER_TARGET_BLOCK_SIZES_H

#include "compiler/target/block/block.h"

enum {
    WARP_LANES = 32,
    GROUP_WARPS = TSR_BLOCK_GROUP / WARP_LANES,
    GROUP_ROWS = 64,     /* of a product, on a warp group */
    BLOCK_ROWS = 16,     /* of a warp: a row block */
    BLOCK_COLUMNS = 8,   /* of a fragment: a column block */
    BLOCK_REGISTERS = 4, /* of both, in a lane: two rows of two columns */
    HALVES = 2,          /* rows of a lane, 8 apart */
    BOX_COLUMNS = 64,    /* of 16 bits: a swizzled row */
    BOX_REGISTERS = GROUP_ROWS * BOX_COLUMNS / TSR_BLOCK_GROUP,
    BOX_PART_REGISTERS = BOX_REGISTERS / 4, /* that one stmatrix takes, in pairs */
    DEPTH = 16,                             /* of one product of 16 bits */
    BARRIER_BYTES = 8,
};

#endif
