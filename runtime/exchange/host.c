/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges through the host: values are copied to page-locked memory, exchanged by the transport,
 * and copied back. Large values pass in chunks:
 *
 *     a row of rank 0    |   of rank 0   |   of rank 1   |      ranges that the ranks receive
 *     chunk 0, packed    |pp|            |pp|                   the same positions of each range
 *     chunk 1, packed       |pp|            |pp|
 *
 * All ranks use chunks of the same size, so that their exchanges match.
 */
#include "runtime/base/plural.h"
#include "runtime/exchange/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Staging memory for each direction: for chunks, and for small sums, which have no chunks. */
enum { STAGING_BYTES = 32 << 20, SMALL_BYTES = 512 << 10 };

typedef struct host_exchanger {
    tsr_exchanger base;   /* must be the first member */
    char *sent, *results; /* size_bytes each; mapped together */
    size_t size_bytes, chunk_bytes;
    bool locked;
} host_exchanger;

static tsr_result download(tsr_ctx *ctx, tsr_exchanger *x, const void *from, void *to,
                           size_t size_bytes) {
    tsr_device *device = x->options.device;
    if (!size_bytes) return TSR_SUCCESS;
    return device->type->read_caller(ctx, device, tsr_exchange_address(x, from), to, size_bytes);
}

static tsr_result upload(tsr_ctx *ctx, tsr_exchanger *x, const void *from, void *to,
                         size_t size_bytes) {
    tsr_device *device = x->options.device;
    if (!size_bytes) return TSR_SUCCESS;
    if (device->type->let_write)
        TRY(ctx, device->type->let_write(ctx, device, tsr_exchange_range(x, to, size_bytes)));
    return device->type->write_caller(ctx, device, from, tsr_exchange_address(x, to), size_bytes);
}

/* ---- ranges in chunks ---- */

typedef struct chunks {
    const size_t *first;                        /* of each range; borrowed */
    uint32_t count;                             /* ranges */
    size_t longest;                             /* maximum length of a chunk */
    size_t done;                                /* part of each range that earlier chunks had */
    size_t packed[TSR_TRANSPORT_RANKS_MAX + 1]; /* where the chunk of each range begins */
} chunks;

static size_t length_of(const chunks *p, uint32_t range) {
    size_t all = p->first[range + 1] - p->first[range];
    size_t left = all > p->done ? all - p->done : 0;
    return left < p->longest ? left : p->longest;
}

/* Packs the next chunks; returns false after the last ones. */
static bool pack(chunks *p) {
    p->packed[0] = 0;
    for (uint32_t r = 0; r < p->count; r++) p->packed[r + 1] = p->packed[r] + length_of(p, r);
    return p->packed[p->count] > 0;
}

static tsr_result begin_chunks(tsr_ctx *ctx, const host_exchanger *self, const size_t *first,
                               size_t element_bytes, size_t row_count, chunks *out) {
    uint32_t ranks = self->base.options.transport->rank_count;
    *out = (chunks){.first = first,
                    .count = ranks,
                    .longest = self->chunk_bytes / (ranks * row_count * element_bytes)};
    if (out->longest == 0)
        FAIL(ctx, TSR_INTERNAL, "%zu rows for %u ranks do not fit into %zu bytes", row_count, ranks,
             self->chunk_bytes);
    return TSR_SUCCESS;
}

/* ---- reductions ---- */

/* Number of rows of each rank's partial results: of this rank, and the maximum. */
static size_t count_rows(const tsr_exchanger *x, const tsr_reduce_options *options,
                         size_t *out_max) {
    size_t own = 0, most = 1;
    for (uint32_t r = 0; r < x->options.transport->rank_count; r++) {
        uint32_t first = options->first_leaf[r];
        size_t rows =
            tsr_tree_cover(options->leaf_count, first, options->first_leaf[r + 1] - first, NULL);
        if (rows > most) most = rows;
        if (r == x->options.transport->rank) own = rows;
    }
    *out_max = most;
    return own;
}

/* Downloads this rank's rows of the chunk of each range. */
static tsr_result download_rows(tsr_ctx *ctx, host_exchanger *self,
                                const tsr_reduce_options *options, const chunks *p, size_t rows) {
    size_t element = tsr_reduction_get_size(options->reduction);
    for (size_t row = 0; row < rows; row++)
        for (uint32_t r = 0; r < p->count; r++)
            TRY(ctx, download(ctx, &self->base,
                              (const char *)options->rows + row * options->stride_bytes +
                                  (p->first[r] + p->done) * element,
                              self->sent + (row * p->packed[p->count] + p->packed[r]) * element,
                              length_of(p, r) * element));
    return TSR_SUCCESS;
}

static tsr_result host_reduce_scatter(tsr_ctx *ctx, tsr_exchanger *x,
                                      const tsr_reduce_options *options,
                                      const size_t *first_element, void *out) {
    host_exchanger *self = (host_exchanger *)x;
    size_t element = tsr_reduction_get_size(options->reduction), most = 0;
    size_t rows = count_rows(x, options, &most);
    uint32_t rank = x->options.transport->rank;
    chunks p;
    TRY(ctx, begin_chunks(ctx, self, first_element, element, most, &p));
    for (; pack(&p); p.done += p.longest) {
        tsr_reduce_options packed = *options;
        packed.rows = self->sent;
        packed.count = p.packed[p.count];
        packed.stride_bytes = packed.count * element;
        packed.exposed = false;
        TRY(ctx, download_rows(ctx, self, options, &p, rows));
        TRY(ctx, tsr_reduce_scatter(ctx, x->options.transport, &packed, p.packed, self->results));
        TRY(ctx, upload(ctx, x, self->results, (char *)out + p.done * element,
                        length_of(&p, rank) * element));
    }
    return TSR_SUCCESS;
}

static tsr_result host_all_gather(tsr_ctx *ctx, tsr_exchanger *x, void *bytes,
                                  const size_t *first_byte) {
    host_exchanger *self = (host_exchanger *)x;
    uint32_t rank = x->options.transport->rank;
    chunks p;
    TRY(ctx, begin_chunks(ctx, self, first_byte, 1, 1, &p));
    for (; pack(&p); p.done += p.longest) {
        TRY(ctx, download(ctx, x, (const char *)bytes + first_byte[rank] + p.done,
                          self->sent + p.packed[rank], length_of(&p, rank)));
        TRY(ctx, tsr_all_gather(ctx, x->options.transport, self->sent, p.packed));
        for (uint32_t r = 0; r < p.count; r++)
            if (r != rank)
                TRY(ctx, upload(ctx, x, self->sent + p.packed[r],
                                (char *)bytes + first_byte[r] + p.done, length_of(&p, r)));
    }
    return TSR_SUCCESS;
}

/* A small sum: the rows are packed as a whole. */
static tsr_result reduce_small(tsr_ctx *ctx, host_exchanger *self,
                               const tsr_reduce_options *options, void *out) {
    size_t size = options->count * tsr_reduction_get_size(options->reduction), most = 0;
    size_t rows = count_rows(&self->base, options, &most);
    tsr_reduce_options packed = *options;
    if (most * size > self->size_bytes)
        FAIL(ctx, TSR_INTERNAL, "%zu rows of %zu byte%s do not fit into %zu", most, size,
             TSR_PLURAL(size), self->size_bytes);
    packed.rows = self->sent;
    packed.stride_bytes = size;
    packed.exposed = false;
    for (size_t row = 0; row < rows; row++)
        TRY(ctx,
            download(ctx, &self->base, (const char *)options->rows + row * options->stride_bytes,
                     self->sent + row * size, size));
    TRY(ctx, tsr_all_reduce(ctx, self->base.options.transport, &packed, self->results));
    return upload(ctx, &self->base, self->results, out, size);
}

static tsr_result host_all_reduce(tsr_ctx *ctx, tsr_exchanger *x, const tsr_reduce_options *options,
                                  void *out) {
    if (tsr_all_reduce_sends_all(x->options.transport, options))
        return reduce_small(ctx, (host_exchanger *)x, options, out);
    return tsr_exchange_all_reduce_by_shares(ctx, x, options, out);
}

/* ---- the others ---- */

static tsr_result host_broadcast(tsr_ctx *ctx, tsr_exchanger *x, uint32_t root, void *bytes,
                                 size_t size_bytes) {
    host_exchanger *self = (host_exchanger *)x;
    tsr_transport *t = x->options.transport;
    size_t done = 0;
    do {
        size_t part = size_bytes - done < self->chunk_bytes ? size_bytes - done : self->chunk_bytes;
        if (t->rank == root) TRY(ctx, download(ctx, x, (char *)bytes + done, self->sent, part));
        TRY(ctx, tsr_broadcast(ctx, t, root, self->sent, part));
        if (t->rank != root) TRY(ctx, upload(ctx, x, self->sent, (char *)bytes + done, part));
        done += part;
    } while (done < size_bytes);
    return TSR_SUCCESS;
}

/* The part of a segment from `done` on, in its part of the staging memory. A pair without bytes
 * takes part once. */
static tsr_transport_segment part_of(const tsr_transport_segment *segment, size_t done,
                                     size_t capacity, char *bytes) {
    size_t left = segment->size_bytes > done ? segment->size_bytes - done : 0;
    size_t part = left < capacity ? left : capacity;
    return (tsr_transport_segment){bytes, part, segment->active && (part > 0 || done == 0)};
}

/* All ranks exchange as often. The bytes for this are not counted. */
static tsr_result find_longest(tsr_ctx *ctx, tsr_transport *t, size_t own, size_t *out_longest) {
    uint64_t all[TSR_TRANSPORT_RANKS_MAX], sent = t->sent_bytes, received = t->received_bytes;
    all[t->rank] = own;
    TRY(ctx, tsr_all_gather_each(ctx, t, all, sizeof *all));
    t->sent_bytes = sent;
    t->received_bytes = received;
    *out_longest = own;
    for (uint32_t r = 0; r < t->rank_count; r++)
        if (all[r] > *out_longest) *out_longest = (size_t)all[r];
    return TSR_SUCCESS;
}

static tsr_result host_all_to_all(tsr_ctx *ctx, tsr_exchanger *x,
                                  const tsr_transport_segment *sends,
                                  const tsr_transport_segment *receives) {
    host_exchanger *self = (host_exchanger *)x;
    tsr_transport *t = x->options.transport;
    tsr_transport_segment out[TSR_TRANSPORT_RANKS_MAX], in[TSR_TRANSPORT_RANKS_MAX];
    size_t capacity = self->chunk_bytes / t->rank_count, longest = 0;
    for (uint32_t r = 0; r < t->rank_count; r++) {
        if (sends[r].active && sends[r].size_bytes > longest) longest = sends[r].size_bytes;
        if (receives[r].active && receives[r].size_bytes > longest)
            longest = receives[r].size_bytes;
    }
    TRY(ctx, find_longest(ctx, t, longest, &longest));
    for (size_t done = 0; done == 0 || done < longest; done += capacity) {
        for (uint32_t r = 0; r < t->rank_count; r++) {
            out[r] = part_of(&sends[r], done, capacity, self->sent + r * capacity);
            in[r] = part_of(&receives[r], done, capacity, self->results + r * capacity);
            if (out[r].active)
                TRY(ctx, download(ctx, x, (char *)sends[r].bytes + done, out[r].bytes,
                                  out[r].size_bytes));
        }
        TRY(ctx, tsr_all_to_all(ctx, t, out, in));
        for (uint32_t r = 0; r < t->rank_count; r++)
            if (in[r].active)
                TRY(ctx, upload(ctx, x, in[r].bytes, (char *)receives[r].bytes + done,
                                in[r].size_bytes));
    }
    return TSR_SUCCESS;
}

static tsr_result host_wait(tsr_ctx *ctx, tsr_exchanger *x) {
    (void)ctx, (void)x; /* copies to and from the host have ended; sums are in order with runs */
    return TSR_SUCCESS;
}

static void host_close(tsr_exchanger *x) {
    host_exchanger *self = (host_exchanger *)x;
    if (self->locked) x->options.device->type->unlock(x->options.device, self->sent);
    if (self->sent) munmap(self->sent, 2 * self->size_bytes);
    free(self);
}

static tsr_result open_staging(tsr_ctx *ctx, host_exchanger *self) {
    tsr_device *device = self->base.options.device;
    void *memory = mmap(NULL, 2 * self->size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        FAIL(ctx, TSR_MEMORY, "no memory for exchanges: %zu bytes", 2 * self->size_bytes);
    self->sent = memory;
    self->results = self->sent + self->size_bytes;
    if (!device->type->lock) return TSR_SUCCESS;
    memset(memory, 0, 2 * self->size_bytes);
    TRY(ctx, device->type->lock(ctx, device, memory, 2 * self->size_bytes));
    self->locked = true;
    return TSR_SUCCESS;
}

static tsr_result host_open(tsr_ctx *ctx, const tsr_exchanger_options *options,
                            tsr_exchanger **out) {
    char reason[TSR_EXCHANGE_REASON_MAX] = "";
    bool agreed = false;
    host_exchanger *self = calloc(1, sizeof *self);
    tsr_ctx trial = tsr_ctx_fork(ctx);
    tsr_result result = TSR_SUCCESS;
    if (self) {
        self->base.kind = &tsr_exchange_host;
        self->base.options = *options;
        self->chunk_bytes = options->chunk_bytes ? options->chunk_bytes : STAGING_BYTES;
        self->size_bytes = self->chunk_bytes > SMALL_BYTES ? self->chunk_bytes : SMALL_BYTES;
        result = open_staging(&trial, self);
    } else {
        result = tsr_fail_(&trial, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for exchanges");
    }
    tsr_result met =
        tsr_exchange_agree(ctx, options->transport, result, trial.error.text, reason, &agreed);
    if (!met.code && agreed) {
        *out = &self->base;
        return TSR_SUCCESS;
    }
    if (self) host_close(&self->base);
    TRY(ctx, met);
    if (result.code) return tsr_error_adopt(ctx, &trial);
    FAIL(ctx, TSR_MACHINE, "%s", reason);
}

const tsr_exchanger_kind tsr_exchange_host = {
    .name = "host",
    .open = host_open,
    .reduce_scatter = host_reduce_scatter,
    .all_reduce = host_all_reduce,
    .all_gather = host_all_gather,
    .broadcast = host_broadcast,
    .all_to_all = host_all_to_all,
    .combine = tsr_exchange_combine,
    .wait = host_wait,
    .close = host_close,
};
