/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs work that uses MLIR in a child process: MLIR ends the process on some damaged inputs, and
 * when memory runs out. The death becomes a diagnostic (TSR_DIAG_CRASH, TSR_DIAG_MEMORY) of the
 * parent.
 *
 *     TSR_RESULT work(tsr_ctx *ctx, void *user) { … }   // prints, writes files, sends messages
 *     TRY(ctx, tsr_guard_run(ctx, &options, work, user));
 *
 * The child inherits everything, standard streams included; only its error and its messages come
 * back to the parent. Several threads may run children at once.
 */
#ifndef TSR_COMPILER_PROCESS_GUARD_H
#define TSR_COMPILER_PROCESS_GUARD_H

#include "compiler/diag/diag.h"

typedef struct tsr_guard_options {
    const char *source; /* name of the input, for the diagnostic */
    /* Called in the parent when the child died; may be NULL. */
    void (*on_diag)(void *user, const tsr_diag *diag);
    /* Called in the parent for each message of the child, in order; a NUL follows the bytes. A
     * failure ends the child and becomes the result. May be NULL if no message is sent. */
    TSR_RESULT(*on_message)
    (tsr_ctx *ctx, void *user, uint32_t kind, const char *bytes, size_t size_bytes);
    void *user; /* borrowed, for both callbacks */
    /* The process is the tool's: standard streams are flushed on both sides, and signals that end
     * programs are passed on to the child. */
    bool owns_process;
} tsr_guard_options;

/* Returns the result of `work`, with its error; TSR_COMPILE after on_diag if the child died,
 * TSR_MEMORY if it ran out of memory or if no child could be created. */
TSR_RESULT tsr_guard_run(tsr_ctx *ctx, const tsr_guard_options *options,
                         TSR_RESULT (*work)(tsr_ctx *ctx, void *user), void *user);

/* Sends a message to the parent; called in `work`. Messages of at most 4000 bytes may come from
 * any thread. */
void tsr_guard_send(uint32_t kind, const void *bytes, size_t size_bytes);

/* Ends `work` when memory runs out at a point where no caller can be told, such as while MLIR
 * builds an op; the parent reports it. Aborts if there is no guard. MLIR's own allocation failures
 * also end here. */
_Noreturn void tsr_guard_end_memory(void);
#define TSR_NEED(pointer)                                                                          \
    do {                                                                                           \
        if (!(pointer)) tsr_guard_end_memory();                                                    \
    } while (0)

/* Records the current activity, "parsing" or the name of a pass, for the diagnostic. For a child
 * of tsr_guard_run; does nothing elsewhere. */
void tsr_guard_note(const char *what);

#endif
