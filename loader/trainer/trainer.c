/* SPDX-License-Identifier: Apache-2.0
 *
 * A trainer: a session whose loop is run by the caller, with the caller's batches.
 */
#include "tessera/trainer.h"

#include "loader/session.h"
#include "loader/trainer/batch.h"
#include "loader/use.h"
#include "runtime/base/options.h"

#include <inttypes.h>
#include <stdlib.h>

struct tsr_trainer {
    tsr_model *model;
    tsr_use use; /* until the trainer is closed */
    tsr_session session;
    tsr_told_data told;
    tsr_train_summary summary;
    tsr_train_steps *steps; /* owned */
    tsr_batch batch;        /* of the current step */
    tsr_draw draw;
    uint64_t change_count; /* of the executor, when the state was last known to the loop */
    size_t output_count;
    tsr_tensor outputs[TSR_CONFIG_PORTS_MAX]; /* views of the executor's memory */
};

/* ---- open and close ---- */

static tsr_train_options to_train_options(const tsr_trainer_options *given) {
    return (tsr_train_options){.size_bytes = sizeof(tsr_train_options),
                               .entry = given->entry,
                               .steps = UINT64_MAX,
                               .has_seed = given->has_seed,
                               .seed = given->seed,
                               .state_directory = given->state_directory,
                               .save_every = given->save_every,
                               .keep = given->keep,
                               .resume = given->resume,
                               .resume_generation = given->resume_generation,
                               .allow_network_fs = given->allow_network_fs,
                               .allow_inexact = given->allow_inexact,
                               .params = given->params,
                               .adopt = given->adopt,
                               .new_data = given->new_data,
                               .callbacks = {.user = given->callbacks.user,
                                             .step = given->callbacks.step,
                                             .saved = given->callbacks.saved},
                               .store_event = given->store_event,
                               .store_event_user = given->store_event_user};
}

static void view_outputs(tsr_trainer *self) {
    size_t index = self->session.job.entry;
    const tsr_config_entry *entry = &self->model->config.entries[index];
    for (size_t i = 0; i < entry->output_count; i++) {
        const tsr_config_port *port = &entry->outputs[i];
        if (port->watched) continue;
        self->outputs[self->output_count++] =
            (tsr_tensor){port->name, port->dtype, port->shape,
                         tsr_executor_get_output(self->model->executor, index, i)};
    }
}

static tsr_result open_stages(tsr_ctx *ctx, tsr_trainer *self) {
    tsr_session *session = &self->session;
    TRY(ctx, tsr_session_begin(ctx, session));
    session->job.batch = tsr_batch_read;
    session->job.batch_user = &self->batch;
    TRY(ctx, tsr_train_open(ctx, &session->job, &self->summary, &self->steps));
    /* A recovered state is saved already, unless a handler may have changed it. */
    if (!session->recovery.found || self->model->program.entries[session->job.entry].on_recovery)
        tsr_train_touch(self->steps);
    self->change_count = tsr_executor_count_changes(self->model->executor);
    view_outputs(self);
    return TSR_SUCCESS;
}

static tsr_result finish(tsr_ctx *ctx, tsr_trainer *self, tsr_result result) {
    tsr_train_close(self->steps);
    result = tsr_session_finish(ctx, &self->session, result);
    tsr_use_end(self->model, &self->use);
    free(self->draw.table);
    free(self);
    return result;
}

tsr_result tsr_trainer_open(tsr_ctx *ctx, tsr_model *model, const tsr_trainer_options *options,
                            tsr_trainer **out_trainer) {
    tsr_trainer_options given;
    TRY(ctx, tsr_options_copy(ctx, "tsr_trainer_options", options, &given, sizeof given));
    tsr_trainer *self = calloc(1, sizeof *self);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for a trainer of '%s'", model->config.name);
    tsr_result used = tsr_use_begin(ctx, model, TSR_USE_TRAINER, 0, &self->use);
    if (used.code) {
        free(self);
        return used;
    }
    self->model = model;
    self->draw.position = &self->summary.position;
    self->told = (tsr_told_data){given.rows, given.data};
    self->session =
        (tsr_session){.model = model, .options = to_train_options(&given), .told = &self->told};
    tsr_result result = open_stages(ctx, self);
    if (result.code) return finish(ctx, self, result);
    *out_trainer = self;
    return TSR_SUCCESS;
}

void tsr_trainer_close(tsr_ctx *ctx, tsr_trainer *trainer) {
    if (!trainer) return;
    if (tsr_use_is_forked(trainer->model)) {
        tsr_log(
            ctx, TSR_LOG_NOTICE,
            "the trainer of '%s' was opened before this process was forked: it stays open in the "
            "other process",
            trainer->model->config.name);
        return;
    }
    if (trainer->model->use != &trainer->use) {
        tsr_log(ctx, TSR_LOG_ERROR,
                "the model '%s' is in use: its trainer cannot be closed from a callback",
                trainer->model->config.name);
        return;
    }
    tsr_ctx closing = tsr_ctx_fork(ctx);
    if (finish(&closing, trainer, TSR_SUCCESS).code)
        tsr_log(ctx, TSR_LOG_ERROR, "closing a trainer: %s", closing.error.text);
}

tsr_model *tsr_trainer_get_model(const tsr_trainer *trainer, size_t *out_entry) {
    *out_entry = trainer->session.job.entry;
    return trainer->model;
}

const tsr_position *tsr_trainer_get_position(const tsr_trainer *trainer) {
    return &trainer->summary.position;
}
const tsr_recovery *tsr_trainer_get_recovery(const tsr_trainer *trainer) {
    return &trainer->session.recovery;
}
const tsr_save_status *tsr_trainer_get_saves(const tsr_trainer *trainer) {
    return &trainer->summary.saves;
}
const tsr_tensor *tsr_trainer_get_outputs(const tsr_trainer *trainer, size_t *out_count) {
    *out_count = trainer->output_count;
    return trainer->outputs;
}

/* ---- steps ---- */

/* Refuses a trainer whose state may hold a part of a step. */
static tsr_result check_whole(tsr_ctx *ctx, const tsr_trainer *self) {
    if (tsr_train_is_whole(self->steps)) return TSR_SUCCESS;
    FAIL(ctx, TSR_USAGE,
         "step %" PRIu64 " of '%s' failed, and the state may hold a part of it; expected the "
         "trainer to be closed, and another opened on the last committed state",
         self->summary.position.step + 1, self->model->config.name);
}

/* Writes to tensors since the last step or save belong to the state that is saved next. */
static void note_writes(tsr_trainer *self) {
    uint64_t count = tsr_executor_count_changes(self->model->executor);
    if (count != self->change_count) tsr_train_touch(self->steps);
    self->change_count = count;
}

static tsr_result make_step(tsr_ctx *ctx, tsr_trainer *self, uint64_t last_step) {
    self->session.job.last_step = last_step;
    if (self->model->transport && self->model->hyperparameters.changed)
        TRY(ctx, tsr_hyperparameters_agree(ctx, self->model));
    note_writes(self);
    TRY(ctx, tsr_train_step(ctx, self->steps));
    if (self->summary.stopped) return TSR_SUCCESS;
    return tsr_batch_write(ctx, &self->batch);
}

static tsr_result step_on(tsr_ctx *ctx, tsr_trainer *trainer, const tsr_view *inputs,
                          size_t input_count, const tsr_view *outputs, size_t output_count,
                          tsr_draw *draw) {
    tsr_use use;
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, tsr_use_begin(ctx, trainer->model, TSR_USE_STEP, 0, &use));
    TRY_GOTO(ctx, result, check_whole(ctx, trainer));
    if (draw) TRY_GOTO(ctx, result, tsr_draw_begin(ctx, trainer->model, draw));
    TRY_GOTO(ctx, result,
             tsr_batch_match(ctx, trainer->model, trainer->session.job.entry, inputs, input_count,
                             outputs, output_count, draw, &trainer->batch));
    TRY_GOTO(ctx, result, make_step(ctx, trainer, trainer->summary.position.step + 1));
done:
    tsr_use_end(trainer->model, &use);
    return result;
}

tsr_result tsr_trainer_step(tsr_ctx *ctx, tsr_trainer *trainer, const tsr_view *inputs,
                            size_t input_count, const tsr_view *outputs, size_t output_count) {
    return step_on(ctx, trainer, inputs, input_count, outputs, output_count, NULL);
}

tsr_result tsr_trainer_step_drawn(tsr_ctx *ctx, tsr_trainer *trainer, const tsr_view *inputs,
                                  size_t input_count, const tsr_view *outputs,
                                  size_t output_count) {
    return step_on(ctx, trainer, inputs, input_count, outputs, output_count, &trainer->draw);
}

static tsr_result run_next(tsr_ctx *ctx, tsr_trainer *self, const tsr_trainer_run_options *options,
                           bool *out_end) {
    size_t entry = self->session.job.entry;
    tsr_view inputs[TSR_CONFIG_PORTS_MAX];
    size_t count = tsr_batch_list_inputs(&self->model->config.entries[entry], inputs);
    TRY(ctx,
        options->batch(ctx, options->batch_user, &self->summary.position, inputs, count, out_end));
    if (*out_end) return TSR_SUCCESS;
    TRY(ctx, tsr_batch_match(ctx, self->model, entry, inputs, count, NULL, 0, NULL, &self->batch));
    TRY(ctx, make_step(ctx, self, options->steps));
    *out_end = self->summary.stopped; /* another rank may have been asked to stop */
    return TSR_SUCCESS;
}

tsr_result tsr_trainer_run(tsr_ctx *ctx, tsr_trainer *trainer,
                           const tsr_trainer_run_options *options) {
    tsr_trainer_run_options given;
    tsr_use use;
    bool end = false;
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, tsr_options_copy(ctx, "tsr_trainer_run_options", options, &given, sizeof given));
    if (!given.batch) FAIL(ctx, TSR_USAGE, "a run of a trainer has no batch function");
    TRY(ctx, tsr_use_begin(ctx, trainer->model, TSR_USE_STEP, 0, &use));
    TRY_GOTO(ctx, result, check_whole(ctx, trainer));
    trainer->session.job.stop = given.stop;
    while (!end && trainer->summary.position.step < given.steps)
        TRY_GOTO(ctx, result, run_next(ctx, trainer, &given, &end));
done:
    trainer->session.job.stop = NULL;
    tsr_use_end(trainer->model, &use);
    return result;
}

static tsr_result save(tsr_ctx *ctx, tsr_trainer *self, tsr_generation *out_generation) {
    const tsr_session *session = &self->session;
    TRY(ctx, check_whole(ctx, self));
    if (!session->store)
        FAIL(ctx, TSR_USAGE, "the trainer of '%s' has no state directory: nothing can be saved",
             self->model->config.name);
    note_writes(self);
    TRY(ctx, tsr_train_save(ctx, self->steps, out_generation != NULL));
    if (!out_generation) return TSR_SUCCESS;
    const tsr_save_status *saves = &self->summary.saves;
    *out_generation = saves->committed_count ? saves->last_committed : session->recovery.generation;
    return TSR_SUCCESS;
}

tsr_result tsr_trainer_save(tsr_ctx *ctx, tsr_trainer *trainer, tsr_generation *out_generation) {
    tsr_use use;
    TRY(ctx, tsr_use_begin(ctx, trainer->model, TSR_USE_STEP, 0, &use));
    tsr_result result = save(ctx, trainer, out_generation);
    tsr_use_end(trainer->model, &use);
    return result;
}
