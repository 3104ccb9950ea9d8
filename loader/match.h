/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of a bundle's targets runs here.
 */
#ifndef TSR_LOADER_MATCH_H
#define TSR_LOADER_MATCH_H

#include "bundle/bundle.h"
#include "loader/tessera.h"
#include "runtime/base/buffer.h"

/* The highest x86-64 level the bundle has and a CPU of `cpu_level` (runtime/cpu.h) can run, or the
 * one `forced` names (NULL: none). *out_reason (in the arena) says why it was chosen and why each
 * other lost. TSR_MACHINE for a CPU below v2 or a forced level the CPU lacks (both levels);
 * TSR_USAGE for a `forced` that is no level; TSR_TARGET, listing what there is, when the bundle has
 * nothing suitable. */
TSR_RESULT tsr_match_target(tsr_ctx *ctx, const tsr_bundle *bundle, unsigned cpu_level,
                            const char *forced, tsr_arena *arena, size_t *out_target,
                            const char **out_reason);

/* The target that suits compute capability `capability` (90: 9.0) best: code for it alone, else the
 * newest before it. TSR_TARGET lists what there is. */
TSR_RESULT tsr_match_cuda(tsr_ctx *ctx, const tsr_bundle *bundle, uint32_t capability,
                          tsr_arena *arena, size_t *out_target, const char **out_reason);

/* By what the options say of CPU and device; asks the machine which it has. TSR_USAGE for a device
 * of another name. */
TSR_RESULT tsr_match_options(tsr_ctx *ctx, const tsr_bundle *bundle,
                             const tsr_model_options *options, tsr_arena *arena, size_t *out_target,
                             const char **out_reason);

/* Equal texts, equal bits. `numerics` is the bundle's. "portable+fma": products and sums are
 * rounded once; "native+cuda:sm_90a": those of this target's matrix units, or of its dot products.
 * In the arena; NULL for want of memory. */
const char *tsr_match_numerics(const char *target, const char *numerics, tsr_arena *arena);

/* Why a target is the one that runs ("the highest level this CPU has"), or why it is not; `best` is
 * the target that does, or the target count where none does. Appended to out_text. */
void tsr_match_explain(const tsr_bundle *bundle, size_t target, size_t best, unsigned cpu_level,
                       bool forced, tsr_buffer *out_text);

#endif
