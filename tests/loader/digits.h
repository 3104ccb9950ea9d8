/* SPDX-License-Identifier: Apache-2.0
 *
 * The digits bundle as a program uses it: through tessera/tessera.h. If TESSERA_DIGITS_BUNDLE is
 * not set, a test is skipped. Failures outside the subject of a test end it with a message.
 */
#ifndef TSR_TESTS_LOADER_DIGITS_H
#define TSR_TESTS_LOADER_DIGITS_H

#include "runtime/base/io/io.h"
#include "runtime/store.h"
#include "tessera/tessera.h"

enum { DIGITS_PIXELS = 64, DIGITS_CLASSES = 10, DIGITS_BATCH = 64, DIGITS_TEST_ROWS = 359 };

typedef struct digits {
    tsr_ctx ctx;
    tsr_model *model;
    char folder[64]; /* new; digits_finish removes it */
    char paths[4][1024];
    tsr_binding data[4]; /* images, labels, test_images, test_labels */
} digits;

/* Fixtures of a test: create the folder and the paths, and open the model on two threads. */
void digits_init(digits *self);
void digits_finish(digits *self);
const char *digits_bundle_path(void);
/* Returns FOLDER/name in one of a few static buffers. */
const char *digits_path(const digits *self, const char *name);
tsr_model *digits_open(digits *self, const char *cpu);
void digits_must(const digits *self, tsr_result result);
/* Requires that the result has this code, and that the error text contains each of the words. The
 * words end with NULL. */
void digits_refused(const digits *self, tsr_result result, tsr_code code, ...);
#define REFUSED(self, expr, code, ...) digits_refused((self), (expr), (code), __VA_ARGS__, NULL)

/* Returns options with both data sets, `steps` steps, and seed 1. */
tsr_train_options digits_training(const digits *self, uint64_t steps);
/* All images of the test set, and its labels; allocated with malloc. */
uint8_t *digits_test_images(digits *self);
int64_t *digits_test_labels(digits *self);
/* Computes y = predict(x) on any model. */
tsr_result digits_predict(tsr_ctx *ctx, tsr_model *model, const uint8_t *x, uint64_t rows,
                          float *y);
/* The same in double precision, with the parameters in the model's memory. */
void digits_reference(const tsr_model *model, const uint8_t *x, uint64_t rows, double *y);
tsr_digest digits_state_hash(const tsr_model *model);

/* The number of entries of a folder, for example of the open descriptors of this process. */
size_t digits_count_files(const char *folder);

/* An io table: of the operations that can fail, the one with number `fail_at` (from 0) fails with
 * EIO. */
extern uint64_t digits_operations, digits_fail_at;
const tsr_io *digits_failing_io(void);

#endif
