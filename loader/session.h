/* SPDX-License-Identifier: Apache-2.0
 *
 * A training run between its options and the training loop. Private to this folder.
 *
 *     tsr_session self = {.model = model, .options = options};
 *     tsr_result result = tsr_session_begin(ctx, &self);     job is complete, the state has values
 *     ... the training loop of runtime/train.h runs the job ...
 *     result = tsr_session_finish(ctx, &self, result);
 */
#ifndef TSR_LOADER_SESSION_H
#define TSR_LOADER_SESSION_H

#include "loader/model.h"
#include "loader/training_data.h"
#include "runtime/train.h"
#include "runtime/transport/transport.h"

typedef struct tsr_session {
    tsr_model *model;
    tsr_train_options options;
    const tsr_told_data *told; /* the caller brings the batches; borrowed. NULL: options.data */
    tsr_arena arena;
    tsr_train_job job;
    tsr_dataset_binding *bindings; /* options.data, in the arena */
    tsr_dataset *data, *eval_data; /* owned */
    tsr_store *store;              /* owned */
    tsr_recorder *recorder;        /* owned */
    tsr_replay *replay;            /* owned */
    tsr_recovery recovery;
    tsr_record_data digests[TSR_CONFIG_PORTS_MAX];
    size_t digest_count;
    tsr_training_data trained_on;
    tsr_tensor *tracked;    /* these arrays are in the arena */
    uint32_t *parts;        /* parts of the state's tensors, in the order of the store */
    tsr_evidence *evidence; /* allocated in the arena */
    void **gathered;        /* see tsr_train_job */
    uint64_t replayed_from; /* generation; 0: not replayed */
    bool resumed;           /* continues from a committed state */
    /* handler of the region whose failure restarted this run; 0: none */
    uint32_t on_failure;
} tsr_session;

/* The first of several ranks writes what is written once. */
static inline bool tsr_session_is_first(const tsr_session *self) {
    return !self->model->transport || self->model->transport->rank == 0;
}

/* Chooses the training entry, opens its data, and that of an eval entry if it is bound. */
TSR_RESULT tsr_session_bind_data(tsr_ctx *ctx, tsr_session *self);
/* Checks the metric that was asked for, if one was, and the options that need one, before anything
 * is changed; the data is bound. */
TSR_RESULT tsr_session_check_goal(tsr_ctx *ctx, tsr_session *self);
/* Checks that all ranks were given the same metric. */
TSR_RESULT tsr_session_agree_on_goal(tsr_ctx *ctx, const tsr_session *self);
/* Decides by which metric the best generation is kept; the state is recovered. */
TSR_RESULT tsr_session_begin_goal(tsr_ctx *ctx, tsr_session *self);
/* Makes everything ready for the loop: data, log, state. `self` has a model and options; the rest
 * is zero. Call finish also after an error. */
TSR_RESULT tsr_session_begin(tsr_ctx *ctx, tsr_session *self);
/* Closes everything; returns `result`, or the error of closing a log if `result` is none. */
TSR_RESULT tsr_session_finish(tsr_ctx *ctx, tsr_session *self, tsr_result result);

#endif
