/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/goal.h"
#include "runtime/store.h"

#include <criterion/criterion.h>
#include <string.h>

/* Three entries: training, and two evaluations with an output of the same name. */
enum { TRAIN, SMALL, LARGE };
static tsr_config_port losses[] = {{.name = "loss"}, {.name = "watched", .watched = true}};
static tsr_config_port scores[] = {{.name = "score", .shape = {1, {8}}},
                                   {.name = "loss", .shape = {1, {8}}}};
static tsr_config_entry entries[] = {
    {.name = "train", .kind = TSR_ENTRY_TRAIN, .output_count = 2, .outputs = losses},
    {.name = "small", .kind = TSR_ENTRY_EVAL, .output_count = 2, .outputs = scores},
    {.name = "large", .kind = TSR_ENTRY_EVAL, .output_count = 2, .outputs = scores}};
static const tsr_config config = {.entry_count = 3, .entries = entries};

static tsr_ctx ctx;

/* Returns the metric with its entry; NULL: it is refused. */
static const char *find(const char *metric, size_t eval, bool stored) {
    static tsr_goal goal;
    const tsr_goal_scope scope = {.train = TRAIN, .eval = eval, .stored = stored};
    ctx = (tsr_ctx){0};
    tsr_result result = tsr_goal_find(&ctx, &config, &scope, metric, &goal);
    if (result.code) cr_assert_eq(result.code, TSR_USAGE, "%s", ctx.error.text);
    return result.code ? NULL : goal.metric;
}

static void must_refuse(const char *metric, size_t eval, bool stored, const char *text) {
    const char *found = find(metric, eval, stored);
    cr_assert_null(found, "'%s' is found as '%s'", metric, found);
    cr_assert_str_eq(ctx.error.text, text);
}

Test(goal, a_metric_has_its_entry_once_it_is_found) {
    cr_assert_str_eq(find("min:loss", SMALL, false), "min:small.loss");
    cr_assert_str_eq(find("min:loss", LARGE, false), "min:large.loss");
    cr_assert_str_eq(find("min:loss", TSR_GOAL_NO_ENTRY, false), "min:train.loss");
    cr_assert_str_eq(find("min:train.loss", SMALL, false), "min:train.loss");
    cr_assert_str_eq(find("max:score", SMALL, false), "max:small.score");
    must_refuse("min:watched", SMALL, false,
                "the metric is 'min:watched'; this run has small.score, small.loss, train.loss");
}

Test(goal, that_of_a_state_means_the_same_output_in_every_run) {
    static const size_t evals[] = {TSR_GOAL_NO_ENTRY, SMALL, LARGE};
    for (size_t i = 0; i < 3; i++)
        cr_assert_str_eq(find("min:train.loss", evals[i], true), "min:train.loss");
    cr_assert_str_eq(find("min:small.loss", SMALL, true), "min:small.loss");
    must_refuse("min:small.loss", LARGE, true,
                "the metric is 'min:small.loss'; this run has large.score, large.loss, train.loss");
    must_refuse("min:small.loss", TSR_GOAL_NO_ENTRY, true,
                "the metric is 'min:small.loss'; this run has train.loss, and no data is bound to "
                "an evaluation");
    must_refuse("min:loss", SMALL, true,
                "the metric is 'min:loss'; this run has small.score, small.loss, train.loss");
}

Test(goal, a_text_that_means_two_outputs_is_refused) {
    losses[0].name = "er.loss"; /* of "small" plus ".er.loss", and of "small.er" plus ".loss" */
    entries[TRAIN].name = "small";
    entries[SMALL].name = "small.er";
    must_refuse("min:loss", SMALL, false,
                "the metric 'min:small.er.loss' means 2 outputs of the program; expected one");
    cr_assert_str_eq(find("max:score", SMALL, false), "max:small.er.score");
}

Test(goal, what_a_token_has_no_room_for_is_refused) {
    static char name[128];
    entries[SMALL].name = name;
    memset(name, 'x', 54); /* min: and .loss are 9 bytes more */
    cr_assert_eq(strlen(find("min:loss", SMALL, false)), TSR_METRIC_MAX - 1);
    name[54] = 'x';
    cr_assert_null(find("min:loss", SMALL, false));
    cr_assert(strstr(ctx.error.text, "64 bytes; expected at most 63"), "%s", ctx.error.text);
}

Test(goal, a_state_stays_the_best_until_it_is_committed) {
    const tsr_goal goal = {.exists = true, .least = true};
    const tsr_best none = {.metric = "min:train.loss"};
    tsr_best best = none, stored = none;
    cr_assert(tsr_goal_judge(&goal, 10, 0.5, &best));
    tsr_goal_resolve(10, &stored, &best); /* not saved yet, or that save failed */
    cr_assert(best.generation == TSR_BEST_ITSELF && best.step == 10);
    tsr_best known = {.metric = "min:train.loss",
                      .evaluated_step = 5,
                      .generation = 3,
                      .epoch = 1,
                      .step = 5,
                      .value = 0.7};
    tsr_goal_resolve(10, &known, &best); /* an earlier one was saved */
    cr_assert(best.generation == TSR_BEST_ITSELF && best.value == 0.5);
    stored = best;
    stored.generation = 6;
    stored.epoch = 1;
    tsr_goal_resolve(10, &stored, &best); /* a second save of the step is not the best itself */
    cr_assert(best.generation == 6 && best.epoch == 1 && best.step == 10 && best.value == 0.5);
    tsr_goal_resolve(11, &known, &best); /* that save failed after all: the store knows */
    cr_assert(best.generation == 3 && best.value == 0.7);
    tsr_best other = {.metric = "max:score"};
    tsr_goal_resolve(12, &known, &other); /* of another metric */
    cr_assert_eq(other.generation, 0);
}
