/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport between processes of one host: memory that all processes map. The process that
 * starts the ranks creates the memory and passes its descriptor to them; each rank joins with it.
 * Other ranks read the data in a rank's heap in place; other bytes are copied through slots, or are
 * read from the sender's memory.
 *
 * If a rank ends for any reason, every rank that waits for it notices this within 20 ms.
 */
#ifndef TSR_RUNTIME_TRANSPORT_SHARED_H
#define TSR_RUNTIME_TRANSPORT_SHARED_H

#include "runtime/transport/transport.h"

typedef struct tsr_shared_options {
    size_t size_bytes;   /* sizeof(tsr_shared_options) */
    uint32_t rank_count; /* 1 … TSR_TRANSPORT_RANKS_MAX */
    uint64_t heap_bytes; /* size for each rank; memory is allocated when it is written */
} tsr_shared_options;

/* Creates an anonymous file (memfd), close-on-exec, of fixed size. The caller closes it. Fails with
 * TSR_MEMORY when there is not enough memory. */
TSR_RESULT tsr_shared_create(tsr_ctx *ctx, const tsr_shared_options *options, int *out_fd);

typedef struct tsr_shared_join_options {
    size_t size_bytes; /* sizeof(tsr_shared_join_options) */
    int fd;            /* borrowed for the call */
    uint32_t rank;
    uint64_t deadline_ns; /* see tsr_transport */
    uint64_t spin_ns;     /* how long a waiting rank spins before it sleeps */
    /* Other ranks must read a copy of the data that this rank sends, not its memory
     * (process_vm_readv, the default if the system allows it). */
    bool is_private;
} tsr_shared_join_options;

/* Fails with TSR_LOCKED if this rank has already joined, and with TSR_CORRUPT if the descriptor is
 * not memory that ranks share. */
TSR_RESULT tsr_shared_join(tsr_ctx *ctx, const tsr_shared_join_options *options,
                           tsr_transport **out_transport);
/* Describes the last position of rank `rank` in this memory: "in region 'train' at step 7, after
 * barrier 12"; empty if it never joined, or the memory cannot be read. */
void tsr_shared_describe(int fd, uint32_t rank, char *out_text, size_t size_bytes);
/* Returns the rank's own heap, initially zero, page-aligned; it exists as long as the transport. */
void *tsr_shared_get_heap(tsr_transport *t, size_t *out_size_bytes);

#endif
