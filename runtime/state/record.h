/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a store's directory, read and decoded; does a token belong to what runs.
 */
#ifndef TSR_RUNTIME_STATE_RECORD_H
#define TSR_RUNTIME_STATE_RECORD_H

#include "runtime/state/format.h"
#include "runtime/state/names.h"

/* `name`: a MANIFEST, or a SPARE. TSR_STATE: it is missing or damaged. */
TSR_RESULT tsr_record_manifest(tsr_ctx *ctx, int root, tsr_arena *arena, const tsr_name *name,
                               tsr_manifest *out_manifest);
TSR_RESULT tsr_record_base(tsr_ctx *ctx, int root, tsr_arena *arena, uint64_t epoch,
                           tsr_link *out_link);
/* TSR_MISMATCH with both values: it is of another bundle, or of numerics that do not give the same
 * bits, which a warning tells where that is allowed. bundle_hash, numerics: NULL: any. */
TSR_RESULT tsr_token_belongs(tsr_ctx *ctx, const tsr_token *token, const tsr_digest *bundle_hash,
                             const char *numerics, bool allow_inexact);

#endif
