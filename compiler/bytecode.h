/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytecode becomes text. MLIR's reader of bytecode trusts what it reads: damaged bytecode makes it
 * write beyond its memory, ask for more than there is, or go in circles. So it runs in a child with
 * limits (source_limits.h), and only text comes back, to be checked as any other.
 */
#ifndef TSR_COMPILER_BYTECODE_H
#define TSR_COMPILER_BYTECODE_H

#include "compiler/diag.h"

bool tsr_is_bytecode(const char *bytes, size_t size_bytes);

/* The module with the place of every op, NUL-terminated, in the arena. TSR_COMPILE
 * when it cannot be read (TSR_DIAG_BYTECODE) or the child died (TSR_DIAG_CRASH); the diagnostics
 * are in the list. */
TSR_RESULT tsr_bytecode_text(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                             const char *bytes, size_t size_bytes, const char *name,
                             tsr_arena *arena, const char **out_text, size_t *out_size_bytes);

/* What the child does: appends the text; false if it cannot be read. For tests. */
bool tsr_bytecode_print(MlirContext context, const char *bytes, size_t size_bytes, const char *name,
                        tsr_buffer *out);

#endif
