/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/conv/conv.h"
#include "compiler/tile/reductions/tree.h"

/* A block's positions, as a filter's gradient reads them, fit the second-level cache. A chunk has
 * as many positions as a chunk of a long product has steps. */
enum { BLOCK_POSITIONS = 512, CHUNK_POSITIONS = TSR_PRODUCT_CHUNK };

tsr_conv_blocks tsr_conv_blocks_make(int64_t times, int64_t rows, int64_t columns) {
    if (rows < 1) rows = 1; /* no taps: the walk is empty */
    if (columns < 1) columns = 1;
    tsr_conv_blocks blocks = {.columns = columns,
                              .many = tsr_product_is_long(times * rows * columns)};
    int64_t positions = blocks.many ? CHUNK_POSITIONS : BLOCK_POSITIONS;
    blocks.rows = columns < positions ? positions / columns : 1;
    if (blocks.many && columns > positions) blocks.columns = positions;
    blocks.parts = tsr_divide_up(columns, blocks.columns);
    blocks.count = tsr_divide_up(rows, blocks.rows) * blocks.parts;
    return blocks;
}

void tsr_conv_blocks_walk(tsr_tile_builder *b, const tsr_conv_blocks *blocks,
                          const MlirValue low[2], const MlirValue high[2], MlirValue first,
                          void (*visit)(void *user, const tsr_conv_block *block), void *user) {
    tsr_conv_block block = {.low = {low[0], low[1]}, .high = {high[0], high[1]}};
    tsr_tile_loop columns;
    TSR_TILE_FOR(b, rows, low[0], high[0], blocks->rows) {
        block.low[0] = rows.index;
        block.high[0] = tsr_tile_min(b, tsr_tile_offset(b, rows.index, blocks->rows), high[0]);
        MlirValue row = tsr_tile_div(b, tsr_tile_sub(b, rows.index, low[0]), blocks->rows);
        block.number = tsr_tile_add(b, first, tsr_tile_mul(b, row, blocks->parts));
        if (blocks->parts > 1) {
            tsr_tile_loop_begin(b, &columns, low[1], high[1], blocks->columns, 0, NULL);
            block.low[1] = columns.index;
            block.high[1] =
                tsr_tile_min(b, tsr_tile_offset(b, columns.index, blocks->columns), high[1]);
            MlirValue part =
                tsr_tile_div(b, tsr_tile_sub(b, columns.index, low[1]), blocks->columns);
            block.number = tsr_tile_add(b, block.number, part);
        }
        visit(user, &block);
        if (blocks->parts > 1) tsr_tile_loop_end(b, &columns, NULL);
    }
}
