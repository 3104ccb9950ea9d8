/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors as ranks hold them: whole, or the parts of their leaves. What is asked of all ranks is
 * asked by all of them, in the same order.
 */
#ifndef TSR_RUNTIME_SHARDED_VIEW_H
#define TSR_RUNTIME_SHARDED_VIEW_H

#include "runtime/base/hash.h"
#include "runtime/base/tensor.h"
#include "runtime/store/reshard.h"
#include "runtime/transport/transport.h"

/* All borrowed. */
typedef struct tsr_sharded_view {
    const tsr_tensor *tensors; /* shapes are those of the whole, data is what this rank holds */
    size_t count;
    const uint32_t *parts;    /* by tensor, see tsr_sharding; NULL: all are whole */
    tsr_transport *transport; /* NULL: one rank alone */
} tsr_sharded_view;

/* Whether other ranks hold other elements of the tensor. */
bool tsr_sharded_view_is_sharded(const tsr_sharded_view *view, size_t tensor);
/* The elements of this rank. */
tsr_elements tsr_sharded_view_range(const tsr_sharded_view *view, size_t tensor);
/* Copies this rank's elements from the whole. */
void tsr_sharded_view_fill(const tsr_sharded_view *view, size_t tensor, const void *whole);
/* Of all ranks: the whole, row-major, on each of them. */
TSR_RESULT tsr_sharded_view_gather(tsr_ctx *ctx, const tsr_sharded_view *view, size_t tensor,
                                   void *out_whole);
/* Of all ranks: tsr_state_hash of the whole tensors. `digests`, by tensor, has those of tensors
 * that are not sharded, and gets the others. Takes a megabyte, whatever they take. */
TSR_RESULT tsr_sharded_view_hash(tsr_ctx *ctx, const tsr_sharded_view *view, tsr_digest *digests,
                                 tsr_digest *out_hash);

#endif
