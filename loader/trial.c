/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/trial.h"

#include "loader/model.h"

#include <inttypes.h>
#include <string.h>

/* A generator of its own for each input, so that both bundles get the same values (Vigna,
 * "splitmix64"). */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void fill(const tsr_config_port *port, uint64_t number, void *memory) {
    uint64_t state = number, count = 0;
    if (!tsr_shape_count(&port->shape, &count)) return;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = next(&state);
        double value = tsr_dtype_is_float(port->dtype) ? (double)(int64_t)(bits >> 40) * 0x1p-23 - 1
                                                       : (double)(bits >> 63);
        tsr_dtype_write(port->dtype, value, memory, i);
    }
}

static void fill_inputs(const tsr_model *model) {
    const tsr_config *config = &model->config;
    for (size_t e = 0; e < config->entry_count; e++)
        for (size_t i = 0; i < config->entries[e].input_count; i++) {
            const tsr_config_port *port = &config->entries[e].inputs[i];
            if (!tsr_port_is_filled(port->source))
                fill(port, 1 + 1000 * e + i, tsr_executor_get_input(model->executor, e, i));
        }
}

tsr_result tsr_trial_open(tsr_ctx *ctx, const char *path, const tsr_model_options *options,
                          tsr_model **out_model) {
    tsr_model *model = NULL;
    TRY(ctx, tsr_model_open(ctx, path, options, &model));
    tsr_result result = TSR_SUCCESS;
    if (model->config.virtual_ranks > 1)
        result = tsr_fail_(ctx, TSR_USAGE, 0, __FILE__, __LINE__,
                           "the program has %" PRIu64 " virtual ranks; expected 1",
                           model->config.virtual_ranks);
    if (!result.code) result = tsr_model_initialize(ctx, model, 0);
    if (result.code) {
        tsr_model_close(ctx, model);
        return result;
    }
    fill_inputs(model);
    *out_model = model;
    return TSR_SUCCESS;
}

tsr_result tsr_trial_run(tsr_ctx *ctx, tsr_model *model, uint64_t step) {
    for (size_t e = 0; e < model->config.entry_count; e++)
        TRY(ctx, tsr_executor_run(ctx, model->executor, e, step));
    return TSR_SUCCESS;
}

static bool same(const void *a, const void *b, tsr_dtype dtype, const tsr_shape *shape) {
    uint64_t size_bytes = 0;
    return tsr_shape_size(shape, dtype, &size_bytes) && memcmp(a, b, size_bytes) == 0;
}

tsr_result tsr_trial_compare(tsr_ctx *ctx, const tsr_model *model, const tsr_model *other) {
    const tsr_config *config = &model->config;
    tsr_executor *a = model->executor, *b = other->executor;
    TRY(ctx, tsr_executor_fetch(ctx, a));
    TRY(ctx, tsr_executor_fetch(ctx, b));
    for (size_t e = 0; e < config->entry_count; e++)
        for (size_t i = 0; i < config->entries[e].output_count; i++) {
            const tsr_config_port *port = &config->entries[e].outputs[i];
            if (!same(tsr_executor_get_output(a, e, i), tsr_executor_get_output(b, e, i),
                      port->dtype, &port->shape))
                FAIL(ctx, TSR_MISMATCH, "output '%s' of '%s' differs from the safe plan's",
                     port->name, config->entries[e].name);
        }
    for (size_t t = 0; t < config->tensor_count; t++)
        if (!same(tsr_executor_get_tensor(a, t), tsr_executor_get_tensor(b, t),
                  config->tensors[t].dtype, &config->tensors[t].shape))
            FAIL(ctx, TSR_MISMATCH, "tensor '%s' differs from the safe plan's",
                 config->tensors[t].name);
    return TSR_SUCCESS;
}

uint64_t tsr_trial_get_time_ns(const tsr_model *model, const char *kernel) {
    const tsr_kernel_times *times = tsr_executor_get_times(model->executor);
    for (uint32_t k = 0; k < model->program.kernel_count; k++)
        if (strcmp(model->program.kernels[k], kernel) == 0) return times[k].time_ns;
    return 0;
}
