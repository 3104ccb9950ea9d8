/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch is divided among some of the threads, its sharers: each has a share of a few parts that
 * are adjacent in the grid. The division is the same for equal launches, so that a thread's data
 * stays in its cache. A share's word holds the launch's number and the number of its claimed parts;
 * a part is claimed by compare-and-swap on that word: by its owner, usually without contention, or
 * by a thread that has finished its own share. Therefore the caller never waits for a sleeping
 * worker, only for parts that workers have claimed. A launch takes as long as two cores need to
 * exchange three cache lines: the description of the launch, which only the caller writes; the word
 * of another thread's share; and the number of parts that workers have done.
 *
 * The claim of a late worker fails. The number is odd while the fields of a launch change; a thread
 * that reads the same even number before and after the fields has read the fields of one launch.
 * The caller begins the next launch only after all parts of this one are claimed and done, so a
 * claim that succeeds belongs to the current launch. A word with an older number counts as
 * unclaimed. Numbers do not wrap around during the life of a thread.
 *
 * Sleeping: a worker that had nothing to run for a while registers in `sleepers`, checks once more,
 * and waits on `signal`. To wake a worker takes as long as a small launch; the caller does so when
 * the cost of the launches that it ran without help exceeds a threshold.
 *
 * If another process takes a worker's CPU in the middle of a part, the caller waits until the
 * worker runs again. For a while after such a wait, small launches are not shared.
 */
#include "runtime/threads.h"

#include "runtime/base/clock.h"
#include "runtime/base/plural.h"

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
    COST_LARGE = TSR_LAUNCH_COST_WAKE, /* a launch of this cost outweighs the wait for a CPU */
    SPIN_NS = 200 * 1000,
    STALL_NS = 50 * 1000, /* the thread that runs a part has no CPU if the caller waits this long */
    STALL_REST = 10,      /* small launches are not shared for this multiple of the wait */
    SPINS = 64,           /* spins between reads of the clock */
    PARTS_PER_SHARE = 4,
    SHARE_BITS = 8, /* bits of a share's word: parts claimed */
    SHARE_MASK = (1 << SHARE_BITS) - 1,
    LINES = 128, /* bytes that some CPUs fetch together */
};
static_assert(PARTS_PER_SHARE < SHARE_MASK, "the parts of a share are counted");

typedef struct worker {
    tsr_threads *threads;
    pthread_t thread;
    unsigned index;
} worker;

typedef struct claims {
    _Alignas(LINES) _Atomic uint64_t claim; /* launch number << SHARE_BITS | parts claimed */
} claims;

struct tsr_threads {
    /* The current launch. */
    _Alignas(LINES) _Atomic uint64_t number;
    _Atomic(tsr_kernel_fn) kernel;
    _Atomic(void *const *) buffers;
    _Atomic uint64_t grid;
    _Atomic uint32_t sharers;
    _Alignas(LINES) _Atomic uint64_t helped; /* parts that workers have done, over all launches */
    _Alignas(LINES) _Atomic uint32_t signal;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t caller_cpu; /* CPU of the caller when it last woke workers */
    _Atomic bool stopping;
    unsigned count, started;
    uint64_t spin_ns;
    tsr_fault *faults; /* owned; one per thread */
    worker *workers;   /* owned; count - 1 */
    claims *shares;    /* owned; one per thread */
    /* Used only by the caller: */
    _Alignas(LINES) uint64_t helped_before; /* value of `helped` before the current launch */
    uint64_t alone_until_ns;                /* small launches are not shared until then; 0: they are
                                               shared */
    uint64_t cost_alone;                    /* cost of launches since workers fell asleep */
};

typedef struct launch {
    uint64_t number;
    tsr_kernel_fn kernel;
    void *const *buffers;
    uint64_t grid;
    uint32_t sharers;
} launch;

static long futex(_Atomic uint32_t *word, int operation, uint32_t value) {
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Keeps the fault with the lower element. */
static void record_first(const tsr_fault *met, tsr_fault *fault) {
    if (met->kind == TSR_FAULT_NONE) return;
    if (fault->kind == TSR_FAULT_NONE || met->element < fault->element) *fault = *met;
}

typedef struct range {
    uint64_t begin, count;
} range;

/* The last shares get the remaining programs, because the last programs may be smaller. */
static range find_share(const launch *at, uint32_t owner) {
    uint64_t each = at->grid / at->sharers, even = at->sharers - at->grid % at->sharers;
    return (range){owner * each + (owner > even ? owner - even : 0), each + (owner >= even)};
}

static uint32_t count_parts(const range *share) {
    return share->count < PARTS_PER_SHARE ? (uint32_t)share->count : PARTS_PER_SHARE;
}

static void run_part(const launch *at, const range *share, uint64_t part, tsr_fault *fault) {
    uint64_t parts = count_parts(share), each = share->count / parts, rest = share->count % parts;
    uint64_t begin = share->begin + part * each + (part < rest ? part : rest);
    uint64_t end = begin + each + (part < rest ? 1 : 0);
    /* One fault for each part: kernels keep the first fault that they see, and a stolen part may
     * have lower elements. */
    tsr_fault met = {0};
    tsr_kernel_args args = {at->buffers, &met};
    at->kernel(&args, (int64_t)begin, (int64_t)end);
    record_first(&met, fault);
}

/* Claims and runs the remaining parts of a share; returns the number of parts that it ran. */
static uint32_t run_share(tsr_threads *threads, const launch *at, uint32_t owner,
                          tsr_fault *fault) {
    _Atomic uint64_t *word = &threads->shares[owner].claim;
    const range share = find_share(at, owner);
    uint32_t parts = count_parts(&share), count = 0;
    uint64_t claim = atomic_load_explicit(word, memory_order_acquire);
    for (;;) {
        uint64_t next = claim >> SHARE_BITS == at->number ? claim & SHARE_MASK : 0;
        uint64_t wanted = at->number << SHARE_BITS | (next + 1);
        if (claim >> SHARE_BITS > at->number || next >= parts) return count;
        if (!atomic_compare_exchange_weak_explicit(word, &claim, wanted, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        run_part(at, &share, next, fault);
        claim = wanted;
        count++;
    }
}

/* Reads the current launch if it differs from the one read before. */
static bool read_launch(tsr_threads *threads, launch *at) {
    uint64_t number = atomic_load(&threads->number);
    if (number == at->number || number % 2) return false;
    launch next = {
        .number = number,
        .kernel = atomic_load_explicit(&threads->kernel, memory_order_acquire),
        .buffers = atomic_load_explicit(&threads->buffers, memory_order_acquire),
        .grid = atomic_load_explicit(&threads->grid, memory_order_acquire),
        .sharers = atomic_load_explicit(&threads->sharers, memory_order_acquire),
    };
    if (atomic_load_explicit(&threads->number, memory_order_relaxed) != number) return false;
    *at = next;
    return true;
}

/* A worker's part in a launch; returns false if it found nothing to run. */
static bool help(tsr_threads *threads, const launch *at, unsigned index) {
    bool found = false;
    for (uint32_t i = 0; index < at->sharers && i < at->sharers; i++) {
        uint32_t owner = (index + i) % at->sharers;
        uint32_t count = run_share(threads, at, owner, &threads->faults[index]);
        if (!count) continue;
        atomic_fetch_add_explicit(&threads->helped, count, memory_order_release);
        found = true;
    }
    return found;
}

/* A worker wakes up on the CPU on which it slept: on the caller's CPU it would wait until the
 * caller is done. */
static void leave_caller(const tsr_threads *threads) {
    cpu_set_t all, others;
    int cpu = sched_getcpu();
    if (cpu < 0 || (uint32_t)cpu != atomic_load(&threads->caller_cpu) ||
        sched_getaffinity(0, sizeof all, &all))
        return;
    others = all;
    CPU_CLR((size_t)cpu, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others)) return;
    (void)sched_setaffinity(0, sizeof all, &all);
}

static void sleep_until_signal(tsr_threads *threads, uint64_t seen) {
    uint32_t signal = atomic_load(&threads->signal);
    atomic_fetch_add(&threads->sleepers, 1);
    bool sleeps = atomic_load(&threads->number) == seen && !atomic_load(&threads->stopping);
    if (sleeps) futex(&threads->signal, FUTEX_WAIT, signal);
    atomic_fetch_sub(&threads->sleepers, 1);
    if (sleeps && threads->spin_ns) leave_caller(threads);
}

static void *worker_main(void *user) {
    worker *self = user;
    tsr_threads *threads = self->threads;
    launch at = {0};
    uint64_t idle_from = 0; /* 0: not read yet */
    _mm_setcsr(MXCSR_DEFAULT);
    for (unsigned i = 1; !atomic_load_explicit(&threads->stopping, memory_order_relaxed); i++) {
        if (read_launch(threads, &at) && help(threads, &at, self->index)) {
            idle_from = 0;
            continue;
        }
        _mm_pause();
        if (i % SPINS && threads->spin_ns) continue;
        uint64_t now = tsr_clock_ns();
        if (!idle_from) idle_from = now;
        if (now - idle_from < threads->spin_ns) continue;
        sleep_until_signal(threads, at.number);
        idle_from = 0;
    }
    return NULL;
}

static unsigned usable_cpus(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than fit into a set */
    return online > 0 ? (unsigned)online : 1;
}

tsr_result tsr_threads_create(tsr_ctx *ctx, unsigned count, tsr_threads **out_threads) {
    if (count > TSR_THREADS_MAX)
        FAIL(ctx, TSR_USAGE, "%u thread%s asked for; at most %d are supported", count,
             TSR_PLURAL(count), TSR_THREADS_MAX);
    if (count == 0) count = usable_cpus() < TSR_THREADS_MAX ? usable_cpus() : TSR_THREADS_MAX;
    tsr_threads *threads = aligned_alloc(LINES, sizeof *threads);
    if (!threads) FAIL(ctx, TSR_MEMORY, "no memory for a pool of %u threads", count);
    memset(threads, 0, sizeof *threads);
    threads->count = count;
    /* Spinning threads would take CPU time from each other if there are more threads than CPUs. */
    threads->spin_ns = count <= usable_cpus() ? SPIN_NS : 0;
    threads->faults = calloc(count, sizeof *threads->faults);
    threads->workers = calloc(count, sizeof *threads->workers);
    threads->shares = aligned_alloc(LINES, count * sizeof *threads->shares);
    int code = threads->faults && threads->workers && threads->shares ? 0 : ENOMEM;
    if (threads->shares) memset(threads->shares, 0, count * sizeof *threads->shares);
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
    threads->cost_alone = 0;
    if (atomic_load(&threads->sleepers) == 0) return;
    atomic_store(&threads->caller_cpu, (uint32_t)sched_getcpu());
    atomic_fetch_add(&threads->signal, 1);
    futex(&threads->signal, FUTEX_WAKE, INT_MAX);
}

void tsr_threads_destroy(tsr_threads *threads) {
    if (!threads) return;
    atomic_store(&threads->stopping, true);
    atomic_fetch_add(&threads->signal, 1);
    futex(&threads->signal, FUTEX_WAKE, INT_MAX);
    for (unsigned i = 0; i < threads->started; i++) pthread_join(threads->workers[i].thread, NULL);
    free(threads->shares);
    free(threads->workers);
    free(threads->faults);
    free(threads);
}

unsigned tsr_threads_get_count(const tsr_threads *threads) { return threads->count; }

static void publish(tsr_threads *threads, launch *at) {
    at->number = atomic_load_explicit(&threads->number, memory_order_relaxed) + 2;
    atomic_store_explicit(&threads->number, at->number - 1, memory_order_relaxed);
    atomic_store_explicit(&threads->kernel, at->kernel, memory_order_release);
    atomic_store_explicit(&threads->buffers, at->buffers, memory_order_release);
    atomic_store_explicit(&threads->grid, at->grid, memory_order_release);
    atomic_store_explicit(&threads->sharers, at->sharers, memory_order_release);
    atomic_store(&threads->number, at->number);
}

static void collect_faults(tsr_threads *threads, tsr_fault *out_fault) {
    for (unsigned i = 0; i < threads->count; i++) {
        if (threads->faults[i].kind == TSR_FAULT_NONE) continue;
        record_first(&threads->faults[i], out_fault);
        threads->faults[i] = (tsr_fault){0};
    }
}

/* Waits until workers have done `parts` parts of the launch. */
static void wait_for_workers(tsr_threads *threads, uint64_t parts, uint64_t cost) {
    uint64_t target = threads->helped_before + parts, began = 0, now = 0;
    threads->helped_before = target;
    for (unsigned i = 1; atomic_load_explicit(&threads->helped, memory_order_acquire) != target;
         i++) {
        _mm_pause();
        if (i % SPINS) continue;
        now = tsr_clock_ns();
        if (!began) began = now;
        if (now - began >= STALL_NS) sched_yield();
    }
    if (cost < COST_LARGE && now - began >= STALL_NS)
        threads->alone_until_ns = now + STALL_REST * (now - began);
}

static void launch_shared(tsr_threads *threads, launch *at, uint64_t cost) {
    publish(threads, at);
    if (atomic_load_explicit(&threads->sleepers, memory_order_relaxed)) {
        threads->cost_alone += cost;
        if (threads->cost_alone >= COST_WAKE_MIN) tsr_threads_wake(threads);
    }
    uint64_t others = 0;
    for (uint32_t owner = 0; owner < at->sharers; owner++) {
        const range share = find_share(at, owner);
        others += count_parts(&share) - run_share(threads, at, owner, &threads->faults[0]);
    }
    wait_for_workers(threads, others, cost);
}

/* Returns the number of threads for a launch. */
static uint32_t count_sharers(tsr_threads *threads, uint64_t grid, uint64_t cost) {
    uint64_t most = grid < threads->count ? grid : threads->count;
    if (cost && cost / TSR_LAUNCH_COST_SHARE < most) most = cost / TSR_LAUNCH_COST_SHARE;
    if (most <= 1) return 1;
    if (cost && cost < COST_LARGE && threads->alone_until_ns) {
        if (tsr_clock_ns() < threads->alone_until_ns) return 1;
        threads->alone_until_ns = 0;
    }
    return (uint32_t)most;
}

void tsr_threads_launch(tsr_threads *threads, tsr_kernel_fn kernel, void *const *buffers,
                        uint64_t grid, uint64_t cost, tsr_fault *out_fault) {
    unsigned saved = _mm_getcsr();
    launch at = {.kernel = kernel, .buffers = buffers, .grid = grid};
    *out_fault = (tsr_fault){0};
    _mm_setcsr(MXCSR_DEFAULT);
    at.sharers = count_sharers(threads, grid, cost);
    if (at.sharers == 1) {
        tsr_kernel_args args = {buffers, out_fault};
        kernel(&args, 0, (int64_t)grid);
    } else {
        launch_shared(threads, &at, cost);
        collect_faults(threads, out_fault);
    }
    _mm_setcsr(saved);
}
