/* SPDX-License-Identifier: Apache-2.0
 *
 * Round i handles the i-th chunk of every rank's part. A chunk is exchanged with the ranks that
 * have some of its elements, which are consecutive, or with all ranks if each has the full tensor.
 */
#include "runtime/store/reshard.h"

#include <inttypes.h>

/* The first element of part `part`; parts have ceil(count / parts) elements. */
static uint64_t part_begin(uint64_t count, uint32_t parts, uint64_t part) {
    uint64_t each = count / parts + (count % parts != 0), begin;
    if (__builtin_mul_overflow(each, part, &begin) || begin > count) return count;
    return begin;
}

tsr_elements tsr_sharding_range(uint64_t count, uint32_t parts, uint32_t rank,
                                uint32_t rank_count) {
    TSR_ASSERT(rank < rank_count);
    if (parts == 0) return (tsr_elements){0, count};
    uint64_t first = part_begin(count, parts, (uint64_t)parts * rank / rank_count);
    uint64_t end = part_begin(count, parts, (uint64_t)parts * (rank + 1u) / rank_count);
    return (tsr_elements){first, end - first};
}

/* The rank whose share of `total` items contains item `index`. */
static uint32_t owner_of(uint64_t index, uint64_t total, uint32_t rank_count) {
    return (uint32_t)(((index + 1) * rank_count - 1) / total);
}

typedef struct planner {
    const tsr_manifest *plan;
    const tsr_sharding *sharding;
    uint32_t rank;
    tsr_direction direction;
    uint32_t *tensors; /* tensor of each chunk */
    tsr_move *moves;   /* NULL: they are only counted */
    size_t count;
} planner;

static uint32_t parts_of(const planner *p, uint32_t tensor) {
    return p->sharding->parts ? p->sharding->parts[tensor] : 0;
}

static uint64_t count_of(const planner *p, uint32_t tensor) {
    uint64_t count = 0;
    bool fits = tsr_shape_count(&p->plan->tensors[tensor].shape, &count);
    TSR_ASSERT(fits);
    return count;
}

/* Adds the move of the elements that `holder` has of a chunk of `owner`. */
static void add(planner *p, uint32_t chunk, uint32_t round, uint32_t owner, uint32_t holder,
                tsr_elements elements) {
    bool to_chunks = p->direction == TSR_TO_CHUNKS;
    if (elements.count == 0 || (owner != p->rank && holder != p->rank)) return;
    if (p->moves)
        p->moves[p->count] = (tsr_move){.chunk = chunk,
                                        .tensor = p->tensors[chunk],
                                        .round = round,
                                        .from = to_chunks ? holder : owner,
                                        .to = to_chunks ? owner : holder,
                                        .elements = elements};
    p->count++;
}

static tsr_elements overlap(const tsr_chunk_row *chunk, tsr_elements own) {
    uint64_t first = chunk->first > own.first ? chunk->first : own.first;
    uint64_t end = chunk->first + chunk->count, own_end = own.first + own.count;
    if (own_end < end) end = own_end;
    return (tsr_elements){first, end > first ? end - first : 0};
}

static void add_whole(planner *p, uint32_t chunk, uint32_t round, uint32_t owner) {
    const tsr_chunk_row *row = &p->plan->chunks[chunk];
    const tsr_elements all = {row->first, row->count};
    bool copies = p->direction == TSR_TO_CHUNKS; /* the owner has it in its tensor, too */
    uint32_t first = copies ? owner : owner == p->rank ? 0 : p->rank;
    uint32_t end = copies ? owner + 1 : owner == p->rank ? p->sharding->rank_count : p->rank + 1;
    for (uint32_t r = first; r < end; r++) add(p, chunk, round, owner, r, all);
}

static void add_chunk(planner *p, uint32_t chunk, uint32_t round, uint32_t owner) {
    const tsr_chunk_row *row = &p->plan->chunks[chunk];
    uint32_t tensor = p->tensors[chunk], parts = parts_of(p, tensor);
    uint32_t ranks = p->sharding->rank_count;
    if (parts == 0) {
        add_whole(p, chunk, round, owner);
        return;
    }
    uint64_t count = count_of(p, tensor), each = count / parts + (count % parts != 0);
    uint32_t first = p->rank, last = p->rank;
    if (owner == p->rank && row->count) {
        first = owner_of(row->first / each, parts, ranks);
        last = owner_of((row->first + row->count - 1) / each, parts, ranks);
    }
    for (uint32_t r = first; r <= last; r++)
        add(p, chunk, round, owner, r, overlap(row, tsr_sharding_range(count, parts, r, ranks)));
}

static void walk(planner *p) {
    uint32_t chunks = p->plan->chunk_count, ranks = p->sharding->rank_count;
    uint32_t rounds = chunks / ranks + (chunks % ranks != 0);
    p->count = 0;
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t r = 0; r < ranks; r++) {
            const tsr_part part = tsr_part_of(chunks, r, ranks);
            if (round < part.count) add_chunk(p, part.first + round, round, r);
        }
}

tsr_result tsr_moves_plan(tsr_ctx *ctx, tsr_arena *arena, const tsr_manifest *plan,
                          const tsr_sharding *sharding, uint32_t rank, tsr_direction direction,
                          tsr_moves *out_moves) {
    planner p = {.plan = plan, .sharding = sharding, .rank = rank, .direction = direction};
    TSR_ASSERT(rank < sharding->rank_count);
    p.tensors = TSR_NEW(arena, uint32_t, (size_t)plan->chunk_count + 1);
    if (!p.tensors) FAIL(ctx, TSR_MEMORY, "no memory for %" PRIu32 " chunks", plan->chunk_count);
    for (uint32_t i = 0, chunk = 0; i < plan->tensor_count; i++)
        for (uint32_t k = 0; k < plan->tensors[i].chunk_count; k++) p.tensors[chunk++] = i;
    walk(&p);
    p.moves = TSR_NEW(arena, tsr_move, p.count + 1);
    if (!p.moves) FAIL(ctx, TSR_MEMORY, "no memory for %zu moves", p.count);
    walk(&p);
    *out_moves = (tsr_moves){p.moves, p.count};
    return TSR_SUCCESS;
}
