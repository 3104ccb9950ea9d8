/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train.h"

#include "runtime/base/clock.h"
#include "runtime/base/plural.h"
#include "runtime/base/trace/trace.h"
#include "runtime/exec/state_scan.h"
#include "runtime/transport/collective.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    const tsr_train_job *job;
    const tsr_config_entry *entry;
    tsr_train_summary *summary;
    tsr_tensor outputs[TSR_CONFIG_PORTS_MAX], reported[TSR_CONFIG_PORTS_MAX];
    size_t reported_count; /* outputs that are not only watched */
    const char *eval_names[TSR_CONFIG_PORTS_MAX];
    uint64_t steps_timed, deadline_ns; /* deadline_ns: for waits for other ranks */
    uint64_t saves_reported;
    bool whole;                      /* the state belongs to summary->position */
    bool unsaved;                    /* the last save that began has another state */
    bool together;                   /* all ranks stop here, with intact states of the same step */
    bool told[TSR_CONFIG_PORTS_MAX]; /* outputs whose first non-finite value was logged */
    uint64_t sent_bytes;             /* bytes that the last step sent */
    tsr_digest *digests; /* owned; digests of the last state's tensors; NULL: not computed yet */
    tsr_nonfinite nonfinite; /* first non-finite value of the last state */
    double began;
    double waited; /* time that the last save waited for the save before it */
    double mean;   /* of the goal's output, in the last evaluation; only on ranks that evaluate */
} run;

/* Collects the buffers of the data ports, in order. */
static void collect_inputs(const tsr_config *config, const tsr_executor *executor, size_t entry,
                           uint32_t vrank, void **out_inputs) {
    const tsr_config_entry *ports = &config->entries[entry];
    size_t count = 0;
    for (size_t i = 0; i < ports->input_count; i++)
        if (ports->inputs[i].source == TSR_PORT_DATA)
            out_inputs[count++] = tsr_executor_get_vrank_input(executor, entry, i, vrank);
}

/* The sign of a NaN has no meaning for the reader. */
static double without_sign_of_nan(double value) { return isnan(value) ? (double)NAN : value; }

static tsr_result refuse_nonfinite(tsr_ctx *ctx, const char *what, bool is_scalar,
                                   const tsr_nonfinite *found) {
    uint64_t element = found->element, step = found->step;
    if (is_scalar)
        FAIL(ctx, TSR_NONFINITE, "%s '%s' is %g at step %" PRIu64 "; expected a finite number",
             what, found->tensor, found->value, step);
    FAIL(ctx, TSR_NONFINITE,
         "%s '%s' has %g at element %" PRIu64 " at step %" PRIu64 "; expected finite numbers", what,
         found->tensor, found->value, element, step);
}

static bool is_scalar(const tsr_tensor *tensor) { return tensor->shape.rank == 0; }

static tsr_result check_outputs(tsr_ctx *ctx, run *self, uint64_t step) {
    tsr_finite_mode mode = self->job->finite;
    for (size_t i = 0; i < self->entry->output_count && mode != TSR_FINITE_OFF; i++) {
        const tsr_tensor *output = &self->outputs[i];
        tsr_nonfinite found = {.tensor = output->name, .step = step};
        if (self->told[i]) continue;
        found.element = tsr_tensor_find_nonfinite(output, &found.value);
        if (found.element == UINT64_MAX) continue;
        if (mode != TSR_FINITE_WARN)
            return refuse_nonfinite(ctx, "output", is_scalar(output), &found);
        tsr_ctx apart = tsr_ctx_fork(ctx);
        if (refuse_nonfinite(&apart, "output", is_scalar(output), &found).code)
            tsr_log(ctx, TSR_LOG_WARNING, "%s; later values of '%s' are not reported",
                    apart.error.text, output->name);
        self->told[i] = true;
    }
    return TSR_SUCCESS;
}

static tsr_sharded_view view_of(const tsr_train_job *job) {
    return (tsr_sharded_view){job->state, job->state_count, job->state_parts, job->transport};
}

/* Tensors in parts are hashed and saved from the host's memory: ranks gather them there. */
static tsr_result fetch_parts(tsr_ctx *ctx, const run *self) {
    const tsr_sharded_view view = view_of(self->job);
    for (size_t i = 0; i < view.count; i++)
        if (tsr_sharded_view_is_sharded(&view, i))
            return tsr_executor_fetch(ctx, self->job->executor);
    return TSR_SUCCESS;
}

/* ---- ranks ---- */

enum { LEARNED_STEPS = 20, SLACK = 5 };
#define DEADLINE_MIN_NS UINT64_C(2000000000)

static bool is_first(const run *self) {
    return !self->job->transport || self->job->transport->rank == 0;
}

static void say_region(run *self, const char *region) {
    tsr_transport *t = self->job->transport;
    if (!t) return;
    t->region = region;
    t->step = self->summary->position.step + 1;
}

/* A rank counts as hung if others wait for it longer than SLACK times the longest step measured. */
static void learn_deadline(run *self, double seconds) {
    tsr_transport *t = self->job->transport;
    if (!t || ++self->steps_timed < 2) return; /* the first one warms up */
    uint64_t ns = (uint64_t)(SLACK * seconds * 1e9);
    if (ns > self->deadline_ns) self->deadline_ns = ns;
    if (self->steps_timed < LEARNED_STEPS) return;
    t->deadline_ns = self->deadline_ns > DEADLINE_MIN_NS ? self->deadline_ns : DEADLINE_MIN_NS;
}

static bool is_asked_to_stop(const run *self) { return self->job->stop && *self->job->stop; }

/* All ranks stop at the same step if any rank was asked to stop. If one failed without damage to
 * the state, all stop there, so that the state can be saved. */
static tsr_result meet(tsr_ctx *ctx, run *self, const char *region, tsr_result own,
                       bool *out_stop) {
    enum { GO_ON, STOP, FAILED };
    tsr_transport *t = self->job->transport;
    tsr_ctx aside = tsr_ctx_fork(ctx);
    unsigned char flags[TSR_TRANSPORT_RANKS_MAX];
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    bool stop = is_asked_to_stop(self);
    *out_stop = stop;
    if (!t || t->rank_count == 1) return own;
    say_region(self, region);
    for (uint32_t r = 0; r <= t->rank_count; r++) first_byte[r] = r;
    flags[t->rank] = own.code ? FAILED : stop ? STOP : GO_ON;
    tsr_result met = tsr_all_gather(own.code ? &aside : ctx, t, flags, first_byte);
    self->together = !met.code && memchr(flags, FAILED, t->rank_count);
    if (own.code || met.code) return own.code ? own : met;
    for (uint32_t r = 0; r < t->rank_count; r++) {
        if (flags[r] == FAILED)
            FAIL(ctx, TSR_RANK, "rank %u failed in region '%s' at step %" PRIu64, r, region,
                 t->step);
        *out_stop = *out_stop || flags[r] == STOP;
    }
    return TSR_SUCCESS;
}

/* The other ranks wait, without a time limit, for work that only the first rank does. */
static tsr_result wait_for_first(tsr_ctx *ctx, run *self, const char *region, tsr_result own) {
    tsr_transport *t = self->job->transport;
    bool stop;
    if (!t) return own;
    uint64_t deadline_ns = t->deadline_ns;
    t->deadline_ns = 0;
    tsr_result result = meet(ctx, self, region, own, &stop);
    t->deadline_ns = deadline_ns;
    return result;
}

/* ---- saves ---- */

static void report_saves(run *self, const tsr_save_status *store_status) {
    tsr_save_status *status = &self->summary->saves;
    *status = *store_status;
    status->stall_seconds += self->waited;
    if (status->committed_count == self->saves_reported) return;
    self->saves_reported = status->committed_count;
    const tsr_train_callbacks *callbacks = &self->job->callbacks;
    if (callbacks->saved) callbacks->saved(callbacks->user, status);
}

/* Reports a non-finite value that the last save found while it copied the state. */
static tsr_result check_copied(tsr_ctx *ctx, const run *self, const tsr_save_status *status) {
    if (!status->nonfinite.found) return TSR_SUCCESS;
    const tsr_tensor *tensor =
        tsr_tensor_find(self->job->state, self->job->state_count, status->nonfinite.tensor);
    return refuse_nonfinite(ctx, "tensor", tensor && tensor->shape.rank == 0, &status->nonfinite);
}

/* A non-finite state is reported before its consequences in the next step or evaluation. */
static tsr_result check_cause(tsr_ctx *ctx, run *self, tsr_result result) {
    tsr_store *store = self->job->store;
    if (!store) return result;
    if (result.code) tsr_store_wait_copied(store, NULL);
    tsr_save_status status = tsr_store_poll(store);
    report_saves(self, &status);
    tsr_result copied = check_copied(ctx, self, &status);
    return copied.code ? copied : result;
}

static tsr_result check_saves(tsr_ctx *ctx, run *self, const tsr_save_status *status) {
    report_saves(self, status);
    if (status->lost) FAIL(ctx, TSR_RANK, "%s", status->lost);
    TRY(ctx, check_copied(ctx, self, status));
    if (status->outcome_unknown)
        FAIL(ctx, TSR_SAVE,
             "the result of a save is unknown, because its directory could not be synced; the next "
             "run decides");
    if (status->fenced)
        FAIL(ctx, TSR_LOCKED,
             "another run took the state directory over; no further commit is possible");
    if (status->failed_in_a_row >= TSR_SAVES_FAILED_MAX)
        FAIL(ctx, TSR_SAVE, "%u save%s in a row failed; at most %d are tolerated",
             status->failed_in_a_row, TSR_PLURAL(status->failed_in_a_row),
             TSR_SAVES_FAILED_MAX - 1);
    return TSR_SUCCESS;
}

static tsr_result save(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    /* A save begins only when the previous one has finished: its failure is known here. */
    double start = tsr_clock_seconds();
    uint64_t began_ns = tsr_trace_begin(ctx->trace, TSR_TRACK_STEPS);
    tsr_save_status status = tsr_store_wait(job->store);
    TRY(ctx, check_saves(ctx, self, &status));
    self->waited = tsr_clock_seconds() - start;
    tsr_goal_resolve(self->summary->position.step, &status.best, &self->summary->position.best);
    /* The next step may read the state while it is copied (see finish_copy). Otherwise the executor
     * takes a snapshot, which is copied. */
    if (job->identify) job->identify(ctx, job->identify_user, &self->summary->position);
    TRY(ctx, fetch_parts(ctx, self));
    TRY(ctx, tsr_executor_take_snapshot(ctx, job->executor));
    TRY(ctx, tsr_store_save_begin(ctx, job->store, &self->summary->position));
    self->unsaved = false;
    tsr_trace_end(ctx->trace, TSR_TRACK_STEPS, "save", began_ns);
    return check_cause(ctx, self, TSR_SUCCESS);
}

/* The last state must be durable: the save is repeated until it is committed or too many saves have
 * failed. */
static tsr_result save_last(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    uint64_t step = self->summary->position.step;
    tsr_save_status status = tsr_store_wait(job->store);
    TRY(ctx, check_saves(ctx, self, &status));
    bool committed = status.committed_count > 0 && status.last_committed.position.step == step;
    while (!committed && step > job->position.step) {
        TRY(ctx, save(ctx, self));
        status = tsr_store_wait(job->store);
        TRY(ctx, check_saves(ctx, self, &status));
        committed = status.failed_in_a_row == 0;
    }
    return TSR_SUCCESS;
}

static tsr_result evaluate(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    double means[TSR_CONFIG_PORTS_MAX];
    uint64_t step = self->summary->position.step;
    if (!job->eval_data) return TSR_SUCCESS;
    bool together = tsr_executor_exchanges(job->executor, job->eval_entry);
    if (!is_first(self) && !together) return wait_for_first(ctx, self, "evaluation", TSR_SUCCESS);
    uint64_t deadline_ns = job->transport ? job->transport->deadline_ns : 0;
    if (together) {
        say_region(self, "evaluation");
        job->transport->deadline_ns = 0;
    }
    uint64_t began_ns = tsr_trace_begin(ctx->trace, TSR_TRACK_STEPS);
    tsr_result result = tsr_evaluate(ctx, job->config, job->executor, job->eval_entry,
                                     job->eval_data, job->finite, means);
    if (together) job->transport->deadline_ns = deadline_ns;
    if (result.code) result = tsr_error_prefix(ctx, result, "evaluation at step %" PRIu64, step);
    tsr_trace_end(ctx->trace, TSR_TRACK_STEPS, "evaluation", began_ns);
    TRY(ctx, wait_for_first(ctx, self, "evaluation", result));
    tsr_eval_report report = {.step = step,
                              .rows = tsr_dataset_get_row_count(job->eval_data),
                              .names = self->eval_names,
                              .means = means,
                              .count = job->config->entries[job->eval_entry].output_count};
    if (job->goal.exists && job->goal.of_eval) self->mean = means[job->goal.output];
    if (job->callbacks.eval && is_first(self)) job->callbacks.eval(job->callbacks.user, &report);
    return TSR_SUCCESS;
}

static double read_output(const run *self, size_t index) {
    const tsr_tensor *output = &self->outputs[index];
    return tsr_dtype_read(output->dtype, output->data, 0);
}

/* Evaluates, and counts the value of the goal: the same one on all ranks. */
static tsr_result judge(tsr_ctx *ctx, run *self, bool *out_gain) {
    const tsr_train_job *job = self->job;
    const tsr_goal *goal = &job->goal;
    tsr_position *position = &self->summary->position;
    double value = goal->of_eval ? 0 : read_output(self, goal->output);
    TRY(ctx, evaluate(ctx, self));
    if (goal->of_eval) value = self->mean;
    if (job->transport) TRY(ctx, tsr_broadcast(ctx, job->transport, 0, &value, sizeof value));
    /* Whether the last best state was saved decides which value is to be surpassed. */
    tsr_save_status status = tsr_store_wait(job->store);
    tsr_goal_resolve(position->step, &status.best, &position->best);
    *out_gain = tsr_goal_judge(goal, position->step, value, &position->best);
    self->unsaved = true;
    self->summary->without_gain = tsr_goal_is_missed(goal, &position->best);
    if (job->judged && is_first(self)) job->judged(job->callbacks.user, &position->best);
    return TSR_SUCCESS;
}

static tsr_result compare_own(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    uint64_t step = self->summary->position.step;
    if (job->recorder || job->replay) TRY(ctx, tsr_executor_fetch(ctx, job->executor));
    if (job->recorder) TRY(ctx, tsr_recorder_append(ctx, job->recorder, step));
    if (job->replay && tsr_replay_takes(job->replay, step))
        TRY(ctx, tsr_replay_check(ctx, job->replay, step, job->tracked, job->tracked_count));
    return TSR_SUCCESS;
}

/* The first rank compares whole tensors. */
static tsr_result gather_state(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    tsr_sharded_view view = view_of(job);
    for (size_t i = 0; job->gathered && i < job->state_count; i++)
        if (job->gathered[i]) TRY(ctx, tsr_sharded_view_gather(ctx, &view, i, job->gathered[i]));
    return TSR_SUCCESS;
}

static tsr_result compare(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    uint64_t done = self->summary->position.step - job->position.step;
    bool stop;
    if (!job->compares) return TSR_SUCCESS;
    if (!job->replays && job->record_every > 1 && done % job->record_every) return TSR_SUCCESS;
    TRY(ctx, gather_state(ctx, self));
    return meet(ctx, self, self->entry->name, compare_own(ctx, self), &stop);
}

static const char *name_samples(const tsr_config_entry *entry) {
    for (size_t i = 0; i < entry->input_count; i++)
        if (entry->inputs[i].source == TSR_PORT_DATA) return entry->inputs[i].name;
    return "samples";
}

static void report_step(run *self) {
    const tsr_train_job *job = self->job;
    const tsr_train_summary *summary = self->summary;
    if (!job->callbacks.step) return;
    tsr_step_report report = {.step = summary->position.step,
                              .last_step = job->last_step,
                              .first_step = job->position.step,
                              .samples = self->entry->batch,
                              .samples_name = name_samples(self->entry),
                              .outputs = self->reported,
                              .output_count = self->reported_count,
                              .seconds = tsr_clock_seconds() - self->began};
    job->callbacks.step(job->callbacks.user, &report);
}

/* Adds the step, and the row of the data if it is known, to an error: a batch does not show them.
 */
static tsr_result explain(tsr_ctx *ctx, const run *self, tsr_result result) {
    const tsr_position *position = &self->summary->position;
    uint64_t step = position->step + 1;
    uint64_t row =
        result.code == TSR_DATA ? tsr_executor_get_fault_row(self->job->executor) : UINT64_MAX;
    if (row == UINT64_MAX) return tsr_error_prefix(ctx, result, "step %" PRIu64, step);
    if (!self->job->data)
        return tsr_error_prefix(ctx, result, "step %" PRIu64 ", row %" PRIu64 " of the batch", step,
                                row);
    row = tsr_dataset_get_row(self->job->data, (uint32_t)position->seed, position->sample + row);
    return tsr_error_prefix(ctx, result, "step %" PRIu64 ", row %" PRIu64 " of the data", step,
                            row);
}

/* Each virtual rank of this rank gets its rows of the batch. */
static tsr_result read_batch(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    const tsr_position *position = &self->summary->position;
    const tsr_vranks *vranks = tsr_executor_get_vranks(job->executor);
    uint64_t rows = tsr_executor_get_vrank_rows(job->executor, job->entry);
    void *inputs[TSR_CONFIG_PORTS_MAX];
    uint64_t began_ns = tsr_trace_begin(ctx->trace, TSR_TRACK_STEPS);
    for (uint32_t i = 0; i < vranks->count; i++) {
        uint64_t first = tsr_vranks_number(vranks, i) * rows;
        if (!job->data) {
            TRY(ctx, job->batch(ctx, job->batch_user, i, first, rows));
            continue;
        }
        collect_inputs(job->config, job->executor, job->entry, i, inputs);
        TRY(ctx, tsr_dataset_batch(ctx, job->data, (uint32_t)position->seed,
                                   position->sample + first, rows, inputs));
    }
    tsr_trace_end(ctx->trace, TSR_TRACK_STEPS, "data", began_ns);
    return TSR_SUCCESS;
}

static tsr_result compute_step(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    uint64_t step = self->summary->position.step + 1;
    if (job->evidence) TRY(ctx, tsr_evidence_take_batch(ctx, job->evidence));
    self->whole = false;
    uint64_t sent_before = job->transport ? job->transport->sent_bytes : 0;
    tsr_trace_push(ctx->trace, self->entry->name, 0);
    tsr_result result = tsr_executor_run(ctx, job->executor, job->entry, step);
    tsr_trace_pop(ctx->trace);
    if (job->transport) self->sent_bytes = job->transport->sent_bytes - sent_before;
    /* All ranks know that a region failed and that it has ended. */
    if (result.code) self->together = tsr_executor_get_failed_region(job->executor) != NULL;
    if (result.code) return explain(ctx, self, result);
    result = check_outputs(ctx, self, step);
    if (result.code) self->together = true; /* all ranks have the same outputs */
    return result;
}

static tsr_result run_step(tsr_ctx *ctx, run *self) {
    tsr_position *position = &self->summary->position;
    double began = tsr_clock_seconds();
    TRY(ctx, check_cause(ctx, self, compute_step(ctx, self)));
    position->step++;
    position->sample += self->entry->batch;
    self->whole = self->unsaved = true;
    self->summary->step_seconds += tsr_clock_seconds() - began;
    learn_deadline(self, tsr_clock_seconds() - began);
    TRY(ctx, compare(ctx, self));
    report_step(self);
    return TSR_SUCCESS;
}

/* Computes the digests of this rank's part of the state, after its last change. */
static tsr_result scan_state(tsr_ctx *ctx, run *self) {
    tsr_sharded_view view = view_of(self->job);
    if (self->digests) return TSR_SUCCESS;
    tsr_digest *digests = calloc(view.count + 1, sizeof *digests);
    if (!digests) FAIL(ctx, TSR_MEMORY, "no memory to hash %zu tensors", view.count);
    tsr_result result = tsr_state_scan(ctx, self->job->executor, &view, digests, &self->nonfinite);
    if (result.code)
        free(digests);
    else
        self->digests = digests;
    return result;
}

static tsr_result check_state(tsr_ctx *ctx, run *self) {
    TRY(ctx, scan_state(ctx, self));
    if (!self->nonfinite.found) return TSR_SUCCESS;
    const tsr_train_job *job = self->job;
    const tsr_tensor *tensor =
        tsr_tensor_find(job->state, job->state_count, self->nonfinite.tensor);
    self->nonfinite.step = self->summary->position.step;
    return refuse_nonfinite(ctx, "tensor", tensor && tensor->shape.rank == 0, &self->nonfinite);
}

static bool is_due(const run *self, uint64_t every) {
    return every && self->summary->position.step % every == 0;
}

static tsr_result save_traced(tsr_ctx *ctx, run *self) {
    tsr_trace_push(ctx->trace, "save", 0);
    tsr_result saved = save(ctx, self);
    tsr_trace_pop(ctx->trace);
    return saved;
}

/* Runs a step and the actions after it: save, checks of saves, evaluation. With a goal the
 * evaluation comes first, because its outcome is part of the saved state. */
static tsr_result run_next(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    const tsr_position *position = &self->summary->position;
    tsr_result ready =
        is_asked_to_stop(self) ? TSR_SUCCESS : check_cause(ctx, self, read_batch(ctx, self));
    TRY(ctx, meet(ctx, self, self->entry->name, ready, &self->summary->stopped));
    if (self->summary->stopped) return TSR_SUCCESS;
    TRY(ctx, run_step(ctx, self));
    bool is_last = position->step >= job->last_step, gain = false;
    if (job->goal.exists && (is_last || is_due(self, job->eval_every)))
        TRY(ctx, check_cause(ctx, self, judge(ctx, self, &gain)));
    if (job->store && (gain || is_due(self, job->save_every))) TRY(ctx, save_traced(ctx, self));
    if (job->store) {
        tsr_save_status status = tsr_store_poll(job->store);
        TRY(ctx, check_saves(ctx, self, &status));
    }
    if (!job->goal.exists && !is_last && is_due(self, job->eval_every))
        TRY(ctx, check_cause(ctx, self, evaluate(ctx, self)));
    return TSR_SUCCESS;
}

static tsr_result run_traced(tsr_ctx *ctx, run *self) {
    const tsr_trace_detail detail = {.number = self->summary->position.step + 1};
    tsr_trace_step(ctx->trace, detail.number);
    uint64_t began_ns = tsr_trace_begin(ctx->trace, TSR_TRACK_STEPS);
    tsr_trace_push(ctx->trace, "step", detail.number);
    tsr_result result = run_next(ctx, self);
    tsr_trace_pop(ctx->trace);
    if (began_ns && !self->summary->stopped)
        tsr_trace_span(ctx->trace, TSR_TRACK_STEPS, "step", began_ns, tsr_clock_ns(), detail);
    return result;
}

static tsr_result run_steps(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    tsr_position *position = &self->summary->position;
    if (job->replay)
        TRY(ctx,
            tsr_replay_check(ctx, job->replay, position->step, job->tracked, job->tracked_count));
    bool begins_last = position->step >= job->last_step;
    self->summary->without_gain = tsr_goal_is_missed(&job->goal, &position->best);
    while (position->step < job->last_step && !self->summary->without_gain) {
        TRY(ctx, run_traced(ctx, self));
        if (self->summary->stopped) break;
    }
    /* With a goal, the last step was evaluated before it was saved. */
    bool evaluated = job->goal.exists && !begins_last;
    if (job->store)
        TRY(ctx, save_last(ctx, self));
    else
        TRY(ctx, check_state(ctx, self));
    if (!self->summary->stopped && !job->replays && !evaluated) TRY(ctx, evaluate(ctx, self));
    return TSR_SUCCESS;
}

/* Saves the trained state after an error elsewhere, in the data or a log; several ranks save only
 * if all ranks know of the error. */
static void rescue(const tsr_ctx *ctx, run *self, tsr_code code) {
    tsr_ctx apart = tsr_ctx_fork(ctx);
    uint64_t step = self->summary->position.step;
    bool hopeless = code == TSR_NONFINITE || code == TSR_SAVE || code == TSR_LOCKED;
    bool alone = !self->job->transport || self->job->transport->rank_count == 1;
    if (!alone && !self->together) return;
    if (!self->job->store || !self->whole || hopeless) return;
    if (save_last(&apart, self).code)
        tsr_log(ctx, TSR_LOG_WARNING, "the state of step %" PRIu64 " is not saved: %s", step,
                apart.error.text);
    else
        tsr_log(ctx, TSR_LOG_WARNING, "the run ends early; the state of step %" PRIu64 " is saved",
                step);
}

static void begin(run *self) {
    const tsr_train_job *job = self->job;
    self->entry = &job->config->entries[job->entry];
    if (job->data)
        tsr_dataset_set_epoch_base(job->data, job->position.epoch_base,
                                   job->position.epoch_base_sample);
    for (size_t i = 0; i < self->entry->output_count; i++) {
        const tsr_config_port *port = &self->entry->outputs[i];
        self->outputs[i] =
            (tsr_tensor){.name = port->name,
                         .dtype = port->dtype,
                         .shape = port->shape,
                         .data = tsr_executor_get_output(job->executor, job->entry, i)};
        if (!port->watched) self->reported[self->reported_count++] = self->outputs[i];
    }
    const tsr_config_entry *eval = job->eval_data ? &job->config->entries[job->eval_entry] : NULL;
    for (size_t i = 0; eval && i < eval->output_count; i++)
        self->eval_names[i] = eval->outputs[i].name;
    self->began = tsr_clock_seconds();
}

/* The first rank reports the resource use of each rank. */
static tsr_result tell_uses(tsr_ctx *ctx, const run *self) {
    const tsr_train_job *job = self->job;
    tsr_transport *t = job->transport;
    tsr_rank_use uses[TSR_TRANSPORT_RANKS_MAX];
    uint64_t resident = tsr_memory_get_resident();
    if (!t || self->summary->position.step == job->position.step) return TSR_SUCCESS;
    uses[t->rank] = (tsr_rank_use){
        .planned_bytes = job->planned_bytes,
        .saver_bytes = job->store ? tsr_store_get_retained_bytes(job->store) : 0,
        .resident_bytes = resident > job->resident_before ? resident - job->resident_before : 0,
        .planned_sent_bytes = tsr_executor_plan_exchange(job->executor, job->entry),
        .sent_bytes = self->sent_bytes};
    TRY(ctx, tsr_all_gather_each(ctx, t, uses, sizeof *uses));
    if (job->callbacks.ranks)
        job->callbacks.ranks(job->callbacks.user, self->summary->position.step, uses,
                             t->rank_count);
    return TSR_SUCCESS;
}

/* All ranks end with the same state hash. */
static tsr_result finish_state(tsr_ctx *ctx, run *self) {
    const tsr_train_job *job = self->job;
    tsr_sharded_view view = view_of(job);
    tsr_digest *hash = &self->summary->state_hash;
    TRY(ctx, scan_state(ctx, self));
    TRY(ctx, fetch_parts(ctx, self));
    TRY(ctx, tell_uses(ctx, self));
    TRY(ctx, tsr_sharded_view_hash(ctx, &view, self->digests, hash));
    if (!job->transport) return TSR_SUCCESS;
    return tsr_agree(ctx, job->transport, "states at the end", hash, sizeof *hash);
}

/* Called before a tensor of the state is overwritten. */
static void finish_copy(void *user, const void *tensor) { tsr_store_wait_copied(user, tensor); }

static void begin_run(run *self, const tsr_train_job *job, tsr_train_summary *summary) {
    *self = (run){.job = job, .summary = summary};
    *summary = (tsr_train_summary){.position = job->position};
    tsr_executor_set_seed(job->executor, job->position.seed);
    if (job->store) tsr_executor_set_guard(job->executor, finish_copy, job->store);
    begin(self);
}

static void end_run(run *self) {
    const tsr_train_job *job = self->job;
    if (job->store) {
        tsr_save_status status = tsr_store_wait(job->store);
        report_saves(self, &status);
        tsr_goal_resolve(UINT64_MAX, &status.best, &self->summary->position.best);
        tsr_executor_set_guard(job->executor, NULL, NULL);
    }
    self->summary->seconds = tsr_clock_seconds() - self->began;
}

static void tell_others(const tsr_ctx *ctx, const run *self, tsr_result result) {
    if (result.code && self->job->transport && !self->together)
        tsr_transport_fail(self->job->transport, (tsr_code)result.code, ctx->error.text);
}

tsr_result tsr_train_run(tsr_ctx *ctx, const tsr_train_job *job, tsr_train_summary *out_summary) {
    run self;
    begin_run(&self, job, out_summary);
    tsr_result result = run_steps(ctx, &self);
    tell_others(ctx, &self, result);
    if (result.code) rescue(ctx, &self, (tsr_code)result.code);
    end_run(&self);
    if (!result.code) result = finish_state(ctx, &self);
    free(self.digests);
    return result;
}

/* ---- step by step ---- */

struct tsr_train_steps {
    run run;
};

tsr_result tsr_train_open(tsr_ctx *ctx, const tsr_train_job *job, tsr_train_summary *summary,
                          tsr_train_steps **out_steps) {
    tsr_train_steps *steps = calloc(1, sizeof *steps);
    if (!steps) FAIL(ctx, TSR_MEMORY, "no memory to train '%s'", job->config->name);
    begin_run(&steps->run, job, summary);
    steps->run.whole = true;
    *out_steps = steps;
    return TSR_SUCCESS;
}

void tsr_train_close(tsr_train_steps *steps) {
    if (!steps) return;
    end_run(&steps->run);
    free(steps);
}

bool tsr_train_is_whole(const tsr_train_steps *steps) { return steps->run.whole; }

void tsr_train_touch(tsr_train_steps *steps) { steps->run.unsaved = true; }

tsr_result tsr_train_step(tsr_ctx *ctx, tsr_train_steps *steps) {
    TSR_ASSERT(steps->run.whole);
    tsr_executor_forget_failed_region(steps->run.job->executor);
    tsr_result result = run_traced(ctx, &steps->run);
    tell_others(ctx, &steps->run, result);
    return result;
}

static tsr_result save_until_committed(tsr_ctx *ctx, run *self, bool waits) {
    for (;;) {
        tsr_save_status status = tsr_store_wait(self->job->store);
        TRY(ctx, check_saves(ctx, self, &status));
        if (!self->unsaved && status.failed_in_a_row == 0) return TSR_SUCCESS;
        TRY(ctx, save(ctx, self));
        if (!waits) return TSR_SUCCESS;
    }
}

tsr_result tsr_train_save(tsr_ctx *ctx, tsr_train_steps *steps, bool waits) {
    TSR_ASSERT(steps->run.whole && steps->run.job->store);
    tsr_result result = save_until_committed(ctx, &steps->run, waits);
    tell_others(ctx, &steps->run, result);
    return result;
}

/* Adds the first `rows` rows of each output, in order. */
static tsr_result add_rows(tsr_ctx *ctx, const tsr_config_entry *entry,
                           const tsr_executor *executor, size_t index, uint64_t rows,
                           bool needs_finite, double *sums) {
    for (size_t i = 0; i < entry->output_count; i++) {
        const tsr_config_port *port = &entry->outputs[i];
        const void *data = tsr_executor_get_output(executor, index, i);
        uint64_t count = 0, per_row;
        bool fits = tsr_shape_count(&port->shape, &count);
        TSR_ASSERT(fits && entry->batch > 0);
        per_row = count / entry->batch;
        for (uint64_t j = 0; j < rows * per_row; j++) {
            double value = tsr_dtype_read(port->dtype, data, j);
            if (needs_finite && !isfinite(value))
                FAIL(ctx, TSR_NONFINITE,
                     "output '%s' is %g in row %" PRIu64 " of this batch; expected finite numbers",
                     port->name, without_sign_of_nan(value), j / per_row);
            sums[i] += value / (double)per_row;
        }
    }
    return TSR_SUCCESS;
}

tsr_result tsr_evaluate(tsr_ctx *ctx, const tsr_config *config, tsr_executor *executor,
                        size_t entry, tsr_dataset *data, tsr_finite_mode finite,
                        double *out_means) {
    bool needs_finite = finite == TSR_FINITE_DEFAULT || finite == TSR_FINITE_ERROR;
    const tsr_config_entry *ports = &config->entries[entry];
    void *inputs[TSR_CONFIG_PORTS_MAX];
    uint64_t total = tsr_dataset_get_row_count(data);
    TSR_ASSERT(ports->rows_independent && ports->batch > 0 && total > 0);
    collect_inputs(config, executor, entry, 0, inputs);
    memset(out_means, 0, ports->output_count * sizeof *out_means);
    for (uint64_t row = 0; row < total; row += ports->batch) {
        uint64_t count = total - row < ports->batch ? total - row : ports->batch;
        TRY(ctx, tsr_dataset_rows(ctx, data, row, ports->batch, inputs));
        tsr_result result = tsr_executor_run(ctx, executor, entry, 0);
        if (!result.code)
            result = add_rows(ctx, ports, executor, entry, count, needs_finite, out_means);
        if (result.code)
            return tsr_error_prefix(ctx, result, "rows %" PRIu64 " to %" PRIu64, row,
                                    row + count - 1);
    }
    for (size_t i = 0; i < ports->output_count; i++) {
        out_means[i] /= (double)total;
        if (finite == TSR_FINITE_WARN && !isfinite(out_means[i]))
            tsr_log(ctx, TSR_LOG_WARNING, "the mean of output '%s' is %g; expected a finite number",
                    ports->outputs[i].name, without_sign_of_nan(out_means[i]));
    }
    return TSR_SUCCESS;
}
