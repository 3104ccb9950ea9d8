/* SPDX-License-Identifier: Apache-2.0
 *
 * The position in a training run at which the optimizer state of a bundle was saved: the layer
 * TSR_MEDIA_POSITION. Private to this folder.
 */
#ifndef TSR_LOADER_POSITION_H
#define TSR_LOADER_POSITION_H

#include "bundle/bundle.h"
#include "runtime/store.h"
#include "runtime/transport/transport.h"

/* Writes JSON into the arena, NUL-terminated. */
TSR_RESULT tsr_position_encode(tsr_ctx *ctx, const tsr_position *position, tsr_arena *arena,
                               char **out_json, size_t *out_size_bytes);
/* *out_found is false if the bundle stores no position. Fails with TSR_CORRUPT if it is malformed.
 */
TSR_RESULT tsr_position_read(tsr_ctx *ctx, tsr_bundle *bundle, size_t target, bool *out_found,
                             tsr_position *out_position);
/* Checks that all ranks are at the same position; they compare their data by its digest. */
TSR_RESULT tsr_position_agree(tsr_ctx *ctx, tsr_transport *transport, const tsr_position *position);

#endif
