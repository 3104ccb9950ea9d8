/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs what uses MLIR in a child process: MLIR ends the process on some damaged inputs, and where
 * memory is short. The death becomes a diagnostic (TSR_DIAG_CRASH, TSR_DIAG_MEMORY) of the parent.
 *
 *     TSR_RESULT work(tsr_ctx *ctx, void *user) { … }   // prints, writes files, sends messages
 *     TRY(ctx, tsr_guard_run(ctx, &options, work, user));
 *
 * The child inherits everything, standard streams included; of what it writes into memory only the
 * error and the messages come back. Several threads may do so at once.
 */
#ifndef TSR_COMPILER_GUARD_H
#define TSR_COMPILER_GUARD_H

#include "compiler/diag.h"

typedef struct tsr_guard_options {
    const char *source; /* name of the input, for the diagnostic */
    /* In the parent, when the child died; may be NULL. */
    void (*on_diag)(void *user, const tsr_diag *diag);
    /* In the parent, for each message of the child, in order; a NUL stands behind the bytes. What
     * fails ends the child and is the result. May be NULL if none is sent. */
    TSR_RESULT(*on_message)
    (tsr_ctx *ctx, void *user, uint32_t kind, const char *bytes, size_t size_bytes);
    void *user; /* borrowed, for both */
    /* The process is the tool's: standard streams are flushed on both sides, and signals that end
     * programs are passed on to the child. */
    bool owns_process;
} tsr_guard_options;

/* What `work` came to, with its error; TSR_COMPILE after on_diag when it died, TSR_MEMORY when it
 * died for want of memory; this also where no child can be made. */
TSR_RESULT tsr_guard_run(tsr_ctx *ctx, const tsr_guard_options *options,
                         TSR_RESULT (*work)(tsr_ctx *ctx, void *user), void *user);

/* In `work`: a message to the parent. Those of at most 4000 bytes may come from any thread. */
void tsr_guard_send(uint32_t kind, const void *bytes, size_t size_bytes);

/* Memory is short where no caller can be told, as while MLIR builds an op: `work` ends, and the
 * parent says so. Aborts where there is no guard. MLIR's own shortage of memory ends here, too. */
_Noreturn void tsr_guard_end_memory(void);
#define TSR_NEED(pointer)                                                                          \
    do {                                                                                           \
        if (!(pointer)) tsr_guard_end_memory();                                                    \
    } while (0)

/* Says what is being done, "parsing" or the name of a pass, for the diagnostic; in a child of
 * tsr_guard_run, and harmless elsewhere. */
void tsr_guard_note(const char *what);

#endif
