/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop: batch, step, check, record or compare, evaluate, save, until the last step or
 * a request to stop; or step by step, for a caller that brings the batches.
 */
#ifndef TSR_RUNTIME_TRAIN_H
#define TSR_RUNTIME_TRAIN_H

#include "runtime/data/dataset.h"
#include "runtime/exec/sharded_view.h"
#include "runtime/goal.h"
#include "runtime/record/evidence.h"
#include "runtime/record/record.h"
#include "tessera/report.h"

#include <signal.h>

enum { TSR_SAVES_FAILED_MAX = 3 }; /* failed saves in a row; then the run stops with TSR_SAVE */

/* Everything is borrowed. */
typedef struct tsr_train_job {
    const tsr_config *config;
    tsr_executor *executor;
    tsr_transport *transport; /* NULL: one rank. All ranks save; rank 0 records, and it evaluates if
                                 that needs no exchange */
    size_t entry;
    tsr_dataset *data; /* bound to the entry's data inputs, in their order; NULL: see `batch` */
    /* Writes rows first_row … first_row + row_count - 1 of the batch into the inputs of virtual
     * rank `vrank` of this rank. Used without `data`. */
    tsr_result (*batch)(tsr_ctx *ctx, void *user, uint32_t vrank, uint64_t first_row,
                        uint64_t row_count);
    void *batch_user;       /* borrowed */
    tsr_dataset *eval_data; /* bound to the data inputs of eval_entry, or NULL: no evaluation */
    size_t eval_entry;      /* its rows are independent */
    uint64_t eval_every;    /* steps; 0: only at the end */
    tsr_goal goal;          /* judged with each evaluation, also without eval_data; needs a store */
    /* Called on the first rank with each evaluation that counts for the goal; or NULL. */
    void (*judged)(void *user, const tsr_best *best);
    tsr_store *store;    /* or NULL: nothing is saved */
    uint64_t save_every; /* steps; 0: only at the end */
    tsr_recorder *recorder;
    uint64_t record_every;   /* with a recorder: it gets every so many steps; 0: 1 */
    tsr_replay *replay;      /* only on the first rank */
    bool replays;            /* set on every rank if the first one has a replay */
    bool compares;           /* set on every rank if the first one has a recorder or a replay */
    tsr_evidence *evidence;  /* exists on every rank that compares; or NULL */
    const tsr_tensor *state; /* parameters and optimizer state */
    size_t state_count;
    const uint32_t *state_parts; /* number of parts of each; see exec/sharded_view.h */
    void *const *gathered; /* memory, for each tensor of the state, into which the full tensor is
                              gathered before a record or replay reads it; NULL: not gathered, or
                              already full. On all ranks */
    const tsr_tensor *tracked; /* the values that a replay compares: evidence, the state, the
                                  outputs */
    size_t tracked_count;
    uint64_t planned_bytes, resident_before; /* see tsr_rank_use; resident_before: before the memory
                                                of the plan was allocated */
    tsr_position position;                   /* position to resume from */
    uint64_t last_step;                      /* absolute number */
    /* Sets the digest of the data in a position that will be saved, if the position has none; or
     * NULL. */
    void (*identify)(tsr_ctx *ctx, void *user, tsr_position *position);
    void *identify_user; /* borrowed */
    tsr_train_callbacks callbacks;
    tsr_finite_mode finite;            /* handling of outputs and evaluations */
    const volatile sig_atomic_t *stop; /* non-zero: finish the step, save, return; may be NULL */
} tsr_train_job;

/* An error that leaves the state intact (in an evaluation, a log, the data) ends the run after a
 * save of that state. TSR_NONFINITE names the output or tensor; TSR_DIVERGED from a replay;
 * TSR_DATA from a kernel; TSR_SAVE after three failed saves in a row, or when the last state could
 * not be saved; TSR_LOCKED when another run took over the store. Between the first and the last
 * step nothing is allocated. On failure, out_summary is written too, with the progress up to the
 * failure. */
TSR_RESULT tsr_train_run(tsr_ctx *ctx, const tsr_train_job *job, tsr_train_summary *out_summary);

/* The same in parts: open, any number of steps and saves, close. `job` and `summary` are borrowed
 * until close; a step may change summary->position, seconds and saves, and reads job->last_step for
 * reports only. Every rank makes the same calls. After an error of a step, tsr_train_is_whole says
 * whether the state is that of summary->position: if it is not, no further step or save is allowed
 * (asserted). */
typedef struct tsr_train_steps tsr_train_steps;
TSR_RESULT tsr_train_open(tsr_ctx *ctx, const tsr_train_job *job, tsr_train_summary *summary,
                          tsr_train_steps **out_steps);
/* Waits for a running save, whose failure is in summary->saves and in the log. Accepts NULL. */
void tsr_train_close(tsr_train_steps *steps);
/* Makes one step, and saves if the job says so after this step. */
TSR_RESULT tsr_train_step(tsr_ctx *ctx, tsr_train_steps *steps);
bool tsr_train_is_whole(const tsr_train_steps *steps);
/* The caller has changed the state: the next save writes it even if no step was made since the last
 * one. */
void tsr_train_touch(tsr_train_steps *steps);
/* Saves the state if it is not that of the last save, or if that save failed. `waits`: returns
 * after the commit; a failed save is repeated as often as in tsr_train_run. Else returns once the
 * save has begun. The job has a store (asserted). */
TSR_RESULT tsr_train_save(tsr_ctx *ctx, tsr_train_steps *steps, bool waits);

/* Computes the means of the outputs of an entry with independent rows over all rows of `data`;
 * out_means has one element per output. TSR_NONFINITE names the output and the row; with another
 * `finite` mode, its mean is not finite. */
TSR_RESULT tsr_evaluate(tsr_ctx *ctx, const tsr_config *config, tsr_executor *executor,
                        size_t entry, tsr_dataset *data, tsr_finite_mode finite, double *out_means);

#endif
