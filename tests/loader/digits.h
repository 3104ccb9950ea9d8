/* SPDX-License-Identifier: Apache-2.0
 *
 * The digits bundle as a program sees it: through loader/tessera.h. Where TESSERA_DIGITS_BUNDLE
 * names none, a test is skipped. Failures of what is not being tested end the test with a message.
 */
#ifndef TSR_TESTS_LOADER_DIGITS_H
#define TSR_TESTS_LOADER_DIGITS_H

#include "loader/tessera.h"
#include "runtime/base/io.h"

enum { DIGITS_PIXELS = 64, DIGITS_CLASSES = 10, DIGITS_BATCH = 64, DIGITS_TEST_ROWS = 359 };

typedef struct digits {
    tsr_ctx ctx;
    tsr_model *model;
    char folder[64]; /* fresh; removed by digits_finish */
    char paths[4][1024];
    tsr_binding data[4]; /* images, labels, test_images, test_labels */
} digits;

/* Fixtures of a test: the folder, the paths, the model open on two threads. */
void digits_init(digits *self);
void digits_finish(digits *self);
const char *digits_bundle_path(void);
/* FOLDER/name. One of a few static places. */
const char *digits_path(const digits *self, const char *name);
tsr_model *digits_open(digits *self, const char *cpu);
void digits_must(const digits *self, tsr_result result);
/* The result has this code, and the text of the error has each of the words, which end in NULL. */
void digits_refused(const digits *self, tsr_result result, tsr_code code, ...);
#define REFUSED(self, expr, code, ...) digits_refused((self), (expr), (code), __VA_ARGS__, NULL)

/* Both sets bound, `steps` steps, seed 1. */
tsr_train_options digits_training(const digits *self, uint64_t steps);
/* All images of the test set, and its labels. malloc. */
uint8_t *digits_test_images(digits *self);
int64_t *digits_test_labels(digits *self);
/* y = predict(x) on any model. */
tsr_result digits_predict(tsr_ctx *ctx, tsr_model *model, const uint8_t *x, uint64_t rows,
                          float *y);
/* The same in double precision, from the parameters in the model's memory. */
void digits_reference(const tsr_model *model, const uint8_t *x, uint64_t rows, double *y);
tsr_digest digits_state_hash(const tsr_model *model);

/* Open descriptors of this process, entries of a folder. */
size_t digits_count_files(const char *folder);

/* A table whose operation number `fail_at` (from 0) that can fail, fails with EIO. */
extern uint64_t digits_operations, digits_fail_at;
const tsr_io *digits_failing_io(void);

#endif
