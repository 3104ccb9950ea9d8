/* SPDX-License-Identifier: Apache-2.0
 *
 * One 64-bit word says what there is to do: the launch's number in its upper 48 bits, the next
 * unclaimed part of its grid in the lower 16. A thread claims a part by compare-and-swap on that
 * word. Success proves that the launch it read is still the current one (the caller cannot finish
 * it while a part is unclaimed or unfinished), so a worker that wakes late reads fields of another
 * launch at worst, fails the swap and looks again. It must fail: a field of a later launch is
 * released after the word was closed to claims on this one, and whoever acquires that field swaps a
 * word at least as new. The numbers do not come round while a thread lives. The caller never waits
 * for a sleeping worker, only for parts that were claimed.
 *
 * Sleeping: a worker that spun in vain registers in `sleepers`, looks once more, and waits on
 * `signal`.
 */
#include "runtime/threads.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <immintrin.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    MXCSR_DEFAULT = 0x1f80, /* round to nearest, denormals kept, exceptions masked */
    COST_WAKE_MIN = 20 * 1000 * 1000,
    SPIN_NS = 200 * 1000,
    PARTS_PER_THREAD = 4,
    PART_BITS = 16,
    PART_NONE = (1 << PART_BITS) - 1,
};
static_assert(TSR_THREADS_MAX * PARTS_PER_THREAD < PART_NONE, "the parts of a launch are counted");

typedef struct worker {
    tsr_threads *threads;
    pthread_t thread;
    unsigned index;
} worker;

struct tsr_threads {
    _Alignas(64) _Atomic uint64_t claim; /* launch number << PART_BITS | next part */
    _Alignas(64) _Atomic uint64_t done;  /* parts finished of the current launch */
    /* Of the current launch; released and acquired: see the top of this file. */
    _Alignas(64) _Atomic(tsr_kernel_fn) kernel;
    _Atomic(void *const *) buffers;
    _Atomic uint64_t grid, part_count;
    _Alignas(64) _Atomic uint32_t signal;
    _Atomic uint32_t sleepers;
    _Atomic bool stopping;
    unsigned count, started;
    tsr_fault *faults; /* owned; one per thread */
    worker *workers;   /* owned; count - 1 */
};

static long futex(_Atomic uint32_t *word, int operation, uint32_t value) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Claims and runs one part; false when there is none. */
static bool run_part(tsr_threads *threads, tsr_fault *fault) {
    uint64_t claim = atomic_load_explicit(&threads->claim, memory_order_acquire);
    for (;;) {
        tsr_kernel_fn kernel = atomic_load_explicit(&threads->kernel, memory_order_acquire);
        void *const *buffers = atomic_load_explicit(&threads->buffers, memory_order_acquire);
        uint64_t grid = atomic_load_explicit(&threads->grid, memory_order_acquire);
        uint64_t part_count = atomic_load_explicit(&threads->part_count, memory_order_acquire);
        uint64_t part = claim & PART_NONE;
        if (part >= part_count) return false;
        if (!atomic_compare_exchange_weak_explicit(&threads->claim, &claim, claim + 1,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        uint64_t quotient = grid / part_count, rest = grid % part_count;
        uint64_t begin = part * quotient + (part < rest ? part : rest);
        uint64_t end = begin + quotient + (part < rest ? 1 : 0);
        tsr_kernel_args args = {buffers, fault};
        kernel(&args, (int64_t)begin, (int64_t)end);
        atomic_fetch_add_explicit(&threads->done, 1, memory_order_release);
        return true;
    }
}

static bool has_part(tsr_threads *threads) {
    uint64_t claim = atomic_load_explicit(&threads->claim, memory_order_acquire);
    return (claim & PART_NONE) < atomic_load_explicit(&threads->part_count, memory_order_acquire);
}

static void wait_for_work(tsr_threads *threads) {
    uint64_t deadline = tsr_clock_ns() + SPIN_NS;
    while (!atomic_load_explicit(&threads->stopping, memory_order_relaxed)) {
        for (int i = 0; i < 64; i++) {
            if (has_part(threads)) return;
            _mm_pause();
        }
        if (tsr_clock_ns() < deadline) continue;
        uint32_t signal = atomic_load(&threads->signal);
        atomic_fetch_add(&threads->sleepers, 1);
        if (!has_part(threads) && !atomic_load(&threads->stopping))
            futex(&threads->signal, FUTEX_WAIT, signal);
        atomic_fetch_sub(&threads->sleepers, 1);
        return;
    }
}

static void *worker_main(void *user) {
    worker *self = user;
    tsr_threads *threads = self->threads;
    _mm_setcsr(MXCSR_DEFAULT);
    while (!atomic_load_explicit(&threads->stopping, memory_order_relaxed))
        if (!run_part(threads, &threads->faults[self->index])) wait_for_work(threads);
    return NULL;
}

static unsigned usable_cpus(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a set has room for */
    return online > 0 ? (unsigned)online : 1;
}

tsr_result tsr_threads_create(tsr_ctx *ctx, unsigned count, tsr_threads **out_threads) {
    if (count > TSR_THREADS_MAX)
        FAIL(ctx, TSR_USAGE, "%u threads asked for; at most %d are supported", count,
             TSR_THREADS_MAX);
    if (count == 0) count = usable_cpus() < TSR_THREADS_MAX ? usable_cpus() : TSR_THREADS_MAX;
    tsr_threads *threads = aligned_alloc(64, sizeof *threads);
    if (!threads) FAIL(ctx, TSR_MEMORY, "no memory for a pool of %u threads", count);
    memset(threads, 0, sizeof *threads);
    threads->count = count;
    threads->faults = calloc(count, sizeof *threads->faults);
    threads->workers = calloc(count, sizeof *threads->workers);
    int code = threads->faults && threads->workers ? 0 : ENOMEM;
    for (unsigned i = 0; i + 1 < count && code == 0; i++) {
        threads->workers[i] = (worker){.threads = threads, .index = i + 1};
        code = pthread_create(&threads->workers[i].thread, NULL, worker_main, &threads->workers[i]);
        if (code == 0) threads->started++;
    }
    if (code) {
        unsigned started = threads->started;
        tsr_threads_destroy(threads);
        FAIL_ERRNO(ctx, TSR_MEMORY, code, "cannot start thread %u of %u", started + 1, count);
    }
    *out_threads = threads;
    return TSR_SUCCESS;
}

void tsr_threads_wake(tsr_threads *threads) {
    if (atomic_load(&threads->sleepers) == 0) return;
    atomic_fetch_add(&threads->signal, 1);
    futex(&threads->signal, FUTEX_WAKE, INT_MAX);
}

void tsr_threads_destroy(tsr_threads *threads) {
    if (!threads) return;
    atomic_store(&threads->stopping, true);
    atomic_fetch_add(&threads->signal, 1);
    futex(&threads->signal, FUTEX_WAKE, INT_MAX);
    for (unsigned i = 0; i < threads->started; i++) pthread_join(threads->workers[i].thread, NULL);
    free(threads->workers);
    free(threads->faults);
    free(threads);
}

unsigned tsr_threads_get_count(const tsr_threads *threads) { return threads->count; }

static void publish(tsr_threads *threads, tsr_kernel_fn kernel, void *const *buffers, uint64_t grid,
                    uint64_t part_count) {
    uint64_t number = atomic_load_explicit(&threads->claim, memory_order_relaxed) >> PART_BITS;
    /* First an empty launch of the next number: no claim on the old one can succeed while the
     * fields change. */
    atomic_store_explicit(&threads->claim, (number + 1) << PART_BITS | PART_NONE,
                          memory_order_seq_cst);
    atomic_store_explicit(&threads->done, 0, memory_order_relaxed);
    atomic_store_explicit(&threads->kernel, kernel, memory_order_release);
    atomic_store_explicit(&threads->buffers, buffers, memory_order_release);
    atomic_store_explicit(&threads->grid, grid, memory_order_release);
    atomic_store_explicit(&threads->part_count, part_count, memory_order_release);
    atomic_store_explicit(&threads->claim, (number + 2) << PART_BITS, memory_order_seq_cst);
}

static void collect_faults(tsr_threads *threads, tsr_fault *out_fault) {
    for (unsigned i = 0; i < threads->count; i++) {
        tsr_fault *fault = &threads->faults[i];
        if (fault->kind == TSR_FAULT_NONE) continue;
        if (out_fault->kind == TSR_FAULT_NONE || fault->element < out_fault->element)
            *out_fault = *fault;
        *fault = (tsr_fault){0};
    }
}

void tsr_threads_launch(tsr_threads *threads, tsr_kernel_fn kernel, void *const *buffers,
                        uint64_t grid, uint64_t cost, tsr_fault *out_fault) {
    unsigned saved = _mm_getcsr();
    *out_fault = (tsr_fault){0};
    _mm_setcsr(MXCSR_DEFAULT);
    if (threads->count == 1 || grid <= 1 || (cost != 0 && cost < TSR_LAUNCH_COST_SHARED)) {
        tsr_kernel_args args = {buffers, out_fault};
        kernel(&args, 0, (int64_t)grid);
    } else {
        uint64_t part_count = (uint64_t)threads->count * PARTS_PER_THREAD;
        if (part_count > grid) part_count = grid;
        publish(threads, kernel, buffers, grid, part_count);
        if (cost >= COST_WAKE_MIN) tsr_threads_wake(threads);
        while (run_part(threads, &threads->faults[0])) {
        }
        while (atomic_load_explicit(&threads->done, memory_order_acquire) < part_count) _mm_pause();
        collect_faults(threads, out_fault);
    }
    _mm_setcsr(saved);
}
