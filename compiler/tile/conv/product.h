/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of families `conv2d` and `conv2d_grad_input` share.
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
    int64_t a_channels, a_total; /* of one group; of A */
    int64_t columns, total;      /* of one group; of the result */
    /* the plan */
    uint32_t lanes, vectors;
    int64_t width, panels, tile_rows;
    int64_t edge;           /* columns of the last panel; 0: as wide as all */
    int64_t program_panels; /* of a program: they share its patch */
    int64_t channel_block, channel_blocks;
    int64_t strip_rows; /* of the filter, where it lies in strips */
    int64_t tap_rows;   /* of a block of taps */
    bool whole_runs;    /* taps of a row and channels are one run of A and of the panel */
    tsr_conv_source source;
    int64_t block[2];     /* positions of a block */
    int64_t patch[2];     /* rows and columns of the patch */
    int64_t program_rows; /* positions of a program along H */
    bool partial;         /* several blocks of K */
    int64_t chunks;       /* blocks of K whose sums are added (tree.h); 0: one chain */
    bool slides;          /* a tile that would reach beyond its row begins earlier instead */
    bool flat;            /* positions of a block are one row */
    /* Tiles that have all taps of a row, and others, whose positions that have a tap are one of the
     * ranges; none: there would be too many, and each position has its own loop. */
    bool inner, border;
    tsr_conv_range ranges[TSR_CONV_RANGES_MAX];
    uint32_t range_count;
    /* strides of A as tiles read it, in elements */
    int64_t position_step[2], tap_step[2];
    /* emission */
    MlirValue patch_local, panel, scratch;
    MlirValue carries;                /* of the chunk at hand */
    MlirValue image, group, phase[2]; /* of the program */
    MlirValue first[2], taps[2], tap_first[2];
    MlirValue points[2];           /* of the phase */
    MlirValue begin[2];            /* of the block */
    MlirValue first_panel;         /* of the program */
    MlirValue panel_index, column; /* of the panel: counted from the first; where it begins */
    uint32_t panel_vectors;        /* of a row of its tiles */
    int64_t panel_edge;            /* columns it has; 0: its width */
} tsr_conv_product;

/* Positions of a phase, the one that has most. */
static inline int64_t tsr_conv_points(const tsr_conv_product *p, int axis) {
    const tsr_conv_walk *walk = &p->walks[axis];
    return (walk->positions + walk->phases - 1) / walk->phases;
}

/* A block of K. */
typedef struct tsr_conv_k {
    MlirValue channel, channels; /* first, and how many */
    MlirValue tap, taps;         /* first row of taps, and how many */
} tsr_conv_k;

/* No tap lies beside the image. */
bool tsr_conv_covers(const tsr_conv_walk *walk);
/* TSR_COMPILE where a row of the filter's taps is too wide. */
TSR_RESULT tsr_conv_plan(tsr_conv_product *p);
/* Slots of partial sums. */
int64_t tsr_conv_slots(const tsr_conv_product *p);
/* Positions of a block that partial sums are kept for. */
int64_t tsr_conv_scratch_positions(const tsr_conv_product *p);

/* Elements of the patch, with what the last vector is too long. */
int64_t tsr_conv_patch_size(const tsr_conv_product *p);
/* What the taps of the block reach, channels `channel` … of the block, to the patch. */
void tsr_conv_fill_patch(tsr_conv_product *p, MlirValue channel);

/* A tile's products over the block of K; positions (y, x) count from the block's first. */
void tsr_conv_multiply(tsr_conv_product *p, const tsr_conv_k *k, MlirValue y, MlirValue x,
                       MlirValue *accumulators);
/* The positions of a flat block: rows of it that are there, times their length. */
MlirValue tsr_conv_flat_end(tsr_conv_product *p);
MlirValue tsr_conv_times(tsr_tile_builder *b, MlirValue x, MlirValue y);

#endif
