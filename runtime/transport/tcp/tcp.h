/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport between processes that another program started (torchrun, Slurm, a script), on one
 * host or several, over TCP connections between each two ranks.
 *
 * Rank 0 listens at an address that all ranks know; the others connect to it and learn from it
 * where to reach one another. If the job has a key, all connections use TLS 1.3 with keys derived
 * from it (tls.h); without a key, data are neither encrypted nor authenticated.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TCP_H
#define TSR_RUNTIME_TRANSPORT_TCP_H

#include "runtime/transport/transport.h"

enum { TSR_TCP_KEY_BYTES_MIN = 16 };

typedef struct tsr_tcp_options {
    size_t size_bytes; /* sizeof(tsr_tcp_options) */
    uint32_t rank, rank_count;
    const char *address; /* borrowed; where rank 0 listens: a host name or an IP address */
    const char *port;    /* borrowed; "29500" */
    const void *key;     /* borrowed; a secret that all ranks share; NULL: none */
    size_t key_bytes;    /* at least TSR_TCP_KEY_BYTES_MIN, if there is a key */
    bool insecure;       /* accept a job without a key that other hosts can reach */
    uint64_t join_ns;    /* how long to wait for all ranks to join */
    uint64_t deadline_ns, secondary_deadline_ns; /* tsr_transport.deadline_ns of each end */
} tsr_tcp_options;

/* Joins the job; returns when all ranks have joined, with a secondary end. The options are not
 * needed afterwards. TSR_USAGE: a bad option, or no key although other hosts can reach the job.
 * TSR_RANK: a rank did not join in time, or joined with another key or number of ranks. */
TSR_RESULT tsr_tcp_join(tsr_ctx *ctx, const tsr_tcp_options *options,
                        tsr_transport **out_transport);

#endif
