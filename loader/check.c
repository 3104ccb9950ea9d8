/* SPDX-License-Identifier: Apache-2.0
 *
 * Preflight: does the steps of opening a model that need only metadata.
 *
 *     open -> signature -> config -> match -> program -> memory plan, capacity of a GPU -> verdict
 */
#include "bundle/sign.h"
#include "loader/match.h"
#include "loader/model.h"
#include "loader/weights/external.h"
#include "manifests/program.h"
#include "runtime/base/array.h"
#include "runtime/base/options.h"
#include "runtime/cpu.h"
#include "runtime/exec/executor.h"

#include <string.h>

enum { STAGING_BYTES = 256 * 1024 /* memory of a thread, see tsr_bundle_read_pieces */ };

typedef struct check {
    tsr_model_options options;
    tsr_arena *arena;
    tsr_bundle *bundle; /* owned */
    tsr_match match;
    bool is_device_short; /* there is not enough device memory */
    tsr_config config;
    tsr_program program;
    tsr_check_report *report;
} check;

static void set_driver(tsr_check_target *target) {
    static const struct {
        const char *family, *library, *origin;
    } rows[] = {
#define X(family, library, origin) {family, library, origin},
#include "loader/drivers.def"
#undef X
    };
    size_t length = strcspn(target->name, ":");
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        if (strlen(rows[i].family) != length || strncmp(rows[i].family, target->name, length) != 0)
            continue;
        target->driver = rows[i].library;
        target->driver_origin = rows[i].origin;
    }
}

static tsr_result check_signature(tsr_ctx *ctx, check *self) {
    const tsr_signature_policy policy = {.size_bytes = sizeof policy,
                                         .keys = self->options.keys,
                                         .key_count = self->options.key_count,
                                         .required = self->options.require_signature};
    tsr_signature_report signature;
    TRY(ctx, tsr_signature_check(ctx, self->bundle, &policy, &signature));
    self->report->is_signed = signature.state != TSR_SIGNATURE_ABSENT;
    return TSR_SUCCESS;
}

static tsr_result list_targets(tsr_ctx *ctx, check *self) {
    size_t count = tsr_bundle_get_target_count(self->bundle);
    tsr_check_target *targets = TSR_NEW(self->arena, tsr_check_target, count);
    if (!targets) FAIL(ctx, TSR_MEMORY, "no memory for %zu targets", count);
    for (size_t i = 0; i < count; i++) {
        tsr_buffer reason = {0};
        tsr_match_explain(self->bundle, i, &self->match, &reason);
        targets[i] = (tsr_check_target){
            .name = tsr_arena_strdup(self->arena, tsr_bundle_get_target_name(self->bundle, i)),
            .chosen = i == self->match.target,
            .reason = reason.failed ? NULL : tsr_arena_strdup(self->arena, reason.bytes)};
        tsr_buffer_finish(&reason);
        if (!targets[i].name || !targets[i].reason)
            FAIL(ctx, TSR_MEMORY, "no memory for %zu targets", count);
        set_driver(&targets[i]);
    }
    self->report->targets = targets;
    self->report->target_count = count;
    return TSR_SUCCESS;
}

static tsr_result read_config(tsr_ctx *ctx, check *self) {
    const char *json = NULL;
    size_t size = 0;
    tsr_bundle_get_config(self->bundle, 0, &json, &size);
    TRY(ctx, tsr_config_decode(ctx, json, size, self->arena, &self->config));
    self->report->config = &self->config;
    return TSR_SUCCESS;
}

/* Lists the targets even if no target runs. */
static tsr_result take_match(tsr_ctx *ctx, check *self, tsr_result result) {
    tsr_ctx listing = tsr_ctx_fork(ctx);
    tsr_result listed = list_targets(&listing, self);
    TRY(ctx, result);
    if (self->options.device && strcmp(self->options.device, "auto") == 0)
        self->report->choice = self->match.choice;
    return listed.code ? tsr_error_adopt(ctx, &listing) : TSR_SUCCESS;
}

static tsr_result read_program(tsr_ctx *ctx, check *self) {
    tsr_bundle_layer layer;
    void *bytes = NULL;
    size_t size = 0;
    const char *target = tsr_bundle_get_target_name(self->bundle, self->match.target);
    TRY(ctx,
        tsr_bundle_need_layer(ctx, self->bundle, self->match.target, TSR_MEDIA_PROGRAM, &layer));
    TRY(ctx, tsr_bundle_read_layer(ctx, self->bundle, &layer, self->arena, &bytes, &size));
    TRY(ctx, tsr_program_decode(ctx, bytes, size, &self->config, self->arena, &self->program));
    self->report->numerics = tsr_match_numerics(target, self->config.numerics, self->arena);
    if (!self->report->numerics) FAIL(ctx, TSR_MEMORY, "no memory for the name of the numerics");
    return TSR_SUCCESS;
}

static void sum_tensors(const check *self, tsr_check_memory *memory, bool *out_stored) {
    for (size_t i = 0; i < self->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &self->config.tensors[i];
        uint64_t size = 0;
        bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
        TSR_ASSERT(fits);
        *out_stored |= tensor->init == TSR_INIT_DATA;
        if (tensor->role == TSR_ROLE_PARAM)
            memory->parameter_bytes += size;
        else if (tensor->role == TSR_ROLE_STATE)
            memory->state_bytes += size;
        else
            memory->constant_bytes += size;
    }
}

/* Reports the device and its memory as opening it would. Reads the code, because it contains the
 * resource needs of its kernels. */
static tsr_result check_device(tsr_ctx *ctx, check *self, const tsr_memory_plan *plan) {
    tsr_check_memory *memory = &self->report->memory;
    const char *selector = self->options.device ? strchr(self->options.device, ':') : NULL;
    const tsr_device_type *type =
        tsr_device_find(tsr_bundle_get_target_name(self->bundle, self->match.target));
    tsr_device_capacity capacity = {.free_bytes = UINT64_MAX};
    tsr_bundle_layer layer;
    void *code = NULL;
    size_t size = 0;
    memory->device_bytes = plan->total_bytes;
    memory->device_allowed_bytes = self->options.device_memory_max;
    memory->device_free_bytes = UINT64_MAX;
    TRY(ctx,
        tsr_bundle_need_layer(ctx, self->bundle, self->match.target, TSR_MEDIA_FATBIN, &layer));
    TRY(ctx, tsr_bundle_read_layer(ctx, self->bundle, &layer, self->arena, &code, &size));
    const tsr_device_options device = {
        .selector = selector ? selector + 1 : NULL,
        .memory_max = self->options.device_memory_max,
        .code = code,
        .code_size_bytes = size,
        .kernel_count = self->program.kernel_count,
        .planned = tsr_executor_describe_plan(&self->config, plan, self->arena)};
    tsr_result result = tsr_device_gpu_check(ctx, type, &device, plan->total_bytes, &capacity);
    self->is_device_short = result.code == TSR_MEMORY;
    memory->device_free_bytes = capacity.free_bytes;
    memory->code_bytes = capacity.code_bytes;
    memory->scratch_bytes = capacity.scratch_bytes;
    memory->device_bytes += capacity.code_bytes + capacity.scratch_bytes;
    return result;
}

/* The code of a CPU is loaded into the host's memory. */
static tsr_result count_code(tsr_ctx *ctx, check *self) {
    tsr_check_memory *memory = &self->report->memory;
    tsr_bundle_layer layer;
    TRY(ctx, tsr_bundle_need_layer(ctx, self->bundle, self->match.target, TSR_MEDIA_ELF, &layer));
    memory->code_bytes = layer.size_bytes;
    memory->host_bytes += layer.size_bytes;
    return TSR_SUCCESS;
}

static tsr_result plan(tsr_ctx *ctx, check *self) {
    tsr_check_memory *memory = &self->report->memory;
    const tsr_device_type *type =
        tsr_device_find(tsr_bundle_get_target_name(self->bundle, self->match.target));
    bool shares = !type || type->shares_memory;
    tsr_memory_plan plan;
    bool stored = false;
    *memory = (tsr_check_memory){0};
    TRY(ctx, tsr_executor_plan(ctx, &self->config, &self->program, NULL, &plan));
    sum_tensors(self, memory, &stored);
    memory->prepacked_bytes = plan.prepacked_bytes;
    memory->workspace_bytes = plan.workspace_bytes;
    memory->port_bytes = plan.port_bytes;
    memory->offloaded_bytes = plan.offloaded_bytes;
    memory->save_bytes = memory->parameter_bytes + memory->state_bytes;
    memory->staging_bytes = stored ? STAGING_BYTES : 0;
    memory->host_bytes = tsr_memory_plan_host(&plan, shares) + memory->staging_bytes;
    memory->available_bytes = tsr_memory_get_available();
    if (tsr_cpu_parse_level(tsr_bundle_get_target_name(self->bundle, self->match.target)) > 0)
        TRY(ctx, count_code(ctx, self));
    if (!self->options.ignore_memory_plan)
        TRY(ctx, tsr_memory_check(ctx, tsr_bundle_get_path(self->bundle),
                                  tsr_memory_plan_host(&plan, shares)));
    return shares ? TSR_SUCCESS : check_device(ctx, self, &plan);
}

static tsr_result examine(tsr_ctx *ctx, check *self) {
    TRY(ctx, read_program(ctx, self));
    return plan(ctx, self);
}

/* Chooses as opening a model does, see load.c. */
static tsr_result choose_device(tsr_ctx *ctx, check *self) {
    tsr_ctx trial = tsr_ctx_fork(ctx);
    tsr_result result =
        tsr_match_options(ctx, self->bundle, &self->options, self->arena, &self->match);
    TRY(ctx, take_match(ctx, self, result));
    result = examine(&trial, self);
    if (!result.code) return TSR_SUCCESS;
    if (!tsr_match_may_leave(self->bundle, &self->match, result.code))
        return tsr_error_adopt(ctx, &trial);
    TRY(ctx, tsr_match_leave(ctx, self->bundle, &self->options, &trial, self->arena, &self->match));
    TRY(ctx, take_match(ctx, self, TSR_SUCCESS));
    result = examine(ctx, self);
    if (!result.code) return TSR_SUCCESS;
    return tsr_match_add_reason(ctx, result, "a GPU was chosen first, but", trial.error.text);
}

/* A file of weights that the bundle names must exist; its bytes are not read. */
static tsr_result find_external(tsr_ctx *ctx, check *self, const char *path) {
    tsr_external external = {.file = {.fd = -1}};
    tsr_weights_folders folders;
    bool found = false;
    TRY(ctx,
        tsr_external_read(ctx, self->bundle, self->match.target, self->arena, &found, &external));
    if (!found) return TSR_SUCCESS;
    TRY(ctx, tsr_weights_list_folders(ctx, path, &self->options, self->arena, &folders));
    TRY(ctx, tsr_external_open(ctx, folders.paths, folders.count, self->arena, &external));
    tsr_external_close(ctx, &external);
    return TSR_SUCCESS;
}

static tsr_result check_stages(tsr_ctx *ctx, check *self, const char *path) {
    tsr_bundle_open_options options = {
        .size_bytes = sizeof options, .strict = self->options.strict, .defer_blobs = true};
    self->report->cpu_level = tsr_cpu_get_level();
    self->report->cpu = tsr_cpu_level_name(self->report->cpu_level);
    TRY(ctx, tsr_bundle_open(ctx, path, &options, &self->bundle));
    self->report->digest = tsr_bundle_get_digest(self->bundle);
    TRY(ctx, check_signature(ctx, self));
    TRY(ctx, read_config(ctx, self));
    TRY(ctx, choose_device(ctx, self));
    return find_external(ctx, self, path);
}

/* Returns advice for the error. */
static const char *advise(const check *self, tsr_code code) {
    tsr_arena *arena = self->arena;
    const char *device = self->options.device;
    const tsr_device_type *type = device ? tsr_device_find(device) : NULL;
    bool on_gpu = type && type->gpu, on_amd = type == &tsr_device_hip;
    switch (code) {
    case TSR_TARGET:
        if (on_amd)
            return "build it with a --target=hip:… for this GPU, or leave --device out to run it "
                   "on "
                   "the CPU";
        if (on_gpu)
            return "build it with a --target=cuda:… for this GPU or an older one, or leave "
                   "--device out to run it on the CPU";
        return tsr_arena_printf(arena,
                                "build it with --target=cpu:%s, or run it on a machine "
                                "that one of its targets is for",
                                self->report->cpu);
    case TSR_MACHINE:
        if (on_amd)
            return "install or update the AMD driver (ROCm 5.2 or later), or leave --device out to "
                   "run it on the CPU";
        if (on_gpu)
            return "install or update the NVIDIA driver, or leave --device out to run it on the "
                   "CPU";
        return self->options.cpu ? "leave --cpu out, or name a level that this CPU has"
                                 : "run it on a CPU of at least x86-64-v2 (2009 or later)";
    case TSR_MEMORY:
        if (self->is_device_short)
            return tsr_arena_printf(
                arena,
                "free memory of the GPU (nvidia-smi or rocm-smi lists its processes), allow more "
                "of it, or "
                "build the bundle with a smaller batch; the bundle plans %.1f MiB on the GPU",
                (double)self->report->memory.device_bytes / (1 << 20));
        return tsr_arena_printf(arena,
                                "free memory, raise the limit of the process or its group, or "
                                "build the bundle with a smaller batch; the bundle plans %.1f MiB",
                                (double)self->report->memory.host_bytes / (1 << 20));
    case TSR_VERSION:
        return "install the tessera-run that the message names, or build the bundle again";
    case TSR_CORRUPT:
        return "copy it again; tessera-aot verify --full names the damaged parts, and repack "
               "restores "
               "a bundle that a registry has rearranged";
    case TSR_SIGNATURE:
        return "get the bundle and its .sigstore.json from its signer, or give the right --key";
    case TSR_IO:
        return "check that the path exists and can be read; weights that the bundle does not "
               "contain must be next to it or in a --weights-dir";
    case TSR_MISMATCH:
        return "get the weights that the bundle was built with";
    default:
        return "see the message";
    }
}

/* The strings of the report are in the arena, and so must be the config. */
static check *begin(tsr_arena *arena, tsr_check_report *report) {
    check *self = TSR_NEW(arena, check, 1);
    if (!self) return NULL;
    *self = (check){.arena = arena, .report = report};
    return self;
}

tsr_result tsr_model_check(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                           tsr_arena *arena, tsr_check_report *out_report) {
    *out_report = (tsr_check_report){0};
    check *self = begin(arena, out_report);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory to check '%s'", path);
    TRY(ctx,
        tsr_options_copy(ctx, "tsr_model_options", options, &self->options, sizeof self->options));
    tsr_result result = check_stages(ctx, self, path);
    tsr_bundle_close(ctx, self->bundle);
    out_report->code = result.code;
    if (result.code) {
        out_report->problem = tsr_arena_strdup(arena, ctx->error.text);
        out_report->advice = advise(self, result.code);
    }
    return result;
}
