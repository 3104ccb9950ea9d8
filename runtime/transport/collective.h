/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks do together, over any transport. All ranks call the same operation in the same order
 * with sizes that fit; what differs is told as TSR_RANK with both values. Sums go by the tree of
 * virtual ranks (tree.h): they are the same bits for any number of ranks.
 *
 * Each rank sends what a ring would: of n bytes, (W - 1) / W n in a reduce-scatter or an all-gather
 * where each rank holds one subtree. An all-reduce of up to 16 KiB sends all to all, in one step.
 */
#ifndef TSR_RUNTIME_TRANSPORT_COLLECTIVE_H
#define TSR_RUNTIME_TRANSPORT_COLLECTIVE_H

#include "runtime/transport/transport.h"
#include "runtime/transport/tree.h"

/* Ends on no rank before it began on all. */
TSR_RESULT tsr_barrier(tsr_ctx *ctx, tsr_transport *t);
/* From rank `root` to all. */
TSR_RESULT tsr_broadcast(tsr_ctx *ctx, tsr_transport *t, uint32_t root, void *bytes,
                         size_t size_bytes);
/* `bytes` holds the parts of all ranks, that of rank r at first_byte[r] … first_byte[r + 1] (of
 * rank_count + 1); the own part is there already. */
TSR_RESULT tsr_all_gather(tsr_ctx *ctx, tsr_transport *t, void *bytes, const size_t *first_byte);
/* sends, receives: by rank. */
TSR_RESULT tsr_all_to_all(tsr_ctx *ctx, tsr_transport *t, const tsr_piece *sends,
                          const tsr_piece *receives);
/* Between two ranks; what one sends first is received first. Sending to itself is TSR_INTERNAL. */
TSR_RESULT tsr_send(tsr_ctx *ctx, tsr_transport *t, uint32_t to, const void *bytes,
                    size_t size_bytes);
TSR_RESULT tsr_receive(tsr_ctx *ctx, tsr_transport *t, uint32_t from, void *bytes,
                       size_t size_bytes);

/* What this rank sends with an all-gather; of reductions see below. */
uint64_t tsr_all_gather_plan(const tsr_transport *t, const size_t *first_byte);

enum { TSR_AGREE_MAX = 64 };
/* All ranks have the same `size_bytes` (up to TSR_AGREE_MAX) bytes of `what`, or TSR_MISMATCH says
 * which two differ, as hexadecimal digits. */
TSR_RESULT tsr_agree(tsr_ctx *ctx, tsr_transport *t, const char *what, const void *bytes,
                     size_t size_bytes);

typedef struct tsr_reduce_options {
    tsr_reduction reduction;
    uint32_t leaf_count;        /* V */
    const uint32_t *first_leaf; /* rank_count + 1: rank r has leaves first_leaf[r] … [r + 1] */
    /* This rank's partial results: for each subtree that tsr_tree_cover gives for its leaves a row
     * of `count` elements. */
    const void *rows;
    size_t stride_bytes, count;
    /* The rows of every rank lie where others can read them (tsr_transport_can_expose): they are
     * read in place, which is faster. The same on all ranks. */
    bool exposed;
} tsr_reduce_options;

/* Element ranges first_element[r] … first_element[r + 1] (of rank_count + 1, 0 … count) go to rank
 * r; out: this rank's. May be its part of row 0. */
TSR_RESULT tsr_reduce_scatter(tsr_ctx *ctx, tsr_transport *t, const tsr_reduce_options *options,
                              const size_t *first_element, void *out);
/* What this rank sends with one; 0 where the options would be refused. */
uint64_t tsr_reduce_scatter_plan(const tsr_transport *t, const tsr_reduce_options *options,
                                 const size_t *first_element);
uint64_t tsr_all_reduce_plan(const tsr_transport *t, const tsr_reduce_options *options);
/* out: `count` elements, apart from the rows or row 0. */
TSR_RESULT tsr_all_reduce(tsr_ctx *ctx, tsr_transport *t, const tsr_reduce_options *options,
                          void *out);

#endif
