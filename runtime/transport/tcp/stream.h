/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a connection between two ranks: over TLS if the job has a key, else as they are.
 * Sockets do not block. Private to this folder.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TCP_STREAM_H
#define TSR_RUNTIME_TRANSPORT_TCP_STREAM_H

#include "runtime/transport/tcp/tls.h"

#include <sys/uio.h>

typedef struct tcp_stream {
    int fd;        /* -1: no connection */
    tls_link *tls; /* owned; NULL: plain */
} tcp_stream;

/* Like sendmsg and recv: -1 with errno. A send takes a part of the bytes, at least one of the first
 * element that has some. */
ssize_t tsr_stream_send(const tcp_stream *stream, const struct iovec *parts, size_t count);
ssize_t tsr_stream_receive(const tcp_stream *stream, void *bytes, size_t size_bytes);
/* The next bytes, which stay there. */
ssize_t tsr_stream_peek(const tcp_stream *stream, void *bytes, size_t size_bytes);
/* No bytes of another message are half sent. */
bool tsr_stream_is_free(const tcp_stream *stream);
/* Closes; afterwards there is no connection. */
void tsr_stream_close(tcp_stream *stream);

/* Transfer all bytes, or fail with TSR_RANK; `who` names the other side. */
TSR_RESULT tsr_stream_send_all(tsr_ctx *ctx, const tcp_stream *stream, const char *who,
                               const void *bytes, size_t size_bytes, uint64_t until_ns);
TSR_RESULT tsr_stream_receive_all(tsr_ctx *ctx, const tcp_stream *stream, const char *who,
                                  void *bytes, size_t size_bytes, uint64_t until_ns);

#endif
