/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/resilience/cut.h"

#include "runtime/base/array.h"
#include "runtime/base/result.h"

#include <string.h>

typedef struct tsr_cut_edge {
    uint32_t to, next;
    uint64_t capacity; /* residual capacity */
} edge;

enum { NONE = UINT32_MAX };

/* Returns an array with room for item `count`. */
static void *grow(tsr_arena *arena, void *old, size_t each, uint32_t count, size_t *capacity) {
    if (count < *capacity) return old;
    return tsr_arena_grow(arena, old, capacity, 256, each, _Alignof(edge));
}

bool tsr_cut_init(tsr_cut *cut, tsr_arena *arena) {
    *cut = (tsr_cut){.arena = arena};
    for (int i = 0; i < TSR_CUT_NODES; i++)
        if (tsr_cut_node(cut) == NONE) return false;
    return true;
}

uint32_t tsr_cut_node(tsr_cut *cut) {
    uint32_t *first =
        grow(cut->arena, cut->first, sizeof *first, cut->node_count, &cut->node_capacity);
    if (!first) return NONE;
    cut->first = first;
    cut->first[cut->node_count] = NONE;
    return cut->node_count++;
}

static bool add(tsr_cut *cut, uint32_t from, uint32_t to, uint64_t capacity) {
    edge *edges = grow(cut->arena, cut->edges, sizeof *edges, cut->edge_count, &cut->edge_capacity);
    if (!edges) return false;
    cut->edges = edges;
    edges[cut->edge_count] = (edge){.to = to, .next = cut->first[from], .capacity = capacity};
    cut->first[from] = cut->edge_count++;
    return true;
}

bool tsr_cut_edge(tsr_cut *cut, uint32_t from, uint32_t to, uint64_t capacity) {
    TSR_ASSERT(from < cut->node_count && to < cut->node_count);
    if (capacity > TSR_CUT_FOREVER) capacity = TSR_CUT_FOREVER;
    return add(cut, from, to, capacity) && add(cut, to, from, 0);
}

/* Finds a shortest path from the source with residual capacity on every edge; by[node] is the edge
 * through which it was reached. */
static bool find_path(const tsr_cut *cut, uint32_t *by, uint32_t *queue) {
    size_t head = 0, tail = 0;
    memset(by, 0xff, cut->node_count * sizeof *by);
    queue[tail++] = TSR_CUT_SOURCE;
    while (head < tail) {
        uint32_t node = queue[head++];
        for (uint32_t e = cut->first[node]; e != NONE; e = cut->edges[e].next) {
            uint32_t to = cut->edges[e].to;
            if (!cut->edges[e].capacity || by[to] != NONE || to == TSR_CUT_SOURCE) continue;
            by[to] = e;
            if (to == TSR_CUT_SINK) return true;
            queue[tail++] = to;
        }
    }
    return false;
}

static void augment(tsr_cut *cut, const uint32_t *by) {
    uint64_t capacity = UINT64_MAX;
    for (uint32_t node = TSR_CUT_SINK; node != TSR_CUT_SOURCE; node = cut->edges[by[node] ^ 1].to)
        if (cut->edges[by[node]].capacity < capacity) capacity = cut->edges[by[node]].capacity;
    TSR_ASSERT(capacity < TSR_CUT_FOREVER);
    for (uint32_t node = TSR_CUT_SINK; node != TSR_CUT_SOURCE; node = cut->edges[by[node] ^ 1].to) {
        cut->edges[by[node]].capacity -= capacity;
        cut->edges[by[node] ^ 1].capacity += capacity;
    }
}

bool tsr_cut_solve(tsr_cut *cut, bool *out_sink_side) {
    uint32_t *by = TSR_NEW(cut->arena, uint32_t, cut->node_count);
    uint32_t *queue = TSR_NEW(cut->arena, uint32_t, cut->node_count);
    size_t head = 0, tail = 0;
    if (!by || !queue) return false;
    while (find_path(cut, by, queue)) augment(cut, by);
    memset(out_sink_side, 0, cut->node_count * sizeof *out_sink_side);
    out_sink_side[TSR_CUT_SINK] = true;
    queue[tail++] = TSR_CUT_SINK;
    while (head < tail) {
        uint32_t node = queue[head++];
        for (uint32_t e = cut->first[node]; e != NONE; e = cut->edges[e].next) {
            uint32_t from = cut->edges[e].to;
            if (!cut->edges[e ^ 1].capacity || out_sink_side[from]) continue;
            out_sink_side[from] = true;
            queue[tail++] = from;
        }
    }
    return true;
}
