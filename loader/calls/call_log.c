/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/calls/call_log.h"

#include "loader/log_program.h"
#include "runtime/base/plural.h"
#include "runtime/record/location.h"
#include "runtime/record/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tsr_call_log {
    tsr_model *model; /* borrowed */
    size_t entry;
    tsr_arena arena;
    tsr_tensor *tracked; /* inputs, then outputs; in the arena */
    size_t tracked_count;
    tsr_record_data *data; /* inputs that have an array, then the parameters; in the arena */
    size_t data_count;
    tsr_recorder *recorder; /* owned */
    tsr_replay *replay;     /* owned */
};

static tsr_result track(tsr_ctx *ctx, tsr_call_log *self, const char *what,
                        const tsr_config_port *port, void *memory) {
    const char *name = tsr_arena_printf(&self->arena, "%s %s", what, port->name);
    uint64_t size = 0;
    if (!name) FAIL(ctx, TSR_MEMORY, "no memory for the name of %s '%s'", what, port->name);
    self->tracked[self->tracked_count++] = (tsr_tensor){name, port->dtype, port->shape, memory};
    /* The first line of a log describes the memory before the first call: zeros. */
    if (tsr_shape_size(&port->shape, port->dtype, &size) && size) memset(memory, 0, (size_t)size);
    return TSR_SUCCESS;
}

static tsr_result track_all(tsr_ctx *ctx, tsr_call_log *self) {
    const tsr_config_entry *entry = &self->model->config.entries[self->entry];
    tsr_executor *executor = self->model->executor;
    size_t count = entry->input_count + entry->output_count;
    self->tracked = TSR_NEW(&self->arena, tsr_tensor, count + 1);
    if (!self->tracked) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", count);
    for (size_t i = 0; i < entry->input_count; i++)
        if (!tsr_port_is_filled(entry->inputs[i].source))
            TRY(ctx, track(ctx, self, "input", &entry->inputs[i],
                           tsr_executor_get_input(executor, self->entry, i)));
    for (size_t i = 0; i < entry->output_count; i++)
        TRY(ctx, track(ctx, self, "output", &entry->outputs[i],
                       tsr_executor_get_output(executor, self->entry, i)));
    return TSR_SUCCESS;
}

/* Hashes all parameters in the order of their names; not the optimizer state, which no call reads.
 */
static tsr_result digest_parameters(tsr_ctx *ctx, tsr_call_log *self, tsr_digest *out_digest) {
    const tsr_model *model = self->model;
    tsr_hasher hasher;
    TRY(ctx, tsr_executor_fetch(ctx, model->executor));
    tsr_hasher_init(&hasher);
    for (size_t i = 0; i < model->state_count; i++) {
        const tsr_tensor *tensor = &model->state[i];
        uint64_t size = 0;
        if (tsr_config_find_tensor(&model->config, tensor->name)->role != TSR_ROLE_PARAM) continue;
        bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
        TSR_ASSERT(fits);
        tsr_digest digest = tsr_hash_tree(tensor->data, (size_t)size);
        tsr_hasher_update(&hasher, digest.bytes, sizeof digest.bytes);
    }
    *out_digest = tsr_hasher_finish(&hasher);
    return TSR_SUCCESS;
}

static tsr_result digest_all(tsr_ctx *ctx, tsr_call_log *self, const tsr_array *const *arrays) {
    const tsr_config_entry *entry = &self->model->config.entries[self->entry];
    self->data = TSR_NEW(&self->arena, tsr_record_data, entry->input_count + 1);
    if (!self->data) FAIL(ctx, TSR_MEMORY, "no memory for %zu digests", entry->input_count);
    for (size_t i = 0; i < entry->input_count; i++) {
        tsr_record_data *data = &self->data[self->data_count];
        if (!arrays[i]) continue;
        data->name = tsr_arena_printf(&self->arena, "input %s", entry->inputs[i].name);
        if (!data->name) FAIL(ctx, TSR_MEMORY, "no memory for the name of an input");
        TRY(ctx, tsr_array_digest(ctx, arrays[i], &data->digest));
        self->data_count++;
    }
    tsr_record_data *parameters = &self->data[self->data_count++];
    parameters->name = "parameters";
    return digest_parameters(ctx, self, &parameters->digest);
}

static tsr_result check_digest(tsr_ctx *ctx, const char *what, const tsr_digest *got,
                               const tsr_digest *expected) {
    char got_hex[TSR_DIGEST_HEX + 1], expected_hex[TSR_DIGEST_HEX + 1];
    if (tsr_digest_equal(got, expected)) return TSR_SUCCESS;
    tsr_digest_format(got, got_hex);
    tsr_digest_format(expected, expected_hex);
    FAIL(ctx, TSR_MISMATCH, "the hash of %s is %.16s; the log was recorded with %.16s", what,
         got_hex, expected_hex);
}

static tsr_result check_header(tsr_ctx *ctx, const tsr_call_log *self) {
    const tsr_record_header *header = tsr_replay_get_header(self->replay);
    TRY(ctx, tsr_log_check(ctx, self->model, self->entry, header, "this call"));
    if (header->seed != self->model->initial_seed)
        FAIL(ctx, TSR_MISMATCH, "this call has seed %u; the log was recorded with %" PRIu64,
             self->model->initial_seed, header->seed);
    for (size_t i = 0; i < self->data_count; i++) {
        size_t k = 0;
        while (k < header->data_count && strcmp(header->data[k].name, self->data[i].name) != 0) k++;
        if (k == header->data_count)
            FAIL(ctx, TSR_MISMATCH, "the log was recorded without %s", self->data[i].name);
        TRY(ctx,
            check_digest(ctx, self->data[i].name, &self->data[i].digest, &header->data[k].digest));
    }
    return TSR_SUCCESS;
}

static tsr_result begin_replay(tsr_ctx *ctx, tsr_call_log *self, const char *path) {
    TRY(ctx, tsr_replay_open(ctx, path, &self->replay));
    TRY(ctx, check_header(ctx, self));
    return tsr_locations_set(ctx, self->replay, &self->model->config, &self->model->program,
                             self->entry, self->tracked, self->tracked_count, &self->arena);
}

static tsr_result begin_record(tsr_ctx *ctx, tsr_call_log *self, const tsr_call_options *options) {
    tsr_record_header header = {.seed = self->model->initial_seed,
                                .has_values = options->records_values,
                                .values_of = options->values_of,
                                .data_count = self->data_count,
                                .data = self->data};
    tsr_log_describe(self->model, self->entry, &header);
    return tsr_recorder_create(ctx, options->record, &header, self->tracked, self->tracked_count,
                               &self->recorder);
}

tsr_result tsr_call_log_open(tsr_ctx *ctx, tsr_model *model, size_t entry,
                             const tsr_call_options *options, const tsr_array *const *arrays,
                             tsr_call_log **out_log) {
    tsr_result result = TSR_SUCCESS;
    if (options->record && options->replay)
        FAIL(ctx, TSR_USAGE, "a call is either recorded or replayed, not both");
    if (options->records_values && !options->record)
        FAIL(ctx, TSR_USAGE, "the values of call %" PRIu64 " are requested, but no log is written",
             options->values_of);
    tsr_call_log *self = calloc(1, sizeof *self);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for the log of a call");
    self->model = model;
    self->entry = entry;
    TRY_GOTO(ctx, result, track_all(ctx, self));
    TRY_GOTO(ctx, result, digest_all(ctx, self, arrays));
    TRY_GOTO(ctx, result,
             options->replay ? begin_replay(ctx, self, options->replay)
                             : begin_record(ctx, self, options));
    *out_log = self;
    self = NULL;
done:
    tsr_call_log_close(self);
    return result;
}

tsr_result tsr_call_log_step(tsr_ctx *ctx, tsr_call_log *log, uint64_t number) {
    if (log->recorder) return tsr_recorder_append(ctx, log->recorder, number);
    return tsr_replay_check(ctx, log->replay, number, log->tracked, log->tracked_count);
}

tsr_result tsr_call_log_end(tsr_ctx *ctx, tsr_call_log *log, uint64_t count) {
    tsr_recorder *recorder = log->recorder;
    log->recorder = NULL;
    if (recorder) return tsr_recorder_close(ctx, recorder);
    uint64_t recorded = tsr_replay_get_last_step(log->replay);
    if (recorded != count)
        FAIL(ctx, TSR_DIVERGED, "%" PRIu64 " call%s %s made; the log was recorded with %" PRIu64,
             count, TSR_PLURAL(count), TSR_WAS_WERE(count), recorded);
    return TSR_SUCCESS;
}

void tsr_call_log_close(tsr_call_log *log) {
    tsr_ctx apart = {0};
    if (!log) return;
    /* Ignored, because the earlier error is the one reported. */
    if (log->recorder && tsr_recorder_close(&apart, log->recorder).code) apart = (tsr_ctx){0};
    tsr_replay_close(log->replay);
    tsr_arena_finish(&log->arena);
    free(log);
}
