/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls an entry once, or for any number of rows in batches if its rows are independent. Of an
 * entry with copies for several sizes, the inputs choose one; of an entry with an open dim, they
 * give its size. Inputs come from memory or array files, outputs go to memory or array files; a
 * wire connects one input or output.
 */
#include "loader/calls/call.h"

#include "loader/calls/anchors.h"
#include "loader/calls/call_log.h"
#include "loader/calls/finite.h"
#include "loader/model.h"
#include "loader/use.h"
#include "runtime/base/clock.h"
#include "runtime/base/io/io.h"
#include "runtime/base/options.h"
#include "runtime/base/plural.h"
#include "runtime/base/suggest.h"
#include "runtime/data/array_file.h"
#include "runtime/data/array_writer.h"

#include <inttypes.h>
#include <string.h>

/* Lists "images (ui8 64x64)" … for messages. In the arena. */
static const char *list_inputs(const tsr_config_entry *entry, tsr_arena *arena) {
    const char *text = "";
    char type[TSR_TYPE_TEXT_MAX];
    for (size_t i = 0; text && i < entry->input_count; i++) {
        const tsr_config_port *port = &entry->inputs[i];
        if (tsr_port_is_filled(port->source)) continue;
        text = tsr_arena_printf(arena, "%s%s%s (%s)", text, text[0] ? ", " : "", port->name,
                                tsr_type_format(port->dtype, &port->shape, type));
    }
    return text ? text : "?";
}

tsr_result tsr_model_find_entry(tsr_ctx *ctx, const tsr_model *model, const char *name,
                                tsr_entry_kind kind, size_t *out_entry) {
    const tsr_config *config = &model->config;
    size_t found = config->entry_count, count = 0;
    for (size_t i = 0; i < config->entry_count; i++) {
        bool fits =
            name ? strcmp(config->entries[i].name, name) == 0 : config->entries[i].kind == kind;
        if (!fits || (!name && tsr_program_is_handler(&model->program, (uint32_t)i))) continue;
        if (!name && tsr_anchor_follows(config, i)) continue;
        found = i;
        count++;
    }
    if (name && count == 0) {
        found = tsr_anchor_find(config, name);
        count = found < config->entry_count;
    }
    if (count == 1) {
        *out_entry = found;
        return TSR_SUCCESS;
    }
    tsr_buffer list = {0};
    tsr_result result = TSR_SUCCESS;
    tsr_anchor_list_entries(config, &list);
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = name};
    for (size_t i = 0; name && i < config->entry_count; i++)
        tsr_suggest(&likely, config->entries[i].name);
    if (name)
        FAIL_GOTO(ctx, result, TSR_USAGE, "no entry '%s'; the bundle has %s%s", name,
                  list.bytes ? list.bytes : "none", tsr_suggestion_text(&likely, meant));
    FAIL_GOTO(ctx, result, TSR_USAGE, "%zu entries of kind '%s'; expected 1, or a name: %s", count,
              tsr_entry_kind_name(kind), list.bytes ? list.bytes : "none");
done:
    tsr_buffer_finish(&list);
    return result;
}

/* ---- connecting ---- */

static size_t find_port(const tsr_config_port *ports, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(ports[i].name, name) == 0) return i;
    return count;
}

/* Bytes of a row, or of what the open dim counts. */
static void set_rows(const call *self, wire *target) {
    uint64_t size = 0;
    const tsr_config_entry *entry = self->entry;
    bool fits = tsr_shape_size(&target->port->shape, target->port->dtype, &size);
    TSR_ASSERT(fits);
    target->has_rows = entry->rows_independent || target->port->dim_times;
    target->row_bytes = entry->rows_independent   ? size / entry->batch
                        : target->port->dim_times ? size / entry->open.high
                                                  : size;
}

tsr_result tsr_call_claim(tsr_ctx *ctx, call *self, const char *name, bool is_input,
                          wire **out_wire) {
    const tsr_config_port *ports = is_input ? self->entry->inputs : self->entry->outputs;
    size_t count = is_input ? self->entry->input_count : self->entry->output_count;
    const char *what = is_input ? "input" : "output";
    size_t index = name ? find_port(ports, count, name) : count;
    if (index == count || (is_input && tsr_port_is_filled(ports[index].source))) {
        tsr_config_entry listed = *self->entry;
        listed.inputs = is_input ? listed.inputs : listed.outputs;
        listed.input_count = count;
        char meant[TSR_SUGGESTION_TEXT_MAX];
        tsr_suggestion likely = {.wrong = name ? name : ""};
        for (size_t i = 0; i < count; i++)
            if (!is_input || !tsr_port_is_filled(ports[i].source))
                tsr_suggest(&likely, ports[i].name);
        FAIL(ctx, TSR_USAGE, "entry '%s' has no %s '%s'; it has %s%s", self->entry->name, what,
             name ? name : "", list_inputs(&listed, &self->arena),
             tsr_suggestion_text(&likely, meant));
    }
    wire *target = is_input ? &self->inputs[index] : &self->outputs[index];
    if (target->port)
        FAIL(ctx, TSR_USAGE, "%s '%s' of entry '%s' is given twice", what, name, self->entry->name);
    *target = (wire){.port = &ports[index]};
    target->memory = is_input ? tsr_executor_get_input(self->model->executor, self->index, index)
                              : tsr_executor_get_output(self->model->executor, self->index, index);
    set_rows(self, target);
    *out_wire = target;
    return TSR_SUCCESS;
}

/* The size of dim 0 for each row that is counted. */
uint64_t tsr_call_row_times(const call *self, const wire *of) {
    return self->entry->rows_independent ? 1 : of->port->dim_times;
}

/* Checks the open dim: every input that has it gives the same size. */
static tsr_result check_open(tsr_ctx *ctx, call *self, const wire *input, const tsr_shape *shape) {
    const tsr_config_port *port = input->port;
    const tsr_open_dim *open = &self->entry->open;
    uint64_t times = port->dim_times, size = shape->dims[0] / times;
    if (shape->dims[0] % times)
        FAIL(ctx, TSR_DATA,
             "dim 0 of input '%s' is %" PRIu64 "; expected %" PRIu64
             " times dim '%s', a multiple of "
             "%" PRIu64,
             port->name, shape->dims[0], times, open->name, times);
    if (self->rows != UINT64_MAX && self->rows != size)
        FAIL(ctx, TSR_DATA,
             "dim '%s' of entry '%s' is %" PRIu64 " in input '%s' and %" PRIu64 " in input '%s'",
             open->name, self->entry->name, self->rows, self->rows_from, size, port->name);
    if (!self->entry->rows_independent && (size < open->low || size > open->high))
        FAIL(ctx, TSR_DATA,
             "dim '%s' of entry '%s' is %" PRIu64
             " in input '%s'; the bundle was built for %" PRIu64 " to %" PRIu64,
             open->name, self->entry->name, size, port->name, open->low, open->high);
    self->rows = size;
    self->rows_from = port->name;
    return TSR_SUCCESS;
}

/* Checks dtype, trailing dimensions and number of rows. */
tsr_result tsr_call_check_input(tsr_ctx *ctx, call *self, const wire *input, tsr_dtype dtype,
                                const tsr_shape *shape) {
    char got[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
    const tsr_config_port *port = input->port;
    tsr_shape wanted = port->shape;
    bool by_rows = self->entry->rows_independent, is_open = port->dim_times > 0;
    if (input->has_rows && shape->rank > 0 && wanted.rank > 0) wanted.dims[0] = shape->dims[0];
    if (dtype != port->dtype || !tsr_shape_equal(&wanted, shape))
        FAIL(ctx, TSR_DATA, "input '%s' is %s; expected %s%s", port->name,
             tsr_type_format(dtype, shape, got),
             tsr_type_format(port->dtype, &port->shape, expected),
             by_rows   ? " with any number of rows"
             : is_open ? " or fewer rows"
                       : "");
    if (is_open) return check_open(ctx, self, input, shape);
    if (!by_rows) return TSR_SUCCESS;
    if (self->rows != UINT64_MAX && self->rows != shape->dims[0])
        FAIL(ctx, TSR_DATA, "input '%s' has %" PRIu64 " row%s; another input has %" PRIu64,
             port->name, shape->dims[0], TSR_PLURAL(shape->dims[0]), self->rows);
    self->rows = shape->dims[0];
    return TSR_SUCCESS;
}

tsr_result tsr_call_begin(tsr_ctx *ctx, tsr_model *model, const char *entry, call *self) {
    TRY(ctx, tsr_model_find_entry(ctx, model, entry, TSR_ENTRY_INFER, &self->index));
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_CALL, self->index, &self->use));
    self->model = model;
    self->entry = &model->config.entries[self->index];
    self->rows = UINT64_MAX;
    tsr_anchor anchor;
    self->chooses = tsr_anchor_read(self->entry->name, &anchor) &&
                    (!entry || strcmp(self->entry->name, entry) != 0);
    if (self->entry->kind == TSR_ENTRY_TRAIN)
        FAIL(ctx, TSR_USAGE,
             "entry '%s' is a train entry and cannot be called; run it over data, with a number of "
             "steps",
             self->entry->name);
    return tsr_model_check_ready(ctx, model, self->index);
}

/* Chooses the copy of the entry that fits the inputs, and connects them to it. `shapes` has one for
 * each input of the entry. */
tsr_result tsr_call_choose_copy(tsr_ctx *ctx, call *self, const tsr_shape *shapes) {
    tsr_anchor_input inputs[TSR_CONFIG_PORTS_MAX];
    size_t count = 0, chosen = self->index;
    if (!self->chooses) return TSR_SUCCESS;
    for (size_t i = 0; i < self->entry->input_count; i++) {
        const tsr_array *array = self->inputs[i].array;
        if (self->inputs[i].port)
            inputs[count++] = (tsr_anchor_input){i, &shapes[i], array && tsr_array_is_flat(array)};
    }
    TRY(ctx, tsr_anchor_choose(ctx, &self->model->config, self->index, inputs, count, &chosen));
    if (chosen == self->index) return TSR_SUCCESS;
    tsr_use_end(self->model, &self->use);
    self->index = chosen;
    self->entry = &self->model->config.entries[chosen];
    tsr_model *model = self->model;
    self->model = NULL; /* finish ends no use, if none begins */
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_CALL, chosen, &self->use));
    self->model = model;
    for (size_t i = 0; i < self->entry->input_count; i++) {
        wire *input = &self->inputs[i];
        if (!input->port) continue;
        input->port = &self->entry->inputs[i];
        input->memory = tsr_executor_get_input(model->executor, chosen, i);
        set_rows(self, input);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_call_check_complete(tsr_ctx *ctx, call *self) {
    for (size_t i = 0; i < self->entry->input_count; i++)
        if (!tsr_port_is_filled(self->entry->inputs[i].source) && !self->inputs[i].port)
            FAIL(ctx, TSR_USAGE, "input '%s' of entry '%s' is missing; it needs %s",
                 self->entry->inputs[i].name, self->entry->name,
                 list_inputs(self->entry, &self->arena));
    if (!self->entry->rows_independent && !self->entry->open.name) self->rows = 1;
    if (self->rows == UINT64_MAX) self->rows = self->entry->batch;
    return TSR_SUCCESS;
}

/* ---- outputs that are not finite ---- */

/* If rows depend on each other, all of them count as one. */
static tsr_finite_port view(const call *self, const wire *of, uint64_t row, uint64_t count) {
    bool independent = self->entry->rows_independent;
    uint64_t elements = of->row_bytes / tsr_dtype_size(of->port->dtype);
    return (tsr_finite_port){.port = of->port,
                             .data = of->memory,
                             .row_count = independent ? count : 1,
                             .row_elements =
                                 independent || !of->has_rows ? elements : count * elements,
                             .first_row = independent ? row : 0};
}

/* Views the inputs that the caller passes. */
static size_t view_inputs(const call *self, uint64_t row, uint64_t count,
                          tsr_finite_port *out_views) {
    size_t view_count = 0;
    for (size_t i = 0; i < self->entry->input_count; i++)
        if (self->inputs[i].port)
            out_views[view_count++] = view(self, &self->inputs[i], row, count);
    return view_count;
}

static bool has_infinite_input(const call *self) {
    tsr_finite_port inputs[TSR_CONFIG_PORTS_MAX];
    double value;
    size_t count = view_inputs(self, 0, self->rows, inputs);
    for (size_t i = 0; i < count; i++)
        if (tsr_dtype_find_nonfinite(inputs[i].port->dtype, inputs[i].data, inputs[i].row_elements,
                                     &value) != UINT64_MAX)
            return true;
    return false;
}

static tsr_result check_output(tsr_ctx *ctx, call *self, size_t index, uint64_t row,
                               uint64_t count) {
    tsr_finite_port inputs[TSR_CONFIG_PORTS_MAX];
    tsr_finite_port output = view(self, &self->outputs[index], row, count);
    tsr_config_port port = *output.port;
    size_t input_count = self->options.repeat ? 0 : view_inputs(self, row, count, inputs);
    uint64_t element = 0;
    double value = 0;
    port.may_be_infinite = port.may_be_infinite || self->is_given_infinite;
    output.port = &port;
    if (!tsr_finite_find(&output, inputs, input_count, &element, &value)) return TSR_SUCCESS;
    if (self->model->finite == TSR_FINITE_ERROR)
        return tsr_finite_refuse(ctx, &output, element, value);
    tsr_ctx apart = tsr_ctx_fork(ctx);
    tsr_result found = tsr_finite_refuse(&apart, &output, element, value);
    if (self->options.repeat)
        found = tsr_error_prefix(&apart, found, "call %" PRIu64, self->called_count);
    self->told[index] = found.code != 0;
    tsr_log(ctx, TSR_LOG_WARNING, "%s; more values of '%s' that are not finite are not reported",
            apart.error.text, port.name);
    return TSR_SUCCESS;
}

/* Checks `count` rows of the requested outputs, from `row` on. */
static tsr_result check_outputs(tsr_ctx *ctx, call *self, uint64_t row, uint64_t count) {
    bool warns = self->model->finite != TSR_FINITE_ERROR;
    if (self->model->finite == TSR_FINITE_OFF || (warns && !ctx->log)) return TSR_SUCCESS;
    for (size_t i = 0; i < self->entry->output_count; i++)
        if (self->outputs[i].port && !self->told[i])
            TRY(ctx, check_output(ctx, self, i, row, count));
    return TSR_SUCCESS;
}

/* ---- running ---- */

/* Runs `count` rows from `row` on; count: the open dim, if there is one, or 1 if there are no rows.
 */
static tsr_result run_once(tsr_ctx *ctx, call *self, uint64_t step, uint64_t row, uint64_t count) {
    double start = tsr_clock_seconds();
    if (self->entry->open.name) tsr_executor_set_dim(self->model->executor, self->index, count);
    TRY(ctx, tsr_executor_run(ctx, self->model->executor, self->index, step));
    double seconds = tsr_clock_seconds() - start;
    self->called_count++;
    if (self->options.called)
        self->options.called(self->options.called_user, self->called_count, seconds);
    if (self->log) TRY(ctx, tsr_call_log_step(ctx, self->log, self->called_count));
    return check_outputs(ctx, self, row, count);
}

/* Rows `row` … of an input or output as the size of its dim 0, and the reverse of row_bytes. */
static uint64_t dim_rows(const call *self, const wire *of, uint64_t rows) {
    return of->has_rows           ? rows * tsr_call_row_times(self, of)
           : of->view->shape.rank ? of->view->shape.dims[0]
                                  : 1;
}

static tsr_result read_view(tsr_ctx *ctx, const call *self, const wire *input, uint64_t row,
                            uint64_t count, size_t bytes) {
    tsr_device *device = self->model->device;
    const tsr_strided *view = input->view;
    const char *from = view->data + row * input->row_bytes;
    if (view->location == TSR_LOCATION_DEVICE)
        TRY(ctx, device->type->read_caller(ctx, device, from, input->memory, bytes));
    else
        tsr_strided_gather(view, dim_rows(self, input, row) * input->has_rows,
                           dim_rows(self, input, count), input->memory);
    if (view->dtype != TSR_DTYPE_I1) return TSR_SUCCESS;
    return tsr_truths_check(ctx, input->port->name, input->memory, row * input->row_bytes, bytes);
}

/* Lends the caller's memory of a whole batch to the run; else the executor's memory is used. */
static void lend(const call *self, wire *of, size_t port, bool is_output, uint64_t row,
                 bool is_whole) {
    char *memory = of->may_lend ? of->view->data + row * of->row_bytes : NULL;
    bool fits =
        memory && is_whole && (!is_output || (uintptr_t)memory % TSR_BUFFER_ALIGN_BYTES == 0);
    if (!fits && !of->is_lent) return;
    tsr_executor *executor = self->model->executor;
    of->is_lent = fits;
    if (is_output)
        tsr_executor_lend_output(executor, self->index, port, fits ? memory : NULL);
    else
        tsr_executor_lend_input(executor, self->index, port, fits ? memory : NULL);
    of->memory = fits        ? memory
                 : is_output ? tsr_executor_get_output(executor, self->index, port)
                             : tsr_executor_get_input(executor, self->index, port);
}

/* Lends or ends the loans of all inputs and outputs for `count` rows from `row` on. */
static void lend_all(call *self, uint64_t row, bool is_whole) {
    for (size_t i = 0; i < self->entry->input_count; i++)
        lend(self, &self->inputs[i], i, false, row, is_whole);
    for (size_t i = 0; i < self->entry->output_count; i++)
        lend(self, &self->outputs[i], i, true, row, is_whole);
}

/* Of `batch` rows, those beyond `count` are zero. */
static tsr_result read_rows(tsr_ctx *ctx, const call *self, const wire *input, uint64_t row,
                            uint64_t count, uint64_t batch) {
    if (input->is_lent) return TSR_SUCCESS;
    if (!input->has_rows) count = batch = 1;
    size_t bytes = (size_t)(count * input->row_bytes);
    if (input->array) {
        uint64_t per_row = input->row_bytes / tsr_dtype_size(input->port->dtype);
        TRY(ctx, tsr_array_read(ctx, input->array, row * per_row, count * per_row, input->memory));
    } else if (bytes) {
        TRY(ctx, read_view(ctx, self, input, row, count, bytes));
    }
    memset((char *)input->memory + bytes, 0, (size_t)((batch - count) * input->row_bytes));
    return TSR_SUCCESS;
}

static tsr_result write_rows(tsr_ctx *ctx, const call *self, const wire *output, uint64_t row,
                             uint64_t count) {
    size_t bytes = (size_t)((output->has_rows ? count : 1) * output->row_bytes);
    const tsr_strided *view = output->view;
    tsr_device *device = self->model->device;
    if (output->is_lent) return TSR_SUCCESS;
    if (view && bytes && view->location == TSR_LOCATION_DEVICE)
        return device->type->write_caller(ctx, device, output->memory,
                                          view->data + row * output->row_bytes, bytes);
    if (view && bytes)
        tsr_strided_scatter(view, dim_rows(self, output, row) * output->has_rows,
                            dim_rows(self, output, count), output->memory);
    if (!output->writer) return TSR_SUCCESS;
    return tsr_array_writer_append(ctx, output->writer, output->member, output->memory, bytes);
}

tsr_result tsr_call_run_rows(tsr_ctx *ctx, call *self) {
    const tsr_config_entry *entry = self->entry;
    uint64_t batch = entry->rows_independent ? entry->batch : self->rows;
    bool is_open = entry->open.name != NULL;
    for (uint64_t row = 0; row < self->rows; row += batch) {
        uint64_t count = self->rows - row < batch ? self->rows - row : batch;
        lend_all(self, row, count == batch || is_open);
        for (size_t i = 0; i < entry->input_count; i++)
            if (self->inputs[i].port)
                TRY(ctx,
                    read_rows(ctx, self, &self->inputs[i], row, count, is_open ? count : batch));
        tsr_result result = run_once(ctx, self, 0, row, count);
        if (result.code && entry->rows_independent)
            return tsr_error_prefix(ctx, result, "rows %" PRIu64 " to %" PRIu64, row,
                                    row + count - 1);
        TRY(ctx, result);
        for (size_t i = 0; i < entry->output_count; i++)
            if (self->outputs[i].port)
                TRY(ctx, write_rows(ctx, self, &self->outputs[i], row, count));
    }
    return TSR_SUCCESS;
}

void tsr_call_finish(tsr_ctx *ctx, call *self) {
    if (self->model && self->entry) lend_all(self, 0, false);
    if (self->model) tsr_use_end(self->model, &self->use);
    for (size_t i = 0; i < TSR_CONFIG_PORTS_MAX; i++) tsr_array_close(ctx, self->inputs[i].array);
    for (size_t i = 0; i < self->writer_count; i++) tsr_array_writer_destroy(ctx, self->writers[i]);
    tsr_arena_finish(&self->arena);
}

/* ---- repeating ---- */

/* Connects outputs that have an input's name to that input of the next call. */
static tsr_result connect_carried(tsr_ctx *ctx, call *self) {
    const tsr_config_entry *entry = self->entry;
    char got[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
    if (entry->rows_independent)
        FAIL(ctx, TSR_USAGE, "the rows of entry '%s' are independent: its calls cannot be repeated",
             entry->name);
    for (size_t i = 0; i < entry->output_count; i++) {
        const tsr_config_port *from = &entry->outputs[i];
        size_t index = find_port(entry->inputs, entry->input_count, from->name);
        if (index == entry->input_count || tsr_port_is_filled(entry->inputs[index].source))
            continue;
        const tsr_config_port *to = &entry->inputs[index];
        if (from->dtype != to->dtype || !tsr_shape_equal(&from->shape, &to->shape) ||
            from->dim_times != to->dim_times)
            FAIL(ctx, TSR_USAGE,
                 "output '%s' of entry '%s' is %s, its input %s: it cannot be "
                 "repeated",
                 from->name, entry->name, tsr_type_format(from->dtype, &from->shape, got),
                 tsr_type_format(to->dtype, &to->shape, expected));
        self->carried[i] =
            (wire){.port = to,
                   .memory = tsr_executor_get_input(self->model->executor, self->index, index)};
        set_rows(self, &self->carried[i]);
    }
    return TSR_SUCCESS;
}

static tsr_result run_repeated(tsr_ctx *ctx, call *self) {
    const tsr_config_entry *entry = self->entry;
    for (size_t i = 0; i < entry->input_count; i++)
        if (self->inputs[i].port)
            TRY(ctx, read_rows(ctx, self, &self->inputs[i], 0, self->rows, self->rows));
    self->is_given_infinite = has_infinite_input(self);
    for (uint64_t number = 1; number <= self->options.repeat; number++) {
        tsr_result result = run_once(ctx, self, number, 0, self->rows);
        if (result.code) return tsr_error_prefix(ctx, result, "call %" PRIu64, number);
        for (size_t i = 0; i < entry->output_count; i++) {
            const wire *to = &self->carried[i], *output = &self->outputs[i];
            bool is_written = output->port && (!to->port || number == self->options.repeat);
            if (is_written) TRY(ctx, write_rows(ctx, self, output, 0, self->rows));
            const void *from = tsr_executor_get_output(self->model->executor, self->index, i);
            uint64_t bytes = to->row_bytes * (to->has_rows ? self->rows : 1);
            if (to->port && bytes) memcpy(to->memory, from, (size_t)bytes);
        }
    }
    return TSR_SUCCESS;
}

/* Sets the shape of an output file: if the next call does not take the output, the file contains
 * all calls. */
static tsr_result shape_output(tsr_ctx *ctx, const call *self, const wire *output,
                               tsr_tensor *out_array) {
    const tsr_config_port *port = output->port;
    tsr_shape *shape = &out_array->shape;
    *out_array = (tsr_tensor){port->name, port->dtype, port->shape, NULL};
    if (output->has_rows) shape->dims[0] = self->rows * tsr_call_row_times(self, output);
    if (!self->options.repeat || self->carried[output - self->outputs].port) return TSR_SUCCESS;
    if (shape->rank == TSR_RANK_MAX)
        FAIL(ctx, TSR_USAGE,
             "output '%s' has %u dim%s: one more dim, for the calls, is not possible", port->name,
             shape->rank, TSR_PLURAL(shape->rank));
    memmove(shape->dims + 1, shape->dims, shape->rank * sizeof shape->dims[0]);
    shape->dims[0] = self->options.repeat;
    shape->rank++;
    return TSR_SUCCESS;
}

/* ---- files ---- */

/* Returns the shape of a file. A flat file contains the elements of an input in order, for any
 * number of rows if rows are independent. A file with another number of elements keeps its shape
 * and is refused later. */
static tsr_shape shape_file(const call *self, const wire *input) {
    const tsr_shape *shape = tsr_array_get_shape(input->array);
    tsr_shape wanted = input->port->shape;
    uint64_t count = 0, row = input->row_bytes / tsr_dtype_size(input->port->dtype);
    if (!tsr_array_is_flat(input->array)) return *shape;
    if (input->has_rows && row && shape->dims[0] % row == 0)
        wanted.dims[0] = shape->dims[0] / row * tsr_call_row_times(self, input);
    bool fits = tsr_shape_count(&wanted, &count);
    return fits && count == shape->dims[0] ? wanted : *shape;
}

static tsr_result connect_inputs(tsr_ctx *ctx, call *self, const tsr_binding *inputs,
                                 size_t input_count) {
    wire *targets[TSR_CONFIG_PORTS_MAX];
    tsr_shape shapes[TSR_CONFIG_PORTS_MAX];
    TRY(ctx, tsr_bindings_check_streams(ctx, inputs, input_count));
    for (size_t i = 0; i < input_count; i++) {
        TRY(ctx, tsr_call_claim(ctx, self, inputs[i].name, true, &targets[i]));
        TRY(ctx, tsr_array_open(ctx, inputs[i].path, targets[i]->port->dtype, &targets[i]->array));
        shapes[targets[i] - self->inputs] = *tsr_array_get_shape(targets[i]->array);
    }
    TRY(ctx, tsr_call_choose_copy(ctx, self, shapes));
    for (size_t i = 0; i < input_count; i++) {
        wire *target = targets[i];
        const tsr_shape shape = shape_file(self, target);
        TRY(ctx,
            tsr_call_check_input(ctx, self, target, tsr_array_get_dtype(target->array), &shape));
        tsr_array_tell_flat(ctx, target->array, "input", target->port->name, &shape);
    }
    return tsr_call_check_complete(ctx, self);
}

/* Two spellings of one path have the same temporary file. */
static tsr_result check_distinct(tsr_ctx *ctx, const call *self, const wire *output) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat mine = {0}, other = {0};
    int code = io->fstat(io->self, tsr_array_writer_get_fd(output->writer), &mine);
    for (size_t i = 0; i < self->entry->output_count && code >= 0; i++) {
        const wire *before = &self->outputs[i];
        if (!before->writer || before->writer == output->writer) continue;
        code = io->fstat(io->self, tsr_array_writer_get_fd(before->writer), &other);
        if (code >= 0 && mine.st_dev == other.st_dev && mine.st_ino == other.st_ino)
            FAIL(ctx, TSR_USAGE, "outputs '%s' and '%s' both go to '%s'", before->port->name,
                 output->port->name, output->path);
    }
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot stat '%s'", output->path);
    return TSR_SUCCESS;
}

/* Opens the file of the first output in the list, for all outputs in that file. */
static tsr_result open_output(tsr_ctx *ctx, call *self, wire *const *outputs, size_t count) {
    tsr_tensor arrays[TSR_CONFIG_PORTS_MAX];
    size_t array_count = 0;
    tsr_array_writer **writer = &self->writers[self->writer_count];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(outputs[i]->path, outputs[0]->path) != 0) continue;
        outputs[i]->member = array_count;
        TRY(ctx, shape_output(ctx, self, outputs[i], &arrays[array_count++]));
    }
    TRY(ctx, tsr_array_writer_create(ctx, outputs[0]->path, arrays, array_count, writer));
    self->writer_count++;
    for (size_t i = 0; i < count; i++)
        if (strcmp(outputs[i]->path, outputs[0]->path) == 0) outputs[i]->writer = *writer;
    return check_distinct(ctx, self, outputs[0]);
}

static tsr_result connect_outputs(tsr_ctx *ctx, call *self, const tsr_binding *outputs,
                                  size_t output_count) {
    wire *targets[TSR_CONFIG_PORTS_MAX];
    for (size_t i = 0; i < output_count; i++) {
        wire *target = NULL;
        TRY(ctx, tsr_call_claim(ctx, self, outputs[i].name, false, &target));
        target->path = outputs[i].path;
        targets[i] = target; /* each file is claimed once, so there are at most as many as ports */
    }
    for (size_t i = 0; i < output_count; i++)
        if (!targets[i]->writer) TRY(ctx, open_output(ctx, self, targets + i, output_count - i));
    return TSR_SUCCESS;
}

static tsr_result commit_outputs(tsr_ctx *ctx, const call *self) {
    for (size_t i = 0; i < self->writer_count; i++)
        TRY(ctx, tsr_array_writer_commit(ctx, self->writers[i]));
    return TSR_SUCCESS;
}

/* Opens the log with the arrays of inputs, in the order of the ports. */
static tsr_result open_log(tsr_ctx *ctx, call *self) {
    const tsr_array *arrays[TSR_CONFIG_PORTS_MAX] = {NULL};
    const tsr_call_options *options = &self->options;
    if (!options->record && !options->replay && !options->records_values) return TSR_SUCCESS;
    for (size_t i = 0; i < self->entry->input_count; i++) arrays[i] = self->inputs[i].array;
    return tsr_call_log_open(ctx, self->model, self->index, options, arrays, &self->log);
}

tsr_result tsr_model_run_files(tsr_ctx *ctx, tsr_model *model, const char *entry,
                               const tsr_call_options *options, const tsr_binding *inputs,
                               size_t input_count, const tsr_binding *outputs,
                               size_t output_count) {
    call self = {0};
    tsr_result result = TSR_SUCCESS;
    TRY(ctx,
        tsr_options_copy(ctx, "tsr_call_options", options, &self.options, sizeof self.options));
    const bool keeps = self.options.keeps_nothing || self.options.record || self.options.replay;
    TRY_GOTO(ctx, result, tsr_call_begin(ctx, model, entry, &self));
    if (self.options.repeat && !self.chooses) TRY_GOTO(ctx, result, connect_carried(ctx, &self));
    if (output_count == 0 && !keeps)
        FAIL_GOTO(ctx, result, TSR_USAGE,
                  "no output of entry '%s' is requested, so all results would be lost; request at "
                  "least one output",
                  self.entry->name);
    TRY_GOTO(ctx, result, connect_inputs(ctx, &self, inputs, input_count));
    if (self.options.repeat && self.chooses) TRY_GOTO(ctx, result, connect_carried(ctx, &self));
    TRY_GOTO(ctx, result, connect_outputs(ctx, &self, outputs, output_count));
    TRY_GOTO(ctx, result, open_log(ctx, &self));
    TRY_GOTO(ctx, result,
             self.options.repeat ? run_repeated(ctx, &self) : tsr_call_run_rows(ctx, &self));
    if (self.log) TRY_GOTO(ctx, result, tsr_call_log_end(ctx, self.log, self.called_count));
    TRY_GOTO(ctx, result, commit_outputs(ctx, &self));
done:
    tsr_call_log_close(self.log);
    tsr_call_finish(ctx, &self);
    return result;
}

tsr_result tsr_model_call_files(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                const tsr_binding *inputs, size_t input_count,
                                const tsr_binding *outputs, size_t output_count) {
    const tsr_call_options once = {.size_bytes = sizeof once};
    return tsr_model_run_files(ctx, model, entry, &once, inputs, input_count, outputs,
                               output_count);
}
