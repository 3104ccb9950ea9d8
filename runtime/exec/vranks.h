/* SPDX-License-Identifier: Apache-2.0
 *
 * Which virtual ranks a rank runs, and how it sums over them: the partial sums it
 * keeps, and what is added when the next virtual rank is there. What a rank ends with are the sums
 * of the subtrees of transport/tree.h that hold its virtual ranks.
 */
#ifndef TSR_RUNTIME_VRANKS_H
#define TSR_RUNTIME_VRANKS_H

#include "runtime/base/tensor.h"
#include "runtime/transport/collective.h"
#include "runtime/transport/tree.h"

typedef struct tsr_vranks {
    uint32_t total;        /* V */
    uint32_t first, count; /* of this rank; the positions whose parts it holds */
    uint32_t rank, rank_count;
    /* In turn i the ranks run the virtual ranks i W … i W + W - 1, which are a subtree. Else each
     * runs those from its first one on. */
    bool by_rounds;
} tsr_vranks;

/* Virtual ranks of rank `rank`: all ranks have as many, or one more or less. TSR_USAGE where there
 * are more ranks than virtual ranks, or too many virtual ranks. */
TSR_RESULT tsr_vranks_share(tsr_ctx *ctx, uint64_t total, uint32_t rank, uint32_t rank_count,
                            tsr_vranks *out_vranks);
/* The first virtual rank of rank `rank`; rank_count: the total. */
uint32_t tsr_vranks_first(const tsr_vranks *vranks, uint32_t rank);

/* The virtual rank that this rank runs as its `index`-th. */
uint32_t tsr_vranks_number(const tsr_vranks *vranks, uint32_t index);
/* Virtual ranks can be dealt by turns: all ranks have as many, and those of a turn are a subtree.
 */
bool tsr_vranks_have_rounds(const tsr_vranks *vranks);
/* `bytes` has `vrank_bytes` for each virtual rank, those of the virtual ranks that this rank has
 * run are there. */
TSR_RESULT tsr_vranks_gather(tsr_ctx *ctx, const tsr_vranks *vranks, tsr_transport *transport,
                             void *bytes, size_t vrank_bytes);
/* What this rank sends with it. */
uint64_t tsr_vranks_plan_gather(const tsr_vranks *vranks, const tsr_transport *transport,
                                size_t vrank_bytes);

/* `of` with the virtual ranks that each rank has of a sum: of all virtual ranks, or of those of a
 * turn. first_leaf has rank_count + 1 places and is borrowed by the result. */
tsr_reduce_options tsr_vranks_divide(const tsr_vranks *vranks, tsr_reduce_options of,
                                     uint32_t *first_leaf);

/* How values of this type are summed: f32, f64, else i64. */
tsr_reduction tsr_vranks_reduction(tsr_dtype dtype);

/* What is done when a virtual rank's summand is there. Slots hold sums; the summand is slot NONE.
 */
enum { TSR_VRANK_STEPS_MAX = TSR_TREE_DEPTH_MAX, TSR_VRANK_SUMMAND = UINT32_MAX };
typedef struct tsr_vrank_step {
    uint32_t out, a, b; /* slot out <- slot a + slot b */
} tsr_vrank_step;
typedef struct tsr_vrank_fold {
    uint32_t step_count;  /* 0: the summand is copied */
    uint32_t copy_to;     /* the slot, then */
    uint32_t slots_taken; /* afterwards */
    tsr_vrank_step steps[TSR_VRANK_STEPS_MAX];
} tsr_vrank_fold;
/* For virtual rank `index` of this rank, the virtual ranks before it being folded; by turns: for
 * the sum of turn `index`. */
void tsr_vranks_fold(const tsr_vranks *vranks, uint32_t index, tsr_vrank_fold *out_fold);
/* Slots that are ever taken. */
uint32_t tsr_vranks_count_slots(const tsr_vranks *vranks);

#endif
