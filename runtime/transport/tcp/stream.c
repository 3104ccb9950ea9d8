/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/transport/tcp/stream.h"

#include "runtime/base/clock.h"
#include "runtime/transport/tcp/socket.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t tsr_stream_send(const tcp_stream *stream, const struct iovec *parts, size_t count) {
    if (!stream->tls) {
        const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                                       .msg_iovlen = count};
        return sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    }
    while (count > 1 && parts->iov_len == 0) parts++, count--;
    return tsr_tls_send(stream->tls, parts->iov_base, parts->iov_len);
}

ssize_t tsr_stream_receive(const tcp_stream *stream, void *bytes, size_t size_bytes) {
    if (stream->tls) return tsr_tls_receive(stream->tls, bytes, size_bytes, false);
    return recv(stream->fd, bytes, size_bytes, 0);
}

ssize_t tsr_stream_peek(const tcp_stream *stream, void *bytes, size_t size_bytes) {
    if (stream->tls) return tsr_tls_receive(stream->tls, bytes, size_bytes, true);
    return recv(stream->fd, bytes, size_bytes, MSG_PEEK);
}

bool tsr_stream_is_free(const tcp_stream *stream) {
    return !stream->tls || !tsr_tls_is_writing(stream->tls);
}

void tsr_stream_close(tcp_stream *stream) {
    tsr_tls_free(stream->tls);
    if (stream->fd >= 0) close(stream->fd);
    *stream = (tcp_stream){.fd = -1};
}

/* Waits until the socket can be read or written. */
static tsr_result wait_for(tsr_ctx *ctx, int fd, short events, const char *who, size_t left,
                           uint64_t until_ns) {
    struct pollfd p = {.fd = fd, .events = events};
    if (tsr_clock_ns() >= until_ns)
        FAIL(ctx, TSR_RANK, "%s %s %zu bytes in time", who,
             events == POLLIN ? "did not send the last" : "did not accept the last", left);
    if (poll(&p, 1, tsr_tcp_timeout(until_ns)) < 0 && errno != EINTR)
        FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot wait for %s", who);
    return TSR_SUCCESS;
}

tsr_result tsr_stream_send_all(tsr_ctx *ctx, const tcp_stream *stream, const char *who,
                               const void *bytes, size_t size_bytes, uint64_t until_ns) {
    struct iovec part = {(void *)(uintptr_t)bytes, size_bytes};
    while (part.iov_len > 0) {
        ssize_t count = tsr_stream_send(stream, &part, 1);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            TRY(ctx, wait_for(ctx, stream->fd, POLLOUT, who, part.iov_len, until_ns));
            continue;
        }
        if (count < 0) FAIL_ERRNO(ctx, TSR_RANK, errno, "cannot send to %s", who);
        part.iov_base = (char *)part.iov_base + count;
        part.iov_len -= (size_t)count;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_stream_receive_all(tsr_ctx *ctx, const tcp_stream *stream, const char *who,
                                  void *bytes, size_t size_bytes, uint64_t until_ns) {
    for (char *at = bytes; size_bytes > 0;) {
        ssize_t count = tsr_stream_receive(stream, at, size_bytes);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            TRY(ctx, wait_for(ctx, stream->fd, POLLIN, who, size_bytes, until_ns));
            continue;
        }
        if (count < 0) FAIL_ERRNO(ctx, TSR_RANK, errno, "cannot receive from %s", who);
        if (count == 0) FAIL(ctx, TSR_RANK, "%s closed the connection", who);
        at += count;
        size_bytes -= (size_t)count;
    }
    return TSR_SUCCESS;
}
