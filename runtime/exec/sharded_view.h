/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors as distributed over ranks: full, or as the parts of a rank's vranks. Collective functions
 * are called by all ranks in the same order.
 */
#ifndef TSR_RUNTIME_SHARDED_VIEW_H
#define TSR_RUNTIME_SHARDED_VIEW_H

#include "runtime/base/hash/hash.h"
#include "runtime/base/tensor.h"
#include "runtime/store/reshard.h"
#include "runtime/transport/transport.h"

/* The view borrows all of these. */
typedef struct tsr_sharded_view {
    const tsr_tensor *tensors; /* shapes are full shapes, data is this rank's part */
    size_t count;
    const uint32_t *parts;    /* one per tensor, see tsr_spread; NULL: all are full */
    tsr_transport *transport; /* NULL: a single rank */
} tsr_sharded_view;

/* True if other ranks have other elements of the tensor. */
bool tsr_sharded_view_is_sharded(const tsr_sharded_view *view, size_t tensor);
/* Returns the elements of this rank. */
tsr_elements tsr_sharded_view_range(const tsr_sharded_view *view, size_t tensor);
/* Copies this rank's elements from the full tensor. */
void tsr_sharded_view_fill(const tsr_sharded_view *view, size_t tensor, const void *whole);
/* Collective: gathers the full tensor, row-major, on every rank. */
TSR_RESULT tsr_sharded_view_gather(tsr_ctx *ctx, const tsr_sharded_view *view, size_t tensor,
                                   void *out_whole);
/* Collective: tsr_state_hash of the full tensors. `digests`, one per tensor, must have the digests
 * of tensors that are not spread, and receives the digests of all other tensors. Needs a megabyte
 * of memory for tensors of any size. */
TSR_RESULT tsr_sharded_view_hash(tsr_ctx *ctx, const tsr_sharded_view *view, tsr_digest *digests,
                                 tsr_digest *out_hash);

#endif
