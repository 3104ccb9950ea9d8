/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of a training run, and evaluation alone.
 */
#include "loader/session.h"
#include "loader/use.h"
#include "runtime/base/suggest.h"

#include <string.h>

typedef struct tsr_session session;

static const tsr_binding *find_binding(const session *self, const char *name) {
    for (size_t i = 0; i < self->options.data_count; i++)
        if (strcmp(self->options.data[i].name, name) == 0) return &self->options.data[i];
    return NULL;
}

static size_t count_bound(const session *self, const tsr_config_entry *entry) {
    size_t count = 0;
    for (size_t i = 0; i < entry->input_count; i++)
        if (entry->inputs[i].source == TSR_PORT_DATA && find_binding(self, entry->inputs[i].name))
            count++;
    return count;
}

static tsr_result open_data(tsr_ctx *ctx, session *self, const tsr_config_entry *entry,
                            tsr_dataset **out_data) {
    tsr_dataset_port ports[TSR_CONFIG_PORTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < entry->input_count; i++) {
        const tsr_config_port *port = &entry->inputs[i];
        if (tsr_port_is_filled(port->source)) continue;
        if (port->source == TSR_PORT_ARGUMENT)
            FAIL(ctx, TSR_USAGE,
                 "input '%s' of entry '%s' is not a data input; the entry cannot be run over data",
                 port->name, entry->name);
        ports[count++] =
            (tsr_dataset_port){.name = port->name, .dtype = port->dtype, .shape = port->shape};
    }
    if (count == 0) FAIL(ctx, TSR_USAGE, "entry '%s' has no data input", entry->name);
    tsr_dataset_options options = {.size_bytes = sizeof options,
                                   .rows_min = entry->kind == TSR_ENTRY_TRAIN ? entry->batch : 1};
    tsr_result result = tsr_dataset_open(ctx, ports, count, self->bindings,
                                         self->options.data_count, &options, out_data);
    if (result.code) return tsr_error_prefix(ctx, result, "entry '%s'", entry->name);
    return TSR_SUCCESS;
}

static bool has_data_input(const tsr_config_entry *entry, const char *name) {
    for (size_t i = 0; i < entry->input_count; i++)
        if (entry->inputs[i].source == TSR_PORT_DATA && strcmp(entry->inputs[i].name, name) == 0)
            return true;
    return false;
}

static tsr_result refuse_name(tsr_ctx *ctx, session *self, const char *name) {
    const tsr_config *config = &self->model->config;
    const char *known = "";
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = name};
    for (size_t i = 0; i < config->entry_count; i++) {
        const tsr_config_entry *entry = &config->entries[i];
        for (size_t j = 0; known && j < entry->input_count; j++) {
            if (entry->inputs[j].source != TSR_PORT_DATA) continue;
            tsr_suggest(&likely, entry->inputs[j].name);
            known = tsr_arena_printf(&self->arena, "%s%s%s", known, known[0] ? ", " : "",
                                     entry->inputs[j].name);
        }
    }
    FAIL(ctx, TSR_USAGE, "no data input '%s'; the bundle has %s%s", name, known ? known : "?",
         tsr_suggestion_text(&likely, meant));
}

/* Checks that every given name is a data input of some entry that can use it. */
static tsr_result check_names(tsr_ctx *ctx, session *self) {
    const tsr_config *config = &self->model->config;
    self->bindings = TSR_NEW(&self->arena, tsr_dataset_binding, self->options.data_count + 1);
    if (!self->bindings)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu bindings", self->options.data_count);
    for (size_t i = 0; i < self->options.data_count; i++) {
        const char *name = self->options.data[i].name;
        bool found = false;
        for (size_t j = 0; j < config->entry_count && !found; j++)
            found = has_data_input(&config->entries[j], name);
        if (!found) return refuse_name(ctx, self, name);
        if (find_binding(self, name) != &self->options.data[i])
            FAIL(ctx, TSR_USAGE, "data '%s' is bound twice", name);
        self->bindings[i] = (tsr_dataset_binding){name, self->options.data[i].path};
    }
    return TSR_SUCCESS;
}

static const tsr_binding *find_stream(const tsr_binding *bindings, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(bindings[i].path, TSR_ARRAY_STREAM) == 0) return &bindings[i];
    return NULL;
}

tsr_result tsr_bindings_check_streams(tsr_ctx *ctx, const tsr_binding *bindings, size_t count) {
    const tsr_binding *first = find_stream(bindings, count), *second = NULL;
    if (first) second = find_stream(first + 1, count - (size_t)(first + 1 - bindings));
    if (second)
        FAIL(ctx, TSR_USAGE, "'%s' and '%s' are both standard input, which can be read once",
             first->name, second->name);
    return TSR_SUCCESS;
}

/* Each epoch reads the samples again, in another order. */
static tsr_result refuse_stream(tsr_ctx *ctx, const session *self) {
    const tsr_binding *stream = find_stream(self->options.data, self->options.data_count);
    if (stream)
        FAIL(ctx, TSR_USAGE,
             "data '%s' is standard input, which can be read once and in its order; training reads "
             "samples in any order, and again in each epoch: expected a file",
             stream->name);
    return TSR_SUCCESS;
}

static tsr_result check_eval(tsr_ctx *ctx, const tsr_config_entry *entry) {
    if (entry->kind != TSR_ENTRY_EVAL)
        FAIL(ctx, TSR_USAGE, "entry '%s' does not evaluate", entry->name);
    if (!entry->rows_independent)
        FAIL(ctx, TSR_USAGE,
             "the rows of entry '%s' depend on each other: means over a data set are not defined",
             entry->name);
    return TSR_SUCCESS;
}

static tsr_result bind_eval(tsr_ctx *ctx, session *self) {
    const tsr_config *config = &self->model->config;
    for (size_t i = 0; i < config->entry_count; i++) {
        const tsr_config_entry *entry = &config->entries[i];
        if (entry->kind != TSR_ENTRY_EVAL || count_bound(self, entry) == 0) continue;
        if (self->eval_data)
            FAIL(ctx, TSR_USAGE, "data is bound to two eval entries, '%s' and '%s'",
                 config->entries[self->job.eval_entry].name, entry->name);
        TRY(ctx, check_eval(ctx, entry));
        TRY(ctx, open_data(ctx, self, entry, &self->eval_data));
        self->job.eval_entry = i;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_session_bind_data(tsr_ctx *ctx, session *self) {
    const tsr_config_entry *entry = NULL;
    TRY(ctx, tsr_model_find_entry(ctx, self->model, self->options.entry, TSR_ENTRY_TRAIN,
                                  &self->job.entry));
    entry = &self->model->config.entries[self->job.entry];
    if (entry->kind != TSR_ENTRY_TRAIN)
        FAIL(ctx, TSR_USAGE, "entry '%s' does not train", entry->name);
    if (self->told) {
        self->trained_on = tsr_training_data_tell(self->told, self->options.new_data);
        return TSR_SUCCESS;
    }
    TRY(ctx, check_names(ctx, self));
    TRY(ctx, refuse_stream(ctx, self));
    TRY(ctx, open_data(ctx, self, entry, &self->data));
    TRY(ctx, bind_eval(ctx, self));
    TRY(ctx, tsr_session_check_goal(ctx, self));
    self->job.data = self->data;
    self->job.eval_data = self->eval_data;
    const tsr_training_data_options options = {.train = &self->options,
                                               .rows = tsr_dataset_get_row_count(self->data),
                                               .is_first = tsr_session_is_first(self)};
    return tsr_training_data_describe(ctx, entry, &options, &self->arena, &self->trained_on);
}

/* ---- evaluation alone ---- */

static tsr_result run_evaluation(tsr_ctx *ctx, session *self, size_t index, tsr_arena *arena,
                                 tsr_eval_report *out_report) {
    const tsr_config_entry *entry = &self->model->config.entries[index];
    TRY(ctx, check_eval(ctx, entry));
    TRY(ctx, tsr_model_check_ready(ctx, self->model, index));
    TRY(ctx, check_names(ctx, self));
    TRY(ctx, tsr_bindings_check_streams(ctx, self->options.data, self->options.data_count));
    TRY(ctx, open_data(ctx, self, entry, &self->eval_data));
    double *means = TSR_NEW(arena, double, entry->output_count + 1);
    const char **names = TSR_NEW(arena, const char *, entry->output_count + 1);
    if (!means || !names) FAIL(ctx, TSR_MEMORY, "no memory for %zu results", entry->output_count);
    for (size_t i = 0; i < entry->output_count; i++) names[i] = entry->outputs[i].name;
    TRY(ctx, tsr_evaluate(ctx, &self->model->config, self->model->executor, index, self->eval_data,
                          self->model->finite, means));
    *out_report = (tsr_eval_report){.rows = tsr_dataset_get_row_count(self->eval_data),
                                    .names = names,
                                    .means = means,
                                    .count = entry->output_count};
    return TSR_SUCCESS;
}

tsr_result tsr_model_evaluate(tsr_ctx *ctx, tsr_model *model, const char *entry,
                              const tsr_binding *data, size_t data_count, tsr_arena *arena,
                              tsr_eval_report *out_report) {
    session self = {.model = model, .options = {.data = data, .data_count = data_count}};
    size_t index = 0;
    tsr_use use;
    TRY(ctx, tsr_model_find_entry(ctx, model, entry, TSR_ENTRY_EVAL, &index));
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_CALL, index, &use));
    tsr_result result = run_evaluation(ctx, &self, index, arena, out_report);
    tsr_use_end(model, &use);
    tsr_dataset_close(ctx, self.eval_data);
    tsr_arena_finish(&self.arena);
    return result;
}
