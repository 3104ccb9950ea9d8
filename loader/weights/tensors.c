/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of the state by name, between the model and memory of the caller.
 */
#include "loader/model.h"
#include "loader/trainer/batch.h"
#include "loader/use.h"
#include "runtime/base/suggest.h"
#include "runtime/exec/state_scan.h"

#include <stdlib.h>
#include <string.h>

/* Where a tensor stands: in the config, and in the state. */
typedef struct tensor_position {
    size_t tensor, in_state;
    uint64_t size_bytes;
} tensor_position;

static tsr_result refuse_name(tsr_ctx *ctx, const tsr_model *model, const char *name) {
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = name};
    for (size_t i = 0; i < model->state_count; i++) tsr_suggest(&likely, model->state[i].name);
    FAIL(ctx, TSR_USAGE, "the state of '%s' has no tensor '%s'%s", model->config.name, name,
         tsr_suggestion_text(&likely, meant));
}

static tsr_result find(tsr_ctx *ctx, const tsr_model *model, const tsr_view *view,
                       tensor_position *out_found) {
    const tsr_config *config = &model->config;
    tensor_position found = {.tensor = config->tensor_count};
    if (!view->name)
        FAIL(ctx, TSR_USAGE, "a tensor of '%s' is asked for without name", config->name);
    for (size_t i = 0, in_state = 0; i < config->tensor_count; i++) {
        bool is_constant = config->tensors[i].role == TSR_ROLE_CONSTANT;
        if (strcmp(config->tensors[i].name, view->name) == 0) {
            if (is_constant)
                FAIL(ctx, TSR_USAGE, "tensor '%s' of '%s' is a constant, not part of its state",
                     view->name, config->name);
            found = (tensor_position){.tensor = i, .in_state = in_state};
        }
        in_state += !is_constant;
    }
    if (found.tensor == config->tensor_count) return refuse_name(ctx, model, view->name);
    const tsr_config_tensor *tensor = &config->tensors[found.tensor];
    TRY(ctx, tsr_check_type(ctx, TSR_DATA, "the memory of the caller", view->name, view->dtype,
                            &view->shape, tensor->dtype, &tensor->shape));
    bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &found.size_bytes);
    TSR_ASSERT(fits); /* the executor has allocated memory for it */
    *out_found = found;
    return tsr_view_check_memory(ctx, model, "tensor", view);
}

/* Memory for the whole of a tensor that ranks store in parts. */
static tsr_result allocate_whole(tsr_ctx *ctx, const tsr_view *view, uint64_t size_bytes,
                                 void **out_whole) {
    *out_whole = malloc((size_t)size_bytes + 1);
    if (!*out_whole) FAIL(ctx, TSR_MEMORY, "no memory for the whole of tensor '%s'", view->name);
    return TSR_SUCCESS;
}

static tsr_result read_tensor(tsr_ctx *ctx, tsr_model *model, const tsr_view *into) {
    tsr_sharded_view state = tsr_model_get_sharded_view(model);
    tsr_result result = TSR_SUCCESS;
    void *whole = NULL;
    tensor_position at = {0};
    TRY(ctx, tsr_model_check_filled(ctx, model));
    TRY(ctx, find(ctx, model, into, &at));
    TRY(ctx, tsr_executor_fetch_tensor(ctx, model->executor, at.tensor));
    if (!tsr_sharded_view_is_sharded(&state, at.in_state))
        return tsr_view_write(ctx, model, into, model->state[at.in_state].data, at.size_bytes);
    TRY(ctx, allocate_whole(ctx, into, at.size_bytes, &whole));
    TRY_GOTO(ctx, result, tsr_sharded_view_gather(ctx, &state, at.in_state, whole));
    TRY_GOTO(ctx, result, tsr_view_write(ctx, model, into, whole, at.size_bytes));
done:
    free(whole);
    return result;
}

tsr_result tsr_model_read_tensor(tsr_ctx *ctx, tsr_model *model, const tsr_view *into) {
    TRY(ctx, tsr_use_check_readable(ctx, model));
    return read_tensor(ctx, model, into);
}

static tsr_result write_tensor(tsr_ctx *ctx, tsr_model *model, const tsr_view *from) {
    tsr_sharded_view state = tsr_model_get_sharded_view(model);
    tsr_result result = TSR_SUCCESS;
    void *whole = NULL;
    tensor_position at = {0};
    TRY(ctx, tsr_model_check_filled(ctx, model));
    TRY(ctx, find(ctx, model, from, &at));
    bool sharded = tsr_sharded_view_is_sharded(&state, at.in_state);
    /* Read before the tensor changes: memory of a GPU may not be readable. */
    if (sharded || from->location != TSR_LOCATION_HOST) {
        TRY(ctx, allocate_whole(ctx, from, at.size_bytes, &whole));
        TRY_GOTO(ctx, result, tsr_view_read(ctx, model, from, 0, whole, at.size_bytes));
    }
    const void *values = whole ? whole : from->data;
    tsr_executor_wait_for_readers(model->executor, at.tensor);
    void *to = tsr_executor_replace(model->executor, at.tensor);
    if (sharded)
        tsr_sharded_view_fill(&state, at.in_state, values);
    else if (at.size_bytes)
        memmove(to, values, (size_t)at.size_bytes);
    model->untrained = false;
done:
    free(whole);
    return result;
}

tsr_result tsr_model_write_tensor(tsr_ctx *ctx, tsr_model *model, const tsr_view *from) {
    tsr_use use;
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_SET, 0, &use));
    tsr_result result = write_tensor(ctx, model, from);
    tsr_use_end(model, &use);
    return result;
}

tsr_result tsr_model_hash_state(tsr_ctx *ctx, tsr_model *model, tsr_digest *out_hash) {
    tsr_sharded_view state = tsr_model_get_sharded_view(model);
    TRY(ctx, tsr_use_check_readable(ctx, model));
    TRY(ctx, tsr_model_check_filled(ctx, model));
    return tsr_state_scan_hash(ctx, model->executor, &state, out_hash);
}
