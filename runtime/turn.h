/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks exchange in the middle of a loop over leaves, where they run these by turns: sums over
 * the leaves of a turn. A sum that a reduce_scatter takes is scattered at once, so that no rank has
 * more of it than one summand and the parts of its own positions. For loop.c.
 */
#ifndef TSR_RUNTIME_TURN_H
#define TSR_RUNTIME_TURN_H

#include "manifests/program.h"
#include "runtime/leaves.h"

/* How the buffers of an entry are summed or gathered over leaves. */
typedef enum tsr_way {
    TSR_WAY_AT_END,    /* when all leaves of the rank have run, which follow each other */
    TSR_WAY_IN_TURN,   /* each turn's sum goes to all ranks */
    TSR_WAY_SCATTERED, /* each rank gets the elements of its positions */
} tsr_way;

typedef struct tsr_ways {
    tsr_way *of;            /* by buffer; in the arena, as all here */
    uint64_t *offset_bytes; /* by buffer: what the rank has of a scattered sum, slot 0 */
    uint64_t part_bytes;    /* of all those, with their slots */
    uint64_t sum_bytes;     /* of one set of the other sums */
    uint64_t turn_bytes;    /* of the longest that is exchanged in a turn */
    /* By buffer: 1 + the tensor that it is, gathered: one rank alone has all parts side by side. */
    uint32_t *tensor;
} tsr_ways;

/* May the leaves of the program be dealt by turns, and is there a sum that this serves? */
TSR_RESULT tsr_ways_serve(tsr_ctx *ctx, const tsr_config *config, const tsr_program *program,
                          const tsr_leaves *leaves, bool *out_serve);
/* Of entry `entry`; false without memory. */
bool tsr_ways_init(const tsr_config *config, const tsr_program *program, size_t entry,
                   const tsr_leaves *leaves, tsr_arena *arena, tsr_ways *out_ways);
/* Those of a sum or gather that goes to buffer `buffer`: by turns or not. */
tsr_leaves tsr_ways_leaves(const tsr_ways *ways, const tsr_leaves *leaves, uint32_t buffer);

/* One exchange of a turn: of a sum, or a gather. */
typedef struct tsr_turn {
    const struct tsr_collective *gather; /* NULL: a sum */
    tsr_reduction reduction;
    const char *from; /* the summand of this rank's leaf */
    char *to;         /* the sum, or what this rank gets of it */
    uint64_t count;   /* elements */
    /* Of a scattered sum: elements of each position; where this rank's are folded, slot after slot;
     * else 0. */
    uint64_t part, slot_bytes;
    char *slots;
    tsr_leaf_fold fold;
} tsr_turn;
TSR_RESULT tsr_turn_exchange(tsr_ctx *ctx, const tsr_turn *turn, tsr_transport *transport,
                             const tsr_leaves *leaves);
/* What this rank sends with it. */
uint64_t tsr_turn_plan(const tsr_turn *turn, const tsr_transport *transport,
                       const tsr_leaves *leaves);
/* Bytes of one slot of a scattered sum. */
uint64_t tsr_turn_slot_bytes(const tsr_program_buffer *sum, const tsr_leaves *leaves);

#endif
