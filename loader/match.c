/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/match.h"

#include "runtime/cpu.h"
#include "runtime/device/device.h"

#include <stdlib.h>
#include <string.h>

static void list_targets(const tsr_bundle *bundle, tsr_buffer *out_text) {
    size_t count = tsr_bundle_get_target_count(bundle);
    for (size_t i = 0; i < count; i++)
        tsr_buffer_printf(out_text, "%s%s", i ? ", " : "", tsr_bundle_get_target_name(bundle, i));
}

/* The best target, or the target count. */
static size_t find_best(const tsr_bundle *bundle, unsigned cpu_level, unsigned forced_level) {
    size_t count = tsr_bundle_get_target_count(bundle), best = count;
    unsigned best_level = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned level = tsr_cpu_parse_level(tsr_bundle_get_target_name(bundle, i));
        bool suits =
            forced_level ? level == forced_level : level > best_level && level <= cpu_level;
        if (level == 0 || !suits) continue;
        best = i;
        best_level = level;
    }
    return best;
}

static void explain_gpu(bool chosen, unsigned level, tsr_buffer *out_text) {
    if (chosen)
        tsr_buffer_text(out_text, "code for this GPU");
    else if (level)
        tsr_buffer_text(out_text, "a GPU runs it");
    else
        tsr_buffer_text(out_text, "no such device here, or other code suits it better");
}

void tsr_match_explain(const tsr_bundle *bundle, size_t target, size_t best, unsigned cpu_level,
                       bool forced, tsr_buffer *out_text) {
    const char *name = tsr_bundle_get_target_name(bundle, target);
    unsigned level = tsr_cpu_parse_level(name);
    if (best < tsr_bundle_get_target_count(bundle) &&
        !tsr_cpu_parse_level(tsr_bundle_get_target_name(bundle, best)))
        explain_gpu(target == best, level, out_text);
    else if (level == 0)
        tsr_buffer_text(out_text, "needs a GPU as the device");
    else if (target == best && forced)
        tsr_buffer_text(out_text, "asked for");
    else if (target == best && level == cpu_level)
        tsr_buffer_text(out_text, "the highest level this CPU has");
    else if (target == best)
        tsr_buffer_printf(out_text, "the highest level that the bundle shares with this CPU (%s)",
                          tsr_cpu_level_name(cpu_level));
    else if (level > cpu_level)
        tsr_buffer_printf(out_text, "this CPU has %s", tsr_cpu_level_name(cpu_level));
    else if (level < 2)
        tsr_buffer_text(out_text, "at least x86-64-v2 is needed");
    else
        tsr_buffer_text(out_text, forced ? "not asked for" : "a lower level");
}

static void explain(const tsr_bundle *bundle, size_t best, unsigned cpu_level, bool forced,
                    tsr_buffer *out_text) {
    size_t count = tsr_bundle_get_target_count(bundle);
    tsr_buffer_printf(out_text, "%s: ", tsr_bundle_get_target_name(bundle, best));
    tsr_match_explain(bundle, best, best, cpu_level, forced, out_text);
    for (size_t i = 0; i < count; i++) {
        if (i == best) continue;
        tsr_buffer_printf(out_text, "; not %s: ", tsr_bundle_get_target_name(bundle, i));
        tsr_match_explain(bundle, i, best, cpu_level, forced, out_text);
    }
}

static tsr_result refuse(tsr_ctx *ctx, const tsr_bundle *bundle, unsigned cpu_level,
                         const char *forced, const char *targets) {
    const char *level = tsr_cpu_level_name(cpu_level);
    if (cpu_level < 2)
        FAIL(ctx, TSR_MACHINE, "this CPU has %s; at least x86-64-v2 is needed", level);
    if (forced && !tsr_cpu_parse_level(forced))
        FAIL(ctx, TSR_USAGE,
             "'%s' is no CPU level; expected x86-64-v2, x86-64-v3, x86-64-v4 or x86-64-v4-bf16",
             forced);
    if (forced && tsr_cpu_parse_level(forced) > cpu_level)
        FAIL(ctx, TSR_MACHINE, "'%s' was asked for; this CPU has %s", forced, level);
    if (forced)
        FAIL(ctx, TSR_TARGET, "'%s' has no code for '%s'; it has %s", tsr_bundle_get_path(bundle),
             forced, targets);
    FAIL(ctx, TSR_TARGET, "'%s' has no code for this CPU (%s); it has %s",
         tsr_bundle_get_path(bundle), level, targets);
}

tsr_result tsr_match_target(tsr_ctx *ctx, const tsr_bundle *bundle, unsigned cpu_level,
                            const char *forced, tsr_arena *arena, size_t *out_target,
                            const char **out_reason) {
    tsr_buffer text = {0};
    unsigned forced_level = forced ? tsr_cpu_parse_level(forced) : 0;
    bool possible = cpu_level >= 2 && (!forced || (forced_level && forced_level <= cpu_level));
    size_t best =
        possible ? find_best(bundle, cpu_level, forced_level) : tsr_bundle_get_target_count(bundle);
    if (best == tsr_bundle_get_target_count(bundle)) {
        list_targets(bundle, &text);
        tsr_result result =
            refuse(ctx, bundle, cpu_level, forced, text.bytes ? text.bytes : "none");
        tsr_buffer_finish(&text);
        return result;
    }
    explain(bundle, best, cpu_level, forced != NULL, &text);
    const char *reason = text.failed ? NULL : tsr_arena_strdup(arena, text.bytes);
    tsr_buffer_finish(&text);
    if (!reason) FAIL(ctx, TSR_MEMORY, "no memory for the choice of a target");
    *out_target = best;
    *out_reason = reason;
    return TSR_SUCCESS;
}

const char *tsr_match_numerics(const char *target, const char *numerics, tsr_arena *arena) {
    bool is_gpu = strncmp(target, "cuda:", 5) == 0;
    unsigned level = tsr_cpu_parse_level(target);
    bool has_fma = is_gpu || level >= 3, has_own = is_gpu || level == TSR_CPU_LEVEL_V4_BF16;
    if (has_own && strcmp(numerics, "portable") != 0)
        return tsr_arena_printf(arena, "%s+%s", numerics, target);
    return tsr_arena_printf(arena, "portable%s", has_fma ? "+fma" : "");
}

/* "cuda:sm_90a" -> 90, and that it runs there alone; 0 for another target. */
static uint32_t parse_cuda(const char *target, bool *out_exactly) {
    static const char prefix[] = "cuda:sm_";
    char *end = NULL;
    if (strncmp(target, prefix, sizeof prefix - 1) != 0) return 0;
    unsigned long arch = strtoul(target + sizeof prefix - 1, &end, 10);
    *out_exactly = strcmp(end, "a") == 0;
    return arch < 1000 && (*end == 0 || *out_exactly) ? (uint32_t)arch : 0;
}

tsr_result tsr_match_cuda(tsr_ctx *ctx, const tsr_bundle *bundle, uint32_t capability,
                          tsr_arena *arena, size_t *out_target, const char **out_reason) {
    size_t count = tsr_bundle_get_target_count(bundle), best = count;
    uint32_t best_rank = 0;
    for (size_t i = 0; i < count; i++) {
        bool exactly = false;
        uint32_t arch = parse_cuda(tsr_bundle_get_target_name(bundle, i), &exactly);
        uint32_t rank = 2 * arch + exactly;
        if (!arch || arch > capability || (exactly && arch != capability) || rank <= best_rank)
            continue;
        best = i;
        best_rank = rank;
    }
    if (best == count) {
        tsr_buffer text = {0};
        list_targets(bundle, &text);
        tsr_result result =
            tsr_fail_(ctx, TSR_TARGET, 0, __FILE__, __LINE__,
                      "'%s' has no code for a GPU of compute capability %u.%u; it has %s",
                      tsr_bundle_get_path(bundle), capability / 10, capability % 10,
                      text.bytes ? text.bytes : "none");
        tsr_buffer_finish(&text);
        return result;
    }
    const char *reason = tsr_arena_printf(arena, "%s: for compute capability %u.%u",
                                          tsr_bundle_get_target_name(bundle, best), capability / 10,
                                          capability % 10);
    if (!reason) FAIL(ctx, TSR_MEMORY, "no memory for the choice of a target");
    *out_target = best;
    *out_reason = reason;
    return TSR_SUCCESS;
}

static tsr_result match_gpu(tsr_ctx *ctx, const tsr_bundle *bundle, const char *selector,
                            tsr_arena *arena, size_t *out_target, const char **out_reason) {
    uint32_t capability = 0;
    TRY(ctx, tsr_device_cuda_probe(ctx, selector, NULL, &capability));
    return tsr_match_cuda(ctx, bundle, capability, arena, out_target, out_reason);
}

/* "", ":0", ":GPU-5d" behind "cuda": wrong everywhere, or only on a machine without that GPU? */
static bool is_cuda_selector(const char *text) {
    if (*text == 0) return true;
    if (*text++ != ':') return false;
    if (strncmp(text, "GPU-", 4) == 0) return text[4] != 0;
    return *text && text[strspn(text, "0123456789")] == 0;
}

tsr_result tsr_match_options(tsr_ctx *ctx, const tsr_bundle *bundle,
                             const tsr_model_options *options, tsr_arena *arena, size_t *out_target,
                             const char **out_reason) {
    const char *device = options->device ? options->device : "cpu", *cpu_reason = NULL;
    bool is_auto = strcmp(device, "auto") == 0;
    if (strncmp(device, "cuda", 4) == 0 && is_cuda_selector(device + 4))
        return match_gpu(ctx, bundle, device[4] ? device + 5 : NULL, arena, out_target, out_reason);
    if (!is_auto && strcmp(device, "cpu") != 0)
        FAIL(ctx, TSR_USAGE, "device '%s'; expected cpu, cuda, cuda:N, cuda:GPU-UUID or auto",
             device);
    tsr_ctx trial = tsr_ctx_fork(ctx);
    if (is_auto && !match_gpu(&trial, bundle, NULL, arena, out_target, out_reason).code)
        return TSR_SUCCESS;
    TRY(ctx, tsr_match_target(ctx, bundle, tsr_cpu_get_level(), options->cpu, arena, out_target,
                              &cpu_reason));
    *out_reason = cpu_reason;
    if (is_auto)
        *out_reason = tsr_arena_printf(arena, "%s; no GPU: %s", cpu_reason, trial.error.text);
    if (!*out_reason) FAIL(ctx, TSR_MEMORY, "no memory for the choice of a target");
    return TSR_SUCCESS;
}
