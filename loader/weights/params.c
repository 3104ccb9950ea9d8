/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources and destinations of the values of a model's tensors: init rules, the bundle's weights, a
 * state directory, safetensors files.
 */
#include "loader/model.h"
#include "loader/use.h"
#include "loader/weights/external.h"
#include "loader/weights/weights.h"
#include "runtime/base/plural.h"
#include "runtime/initialize.h"

#include <math.h>
#include <string.h>

/* The host draws fewer values than this faster than a device translates the kernel for it. */
enum { DRAWN_THERE_MIN = 16 << 20 };

static bool is_cleared(const tsr_config_tensor *tensor) {
    return tensor->init == TSR_INIT_CONSTANT && tensor->init_a == 0.0 && !signbit(tensor->init_a);
}

/* Returns true if the device draws the tensor, because it can and this is worth it. */
static bool is_sampled_on_device(const tsr_model *model, const tsr_config_tensor *tensor) {
    return model->device->type->draw && model->samples_on_device &&
           tensor->init == TSR_INIT_NORMAL && tensor->dtype == TSR_DTYPE_F32;
}

static tsr_result sample_on_device(tsr_ctx *ctx, tsr_model *model, size_t index, uint32_t seed) {
    const tsr_config_tensor *tensor = &model->config.tensors[index];
    const tsr_device_memory *memory = tsr_executor_get_memory(model->executor);
    const char *at = tsr_executor_get_tensor(model->executor, index);
    tsr_device_normals normals = {
        .a = tensor->init_a, .b = tensor->init_b, .seed = seed, .stream = tensor->init_stream};
    bool fits = tsr_shape_count(&tensor->shape, &normals.count);
    TSR_ASSERT(fits); /* the executor has allocated memory for it */
    TRY(ctx, model->device->type->draw(ctx, model->device, memory, (uint64_t)(at - memory->host),
                                       &normals));
    tsr_executor_replace_there(model->executor, index);
    return TSR_SUCCESS;
}

/* Fills the tensor with this index in the config by its init rule, or returns the destination of
 * its stored value: the tensor itself, or a buffer for the whole of a tensor that is sharded over
 * ranks. */
static tsr_result fill_one(tsr_ctx *ctx, tsr_model *model, const tsr_sharded_view *view,
                           size_t index, size_t in_state, uint32_t seed, tsr_threads *threads,
                           void **out_data, tsr_arena *arena) {
    const tsr_config_tensor *tensor = &model->config.tensors[index];
    bool sharded = tensor->role != TSR_ROLE_CONSTANT && tsr_sharded_view_is_sharded(view, in_state);
    uint64_t size = 0;
    *out_data = tsr_executor_get_tensor(model->executor, index);
    if (is_cleared(tensor)) {
        tsr_executor_clear(model->executor, index);
        return TSR_SUCCESS;
    }
    if (!sharded && is_sampled_on_device(model, tensor))
        return sample_on_device(ctx, model, index, seed);
    tsr_executor_replace(model->executor, index);
    if (tensor->init != TSR_INIT_DATA) {
        if (!sharded) return tsr_initialize_tensor(ctx, tensor, seed, threads, *out_data);
        tsr_elements own = tsr_sharded_view_range(view, in_state);
        return tsr_initialize_elements(ctx, tensor, seed, own.first, own.count, threads, *out_data);
    }
    if (!sharded) return TSR_SUCCESS;
    bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    *out_data = fits ? tsr_arena_alloc(arena, (size_t)size, 1, TSR_BUFFER_ALIGN_BYTES) : NULL;
    if (!*out_data) FAIL(ctx, TSR_MEMORY, "no memory to read tensor '%s'", tensor->name);
    return TSR_SUCCESS;
}

/* Returns the number of random elements. */
static uint64_t count_random(const tsr_config *config, unsigned roles) {
    uint64_t total = 0, count = 0;
    for (size_t i = 0; i < config->tensor_count; i++) {
        const tsr_config_tensor *tensor = &config->tensors[i];
        bool is_random = tensor->init != TSR_INIT_DATA && tensor->init != TSR_INIT_CONSTANT;
        if (is_random && roles & 1u << tensor->role && tsr_shape_count(&tensor->shape, &count))
            total += count;
    }
    return total;
}

bool tsr_model_samples_on_device(const tsr_model *model, unsigned roles) {
    return count_random(&model->config, roles) >= DRAWN_THERE_MIN;
}

uint64_t tsr_model_stored_bytes(const tsr_model *model) {
    uint64_t total = 0, size = 0;
    for (size_t i = 0; i < model->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &model->config.tensors[i];
        bool stored = tensor->init == TSR_INIT_DATA;
        if (stored && tsr_shape_size(&tensor->shape, tensor->dtype, &size)) total += size;
    }
    return total;
}

/* Tensors sent to the device are not in the host's copy. */
static tsr_result load_weights(tsr_ctx *ctx, tsr_model *model, unsigned roles, void *const *data,
                               tsr_arena *arena) {
    const tsr_config *config = &model->config;
    const tsr_device_staged_upload *upload = model->device->type->staged_upload;
    tsr_sender sender = {.device = model->device,
                         .memory = tsr_executor_get_memory(model->executor),
                         .bytes_min = upload ? upload->bytes_min(model->device) : 0};
    bool *sent = TSR_NEW(arena, bool, config->tensor_count + 1);
    if (!sent) FAIL(ctx, TSR_MEMORY, "no memory for %zu flags", config->tensor_count);
    TRY(ctx, tsr_weights_load(ctx, model->bundle, model->target, config, roles, &model->folders,
                              data, upload ? &sender : NULL, sent));
    for (size_t i = 0; i < config->tensor_count; i++)
        if (sent[i]) tsr_executor_replace_there(model->executor, i);
    return TSR_SUCCESS;
}

/* Fills the tensors whose role is in the set (bit 1 << role), by their rule or from the weights. */
static tsr_result fill(tsr_ctx *ctx, tsr_model *model, unsigned roles, uint32_t seed) {
    const tsr_config *config = &model->config;
    tsr_sharded_view view = tsr_model_get_sharded_view(model);
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    void **data = TSR_NEW(&arena, void *, config->tensor_count + 1);
    tsr_threads *threads = tsr_device_cpu_get_threads(model->device), *own = NULL;
    uint64_t random = count_random(config, roles);
    model->samples_on_device = tsr_model_samples_on_device(model, roles);
    if (!threads && random && !(model->samples_on_device && model->device->type->draw))
        TRY_GOTO(ctx, result, tsr_threads_create(ctx, 0, &own));
    if (!data)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for %zu pointers", config->tensor_count);
    for (size_t i = 0, in_state = 0; i < config->tensor_count; i++) {
        tsr_tensor_role role = config->tensors[i].role;
        if (roles & 1u << role)
            TRY_GOTO(ctx, result,
                     fill_one(ctx, model, &view, i, in_state, seed, own ? own : threads, &data[i],
                              &arena));
        in_state += role != TSR_ROLE_CONSTANT;
    }
    TRY_GOTO(ctx, result, load_weights(ctx, model, roles, data, &arena));
    for (size_t i = 0, in_state = 0; i < config->tensor_count; i++) {
        tsr_tensor_role role = config->tensors[i].role;
        if (role == TSR_ROLE_CONSTANT) continue;
        if (data[i] && data[i] != tsr_executor_get_tensor(model->executor, i))
            tsr_sharded_view_fill(&view, in_state, data[i]);
        in_state++;
    }
done:
    tsr_threads_destroy(own);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_weights_list_folders(tsr_ctx *ctx, const char *path,
                                    const tsr_model_options *options, tsr_arena *arena,
                                    tsr_weights_folders *out_folders) {
    size_t count = options->weights_folder_count;
    const char **paths = TSR_NEW(arena, const char *, count + 1);
    const char *slash = strrchr(path, '/');
    if (!paths) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", path);
    for (size_t i = 0; i < count; i++)
        paths[i] = tsr_arena_strdup(arena, options->weights_folders[i]);
    paths[count] = slash ? tsr_arena_strndup(arena, path, (size_t)(slash - path) + 1) : ".";
    for (size_t i = 0; i <= count; i++)
        if (!paths[i]) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", path);
    *out_folders = (tsr_weights_folders){paths, count + 1};
    return TSR_SUCCESS;
}

tsr_result tsr_model_find_weights(tsr_ctx *ctx, const tsr_model *model, tsr_arena *arena,
                                  const char **out_path) {
    tsr_external external = {.file = {.fd = -1}};
    tsr_ctx opening = tsr_ctx_fork(ctx);
    bool found = false;
    TRY(ctx, tsr_external_read(ctx, model->bundle, model->target, arena, &found, &external));
    if (found) {
        tsr_result result = tsr_external_open(&opening, model->folders.paths, model->folders.count,
                                              arena, &external);
        if (result.code == TSR_MEMORY) return tsr_error_adopt(ctx, &opening);
        tsr_external_close(&opening, &external);
    }
    *out_path = external.file.path;
    return TSR_SUCCESS;
}

tsr_result tsr_model_load_constants(tsr_ctx *ctx, tsr_model *model) {
    return fill(ctx, model, 1u << TSR_ROLE_CONSTANT, 0);
}

tsr_result tsr_state_initialize(tsr_ctx *ctx, tsr_model *model, uint32_t seed) {
    model->filled = false;
    TRY(ctx, fill(ctx, model, 1u << TSR_ROLE_PARAM | 1u << TSR_ROLE_STATE, seed));
    tsr_executor_set_seed(model->executor, seed);
    model->filled = model->untrained = true;
    model->initial_seed = seed;
    return TSR_SUCCESS;
}

tsr_result tsr_model_check_filled(tsr_ctx *ctx, const tsr_model *model) {
    if (!model->filled && model->state_count)
        FAIL(
            ctx, TSR_USAGE,
            "the %zu tensor%s of '%s' hold no values; expected them initialised, loaded or trained "
            "before",
            model->state_count, TSR_PLURAL(model->state_count), model->config.name);
    return TSR_SUCCESS;
}

/* ---- a state directory ---- */

/* First checks all tensors, then copies them: a state that does not match changes nothing. */
static tsr_result copy_state(tsr_ctx *ctx, tsr_model *model, const char *directory,
                             const tsr_tensor *stored, size_t stored_count) {
    for (size_t i = 0; i < model->state_count; i++) {
        const tsr_tensor *tensor = &model->state[i],
                         *found = tsr_tensor_find_sorted(stored, stored_count, tensor->name);
        if (!found)
            FAIL(ctx, TSR_MISMATCH, "state '%s' has no tensor '%s'", directory, tensor->name);
        TRY(ctx, tsr_check_type(ctx, TSR_MISMATCH, directory, tensor->name, found->dtype,
                                &found->shape, tensor->dtype, &tensor->shape));
    }
    TRY(ctx, tsr_executor_claim(ctx, model->executor));
    tsr_sharded_view view = tsr_model_get_sharded_view(model);
    for (size_t i = 0; i < model->state_count; i++)
        tsr_sharded_view_fill(
            &view, i, tsr_tensor_find_sorted(stored, stored_count, model->state[i].name)->data);
    model->filled = true;
    model->untrained = false;
    return TSR_SUCCESS;
}

tsr_result tsr_state_load(tsr_ctx *ctx, tsr_model *model, const char *directory,
                          tsr_resume_mode mode, uint64_t generation,
                          tsr_generation *out_generation) {
    const tsr_store_program program = {.bundle_hash = tsr_model_get_digest(model),
                                       .identity = &model->config.identity};
    tsr_arena arena = {0};
    tsr_recovery recovery = {0};
    tsr_tensor *stored = NULL;
    size_t stored_count = 0;
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result,
             tsr_store_read(ctx, directory, &program, mode, generation, &arena, &recovery, &stored,
                            &stored_count));
    if (!recovery.found)
        FAIL_GOTO(ctx, result, TSR_STATE, "state '%s' holds no generation", directory);
    TRY_GOTO(ctx, result, copy_state(ctx, model, directory, stored, stored_count));
    *out_generation = recovery.generation;
done:
    tsr_arena_finish(&arena);
    return result;
}

/* ---- safetensors files ---- */

/* Checks every parameter, or reads it. */
static tsr_result visit_params(tsr_ctx *ctx, tsr_model *model, const tsr_weights *weights,
                               bool read) {
    for (size_t i = 0; i < model->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &model->config.tensors[i];
        const tsr_safetensors_entry *entry = NULL;
        if (tensor->role != TSR_ROLE_PARAM) continue;
        TRY(ctx, tsr_weights_find(ctx, weights, tensor, TSR_MISMATCH, &entry));
        if (!read) continue;
        TRY(ctx, tsr_weights_read(ctx, weights, entry, tsr_executor_replace(model->executor, i)));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_state_load_params(tsr_ctx *ctx, tsr_model *model, const char *path) {
    tsr_arena arena = {0};
    tsr_weights weights = {.fd = -1};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_weights_open(ctx, path, &arena, &weights));
    TRY_GOTO(ctx, result, visit_params(ctx, model, &weights, false));
    if (!model->filled) TRY_GOTO(ctx, result, fill(ctx, model, 1u << TSR_ROLE_STATE, 0));
    model->filled = false;
    TRY_GOTO(ctx, result, visit_params(ctx, model, &weights, true));
    model->filled = true;
    model->untrained = false;
done:
    tsr_weights_close(ctx, &weights);
    tsr_arena_finish(&arena);
    return result;
}

/* Gathers the parameters that ranks store in parts. */
static tsr_result collect_params(tsr_ctx *ctx, const tsr_model *model, tsr_arena *arena,
                                 tsr_tensor *params, size_t *out_count) {
    tsr_sharded_view view = tsr_model_get_sharded_view(model);
    size_t count = 0;
    for (size_t i = 0; i < view.count; i++) {
        uint64_t size = 0;
        if (tsr_config_find_tensor(&model->config, view.tensors[i].name)->role != TSR_ROLE_PARAM)
            continue;
        tsr_tensor *param = &params[count++];
        *param = view.tensors[i];
        if (!tsr_sharded_view_is_sharded(&view, i)) continue;
        bool fits = tsr_shape_size(&param->shape, param->dtype, &size);
        param->data = fits ? tsr_arena_alloc(arena, (size_t)size, 1, TSR_BUFFER_ALIGN_BYTES) : NULL;
        if (!param->data) FAIL(ctx, TSR_MEMORY, "no memory for tensor '%s'", param->name);
        TRY(ctx, tsr_sharded_view_gather(ctx, &view, i, param->data));
    }
    *out_count = count;
    return TSR_SUCCESS;
}

tsr_result tsr_model_export_params(tsr_ctx *ctx, const tsr_model *model, const char *path) {
    tsr_arena arena = {0};
    size_t count = 0;
    TRY(ctx, tsr_use_check_readable(ctx, model));
    TRY(ctx, tsr_model_check_filled(ctx, model));
    TRY(ctx, tsr_executor_fetch(ctx, model->executor));
    tsr_tensor *params = TSR_NEW(&arena, tsr_tensor, model->state_count + 1);
    if (!params) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", model->state_count);
    tsr_result result = collect_params(ctx, model, &arena, params, &count);
    bool writes = !model->transport || model->transport->rank == 0;
    if (!result.code && writes) result = tsr_safetensors_write(ctx, path, params, count, NULL);
    tsr_arena_finish(&arena);
    return result;
}
