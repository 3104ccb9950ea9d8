/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of the shared memory that one rank uses, and how the rank waits. Private to shared*.c.
 */
#ifndef TSR_RUNTIME_TRANSPORT_SHARED_END_H
#define TSR_RUNTIME_TRANSPORT_SHARED_END_H

#include "runtime/transport/shared_layout.h"

#include <immintrin.h>
#include <string.h>

/* A copy without `rep movsb`, which memcpy may use: if the destination is less than 32 bytes after
 * the source by page offset, some processors copy byte by byte then. */
static inline void tsr_shared_copy(void *to_bytes, const void *from_bytes, size_t size_bytes) {
    enum { LINE = 64, AHEAD = 8 * LINE, PAGE_BYTES = 4096, NEAR = 32 };
    unsigned char *to = to_bytes;
    const unsigned char *from = from_bytes;
    size_t done = 0, ahead = ((uintptr_t)to - (uintptr_t)from) % PAGE_BYTES;
    while (ahead > 0 && ahead < NEAR && done + LINE <= size_bytes) {
        __m128i line[LINE / sizeof(__m128i)];
        _mm_prefetch((const char *)from + done + AHEAD, _MM_HINT_T0);
        memcpy(line, from + done, LINE);
        memcpy(to + done, line, LINE);
        done += LINE;
    }
    if (done < size_bytes) memcpy(to + done, from + done, size_bytes - done);
}

/* The state of one pair in the current operation. */
typedef struct shared_flow {
    uint64_t posted, taken; /* counts of this rank for the channels to and from the other rank */
    uint64_t seen_taken;    /* posts that the other rank has taken, as last read */
    uint64_t told_taken;    /* posts taken by this rank, as the other rank can see */
    size_t sent, received;
    bool has_probed;         /* has found out if it can read the other rank's memory */
    bool sending, receiving; /* not finished yet */
} shared_flow;

typedef struct shared_end {
    tsr_transport base; /* must be the first member */
    int fd;
    unsigned char *memory; /* mapped */
    size_t memory_bytes;
    shared_head *head;
    shared_seat *seats;
    shared_channel *channels; /* index: from rank * rank_count + to rank */
    unsigned char *boards, *slots, *heaps;
    uint64_t spin_ns;
    uint32_t spins_max; /* polls before it reads the clock; 0: other ranks need this CPU */
    bool just_written;  /* copied from the current exchange */
    uint64_t meeting_count;
    uint64_t probe_word;                       /* other ranks read it as a test */
    char region[TSR_TRANSPORT_REGION_MAX + 1]; /* text in its seat */
    shared_flow *flows;                        /* owned; one per rank */
} shared_end;

/* A wait; initially zero. `bell` must be read before the awaited condition is checked. */
typedef struct shared_wait {
    uint64_t began_ns; /* 0: begins now */
    uint64_t scanned_ns;
    uint64_t checked_ns; /* when it last compared the deadline */
    uint64_t stopped_ns; /* how long this process did not run meanwhile: no rank is late for it */
    uint32_t bell, spins;
    uint32_t suspect; /* a rank that seems to run a different operation, plus one; 0: none */
    bool sleeping;    /* as shown in its seat */
} shared_wait;

/* The way in which an operation is done, as shown in a seat. */
typedef enum shared_method { SHARED_BY_CHANNELS, SHARED_BY_MEETING } shared_method;

/* Publishes the next operation of this rank in its seat. out_number: number of the operation; 0 for
 * an operation between two ranks, which is not numbered. Fails if a rank has failed in between. */
TSR_RESULT tsr_shared_begin(tsr_ctx *ctx, shared_end *s, tsr_operation operation,
                            shared_method method, uint64_t *out_number);

/* Called after a store for `rank` with memory_order_seq_cst. */
void tsr_shared_wake(shared_end *s, uint32_t rank);

/* Called before each check of the awaited condition. */
static inline void tsr_shared_begin_scan(const shared_end *s, shared_wait *w) {
    w->bell = atomic_load(&s->seats[s->base.rank].doorbell);
}
/* Called if nothing has changed since the last check: spins, yields, then sleeps until it is woken.
 * Fails if a rank that a flow waits for has died, runs a different operation, or is late. */
TSR_RESULT tsr_shared_wait_a_little(tsr_ctx *ctx, shared_end *s, shared_wait *w);
/* Called when something has changed or everything is done. */
void tsr_shared_end_wait(tsr_ctx *ctx, shared_end *s, shared_wait *w);

/* The operation of a rank, compared with the expected one. */
typedef struct shared_claim {
    uint64_t operation, number, total_bytes, row_count;
} shared_claim;
TSR_RESULT tsr_shared_compare(tsr_ctx *ctx, const shared_end *s, uint32_t from,
                              const shared_claim *theirs, const shared_claim *mine);

/* Formats "in region 'train' at step 7, after barrier 12". */
void tsr_shared_describe_seat(const shared_end *s, uint32_t rank, char *out_text,
                              size_t size_bytes);

unsigned char *tsr_shared_get_own_heap(const shared_end *s);

/* Functions of this kind's table; see transport.h. */
bool tsr_shared_is_in_heap(const tsr_transport *t, const void *bytes, size_t size_bytes);
TSR_RESULT tsr_shared_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange);
TSR_RESULT tsr_shared_expose(tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure,
                             tsr_rows *out_rows);
TSR_RESULT tsr_shared_retract(tsr_ctx *ctx, tsr_transport *t);
TSR_RESULT tsr_shared_watch(tsr_ctx *ctx, tsr_transport *t);
TSR_RESULT tsr_shared_meet(tsr_ctx *ctx, tsr_transport *t, const tsr_meeting *meeting,
                           const void **out_bytes);

#endif
