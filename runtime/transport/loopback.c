/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/transport/transport.h"

#include <stdlib.h>

static tsr_result exchange_nothing(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange) {
    (void)ctx;
    (void)exchange;
    tsr_transport_begin(t);
    return TSR_SUCCESS;
}

static bool always(const tsr_transport *t, const void *bytes, size_t size_bytes) {
    (void)t;
    (void)bytes;
    (void)size_bytes;
    return true;
}

static tsr_result expose_nothing(tsr_ctx *ctx, tsr_transport *t, const tsr_exposure *exposure,
                                 tsr_rows *out_rows) {
    (void)ctx;
    (void)exposure;
    tsr_transport_begin(t);
    out_rows[0] = (tsr_rows){0};
    return TSR_SUCCESS;
}

static tsr_result retract_nothing(tsr_ctx *ctx, tsr_transport *t) {
    (void)ctx;
    (void)t;
    return TSR_SUCCESS;
}

static void loopback_close(tsr_transport *t) {
    free(t->scratch);
    free(t);
}

static const tsr_transport_kind loopback = {
    .name = "loopback",
    .exchange = exchange_nothing,
    .can_expose = always,
    .expose = expose_nothing,
    .retract = retract_nothing,
    .close = loopback_close,
};

enum { SCRATCH_BYTES = 1 << 16 };

tsr_result tsr_loopback_open(tsr_ctx *ctx, tsr_transport **out_transport) {
    tsr_transport *t = calloc(1, sizeof *t);
    void *scratch = aligned_alloc(64, SCRATCH_BYTES);
    if (!t || !scratch) {
        free(t);
        free(scratch);
        FAIL(ctx, TSR_MEMORY, "no memory for a transport");
    }
    *t = (tsr_transport){
        .kind = &loopback, .rank_count = 1, .scratch = scratch, .scratch_bytes = SCRATCH_BYTES};
    *out_transport = t;
    return TSR_SUCCESS;
}
