/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/store/model.h"

#include <stdio.h>
#include <string.h>

void model_init(model *m) {
    memset(m, 0, sizeof *m);
    m->tensors[0] = (tsr_tensor){"w", TSR_DTYPE_F32, {2, {7, 200}}, m->weights};
    m->tensors[1] = (tsr_tensor){"empty", TSR_DTYPE_F32, {2, {0, 3}}, NULL};
    m->tensors[2] = (tsr_tensor){"scale", TSR_DTYPE_F64, {0, {0}}, &m->scale};
    m->tensors[3] = (tsr_tensor){"w.moment", TSR_DTYPE_I64, {1, {5}}, m->moments};
}

void model_fill(model *m, uint64_t step) {
    for (size_t i = 0; i < MODEL_WEIGHTS; i++) m->weights[i] = (float)(step * 1000 + i);
    for (size_t i = 0; i < 5; i++) m->moments[i] = (int64_t)(step << 32 | i);
    m->scale = (double)step + 0.5;
}

bool model_is(const model *m, uint64_t step) {
    model want;
    model_init(&want);
    model_fill(&want, step);
    return memcmp(m->weights, want.weights, sizeof want.weights) == 0 &&
           memcmp(m->moments, want.moments, sizeof want.moments) == 0 &&
           memcmp(&m->scale, &want.scale, sizeof want.scale) == 0;
}

tsr_position model_position(uint64_t step) {
    return (tsr_position){
        .seed = 42, .step = step, .sample = 64 * step, .virtual_ranks = 1, .shuffle_version = 1};
}

tsr_digest model_bundle(void) { return tsr_hash("bundle", 6); }

void model_log_add(void *user, tsr_log_level level, const char *text) {
    model_log *log = user;
    if (level == TSR_LOG_WARNING) log->warnings++;
    if (level == TSR_LOG_NOTICE) {
        log->notices++;
        snprintf(log->last_notice, sizeof log->last_notice, "%s", text);
    }
    if (level != TSR_LOG_ERROR) return;
    log->errors++;
    strncpy(log->last_error, text, sizeof log->last_error - 1);
}

tsr_store_options model_options(const char *directory) {
    return (tsr_store_options){.size_bytes = sizeof(tsr_store_options),
                               .directory = directory,
                               .bundle_hash = model_bundle(),
                               .keep = 2,
                               .region = "train",
                               .numerics = "portable-fma"};
}

tsr_result model_open(tsr_ctx *ctx, tsr_store **out_store, tsr_recovery *out_recovery) {
    tsr_store_options options = model_options("/s");
    return tsr_store_open(ctx, &options, TSR_RESUME_AUTO, 0, out_store, out_recovery);
}

bool model_save(tsr_ctx *ctx, tsr_store *store, model *m, uint64_t step) {
    uint64_t before = tsr_store_wait(store).committed_count;
    tsr_position position = model_position(step);
    model_fill(m, step);
    if (tsr_store_save(ctx, store, &position).code) return false;
    return tsr_store_wait(store).committed_count > before;
}
