/* SPDX-License-Identifier: Apache-2.0
 *
 * The best generation of a training run: the metric that was asked for, or the one that the resumed
 * state has.
 */
#include "loader/session.h"
#include "runtime/transport/collective.h"

#include <inttypes.h>
#include <string.h>

static const char none[] = "none";

static bool asks_for_none(const tsr_session *self) {
    return self->options.keep_best && strcmp(self->options.keep_best, none) == 0;
}

static tsr_result find(tsr_ctx *ctx, const tsr_session *self, const char *metric, bool stored,
                       tsr_goal *out_goal) {
    const tsr_train_job *job = &self->job;
    const tsr_goal_scope scope = {.train = job->entry,
                                  .eval = self->eval_data ? job->eval_entry : TSR_GOAL_NO_ENTRY,
                                  .stored = stored};
    TRY(ctx, tsr_goal_find(ctx, job->config, &scope, metric, out_goal));
    out_goal->patience = self->options.stop_after;
    return TSR_SUCCESS;
}

/* The goal of the metric in a state; a notice if this run cannot judge it. */
static void find_stored(const tsr_ctx *ctx, const tsr_session *self, const char *metric,
                        tsr_goal *goal) {
    tsr_ctx apart = tsr_ctx_fork(ctx);
    if (metric[0] && find(&apart, self, metric, true, goal).code)
        tsr_log(ctx, TSR_LOG_NOTICE,
                "the state keeps the best generation, but nothing is judged: %s", apart.error.text);
}

/* Checks the options that need a goal, or data of an evaluation. */
static tsr_result check_needs(tsr_ctx *ctx, const tsr_session *self, bool judges) {
    const tsr_train_options *options = &self->options;
    if (options->stop_after && !judges)
        FAIL(ctx, TSR_USAGE,
             "to stop after %" PRIu64 " evaluations without gain needs the metric of "
             "the best generation: --keep-best",
             options->stop_after);
    if (options->eval_every && !self->eval_data && !judges)
        FAIL(ctx, TSR_USAGE,
             "evaluation every %" PRIu64 " steps needs an eval entry with its data bound",
             options->eval_every);
    return TSR_SUCCESS;
}

/* Before the state directory is opened, which would change it: does the state that is there have a
 * metric that this run can judge? An error is reported when the directory is opened. */
static bool has_stored_goal(const tsr_ctx *ctx, const tsr_session *self) {
    const tsr_train_options *options = &self->options;
    tsr_ctx silent = tsr_ctx_fork(ctx);
    tsr_goal goal = {.exists = false};
    tsr_best best;
    silent.log = NULL;
    if (!options->state_directory || options->replay) return false;
    if (!tsr_session_is_first(self)) return true; /* the directory may be on another host */
    if (tsr_store_peek_best(&silent, options->state_directory, options->resume,
                            options->resume_generation, &best)
            .code)
        return true;
    find_stored(ctx, self, best.metric, &goal);
    return goal.exists;
}

tsr_result tsr_session_check_goal(tsr_ctx *ctx, tsr_session *self) {
    const tsr_train_options *options = &self->options;
    bool asks = options->keep_best && !asks_for_none(self);
    if (options->stop_after && asks_for_none(self))
        FAIL(ctx, TSR_USAGE,
             "training cannot stop after %" PRIu64 " evaluations without gain: no "
             "best generation is kept",
             options->stop_after);
    if (options->keep_best && !options->state_directory)
        FAIL(ctx, TSR_USAGE,
             "the best generation by '%s' needs a state directory, in which it is "
             "kept",
             options->keep_best);
    if (asks) TRY(ctx, find(ctx, self, options->keep_best, false, &self->job.goal));
    bool needs = options->stop_after || (options->eval_every && !self->eval_data);
    if (!needs || asks) return TSR_SUCCESS;
    return check_needs(ctx, self, !options->keep_best && has_stored_goal(ctx, self));
}

tsr_result tsr_session_agree_on_goal(tsr_ctx *ctx, const tsr_session *self) {
    const tsr_train_options *options = &self->options;
    const char *metric = self->job.goal.exists ? self->job.goal.metric
                         : options->keep_best  ? options->keep_best
                                               : "";
    struct goal {
        tsr_digest metric;
        uint64_t stop_after;
    } goal = {tsr_hash(metric, strlen(metric)), options->stop_after};
    return tsr_agree(ctx, self->model->transport, "values of --keep-best and --stop-after", &goal,
                     sizeof goal);
}

static void tell_change(const tsr_ctx *ctx, const tsr_session *self, const char *stored) {
    if (stored[0])
        tsr_log(
            ctx, TSR_LOG_NOTICE, "generation %" PRIu64 " keeps the best by %s; this run keeps %s%s",
            self->recovery.generation.number, stored, asks_for_none(self) ? none : "the best by ",
            asks_for_none(self) ? "" : self->job.goal.metric);
}

tsr_result tsr_session_begin_goal(tsr_ctx *ctx, tsr_session *self) {
    const tsr_train_options *options = &self->options;
    const tsr_goal *goal = &self->job.goal;
    tsr_best *best = &self->job.position.best;
    self->job.judged = options->judged;
    if (!self->store) { /* a replay */
        *best = (tsr_best){.generation = 0};
        self->job.goal.exists = false;
    } else if (self->told) {
        /* A trainer has no last step and no evaluation: it judges nothing and keeps the best. */
    } else if (options->keep_best && strcmp(goal->metric, best->metric) != 0) {
        tell_change(ctx, self, best->metric);
        *best = (tsr_best){.generation = 0};
        memcpy(best->metric, goal->metric, sizeof best->metric); /* empty: none */
    } else if (!options->keep_best) {
        find_stored(ctx, self, best->metric, &self->job.goal);
    }
    return check_needs(ctx, self, self->job.goal.exists);
}
