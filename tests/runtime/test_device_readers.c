/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of devices with their own memory that is concurrent with runs: reading and keeping tensors,
 * and hashing chunks of files on a GPU.
 */
#include "runtime/base/array.h"
#include "runtime/device/cuda_ptx.h"
#include "runtime/device/gpu/driver.h"
#include "runtime/exec/executor.h"
#include "tests/runtime/device_bench.h"
#include "tests/runtime/toy.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* ---- readers concurrent with runs ------------------------------------------------------------ */

typedef struct side_reads {
    bench b;
    tsr_executor *executor;
    float before[4]; /* values of the tensor before the step */
    int guarded, launches;
} side_reads;

/* No command writes the tensor until this function returns, regardless of the progress of the
 * step. */
static void check_guarded(void *user, const void *tensor) {
    side_reads *s = user;
    const void *bytes = NULL;
    cr_assert_null(tensor);
    cr_assert_eq(fake->launches, s->launches + 1, "what is before the first write has been begun");
    cr_assert_eq(tsr_executor_read(&s->b.ctx, s->executor, 1,
                                   tsr_executor_get_tensor(s->executor, 0), sizeof s->before,
                                   &bytes)
                     .code,
                 TSR_OK);
    cr_assert_arr_eq(bytes, s->before, sizeof s->before);
    s->guarded++;
}

static void read_during_runs(bool one_by_one) {
    side_reads s = {.guarded = 0};
    const void *bytes = NULL;
    bench_open_fake();
    tsr_device_options options = bench_cuda_options(&s.b);
    options.one_by_one = one_by_one;
    cr_assert_eq(tsr_device_open(&s.b.ctx, "cuda", &options, &s.b.device).code, TSR_OK);
    cr_assert_eq(
        tsr_executor_create(&s.b.ctx, &toy_config, &toy_program, s.b.device, NULL, &s.executor)
            .code,
        TSR_OK);
    float *w = tsr_executor_get_tensor(s.executor, 0);
    for (int i = 0; i < 4; i++) w[i] = (float)(i + 1);
    cr_assert_eq(tsr_executor_ready_readers(&s.b.ctx, s.executor, 2).code, TSR_OK);
    memcpy(s.before, w, sizeof s.before);
    tsr_executor_set_guard(s.executor, check_guarded, &s);
    for (uint64_t step = 1; step < 4; step++) {
        s.launches = fake->launches;
        cr_assert_eq(tsr_executor_run(&s.b.ctx, s.executor, TOY_TRAIN, step).code, TSR_OK);
        cr_assert_eq(tsr_executor_read(&s.b.ctx, s.executor, 0, w, sizeof s.before, &bytes).code,
                     TSR_OK);
        cr_assert_neq(memcmp(bytes, s.before, sizeof s.before), 0);
        cr_assert_neq(bytes, (const void *)w, "the host's copy is that of before");
        memcpy(s.before, bytes, sizeof s.before);
    }
    cr_assert_eq(s.guarded, 3);
    tsr_executor_set_guard(s.executor, NULL, NULL);
    cr_assert_eq(tsr_executor_fetch(&s.b.ctx, s.executor).code, TSR_OK);
    cr_assert_arr_eq(w, s.before, sizeof s.before);
    tsr_executor_destroy(s.executor);
    bench_close(&s.b);
}

Test(device_readers, tensors_are_read_during_runs) {
    read_during_runs(false);
    read_during_runs(true);
    bench_expect_nothing_open("at the end");
}

static void never(void *user, const void *tensor) {
    (void)tensor;
    cr_assert_fail("%s", (const char *)user);
}

/* Runs a step while a tensor is being downloaded. */
static bench *running;
static tsr_executor *run_by;
static void run_between(void) {
    cr_assert_eq(tsr_executor_run(&running->ctx, run_by, TOY_TRAIN, 1).code, TSR_OK);
}

static void expect_snapshot(bench *b, tsr_executor *executor, size_t tensor, const void *expected) {
    const void *bytes = NULL;
    tsr_result result =
        tsr_executor_read_snapshot(&b->ctx, executor, 1, tsr_executor_get_tensor(executor, tensor),
                                   tensor == 0 ? 16 : 8, &bytes);
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert_eq(memcmp(bytes, expected, tensor == 0 ? 16 : 8), 0, "tensor %zu", tensor);
}

/* Kept tensors are read with their old values: before, during and after the write of a step. The
 * step copies only tensors that were not read before, and it waits for no reader. */
Test(device_readers, snapshots_stay) {
    static const struct {
        bool before[2], between;
        int copies;
    } rows[] = {{{false, false}, false, 1}, {{true, false}, false, 1}, {{false, true}, false, 1},
                {{true, true}, false, 0},   {{false, true}, true, 1},  {{true, true}, false, 0}};
    bench b;
    bool has_snapshot = false;
    bench_open(&b, "cuda");
    cr_assert_eq(
        tsr_executor_create(&b.ctx, &toy_config, &toy_program, b.device, NULL, &run_by).code,
        TSR_OK);
    running = &b;
    float *w = tsr_executor_get_tensor(run_by, 0);
    for (int i = 0; i < 4; i++) w[i] = (float)(i + 1);
    cr_assert_eq(tsr_executor_ready_readers(&b.ctx, run_by, 2).code, TSR_OK);
    cr_assert_eq(tsr_executor_ready_snapshot(&b.ctx, run_by, &has_snapshot).code, TSR_OK);
    cr_assert(has_snapshot);
    tsr_executor_set_guard(run_by, never, "a guard was asked");
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        char now[2][16];
        const void *bytes = NULL;
        cr_assert_eq(tsr_executor_take_snapshot(&b.ctx, run_by).code, TSR_OK, "%s",
                     b.ctx.error.text);
        for (size_t k = 0; k < 2; k++) {
            void *tensor = tsr_executor_get_tensor(run_by, k);
            cr_assert_eq(tsr_executor_read(&b.ctx, run_by, 0, tensor, k ? 8 : 16, &bytes).code,
                         TSR_OK);
            memcpy(now[k], bytes, k ? 8 : 16);
        }
        for (size_t k = 0; k < 2; k++)
            if (rows[i].before[k]) expect_snapshot(&b, run_by, k, now[k]);
        const int launches = fake->launches;
        fake->copies = 0;
        if (rows[i].between) fake->in_download = run_between;
        if (!rows[i].between) run_between();
        cr_assert(rows[i].between || fake->launches > launches + 1);
        cr_assert(rows[i].between || fake->waited_launches == launches,
                  "the rest was determined %d kernels later, when nothing ran during the copy",
                  fake->waited_launches - launches);
        for (size_t k = 0; k < 2; k++)
            if (!rows[i].before[k]) expect_snapshot(&b, run_by, k, now[k]);
        run_between();
        cr_assert_eq(fake->copies, rows[i].copies, "row %zu: %d copies", i, fake->copies);
    }
    tsr_executor_destroy(run_by);
    bench_close(&b);
    bench_expect_nothing_open("at the end");
}

/* ---- readers that wait for a run's results --------------------------------------------------- */

typedef struct late {
    bench b;
    tsr_executor *executor;
    pthread_t thread;
    tsr_ctx ctx;
    atomic_bool begun;
    tsr_result result;
    char got[16], saved[16];
} late;
static late *of_wait;

static void *read_late(void *user) {
    late *l = user;
    const void *bytes = NULL;
    atomic_store(&l->begun, true);
    l->result = tsr_executor_read_snapshot(&l->ctx, l->executor, 1,
                                           tsr_executor_get_tensor(l->executor, 0), 16, &bytes);
    if (!l->result.code) memcpy(l->got, bytes, sizeof l->got);
    return NULL;
}

/* Called when the run has written its results and waits for them. */
static void read_in_wait(void) {
    const struct timespec moment = {.tv_nsec = 50000000};
    int before = fake->downloads;
    cr_assert_eq(pthread_create(&of_wait->thread, NULL, read_late, of_wait), 0);
    while (!atomic_load(&of_wait->begun)) nanosleep(&moment, NULL);
    nanosleep(&moment, NULL);
    cr_assert_eq(fake->downloads, before, "a reader asks for the copy engine");
}

static void open_late(late *l) {
    bool has_snapshot = false;
    bench_open(&l->b, "cuda");
    cr_assert_eq(
        tsr_executor_create(&l->b.ctx, &toy_config, &toy_program, l->b.device, NULL, &l->executor)
            .code,
        TSR_OK);
    float *w = tsr_executor_get_tensor(l->executor, 0);
    for (int i = 0; i < 4; i++) w[i] = (float)(i + 1);
    memcpy(l->saved, w, sizeof l->saved);
    cr_assert_eq(tsr_executor_ready_readers(&l->b.ctx, l->executor, 2).code, TSR_OK);
    cr_assert_eq(tsr_executor_ready_snapshot(&l->b.ctx, l->executor, &has_snapshot).code, TSR_OK);
    cr_assert(has_snapshot);
    cr_assert_eq(tsr_executor_take_snapshot(&l->b.ctx, l->executor).code, TSR_OK);
}

static void close_late(late *l) {
    tsr_executor_destroy(l->executor);
    bench_close(&l->b);
    bench_expect_nothing_open("at the end");
}

/* The readers then read the snapshot. */
Test(device_readers, readers_wait_for_results) {
    late l = {.begun = false};
    open_late(&l);
    of_wait = &l;
    fake->in_wait = read_in_wait;
    cr_assert_eq(tsr_executor_run(&l.b.ctx, l.executor, TOY_TRAIN, 1).code, TSR_OK);
    cr_assert_eq(pthread_join(l.thread, NULL), 0);
    cr_assert_eq(l.result.code, TSR_OK, "%s", l.ctx.error.text);
    cr_assert_arr_eq(l.got, l.saved, sizeof l.got);
    /* A later read does not wait. */
    expect_snapshot(&l.b, l.executor, 1, (char[8]){0});
    close_late(&l);
}

/* Readers do not wait for a run that failed at any call after the snapshot: its values are
 * available, or reported lost. */
Test(device_readers, readers_do_not_wait_for_a_run_that_failed) {
    static const struct {
        const char *call;
        unsigned at;
        bool lost;
    } rows[] = {{"cuGraphLaunch", 1, false},       {"cuEventSynchronize", 1, false},
                {"cuMemcpyDtoDAsync_v2", 1, true}, {"cuEventRecord", 1, true},
                {"cuStreamWaitEvent", 1, true},    {"cuGraphLaunch", 2, false},
                {"cuStreamSynchronize", 1, false}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        late l = {.begun = false};
        open_late(&l);
        fake->fail = rows[i].call;
        fake->fail_at = rows[i].at;
        fake->fail_code = 700;
        fake->calls = 0;
        cr_assert_neq(tsr_executor_run(&l.b.ctx, l.executor, TOY_TRAIN, 1).code, TSR_OK, "%s",
                      rows[i].call);
        fake->fail = NULL;
        read_late(&l);
        cr_assert_eq(l.result.code, rows[i].lost ? TSR_MACHINE : TSR_OK, "%s %u: %s", rows[i].call,
                     rows[i].at, l.ctx.error.text);
        if (!rows[i].lost) cr_assert_arr_eq(l.got, l.saved, sizeof l.got);
        close_late(&l);
    }
}

/* A device that shares the host's memory has_snapshot nothing. */
Test(device_readers, nothing_is_kept_of_the_host) {
    bench b;
    tsr_executor *executor = NULL;
    const void *bytes = NULL;
    bool has_snapshot = true;
    bench_open(&b, "cpu");
    cr_assert_eq(
        tsr_executor_create(&b.ctx, &toy_config, &toy_program, b.device, NULL, &executor).code,
        TSR_OK);
    void *w = tsr_executor_get_tensor(executor, 0);
    cr_assert_eq(tsr_executor_ready_snapshot(&b.ctx, executor, &has_snapshot).code, TSR_OK);
    cr_assert_not(has_snapshot);
    cr_assert_eq(tsr_executor_take_snapshot(&b.ctx, executor).code, TSR_OK);
    cr_assert_eq(tsr_executor_read_snapshot(&b.ctx, executor, 0, w, 16, &bytes).code, TSR_OK);
    cr_assert_eq(bytes, w);
    tsr_executor_destroy(executor);
    bench_close(&b);
}

/* If there is no memory for a snapshot, the guard is called as before. */
Test(device_readers, no_room_to_keep) {
    side_reads s = {.guarded = 0};
    bench_open_fake();
    tsr_device_options options = bench_cuda_options(&s.b);
    uint64_t taken = 0;
    enum { SHORT, CAPPED, REFUSED, WAYS };
    for (int way = 0; way < WAYS; way++) {
        const size_t free_bytes = fake->free_bytes;
        /* The state needs 72 bytes. */
        options.memory_max = way == CAPPED ? taken + 71 : 0;
        cr_assert_eq(tsr_device_open(&s.b.ctx, "cuda", &options, &s.b.device).code, TSR_OK);
        cr_assert_eq(
            tsr_executor_create(&s.b.ctx, &toy_config, &toy_program, s.b.device, NULL, &s.executor)
                .code,
            TSR_OK);
        taken = tsr_executor_get_memory(s.executor)->size_bytes;
        if (way == SHORT) fake->free_bytes = 71;
        if (way == REFUSED) fake->fail = "cuMemAllocAsync";
        fake->fail_at = 1;
        fake->fail_code = TSR_GPU_ERROR_OUT_OF_MEMORY;
        fake->calls = 0;
        bool has_snapshot = true;
        cr_assert_eq(tsr_executor_ready_snapshot(&s.b.ctx, s.executor, &has_snapshot).code, TSR_OK);
        cr_assert_not(has_snapshot);
        fake->free_bytes = free_bytes;
        fake->fail = NULL;
        cr_assert_eq(tsr_executor_take_snapshot(&s.b.ctx, s.executor).code, TSR_OK);
        cr_assert_eq(tsr_executor_ready_readers(&s.b.ctx, s.executor, 2).code, TSR_OK);
        memcpy(s.before, tsr_executor_get_tensor(s.executor, 0), sizeof s.before);
        s.launches = fake->launches;
        s.guarded = 0;
        tsr_executor_set_guard(s.executor, check_guarded, &s);
        cr_assert_eq(tsr_executor_run(&s.b.ctx, s.executor, TOY_TRAIN, 1).code, TSR_OK);
        cr_assert_eq(s.guarded, 1);
        tsr_executor_destroy(s.executor);
        tsr_device_close(s.b.device);
    }
    tsr_arena_finish(&s.b.arena);
    bench_expect_nothing_open("at the end");
}

/* ---- chunks of files ---- */

/* Hashes chunks, as many at once as the device allows. */
static void take_chunks(bench *b, const char *bytes, const size_t *sizes, uint64_t count) {
    const tsr_device_type *type = b->device->type;
    tsr_device_memory memory;
    cr_assert_eq(type->allocate(&b->ctx, b->device, TSR_HASH_CHUNK_BYTES, 0,
                                (tsr_device_range){0, 0}, &memory)
                     .code,
                 TSR_OK);
    cr_assert_eq(type->staged_upload->begin(&b->ctx, b->device).code, TSR_OK, "%s",
                 b->ctx.error.text);
    for (uint64_t i = 0; i < count + TSR_DEVICE_DEPTH; i++) {
        if (i >= TSR_DEVICE_DEPTH) {
            uint64_t number = i - TSR_DEVICE_DEPTH;
            size_t size = sizes[number % 7];
            tsr_digest got, expected = tsr_hash_tree(bytes, size);
            cr_assert_eq(type->staged_upload->digest(&b->ctx, b->device, number, size, &got).code,
                         TSR_OK);
            cr_assert(tsr_digest_equal(&got, &expected), "%zu bytes", size);
            const tsr_device_range to = {0, size - size / 3};
            cr_assert_eq(
                type->staged_upload->put(&b->ctx, b->device, &memory, number, size / 3, to).code,
                TSR_OK);
            cr_assert_eq(type->download(&b->ctx, b->device, &memory, to).code, TSR_OK);
            cr_assert_eq(memcmp(memory.host, bytes + size / 3, to.size_bytes), 0);
        }
        if (i < count) cr_assert_eq(bench_take_chunk(b, i, bytes, sizes[i % 7]).code, TSR_OK);
    }
    cr_assert_eq(type->staged_upload->end(&b->ctx, b->device).code, TSR_OK);
    type->release(b->device, &memory);
}

Test(device_readers, takes_chunks) {
    static const size_t sizes[] = {TSR_HASH_CHUNK_BYTES,
                                   1,
                                   100,
                                   TSR_HASH_LEAF_BYTES,
                                   TSR_HASH_LEAF_BYTES + 1,
                                   TSR_HASH_CHUNK_BYTES / 4 + 7,
                                   TSR_HASH_CHUNK_BYTES - 1};
    static char bytes[TSR_HASH_CHUNK_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 2654435761u >> 13);
    for (int early = 0; early < 2; early++) {
        bench b = {.device = NULL};
        bench_open_fake();
        tsr_device_options options = bench_cuda_options(&b);
        options.takes_bytes = early ? UINT64_MAX : 0;
        cr_assert_eq(tsr_device_open(&b.ctx, "cuda", &options, &b.device).code, TSR_OK);
        fake->free_bytes = 1u << 30;
        take_chunks(&b, bytes, sizes, 2 * TSR_DEVICE_DEPTH + TSR_DEVICE_WINDOWS + 3);
        take_chunks(&b, bytes, sizes, 1);
        bench_close(&b);
        bench_expect_nothing_open("at the end");
    }
}

/* ---- the kernel that hashes ---- */

static const uint64_t with_code = UINT64_C(64) << 20, with_text = UINT64_C(512) << 20;

static bool has_code(uint32_t arch) {
    for (uint32_t i = 0; i < tsr_cuda_leaves_code_count; i++)
        if (tsr_cuda_leaves_codes[i].arch == arch) return true;
    return false;
}

/* `fails`: how the loads of modules after the program's own fail: 0: none fails, 1: the first one,
 * 2: all. */
static tsr_result begin_staged_upload(bench *b, unsigned fails, unsigned code) {
    const tsr_device_staged_upload *upload = b->device->type->staged_upload;
    fake->fail = fails ? "cuModuleLoadDataEx" : NULL;
    fake->fail_at = 1;
    fake->fail_code = code;
    fake->calls = 0;
    fake->sticks = fails > 1;
    tsr_result result = upload->begin(&b->ctx, b->device);
    fake->fail = NULL;
    fake->sticks = false;
    fake->stuck = 0;
    tsr_ctx aside = {0};
    cr_assert_eq(upload->end(&aside, b->device).code, TSR_OK, "%s", aside.error.text);
    return result;
}

/* The GPU hashes by machine code if the build has code for it, otherwise by translated text, also
 * if a driver refuses the code. The minimum number of bytes depends on which of the two it is. */
Test(device_readers, hashes_by_machine_code) {
    static const struct {
        int major, minor;
        uint32_t arch; /* architecture of the machine code that it runs; 0: none */
    } rows[] = {{9, 0, 90}, {8, 0, 80}, {8, 9, 80}, {10, 3, 100}, {12, 0, 0}};
    bench b = {.device = NULL};
    bench_open_fake();
    tsr_device_options options = bench_cuda_options(&b);
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        bool has = rows[i].arch && has_code(rows[i].arch);
        fake->major = rows[i].major;
        fake->minor = rows[i].minor;
        fake->free_bytes = 1u << 30;
        for (unsigned fails = 0; fails < 3; fails++) {
            options.takes_bytes = (has ? with_code : with_text) - 1;
            cr_assert_eq(tsr_device_open(&b.ctx, "cuda", &options, &b.device).code, TSR_OK, "%s",
                         b.ctx.error.text);
            cr_assert_eq(fake->modules, 1); /* not loaded for so small a file */
            cr_assert_eq(b.device->type->staged_upload->bytes_min(b.device),
                         options.takes_bytes + 1);
            tsr_result result = begin_staged_upload(&b, fails, fails == 1 ? 209 : 700);
            bool fell = fails == 1 && has; /* back to the text */
            if (fails && !fell) {
                cr_assert_neq(result.code, TSR_OK);
                cr_assert_not_null(strstr(b.ctx.error.text, "tsr_leaves"), "%s", b.ctx.error.text);
            } else {
                cr_assert_eq(result.code, TSR_OK, "%s", b.ctx.error.text);
                cr_assert_eq(strncmp(fake->image_begin, has && !fell ? "\177ELF" : ".ver", 4), 0,
                             "%d.%d, %u: %s", rows[i].major, rows[i].minor, fails,
                             fake->image_begin);
            }
            tsr_device_close(b.device);
            bench_expect_nothing_open("at the end");
        }
    }
    tsr_arena_finish(&b.arena);
}
