/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on tensors of DLPack: dense views of them, or of copies.
 */
#include "loader/calls/dlpack.h"
#include "loader/trainer/batch.h"
#include "runtime/base/kernel.h"
#include "runtime/base/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct step {
    tsr_model *model;
    const tsr_config_entry *entry;
    tsr_arena arena; /* of the copies */
    tsr_strided in[TSR_CONFIG_PORTS_MAX], out[TSR_CONFIG_PORTS_MAX];
    tsr_view inputs[TSR_CONFIG_PORTS_MAX], outputs[TSR_CONFIG_PORTS_MAX];
    tsr_dlpack_managed *made[TSR_CONFIG_PORTS_MAX]; /* of outputs without tensor */
} step;

static uint64_t rows_of(const tsr_strided *tensor) {
    return tensor->shape.rank ? tensor->shape.dims[0] : 1;
}

/* Describes a tensor by a dense view: of itself, or of new memory. */
static tsr_result view(tsr_ctx *ctx, step *self, const tsr_strided *of, tsr_view *out_view) {
    uint64_t size = 0;
    *out_view = (tsr_view){of->name, of->dtype, of->shape, of->data, of->location};
    if (of->is_dense) return TSR_SUCCESS;
    if (!tsr_shape_size(&of->shape, of->dtype, &size))
        FAIL(ctx, TSR_DATA, "a tensor has 2^63 bytes or more");
    out_view->data = tsr_arena_alloc(&self->arena, (size_t)size, 1, TSR_BUFFER_ALIGN_BYTES);
    if (!out_view->data) FAIL(ctx, TSR_MEMORY, "no memory for a copy of %" PRIu64 " bytes", size);
    return TSR_SUCCESS;
}

static tsr_result read_input(tsr_ctx *ctx, step *self, const tsr_dlpack_view *given, size_t i) {
    static const tsr_dlpack_side side = {"input", false};
    tsr_strided *in = &self->in[i];
    TRY(ctx, tsr_dlpack_read(ctx, self->model, &side, given, i, in));
    TRY(ctx, tsr_dlpack_fetch(ctx, self->model, &self->arena, in));
    TRY(ctx, view(ctx, self, in, &self->inputs[i]));
    if (in->dtype == TSR_DTYPE_I1 && in->location == TSR_LOCATION_DEVICE)
        FAIL(ctx, TSR_USAGE, "input %zu is boolean and in memory of a GPU; expected the host's", i);
    if (!in->is_dense) tsr_strided_gather(in, 0, rows_of(in), self->inputs[i].data);
    uint64_t count = 0;
    if (in->dtype != TSR_DTYPE_I1 || !tsr_shape_count(&in->shape, &count) || !in->data)
        return TSR_SUCCESS;
    return tsr_truths_check(ctx, given->name ? given->name : "", self->inputs[i].data, 0, count);
}

/* The port of an output without tensor; NULL: the step will refuse it. */
static const tsr_config_port *find_output(const step *self, const char *name, size_t number) {
    for (size_t i = 0; i < self->entry->output_count; i++) {
        const tsr_config_port *port = &self->entry->outputs[i];
        if (port->watched) continue;
        if (name ? strcmp(port->name, name) == 0 : number-- == 0) return port;
    }
    return NULL;
}

static tsr_result read_output(tsr_ctx *ctx, step *self, const tsr_dlpack_view *given, size_t i) {
    static const tsr_dlpack_side side = {"output", true};
    const tsr_config_port *port = given->tensor ? NULL : find_output(self, given->name, i);
    tsr_dlpack_view at = *given;
    if (port) {
        TRY(ctx, tsr_dlpack_create(ctx, port->name, port->dtype, &port->shape, &self->made[i]));
        at.tensor = self->made[i];
    } else if (!given->tensor) { /* a view that the step refuses by its name or place */
        self->outputs[i] = (tsr_view){.name = given->name};
        return TSR_SUCCESS;
    }
    TRY(ctx, tsr_dlpack_read(ctx, self->model, &side, &at, i, &self->out[i]));
    return view(ctx, self, &self->out[i], &self->outputs[i]);
}

static tsr_result make(tsr_ctx *ctx, step *self, tsr_trainer *trainer, const void *stream,
                       const tsr_dlpack_view *inputs, size_t input_count, tsr_dlpack_view *outputs,
                       size_t output_count) {
    for (size_t i = 0; i < input_count; i++) {
        bool on_device =
            inputs[i].tensor && inputs[i].tensor->tensor.device.type == TSR_DLPACK_CUDA;
        if (on_device && self->model->device->type->await_caller)
            TRY(ctx, self->model->device->type->await_caller(ctx, self->model->device, stream));
        TRY(ctx, read_input(ctx, self, &inputs[i], i));
    }
    for (size_t i = 0; i < output_count; i++) TRY(ctx, read_output(ctx, self, &outputs[i], i));
    TRY(ctx, tsr_dlpack_await(ctx, self->model, stream, self->out, output_count));
    TRY(ctx,
        tsr_trainer_step(ctx, trainer, self->inputs, input_count, self->outputs, output_count));
    for (size_t i = 0; i < output_count; i++) {
        const tsr_strided *out = &self->out[i];
        if (!out->is_dense) tsr_strided_scatter(out, 0, rows_of(out), self->outputs[i].data);
        if (!self->made[i]) continue;
        outputs[i].tensor = self->made[i];
        self->made[i] = NULL;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_trainer_step_dlpack(tsr_ctx *ctx, tsr_trainer *trainer,
                                   const tsr_dlpack_options *options, const tsr_dlpack_view *inputs,
                                   size_t input_count, tsr_dlpack_view *outputs,
                                   size_t output_count) {
    tsr_dlpack_options given;
    size_t index = 0;
    TRY(ctx, tsr_options_copy(ctx, "tsr_dlpack_options", options, &given, sizeof given));
    if (input_count > TSR_CONFIG_PORTS_MAX || output_count > TSR_CONFIG_PORTS_MAX)
        FAIL(ctx, TSR_USAGE,
             "%zu inputs and %zu outputs are given; an entry has at most %d of each", input_count,
             output_count, TSR_CONFIG_PORTS_MAX);
    step *self = calloc(1, sizeof *self);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for a step");
    self->model = tsr_trainer_get_model(trainer, &index);
    self->entry = &self->model->config.entries[index];
    tsr_result result =
        make(ctx, self, trainer, given.stream, inputs, input_count, outputs, output_count);
    for (size_t i = 0; i < output_count; i++)
        if (self->made[i]) self->made[i]->deleter(self->made[i]);
    tsr_arena_finish(&self->arena);
    free(self);
    return result;
}
