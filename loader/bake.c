/* SPDX-License-Identifier: Apache-2.0
 *
 * A trained bundle: the same program, its parameters stored instead of initialised. Needs no
 * device.
 *
 *     open -> read state -> collect values -> new config, new weights -> write
 */
#include "loader/tessera.h"
#include "loader/weights.h"
#include "runtime/base/options.h"

#include <string.h>

enum { WEIGHTS_ALIGN_BYTES = 65536 };

typedef struct baking {
    tsr_arena arena;
    tsr_bundle *bundle; /* owned */
    tsr_config config;
    tsr_tensor *state; /* of the generation, in the arena */
    size_t state_count;
    tsr_tensor *stored; /* what the new weights blob holds, in the arena */
    size_t stored_count;
    tsr_bundle_blob *shared; /* in the arena */
    size_t shared_count;
    tsr_bundle_target *targets; /* in the arena */
} baking;

static tsr_result open_input(tsr_ctx *ctx, baking *self, const char *path) {
    const char *json = NULL;
    size_t size = 0;
    TRY(ctx, tsr_bundle_open(ctx, path, NULL, &self->bundle));
    tsr_bundle_get_config(self->bundle, 0, &json, &size);
    return tsr_config_decode(ctx, json, size, &self->arena, &self->config);
}

static tsr_result read_state(tsr_ctx *ctx, baking *self, const tsr_bake_options *options,
                             tsr_generation *out_generation) {
    tsr_digest digest = tsr_bundle_get_digest(self->bundle);
    tsr_recovery recovery = {0};
    TRY(ctx, tsr_store_read(ctx, options->state_directory, &digest, options->resume,
                            options->resume_generation, &self->arena, &recovery, &self->state,
                            &self->state_count));
    if (!recovery.found)
        FAIL(ctx, TSR_STATE, "state '%s' holds no generation", options->state_directory);
    *out_generation = recovery.generation;
    return TSR_SUCCESS;
}

static tsr_result take_param(tsr_ctx *ctx, baking *self, const char *directory,
                             tsr_config_tensor *tensor, void **out_data) {
    const tsr_tensor *found = tsr_tensor_find(self->state, self->state_count, tensor->name);
    if (!found) FAIL(ctx, TSR_MISMATCH, "state '%s' has no tensor '%s'", directory, tensor->name);
    TRY(ctx, tsr_check_type(ctx, TSR_MISMATCH, directory, tensor->name, found->dtype, &found->shape,
                            tensor->dtype, &tensor->shape));
    *out_data = found->data;
    tensor->init = TSR_INIT_DATA;
    tensor->init_a = tensor->init_b = 0;
    tensor->init_stream = 0;
    return TSR_SUCCESS;
}

static tsr_result allocate(tsr_ctx *ctx, baking *self, const tsr_config_tensor *tensor,
                           void **out_data) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    TSR_ASSERT(fits);
    *out_data = tsr_arena_alloc(&self->arena, (size_t)size, 1, 8);
    if (!*out_data)
        FAIL(ctx, TSR_MEMORY, "no memory for the %llu bytes of tensor '%s'",
             (unsigned long long)size, tensor->name);
    return TSR_SUCCESS;
}

/* Parameters come from the state; what else the bundle stores stays. */
static tsr_result collect_values(tsr_ctx *ctx, baking *self, const char *directory) {
    const unsigned roles = 1u << TSR_ROLE_STATE | 1u << TSR_ROLE_CONSTANT;
    size_t count = self->config.tensor_count;
    void **data = TSR_NEW(&self->arena, void *, count + 1);
    self->stored = TSR_NEW(&self->arena, tsr_tensor, count + 1);
    if (!data || !self->stored) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        tsr_config_tensor *tensor = &self->config.tensors[i];
        if (tensor->role == TSR_ROLE_PARAM)
            TRY(ctx, take_param(ctx, self, directory, tensor, &data[i]));
        else if (tensor->init == TSR_INIT_DATA)
            TRY(ctx, allocate(ctx, self, tensor, &data[i]));
        else
            continue;
        self->stored[self->stored_count++] =
            (tsr_tensor){tensor->name, tensor->dtype, tensor->shape, data[i]};
    }
    return tsr_weights_load(ctx, self->bundle, 0, &self->config, roles, data);
}

static bool is_kept(const tsr_bundle_layer *layer) {
    return strcmp(layer->media_type, TSR_MEDIA_WEIGHTS) != 0 &&
           strcmp(layer->media_type, TSR_MEDIA_CHUNKS) != 0;
}

/* A layer is shared when every target has it. */
static bool is_shared(const baking *self, const tsr_bundle_layer *layer) {
    size_t target_count = tsr_bundle_get_target_count(self->bundle);
    for (size_t i = 0; i < target_count; i++) {
        size_t layer_count = tsr_bundle_get_layer_count(self->bundle, i);
        bool found = false;
        for (size_t j = 0; j < layer_count && !found; j++) {
            tsr_bundle_layer other = tsr_bundle_get_layer(self->bundle, i, j);
            found = tsr_digest_equal(&other.digest, &layer->digest) &&
                    strcmp(other.media_type, layer->media_type) == 0;
        }
        if (!found) return false;
    }
    return true;
}

static tsr_result copy_layers(tsr_ctx *ctx, baking *self, size_t target, bool shared,
                              tsr_bundle_blob *blobs, size_t *count) {
    size_t layer_count = tsr_bundle_get_layer_count(self->bundle, target);
    for (size_t i = 0; i < layer_count; i++) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(self->bundle, target, i);
        void *bytes = NULL;
        size_t size = 0;
        if (!is_kept(&layer) || is_shared(self, &layer) != shared) continue;
        TRY(ctx, tsr_bundle_read_layer(ctx, self->bundle, &layer, &self->arena, &bytes, &size));
        blobs[(*count)++] = (tsr_bundle_blob){layer.media_type, layer.title, bytes, size, NULL};
    }
    return TSR_SUCCESS;
}

static tsr_result collect_layers(tsr_ctx *ctx, baking *self) {
    size_t target_count = tsr_bundle_get_target_count(self->bundle);
    self->shared =
        TSR_NEW(&self->arena, tsr_bundle_blob, tsr_bundle_get_layer_count(self->bundle, 0) + 1);
    self->targets = TSR_NEW(&self->arena, tsr_bundle_target, target_count);
    if (!self->shared || !self->targets)
        FAIL(ctx, TSR_MEMORY, "no memory for the layers of %zu targets", target_count);
    TRY(ctx, copy_layers(ctx, self, 0, true, self->shared, &self->shared_count));
    for (size_t i = 0; i < target_count; i++) {
        tsr_bundle_blob *blobs =
            TSR_NEW(&self->arena, tsr_bundle_blob, tsr_bundle_get_layer_count(self->bundle, i) + 1);
        size_t count = 0;
        if (!blobs) FAIL(ctx, TSR_MEMORY, "no memory for the layers of a target");
        TRY(ctx, copy_layers(ctx, self, i, false, blobs, &count));
        self->targets[i] =
            (tsr_bundle_target){tsr_bundle_get_target_name(self->bundle, i), blobs, count};
    }
    return TSR_SUCCESS;
}

static tsr_result write_output(tsr_ctx *ctx, baking *self, const char *path) {
    char *config = NULL;
    void *weights = NULL;
    size_t config_size = 0, weights_size = 0;
    TRY(ctx, tsr_config_encode(ctx, &self->config, &self->arena, &config, &config_size));
    TRY(ctx, tsr_safetensors_encode(ctx, self->stored, self->stored_count, WEIGHTS_ALIGN_BYTES,
                                    NULL, &self->arena, &weights, &weights_size));
    self->shared[self->shared_count++] =
        (tsr_bundle_blob){TSR_MEDIA_WEIGHTS, "weights.safetensors", weights, weights_size, NULL};
    tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                            .config = config,
                            .config_size_bytes = config_size,
                            .blobs = self->shared,
                            .blob_count = self->shared_count,
                            .targets = self->targets,
                            .target_count = tsr_bundle_get_target_count(self->bundle)};
    return tsr_bundle_write(ctx, path, &spec);
}

static tsr_result export_params(tsr_ctx *ctx, baking *self, const char *path) {
    tsr_tensor *params = TSR_NEW(&self->arena, tsr_tensor, self->stored_count + 1);
    size_t count = 0;
    if (!params) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", self->stored_count);
    for (size_t i = 0; i < self->stored_count; i++) {
        const tsr_config_tensor *tensor =
            tsr_config_find_tensor(&self->config, self->stored[i].name);
        if (tensor->role == TSR_ROLE_PARAM) params[count++] = self->stored[i];
    }
    return tsr_safetensors_write(ctx, path, params, count, NULL);
}

static tsr_result bake_stages(tsr_ctx *ctx, baking *self, const char *in_path,
                              const tsr_bake_options *options, tsr_generation *out_generation) {
    TRY(ctx, open_input(ctx, self, in_path));
    TRY(ctx, read_state(ctx, self, options, out_generation));
    TRY(ctx, collect_values(ctx, self, options->state_directory));
    if (options->export_params) TRY(ctx, export_params(ctx, self, options->export_params));
    if (!options->out_path) return TSR_SUCCESS;
    TRY(ctx, collect_layers(ctx, self));
    return write_output(ctx, self, options->out_path);
}

tsr_result tsr_bake(tsr_ctx *ctx, const char *in_path, const tsr_bake_options *options,
                    tsr_generation *out_generation) {
    baking self = {0};
    tsr_bake_options given;
    tsr_generation generation = {0};
    TRY(ctx, tsr_options_copy(ctx, "tsr_bake_options", options, &given, sizeof given));
    if (!given.state_directory) FAIL(ctx, TSR_USAGE, "no state directory is given to bake from");
    if (!given.out_path && !given.export_params)
        FAIL(ctx, TSR_USAGE, "no output is given; expected a bundle, a parameter file, or both");
    if (given.out_path && given.export_params && strcmp(given.out_path, given.export_params) == 0)
        FAIL(ctx, TSR_USAGE, "the bundle and the parameters both go to '%s'", given.out_path);
    tsr_result result = bake_stages(ctx, &self, in_path, &given, &generation);
    tsr_bundle_close(ctx, self.bundle);
    tsr_arena_finish(&self.arena);
    if (!result.code) *out_generation = generation;
    return result;
}
