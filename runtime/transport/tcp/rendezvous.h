/* SPDX-License-Identifier: Apache-2.0
 *
 * How the ranks of a job find each other: afterwards each two ranks have two connections, one for
 * each end. Private to this folder.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TCP_RENDEZVOUS_H
#define TSR_RUNTIME_TRANSPORT_TCP_RENDEZVOUS_H

#include "runtime/transport/tcp/stream.h"
#include "runtime/transport/tcp/tcp.h"

enum { TCP_ENDS = 2 };

/* out_streams: TCP_ENDS * rank_count connections, those of the first end first; none for the own
 * rank. The caller closes them, also after an error, where some are missing. Errors as in
 * tsr_tcp_join. */
TSR_RESULT tsr_tcp_meet(tsr_ctx *ctx, const tsr_tcp_options *options, tcp_stream *out_streams);

#endif
