/* SPDX-License-Identifier: Apache-2.0
 *
 * Which leaves of the virtual ranks a rank runs, and how it sums over them: the partial sums it
 * keeps, and what is added when the next leaf is there. What a rank ends with are the sums of the
 * subtrees of transport/tree.h that hold its leaves.
 */
#ifndef TSR_RUNTIME_LEAVES_H
#define TSR_RUNTIME_LEAVES_H

#include "runtime/base/tensor.h"
#include "runtime/transport/transport.h"
#include "runtime/transport/tree.h"

typedef struct tsr_leaves {
    uint32_t total;        /* V */
    uint32_t first, count; /* of this rank */
    uint32_t rank, rank_count;
} tsr_leaves;

/* Leaves of rank `rank`: all ranks have as many, or one more or less. TSR_USAGE where there are
 * more ranks than leaves, or too many leaves. */
TSR_RESULT tsr_leaves_share(tsr_ctx *ctx, uint64_t total, uint32_t rank, uint32_t rank_count,
                            tsr_leaves *out_leaves);
/* The first leaf of rank `rank`; rank_count: the total. */
uint32_t tsr_leaves_first(const tsr_leaves *leaves, uint32_t rank);

/* How values of this type are summed: f32, f64, else i64. */
tsr_reduction tsr_leaves_reduction(tsr_dtype dtype);

/* What is done when a leaf's summand is there. Slots hold sums; the summand is slot NONE. */
enum { TSR_LEAF_STEPS_MAX = TSR_TREE_DEPTH_MAX, TSR_LEAF_SUMMAND = UINT32_MAX };
typedef struct tsr_leaf_step {
    uint32_t out, a, b; /* slot out <- slot a + slot b */
} tsr_leaf_step;
typedef struct tsr_leaf_fold {
    uint32_t step_count;  /* 0: the summand is copied */
    uint32_t copy_to;     /* the slot, then */
    uint32_t slots_taken; /* afterwards */
    tsr_leaf_step steps[TSR_LEAF_STEPS_MAX];
} tsr_leaf_fold;
/* For leaf `index` of this rank, the leaves before it being folded. */
void tsr_leaves_fold(const tsr_leaves *leaves, uint32_t index, tsr_leaf_fold *out_fold);
/* Slots that are ever taken. */
uint32_t tsr_leaves_count_slots(const tsr_leaves *leaves);

#endif
