/* SPDX-License-Identifier: Apache-2.0
 *
 * A trained bundle: the same program, its parameters stored instead of initialised. Needs no
 * device.
 *
 *     open -> read state or parameters -> collect values -> new config, new weights -> write
 */
#include "bundle/provenance.h"
#include "loader/position.h"
#include "loader/weights/external.h"
#include "loader/weights/shards.h"
#include "loader/weights/weights.h"
#include "runtime/base/array.h"
#include "runtime/base/identity.h"
#include "runtime/base/options.h"
#include "tessera/tessera.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct baking {
    tsr_arena arena;
    tsr_bundle *bundle; /* owned */
    tsr_config config;
    tsr_tensor *state; /* tensors of the generation, in the arena */
    size_t state_count;
    tsr_bake_options options;
    tsr_generation generation;
    const char *folder;           /* folder of the bundle; in the arena */
    tsr_params *params;           /* owned; or NULL */
    tsr_value *weights, *moments; /* contents of the new blobs, in the arena */
    size_t weight_count, moment_count;
    tsr_tensor *exported; /* parameters of the state, in the arena */
    size_t exported_count;
    tsr_bundle_blob *shared; /* allocated in the arena */
    size_t shared_count;
    tsr_bundle_target *targets; /* allocated in the arena */
    tsr_external external;      /* set with options.reference */
} baking;

static tsr_result open_input(tsr_ctx *ctx, baking *self, const char *path) {
    const char *json = NULL;
    size_t size = 0;
    const char *slash = strrchr(path, '/');
    self->folder = slash ? tsr_arena_strndup(&self->arena, path, (size_t)(slash - path) + 1) : ".";
    if (!self->folder) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", path);
    TRY(ctx, tsr_bundle_open(ctx, path, NULL, &self->bundle));
    tsr_bundle_get_config(self->bundle, 0, &json, &size);
    return tsr_config_decode(ctx, json, size, &self->arena, &self->config);
}

/* Gives every input of this hyper-parameter the value, which the program then has. */
static tsr_result change_inputs(tsr_ctx *ctx, baking *self, const char *name, double value,
                                size_t *out_count) {
    *out_count = 0;
    for (size_t e = 0; e < self->config.entry_count; e++) {
        tsr_config_entry *entry = &self->config.entries[e];
        for (size_t i = 0; i < entry->input_count; i++) {
            if (!tsr_port_is_hyperparameter(&entry->inputs[i], name)) continue;
            tsr_config_hyperparameter *changed =
                TSR_NEW(&self->arena, tsr_config_hyperparameter, 1);
            if (!changed) FAIL(ctx, TSR_MEMORY, "no memory for the inputs of '%s'", entry->name);
            *changed = *entry->inputs[i].hyperparameter;
            changed->value = value;
            entry->inputs[i].hyperparameter = changed;
            ++*out_count;
        }
    }
    return TSR_SUCCESS;
}

/* Training continues with the values that a run set for the state: the bundle gets them. */
static tsr_result take_set(tsr_ctx *ctx, baking *self, const tsr_identity *stored) {
    tsr_identity *own = &self->config.identity;
    tsr_hyperparameter *list = TSR_NEW(&self->arena, tsr_hyperparameter, TSR_HYPERPARAMETERS_MAX);
    if (!list) FAIL(ctx, TSR_MEMORY, "no memory for hyper-parameters");
    for (size_t i = 0; i < own->hyperparameter_count; i++) list[i] = own->hyperparameters[i];
    own->hyperparameters = list;
    for (size_t i = 0; i < stored->hyperparameter_count; i++) {
        const tsr_hyperparameter *one = &stored->hyperparameters[i];
        const tsr_hyperparameter *mine = tsr_identity_find(own, one->name);
        size_t input_count = 0;
        if (!one->is_set || (mine && strcmp(mine->value, one->value) == 0)) continue;
        if (mine)
            TRY(ctx, change_inputs(ctx, self, one->name, strtod(one->value, NULL), &input_count));
        tsr_log(ctx, TSR_LOG_NOTICE,
                "generation %" PRIu64 " was trained with %s %s, which was set; the bundle %s %s",
                self->generation.number, one->name, one->value,
                input_count ? "has that value now, instead of" : "continues with",
                mine ? mine->value : "none");
        if (input_count) list[mine - list].value = one->value;
    }
    return TSR_SUCCESS;
}

static tsr_result read_state(tsr_ctx *ctx, baking *self) {
    const tsr_bake_options *options = &self->options;
    tsr_identity stored = {.hyperparameter_count = 0};
    /* Only training continues with other hyper-parameters. */
    const tsr_store_program program = {.bundle_hash = tsr_bundle_get_digest(self->bundle),
                                       .identity = &self->config.identity,
                                       .tells_changes = options->with_state,
                                       .recovered = &stored};
    tsr_recovery recovery = {0};
    TRY(ctx, tsr_store_read(ctx, options->state_directory, &program, options->resume,
                            options->resume_generation, &self->arena, &recovery, &self->state,
                            &self->state_count));
    if (!recovery.found)
        FAIL(ctx, TSR_STATE, "state '%s' holds no generation", options->state_directory);
    self->generation = recovery.generation;
    return options->with_state ? take_set(ctx, self, &stored) : TSR_SUCCESS;
}

/* Takes a value of the state. */
static tsr_result take_state(tsr_ctx *ctx, baking *self, const tsr_config_tensor *tensor,
                             tsr_value *out) {
    const char *directory = self->options.state_directory;
    const tsr_tensor *found = tsr_tensor_find_sorted(self->state, self->state_count, tensor->name);
    if (!found) FAIL(ctx, TSR_MISMATCH, "state '%s' has no tensor '%s'", directory, tensor->name);
    TRY(ctx, tsr_check_type(ctx, TSR_MISMATCH, directory, tensor->name, found->dtype, &found->shape,
                            tensor->dtype, &tensor->shape));
    *out =
        (tsr_value){tensor->name, tensor->dtype, tensor->shape, tsr_value_read_memory, found->data};
    if (tensor->role == TSR_ROLE_PARAM) self->exported[self->exported_count++] = *found;
    return TSR_SUCCESS;
}

/* A tensor of equal elements becomes an init rule, and needs no space. */
static tsr_result set_init(tsr_ctx *ctx, const tsr_value *value, tsr_config_tensor *tensor,
                           bool *out_stored) {
    bool splat = false;
    double element = 0;
    TRY(ctx, tsr_value_is_splat(ctx, value, &splat, &element));
    tensor->init = splat ? TSR_INIT_CONSTANT : TSR_INIT_DATA;
    tensor->init_a = splat ? element : 0;
    tensor->init_b = 0;
    tensor->init_stream = 0;
    *out_stored = !splat;
    return TSR_SUCCESS;
}

/* Plans a value that the bundle already stores: all such values are read into memory later, at
 * once. */
static tsr_result plan_stored(tsr_ctx *ctx, baking *self, const tsr_config_tensor *tensor,
                              tsr_value *out, void **out_data) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    TSR_ASSERT(fits);
    *out_data = tsr_arena_alloc(&self->arena, (size_t)size, 1, 8);
    if (!*out_data)
        FAIL(ctx, TSR_MEMORY, "no memory for the %" PRIu64 " bytes of tensor '%s'", size,
             tensor->name);
    *out =
        (tsr_value){tensor->name, tensor->dtype, tensor->shape, tsr_value_read_memory, *out_data};
    return TSR_SUCCESS;
}

static tsr_result collect_tensor(tsr_ctx *ctx, baking *self, tsr_config_tensor *tensor,
                                 void **out_data) {
    bool param = tensor->role == TSR_ROLE_PARAM, state = tensor->role == TSR_ROLE_STATE;
    bool stored = tensor->init == TSR_INIT_DATA;
    tsr_value value;
    if (param && self->params)
        TRY(ctx, tsr_params_get(ctx, self->params, tensor, &value));
    else if ((param && self->options.state_directory) || (state && self->options.with_state))
        TRY(ctx, take_state(ctx, self, tensor, &value));
    else if (stored)
        TRY(ctx, plan_stored(ctx, self, tensor, &value, out_data));
    else
        return TSR_SUCCESS;
    if (!*out_data) TRY(ctx, set_init(ctx, &value, tensor, &stored));
    if (stored && state) self->moments[self->moment_count++] = value;
    bool named = param && self->options.reference;
    if (stored && !state && !named) self->weights[self->weight_count++] = value;
    return TSR_SUCCESS;
}

/* Values come from the state or the file; other values that the bundle stores are kept. */
static tsr_result collect_values(tsr_ctx *ctx, baking *self) {
    size_t count = self->config.tensor_count;
    unsigned roles = 1u << TSR_ROLE_CONSTANT | 1u << TSR_ROLE_PARAM | 1u << TSR_ROLE_STATE;
    void **data = TSR_NEW(&self->arena, void *, count + 1);
    self->weights = TSR_NEW(&self->arena, tsr_value, count + 1);
    self->moments = TSR_NEW(&self->arena, tsr_value, count + 1);
    self->exported = TSR_NEW(&self->arena, tsr_tensor, count + 1);
    tsr_config remaining = self->config;
    remaining.tensors =
        tsr_arena_memdup(&self->arena, self->config.tensors,
                         (count + 1) * sizeof *remaining.tensors - sizeof *remaining.tensors);
    if (!data || !self->weights || !self->moments || !self->exported || !remaining.tensors)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", count);
    for (size_t i = 0; i < count; i++) {
        TRY(ctx, collect_tensor(ctx, self, &self->config.tensors[i], &data[i]));
        if (!data[i]) remaining.tensors[i].init = TSR_INIT_CONSTANT; /* this tensor is not read */
    }
    const char *const folders[] = {self->folder};
    return tsr_weights_load(ctx, self->bundle, 0, &remaining, roles,
                            &(tsr_weights_folders){folders, 1}, data, NULL, NULL);
}

static bool is_copied(const tsr_bundle_layer *layer) {
    static const char *const made_anew[] = {TSR_MEDIA_WEIGHTS, TSR_MEDIA_STATE, TSR_MEDIA_POSITION,
                                            TSR_MEDIA_EXTERNAL, TSR_MEDIA_CHUNKS};
    for (size_t i = 0; i < TSR_COUNT(made_anew); i++)
        if (strcmp(layer->media_type, made_anew[i]) == 0) return false;
    return true;
}

/* Returns true for a layer that every target has. */
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

static tsr_result hash_file(tsr_ctx *ctx, baking *self, const char *path, tsr_digest *out_digest) {
    enum { BLOCK_BYTES = 1 << 20 };
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_result result;
    tsr_hasher hasher;
    uint64_t size = 0;
    int fd = -1;
    void *block = tsr_arena_alloc(&self->arena, BLOCK_BYTES, 1, 64);
    if (!block) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", path);
    TRY(ctx, tsr_io_open(ctx, path, O_RDONLY, 0, &fd));
    tsr_hasher_init(&hasher);
    TRY_GOTO(ctx, result, tsr_io_file_size(ctx, fd, path, &size));
    for (uint64_t at = 0; at < size;) {
        size_t part = size - at < BLOCK_BYTES ? (size_t)(size - at) : BLOCK_BYTES;
        TRY_GOTO(ctx, result, tsr_io_read_exact(ctx, fd, path, block, part, at));
        tsr_hasher_update(&hasher, block, part);
        at += part;
    }
    *out_digest = tsr_hasher_finish(&hasher);
done:
    io->close(io->self, fd);
    return result;
}

/* Adds the baked inputs to the provenance: the parameter file, or the bundle and its state. */
static tsr_result extend_provenance(tsr_ctx *ctx, baking *self, void **json, size_t *size) {
    tsr_provenance_input inputs[2];
    char *extended = NULL, step[64];
    size_t count = 0;
    if (self->options.params) {
        const char *slash = strrchr(self->options.params, '/');
        inputs[count].name = slash ? slash + 1 : self->options.params;
        inputs[count].digest = self->external.file.digest;
        if (!self->options.reference)
            TRY(ctx, hash_file(ctx, self, self->options.params, &inputs[count].digest));
        count++;
    } else {
        snprintf(step, sizeof step, "state at step %" PRIu64, self->generation.position.step);
        inputs[count++] = (tsr_provenance_input){"bundle", tsr_bundle_get_digest(self->bundle)};
        inputs[count++] = (tsr_provenance_input){step, self->generation.state_hash};
    }
    TRY(ctx, tsr_provenance_extend(ctx, tsr_bundle_get_path(self->bundle), *json, *size, inputs,
                                   count, &self->arena, &extended, size));
    *json = extended;
    return TSR_SUCCESS;
}

static tsr_result copy_layers(tsr_ctx *ctx, baking *self, size_t target, bool shared,
                              tsr_bundle_blob *blobs, size_t *count) {
    size_t layer_count = tsr_bundle_get_layer_count(self->bundle, target);
    for (size_t i = 0; i < layer_count; i++) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(self->bundle, target, i);
        void *bytes = NULL;
        size_t size = 0;
        if (!is_copied(&layer) || is_shared(self, &layer) != shared) continue;
        TRY(ctx, tsr_bundle_read_layer(ctx, self->bundle, &layer, &self->arena, &bytes, &size));
        if (strcmp(layer.media_type, TSR_MEDIA_PROVENANCE) == 0)
            TRY(ctx, extend_provenance(ctx, self, &bytes, &size));
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

static tsr_result add_shards(tsr_ctx *ctx, baking *self, const tsr_value *values, size_t count,
                             const char *media_type, const char *stem) {
    tsr_bundle_blob *blobs = NULL;
    size_t blob_count = 0, old = self->shared_count;
    TRY(ctx, tsr_shards_make(ctx, values, count, media_type, stem, TSR_SHARD_BYTES_MAX,
                             &self->arena, &blobs, &blob_count));
    tsr_bundle_blob *shared = TSR_NEW(&self->arena, tsr_bundle_blob, old + blob_count + 2);
    if (!shared) FAIL(ctx, TSR_MEMORY, "no memory for %zu blobs", blob_count);
    memcpy(shared, self->shared, old * sizeof *shared);
    memcpy(shared + old, blobs, blob_count * sizeof *shared);
    self->shared = shared;
    self->shared_count += blob_count;
    return TSR_SUCCESS;
}

static tsr_result add_position(tsr_ctx *ctx, baking *self) {
    char *json = NULL;
    size_t size = 0;
    TRY(ctx, tsr_position_encode(ctx, &self->generation.position, &self->arena, &json, &size));
    self->shared[self->shared_count++] =
        (tsr_bundle_blob){TSR_MEDIA_POSITION, "position.json", json, size, NULL};
    return TSR_SUCCESS;
}

static tsr_result add_external(tsr_ctx *ctx, baking *self) {
    char *json = NULL;
    size_t size = 0;
    TRY(ctx, tsr_external_encode(ctx, &self->external, &self->arena, &json, &size));
    self->shared[self->shared_count++] =
        (tsr_bundle_blob){TSR_MEDIA_EXTERNAL, "external.json", json, size, NULL};
    return TSR_SUCCESS;
}

static tsr_result write_output(tsr_ctx *ctx, baking *self) {
    char *config = NULL;
    size_t config_size = 0;
    /* Other initial values are another program. */
    self->config.identity.program = tsr_config_program_digest(&self->config);
    TRY(ctx, tsr_config_encode(ctx, &self->config, &self->arena, &config, &config_size));
    TRY(ctx,
        add_shards(ctx, self, self->weights, self->weight_count, TSR_MEDIA_WEIGHTS, "weights"));
    TRY(ctx, add_shards(ctx, self, self->moments, self->moment_count, TSR_MEDIA_STATE, "state"));
    if (self->options.with_state) TRY(ctx, add_position(ctx, self));
    if (self->options.reference) TRY(ctx, add_external(ctx, self));
    tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                            .config = config,
                            .config_size_bytes = config_size,
                            .blobs = self->shared,
                            .blob_count = self->shared_count,
                            .targets = self->targets,
                            .target_count = tsr_bundle_get_target_count(self->bundle)};
    return tsr_bundle_write(ctx, self->options.out_path, &spec);
}

static tsr_result bake_stages(tsr_ctx *ctx, baking *self, const char *in_path) {
    const tsr_bake_options *options = &self->options;
    TRY(ctx, open_input(ctx, self, in_path));
    if (options->state_directory) TRY(ctx, read_state(ctx, self));
    if (options->params)
        TRY(ctx, tsr_params_open(ctx, options->params, &self->arena, &self->params));
    TRY(ctx, collect_values(ctx, self));
    if (options->export_params)
        TRY(ctx, tsr_safetensors_write(ctx, options->export_params, self->exported,
                                       self->exported_count, NULL));
    if (!options->out_path) return TSR_SUCCESS;
    if (options->reference)
        TRY(ctx, tsr_external_make(ctx, options->params, &self->arena, &self->external));
    TRY(ctx, collect_layers(ctx, self));
    return write_output(ctx, self);
}

static tsr_result check_options(tsr_ctx *ctx, const tsr_bake_options *given) {
    if (!given->state_directory == !given->params)
        FAIL(ctx, TSR_USAGE, "%s to bake from; expected a state directory or a parameter file",
             given->params ? "a state directory and a parameter file are given"
                           : "no state directory is given");
    if (given->params && (given->with_state || given->export_params))
        FAIL(ctx, TSR_USAGE, "'%s' contains only parameters; %s need a state directory",
             given->params, given->with_state ? "optimizer states" : "exports");
    const char *ending = given->params ? strrchr(given->params, '.') : NULL;
    if (given->reference && (!ending || strcmp(ending, ".safetensors") != 0))
        FAIL(ctx, TSR_USAGE, "a bundle cannot refer to '%s'; expected a .safetensors file",
             given->params ? given->params : "");
    if (!given->out_path && !given->export_params)
        FAIL(ctx, TSR_USAGE, "no output is given; expected a bundle, a parameter file, or both");
    if (given->with_state && !given->out_path)
        FAIL(ctx, TSR_USAGE,
             "an optimizer state can only be stored in a bundle; expected the path of an output "
             "bundle, got none");
    if (given->out_path && given->export_params &&
        strcmp(given->out_path, given->export_params) == 0)
        FAIL(ctx, TSR_USAGE, "the bundle and the parameters both go to '%s'", given->out_path);
    return TSR_SUCCESS;
}

tsr_result tsr_bake(tsr_ctx *ctx, const char *in_path, const tsr_bake_options *options,
                    tsr_generation *out_generation) {
    baking self = {0};
    TRY(ctx,
        tsr_options_copy(ctx, "tsr_bake_options", options, &self.options, sizeof self.options));
    TRY(ctx, check_options(ctx, &self.options));
    tsr_result result = bake_stages(ctx, &self, in_path);
    tsr_params_close(ctx, self.params);
    tsr_bundle_close(ctx, self.bundle);
    tsr_arena_finish(&self.arena);
    if (!result.code) *out_generation = self.generation;
    return result;
}
