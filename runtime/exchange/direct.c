/* SPDX-License-Identifier: Apache-2.0
 *
 * The device shares the host's memory: the transport exchanges the values themselves.
 */
#include "runtime/exchange/exchange.h"

#include <stdlib.h>

static tsr_result direct_open(tsr_ctx *ctx, const tsr_exchanger_options *options,
                              tsr_exchanger **out) {
    tsr_exchanger *x = calloc(1, sizeof *x);
    if (!x) FAIL(ctx, TSR_MEMORY, "no memory for exchanges");
    x->kind = &tsr_exchange_direct;
    x->options = *options;
    *out = x;
    return TSR_SUCCESS;
}

static tsr_result direct_reduce_scatter(tsr_ctx *ctx, tsr_exchanger *x,
                                        const tsr_reduce_options *options,
                                        const size_t *first_element, void *out) {
    return tsr_reduce_scatter(ctx, x->options.transport, options, first_element, out);
}

static tsr_result direct_all_reduce(tsr_ctx *ctx, tsr_exchanger *x,
                                    const tsr_reduce_options *options, void *out) {
    return tsr_all_reduce(ctx, x->options.transport, options, out);
}

static tsr_result direct_all_gather(tsr_ctx *ctx, tsr_exchanger *x, void *bytes,
                                    const size_t *first_byte) {
    return tsr_all_gather(ctx, x->options.transport, bytes, first_byte);
}

static tsr_result direct_broadcast(tsr_ctx *ctx, tsr_exchanger *x, uint32_t root, void *bytes,
                                   size_t size_bytes) {
    return tsr_broadcast(ctx, x->options.transport, root, bytes, size_bytes);
}

static tsr_result direct_all_to_all(tsr_ctx *ctx, tsr_exchanger *x,
                                    const tsr_transport_segment *sends,
                                    const tsr_transport_segment *receives) {
    return tsr_all_to_all(ctx, x->options.transport, sends, receives);
}

static tsr_result direct_combine(tsr_ctx *ctx, tsr_exchanger *x, tsr_reduction reduction, void *out,
                                 const void *a, const void *b, size_t count) {
    (void)ctx, (void)x;
    tsr_tree_combine(reduction, out, a, b, count);
    return TSR_SUCCESS;
}

static tsr_result direct_wait(tsr_ctx *ctx, tsr_exchanger *x) {
    (void)ctx, (void)x;
    return TSR_SUCCESS;
}

static void direct_close(tsr_exchanger *x) { free(x); }

const tsr_exchanger_kind tsr_exchange_direct = {
    .name = "direct",
    .open = direct_open,
    .reduce_scatter = direct_reduce_scatter,
    .all_reduce = direct_all_reduce,
    .all_gather = direct_all_gather,
    .broadcast = direct_broadcast,
    .all_to_all = direct_all_to_all,
    .combine = direct_combine,
    .wait = direct_wait,
    .close = direct_close,
};
