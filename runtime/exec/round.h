/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges of ranks within a loop over virtual ranks, if the virtual ranks run by turns: sums over
 * the virtual ranks of a turn. A sum that a reduce_scatter consumes is scattered at once, so that a
 * rank has only one summand and the parts of its own positions. Used by loop.c.
 */
#ifndef TSR_RUNTIME_ROUND_H
#define TSR_RUNTIME_ROUND_H

#include "manifests/program.h"
#include "runtime/exchange/exchange.h"
#include "runtime/exec/vranks.h"

/* One exchange of a turn: a sum or a gather. */
typedef struct tsr_round {
    const struct tsr_collective *gather; /* NULL: a sum */
    tsr_reduction reduction;
    const char *from; /* the summand of this rank's virtual rank */
    char *to;         /* the sum, or the part that this rank receives */
    uint64_t count;   /* elements */
    /* Scattered sums: elements of each position; the slots in which this rank's parts are folded;
     * otherwise 0. */
    uint64_t part, slot_bytes;
    char *slots;
    tsr_vrank_fold fold;
} tsr_round;
TSR_RESULT tsr_round_exchange(tsr_ctx *ctx, const tsr_round *round, tsr_exchanger *exchanger,
                              const tsr_vranks *vranks);
/* Returns the number of bytes that this rank sends in the exchange. */
uint64_t tsr_round_plan(const tsr_round *round, const tsr_transport *transport,
                        const tsr_vranks *vranks);

#endif
