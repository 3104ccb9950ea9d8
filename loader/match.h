/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the target of a bundle that runs here.
 */
#ifndef TSR_LOADER_MATCH_H
#define TSR_LOADER_MATCH_H

#include "bundle/bundle.h"
#include "runtime/base/buffer.h"
#include "runtime/device/device.h"
#include "tessera/tessera.h"

/* The chosen target and the facts that decided it. */
typedef struct tsr_match {
    size_t target; /* index in the bundle; the target count if no target runs */
    /* allocated in the arena: why this target, and why not the others */
    const char *choice;
    bool may_be_gpu, may_be_cpu; /* allowed by the options */
    const tsr_device_type *gpu;  /* the type that was probed last; NULL: none */
    uint32_t capability; /* capability of the NVIDIA GPU that was found, 90 for 9.0; 0: none */
    uint32_t amd;        /* architecture of the AMD GPU that was found (manifests/amd.h); 0: none */
    unsigned cpu_level;  /* level of this machine's CPU */
    bool forced;         /* the options name a CPU level */
} tsr_match;

/* Chooses the highest x86-64 level that the bundle has and a CPU of `cpu_level` (runtime/cpu.h) can
 * run, or the level named by `forced` (NULL: not forced). *out_reason (in the arena) says why it
 * was chosen and why each other target was not. Fails with TSR_MACHINE for a CPU below v2 or a
 * forced level that the CPU lacks (both levels); TSR_USAGE if `forced` is not a level; TSR_TARGET,
 * listing the bundle's targets, if no target is suitable. */
TSR_RESULT tsr_match_target(tsr_ctx *ctx, const tsr_bundle *bundle, unsigned cpu_level,
                            const char *forced, tsr_arena *arena, size_t *out_target,
                            const char **out_reason);

/* Chooses the best target for compute capability `capability` (90: 9.0): code for exactly this one,
 * else the newest before it. Fails with TSR_TARGET, listing the bundle's targets. */
TSR_RESULT tsr_match_cuda(tsr_ctx *ctx, const tsr_bundle *bundle, uint32_t capability,
                          tsr_arena *arena, size_t *out_target, const char **out_reason);

/* The same for an AMD GPU: its own code, else generic code. The error names the target to build. */
TSR_RESULT tsr_match_amd(tsr_ctx *ctx, const tsr_bundle *bundle, uint32_t arch, tsr_arena *arena,
                         size_t *out_target, const char **out_reason);
/* One of the two, for a GPU of that type. */
TSR_RESULT tsr_match_gpu(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_device_type *type,
                         uint32_t arch, tsr_arena *arena, size_t *out_target,
                         const char **out_reason);

/* Chooses by the CPU and device in the options, and finds out whether the machine has them. Fails
 * with TSR_USAGE for an unknown device name. For "auto" the error says why neither a GPU nor a CPU
 * can be used. The match is filled in even on failure, without a target. */
TSR_RESULT tsr_match_options(tsr_ctx *ctx, const tsr_bundle *bundle,
                             const tsr_model_options *options, tsr_arena *arena,
                             tsr_match *out_match);

/* Returns true if a CPU may replace a chosen GPU that failed to open with this code: only with
 * "auto", and only if the GPU, its driver or its memory is the reason. */
bool tsr_match_may_leave(const tsr_bundle *bundle, const tsr_match *match, tsr_code code);
/* Chooses the CPU instead; the choice also includes the error of `failed`. Fails with that error if
 * the bundle has no code for this CPU. */
TSR_RESULT tsr_match_leave(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_model_options *options,
                           const tsr_ctx *failed, tsr_arena *arena, tsr_match *inout_match);
/* Appends "; about: reason" to the text of the current error; returns `result`. */
tsr_result tsr_match_add_reason(tsr_ctx *ctx, tsr_result result, const char *about,
                                const char *reason);

/* Returns the text for the numerics of a target: equal texts mean equal bits. `numerics` is the
 * bundle's. "portable+fma.2": multiply-adds are rounded once; "native+cuda:sm_90a.2": the numerics
 * of this target's matrix units, or of its dot products. The version at the end is the bundle's:
 * without one, sums and products have the order of version 1. In the arena; NULL if out of
 * memory. */
const char *tsr_match_numerics(const char *target, const char *numerics, tsr_arena *arena);

/* Appends to out_text why a target is the one that runs ("the highest level this CPU has"), or why
 * it is not. */
void tsr_match_explain(const tsr_bundle *bundle, size_t target, const tsr_match *match,
                       tsr_buffer *out_text);

#endif
