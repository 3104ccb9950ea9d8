/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges between devices of one host: each device writes into the memory of the others.
 *
 * Summands, and values whose destination may still be in use, pass through slots of a mailbox that
 * each rank has for each other rank; large ones in chunks. Of the words in the mailbox of rank d,
 * other rank s has:
 *
 *     stream of pushes of s        words at d        main stream of d
 *     copy chunk into a slot
 *     set arrived                  arrived[s]        wait for arrived; combine or copy
 *     wait for consumed     <-     consumed[d]  <-   set consumed, at s
 *
 * Gathered values are written to their destination. The receiver first sets `ready` at the sender,
 * when its earlier commands are done with the destination, and waits for `landed`. All words only
 * count up, modulo 2^32, so no word is reset.
 *
 * Ranks push to the next rank first, so that each one receives from one rank at a time.
 */
#include "runtime/exchange/p2p.h"

#include "runtime/base/clock.h"
#include "runtime/exchange/exchange.h"

#include <stdlib.h>
#include <string.h>

/* ---- one pair of ranks ---- */

static uint32_t *word_at(const tsr_p2p *self, uint32_t at_rank, uint32_t of_rank,
                         tsr_p2p_word word) {
    return tsr_p2p_word_at(&self->peers[at_rank], of_rank, word);
}

static char *slot_at(const tsr_p2p *self, uint32_t at_rank, uint32_t of_rank, uint32_t number) {
    return self->peers[at_rank].mailbox.address + self->slots_offset +
           ((size_t)of_rank * TSR_P2P_DEPTH + number % TSR_P2P_DEPTH) * self->slot_bytes;
}

/* Pushes rows of bytes into the next slot of rank `to`. */
static tsr_result push_rows(tsr_ctx *ctx, tsr_p2p *self, uint32_t to, const tsr_rows *rows) {
    tsr_device *device = self->base.options.device;
    const tsr_device_peers *peers = device->type->peers;
    tsr_p2p_peer *peer = &self->peers[to];
    char *slot = slot_at(self, to, self->rank, peer->sent);
    TRY(ctx,
        peers->await(ctx, device, TSR_PEER_PUSHES, word_at(self, self->rank, to, TSR_P2P_CONSUMED),
                     peer->sent + 1 - TSR_P2P_DEPTH));
    for (uint32_t row = 0; row < rows->row_count && rows->size_bytes; row++)
        TRY(ctx,
            peers->copy(ctx, device, TSR_PEER_PUSHES, slot + row * rows->size_bytes,
                        (const char *)rows->bytes + row * rows->stride_bytes, rows->size_bytes));
    return peers->set(ctx, device, TSR_PEER_PUSHES, word_at(self, to, self->rank, TSR_P2P_ARRIVED),
                      ++peer->sent);
}

/* Waits for the next slot from rank `from`. */
static tsr_result await_slot(tsr_ctx *ctx, tsr_p2p *self, uint32_t from, char **out_slot) {
    tsr_device *device = self->base.options.device;
    tsr_p2p_peer *peer = &self->peers[from];
    *out_slot = slot_at(self, self->rank, from, peer->received++);
    return device->type->peers->await(ctx, device, TSR_PEER_MAIN,
                                      word_at(self, self->rank, from, TSR_P2P_ARRIVED),
                                      peer->received);
}

static tsr_result free_slot(tsr_ctx *ctx, tsr_p2p *self, uint32_t from) {
    tsr_device *device = self->base.options.device;
    return device->type->peers->set(ctx, device, TSR_PEER_MAIN,
                                    word_at(self, from, self->rank, TSR_P2P_CONSUMED),
                                    self->peers[from].received);
}

/* The rank at distance `distance`. */
static uint32_t rank_after(const tsr_p2p *self, uint32_t distance) {
    return (self->rank + distance) % self->rank_count;
}

/* ---- begin and end ---- */

static tsr_result begin(tsr_ctx *ctx, tsr_p2p *self, tsr_operation operation) {
    tsr_device *device = self->base.options.device;
    self->operation = operation;
    self->began_ns = tsr_clock_ns();
    self->pending = true;
    return device->type->peers->follow(ctx, device, TSR_PEER_PUSHES);
}

/* The sent values may change when they have been pushed. */
static tsr_result end(tsr_ctx *ctx, tsr_p2p *self, uint64_t sent_bytes, uint64_t received_bytes) {
    tsr_device *device = self->base.options.device;
    self->base.options.transport->sent_bytes += sent_bytes;
    self->base.options.transport->received_bytes += received_bytes;
    return device->type->peers->follow(ctx, device, TSR_PEER_MAIN);
}

static tsr_result let_write(tsr_ctx *ctx, tsr_p2p *self, const void *bytes, size_t size_bytes) {
    tsr_device *device = self->base.options.device;
    if (!device->type->let_write || !size_bytes) return TSR_SUCCESS;
    return device->type->let_write(ctx, device, tsr_exchange_range(&self->base, bytes, size_bytes));
}

/* ---- reductions ---- */

/* A reduction in which rank r receives elements begin[r] … end[r]. */
typedef struct reduction {
    const tsr_reduce_options *options;
    const size_t *begin, *end;
    size_t element_bytes, chunk_length;          /* elements of a row in a slot */
    uint32_t first[TSR_TRANSPORT_RANKS_MAX + 1]; /* the first subtree of each rank */
    uint32_t row_max, temporary_count;
    tsr_subtree subtrees[TSR_LEAVES_MAX];
    tsr_tree_step steps[TSR_LEAVES_MAX];
    char *slots[TSR_TRANSPORT_RANKS_MAX]; /* of the current chunk */
} reduction;

static tsr_result plan(tsr_ctx *ctx, const tsr_p2p *self, const tsr_reduce_options *options,
                       reduction *out) {
    out->options = options;
    out->element_bytes = tsr_reduction_get_size(options->reduction);
    out->first[0] = out->row_max = 0;
    for (uint32_t r = 0; r < self->rank_count; r++) {
        uint32_t first = options->first_leaf[r], count = options->first_leaf[r + 1] - first;
        uint32_t rows =
            tsr_tree_cover(options->leaf_count, first, count, &out->subtrees[out->first[r]]);
        if (rows > out->row_max) out->row_max = rows;
        out->first[r + 1] = out->first[r] + rows;
    }
    out->temporary_count = tsr_tree_plan(options->leaf_count, out->subtrees, out->steps);
    size_t of_slot = self->slot_bytes / out->row_max;
    size_t of_scratch = TSR_P2P_SCRATCH_SLOTS * self->slot_bytes /
                        (out->temporary_count ? out->temporary_count : 1);
    out->chunk_length = (of_slot < of_scratch ? of_slot : of_scratch) / out->element_bytes;
    if (out->chunk_length == 0)
        FAIL(ctx, TSR_INTERNAL, "%u rows and %u sums do not fit into a slot of %zu bytes",
             out->row_max, out->temporary_count, self->slot_bytes);
    return TSR_SUCCESS;
}

static uint32_t rows_of(const reduction *r, uint32_t rank) {
    return r->first[rank + 1] - r->first[rank];
}

/* Length of chunk `chunk` of the range of a rank. */
static size_t length_of(const reduction *r, uint32_t rank, size_t chunk) {
    size_t all = r->end[rank] - r->begin[rank], done = chunk * r->chunk_length;
    size_t left = all > done ? all - done : 0;
    return left < r->chunk_length ? left : r->chunk_length;
}

static const char *own_row(const tsr_p2p *self, const reduction *r, uint32_t row, size_t element) {
    return tsr_exchange_address(&self->base, r->options->rows) + row * r->options->stride_bytes +
           element * r->element_bytes;
}

static tsr_result push_chunk(tsr_ctx *ctx, tsr_p2p *self, const reduction *r, size_t chunk) {
    for (uint32_t distance = 1; distance < self->rank_count; distance++) {
        uint32_t to = rank_after(self, distance);
        size_t length = length_of(r, to, chunk);
        if (!length) continue;
        const tsr_rows rows = {own_row(self, r, 0, r->begin[to] + chunk * r->chunk_length),
                               length * r->element_bytes, r->options->stride_bytes,
                               rows_of(r, self->rank)};
        TRY(ctx, push_rows(ctx, self, to, &rows));
    }
    return TSR_SUCCESS;
}

/* The address of an operand of a step. */
static char *address_of(const tsr_p2p *self, const reduction *r, size_t chunk, uint32_t operand,
                        char *out) {
    size_t size_bytes = length_of(r, self->rank, chunk) * r->element_bytes;
    if (operand == TSR_TREE_OUT) return out;
    if (operand >= TSR_TREE_SCRATCH)
        return self->peers[self->rank].mailbox.address + self->scratch_offset +
               (operand - TSR_TREE_SCRATCH) * r->chunk_length * r->element_bytes;
    uint32_t rank = 0;
    while (operand >= r->first[rank + 1]) rank++;
    uint32_t row = operand - r->first[rank];
    if (rank != self->rank) return r->slots[rank] + row * size_bytes;
    return (char *)(uintptr_t)own_row(self, r, row, r->begin[rank] + chunk * r->chunk_length);
}

static tsr_result combine_chunk(tsr_ctx *ctx, tsr_p2p *self, reduction *r, size_t chunk,
                                char *out) {
    tsr_device *device = self->base.options.device;
    size_t length = length_of(r, self->rank, chunk);
    uint32_t step_count = r->first[self->rank_count] - 1;
    if (!length) return TSR_SUCCESS;
    out += chunk * r->chunk_length * r->element_bytes;
    for (uint32_t from = 0; from < self->rank_count; from++)
        if (from != self->rank) TRY(ctx, await_slot(ctx, self, from, &r->slots[from]));
    for (uint32_t i = 0; i < step_count; i++)
        TRY(ctx, device->type->combine(ctx, device, r->options->reduction,
                                       address_of(self, r, chunk, r->steps[i].out, out),
                                       address_of(self, r, chunk, r->steps[i].a, out),
                                       address_of(self, r, chunk, r->steps[i].b, out), length));
    for (uint32_t from = 0; from < self->rank_count; from++)
        if (from != self->rank) TRY(ctx, free_slot(ctx, self, from));
    return TSR_SUCCESS;
}

/* Pushes stay ahead of the sums by one chunk. `in_place`: `out` can be memory that is pushed, so
 * that a chunk must have been pushed before its sum is stored. */
static tsr_result run_reduction(tsr_ctx *ctx, tsr_p2p *self, reduction *r, void *out,
                                bool in_place) {
    tsr_device *device = self->base.options.device;
    size_t longest = 0;
    for (uint32_t rank = 0; rank < self->rank_count; rank++)
        if (r->end[rank] - r->begin[rank] > longest) longest = r->end[rank] - r->begin[rank];
    size_t chunk_count = (longest + r->chunk_length - 1) / r->chunk_length;
    size_t own = r->end[self->rank] - r->begin[self->rank];
    TRY(ctx, let_write(ctx, self, out, own * r->element_bytes));
    for (size_t chunk = 0; chunk < chunk_count + 1; chunk++) {
        if (chunk < chunk_count) TRY(ctx, push_chunk(ctx, self, r, chunk));
        if (in_place) TRY(ctx, device->type->peers->follow(ctx, device, TSR_PEER_MAIN));
        if (chunk > 0)
            TRY(ctx,
                combine_chunk(ctx, self, r, chunk - 1, tsr_exchange_address(&self->base, out)));
    }
    return TSR_SUCCESS;
}

static uint64_t received_bytes(const tsr_p2p *self, const reduction *r) {
    uint64_t others = r->first[self->rank_count] - rows_of(r, self->rank);
    return others * (r->end[self->rank] - r->begin[self->rank]) * r->element_bytes;
}

static tsr_result p2p_reduce_scatter(tsr_ctx *ctx, tsr_exchanger *x,
                                     const tsr_reduce_options *options, const size_t *first_element,
                                     void *out) {
    tsr_p2p *self = (tsr_p2p *)x;
    reduction r;
    TRY(ctx, plan(ctx, self, options, &r));
    r.begin = first_element;
    r.end = first_element + 1;
    TRY(ctx, begin(ctx, self, TSR_OPERATION_REDUCE_SCATTER));
    TRY(ctx, run_reduction(ctx, self, &r, out, false)); /* its own range is not pushed */
    return end(ctx, self, tsr_reduce_scatter_plan(x->options.transport, options, first_element),
               received_bytes(self, &r));
}

static tsr_result reduce_everywhere(tsr_ctx *ctx, tsr_p2p *self, const tsr_reduce_options *options,
                                    void *out) {
    size_t zeros[TSR_TRANSPORT_RANKS_MAX] = {0}, counts[TSR_TRANSPORT_RANKS_MAX];
    reduction r;
    for (uint32_t rank = 0; rank < self->rank_count; rank++) counts[rank] = options->count;
    TRY(ctx, plan(ctx, self, options, &r));
    r.begin = zeros;
    r.end = counts;
    TRY(ctx, begin(ctx, self, TSR_OPERATION_ALL_REDUCE));
    TRY(ctx, run_reduction(ctx, self, &r, out, out == options->rows));
    return end(ctx, self, tsr_all_reduce_plan(self->base.options.transport, options),
               received_bytes(self, &r));
}

/* ---- copies ---- */

/* Sends and receives through the slots. Each pair counts its own chunks. */
static tsr_result transfer(tsr_ctx *ctx, tsr_p2p *self, const tsr_transport_segment *sends,
                           const tsr_transport_segment *receives) {
    tsr_device *device = self->base.options.device;
    size_t longest = 0;
    for (uint32_t r = 0; r < self->rank_count; r++) {
        if (r == self->rank) continue;
        if (sends[r].active && sends[r].size_bytes > longest) longest = sends[r].size_bytes;
        if (!receives[r].active) continue;
        if (receives[r].size_bytes > longest) longest = receives[r].size_bytes;
        TRY(ctx, let_write(ctx, self, receives[r].bytes, receives[r].size_bytes));
    }
    for (size_t done = 0; done < longest; done += self->slot_bytes)
        for (uint32_t step = 1; step < 2 * self->rank_count - 1; step++) {
            bool pushes = step < self->rank_count;
            uint32_t r =
                pushes ? rank_after(self, step) : rank_after(self, 2 * self->rank_count - 1 - step);
            const tsr_transport_segment *segment = pushes ? &sends[r] : &receives[r];
            if (!segment->active || segment->size_bytes <= done) continue;
            size_t part = segment->size_bytes - done;
            if (part > self->slot_bytes) part = self->slot_bytes;
            char *own = tsr_exchange_address(&self->base, segment->bytes) + done, *slot = NULL;
            if (pushes) {
                const tsr_rows rows = {own, part, part, 1};
                TRY(ctx, push_rows(ctx, self, r, &rows));
                continue;
            }
            TRY(ctx, await_slot(ctx, self, r, &slot));
            TRY(ctx, device->type->peers->copy(ctx, device, TSR_PEER_MAIN, own, slot, part));
            TRY(ctx, free_slot(ctx, self, r));
        }
    return TSR_SUCCESS;
}

static tsr_result tell_ready(tsr_ctx *ctx, tsr_p2p *self, uint32_t to) {
    tsr_device *device = self->base.options.device;
    return device->type->peers->set(ctx, device, TSR_PEER_MAIN,
                                    word_at(self, to, self->rank, TSR_P2P_READY),
                                    ++self->peers[to].ready_told);
}

static tsr_result await_ready(tsr_ctx *ctx, tsr_p2p *self, uint32_t from) {
    tsr_device *device = self->base.options.device;
    return device->type->peers->await(ctx, device, TSR_PEER_PUSHES,
                                      word_at(self, self->rank, from, TSR_P2P_READY),
                                      ++self->peers[from].ready_seen);
}

/* Writes values to the same offsets of the memory of rank `to`. */
static tsr_result push_there(tsr_ctx *ctx, tsr_p2p *self, uint32_t to,
                             const tsr_transport_segment *values, size_t count) {
    tsr_device *device = self->base.options.device;
    const tsr_device_peers *peers = device->type->peers;
    for (size_t i = 0; i < count; i++) {
        uint64_t offset = tsr_exchange_range(&self->base, values[i].bytes, 0).offset_bytes;
        if (!values[i].size_bytes) continue;
        TRY(ctx,
            peers->copy(ctx, device, TSR_PEER_PUSHES, self->peers[to].memory.address + offset,
                        tsr_exchange_address(&self->base, values[i].bytes), values[i].size_bytes));
    }
    return peers->set(ctx, device, TSR_PEER_PUSHES, word_at(self, to, self->rank, TSR_P2P_LANDED),
                      ++self->peers[to].landed_told);
}

static tsr_result await_landed(tsr_ctx *ctx, tsr_p2p *self, uint32_t from, uint32_t count) {
    tsr_device *device = self->base.options.device;
    self->peers[from].landed_seen += count;
    return device->type->peers->await(ctx, device, TSR_PEER_MAIN,
                                      word_at(self, self->rank, from, TSR_P2P_LANDED),
                                      self->peers[from].landed_seen);
}

/* Sends and receives at the same offsets of all ranks' memory, without slots. */
static tsr_result transfer_there(tsr_ctx *ctx, tsr_p2p *self, const tsr_transport_segment *sends,
                                 const tsr_transport_segment *receives) {
    for (uint32_t r = 0; r < self->rank_count; r++) {
        if (r == self->rank || !receives[r].active || !receives[r].size_bytes) continue;
        TRY(ctx, let_write(ctx, self, receives[r].bytes, receives[r].size_bytes));
        TRY(ctx, tell_ready(ctx, self, r));
    }
    for (uint32_t distance = 1; distance < self->rank_count; distance++) {
        uint32_t r = rank_after(self, distance);
        if (!sends[r].active || !sends[r].size_bytes) continue;
        TRY(ctx, await_ready(ctx, self, r));
        TRY(ctx, push_there(ctx, self, r, &sends[r], 1));
    }
    for (uint32_t r = 0; r < self->rank_count; r++)
        if (r != self->rank && receives[r].active && receives[r].size_bytes)
            TRY(ctx, await_landed(ctx, self, r, 1));
    return TSR_SUCCESS;
}

static tsr_result exchange(tsr_ctx *ctx, tsr_p2p *self, tsr_operation operation, bool there,
                           const tsr_transport_segment *sends,
                           const tsr_transport_segment *receives) {
    uint64_t sent = 0, received = 0;
    for (uint32_t r = 0; r < self->rank_count; r++) {
        if (r == self->rank) continue;
        if (sends[r].active) sent += sends[r].size_bytes;
        if (receives[r].active) received += receives[r].size_bytes;
    }
    TRY(ctx, begin(ctx, self, operation));
    TRY(ctx, (there ? transfer_there : transfer)(ctx, self, sends, receives));
    return end(ctx, self, sent, received);
}

static tsr_result p2p_all_gather(tsr_ctx *ctx, tsr_exchanger *x, void *bytes,
                                 const size_t *first_byte) {
    tsr_p2p *self = (tsr_p2p *)x;
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
    char *all = bytes;
    for (uint32_t r = 0; r < self->rank_count; r++) {
        sends[r] =
            (tsr_transport_segment){all + first_byte[self->rank],
                                    first_byte[self->rank + 1] - first_byte[self->rank], true};
        receives[r] =
            (tsr_transport_segment){all + first_byte[r], first_byte[r + 1] - first_byte[r], true};
    }
    return exchange(ctx, self, TSR_OPERATION_ALL_GATHER, x->options.same_offsets, sends, receives);
}

static tsr_result p2p_all_reduce(tsr_ctx *ctx, tsr_exchanger *x, const tsr_reduce_options *options,
                                 void *out) {
    if (tsr_all_reduce_sends_all(x->options.transport, options))
        return reduce_everywhere(ctx, (tsr_p2p *)x, options, out);
    return tsr_exchange_all_reduce_by_shares(ctx, x, options, out);
}

static tsr_result p2p_broadcast(tsr_ctx *ctx, tsr_exchanger *x, uint32_t root, void *bytes,
                                size_t size_bytes) {
    tsr_p2p *self = (tsr_p2p *)x;
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
    for (uint32_t r = 0; r < self->rank_count; r++) {
        sends[r] = (tsr_transport_segment){bytes, size_bytes, self->rank == root && r != root};
        receives[r] = (tsr_transport_segment){bytes, size_bytes, r == root && self->rank != root};
    }
    return exchange(ctx, self, TSR_OPERATION_BROADCAST, x->options.same_offsets, sends, receives);
}

static tsr_result p2p_all_to_all(tsr_ctx *ctx, tsr_exchanger *x, const tsr_transport_segment *sends,
                                 const tsr_transport_segment *receives) {
    return exchange(ctx, (tsr_p2p *)x, TSR_OPERATION_ALL_TO_ALL, false, sends, receives);
}

/* ---- gathers during computations ---- */

static tsr_result p2p_offer(tsr_ctx *ctx, tsr_exchanger *x, const tsr_transport_segment *values,
                            size_t count) {
    tsr_p2p *self = (tsr_p2p *)x;
    self->operation = TSR_OPERATION_ALL_GATHER;
    self->began_ns = tsr_clock_ns();
    self->offered = self->pending = true;
    self->pushed_bytes = 0;
    for (size_t i = 0; i < count; i++)
        TRY(ctx, let_write(ctx, self, values[i].bytes, values[i].size_bytes));
    for (uint32_t r = 0; r < self->rank_count; r++)
        if (r != self->rank) TRY(ctx, tell_ready(ctx, self, r));
    return TSR_SUCCESS;
}

static tsr_result p2p_push(tsr_ctx *ctx, tsr_exchanger *x, const tsr_transport_segment *values,
                           size_t count) {
    tsr_p2p *self = (tsr_p2p *)x;
    TRY(ctx, begin(ctx, self, TSR_OPERATION_ALL_GATHER));
    for (uint32_t distance = 1; distance < self->rank_count; distance++) {
        uint32_t r = rank_after(self, distance);
        if (self->offered) TRY(ctx, await_ready(ctx, self, r));
        TRY(ctx, push_there(ctx, self, r, values, count));
    }
    self->offered = false;
    for (size_t i = 0; i < count; i++) self->pushed_bytes += values[i].size_bytes;
    return TSR_SUCCESS;
}

static tsr_result p2p_collect(tsr_ctx *ctx, tsr_exchanger *x, const uint32_t *push_counts) {
    tsr_p2p *self = (tsr_p2p *)x;
    uint64_t others = self->rank_count - 1;
    TSR_ASSERT(!self->offered);
    self->began_ns = tsr_clock_ns();
    for (uint32_t r = 0; r < self->rank_count; r++)
        if (r != self->rank) TRY(ctx, await_landed(ctx, self, r, push_counts[r]));
    return end(ctx, self, others * self->pushed_bytes, 0);
}

static tsr_result p2p_wait(tsr_ctx *ctx, tsr_exchanger *x) {
    tsr_p2p *self = (tsr_p2p *)x;
    tsr_device *device = x->options.device;
    self->began_ns = tsr_clock_ns();
    TRY(ctx, device->type->peers->wait(ctx, device));
    self->pending = false;
    return TSR_SUCCESS;
}

const tsr_exchanger_kind tsr_exchange_p2p = {
    .name = "p2p",
    .open = tsr_p2p_open,
    .reduce_scatter = p2p_reduce_scatter,
    .all_reduce = p2p_all_reduce,
    .all_gather = p2p_all_gather,
    .broadcast = p2p_broadcast,
    .all_to_all = p2p_all_to_all,
    .offer = p2p_offer,
    .push = p2p_push,
    .collect = p2p_collect,
    .combine = tsr_exchange_combine,
    .wait = p2p_wait,
    .close = tsr_p2p_close,
};
