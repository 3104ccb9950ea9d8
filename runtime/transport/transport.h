/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication between the ranks of a run. A transport moves bytes and never adds: results are the
 * same for all transports (collective.h).
 *
 *     tsr_transport *t;                           one end each, on every rank
 *     tsr_shared_join(ctx, &options, &t);         or tsr_loopback_open, tsr_mpi_open
 *     t->region = "train";                        named in errors
 *     tsr_transport_exchange(ctx, t, &exchange);  or a collective
 *     tsr_transport_close(t);
 *
 * An end belongs to one thread; the thread of the state store has a second end, `beside`. After a
 * call has failed, the end can only be closed: it is not known which data the other ranks have
 * received. Nothing is allocated after opening.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TRANSPORT_H
#define TSR_RUNTIME_TRANSPORT_TRANSPORT_H

#include "runtime/base/result.h"
#include "runtime/base/trace/trace.h"

enum { TSR_TRANSPORT_RANKS_MAX = 1024, TSR_TRANSPORT_REGION_MAX = 63 };

typedef enum tsr_operation {
#define X(name, text) TSR_OPERATION_##name,
#include "runtime/transport/operations.def"
#undef X
    TSR_OPERATION_COUNT
} tsr_operation;
const char *tsr_operation_name(tsr_operation operation); /* "all_gather" */

/* Data that is sent to one rank, or received from one. An active pair synchronises even if there
 * are no bytes. */
typedef struct tsr_transport_segment {
    void *bytes; /* borrowed; only read in a send */
    size_t size_bytes;
    bool active;
} tsr_transport_segment;

/* Sends and receives that run concurrently, in any order. */
typedef struct tsr_exchange {
    tsr_operation operation;
    const tsr_transport_segment *sends,
        *receives; /* borrowed; one per rank. A rank's own piece is copied. */
    /* The sent bytes were just written: a copy reaches another CPU faster than bytes in this CPU's
     * caches. */
    bool just_written;
} tsr_exchange;

/* Rows of bytes that another rank may read in place: `row_count` rows of `size_bytes`,
 * `stride_bytes` apart. */
typedef struct tsr_rows {
    const void *bytes;
    size_t size_bytes, stride_bytes;
    uint32_t row_count;
} tsr_rows;

typedef struct tsr_exposure {
    tsr_operation operation;
    const tsr_rows *rows; /* borrowed; for each rank, the rows that it may read. This rank's own
                             element is not used. */
    /* The rows that each rank must expose to this one; `bytes` is not used. */
    const tsr_rows *expected;
} tsr_exposure;

/* Each rank contributes a few bytes, and all ranks read the bytes of all. */
typedef struct tsr_meeting {
    tsr_operation operation;
    tsr_rows own;        /* concatenated for the readers; together at most meeting_bytes */
    const size_t *sizes; /* borrowed; for each rank, the number of bytes that it contributes. NULL:
                            no rank contributes any */
    /* Bytes that count as sent to and received from other ranks. */
    uint64_t sent_bytes, received_bytes;
} tsr_meeting;

typedef struct tsr_transport tsr_transport;

/* An implementation of a transport. A new transport consists of a file with such a table, a row in
 * the conformance tests and an open function. */
typedef struct tsr_transport_kind {
    const char *name;
    TSR_RESULT (*exchange)(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange);
    /* out_bytes: one per rank, borrowed until the next meeting, aligned to 16 bytes. NULL: no
     * meetings. */
    TSR_RESULT(*meet)
    (tsr_ctx *ctx, tsr_transport *t, const tsr_meeting *meeting, const void **out_bytes);
    /* True if other ranks can read these bytes. All ranks must give the same answer. NULL: never.
     */
    bool (*can_expose)(const tsr_transport *t, const void *bytes, size_t size_bytes);
    /* out_rows: for each rank, the rows that it exposed, valid until `retract`. NULL if can_expose
     * is NULL. */
    TSR_RESULT(*expose)
    (tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure, tsr_rows *out_rows);
    /* Returns when all other ranks have read the rows that this rank exposed. */
    TSR_RESULT (*retract)(tsr_ctx *ctx, tsr_transport *t);
    /* Fails if another rank has failed or ended; see tsr_transport_watch. NULL: never. */
    TSR_RESULT (*watch)(tsr_ctx *ctx, tsr_transport *t);
    /* Tells all ranks that this one failed, so that they fail with its error. */
    void (*fail)(tsr_transport *t, tsr_code code, const char *text);
    void (*close)(tsr_transport *t);
} tsr_transport_kind;

/* The first member of each implementation's struct. */
struct tsr_transport {
    const tsr_transport_kind *kind;
    uint32_t rank, rank_count;
    /* Set by the caller; read by every operation. */
    const char *region;   /* borrowed, static or longer-lived; NULL: "run" */
    uint64_t step;        /* named in errors */
    uint64_t deadline_ns; /* maximum time that one operation waits for other ranks; 0: no limit */
    /* Counted by every operation: bytes sent to and received from other ranks. */
    uint64_t sent_bytes, received_bytes;
    uint64_t operation_count; /* number of operations begun in which all ranks take part */
    /* Set by the caller: how devices with their own memory exchange (runtime/exchange/kinds.def).
     * NULL: the best way. */
    const char *exchange; /* borrowed */
    /* Owned by the implementation; memory for the additions of collectives. Aligned to 64 bytes. */
    void *scratch;
    size_t scratch_bytes;
    size_t meeting_bytes; /* maximum bytes that a rank contributes to a meeting; 0: no meetings */
    /* Owned: a second end between the same ranks, for another thread; or NULL. The second end fails
     * when this transport fails, and is closed together with it. */
    tsr_transport *secondary;
    bool is_secondary; /* this is such a second end */
};

/* Fails with TSR_RANK: a rank ended, was late, or ran a different operation. After any failure,
 * this end has failed for all ranks. */
TSR_RESULT tsr_transport_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange);
/* out_bytes: rank_count elements, as above. Errors as above. */
TSR_RESULT tsr_transport_meet(tsr_ctx *ctx, tsr_transport *t, const tsr_meeting *meeting,
                              const void **out_bytes);
bool tsr_transport_can_expose(const tsr_transport *t, const void *bytes, size_t size_bytes);
/* out_rows: rank_count elements. Errors as above. */
TSR_RESULT tsr_transport_expose(tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure,
                                tsr_rows *out_rows);
TSR_RESULT tsr_transport_retract(tsr_ctx *ctx, tsr_transport *t);
/* Called repeatedly while this rank waits for the others by other means than this transport, since
 * `began_ns`: fails if one of them has failed or ended, or has not come to `operation` within the
 * deadline. */
TSR_RESULT tsr_transport_watch(tsr_ctx *ctx, tsr_transport *t, tsr_operation operation,
                               uint64_t began_ns);
/* Called if this rank cannot continue: the other ranks fail with TSR_RANK and `text`, and so does a
 * thread that waits at the second end. */
void tsr_transport_fail(tsr_transport *t, tsr_code code, const char *text);
void tsr_transport_close(tsr_transport *t); /* accepts NULL */

/* The trace track for the operations of this end. */
static inline tsr_track tsr_transport_track(const tsr_transport *t) {
    return t->is_secondary ? TSR_TRACK_SAVE_EXCHANGES : TSR_TRACK_EXCHANGES;
}
/* Returns the number of the next operation in which all ranks take part; called by an
 * implementation before the operation begins. */
static inline uint64_t tsr_transport_begin(tsr_transport *t) { return ++t->operation_count; }

/* A single rank: at most copies. Fails only if memory runs out. */
TSR_RESULT tsr_loopback_open(tsr_ctx *ctx, tsr_transport **out_transport);

#endif
