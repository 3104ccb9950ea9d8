/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs what uses MLIR in a child process: MLIR ends the process on some damaged inputs. The death
 * becomes a diagnostic (TSR_DIAG_CRASH) of the parent.
 *
 *     TSR_RESULT work(tsr_ctx *ctx, void *user) { … }   // prints, writes files
 *     TRY(ctx, tsr_guard_run(ctx, &options, work, user));
 *
 * The child inherits everything, standard streams included; of what it writes into memory only the
 * error comes back. Signals that end programs are passed on to it.
 */
#ifndef TSR_COMPILER_GUARD_H
#define TSR_COMPILER_GUARD_H

#include "compiler/diag.h"

typedef struct tsr_guard_options {
    const char *source;                                /* name of the input, for the diagnostic */
    void (*on_diag)(void *user, const tsr_diag *diag); /* in the parent */
    void *user;                                        /* for on_diag */
} tsr_guard_options;

/* What `work` came to, with its error; TSR_COMPILE after on_diag when it died. Where no child can
 * be made `work` runs here. */
TSR_RESULT tsr_guard_run(tsr_ctx *ctx, const tsr_guard_options *options,
                         TSR_RESULT (*work)(tsr_ctx *ctx, void *user), void *user);

/* Says what is being done, "parsing" or the name of a pass, for the diagnostic; in a child of
 * tsr_guard_run, and harmless elsewhere. */
void tsr_guard_note(const char *what);

/* Ends the child, as by a death, unless it is called again with 0 within so many seconds. */
void tsr_guard_limit(unsigned seconds);

#endif
