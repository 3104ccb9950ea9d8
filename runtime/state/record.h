/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and decodes the records of a store's directory; checks if a token belongs to a program.
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
/* TSR_MISMATCH with both values: the token is from another program, or from numerics that do not
 * give the same bits; with allow_inexact, other numerics only cause a warning. program, numerics:
 * NULL accepts any. */
TSR_RESULT tsr_token_belongs(tsr_ctx *ctx, const tsr_token *token, const tsr_store_program *program,
                             const char *numerics, bool allow_inexact);
/* Logs a notice for each hyper-parameter that is another one in the program than in the token. */
void tsr_token_tell_changes(const tsr_ctx *ctx, const tsr_token *token,
                            const tsr_store_program *program);

#endif
