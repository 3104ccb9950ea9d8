/* SPDX-License-Identifier: Apache-2.0
 *
 * Resilience tokens as JSON (schemas/token.schema.json).
 */
#ifndef TSR_RUNTIME_STATE_TOKEN_JSON_H
#define TSR_RUNTIME_STATE_TOKEN_JSON_H

#include "runtime/base/buffer.h"
#include "runtime/state/format.h"

/* Appends a text that need not be UTF-8 as a JSON string: if it is not, each byte past ASCII
 * becomes \u00XX. */
void tsr_json_any_text(tsr_buffer *buffer, const char *text);
/* Appends one object: all fields of a decoded manifest's token, and its hash. */
void tsr_token_json(tsr_buffer *buffer, const tsr_manifest *manifest);

#endif
