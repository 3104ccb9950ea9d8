/* SPDX-License-Identifier: Apache-2.0
 *
 * The geometry of a convolution, which is read from its op. All kernels of convolutions use it.
 *
 * Images are [N, H, W, C], filters [KH, KW, C / groups, F], results [N, OH, OW, F].
 */
#ifndef TSR_COMPILER_TILE_CONV_CONV_H
#define TSR_COMPILER_TILE_CONV_CONV_H

#include "compiler/tile/products/gemm.h"

enum { TSR_CONV_Y, TSR_CONV_X };

/* An axis, H or W: window i covers image positions i * stride + t * dilation - low, t = 0 ... taps
 * - 1. */
typedef struct tsr_conv_axis {
    int64_t image, result, taps, stride, dilation, low;
} tsr_conv_axis;

typedef struct tsr_conv {
    tsr_tile_group *group;
    tsr_gemm_words words;
    tsr_dtype dtype, compute;
    int64_t images, channels, filters, groups;
    int64_t group_channels, group_filters;
    tsr_conv_axis axes[2];
    MlirValue a, b, result; /* buffers of operands 0 and 1 and of the result */
    MlirType storage;       /* storage type of the computation */
    int64_t strip;   /* width of the strips of the filter, operand 1; 0: the filter has no strips */
    tsr_type filter; /* if the filter is in strips: its own type */
} tsr_conv;

typedef enum tsr_conv_kind {
    TSR_CONV_FORWARD,
    TSR_CONV_OF_INPUT,
    TSR_CONV_OF_FILTER
} tsr_conv_kind;

/* Fails with TSR_INTERNAL if the group is not a convolution of this kind. */
TSR_RESULT tsr_conv_read(tsr_tile_group *group, tsr_conv_kind kind, tsr_conv *out_conv);

/* True if the result has no elements. */
bool tsr_conv_is_empty(const tsr_conv *conv);
/* True if there is one tap, no stride and no padding. The images can then become one row of
 * positions, which tsr_conv_flatten does. */
bool tsr_conv_is_pointwise(const tsr_conv *conv);
void tsr_conv_flatten(tsr_conv *conv);
/* True if each group has one channel in and out. Vectors then contain channels. */
bool tsr_conv_is_depthwise(const tsr_conv *conv);
TSR_RESULT tsr_conv_depthwise(tsr_conv *conv, tsr_conv_kind kind);

/* The layout of the results of a product over gathered rows, along H or W. Point t of phase r is
 * position r + t * phases of the result; its tap j reads position first[r] + t * stride + j * step
 * of A, and element tap_first[r] + j * tap_step of the filter. A phase contains the positions that
 * the same taps reach. There is one phase, except for the gradient of an image if there is a
 * stride. */
typedef struct tsr_conv_walk {
    int64_t phases, positions, a_positions; /* positions of the result, and of A */
    int64_t stride, step, tap_step;
    int64_t taps;                                 /* maximum over the phases */
    const int64_t *first, *tap_first, *tap_count; /* per phase */
} tsr_conv_walk;

/* Makes the walk of the forward product, or of the image's gradient. Fails with TSR_MEMORY. */
TSR_RESULT tsr_conv_walk_make(tsr_conv *conv, const tsr_conv_axis *axis, tsr_conv_kind kind,
                              tsr_conv_walk *out_walk);
/* Finds the windows along an axis whose tap t is inside the image: low[t] ... high[t] - 1. Fails
 * with TSR_MEMORY. */
TSR_RESULT tsr_conv_windows(tsr_conv *conv, const tsr_conv_axis *axis, const int64_t **out_low,
                            const int64_t **out_high);
/* The positions of a sum over two axes, in blocks that are chains of multiply-adds: several rows of
 * positions, or parts of a row. Blocks follow from the shapes alone. */
typedef struct tsr_conv_blocks {
    int64_t rows, columns; /* maximum size of a block */
    int64_t parts;         /* parts of a row */
    int64_t count;         /* maximum number of blocks of one walk */
    bool many; /* the sums of blocks are added like the sums of chunks (tree.h); otherwise the chain
                  continues from block to block */
} tsr_conv_blocks;
/* Makes the blocks of `times` successive walks over rows x columns. */
tsr_conv_blocks tsr_conv_blocks_make(int64_t times, int64_t rows, int64_t columns);
/* low[] and high[] of the current block, and its number. */
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
