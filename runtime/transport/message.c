/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/transport/message.h"

#include "runtime/base/clock.h"
#include "runtime/base/plural.h"

#include <inttypes.h>

static const char *region_of(const tsr_transport *t) { return t->region ? t->region : "run"; }

tsr_message_head tsr_message_begin(tsr_transport *t, tsr_operation operation) {
    bool alone = operation == TSR_OPERATION_SEND;
    return (tsr_message_head){
        .operation = operation, .number = alone ? 0 : tsr_transport_begin(t), .step = t->step};
}

tsr_result tsr_message_compare(tsr_ctx *ctx, const tsr_transport *t, uint32_t from,
                               const tsr_message_head *theirs, const tsr_message_head *mine,
                               size_t expected_bytes) {
    if (theirs->operation != mine->operation || theirs->number != mine->number)
        FAIL(ctx, TSR_RANK,
             "ranks do different things at once: rank %u does %s %" PRIu64
             " of region '%s' (step %" PRIu64 "), rank %u %s %" PRIu64 " (step %" PRIu64 ")",
             t->rank, tsr_operation_name((tsr_operation)mine->operation), mine->number,
             region_of(t), mine->step, from, tsr_operation_name((tsr_operation)theirs->operation),
             theirs->number, theirs->step);
    if (theirs->total_bytes != expected_bytes)
        FAIL(ctx, TSR_RANK,
             "%s %" PRIu64 " of region '%s': rank %u sends %" PRIu64 " byte%s, rank %u expects %zu",
             tsr_operation_name((tsr_operation)mine->operation), mine->number, region_of(t), from,
             theirs->total_bytes, TSR_PLURAL(theirs->total_bytes), t->rank, expected_bytes);
    return TSR_SUCCESS;
}

tsr_result tsr_message_run(tsr_ctx *ctx, tsr_transport *t, const tsr_message_steps *steps,
                           const tsr_exchange *exchange, const tsr_message_head *about) {
    for (uint64_t since_ns = 0;;) {
        bool moved = false, pending = false;
        TRY(ctx, steps->advance(ctx, t, exchange, about, &moved, &pending));
        if ((moved || !pending) && since_ns)
            tsr_trace_end(tsr_trace_records(ctx->trace, tsr_transport_track(t)) ? ctx->trace : NULL,
                          tsr_transport_track(t), "wait", since_ns);
        if (!pending) return TSR_SUCCESS;
        if (moved || since_ns == 0) since_ns = tsr_clock_ns();
        if (!moved) TRY(ctx, steps->wait(ctx, t, about, tsr_clock_ns() - since_ns));
    }
}

tsr_result tsr_message_fail_late(tsr_ctx *ctx, const tsr_transport *t, uint32_t late,
                                 const tsr_message_head *mine) {
    FAIL(ctx, TSR_RANK,
         "rank %u hangs: it did not come to %s %" PRIu64 " of region '%s' at step %" PRIu64
         " within %.1f s",
         late, tsr_operation_name((tsr_operation)mine->operation), mine->number, region_of(t),
         mine->step, (double)t->deadline_ns * 1e-9);
}
