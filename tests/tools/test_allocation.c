/* SPDX-License-Identifier: Apache-2.0
 *
 * Nothing allocates between the first and the last step. The linker redirects our calls of the
 * allocator here (--wrap); the steps of a run with saves, a record and evaluation must make no such
 * call, on any thread.
 *
 * usage: test_allocation BUNDLE FOLDER WORK
 */
#include "tessera/tessera.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 300,
    WARM_STEPS = 5
}; /* the first steps and saves may fill buffers of the C library */

static atomic_bool watched;
static _Atomic uint64_t call_count, watched_count;

static void note(void) {
    atomic_fetch_add(&call_count, 1);
    if (atomic_load(&watched)) atomic_fetch_add(&watched_count, 1);
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

void *__wrap_malloc(size_t size) {
    note();
    return __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
    note();
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *old, size_t size) {
    note();
    return __real_realloc(old, size);
}
void *__wrap_aligned_alloc(size_t align, size_t size) {
    note();
    return __real_aligned_alloc(align, size);
}

static void on_step(void *user, const tsr_step_report *step) {
    (void)user;
    if (step->step == WARM_STEPS) atomic_store(&watched, true);
    if (step->step == STEPS) atomic_store(&watched, false);
}

static tsr_result train(tsr_ctx *ctx, tsr_model *model, const char *folder, const char *work) {
    static const char *const names[] = {"images", "labels", "test_images", "test_labels"};
    static const char *const files[] = {"train-images", "train-labels", "test-images",
                                        "test-labels"};
    char paths[4][1024], record[1024], state[1024];
    tsr_binding data[4];
    tsr_train_summary summary;
    for (int i = 0; i < 4; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s.npy", folder, files[i]);
        data[i] = (tsr_binding){names[i], paths[i]};
    }
    snprintf(record, sizeof record, "%s/run.log", work);
    snprintf(state, sizeof state, "%s/state", work);
    tsr_train_options options = {.size_bytes = sizeof options,
                                 .steps = STEPS,
                                 .data = data,
                                 .data_count = 4,
                                 .state_directory = state,
                                 .save_every = 20,
                                 .eval_every = 50,
                                 .record = record};
    options.callbacks.step = on_step;
    return tsr_train(ctx, model, &options, &summary);
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    tsr_model *model = NULL;
    if (argc != 4) return 2;
    tsr_result result = tsr_model_open(&ctx, argv[1], NULL, &model);
    if (!result.code) result = train(&ctx, model, argv[2], argv[3]);
    if (result.code) fprintf(stderr, "%s\n", ctx.error.text);
    tsr_model_close(&ctx, model);
    printf("%" PRIu64 " allocations, %" PRIu64 " of them between steps %d and %d\n", call_count,
           watched_count, WARM_STEPS, STEPS);
    /* If no call was counted at all, the wrapping is broken, and the test would always pass. */
    return result.code || call_count == 0 || watched_count != 0;
}
