/* SPDX-License-Identifier: Apache-2.0
 *
 * A collective of a host program: what the leaves of this rank give one another is copied, by the
 * device; what goes to and comes from other ranks, the transport moves. For executor.c.
 */
#ifndef TSR_RUNTIME_COLLECTIVE_H
#define TSR_RUNTIME_COLLECTIVE_H

#include "runtime/exec/loop.h"

typedef struct tsr_collective {
    tsr_collective_kind kind;
    bool exchanges_first; /* before the copies; else behind them */
    bool writes_tensor;   /* the caller's */
    tsr_reduction reduction;
    /* The host's memory: what ranks sum (from), or what has the parts of all (to), or the buffers
     * of leaf 0 of this rank and how far it is to the next one's. */
    char *from, *to;
    /* Of what ranks sum: the command of the program, and what this rank gets of it. NULL: it is no
     * sum. */
    uint32_t command;
    const char *held;
    uint64_t leaf_bytes;
    uint64_t count, part, element_bytes; /* elements of the whole, of a part */
} tsr_collective;

/* Of command `index`. What is copied goes to *out_list; false without memory. */
bool tsr_collective_bind(const tsr_loop_source *source, uint32_t index,
                         tsr_collective *out_collective, tsr_device_list *out_list);
/* With all ranks; not called where there is one alone. */
TSR_RESULT tsr_collective_exchange(tsr_ctx *ctx, const tsr_collective *collective,
                                   tsr_transport *transport, const tsr_leaves *leaves,
                                   uint64_t sums_bytes);

/* After that: rank 0 puts all ranks' parts of a sum where the observer wants them. What is sent for
 * this is not counted. */
TSR_RESULT tsr_collective_tell(tsr_ctx *ctx, const tsr_collective *collective,
                               tsr_transport *transport, const tsr_leaves *leaves,
                               const tsr_loop_observer *observer);

/* What this rank sends with it. */
uint64_t tsr_collective_plan(const tsr_collective *collective, const tsr_transport *transport,
                             const tsr_leaves *leaves);

#endif
