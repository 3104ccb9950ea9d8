/* SPDX-License-Identifier: Apache-2.0
 *
 * A model records its current use, so that a call from one of its callbacks cannot change it.
 * Private to this folder.
 *
 *     tsr_use use;
 *     TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_CALL, entry, &use));
 *     ... callbacks may run ...
 *     tsr_use_end(model, &use);
 */
#ifndef TSR_LOADER_USE_H
#define TSR_LOADER_USE_H

#include "runtime/base/result.h"
#include "tessera/tessera.h"

typedef enum tsr_use_kind {
    TSR_USE_FILL,    /* its state is being set: no other use may begin */
    TSR_USE_TRAIN,   /* only entries may be called */
    TSR_USE_CALL,    /* only other entries may be called */
    TSR_USE_TRAINER, /* from tsr_trainer_open to close: entries may be called, tensors set, steps
                        made */
    TSR_USE_STEP,    /* a trainer makes steps or saves: only entries may be called */
    TSR_USE_SET,     /* a tensor is being set: no other use may begin */
    TSR_USE_NUMBER,  /* a hyper-parameter is being set: no other use may begin */
} tsr_use_kind;

/* Stored on the stack of the function that uses the model. */
typedef struct tsr_use {
    tsr_use_kind kind;
    size_t entry;                /* set for TSR_USE_CALL */
    const struct tsr_use *outer; /* the use whose callback began this one, or NULL */
} tsr_use;

/* True in a child process that was forked after the model was opened: no use may begin there. */
bool tsr_use_is_forked(const tsr_model *model);
/* Fails with TSR_USAGE if a current use does not allow this one. `entry` is used for TSR_USE_CALL.
 */
TSR_RESULT tsr_use_begin(tsr_ctx *ctx, tsr_model *model, tsr_use_kind kind, size_t entry,
                         tsr_use *out_use);
void tsr_use_end(tsr_model *model, const tsr_use *use);
/* Fails with TSR_USAGE while the state is being set, because it may be a mixture of two states. */
TSR_RESULT tsr_use_check_readable(tsr_ctx *ctx, const tsr_model *model);

/* These are the functions of tessera.h without the check, for a run that has already begun its use.
 */
TSR_RESULT tsr_state_initialize(tsr_ctx *ctx, tsr_model *model, uint32_t seed);
TSR_RESULT tsr_state_load(tsr_ctx *ctx, tsr_model *model, const char *directory,
                          tsr_resume_mode mode, uint64_t generation,
                          tsr_generation *out_generation);
TSR_RESULT tsr_state_adopt(tsr_ctx *ctx, tsr_model *model, const tsr_adopt_options *options,
                           tsr_generation *out_generation);
TSR_RESULT tsr_state_load_params(tsr_ctx *ctx, tsr_model *model, const char *path);
TSR_RESULT tsr_session_run(tsr_ctx *ctx, tsr_model *model, tsr_train_options copied,
                           tsr_train_summary *out_summary);

#endif
