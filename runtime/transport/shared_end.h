/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank's end of the shared memory, and how it waits. Private to shared*.c.
 */
#ifndef TSR_RUNTIME_TRANSPORT_SHARED_END_H
#define TSR_RUNTIME_TRANSPORT_SHARED_END_H

#include "runtime/transport/shared_layout.h"

#include <immintrin.h>
#include <string.h>

/* Like memcpy, which may use `rep movsb`: where what is written lies less than 32 bytes behind
 * by page offsets, some processors do that byte by byte. */
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

/* One pair's part of the operation under way. */
typedef struct shared_flow {
    uint64_t posted, taken; /* of the channels to and from it, as this rank counts them */
    uint64_t seen_taken;    /* of those posted, when it looked last */
    uint64_t told_taken;    /* of those taken, what the other rank can see */
    size_t sent, received;
    bool has_probed;         /* whether it can read the other's memory */
    bool sending, receiving; /* waited for */
} shared_flow;

typedef struct shared_end {
    tsr_transport base; /* first */
    int fd;
    unsigned char *memory; /* mapped */
    size_t memory_bytes;
    shared_head *head;
    shared_seat *seats;
    shared_channel *channels; /* from rank * rank_count + to rank */
    unsigned char *boards, *slots, *heaps;
    uint64_t spin_ns;
    uint32_t turns;    /* looks before it asks for the time; 0: others need this processor */
    bool just_written; /* of the exchange under way */
    uint64_t meeting_count;
    uint64_t probe_word;                       /* that others read */
    char region[TSR_TRANSPORT_REGION_MAX + 1]; /* what its seat says */
    shared_flow *flows;                        /* owned; by rank */
} shared_end;

/* A wait; zero at first. `bell` is read before whatever is waited for is looked at. */
typedef struct shared_wait {
    uint64_t began_ns; /* 0: just now */
    uint64_t looked_ns;
    uint32_t bell, turn;
    uint32_t suspect; /* a rank that seemed to do something else, and one more; 0: none */
    bool sleeping;    /* as its seat says */
} shared_wait;

/* How an operation is done, as a seat says it. */
typedef enum shared_way { SHARED_BY_CHANNELS, SHARED_BY_MEETING } shared_way;

/* What this rank is about to do: its seat says so. out_number: of the operation; 0 for one of two
 * ranks, which has none that all share. Fails if a rank has failed meanwhile. */
TSR_RESULT tsr_shared_begin(tsr_ctx *ctx, shared_end *s, tsr_operation operation, shared_way way,
                            uint64_t *out_number);

/* After something has been stored for `rank`, with memory_order_seq_cst. */
void tsr_shared_wake(shared_end *s, uint32_t rank);

/* Before each look. */
static inline void tsr_shared_look(const shared_end *s, shared_wait *w) {
    w->bell = atomic_load(&s->seats[s->base.rank].doorbell);
}
/* Nothing moved since: spins, yields, then sleeps until it is woken. Fails if a rank that a flow
 * waits for has died, does something else, or is late. */
TSR_RESULT tsr_shared_wait_a_little(tsr_ctx *ctx, shared_end *s, shared_wait *w);
/* Something moved, or all is done. */
void tsr_shared_end_wait(tsr_ctx *ctx, shared_end *s, shared_wait *w);

/* What a rank has brought: is it what this one expects? */
typedef struct shared_claim {
    uint64_t operation, number, total_bytes, row_count;
} shared_claim;
TSR_RESULT tsr_shared_compare(tsr_ctx *ctx, const shared_end *s, uint32_t from,
                              const shared_claim *theirs, const shared_claim *mine);

/* "in region 'train' at step 7, after barrier 12" */
void tsr_shared_describe_seat(const shared_end *s, uint32_t rank, char *out_text,
                              size_t size_bytes);

unsigned char *tsr_shared_get_own_heap(const shared_end *s);

/* Of the table of the kind; see transport.h. */
bool tsr_shared_is_in_heap(const tsr_transport *t, const void *bytes, size_t size_bytes);
TSR_RESULT tsr_shared_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange);
TSR_RESULT tsr_shared_expose(tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure,
                             tsr_rows *out_rows);
TSR_RESULT tsr_shared_retract(tsr_ctx *ctx, tsr_transport *t);
TSR_RESULT tsr_shared_meet(tsr_ctx *ctx, tsr_transport *t, const tsr_meeting *meeting,
                           const void **out_bytes);

#endif
