/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/trainer/batch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory of the caller ---- */

tsr_result tsr_view_check_memory(tsr_ctx *ctx, const tsr_model *model, const char *what,
                                 const tsr_view *view) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&view->shape, view->dtype, &size);
    TSR_ASSERT(fits); /* the type is that of the config */
    if (size && !view->data)
        FAIL(ctx, TSR_USAGE, "%s '%s' has no memory; expected %" PRIu64 " bytes", what, view->name,
             size);
    if (view->location == TSR_LOCATION_HOST) return TSR_SUCCESS;
    if (view->location != TSR_LOCATION_DEVICE)
        FAIL(ctx, TSR_USAGE, "%s '%s' has location %d; expected 0 (host) or 1 (device)", what,
             view->name, (int)view->location);
    if (!model->device->type->read_caller)
        FAIL(ctx, TSR_USAGE, "%s '%s' is in memory of a GPU; the model runs on '%s'", what,
             view->name, tsr_bundle_get_target_name(model->bundle, model->target));
    return TSR_SUCCESS;
}

tsr_result tsr_view_read(tsr_ctx *ctx, const tsr_model *model, const tsr_view *view,
                         uint64_t offset_bytes, void *to, uint64_t size_bytes) {
    const char *from = (const char *)view->data + offset_bytes;
    if (!size_bytes) return TSR_SUCCESS;
    if (view->location == TSR_LOCATION_DEVICE)
        return model->device->type->read_caller(ctx, model->device, from, to, size_bytes);
    memcpy(to, from, (size_t)size_bytes);
    return TSR_SUCCESS;
}

tsr_result tsr_view_write(tsr_ctx *ctx, const tsr_model *model, const tsr_view *view,
                          const void *from, uint64_t size_bytes) {
    if (!size_bytes) return TSR_SUCCESS;
    if (view->location == TSR_LOCATION_DEVICE)
        return model->device->type->write_caller(ctx, model->device, from, view->data, size_bytes);
    memcpy(view->data, from, (size_t)size_bytes);
    return TSR_SUCCESS;
}

/* ---- matching ---- */

/* One side of an entry: the ports that a caller may name. */
typedef struct side {
    const char *what; /* "input" */
    const tsr_config_entry *entry;
    const tsr_config_port *ports;
    size_t count;
    bool is_output;
    uint64_t rows; /* the batch is drawn from this many; 0: the views have the batch */
} side;

static bool is_given(const side *of, size_t port) {
    return of->is_output ? !of->ports[port].watched : !tsr_port_is_filled(of->ports[port].source);
}

/* Lists "images (64x64xui8), labels (64xi64)". In the arena. */
static const char *list_ports(const side *of, tsr_arena *arena) {
    const char *text = "";
    char type[TSR_TYPE_TEXT_MAX];
    for (size_t i = 0; text && i < of->count; i++)
        if (is_given(of, i))
            text =
                tsr_arena_printf(arena, "%s%s%s (%s)", text, text[0] ? ", " : "", of->ports[i].name,
                                 tsr_type_format(of->ports[i].dtype, &of->ports[i].shape, type));
    return text ? text : "?";
}

static tsr_result refuse_view(tsr_ctx *ctx, const side *of, const char *name, size_t number) {
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    const char *list = list_ports(of, &arena);
    if (name)
        FAIL_GOTO(ctx, result, TSR_USAGE, "entry '%s' has no %s '%s'; it has %s", of->entry->name,
                  of->what, name, list);
    FAIL_GOTO(ctx, result, TSR_USAGE, "entry '%s' has no %s number %zu; it has %s", of->entry->name,
              of->what, number, list);
done:
    tsr_arena_finish(&arena);
    return result;
}

static size_t find_port(const side *of, const char *name, size_t number) {
    for (size_t i = 0, given = 0; i < of->count; i++) {
        if (!is_given(of, i)) continue;
        if (name ? strcmp(of->ports[i].name, name) == 0 : given == number) return i;
        given++;
    }
    return of->count;
}

static tsr_result match_view(tsr_ctx *ctx, const tsr_model *model, const side *of,
                             const tsr_view *view, size_t number, const tsr_view **by_port) {
    char got[TSR_TYPE_TEXT_MAX], expected[TSR_TYPE_TEXT_MAX];
    size_t index = find_port(of, view->name, number);
    if (index == of->count) return refuse_view(ctx, of, view->name, number);
    const tsr_config_port *port = &of->ports[index];
    if (by_port[index])
        FAIL(ctx, TSR_USAGE, "%s '%s' of entry '%s' is given twice", of->what, port->name,
             of->entry->name);
    tsr_shape wanted = port->shape;
    bool is_drawn = of->rows && port->source == TSR_PORT_DATA;
    if (is_drawn) wanted.dims[0] = of->rows;
    if (view->dtype != port->dtype || !tsr_shape_equal(&view->shape, &wanted))
        FAIL(ctx, TSR_DATA, "%s '%s' is %s; expected %s", of->what, port->name,
             tsr_type_format(view->dtype, &view->shape, got),
             tsr_type_format(port->dtype, &wanted, expected));
    if (is_drawn && view->location != TSR_LOCATION_HOST)
        FAIL(ctx, TSR_USAGE, "the data of input '%s' is in memory of a GPU; expected the host's",
             port->name);
    tsr_view named = *view;
    named.name = port->name;
    TRY(ctx, tsr_view_check_memory(ctx, model, of->what, &named));
    by_port[index] = view;
    return TSR_SUCCESS;
}

static tsr_result refuse_missing(tsr_ctx *ctx, const side *of, const char *name) {
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    FAIL_GOTO(ctx, result, TSR_USAGE, "input '%s' of entry '%s' is missing; it needs %s", name,
              of->entry->name, list_ports(of, &arena));
done:
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_batch_match(tsr_ctx *ctx, const tsr_model *model, size_t entry,
                           const tsr_view *inputs, size_t input_count, const tsr_view *outputs,
                           size_t output_count, tsr_draw *draw, tsr_batch *out_batch) {
    const tsr_config_entry *of = &model->config.entries[entry];
    const side in = {"input",         of,    of->inputs,
                     of->input_count, false, draw ? draw->position->rows : 0};
    const side out = {"output", of, of->outputs, of->output_count, true, 0};
    *out_batch = (tsr_batch){.model = model, .entry = entry, .draw = draw};
    for (size_t i = 0; i < input_count; i++)
        TRY(ctx, match_view(ctx, model, &in, &inputs[i], i, out_batch->inputs));
    for (size_t i = 0; i < in.count; i++)
        if (is_given(&in, i) && !out_batch->inputs[i])
            return refuse_missing(ctx, &in, in.ports[i].name);
    for (size_t i = 0; i < output_count; i++)
        TRY(ctx, match_view(ctx, model, &out, &outputs[i], i, out_batch->outputs));
    return TSR_SUCCESS;
}

size_t tsr_batch_list_inputs(const tsr_config_entry *entry, tsr_view *out_views) {
    size_t count = 0;
    for (size_t i = 0; i < entry->input_count; i++) {
        const tsr_config_port *port = &entry->inputs[i];
        if (tsr_port_is_filled(port->source)) continue;
        out_views[count++] =
            (tsr_view){.name = port->name, .dtype = port->dtype, .shape = port->shape};
    }
    return count;
}

/* ---- copying ---- */

tsr_result tsr_draw_begin(tsr_ctx *ctx, const tsr_model *model, tsr_draw *draw) {
    uint64_t rows = draw->position->rows;
    if (!rows)
        FAIL(ctx, TSR_USAGE,
             "the trainer of '%s' was opened without the number of rows of its data, so that no "
             "rows can be drawn",
             model->config.name);
    if (draw->shuffler.count == rows) return TSR_SUCCESS;
    size_t count = tsr_shuffler_table_count(rows);
    draw->table = count ? calloc(count, sizeof *draw->table) : NULL;
    if (count && !draw->table) FAIL(ctx, TSR_MEMORY, "no memory to shuffle %" PRIu64 " rows", rows);
    tsr_shuffler_init(&draw->shuffler, rows, draw->table);
    return TSR_SUCCESS;
}

/* Copies the rows that are drawn for rows `first_row` … of the batch, of all data inputs. */
static void draw_rows(const tsr_batch *batch, uint32_t vrank, uint64_t first_row,
                      uint64_t row_count) {
    const tsr_config_entry *entry = &batch->model->config.entries[batch->entry];
    const tsr_position *at = batch->draw->position;
    uint64_t first = at->epoch_base * at->rows - at->epoch_base_sample + at->sample + first_row;
    for (uint64_t r = 0; r < row_count; r++) {
        uint64_t row = tsr_shuffler_index(&batch->draw->shuffler, (uint32_t)at->seed, first + r);
        for (size_t i = 0; i < entry->input_count; i++) {
            const tsr_view *view = batch->inputs[i];
            uint64_t size = 0;
            if (!view || entry->inputs[i].source != TSR_PORT_DATA) continue;
            bool fits = tsr_shape_size(&view->shape, view->dtype, &size);
            TSR_ASSERT(fits);
            size_t bytes = (size_t)(size / view->shape.dims[0]);
            char *to = tsr_executor_get_vrank_input(batch->model->executor, batch->entry, i, vrank);
            if (bytes) memcpy(to + r * bytes, (const char *)view->data + row * bytes, bytes);
        }
    }
}

tsr_result tsr_batch_read(tsr_ctx *ctx, void *user, uint32_t vrank, uint64_t first_row,
                          uint64_t row_count) {
    const tsr_batch *batch = user;
    const tsr_config_entry *entry = &batch->model->config.entries[batch->entry];
    if (batch->draw) draw_rows(batch, vrank, first_row, row_count);
    for (size_t i = 0; i < entry->input_count; i++) {
        const tsr_view *view = batch->inputs[i];
        uint64_t size = 0;
        if (!view) continue;
        bool fits = tsr_shape_size(&view->shape, view->dtype, &size);
        TSR_ASSERT(fits);
        bool has_rows = entry->inputs[i].source == TSR_PORT_DATA;
        uint64_t row_bytes = has_rows ? size / view->shape.dims[0] : 0;
        void *to = tsr_executor_get_vrank_input(batch->model->executor, batch->entry, i, vrank);
        if (has_rows && batch->draw) continue;
        TRY(ctx, tsr_view_read(ctx, batch->model, view, first_row * row_bytes, to,
                               has_rows ? row_count * row_bytes : size));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_batch_write(tsr_ctx *ctx, const tsr_batch *batch) {
    const tsr_config_entry *entry = &batch->model->config.entries[batch->entry];
    for (size_t i = 0; i < entry->output_count; i++) {
        const tsr_view *view = batch->outputs[i];
        uint64_t size = 0;
        if (!view) continue;
        bool fits = tsr_shape_size(&view->shape, view->dtype, &size);
        TSR_ASSERT(fits);
        TRY(ctx,
            tsr_view_write(ctx, batch->model, view,
                           tsr_executor_get_output(batch->model->executor, batch->entry, i), size));
    }
    return TSR_SUCCESS;
}
