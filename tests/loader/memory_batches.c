/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/loader/memory_batches.h"

#include "runtime/data/array_file.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

digits d;
uint8_t *images;
int64_t *labels;
uint64_t rows;
uint8_t batch_images[DIGITS_BATCH][DIGITS_PIXELS];
int64_t batch_labels[DIGITS_BATCH];
float loss;

static void *read_all(const char *path, size_t row_bytes, size_t element_bytes) {
    tsr_array *array = NULL;
    digits_must(&d, tsr_array_open(&d.ctx, path, TSR_DTYPE_NONE, &array));
    rows = tsr_array_get_shape(array)->dims[0];
    void *elements = malloc(rows * row_bytes);
    cr_assert_not_null(elements);
    digits_must(&d, tsr_array_read(&d.ctx, array, 0, rows * row_bytes / element_bytes, elements));
    tsr_array_close(&d.ctx, array);
    return elements;
}

void memory_batches_init(void) {
    digits_init(&d);
    labels = read_all(d.paths[1], sizeof *labels, sizeof *labels);
    images = read_all(d.paths[0], DIGITS_PIXELS, 1);
}
void memory_batches_finish(void) {
    free(images);
    free(labels);
    digits_finish(&d);
}
tsr_view images_view(void) {
    return (tsr_view){.name = "images",
                      .dtype = TSR_DTYPE_UI8,
                      .shape = {2, {DIGITS_BATCH, DIGITS_PIXELS}},
                      .data = batch_images};
}
tsr_view labels_view(void) {
    return (tsr_view){.name = "labels",
                      .dtype = TSR_DTYPE_I64,
                      .shape = {1, {DIGITS_BATCH}},
                      .data = batch_labels};
}
tsr_view loss_view(void) {
    return (tsr_view){.name = "loss", .dtype = TSR_DTYPE_F32, .data = &loss};
}

/* Draws the batch that tsr_train would draw here. */
void draw(const tsr_position *position) {
    for (uint64_t i = 0; i < DIGITS_BATCH; i++) {
        uint64_t row = tsr_position_get_row(position, i);
        memcpy(batch_images[i], images + row * DIGITS_PIXELS, DIGITS_PIXELS);
        batch_labels[i] = labels[row];
    }
}

tsr_digest digest_of_data(void) {
    const tsr_tensor arrays[] = {{"labels", TSR_DTYPE_I64, {1, {rows}}, labels},
                                 {"images", TSR_DTYPE_UI8, {2, {rows, DIGITS_PIXELS}}, images}};
    tsr_digest digest;
    digits_must(&d, tsr_data_digest(&d.ctx, arrays, 2, &digest));
    return digest;
}

tsr_trainer_options options_of(const char *directory) {
    return (tsr_trainer_options){.size_bytes = sizeof(tsr_trainer_options),
                                 .has_seed = true,
                                 .seed = 1,
                                 .state_directory = directory,
                                 .rows = rows,
                                 .data = digest_of_data()};
}

tsr_trainer *open_with(tsr_model *model, const tsr_trainer_options *options) {
    tsr_trainer *trainer = NULL;
    digits_must(&d, tsr_trainer_open(&d.ctx, model, options, &trainer));
    return trainer;
}

tsr_result step(tsr_ctx *ctx, tsr_trainer *trainer) {
    const tsr_view inputs[] = {images_view(), labels_view()}, output = loss_view();
    draw(tsr_trainer_get_position(trainer));
    return tsr_trainer_step(ctx, trainer, inputs, 2, &output, 1);
}

void step_to(tsr_trainer *trainer, uint64_t last) {
    while (tsr_trainer_get_position(trainer)->step < last) digits_must(&d, step(&d.ctx, trainer));
}

tsr_digest hash_of(tsr_model *model) {
    tsr_digest hash;
    digits_must(&d, tsr_model_hash_state(&d.ctx, model, &hash));
    return hash;
}

bool equal(tsr_digest a, tsr_digest b) { return tsr_digest_equal(&a, &b); }
