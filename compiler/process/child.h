/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a function in a forked child and returns its bytes. Changes of the child's memory, and its
 * death, do not affect the caller.
 */
#ifndef TSR_COMPILER_PROCESS_CHILD_H
#define TSR_COMPILER_PROCESS_CHILD_H

#include "runtime/base/arena.h"
#include "runtime/base/buffer.h"

enum { TSR_CHILD_NOTE_MAX = 256, TSR_CHILD_TEXT_MAX = 400 };

/* Runs in the child. `note` names the current work, for the message if the child dies. The bytes
 * appended to `out` are the result. */
typedef tsr_result (*tsr_child_fn)(tsr_ctx *ctx, void *user, char note[static TSR_CHILD_NOTE_MAX],
                                   tsr_buffer *out);

typedef struct tsr_child_options {
    const char *what;      /* begins every message, e.g. "code generation for 'cpu:x86-64-v3'" */
    uint64_t memory_bytes; /* address space in addition to the mappings at the fork; 0: no limit */
    uint64_t timeout_ns;   /* wall clock */
} tsr_child_options;

/* The function's own error is returned unchanged. Death by a signal, by the clock or by exit is
 * TSR_INTERNAL with the signal, the note and the last line the child wrote to stderr. */
TSR_RESULT tsr_child_run(tsr_ctx *ctx, const tsr_child_options *options, tsr_child_fn run,
                         void *user, tsr_arena *arena, void **out_bytes, size_t *out_size_bytes);

#endif
