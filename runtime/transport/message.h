/* SPDX-License-Identifier: Apache-2.0
 *
 * The description in front of each message of the transports that send messages from rank to rank
 * (MPI, TCP). A receiver knows the message that it expects and compares. Private to the transports.
 */
#ifndef TSR_RUNTIME_TRANSPORT_MESSAGE_H
#define TSR_RUNTIME_TRANSPORT_MESSAGE_H

#include "runtime/transport/transport.h"

typedef struct tsr_message_head {
    uint64_t operation;   /* a tsr_operation */
    uint64_t number;      /* of the operation; 0: only two ranks take part in it */
    uint64_t total_bytes; /* that follow */
    uint64_t step;
} tsr_message_head;

/* The head of this rank's messages in an operation that begins now; `total_bytes` is 0. */
tsr_message_head tsr_message_begin(tsr_transport *t, tsr_operation operation);
/* TSR_RANK with both values: rank `from` performs another operation, or sends another number of
 * bytes than `expected_bytes`. */
TSR_RESULT tsr_message_compare(tsr_ctx *ctx, const tsr_transport *t, uint32_t from,
                               const tsr_message_head *theirs, const tsr_message_head *mine,
                               size_t expected_bytes);
/* What a transport does in an exchange. */
typedef struct tsr_message_steps {
    /* Moves what can be moved at once. out_moved: something was; out_pending: something is left. */
    tsr_result (*advance)(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange,
                          const tsr_message_head *about, bool *out_moved, bool *out_pending);
    /* Called when nothing could be moved for `waited_ns`; may return early. */
    tsr_result (*wait)(tsr_ctx *ctx, tsr_transport *t, const tsr_message_head *about,
                       uint64_t waited_ns);
} tsr_message_steps;
/* Advances and waits until the exchange is complete; records waits in the trace. */
TSR_RESULT tsr_message_run(tsr_ctx *ctx, tsr_transport *t, const tsr_message_steps *steps,
                           const tsr_exchange *exchange, const tsr_message_head *about);
/* Fails with TSR_RANK: rank `late` did not come to the operation in time. */
TSR_RESULT tsr_message_fail_late(tsr_ctx *ctx, const tsr_transport *t, uint32_t late,
                                 const tsr_message_head *mine);

#endif
