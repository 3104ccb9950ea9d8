/* SPDX-License-Identifier: Apache-2.0
 *
 * Each message is a head and its bytes, straight from and into the buffers of the callers. A rank
 * that fails sends its error instead of a head, and closes its side.
 */
#include "runtime/transport/tcp/tcp.h"

#include "runtime/base/clock.h"
#include "runtime/base/options.h"
#include "runtime/base/plural.h"
#include "runtime/transport/message.h"
#include "runtime/transport/tcp/rendezvous.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    SCRATCH_BYTES = 1 << 20,
    DRAIN_MS = 300, /* for other ranks to close, after a failure */
    CHECK_MS = 50,  /* how often a waiting rank looks whether another thread failed */
    FAILURE = TSR_OPERATION_COUNT, /* in place of an operation: the bytes are an error's text */
};

typedef struct flow {
    tcp_stream stream; /* owned */
    tsr_message_head outgoing, incoming;
    size_t sent, received; /* bytes of head and data */
    bool sending, receiving;
} flow;

typedef struct tcp {
    tsr_transport base; /* must be the first member */
    flow *flows;        /* owned; one per rank */
    struct pollfd *polls;
    _Atomic bool failed; /* set by any thread */
    _Atomic bool busy;   /* a thread is in an exchange, or has failed */
} tcp;

/* ---- moving bytes ---- */

/* The part of a message that is left: of the head, then of the data. */
static size_t parts_left(tsr_message_head *head, void *bytes, size_t size_bytes, size_t done,
                         struct iovec out[2]) {
    size_t count = 0;
    if (done < sizeof *head)
        out[count++] = (struct iovec){(char *)head + done, sizeof *head - done};
    size_t past = done < sizeof *head ? 0 : done - sizeof *head;
    if (past < size_bytes) out[count++] = (struct iovec){(char *)bytes + past, size_bytes - past};
    return count;
}

/* error: 0 if the other rank closed the connection. */
static tsr_result fail_lost(tsr_ctx *ctx, const tcp *m, uint32_t rank,
                            const tsr_message_head *about, int error) {
    if (m->failed) FAIL(ctx, TSR_RANK, "rank %u has failed in another thread", m->base.rank);
    FAIL_ERRNO(ctx, TSR_RANK, error,
               "rank %u was lost before %s %" PRIu64 " of region '%s' at step %" PRIu64
               " was complete",
               rank, tsr_operation_name((tsr_operation)about->operation), about->number,
               m->base.region ? m->base.region : "run", about->step);
}

/* Another rank reports its error; its connection is not used afterwards. */
static tsr_result adopt_failure(tsr_ctx *ctx, flow *f, uint32_t from) {
    char text[TSR_ERROR_TEXT_MAX];
    size_t size = f->incoming.total_bytes < sizeof text - 1 ? (size_t)f->incoming.total_bytes
                                                            : sizeof text - 1,
           have = 0;
    while (have < size) {
        struct pollfd p = {.fd = f->stream.fd, .events = POLLIN};
        ssize_t count = tsr_stream_receive(&f->stream, text + have, size - have);
        if (count < 0 && errno == EAGAIN && poll(&p, 1, CHECK_MS) > 0) continue;
        if (count <= 0) break;
        have += (size_t)count;
    }
    text[have] = 0;
    FAIL(ctx, TSR_RANK, "rank %u failed: %s", from, text);
}

/* Called when a send failed: the other rank may have sent its error before it closed. */
static tsr_result hear_last_words(tsr_ctx *ctx, tcp *m, uint32_t from,
                                  const tsr_message_head *about, int error) {
    flow *f = &m->flows[from];
    ssize_t count = tsr_stream_receive(&f->stream, &f->incoming, sizeof f->incoming);
    if (count == sizeof f->incoming && f->incoming.operation == FAILURE)
        return adopt_failure(ctx, f, from);
    return fail_lost(ctx, m, from, about, error);
}

static tsr_result continue_sending(tsr_ctx *ctx, tcp *m, uint32_t to,
                                   const tsr_transport_segment *segment,
                                   const tsr_message_head *about, bool *moved) {
    flow *f = &m->flows[to];
    while (f->sending) {
        struct iovec parts[2];
        size_t left = parts_left(&f->outgoing, segment->bytes, segment->size_bytes, f->sent, parts);
        ssize_t count = tsr_stream_send(&f->stream, parts, left);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return TSR_SUCCESS;
        if (count < 0 && (errno == EPIPE || errno == ECONNRESET) && f->receiving)
            return TSR_SUCCESS;
        if (count < 0) return hear_last_words(ctx, m, to, about, errno);
        f->sent += (size_t)count;
        f->sending = f->sent < sizeof f->outgoing + segment->size_bytes;
        *moved = true;
    }
    return TSR_SUCCESS;
}

static tsr_result check_incoming(tsr_ctx *ctx, tcp *m, uint32_t from,
                                 const tsr_transport_segment *segment,
                                 const tsr_message_head *about) {
    flow *f = &m->flows[from];
    if (f->incoming.operation == FAILURE) return adopt_failure(ctx, f, from);
    return tsr_message_compare(ctx, &m->base, from, &f->incoming, about, segment->size_bytes);
}

/* The head is read alone: only its check says that the bytes belong into this segment. */
static tsr_result continue_receiving(tsr_ctx *ctx, tcp *m, uint32_t from,
                                     const tsr_transport_segment *segment,
                                     const tsr_message_head *about, bool *moved) {
    flow *f = &m->flows[from];
    const size_t head = sizeof f->incoming;
    while (f->receiving) {
        bool in_head = f->received < head;
        char *to = in_head ? (char *)&f->incoming + f->received
                           : (char *)segment->bytes + (f->received - head);
        size_t size = (in_head ? head : head + segment->size_bytes) - f->received;
        ssize_t count = tsr_stream_receive(&f->stream, to, size);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return TSR_SUCCESS;
        if (count <= 0) return fail_lost(ctx, m, from, about, count < 0 ? errno : 0);
        f->received += (size_t)count;
        if (f->received == head) TRY(ctx, check_incoming(ctx, m, from, segment, about));
        f->receiving = f->received < head + segment->size_bytes;
        *moved = true;
    }
    return TSR_SUCCESS;
}

/* ---- an exchange ---- */

static void begin(tcp *m, const tsr_exchange *exchange, const tsr_message_head *about) {
    for (uint32_t r = 0; r < m->base.rank_count; r++) {
        flow *f = &m->flows[r];
        f->sending = r != m->base.rank && exchange->sends[r].active;
        f->receiving = r != m->base.rank && exchange->receives[r].active;
        f->sent = f->received = 0;
        f->outgoing = *about;
        f->outgoing.total_bytes = exchange->sends[r].size_bytes;
    }
}

static tsr_result advance(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange,
                          const tsr_message_head *about, bool *out_moved, bool *out_pending) {
    tcp *m = (tcp *)t;
    for (uint32_t i = 1; i < t->rank_count; i++) {
        uint32_t r = (t->rank + i) % t->rank_count;
        TRY(ctx, continue_sending(ctx, m, r, &exchange->sends[r], about, out_moved));
        TRY(ctx, continue_receiving(ctx, m, r, &exchange->receives[r], about, out_moved));
        *out_pending |= m->flows[r].sending || m->flows[r].receiving;
    }
    return TSR_SUCCESS;
}

static tsr_result wait_for_any(tsr_ctx *ctx, tsr_transport *t, const tsr_message_head *about,
                               uint64_t waited_ns) {
    tcp *m = (tcp *)t;
    nfds_t count = 0;
    uint32_t first = UINT32_MAX;
    for (uint32_t r = 0; r < t->rank_count; r++) {
        const flow *f = &m->flows[r];
        if (!f->sending && !f->receiving) continue;
        if (first == UINT32_MAX) first = r;
        m->polls[count++] = (struct pollfd){
            .fd = f->stream.fd,
            .events = (short)((f->sending ? POLLOUT : 0) | (f->receiving ? POLLIN : 0))};
    }
    if (m->failed) FAIL(ctx, TSR_RANK, "rank %u has failed in another thread", t->rank);
    if (t->deadline_ns && waited_ns >= t->deadline_ns)
        return tsr_message_fail_late(ctx, t, first, about);
    if (poll(m->polls, count, CHECK_MS) < 0 && errno != EINTR)
        FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot wait for other ranks");
    return TSR_SUCCESS;
}

static tsr_result tcp_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange) {
    static const tsr_message_steps steps = {advance, wait_for_any};
    tcp *m = (tcp *)t;
    if (atomic_exchange(&m->busy, true))
        FAIL(ctx, TSR_RANK, "rank %u has failed in another thread", t->rank);
    tsr_message_head about = tsr_message_begin(t, exchange->operation);
    begin(m, exchange, &about);
    tsr_result result = tsr_message_run(ctx, t, &steps, exchange, &about);
    atomic_store(&m->busy, false);
    return result;
}

/* Looks at the next bytes of each rank, between two exchanges. */
static tsr_result tcp_watch(tsr_ctx *ctx, tsr_transport *t) {
    tcp *m = (tcp *)t;
    for (uint32_t r = 0; r < t->rank_count; r++) {
        flow *f = &m->flows[r];
        if (r == t->rank) continue;
        ssize_t count = tsr_stream_peek(&f->stream, &f->incoming, sizeof f->incoming);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (count == sizeof f->incoming && f->incoming.operation == FAILURE) {
            (void)!tsr_stream_receive(&f->stream, &f->incoming, sizeof f->incoming);
            return adopt_failure(ctx, f, r);
        }
        if (count <= 0)
            FAIL_ERRNO(ctx, TSR_RANK, count < 0 ? errno : 0,
                       "rank %u was lost in region '%s' at step %" PRIu64, r,
                       t->region ? t->region : "run", t->step);
    }
    return TSR_SUCCESS;
}

/* ---- failing and closing ---- */

/* A connection in the middle of a message cannot carry an error: the other rank sees it end. If
 * another thread uses the connections, it is woken. */
static void tcp_fail(tsr_transport *t, tsr_code code, const char *text) {
    tcp *m = (tcp *)t;
    char bytes[sizeof(tsr_message_head) + TSR_ERROR_TEXT_MAX];
    size_t size = strnlen(text, TSR_ERROR_TEXT_MAX);
    tsr_message_head head = {.operation = FAILURE, .number = (uint64_t)code, .total_bytes = size};
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, text, size);
    const struct iovec part = {bytes, sizeof head + size};
    if (atomic_exchange(&m->failed, true)) return;
    bool is_free = !atomic_exchange(&m->busy, true);
    for (uint32_t r = 0; r < t->rank_count; r++) {
        const flow *f = &m->flows[r];
        if (f->stream.fd < 0) continue;
        if (is_free && (!f->sending || f->sent == 0) && tsr_stream_is_free(&f->stream))
            (void)!tsr_stream_send(&f->stream, &part, 1);
        shutdown(f->stream.fd, is_free ? SHUT_WR : SHUT_RDWR);
    }
}

/* Reads the rest until the other ranks close, too: closing a connection with unread bytes would
 * discard the error that was sent over it. */
static void drain(tcp *m) {
    uint64_t until_ns = tsr_clock_ns() + DRAIN_MS * UINT64_C(1000000);
    for (nfds_t open = 1; open > 0 && tsr_clock_ns() < until_ns;) {
        open = 0;
        for (uint32_t r = 0; r < m->base.rank_count; r++) {
            const flow *f = &m->flows[r];
            ssize_t count;
            if (f->stream.fd < 0) continue;
            do {
                count = tsr_stream_receive(&f->stream, m->base.scratch, SCRATCH_BYTES);
            } while (count > 0);
            if (count < 0 && errno == EAGAIN)
                m->polls[open++] = (struct pollfd){.fd = f->stream.fd, .events = POLLIN};
        }
        if (open) (void)poll(m->polls, open, CHECK_MS);
    }
}

static void tcp_close(tsr_transport *t) {
    tcp *m = (tcp *)t;
    if (m->failed && m->flows && m->polls && t->scratch) drain(m);
    for (uint32_t r = 0; m->flows && r < t->rank_count; r++) tsr_stream_close(&m->flows[r].stream);
    free(m->flows);
    free(m->polls);
    free(t->scratch);
    free(m);
}

static const tsr_transport_kind tcp_kind = {.name = "TCP",
                                            .exchange = tcp_exchange,
                                            .watch = tcp_watch,
                                            .fail = tcp_fail,
                                            .close = tcp_close};

/* ---- joining ---- */

/* The end takes over its connections. */
static tsr_result create_end(tsr_ctx *ctx, const tsr_tcp_options *options, tcp_stream *streams,
                             uint32_t end, tsr_transport **out_end) {
    uint32_t count = options->rank_count;
    tcp *m = calloc(1, sizeof *m);
    if (!m) FAIL(ctx, TSR_MEMORY, "no memory for a transport");
    m->base =
        (tsr_transport){.kind = &tcp_kind,
                        .rank = options->rank,
                        .rank_count = count,
                        .deadline_ns = end ? options->secondary_deadline_ns : options->deadline_ns,
                        .scratch = aligned_alloc(64, SCRATCH_BYTES),
                        .scratch_bytes = SCRATCH_BYTES,
                        .is_secondary = end > 0};
    m->flows = calloc(count, sizeof *m->flows);
    m->polls = calloc(count, sizeof *m->polls);
    for (uint32_t r = 0; m->flows && r < count; r++) {
        m->flows[r].stream = streams[r];
        streams[r] = (tcp_stream){.fd = -1};
    }
    *out_end = &m->base;
    if (m->base.scratch && m->flows && m->polls) return TSR_SUCCESS;
    FAIL(ctx, TSR_MEMORY, "no memory for a transport of %u ranks", count);
}

static tsr_result check_options(tsr_ctx *ctx, const tsr_tcp_options *o) {
    if (o->rank_count == 0 || o->rank_count > TSR_TRANSPORT_RANKS_MAX)
        FAIL(ctx, TSR_USAGE, "a job of %u ranks; 1 to %d are supported", o->rank_count,
             TSR_TRANSPORT_RANKS_MAX);
    if (o->rank >= o->rank_count)
        FAIL(ctx, TSR_USAGE, "rank %u of a job of %u rank%s; ranks count from 0", o->rank,
             o->rank_count, TSR_PLURAL(o->rank_count));
    if (!o->address || !o->port) FAIL(ctx, TSR_USAGE, "a job needs an address and a port");
    return TSR_SUCCESS;
}

tsr_result tsr_tcp_join(tsr_ctx *ctx, const tsr_tcp_options *options,
                        tsr_transport **out_transport) {
    tsr_tcp_options o;
    tsr_transport *ends[TCP_ENDS] = {NULL};
    TRY(ctx, tsr_options_copy(ctx, "tsr_tcp_options", options, &o, sizeof o));
    TRY(ctx, check_options(ctx, &o));
    tcp_stream *streams = calloc((size_t)TCP_ENDS * o.rank_count, sizeof *streams);
    if (!streams) FAIL(ctx, TSR_MEMORY, "no memory for a job of %u ranks", o.rank_count);
    tsr_result result = tsr_tcp_meet(ctx, &o, streams);
    for (uint32_t end = 0; end < TCP_ENDS && !result.code; end++)
        result = create_end(ctx, &o, streams + (size_t)end * o.rank_count, end, &ends[end]);
    for (uint32_t i = 0; i < TCP_ENDS * o.rank_count; i++) tsr_stream_close(&streams[i]);
    free(streams);
    if (ends[0]) ends[0]->secondary = ends[1];
    if (result.code)
        tsr_transport_close(ends[0]);
    else
        *out_transport = ends[0];
    return result;
}
