/* SPDX-License-Identifier: Apache-2.0
 *
 * The leaves of the virtual ranks that a rank runs, and the way in which it sums over them: the
 * partial sums that it keeps, and the additions after each leaf. The results of a rank are the sums
 * of the subtrees of transport/tree.h that contain its leaves.
 */
#ifndef TSR_RUNTIME_LEAVES_H
#define TSR_RUNTIME_LEAVES_H

#include "runtime/base/tensor.h"
#include "runtime/transport/collective.h"
#include "runtime/transport/tree.h"

typedef struct tsr_leaves {
    uint32_t total;        /* V */
    uint32_t first, count; /* leaves of this rank; the positions whose parts it has */
    uint32_t rank, rank_count;
    /* Turns: in turn i the ranks run leaves i W … i W + W - 1, which are a subtree. Otherwise each
     * rank runs consecutive leaves from its first one. */
    bool by_turns;
} tsr_leaves;

/* Computes the leaves of rank `rank`: all ranks have equal numbers of leaves, or they differ by
 * one. TSR_USAGE if there are more ranks than leaves, or too many leaves. */
TSR_RESULT tsr_leaves_share(tsr_ctx *ctx, uint64_t total, uint32_t rank, uint32_t rank_count,
                            tsr_leaves *out_leaves);
/* Returns the first leaf of rank `rank`; for rank_count, the total. */
uint32_t tsr_leaves_first(const tsr_leaves *leaves, uint32_t rank);

/* Returns the number of the `index`-th leaf of this rank. */
uint32_t tsr_leaves_number(const tsr_leaves *leaves, uint32_t index);
/* True if leaves can be distributed by turns: all ranks have the same number of leaves, and the
 * leaves of a turn are a subtree. */
bool tsr_leaves_can_turn(const tsr_leaves *leaves);
/* Gathers `bytes`, which has `leaf_bytes` for each leaf and contains those of the leaves that this
 * rank has run. */
TSR_RESULT tsr_leaves_gather(tsr_ctx *ctx, const tsr_leaves *leaves, tsr_transport *transport,
                             void *bytes, size_t leaf_bytes);
/* Returns the number of bytes that this rank sends in the gather. */
uint64_t tsr_leaves_plan_gather(const tsr_leaves *leaves, const tsr_transport *transport,
                                size_t leaf_bytes);

/* Returns `of` with the leaves that each rank contributes to a sum: of all leaves, or of the leaves
 * of a turn. first_leaf has rank_count + 1 elements and is borrowed by the result. */
tsr_reduce_options tsr_leaves_divide(const tsr_leaves *leaves, tsr_reduce_options of,
                                     uint32_t *first_leaf);

/* Returns the type in which values of this dtype are summed: f32, f64, else i64. */
tsr_reduction tsr_leaves_reduction(tsr_dtype dtype);

/* Additions after a leaf's summand is available. Slots contain sums; the summand has the slot
 * number TSR_LEAF_SUMMAND. */
enum { TSR_LEAF_STEPS_MAX = TSR_TREE_DEPTH_MAX, TSR_LEAF_SUMMAND = UINT32_MAX };
typedef struct tsr_leaf_step {
    uint32_t out, a, b; /* slot out <- slot a + slot b */
} tsr_leaf_step;
typedef struct tsr_leaf_fold {
    uint32_t step_count;  /* 0: the summand is copied */
    uint32_t copy_to;     /* the destination slot of that copy */
    uint32_t slots_taken; /* number of slots in use afterwards */
    tsr_leaf_step steps[TSR_LEAF_STEPS_MAX];
} tsr_leaf_fold;
/* Computes the additions for leaf `index` of this rank, after all leaves before it were folded; by
 * turns: for the sum of turn `index`. */
void tsr_leaves_fold(const tsr_leaves *leaves, uint32_t index, tsr_leaf_fold *out_fold);
/* Returns the number of slots that are ever used. */
uint32_t tsr_leaves_count_slots(const tsr_leaves *leaves);

#endif
