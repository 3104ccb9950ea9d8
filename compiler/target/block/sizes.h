/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of the hardware's warp groups, fragments and mbarriers, for this folder's files.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_SIZES_H
#define TSR_COMPILER_TARGET_BLOCK_SIZES_H

#include "compiler/target/block/block.h"

enum {
    WARP_LANES = 32,
    GROUP_WARPS = TSR_BLOCK_GROUP / WARP_LANES,
    GROUP_ROWS = 64,     /* rows of a product on a warp group */
    BLOCK_ROWS = 16,     /* rows of a warp: a row block */
    BLOCK_COLUMNS = 8,   /* columns of a fragment: a column block */
    BLOCK_REGISTERS = 4, /* registers of one block per lane: two rows of two columns */
    HALVES = 2,          /* rows of a lane, 8 apart */
    BOX_COLUMNS = 64,    /* columns of 16 bits: a swizzled row */
    BOX_REGISTERS = GROUP_ROWS * BOX_COLUMNS / TSR_BLOCK_GROUP,
    BOX_PART_REGISTERS = BOX_REGISTERS / 4, /* registers stored by one stmatrix, as pairs */
    DEPTH = 16,                             /* depth of one product of 16 bits */
    BARRIER_BYTES = 8,
};

#endif
