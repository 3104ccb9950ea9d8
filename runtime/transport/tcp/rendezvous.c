/* SPDX-License-Identifier: Apache-2.0
 *
 * Every rank but the first calls rank 0, which answers with a table of all addresses when it knows
 * every rank. Then each rank calls the lower ranks, and afterwards listens until the higher ones
 * have called. Rank 0 calls nobody, so rank 1 is answered, then rank 2, and so on.
 *
 * A listener handles several callers at once, because a stranger that connects and stays silent
 * must not delay the ranks.
 */
#include "runtime/transport/tcp/rendezvous.h"

#include "runtime/base/clock.h"
#include "runtime/transport/tcp/handshake.h"
#include "runtime/transport/tcp/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CALLERS_MAX = 64, /* handshakes at a time */
    ADDRESSES_MAX = 16,
    ATTEMPT_MS = 2000, /* for one address of rank 0 */
    SILENCE_MS = 5000, /* for a caller that does not finish its handshake */
    RETRY_NS_MIN = 10 * 1000 * 1000,
    RETRY_NS_MAX = 500 * 1000 * 1000,
};

/* Where a rank listens. */
typedef struct seat {
    tcp_address address;
    uint32_t same_host; /* as rank 0: at the address by which the reader reaches rank 0 */
    uint32_t known;
} seat;

typedef struct caller {
    tcp_stream stream; /* owned; no connection: unused */
    uint64_t since_ns, until_ns;
    bool secured; /* the TLS handshake is done, or the job has no key */
    short events; /* of the socket, for which the caller waits */
    size_t received;
    handshake_hello hello;
} caller;

typedef struct meeting {
    const tsr_tcp_options *options;
    tls_job *tls; /* owned; NULL: the job has no key */
    uint64_t until_ns;
    int listener;
    uint16_t port;              /* where this rank listens */
    seat *seats;                /* owned; one per rank */
    tcp_stream *streams;        /* borrowed */
    uint32_t missing[TCP_ENDS]; /* calls that this rank still waits for */
    caller callers[CALLERS_MAX];
} meeting;

static tcp_stream *stream_of(const meeting *m, uint32_t end, uint32_t rank) {
    return &m->streams[(size_t)end * m->options->rank_count + rank];
}

/* ---- listening ---- */

/* Returns why a caller that has the key is refused; NULL: it is a rank of this job. */
static const char *find_refusal(const meeting *m, const handshake_hello *hello, char *out_text,
                                size_t size) {
    const tsr_tcp_options *o = m->options;
    if (hello->rank_count != o->rank_count) {
        snprintf(out_text, size, "it belongs to a job of %u ranks, and rank %u to a job of %u",
                 hello->rank_count, o->rank, o->rank_count);
        return out_text;
    }
    if (hello->rank >= o->rank_count || hello->rank <= o->rank || hello->end >= TCP_ENDS) {
        snprintf(out_text, size, "rank %u does not expect rank %u of %u to call", o->rank,
                 hello->rank, o->rank_count);
        return out_text;
    }
    if (stream_of(m, hello->end, hello->rank)->fd >= 0) {
        snprintf(out_text, size, "another process is rank %u already", hello->rank);
        return out_text;
    }
    return NULL;
}

static void note_seat(meeting *m, const handshake_hello *hello, int fd) {
    seat *s = &m->seats[hello->rank];
    tcp_address peer = tsr_tcp_peer(fd), own = tsr_tcp_own(fd);
    if (s->known) return;
    s->address = tsr_tcp_with_port(peer, (uint16_t)hello->port);
    s->same_host = tsr_tcp_is_loopback(&peer) || tsr_tcp_same_host(&peer, &own);
    s->known = 1;
}

static tsr_result admit(tsr_ctx *ctx, meeting *m, caller *c) {
    handshake_verdict verdict = {0};
    char text[HANDSHAKE_TEXT_MAX];
    const char *refusal = find_refusal(m, &c->hello, text, sizeof text);
    if (refusal) {
        verdict.refused = 1;
        snprintf(verdict.text, sizeof verdict.text, "%s", refusal);
    }
    tsr_result sent =
        tsr_stream_send_all(ctx, &c->stream, "a rank", &verdict, sizeof verdict, m->until_ns);
    if (refusal)
        FAIL(ctx, TSR_RANK, "a process that calls itself rank %u cannot join: %s", c->hello.rank,
             refusal);
    TRY(ctx, sent);
    if (m->options->rank == 0) note_seat(m, &c->hello, c->stream.fd);
    tsr_tcp_tune(c->stream.fd);
    *stream_of(m, c->hello.end, c->hello.rank) = c->stream;
    m->missing[c->hello.end]--;
    c->stream = (tcp_stream){.fd = -1};
    return TSR_SUCCESS;
}

/* Says that a stranger called; the job waits for its ranks. */
static void warn_of(tsr_ctx *ctx, caller *c, const char *why) {
    char text[TCP_ADDRESS_TEXT_MAX];
    tcp_address from = tsr_tcp_peer(c->stream.fd);
    tsr_log(ctx, TSR_LOG_WARNING, "a connection from %s is refused: %s",
            tsr_tcp_describe(&from, text), why);
    tsr_stream_close(&c->stream);
}

/* Continues the TLS handshake. */
static tsr_result secure(tsr_ctx *ctx, meeting *m, caller *c) {
    if (m->tls && !c->stream.tls)
        TRY(ctx, tsr_tls_listen(ctx, m->tls, c->stream.fd, m->options->rank, &c->stream.tls));
    switch (m->tls ? tsr_tls_advance(c->stream.tls) : TLS_DONE) {
    case TLS_DONE:
        c->secured = true;
        c->events = POLLIN;
        return TSR_SUCCESS;
    case TLS_READS:
        c->events = POLLIN;
        return TSR_SUCCESS;
    case TLS_WRITES:
        c->events = POLLOUT;
        return TSR_SUCCESS;
    case TLS_OTHER_KEY:
        FAIL(ctx, TSR_RANK, "it has another job key");
    case TLS_NO_TLS:
        FAIL(ctx, TSR_RANK, "it is not a rank of Tessera with a job key");
    case TLS_CLOSED:
        break;
    }
    FAIL(ctx, TSR_RANK, "it said nothing");
}

/* Reads the next bytes of a hello; out_whole: the hello is complete. */
static tsr_result read_hello(tsr_ctx *ctx, caller *c, bool *out_whole) {
    while (c->received < sizeof c->hello) {
        ssize_t count = tsr_stream_receive(&c->stream, (char *)&c->hello + c->received,
                                           sizeof c->hello - c->received);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return TSR_SUCCESS;
        if (count < 0) FAIL_ERRNO(ctx, TSR_RANK, errno, "it cannot be read");
        if (count == 0) FAIL(ctx, TSR_RANK, "it said nothing");
        c->received += (size_t)count;
    }
    *out_whole = true;
    return tsr_handshake_check(ctx, &c->stream, &c->hello);
}

/* Fails only if the job cannot begin, because a rank is not as expected. */
static tsr_result hear(tsr_ctx *ctx, meeting *m, caller *c) {
    tsr_ctx apart = tsr_ctx_fork(ctx);
    bool whole = false;
    tsr_result result = c->secured ? TSR_SUCCESS : secure(&apart, m, c);
    if (!result.code && c->secured) result = read_hello(&apart, c, &whole);
    if (result.code)
        warn_of(ctx, c, apart.error.text);
    else if (whole)
        return admit(ctx, m, c);
    return TSR_SUCCESS;
}

/* A caller that is not used, or the one that has been here longest. */
static caller *find_slot(meeting *m) {
    caller *oldest = &m->callers[0];
    for (size_t i = 0; i < CALLERS_MAX; i++) {
        if (m->callers[i].stream.fd < 0) return &m->callers[i];
        if (m->callers[i].since_ns < oldest->since_ns) oldest = &m->callers[i];
    }
    return oldest;
}

static void accept_callers(tsr_ctx *ctx, meeting *m) {
    for (int i = 0; i < CALLERS_MAX; i++) {
        int fd = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        caller *c = find_slot(m);
        uint64_t now = tsr_clock_ns(), until_ns = now + SILENCE_MS * UINT64_C(1000000);
        if (c->stream.fd >= 0) warn_of(ctx, c, "too many others call");
        *c = (caller){.stream.fd = fd,
                      .since_ns = now,
                      .until_ns = until_ns < m->until_ns ? until_ns : m->until_ns,
                      .secured = !m->tls,
                      .events = POLLIN};
    }
}

static tsr_result fail_missing(tsr_ctx *ctx, const meeting *m, uint32_t end) {
    uint32_t rank = m->options->rank + 1;
    while (stream_of(m, end, rank)->fd >= 0) rank++;
    FAIL(ctx, TSR_RANK,
         "rank %u did not join the job of %u ranks within %.1f s; %u of %u others that rank %u "
         "waits for did not",
         rank, m->options->rank_count, (double)m->options->join_ns * 1e-9, m->missing[end],
         m->options->rank_count - 1 - m->options->rank, m->options->rank);
}

/* Waits for the next event of the listener or of a caller. */
static tsr_result listen_once(tsr_ctx *ctx, meeting *m) {
    struct pollfd polls[CALLERS_MAX + 1] = {{.fd = m->listener, .events = POLLIN}};
    uint64_t until_ns = m->until_ns;
    for (size_t i = 0; i < CALLERS_MAX; i++) {
        const caller *c = &m->callers[i];
        polls[i + 1] = (struct pollfd){.fd = c->stream.fd, .events = c->events};
        if (c->stream.fd >= 0 && c->until_ns < until_ns) until_ns = c->until_ns;
    }
    if (poll(polls, CALLERS_MAX + 1, tsr_tcp_timeout(until_ns)) < 0 && errno != EINTR)
        FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot wait for the other ranks");
    uint64_t now = tsr_clock_ns();
    for (size_t i = 0; i < CALLERS_MAX; i++) {
        caller *c = &m->callers[i];
        if (c->stream.fd < 0) continue;
        if (polls[i + 1].revents)
            TRY(ctx, hear(ctx, m, c));
        else if (now >= c->until_ns)
            warn_of(ctx, c, "it stayed silent");
    }
    accept_callers(ctx, m);
    return TSR_SUCCESS;
}

static tsr_result listen_for(tsr_ctx *ctx, meeting *m, uint32_t end) {
    while (m->missing[end] > 0) {
        if (tsr_clock_ns() >= m->until_ns) return fail_missing(ctx, m, end);
        TRY(ctx, listen_once(ctx, m));
    }
    return TSR_SUCCESS;
}

/* ---- calling ---- */

static tsr_result call(tsr_ctx *ctx, meeting *m, const tcp_address *address, uint32_t to,
                       uint32_t end) {
    const handshake_call how = {
        .tls = m->tls, .to = to, .end = end, .port = m->port, .until_ns = m->until_ns};
    char text[TCP_ADDRESS_TEXT_MAX];
    int fd = tsr_tcp_connect(address, m->until_ns);
    if (fd < 0)
        FAIL_ERRNO(ctx, TSR_RANK, -fd, "rank %u cannot reach rank %u at %s", m->options->rank, to,
                   tsr_tcp_describe(address, text));
    stream_of(m, end, to)->fd = fd;
    return tsr_handshake_call(ctx, m->options, stream_of(m, end, to), &how);
}

/* Rank 0 may start later than this rank, and not every address of its host need lead there. Returns
 * the connection, or -errno of the last attempt. */
static int reach_first(const meeting *m, const tcp_address *addresses, size_t count) {
    int fd = -ETIMEDOUT;
    for (long wait_ns = RETRY_NS_MIN; tsr_clock_ns() < m->until_ns;) {
        for (size_t i = 0; i < count; i++) {
            uint64_t until_ns = tsr_clock_ns() + ATTEMPT_MS * UINT64_C(1000000);
            fd = tsr_tcp_connect(&addresses[i], until_ns < m->until_ns ? until_ns : m->until_ns);
            if (fd >= 0) return fd;
        }
        nanosleep(&(struct timespec){.tv_nsec = wait_ns}, NULL);
        if (wait_ns < RETRY_NS_MAX) wait_ns *= 2;
    }
    return fd;
}

static tsr_result call_first(tsr_ctx *ctx, meeting *m, const tcp_address *addresses, size_t count,
                             bool loopback) {
    const tsr_tcp_options *o = m->options;
    int fd = reach_first(m, addresses, count);
    if (fd < 0)
        FAIL_ERRNO(ctx, TSR_RANK, -fd,
                   "rank %u cannot reach rank 0 at '%s', port %s, within %.1f s", o->rank,
                   o->address, o->port, (double)o->join_ns * 1e-9);
    tcp_stream *stream = stream_of(m, 0, 0);
    stream->fd = fd;
    /* The other ranks of this host look for it at the address of rank 0. */
    const tcp_address first = tsr_tcp_peer(fd);
    TRY(ctx, tsr_tcp_listen(ctx, loopback ? &first : NULL, 0, &m->listener, &m->port));
    const handshake_call how = {.tls = m->tls, .port = m->port, .until_ns = m->until_ns};
    TRY(ctx, tsr_handshake_call(ctx, o, stream, &how));
    return tsr_stream_receive_all(ctx, stream, "rank 0", m->seats, o->rank_count * sizeof *m->seats,
                                  m->until_ns);
}

static tsr_result call_lower(tsr_ctx *ctx, meeting *m) {
    tcp_address first = tsr_tcp_peer(stream_of(m, 0, 0)->fd);
    TRY(ctx, call(ctx, m, &first, 0, 1));
    for (uint32_t rank = 1; rank < m->options->rank; rank++) {
        const seat *s = &m->seats[rank];
        int family = s->address.any.sa_family;
        if (family != AF_INET && family != AF_INET6)
            FAIL(ctx, TSR_RANK, "rank 0 sends an address of family %d for rank %u", family, rank);
        tcp_address address =
            s->same_host ? tsr_tcp_with_port(first, tsr_tcp_port(&s->address)) : s->address;
        for (uint32_t end = 0; end < TCP_ENDS; end++) TRY(ctx, call(ctx, m, &address, rank, end));
    }
    return TSR_SUCCESS;
}

/* ---- all ---- */

static bool names_loopback(const char *host, const tcp_address *addresses) {
    unsigned char bytes[16];
    bool literal = inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
    return (literal || strcmp(host, "localhost") == 0) && tsr_tcp_is_loopback(&addresses[0]);
}

static tsr_result check_key(tsr_ctx *ctx, const tsr_tcp_options *o, bool loopback) {
    if (o->key && o->key_bytes < TSR_TCP_KEY_BYTES_MIN)
        FAIL(ctx, TSR_USAGE, "the job key has %zu bytes; expected at least %d", o->key_bytes,
             TSR_TCP_KEY_BYTES_MIN);
    if (!o->key && !loopback && !o->insecure)
        FAIL(ctx, TSR_USAGE,
             "the job has no key, and other hosts can reach its rank 0 at '%s', port %s: give all "
             "ranks the same key, or accept ranks that nobody vouches for",
             o->address, o->port);
    return TSR_SUCCESS;
}

static tsr_result lead(tsr_ctx *ctx, meeting *m, const tcp_address *addresses, bool loopback) {
    uint32_t count = m->options->rank_count;
    TRY(ctx, tsr_tcp_listen(ctx, loopback ? &addresses[0] : NULL, tsr_tcp_port(&addresses[0]),
                            &m->listener, &m->port));
    TRY(ctx, listen_for(ctx, m, 0));
    for (uint32_t rank = 1; rank < count; rank++)
        TRY(ctx, tsr_stream_send_all(ctx, stream_of(m, 0, rank), "a rank", m->seats,
                                     count * sizeof *m->seats, m->until_ns));
    return listen_for(ctx, m, 1);
}

static tsr_result follow(tsr_ctx *ctx, meeting *m, const tcp_address *addresses, size_t count,
                         bool loopback) {
    TRY(ctx, call_first(ctx, m, addresses, count, loopback));
    TRY(ctx, call_lower(ctx, m));
    TRY(ctx, listen_for(ctx, m, 0));
    return listen_for(ctx, m, 1);
}

static tsr_result meet(tsr_ctx *ctx, meeting *m) {
    const tsr_tcp_options *o = m->options;
    tcp_address addresses[ADDRESSES_MAX];
    size_t count = 0;
    TRY(ctx, tsr_tcp_resolve(ctx, o->address, o->port, addresses, ADDRESSES_MAX, &count));
    bool loopback = names_loopback(o->address, addresses);
    TRY(ctx, check_key(ctx, o, loopback));
    if (o->key) TRY(ctx, tsr_tls_open(ctx, o->key, o->key_bytes, &m->tls));
    if (o->rank == 0) return lead(ctx, m, addresses, loopback);
    return follow(ctx, m, addresses, count, loopback);
}

tsr_result tsr_tcp_meet(tsr_ctx *ctx, const tsr_tcp_options *options, tcp_stream *out_streams) {
    meeting *m = calloc(1, sizeof *m);
    seat *seats = calloc(options->rank_count, sizeof *seats);
    tsr_result result = TSR_SUCCESS;
    for (uint32_t i = 0; i < TCP_ENDS * options->rank_count; i++)
        out_streams[i] = (tcp_stream){.fd = -1};
    if (!m || !seats)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a job of %u ranks", options->rank_count);
    *m = (meeting){.options = options,
                   .until_ns = tsr_clock_ns() + options->join_ns,
                   .listener = -1,
                   .seats = seats,
                   .streams = out_streams};
    for (uint32_t end = 0; end < TCP_ENDS; end++)
        m->missing[end] = options->rank_count - 1 - options->rank;
    for (size_t i = 0; i < CALLERS_MAX; i++) m->callers[i].stream.fd = -1;
    result = meet(ctx, m);
    for (size_t i = 0; i < CALLERS_MAX; i++) tsr_stream_close(&m->callers[i].stream);
    if (m->listener >= 0) close(m->listener);
    tsr_tls_close(m->tls);
done:
    free(seats);
    free(m);
    return result;
}
