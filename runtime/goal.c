/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/goal.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/state/best.h"
#include "runtime/store.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Outputs of training are not averaged over rows, so only scalars have a value. */
static bool has_value(const tsr_config_port *port, bool of_eval) {
    return !port->watched && (of_eval || port->shape.rank == 0);
}

static bool is_metric(const tsr_goal *goal, const tsr_config_entry *entry, const char *output) {
    const char *name = goal->metric + sizeof "min:" - 1;
    size_t length = strlen(entry->name);
    return strncmp(name, entry->name, length) == 0 && name[length] == '.' &&
           strcmp(name + length + 1, output) == 0;
}

/* Sets goal->metric to the one of an output. An entry's name may have a dot, too: the text must
 * mean one output of the program, whatever data a later run binds. */
static tsr_result resolve(tsr_ctx *ctx, const tsr_config *config, const tsr_config_entry *entry,
                          const char *metric, tsr_goal *goal) {
    const char *output = entry->outputs[goal->output].name;
    size_t count = 0;
    int size =
        snprintf(goal->metric, sizeof goal->metric, "%.4s%s.%s", metric, entry->name, output);
    if (size < 0 || (size_t)size >= sizeof goal->metric)
        FAIL(ctx, TSR_USAGE,
             "the metric '%s' is of output '%s.%s': stored as '%.4s%s.%s' it has %d bytes; "
             "expected at most %d",
             metric, entry->name, output, metric, entry->name, output, size, TSR_METRIC_MAX - 1);
    for (size_t i = 0; i < config->entry_count; i++)
        for (size_t j = 0; j < config->entries[i].output_count; j++)
            count += is_metric(goal, &config->entries[i], config->entries[i].outputs[j].name);
    if (count > 1)
        FAIL(ctx, TSR_USAGE, "the metric '%s' means %zu outputs of the program; expected one",
             goal->metric, count);
    return TSR_SUCCESS;
}

/* `name` with its entry, or without. */
static bool find_in(const tsr_config *config, size_t index, bool of_eval, const char *name,
                    bool has_entry, tsr_goal *goal) {
    if (index == TSR_GOAL_NO_ENTRY || goal->exists) return goal->exists;
    const tsr_config_entry *entry = &config->entries[index];
    size_t length = strlen(entry->name);
    if (has_entry && (strncmp(name, entry->name, length) != 0 || name[length] != '.')) return false;
    for (size_t i = 0; i < entry->output_count; i++) {
        const tsr_config_port *port = &entry->outputs[i];
        bool same = strcmp(port->name, has_entry ? name + length + 1 : name) == 0;
        if (!same || !has_value(port, of_eval)) continue;
        goal->of_eval = of_eval;
        goal->output = i;
        return goal->exists = true;
    }
    return false;
}

static void list_outputs(const tsr_config *config, size_t index, bool of_eval, tsr_buffer *text) {
    if (index == TSR_GOAL_NO_ENTRY) return;
    const tsr_config_entry *entry = &config->entries[index];
    for (size_t i = 0; i < entry->output_count; i++)
        if (has_value(&entry->outputs[i], of_eval))
            tsr_buffer_printf(text, "%s%s.%s", text->size_bytes ? ", " : "", entry->name,
                              entry->outputs[i].name);
}

tsr_result tsr_goal_find(tsr_ctx *ctx, const tsr_config *config, const tsr_goal_scope *scope,
                         const char *metric, tsr_goal *out_goal) {
    const size_t train = scope->train, eval = scope->eval;
    tsr_goal goal = {.exists = false};
    tsr_buffer known = {0};
    tsr_result result = TSR_SUCCESS;
    const char *wrong = tsr_metric_check(metric);
    if (wrong)
        FAIL(ctx, TSR_USAGE,
             "the metric is '%s'; expected min:NAME or max:NAME of at most %d "
             "bytes: %s",
             metric, TSR_METRIC_MAX - 1, wrong);
    goal.least = metric[1] == 'i';
    for (int has_entry = 1; has_entry >= (int)scope->stored; has_entry--) {
        find_in(config, eval, true, metric + 4, has_entry, &goal);
        find_in(config, train, false, metric + 4, has_entry, &goal);
    }
    if (goal.exists) {
        size_t of = goal.of_eval ? eval : train;
        TRY(ctx, resolve(ctx, config, &config->entries[of], metric, &goal));
        *out_goal = goal;
        return TSR_SUCCESS;
    }
    list_outputs(config, eval, true, &known);
    list_outputs(config, train, false, &known);
    FAIL_GOTO(ctx, result, TSR_USAGE, "the metric is '%s'; this run has %s%s", metric,
              known.size_bytes ? known.bytes : "no output with a value",
              eval == TSR_GOAL_NO_ENTRY ? ", and no data is bound to an evaluation" : "");
done:
    tsr_buffer_finish(&known);
    return result;
}

bool tsr_goal_judge(const tsr_goal *goal, uint64_t step, double value, tsr_best *best) {
    bool better = goal->least ? value < best->value : value > best->value;
    bool gain = isfinite(value) && (!best->generation || better);
    best->evaluated_step = step;
    best->without_gain = gain ? 0 : best->without_gain + 1;
    if (!gain) return false;
    best->generation = TSR_BEST_ITSELF;
    best->epoch = 0;
    best->manifest_hash = (tsr_digest){{0}};
    best->step = step;
    best->value = value;
    return true;
}

void tsr_goal_resolve(uint64_t step, const tsr_best *stored, tsr_best *best) {
    static const tsr_best other;
    bool itself = best->generation == TSR_BEST_ITSELF && best->step == step;
    bool same = strcmp(stored->metric, best->metric) == 0;
    bool committed = same && stored->generation && stored->step == step;
    if (!best->metric[0] || (itself && !committed)) return;
    if (!same) stored = &other; /* nothing was saved with it */
    best->generation = stored->generation;
    best->epoch = stored->epoch;
    best->manifest_hash = stored->manifest_hash;
    best->step = stored->step;
    best->value = stored->value;
}

bool tsr_goal_is_missed(const tsr_goal *goal, const tsr_best *best) {
    return goal->patience && best->without_gain >= goal->patience;
}
