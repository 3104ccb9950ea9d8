/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows a product, computed and stored tile by tile: a region over the product's result,
 * whose rows and columns are the last dimensions of a space. A tile's sums are in registers. What
 * is computed of them at length, as functions are, is computed row by row instead, from a local
 * buffer, all vectors of a row at once: so the chains of several vectors run beside one another.
 * And what reads much beside the product may be put by until the next tile multiplies, and computed
 * vector by vector between its multiplications.
 */
#ifndef TSR_COMPILER_TILE_EPILOGUE_H
#define TSR_COMPILER_TILE_EPILOGUE_H

#include "compiler/tile/region.h"

typedef struct tsr_epilogue {
    tsr_region *region;
    tsr_node *given; /* the result of the product */
    const tsr_view *outputs;
    tsr_dtype dtype;    /* of the result */
    bool dots;          /* sums are those of dot.h */
    MlirValue rows;     /* the local buffer; null: from registers */
    MlirValue deferred; /* the local buffer of deferred sums; null: none are deferred */
} tsr_epilogue;

typedef struct tsr_epilogue_tile {
    tsr_point point; /* of the batch, with the lanes of a vector */
    MlirValue row, column;
    int64_t rows;
    uint32_t vectors;
    int64_t columns;        /* of them, where some lanes of the last vector are none; 0: all are */
    const MlirValue *masks; /* of the vectors; null ones: all lanes */
    const MlirValue *sums;  /* row by row */
} tsr_epilogue_tile;

/* Are there functions that are computed at length? After tsr_region_levels. */
bool tsr_epilogue_computes(const tsr_region *region);
/* Makes the local buffer, where it pays, for tiles of so many sums. */
void tsr_epilogue_begin(tsr_epilogue *epilogue, int64_t sums);
/* Outputs may lie over operands of the same shape. */
TSR_RESULT tsr_epilogue_finish(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile);
/* Operands that are as large as the result. After tsr_region_levels. */
int64_t tsr_epilogue_large_operands(const tsr_region *region, const tsr_space *space);
/* Makes the local buffer of the next two functions, for tiles of so many sums. */
void tsr_epilogue_begin_deferred(tsr_epilogue *epilogue, int64_t sums);
/* Stores the sums of a whole tile for later. */
void tsr_epilogue_defer(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile);
/* Computes and stores one vector of the row of number `row` of the deferred sums; each is due once.
 */
void tsr_epilogue_finish_deferred(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile,
                                  MlirValue row, uint32_t vector);
/* Asks for large operands, before the tile is computed. */
void tsr_epilogue_prefetch(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile);
/* Asks for one row of them, and of where results go, so that few lines are on their way at once. */
void tsr_epilogue_prefetch_row(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile,
                               MlirValue row);

#endif
