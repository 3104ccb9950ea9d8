/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rank receives a message with a description and the first bytes; the rest is then sent
 * directly between the buffers. A receiver knows the expected message, so it requests the rest only
 * after it has checked the first part.
 */
#include "runtime/transport/mpi_job.h"

#include "runtime/base/clock.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SCRATCH_BYTES = 1 << 20,
    FIRST_BYTES = 4096, /* size of the first message, including its head */
    PART_BYTES = 1 << 30,
    TAG = 1,
    SPIN_NS = 1000 * 1000, /* how long a waiting rank polls before it also sleeps */
    NAP_NS = 50 * 1000,
};

typedef struct head {
    uint64_t operation, number, total_bytes, step;
} head;

typedef struct envelope {
    head head;
    unsigned char bytes[FIRST_BYTES - sizeof(head)];
} envelope;
static_assert(sizeof(envelope) == FIRST_BYTES, "no padding");

typedef struct flow {
    envelope *outgoing, *incoming; /* owned by `envelopes` */
    MPI_Request send, receive;
    size_t sent, received; /* bytes passed to MPI */
    bool sending, receiving, head_seen;
} flow;

typedef struct mpi {
    tsr_transport base; /* must be the first member */
    MPI_Comm comm;
    envelope *envelopes; /* owned; two per rank */
    flow *flows;         /* owned; one per rank */
    _Atomic int failed;  /* code of the first failure, set by any thread; TSR_OK: none */
} mpi;

static tsr_result check(tsr_ctx *ctx, int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return TSR_SUCCESS;
    MPI_Error_string(code, text, &length);
    FAIL(ctx, TSR_RANK, "%s: %.*s", call, length, text);
}

static size_t part_of(size_t left) { return left < PART_BYTES ? left : PART_BYTES; }

static tsr_result begin_send(tsr_ctx *ctx, mpi *m, uint32_t to,
                             const tsr_transport_segment *segment, const head *about) {
    flow *f = &m->flows[to];
    size_t first = segment->size_bytes < sizeof f->outgoing->bytes ? segment->size_bytes
                                                                   : sizeof f->outgoing->bytes;
    f->outgoing->head = *about;
    f->outgoing->head.total_bytes = segment->size_bytes;
    if (first) memcpy(f->outgoing->bytes, segment->bytes, first);
    f->sent = first;
    return check(ctx,
                 MPI_Isend(f->outgoing, (int)(sizeof(head) + first), MPI_BYTE, (int)to, TAG,
                           m->comm, &f->send),
                 "MPI_Isend");
}

static tsr_result go_on_sending(tsr_ctx *ctx, mpi *m, uint32_t to,
                                const tsr_transport_segment *segment, bool *moved) {
    flow *f = &m->flows[to];
    int done = 0;
    if (!f->sending) return TSR_SUCCESS;
    TRY(ctx, check(ctx, MPI_Test(&f->send, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (!done) return TSR_SUCCESS;
    *moved = true;
    if (f->sent == segment->size_bytes) {
        f->sending = false;
        return TSR_SUCCESS;
    }
    const unsigned char *bytes = (const unsigned char *)segment->bytes + f->sent;
    size_t part = part_of(segment->size_bytes - f->sent);
    f->sent += part;
    return check(ctx, MPI_Isend(bytes, (int)part, MPI_BYTE, (int)to, TAG, m->comm, &f->send),
                 "MPI_Isend");
}

static tsr_result check_head(tsr_ctx *ctx, const mpi *m, uint32_t from, const head *theirs,
                             const tsr_transport_segment *segment, const head *mine) {
    const char *region = m->base.region ? m->base.region : "run";
    if (theirs->operation != mine->operation || theirs->number != mine->number)
        FAIL(ctx, TSR_RANK,
             "ranks do different things at once: rank %u does %s %" PRIu64
             " of region '%s' (step %" PRIu64 "), rank %u %s %" PRIu64 " (step %" PRIu64 ")",
             m->base.rank, tsr_operation_name((tsr_operation)mine->operation), mine->number, region,
             mine->step, from, tsr_operation_name((tsr_operation)theirs->operation), theirs->number,
             theirs->step);
    if (theirs->total_bytes != segment->size_bytes)
        FAIL(ctx, TSR_RANK,
             "%s %" PRIu64 " of region '%s': rank %u sends %" PRIu64 " byte%s, rank %u expects %zu",
             tsr_operation_name((tsr_operation)mine->operation), mine->number, region, from,
             theirs->total_bytes, TSR_PLURAL(theirs->total_bytes), m->base.rank,
             segment->size_bytes);
    return TSR_SUCCESS;
}

static tsr_result go_on_receiving(tsr_ctx *ctx, mpi *m, uint32_t from,
                                  const tsr_transport_segment *segment, const head *about,
                                  bool *moved) {
    flow *f = &m->flows[from];
    int done = 0, count = 0;
    MPI_Status status;
    if (!f->receiving) return TSR_SUCCESS;
    TRY(ctx, check(ctx, MPI_Test(&f->receive, &done, &status), "MPI_Test"));
    if (!done) return TSR_SUCCESS;
    *moved = true;
    if (!f->head_seen) {
        f->head_seen = true;
        TRY(ctx, check(ctx, MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"));
        if ((size_t)count < sizeof(head))
            FAIL(ctx, TSR_RANK, "rank %u sent %d byte%s, not even a head of %zu", from, count,
                 TSR_PLURAL(count), sizeof(head));
        TRY(ctx, check_head(ctx, m, from, &f->incoming->head, segment, about));
        size_t first = (size_t)count - sizeof(head);
        if (first > segment->size_bytes)
            FAIL(ctx, TSR_RANK, "rank %u sends more than the %zu byte%s it began", from,
                 segment->size_bytes, TSR_PLURAL(segment->size_bytes));
        if (first) memcpy(segment->bytes, f->incoming->bytes, first);
        f->received = first;
    }
    if (f->received == segment->size_bytes) {
        f->receiving = false;
        return TSR_SUCCESS;
    }
    unsigned char *bytes = (unsigned char *)segment->bytes + f->received;
    size_t part = part_of(segment->size_bytes - f->received);
    f->received += part;
    return check(ctx, MPI_Irecv(bytes, (int)part, MPI_BYTE, (int)from, TAG, m->comm, &f->receive),
                 "MPI_Irecv");
}

static tsr_result begin(tsr_ctx *ctx, mpi *m, const tsr_exchange *exchange, const head *about) {
    for (uint32_t r = 0; r < m->base.rank_count; r++) {
        flow *f = &m->flows[r];
        f->sending = r != m->base.rank && exchange->sends[r].active;
        f->receiving = r != m->base.rank && exchange->receives[r].active;
        f->head_seen = false;
        if (f->receiving)
            TRY(ctx, check(ctx,
                           MPI_Irecv(f->incoming, FIRST_BYTES, MPI_BYTE, (int)r, TAG, m->comm,
                                     &f->receive),
                           "MPI_Irecv"));
    }
    for (uint32_t i = 1; i < m->base.rank_count; i++) {
        uint32_t r = (m->base.rank + i) % m->base.rank_count;
        if (m->flows[r].sending) TRY(ctx, begin_send(ctx, m, r, &exchange->sends[r], about));
    }
    return TSR_SUCCESS;
}

static tsr_result fail_deadline(tsr_ctx *ctx, const mpi *m, const head *about) {
    uint32_t rank = 0;
    while (!m->flows[rank].sending && !m->flows[rank].receiving) rank++;
    FAIL(ctx, TSR_RANK,
         "rank %u hangs: it did not come to %s %" PRIu64 " of region '%s' at step %" PRIu64
         " within %.1f s",
         rank, tsr_operation_name((tsr_operation)about->operation), about->number,
         m->base.region ? m->base.region : "run", about->step, (double)m->base.deadline_ns * 1e-9);
}

/* Called when nothing has changed for some time. */
static tsr_result wait_a_little(tsr_ctx *ctx, mpi *m, const head *about, uint64_t waited_ns) {
    if (m->failed) FAIL(ctx, TSR_RANK, "rank %u has failed in another thread", m->base.rank);
    if (m->base.deadline_ns && waited_ns >= m->base.deadline_ns)
        return fail_deadline(ctx, m, about);
    if (waited_ns < SPIN_NS) return TSR_SUCCESS;
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    return TSR_SUCCESS;
}

static tsr_result mpi_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange) {
    mpi *m = (mpi *)t;
    bool alone = exchange->operation == TSR_OPERATION_SEND;
    head about = {.operation = exchange->operation,
                  .number = alone ? 0 : tsr_transport_begin(t),
                  .step = t->step};
    TRY(ctx, begin(ctx, m, exchange, &about));
    for (uint64_t since_ns = 0;;) {
        bool moved = false, pending = false;
        for (uint32_t r = 0; r < t->rank_count; r++) {
            TRY(ctx, go_on_sending(ctx, m, r, &exchange->sends[r], &moved));
            TRY(ctx, go_on_receiving(ctx, m, r, &exchange->receives[r], &about, &moved));
            pending |= m->flows[r].sending || m->flows[r].receiving;
        }
        if ((moved || !pending) && since_ns)
            tsr_trace_end(tsr_trace_records(ctx->trace, tsr_transport_track(t)) ? ctx->trace : NULL,
                          tsr_transport_track(t), "wait", since_ns);
        if (!pending) return TSR_SUCCESS;
        if (moved || since_ns == 0) since_ns = tsr_clock_ns();
        TRY(ctx, wait_a_little(ctx, m, &about, tsr_clock_ns() - since_ns));
    }
}

/* The job ends when this rank closes its end: until then it can report its error. */
static void mpi_fail(tsr_transport *t, tsr_code code, const char *text) {
    int none = TSR_OK;
    (void)text;
    atomic_compare_exchange_strong(&((mpi *)t)->failed, &none, (int)code);
}

static void mpi_close(tsr_transport *t) {
    mpi *m = (mpi *)t;
    if (m->failed) MPI_Abort(MPI_COMM_WORLD, m->failed);
    if (m->comm != MPI_COMM_NULL) MPI_Comm_free(&m->comm);
    if (!m->base.is_secondary) MPI_Finalize();
    free(m->envelopes);
    free(m->flows);
    free(t->scratch);
    free(m);
}

static const tsr_transport_kind mpi_kind = {
    .name = "MPI", .exchange = mpi_exchange, .fail = mpi_fail, .close = mpi_close};

static tsr_result use_world(tsr_ctx *ctx, mpi *m) {
    int rank = 0, count = 0;
    TRY(ctx, check(ctx, MPI_Comm_dup(MPI_COMM_WORLD, &m->comm), "MPI_Comm_dup"));
    TRY(ctx,
        check(ctx, MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    TRY(ctx, check(ctx, MPI_Comm_rank(m->comm, &rank), "MPI_Comm_rank"));
    TRY(ctx, check(ctx, MPI_Comm_size(m->comm, &count), "MPI_Comm_size"));
    if (count > TSR_TRANSPORT_RANKS_MAX)
        FAIL(ctx, TSR_USAGE, "%d ranks were started; 1 to %d are supported", count,
             TSR_TRANSPORT_RANKS_MAX);
    m->base.rank = (uint32_t)rank;
    m->base.rank_count = (uint32_t)count;
    m->base.scratch = aligned_alloc(64, SCRATCH_BYTES);
    m->base.scratch_bytes = SCRATCH_BYTES;
    m->envelopes = calloc((size_t)count, 2 * sizeof *m->envelopes);
    m->flows = calloc((size_t)count, sizeof *m->flows);
    if (!m->base.scratch || !m->envelopes || !m->flows)
        FAIL(ctx, TSR_MEMORY, "no memory for a transport of %d ranks", count);
    for (int r = 0; r < count; r++) {
        m->flows[r].outgoing = &m->envelopes[2 * r];
        m->flows[r].incoming = &m->envelopes[2 * r + 1];
    }
    return TSR_SUCCESS;
}

static tsr_result open_end(tsr_ctx *ctx, uint64_t deadline_ns, bool is_secondary, mpi **out_end) {
    mpi *m = calloc(1, sizeof *m);
    if (!m) FAIL(ctx, TSR_MEMORY, "no memory for a transport");
    m->base.kind = &mpi_kind;
    m->base.deadline_ns = deadline_ns;
    m->comm = MPI_COMM_NULL;
    m->base.is_secondary = is_secondary;
    *out_end = m;
    return use_world(ctx, m);
}

static tsr_result start(tsr_ctx *ctx) {
    int provided = MPI_THREAD_SINGLE;
    TRY(ctx,
        check(ctx, MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread"));
    if (provided == MPI_THREAD_MULTIPLE) return TSR_SUCCESS;
    MPI_Finalize();
    FAIL(ctx, TSR_USAGE, "this MPI gives a process thread level %d; level %d is needed", provided,
         MPI_THREAD_MULTIPLE);
}

tsr_result tsr_mpi_open(tsr_ctx *ctx, uint64_t deadline_ns, tsr_transport **out_transport) {
    int started = 0;
    mpi *m = NULL, *secondary = NULL;
    MPI_Initialized(&started);
    if (started) FAIL(ctx, TSR_USAGE, "MPI was started before in this process");
    TRY(ctx, start(ctx));
    tsr_result result = open_end(ctx, deadline_ns, false, &m);
    if (!result.code) result = open_end(ctx, deadline_ns, true, &secondary);
    if (m && secondary) m->base.secondary = &secondary->base;
    if (result.code && m) tsr_transport_close(&m->base);
    if (result.code && !m) MPI_Finalize();
    if (!result.code) *out_transport = &m->base;
    return result;
}
