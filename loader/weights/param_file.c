/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of a user's file, one value at a time: tensors of a safetensors file are read when
 * they are written; each member of an .npz file is read as a whole, because it may be deflated.
 */
#include "loader/weights/weights.h"

#include <inttypes.h>
#include <string.h>

struct tsr_params {
    tsr_arena *arena; /* borrowed */
    const char *path; /* borrowed */
    bool is_npz;
    tsr_weights weights; /* used for a safetensors file */
};

typedef struct stored_value {
    const tsr_weights *weights;
    uint64_t offset_bytes;
} stored_value;

static bool has_ending(const char *path, const char *ending) {
    size_t length = strlen(path), skip = strlen(ending);
    return length > skip && strcmp(path + length - skip, ending) == 0;
}

tsr_result tsr_params_open(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                           tsr_params **out_params) {
    tsr_params *params = TSR_NEW(arena, tsr_params, 1);
    if (!params) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", path);
    *params = (tsr_params){
        .arena = arena, .path = path, .is_npz = has_ending(path, ".npz"), .weights = {.fd = -1}};
    if (!params->is_npz) TRY(ctx, tsr_weights_open(ctx, path, arena, &params->weights));
    *out_params = params;
    return TSR_SUCCESS;
}

void tsr_params_close(tsr_ctx *ctx, tsr_params *params) {
    if (params) tsr_weights_close(ctx, &params->weights);
}

static tsr_result read_stored(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes, size_t size) {
    const stored_value *value = user;
    const tsr_safetensors_entry part = {.offset_bytes = value->offset_bytes + offset,
                                        .size_bytes = size};
    return tsr_weights_read(ctx, value->weights, &part, bytes);
}

static tsr_result get_stored(tsr_ctx *ctx, tsr_params *params, const tsr_config_tensor *tensor,
                             tsr_value *out_value) {
    const tsr_safetensors_entry *entry = NULL;
    stored_value *value = TSR_NEW(params->arena, stored_value, 1);
    if (!value) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", params->path);
    TRY(ctx, tsr_weights_find(ctx, &params->weights, tensor, TSR_MISMATCH, &entry));
    *value = (stored_value){&params->weights, entry->offset_bytes};
    *out_value = (tsr_value){tensor->name, tensor->dtype, tensor->shape, read_stored, value};
    return TSR_SUCCESS;
}

static tsr_result read_array(tsr_ctx *ctx, tsr_params *params, const tsr_config_tensor *tensor,
                             const tsr_array *array, tsr_value *out_value) {
    const char *subject = tsr_arena_printf(params->arena, "parameters '%s'", params->path);
    uint64_t count = 0, size = 0;
    bool fits = tsr_shape_count(&tensor->shape, &count) &&
                tsr_shape_size(&tensor->shape, tensor->dtype, &size);
    TSR_ASSERT(fits);
    void *bytes = subject ? tsr_arena_alloc(params->arena, (size_t)size, 1, 64) : NULL;
    if (!bytes)
        FAIL(ctx, TSR_MEMORY, "no memory for the %" PRIu64 " bytes of tensor '%s'", size,
             tensor->name);
    TRY(ctx, tsr_check_type(ctx, TSR_MISMATCH, subject, tensor->name, tsr_array_get_dtype(array),
                            tsr_array_get_shape(array), tensor->dtype, &tensor->shape));
    TRY(ctx, tsr_array_read(ctx, array, 0, count, bytes));
    *out_value =
        (tsr_value){tensor->name, tensor->dtype, tensor->shape, tsr_value_read_memory, bytes};
    return TSR_SUCCESS;
}

static tsr_result get_member(tsr_ctx *ctx, tsr_params *params, const tsr_config_tensor *tensor,
                             tsr_value *out_value) {
    tsr_array *array = NULL;
    const char *spec = tsr_arena_printf(params->arena, "%s:%s", params->path, tensor->name);
    if (!spec) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", params->path);
    tsr_result result = tsr_array_open(ctx, spec, TSR_DTYPE_NONE, &array);
    if (!result.code) result = read_array(ctx, params, tensor, array, out_value);
    tsr_array_close(ctx, array);
    return result;
}

tsr_result tsr_params_get(tsr_ctx *ctx, tsr_params *params, const tsr_config_tensor *tensor,
                          tsr_value *out_value) {
    return params->is_npz ? get_member(ctx, params, tensor, out_value)
                          : get_stored(ctx, params, tensor, out_value);
}
