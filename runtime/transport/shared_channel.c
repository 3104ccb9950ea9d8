/* SPDX-License-Identifier: Apache-2.0
 *
 * An exchange checks all its channels in turn: it posts pieces where possible and takes posted
 * ones. Copied data no longer needs its sender; for data that is read in place, in a heap or in the
 * sender's own memory, the sender waits until it is taken. Reads of the sender's memory need the
 * system's permission, which each receiver tests once; it records the result in the channel for the
 * sender.
 */
#include "runtime/base/plural.h"
#include "runtime/transport/shared_end.h"

#include <inttypes.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

static shared_channel *channel(const shared_end *s, uint32_t from, uint32_t to) {
    return &s->channels[(size_t)from * s->base.rank_count + to];
}

static uint64_t slot_offset(const shared_end *s, uint32_t from, uint32_t to, uint64_t number) {
    uint64_t index = ((uint64_t)from * s->base.rank_count + to) * SLOTS + number % SLOTS;
    return (uint64_t)(s->slots - s->memory) + index * s->head->slot_bytes;
}

bool tsr_shared_is_in_heap(const tsr_transport *t, const void *bytes, size_t size_bytes) {
    const shared_end *s = (const shared_end *)t;
    uintptr_t heap = (uintptr_t)tsr_shared_get_own_heap(s), at = (uintptr_t)bytes;
    if (size_bytes == 0) return true;
    return at >= heap && at - heap <= s->head->heap_bytes &&
           size_bytes <= s->head->heap_bytes - (at - heap);
}

/* Returns the number of this rank's posts that have not been taken. The other rank's count is a
 * separate cache line, which is read only if the last known count would give more than `most`. */
static uint64_t count_in_flight(shared_end *s, uint32_t to, uint64_t most) {
    shared_flow *f = &s->flows[to];
    if (f->posted - f->seen_taken > most)
        f->seen_taken = atomic_load(&channel(s, s->base.rank, to)->taken);
    return f->posted - f->seen_taken;
}

static bool all_is_taken(shared_end *s, uint32_t to) { return count_in_flight(s, to, 0) == 0; }
static bool can_post(shared_end *s, uint32_t to) {
    return count_in_flight(s, to, SLOTS - 1) < SLOTS;
}

/* Prepares the next post, except for its location and sequence number. */
static shared_post *next_free(shared_end *s, uint32_t to, const shared_claim *claim) {
    shared_post *p = &channel(s, s->base.rank, to)->posts[s->flows[to].posted % SLOTS];
    p->number = claim->number;
    p->total_bytes = claim->total_bytes;
    p->row_count = (uint32_t)claim->row_count;
    p->operation = (uint8_t)claim->operation;
    return p;
}

static void post(shared_end *s, uint32_t to, shared_post *p) {
    atomic_store(&p->sequence, ++s->flows[to].posted);
    tsr_shared_wake(s, to);
}

/* Reads memory of another process at its address; returns false if this is not possible. */
static bool read_memory(const shared_seat *seat, uint64_t address, void *out, size_t size_bytes) {
    struct iovec to = {out, size_bytes};
    struct iovec from = {(void *)(uintptr_t)address, size_bytes};
    while (to.iov_len > 0) {
        ssize_t count = process_vm_readv(seat->process, &to, 1, &from, 1, 0);
        if (count <= 0) return false;
        to = (struct iovec){(char *)to.iov_base + count, to.iov_len - (size_t)count};
        from = (struct iovec){(char *)from.iov_base + count, to.iov_len};
    }
    return true;
}

/* Size from which it is faster to let the system read the sender's memory than to copy twice. */
enum { READ_BYTES = 16 << 10 };

/* Tests once for each sender, when a piece is large enough, if this rank can read its memory, and
 * publishes the result. */
static void probe(shared_end *s, uint32_t from, size_t size_bytes) {
    shared_flow *f = &s->flows[from];
    const shared_seat *seat = &s->seats[from];
    uint64_t word = 0;
    if (size_bytes < READ_BYTES || f->has_probed) return;
    f->has_probed = true;
    if (seat->process && read_memory(seat, seat->probe_address, &word, sizeof word) &&
        word == seat->probe_word)
        atomic_store(&channel(s, from, s->base.rank)->can_read, 1);
}

/* Small pieces are copied even if they could be read in place: their sender can continue sooner. */
enum { EAGER_BYTES = 4096 };

/* Posts the next part of a piece; returns its size. */
static size_t put(const shared_end *s, uint32_t to, const tsr_transport_segment *segment,
                  shared_post *p) {
    const shared_flow *f = &s->flows[to];
    const unsigned char *bytes = (const unsigned char *)segment->bytes + f->sent;
    size_t left = segment->size_bytes - f->sent;
    p->size_bytes = 0;
    p->storage = SHARED_IN_POST;
    if (segment->size_bytes <= POST_BYTES) {
        p->size_bytes = (uint8_t)left;
        if (left) memcpy(p->at.bytes, bytes, left);
        return left;
    }
    p->at.memory.stride_bytes = 0;
    if (segment->size_bytes > EAGER_BYTES &&
        tsr_shared_is_in_heap(&s->base, segment->bytes, segment->size_bytes)) {
        p->storage = SHARED_IN_HEAP;
        p->at.memory.offset = (uint64_t)(bytes - s->memory);
        return p->at.memory.size_bytes = left;
    }
    if (left >= READ_BYTES && !s->just_written &&
        atomic_load(&channel(s, s->base.rank, to)->can_read)) {
        p->storage = SHARED_IN_PROCESS;
        p->at.memory.offset = (uint64_t)(uintptr_t)bytes;
        return p->at.memory.size_bytes = left;
    }
    p->storage = SHARED_IN_SLOT;
    p->at.memory.offset = slot_offset(s, s->base.rank, to, f->posted);
    p->at.memory.size_bytes = left < s->head->slot_bytes ? left : s->head->slot_bytes;
    tsr_shared_copy(s->memory + p->at.memory.offset, bytes, p->at.memory.size_bytes);
    return p->at.memory.size_bytes;
}

/* Returns true if there was progress. */
static bool send_some(shared_end *s, uint32_t to, const tsr_transport_segment *segment,
                      shared_claim claim) {
    shared_flow *f = &s->flows[to];
    if (!f->sending) return false;
    if (f->sent == SIZE_MAX) { /* everything is posted */
        f->sending = !all_is_taken(s, to);
        return !f->sending;
    }
    if (!can_post(s, to)) return false;
    claim.total_bytes = segment->size_bytes;
    shared_post *p = next_free(s, to, &claim);
    f->sent += put(s, to, segment, p);
    f->sending = f->sent < segment->size_bytes || p->storage >= SHARED_IN_HEAP;
    if (f->sent == segment->size_bytes) f->sent = SIZE_MAX;
    post(s, to, p);
    return true;
}

static tsr_result check_extent(tsr_ctx *ctx, const shared_end *s, uint32_t from,
                               const shared_post *what) {
    uint64_t rows = what->row_count ? what->row_count : 1;
    uint64_t extent = what->at.memory.size_bytes, stride = what->at.memory.stride_bytes;
    uint64_t offset = what->at.memory.offset;
    if (what->storage == SHARED_IN_POST && what->size_bytes <= POST_BYTES) return TSR_SUCCESS;
    if (what->storage == SHARED_IN_PROCESS && what->row_count == 0) return TSR_SUCCESS;
    bool fits = stride <= s->memory_bytes && extent <= s->memory_bytes &&
                (stride == 0 || (rows - 1) <= (s->memory_bytes - extent) / stride);
    extent += (rows - 1) * stride;
    if (!fits || offset > s->memory_bytes || extent > s->memory_bytes - offset)
        FAIL(ctx, TSR_RANK,
             "rank %u posted bytes %" PRIu64 " to %" PRIu64 " of a shared memory of %zu", from,
             offset, offset + extent, s->memory_bytes);
    return TSR_SUCCESS;
}

static const shared_post *find_post(const shared_end *s, uint32_t from) {
    uint64_t taken = s->flows[from].taken;
    const shared_post *p = &channel(s, from, s->base.rank)->posts[taken % SLOTS];
    return atomic_load(&p->sequence) == taken + 1 ? p : NULL;
}

/* Returns the next post of `from`, checked; NULL: none yet. */
static tsr_result next_post(tsr_ctx *ctx, shared_end *s, uint32_t from,
                            const shared_claim *expected, const shared_post **out_post) {
    *out_post = NULL;
    const shared_post *p = find_post(s, from);
    if (!p) return TSR_SUCCESS;
    shared_claim theirs = {p->operation, p->number, p->total_bytes, p->row_count};
    TRY(ctx, tsr_shared_compare(ctx, s, from, &theirs, expected));
    TRY(ctx, check_extent(ctx, s, from, p));
    *out_post = p;
    return TSR_SUCCESS;
}

/* Takes a post. The sender is notified occasionally, so that it does not run out of slots, and if
 * it waits. */
static void take_post(shared_end *s, uint32_t from, bool is_awaited) {
    shared_flow *f = &s->flows[from];
    f->taken++;
    if (!is_awaited && f->taken - f->told_taken < SLOTS / 2) return;
    f->told_taken = f->taken;
    atomic_store(&channel(s, from, s->base.rank)->taken, f->taken);
    tsr_shared_wake(s, from);
}

static tsr_result receive_some(tsr_ctx *ctx, shared_end *s, uint32_t from,
                               const tsr_transport_segment *segment, shared_claim expected,
                               bool *moved) {
    shared_flow *f = &s->flows[from];
    if (!f->receiving) return TSR_SUCCESS;
    expected.total_bytes = segment->size_bytes;
    const shared_post *what;
    TRY(ctx, next_post(ctx, s, from, &expected, &what));
    if (!what) return TSR_SUCCESS;
    bool is_here = what->storage == SHARED_IN_POST;
    size_t size = is_here ? what->size_bytes : what->at.memory.size_bytes;
    if (size > segment->size_bytes - f->received)
        FAIL(ctx, TSR_RANK, "rank %u sends more than the %zu byte%s it began", from,
             segment->size_bytes, TSR_PLURAL(segment->size_bytes));
    unsigned char *to = (unsigned char *)segment->bytes + f->received;
    if (what->storage == SHARED_IN_PROCESS) {
        /* The waiting code detects the sender's death. */
        if (!read_memory(&s->seats[from], what->at.memory.offset, to, size)) return TSR_SUCCESS;
    } else if (size) {
        tsr_shared_copy(to, is_here ? what->at.bytes : s->memory + what->at.memory.offset, size);
        probe(s, from, segment->size_bytes);
    }
    f->received += size;
    take_post(s, from, what->storage >= SHARED_IN_HEAP);
    if (f->received == segment->size_bytes) f->receiving = false;
    *moved = true;
    return TSR_SUCCESS;
}

static tsr_result begin(tsr_ctx *ctx, shared_end *s, tsr_operation operation,
                        shared_claim *out_claim) {
    *out_claim = (shared_claim){.operation = operation};
    return tsr_shared_begin(ctx, s, operation, SHARED_BY_CHANNELS, &out_claim->number);
}

tsr_result tsr_shared_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange) {
    shared_end *s = (shared_end *)t;
    shared_claim claim;
    TRY(ctx, begin(ctx, s, exchange->operation, &claim));
    for (uint32_t r = 0; r < t->rank_count; r++) {
        shared_flow *f = &s->flows[r];
        f->sending = r != t->rank && exchange->sends[r].active;
        f->receiving = r != t->rank && exchange->receives[r].active;
        f->sent = f->received = 0;
    }
    s->just_written = exchange->just_written;
    shared_wait w = {0};
    for (;;) {
        bool moved = false, pending = false;
        tsr_shared_begin_scan(s, &w);
        for (uint32_t i = 1; i < t->rank_count; i++) {
            /* Each rank begins with its neighbour, so that they do not all read one rank's memory
             * at once. */
            uint32_t r = (t->rank + i) % t->rank_count;
            moved |= send_some(s, r, &exchange->sends[r], claim);
            TRY(ctx, receive_some(ctx, s, r, &exchange->receives[r], claim, &moved));
            pending |= s->flows[r].sending || s->flows[r].receiving;
        }
        if (moved || !pending) tsr_shared_end_wait(ctx, s, &w);
        if (!pending) return TSR_SUCCESS;
        if (!moved) TRY(ctx, tsr_shared_wait_a_little(ctx, s, &w));
    }
}

/* Returns true if it was posted. */
static bool expose_to(shared_end *s, uint32_t to, const tsr_rows *rows, shared_claim claim) {
    if (!s->flows[to].sending || !can_post(s, to)) return false;
    bool any = rows->row_count && rows->size_bytes;
    claim.total_bytes = rows->size_bytes;
    claim.row_count = rows->row_count;
    shared_post *p = next_free(s, to, &claim);
    p->storage = SHARED_IN_HEAP;
    p->at.memory.offset = any ? (uint64_t)((const unsigned char *)rows->bytes - s->memory) : 0;
    p->at.memory.size_bytes = rows->size_bytes;
    p->at.memory.stride_bytes = any ? rows->stride_bytes : 0;
    post(s, to, p);
    s->flows[to].sending = false;
    return true;
}

static tsr_result find_exposed(tsr_ctx *ctx, shared_end *s, uint32_t from, const tsr_rows *rows,
                               shared_claim expected, tsr_rows *out_rows, bool *moved) {
    const shared_post *theirs;
    if (!s->flows[from].receiving) return TSR_SUCCESS;
    expected.total_bytes = rows->size_bytes;
    expected.row_count = rows->row_count;
    TRY(ctx, next_post(ctx, s, from, &expected, &theirs));
    if (!theirs) return TSR_SUCCESS;
    *out_rows = (tsr_rows){s->memory + theirs->at.memory.offset, theirs->at.memory.size_bytes,
                           theirs->at.memory.stride_bytes, theirs->row_count};
    s->flows[from].receiving = false;
    *moved = true;
    return TSR_SUCCESS;
}

/* Waits until all ranks have posted; posts are taken when they are retracted. */
tsr_result tsr_shared_expose(tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure,
                             tsr_rows *out_rows) {
    shared_end *s = (shared_end *)t;
    shared_claim claim;
    TRY(ctx, begin(ctx, s, exposure->operation, &claim));
    for (uint32_t r = 0; r < t->rank_count; r++) {
        out_rows[r] = (tsr_rows){0};
        s->flows[r].sending = s->flows[r].receiving = r != t->rank;
    }
    shared_wait w = {0};
    for (;;) {
        bool moved = false, pending = false;
        tsr_shared_begin_scan(s, &w);
        for (uint32_t r = 0; r < t->rank_count; r++) {
            moved |= expose_to(s, r, &exposure->rows[r], claim);
            TRY(ctx, find_exposed(ctx, s, r, &exposure->expected[r], claim, &out_rows[r], &moved));
            pending |= s->flows[r].sending || s->flows[r].receiving;
        }
        if (moved || !pending) tsr_shared_end_wait(ctx, s, &w);
        if (!pending) return TSR_SUCCESS;
        if (!moved) TRY(ctx, tsr_shared_wait_a_little(ctx, s, &w));
    }
}

tsr_result tsr_shared_retract(tsr_ctx *ctx, tsr_transport *t) {
    shared_end *s = (shared_end *)t;
    for (uint32_t r = 0; r < t->rank_count; r++) {
        if (r == t->rank) continue;
        take_post(s, r, true);
        s->flows[r].sending = true;
    }
    shared_wait w = {0};
    for (;;) {
        bool moved = false, pending = false;
        tsr_shared_begin_scan(s, &w);
        for (uint32_t r = 0; r < t->rank_count; r++) {
            shared_flow *f = &s->flows[r];
            if (!f->sending) continue;
            f->sending = !all_is_taken(s, r);
            moved |= !f->sending;
            pending |= f->sending;
        }
        if (moved || !pending) tsr_shared_end_wait(ctx, s, &w);
        if (!pending) return TSR_SUCCESS;
        if (!moved) TRY(ctx, tsr_shared_wait_a_little(ctx, s, &w));
    }
}
