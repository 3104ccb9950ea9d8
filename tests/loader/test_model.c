/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing models: repeatedly, several at once, with options of any age, and with each
 * operation on the file failing.
 */
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static digits d;
static void init(void) { digits_init(&d); }
static void finish(void) { digits_finish(&d); }
TestSuite(model, .init = init, .fini = finish);

static size_t count_maps(void) {
    char line[1024];
    size_t count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file)) count += strstr(line, "tessera-code") != NULL;
    fclose(file);
    return count;
}

Test(model, opening_often_leaves_nothing) {
    size_t files = digits_count_files("/proc/self/fd"),
           threads = digits_count_files("/proc/self/task");
    size_t maps = count_maps();
    cr_assert_gt(maps, 0);
    for (int i = 0; i < 300; i++) {
        tsr_model *model = digits_open(&d, NULL);
        cr_assert_eq(tsr_model_get_thread_count(model), 2);
        if (i % 50 == 0) digits_must(&d, tsr_model_initialize(&d.ctx, model, 1));
        tsr_model_close(&d.ctx, model);
    }
    cr_assert_eq(digits_count_files("/proc/self/fd"), files);
    cr_assert_eq(digits_count_files("/proc/self/task"), threads);
    cr_assert_eq(count_maps(), maps);
}

static void predict_all(tsr_model *model, float y[static DIGITS_BATCH * DIGITS_CLASSES]) {
    uint8_t x[DIGITS_BATCH * DIGITS_PIXELS];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (uint8_t)(i * 7 % 17);
    digits_must(&d, digits_predict(&d.ctx, model, x, DIGITS_BATCH, y));
}

/* The v2 code has no FMA, so its bits tell which code ran. Closing a model frees descriptor
 * numbers, which the next model gets. */
Test(model, several_at_once_run_their_own_code) {
    float alone[2][DIGITS_BATCH * DIGITS_CLASSES], y[DIGITS_BATCH * DIGITS_CLASSES];
    const char *const levels[] = {"x86-64-v2", "x86-64-v3"};
    if (strcmp(tsr_model_get_target(d.model), "cpu:x86-64-v2") == 0)
        cr_skip_test("this CPU has x86-64-v2 alone");
    for (int i = 0; i < 2; i++) {
        tsr_model *model = digits_open(&d, levels[i]);
        digits_must(&d, tsr_model_initialize(&d.ctx, model, 1));
        predict_all(model, alone[i]);
        tsr_model_close(&d.ctx, model);
    }
    cr_assert_neq(memcmp(alone[0], alone[1], sizeof y), 0, "the levels cannot be told apart");
    tsr_model *open[5] = {NULL};
    int level[5] = {0};
    for (int i = 0; i < 40; i++) {
        int index = i * 3 % 5;
        tsr_model_close(&d.ctx, open[index]);
        level[index] = (i / 2 + index) % 2;
        open[index] = digits_open(&d, levels[level[index]]);
        digits_must(&d, tsr_model_initialize(&d.ctx, open[index], 1));
        for (int j = 0; j < 5; j++) {
            if (!open[j]) continue;
            predict_all(open[j], y);
            cr_assert_eq(memcmp(y, alone[level[j]], sizeof y), 0, "round %d, model %d", i, j);
        }
    }
    for (int i = 0; i < 5; i++) tsr_model_close(&d.ctx, open[i]);
}

Test(model, tells_what_it_is) {
    size_t count = 0;
    const tsr_tensor *state = tsr_model_get_state(d.model, &count);
    tsr_memory_plan plan = tsr_model_get_memory_plan(d.model);
    cr_assert_gt(count, 6);
    for (size_t i = 1; i < count; i++)
        cr_assert_lt(strcmp(state[i - 1].name, state[i].name), 0, "sorted by name");
    cr_assert_eq(plan.tensor_bytes + plan.prepacked_bytes + plan.workspace_bytes + plan.port_bytes,
                 plan.total_bytes);
    cr_assert_str_eq(tsr_model_get_config(d.model)->name, "digits");
    cr_assert(strstr(tsr_model_get_choice(d.model), tsr_model_get_target(d.model)));
    bool fma = strcmp(tsr_model_get_target(d.model), "cpu:x86-64-v2") != 0;
    cr_assert_str_eq(tsr_model_get_numerics(d.model), fma ? "portable+fma.2" : "portable.2");
}

Test(model, options_of_older_and_newer_programs) {
    tsr_model *model = NULL;
    tsr_model_options options = {
        .size_bytes = offsetof(tsr_model_options, threads), .threads = 77777, .cpu = "x86-64-v2"};
    digits_must(&d, tsr_model_open(&d.ctx, digits_bundle_path(), &options, &model));
    cr_assert_str_eq(tsr_model_get_target(model), "cpu:x86-64-v2");
    tsr_model_close(&d.ctx, model);
    model = NULL;
    options.size_bytes = sizeof options + 8;
    REFUSED(&d, tsr_model_open(&d.ctx, digits_bundle_path(), &options, &model), TSR_USAGE,
            "tsr_model_options has");
    options.size_bytes = 0;
    REFUSED(&d, tsr_model_open(&d.ctx, digits_bundle_path(), &options, &model), TSR_USAGE,
            "expected sizeof(tsr_model_options)");
    cr_assert_null(model);
    tsr_model_close(&d.ctx, NULL);
}

Test(model, what_cannot_be_opened) {
    tsr_model *model = NULL;
    tsr_model_options options = {.size_bytes = sizeof options, .cpu = "pentium"};
    REFUSED(&d, tsr_model_open(&d.ctx, digits_path(&d, "none.tsb"), NULL, &model), TSR_IO,
            "none.tsb", "No such file");
    REFUSED(&d, tsr_model_open(&d.ctx, digits_bundle_path(), &options, &model), TSR_USAGE,
            "'pentium'");
    options = (tsr_model_options){.size_bytes = sizeof options, .threads = 1025};
    REFUSED(&d, tsr_model_open(&d.ctx, digits_bundle_path(), &options, &model), TSR_USAGE, "1025",
            "1024");
    cr_assert_null(model);
}

/* Each operation on the bundle fails once. */
Test(model, every_failing_operation_is_an_error_that_leaves_nothing) {
    size_t files = digits_count_files("/proc/self/fd");
    tsr_ctx ctx = {.io = digits_failing_io()};
    tsr_model *model = NULL;
    uint64_t failed = 0;
    for (digits_fail_at = 0;; digits_fail_at++, failed++) {
        digits_operations = 0;
        tsr_result result = tsr_model_open(&ctx, digits_bundle_path(), NULL, &model);
        if (!result.code) break;
        cr_assert_eq(result.code, TSR_IO, "operation %" PRIu64 ": %s", digits_fail_at,
                     ctx.error.text);
        cr_assert_null(model);
        cr_assert_eq(digits_count_files("/proc/self/fd"), files);
    }
    cr_assert_gt(failed, 3);
    digits_fail_at = UINT64_MAX;
    tsr_model_close(&ctx, model);
}

Test(model, an_empty_one_is_not_used) {
    uint8_t x[DIGITS_PIXELS] = {0};
    float y[DIGITS_CLASSES];
    tsr_arena arena = {0};
    tsr_eval_report report;
    REFUSED(&d, digits_predict(&d.ctx, d.model, x, 1, y), TSR_USAGE, "'digits' hold no values");
    REFUSED(&d, tsr_model_export_params(&d.ctx, d.model, digits_path(&d, "p.safetensors")),
            TSR_USAGE, "hold no values");
    REFUSED(&d, tsr_model_evaluate(&d.ctx, d.model, NULL, d.data, 4, &arena, &report), TSR_USAGE,
            "hold no values");
    cr_assert_eq(digits_count_files(d.folder), 0);
    digits_must(&d, tsr_model_initialize(&d.ctx, d.model, 0));
    digits_must(&d, digits_predict(&d.ctx, d.model, x, 1, y));
    tsr_arena_finish(&arena);
}
