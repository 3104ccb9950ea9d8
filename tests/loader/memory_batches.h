/* SPDX-License-Identifier: Apache-2.0
 *
 * The training set of the digits in memory, and a trainer that reads its batches from there.
 */
#ifndef TSR_TESTS_LOADER_MEMORY_BATCHES_H
#define TSR_TESTS_LOADER_MEMORY_BATCHES_H

#include "tessera/trainer.h"
#include "tests/loader/digits.h"

extern digits d;
/* The training set. */
extern uint8_t *images;
extern int64_t *labels;
extern uint64_t rows;
/* The current batch, and the loss of its step. */
extern uint8_t batch_images[DIGITS_BATCH][DIGITS_PIXELS];
extern int64_t batch_labels[DIGITS_BATCH];
extern float loss;

/* Before and after each test. */
void memory_batches_init(void);
void memory_batches_finish(void);

tsr_view images_view(void);
tsr_view labels_view(void);
tsr_view loss_view(void);
/* Draws the batch that tsr_train would draw here. */
void draw(const tsr_position *position);
tsr_digest digest_of_data(void);
/* `directory`: of the state; NULL: nothing is saved. */
tsr_trainer_options options_of(const char *directory);
tsr_trainer *open_with(tsr_model *model, const tsr_trainer_options *options);
/* Trains on the next batch, or up to step `last`. */
tsr_result step(tsr_ctx *ctx, tsr_trainer *trainer);
void step_to(tsr_trainer *trainer, uint64_t last);
tsr_digest hash_of(tsr_model *model);
bool equal(tsr_digest a, tsr_digest b);

#endif
