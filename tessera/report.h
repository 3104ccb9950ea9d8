/* SPDX-License-Identifier: Apache-2.0
 *
 * The reports of a training run to its caller.
 */
#ifndef TSR_TESSERA_REPORT_H
#define TSR_TESSERA_REPORT_H

#include "tessera/state.h"
#include "tessera/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_step_report {
    uint64_t step, last_step; /* steps done; steps to do */
    uint64_t first_step;      /* steps done before this run */
    uint64_t samples;         /* per step */
    const char *samples_name; /* name of the counted samples, from the first data input: "images" */
    const tsr_tensor *outputs; /* outputs of the entry, borrowed for the call */
    size_t output_count;
    double seconds; /* since the run began, monotonic */
} tsr_step_report;

typedef struct tsr_eval_report {
    uint64_t step; /* steps done before; 0 for an evaluation alone */
    uint64_t rows;
    const char *const *names; /* names of the outputs */
    const double *means;      /* mean of all rows */
    size_t count;
} tsr_eval_report;

/* How a run handles an output that is not finite. Parameters and optimizer state are always checked
 * when they are saved. */
typedef enum tsr_finite_mode {
    TSR_FINITE_DEFAULT = 0, /* training and evaluation: ERROR; calls: WARN */
    TSR_FINITE_ERROR = 1,   /* TSR_NONFINITE */
    TSR_FINITE_WARN = 2,    /* a warning in the log, once for each output */
    TSR_FINITE_OFF = 3,     /* outputs are not checked */
} tsr_finite_mode;

/* Resource use of one of several ranks, when the last step is done. */
typedef struct tsr_rank_use {
    /* Memory: planned; also kept for saves; growth of resident memory since before the planned
     * memory was allocated. */
    uint64_t planned_bytes, saver_bytes, resident_bytes;
    uint64_t planned_sent_bytes, sent_bytes; /* bytes that a step sends to other ranks: planned;
                                                sent by the last step */
} tsr_rank_use;

/* Any may be NULL. Called on the training thread, between steps. */
typedef struct tsr_train_callbacks {
    void *user; /* borrowed */
    void (*step)(void *user, const tsr_step_report *report);
    void (*eval)(void *user, const tsr_eval_report *report);
    /* Called once per save, after the commit of saves->last_committed. */
    void (*saved)(void *user, const tsr_save_status *saves);
    /* Called on the first rank of several; `uses` has one element per rank, borrowed for the call.
     */
    void (*ranks)(void *user, uint64_t step, const tsr_rank_use *uses, uint32_t rank_count);
} tsr_train_callbacks;

typedef struct tsr_train_summary {
    tsr_position position;
    tsr_digest state_hash;
    tsr_save_status saves;
    bool stopped;                 /* stopped by request, before the last step */
    double seconds, step_seconds; /* whole run; inside steps alone */
    bool without_gain;            /* stopped by tsr_train_options.stop_after */
} tsr_train_summary;

#ifdef __cplusplus
}
#endif

#endif
