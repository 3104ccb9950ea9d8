/* SPDX-License-Identifier: Apache-2.0
 *
 * tsr_train: turns the options into a job for the training loop.
 *
 *     find entries -> bind data -> open log -> recover or initialise -> handle what happened ->
 *     begin log -> run -> close
 *
 * Repeats these from the start if a region of mode restart has failed.
 */
#include "loader/session.h"

#include "loader/log_program.h"
#include "loader/model.h"
#include "loader/position.h"
#include "loader/use.h"
#include "runtime/data/shuffle.h"
#include "runtime/exec/state_scan.h"
#include "runtime/record/location.h"
#include "runtime/transport/collective.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP_DEFAULT = 2 };

typedef struct tsr_session session;

static bool several_ranks(const session *self) {
    return self->model->transport && self->model->transport->rank_count > 1;
}

/* ---- data ---- */

static tsr_result digest_data(tsr_ctx *ctx, session *self) {
    return tsr_training_data_digest(ctx, &self->trained_on, self->digests, &self->digest_count);
}

/* ---- replay ---- */

static tsr_result check_digest(tsr_ctx *ctx, const char *what, const char *name,
                               const tsr_digest *got, const tsr_digest *expected) {
    char got_hex[TSR_DIGEST_HEX + 1], expected_hex[TSR_DIGEST_HEX + 1];
    if (tsr_digest_equal(got, expected)) return TSR_SUCCESS;
    tsr_digest_format(got, got_hex);
    tsr_digest_format(expected, expected_hex);
    FAIL(ctx, TSR_MISMATCH, "%s%s has hash %.16s; the log was recorded with %.16s", what, name,
         got_hex, expected_hex);
}

static tsr_result check_header(tsr_ctx *ctx, session *self, const tsr_record_header *header) {
    TRY(ctx, tsr_hyperparameters_take(ctx, self->model, &header->identity, 0));
    TRY(ctx, tsr_log_check(ctx, self->model, self->job.entry, header, "this run"));
    if (header->rows && header->rows != self->trained_on.rows)
        FAIL(ctx, TSR_MISMATCH, "the data has %" PRIu64 " rows; the log was recorded with %" PRIu64,
             self->trained_on.rows, header->rows);
    for (size_t i = 0; i < self->digest_count; i++) {
        const tsr_record_data *mine = &self->digests[i], *logged = NULL;
        for (size_t j = 0; j < header->data_count && !logged; j++)
            if (strcmp(mine->name, header->data[j].name) == 0) logged = &header->data[j];
        if (!logged) FAIL(ctx, TSR_MISMATCH, "the log was recorded without data '%s'", mine->name);
        TRY(ctx, check_digest(ctx, "data ", mine->name, &mine->digest, &logged->digest));
    }
    return TSR_SUCCESS;
}

static tsr_result open_log(tsr_ctx *ctx, session *self) {
    if (self->options.record && self->options.replay)
        FAIL(ctx, TSR_USAGE, "a run is either recorded or replayed, not both");
    if (self->options.records_values && !self->options.record)
        FAIL(ctx, TSR_USAGE, "the values of step %" PRIu64 " are requested, but no log is written",
             self->options.values_of);
    if (self->options.record_every && !self->options.record && tsr_session_is_first(self))
        FAIL(ctx, TSR_USAGE, "every %" PRIu64 " steps are to be recorded, but no log is written",
             self->options.record_every);
    if (!self->options.record && !self->options.replay) return TSR_SUCCESS;
    if (!self->model->transport) TRY(ctx, digest_data(ctx, self));
    if (!self->options.replay) return TSR_SUCCESS;
    TRY(ctx, tsr_replay_open(ctx, self->options.replay, &self->replay));
    TRY(ctx, check_header(ctx, self, tsr_replay_get_header(self->replay)));
    self->job.replay = self->replay;
    uint64_t last = tsr_replay_get_last_step(self->replay);
    if (self->options.steps == 0 || self->options.steps > last) self->job.last_step = last;
    return TSR_SUCCESS;
}

/* ---- where to begin ---- */

static tsr_result check_number(tsr_ctx *ctx, const char *what, uint64_t stored, uint64_t wanted) {
    if (stored != wanted)
        FAIL(ctx, TSR_MISMATCH, "the state has %s %" PRIu64 "; this run has %" PRIu64, what, stored,
             wanted);
    return TSR_SUCCESS;
}

static tsr_result check_position(tsr_ctx *ctx, session *self, const tsr_position *position) {
    if (self->options.has_seed)
        TRY(ctx, check_number(ctx, "seed", position->seed, self->options.seed));
    TRY(ctx, check_number(ctx, "virtual ranks", position->virtual_ranks,
                          self->model->config.virtual_ranks));
    TRY(ctx, check_number(ctx, "shuffle version", position->shuffle_version, TSR_SHUFFLE_VERSION));
    uint64_t batch = self->model->config.entries[self->job.entry].batch;
    TRY(ctx, check_number(ctx, "global sample index", position->sample, position->step * batch));
    self->job.position = *position;
    if (self->replay) return TSR_SUCCESS; /* the log contains the names of the data */
    return tsr_training_data_check(ctx, &self->trained_on, &self->job.position);
}

/* The step number and everything that depends on it continue; the data continues at that step. */
static tsr_result adopt(tsr_ctx *ctx, session *self) {
    const tsr_train_options *options = &self->options;
    const tsr_config *config = &self->model->config;
    tsr_generation from;
    if (options->params || options->replay)
        FAIL(ctx, TSR_USAGE, "a state is adopted instead of %s; give one",
             options->params ? "parameters of a file" : "the start of a log");
    TRY(ctx, tsr_state_initialize(ctx, self->model, options->has_seed ? options->seed : 0));
    TRY(ctx, tsr_state_adopt(ctx, self->model, &options->adopt, &from));
    self->job.position =
        (tsr_position){.seed = options->has_seed ? options->seed : from.position.seed,
                       .step = from.position.step,
                       .sample = from.position.step * config->entries[self->job.entry].batch,
                       .virtual_ranks = config->virtual_ranks,
                       .shuffle_version = TSR_SHUFFLE_VERSION};
    return TSR_SUCCESS;
}

/* A bundle with an optimizer state continues from its position unless parameters are given. */
static tsr_result initialize(tsr_ctx *ctx, session *self) {
    const tsr_train_options *options = &self->options;
    bool found = false;
    tsr_position stored;
    if (options->adopt.directory) return adopt(ctx, self);
    self->job.position = (tsr_position){.seed = self->options.has_seed ? self->options.seed : 0,
                                        .virtual_ranks = self->model->config.virtual_ranks,
                                        .shuffle_version = TSR_SHUFFLE_VERSION};
    TRY(ctx, tsr_position_read(ctx, self->model->bundle, self->model->target, &found, &stored));
    if (found && !self->options.params) TRY(ctx, check_position(ctx, self, &stored));
    TRY(ctx, tsr_state_initialize(ctx, self->model, (uint32_t)self->job.position.seed));
    if (self->options.params)
        TRY(ctx, tsr_state_load_params(ctx, self->model, self->options.params));
    return TSR_SUCCESS;
}

/* A replay continues from the start of the record, and never writes. */
static tsr_result begin_replay(tsr_ctx *ctx, session *self) {
    const tsr_record_header *header = tsr_replay_get_header(self->replay);
    tsr_generation generation;
    if (!self->options.has_seed) {
        self->options.has_seed = true;
        self->options.seed = (uint32_t)header->seed;
    }
    if (header->step == 0 || header->generation == 0) {
        TRY(ctx, initialize(ctx, self));
        return check_number(ctx, "step", self->job.position.step, header->step);
    }
    if (!self->options.state_directory)
        FAIL(ctx, TSR_USAGE,
             "the log begins at step %" PRIu64
             ": its replay needs the state directory with generation %" PRIu64,
             header->step, header->generation);
    TRY(ctx, tsr_state_load(ctx, self->model, self->options.state_directory, TSR_RESUME_EXACT,
                            header->generation, &generation));
    if (generation.position.step != header->step)
        FAIL(ctx, TSR_MISMATCH,
             "generation %" PRIu64 " is at step %" PRIu64 "; the log begins at step %" PRIu64,
             generation.number, generation.position.step, header->step);
    self->resumed = true;
    self->replayed_from = header->generation;
    TRY(ctx, check_position(ctx, self, &generation.position));
    if (header->rows) {
        self->job.position.epoch_base = header->epoch_base;
        self->job.position.epoch_base_sample = header->epoch_base_sample;
    }
    return TSR_SUCCESS;
}

static_assert((int)TSR_STORE_READERS_MAX <= (int)TSR_DEVICE_READERS_MAX &&
                  (int)TSR_STORE_READ_BYTES_MAX <= (int)TSR_DEVICE_READ_BYTES_MAX,
              "a device reads what a store asks for");

static tsr_result read_tensor(tsr_ctx *ctx, void *user, unsigned reader, const void *data,
                              size_t size_bytes, const void **out_bytes) {
    return tsr_executor_read_snapshot(ctx, user, reader, data, size_bytes, out_bytes);
}

/* Ranks gather tensors in parts in the host's memory, to which a device copies them. */
static bool saves_from_host(const session *self) {
    for (size_t i = 0; several_ranks(self) && i < self->model->state_count; i++)
        if (self->model->state_parts[i]) return !self->model->device->type->shares_memory;
    return false;
}

static tsr_result recover(tsr_ctx *ctx, session *self) {
    const tsr_train_options *options = &self->options;
    self->parts = TSR_NEW(&self->arena, uint32_t, self->model->state_count + 1);
    if (!self->parts) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", self->model->state_count);
    if (self->model->state_count)
        memcpy(self->parts, self->model->state_parts,
               self->model->state_count * sizeof *self->parts);
    if (several_ranks(self) && !self->model->transport->secondary)
        FAIL(ctx, TSR_INTERNAL, "the transport of %u ranks has no channel for the state store",
             self->model->transport->rank_count);
    tsr_store_options store_options = {
        .size_bytes = sizeof store_options,
        .directory = options->state_directory,
        .bundle_hash = tsr_model_get_digest(self->model),
        .identity = &self->model->hyperparameters.identity,
        .advice = options->advice,
        .numerics = self->model->numerics,
        .keep = options->keep ? options->keep : KEEP_DEFAULT,
        .allow_network_fs = options->allow_network_fs,
        .allow_inexact = options->allow_inexact,
        .event = options->store_event,
        .event_user = options->store_event_user,
        .transport = several_ranks(self) ? self->model->transport->secondary : NULL,
        .region = tsr_program_exported(&self->model->program.entries[self->job.entry]),
        .finite = true,
        .source = {saves_from_host(self) ? NULL : read_tensor, self->model->executor},
        .tensors = self->model->state,
        .tensor_count = self->model->state_count,
        .tensor_parts = self->parts};
    self->model->filled = false; /* recovery overwrites the state */
    TRY(ctx, tsr_executor_fetch(ctx, self->model->executor));
    TRY(ctx, tsr_store_open(ctx, &store_options, options->resume, options->resume_generation,
                            &self->store, &self->recovery));
    self->job.store = self->store;
    if (!self->recovery.found) return initialize(ctx, self);
    const tsr_identity *stored = tsr_store_get_recovered(self->store);
    if (stored)
        TRY(ctx,
            tsr_hyperparameters_take(ctx, self->model, stored, self->recovery.generation.number));
    TRY(ctx, check_position(ctx, self, &self->recovery.generation.position));
    tsr_executor_touch(self->model->executor);
    TRY(ctx, tsr_store_load(ctx, self->store, self->model->state, self->model->state_count));
    self->model->filled = true;
    self->resumed = true;
    return TSR_SUCCESS;
}

/* Saves copy the state, or a rank's part. The model's planned memory is in use once the state has
 * values; page-locked host memory for offloaded values is in use since the model was opened. */
static tsr_result check_memory(tsr_ctx *ctx, const session *self) {
    const tsr_memory_plan *plan = &self->model->plan;
    uint32_t rank_count = several_ranks(self) ? self->model->transport->rank_count : 1;
    bool shares = self->model->device->type->shares_memory;
    uint64_t planned = tsr_memory_plan_host(plan, shares) - (shares ? 0 : plan->offloaded_bytes);
    uint64_t state_bytes = 0, size = 0;
    for (size_t i = 0; i < self->model->state_count; i++) {
        if (tsr_shape_size(&self->model->state[i].shape, self->model->state[i].dtype, &size))
            state_bytes += size; /* the sum cannot overflow */
    }
    uint64_t needed = state_bytes / rank_count + (self->model->filled ? 0 : planned);
    if (self->model->ignore_memory_plan) return TSR_SUCCESS;
    return tsr_memory_check(ctx, "a state directory with asynchronous saves", needed);
}

/* `handler` is 1 + an entry; 0: no handler. */
static tsr_result run_handler(tsr_ctx *ctx, session *self, const char *event, uint32_t handler) {
    uint64_t step = self->job.position.step;
    if (handler == 0) return TSR_SUCCESS;
    const char *name = self->model->config.entries[handler - 1].name;
    tsr_executor_set_seed(self->model->executor, self->job.position.seed);
    tsr_result result = tsr_executor_run(ctx, self->model->executor, handler - 1, step);
    if (result.code) return tsr_error_prefix(ctx, result, "%s handler @%s", event, name);
    tsr_log(ctx, TSR_LOG_WARNING, "%s: ran @%s on the state of step %" PRIu64, event, name, step);
    return tsr_executor_fetch(ctx, self->model->executor);
}

/* Changes that this makes to the state are committed with the next save: once for each event. */
static tsr_result handle_events(tsr_ctx *ctx, session *self) {
    const tsr_program_entry *entry = &self->model->program.entries[self->job.entry];
    TRY(ctx, run_handler(ctx, self, "failure", self->on_failure));
    if (!self->resumed || self->job.position.step >= self->job.last_step) return TSR_SUCCESS;
    return run_handler(ctx, self, "recovery", entry->on_recovery);
}

typedef struct changed {
    uint32_t change, parts;
    tsr_tensor tensor;
} changed;

static int by_change(const void *a, const void *b) {
    uint32_t x = ((const changed *)a)->change, y = ((const changed *)b)->change;
    return (x > y) - (x < y);
}

/* Tensors are copied in the order in which a step writes them, so that it need not wait for the
 * last ones; or in their own order if the device keeps the values that a step overwrites. */
static tsr_result reserve(tsr_ctx *ctx, session *self) {
    const tsr_model *model = self->model;
    changed *state = TSR_NEW(&self->arena, changed, model->state_count + 1);
    tsr_tensor *tensors = TSR_NEW(&self->arena, tsr_tensor, model->state_count + 1);
    uint32_t *changes = TSR_NEW(&self->arena, uint32_t, model->config.tensor_count + 1);
    size_t count = 0;
    bool has_copy = false;
    if (!state || !tensors || !changes)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", model->state_count);
    tsr_program_number_changes(&model->program.entries[self->job.entry], changes);
    for (size_t i = 0; i < model->config.tensor_count; i++) {
        if (model->config.tensors[i].role == TSR_ROLE_CONSTANT) continue;
        state[count] = (changed){changes[i] ? changes[i] : UINT32_MAX, model->state_parts[count],
                                 model->state[count]};
        count++;
    }
    if (!saves_from_host(self))
        TRY(ctx, tsr_executor_ready_snapshot(ctx, model->executor, &has_copy));
    if (!has_copy) qsort(state, count, sizeof *state, by_change);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = state[i].tensor;
        self->parts[i] = state[i].parts;
    }
    TRY(ctx, tsr_executor_ready_readers(ctx, model->executor, TSR_STORE_READERS_MAX));
    return tsr_store_reserve(ctx, self->store, tensors, count);
}

static tsr_result begin_first(tsr_ctx *ctx, session *self) {
    if (self->replay) return begin_replay(ctx, self);
    if (!self->options.state_directory) return initialize(ctx, self);
    TRY(ctx, check_memory(ctx, self));
    TRY(ctx, recover(ctx, self));
    return reserve(ctx, self);
}

/* ---- ranks ---- */

/* Checks that all ranks were given the same options. */
static tsr_result agree_on_run(tsr_ctx *ctx, session *self) {
    tsr_transport *t = self->model->transport;
    tsr_digest bundle = tsr_model_get_digest(self->model);
    if (!t) return TSR_SUCCESS;
    tsr_digest numerics = tsr_hash(self->model->numerics, strlen(self->model->numerics));
    const tsr_train_options *options = &self->options;
    const unsigned char new_data = options->new_data;
    const uint64_t numbers[] = {
        options->steps, options->save_every, options->eval_every, options->has_seed,
        options->seed,  self->job.entry,     self->job.replays,   options->state_directory != NULL};
    TRY(ctx, tsr_agree(ctx, t, "bundles", &bundle, sizeof bundle));
    TRY(ctx, tsr_agree(ctx, t, "numerics", &numerics, sizeof numerics));
    TRY(ctx, tsr_agree(ctx, t, "steps, intervals, seeds, entries and kinds of runs", numbers,
                       sizeof numbers));
    TRY(ctx, tsr_session_agree_on_goal(ctx, self));
    TRY(ctx, tsr_agree(ctx, t, "values of --new-data", &new_data, sizeof new_data));
    TRY(ctx, tsr_agree(ctx, t, "values of --record-every", &options->record_every,
                       sizeof options->record_every));
    TRY(ctx, tsr_hyperparameters_agree(ctx, self->model));
    TRY(ctx, digest_data(ctx, self));
    return tsr_training_data_agree(ctx, t, &self->trained_on);
}

typedef struct begun {
    tsr_position position;
    uint64_t last_step, generation;
} begun;

/* The first rank does not send tensors in parts; each rank reads them from their source. */
static tsr_result begin_parts(tsr_ctx *ctx, session *self, uint64_t generation) {
    tsr_generation read;
    bool sharded = false;
    for (size_t i = 0; i < self->model->state_count; i++)
        sharded = sharded || self->model->state_parts[i];
    if (!sharded) return TSR_SUCCESS;
    if (generation)
        return tsr_state_load(ctx, self->model, self->options.state_directory, TSR_RESUME_EXACT,
                              generation, &read);
    tsr_position position = self->job.position;
    self->options.has_seed = true;
    self->options.seed = (uint32_t)position.seed;
    TRY(ctx, initialize(ctx, self));
    self->job.position = position;
    return TSR_SUCCESS;
}

/* Sends the first rank's results of reading a log to all ranks. */
static tsr_result share_replay(tsr_ctx *ctx, session *self) {
    tsr_transport *t = self->model->transport;
    begun begin = {self->job.position, self->job.last_step, self->replayed_from};
    if (!tsr_session_is_first(self)) TRY(ctx, tsr_executor_claim(ctx, self->model->executor));
    TRY(ctx, tsr_broadcast(ctx, t, 0, &begin, sizeof begin));
    self->job.position = begin.position;
    self->job.last_step = begin.last_step;
    if (!tsr_session_is_first(self)) TRY(ctx, begin_parts(ctx, self, begin.generation));
    for (size_t i = 0; i < self->model->state_count; i++) {
        const tsr_tensor *tensor = &self->model->state[i];
        uint64_t size = 0;
        bool fits = tsr_shape_size(&tensor->shape, tensor->dtype, &size);
        TSR_ASSERT(fits);
        if (self->model->state_parts[i]) continue;
        TRY(ctx, tsr_broadcast(ctx, t, 0, tensor->data, (size_t)size));
    }
    self->model->filled = true;
    return TSR_SUCCESS;
}

/* Files are on each rank's own host. */
static tsr_result agree_on_params(tsr_ctx *ctx, const session *self) {
    bool from_files = self->options.params || self->options.adopt.directory;
    if (!from_files || !several_ranks(self)) return TSR_SUCCESS;
    tsr_sharded_view view = tsr_model_get_sharded_view(self->model);
    tsr_digest state;
    TRY(ctx, tsr_state_scan_hash(ctx, self->model->executor, &view, &state));
    return tsr_agree(ctx, self->model->transport, "states at the beginning", &state, sizeof state);
}

static tsr_result share_hyperparameters(tsr_ctx *ctx, session *self) {
    TRY(ctx, tsr_hyperparameters_share(ctx, self->model));
    if (self->store)
        tsr_store_set_hyperparameters(self->store, &self->model->hyperparameters.identity);
    return TSR_SUCCESS;
}

/* All ranks recover, or initialise, in the same way; a log is read by the first rank. */
static tsr_result begin_state(tsr_ctx *ctx, session *self) {
    tsr_transport *t = self->model->transport;
    uint64_t deadline_ns = t ? t->deadline_ns : 0;
    if (t) {
        t->region = "state";
        t->deadline_ns = 0; /* reading it may take long */
    }
    bool shares = self->job.replays && several_ranks(self);
    bool begins = !shares || tsr_session_is_first(self);
    if (begins) TRY(ctx, begin_first(ctx, self));
    if (!shares) TRY(ctx, share_hyperparameters(ctx, self)); /* handlers read them */
    if (begins) TRY(ctx, handle_events(ctx, self));
    TRY(ctx, shares ? share_replay(ctx, self) : agree_on_params(ctx, self));
    if (shares) TRY(ctx, share_hyperparameters(ctx, self));
    self->model->hyperparameters.store = self->told ? self->store : NULL;
    if (t) t->deadline_ns = deadline_ns;
    return TSR_SUCCESS;
}

/* A log contains digests of whole tensors. */
static tsr_result track_whole(tsr_ctx *ctx, session *self) {
    tsr_sharded_view view = tsr_model_get_sharded_view(self->model);
    for (size_t i = 0; i < view.count && self->job.compares; i++) {
        uint64_t size = 0;
        if (!tsr_sharded_view_is_sharded(&view, i)) continue;
        if (!self->gathered) self->gathered = TSR_NEW(&self->arena, void *, view.count + 1);
        bool fits = tsr_shape_size(&view.tensors[i].shape, view.tensors[i].dtype, &size);
        if (fits && self->gathered)
            self->gathered[i] =
                tsr_arena_alloc(&self->arena, (size_t)size, 1, TSR_BUFFER_ALIGN_BYTES);
        if (!self->gathered || !self->gathered[i])
            FAIL(ctx, TSR_MEMORY, "no memory for the whole of tensor '%s'", view.tensors[i].name);
        TRY(ctx, tsr_sharded_view_gather(ctx, &view, i, self->gathered[i]));
        self->tracked[i].data = self->gathered[i];
    }
    self->job.gathered = self->gathered;
    return TSR_SUCCESS;
}

/* Tensors are in the order in which a step makes them: the first difference is the cause. */
static tsr_result track_evidence(tsr_ctx *ctx, session *self) {
    const tsr_model *model = self->model;
    size_t count = 0;
    TRY(ctx, tsr_evidence_begin(ctx, model->executor, &model->config, &model->program,
                                self->job.entry, model->transport, tsr_session_is_first(self),
                                &self->arena, &self->evidence));
    const tsr_tensor *evidence = tsr_evidence_get_tensors(self->evidence, &count);
    tsr_tensor *all = TSR_NEW(&self->arena, tsr_tensor, count + self->job.tracked_count);
    if (!all) FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", count + self->job.tracked_count);
    memcpy(all, evidence, count * sizeof *all);
    memcpy(all + count, self->job.tracked, self->job.tracked_count * sizeof *all);
    self->job.tracked = all;
    self->job.tracked_count += count;
    self->job.evidence = self->evidence;
    return TSR_SUCCESS;
}

static tsr_result track(tsr_ctx *ctx, session *self) {
    const tsr_config_entry *entry = &self->model->config.entries[self->job.entry];
    size_t count = self->model->state_count;
    self->tracked = TSR_NEW(&self->arena, tsr_tensor, count + entry->output_count);
    if (!self->tracked)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu tensors", count + entry->output_count);
    if (count) memcpy(self->tracked, self->model->state, count * sizeof *self->tracked);
    TRY(ctx, track_whole(ctx, self));
    for (size_t i = 0; i < entry->output_count; i++) {
        const tsr_config_port *port = &entry->outputs[i];
        const char *name = tsr_arena_printf(&self->arena, "output %s", port->name);
        if (!name) FAIL(ctx, TSR_MEMORY, "no memory for the name of output '%s'", port->name);
        void *data = tsr_executor_get_output(self->model->executor, self->job.entry, i);
        self->tracked[count++] = (tsr_tensor){name, port->dtype, port->shape, data};
        /* No step has run yet: a record has zeros for the outputs before the first step. */
        uint64_t size = 0;
        if (tsr_shape_size(&port->shape, port->dtype, &size) && size) memset(data, 0, (size_t)size);
    }
    self->job.tracked = self->tracked;
    self->job.tracked_count = count;
    return self->job.compares ? track_evidence(ctx, self) : TSR_SUCCESS;
}

static tsr_result begin_log(tsr_ctx *ctx, session *self) {
    TRY(ctx, track(ctx, self));
    if (self->job.compares) TRY(ctx, tsr_executor_fetch(ctx, self->model->executor));
    TRY(ctx, tsr_locations_set(ctx, self->replay, &self->model->config, &self->model->program,
                               self->job.entry, self->job.tracked, self->job.tracked_count,
                               &self->arena));
    if (!self->options.record) return TSR_SUCCESS;
    tsr_record_header header = {.seed = self->job.position.seed,
                                .step = self->job.position.step,
                                .rows = self->job.position.rows,
                                .epoch_base = self->job.position.epoch_base,
                                .epoch_base_sample = self->job.position.epoch_base_sample,
                                .generation =
                                    self->recovery.found ? self->recovery.generation.number : 0,
                                .epoch = self->recovery.found ? self->recovery.generation.epoch : 0,
                                .every = self->options.record_every,
                                .has_values = self->options.records_values,
                                .values_of = self->options.values_of,
                                .data_count = self->digest_count,
                                .data = self->digests};
    tsr_log_describe(self->model, self->job.entry, &header);
    TRY(ctx, tsr_recorder_create(ctx, self->options.record, &header, self->job.tracked,
                                 self->job.tracked_count, &self->recorder));
    self->job.recorder = self->recorder;
    return TSR_SUCCESS;
}

static void fill_job(session *self) {
    const tsr_train_options *options = &self->options;
    self->job.config = &self->model->config;
    self->job.executor = self->model->executor;
    self->job.transport = self->model->transport;
    self->job.eval_every = options->eval_every;
    self->job.record_every = options->record_every;
    self->job.save_every = options->save_every;
    self->job.state = self->model->state;
    self->job.state_count = self->model->state_count;
    self->job.state_parts = self->model->state_parts;
    self->job.planned_bytes = self->model->plan.total_bytes + self->model->plan.offloaded_bytes;
    self->job.resident_before = self->model->resident_before;
    self->job.last_step = options->steps;
    self->job.callbacks = options->callbacks;
    if (!tsr_session_is_first(self)) self->job.callbacks.ranks = NULL;
    self->job.stop = options->stop;
    self->job.finite = self->model->finite;
}

/* Called after the position is known. */
static tsr_result begin_data(tsr_ctx *ctx, session *self) {
    if (self->options.verify_data) TRY(ctx, digest_data(ctx, self));
    self->job.identify = tsr_training_data_identify;
    self->job.identify_user = &self->trained_on;
    TRY(ctx,
        tsr_training_data_begin(ctx, &self->trained_on, self->store != NULL, &self->job.position));
    if (!several_ranks(self)) return TSR_SUCCESS;
    return tsr_position_agree(ctx, self->model->transport, &self->job.position);
}

tsr_result tsr_session_begin(tsr_ctx *ctx, session *self) {
    fill_job(self);
    tsr_hyperparameters_begin(self->model);
    if (self->options.steps == 0 && !self->options.replay)
        FAIL(ctx, TSR_USAGE, "steps is 0; expected at least 1");
    TRY(ctx, tsr_session_bind_data(ctx, self));
    self->job.replays = self->options.replay != NULL;
    self->job.compares = self->options.replay || self->options.record;
    if (!tsr_session_is_first(self)) {
        self->options.record = self->options.replay = NULL;
        self->options.records_values = false;
    }
    TRY(ctx, agree_on_run(ctx, self));
    TRY(ctx, open_log(ctx, self));
    TRY(ctx, begin_state(ctx, self));
    TRY(ctx, tsr_session_begin_goal(ctx, self));
    TRY(ctx, begin_data(ctx, self));
    TRY(ctx, begin_log(ctx, self));
    if (self->options.begun)
        self->options.begun(self->options.callbacks.user, &self->recovery, &self->job.position);
    self->model->untrained = false;
    return TSR_SUCCESS;
}

tsr_result tsr_session_finish(tsr_ctx *ctx, session *self, tsr_result result) {
    /* The earlier error is the one reported. */
    tsr_ctx closing = tsr_ctx_fork(ctx);
    tsr_result closed = tsr_recorder_close(&closing, self->recorder);
    if (closed.code && !result.code) result = tsr_error_adopt(ctx, &closing);
    tsr_replay_close(self->replay);
    tsr_evidence_end(self->evidence);
    self->model->hyperparameters.store = NULL;
    tsr_store_close(&closing, self->store);
    tsr_training_data_close(&closing, &self->trained_on);
    tsr_dataset_close(&closing, self->data);
    tsr_dataset_close(&closing, self->eval_data);
    tsr_arena_finish(&self->arena);
    return result;
}

/* Returns the region whose failure restarts the run at the last committed state, or NULL. */
static const tsr_program_region *find_restart(const session *self, tsr_result result,
                                              const tsr_train_summary *summary, uint32_t restarts) {
    const tsr_train_options *options = &self->options;
    /* If the step after the committed state was not finite, it would not be finite again. */
    if (!result.code || !self->store || options->record || summary->saves.nonfinite.found)
        return NULL;
    const tsr_program_region *region = tsr_executor_get_failed_region(self->model->executor);
    bool restarts_then = region && region->mode == TSR_REGION_RESTART;
    return restarts_then && restarts + 1 < TSR_REGION_ATTEMPTS_MAX ? region : NULL;
}

/* Either all ranks restart, or none. *saved: something was committed since the last time. */
static bool agree_on_restart(const tsr_ctx *ctx, const session *self, bool restarts, bool *saved) {
    tsr_transport *t = self->model->transport;
    tsr_ctx apart = tsr_ctx_fork(ctx);
    unsigned char flags[TSR_TRANSPORT_RANKS_MAX];
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    bool all = true;
    if (!several_ranks(self) || !tsr_executor_get_failed_region(self->model->executor))
        return restarts;
    for (uint32_t r = 0; r <= t->rank_count; r++) first_byte[r] = r;
    flags[t->rank] = (unsigned char)(restarts ? 1 + *saved : 0);
    t->deadline_ns = 0; /* deadlines learned from steps do not apply to the following operations */
    if (tsr_all_gather(&apart, t, flags, first_byte).code) return false;
    for (uint32_t r = 0; r < t->rank_count; r++) all = all && flags[r];
    *saved = flags[0] > 1;
    return all;
}

tsr_result tsr_session_run(tsr_ctx *ctx, tsr_model *model, tsr_train_options copied,
                           tsr_train_summary *out_summary) {
    uint32_t on_failure = 0, restarts = 0; /* restarts without a save in between */
    for (;;) {
        session self = {.model = model, .options = copied, .on_failure = on_failure};
        *out_summary = (tsr_train_summary){0};
        tsr_executor_forget_failed_region(model->executor);
        tsr_result result = tsr_session_begin(ctx, &self);
        if (!result.code) result = tsr_train_run(ctx, &self.job, out_summary);
        const tsr_program_region *region = find_restart(&self, result, out_summary, restarts);
        bool saved = out_summary->saves.committed_count > 0;
        if (result.code && !agree_on_restart(ctx, &self, region != NULL, &saved)) region = NULL;
        if (region)
            tsr_log(ctx, TSR_LOG_WARNING, "%s; the run resumes from the last committed state",
                    ctx->error.text);
        result = tsr_session_finish(ctx, &self, result);
        if (!region) return result;
        restarts = saved ? 1 : restarts + 1;
        on_failure = region->on_failure;
        copied.resume = TSR_RESUME_AUTO;
        /* The committed state belongs to the new data, even if the data could not be hashed. */
        if (saved) copied.new_data = false;
    }
}
