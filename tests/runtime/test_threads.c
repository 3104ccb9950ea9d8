/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/threads.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Each program counts its visits; every third one reports a fault. */
static void count_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    _Atomic uint32_t *visits = args->buffers[0];
    for (int64_t i = begin; i < end; i++) atomic_fetch_add(&visits[i], 1);
}

static void fault_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        if (i % 7 == 5 && args->fault->kind == TSR_FAULT_NONE)
            *args->fault = (tsr_fault){TSR_FAULT_INDEX, 0, i, 99, 10};
}

static tsr_threads *open_pool(unsigned count) {
    tsr_ctx ctx = {0};
    tsr_threads *threads = NULL;
    cr_assert_eq(tsr_threads_create(&ctx, count, &threads).code, TSR_OK, "%s", ctx.error.text);
    return threads;
}

Test(threads, every_program_runs_once) {
    static const uint64_t grids[] = {1, 2, 3, 7, 64, 1000, 4097};
    static const uint64_t costs[] = {0, 1, 199999, 200000, 450000, 2000000, 100000000};
    for (unsigned count = 1; count <= 9; count += 2) {
        tsr_threads *threads = open_pool(count);
        cr_assert_eq(tsr_threads_get_count(threads), count);
        for (size_t g = 0; g < TSR_COUNT(grids); g++)
            for (size_t c = 0; c < TSR_COUNT(costs); c++) {
                uint32_t *visits = calloc(grids[g], sizeof *visits);
                void *buffers[] = {visits};
                tsr_fault fault;
                tsr_threads_launch(threads, count_kernel, buffers, grids[g], costs[c], &fault);
                cr_assert_eq(fault.kind, TSR_FAULT_NONE);
                for (uint64_t i = 0; i < grids[g]; i++)
                    cr_assert_eq(visits[i], 1, "program %" PRIu64 " of %" PRIu64, i, grids[g]);
                free(visits);
            }
        tsr_threads_destroy(threads);
    }
}

/* Many launches back to back, with pauses in which the workers go to sleep. */
Test(threads, no_launch_is_lost) {
    enum { GRID = 37, LAUNCHES = 20000 };
    tsr_threads *threads = open_pool(4);
    uint32_t *visits = calloc(GRID, sizeof *visits);
    void *buffers[] = {visits};
    tsr_fault fault;
    for (int i = 0; i < LAUNCHES; i++) {
        tsr_threads_launch(threads, count_kernel, buffers, GRID, 20000000, &fault);
        if (i % 4000 == 0) {
            struct timespec pause = {0, 2000000};
            nanosleep(&pause, NULL);
            tsr_threads_wake(threads);
        }
    }
    for (int i = 0; i < GRID; i++) cr_assert_eq(visits[i], LAUNCHES);
    free(visits);
    tsr_threads_destroy(threads);
}

/* Records which thread ran a program; takes 20 us. */
static void thread_kernel(const tsr_kernel_args *args, int64_t begin, int64_t end) {
    static _Thread_local char mine;
    const void *volatile *seen = args->buffers[0];
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 20000);
    for (int64_t i = begin; i < end; i++) seen[i] = &mine;
}

/* Consecutive launches that are too small to wake a worker. */
Test(threads, small_launches_wake_workers_in_the_end) {
    enum { LAUNCHES = 200000 };
    tsr_threads *threads = open_pool(2);
    const void *seen[2] = {0};
    void *buffers[] = {seen};
    tsr_fault fault;
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL); /* the worker sleeps */
    tsr_threads_launch(threads, thread_kernel, buffers, 2, 199999, &fault);
    cr_assert_eq(seen[0], seen[1], "too small to be shared");
    int launches = 0;
    do tsr_threads_launch(threads, thread_kernel, buffers, 2, 400000, &fault);
    while (seen[0] == seen[1] && ++launches < LAUNCHES);
    cr_assert(launches < LAUNCHES, "nobody came");
    tsr_threads_destroy(threads);
}

Test(threads, lowest_fault_is_reported_and_forgotten) {
    for (unsigned count = 1; count <= 4; count++) {
        tsr_threads *threads = open_pool(count);
        uint32_t visits[64] = {0};
        void *buffers[] = {visits};
        tsr_fault fault;
        for (int i = 0; i < 200; i++) {
            tsr_threads_launch(threads, fault_kernel, buffers, 64, 10000000, &fault);
            cr_assert_eq(fault.kind, TSR_FAULT_INDEX);
            cr_assert_eq(fault.element, 5);
            tsr_threads_launch(threads, count_kernel, buffers, 64, 10000000, &fault);
            cr_assert_eq(fault.kind, TSR_FAULT_NONE);
        }
        tsr_threads_destroy(threads);
    }
}

Test(threads, too_many_are_refused) {
    tsr_ctx ctx = {0};
    tsr_threads *threads = NULL;
    cr_assert_eq(tsr_threads_create(&ctx, TSR_THREADS_MAX + 1, &threads).code, TSR_USAGE);
    cr_assert(strstr(ctx.error.text, "1025") && strstr(ctx.error.text, "1024"), "%s",
              ctx.error.text);
    cr_assert_null(threads);
    tsr_threads_destroy(NULL);
}
