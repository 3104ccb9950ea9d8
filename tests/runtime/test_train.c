/* SPDX-License-Identifier: Apache-2.0
 *
 * Executor and training loop on the toy program, with the real state store and data sets.
 */
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "runtime/data/array_file.h"
#include "runtime/initialize.h"
#include "runtime/train.h"
#include "tests/runtime/toy.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 7 };

typedef struct bench {
    tsr_ctx ctx;
    char folder[64], data_path[96], state_path[96];
    tsr_threads *threads;
    tsr_device *device;
    tsr_executor *executor;
    tsr_dataset *data, *eval_data;
    tsr_store *store;
    tsr_recovery recovery;
    tsr_tensor state[2];
    tsr_train_job job;
    tsr_train_summary summary;
    unsigned eval_count, save_count, step_count;
    double last_mean, first_loss, last_loss;
} bench;

static void must(const bench *b, tsr_result result) {
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
}

static void on_step(void *user, const tsr_step_report *step) {
    bench *b = user;
    b->last_loss = (double)*(const float *)step->outputs[0].data;
    if (b->step_count++ == 0) b->first_loss = b->last_loss;
}
static void on_eval(void *user, const tsr_eval_report *eval) {
    bench *b = user;
    b->eval_count++;
    b->last_mean = eval->means[0];
    cr_assert_eq(eval->rows, ROWS);
}
static void on_saved(void *user, const tsr_save_status *saves) {
    ((bench *)user)->save_count++;
    cr_assert_gt(saves->last_committed.number, 0);
}

static tsr_dataset *open_data(bench *b, const char *name) {
    tsr_dataset_port port = {name, TSR_DTYPE_UI8, {2, {2, 4}}};
    tsr_dataset_binding binding = {name, b->data_path};
    tsr_dataset_options options = {.size_bytes = sizeof options};
    tsr_dataset *data = NULL;
    must(b, tsr_dataset_open(&b->ctx, &port, 1, &binding, 1, &options, &data));
    return data;
}

static void write_data(bench *b, uint8_t value) {
    uint8_t rows[ROWS * 4];
    for (int i = 0; i < ROWS * 4; i++) rows[i] = (uint8_t)(i + 1);
    rows[9] = value;
    tsr_tensor tensor = {"x", TSR_DTYPE_UI8, {2, {ROWS, 4}}, rows};
    must(b, tsr_npy_write(&b->ctx, b->data_path, &tensor));
}

/* Begins a fresh run, or one from the state directory of an earlier bench. */
static void begin(bench *b, const char *folder, uint32_t seed, bool with_store) {
    memset(b, 0, sizeof *b);
    if (folder)
        snprintf(b->folder, sizeof b->folder, "%s", folder);
    else {
        strcpy(b->folder, "/tmp/tessera-train-XXXXXX");
        cr_assert_not_null(mkdtemp(b->folder));
    }
    snprintf(b->data_path, sizeof b->data_path, "%s/x.npy", b->folder);
    snprintf(b->state_path, sizeof b->state_path, "%s/state", b->folder);
    write_data(b, 10);
    must(b, tsr_threads_create(&b->ctx, 3, &b->threads));
    must(b, tsr_device_cpu_create(&b->ctx, toy_kernels, b->threads, &b->device));
    must(b, tsr_executor_create(&b->ctx, &toy_config, &toy_program, b->device, NULL, &b->executor));
    for (size_t i = 0; i < 2; i++) {
        const tsr_config_tensor *tensor = &toy_config.tensors[i];
        b->state[i] = (tsr_tensor){tensor->name, tensor->dtype, tensor->shape,
                                   tsr_executor_get_tensor(b->executor, i)};
        must(b, tsr_initialize_tensor(&b->ctx, tensor, seed, NULL, b->state[i].data));
    }
    b->data = open_data(b, "x");
    b->eval_data = open_data(b, "test_x");
    b->job = (tsr_train_job){.config = &toy_config,
                             .executor = b->executor,
                             .entry = TOY_TRAIN,
                             .data = b->data,
                             .eval_entry = TOY_ROWS,
                             .eval_data = b->eval_data,
                             .state = b->state,
                             .state_count = 2,
                             .tracked = b->state,
                             .tracked_count = 2,
                             .position = {.seed = seed, .virtual_ranks = 1, .shuffle_version = 1},
                             .last_step = 20,
                             .callbacks = {b, on_step, on_eval, on_saved, NULL}};
    if (!with_store) return;
    tsr_store_options options = {
        .size_bytes = sizeof options, .directory = b->state_path, .keep = 2, .finite = true};
    must(b, tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery));
    if (b->recovery.found) {
        must(b, tsr_store_load(&b->ctx, b->store, b->state, 2));
        b->job.position = b->recovery.generation.position;
    }
    must(b, tsr_store_reserve(&b->ctx, b->store, b->state, 2));
    b->job.store = b->store;
}

static void finish(bench *b, bool remove) {
    char command[160];
    tsr_store_close(&b->ctx, b->store);
    tsr_dataset_close(&b->ctx, b->data);
    tsr_dataset_close(&b->ctx, b->eval_data);
    tsr_executor_destroy(b->executor);
    tsr_device_close(b->device);
    tsr_threads_destroy(b->threads);
    snprintf(command, sizeof command, "rm -rf '%s'", b->folder);
    if (remove) cr_assert_eq(system(command), 0);
}

static tsr_digest run_whole(uint32_t seed) {
    bench b;
    begin(&b, NULL, seed, false);
    must(&b, tsr_train_run(&b.ctx, &b.job, &b.summary));
    cr_assert_eq(b.summary.position.step, 20);
    cr_assert_eq(b.summary.position.sample, 40);
    cr_assert_eq(*(int64_t *)b.state[1].data, 20);
    cr_assert_lt(b.last_loss, b.first_loss);
    finish(&b, true);
    return b.summary.state_hash;
}

Test(train, learns_and_repeats_itself) {
    tsr_digest first = run_whole(3), second = run_whole(3), other = run_whole(4);
    cr_assert(tsr_digest_equal(&first, &second));
    cr_assert(!tsr_digest_equal(&first, &other));
}

Test(train, a_resumed_run_equals_an_undisturbed_one) {
    bench b;
    tsr_digest whole = run_whole(3);
    begin(&b, NULL, 3, true);
    char folder[64];
    strcpy(folder, b.folder);
    b.job.last_step = 11;
    b.job.save_every = 4;
    must(&b, tsr_train_run(&b.ctx, &b.job, &b.summary));
    cr_assert_eq(b.summary.saves.last_committed.position.step, 11);
    cr_assert_eq(b.summary.saves.failed_count, 0);
    cr_assert_geq(b.save_count, 1);
    finish(&b, false);
    begin(&b, folder, 99, true);
    cr_assert(b.recovery.found);
    cr_assert_eq(b.job.position.step, 11);
    b.job.last_step = 20;
    must(&b, tsr_train_run(&b.ctx, &b.job, &b.summary));
    cr_assert(tsr_digest_equal(&b.summary.state_hash, &whole));
    finish(&b, true);
}

Test(train, evaluates_every_row_once) {
    bench b;
    begin(&b, NULL, 0, false);
    b.job.eval_every = 5;
    must(&b, tsr_train_run(&b.ctx, &b.job, &b.summary));
    cr_assert_eq(b.eval_count, 4); /* steps 5, 10 and 15, and the end */
    cr_assert_float_eq(b.last_mean, 2 * 29.0 / 2,
                       1e-9); /* the mean of 1 … 28, doubled: the padding does not count */
    finish(&b, true);
}

Test(train, stop_request_saves_what_was_done) {
    bench b;
    volatile sig_atomic_t stop = 1;
    begin(&b, NULL, 0, true);
    b.job.stop = &stop;
    must(&b, tsr_train_run(&b.ctx, &b.job, &b.summary));
    cr_assert(b.summary.stopped);
    cr_assert_eq(b.summary.position.step, 0);
    stop = 0;
    must(&b, tsr_train_run(&b.ctx, &b.job, &b.summary));
    cr_assert(!b.summary.stopped);
    finish(&b, true);
}

Test(train, not_finite_is_named_and_never_saved) {
    bench b;
    begin(&b, NULL, 0, true);
    toy_poison = NAN;
    cr_assert_eq(tsr_train_run(&b.ctx, &b.job, &b.summary).code, TSR_NONFINITE);
    cr_assert(strstr(b.ctx.error.text, "'loss'") && strstr(b.ctx.error.text, "step 1"), "%s",
              b.ctx.error.text);
    cr_assert_eq(b.summary.saves.committed_count, 0);
    toy_poison = 0;
    finish(&b, true);
}

static void poison_state(void *user, const tsr_step_report *step) {
    bench *b = user;
    on_step(user, step);
    if (step->step == 3) ((float *)b->state[0].data)[2] = -INFINITY;
}

/* The save of step 3 finds the value while step 4 runs, whose loss shows it too. The message names
 * the origin, after step 3, whether the state is saved then, at the end, or never. */
Test(train, a_state_that_is_not_finite_is_told_before_what_came_of_it) {
    for (uint64_t save_every = 0; save_every < 4; save_every++) {
        bench b;
        begin(&b, NULL, 0, save_every != 0);
        b.job.callbacks.step = poison_state;
        b.job.save_every = save_every;
        if (save_every != 1 && save_every != 3) b.job.last_step = 3;
        cr_assert_eq(tsr_train_run(&b.ctx, &b.job, &b.summary).code, TSR_NONFINITE);
        cr_assert_str_eq(b.ctx.error.text,
                         "tensor 'w' has -inf at element 2 at step 3; expected finite numbers");
        cr_assert_eq(b.step_count, 3, "no step after it is reported");
        cr_assert_eq(b.summary.saves.failed_count, 0);
        cr_assert_eq(b.summary.saves.committed_count,
                     save_every ? 3 / save_every - (save_every != 2) : 0);
        finish(&b, true);
    }
}

/* Each type of float is checked; integers are not. */
Test(train, not_finite_in_any_float) {
    static float f32[] = {1, INFINITY};
    static double f64[] = {1, -INFINITY};
    static uint16_t bf16[] = {0x3f80, 0x7fc0}, f16[] = {0x3c00, 0x7c00};
    static int64_t i64[] = {1, INT64_MAX};
    const tsr_tensor tensors[] = {{"a", TSR_DTYPE_F32, {1, {2}}, f32},
                                  {"b", TSR_DTYPE_F64, {1, {2}}, f64},
                                  {"c", TSR_DTYPE_BF16, {1, {2}}, bf16},
                                  {"d", TSR_DTYPE_F16, {1, {2}}, f16},
                                  {"e", TSR_DTYPE_I64, {1, {2}}, i64}};
    static const char *const expected[] = {
        "tensor 'a' has inf at element 1", "tensor 'b' has -inf at element 1",
        "tensor 'c' has nan at element 1", "tensor 'd' has inf at element 1", NULL};
    for (size_t i = 0; i < TSR_COUNT(tensors); i++) {
        bench b;
        begin(&b, NULL, 0, false);
        b.job.state = &tensors[i];
        b.job.state_count = 1;
        tsr_result result = tsr_train_run(&b.ctx, &b.job, &b.summary);
        cr_assert_eq(result.code, expected[i] ? TSR_NONFINITE : TSR_OK, "%s", tensors[i].name);
        cr_assert(!expected[i] || strncmp(b.ctx.error.text, expected[i], strlen(expected[i])) == 0,
                  "%s", b.ctx.error.text);
        finish(&b, true);
    }
}

typedef struct guarded {
    const bench *b;
    float w;
    int64_t count;
    unsigned calls[2];
} guarded;

static void note_guard(void *user, const void *tensor) {
    guarded *g = user;
    for (size_t i = 0; i < 2; i++) {
        if (tensor != g->b->state[i].data) continue;
        g->calls[i]++;
        if (i == 0) g->w = *(const float *)tensor;
        if (i == 1) g->count = *(const int64_t *)tensor;
    }
}

/* The guard is called before each change of a tensor, for its readers. */
Test(train, the_guard_is_called_before_a_tensor_is_written) {
    bench b;
    begin(&b, NULL, 0, false);
    guarded g = {.b = &b};
    float before = ((const float *)b.state[0].data)[0];
    tsr_executor_set_guard(b.executor, note_guard, &g);
    must(&b, tsr_executor_run(&b.ctx, b.executor, TOY_ROWS, 0));
    cr_assert(g.calls[0] == 0 && g.calls[1] == 0, "this entry writes no tensor");
    memset(tsr_executor_get_input(b.executor, TOY_TRAIN, 0), 5, 8);
    must(&b, tsr_executor_run(&b.ctx, b.executor, TOY_TRAIN, 1));
    cr_assert(g.calls[0] == 1 && g.calls[1] == 1, "%u, %u", g.calls[0], g.calls[1]);
    cr_assert_eq(g.w, before, "it was called after the write");
    cr_assert_eq(g.count, 0);
    cr_assert_eq(*(const int64_t *)b.state[1].data, 1);
    cr_assert_neq(((const float *)b.state[0].data)[0], before);
    tsr_executor_set_guard(b.executor, NULL, NULL);
    must(&b, tsr_executor_run(&b.ctx, b.executor, TOY_TRAIN, 2));
    cr_assert_eq(g.calls[0] + g.calls[1], 2);
    uint32_t changes[2] = {0};
    tsr_program_number_changes(&toy_program.entries[TOY_TRAIN], changes);
    cr_assert(changes[0] == 1 && changes[1] == 2, "%u, %u", changes[0], changes[1]);
    finish(&b, true);
}

Test(train, index_out_of_range_changes_nothing) {
    bench b;
    begin(&b, NULL, 0, false);
    float before[4];
    memcpy(before, b.state[0].data, sizeof before);
    toy_limit = 1; /* every value is out of range */
    cr_assert_eq(tsr_train_run(&b.ctx, &b.job, &b.summary).code, TSR_DATA);
    /* Row r of the data contains 4 r + 1 … 4 r + 4. */
    cr_assert(strstr(b.ctx.error.text,
                     "step 1, row 3 of the data: x[0] is 13; expected 0 to 0 at toy.mlir:3:5"),
              "%s", b.ctx.error.text);
    cr_assert_eq(memcmp(before, b.state[0].data, sizeof before), 0);
    toy_limit = 256;
    finish(&b, true);
}

/* ---- saves that fail ---- */

static tsr_io failing;
static unsigned fail_count;

static int refuse_fsync(void *self, int fd) {
    if (fail_count == 0) return tsr_io_system()->fsync(self, fd);
    fail_count--;
    return -5; /* EIO */
}

static void run_with_failures(bench *b, unsigned count, tsr_code expected) {
    begin(b, NULL, 0, true);
    finish(b, false);
    char folder[64];
    strcpy(folder, b->folder);
    failing = *tsr_io_system();
    failing.fsync = refuse_fsync;
    fail_count = 0;
    begin(b, folder, 0, false);
    b->ctx.io = &failing;
    tsr_store_options options = {
        .size_bytes = sizeof options, .directory = b->state_path, .keep = 2, .finite = true};
    must(b, tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery));
    must(b, tsr_store_reserve(&b->ctx, b->store, b->state, 2));
    b->job.store = b->store;
    b->job.save_every = 1;
    fail_count = count;
    cr_assert_eq(tsr_train_run(&b->ctx, &b->job, &b->summary).code, expected, "%s",
                 b->ctx.error.text);
}

Test(train, one_failed_save_is_counted_and_the_run_goes_on) {
    bench b;
    run_with_failures(&b, 1, TSR_OK);
    cr_assert_eq(b.summary.saves.failed_count, 1);
    cr_assert_eq(b.summary.position.step, 20);
    cr_assert_eq(b.summary.saves.last_committed.position.step, 20);
    finish(&b, true);
}

Test(train, three_failed_saves_in_a_row_stop_the_run) {
    bench b;
    run_with_failures(&b, 1000, TSR_SAVE);
    cr_assert_eq(b.summary.saves.failed_in_a_row, 3);
    cr_assert_lt(b.summary.position.step, 20);
    finish(&b, true);
}
