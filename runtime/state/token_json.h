/* SPDX-License-Identifier: Apache-2.0
 *
 * Resilience tokens as JSON (schemas/token.schema.json).
 */
#ifndef TSR_RUNTIME_STATE_TOKEN_JSON_H
#define TSR_RUNTIME_STATE_TOKEN_JSON_H

#include "runtime/base/buffer.h"
#include "runtime/state/format.h"

/* Appends one object: all fields of a decoded manifest's token, and its hash. */
void tsr_token_json(tsr_buffer *buffer, const tsr_manifest *manifest);

#endif
