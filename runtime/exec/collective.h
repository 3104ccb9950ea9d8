/* SPDX-License-Identifier: Apache-2.0
 *
 * A collective of a host program: the device copies data between the virtual ranks of this rank;
 * the transport sends and receives data of other ranks. Used by executor.c.
 */
#ifndef TSR_RUNTIME_COLLECTIVE_H
#define TSR_RUNTIME_COLLECTIVE_H

#include "runtime/exchange/exchange.h"
#include "runtime/exec/loop.h"

typedef struct tsr_collective {
    tsr_collective_kind kind;
    bool exchanges_first; /* true: exchange, then copies; false: the reverse */
    bool writes_tensor;   /* a tensor of the caller */
    tsr_reduction reduction;
    /* Host memory: the summands of all ranks (from), or the memory that contains all parts (to), or
     * the buffers of virtual rank 0 of this rank and the distance to the next virtual rank's
     * buffers. */
    char *from, *to;
    /* Sums of ranks: the command of the program, and the part that this rank receives. NULL: not a
     * sum. */
    uint32_t command;
    const char *own_sum;
    uint64_t vrank_bytes;
    uint64_t count, part, element_bytes; /* elements of the full value, of a part */
} tsr_collective;

/* Binds command `index`. The copies are stored in *out_list; returns false without memory. */
bool tsr_collective_bind(const tsr_loop_source *source, uint32_t index,
                         tsr_collective *out_collective, tsr_device_list *out_list);
/* Exchanges with all ranks; not called with a single rank. */
TSR_RESULT tsr_collective_exchange(tsr_ctx *ctx, const tsr_collective *collective,
                                   tsr_exchanger *exchanger, const tsr_vranks *vranks,
                                   uint64_t sums_bytes);

/* Called after the exchange, when this rank's part is in the host's memory: rank 0 gathers all
 * ranks' parts of a sum into the observer's memory. Bytes sent for this are not counted. */
TSR_RESULT tsr_collective_tell(tsr_ctx *ctx, const tsr_collective *collective,
                               tsr_transport *transport, const tsr_vranks *vranks,
                               const tsr_loop_observer *observer);

/* The bytes of the sum that this rank has after the exchange. */
uint64_t tsr_collective_own_bytes(const tsr_collective *collective, const tsr_vranks *vranks);

/* Returns the number of bytes that this rank sends in the collective. */
uint64_t tsr_collective_plan(const tsr_collective *collective, const tsr_transport *transport,
                             const tsr_vranks *vranks);

#endif
