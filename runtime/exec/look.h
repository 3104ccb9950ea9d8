/* SPDX-License-Identifier: Apache-2.0
 *
 * All that a rank holds of a state, read once, by as many threads as the device has or can be read
 * by: what its tensors hash to, and whether they are finite.
 */
#ifndef TSR_RUNTIME_LOOK_H
#define TSR_RUNTIME_LOOK_H

#include "runtime/exec/executor.h"
#include "runtime/exec/held.h"
#include "runtime/store.h"

/* Tensors of the executor, which may be good on the device alone: none is fetched. out_digests:
 * tsr_hash_tree of each that is whole here. *out_nonfinite: the first in order that is not finite,
 * and its element of the whole, where there is one (`step` is the caller's). Nobody else reads
 * beside runs meanwhile. */
TSR_RESULT tsr_look(tsr_ctx *ctx, tsr_executor *executor, const tsr_held *held,
                    tsr_digest *out_digests, tsr_nonfinite *out_nonfinite);
/* Of all ranks: tsr_state_hash of the whole tensors, by such a look. */
TSR_RESULT tsr_look_hash(tsr_ctx *ctx, tsr_executor *executor, const tsr_held *held,
                         tsr_digest *out_hash);

#endif
