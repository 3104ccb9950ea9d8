/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle -> ready program: open, check the signature, match, decode, plan, open the device,
 * allocate; if a GPU does not open and may be replaced, the last steps are repeated on the CPU.
 */
#include "bundle/sign.h"
#include "loader/assign.h"
#include "loader/match.h"
#include "loader/model.h"
#include "loader/use.h"
#include "runtime/base/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *tsr_version(void) { return TSR_VERSION_TEXT; }

static tsr_result check_signature(tsr_ctx *ctx, const tsr_model *model,
                                  const tsr_model_options *options) {
    const tsr_signature_policy policy = {.size_bytes = sizeof policy,
                                         .keys = options->keys,
                                         .key_count = options->key_count,
                                         .required = options->require_signature};
    tsr_signature_report report;
    return tsr_signature_check(ctx, model->bundle, &policy, &report);
}

static tsr_result read_required(tsr_ctx *ctx, tsr_model *model, const char *media_type,
                                tsr_arena *arena, void **out_bytes, size_t *out_size) {
    tsr_bundle_layer layer;
    TRY(ctx, tsr_bundle_need_layer(ctx, model->bundle, model->target, media_type, &layer));
    return tsr_bundle_read_layer(ctx, model->bundle, &layer, arena, out_bytes, out_size);
}

static tsr_result decode(tsr_ctx *ctx, tsr_model *model) {
    const char *json = NULL;
    void *bytes = NULL;
    size_t size = 0;
    tsr_bundle_get_config(model->bundle, model->target, &json, &size);
    TRY(ctx, tsr_config_decode(ctx, json, size, &model->arena, &model->config));
    TRY(ctx, read_required(ctx, model, TSR_MEDIA_PROGRAM, &model->arena, &bytes, &size));
    return tsr_program_decode(ctx, bytes, size, &model->config, &model->arena, &model->program);
}

static tsr_result plan(tsr_ctx *ctx, tsr_model *model) {
    TRY(ctx,
        tsr_executor_plan(ctx, &model->config, &model->program, model->transport, &model->plan));
    const tsr_device_type *type =
        tsr_device_find(tsr_bundle_get_target_name(model->bundle, model->target));
    if (model->ignore_memory_plan) return TSR_SUCCESS;
    return tsr_memory_check(ctx, tsr_bundle_get_path(model->bundle),
                            tsr_memory_plan_host(&model->plan, !type || type->shares_memory));
}

static tsr_result open_device(tsr_ctx *ctx, tsr_model *model, const tsr_model_options *options) {
    const char *target = tsr_bundle_get_target_name(model->bundle, model->target);
    tsr_arena arena = {0}; /* the code's bytes, which the device copies */
    tsr_result result = TSR_SUCCESS;
    void *bytes = NULL;
    size_t size = 0;
    bool is_cpu = tsr_cpu_parse_level(target) > 0;
    const char *planned = tsr_executor_describe_plan(&model->config, &model->plan, &model->arena);
    const char *selector = options->device ? strchr(options->device, ':') : NULL;
    TRY_GOTO(ctx, result,
             read_required(ctx, model, is_cpu ? TSR_MEDIA_ELF : TSR_MEDIA_FATBIN, &arena, &bytes,
                           &size));
    tsr_device_options device = {
        .selector = selector ? selector + 1 : NULL,
        .memory_max = options->device_memory_max,
        .code = bytes,
        .code_size_bytes = size,
        .kernels = (const char *const *)model->program.kernels,
        .kernel_count = model->program.kernel_count,
        .threads = options->threads,
        .one_by_one = options->one_by_one,
        .shares = tsr_assign_shares(options),
        .samples = tsr_model_samples_on_device(model, 1u << TSR_ROLE_PARAM | 1u << TSR_ROLE_STATE),
        .takes_bytes = tsr_model_stored_bytes(model),
        .planned = planned};
    TRY_GOTO(ctx, result, tsr_device_open(ctx, target, &device, &model->device));
done:
    tsr_arena_finish(&arena);
    return result;
}

static tsr_result collect_state(tsr_ctx *ctx, tsr_model *model) {
    const tsr_config *config = &model->config;
    model->state = TSR_NEW(&model->arena, tsr_tensor, config->tensor_count + 1);
    model->state_parts = TSR_NEW(&model->arena, uint32_t, config->tensor_count + 1);
    if (!model->state || !model->state_parts)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", config->tensor_count);
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &config->tensors[i];
        if (tensor->role == TSR_ROLE_CONSTANT) continue;
        model->state_parts[model->state_count] =
            (uint32_t)tsr_executor_get_parts(model->executor, i);
        model->state[model->state_count++] =
            (tsr_tensor){.name = tensor->name,
                         .dtype = tensor->dtype,
                         .shape = tensor->shape,
                         .data = tsr_executor_get_tensor(model->executor, i)};
    }
    return TSR_SUCCESS;
}

tsr_sharded_view tsr_model_get_sharded_view(const tsr_model *model) {
    return (tsr_sharded_view){.tensors = model->state,
                              .count = model->state_count,
                              .parts = model->state_parts,
                              .transport = model->transport};
}

static tsr_result allocate(tsr_ctx *ctx, tsr_model *model) {
    model->numerics = tsr_match_numerics(tsr_bundle_get_target_name(model->bundle, model->target),
                                         model->config.numerics, &model->arena);
    if (!model->numerics) FAIL(ctx, TSR_MEMORY, "no memory for the name of the numerics");
    model->resident_before = tsr_memory_get_resident();
    TRY(ctx, tsr_executor_create(ctx, &model->config, &model->program, model->device,
                                 model->transport, &model->executor));
    if (model->debug_numerics) TRY(ctx, tsr_executor_check_numerics(ctx, model->executor));
    TRY(ctx, tsr_hyperparameters_init(ctx, model));
    return collect_state(ctx, model);
}

static tsr_result make_ready(tsr_ctx *ctx, tsr_model *model, const tsr_model_options *options) {
    TRY(ctx, decode(ctx, model));
    TRY(ctx, plan(ctx, model));
    TRY(ctx, open_device(ctx, model, options));
    return allocate(ctx, model);
}

static void take_match(tsr_model *model, const tsr_match *match) {
    model->target = match->target;
    model->choice = match->choice;
}

/* Clears the fields that a failed make_ready has set. */
static void clear(tsr_model *model) {
    tsr_executor_destroy(model->executor);
    tsr_device_close(model->device);
    model->executor = NULL;
    model->device = NULL;
    model->state_count = 0;
}

/* With "auto" the model runs in any case: if a GPU cannot be opened, or does not have enough memory
 * for the model, the CPU is used. Later failures end the run on either device. */
static tsr_result choose_device(tsr_ctx *ctx, tsr_model *model, const tsr_model_options *options) {
    tsr_match match;
    tsr_ctx trial = tsr_ctx_fork(ctx);
    TRY(ctx, tsr_match_options(ctx, model->bundle, options, &model->arena, &match));
    take_match(model, &match);
    tsr_result result = make_ready(&trial, model, options);
    if (!result.code) return TSR_SUCCESS;
    if (!tsr_match_may_leave(model->bundle, &match, result.code))
        return tsr_error_adopt(ctx, &trial);
    clear(model);
    TRY(ctx, tsr_match_leave(ctx, model->bundle, options, &trial, &model->arena, &match));
    take_match(model, &match);
    result = make_ready(ctx, model, options);
    if (!result.code) return TSR_SUCCESS;
    return tsr_match_add_reason(ctx, result, "a GPU was chosen first, but", trial.error.text);
}

static tsr_result open_stages(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                              tsr_model *model) {
    tsr_bundle_open_options bundle_options = {.size_bytes = sizeof bundle_options,
                                              .strict = options->strict};
    TRY(ctx, tsr_bundle_open(ctx, path, &bundle_options, &model->bundle));
    TRY(ctx, check_signature(ctx, model, options));
    tsr_model_options assigned = *options;
    TRY(ctx, tsr_assign_gpu(ctx, model->bundle, &model->arena, &assigned));
    TRY(ctx, choose_device(ctx, model, &assigned));
    TRY(ctx, tsr_weights_list_folders(ctx, path, options, &model->arena, &model->folders));
    return tsr_model_load_constants(ctx, model);
}

tsr_result tsr_model_open(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                          tsr_model **out_model) {
    tsr_model_options given;
    TRY(ctx, tsr_options_copy(ctx, "tsr_model_options", options, &given, sizeof given));
    tsr_model *model = calloc(1, sizeof *model);
    if (!model) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", path);
    model->ignore_memory_plan = given.ignore_memory_plan;
    model->finite = given.check_finite;
    model->debug_numerics = given.debug_numerics;
    model->transport = given.transport;
    model->process = getpid();
    if (given.transport) given.transport->exchange = given.exchange;
    tsr_result result = open_stages(ctx, path, &given, model);
    if (result.code)
        tsr_model_close(ctx, model);
    else
        *out_model = model;
    return result;
}

static void tell_numerics_cost(tsr_ctx *ctx, const tsr_model *model) {
    tsr_numerics_cost cost;
    if (!model->executor || !tsr_executor_get_numerics_cost(model->executor, &cost)) return;
    tsr_log(ctx, TSR_LOG_NOTICE,
            "checked %" PRIu64 " numbers, the results of %" PRIu64 " kernel launch%s, in %.3f s",
            cost.elements, cost.launches, cost.launches == 1 ? "" : "es",
            1e-9 * (double)cost.time_ns);
}

void tsr_model_close(tsr_ctx *ctx, tsr_model *model) {
    if (!model) return;
    if (tsr_use_is_forked(model)) {
        tsr_log(
            ctx, TSR_LOG_NOTICE,
            "the model '%s' was opened before this process was forked: its memory is kept until "
            "the process ends",
            model->config.name);
        return;
    }
    if (model->use) {
        tsr_log(ctx, TSR_LOG_ERROR, "the model '%s' is in use: it cannot be closed %s",
                model->config.name,
                model->use->kind == TSR_USE_TRAINER ? "before its trainer"
                                                    : "from one of its callbacks");
        return;
    }
    tell_numerics_cost(ctx, model);
    tsr_executor_destroy(model->executor);
    tsr_device_close(model->device);
    tsr_bundle_close(ctx, model->bundle);
    tsr_arena_finish(&model->arena);
    free(model);
}

const tsr_config *tsr_model_get_config(const tsr_model *model) { return &model->config; }
tsr_digest tsr_model_get_digest(const tsr_model *model) {
    return tsr_bundle_get_digest(model->bundle);
}
const tsr_identity *tsr_model_get_identity(const tsr_model *model) {
    return &model->hyperparameters.identity;
}
const char *tsr_model_get_target(const tsr_model *model) {
    return tsr_bundle_get_target_name(model->bundle, model->target);
}
const char *tsr_model_get_choice(const tsr_model *model) { return model->choice; }
const char *tsr_model_get_numerics(const tsr_model *model) { return model->numerics; }
const char *tsr_model_get_exchange(const tsr_model *model, const char **out_reason) {
    return tsr_executor_get_exchange(model->executor, out_reason);
}
unsigned tsr_model_get_thread_count(const tsr_model *model) {
    const tsr_threads *threads = tsr_device_cpu_get_threads(model->device);
    return threads ? tsr_threads_get_count(threads) : 1;
}
tsr_memory_plan tsr_model_get_memory_plan(const tsr_model *model) { return model->plan; }

bool tsr_model_mark_workspace(tsr_model *model) {
    return !model->use && tsr_executor_mark_workspace(model->executor);
}

tsr_workspace_use tsr_model_measure_workspace(const tsr_model *model) {
    return tsr_executor_measure_workspace(model->executor);
}

const tsr_tensor *tsr_model_get_state(const tsr_model *model, size_t *out_count) {
    tsr_ctx aside = {0};
    /* The caller may write through the result. If the state cannot be fetched, the next run fails,
     * too. */
    if (tsr_executor_claim(&aside, model->executor).code) tsr_executor_touch(model->executor);
    *out_count = model->state_count;
    return model->state;
}
