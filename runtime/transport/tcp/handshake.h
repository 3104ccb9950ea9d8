/* SPDX-License-Identifier: Apache-2.0
 *
 * The first messages of a connection, over TLS if the job has a key: the caller says which rank it
 * is, and the listener whether it may join. Private to this folder.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TCP_HANDSHAKE_H
#define TSR_RUNTIME_TRANSPORT_TCP_HANDSHAKE_H

#include "runtime/transport/tcp/stream.h"
#include "runtime/transport/tcp/tcp.h"

enum { HANDSHAKE_TEXT_MAX = 256 };

typedef struct handshake_hello {
    char magic[8];
    uint32_t rank, rank_count;
    uint32_t end;  /* 0, or 1: the secondary end */
    uint32_t port; /* where the caller listens */
} handshake_hello;

typedef struct handshake_verdict {
    uint32_t refused;
    char text[HANDSHAKE_TEXT_MAX]; /* why */
} handshake_verdict;

/* ---- the caller ---- */

typedef struct handshake_call {
    tls_job *tls;  /* borrowed; NULL: the job has no key */
    uint32_t to;   /* the rank that is called */
    uint32_t end;  /* as in the hello */
    uint16_t port; /* where the caller listens */
    uint64_t until_ns;
} handshake_call;
/* TSR_RANK: the listener is another rank, has another key, or refuses the caller. */
TSR_RESULT tsr_handshake_call(tsr_ctx *ctx, const tsr_tcp_options *options, tcp_stream *stream,
                              const handshake_call *call);

/* ---- the listener ---- */

/* TSR_RANK: the bytes are not a hello, or not that of the TLS connection. */
TSR_RESULT tsr_handshake_check(tsr_ctx *ctx, const tcp_stream *stream,
                               const handshake_hello *hello);

#endif
