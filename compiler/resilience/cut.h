/* SPDX-License-Identifier: Apache-2.0
 *
 * The cheapest set of edges that parts a source from a sink: Ford and Fulkerson 1956; augmenting
 * paths are shortest ones (Edmonds and Karp 1972). Everything is exact integer arithmetic.
 */
#ifndef TSR_COMPILER_RESILIENCE_CUT_H
#define TSR_COMPILER_RESILIENCE_CUT_H

#include "runtime/base/arena.h"

enum { TSR_CUT_SOURCE, TSR_CUT_SINK, TSR_CUT_NODES }; /* further nodes are added after these */
#define TSR_CUT_FOREVER (UINT64_MAX / 4)              /* an edge that is never cut */

typedef struct tsr_cut {
    tsr_arena *arena;
    struct tsr_cut_edge *edges; /* 2i and 2i + 1 run against each other */
    uint32_t *first;            /* node -> its first edge, or UINT32_MAX */
    uint32_t edge_count, edge_capacity, node_count, node_capacity;
} tsr_cut;

/* An empty graph; false when out of memory. */
bool tsr_cut_init(tsr_cut *cut, tsr_arena *arena);
/* A new node; UINT32_MAX when out of memory. */
uint32_t tsr_cut_node(tsr_cut *cut);
/* Capacities above TSR_CUT_FOREVER count as that. */
bool tsr_cut_edge(tsr_cut *cut, uint32_t from, uint32_t to, uint64_t capacity);
/* out_sink_side[node]: is it on the sink's side of the cheapest cut (of several, the one that
 * leaves fewest nodes there)? The cut must be finite. False when out of memory. The graph is used
 * up. */
bool tsr_cut_solve(tsr_cut *cut, bool *out_sink_side);

#endif
