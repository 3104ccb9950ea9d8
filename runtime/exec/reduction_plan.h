/* SPDX-License-Identifier: Apache-2.0
 *
 * How the values of an entry with leaves are summed, gathered and kept on a rank: what of it is
 * planned when the number of ranks is known. Private to this folder.
 */
#ifndef TSR_RUNTIME_REDUCTION_PLAN_H
#define TSR_RUNTIME_REDUCTION_PLAN_H

#include "manifests/program.h"
#include "runtime/exec/leaves.h"

/* How the buffers of an entry are summed or gathered over leaves. */
typedef enum tsr_reduction_strategy {
    TSR_STRATEGY_AT_END,    /* when all leaves of the rank have run, which follow each other */
    TSR_STRATEGY_IN_ROUND,  /* each round's sum goes to all ranks */
    TSR_STRATEGY_SCATTERED, /* each rank gets the elements of its positions */
} tsr_reduction_strategy;

typedef struct tsr_reduction_plan {
    tsr_reduction_strategy *strategy; /* by buffer; in the arena, as all here */
    uint64_t *offset_bytes;           /* by buffer: what the rank has of a scattered sum, slot 0 */
    uint64_t part_bytes;              /* of all those, with their slots */
    uint64_t sum_bytes;               /* of one set of the other sums */
    uint64_t leaf_bytes;              /* of what one leaf keeps */
    uint64_t round_bytes;             /* of the longest that is exchanged in a round */
    /* By buffer: 1 + the tensor that it is, gathered: one rank alone has all parts side by side. */
    uint32_t *tensor;
    /* By buffer: 1 + the sum that it is the leaf's part of, which is read where it lies. The last
     * parts may extend beyond the sum, by less than V elements. */
    uint32_t *sum;
} tsr_reduction_plan;

/* May the leaves of the program be dealt in rounds, and is there a sum that this serves? */
TSR_RESULT tsr_reduction_plan_uses_rounds(tsr_ctx *ctx, const tsr_config *config,
                                          const tsr_program *program, const tsr_leaves *leaves,
                                          bool *out_uses);
/* Of entry `entry`; false without memory. */
bool tsr_reduction_plan_init(const tsr_config *config, const tsr_program *program, size_t entry,
                             const tsr_leaves *leaves, tsr_arena *arena,
                             tsr_reduction_plan *out_plan);
/* Those of a sum or gather that goes to buffer `buffer`: in rounds or not. */
tsr_leaves tsr_reduction_plan_leaves(const tsr_reduction_plan *reductions, const tsr_leaves *leaves,
                                     uint32_t buffer);

/* Bytes of one slot of a scattered sum. */
uint64_t tsr_reduction_plan_slot_bytes(const tsr_program_buffer *sum, const tsr_leaves *leaves);

#endif
