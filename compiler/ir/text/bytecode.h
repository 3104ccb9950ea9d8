/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts bytecode to text. MLIR's bytecode reader trusts its input: damaged bytecode makes it
 * write out of bounds, allocate without limit or loop forever. It therefore runs in a child
 * process with limits (source_limits.h), and only text comes back, which is checked like any other
 * text.
 */
#ifndef TSR_COMPILER_IR_BYTECODE_H
#define TSR_COMPILER_IR_BYTECODE_H

#include "compiler/diag/diag.h"

bool tsr_is_bytecode(const char *bytes, size_t size_bytes);

/* Writes the module, with the location of every op, as NUL-terminated text in the arena. Fails
 * with TSR_COMPILE when it cannot be read (TSR_DIAG_BYTECODE) or the child died (TSR_DIAG_CRASH);
 * the diagnostics are in the list. */
TSR_RESULT tsr_bytecode_text(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                             const char *bytes, size_t size_bytes, const char *name,
                             tsr_arena *arena, const char **out_text, size_t *out_size_bytes);

/* The part that runs in the child: appends the text; false if the bytecode cannot be read.
 * Exported for tests. */
bool tsr_bytecode_print(MlirContext context, const char *bytes, size_t size_bytes, const char *name,
                        tsr_buffer *out);

#endif
