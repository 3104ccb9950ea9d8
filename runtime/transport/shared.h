/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport between processes of one host: memory that all map. Whoever starts the ranks makes
 * the memory and hands its descriptor down; each rank joins with it. What lies in a rank's heap is
 * read by the others in place; other bytes go through slots, or are read from the sender's memory.
 *
 * A rank that ended, in whatever way, is seen within 20 ms by any other that waits for it.
 */
#ifndef TSR_RUNTIME_TRANSPORT_SHARED_H
#define TSR_RUNTIME_TRANSPORT_SHARED_H

#include "runtime/transport/transport.h"

typedef struct tsr_shared_options {
    size_t size_bytes;   /* sizeof(tsr_shared_options) */
    uint32_t rank_count; /* 1 … TSR_TRANSPORT_RANKS_MAX */
    uint64_t heap_bytes; /* of each rank; takes memory when it is written */
} tsr_shared_options;

/* An anonymous file (memfd), close-on-exec; its size never changes. The caller closes it. Fails
 * with TSR_MEMORY when there is no room for so much. */
TSR_RESULT tsr_shared_create(tsr_ctx *ctx, const tsr_shared_options *options, int *out_fd);

typedef struct tsr_shared_join_options {
    size_t size_bytes; /* sizeof(tsr_shared_join_options) */
    int fd;            /* borrowed for the call */
    uint32_t rank;
    uint64_t deadline_ns; /* see tsr_transport */
    uint64_t spin_ns;     /* how long a rank looks before it sleeps */
    /* Others shall not read what it sends where it lies, which they do where the system lets them
     * (process_vm_readv), but from a copy. */
    bool is_private;
} tsr_shared_join_options;

/* TSR_LOCKED: that rank has joined already. TSR_CORRUPT: not such memory. */
TSR_RESULT tsr_shared_join(tsr_ctx *ctx, const tsr_shared_join_options *options,
                           tsr_transport **out_transport);
/* Where rank `rank` of this memory was last: "in region 'train' at step 7, after barrier 12"; empty
 * where it never joined, or the memory cannot be read. */
void tsr_shared_describe(int fd, uint32_t rank, char *out_text, size_t size_bytes);
/* The rank's own heap, zero at first, aligned to a page; it lives as long as the transport. */
void *tsr_shared_get_heap(tsr_transport *t, size_t *out_size_bytes);

#endif
