/* SPDX-License-Identifier: Apache-2.0
 *
 * Trained bundles.
 */
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static digits d;
static const char *state;
static tsr_generation generation;

static void init(void) {
    tsr_train_summary summary;
    digits_init(&d);
    tsr_train_options options = digits_training(&d, 30);
    state = digits_path(&d, "state");
    options.state_directory = state;
    options.save_every = 15;
    digits_must(&d, tsr_train(&d.ctx, d.model, &options, &summary));
}
static void finish(void) { digits_finish(&d); }
TestSuite(bake, .init = init, .fini = finish);

static tsr_result bake(const char *in, const char *out, const char *params) {
    tsr_bake_options options = {.size_bytes = sizeof options,
                                .state_directory = state,
                                .out_path = out,
                                .export_params = params};
    return tsr_bake(&d.ctx, in, &options, &generation);
}

static bool equal_files(const char *a, const char *b) {
    tsr_arena arena = {0};
    void *x = NULL, *y = NULL;
    size_t x_size = 0, y_size = 0;
    digits_must(&d, tsr_io_read_file(&d.ctx, a, SIZE_MAX, &arena, &x, &x_size));
    digits_must(&d, tsr_io_read_file(&d.ctx, b, SIZE_MAX, &arena, &y, &y_size));
    bool equal = x_size == y_size && memcmp(x, y, x_size) == 0;
    tsr_arena_finish(&arena);
    return equal;
}

static void predict(tsr_model *model, float y[static DIGITS_CLASSES]) {
    uint8_t x[DIGITS_PIXELS];
    for (int i = 0; i < DIGITS_PIXELS; i++) x[i] = (uint8_t)(i % 17);
    digits_must(&d, digits_predict(&d.ctx, model, x, 1, y));
}

Test(bake, the_bundle_predicts_as_the_model_did) {
    const char *out = digits_path(&d, "t.tsb"), *again = digits_path(&d, "u.tsb");
    float expected[DIGITS_CLASSES], got[DIGITS_CLASSES];
    tsr_model_options strict = {.size_bytes = sizeof strict, .strict = true};
    tsr_model *trained = NULL;
    digits_must(&d, bake(digits_bundle_path(), out, NULL));
    cr_assert_eq(generation.position.step, 30);
    digits_must(&d, bake(digits_bundle_path(), again, NULL));
    cr_assert(equal_files(out, again), "equal inputs, equal bytes");
    digits_must(&d, tsr_model_open(&d.ctx, out, &strict, &trained));
    digits_must(&d, tsr_model_initialize(&d.ctx, trained, 99)); /* a seed does not change them */
    predict(d.model, expected);
    predict(trained, got);
    cr_assert_eq(memcmp(expected, got, sizeof got), 0);
    tsr_model_close(&d.ctx, trained);
}

Test(bake, a_trained_bundle_is_trained_further) {
    const char *first = digits_path(&d, "t.tsb"), *second = digits_path(&d, "u.tsb");
    float expected[DIGITS_CLASSES], got[DIGITS_CLASSES];
    tsr_train_summary summary;
    digits_must(&d, bake(digits_bundle_path(), first, NULL));
    tsr_model *trained = NULL;
    digits_must(&d, tsr_model_open(&d.ctx, first, NULL, &trained));
    tsr_train_options options = digits_training(&d, 10);
    options.state_directory = state;
    REFUSED(&d, tsr_train(&d.ctx, trained, &options, &summary), TSR_MISMATCH, state);
    state = digits_path(&d, "second");
    options.state_directory = state;
    digits_must(&d, tsr_train(&d.ctx, trained, &options, &summary));
    predict(trained, expected);
    tsr_model_close(&d.ctx, trained);
    REFUSED(&d, bake(digits_bundle_path(), second, NULL), TSR_MISMATCH, state);
    digits_must(&d, bake(first, second, NULL));
    digits_must(&d, tsr_model_open(&d.ctx, second, NULL, &trained));
    digits_must(&d, tsr_model_initialize(&d.ctx, trained, 0));
    predict(trained, got);
    cr_assert_eq(memcmp(expected, got, sizeof got), 0);
    tsr_model_close(&d.ctx, trained);
}

Test(bake, parameters_are_those_of_an_export) {
    const char *params = digits_path(&d, "p.safetensors"), *mine = digits_path(&d, "q.safetensors");
    digits_must(&d, bake(digits_bundle_path(), NULL, params));
    digits_must(&d, tsr_model_export_params(&d.ctx, d.model, mine));
    cr_assert(equal_files(params, mine));
}

Test(bake, an_older_generation) {
    tsr_bake_options options = {.size_bytes = sizeof options,
                                .state_directory = state,
                                .resume = TSR_RESUME_EXACT,
                                .export_params = digits_path(&d, "p.safetensors")};
    digits_must(&d, bake(digits_bundle_path(), NULL, digits_path(&d, "newest.safetensors")));
    options.resume_generation = generation.number - 1;
    digits_must(&d, tsr_bake(&d.ctx, digits_bundle_path(), &options, &generation));
    cr_assert_eq(generation.position.step, 15);
    cr_assert(!equal_files(options.export_params, digits_path(&d, "newest.safetensors")));
    options.resume_generation = 77;
    REFUSED(&d, tsr_bake(&d.ctx, digits_bundle_path(), &options, &generation), TSR_STATE, "77");
    cr_assert_eq(generation.position.step, 15, "written only on success");
}

Test(bake, what_is_missing) {
    const char *out = digits_path(&d, "t.tsb");
    REFUSED(&d, bake(digits_bundle_path(), NULL, NULL), TSR_USAGE, "no output");
    REFUSED(&d, bake(digits_bundle_path(), out, out), TSR_USAGE, "both go to", out);
    REFUSED(&d, bake(digits_path(&d, "none.tsb"), out, NULL), TSR_IO, "none.tsb");
    REFUSED(&d, bake(digits_bundle_path(), digits_path(&d, "no/t.tsb"), NULL), TSR_IO, "no/t.tsb");
    state = digits_path(&d, "nothing");
    REFUSED(&d, bake(digits_bundle_path(), out, NULL), TSR_IO, "nothing");
    state = NULL;
    REFUSED(&d, bake(digits_bundle_path(), out, NULL), TSR_USAGE, "state directory");
    cr_assert_eq(digits_count_files(d.folder), 1, "the state alone");
}

Test(bake, every_failing_operation_leaves_nothing) {
    const char *out = digits_path(&d, "t.tsb");
    size_t files = digits_count_files("/proc/self/fd");
    tsr_bake_options options = {
        .size_bytes = sizeof options, .state_directory = state, .out_path = out};
    tsr_ctx ctx = {.io = digits_failing_io()};
    uint64_t failed = 0;
    for (digits_fail_at = 0;; digits_fail_at++) {
        digits_operations = 0;
        tsr_result result = tsr_bake(&ctx, digits_bundle_path(), &options, &generation);
        cr_assert_eq(digits_count_files("/proc/self/fd"), files);
        if (!result.code && digits_operations <= digits_fail_at) break;
        failed += result.code != TSR_OK;
        size_t left = digits_count_files(d.folder);
        /* The new bundle remains only if the failure came after the rename; no other name ever
         * does. */
        cr_assert(left == 1 || (left == 2 && remove(out) == 0), "operation %" PRIu64 ": %zu files",
                  digits_fail_at, left);
    }
    cr_assert_gt(failed, 10);
}
