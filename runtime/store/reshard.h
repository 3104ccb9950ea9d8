/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans the elements that ranks exchange between the chunks of a generation, where each chunk is
 * written or read by one rank, and tensors that ranks have in parts or in full. A generation
 * written by any number of ranks, with any division, can be read by any other number and division:
 * chunks are independent of both.
 */
#ifndef TSR_RUNTIME_STORE_RESHARD_H
#define TSR_RUNTIME_STORE_RESHARD_H

#include "runtime/state/format.h"

/* The distribution of a plan's tensors over ranks. */
typedef struct tsr_sharding {
    uint32_t rank_count;
    /* Indexed by tensor of the plan: the n elements of a tensor have P parts of ceil(n / P), and
     * the last parts may be short or empty; rank r of W has parts floor(P r / W) … floor(P (r + 1)
     * / W) - 1. 0: every rank has the full tensor. NULL: 0 for every tensor. */
    const uint32_t *parts;
} tsr_sharding;

typedef struct tsr_elements {
    uint64_t first, count;
} tsr_elements;
/* Returns the elements that a rank has of a tensor with `count` elements. */
tsr_elements tsr_sharding_range(uint64_t count, uint32_t parts, uint32_t rank, uint32_t rank_count);

typedef struct tsr_move {
    uint32_t chunk, tensor; /* indices in the plan */
    uint32_t round;    /* each pair of ranks has at most one move in each direction in a round */
    uint32_t from, to; /* ranks, which may be equal */
    tsr_elements elements; /* elements of the tensor */
} tsr_move;

typedef struct tsr_moves {
    tsr_move *moves; /* ordered by round; in the arena */
    size_t count;
} tsr_moves;

typedef enum tsr_direction { TSR_TO_CHUNKS, TSR_FROM_CHUNKS } tsr_direction;

/* Plans the moves in which rank `rank` takes part. tsr_part_of defines the rank of each chunk. */
TSR_RESULT tsr_moves_plan(tsr_ctx *ctx, tsr_arena *arena, const tsr_manifest *plan,
                          const tsr_sharding *sharding, uint32_t rank, tsr_direction direction,
                          tsr_moves *out_moves);

#endif
