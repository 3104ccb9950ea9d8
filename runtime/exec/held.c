/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/held.h"

#include "runtime/store.h"
#include "runtime/transport/collective.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 };

static uint64_t count_of(const tsr_tensor *tensor) {
    uint64_t count = 0;
    bool fits = tsr_shape_count(&tensor->shape, &count);
    TSR_ASSERT(fits);
    return count;
}

static uint32_t parts_of(const tsr_held *held, size_t tensor) {
    return held->parts ? held->parts[tensor] : 0;
}

bool tsr_held_is_spread(const tsr_held *held, size_t tensor) {
    return held->transport && held->transport->rank_count > 1 && parts_of(held, tensor) > 0;
}

static tsr_elements range_of(const tsr_held *held, size_t tensor, uint32_t rank) {
    uint64_t count = count_of(&held->tensors[tensor]);
    if (!tsr_held_is_spread(held, tensor)) return (tsr_elements){0, count};
    return tsr_spread_held(count, parts_of(held, tensor), rank, held->transport->rank_count);
}

tsr_elements tsr_held_range(const tsr_held *held, size_t tensor) {
    return range_of(held, tensor, held->transport ? held->transport->rank : 0);
}

void tsr_held_take(const tsr_held *held, size_t tensor, const void *whole) {
    const tsr_tensor *of = &held->tensors[tensor];
    tsr_elements own = tsr_held_range(held, tensor);
    size_t width = tsr_dtype_size(of->dtype);
    if (own.count)
        memcpy(of->data, (const char *)whole + own.first * width, (size_t)own.count * width);
}

tsr_result tsr_held_gather(tsr_ctx *ctx, const tsr_held *held, size_t tensor, void *out_whole) {
    const tsr_tensor *of = &held->tensors[tensor];
    tsr_elements own = tsr_held_range(held, tensor);
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1], width = tsr_dtype_size(of->dtype);
    if (own.count)
        memcpy((char *)out_whole + own.first * width, of->data, (size_t)own.count * width);
    if (!tsr_held_is_spread(held, tensor)) return TSR_SUCCESS;
    for (uint32_t r = 0; r < held->transport->rank_count; r++)
        first_byte[r] = (size_t)range_of(held, tensor, r).first * width;
    first_byte[held->transport->rank_count] = (size_t)count_of(of) * width;
    return tsr_all_gather(ctx, held->transport, out_whole, first_byte);
}

/* Broadcasts each piece from the rank that has it to all ranks. */
static tsr_result hash_spread(tsr_ctx *ctx, const tsr_held *held, size_t tensor, char *room,
                              tsr_digest *out_digest) {
    const tsr_tensor *of = &held->tensors[tensor];
    size_t width = tsr_dtype_size(of->dtype);
    tsr_tree_hasher hasher;
    tsr_tree_hasher_init(&hasher);
    for (uint32_t r = 0; r < held->transport->rank_count; r++) {
        size_t size = (size_t)range_of(held, tensor, r).count * width;
        for (size_t at = 0, part; at < size; at += part) {
            part = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
            if (r == held->transport->rank) memcpy(room, (const char *)of->data + at, part);
            TRY(ctx, tsr_broadcast(ctx, held->transport, r, room, part));
            tsr_tree_hasher_update(&hasher, room, part);
        }
    }
    *out_digest = tsr_tree_hasher_finish(&hasher);
    return TSR_SUCCESS;
}

tsr_result tsr_held_hash(tsr_ctx *ctx, const tsr_held *held, tsr_digest *digests,
                         tsr_digest *out_hash) {
    tsr_result result = TSR_SUCCESS;
    char *room = malloc(PIECE_BYTES);
    if (!room) FAIL(ctx, TSR_MEMORY, "no memory to hash %zu tensors", held->count);
    for (size_t i = 0; i < held->count; i++)
        if (tsr_held_is_spread(held, i))
            TRY_GOTO(ctx, result, hash_spread(ctx, held, i, room, &digests[i]));
    *out_hash = tsr_state_hash_digests(held->tensors, digests, held->count);
done:
    free(room);
    return result;
}
