/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges of the values of a program between ranks. The values are in the memory of a device; all
 * addresses here are addresses of the host's memory of the same values (tsr_device_memory), also if
 * the device has its own memory. Sums follow the tree of virtual ranks (runtime/transport/tree.h),
 * so every way of exchanging gives the same bits.
 *
 *     tsr_exchanger_open(ctx, &options, &x);
 *     x->kind->all_reduce(ctx, x, &reduce, out);     all ranks, in the same order
 *     x->kind->wait(ctx, x);                       before the host reads results
 *     tsr_exchanger_close(x);
 *
 * An exchange begins when the earlier runs of the device are done, and later runs begin when it is
 * done. It may end after the call: errors of other ranks (TSR_RANK) are then reported by the next
 * call that waits for the device. After a failure, the exchanger can only be closed.
 */
#ifndef TSR_RUNTIME_EXCHANGE_H
#define TSR_RUNTIME_EXCHANGE_H

#include "runtime/device/device.h"
#include "runtime/transport/collective.h"

typedef struct tsr_exchanger_options {
    tsr_device *device;              /* borrowed, like all here, until close */
    const tsr_device_memory *memory; /* allocated by the device */
    tsr_transport *transport;        /* several ranks; its field `exchange` names the way */
    /* All buffers have the same offsets in the memory of every rank. The same on all ranks. */
    bool same_offsets;
    /* Size of the chunks of large exchanges, a multiple of 64, the same on all ranks; 0: the best
     * one. */
    size_t chunk_bytes;
} tsr_exchanger_options;

enum { TSR_EXCHANGE_REASON_MAX = 320 };

typedef struct tsr_exchanger tsr_exchanger;

/* A way of exchanging. A new one is a file with such a table, a row of kinds.def, and a row of the
 * tests (tests/runtime/test_exchange.c). Sizes and offsets need no alignment. */
typedef struct tsr_exchanger_kind {
    const char *name;
    /* Fails with the reason if this way is not possible. Collective: if it fails on one rank, it
     * fails on all ranks, but for errors of the transport. */
    tsr_result (*open)(tsr_ctx *ctx, const tsr_exchanger_options *options, tsr_exchanger **out);
    /* As the functions of runtime/transport/collective.h. */
    tsr_result (*reduce_scatter)(tsr_ctx *ctx, tsr_exchanger *x, const tsr_reduce_options *options,
                                 const size_t *first_element, void *out);
    tsr_result (*all_reduce)(tsr_ctx *ctx, tsr_exchanger *x, const tsr_reduce_options *options,
                             void *out);
    tsr_result (*all_gather)(tsr_ctx *ctx, tsr_exchanger *x, void *bytes, const size_t *first_byte);
    tsr_result (*broadcast)(tsr_ctx *ctx, tsr_exchanger *x, uint32_t root, void *bytes,
                            size_t size_bytes);
    tsr_result (*all_to_all)(tsr_ctx *ctx, tsr_exchanger *x, const tsr_transport_segment *sends,
                             const tsr_transport_segment *receives);
    /* Gathers that begin while this rank still computes; NULL: not possible. Only with
     * same_offsets. `offer`: from now on other ranks may write the values, which this rank has no
     * more use for. `push`: sends values that this rank has computed to the same addresses of all
     * other ranks, while later runs compute. `collect`: later runs begin when all pushes have
     * arrived; rank r has pushed push_counts[r] times since its offer. Each rank offers, pushes at
     * least once, then collects. */
    tsr_result (*offer)(tsr_ctx *ctx, tsr_exchanger *x, const tsr_transport_segment *values,
                        size_t count);
    tsr_result (*push)(tsr_ctx *ctx, tsr_exchanger *x, const tsr_transport_segment *values,
                       size_t count);
    tsr_result (*collect)(tsr_ctx *ctx, tsr_exchanger *x, const uint32_t *push_counts);
    /* out = a and b combined, on this rank alone; out may be a or b. */
    tsr_result (*combine)(tsr_ctx *ctx, tsr_exchanger *x, tsr_reduction reduction, void *out,
                          const void *a, const void *b, size_t count);
    /* Returns when all exchanges of this rank are done. */
    tsr_result (*wait)(tsr_ctx *ctx, tsr_exchanger *x);
    void (*close)(tsr_exchanger *x);
} tsr_exchanger_kind;

/* The first member of each implementation's struct. */
struct tsr_exchanger {
    const tsr_exchanger_kind *kind;
    tsr_exchanger_options options;
    char reason[TSR_EXCHANGE_REASON_MAX]; /* why this way was chosen, and not the ones before it */
};

/* For a device that shares the host's memory: the transport itself. */
extern const tsr_exchanger_kind tsr_exchange_direct;
#define X(name, table) extern const tsr_exchanger_kind table;
#include "runtime/exchange/kinds.def"
#undef X

/* Collective. TSR_USAGE for a name that kinds.def does not have. If a way is named, it fails with
 * the reason if that way is not possible. */
TSR_RESULT tsr_exchanger_open(tsr_ctx *ctx, const tsr_exchanger_options *options,
                              tsr_exchanger **out_exchanger);
/* Waits until no rank needs this one's memory any more, unless a rank has failed. Accepts NULL. */
void tsr_exchanger_close(tsr_exchanger *x);

/* Collective: true on all ranks if `result` is a success on all; otherwise `out_text` has the error
 * of the first rank that failed. */
TSR_RESULT tsr_exchange_agree(tsr_ctx *ctx, tsr_transport *t, tsr_result result, const char *error,
                              char out_text[static TSR_EXCHANGE_REASON_MAX], bool *out_agreed);
/* The range of device memory at a host address. */
tsr_device_range tsr_exchange_range(const tsr_exchanger *x, const void *bytes, size_t size_bytes);
/* For the functions of kinds: an all-reduce as a reduce-scatter and an all-gather. */
TSR_RESULT tsr_exchange_all_reduce_by_shares(tsr_ctx *ctx, tsr_exchanger *x,
                                             const tsr_reduce_options *options, void *out);
/* For the functions of kinds: `combine` by the device itself. */
TSR_RESULT tsr_exchange_combine(tsr_ctx *ctx, tsr_exchanger *x, tsr_reduction reduction, void *out,
                                const void *a, const void *b, size_t count);
/* The device's address of a host address. */
char *tsr_exchange_address(const tsr_exchanger *x, const void *bytes);

#endif
