/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/arena.h"
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "runtime/base/trace/trace.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tsr_trace_detail nothing;

/* Returns the text of the file, in the arena. */
static const char *write_and_read(const tsr_trace *trace, tsr_arena *arena) {
    tsr_ctx ctx = {0};
    char folder[] = "/tmp/tessera-trace-XXXXXX", path[64];
    void *bytes = NULL;
    size_t size = 0;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.json", folder);
    cr_assert_eq(tsr_trace_write(&ctx, trace, path).code, TSR_OK, "%s", ctx.error.text);
    cr_assert_eq(tsr_io_read_file(&ctx, path, 1 << 24, arena, &bytes, &size).code, TSR_OK);
    unlink(path);
    rmdir(folder);
    return bytes;
}

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;
    for (; (text = strstr(text, part)); text++) count++;
    return count;
}

Test(trace, none_is_no_trace) {
    tsr_trace_step(NULL, 3);
    tsr_trace_save(NULL);
    cr_assert_eq(tsr_trace_begin(NULL, TSR_TRACK_STEPS), 0);
    tsr_trace_end(NULL, TSR_TRACK_STEPS, "a", 7);
    tsr_trace_span(NULL, TSR_TRACK_STEPS, "a", 7, 8, nothing);
    tsr_trace_value(NULL, "b", 7, 1);
    tsr_trace_destroy(NULL);
}

Test(trace, order_and_texts) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_trace *trace = NULL;
    cr_assert_eq(tsr_trace_create(&ctx, NULL, &trace).code, TSR_OK);
    tsr_trace_span(trace, TSR_TRACK_KERNELS, "inner", 2500, 2501, (tsr_trace_detail){"a\"b", 9, 0});
    tsr_trace_span(trace, TSR_TRACK_STEPS, "step", 1000, 4000, (tsr_trace_detail){.number = 12});
    tsr_trace_span(trace, TSR_TRACK_STEPS, "child", 1000, 3000, nothing);
    tsr_trace_span(trace, TSR_TRACK_STEPS, "turned", 9000, 8000, nothing);
    tsr_trace_span(trace, TSR_TRACK_STEPS, "never begun", 0, 8000, nothing);
    tsr_trace_value(trace, "memory", 2000, 77);
    const char *text = write_and_read(trace, &arena);
    static const char *const lines[] = {
        "{\"name\":\"step 12\",\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":1.000,\"dur\":3.000}",
        "{\"name\":\"child\",\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":1.000,\"dur\":2.000}",
        "{\"name\":\"memory\",\"ph\":\"C\",\"pid\":0,\"tid\":0,\"ts\":2.000,\"args\":{\"bytes\":77}"
        "}",
        "{\"name\":\"inner\",\"ph\":\"X\",\"pid\":0,\"tid\":3,\"ts\":2.500,\"dur\":0.001,"
        "\"args\":{\"location\":\"a\\\"b\",\"bytes\":9}}",
        "{\"name\":\"turned\",\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":9.000,\"dur\":0.000}"};
    const char *at = text;
    for (size_t i = 0; i < TSR_COUNT(lines); i++) {
        at = strstr(at, lines[i]);
        cr_assert_not_null(at, "'%s' is not there, or not behind the one before, in\n%s", lines[i],
                           text);
    }
    cr_assert_null(strstr(text, "never begun"));
    tsr_trace_destroy(trace);
    tsr_arena_finish(&arena);
}

Test(trace, steps_and_saves) {
    tsr_ctx ctx = {0};
    tsr_trace *trace = NULL;
    tsr_trace_options options = {.size_bytes = sizeof options, .first_step = 5, .last_step = 6};
    cr_assert_eq(tsr_trace_create(&ctx, &options, &trace).code, TSR_OK);
    cr_assert(tsr_trace_records(trace, TSR_TRACK_STEPS) &&
              tsr_trace_records(trace, TSR_TRACK_SAVES));
    for (uint64_t step = 4; step < 9; step++) {
        tsr_trace_step(trace, step);
        cr_assert_eq(tsr_trace_records(trace, TSR_TRACK_COPIES), step == 5 || step == 6);
        /* Recording of a save is decided when it begins, regardless of later steps. */
        cr_assert_eq(tsr_trace_records(trace, TSR_TRACK_HASHES), step == 4 || step == 7);
        if (step == 4 || step == 6 || step == 7) tsr_trace_save(trace);
        cr_assert_eq(tsr_trace_begin(trace, TSR_TRACK_SAVES) > 0, step == 6);
    }
    tsr_trace_destroy(trace);
    options.last_step = 4;
    cr_assert_eq(tsr_trace_create(&ctx, &options, &trace).code, TSR_USAGE);
    cr_assert_str_eq(ctx.error.text, "the last step of the trace is 4; the first one is 5");
}

static void *record_many(void *user) {
    for (uint64_t i = 1; i <= 1000; i++)
        tsr_trace_span(user, TSR_TRACK_SAVES, "many", 10 * i, 10 * i + 1, nothing);
    return NULL;
}

/* Threads do not affect each other, and events that do not fit are counted. */
Test(trace, room) {
    static const uint32_t rooms[] = {4000, 700};
    for (size_t r = 0; r < 2; r++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_trace *trace = NULL;
        pthread_t threads[4];
        char dropped[64];
        tsr_trace_options options = {.size_bytes = sizeof options, .events_max = rooms[r]};
        cr_assert_eq(tsr_trace_create(&ctx, &options, &trace).code, TSR_OK);
        for (int i = 0; i < 4; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, record_many, trace), 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        const char *text = write_and_read(trace, &arena);
        snprintf(dropped, sizeof dropped, "\"dropped\":%u}", 4000 - rooms[r]);
        cr_assert_not_null(strstr(text, dropped));
        cr_assert_eq(count_of(text, "\"many\""), rooms[r]);
        tsr_trace_destroy(trace);
        tsr_arena_finish(&arena);
    }
}
