/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rank sums, gathers and stores the values of an entry with leaves: the part of this plan
 * that depends on the number of ranks. Private to this folder.
 */
#ifndef TSR_RUNTIME_WAYS_H
#define TSR_RUNTIME_WAYS_H

#include "manifests/program.h"
#include "runtime/exec/vranks.h"

/* How the buffers of an entry are summed or gathered over virtual ranks. */
typedef enum tsr_way {
    TSR_WAY_AT_END,    /* when all leaves of the rank have run, which are consecutive */
    TSR_WAY_IN_ROUND,  /* each round's sum goes to all ranks */
    TSR_WAY_SCATTERED, /* each rank gets the elements of its positions */
} tsr_way;

typedef struct tsr_ways {
    tsr_way *of;            /* one per buffer; in the arena, like all memory here */
    uint64_t *offset_bytes; /* by buffer: slot 0 of the rank's part of a scattered sum */
    uint64_t part_bytes;    /* size of all these parts, with their slots */
    uint64_t sum_bytes;     /* size of one set of the other sums */
    uint64_t vrank_bytes;   /* memory of one leaf */
    uint64_t round_bytes;   /* size of the largest exchange in a turn */
    /* One per buffer: 1 + index of the tensor that the buffer gathers; a single rank has all parts
     * contiguous in the tensor itself. */
    uint32_t *tensor;
    /* One per buffer: 1 + index of the sum whose part for the leaf is this buffer; it is read from
     * the sum itself. The last parts may extend beyond the sum, by less than V elements. */
    uint32_t *sum;
} tsr_ways;

/* True if the leaves of the program may be distributed by turns and a sum benefits from it. */
TSR_RESULT tsr_ways_serve(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                          const tsr_vranks *vranks, bool *out_serve);
/* Computes the ways of entry `entry`; returns false without memory. */
bool tsr_ways_init(const tsr_config *config, const tsr_program *program, size_t entry,
                   const tsr_vranks *vranks, tsr_arena *arena, tsr_ways *out_ways);
/* Returns the leaves of a sum or gather into buffer `buffer`: by turns or not. */
tsr_vranks tsr_ways_vranks(const tsr_ways *ways, const tsr_vranks *vranks, uint32_t buffer);

/* Size of one slot of a scattered sum. */
uint64_t tsr_ways_slot_bytes(const tsr_program_buffer *sum, const tsr_vranks *vranks);

#endif
