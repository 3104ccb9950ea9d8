/* SPDX-License-Identifier: Apache-2.0
 *
 * A small state of one whole block and a remainder. Every byte is a function of the step, so that a
 * test can tell which generation was loaded and that all bytes belong to the same generation.
 */
#ifndef TSR_TESTS_STORE_MODEL_H
#define TSR_TESTS_STORE_MODEL_H

#include "runtime/store.h"

enum { MODEL_TENSORS = 4, MODEL_WEIGHTS = 1400 };

typedef struct model {
    float weights[MODEL_WEIGHTS];
    int64_t moments[5];
    double scale;
    tsr_tensor tensors[MODEL_TENSORS]; /* not sorted by name; one has no elements */
} model;

void model_init(model *m);
void model_fill(model *m, uint64_t step);
bool model_is(const model *m, uint64_t step);
tsr_position model_position(uint64_t step);
tsr_digest model_bundle(void);

/* Counts the logged messages. */
typedef struct model_log {
    unsigned errors, warnings, notices;
    char last_error[TSR_ERROR_TEXT_MAX], last_notice[TSR_ERROR_TEXT_MAX];
} model_log;
void model_log_add(void *user, tsr_log_level level, const char *text);

tsr_store_options model_options(const char *directory);
/* Opens "/s" with keep 2 and AUTO. */
TSR_RESULT model_open(tsr_ctx *ctx, tsr_store **out_store, tsr_recovery *out_recovery);
/* Saves `step` and waits; true if it was acknowledged. */
bool model_save(tsr_ctx *ctx, tsr_store *store, model *m, uint64_t step);

#endif
