/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/sharded_view.h"

#include "runtime/store.h"
#include "runtime/transport/collective.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 20 };

static uint64_t count_of(const tsr_tensor *tensor) {
    uint64_t count = 0;
    bool fits = tsr_shape_count(&tensor->shape, &count);
    TSR_ASSERT(fits);
    return count;
}

static uint32_t parts_of(const tsr_sharded_view *view, size_t tensor) {
    return view->parts ? view->parts[tensor] : 0;
}

bool tsr_sharded_view_is_sharded(const tsr_sharded_view *view, size_t tensor) {
    return view->transport && view->transport->rank_count > 1 && parts_of(view, tensor) > 0;
}

static tsr_elements range_of(const tsr_sharded_view *view, size_t tensor, uint32_t rank) {
    uint64_t count = count_of(&view->tensors[tensor]);
    if (!tsr_sharded_view_is_sharded(view, tensor)) return (tsr_elements){0, count};
    return tsr_sharding_range(count, parts_of(view, tensor), rank, view->transport->rank_count);
}

tsr_elements tsr_sharded_view_range(const tsr_sharded_view *view, size_t tensor) {
    return range_of(view, tensor, view->transport ? view->transport->rank : 0);
}

void tsr_sharded_view_fill(const tsr_sharded_view *view, size_t tensor, const void *whole) {
    const tsr_tensor *of = &view->tensors[tensor];
    tsr_elements own = tsr_sharded_view_range(view, tensor);
    size_t width = tsr_dtype_size(of->dtype);
    if (own.count)
        memcpy(of->data, (const char *)whole + own.first * width, (size_t)own.count * width);
}

tsr_result tsr_sharded_view_gather(tsr_ctx *ctx, const tsr_sharded_view *view, size_t tensor,
                                   void *out_whole) {
    const tsr_tensor *of = &view->tensors[tensor];
    tsr_elements own = tsr_sharded_view_range(view, tensor);
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1], width = tsr_dtype_size(of->dtype);
    if (own.count)
        memcpy((char *)out_whole + own.first * width, of->data, (size_t)own.count * width);
    if (!tsr_sharded_view_is_sharded(view, tensor)) return TSR_SUCCESS;
    for (uint32_t r = 0; r < view->transport->rank_count; r++)
        first_byte[r] = (size_t)range_of(view, tensor, r).first * width;
    first_byte[view->transport->rank_count] = (size_t)count_of(of) * width;
    return tsr_all_gather(ctx, view->transport, out_whole, first_byte);
}

/* Broadcasts each piece from the rank that has it to all ranks. */
static tsr_result hash_sharded(tsr_ctx *ctx, const tsr_sharded_view *view, size_t tensor,
                               char *buffer, tsr_digest *out_digest) {
    const tsr_tensor *of = &view->tensors[tensor];
    size_t width = tsr_dtype_size(of->dtype);
    tsr_tree_hasher hasher;
    tsr_tree_hasher_init(&hasher);
    for (uint32_t r = 0; r < view->transport->rank_count; r++) {
        size_t size = (size_t)range_of(view, tensor, r).count * width;
        for (size_t at = 0, part; at < size; at += part) {
            part = size - at < BLOCK_BYTES ? size - at : BLOCK_BYTES;
            if (r == view->transport->rank) memcpy(buffer, (const char *)of->data + at, part);
            TRY(ctx, tsr_broadcast(ctx, view->transport, r, buffer, part));
            tsr_tree_hasher_update(&hasher, buffer, part);
        }
    }
    *out_digest = tsr_tree_hasher_finish(&hasher);
    return TSR_SUCCESS;
}

tsr_result tsr_sharded_view_hash(tsr_ctx *ctx, const tsr_sharded_view *view, tsr_digest *digests,
                                 tsr_digest *out_hash) {
    tsr_result result = TSR_SUCCESS;
    char *buffer = malloc(BLOCK_BYTES);
    if (!buffer) FAIL(ctx, TSR_MEMORY, "no memory to hash %zu tensors", view->count);
    for (size_t i = 0; i < view->count; i++)
        if (tsr_sharded_view_is_sharded(view, i))
            TRY_GOTO(ctx, result, hash_sharded(ctx, view, i, buffer, &digests[i]));
    *out_hash = tsr_state_hash_digests(view->tensors, digests, view->count);
done:
    free(buffer);
    return result;
}
