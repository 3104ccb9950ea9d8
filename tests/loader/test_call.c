/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls and evaluation, compared with the same model in double precision.
 */
#include "runtime/base/array.h"
#include "runtime/data/array_file.h"
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static digits d;
static uint8_t *images;

static void init(void) {
    digits_init(&d);
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 3));
    images = digits_test_images(&d);
}
static void finish(void) {
    free(images);
    digits_finish(&d);
}
TestSuite(call, .init = init, .fini = finish);

Test(call, any_number_of_rows) {
    static const uint64_t counts[] = {0, 1, 2, 63, 64, 65, 128, 130, DIGITS_TEST_ROWS};
    static float all[DIGITS_TEST_ROWS * DIGITS_CLASSES], y[DIGITS_TEST_ROWS * DIGITS_CLASSES + 1];
    static double expected[DIGITS_TEST_ROWS * DIGITS_CLASSES];
    digits_must(&d, digits_predict(&d.ctx, d.model, images, DIGITS_TEST_ROWS, all));
    digits_reference(d.model, images, DIGITS_TEST_ROWS, expected);
    /* 128 products of a few units each: the rounding error of f32 is below 1e-5. */
    for (size_t i = 0; i < TSR_COUNT(all); i++)
        cr_assert_float_eq((double)all[i], expected[i], 1e-5, "element %zu", i);
    for (size_t i = 0; i < TSR_COUNT(counts); i++) {
        size_t elements = counts[i] * DIGITS_CLASSES;
        for (size_t j = 0; j <= elements; j++) y[j] = 77;
        digits_must(&d, digits_predict(&d.ctx, d.model, images, counts[i], y));
        cr_assert_eq(memcmp(y, all, elements * sizeof *y), 0, "%zu elements", elements);
        cr_assert_eq(y[elements], 77, "written past the end");
    }
}

Test(call, what_does_not_fit) {
    float y[2 * DIGITS_CLASSES];
    tsr_tensor x = {"x", TSR_DTYPE_UI8, {2, {2, DIGITS_PIXELS}}, images};
    tsr_tensor out = {"y", TSR_DTYPE_F32, {2, {2, DIGITS_CLASSES}}, y};
#define CALL(entry, in, in_count, out_count)                                                       \
    tsr_model_call(&d.ctx, d.model, entry, in, in_count, &out, out_count)
    digits_must(&d, CALL("predict", &x, 1, 1));
    digits_must(&d, CALL(NULL, &x, 1, 1));
    digits_must(&d, CALL("predict", &x, 1, 0));
    REFUSED(&d, CALL("predickt", &x, 1, 1), TSR_USAGE, "'predickt'", "evaluate, predict, train");
    REFUSED(&d, CALL("train", &x, 1, 1), TSR_USAGE, "'train' is a train entry");
    REFUSED(&d, CALL("predict", NULL, 0, 1), TSR_USAGE, "'x' of entry 'predict' is missing",
            "x (64x64xui8)");
    REFUSED(&d, CALL("predict", ((tsr_tensor[]){x, x}), 2, 1), TSR_USAGE, "'x'", "given twice");
    tsr_tensor wrong = x;
    wrong.name = "z";
    REFUSED(&d, CALL("predict", &wrong, 1, 1), TSR_USAGE, "no input 'z'", "x (64x64xui8)");
    wrong.name = NULL;
    REFUSED(&d, CALL("predict", &wrong, 1, 1), TSR_USAGE, "no input ''");
    wrong = x;
    wrong.dtype = TSR_DTYPE_F32;
    REFUSED(&d, CALL("predict", &wrong, 1, 1), TSR_DATA, "2x64xf32", "64x64xui8 with any number");
    wrong = (tsr_tensor){"x", TSR_DTYPE_UI8, {2, {2, 63}}, images};
    REFUSED(&d, CALL("predict", &wrong, 1, 1), TSR_DATA, "2x63xui8", "64x64xui8");
    wrong.shape = (tsr_shape){1, {64}};
    REFUSED(&d, CALL("predict", &wrong, 1, 1), TSR_DATA, "64xui8");
    wrong.shape = (tsr_shape){0, {0}};
    REFUSED(&d, CALL("predict", &wrong, 1, 1), TSR_DATA, "is ui8; expected");
    wrong.shape = (tsr_shape){2, {UINT64_MAX, DIGITS_PIXELS}};
    REFUSED(&d, CALL("predict", &wrong, 1, 0), TSR_DATA, "2^63");
    wrong = x;
    wrong.data = NULL;
    REFUSED(&d, CALL("predict", &wrong, 1, 1), TSR_USAGE, "'x' has no memory; expected 128 bytes");
    out.data = NULL;
    REFUSED(&d, CALL("predict", &x, 1, 1), TSR_USAGE, "'y' has no memory; expected 80 bytes");
    out = (tsr_tensor){"y", TSR_DTYPE_F32, {2, {3, DIGITS_CLASSES}}, y};
    REFUSED(&d, CALL("predict", &x, 1, 1), TSR_DATA, "3x10xf32", "2x10xf32");
    out = (tsr_tensor){"y", TSR_DTYPE_F64, {2, {2, DIGITS_CLASSES}}, y};
    REFUSED(&d, CALL("predict", &x, 1, 1), TSR_DATA, "2x10xf64", "2x10xf32");
    out.name = "x";
    REFUSED(&d, CALL("predict", &x, 1, 1), TSR_USAGE, "no output 'x'", "y (64x10xf32)");
#undef CALL
}

Test(call, inputs_with_unequal_rows_and_bad_labels) {
    int64_t *labels = digits_test_labels(&d);
    float losses[70];
    tsr_tensor inputs[] = {{"test_images", TSR_DTYPE_UI8, {2, {70, DIGITS_PIXELS}}, images},
                           {"test_labels", TSR_DTYPE_I64, {1, {70}}, labels}};
    tsr_tensor output = {"loss", TSR_DTYPE_F32, {1, {70}}, losses};
    digits_must(&d, tsr_model_call(&d.ctx, d.model, "evaluate", inputs, 2, &output, 1));
    for (int i = 0; i < 70; i++) cr_assert(losses[i] > 0 && losses[i] < 20);
    inputs[1].shape.dims[0] = 69;
    REFUSED(&d, tsr_model_call(&d.ctx, d.model, "evaluate", inputs, 2, &output, 1), TSR_DATA,
            "'test_labels' has 69 rows; another input has 70");
    inputs[1].shape.dims[0] = 70;
    labels[66] = 10;
    REFUSED(&d, tsr_model_call(&d.ctx, d.model, "evaluate", inputs, 2, &output, 1), TSR_DATA,
            "rows 64 to 69", "test_labels[2] is 10; expected 0 to 9");
    labels[66] = 0;
    digits_must(&d, tsr_model_call(&d.ctx, d.model, "evaluate", inputs, 2, &output, 1));
    free(labels);
}

Test(call, files_in_and_out) {
    static float memory[DIGITS_TEST_ROWS * DIGITS_CLASSES], file[DIGITS_TEST_ROWS * DIGITS_CLASSES];
    tsr_binding input = {"x", d.paths[2]}, output = {"y", digits_path(&d, "y.npy")};
    tsr_array *array = NULL;
    digits_must(&d, digits_predict(&d.ctx, d.model, images, DIGITS_TEST_ROWS, memory));
    digits_must(&d, tsr_model_call_files(&d.ctx, d.model, "predict", &input, 1, &output, 1));
    digits_must(&d, tsr_array_open(&d.ctx, output.path, TSR_DTYPE_NONE, &array));
    cr_assert_eq(tsr_array_get_dtype(array), TSR_DTYPE_F32);
    cr_assert(tsr_shape_equal(tsr_array_get_shape(array),
                              &(tsr_shape){2, {DIGITS_TEST_ROWS, DIGITS_CLASSES}}));
    digits_must(&d, tsr_array_read(&d.ctx, array, 0, TSR_COUNT(file), file));
    tsr_array_close(&d.ctx, array);
    cr_assert_eq(memcmp(memory, file, sizeof file), 0);
    cr_assert_eq(digits_count_files(d.folder), 1);
}

Test(call, no_rows_are_an_empty_file) {
    uint8_t none = 0;
    tsr_tensor empty = {"x", TSR_DTYPE_UI8, {2, {0, DIGITS_PIXELS}}, &none};
    tsr_binding input = {"x", digits_path(&d, "x.npy")}, output = {"y", digits_path(&d, "y.npy")};
    tsr_array *array = NULL;
    digits_must(&d, tsr_npy_write(&d.ctx, input.path, &empty));
    digits_must(&d, tsr_model_call_files(&d.ctx, d.model, "predict", &input, 1, &output, 1));
    digits_must(&d, tsr_array_open(&d.ctx, output.path, TSR_DTYPE_NONE, &array));
    cr_assert_eq(tsr_array_get_shape(array)->dims[0], 0);
    tsr_array_close(&d.ctx, array);
}

Test(call, outputs_that_are_one_file) {
    char other[128];
    snprintf(other, sizeof other, "%s/./y.npy", d.folder);
    tsr_binding inputs[] = {{"test_images", d.paths[2]}, {"test_labels", d.paths[3]}};
    tsr_binding outputs[] = {{"loss", digits_path(&d, "y.npy")}, {"accuracy", other}};
    REFUSED(&d, tsr_model_call_files(&d.ctx, d.model, "evaluate", inputs, 2, outputs, 2), TSR_USAGE,
            "'loss' and 'accuracy' both go to");
    cr_assert_eq(digits_count_files(d.folder), 0);
    REFUSED(&d, tsr_model_call_files(&d.ctx, d.model, "evaluate", inputs, 2, outputs, 0), TSR_USAGE,
            "no output of entry 'evaluate'");
}

/* Whichever operation fails, no output, temporary file or descriptor remains. */
Test(call, every_failing_operation_leaves_nothing) {
    size_t files = digits_count_files("/proc/self/fd");
    tsr_ctx ctx = {.io = digits_failing_io()};
    tsr_binding input = {"x", d.paths[2]}, output = {"y", digits_path(&d, "y.npy")};
    uint64_t failed = 0;
    for (digits_fail_at = 0;; digits_fail_at++, failed++) {
        digits_operations = 0;
        tsr_result result = tsr_model_call_files(&ctx, d.model, "predict", &input, 1, &output, 1);
        cr_assert_eq(digits_count_files("/proc/self/fd"), files);
        /* A failure while checking whether the output may be replaced is reported only when it is
         * written. A failure after the rename is reported, but the file exists. */
        if (!result.code && digits_operations <= digits_fail_at) break;
        if (access(output.path, F_OK) == 0) unlink(output.path);
        cr_assert_eq(digits_count_files(d.folder), 0, "operation %" PRIu64, digits_fail_at);
        if (result.code) cr_assert_eq(result.code, TSR_IO, "%s", ctx.error.text);
    }
    cr_assert_gt(failed, 5);
}

Test(call, evaluation_counts_every_row_once) {
    static double y[DIGITS_TEST_ROWS * DIGITS_CLASSES];
    int64_t *labels = digits_test_labels(&d);
    double loss = 0, hits = 0;
    tsr_arena arena = {0};
    tsr_eval_report report;
    digits_reference(d.model, images, DIGITS_TEST_ROWS, y);
    for (int row = 0; row < DIGITS_TEST_ROWS; row++) {
        const double *scores = y + row * DIGITS_CLASSES;
        double sum = 0;
        int best = 0;
        for (int i = 0; i < DIGITS_CLASSES; i++) sum += exp(scores[i]);
        for (int i = 1; i < DIGITS_CLASSES; i++)
            if (scores[i] > scores[best]) best = i;
        loss += (log(sum) - scores[labels[row]]) / DIGITS_TEST_ROWS;
        hits += best == labels[row] ? 1.0 / DIGITS_TEST_ROWS : 0;
    }
    digits_must(&d, tsr_model_evaluate(&d.ctx, d.model, NULL, d.data + 2, 2, &arena, &report));
    cr_assert_eq(report.rows, DIGITS_TEST_ROWS);
    cr_assert_eq(report.count, 2);
    cr_assert_str_eq(report.names[0], "loss");
    cr_assert_str_eq(report.names[1], "accuracy");
    cr_assert_float_eq(report.means[0], loss, 1e-5);
    cr_assert_float_eq(report.means[1], hits, 1e-9);
    tsr_arena_finish(&arena);
    free(labels);
}

Test(call, evaluation_of_what_cannot_be_evaluated) {
    tsr_arena arena = {0};
    tsr_eval_report report;
    tsr_binding twice[] = {d.data[2], d.data[3], d.data[2]}, unknown[] = {{"pictures", "x.npy"}};
#define EVALUATE(entry, data, count)                                                               \
    tsr_model_evaluate(&d.ctx, d.model, entry, data, count, &arena, &report)
    REFUSED(&d, EVALUATE("predict", d.data + 2, 2), TSR_USAGE, "'predict' does not evaluate");
    REFUSED(&d, EVALUATE("none", d.data + 2, 2), TSR_USAGE, "no entry 'none'");
    REFUSED(&d, EVALUATE("evaluate", d.data + 2, 1), TSR_USAGE, "test_labels");
    REFUSED(&d, EVALUATE("evaluate", twice, 3), TSR_USAGE, "'test_images' is bound twice");
    REFUSED(&d, EVALUATE("evaluate", unknown, 1), TSR_USAGE, "no data input 'pictures'",
            "test_images, test_labels, images, labels");
#undef EVALUATE
    tsr_arena_finish(&arena);
}
