/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective operations of ranks, over any transport. All ranks call the same operations in the
 * same order with matching sizes; a difference is reported as TSR_RANK with both values. Sums
 * follow the tree of virtual ranks (tree.h), so their bits are the same for any number of ranks.
 *
 * Each rank sends as many bytes as in a ring: (W - 1) / W n for n bytes in a reduce-scatter or an
 * all-gather, if each rank has one subtree. An all-reduce of up to 16 KiB sends all rows to all
 * ranks in one step.
 */
#ifndef TSR_RUNTIME_TRANSPORT_COLLECTIVE_H
#define TSR_RUNTIME_TRANSPORT_COLLECTIVE_H

#include "runtime/transport/transport.h"
#include "runtime/transport/tree.h"

/* Does not end on any rank before it has begun on all. */
TSR_RESULT tsr_barrier(tsr_ctx *ctx, tsr_transport *t);
/* Sends the bytes of rank `root` to all ranks. */
TSR_RESULT tsr_broadcast(tsr_ctx *ctx, tsr_transport *t, uint32_t root, void *bytes,
                         size_t size_bytes);
/* `bytes` has room for the parts of all ranks; the part of rank r is at first_byte[r] …
 * first_byte[r + 1] (rank_count + 1 elements). This rank's part is already there. */
TSR_RESULT tsr_all_gather(tsr_ctx *ctx, tsr_transport *t, void *bytes, const size_t *first_byte);
/* Gathers `size_bytes` bytes of each rank: those of rank r are at r * size_bytes. */
TSR_RESULT tsr_all_gather_each(tsr_ctx *ctx, tsr_transport *t, void *bytes, size_t size_bytes);
/* sends, receives: one per rank. */
TSR_RESULT tsr_all_to_all(tsr_ctx *ctx, tsr_transport *t, const tsr_transport_segment *sends,
                          const tsr_transport_segment *receives);
/* Point-to-point between two ranks; messages are received in the order in which they were sent.
 * Sending to itself is TSR_INTERNAL. */
TSR_RESULT tsr_send(tsr_ctx *ctx, tsr_transport *t, uint32_t to, const void *bytes,
                    size_t size_bytes);
TSR_RESULT tsr_receive(tsr_ctx *ctx, tsr_transport *t, uint32_t from, void *bytes,
                       size_t size_bytes);

/* Number of bytes that this rank sends in an all-gather; for reductions see below. */
uint64_t tsr_all_gather_plan(const tsr_transport *t, const size_t *first_byte);

enum { TSR_AGREE_MAX = 64 };
/* Checks that all ranks have the same `size_bytes` (up to TSR_AGREE_MAX) bytes of `what`; otherwise
 * TSR_MISMATCH names two ranks that differ and their values as hexadecimal digits. */
TSR_RESULT tsr_agree(tsr_ctx *ctx, tsr_transport *t, const char *what, const void *bytes,
                     size_t size_bytes);

typedef struct tsr_reduce_options {
    tsr_reduction reduction;
    uint32_t leaf_count;        /* V */
    const uint32_t *first_leaf; /* rank_count + 1 elements: rank r has leaves first_leaf[r] … [r +
                                   1] */
    /* This rank's partial results: a row of `count` elements for each subtree that tsr_tree_cover
     * returns for the rank's leaves. */
    const void *rows;
    size_t stride_bytes, count;
    /* True if other ranks can read the rows of every rank (tsr_transport_can_expose): they are then
     * read in place, which is faster. The same on all ranks. */
    bool exposed;
} tsr_reduce_options;

/* Rank r receives the element range first_element[r] … first_element[r + 1] (rank_count + 1
 * elements, 0 … count); out receives this rank's range and may be its part of row 0. */
TSR_RESULT tsr_reduce_scatter(tsr_ctx *ctx, tsr_transport *t, const tsr_reduce_options *options,
                              const size_t *first_element, void *out);
/* Number of bytes that this rank sends in one; 0 if the options would be refused. */
uint64_t tsr_reduce_scatter_plan(const tsr_transport *t, const tsr_reduce_options *options,
                                 const size_t *first_element);
uint64_t tsr_all_reduce_plan(const tsr_transport *t, const tsr_reduce_options *options);
/* True if an all-reduce sends all rows to all ranks. Otherwise it is a reduce-scatter of the ranges
 * first_element[r] … first_element[r + 1] (rank_count + 1 elements), then an all-gather. */
bool tsr_all_reduce_sends_all(const tsr_transport *t, const tsr_reduce_options *options);
void tsr_all_reduce_share(const tsr_transport *t, const tsr_reduce_options *options,
                          size_t *out_first_element);
/* out: `count` elements; either separate from the rows, or row 0. */
TSR_RESULT tsr_all_reduce(tsr_ctx *ctx, tsr_transport *t, const tsr_reduce_options *options,
                          void *out);

#endif
