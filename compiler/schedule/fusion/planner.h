/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by fusion.c, paths.c and copies.c only: the sets of nodes that become groups.
 */
#ifndef TSR_COMPILER_SCHEDULE_FUSION_PLANNER_H
#define TSR_COMPILER_SCHEDULE_FUSION_PLANNER_H

#include "compiler/schedule/fusion/fusion.h"

typedef struct tsr_fuse_set {
    uint32_t *nodes; /* ascending; without SPLAT nodes */
    uint32_t count;
    uint32_t version; /* grows with each change; 0: dissolved */
    uint64_t cost;
} tsr_fuse_set;

typedef struct tsr_fuse_pair {
    uint64_t saved;
    uint32_t a, b; /* sets, a's first node before b's */
    uint32_t version_a, version_b;
} tsr_fuse_pair;

/* Whether a node is stored, depending on its readers. */
typedef enum tsr_fuse_storing {
    TSR_FUSE_WHERE_READ, /* stored if another set reads it */
    TSR_FUSE_ASKED,      /* a copy of one of its readers is in another set: stored */
    TSR_FUSE_REMADE,     /* all other sets that read it have copies: not stored */
} tsr_fuse_storing;

typedef struct tsr_fuse_planner {
    tsr_ctx *ctx;
    tsr_arena *arena;
    const tsr_fuse_node *nodes;
    uint32_t node_count;
    uint32_t *consumer_start, *consumers; /* node i: consumers[start[i] … start[i+1]-1] */
    bool *live;                           /* a value that is live out depends on it */
    bool *early;                          /* a node that can fault depends on it, or it can fault */
    uint32_t *home;                       /* node -> its set; TSR_FUSE_NONE: none, or copied */
    tsr_fuse_storing *storing;
    tsr_fuse_set *sets;
    uint32_t *mark, stamp; /* membership of the set being described */
    uint32_t *seen, seen_stamp;
    uint32_t *stack;                  /* node_count + 1 */
    uint32_t *longest, longest_count; /* the nodes of a longest path, in order */
    uint32_t *first; /* node -> index in `longest` of the first that it leads to, or is; or NONE */
    uint32_t *last;  /* node -> 1 + index of the last that leads to it, or is it; 0: none */
    tsr_fuse_pair *heap;
    uint32_t heap_count;
    size_t heap_capacity;
} tsr_fuse_planner;

typedef struct tsr_fuse_description {
    uint32_t root;
    bool rows, idle;    /* idle: see tsr_rows_fit */
    tsr_shape shape;    /* shape of the outputs */
    tsr_shape prologue; /* REDUCE: shape of the input */
    uint32_t input_count, output_count;
    uint32_t inputs[TSR_FUSE_ARGUMENTS_MAX + 1], outputs[TSR_FUSE_ARGUMENTS_MAX + 1];
    uint64_t read_bytes, written_bytes, operations, cost;
} tsr_fuse_description;

/* False if the nodes cannot form a group. set_a and set_b are the homes that count as inside. */
bool tsr_fuse_describe(tsr_fuse_planner *p, const uint32_t *members, uint32_t count, uint32_t set_a,
                       uint32_t set_b, tsr_fuse_description *d);
/* The nodes of both sets, ascending; returns their number. */
uint32_t tsr_fuse_unite(const tsr_fuse_set *a, const tsr_fuse_set *b, uint32_t *out_nodes);
bool tsr_fuse_is_map_set(const tsr_fuse_planner *p, uint32_t index);
uint64_t tsr_fuse_add(uint64_t a, uint64_t b); /* saturating */

/* paths.c: finds `longest`, `first` and `last`. */
TSR_RESULT tsr_fuse_find_longest(tsr_fuse_planner *p);
/* True if there is a path from set `from` to set `to` through a third set. */
bool tsr_fuse_leads_around(tsr_fuse_planner *p, uint32_t from, uint32_t to);

/* copies.c: called for set `index` after all merging, in this order. */
TSR_RESULT tsr_fuse_part(tsr_fuse_planner *p, uint32_t index);
TSR_RESULT tsr_fuse_peel(tsr_fuse_planner *p, uint32_t index);
TSR_RESULT tsr_fuse_remake(tsr_fuse_planner *p, uint32_t index);
TSR_RESULT tsr_fuse_copy_into_readers(tsr_fuse_planner *p, uint32_t index);

#endif
