/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by all transports: pieces to the own rank, counting, failure of all ranks.
 */
#include "runtime/transport/transport.h"

#include "runtime/base/array.h"
#include "runtime/base/clock.h"

#include <inttypes.h>
#include <string.h>

static const char *const names[] = {
#define X(name, text) [TSR_OPERATION_##name] = text,
#include "runtime/transport/operations.def"
#undef X
};
static_assert(TSR_COUNT(names) == TSR_OPERATION_COUNT, "one name each");

const char *tsr_operation_name(tsr_operation operation) {
    return (unsigned)operation < TSR_OPERATION_COUNT ? names[operation] : "unknown";
}

static tsr_result failed_for_all(tsr_ctx *ctx, tsr_transport *t, tsr_result result) {
    if (result.code) tsr_transport_fail(t, result.code, ctx->error.text);
    return result;
}

static tsr_result copy_own(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange) {
    const tsr_transport_segment *from = &exchange->sends[t->rank],
                                *to = &exchange->receives[t->rank];
    if (!from->active && !to->active) return TSR_SUCCESS;
    if (from->active != to->active || from->size_bytes != to->size_bytes)
        FAIL(ctx, TSR_INTERNAL, "%s: rank %u sends itself %zu bytes and expects %zu",
             tsr_operation_name(exchange->operation), t->rank, from->active ? from->size_bytes : 0,
             to->active ? to->size_bytes : 0);
    if (from->size_bytes && from->bytes != to->bytes)
        memmove(to->bytes, from->bytes, from->size_bytes);
    return TSR_SUCCESS;
}

tsr_result tsr_transport_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange) {
    uint64_t began_ns = tsr_trace_begin(ctx->trace, tsr_transport_track(t)),
             sent_before = t->sent_bytes;
    tsr_result result = copy_own(ctx, t, exchange);
    if (result.code == TSR_OK) result = t->kind->exchange(ctx, t, exchange);
    if (result.code) return failed_for_all(ctx, t, result);
    for (uint32_t r = 0; r < t->rank_count; r++) {
        if (r == t->rank) continue;
        if (exchange->sends[r].active) t->sent_bytes += exchange->sends[r].size_bytes;
        if (exchange->receives[r].active) t->received_bytes += exchange->receives[r].size_bytes;
    }
    if (began_ns)
        tsr_trace_span(ctx->trace, tsr_transport_track(t), tsr_operation_name(exchange->operation),
                       began_ns, tsr_clock_ns(),
                       (tsr_trace_detail){.bytes = t->sent_bytes - sent_before});
    return TSR_SUCCESS;
}

tsr_result tsr_transport_meet(tsr_ctx *ctx, tsr_transport *t, const tsr_meeting *meeting,
                              const void **out_bytes) {
    uint64_t began_ns = tsr_trace_begin(ctx->trace, tsr_transport_track(t));
    TSR_ASSERT(meeting->own.size_bytes * meeting->own.row_count <= t->meeting_bytes);
    tsr_result result = t->kind->meet(ctx, t, meeting, out_bytes);
    if (result.code) return failed_for_all(ctx, t, result);
    t->sent_bytes += meeting->sent_bytes;
    t->received_bytes += meeting->received_bytes;
    if (began_ns)
        tsr_trace_span(ctx->trace, tsr_transport_track(t), tsr_operation_name(meeting->operation),
                       began_ns, tsr_clock_ns(), (tsr_trace_detail){.bytes = meeting->sent_bytes});
    return TSR_SUCCESS;
}

bool tsr_transport_can_expose(const tsr_transport *t, const void *bytes, size_t size_bytes) {
    return t->kind->can_expose && t->kind->can_expose(t, bytes, size_bytes);
}

tsr_result tsr_transport_expose(tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure,
                                tsr_rows *out_rows) {
    tsr_result result = t->kind->expose(ctx, t, exposure, out_rows);
    if (result.code) return failed_for_all(ctx, t, result);
    for (uint32_t r = 0; r < t->rank_count; r++) {
        if (r == t->rank) continue;
        t->sent_bytes += exposure->rows[r].size_bytes * exposure->rows[r].row_count;
        t->received_bytes += out_rows[r].size_bytes * out_rows[r].row_count;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_transport_retract(tsr_ctx *ctx, tsr_transport *t) {
    return failed_for_all(ctx, t, t->kind->retract(ctx, t));
}

tsr_result tsr_transport_watch(tsr_ctx *ctx, tsr_transport *t, tsr_operation operation,
                               uint64_t began_ns) {
    if (t->kind->watch) TRY(ctx, t->kind->watch(ctx, t));
    if (!t->deadline_ns || tsr_clock_ns() - began_ns < t->deadline_ns) return TSR_SUCCESS;
    FAIL(ctx, TSR_RANK,
         "another rank hangs: rank %u has waited %.1f s in %s of region '%s' at step %" PRIu64,
         t->rank, (double)t->deadline_ns * 1e-9, tsr_operation_name(operation),
         t->region ? t->region : "run", t->step);
}

void tsr_transport_fail(tsr_transport *t, tsr_code code, const char *text) {
    if (t->kind->fail) t->kind->fail(t, code, text);
    if (t->secondary) tsr_transport_fail(t->secondary, code, text);
}

void tsr_transport_close(tsr_transport *t) {
    if (!t) return;
    tsr_transport_close(t->secondary);
    t->kind->close(t);
}
