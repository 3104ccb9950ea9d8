/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/goal.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/state/best.h"
#include "runtime/store.h"

#include <math.h>
#include <string.h>

/* Outputs of training are not averaged over rows, so only scalars have a value. */
static bool has_value(const tsr_config_port *port, bool of_eval) {
    return !port->watched && (of_eval || port->shape.rank == 0);
}

/* `name` with its entry, or without. */
static bool find_in(const tsr_config *config, size_t index, bool of_eval, const char *name,
                    tsr_goal *goal) {
    if (index == TSR_GOAL_NO_ENTRY) return false;
    const tsr_config_entry *entry = &config->entries[index];
    size_t length = strlen(entry->name);
    bool dotted = strncmp(name, entry->name, length) == 0 && name[length] == '.';
    for (size_t i = 0; i < entry->output_count; i++) {
        const tsr_config_port *port = &entry->outputs[i];
        bool same =
            strcmp(port->name, name) == 0 || (dotted && strcmp(port->name, name + length + 1) == 0);
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

tsr_result tsr_goal_find(tsr_ctx *ctx, const tsr_config *config, size_t train, size_t eval,
                         const char *metric, tsr_goal *out_goal) {
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
    if (!find_in(config, eval, true, metric + 4, &goal))
        find_in(config, train, false, metric + 4, &goal);
    if (goal.exists) {
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

void tsr_goal_settle(uint64_t step, const tsr_best *stored, tsr_best *best) {
    static const tsr_best other;
    if (!best->metric[0] || (best->generation == TSR_BEST_ITSELF && best->step == step)) return;
    if (strcmp(stored->metric, best->metric) != 0) stored = &other; /* nothing was saved with it */
    best->generation = stored->generation;
    best->epoch = stored->epoch;
    best->manifest_hash = stored->manifest_hash;
    best->step = stored->step;
    best->value = stored->value;
}

bool tsr_goal_is_missed(const tsr_goal *goal, const tsr_best *best) {
    return goal->patience && best->without_gain >= goal->patience;
}
