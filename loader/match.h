/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of a bundle's targets runs here.
 */
#ifndef TSR_LOADER_MATCH_H
#define TSR_LOADER_MATCH_H

#include "bundle/bundle.h"
#include "loader/tessera.h"
#include "runtime/base/buffer.h"

/* Which target runs, and what decided. */
typedef struct tsr_match {
    size_t target;               /* in the bundle; the target count: none */
    const char *choice;          /* in the arena: why this one, why not the others */
    bool may_be_gpu, may_be_cpu; /* by what is asked for */
    uint32_t capability;         /* of the GPU that was found, 90 for 9.0; 0: none */
    unsigned cpu_level;          /* of this machine */
    bool forced;                 /* a level of CPUs is asked for */
} tsr_match;

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
 * of another name. Of "auto" the error tells why there is neither a GPU nor a CPU. The match is
 * filled in also on failure, without a target. */
TSR_RESULT tsr_match_options(tsr_ctx *ctx, const tsr_bundle *bundle,
                             const tsr_model_options *options, tsr_arena *arena,
                             tsr_match *out_match);

/* A GPU was chosen and did not open, with this code: may a CPU run it instead? Only where "auto" is
 * asked for, and the GPU, its driver or its memory is why. */
bool tsr_match_may_leave(const tsr_bundle *bundle, const tsr_match *match, tsr_code code);
/* The CPU instead; the choice tells the error of `failed`, too. That error where the bundle has no
 * code for this CPU. */
TSR_RESULT tsr_match_leave(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_model_options *options,
                           const tsr_ctx *failed, tsr_arena *arena, tsr_match *inout_match);
/* Puts "; about: reason" behind the text of the current error; returns `result`. */
tsr_result tsr_match_add_reason(tsr_ctx *ctx, tsr_result result, const char *about,
                                const char *reason);

/* Equal texts, equal bits. `numerics` is the bundle's. "portable+fma.2": multiply-adds are rounded
 * once; "native+cuda:sm_90a.2": those of this target's matrix units, or of its dot products. The
 * version at the end is the bundle's: without one, sums and products have the order of version 1.
 * In the arena; NULL for want of memory. */
const char *tsr_match_numerics(const char *target, const char *numerics, tsr_arena *arena);

/* Why a target is the one that runs ("the highest level this CPU has"), or why it is not. Appended
 * to out_text. */
void tsr_match_explain(const tsr_bundle *bundle, size_t target, const tsr_match *match,
                       tsr_buffer *out_text);

#endif
