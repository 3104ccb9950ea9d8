/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/transport/tcp/handshake.h"

#include "runtime/base/clock.h"
#include "runtime/transport/tcp/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { TLS_HANDSHAKE = 0x16, TLS_VERSION = 0x03 }; /* first bytes of a record */
static const char magic[8] = "TSRRANK2";
static_assert(sizeof(handshake_hello) == 24, "no padding");

static bool is_tls(const void *bytes) {
    const unsigned char *b = bytes;
    return b[0] == TLS_HANDSHAKE && b[1] == TLS_VERSION;
}

static tsr_result secure(tsr_ctx *ctx, const tsr_tcp_options *options, tcp_stream *stream,
                         const handshake_call *call) {
    const tls_call about = {.caller = options->rank, .listener = call->to, .end = call->end};
    TRY(ctx, tsr_tls_call(ctx, call->tls, stream->fd, &about, &stream->tls));
    for (;;) {
        tls_progress progress = tsr_tls_advance(stream->tls);
        struct pollfd p = {.fd = stream->fd, .events = progress == TLS_WRITES ? POLLOUT : POLLIN};
        switch (progress) {
        case TLS_DONE:
            return TSR_SUCCESS;
        case TLS_READS:
        case TLS_WRITES:
            break;
        case TLS_OTHER_KEY:
            FAIL(ctx, TSR_RANK, "rank %u has another job key than rank %u", call->to,
                 options->rank);
        case TLS_NO_TLS:
            FAIL(ctx, TSR_RANK,
                 "the process at the address of rank %u is not that rank, or has no job key",
                 call->to);
        case TLS_CLOSED:
            FAIL(ctx, TSR_RANK, "rank %u closed the connection", call->to);
        }
        if (tsr_clock_ns() >= call->until_ns)
            FAIL(ctx, TSR_RANK, "rank %u did not answer in time", call->to);
        if (poll(&p, 1, tsr_tcp_timeout(call->until_ns)) < 0 && errno != EINTR)
            FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot wait for rank %u", call->to);
    }
}

tsr_result tsr_handshake_call(tsr_ctx *ctx, const tsr_tcp_options *options, tcp_stream *stream,
                              const handshake_call *call) {
    handshake_hello hello = {.rank = options->rank,
                             .rank_count = options->rank_count,
                             .end = call->end,
                             .port = call->port};
    handshake_verdict verdict;
    char who[24];
    snprintf(who, sizeof who, "rank %u", call->to);
    memcpy(hello.magic, magic, sizeof magic);
    if (call->tls) TRY(ctx, secure(ctx, options, stream, call));
    TRY(ctx, tsr_stream_send_all(ctx, stream, who, &hello, sizeof hello, call->until_ns));
    tsr_result answered = tsr_stream_receive_all(ctx, stream, who, &verdict.refused,
                                                 sizeof verdict.refused, call->until_ns);
    if (!call->tls && (answered.code || verdict.refused > 1))
        FAIL(ctx, TSR_RANK,
             "rank %u does not answer rank %u; if it has a job key, rank %u needs it", call->to,
             options->rank, options->rank);
    TRY(ctx, answered);
    if (verdict.refused > 1)
        FAIL(ctx, TSR_RANK, "the process at the address of rank %u is not a rank of Tessera",
             call->to);
    TRY(ctx, tsr_stream_receive_all(ctx, stream, who, verdict.text, sizeof verdict.text,
                                    call->until_ns));
    if (verdict.refused)
        FAIL(ctx, TSR_RANK, "rank %u refuses rank %u: %.*s", call->to, options->rank,
             HANDSHAKE_TEXT_MAX - 1, verdict.text);
    return TSR_SUCCESS;
}

tsr_result tsr_handshake_check(tsr_ctx *ctx, const tcp_stream *stream,
                               const handshake_hello *hello) {
    if (!stream->tls && is_tls(hello))
        FAIL(ctx, TSR_RANK, "it has a job key, and this rank has none");
    if (memcmp(hello->magic, magic, sizeof magic) != 0)
        FAIL(ctx, TSR_RANK, "it is not a rank of Tessera");
    if (!stream->tls) return TSR_SUCCESS;
    const tls_call call = tsr_tls_get_call(stream->tls);
    if (call.caller != hello->rank || call.end != hello->end)
        FAIL(ctx, TSR_RANK, "it says that it is rank %u, and its key is that of rank %u",
             hello->rank, call.caller);
    return TSR_SUCCESS;
}
