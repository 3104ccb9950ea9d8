/* SPDX-License-Identifier: Apache-2.0
 *
 * The best generation of a run, as manifests name it (docs/state-store.md).
 */
#ifndef TSR_RUNTIME_STATE_BEST_H
#define TSR_RUNTIME_STATE_BEST_H

#include "runtime/state/format.h"
#include "runtime/state/names.h"

/* Returns NULL if the text names a metric, "min:NAME" or "max:NAME"; else what is wrong. */
const char *tsr_metric_check(const char *metric);
/* The best generation that a token names can be: it is its own or an earlier one. */
bool tsr_best_is_sound(const tsr_token *token);
/* Returns what a manifest says about the best generation, with the complete link to it. */
tsr_best tsr_best_of(const tsr_manifest *manifest);
/* Completes the link in a token that will be written: its own generation for TSR_BEST_ITSELF, else
 * that of `known`, which it must name (asserted). */
void tsr_best_link(tsr_token *token, const tsr_best *known);

/* A generation that is retained, and the best generation that its token names, which is retained
 * with it.
 */
typedef struct tsr_retained {
    tsr_name name, best; /* best.generation 0: none */
} tsr_retained;
tsr_retained tsr_retained_of(const tsr_manifest *manifest);
bool tsr_retained_has(const tsr_retained *retained, const tsr_name *name); /* either of the two */

/* Reads the manifest of the best generation, of a complete link. TSR_STATE: it is missing or
 * another one. */
TSR_RESULT tsr_best_check(tsr_ctx *ctx, int root, tsr_arena *arena, const tsr_best *best,
                          tsr_manifest *out_manifest);
/* Clears the link; metric and count stay. */
void tsr_best_forget(tsr_best *best);

#endif
