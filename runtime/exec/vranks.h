/* SPDX-License-Identifier: Apache-2.0
 *
 * The virtual ranks that a rank runs, and the sums over them: the partial sums that the rank keeps,
 * and the additions after each virtual rank. At the end, a rank has the sums of the subtrees of
 * transport/tree.h that contain its virtual ranks.
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
    /* In turn i the ranks run the virtual ranks i W … i W + W - 1, which are a subtree. Otherwise
     * each rank runs consecutive virtual ranks, beginning with its first one. */
    bool by_rounds;
} tsr_vranks;

/* Finds the virtual ranks of rank `rank`. The numbers of virtual ranks of two ranks differ by at
 * most one. Fails with TSR_USAGE if there are more ranks than virtual ranks, or too many virtual
 * ranks. */
TSR_RESULT tsr_vranks_share(tsr_ctx *ctx, uint64_t total, uint32_t rank, uint32_t rank_count,
                            tsr_vranks *out_vranks);
/* The first virtual rank of rank `rank`; rank_count: the total. */
uint32_t tsr_vranks_first(const tsr_vranks *vranks, uint32_t rank);

/* The number of the virtual rank with index `index` among those of this rank. */
uint32_t tsr_vranks_number(const tsr_vranks *vranks, uint32_t index);
/* Virtual ranks can be assigned in turns: all ranks have the same number of virtual ranks, and the
 * virtual ranks of a turn form a subtree. */
bool tsr_vranks_have_rounds(const tsr_vranks *vranks);
/* How a gather of `vrank_bytes` from each virtual rank is divided: into as many gathers as the
 * result says, in each of which rank r has first_byte[r] … first_byte[r + 1] (rank_count + 1
 * elements). */
uint32_t tsr_vranks_divide_rows(const tsr_vranks *vranks, size_t vrank_bytes,
                                size_t *out_first_byte);
/* `bytes` has `vrank_bytes` for each virtual rank; the bytes of the virtual ranks that this rank
 * has run are set. */
TSR_RESULT tsr_vranks_gather(tsr_ctx *ctx, const tsr_vranks *vranks, tsr_transport *transport,
                             void *bytes, size_t vrank_bytes);
/* The bytes that this rank sends in the gather. */
uint64_t tsr_vranks_plan_gather(const tsr_vranks *vranks, const tsr_transport *transport,
                                size_t vrank_bytes);

/* Returns `of` with the virtual ranks that each rank adds to a sum: over all virtual ranks, or over
 * the virtual ranks of a turn. first_leaf has rank_count + 1 elements; the result borrows it. */
tsr_reduce_options tsr_vranks_divide(const tsr_vranks *vranks, tsr_reduce_options of,
                                     uint32_t *first_leaf);

/* The type in which values of this type are summed: f32, f64, otherwise i64. */
tsr_reduction tsr_vranks_reduction(tsr_dtype dtype);

/* The additions after a virtual rank has computed its summand. Slots contain sums; the summand is
 * slot NONE. */
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
