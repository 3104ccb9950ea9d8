/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors as ranks hold them: whole, or the parts of their leaves. What is asked of all ranks is
 * asked by all of them, in the same order.
 */
#ifndef TSR_RUNTIME_HELD_H
#define TSR_RUNTIME_HELD_H

#include "runtime/base/hash.h"
#include "runtime/base/tensor.h"
#include "runtime/store/reshard.h"
#include "runtime/transport/transport.h"

/* All borrowed. */
typedef struct tsr_held {
    const tsr_tensor *tensors; /* shapes are those of the whole, data is what this rank holds */
    size_t count;
    const uint32_t *parts;    /* by tensor, see tsr_spread; NULL: all are whole */
    tsr_transport *transport; /* NULL: one rank alone */
} tsr_held;

/* Do other ranks hold other elements of it? */
bool tsr_held_is_spread(const tsr_held *held, size_t tensor);
/* Those of this rank. */
tsr_elements tsr_held_range(const tsr_held *held, size_t tensor);
/* This rank's elements, from the whole. */
void tsr_held_take(const tsr_held *held, size_t tensor, const void *whole);
/* Of all ranks: the whole, row-major, on each of them. */
TSR_RESULT tsr_held_gather(tsr_ctx *ctx, const tsr_held *held, size_t tensor, void *out_whole);
/* Of all ranks: tsr_state_hash of the whole tensors. `digests`, by tensor, has those of what is not
 * spread, and gets the others. Takes a megabyte, whatever they take. */
TSR_RESULT tsr_held_hash(tsr_ctx *ctx, const tsr_held *held, tsr_digest *digests,
                         tsr_digest *out_hash);

#endif
