/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the kernels of cross entropy: cross_entropy.c for every target,
 * cross_entropy_lanes.c for native numerics.
 */
#ifndef TSR_COMPILER_TILE_ROWS_CROSS_ENTROPY_H
#define TSR_COMPILER_TILE_ROWS_CROSS_ENTROPY_H

#include "compiler/tile/reductions/reduce.h"

typedef struct tsr_cross_entropy {
    tsr_tile_group *group;
    tsr_reduction max, sum;      /* arithmetic of the reductions */
    tsr_dtype from, dtype, into; /* logits: stored, and as the op reads them; stored result */
    int64_t count, classes;
    uint32_t all, lanes; /* lanes of all partial results; lanes of a vector */
    MlirValue powers;    /* exponentials of a row; null: computed again */
    MlirValue logits, labels;
    int64_t labels_argument;
    tsr_dtype labels_dtype;
    MlirValue row, start; /* this row; the offset of its logits */
    MlirValue label, valid;
    MlirValue highest, total; /* m, s */
    MlirValue share;          /* 1 / s */
    bool streamed, shifted;   /* the gradient bypasses the caches; cache lines begin in rows */
    MlirValue scale;          /* dloss */
    bool by_lanes;
    MlirValue resident; /* a row's logits, in shared memory; null: they are read again */
    MlirValue next;     /* the offset of the next row's logits; null: not needed */
    bool ahead; /* the walk over this row's exponentials also finds the next row's largest logit */
    MlirValue next_highest;
    tsr_tile_loop loop; /* the loop over rows */
} tsr_cross_entropy;

/* x at the label, or in the first column if the label is invalid, minus m; *out_at: its offset. */
MlirValue tsr_cross_entropy_picked(tsr_cross_entropy *r, MlirValue *out_at);

/* cross_entropy_lanes.c: true if lanes of several warps can process a row together. */
bool tsr_cross_entropy_by_lanes(tsr_cross_entropy *r);
/* Begins the program's loop over rows; fetches the first row if shared memory holds rows. */
void tsr_cross_entropy_begin_lanes(tsr_cross_entropy *r, tsr_tile_loop *loop);
/* Sets m and s. */
void tsr_cross_entropy_walk_lanes(tsr_cross_entropy *r);
/* Needs m, s and dloss. */
void tsr_cross_entropy_store_lanes(tsr_cross_entropy *r);
/* Sets the attributes of the kernel; called when its body is complete. */
void tsr_cross_entropy_end_lanes(tsr_cross_entropy *r);

#endif
