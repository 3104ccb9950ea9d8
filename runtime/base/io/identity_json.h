/* SPDX-License-Identifier: Apache-2.0
 *
 * Program digest and hyper-parameters as members of JSON objects: the config, tokens, logs.
 */
#ifndef TSR_BASE_IDENTITY_JSON_H
#define TSR_BASE_IDENTITY_JSON_H

#include "runtime/base/buffer.h"
#include "runtime/base/identity.h"
#include "runtime/base/io/json.h"

/* Appends `,"set":["lr"]`, the names of values that a run set; nothing if there are none. */
void tsr_identity_write_set(tsr_buffer *out, const tsr_identity *identity);
/* Appends `"program":"<hex>","hyperparameters":{"lr":"0.01"}`. */
void tsr_identity_write_json(tsr_buffer *out, const tsr_identity *identity);
/* Appends the hyper-parameters alone, as an object. */
void tsr_identity_write_hyperparameters(tsr_buffer *out, const tsr_identity *identity);
/* Reads both members of `object`, which must be there and valid. Results are in the arena. */
TSR_RESULT tsr_identity_read_json(tsr_ctx *ctx, const struct cJSON *object,
                                  const tsr_json_options *options, tsr_arena *arena,
                                  tsr_identity *out_identity);
/* Reads `set`, if it is there, for a list that was read before, which is in the same arena. */
TSR_RESULT tsr_identity_read_set(tsr_ctx *ctx, const struct cJSON *object,
                                 const tsr_json_options *options, tsr_arena *arena,
                                 tsr_identity *identity);

#endif
