/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on memory of the caller: dense tensors, and tensors of DLPack.
 */
#include "loader/calls/call.h"
#include "loader/calls/dlpack.h"
#include "runtime/base/kernel.h"
#include "runtime/base/options.h"

#include <inttypes.h>

/* The name of port `number` of those that the caller may give; NULL if there are fewer. */
static const char *name_at(const tsr_config_port *ports, size_t count, bool is_input,
                           size_t number) {
    for (size_t i = 0; i < count; i++)
        if (!is_input || !tsr_port_is_filled(ports[i].source))
            if (number-- == 0) return ports[i].name;
    return NULL;
}

static tsr_result check_memory(tsr_ctx *ctx, const char *what, const wire *of,
                               const tsr_strided *view) {
    uint64_t size = 0;
    if (!tsr_shape_size(&view->shape, view->dtype, &size))
        FAIL(ctx, TSR_DATA, "%s '%s' has 2^63 bytes or more", what, of->port->name);
    if (size && !view->data)
        FAIL(ctx, TSR_USAGE, "%s '%s' has no memory; expected %" PRIu64 " bytes", what,
             of->port->name, size);
    return TSR_SUCCESS;
}

static tsr_result claim_view(tsr_ctx *ctx, call *self, const tsr_strided *view, size_t number,
                             bool is_input, wire **out_wire) {
    const tsr_config_port *ports = is_input ? self->entry->inputs : self->entry->outputs;
    size_t count = is_input ? self->entry->input_count : self->entry->output_count;
    const char *name = view->by_index ? name_at(ports, count, is_input, number) : view->name;
    if (view->by_index && !name)
        FAIL(ctx, TSR_USAGE, "entry '%s' has no %s number %zu, counted from 0", self->entry->name,
             is_input ? "input" : "output", number);
    return tsr_call_claim(ctx, self, name, is_input, out_wire);
}

/* An input that an output would overwrite is copied before. */
static tsr_result part_from(tsr_ctx *ctx, call *self, tsr_strided *input,
                            const tsr_strided *outputs, size_t output_count) {
    uint64_t size = 0;
    bool meets = false;
    for (size_t i = 0; i < output_count; i++)
        meets = meets || (!outputs[i].allocated && tsr_strided_meets(input, &outputs[i]));
    if (!meets) return TSR_SUCCESS;
    bool fits = tsr_shape_size(&input->shape, input->dtype, &size);
    TSR_ASSERT(fits); /* check_memory */
    char *copy = tsr_arena_alloc(&self->arena, (size_t)size, 1, TSR_BUFFER_ALIGN_BYTES);
    if (!copy) FAIL(ctx, TSR_MEMORY, "no memory for a copy of %" PRIu64 " bytes", size);
    if (input->location == TSR_LOCATION_DEVICE)
        TRY(ctx, self->model->device->type->read_caller(ctx, self->model->device, input->data, copy,
                                                        size));
    else
        tsr_strided_gather(input, 0, input->shape.rank ? input->shape.dims[0] : 1, copy);
    tsr_strided_init(input, input->name, input->dtype, &input->shape, copy);
    return TSR_SUCCESS;
}

static void permit_loan(tsr_ctx *ctx, const call *self, wire *of, const char *what, bool is_written,
                        bool overlaps) {
    const char *reason = tsr_strided_why_copied(of->view, is_written);
    if (!tsr_executor_can_lend(self->model->executor, self->index))
        reason = "the entry does not run on memory of the caller";
    if (overlaps) reason = "it overlaps another output";
    of->may_lend = reason == NULL;
    tsr_log(ctx, TSR_LOG_DEBUG, "%s '%s' is %s%s", what, of->port->name,
            reason       ? "copied: "
            : is_written ? "written in place"
                         : "read in place",
            reason ? reason : "");
}

static tsr_result connect_inputs_in_memory(tsr_ctx *ctx, call *self, tsr_strided *inputs,
                                           size_t input_count, const tsr_strided *outputs,
                                           size_t output_count) {
    wire *targets[TSR_CONFIG_PORTS_MAX];
    tsr_shape shapes[TSR_CONFIG_PORTS_MAX];
    for (size_t i = 0; i < input_count; i++) {
        TRY(ctx, claim_view(ctx, self, &inputs[i], i, true, &targets[i]));
        shapes[targets[i] - self->inputs] = inputs[i].shape;
    }
    TRY(ctx, tsr_call_choose_copy(ctx, self, shapes));
    for (size_t i = 0; i < input_count; i++) {
        TRY(ctx, tsr_call_check_input(ctx, self, targets[i], inputs[i].dtype, &inputs[i].shape));
        TRY(ctx, check_memory(ctx, "input", targets[i], &inputs[i]));
        TRY(ctx, tsr_dlpack_fetch(ctx, self->model, &self->arena, &inputs[i]));
        TRY(ctx, part_from(ctx, self, &inputs[i], outputs, output_count));
        targets[i]->view = &inputs[i];
        permit_loan(ctx, self, targets[i], "input", false, false);
    }
    return tsr_call_check_complete(ctx, self);
}

/* Allocates the memory of an output whose tensor the caller wants to get. */
static tsr_result allocate_output(tsr_ctx *ctx, const wire *target, const tsr_shape *shape,
                                  tsr_strided *view) {
    tsr_dlpack_managed **allocated = view->allocated;
    TRY(ctx, tsr_dlpack_create(ctx, target->port->name, target->port->dtype, shape, allocated));
    tsr_strided_init(view, target->port->name, target->port->dtype, shape,
                     (*allocated)->tensor.data);
    view->allocated = allocated;
    return TSR_SUCCESS;
}

/* True if an output shares memory with one before it; fails if both are dense, so that it is
 * certain. */
static tsr_result check_apart(tsr_ctx *ctx, const call *self, const wire *output,
                              bool *out_overlaps) {
    for (size_t i = 0; i < self->entry->output_count; i++) {
        const wire *other = &self->outputs[i];
        if (other == output || !other->view || !tsr_strided_meets(other->view, output->view))
            continue;
        *out_overlaps = true;
        if (other->view->is_dense && output->view->is_dense)
            FAIL(ctx, TSR_DATA, "outputs '%s' and '%s' share memory", other->port->name,
                 output->port->name);
    }
    return TSR_SUCCESS;
}

static tsr_result connect_output(tsr_ctx *ctx, call *self, tsr_strided *view, size_t number) {
    wire *target = NULL;
    char got[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
    TRY(ctx, claim_view(ctx, self, view, number, false, &target));
    tsr_shape wanted = target->port->shape;
    if (target->has_rows) wanted.dims[0] = self->rows * tsr_call_row_times(self, target);
    if (view->allocated) TRY(ctx, allocate_output(ctx, target, &wanted, view));
    if (view->dtype != target->port->dtype || !tsr_shape_equal(&view->shape, &wanted))
        FAIL(ctx, TSR_DATA, "output '%s' is %s; expected %s", target->port->name,
             tsr_type_format(view->dtype, &view->shape, got),
             tsr_type_format(target->port->dtype, &wanted, expected));
    TRY(ctx, check_memory(ctx, "output", target, view));
    target->view = view;
    return TSR_SUCCESS;
}

static tsr_result connect_views(tsr_ctx *ctx, call *self, tsr_strided *inputs, size_t input_count,
                                tsr_strided *outputs, size_t output_count) {
    TRY(ctx, connect_inputs_in_memory(ctx, self, inputs, input_count, outputs, output_count));
    for (size_t i = 0; i < output_count; i++) TRY(ctx, connect_output(ctx, self, &outputs[i], i));
    for (size_t i = 0; i < self->entry->output_count; i++) {
        bool overlaps = false;
        if (!self->outputs[i].view) continue;
        TRY(ctx, check_apart(ctx, self, &self->outputs[i], &overlaps));
        permit_loan(ctx, self, &self->outputs[i], "output", true, overlaps);
    }
    return TSR_SUCCESS;
}

static tsr_result check_counts(tsr_ctx *ctx, size_t input_count, size_t output_count) {
    if (input_count <= TSR_CONFIG_PORTS_MAX && output_count <= TSR_CONFIG_PORTS_MAX)
        return TSR_SUCCESS;
    FAIL(ctx, TSR_USAGE, "%zu inputs and %zu outputs are given; an entry has at most %d of each",
         input_count, output_count, TSR_CONFIG_PORTS_MAX);
}

static tsr_result call_views(tsr_ctx *ctx, tsr_model *model, const char *entry, tsr_strided *inputs,
                             size_t input_count, tsr_strided *outputs, size_t output_count) {
    call self = {0};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_call_begin(ctx, model, entry, &self));
    TRY_GOTO(ctx, result, connect_views(ctx, &self, inputs, input_count, outputs, output_count));
    TRY_GOTO(ctx, result, tsr_call_run_rows(ctx, &self));
done:
    tsr_call_finish(ctx, &self);
    return result;
}

tsr_result tsr_model_call(tsr_ctx *ctx, tsr_model *model, const char *entry,
                          const tsr_tensor *inputs, size_t input_count, const tsr_tensor *outputs,
                          size_t output_count) {
    tsr_strided in[TSR_CONFIG_PORTS_MAX], out[TSR_CONFIG_PORTS_MAX];
    TRY(ctx, check_counts(ctx, input_count, output_count));
    for (size_t i = 0; i < input_count; i++)
        tsr_strided_init(&in[i], inputs[i].name, inputs[i].dtype, &inputs[i].shape, inputs[i].data);
    for (size_t i = 0; i < output_count; i++)
        tsr_strided_init(&out[i], outputs[i].name, outputs[i].dtype, &outputs[i].shape,
                         outputs[i].data);
    return call_views(ctx, model, entry, in, input_count, out, output_count);
}

static tsr_result read_views(tsr_ctx *ctx, const tsr_model *model, const void *stream,
                             const tsr_dlpack_view *inputs, size_t input_count, tsr_strided *in,
                             tsr_dlpack_view *outputs, size_t output_count, tsr_strided *out) {
    static const tsr_dlpack_side input = {"input", false}, output = {"output", true};
    for (size_t i = 0; i < input_count; i++)
        TRY(ctx, tsr_dlpack_read(ctx, model, &input, &inputs[i], i, &in[i]));
    for (size_t i = 0; i < output_count; i++) {
        out[i] = (tsr_strided){
            .name = outputs[i].name, .by_index = !outputs[i].name, .allocated = &outputs[i].tensor};
        if (outputs[i].tensor)
            TRY(ctx, tsr_dlpack_read(ctx, model, &output, &outputs[i], i, &out[i]));
    }
    TRY(ctx, tsr_dlpack_await(ctx, model, stream, in, input_count));
    return tsr_dlpack_await(ctx, model, stream, out, output_count);
}

tsr_result tsr_model_call_dlpack(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                 const tsr_dlpack_options *options, const tsr_dlpack_view *inputs,
                                 size_t input_count, tsr_dlpack_view *outputs,
                                 size_t output_count) {
    tsr_dlpack_options given;
    tsr_strided in[TSR_CONFIG_PORTS_MAX], out[TSR_CONFIG_PORTS_MAX];
    TRY(ctx, tsr_options_copy(ctx, "tsr_dlpack_options", options, &given, sizeof given));
    TRY(ctx, check_counts(ctx, input_count, output_count));
    TRY(ctx,
        read_views(ctx, model, given.stream, inputs, input_count, in, outputs, output_count, out));
    tsr_result result = call_views(ctx, model, entry, in, input_count, out, output_count);
    for (size_t i = 0; i < output_count && result.code; i++) {
        if (!out[i].allocated || !outputs[i].tensor) continue;
        outputs[i].tensor->deleter(outputs[i].tensor);
        outputs[i].tensor = NULL;
    }
    return result;
}
