/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads this rank's part of a state once, with as many threads as the device has or supports as
 * readers: computes the digests of its tensors, and checks that they are finite.
 */
#ifndef TSR_RUNTIME_STATE_SCAN_H
#define TSR_RUNTIME_STATE_SCAN_H

#include "runtime/exec/executor.h"
#include "runtime/exec/sharded_view.h"
#include "runtime/store.h"

/* Reads tensors of the executor, which may be valid only on the device: no tensor is fetched.
 * out_digests: tsr_hash_tree of each tensor that is full here. *out_nonfinite: the first tensor in
 * order that is not finite, if any, and the index of the element in the full tensor (the caller
 * sets `step`). No other thread may read concurrently with runs during this call. */
TSR_RESULT tsr_state_scan(tsr_ctx *ctx, tsr_executor *executor, const tsr_sharded_view *view,
                          tsr_digest *out_digests, tsr_nonfinite *out_nonfinite);
/* Collective: tsr_state_hash of the full tensors, with a single read as above. */
TSR_RESULT tsr_state_scan_hash(tsr_ctx *ctx, tsr_executor *executor, const tsr_sharded_view *view,
                               tsr_digest *out_hash);

#endif
