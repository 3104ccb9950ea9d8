/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs all entries of a model on values that depend on the program only, to compare two bundles of
 * one program, and to time their kernels.
 *
 *     ctx->trace = trace;                       kernels are timed for a trace
 *     TRY(ctx, tsr_trial_open(ctx, "a.tsb", &options, &a));
 *     TRY(ctx, tsr_trial_run(ctx, a, 1));
 */
#ifndef TSR_LOADER_TRIAL_H
#define TSR_LOADER_TRIAL_H

#include "tessera/tessera.h"

/* Opens and initializes the model, and fills its inputs: floats in [-1, 1), integers 0 or 1, which
 * are valid indices of most tables. TSR_USAGE for a program with virtual ranks. */
TSR_RESULT tsr_trial_open(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                          tsr_model **out_model);
/* Runs every entry once. `step`: from 1. */
TSR_RESULT tsr_trial_run(tsr_ctx *ctx, tsr_model *model, uint64_t step);
/* TSR_MISMATCH names the first output or tensor whose bytes differ. The models are of one program.
 */
TSR_RESULT tsr_trial_compare(tsr_ctx *ctx, const tsr_model *model, const tsr_model *other);
/* Time of all launches of a kernel until now; 0 for an unknown kernel. The model was opened with a
 * trace. */
uint64_t tsr_trial_get_time_ns(const tsr_model *model, const char *kernel);

#endif
