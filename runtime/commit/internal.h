/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared declarations of the coordinator's files.
 */
#ifndef TSR_RUNTIME_COMMIT_INTERNAL_H
#define TSR_RUNTIME_COMMIT_INTERNAL_H

#include "runtime/commit/coordinator.h"
#include "runtime/commit/mutants.h"

/* Sends a request to every rank; answers arrive in tsr_coordinator_receive. `manifest`: its chunks
 * are divided among the ranks. */
void tsr_coordinator_ask(tsr_coordinator *c, tsr_phase phase, const tsr_message *request,
                         const tsr_manifest *manifest);
/* Sends a message to every rank, without an answer. */
void tsr_coordinator_tell(tsr_coordinator *c, const tsr_message *message);
/* Returns a name that no temporary file had before. */
tsr_name tsr_coordinator_temp(tsr_coordinator *c);
/* Reports the failure of the first failed rank as the context's error. */
tsr_result tsr_coordinator_failure(tsr_ctx *ctx, const tsr_coordinator *c);

/* Called after an answer to PREPARE; after all answers; after a failure or a timeout. */
void tsr_save_note(tsr_coordinator *c, const tsr_message *answer);
TSR_RESULT tsr_save_publish(tsr_ctx *ctx, tsr_coordinator *c);
TSR_RESULT tsr_save_fail(tsr_ctx *ctx, tsr_coordinator *c, tsr_result result, bool unknown);
/* TSR_LOCKED when a higher EPOCH exists. */
TSR_RESULT tsr_save_check_fence(tsr_ctx *ctx, tsr_coordinator *c);
/* Creates the directory of the next generation, so that a save need not wait for it. A failure is
 * harmless. */
void tsr_save_make_ready(tsr_ctx *ctx, tsr_coordinator *c);

/* Called when the generation was read back, or could not be: removes old generations, or returns
 * the failure. */
TSR_RESULT tsr_collect_read_back(tsr_ctx *ctx, tsr_coordinator *c);
/* Removes files that no manifest names. The root has been synced since the last manifest was
 * removed. */
TSR_RESULT tsr_collect_sweep(tsr_ctx *ctx, tsr_coordinator *c);
void tsr_collect_add_good(tsr_coordinator *c, tsr_retained retained);

static inline tsr_link tsr_manifest_link(const tsr_manifest *manifest) {
    return (tsr_link){manifest->token.generation, manifest->token.epoch, manifest->hash};
}

#endif
