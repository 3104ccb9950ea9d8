/* SPDX-License-Identifier: Apache-2.0
 *
 * Which elements go from rank to rank, between the chunks of a generation, each of which one rank
 * writes or has read, and tensors that ranks have in parts or whole. What was written by some
 * number of ranks, with some division, is read by any other: chunks know nothing of either.
 */
#ifndef TSR_RUNTIME_STORE_RESHARD_H
#define TSR_RUNTIME_STORE_RESHARD_H

#include "runtime/state/format.h"

/* How the tensors of a plan lie on ranks. */
typedef struct tsr_spread {
    uint32_t rank_count;
    /* By tensor of the plan: P parts of ceil(n / P) of its n elements, the last of which may be
     * short or empty; rank r of W has parts floor(P r / W) … floor(P (r + 1) / W) - 1. 0: every
     * rank has all. NULL: of every tensor. */
    const uint32_t *parts;
} tsr_spread;

typedef struct tsr_elements {
    uint64_t first, count;
} tsr_elements;
/* What a rank has of a tensor of `count` elements. */
tsr_elements tsr_spread_held(uint64_t count, uint32_t parts, uint32_t rank, uint32_t rank_count);

typedef struct tsr_move {
    uint32_t chunk, tensor; /* of the plan */
    uint32_t round;         /* of a pair of ranks at most one each way is in a round */
    uint32_t from, to;      /* ranks, which may be one */
    tsr_elements elements;  /* of the tensor */
} tsr_move;

typedef struct tsr_moves {
    tsr_move *moves; /* in the arena, by rounds */
    size_t count;
} tsr_moves;

typedef enum tsr_direction { TSR_TO_CHUNKS, TSR_FROM_CHUNKS } tsr_direction;

/* Those that rank `rank` takes part in. Chunks are those of the ranks of tsr_part_of. */
TSR_RESULT tsr_moves_plan(tsr_ctx *ctx, tsr_arena *arena, const tsr_manifest *plan,
                          const tsr_spread *spread, uint32_t rank, tsr_direction direction,
                          tsr_moves *out_moves);

#endif
