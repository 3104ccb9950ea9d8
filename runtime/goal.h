/* SPDX-License-Identifier: Apache-2.0
 *
 * The metric by which a run keeps its best generation, and stops when that no longer changes. It is
 * the mean of an output of the evaluation, or the value of an output of the training step after
 * which it is judged.
 */
#ifndef TSR_RUNTIME_GOAL_H
#define TSR_RUNTIME_GOAL_H

#include "manifests/config.h"
#include "runtime/base/result.h"
#include "tessera/state.h"

#define TSR_GOAL_NO_ENTRY SIZE_MAX

typedef struct tsr_goal {
    bool exists; /* false: nothing is judged */
    /* With the entry, "min:evaluate.loss": it means the same output in every run. */
    char metric[TSR_METRIC_MAX];
    bool least;    /* the least value is the best one; else the greatest */
    bool of_eval;  /* of the evaluation; else of training */
    size_t output; /* index in its entry */
    /* Evaluations without gain after which the training stops; 0: never. */
    uint64_t patience;
} tsr_goal;

/* Indices of the entries in which a metric is looked for. */
typedef struct tsr_goal_scope {
    size_t train;
    size_t eval; /* TSR_GOAL_NO_ENTRY: nothing is evaluated */
    bool stored; /* the metric is that of a state: it has its entry */
} tsr_goal_scope;

/* Finds a metric, "min:NAME" or "max:NAME". NAME is an output of the evaluation, or a scalar output
 * of training; "ENTRY.NAME" chooses between the two if both have it. TSR_USAGE lists the outputs
 * that there are, or says that the metric with its entry is too long or means several outputs. */
TSR_RESULT tsr_goal_find(tsr_ctx *ctx, const tsr_config *config, const tsr_goal_scope *scope,
                         const char *metric, tsr_goal *out_goal);

/* Counts an evaluation after `step`. Returns true if its value is the best so far: then the state
 * of this step is the best one, and is not saved yet. A value that is not finite is never the best.
 */
bool tsr_goal_judge(const tsr_goal *goal, uint64_t step, double value, tsr_best *best);
/* Takes over which generation is the best, as the store knows it: a save may have failed. A state
 * of `step` that is the best and not committed yet stays the best. */
void tsr_goal_resolve(uint64_t step, const tsr_best *stored, tsr_best *best);
/* Has training lasted too long without gain? */
bool tsr_goal_is_missed(const tsr_goal *goal, const tsr_best *best);

#endif
