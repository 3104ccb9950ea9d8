/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rank sums, gathers and stores the values of an entry with virtual ranks: the part of this
 * plan that depends on the number of ranks. Private to this folder.
 */
#ifndef TSR_RUNTIME_REDUCTION_PLAN_H
#define TSR_RUNTIME_REDUCTION_PLAN_H

#include "manifests/program.h"
#include "runtime/exec/vranks.h"

/* How the buffers of an entry are summed or gathered over virtual ranks. */
typedef enum tsr_reduction_strategy {
    TSR_STRATEGY_AT_END,    /* when all virtual ranks of the rank have run, which are consecutive */
    TSR_STRATEGY_IN_ROUND,  /* each round's sum goes to all ranks */
    TSR_STRATEGY_SCATTERED, /* each rank gets the elements of its positions */
} tsr_reduction_strategy;

typedef struct tsr_reduction_plan {
    tsr_reduction_strategy *strategy; /* one per buffer; in the arena, like all memory here */
    uint64_t *offset_bytes;           /* by buffer: slot 0 of the rank's part of a scattered sum */
    uint64_t part_bytes;              /* size of all these parts, with their slots */
    uint64_t sum_bytes;               /* size of one set of the other sums */
    uint64_t vrank_bytes;             /* memory of one virtual rank */
    uint64_t round_bytes;             /* size of the largest exchange in a turn */
    /* One per buffer: 1 + index of the tensor that the buffer gathers; a single rank has all parts
     * contiguous in the tensor itself. */
    uint32_t *tensor;
    /* One per buffer: 1 + index of the sum whose part for the virtual rank is this buffer; it is
     * read from the sum itself. The last parts may extend beyond the sum, by less than V elements.
     */
    uint32_t *sum;
} tsr_reduction_plan;

/* True if the virtual ranks of the program may be distributed by turns and a sum benefits from it.
 */
TSR_RESULT tsr_reduction_plan_uses_rounds(tsr_ctx *ctx, const tsr_config *config,
                                          const tsr_program *program, const tsr_vranks *vranks,
                                          bool *out_uses);
/* Computes the ways of entry `entry`; returns false without memory. */
bool tsr_reduction_plan_init(const tsr_config *config, const tsr_program *program, size_t entry,
                             const tsr_vranks *vranks, tsr_arena *arena,
                             tsr_reduction_plan *out_plan);
/* Returns the virtual ranks of a sum or gather into buffer `buffer`: by turns or not. */
tsr_vranks tsr_reduction_plan_vranks(const tsr_reduction_plan *reductions, const tsr_vranks *vranks,
                                     uint32_t buffer);

/* Size of one slot of a scattered sum. */
uint64_t tsr_reduction_plan_slot_bytes(const tsr_program_buffer *sum, const tsr_vranks *vranks);

#endif
