/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/match.h"

#include "manifests/amd.h"
#include "manifests/config.h"
#include "runtime/cpu.h"
#include "runtime/device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void list_targets(const tsr_bundle *bundle, tsr_buffer *out_text) {
    size_t count = tsr_bundle_get_target_count(bundle);
    for (size_t i = 0; i < count; i++)
        tsr_buffer_printf(out_text, "%s%s", i ? ", " : "", tsr_bundle_get_target_name(bundle, i));
}

/* Returns the best target, or the target count if there is none. */
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

/* Parses "cuda:sm_90a": returns 90, and that it runs on this capability only; 0 for another target.
 */
static uint32_t parse_cuda(const char *target, bool *out_exactly) {
    static const char prefix[] = "cuda:sm_";
    char *end = NULL;
    if (strncmp(target, prefix, sizeof prefix - 1) != 0) return 0;
    unsigned long arch = strtoul(target + sizeof prefix - 1, &end, 10);
    *out_exactly = strcmp(end, "a") == 0;
    return arch < 1000 && (*end == 0 || *out_exactly) ? (uint32_t)arch : 0;
}

static bool is_gpu_target(const tsr_bundle *bundle, size_t target) {
    return target < tsr_bundle_get_target_count(bundle) &&
           !tsr_cpu_parse_level(tsr_bundle_get_target_name(bundle, target));
}

static bool is_amd(const char *target) { return strncmp(target, "hip:", 4) == 0; }

/* What is wrong with code for an AMD GPU. */
static void explain_amd(const char *target, const tsr_match *match, tsr_buffer *out_text) {
    const tsr_amd *code = tsr_amd_find(target + 4), *has = tsr_amd_get(match->amd);
    if (match->gpu && match->gpu != &tsr_device_hip)
        tsr_buffer_text(out_text, "needs an AMD GPU as the device");
    else if (!has)
        tsr_buffer_text(out_text, "this machine has no usable AMD GPU");
    else if (!code)
        tsr_buffer_text(out_text, "a GPU of an unknown kind");
    else if (!tsr_amd_runs(code->arch, has->arch))
        tsr_buffer_printf(out_text, "this GPU is %s", has->name);
    else
        tsr_buffer_text(out_text, "this GPU could not load it");
}

static void explain_nvidia(const char *target, const tsr_match *match, tsr_buffer *out_text) {
    bool exactly = false;
    uint32_t has = match->capability, arch = parse_cuda(target, &exactly);
    if (match->gpu && match->gpu != &tsr_device_cuda)
        tsr_buffer_text(out_text, "needs an NVIDIA GPU as the device");
    else if (!has)
        tsr_buffer_text(out_text, "this machine has no usable GPU");
    else if (!arch)
        tsr_buffer_text(out_text, "a GPU of an unknown kind");
    else if (arch > has)
        tsr_buffer_printf(out_text, "this GPU has compute capability %u.%u", has / 10, has % 10);
    else if (exactly && arch != has)
        tsr_buffer_printf(out_text, "for compute capability %u.%u alone; this GPU has %u.%u",
                          arch / 10, arch % 10, has / 10, has % 10);
    else
        tsr_buffer_text(out_text, "this GPU could not load it");
}

/* True if the found GPU could run the code. */
static bool may_run(const char *target, const tsr_match *match) {
    bool exactly = false;
    const tsr_amd *code = is_amd(target) ? tsr_amd_find(target + 4) : NULL;
    uint32_t arch = parse_cuda(target, &exactly);
    if (code) return match->amd && tsr_amd_runs(code->arch, match->amd);
    return arch && arch <= match->capability && (!exactly || arch == match->capability);
}

/* Explains a target that runs on no CPU. */
static void explain_gpu(const tsr_bundle *bundle, size_t target, const tsr_match *match,
                        tsr_buffer *out_text) {
    const char *name = tsr_bundle_get_target_name(bundle, target);
    if (target == match->target)
        tsr_buffer_text(out_text, "code for this GPU");
    else if (!match->may_be_gpu)
        tsr_buffer_text(out_text, is_amd(name) ? "needs an AMD GPU as the device"
                                               : "needs a GPU as the device");
    else if (may_run(name, match) && is_gpu_target(bundle, match->target))
        tsr_buffer_printf(out_text, "%s suits this GPU better",
                          tsr_bundle_get_target_name(bundle, match->target));
    else if (is_amd(name))
        explain_amd(name, match, out_text);
    else
        explain_nvidia(name, match, out_text);
}

void tsr_match_explain(const tsr_bundle *bundle, size_t target, const tsr_match *match,
                       tsr_buffer *out_text) {
    const char *name = tsr_bundle_get_target_name(bundle, target);
    unsigned level = tsr_cpu_parse_level(name), cpu_level = match->cpu_level;
    bool chosen = target == match->target;
    if (level == 0)
        explain_gpu(bundle, target, match, out_text);
    else if (is_gpu_target(bundle, match->target))
        tsr_buffer_text(out_text, "a GPU runs it");
    else if (!match->may_be_cpu)
        tsr_buffer_text(out_text, "a GPU is requested");
    else if (chosen && match->forced)
        tsr_buffer_text(out_text, "requested");
    else if (chosen && level == cpu_level)
        tsr_buffer_text(out_text, "the highest level this CPU has");
    else if (chosen)
        tsr_buffer_printf(out_text, "the highest level that the bundle shares with this CPU (%s)",
                          tsr_cpu_level_name(cpu_level));
    else if (level > cpu_level)
        tsr_buffer_printf(out_text, "this CPU has %s", tsr_cpu_level_name(cpu_level));
    else if (level < 2)
        tsr_buffer_text(out_text, "at least x86-64-v2 is needed");
    else
        tsr_buffer_text(out_text, match->forced ? "not requested" : "a lower level");
}

static void explain(const tsr_bundle *bundle, const tsr_match *match, tsr_buffer *out_text) {
    size_t count = tsr_bundle_get_target_count(bundle), best = match->target;
    tsr_buffer_printf(out_text, "%s: ", tsr_bundle_get_target_name(bundle, best));
    tsr_match_explain(bundle, best, match, out_text);
    for (size_t i = 0; i < count; i++) {
        if (i == best) continue;
        tsr_buffer_printf(out_text, "; not %s: ", tsr_bundle_get_target_name(bundle, i));
        tsr_match_explain(bundle, i, match, out_text);
    }
}

static tsr_result refuse(tsr_ctx *ctx, const tsr_bundle *bundle, unsigned cpu_level,
                         const char *forced, const char *targets) {
    const char *level = tsr_cpu_level_name(cpu_level);
    if (cpu_level < 2)
        FAIL(ctx, TSR_MACHINE, "this CPU has %s; at least x86-64-v2 is needed", level);
    if (forced && !tsr_cpu_parse_level(forced))
        FAIL(ctx, TSR_USAGE,
             "'%s' is not a CPU level; expected x86-64-v2, x86-64-v3, x86-64-v4 or x86-64-v4-bf16",
             forced);
    if (forced && tsr_cpu_parse_level(forced) > cpu_level)
        FAIL(ctx, TSR_MACHINE, "'%s' was requested; this CPU has %s", forced, level);
    if (forced)
        FAIL(ctx, TSR_TARGET, "'%s' has no code for '%s'; it has %s", tsr_bundle_get_path(bundle),
             forced, targets);
    FAIL(ctx, TSR_TARGET, "'%s' has no code for this CPU (%s); it has %s",
         tsr_bundle_get_path(bundle), level, targets);
}

/* Chooses a target for a CPU; the match says which alternatives there were. */
static tsr_result match_cpu(tsr_ctx *ctx, const tsr_bundle *bundle, const char *forced,
                            tsr_arena *arena, tsr_match *inout_match) {
    tsr_buffer text = {0};
    tsr_match match = *inout_match;
    unsigned forced_level = forced ? tsr_cpu_parse_level(forced) : 0;
    bool possible =
        match.cpu_level >= 2 && (!forced || (forced_level && forced_level <= match.cpu_level));
    match.target = possible ? find_best(bundle, match.cpu_level, forced_level)
                            : tsr_bundle_get_target_count(bundle);
    if (match.target == tsr_bundle_get_target_count(bundle)) {
        list_targets(bundle, &text);
        tsr_result result =
            refuse(ctx, bundle, match.cpu_level, forced, text.bytes ? text.bytes : "none");
        tsr_buffer_finish(&text);
        return result;
    }
    explain(bundle, &match, &text);
    match.choice = text.failed ? NULL : tsr_arena_strdup(arena, text.bytes);
    tsr_buffer_finish(&text);
    if (!match.choice) FAIL(ctx, TSR_MEMORY, "no memory for the choice of a target");
    *inout_match = match;
    return TSR_SUCCESS;
}

tsr_result tsr_match_target(tsr_ctx *ctx, const tsr_bundle *bundle, unsigned cpu_level,
                            const char *forced, tsr_arena *arena, size_t *out_target,
                            const char **out_reason) {
    tsr_match match = {.may_be_cpu = true, .cpu_level = cpu_level, .forced = forced != NULL};
    TRY(ctx, match_cpu(ctx, bundle, forced, arena, &match));
    *out_target = match.target;
    *out_reason = match.choice;
    return TSR_SUCCESS;
}

const char *tsr_match_numerics(const char *target, const char *numerics, tsr_arena *arena) {
    bool is_gpu = strncmp(target, "cuda:", 5) == 0;
    unsigned level = tsr_cpu_parse_level(target);
    bool has_fma = is_gpu || is_amd(target) || level >= 3;
    bool has_own = is_gpu || level == TSR_CPU_LEVEL_V4_BF16;
    const char *version = strchr(numerics, '.');
    if (!version) version = "";
    if (has_own && tsr_config_numerics_native(numerics))
        return tsr_arena_printf(arena, "native+%s%s", target, version);
    return tsr_arena_printf(arena, "portable%s%s", has_fma ? "+fma" : "", version);
}

static tsr_result refuse_gpu(tsr_ctx *ctx, const tsr_bundle *bundle, const char *about,
                             const char *advice) {
    tsr_buffer text = {0};
    list_targets(bundle, &text);
    tsr_result result = tsr_fail_(
        ctx, TSR_TARGET, 0, __FILE__, __LINE__, "'%s' has no code for a GPU of %s; it has %s%s",
        tsr_bundle_get_path(bundle), about, text.bytes ? text.bytes : "none", advice);
    tsr_buffer_finish(&text);
    return result;
}

static tsr_result take_gpu(tsr_ctx *ctx, const tsr_bundle *bundle, size_t target, const char *about,
                           tsr_arena *arena, size_t *out_target, const char **out_reason) {
    const char *reason =
        tsr_arena_printf(arena, "%s: for %s", tsr_bundle_get_target_name(bundle, target), about);
    if (!reason) FAIL(ctx, TSR_MEMORY, "no memory for the choice of a target");
    *out_target = target;
    *out_reason = reason;
    return TSR_SUCCESS;
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
    char about[64];
    snprintf(about, sizeof about, "compute capability %u.%u", capability / 10, capability % 10);
    if (best == count) return refuse_gpu(ctx, bundle, about, "");
    return take_gpu(ctx, bundle, best, about, arena, out_target, out_reason);
}

tsr_result tsr_match_amd(tsr_ctx *ctx, const tsr_bundle *bundle, uint32_t arch, tsr_arena *arena,
                         size_t *out_target, const char **out_reason) {
    size_t count = tsr_bundle_get_target_count(bundle), best = count;
    const tsr_amd *gpu = tsr_amd_get(arch);
    char about[64], advice[64];
    for (size_t i = 0; i < count; i++) {
        const char *name = tsr_bundle_get_target_name(bundle, i);
        const tsr_amd *code = is_amd(name) ? tsr_amd_find(name + 4) : NULL;
        if (!code || !tsr_amd_runs(code->arch, arch)) continue;
        if (best == count || code->arch == arch) best = i;
    }
    snprintf(about, sizeof about, "architecture %s", gpu ? gpu->name : "unknown");
    snprintf(advice, sizeof advice, "; build it with --target=hip:%s", gpu ? gpu->name : "…");
    if (best == count) return refuse_gpu(ctx, bundle, about, advice);
    return take_gpu(ctx, bundle, best, about, arena, out_target, out_reason);
}

tsr_result tsr_match_gpu(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_device_type *type,
                         uint32_t arch, tsr_arena *arena, size_t *out_target,
                         const char **out_reason) {
    if (type == &tsr_device_hip)
        return tsr_match_amd(ctx, bundle, arch, arena, out_target, out_reason);
    return tsr_match_cuda(ctx, bundle, arch, arena, out_target, out_reason);
}

static tsr_result match_gpu(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_device_type *type,
                            const char *selector, tsr_arena *arena, tsr_match *inout_match) {
    uint32_t arch = 0;
    inout_match->gpu = type;
    TRY(ctx, tsr_device_gpu_probe(ctx, type, selector, NULL, &arch));
    inout_match->capability = type == &tsr_device_cuda ? arch : 0;
    inout_match->amd = type == &tsr_device_hip ? arch : 0;
    return tsr_match_gpu(ctx, bundle, type, arch, arena, &inout_match->target,
                         &inout_match->choice);
}

static bool has_amd(const tsr_bundle *bundle) {
    for (size_t i = 0; i < tsr_bundle_get_target_count(bundle); i++)
        if (is_amd(tsr_bundle_get_target_name(bundle, i))) return true;
    return false;
}

/* For "auto": NVIDIA's GPUs first. The error of both is in `trial`. */
static tsr_result match_any_gpu(tsr_ctx *trial, const tsr_bundle *bundle, tsr_arena *arena,
                                tsr_match *inout_match) {
    tsr_ctx second = tsr_ctx_fork(trial);
    tsr_result result = match_gpu(trial, bundle, &tsr_device_cuda, NULL, arena, inout_match);
    if (!result.code || !has_amd(bundle)) return result;
    if (!match_gpu(&second, bundle, &tsr_device_hip, NULL, arena, inout_match).code)
        return TSR_SUCCESS;
    inout_match->gpu = NULL;
    return tsr_match_add_reason(trial, result, "no AMD GPU", second.error.text);
}

/* Accepts "", ":0", ":GPU-5d", ":0000:1b:00.0" after the name of a type. Distinguishes a selector
 * that is wrong everywhere from one that names a GPU that this machine lacks. */
static bool is_selector(const char *text) {
    if (*text == 0) return true;
    if (*text++ != ':') return false;
    if (strncmp(text, "GPU-", 4) == 0) return text[4] != 0;
    if (strchr(text, ':')) return text[strspn(text, "0123456789abcdefABCDEF:.")] == 0;
    return *text && text[strspn(text, "0123456789")] == 0;
}

/* Returns the type of GPUs that the device names; NULL: none. */
static const tsr_device_type *find_gpu_type(const char *device) {
    const tsr_device_type *type = tsr_device_find(device);
    return type && type->gpu && is_selector(device + strlen(type->name)) ? type : NULL;
}

tsr_result tsr_match_add_reason(tsr_ctx *ctx, tsr_result result, const char *about,
                                const char *reason) {
    return tsr_fail_(ctx, result.code, 0, __FILE__, __LINE__, "%s; %s: %s", ctx->error.text, about,
                     reason);
}

tsr_result tsr_match_options(tsr_ctx *ctx, const tsr_bundle *bundle,
                             const tsr_model_options *options, tsr_arena *arena,
                             tsr_match *out_match) {
    const char *device = options->device ? options->device : "cpu";
    bool is_auto = strcmp(device, "auto") == 0;
    const tsr_device_type *gpu = find_gpu_type(device);
    const char *selector = strchr(device, ':');
    *out_match = (tsr_match){.target = tsr_bundle_get_target_count(bundle),
                             .may_be_gpu = is_auto || gpu,
                             .may_be_cpu = !gpu,
                             .cpu_level = tsr_cpu_get_level(),
                             .forced = options->cpu != NULL};
    if (gpu) return match_gpu(ctx, bundle, gpu, selector ? selector + 1 : NULL, arena, out_match);
    if (!is_auto && strcmp(device, "cpu") != 0)
        FAIL(ctx, TSR_USAGE,
             "device '%s'; expected cpu, cuda, cuda:N, cuda:GPU-UUID, the same with hip, or auto",
             device);
    tsr_ctx trial = tsr_ctx_fork(ctx);
    if (is_auto && !match_any_gpu(&trial, bundle, arena, out_match).code) return TSR_SUCCESS;
    tsr_result result = match_cpu(ctx, bundle, options->cpu, arena, out_match);
    if (!is_auto) return result;
    if (result.code) return tsr_match_add_reason(ctx, result, "no GPU", trial.error.text);
    out_match->choice =
        tsr_arena_printf(arena, "%s; no GPU: %s", out_match->choice, trial.error.text);
    if (!out_match->choice) FAIL(ctx, TSR_MEMORY, "no memory for the choice of a target");
    return TSR_SUCCESS;
}

bool tsr_match_may_leave(const tsr_bundle *bundle, const tsr_match *match, tsr_code code) {
    return match->may_be_cpu && is_gpu_target(bundle, match->target) &&
           (code == TSR_MACHINE || code == TSR_MEMORY || code == TSR_TARGET);
}

tsr_result tsr_match_leave(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_model_options *options,
                           const tsr_ctx *failed, tsr_arena *arena, tsr_match *inout_match) {
    tsr_ctx own = tsr_ctx_fork(ctx);
    const char *left = tsr_bundle_get_target_name(bundle, inout_match->target);
    if (match_cpu(&own, bundle, options->cpu, arena, inout_match).code)
        return tsr_match_add_reason(ctx, tsr_error_adopt(ctx, failed), "no CPU", own.error.text);
    inout_match->choice = tsr_arena_printf(arena, "%s; %s was chosen, but: %s", inout_match->choice,
                                           left, failed->error.text);
    if (!inout_match->choice) FAIL(ctx, TSR_MEMORY, "no memory for the choice of a target");
    return TSR_SUCCESS;
}
