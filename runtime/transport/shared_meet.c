/* SPDX-License-Identifier: Apache-2.0
 *
 * A meeting is one cache line from each rank to all: its number shows that the rank has arrived,
 * and the line contains its few bytes. No rank acknowledges that it has read (shared_layout.h).
 */
#include "runtime/transport/shared_end.h"

static shared_board *board(const shared_end *s, uint32_t rank) {
    size_t index = (size_t)rank * BOARDS + s->meeting_count % BOARDS;
    return (shared_board *)(void *)(s->boards + index * s->head->board_bytes);
}

/* Returns the address of the data: in the line of the number if it fits there, otherwise in
 * separate lines. */
static unsigned char *bytes_of(shared_board *b, size_t size_bytes) {
    size_t rest = sizeof *b - offsetof(shared_board, bytes);
    return size_bytes <= rest ? b->bytes : (unsigned char *)b + sizeof *b;
}

static void post_own(shared_end *s, const tsr_meeting *meeting, uint64_t number) {
    shared_board *own = board(s, s->base.rank);
    const tsr_rows *rows = &meeting->own;
    unsigned char *bytes = bytes_of(own, rows->row_count * rows->size_bytes);
    for (uint32_t i = 0; i < rows->row_count; i++)
        tsr_shared_copy(bytes + i * rows->size_bytes,
                        (const unsigned char *)rows->bytes + i * rows->stride_bytes,
                        rows->size_bytes);
    own->operation = meeting->operation;
    own->size_bytes = (uint32_t)(rows->row_count * rows->size_bytes);
    atomic_store(&own->number, number);
    for (uint32_t r = 0; r < s->base.rank_count; r++)
        if (r != s->base.rank) tsr_shared_wake(s, r);
}

static size_t size_of(const tsr_meeting *meeting, uint32_t rank) {
    return meeting->sizes ? meeting->sizes[rank] : 0;
}

/* Returns true if that rank has arrived, now or earlier. */
static bool has_come(shared_end *s, const tsr_meeting *meeting, uint32_t rank, uint64_t number,
                     const void **out_bytes) {
    if (!s->flows[rank].receiving) return true;
    shared_board *theirs = board(s, rank);
    if (atomic_load(&theirs->number) != number) return false;
    s->flows[rank].receiving = false;
    out_bytes[rank] = bytes_of(theirs, size_of(meeting, rank));
    return true;
}

static tsr_result check_all(tsr_ctx *ctx, const shared_end *s, const tsr_meeting *meeting,
                            uint64_t number) {
    for (uint32_t r = 0; r < s->base.rank_count; r++) {
        const shared_board *theirs = board(s, r);
        shared_claim posted = {theirs->operation, number, theirs->size_bytes, 0};
        shared_claim expected = {meeting->operation, number, size_of(meeting, r), 0};
        if (r == s->base.rank) continue;
        TRY(ctx, tsr_shared_compare(ctx, s, r, &posted, &expected));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_shared_meet(tsr_ctx *ctx, tsr_transport *t, const tsr_meeting *meeting,
                           const void **out_bytes) {
    shared_end *s = (shared_end *)t;
    uint64_t number = 0;
    TRY(ctx, tsr_shared_begin(ctx, s, meeting->operation, SHARED_BY_MEETING, &number));
    s->meeting_count++;
    post_own(s, meeting, number);
    for (uint32_t r = 0; r < t->rank_count; r++) {
        s->flows[r].sending = false;
        s->flows[r].receiving = r != t->rank;
    }
    out_bytes[t->rank] = bytes_of(board(s, t->rank), size_of(meeting, t->rank));
    shared_wait w = {0};
    for (uint32_t come = 0;;) {
        tsr_shared_begin_scan(s, &w);
        uint32_t before = come;
        while (come < t->rank_count && has_come(s, meeting, come, number, out_bytes)) come++;
        if (come != before) tsr_shared_end_wait(ctx, s, &w);
        if (come == t->rank_count) break;
        if (come == before) TRY(ctx, tsr_shared_wait_a_little(ctx, s, &w));
    }
    return check_all(ctx, s, meeting, number);
}
