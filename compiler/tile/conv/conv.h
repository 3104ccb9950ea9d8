/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of convolutions share: the geometry of one, read from its op.
 *
 * Images are [N, H, W, C], filters [KH, KW, C / groups, F], results [N, OH, OW, F].
 */
#ifndef TSR_COMPILER_TILE_CONV_CONV_H
#define TSR_COMPILER_TILE_CONV_CONV_H

#include "compiler/tile/gemm.h"

enum { TSR_CONV_Y, TSR_CONV_X };

/* Along H or W: window i covers image positions i * stride + t * dilation - low, t = 0 ... taps
 * - 1.
 */
typedef struct tsr_conv_axis {
    int64_t image, result, taps, stride, dilation, low;
} tsr_conv_axis;

typedef struct tsr_conv {
    tsr_tile_group *group;
    tsr_dtype dtype, compute;
    int64_t images, channels, filters, groups;
    int64_t group_channels, group_filters;
    tsr_conv_axis axes[2];
    MlirValue a, b, result; /* buffers: operands 0 and 1 of the op, its result */
    MlirType storage;       /* of what is computed with */
    int64_t strip;          /* the filter, operand 1, lies in strips so wide; 0: it does not */
    tsr_type filter;        /* then: its own type */
} tsr_conv;

typedef enum tsr_conv_kind {
    TSR_CONV_FORWARD,
    TSR_CONV_OF_INPUT,
    TSR_CONV_OF_FILTER
} tsr_conv_kind;

/* TSR_INTERNAL where the group is no such convolution. */
TSR_RESULT tsr_conv_read(tsr_tile_group *group, tsr_conv_kind kind, tsr_conv *out_conv);

/* Nothing is to be computed. */
bool tsr_conv_is_empty(const tsr_conv *conv);
/* One tap, no stride, no padding: the images are one row of positions, as tsr_conv_flatten makes
 * them.
 */
bool tsr_conv_is_pointwise(const tsr_conv *conv);
void tsr_conv_flatten(tsr_conv *conv);
/* One channel in and out of each group: vectors lie along the channels. */
bool tsr_conv_is_depthwise(const tsr_conv *conv);
TSR_RESULT tsr_conv_depthwise(tsr_conv *conv, tsr_conv_kind kind);

/* Along H or W, how the results of a product over gathered rows lie. Point t of phase r is position
 * r + t * phases of what is computed; its tap j reads position first[r] + t * stride + j * step of
 * A, and element tap_first[r] + j * tap_step of the filter. A phase is the positions that the same
 * taps reach: one, but for the gradient of an image under a stride. */
typedef struct tsr_conv_walk {
    int64_t phases, positions, a_positions; /* positions of the result, and of A */
    int64_t stride, step, tap_step;
    int64_t taps;                                 /* of the phase that has most */
    const int64_t *first, *tap_first, *tap_count; /* per phase */
} tsr_conv_walk;

/* The walk of the forward product, and of the image's gradient. TSR_MEMORY. */
TSR_RESULT tsr_conv_walk_make(tsr_conv *conv, const tsr_conv_axis *axis, tsr_conv_kind kind,
                              tsr_conv_walk *out_walk);
/* Along an axis, the windows whose tap t lies inside the image: low[t] ... high[t] - 1. TSR_MEMORY.
 */
TSR_RESULT tsr_conv_windows(tsr_conv *conv, const tsr_conv_axis *axis, const int64_t **out_low,
                            const int64_t **out_high);
/* The positions of a sum over two axes, in blocks that are chains of multiply-adds: rows of them,
 * or parts of a row. From the shapes alone. */
typedef struct tsr_conv_blocks {
    int64_t rows, columns; /* of a block, at most */
    int64_t parts;         /* of a row */
    int64_t count;         /* of one walk, at most */
    bool many; /* the sums of blocks are added as those of chunks are (tree.h); else the chain goes
                  on from block to block */
} tsr_conv_blocks;
/* Of `times` walks over rows x columns, one after the other. */
tsr_conv_blocks tsr_conv_blocks_make(int64_t times, int64_t rows, int64_t columns);
/* low[] and high[] of the block at hand, and its number. */
typedef struct tsr_conv_block {
    MlirValue low[2], high[2], number;
} tsr_conv_block;
/* Walks low ... high - 1 of both axes; `first` is the number of the walk's first block. */
void tsr_conv_blocks_walk(tsr_tile_builder *b, const tsr_conv_blocks *blocks,
                          const MlirValue low[2], const MlirValue high[2], MlirValue first,
                          void (*visit)(void *user, const tsr_conv_block *block), void *user);
/* table[phase] as an index; the phase may be known. */
MlirValue tsr_conv_lookup(tsr_conv *conv, const int64_t *table, int64_t phases, MlirValue phase);

#endif
