/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured plans as a document: schemas/plans.schema.json. It may hold plans of several machines
 * and targets.
 */
#ifndef TSR_TOOLS_AOT_TUNE_ARTIFACT_H
#define TSR_TOOLS_AOT_TUNE_ARTIFACT_H

#include "tools/aot/tune/store.h"

TSR_RESULT tsr_artifact_write(tsr_ctx *ctx, const char *path, const tsr_store_entry *entries,
                              size_t count);
/* Entries and texts are in the arena. TSR_DATA names what is wrong in the file; TSR_VERSION for a
 * newer format. */
TSR_RESULT tsr_artifact_read(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                             tsr_store_entry **out_entries, size_t *out_count);

/* The plans of a store or of an artifact that kernels of a build may take: those of these numerics,
 * first those that this machine measured; of a store only those of this program. */
TSR_RESULT tsr_schedules_load(tsr_ctx *ctx, const char *path, const char *numerics,
                              tsr_arena *arena, tsr_measured **out_plans, size_t *out_count);

#endif
