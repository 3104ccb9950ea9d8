/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls an entry once, or for any number of rows in batches if its rows are independent. Of an
 * entry with copies for several sizes, the inputs choose one. Inputs come from memory or array
 * files, outputs go to memory or array files; a wire connects one input or output.
 */
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

typedef struct wire {
    const tsr_config_port *port; /* NULL: not connected */
    void *memory;                /* the executor's memory for one batch */
    uint64_t row_bytes;          /* bytes of a row; of the whole tensor if the entry has no rows */
    tsr_array *array;            /* input file; owned */
    void *tensor;                /* input or output in memory; borrowed */
    tsr_array_writer *writer;    /* writer of the output's file; borrowed from the call */
    size_t member;               /* index of its array in that file */
    const char *path;
} wire;

typedef struct call {
    tsr_model *model;
    tsr_use use; /* active if `model` is set */
    size_t index;
    const tsr_config_entry *entry;
    bool chooses; /* the inputs choose one of the copies of the entry */
    tsr_arena arena;
    wire inputs[TSR_CONFIG_PORTS_MAX], outputs[TSR_CONFIG_PORTS_MAX];
    tsr_array_writer *writers[TSR_CONFIG_PORTS_MAX]; /* owned; one per file */
    size_t writer_count;
    uint64_t rows;            /* rows of all inputs; 1 if the entry has no rows */
    tsr_call_options options; /* all zero: one call without callback */
    uint64_t called_count;
    tsr_call_log *log;      /* owned; NULL: neither record nor replay */
    bool is_given_infinite; /* repeated calls: an input of the first one contains an infinity */
    bool told[TSR_CONFIG_PORTS_MAX]; /* outputs for which a warning was logged */
    /* for each output: the input with its name, if calls are repeated */
    wire carried[TSR_CONFIG_PORTS_MAX];
} call;

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

static tsr_result claim(tsr_ctx *ctx, call *self, const char *name, bool is_input,
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
    uint64_t size = 0;
    bool fits = tsr_shape_size(&ports[index].shape, ports[index].dtype, &size);
    TSR_ASSERT(fits);
    *target = (wire){.port = &ports[index]};
    target->memory = is_input ? tsr_executor_get_input(self->model->executor, self->index, index)
                              : tsr_executor_get_output(self->model->executor, self->index, index);
    target->row_bytes = self->entry->rows_independent ? size / self->entry->batch : size;
    *out_wire = target;
    return TSR_SUCCESS;
}

static tsr_result check_memory(tsr_ctx *ctx, const char *what, const tsr_tensor *tensor) {
    uint64_t size = 0;
    if (!tsr_shape_size(&tensor->shape, tensor->dtype, &size))
        FAIL(ctx, TSR_DATA, "%s '%s' has 2^63 bytes or more", what, tensor->name);
    if (size && !tensor->data)
        FAIL(ctx, TSR_USAGE, "%s '%s' has no memory; expected %" PRIu64 " bytes", what,
             tensor->name, size);
    return TSR_SUCCESS;
}

/* Checks dtype, trailing dimensions and number of rows. */
static tsr_result check_input(tsr_ctx *ctx, call *self, const wire *input, tsr_dtype dtype,
                              const tsr_shape *shape) {
    char got[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
    const tsr_config_port *port = input->port;
    tsr_shape wanted = port->shape;
    bool by_rows = self->entry->rows_independent;
    if (by_rows && shape->rank > 0 && wanted.rank > 0) wanted.dims[0] = shape->dims[0];
    if (dtype != port->dtype || !tsr_shape_equal(&wanted, shape))
        FAIL(ctx, TSR_DATA, "input '%s' is %s; expected %s%s", port->name,
             tsr_type_format(dtype, shape, got),
             tsr_type_format(port->dtype, &port->shape, expected),
             by_rows ? " with any number of rows" : "");
    if (!by_rows) return TSR_SUCCESS;
    if (self->rows != UINT64_MAX && self->rows != shape->dims[0])
        FAIL(ctx, TSR_DATA, "input '%s' has %" PRIu64 " row%s; another input has %" PRIu64,
             port->name, shape->dims[0], TSR_PLURAL(shape->dims[0]), self->rows);
    self->rows = shape->dims[0];
    return TSR_SUCCESS;
}

static tsr_result begin(tsr_ctx *ctx, tsr_model *model, const char *entry, call *self) {
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
static tsr_result choose_copy(tsr_ctx *ctx, call *self, const tsr_shape *shapes) {
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
        bool fits = tsr_shape_size(&input->port->shape, input->port->dtype, &input->row_bytes);
        TSR_ASSERT(fits);
    }
    return TSR_SUCCESS;
}

static tsr_result check_complete(tsr_ctx *ctx, call *self) {
    for (size_t i = 0; i < self->entry->input_count; i++)
        if (!tsr_port_is_filled(self->entry->inputs[i].source) && !self->inputs[i].port)
            FAIL(ctx, TSR_USAGE, "input '%s' of entry '%s' is missing; it needs %s",
                 self->entry->inputs[i].name, self->entry->name,
                 list_inputs(self->entry, &self->arena));
    if (!self->entry->rows_independent) self->rows = 1;
    if (self->rows == UINT64_MAX) self->rows = self->entry->batch;
    return TSR_SUCCESS;
}

/* ---- outputs that are not finite ---- */

static tsr_finite_port view(const call *self, const wire *of, uint64_t row, uint64_t count) {
    bool has_rows = self->entry->rows_independent;
    return (tsr_finite_port){.port = of->port,
                             .data = of->memory,
                             .row_count = has_rows ? count : 1,
                             .row_elements = of->row_bytes / tsr_dtype_size(of->port->dtype),
                             .first_row = has_rows ? row : 0};
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
    size_t count = view_inputs(self, 0, 1, inputs);
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

/* Runs `count` rows from `row` on. */
static tsr_result run_once(tsr_ctx *ctx, call *self, uint64_t step, uint64_t row, uint64_t count) {
    double start = tsr_clock_seconds();
    TRY(ctx, tsr_executor_run(ctx, self->model->executor, self->index, step));
    double seconds = tsr_clock_seconds() - start;
    self->called_count++;
    if (self->options.called)
        self->options.called(self->options.called_user, self->called_count, seconds);
    if (self->log) TRY(ctx, tsr_call_log_step(ctx, self->log, self->called_count));
    return check_outputs(ctx, self, row, count);
}

static tsr_result read_rows(tsr_ctx *ctx, const wire *input, uint64_t row, uint64_t count,
                            uint64_t batch) {
    size_t bytes = (size_t)(count * input->row_bytes);
    if (input->array) {
        uint64_t per_row = input->row_bytes / tsr_dtype_size(input->port->dtype);
        TRY(ctx, tsr_array_read(ctx, input->array, row * per_row, count * per_row, input->memory));
    } else if (bytes) {
        memcpy(input->memory, (const char *)input->tensor + row * input->row_bytes, bytes);
    }
    memset((char *)input->memory + bytes, 0, (size_t)((batch - count) * input->row_bytes));
    return TSR_SUCCESS;
}

static tsr_result write_rows(tsr_ctx *ctx, const wire *output, uint64_t row, uint64_t count) {
    size_t bytes = (size_t)(count * output->row_bytes);
    if (output->tensor && bytes)
        memcpy((char *)output->tensor + row * output->row_bytes, output->memory, bytes);
    if (!output->writer) return TSR_SUCCESS;
    return tsr_array_writer_append(ctx, output->writer, output->member, output->memory, bytes);
}

static tsr_result run_rows(tsr_ctx *ctx, call *self) {
    const tsr_config_entry *entry = self->entry;
    uint64_t batch = entry->rows_independent ? entry->batch : 1;
    for (uint64_t row = 0; row < self->rows; row += batch) {
        uint64_t count = self->rows - row < batch ? self->rows - row : batch;
        for (size_t i = 0; i < entry->input_count; i++)
            if (self->inputs[i].port) TRY(ctx, read_rows(ctx, &self->inputs[i], row, count, batch));
        tsr_result result = run_once(ctx, self, 0, row, count);
        if (result.code && entry->rows_independent)
            return tsr_error_prefix(ctx, result, "rows %" PRIu64 " to %" PRIu64, row,
                                    row + count - 1);
        TRY(ctx, result);
        for (size_t i = 0; i < entry->output_count; i++)
            if (self->outputs[i].port) TRY(ctx, write_rows(ctx, &self->outputs[i], row, count));
    }
    return TSR_SUCCESS;
}

static void finish(tsr_ctx *ctx, call *self) {
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
        uint64_t size = 0;
        if (from->dtype != to->dtype || !tsr_shape_equal(&from->shape, &to->shape))
            FAIL(ctx, TSR_USAGE,
                 "output '%s' of entry '%s' is %s, its input %s: it cannot be "
                 "repeated",
                 from->name, entry->name, tsr_type_format(from->dtype, &from->shape, got),
                 tsr_type_format(to->dtype, &to->shape, expected));
        bool fits = tsr_shape_size(&to->shape, to->dtype, &size);
        TSR_ASSERT(fits);
        self->carried[i] =
            (wire){.port = to,
                   .memory = tsr_executor_get_input(self->model->executor, self->index, index),
                   .row_bytes = size};
    }
    return TSR_SUCCESS;
}

static tsr_result run_repeated(tsr_ctx *ctx, call *self) {
    const tsr_config_entry *entry = self->entry;
    for (size_t i = 0; i < entry->input_count; i++)
        if (self->inputs[i].port) TRY(ctx, read_rows(ctx, &self->inputs[i], 0, 1, 1));
    self->is_given_infinite = has_infinite_input(self);
    for (uint64_t number = 1; number <= self->options.repeat; number++) {
        tsr_result result = run_once(ctx, self, number, 0, 1);
        if (result.code) return tsr_error_prefix(ctx, result, "call %" PRIu64, number);
        for (size_t i = 0; i < entry->output_count; i++) {
            const wire *to = &self->carried[i], *output = &self->outputs[i];
            bool is_kept = output->port && (!to->port || number == self->options.repeat);
            if (is_kept) TRY(ctx, write_rows(ctx, output, 0, 1));
            const void *from = tsr_executor_get_output(self->model->executor, self->index, i);
            if (to->port && to->row_bytes) memcpy(to->memory, from, (size_t)to->row_bytes);
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
    if (self->entry->rows_independent) shape->dims[0] = self->rows;
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

/* ---- in memory ---- */

static tsr_result connect_tensors(tsr_ctx *ctx, call *self, const tsr_tensor *inputs,
                                  size_t input_count, const tsr_tensor *outputs,
                                  size_t output_count) {
    wire *target = NULL, *targets[TSR_CONFIG_PORTS_MAX];
    tsr_shape shapes[TSR_CONFIG_PORTS_MAX];
    for (size_t i = 0; i < input_count; i++) {
        TRY(ctx, claim(ctx, self, inputs[i].name, true, &targets[i]));
        shapes[targets[i] - self->inputs] = inputs[i].shape;
    }
    TRY(ctx, choose_copy(ctx, self, shapes));
    for (size_t i = 0; i < input_count; i++) {
        TRY(ctx, check_input(ctx, self, targets[i], inputs[i].dtype, &inputs[i].shape));
        TRY(ctx, check_memory(ctx, "input", &inputs[i]));
        targets[i]->tensor = inputs[i].data;
    }
    TRY(ctx, check_complete(ctx, self));
    for (size_t i = 0; i < output_count; i++) {
        char got[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
        TRY(ctx, claim(ctx, self, outputs[i].name, false, &target));
        tsr_shape wanted = target->port->shape;
        if (self->entry->rows_independent) wanted.dims[0] = self->rows;
        if (outputs[i].dtype != target->port->dtype || !tsr_shape_equal(&outputs[i].shape, &wanted))
            FAIL(ctx, TSR_DATA, "output '%s' is %s; expected %s", outputs[i].name,
                 tsr_type_format(outputs[i].dtype, &outputs[i].shape, got),
                 tsr_type_format(target->port->dtype, &wanted, expected));
        TRY(ctx, check_memory(ctx, "output", &outputs[i]));
        target->tensor = outputs[i].data;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_model_call(tsr_ctx *ctx, tsr_model *model, const char *entry,
                          const tsr_tensor *inputs, size_t input_count, const tsr_tensor *outputs,
                          size_t output_count) {
    call self = {0};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, begin(ctx, model, entry, &self));
    TRY_GOTO(ctx, result, connect_tensors(ctx, &self, inputs, input_count, outputs, output_count));
    TRY_GOTO(ctx, result, run_rows(ctx, &self));
done:
    finish(ctx, &self);
    return result;
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
    if (self->entry->rows_independent && row && shape->dims[0] % row == 0)
        wanted.dims[0] = shape->dims[0] / row;
    bool fits = tsr_shape_count(&wanted, &count);
    return fits && count == shape->dims[0] ? wanted : *shape;
}

static tsr_result connect_inputs(tsr_ctx *ctx, call *self, const tsr_binding *inputs,
                                 size_t input_count) {
    wire *targets[TSR_CONFIG_PORTS_MAX];
    tsr_shape shapes[TSR_CONFIG_PORTS_MAX];
    TRY(ctx, tsr_bindings_check_streams(ctx, inputs, input_count));
    for (size_t i = 0; i < input_count; i++) {
        TRY(ctx, claim(ctx, self, inputs[i].name, true, &targets[i]));
        TRY(ctx, tsr_array_open(ctx, inputs[i].path, targets[i]->port->dtype, &targets[i]->array));
        shapes[targets[i] - self->inputs] = *tsr_array_get_shape(targets[i]->array);
    }
    TRY(ctx, choose_copy(ctx, self, shapes));
    for (size_t i = 0; i < input_count; i++) {
        wire *target = targets[i];
        const tsr_shape shape = shape_file(self, target);
        TRY(ctx, check_input(ctx, self, target, tsr_array_get_dtype(target->array), &shape));
        tsr_array_tell_flat(ctx, target->array, "input", target->port->name, &shape);
    }
    return check_complete(ctx, self);
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
        TRY(ctx, claim(ctx, self, outputs[i].name, false, &target));
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
    TRY_GOTO(ctx, result, begin(ctx, model, entry, &self));
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
    TRY_GOTO(ctx, result, self.options.repeat ? run_repeated(ctx, &self) : run_rows(ctx, &self));
    if (self.log) TRY_GOTO(ctx, result, tsr_call_log_end(ctx, self.log, self.called_count));
    TRY_GOTO(ctx, result, commit_outputs(ctx, &self));
done:
    tsr_call_log_close(self.log);
    finish(ctx, &self);
    return result;
}

tsr_result tsr_model_call_files(tsr_ctx *ctx, tsr_model *model, const char *entry,
                                const tsr_binding *inputs, size_t input_count,
                                const tsr_binding *outputs, size_t output_count) {
    const tsr_call_options once = {.size_bytes = sizeof once};
    return tsr_model_run_files(ctx, model, entry, &once, inputs, input_count, outputs,
                               output_count);
}
