/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks exchange in the middle of a loop over leaves, where they run these by turns: sums over
 * the leaves of a turn. A sum that a reduce_scatter takes is scattered at once, so that no rank has
 * more of it than one summand and the parts of its own positions. For loop.c.
 */
#ifndef TSR_RUNTIME_TURN_H
#define TSR_RUNTIME_TURN_H

#include "manifests/program.h"
#include "runtime/exec/leaves.h"

/* One exchange of a turn: of a sum, or a gather. */
typedef struct tsr_turn {
    const struct tsr_collective *gather; /* NULL: a sum */
    tsr_reduction reduction;
    const char *from; /* the summand of this rank's leaf */
    char *to;         /* the sum, or what this rank gets of it */
    uint64_t count;   /* elements */
    /* Of a scattered sum: elements of each position; where this rank's are folded, slot after slot;
     * else 0. */
    uint64_t part, slot_bytes;
    char *slots;
    tsr_leaf_fold fold;
} tsr_turn;
TSR_RESULT tsr_turn_exchange(tsr_ctx *ctx, const tsr_turn *turn, tsr_transport *transport,
                             const tsr_leaves *leaves);
/* What this rank sends with it. */
uint64_t tsr_turn_plan(const tsr_turn *turn, const tsr_transport *transport,
                       const tsr_leaves *leaves);

#endif
