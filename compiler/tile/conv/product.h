/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions that the files of families `conv2d` and `conv2d_grad_input` share.
 */
#ifndef TSR_COMPILER_TILE_CONV_PRODUCT_H
#define TSR_COMPILER_TILE_CONV_PRODUCT_H

#include "compiler/tile/conv/conv.h"

typedef enum tsr_conv_source { TSR_CONV_PATCH, TSR_CONV_TAPS, TSR_CONV_DIRECT } tsr_conv_source;

/* Positions low ... high - 1 of a tile. */
typedef struct tsr_conv_range {
    int64_t low, high;
} tsr_conv_range;
enum { TSR_CONV_RANGES_MAX = 8 };

typedef struct tsr_conv_product {
    tsr_conv conv;
    tsr_conv_kind kind;
    tsr_conv_walk walks[2];
    int64_t a_channels, a_total; /* channels of one group; of A */
    int64_t columns, total;      /* columns of one group; of the result */
    /* the plan */
    uint32_t lanes, vectors;
    int64_t width, panels, tile_rows;
    int64_t edge;           /* columns of the last panel; 0: full width */
    int64_t program_panels; /* panels of a program, which share its patch */
    int64_t channel_block, channel_blocks;
    int64_t strip_rows; /* rows of the filter, if it is in strips */
    int64_t tap_rows;   /* rows of a block of taps */
    bool whole_runs;    /* the taps of a row and their channels are contiguous in A and in the
                           panel */
    tsr_conv_source source;
    int64_t block[2];     /* positions of a block */
    int64_t patch[2];     /* rows and columns of the patch */
    int64_t program_rows; /* positions of a program along H */
    bool partial;         /* there are several blocks of K */
    int64_t chunks;       /* blocks of K whose sums are added (tree.h); 0: one chain */
    bool slides;          /* a tile that would extend beyond its row begins earlier instead */
    bool flat;            /* positions of a block are one row */
    /* inner: some tiles have all taps of a row; border: other tiles exist. The positions of a
     * border tile that have a tap are one of the ranges. If there would be too many ranges,
     * range_count is 0, and each position has its own loop. */
    bool inner, border;
    tsr_conv_range ranges[TSR_CONV_RANGES_MAX];
    uint32_t range_count;
    /* strides of A as tiles read it, in elements */
    int64_t position_step[2], tap_step[2];
    /* emission */
    MlirValue patch_local, panel, scratch;
    MlirValue carries;                /* carries of the current chunk */
    MlirValue image, group, phase[2]; /* indices of the program */
    MlirValue first[2], taps[2], tap_first[2];
    MlirValue points[2];           /* number of points of the phase */
    MlirValue begin[2];            /* first position of the block */
    MlirValue first_panel;         /* first panel of the program */
    MlirValue panel_index, column; /* index after first_panel; first column */
    uint32_t panel_vectors;        /* vectors of a row of the panel's tiles */
    int64_t panel_edge;            /* columns of the panel; 0: full width */
} tsr_conv_product;

/* The maximum number of positions of a phase. */
static inline int64_t tsr_conv_points(const tsr_conv_product *p, int axis) {
    const tsr_conv_walk *walk = &p->walks[axis];
    return (walk->positions + walk->phases - 1) / walk->phases;
}

/* A block of K. */
typedef struct tsr_conv_k {
    MlirValue channel, channels; /* the first channel, and the number of channels */
    MlirValue tap, taps;         /* the first row of taps, and the number of rows */
} tsr_conv_k;

/* True if all taps are inside the image. */
bool tsr_conv_covers(const tsr_conv_walk *walk);
/* Fails with TSR_COMPILE if a row of the filter's taps is too wide. */
TSR_RESULT tsr_conv_plan(tsr_conv_product *p);
/* The number of slots of partial sums. */
int64_t tsr_conv_slots(const tsr_conv_product *p);
/* The number of positions of a block for which partial sums are kept. */
int64_t tsr_conv_scratch_positions(const tsr_conv_product *p);

/* The number of elements of the patch, with padding for the end of the last vector. */
int64_t tsr_conv_patch_size(const tsr_conv_product *p);
/* Copies the elements that the taps of the block reach, from `channel` on, to the patch. */
void tsr_conv_fill_patch(tsr_conv_product *p, MlirValue channel);

/* Multiplies a tile over the block of K; positions (y, x) count from the block's first position. */
void tsr_conv_multiply(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x,
                       MlirValue *accumulators);
/* The number of positions of a flat block: its existing rows, times their length. */
MlirValue tsr_conv_flat_end(tsr_conv_product *p);
MlirValue tsr_conv_times(tsr_tile_builder *b, MlirValue x, MlirValue y);

#endif
