/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the values of a model's tensors come from and go to: init rules, the bundle's weights, a
 * state directory, safetensors files.
 */
#include "loader/model.h"
#include "runtime/base/io.h"
#include "runtime/data/array_file.h"
#include "runtime/initialize.h"

#include <fcntl.h>
#include <string.h>

enum { HEADER_BYTES_MAX = 100 * 1024 * 1024 }; /* the limit of the safetensors format */

static uint64_t read_u64(const unsigned char bytes[static 8]) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | bytes[i];
    return value;
}

/* ---- the bundle's weights ---- */

static tsr_result read_index(tsr_ctx *ctx, tsr_model *model, const tsr_bundle_layer *layer,
                             tsr_arena *arena, tsr_safetensors *out_index) {
    unsigned char length[8];
    if (layer->size_bytes < sizeof length)
        FAIL(ctx, TSR_CORRUPT, "the weights blob has %llu bytes; expected at least 8",
             (unsigned long long)layer->size_bytes);
    TRY(ctx, tsr_bundle_read_range(ctx, model->bundle, layer, 0, length, sizeof length));
    uint64_t header = read_u64(length), left = layer->size_bytes - sizeof length;
    if (header > left || header > HEADER_BYTES_MAX)
        FAIL(ctx, TSR_CORRUPT, "the weights blob has a header of %llu bytes; %llu follow",
             (unsigned long long)header, (unsigned long long)left);
    size_t size = (size_t)header + sizeof length;
    char *bytes = tsr_arena_alloc(arena, size, 1, 8);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory for a weights header of %zu bytes", size);
    TRY(ctx, tsr_bundle_read_range(ctx, model->bundle, layer, 0, bytes, size));
    return tsr_safetensors_decode(ctx, bytes, size, layer->size_bytes, "weights blob", TSR_CORRUPT,
                                  arena, out_index);
}

static const tsr_safetensors_entry *find_entry(const tsr_safetensors *index, const char *name) {
    size_t low = 0, high = index->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(index->entries[middle].name, name);
        if (order == 0) return &index->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static tsr_result check_type(tsr_ctx *ctx, tsr_code code, const char *subject, const char *name,
                             tsr_dtype dtype, const tsr_shape *shape, tsr_dtype expected_dtype,
                             const tsr_shape *expected_shape) {
    char got[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
    if (dtype == expected_dtype && tsr_shape_equal(shape, expected_shape)) return TSR_SUCCESS;
    FAIL(ctx, code, "%s: tensor '%s' is %s; expected %s", subject, name,
         tsr_type_format(dtype, shape, got),
         tsr_type_format(expected_dtype, expected_shape, expected));
}

static tsr_result load_from_layer(tsr_ctx *ctx, tsr_model *model, const tsr_bundle_layer *layer,
                                  const tsr_safetensors *index, unsigned roles, bool *loaded) {
    for (size_t i = 0; i < model->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &model->config.tensors[i];
        if (tensor->init != TSR_INIT_DATA || !(roles & 1u << tensor->role) || loaded[i]) continue;
        const tsr_safetensors_entry *entry = find_entry(index, tensor->name);
        if (!entry) continue;
        TRY(ctx, check_type(ctx, TSR_CORRUPT, "weights blob", tensor->name, entry->dtype,
                            &entry->shape, tensor->dtype, &tensor->shape));
        TRY(ctx, tsr_bundle_read_range(ctx, model->bundle, layer, entry->offset_bytes,
                                       tsr_executor_get_tensor(model->executor, i),
                                       (size_t)entry->size_bytes));
        loaded[i] = true;
    }
    return TSR_SUCCESS;
}

static tsr_result check_loaded(tsr_ctx *ctx, const tsr_model *model, unsigned roles,
                               const bool *loaded) {
    for (size_t i = 0; i < model->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &model->config.tensors[i];
        if (tensor->init == TSR_INIT_DATA && (roles & 1u << tensor->role) && !loaded[i])
            FAIL(ctx, TSR_CORRUPT, "'%s' stores no data for tensor '%s'",
                 tsr_bundle_get_path(model->bundle), tensor->name);
    }
    return TSR_SUCCESS;
}

static tsr_result load_stored(tsr_ctx *ctx, tsr_model *model, unsigned roles, tsr_arena *arena) {
    bool *loaded = TSR_NEW(arena, bool, model->config.tensor_count + 1);
    if (!loaded) FAIL(ctx, TSR_MEMORY, "no memory for %zu flags", model->config.tensor_count);
    size_t layer_count = tsr_bundle_get_layer_count(model->bundle, model->target);
    for (size_t i = 0; i < layer_count; i++) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(model->bundle, model->target, i);
        tsr_safetensors index;
        if (strcmp(layer.media_type, TSR_MEDIA_WEIGHTS) != 0) continue;
        TRY(ctx, read_index(ctx, model, &layer, arena, &index));
        TRY(ctx, load_from_layer(ctx, model, &layer, &index, roles, loaded));
    }
    return check_loaded(ctx, model, roles, loaded);
}

/* The tensors whose role is in the set (bit 1 << role): by their rule, or from the weights. */
static tsr_result fill(tsr_ctx *ctx, tsr_model *model, unsigned roles, uint32_t seed) {
    for (size_t i = 0; i < model->config.tensor_count; i++) {
        const tsr_config_tensor *tensor = &model->config.tensors[i];
        if (tensor->init == TSR_INIT_DATA || !(roles & 1u << tensor->role)) continue;
        TRY(ctx,
            tsr_initialize_tensor(ctx, tensor, seed, tsr_executor_get_tensor(model->executor, i)));
    }
    tsr_arena arena = {0};
    tsr_result result = load_stored(ctx, model, roles, &arena);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_model_load_constants(tsr_ctx *ctx, tsr_model *model) {
    return fill(ctx, model, 1u << TSR_ROLE_CONSTANT, 0);
}

tsr_result tsr_model_initialize(tsr_ctx *ctx, tsr_model *model, uint32_t seed) {
    return fill(ctx, model, 1u << TSR_ROLE_PARAM | 1u << TSR_ROLE_STATE, seed);
}

/* ---- a state directory ---- */

static const tsr_tensor *find_tensor(const tsr_tensor *tensors, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
    return NULL;
}

static tsr_result copy_state(tsr_ctx *ctx, tsr_model *model, const char *directory,
                             const tsr_tensor *stored, size_t stored_count) {
    for (size_t i = 0; i < model->state_count; i++) {
        const tsr_tensor *tensor = &model->state[i],
                         *found = find_tensor(stored, stored_count, tensor->name);
        uint64_t size = 0;
        if (!found)
            FAIL(ctx, TSR_MISMATCH, "state '%s' has no tensor '%s'", directory, tensor->name);
        TRY(ctx, check_type(ctx, TSR_MISMATCH, directory, tensor->name, found->dtype, &found->shape,
                            tensor->dtype, &tensor->shape));
        if (tsr_shape_size(&tensor->shape, tensor->dtype, &size) && size)
            memcpy(tensor->data, found->data, (size_t)size);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_model_load_state(tsr_ctx *ctx, tsr_model *model, const char *directory,
                                tsr_resume_mode mode, uint64_t generation,
                                tsr_generation *out_generation) {
    tsr_digest digest = tsr_model_get_digest(model);
    tsr_arena arena = {0};
    tsr_recovery recovery = {0};
    tsr_tensor *stored = NULL;
    size_t stored_count = 0;
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result,
             tsr_store_read(ctx, directory, &digest, mode, generation, &arena, &recovery, &stored,
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

static tsr_result load_params_file(tsr_ctx *ctx, tsr_model *model, const char *path, int fd,
                                   tsr_arena *arena) {
    unsigned char length[8];
    uint64_t size = 0;
    tsr_safetensors index;
    const char *subject = tsr_arena_printf(arena, "parameters '%s'", path);
    TRY(ctx, tsr_io_file_size(ctx, fd, path, &size));
    if (size < sizeof length)
        FAIL(ctx, TSR_DATA, "parameters '%s' have %llu bytes; expected at least 8", path,
             (unsigned long long)size);
    TRY(ctx, tsr_io_read_exact(ctx, fd, path, length, sizeof length, 0));
    uint64_t header = read_u64(length);
    if (header > size - sizeof length || header > HEADER_BYTES_MAX)
        FAIL(ctx, TSR_DATA, "parameters '%s' have a header of %llu bytes; %llu follow", path,
             (unsigned long long)header, (unsigned long long)(size - sizeof length));
    char *bytes = tsr_arena_alloc(arena, (size_t)header + sizeof length, 1, 8);
    if (!subject || !bytes) FAIL(ctx, TSR_MEMORY, "no memory for the header of '%s'", path);
    TRY(ctx, tsr_io_read_exact(ctx, fd, path, bytes, (size_t)header + sizeof length, 0));
    TRY(ctx, tsr_safetensors_decode(ctx, bytes, (size_t)header + sizeof length, size, subject,
                                    TSR_DATA, arena, &index));
    for (size_t pass = 0; pass < 2;
         pass++) /* first check all, then read all: a wrong file changes nothing */
        for (size_t i = 0; i < model->config.tensor_count; i++) {
            const tsr_config_tensor *tensor = &model->config.tensors[i];
            if (tensor->role != TSR_ROLE_PARAM) continue;
            const tsr_safetensors_entry *entry = find_entry(&index, tensor->name);
            if (!entry) FAIL(ctx, TSR_MISMATCH, "%s hold no tensor '%s'", subject, tensor->name);
            TRY(ctx, check_type(ctx, TSR_MISMATCH, subject, tensor->name, entry->dtype,
                                &entry->shape, tensor->dtype, &tensor->shape));
            if (pass == 1)
                TRY(ctx,
                    tsr_io_read_exact(ctx, fd, path, tsr_executor_get_tensor(model->executor, i),
                                      (size_t)entry->size_bytes, entry->offset_bytes));
        }
    return TSR_SUCCESS;
}

tsr_result tsr_model_load_params(tsr_ctx *ctx, tsr_model *model, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_arena arena = {0};
    int fd = -1;
    TRY(ctx, tsr_io_open(ctx, path, O_RDONLY | O_NONBLOCK, 0, &fd));
    tsr_result result = load_params_file(ctx, model, path, fd, &arena);
    io->close(io->self, fd);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_model_export_params(tsr_ctx *ctx, const tsr_model *model, const char *path) {
    tsr_arena arena = {0};
    size_t count = 0;
    tsr_tensor *params = TSR_NEW(&arena, tsr_tensor, model->state_count + 1);
    if (!params) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", model->state_count);
    for (size_t i = 0; i < model->state_count; i++) {
        const tsr_config_tensor *tensor =
            tsr_config_find_tensor(&model->config, model->state[i].name);
        if (tensor->role == TSR_ROLE_PARAM) params[count++] = model->state[i];
    }
    tsr_result result = tsr_safetensors_write(ctx, path, params, count, NULL);
    tsr_arena_finish(&arena);
    return result;
}
