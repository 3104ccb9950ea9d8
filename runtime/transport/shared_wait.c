/* SPDX-License-Identifier: Apache-2.0
 *
 * A waiting rank that finds no progress polls a few times, then reads the clock between polls and
 * yields its CPU, then sleeps. Before it sleeps, it shows this in its seat and polls once more. A
 * rank that stores something reads the seat afterwards, so no wake-up is missed, and there is no
 * cost for others while nobody sleeps. A rank checks only after some waiting if the others are
 * alive, run the same operation, and are in time.
 */
#include "runtime/base/clock.h"
#include "runtime/base/plural.h"
#include "runtime/transport/shared_end.h"

#include <fcntl.h>
#include <immintrin.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP_NS = 20 * 1000 * 1000, YIELD_NS = 2000, PAUSES = 4 };
enum {
    STOPPED_NS = 10 * SLEEP_NS
}; /* a longer time between two checks: this process was stopped */

/* ---- positions of ranks ---- */

enum { OPERATION_BITS = 7, METHOD_BIT = 1 << OPERATION_BITS, NUMBER_SHIFT = OPERATION_BITS + 1 };
static_assert((int)TSR_OPERATION_COUNT <= METHOD_BIT, "an operation has seven bits");

typedef struct position {
    tsr_operation operation;
    shared_method method;
    uint64_t number, step;
    char region[TSR_TRANSPORT_REGION_MAX + 1];
} position;

static position position_of(const shared_end *s, uint32_t rank) {
    const shared_seat *seat = &s->seats[rank];
    uint64_t doing = atomic_load_explicit(&seat->doing, memory_order_acquire);
    position p = {
        .operation = (tsr_operation)(doing & (METHOD_BIT - 1)),
        .method = doing & METHOD_BIT ? SHARED_BY_MEETING : SHARED_BY_CHANNELS,
        .number = doing >> NUMBER_SHIFT,
        .step = atomic_load_explicit(&seat->step, memory_order_relaxed),
    };
    for (int i = 0; i < REGION_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&seat->region[i], memory_order_relaxed);
        memcpy(p.region + i * 8, &word, 8);
    }
    p.region[TSR_TRANSPORT_REGION_MAX] = 0;
    return p;
}

static void say_region(shared_end *s, const char *region) {
    shared_seat *seat = &s->seats[s->base.rank];
    memset(s->region, 0, sizeof s->region);
    snprintf(s->region, sizeof s->region, "%s", region);
    for (int i = 0; i < REGION_WORDS; i++) {
        uint64_t word;
        memcpy(&word, s->region + i * 8, 8);
        atomic_store_explicit(&seat->region[i], word, memory_order_relaxed);
    }
}

static tsr_result adopt_failure(tsr_ctx *ctx, shared_end *s) {
    FAIL(ctx, TSR_RANK, "rank %u failed: %s", s->head->failed_rank, s->head->failed_text);
}

tsr_result tsr_shared_begin(tsr_ctx *ctx, shared_end *s, tsr_operation operation,
                            shared_method method, uint64_t *out_number) {
    shared_seat *seat = &s->seats[s->base.rank];
    bool alone = operation == TSR_OPERATION_SEND;
    uint64_t number = alone ? s->base.operation_count : tsr_transport_begin(&s->base);
    const char *region = s->base.region ? s->base.region : "run";
    if (strncmp(region, s->region, TSR_TRANSPORT_REGION_MAX) != 0) say_region(s, region);
    atomic_store_explicit(&seat->step, s->base.step, memory_order_relaxed);
    atomic_store_explicit(&seat->doing,
                          number << NUMBER_SHIFT | (method == SHARED_BY_MEETING ? METHOD_BIT : 0) |
                              (uint64_t)operation,
                          memory_order_release);
    if (atomic_load(&s->head->failed)) return adopt_failure(ctx, s);
    *out_number = alone ? 0 : number;
    return TSR_SUCCESS;
}

void tsr_shared_describe_seat(const shared_end *s, uint32_t rank, char *out_text,
                              size_t size_bytes) {
    position there = position_of(s, rank);
    snprintf(out_text, size_bytes, "in region '%s' at step %" PRIu64 ", after %s %" PRIu64,
             there.region, there.step, tsr_operation_name(there.operation), there.number);
}

/* ---- possible failures ---- */

static bool waits_for(const shared_end *s, uint32_t rank) {
    return rank != s->base.rank && (s->flows[rank].sending || s->flows[rank].receiving);
}

static bool holds_lock(const shared_end *s, uint32_t rank) {
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)rank, .l_len = 1};
    return fcntl(s->fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* Checks that every awaited rank is alive; with `all`, every other rank. */
static tsr_result scan_for_dead(tsr_ctx *ctx, shared_end *s, bool all) {
    for (uint32_t rank = 0; rank < s->base.rank_count; rank++) {
        shared_seat *seat = &s->seats[rank];
        bool awaited = waits_for(s, rank) || (all && rank != s->base.rank);
        if (!awaited || !atomic_load(&seat->joined)) continue;
        bool left = atomic_load(&seat->left) != 0;
        if (!left && holds_lock(s, rank)) continue;
        if (atomic_load(&s->head->failed)) return adopt_failure(ctx, s);
        char there[TSR_TRANSPORT_REGION_MAX + 128];
        tsr_shared_describe_seat(s, rank, there, sizeof there);
        position here = position_of(s, s->base.rank);
        FAIL(ctx, TSR_RANK,
             "rank %u %s %s; rank %u waits for it in %s %" PRIu64 " of '%s', step %" PRIu64, rank,
             left ? "left" : "died", there, s->base.rank, tsr_operation_name(here.operation),
             here.number, here.region, here.step);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_shared_watch(tsr_ctx *ctx, tsr_transport *t) {
    shared_end *s = (shared_end *)t;
    if (atomic_load(&s->head->failed)) return adopt_failure(ctx, s);
    return scan_for_dead(ctx, s, true);
}

static tsr_result fail_deadline(tsr_ctx *ctx, shared_end *s) {
    position here = position_of(s, s->base.rank);
    for (uint32_t rank = 0; rank < s->base.rank_count; rank++) {
        if (!waits_for(s, rank)) continue;
        if (!atomic_load(&s->seats[rank].joined))
            FAIL(ctx, TSR_RANK, "rank %u did not start within %.1f s", rank,
                 (double)s->base.deadline_ns * 1e-9);
        position there = position_of(s, rank);
        FAIL(ctx, TSR_RANK,
             "rank %u hangs: it did not come to %s %" PRIu64 " of region '%s' at step %" PRIu64
             " within %.1f s; its last was %s %" PRIu64 " of '%s' at step %" PRIu64,
             rank, tsr_operation_name(here.operation), here.number, here.region, here.step,
             (double)s->base.deadline_ns * 1e-9, tsr_operation_name(there.operation), there.number,
             there.region, there.step);
    }
    return TSR_SUCCESS;
}

static tsr_result fail_different(tsr_ctx *ctx, const shared_end *s, uint32_t rank, uint64_t mine,
                                 tsr_operation operation, uint64_t number) {
    position here = position_of(s, s->base.rank), there = position_of(s, rank);
    FAIL(ctx, TSR_RANK,
         "ranks do different things at once: rank %u does %s %" PRIu64
         " of region '%s' (step %" PRIu64 "), rank %u %s %" PRIu64 " of '%s' (step %" PRIu64 ")",
         s->base.rank, tsr_operation_name(here.operation), mine, here.region, here.step, rank,
         tsr_operation_name(operation), number, there.region, there.step);
}

tsr_result tsr_shared_compare(tsr_ctx *ctx, const shared_end *s, uint32_t from,
                              const shared_claim *theirs, const shared_claim *mine) {
    if (theirs->operation != mine->operation || theirs->number != mine->number)
        return fail_different(ctx, s, from, mine->number, (tsr_operation)theirs->operation,
                              theirs->number);
    if (theirs->total_bytes == mine->total_bytes && theirs->row_count == mine->row_count)
        return TSR_SUCCESS;
    position here = position_of(s, s->base.rank);
    FAIL(ctx, TSR_RANK,
         "%s %" PRIu64 " of region '%s': rank %u sends %" PRIu64 " byte%s in %" PRIu64
         " row%s, rank %u expects %" PRIu64 " in %" PRIu64,
         tsr_operation_name(here.operation), here.number, here.region, from, theirs->total_bytes,
         TSR_PLURAL(theirs->total_bytes), theirs->row_count, TSR_PLURAL(theirs->row_count),
         s->base.rank, mine->total_bytes, mine->row_count);
}

/* Returns true if that rank is in an operation in which this one never meets it. A meeting waits
 * for all ranks. A rank that only sends or receives has the number of the operation before, and may
 * still arrive. */
static bool is_elsewhere(const position *here, const position *there) {
    if (there->operation == TSR_OPERATION_SEND) return false;
    if (here->operation == TSR_OPERATION_SEND)
        return there->number == here->number + 1 && there->method == SHARED_BY_MEETING;
    return there->number == here->number &&
           (there->operation != here->operation || there->method != here->method);
}

/* The data that a rank sent before its current operation may have arrived since the last check: the
 * rank is reported only if there is no progress until the next check. */
static tsr_result scan_for_elsewhere(tsr_ctx *ctx, shared_end *s, shared_wait *w) {
    position here = position_of(s, s->base.rank);
    uint32_t suspect = 0;
    for (uint32_t rank = 0; rank < s->base.rank_count && !suspect; rank++) {
        if (!waits_for(s, rank)) continue;
        position there = position_of(s, rank);
        if (!is_elsewhere(&here, &there)) continue;
        suspect = rank + 1;
        if (w->suspect != suspect) continue;
        if (there.operation != here.operation)
            return fail_different(ctx, s, rank, here.number, there.operation, there.number);
        FAIL(ctx, TSR_RANK,
             "%s %" PRIu64 " of region '%s': ranks %u and %u have different sizes; to one they are "
             "all at most %zu byte%s",
             tsr_operation_name(here.operation), here.number, here.region, s->base.rank, rank,
             s->base.meeting_bytes, TSR_PLURAL(s->base.meeting_bytes));
    }
    w->suspect = suspect;
    return TSR_SUCCESS;
}

/* ---- waiting ---- */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *timeout) {
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

void tsr_shared_wake(shared_end *s, uint32_t rank) {
    shared_seat *seat = &s->seats[rank];
    if (!atomic_load(&seat->sleeping)) return;
    atomic_fetch_add(&seat->doorbell, 1);
    futex(&seat->doorbell, FUTEX_WAKE, INT_MAX, NULL);
}

static tsr_result scan_ranks(tsr_ctx *ctx, shared_end *s, shared_wait *w, uint64_t now) {
    if (now - w->scanned_ns >= SLEEP_NS / 2) {
        w->scanned_ns = now;
        TRY(ctx, scan_for_dead(ctx, s, false));
        TRY(ctx, scan_for_elsewhere(ctx, s, w));
    }
    if (now - w->checked_ns > STOPPED_NS) w->stopped_ns += now - w->checked_ns;
    w->checked_ns = now;
    if (s->base.deadline_ns && now - w->began_ns - w->stopped_ns >= s->base.deadline_ns)
        return fail_deadline(ctx, s);
    return TSR_SUCCESS;
}

tsr_result tsr_shared_wait_a_little(tsr_ctx *ctx, shared_end *s, shared_wait *w) {
    if (w->spins < s->spins_max) {
        w->spins++;
        _mm_pause();
        return TSR_SUCCESS;
    }
    uint64_t now = tsr_clock_ns();
    if (w->began_ns == 0) w->began_ns = w->scanned_ns = w->checked_ns = now;
    if (atomic_load(&s->head->failed)) return adopt_failure(ctx, s);
    if (now - w->began_ns < s->spin_ns) {
        /* The awaited rank may need this CPU. */
        if (s->spins_max == 0 || now - w->began_ns > YIELD_NS) sched_yield();
        for (int i = 0; i < PAUSES; i++) _mm_pause();
        return TSR_SUCCESS;
    }
    TRY(ctx, scan_ranks(ctx, s, w, now));
    shared_seat *seat = &s->seats[s->base.rank];
    if (!w->sleeping) { /* and polls once more */
        w->sleeping = true;
        atomic_store(&seat->sleeping, 1);
        return TSR_SUCCESS;
    }
    struct timespec timeout = {.tv_nsec = SLEEP_NS};
    futex(&seat->doorbell, FUTEX_WAIT, w->bell, &timeout);
    return TSR_SUCCESS;
}

void tsr_shared_end_wait(tsr_ctx *ctx, shared_end *s, shared_wait *w) {
    w->spins = 0;
    if (w->began_ns == 0) return;
    if (tsr_trace_records(ctx->trace, tsr_transport_track(&s->base)))
        tsr_trace_end(ctx->trace, tsr_transport_track(&s->base), "wait", w->began_ns);
    w->began_ns = w->stopped_ns = 0;
    w->suspect = 0;
    if (w->sleeping) atomic_store(&s->seats[s->base.rank].sleeping, 0);
    w->sleeping = false;
}
