/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that a caller reads and writes by name between the steps of a trainer.
 */
#include "runtime/base/array.h"
#include "runtime/base/result.h"
#include "tests/loader/memory_batches.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(tensors, .init = memory_batches_init, .fini = memory_batches_finish, .timeout = 120);

static tsr_view weight_view(float *values) {
    return (tsr_view){.name = "layer3.weight",
                      .dtype = TSR_DTYPE_F32,
                      .shape = {2, {64, DIGITS_CLASSES}},
                      .data = values};
}

Test(tensors, tensors_are_read_and_written_by_name) {
    static float weights[64 * DIGITS_CLASSES], again[64 * DIGITS_CLASSES];
    tsr_view view = weight_view(weights), other = weight_view(again);
    tsr_model *fresh = digits_open(&d, NULL);
    REFUSED(&d, tsr_model_read_tensor(&d.ctx, fresh, &view), TSR_USAGE, "hold no values");
    REFUSED(&d, tsr_model_write_tensor(&d.ctx, fresh, &view), TSR_USAGE, "hold no values");
    tsr_model_close(&d.ctx, fresh);
    tsr_trainer_options options = options_of(digits_path(&d, "tensors"));
    tsr_trainer *trainer = open_with(d.model, &options);
    tsr_generation before, after, same;
    step_to(trainer, 2);
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &before));
    digits_must(&d, tsr_model_read_tensor(&d.ctx, d.model, &view));
    size_t count = 0;
    const tsr_tensor *state = tsr_model_get_state(d.model, &count);
    cr_assert_eq(
        memcmp(tsr_tensor_find(state, count, "layer3.weight")->data, weights, sizeof weights), 0);
    for (size_t i = 0; i < 64 * DIGITS_CLASSES; i++) weights[i] *= 0.5F;
    digits_must(&d, tsr_model_write_tensor(&d.ctx, d.model, &view));
    digits_must(&d, tsr_model_read_tensor(&d.ctx, d.model, &other));
    cr_assert_eq(memcmp(weights, again, sizeof weights), 0);
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &after));
    cr_assert(after.number == before.number + 1 && after.position.step == 2, "a save of its own");
    cr_assert(equal(after.state_hash, hash_of(d.model)) &&
              !equal(after.state_hash, before.state_hash));
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &same));
    cr_assert_eq(same.number, after.number, "nothing has changed since");
    view.name = "layer3.wieght";
    REFUSED(&d, tsr_model_read_tensor(&d.ctx, d.model, &view), TSR_USAGE,
            "no tensor 'layer3.wieght'", "did you mean 'layer3.weight'?");
    view.name = NULL;
    REFUSED(&d, tsr_model_read_tensor(&d.ctx, d.model, &view), TSR_USAGE, "without name");
    view = weight_view(weights);
    view.shape.dims[1]--;
    REFUSED(&d, tsr_model_write_tensor(&d.ctx, d.model, &view), TSR_DATA,
            "'layer3.weight' is 64x9xf32", "expected 64x10xf32");
    view = weight_view(NULL);
    REFUSED(&d, tsr_model_write_tensor(&d.ctx, d.model, &view), TSR_USAGE, "has no memory");
    view = weight_view(weights);
    view.location = TSR_LOCATION_DEVICE;
    REFUSED(&d, tsr_model_read_tensor(&d.ctx, d.model, &view), TSR_USAGE, "memory of a GPU");
    cr_assert(equal(after.state_hash, hash_of(d.model)), "what is refused changes nothing");
    tsr_trainer_close(&d.ctx, trainer);
}

/* Kernels read weights in another order than the caller writes them: it is prepared again. */
Test(tensors, steps_and_calls_use_a_written_tensor) {
    static float weights[64 * DIGITS_CLASSES], y[DIGITS_CLASSES];
    static double expected[DIGITS_CLASSES];
    tsr_trainer_options options = options_of(NULL);
    tsr_trainer *trainer = open_with(d.model, &options);
    step_to(trainer, 3);
    digits_must(&d, digits_predict(&d.ctx, d.model, images, 1, y));
    for (size_t i = 0; i < 64 * DIGITS_CLASSES; i++) weights[i] = (float)(i % 7) * 0.25F;
    tsr_view view = weight_view(weights);
    digits_must(&d, tsr_model_write_tensor(&d.ctx, d.model, &view));
    digits_must(&d, digits_predict(&d.ctx, d.model, images, 1, y));
    digits_reference(d.model, images, 1, expected);
    for (int i = 0; i < DIGITS_CLASSES; i++)
        cr_assert_float_eq((double)y[i], expected[i], 1e-4 * (1 + fabs(expected[i])));
    digits_must(&d, step(&d.ctx, trainer));
    weights[9] = NAN;
    digits_must(&d, tsr_model_write_tensor(&d.ctx, d.model, &view));
    REFUSED(&d, step(&d.ctx, trainer), TSR_NONFINITE, "output 'loss'", "step 5");
    tsr_trainer_close(&d.ctx, trainer);
}

Test(tensors, a_state_that_is_not_finite_is_not_saved) {
    static float weights[64 * DIGITS_CLASSES];
    tsr_trainer_options options = options_of(digits_path(&d, "nan"));
    tsr_trainer *trainer = open_with(d.model, &options);
    tsr_generation generation;
    tsr_view view = weight_view(weights);
    step_to(trainer, 1);
    digits_must(&d, tsr_trainer_save(&d.ctx, trainer, &generation));
    weights[12] = NAN;
    digits_must(&d, tsr_model_write_tensor(&d.ctx, d.model, &view));
    REFUSED(&d, tsr_trainer_save(&d.ctx, trainer, &generation), TSR_NONFINITE, "'layer3.weight'",
            "element 12");
    tsr_trainer_close(&d.ctx, trainer);
    digits_must(&d, tsr_model_load_state(&d.ctx, d.model, digits_path(&d, "nan"), TSR_RESUME_AUTO,
                                         0, &generation));
    cr_assert_eq(generation.position.step, 1);
}
