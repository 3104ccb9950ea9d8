/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses of a model, and the public functions that train it or set its state.
 */
#include "loader/use.h"

#include "loader/model.h"
#include "runtime/base/options.h"

#include <inttypes.h>
#include <unistd.h>

static const struct {
    const char *doing, *wish; /* for messages: what is being done, and what cannot be done */
    unsigned allowed;         /* kinds of uses that may begin meanwhile: bit 1 << kind */
} kinds[] = {
    [TSR_USE_FILL] = {"its state is being set", "its state cannot be set", 0},
    [TSR_USE_TRAIN] = {"it is being trained", "it cannot be trained", 1u << TSR_USE_CALL},
    [TSR_USE_CALL] = {"the same entry is being called", "the entry cannot be called",
                      1u << TSR_USE_CALL},
    [TSR_USE_TRAINER] = {"a trainer has it open", "no trainer can open it",
                         1u << TSR_USE_CALL | 1u << TSR_USE_STEP | 1u << TSR_USE_SET |
                             1u << TSR_USE_NUMBER},
    [TSR_USE_STEP] = {"its trainer is at work", "its trainer cannot continue", 1u << TSR_USE_CALL},
    [TSR_USE_SET] = {"a tensor is being set", "no tensor can be set", 0},
    [TSR_USE_NUMBER] = {"a hyper-parameter is being set", "no hyper-parameter can be set", 0},
};

/* Each entry has its own inputs and outputs, so two entries can run at the same time. */
static bool allows(const tsr_use *use, tsr_use_kind kind, size_t entry) {
    bool same_entry = use->kind == TSR_USE_CALL && kind == TSR_USE_CALL && use->entry == entry;
    return (kinds[use->kind].allowed >> kind & 1u) && !same_entry;
}

bool tsr_use_is_forked(const tsr_model *model) { return model->process != getpid(); }

tsr_result tsr_use_begin(tsr_ctx *ctx, tsr_model *model, tsr_use_kind kind, size_t entry,
                         tsr_use *out_use) {
    if (tsr_use_is_forked(model))
        FAIL(ctx, TSR_USAGE,
             "the model '%s' was opened by process %" PRId64
             "; this is process %d, a fork of it, which has no threads of the model: open the "
             "bundle in it",
             model->config.name, model->process, (int)getpid());
    for (const tsr_use *use = model->use; use; use = use->outer)
        if (!allows(use, kind, entry))
            FAIL(ctx, TSR_USAGE, "the model '%s' is in use: %s, so %s%s", model->config.name,
                 use->kind == TSR_USE_CALL && kind != TSR_USE_CALL ? "an entry is being called"
                                                                   : kinds[use->kind].doing,
                 kinds[kind].wish, use->kind == TSR_USE_TRAINER ? "" : " from a callback");
    *out_use = (tsr_use){kind, entry, model->use};
    model->use = out_use;
    return TSR_SUCCESS;
}

void tsr_use_end(tsr_model *model, const tsr_use *use) {
    TSR_ASSERT(model->use == use);
    model->use = use->outer;
}

tsr_result tsr_use_check_readable(tsr_ctx *ctx, const tsr_model *model) {
    for (const tsr_use *use = model->use; use; use = use->outer)
        if (use->kind == TSR_USE_FILL || use->kind == TSR_USE_SET)
            FAIL(ctx, TSR_USAGE, "the model '%s' is in use: %s", model->config.name,
                 kinds[use->kind].doing);
    return TSR_SUCCESS;
}

tsr_result tsr_model_initialize(tsr_ctx *ctx, tsr_model *model, uint32_t seed) {
    tsr_use use;
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_FILL, 0, &use));
    tsr_result result = tsr_state_initialize(ctx, model, seed);
    tsr_use_end(model, &use);
    return result;
}

tsr_result tsr_model_load_state(tsr_ctx *ctx, tsr_model *model, const char *directory,
                                tsr_resume_mode mode, uint64_t generation,
                                tsr_generation *out_generation) {
    tsr_use use;
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_FILL, 0, &use));
    tsr_result result = tsr_state_load(ctx, model, directory, mode, generation, out_generation);
    tsr_use_end(model, &use);
    return result;
}

tsr_result tsr_model_adopt(tsr_ctx *ctx, tsr_model *model, const tsr_adopt_options *options,
                           tsr_generation *out_generation) {
    tsr_use use;
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_FILL, 0, &use));
    tsr_result result = tsr_state_adopt(ctx, model, options, out_generation);
    tsr_use_end(model, &use);
    return result;
}

tsr_result tsr_model_load_params(tsr_ctx *ctx, tsr_model *model, const char *path) {
    tsr_use use;
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_FILL, 0, &use));
    tsr_result result = tsr_state_load_params(ctx, model, path);
    tsr_use_end(model, &use);
    return result;
}

tsr_result tsr_train(tsr_ctx *ctx, tsr_model *model, const tsr_train_options *options,
                     tsr_train_summary *out_summary) {
    tsr_train_options copied;
    tsr_use use;
    TRY(ctx, tsr_options_copy(ctx, "tsr_train_options", options, &copied, sizeof copied));
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_TRAIN, 0, &use));
    tsr_result result = tsr_session_run(ctx, model, copied, out_summary);
    tsr_use_end(model, &use);
    return result;
}
