/* SPDX-License-Identifier: Apache-2.0
 *
 * The cheapest set of edges that separates a source from a sink: Ford and Fulkerson 1956;
 * augmenting paths are shortest ones (Edmonds and Karp 1972). All arithmetic is on exact integers.
 */
#ifndef TSR_COMPILER_RESILIENCE_CUT_H
#define TSR_COMPILER_RESILIENCE_CUT_H

#include "runtime/base/arena.h"

enum { TSR_CUT_SOURCE, TSR_CUT_SINK, TSR_CUT_NODES }; /* further nodes are added after these */
#define TSR_CUT_FOREVER (UINT64_MAX / 4)              /* an edge that is never cut */

typedef struct tsr_cut {
    tsr_arena *arena;
    struct tsr_cut_edge *edges; /* 2i and 2i + 1 are opposite directions of one edge */
    uint32_t *first;            /* node -> its first edge, or UINT32_MAX */
    uint32_t edge_count, node_count;
    size_t edge_capacity, node_capacity;
} tsr_cut;

/* An empty graph; false when out of memory. */
bool tsr_cut_init(tsr_cut *cut, tsr_arena *arena);
/* A new node; UINT32_MAX when out of memory. */
uint32_t tsr_cut_node(tsr_cut *cut);
/* Capacities above TSR_CUT_FOREVER are treated as TSR_CUT_FOREVER. */
bool tsr_cut_edge(tsr_cut *cut, uint32_t from, uint32_t to, uint64_t capacity);
/* out_sink_side[node]: true if it is on the sink's side of the cheapest cut (if there are several,
 * the cut with the fewest nodes there). The cut must be finite. False when out of memory. The
 * graph cannot be used afterwards. */
bool tsr_cut_solve(tsr_cut *cut, bool *out_sink_side);

#endif
