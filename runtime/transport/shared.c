/* SPDX-License-Identifier: Apache-2.0
 *
 * An exchange looks at all its channels in turn: what can be posted is posted, what was posted is
 * taken. When nothing moved for a while the rank sleeps on its doorbell. It reads the bell before
 * it looks, and whoever changes a channel rings it afterwards, so that no change is slept through.
 *
 * A rank holds a lock on one byte of the file from joining to its end; the kernel lets go of it
 * when the process dies. That is how others see its death, and how a rank started twice is refused.
 */
#include "runtime/transport/shared.h"

#include "runtime/base/clock.h"
#include "runtime/transport/shared_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    SCRATCH_BYTES = 1 << 20,
    SLOT_BYTES_MIN = 16 << 10,
    SLOT_BYTES_MAX = 256 << 10,
    SLEEP_NS = 20 * 1000 * 1000,
    YIELD_NS = 2000,
};

#define ADDRESSES (UINT64_C(1) << 46) /* of the 47 bits a process has */

/* One pair's part of the exchange under way. */
typedef struct flow {
    uint64_t posted, taken; /* of the channels to and from it, as this rank counts them */
    size_t sent, received;
    bool sending, receiving;
} flow;

typedef struct shared {
    tsr_transport base; /* first */
    int fd;
    unsigned char *memory; /* mapped */
    size_t memory_bytes;
    shared_head *head;
    shared_seat *seats;
    shared_channel *channels; /* from rank * rank_count + to rank */
    unsigned char *slots, *heaps;
    uint64_t spin_ns;
    flow *flows; /* owned; by rank */
} shared;

typedef struct layout {
    uint64_t seats, channels, slots, heaps, slot_bytes, heap_bytes, total;
} layout;

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static bool find_layout(uint64_t rank_count, uint64_t heap_bytes, layout *out) {
    if (heap_bytes > ADDRESSES) return false;
    uint64_t slot = (UINT64_C(4) << 20) / rank_count;
    if (slot < SLOT_BYTES_MIN) slot = SLOT_BYTES_MIN;
    if (slot > SLOT_BYTES_MAX) slot = SLOT_BYTES_MAX;
    out->slot_bytes = round_up(slot, PAGE);
    out->heap_bytes = round_up(heap_bytes, PAGE);
    out->seats = round_up(sizeof(shared_head), PAGE);
    out->channels = out->seats + round_up(rank_count * sizeof(shared_seat), PAGE);
    out->slots = out->channels + round_up(rank_count * rank_count * sizeof(shared_channel), PAGE);
    out->heaps = out->slots + rank_count * rank_count * SLOTS * out->slot_bytes;
    out->total = out->heaps + rank_count * out->heap_bytes;
    return out->total <= ADDRESSES;
}

tsr_result tsr_shared_create(tsr_ctx *ctx, const tsr_shared_options *options, int *out_fd) {
    TSR_ASSERT(options->size_bytes == sizeof *options);
    layout l;
    if (options->rank_count == 0 || options->rank_count > TSR_TRANSPORT_RANKS_MAX)
        FAIL(ctx, TSR_USAGE, "%u ranks asked for; 1 to %d are supported", options->rank_count,
             TSR_TRANSPORT_RANKS_MAX);
    if (!find_layout(options->rank_count, options->heap_bytes, &l))
        FAIL(ctx, TSR_MEMORY, "%u ranks of %llu bytes each are more than can be addressed",
             options->rank_count, (unsigned long long)options->heap_bytes);
    int fd = memfd_create("tessera-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_MEMORY, errno, "cannot create memory for ranks to share");
    shared_head head = {.magic = TSR_SHARED_MAGIC,
                        .heap_bytes = l.heap_bytes,
                        .slot_bytes = l.slot_bytes,
                        .total_bytes = l.total,
                        .rank_count = options->rank_count};
    /* What every run uses is taken now: too little room is an error here, not a signal later. */
    if (ftruncate(fd, (off_t)l.total) || fallocate(fd, 0, 0, (off_t)l.slots) ||
        pwrite(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        int code = errno;
        close(fd);
        FAIL_ERRNO(ctx, TSR_MEMORY, code, "cannot take %llu bytes for %u ranks to share",
                   (unsigned long long)l.total, options->rank_count);
    }
    *out_fd = fd;
    return TSR_SUCCESS;
}

/* ---- waiting ---- */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *timeout) {
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

static void ring(shared *s, uint32_t rank) {
    shared_seat *seat = &s->seats[rank];
    atomic_fetch_add(&seat->doorbell, 1);
    if (atomic_load(&seat->sleeping)) futex(&seat->doorbell, FUTEX_WAKE, INT_MAX, NULL);
}

static bool holds_lock(const shared *s, uint32_t rank) {
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)rank, .l_len = 1};
    return fcntl(s->fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

typedef struct place {
    const char *operation;
    unsigned long long number, step;
    char region[TSR_TRANSPORT_REGION_MAX + 1];
} place;

static place place_of(const shared *s, uint32_t rank) {
    shared_seat *seat = &s->seats[rank];
    place p = {
        .operation = tsr_operation_name(
            (tsr_operation)atomic_load_explicit(&seat->operation, memory_order_relaxed)),
        .number = atomic_load_explicit(&seat->number, memory_order_relaxed),
        .step = atomic_load_explicit(&seat->step, memory_order_relaxed),
    };
    for (int i = 0; i < REGION_WORDS; i++) {
        uint64_t word = atomic_load_explicit(&seat->region[i], memory_order_relaxed);
        memcpy(p.region + i * 8, &word, 8);
    }
    p.region[TSR_TRANSPORT_REGION_MAX] = 0;
    return p;
}

static void say_where(shared *s, tsr_operation operation, uint64_t number) {
    shared_seat *seat = &s->seats[s->base.rank];
    char region[TSR_TRANSPORT_REGION_MAX + 1] = {0};
    snprintf(region, sizeof region, "%s", s->base.region ? s->base.region : "run");
    atomic_store_explicit(&seat->operation, operation, memory_order_relaxed);
    atomic_store_explicit(&seat->number, number, memory_order_relaxed);
    atomic_store_explicit(&seat->step, s->base.step, memory_order_relaxed);
    for (int i = 0; i < REGION_WORDS; i++) {
        uint64_t word;
        memcpy(&word, region + i * 8, 8);
        atomic_store_explicit(&seat->region[i], word, memory_order_relaxed);
    }
}

typedef struct wait {
    uint64_t began_ns; /* nothing moved since; 0: something just did */
    uint64_t looked_ns;
    uint32_t bell;
} wait;

static bool waits_for(const shared *s, uint32_t rank) {
    return rank != s->base.rank && (s->flows[rank].sending || s->flows[rank].receiving);
}

static tsr_result adopt_failure(tsr_ctx *ctx, shared *s) {
    FAIL(ctx, TSR_RANK, "rank %u failed: %s", s->head->failed_rank, s->head->failed_text);
}

/* Every rank that is waited for: is it there? */
static tsr_result look_for_dead(tsr_ctx *ctx, shared *s) {
    place here = place_of(s, s->base.rank);
    for (uint32_t rank = 0; rank < s->base.rank_count; rank++) {
        shared_seat *seat = &s->seats[rank];
        if (!waits_for(s, rank) || !atomic_load(&seat->joined)) continue;
        bool left = atomic_load(&seat->left) != 0;
        if (!left && holds_lock(s, rank)) continue;
        if (atomic_load(&s->head->failed)) return adopt_failure(ctx, s);
        place there = place_of(s, rank);
        FAIL(ctx, TSR_RANK,
             "rank %u %s in region '%s' at step %llu, after %s %llu; rank %u waits for it in %s "
             "%llu of '%s', step %llu",
             rank, left ? "left" : "died", there.region, there.step, there.operation, there.number,
             s->base.rank, here.operation, here.number, here.region, here.step);
    }
    return TSR_SUCCESS;
}

static tsr_result fail_deadline(tsr_ctx *ctx, shared *s) {
    place here = place_of(s, s->base.rank);
    for (uint32_t rank = 0; rank < s->base.rank_count; rank++) {
        if (!waits_for(s, rank)) continue;
        if (!atomic_load(&s->seats[rank].joined))
            FAIL(ctx, TSR_RANK, "rank %u did not start within %.1f s", rank,
                 (double)s->base.deadline_ns * 1e-9);
        place there = place_of(s, rank);
        FAIL(ctx, TSR_RANK,
             "rank %u hangs: it did not come to %s %llu of region '%s' at step %llu within %.1f s; "
             "its last was %s %llu of '%s' at step %llu",
             rank, here.operation, here.number, here.region, here.step,
             (double)s->base.deadline_ns * 1e-9, there.operation, there.number, there.region,
             there.step);
    }
    return TSR_SUCCESS;
}

/* Nothing moved since the bell was read. */
static tsr_result wait_a_little(tsr_ctx *ctx, shared *s, wait *w) {
    shared_seat *seat = &s->seats[s->base.rank];
    uint64_t now = tsr_clock_ns();
    if (w->began_ns == 0) w->began_ns = w->looked_ns = now;
    if (atomic_load(&s->head->failed)) return adopt_failure(ctx, s);
    if (now - w->began_ns < s->spin_ns) {
        /* Whom it waits for may want this very processor. */
        if (now - w->began_ns > YIELD_NS) sched_yield();
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&seat->doorbell, memory_order_relaxed) != w->bell) break;
            _mm_pause();
        }
        return TSR_SUCCESS;
    }
    if (now - w->looked_ns >= SLEEP_NS / 2) {
        w->looked_ns = now;
        TRY(ctx, look_for_dead(ctx, s));
    }
    if (s->base.deadline_ns && now - w->began_ns >= s->base.deadline_ns)
        TRY(ctx, fail_deadline(ctx, s));
    atomic_store(&seat->sleeping, 1);
    struct timespec timeout = {.tv_nsec = SLEEP_NS};
    futex(&seat->doorbell, FUTEX_WAIT, w->bell, &timeout);
    atomic_store(&seat->sleeping, 0);
    return TSR_SUCCESS;
}

/* Something moved, or all is done. */
static void end_wait(tsr_ctx *ctx, const shared *s, wait *w) {
    if (w->began_ns && tsr_trace_records(ctx->trace, tsr_transport_track(&s->base)))
        tsr_trace_end(ctx->trace, tsr_transport_track(&s->base), "wait", w->began_ns);
    w->began_ns = 0;
}

/* ---- channels ---- */

static shared_channel *channel(const shared *s, uint32_t from, uint32_t to) {
    return &s->channels[(size_t)from * s->base.rank_count + to];
}

static uint64_t slot_offset(const shared *s, uint32_t from, uint32_t to, uint64_t number) {
    uint64_t index = ((uint64_t)from * s->base.rank_count + to) * SLOTS + number % SLOTS;
    return (uint64_t)(s->slots - s->memory) + index * s->head->slot_bytes;
}

static unsigned char *own_heap(const shared *s) {
    return s->heaps + s->base.rank * s->head->heap_bytes;
}

static bool is_in_heap(const tsr_transport *t, const void *bytes, size_t size_bytes) {
    const shared *s = (const shared *)t;
    uintptr_t heap = (uintptr_t)own_heap(s), at = (uintptr_t)bytes;
    if (size_bytes == 0) return true;
    return at >= heap && at - heap <= s->head->heap_bytes &&
           size_bytes <= s->head->heap_bytes - (at - heap);
}

static void post(shared *s, uint32_t to, const shared_post *what) {
    flow *f = &s->flows[to];
    shared_channel *c = channel(s, s->base.rank, to);
    c->posts[f->posted % SLOTS] = *what;
    atomic_store_explicit(&c->posted, ++f->posted, memory_order_release);
    ring(s, to);
}

/* True if something moved. */
static bool send_some(shared *s, uint32_t to, const tsr_piece *piece, const shared_post *about) {
    flow *f = &s->flows[to];
    if (!f->sending) return false;
    shared_channel *c = channel(s, s->base.rank, to);
    uint64_t taken = atomic_load_explicit(&c->taken, memory_order_acquire);
    if (f->sent == SIZE_MAX) { /* all is posted */
        if (taken != f->posted) return false;
        f->sending = false;
        return true;
    }
    if (f->posted - taken >= SLOTS) return false;
    shared_post what = *about;
    what.total_bytes = piece->size_bytes;
    if (is_in_heap(&s->base, piece->bytes, piece->size_bytes)) {
        what.bytes_are_posted = 1;
        what.offset = piece->size_bytes ? (uint64_t)((unsigned char *)piece->bytes - s->memory) : 0;
        what.size_bytes = piece->size_bytes;
    } else {
        size_t left = piece->size_bytes - f->sent;
        what.offset = slot_offset(s, s->base.rank, to, f->posted);
        what.size_bytes = left < s->head->slot_bytes ? left : s->head->slot_bytes;
        memcpy(s->memory + what.offset, (unsigned char *)piece->bytes + f->sent, what.size_bytes);
    }
    post(s, to, &what);
    f->sent += what.size_bytes;
    if (f->sent == piece->size_bytes) f->sent = SIZE_MAX;
    return true;
}

static tsr_result check_post(tsr_ctx *ctx, const shared *s, uint32_t from, const shared_post *what,
                             const shared_post *expected) {
    place here = place_of(s, s->base.rank), there = place_of(s, from);
    if (what->operation != expected->operation || what->number != expected->number)
        FAIL(ctx, TSR_RANK,
             "ranks do different things at once: rank %u does %s %llu of region '%s' (step %llu), "
             "rank %u %s %llu of '%s' (step %llu)",
             s->base.rank, tsr_operation_name((tsr_operation)expected->operation),
             (unsigned long long)expected->number, here.region, here.step, from,
             tsr_operation_name((tsr_operation)what->operation), (unsigned long long)what->number,
             there.region, there.step);
    if (what->total_bytes != expected->total_bytes || what->row_count != expected->row_count)
        FAIL(ctx, TSR_RANK,
             "%s %llu of region '%s': rank %u sends %llu bytes in %u rows, rank %u expects %llu "
             "in %u",
             here.operation, here.number, here.region, from, (unsigned long long)what->total_bytes,
             what->row_count, s->base.rank, (unsigned long long)expected->total_bytes,
             expected->row_count);
    uint64_t rows = what->row_count ? what->row_count : 1;
    uint64_t reach = what->size_bytes, stride = what->stride_bytes;
    bool fits = stride <= s->memory_bytes && reach <= s->memory_bytes &&
                (stride == 0 || (rows - 1) <= (s->memory_bytes - reach) / stride);
    reach += (rows - 1) * stride;
    if (!fits || what->offset > s->memory_bytes || reach > s->memory_bytes - what->offset)
        FAIL(ctx, TSR_RANK, "rank %u posted bytes %llu to %llu of a shared memory of %zu", from,
             (unsigned long long)what->offset, (unsigned long long)(what->offset + reach),
             s->memory_bytes);
    return TSR_SUCCESS;
}

/* The next post of `from`, checked; NULL: none yet. */
static tsr_result next_post(tsr_ctx *ctx, shared *s, uint32_t from, const shared_post *expected,
                            const shared_post **out_post) {
    flow *f = &s->flows[from];
    shared_channel *c = channel(s, from, s->base.rank);
    *out_post = NULL;
    if (atomic_load_explicit(&c->posted, memory_order_acquire) == f->taken) return TSR_SUCCESS;
    TRY(ctx, check_post(ctx, s, from, &c->posts[f->taken % SLOTS], expected));
    *out_post = &c->posts[f->taken % SLOTS];
    return TSR_SUCCESS;
}

static void take(shared *s, uint32_t from) {
    atomic_store_explicit(&channel(s, from, s->base.rank)->taken, ++s->flows[from].taken,
                          memory_order_release);
    ring(s, from);
}

static tsr_result receive_some(tsr_ctx *ctx, shared *s, uint32_t from, const tsr_piece *piece,
                               const shared_post *about, bool *moved) {
    flow *f = &s->flows[from];
    if (!f->receiving) return TSR_SUCCESS;
    shared_post expected = *about;
    expected.total_bytes = piece->size_bytes;
    const shared_post *what;
    TRY(ctx, next_post(ctx, s, from, &expected, &what));
    if (!what) return TSR_SUCCESS;
    if (what->size_bytes > piece->size_bytes - f->received)
        FAIL(ctx, TSR_RANK, "rank %u sends more than the %zu bytes it began", from,
             piece->size_bytes);
    if (what->size_bytes)
        memcpy((unsigned char *)piece->bytes + f->received, s->memory + what->offset,
               what->size_bytes);
    f->received += what->size_bytes;
    take(s, from);
    if (f->received == piece->size_bytes) f->receiving = false;
    *moved = true;
    return TSR_SUCCESS;
}

/* ---- the operations ---- */

/* An operation of two ranks has no number that all share. */
static shared_post about(shared *s, tsr_operation operation) {
    uint64_t number = operation == TSR_OPERATION_SEND ? 0 : tsr_transport_begin(&s->base);
    say_where(s, operation, operation == TSR_OPERATION_SEND ? s->base.operation_count : number);
    return (shared_post){.operation = operation, .number = number};
}

static tsr_result shared_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange) {
    shared *s = (shared *)t;
    shared_seat *seat = &s->seats[t->rank];
    shared_post what = about(s, exchange->operation);
    for (uint32_t r = 0; r < t->rank_count; r++) {
        flow *f = &s->flows[r];
        f->sending = r != t->rank && exchange->sends[r].active;
        f->receiving = r != t->rank && exchange->receives[r].active;
        f->sent = f->received = 0;
    }
    wait w = {0};
    for (;;) {
        bool moved = false, pending = false;
        w.bell = atomic_load(&seat->doorbell);
        for (uint32_t i = 1; i < t->rank_count; i++) {
            /* Each begins with its neighbour, so that not all read one rank's memory at once. */
            uint32_t r = (t->rank + i) % t->rank_count;
            moved |= send_some(s, r, &exchange->sends[r], &what);
            TRY(ctx, receive_some(ctx, s, r, &exchange->receives[r], &what, &moved));
            pending |= s->flows[r].sending || s->flows[r].receiving;
        }
        if (moved || !pending) end_wait(ctx, s, &w);
        if (!pending) return TSR_SUCCESS;
        if (!moved) TRY(ctx, wait_a_little(ctx, s, &w));
    }
}

/* Waits until no flow is receiving (all have posted) or sending (all have taken). */
static tsr_result shared_expose(tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure,
                                tsr_rows *out_rows) {
    shared *s = (shared *)t;
    shared_seat *seat = &s->seats[t->rank];
    shared_post what = about(s, exposure->operation);
    for (uint32_t r = 0; r < t->rank_count; r++) {
        const tsr_rows *rows = &exposure->rows[r];
        out_rows[r] = (tsr_rows){0};
        s->flows[r].sending = s->flows[r].receiving = r != t->rank;
        if (r == t->rank) continue;
        shared_post mine = what;
        mine.total_bytes = mine.size_bytes = rows->size_bytes;
        mine.row_count = rows->row_count;
        mine.bytes_are_posted = 1;
        if (rows->row_count && rows->size_bytes) {
            mine.offset = (uint64_t)((const unsigned char *)rows->bytes - s->memory);
            mine.stride_bytes = rows->stride_bytes;
        }
        post(s, r, &mine);
    }
    wait w = {0};
    for (;;) {
        bool moved = false, pending = false;
        w.bell = atomic_load(&seat->doorbell);
        for (uint32_t r = 0; r < t->rank_count; r++) {
            if (!s->flows[r].receiving) continue;
            shared_post expected = what;
            const shared_post *theirs;
            expected.total_bytes = exposure->expected[r].size_bytes;
            expected.row_count = exposure->expected[r].row_count;
            TRY(ctx, next_post(ctx, s, r, &expected, &theirs));
            if (theirs) {
                out_rows[r] = (tsr_rows){s->memory + theirs->offset, theirs->size_bytes,
                                         theirs->stride_bytes, theirs->row_count};
                s->flows[r].receiving = false;
                moved = true;
            }
            pending |= s->flows[r].receiving;
        }
        if (moved || !pending) end_wait(ctx, s, &w);
        if (!pending) return TSR_SUCCESS;
        if (!moved) TRY(ctx, wait_a_little(ctx, s, &w));
    }
}

static tsr_result shared_retract(tsr_ctx *ctx, tsr_transport *t) {
    shared *s = (shared *)t;
    shared_seat *seat = &s->seats[t->rank];
    for (uint32_t r = 0; r < t->rank_count; r++)
        if (r != t->rank) take(s, r);
    wait w = {0};
    for (;;) {
        bool moved = false, pending = false;
        w.bell = atomic_load(&seat->doorbell);
        for (uint32_t r = 0; r < t->rank_count; r++) {
            flow *f = &s->flows[r];
            if (!f->sending) continue;
            shared_channel *c = channel(s, t->rank, r);
            if (atomic_load_explicit(&c->taken, memory_order_acquire) == f->posted) {
                f->sending = false;
                moved = true;
            }
            pending |= f->sending;
        }
        if (moved || !pending) end_wait(ctx, s, &w);
        if (!pending) return TSR_SUCCESS;
        if (!moved) TRY(ctx, wait_a_little(ctx, s, &w));
    }
}

static void shared_fail(tsr_transport *t, tsr_code code, const char *text) {
    shared *s = (shared *)t;
    if (atomic_exchange(&s->head->failing, 1)) return; /* the first one counts */
    s->head->failed_rank = t->rank;
    s->head->failed_code = code;
    snprintf(s->head->failed_text, sizeof s->head->failed_text, "%s", text);
    atomic_store(&s->head->failed, 1);
    for (uint32_t r = 0; r < t->rank_count; r++) ring(s, r);
}

/* ---- joining and leaving ---- */

static void shared_close(tsr_transport *t) {
    shared *s = (shared *)t;
    if (s->seats) {
        atomic_store(&s->seats[t->rank].left, 1);
        for (uint32_t r = 0; r < t->rank_count; r++)
            if (r != t->rank) ring(s, r);
    }
    if (s->memory) munmap(s->memory, s->memory_bytes);
    if (s->fd >= 0) close(s->fd);
    free(s->flows);
    free(t->scratch);
    free(s);
}

static const tsr_transport_kind shared_kind = {
    .name = "shared memory",
    .exchange = shared_exchange,
    .can_expose = is_in_heap,
    .expose = shared_expose,
    .retract = shared_retract,
    .fail = shared_fail,
    .close = shared_close,
};

/* A description of its own: locks belong to descriptions. */
static tsr_result reopen(tsr_ctx *ctx, shared *s, int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    s->fd = open(path, O_RDWR | O_CLOEXEC);
    if (s->fd < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot open the memory that ranks share");
    struct stat about_it;
    if (fstat(s->fd, &about_it))
        FAIL_ERRNO(ctx, TSR_IO, errno, "cannot ask for the size of the memory that ranks share");
    s->memory_bytes = (size_t)about_it.st_size;
    if (s->memory_bytes < sizeof(shared_head))
        FAIL(ctx, TSR_CORRUPT, "memory that ranks share has %zu bytes, not even a head of %zu",
             s->memory_bytes, sizeof(shared_head));
    void *memory = mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (memory == MAP_FAILED)
        FAIL_ERRNO(ctx, TSR_MEMORY, errno, "cannot map %zu bytes that ranks share",
                   s->memory_bytes);
    s->memory = memory;
    s->head = memory;
    return TSR_SUCCESS;
}

static tsr_result use_layout(tsr_ctx *ctx, shared *s) {
    const shared_head *head = s->head;
    layout l;
    if (head->magic != TSR_SHARED_MAGIC)
        FAIL(ctx, TSR_CORRUPT, "memory that ranks share begins with %016llx, not %016llx",
             (unsigned long long)head->magic, (unsigned long long)TSR_SHARED_MAGIC);
    if (head->rank_count == 0 || head->rank_count > TSR_TRANSPORT_RANKS_MAX ||
        !find_layout(head->rank_count, head->heap_bytes, &l) || l.slot_bytes != head->slot_bytes ||
        l.total != head->total_bytes || l.total != s->memory_bytes)
        FAIL(ctx, TSR_CORRUPT, "memory that ranks share has %zu bytes, %u ranks' heaps of %llu",
             s->memory_bytes, head->rank_count, (unsigned long long)head->heap_bytes);
    s->base.rank_count = head->rank_count;
    s->seats = (shared_seat *)(s->memory + l.seats);
    s->channels = (shared_channel *)(s->memory + l.channels);
    s->slots = s->memory + l.slots;
    s->heaps = s->memory + l.heaps;
    return TSR_SUCCESS;
}

static tsr_result sit_down(tsr_ctx *ctx, shared *s, uint32_t rank) {
    if (rank >= s->base.rank_count)
        FAIL(ctx, TSR_USAGE, "there is no rank %u among %u", rank, s->base.rank_count);
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)rank, .l_len = 1};
    bool taken = fcntl(s->fd, F_OFD_SETLK, &lock) != 0;
    if (taken || atomic_exchange(&s->seats[rank].joined, 1)) {
        FAIL(ctx, TSR_LOCKED, "rank %u of %u was started before%s", rank, s->base.rank_count,
             taken ? ", and runs" : "");
    }
    s->base.rank = rank;
    return TSR_SUCCESS;
}

static tsr_result join(tsr_ctx *ctx, const tsr_shared_join_options *options, shared *s) {
    TRY(ctx, reopen(ctx, s, options->fd));
    tsr_result result = use_layout(ctx, s);
    shared_seat *seats = s->seats;
    s->seats = NULL; /* a rank that has not sat down does not leave */
    TRY(ctx, result);
    s->flows = calloc(s->base.rank_count, sizeof *s->flows);
    s->base.scratch = aligned_alloc(64, SCRATCH_BYTES);
    s->base.scratch_bytes = SCRATCH_BYTES;
    if (!s->flows || !s->base.scratch)
        FAIL(ctx, TSR_MEMORY, "no memory for a transport of %u ranks", s->base.rank_count);
    s->seats = seats;
    result = sit_down(ctx, s, options->rank);
    if (result.code) s->seats = NULL;
    return result;
}

tsr_result tsr_shared_join(tsr_ctx *ctx, const tsr_shared_join_options *options,
                           tsr_transport **out_transport) {
    TSR_ASSERT(options->size_bytes == sizeof *options);
    shared *s = calloc(1, sizeof *s);
    if (!s) FAIL(ctx, TSR_MEMORY, "no memory for a transport");
    s->base.kind = &shared_kind;
    s->base.deadline_ns = options->deadline_ns;
    s->spin_ns = options->spin_ns;
    s->fd = -1;
    tsr_result result = join(ctx, options, s);
    if (result.code) {
        shared_close(&s->base);
        return result;
    }
    *out_transport = &s->base;
    return TSR_SUCCESS;
}

void tsr_shared_describe(int fd, uint32_t rank, char *out_text, size_t size_bytes) {
    shared s = {.fd = -1};
    tsr_ctx ctx = {0};
    out_text[0] = '\0';
    tsr_result result = reopen(&ctx, &s, fd);
    if (!result.code) result = use_layout(&ctx, &s);
    if (!result.code && rank < s.base.rank_count && atomic_load(&s.seats[rank].joined)) {
        place there = place_of(&s, rank);
        snprintf(out_text, size_bytes, "in region '%s' at step %llu, after %s %llu", there.region,
                 there.step, there.operation, there.number);
    }
    if (s.memory) munmap(s.memory, s.memory_bytes);
    if (s.fd >= 0) close(s.fd);
}

void *tsr_shared_get_heap(tsr_transport *t, size_t *out_size_bytes) {
    TSR_ASSERT(t->kind == &shared_kind);
    shared *s = (shared *)t;
    *out_size_bytes = s->head->heap_bytes;
    return own_heap(s);
}
