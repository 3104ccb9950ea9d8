/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/io/io.h"
#include "runtime/record/record.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static float weights[6] = {1, 2, 3, 4, 5, 6};
static int64_t counter;
static const tsr_tensor tensors[] = {
    {"a.weight", TSR_DTYPE_F32, {2, {2, 3}}, weights},
    {"b.counter", TSR_DTYPE_I64, {0, {0}}, &counter},
};
static char path[64];

static void make_path(void) {
    strcpy(path, "/tmp/tessera-record-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    unlink(path);
    counter = 0;
    weights[0] = 1;
}
static void remove_path(void) { unlink(path); }
TestSuite(record, .init = make_path, .fini = remove_path);

static void advance(uint64_t step) {
    counter = (int64_t)step;
    weights[0] = 1 + (float)step;
}

static void write_log(uint64_t steps) {
    tsr_ctx ctx = {0};
    tsr_recorder *recorder = NULL;
    tsr_record_data data = {"images", tsr_hash("x", 1)};
    tsr_record_header header = {.bundle_hash = tsr_hash("b", 1),
                                .numerics = "portable+fma",
                                .entry = "train",
                                .seed = 7,
                                .step = 3,
                                .generation = 2,
                                .epoch = 1,
                                .data_count = 1,
                                .data = &data};
    advance(3);
    cr_assert_eq(tsr_recorder_create(&ctx, path, &header, tensors, 2, &recorder).code, TSR_OK, "%s",
                 ctx.error.text);
    for (uint64_t step = 4; step <= 3 + steps; step++) {
        advance(step);
        cr_assert_eq(tsr_recorder_append(&ctx, recorder, step).code, TSR_OK);
    }
    cr_assert_eq(tsr_recorder_close(&ctx, recorder).code, TSR_OK);
}

static tsr_replay *open_log(void) {
    tsr_ctx ctx = {0};
    tsr_replay *replay = NULL;
    cr_assert_eq(tsr_replay_open(&ctx, path, &replay).code, TSR_OK, "%s", ctx.error.text);
    return replay;
}

static void replace(const char *from, const char *to) {
    FILE *file = fopen(path, "r+");
    char text[8192];
    size_t size = fread(text, 1, sizeof text - 1, file);
    text[size] = 0;
    char *at = strstr(text, from);
    cr_assert_not_null(at, "%s", text);
    cr_assert_eq(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    rewind(file);
    fwrite(text, 1, size, file);
    fclose(file);
}

Test(record, equal_runs_match) {
    tsr_ctx ctx = {0};
    write_log(5);
    tsr_replay *replay = open_log();
    const tsr_record_header *header = tsr_replay_get_header(replay);
    cr_assert_eq(header->seed, 7);
    cr_assert_eq(header->generation, 2);
    cr_assert_str_eq(header->data[0].name, "images");
    cr_assert_eq(tsr_replay_get_last_step(replay), 8);
    for (uint64_t step = 3; step <= 8; step++) {
        advance(step);
        cr_assert_eq(tsr_replay_check(&ctx, replay, step, tensors, 2).code, TSR_OK, "%s",
                     ctx.error.text);
    }
    cr_assert_eq(tsr_replay_check(&ctx, replay, 9, tensors, 2).code, TSR_DATA);
    tsr_replay_close(replay);
}

Test(record, divergence_names_step_and_tensor) {
    tsr_ctx ctx = {0};
    write_log(5);
    tsr_replay *replay = open_log();
    advance(6);
    weights[5] = 6.0000005f;
    cr_assert_eq(tsr_replay_check(&ctx, replay, 6, tensors, 2).code, TSR_DIVERGED);
    cr_assert_str_eq(ctx.error.text,
                     "step 6, tensor 'a.weight', element 5: recorded 6, replayed 6.00000048");
    weights[5] = 6;
    counter++;
    cr_assert_eq(tsr_replay_check(&ctx, replay, 6, tensors, 2).code, TSR_DIVERGED);
    cr_assert_str_eq(ctx.error.text,
                     "step 6, tensor 'b.counter', element 0: recorded 6, replayed 7");
    tsr_replay_close(replay);
}

/* A tensor of 5000 elements. From each starting position on, every 7th element differs. */
Test(record, values_name_the_first_of_several) {
    enum { COUNT = 5000, EACH = 7 };
    static float many[COUNT];
    const tsr_tensor tensor = {"many", TSR_DTYPE_F32, {1, {COUNT}}, many};
    const tsr_record_header header = {
        .numerics = "portable", .entry = "train", .has_values = true, .values_of = 1};
    tsr_ctx ctx = {0};
    tsr_recorder *recorder = NULL;
    for (size_t i = 0; i < COUNT; i++) many[i] = (float)i;
    cr_assert_eq(tsr_recorder_create(&ctx, path, &header, &tensor, 1, &recorder).code, TSR_OK);
    for (uint64_t step = 1; step < 3; step++)
        cr_assert_eq(tsr_recorder_append(&ctx, recorder, step).code, TSR_OK);
    cr_assert_eq(tsr_recorder_close(&ctx, recorder).code, TSR_OK);
    tsr_replay *replay = open_log();
    cr_assert_eq(tsr_replay_check(&ctx, replay, 1, &tensor, 1).code, TSR_OK);
    for (size_t first = COUNT - 2 * EACH;; first -= EACH) {
        char expected[256];
        for (size_t i = first; i < COUNT; i += EACH) many[i] = (float)i + 0.5f;
        cr_assert_eq(tsr_replay_check(&ctx, replay, 1, &tensor, 1).code, TSR_DIVERGED);
        snprintf(expected, sizeof expected,
                 "step 1, tensor 'many', element %zu: recorded %.9g, replayed %.9g", first,
                 (double)first, (double)many[first]);
        cr_assert_str_eq(ctx.error.text, expected);
        cr_assert_eq(tsr_replay_check(&ctx, replay, 2, &tensor, 1).code, TSR_DIVERGED);
        if (first % (COUNT / 8) + EACH < COUNT / 8) /* several elements of this eighth differ */
            cr_assert(strstr(ctx.error.text, "a log with the values of step 2 tells"), "%s",
                      ctx.error.text);
        if (first < EACH) break;
    }
    tsr_replay_close(replay);
}

Test(record, tampered_logs_are_found) {
    tsr_ctx ctx = {0};
    tsr_replay *replay = NULL;
    write_log(2);
    replace("\"step\":5", "\"step\":6");
    cr_assert_eq(tsr_replay_open(&ctx, path, &replay).code, TSR_DATA);
    cr_assert(strstr(ctx.error.text, "line 4"), "%s", ctx.error.text);
    replace("\"step\":6", "\"step\":5");
    replace("record.v2", "record.v9");
    cr_assert_eq(tsr_replay_open(&ctx, path, &replay).code, TSR_VERSION);
    replace("record.v9", "record.v2");
    replace("\"epoch\":1", "\"epoch\":2");
    cr_assert_eq(tsr_replay_open(&ctx, path, &replay).code, TSR_DATA);
    cr_assert(strstr(ctx.error.text, "line 2: the chain is"), "%s", ctx.error.text);
    replace("\"epoch\":2", "\"epoch\":1");
    replace("\"sums\":[\"0", "\"sums\":[\"x");
    cr_assert_eq(tsr_replay_open(&ctx, path, &replay).code, TSR_DATA);
    cr_assert(strstr(ctx.error.text, "expected 256 hexadecimal digits"), "%s", ctx.error.text);
    cr_assert_null(replay);
}

Test(record, unfinished_last_line_is_ignored) {
    write_log(4);
    int fd = open(path, O_RDWR);
    off_t size = lseek(fd, 0, SEEK_END);
    cr_assert_eq(ftruncate(fd, size - 10), 0);
    close(fd);
    tsr_replay *replay = open_log();
    cr_assert_eq(tsr_replay_get_last_step(replay), 6);
    tsr_replay_close(replay);
}

Test(record, never_overwrites) {
    tsr_ctx ctx = {0};
    tsr_recorder *recorder = NULL;
    tsr_record_header header = {.numerics = "portable", .entry = "train"};
    write_log(1);
    cr_assert_eq(tsr_recorder_create(&ctx, path, &header, tensors, 2, &recorder).code, TSR_USAGE);
    cr_assert_null(recorder);
}

Test(record, a_seed_of_more_than_32_bits_is_refused) {
    tsr_ctx ctx = {0};
    tsr_replay *replay = NULL;
    write_log(1);
    replace("\"seed\":7,\"step\":3,\"generation\":2", "\"seed\":8589934599,\"step\":3,\"g\":2");
    cr_assert_eq(tsr_replay_open(&ctx, path, &replay).code, TSR_DATA);
    cr_assert(strstr(ctx.error.text, "line 1: seed is 8589934599; expected at most 4294967295"),
              "%s", ctx.error.text);
}

static tsr_io failing;
static unsigned writes_left;
static ssize_t count_writes(void *self, int fd, const void *bytes, size_t size, off_t offset) {
    if (writes_left == 0) return -ENOSPC;
    writes_left--;
    return tsr_io_system()->pwrite(self, fd, bytes, size, offset);
}

Test(record, a_log_that_cannot_be_begun_leaves_no_file) {
    tsr_record_header header = {.numerics = "portable", .entry = "train"};
    failing = *tsr_io_system();
    failing.pwrite = count_writes;
    for (unsigned count = 0; count < 2; count++) {
        tsr_ctx ctx = {.io = &failing};
        tsr_recorder *recorder = NULL;
        writes_left = count;
        cr_assert_eq(tsr_recorder_create(&ctx, path, &header, tensors, 2, &recorder).code, TSR_IO);
        cr_assert_null(recorder);
        cr_assert_neq(access(path, F_OK), 0);
    }
}

Test(record, a_failed_append_is_reported) {
    tsr_record_header header = {.numerics = "portable", .entry = "train"};
    tsr_ctx ctx = {.io = &failing};
    tsr_recorder *recorder = NULL;
    failing = *tsr_io_system();
    failing.pwrite = count_writes;
    writes_left = 2;
    cr_assert_eq(tsr_recorder_create(&ctx, path, &header, tensors, 2, &recorder).code, TSR_OK);
    cr_assert_eq(tsr_recorder_append(&ctx, recorder, 1).code, TSR_IO);
    cr_assert(strstr(ctx.error.text, "No space left"), "%s", ctx.error.text);
    cr_assert_eq(tsr_recorder_close(&ctx, recorder).code, TSR_OK);
}
