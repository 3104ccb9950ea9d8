/* SPDX-License-Identifier: Apache-2.0
 *
 * How the ranks of a run reach each other. A transport moves bytes and never adds: what is computed
 * from them is the same whatever carries them (collective.h).
 *
 *     tsr_transport *t;                           one end each, on every rank
 *     tsr_shared_join(ctx, &options, &t);         or tsr_loopback_open, tsr_mpi_open
 *     t->region = "train";                        what errors name
 *     tsr_transport_exchange(ctx, t, &exchange);  or a collective
 *     tsr_transport_close(t);
 *
 * An end belongs to one thread; another thread, that of the state store, has the end `beside`.
 * After a call has failed the end can only be closed: what other ranks got of it is unknown.
 * Nothing is allocated after opening.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TRANSPORT_H
#define TSR_RUNTIME_TRANSPORT_TRANSPORT_H

#include "runtime/base/result.h"
#include "runtime/base/trace.h"

enum { TSR_TRANSPORT_RANKS_MAX = 1024, TSR_TRANSPORT_REGION_MAX = 63 };

typedef enum tsr_operation {
#define X(name, text) TSR_OPERATION_##name,
#include "runtime/transport/operations.def"
#undef X
    TSR_OPERATION_COUNT
} tsr_operation;
const char *tsr_operation_name(tsr_operation operation); /* "all_gather" */

/* What goes to one rank, or comes from one. A pair that is active meets even if no bytes go. */
typedef struct tsr_piece {
    void *bytes; /* borrowed; of a send only read */
    size_t size_bytes;
    bool active;
} tsr_piece;

/* Sends and receives that go on at the same time, in any order. */
typedef struct tsr_exchange {
    tsr_operation operation;
    const tsr_piece *sends, *receives; /* borrowed; by rank. A rank's own are copied. */
    /* What is sent was written a moment ago: a copy comes faster to another processor than what
     * this one's caches hold. */
    bool just_written;
} tsr_exchange;

/* Rows of bytes that another rank may read in place: `row_count` rows of `size_bytes`, each
 * `stride_bytes` behind the one before. */
typedef struct tsr_rows {
    const void *bytes;
    size_t size_bytes, stride_bytes;
    uint32_t row_count;
} tsr_rows;

typedef struct tsr_exposure {
    tsr_operation operation;
    const tsr_rows *rows; /* borrowed; by rank: what that rank may read. The own one is not used. */
    /* By rank: what that rank is to have exposed to this one; `bytes` is not used. */
    const tsr_rows *expected;
} tsr_exposure;

/* All ranks bring a few bytes, and all read those of all. */
typedef struct tsr_meeting {
    tsr_operation operation;
    tsr_rows own;        /* one behind the other for who reads; together at most meeting_bytes */
    const size_t *sizes; /* borrowed; by rank: the bytes it brings. NULL: nobody brings any */
    /* What counts as gone to other ranks, and come from them. */
    uint64_t sent_bytes, received_bytes;
} tsr_meeting;

typedef struct tsr_transport tsr_transport;

/* One way to reach other ranks. A new one is one file with one such table, a row in the conformance
 * tests and an open function. */
typedef struct tsr_transport_kind {
    const char *name;
    TSR_RESULT (*exchange)(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange);
    /* out_bytes: by rank, borrowed until the next meeting, aligned to 16 bytes. NULL: there are no
     * meetings. */
    TSR_RESULT(*meet)
    (tsr_ctx *ctx, tsr_transport *t, const tsr_meeting *meeting, const void **out_bytes);
    /* Do these bytes lie where other ranks can read them? All ranks have to answer alike. NULL:
     * never. */
    bool (*can_expose)(const tsr_transport *t, const void *bytes, size_t size_bytes);
    /* out_rows: by rank, what it exposed, valid until `retract`. NULL where can_expose is. */
    TSR_RESULT(*expose)
    (tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure, tsr_rows *out_rows);
    /* Ends when all others have ended reading what this rank exposed. */
    TSR_RESULT (*retract)(tsr_ctx *ctx, tsr_transport *t);
    /* Tells all ranks that this one failed, so that they end with its error. */
    void (*fail)(tsr_transport *t, tsr_code code, const char *text);
    void (*close)(tsr_transport *t);
} tsr_transport_kind;

/* The first member of what a kind keeps. */
struct tsr_transport {
    const tsr_transport_kind *kind;
    uint32_t rank, rank_count;
    /* The caller's; read by every operation. */
    const char *region;   /* borrowed, static or longer-lived; NULL: "run" */
    uint64_t step;        /* what errors name */
    uint64_t deadline_ns; /* one operation may wait for others so long; 0: for ever */
    /* Counted by every operation: bytes that went to, and came from, other ranks. */
    uint64_t sent_bytes, received_bytes;
    uint64_t operation_count; /* operations begun; those that all take part in */
    /* Owned by the kind; where collectives put what they add. Aligned to 64 bytes. */
    void *scratch;
    size_t scratch_bytes;
    size_t meeting_bytes; /* what a rank may bring to a meeting; 0: there are none */
    /* Owned: an end of its own between the same ranks, for another thread; NULL: there is none. It
     * fails when this one does, and is closed with it. */
    tsr_transport *beside;
    bool is_beside; /* it is such an end */
};

/* Fails with TSR_RANK: a rank ended, was not there in time, or did something else. Whatever fails,
 * this end is failed for all. */
TSR_RESULT tsr_transport_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange);
/* out_bytes: rank_count of them, as above. Errors as above. */
TSR_RESULT tsr_transport_meet(tsr_ctx *ctx, tsr_transport *t, const tsr_meeting *meeting,
                              const void **out_bytes);
bool tsr_transport_can_expose(const tsr_transport *t, const void *bytes, size_t size_bytes);
/* out_rows: rank_count of them. Errors as above. */
TSR_RESULT tsr_transport_expose(tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure,
                                tsr_rows *out_rows);
TSR_RESULT tsr_transport_retract(tsr_ctx *ctx, tsr_transport *t);
/* This rank cannot go on: the others end with TSR_RANK and `text`, and so does whoever waits at the
 * end beside this one. */
void tsr_transport_fail(tsr_transport *t, tsr_code code, const char *text);
void tsr_transport_close(tsr_transport *t); /* accepts NULL */

/* Where a trace shows what goes on at this end. */
static inline tsr_track tsr_transport_track(const tsr_transport *t) {
    return t->is_beside ? TSR_TRACK_SAVE_EXCHANGES : TSR_TRACK_EXCHANGES;
}
/* The number of an operation that all take part in; by a kind, before it begins one. */
static inline uint64_t tsr_transport_begin(tsr_transport *t) { return ++t->operation_count; }

/* One rank alone: a copy at most. Never fails but for memory. */
TSR_RESULT tsr_loopback_open(tsr_ctx *ctx, tsr_transport **out_transport);

#endif
