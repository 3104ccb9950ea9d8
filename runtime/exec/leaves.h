/* SPDX-License-Identifier: Apache-2.0
 *
 * Which leaves of the virtual ranks a rank runs, and how it sums over them: the partial sums it
 * keeps, and what is added when the next leaf is there. What a rank ends with are the sums of the
 * subtrees of transport/tree.h that hold its leaves.
 */
#ifndef TSR_RUNTIME_LEAVES_H
#define TSR_RUNTIME_LEAVES_H

#include "runtime/base/tensor.h"
#include "runtime/transport/collective.h"
#include "runtime/transport/tree.h"

typedef struct tsr_leaves {
    uint32_t total;        /* V */
    uint32_t first, count; /* of this rank; the positions whose parts it holds */
    uint32_t rank, rank_count;
    /* In turn i the ranks run leaves i W … i W + W - 1, which are a subtree. Else each runs those
     * from its first one on. */
    bool by_turns;
} tsr_leaves;

/* Leaves of rank `rank`: all ranks have as many, or one more or less. TSR_USAGE where there are
 * more ranks than leaves, or too many leaves. */
TSR_RESULT tsr_leaves_share(tsr_ctx *ctx, uint64_t total, uint32_t rank, uint32_t rank_count,
                            tsr_leaves *out_leaves);
/* The first leaf of rank `rank`; rank_count: the total. */
uint32_t tsr_leaves_first(const tsr_leaves *leaves, uint32_t rank);

/* The leaf that this rank runs as its `index`-th. */
uint32_t tsr_leaves_number(const tsr_leaves *leaves, uint32_t index);
/* Leaves can be dealt by turns: all ranks have as many, and those of a turn are a subtree. */
bool tsr_leaves_can_turn(const tsr_leaves *leaves);
/* `bytes` has `leaf_bytes` for each leaf, those of the leaves that this rank has run are there. */
TSR_RESULT tsr_leaves_gather(tsr_ctx *ctx, const tsr_leaves *leaves, tsr_transport *transport,
                             void *bytes, size_t leaf_bytes);
/* What this rank sends with it. */
uint64_t tsr_leaves_plan_gather(const tsr_leaves *leaves, const tsr_transport *transport,
                                size_t leaf_bytes);

/* `of` with the leaves that each rank has of a sum: of all leaves, or of those of a turn.
 * first_leaf has rank_count + 1 places and is borrowed by the result. */
tsr_reduce_options tsr_leaves_divide(const tsr_leaves *leaves, tsr_reduce_options of,
                                     uint32_t *first_leaf);

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
/* For leaf `index` of this rank, the leaves before it being folded; by turns: for the sum of turn
 * `index`. */
void tsr_leaves_fold(const tsr_leaves *leaves, uint32_t index, tsr_leaf_fold *out_fold);
/* Slots that are ever taken. */
uint32_t tsr_leaves_count_slots(const tsr_leaves *leaves);

#endif
