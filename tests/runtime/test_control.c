/* SPDX-License-Identifier: Apache-2.0
 *
 * Running loops and branches: slices in both directions, an end by condition and an end by count,
 * nested loops.
 */
#include "runtime/exec/executor.h"
#include "tests/manifests/control_program.h"

#include <criterion/criterion.h>

static void zero_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    float *to = args->buffers[0];
    for (int64_t i = 4 * begin; i < 4 * end; i++) to[i] = 0;
}

static void add_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const float *a = args->buffers[0], *b = args->buffers[1];
    float *to = args->buffers[2];
    for (int64_t i = 4 * begin; i < 4 * end; i++) to[i] = a[i] + b[i];
}

static void twice_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    float *to = args->buffers[0];
    for (int64_t i = 4 * begin; i < 4 * end; i++) to[i] *= 2;
}

static void less_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    const float *x = args->buffers[0];
    unsigned char *holds = args->buffers[1];
    if (begin < end) *holds = x[0] < 6;
}

static const tsr_kernel_fn kernels[] = {zero_kernel, add_kernel, twice_kernel, less_kernel};

typedef struct results {
    float y, ys[3]; /* the first column */
} results;

static results run(example *e, float first, float second, float third) {
    tsr_ctx ctx = {0};
    tsr_threads *threads = NULL;
    tsr_device *device = NULL;
    tsr_executor *executor = NULL;
    cr_assert_eq(tsr_program_verify(&ctx, &e->program, &config, TSR_CORRUPT).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_threads_create(&ctx, 1, &threads).code, TSR_OK);
    cr_assert_eq(tsr_device_cpu_create(&ctx, kernels, threads, &device).code, TSR_OK);
    cr_assert_eq(tsr_executor_create(&ctx, &config, &e->program, device, NULL, &executor).code,
                 TSR_OK);
    float *x = tsr_executor_get_input(executor, 0, 0), rows[] = {first, second, third};
    for (int i = 0; i < 12; i++) x[i] = rows[i / 4];
    /* Two runs: addresses start at the same values again. */
    for (int i = 0; i < 2; i++)
        cr_assert_eq(tsr_executor_run(&ctx, executor, 0, 0).code, TSR_OK, "%s", ctx.error.text);
    const float *y = tsr_executor_get_output(executor, 0, 0);
    const float *ys = tsr_executor_get_output(executor, 0, 1);
    for (int i = 0; i < 4; i++) cr_expect_float_eq(y[i], y[0], 0);
    results got = {y[0], {ys[0], ys[4], ys[8]}};
    tsr_executor_destroy(executor);
    tsr_device_close(device);
    tsr_threads_destroy(threads);
    return got;
}

Test(control, runs_as_often_as_it_may) {
    example e;
    make_example(&e);
    results got = run(&e, 0.5F, 1, 2); /* 2, 3, 3.5 from the last row on; then doubled */
    cr_expect_float_eq(got.ys[2], 2, 0);
    cr_expect_float_eq(got.ys[1], 3, 0);
    cr_expect_float_eq(got.ys[0], 3.5F, 0);
    cr_expect_float_eq(got.y, 7, 0);
}

Test(control, stops_where_its_condition_is_false) {
    example e;
    make_example(&e);
    results got = run(&e, 100, 5, 2); /* 2, 7: the loop ends; 7 is not below 6, so y is 0 */
    cr_expect_float_eq(got.ys[2], 2, 0);
    cr_expect_float_eq(got.ys[1], 7, 0);
    cr_expect_float_eq(got.ys[0], 0, 0, "never written");
    cr_expect_float_eq(got.y, 0, 0);
}

Test(control, may_not_run_at_all) {
    example e;
    make_example(&e);
    e.commands[START] = e.commands[COPY_SUM];
    uint32_t arguments[] = {SUM, SLICE};
    e.commands[START].arguments = arguments;
    results got = run(&e, 1, 2, 9); /* the second run begins with the 9 that the first one took */
    cr_expect_float_eq(got.y, 0, 0);
    cr_expect_float_eq(got.ys[2], 9, 0);
}

Test(control, takes_the_first_slice_first) {
    example e;
    make_example(&e);
    e.commands[TAKE].kernel = 0;
    results got = run(&e, 0.5F, 1, 2); /* taken from the first on, put from the last on */
    cr_expect_float_eq(got.ys[2], 0.5F, 0);
    cr_expect_float_eq(got.ys[1], 1.5F, 0);
    cr_expect_float_eq(got.ys[0], 3.5F, 0);
}

/* Runs the whole example but its last copies twice, starting from 0 each time, or not. */
Test(control, runs_loops_in_loops) {
    for (int from_zero = 0; from_zero < 2; from_zero++) {
        example e;
        tsr_program_command commands[COMMANDS + 2];
        make_example(&e);
        commands[0] = e.commands[START];
        commands[1] = e.commands[REPEAT];
        commands[1].kernel = ZERO + 1;
        commands[1].grid = 2;
        for (int i = START; i < COMMANDS; i++) commands[2 + i] = e.commands[i];
        /* Otherwise the first inner loop ends with 7, so the second one ends at once. */
        if (!from_zero) commands[2 + START] = e.commands[TEST];
        e.entry.commands = commands;
        e.entry.command_count = COMMANDS + 2;
        results got = run(&e, 0.5F, 1, 2);
        cr_expect_float_eq(got.ys[0], 3.5F, 0);
        cr_expect_float_eq(got.y, from_zero ? 7 : 0, 0);
    }
}
