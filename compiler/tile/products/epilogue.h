/* SPDX-License-Identifier: Apache-2.0
 *
 * The epilogue of a product: the ops after it, computed and stored tile by tile. An epilogue is a
 * region over the product's result, whose rows and columns are the last dimensions of a space. A
 * tile's sums are in registers. If the epilogue has long computations, such as functions, it is
 * computed row by row from a local buffer, all vectors of a row at once, so that the chains of
 * several vectors run concurrently. If it reads many operands in addition to the product, it may be
 * deferred until the next tile multiplies, and is then computed vector by vector between the
 * multiplications.
 */
#ifndef TSR_COMPILER_TILE_PRODUCTS_EPILOGUE_H
#define TSR_COMPILER_TILE_PRODUCTS_EPILOGUE_H

#include "compiler/tile/region.h"

typedef struct tsr_epilogue {
    tsr_region *region;
    tsr_node *given; /* the result of the product */
    const tsr_view *outputs;
    tsr_dtype dtype;    /* type of the result */
    bool dots;          /* the sums come from dot.h */
    MlirValue rows;     /* the local buffer; null: values stay in registers */
    MlirValue deferred; /* the local buffer of deferred sums; null: no sums are deferred */
} tsr_epilogue;

typedef struct tsr_epilogue_tile {
    tsr_point point; /* indices of the batch, with the lanes of a vector */
    MlirValue row, column;
    int64_t rows;
    uint32_t vectors;
    int64_t columns;        /* their number, if the last vector has unused lanes; else 0 */
    const MlirValue *masks; /* masks of the vectors; null: all lanes */
    const MlirValue *sums;  /* row by row */
} tsr_epilogue_tile;

/* True if the region has long computations. Call it after tsr_region_levels. */
bool tsr_epilogue_computes(const tsr_region *region);
/* Makes the local buffer, if it saves time, for tiles of `sums` sums. */
void tsr_epilogue_begin(tsr_epilogue *epilogue, int64_t sums);
/* Outputs may be in the same memory as operands of the same shape. */
TSR_RESULT tsr_epilogue_finish(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile);
/* The number of operands that are as large as the result. Call it after tsr_region_levels. */
int64_t tsr_epilogue_large_operands(const tsr_region *region, const tsr_space *space);
/* Makes the local buffer of the next two functions, for tiles of `sums` sums. */
void tsr_epilogue_begin_deferred(tsr_epilogue *epilogue, int64_t sums);
/* Stores the sums of a whole tile for later. */
void tsr_epilogue_defer(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile);
/* Computes and stores one vector of row number `row` of the deferred sums. Each vector must be
 * finished once. */
void tsr_epilogue_finish_deferred(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile,
                                  MlirValue row, uint32_t vector);
/* Prefetches large operands before the tile is computed. */
void tsr_epilogue_prefetch(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile);
/* Prefetches one row of large operands, and of the outputs, so that few lines are in flight at
 * once. */
void tsr_epilogue_prefetch_row(const tsr_epilogue *epilogue, const tsr_epilogue_tile *tile,
                               MlirValue row);

#endif
