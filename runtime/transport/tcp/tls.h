/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS 1.3 between two ranks with a key that both know (RFC 8446, section 2.2, external PSK, with an
 * ephemeral key exchange). Each connection has its own key, derived from the job's key and from who
 * calls whom, so that a handshake cannot be reflected or moved (RFC 9257, section 5). libssl is
 * opened at run time. Private to this folder.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TCP_TLS_H
#define TSR_RUNTIME_TRANSPORT_TCP_TLS_H

#include "runtime/base/result.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What all connections of a process share: the library and the key. */
typedef struct tls_job tls_job;
/* One connection. The socket stays the caller's. */
typedef struct tls_link tls_link;

/* Who calls whom, and with which end of the transport. */
typedef struct tls_call {
    uint32_t caller, listener, end;
} tls_call;

typedef enum tls_progress {
    TLS_DONE,
    TLS_READS,     /* the socket must become readable */
    TLS_WRITES,    /* the socket must become writable */
    TLS_OTHER_KEY, /* the other side names a call, but has another key */
    TLS_NO_TLS,    /* the other side does not speak TLS 1.3 with a key */
    TLS_CLOSED,    /* the other side closed the connection */
} tls_progress;

/* key: borrowed until closed. TSR_MACHINE: libssl cannot be opened. TSR_MEMORY. */
TSR_RESULT tsr_tls_open(tsr_ctx *ctx, const void *key, size_t key_bytes, tls_job **out_job);
/* NULL is allowed. Links may outlive the job. */
void tsr_tls_close(tls_job *job);

/* Begins a handshake over a connected, non-blocking socket, as the caller of a call; or as the
 * listener with this rank, which learns the call from the other side. TSR_MEMORY. */
TSR_RESULT tsr_tls_call(tsr_ctx *ctx, tls_job *job, int fd, const tls_call *call,
                        tls_link **out_link);
TSR_RESULT tsr_tls_listen(tsr_ctx *ctx, tls_job *job, int fd, uint32_t rank, tls_link **out_link);
/* Continues the handshake; does not wait. */
tls_progress tsr_tls_advance(tls_link *link);
/* The call of a finished handshake. */
tls_call tsr_tls_get_call(const tls_link *link);
void tsr_tls_free(tls_link *link); /* NULL is allowed */

/* Like send and recv of a non-blocking socket: -1 with errno, where EBADMSG says that the bytes
 * were changed on their way. A write that returned EAGAIN must be repeated with the same bytes
 * before any other; tsr_tls_is_writing says so. */
ssize_t tsr_tls_send(tls_link *link, const void *bytes, size_t size_bytes);
ssize_t tsr_tls_receive(tls_link *link, void *bytes, size_t size_bytes, bool peek);
bool tsr_tls_is_writing(const tls_link *link);

#endif
