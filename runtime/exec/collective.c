/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: copies within a rank · exchanges between ranks, one function for each kind.
 */
#include "runtime/exec/collective.h"

#include "runtime/transport/collective.h"

#include <string.h>

/* ---- within a rank ---- */

typedef struct copier {
    const tsr_loop_source *of;
    const tsr_program_buffer *to_buffer, *from_buffer;
    const tsr_collective *collective;
    bool scattered; /* the sliced buffer starts at the first part of this rank */
    tsr_device_command *commands;
    uint32_t count, capacity;
    void **buffers; /* two per command */
} copier;

static bool make_copier(copier *c, uint32_t capacity) {
    c->capacity = capacity;
    c->commands = TSR_NEW(c->of->arena, tsr_device_command, (size_t)capacity + 1);
    c->buffers = TSR_NEW(c->of->arena, void *, 2 * (size_t)capacity + 1);
    return c->commands && c->buffers;
}

static void copy(copier *c, char *to, char *from, uint64_t size_bytes) {
    const tsr_device_memory *memory = c->of->memory;
    if (size_bytes == 0 || to == from) return;
    TSR_ASSERT(c->count < c->capacity);
    void **buffers = c->buffers + 2 * (size_t)c->count;
    buffers[0] = memory->device + (to - memory->host);
    buffers[1] = memory->device + (from - memory->host);
    c->commands[c->count++] = (tsr_device_command){.kind = TSR_DEVICE_COPY,
                                                   .buffer_count = 2,
                                                   .buffers = buffers,
                                                   .copy_bytes = size_bytes,
                                                   .location = ""};
}

static char *to_of(const copier *c, uint32_t vrank) {
    return c->of->find(c->of->user, vrank, c->to_buffer);
}

static char *from_of(const copier *c, uint32_t vrank) {
    return c->of->find(c->of->user, vrank, c->from_buffer);
}

/* First element of the part of a position. */
static uint64_t begin_of(const tsr_collective *c, uint64_t position) {
    uint64_t begin;
    if (__builtin_mul_overflow(position, c->part, &begin) || begin > c->count) return c->count;
    return begin;
}

static uint64_t begin_bytes(const tsr_collective *c, uint64_t position) {
    return begin_of(c, position) * c->element_bytes;
}

static bool copy_parts(copier *c) {
    const tsr_vranks *vranks = c->of->vranks;
    const tsr_collective *collective = c->collective;
    bool gathers = collective->kind == TSR_COLLECTIVE_ALL_GATHER;
    if (!make_copier(c, vranks->count)) return false;
    for (uint32_t i = 0; i < vranks->count; i++) {
        uint64_t begin = begin_bytes(collective, vranks->first + i);
        uint64_t size = begin_bytes(collective, vranks->first + i + 1) - begin;
        uint64_t missing = c->scattered ? begin_bytes(collective, vranks->first) : 0;
        if (gathers)
            copy(c, to_of(c, i) + begin, from_of(c, i), size);
        else
            copy(c, to_of(c, i), from_of(c, i) + (begin - missing), size);
    }
    return true;
}

static bool copy_between_vranks(copier *c) {
    const tsr_vranks *vranks = c->of->vranks;
    if (!make_copier(c, vranks->count * vranks->count)) return false;
    for (uint32_t i = 0; i < vranks->count; i++)
        for (uint32_t k = 0; k < vranks->count; k++)
            copy(c, to_of(c, k) + begin_bytes(c->collective, vranks->first + i),
                 from_of(c, i) + begin_bytes(c->collective, vranks->first + k),
                 c->collective->part * c->collective->element_bytes);
    return true;
}

static bool copy_whole(copier *c) {
    bool has_it = c->collective->kind == TSR_COLLECTIVE_ALL_REDUCE || c->of->vranks->first == 0;
    if (!make_copier(c, 1)) return false;
    if (has_it)
        copy(c, to_of(c, 0), from_of(c, 0), c->collective->count * c->collective->element_bytes);
    return true;
}

bool tsr_collective_bind(const tsr_loop_source *source, uint32_t index,
                         tsr_collective *out_collective, tsr_device_list *out_list) {
    const tsr_program_command *command = &source->entry->commands[index];
    const tsr_program_buffer *to = &source->entry->buffers[command->arguments[0]];
    const tsr_program_buffer *from = &source->entry->buffers[command->arguments[1]];
    const tsr_collective_row *row = tsr_collective_get(command->kernel);
    bool scatters = row->kind == TSR_COLLECTIVE_REDUCE_SCATTER || row->kind == TSR_COLLECTIVE_SLICE;
    uint64_t size = tsr_program_buffer_size(scatters ? from : to);
    tsr_collective c = {.kind = row->kind,
                        .exchanges_first = row->from == TSR_COLLECTIVE_LOCATION_SUM,
                        .reduction = tsr_vranks_reduction(from->dtype),
                        .from = source->find(source->user, 0, from),
                        .to = source->find(source->user, 0, to),
                        .vrank_bytes = source->vrank_bytes,
                        .element_bytes = tsr_dtype_size(to->dtype)};
    bool scattered = source->reductions->strategy[command->arguments[1]] == TSR_STRATEGY_SCATTERED;
    if (scattered) c.kind = TSR_COLLECTIVE_SLICE; /* the loop has exchanged it */
    c.count = size / c.element_bytes;
    c.part = tsr_collective_part(c.count, source->vranks->total);
    c.command = index;
    if (c.exchanges_first)
        c.own_sum = c.from + (scattered || c.kind == TSR_COLLECTIVE_ALL_REDUCE
                                  ? 0
                                  : begin_bytes(&c, source->vranks->first));
    copier copies = {.of = source,
                     .to_buffer = to,
                     .from_buffer = from,
                     .collective = &c,
                     .scattered = scattered};
    bool bound = scatters || c.kind == TSR_COLLECTIVE_ALL_GATHER ? copy_parts(&copies)
                 : c.kind == TSR_COLLECTIVE_ALL_TO_ALL           ? copy_between_vranks(&copies)
                                                                 : copy_whole(&copies);
    *out_collective = c;
    *out_list = (tsr_device_list){
        .name = source->name, .commands = copies.commands, .command_count = copies.count};
    return bound;
}

/* ---- between ranks ---- */

/* The first virtual rank of each rank, and the first element of its share of the full value. */
typedef struct shares {
    uint32_t first_leaf[TSR_TRANSPORT_RANKS_MAX + 1];
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1];
} shares;

static void share(const tsr_collective *c, const tsr_vranks *vranks, size_t unit, shares *out) {
    for (uint32_t r = 0; r <= vranks->rank_count; r++)
        out->first[r] = begin_of(c, tsr_vranks_first(vranks, r)) * unit;
}

static tsr_reduce_options reduction_of(const tsr_collective *c, const tsr_vranks *vranks,
                                       uint64_t sums_bytes, shares *s) {
    return tsr_vranks_divide(vranks,
                             (tsr_reduce_options){.reduction = c->reduction,
                                                  .rows = c->from,
                                                  .stride_bytes = sums_bytes,
                                                  .count = c->count},
                             s->first_leaf);
}

static tsr_result reduce(tsr_ctx *ctx, const tsr_collective *c, tsr_exchanger *x,
                         const tsr_vranks *vranks, uint64_t sums_bytes) {
    shares s;
    share(c, vranks, 1, &s);
    const tsr_reduce_options options = reduction_of(c, vranks, sums_bytes, &s);
    if (c->kind == TSR_COLLECTIVE_ALL_REDUCE) return x->kind->all_reduce(ctx, x, &options, c->from);
    return x->kind->reduce_scatter(ctx, x, &options, s.first,
                                   c->from + s.first[vranks->rank] * c->element_bytes);
}

/* Virtual rank i of every rank sends its part to virtual rank k of every other rank, if these
 * virtual ranks exist. */
static tsr_result exchange_round(tsr_ctx *ctx, const tsr_collective *c, tsr_exchanger *x,
                                 const tsr_vranks *vranks, uint32_t i, uint32_t k) {
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
    uint64_t size = c->part * c->element_bytes;
    for (uint32_t r = 0; r < vranks->rank_count; r++) {
        uint32_t theirs = tsr_vranks_first(vranks, r);
        uint32_t count = tsr_vranks_first(vranks, r + 1) - theirs;
        sends[r] = receives[r] = (tsr_transport_segment){0};
        if (r == vranks->rank) continue;
        if (i < vranks->count && k < count)
            sends[r] = (tsr_transport_segment){c->from + i * c->vrank_bytes + (theirs + k) * size,
                                               size, true};
        if (k < vranks->count && i < count)
            receives[r] = (tsr_transport_segment){c->to + k * c->vrank_bytes + (theirs + i) * size,
                                                  size, true};
    }
    return x->kind->all_to_all(ctx, x, sends, receives);
}

static tsr_result exchange_all(tsr_ctx *ctx, const tsr_collective *c, tsr_exchanger *x,
                               const tsr_vranks *vranks) {
    uint32_t most = (vranks->total + vranks->rank_count - 1) / vranks->rank_count;
    for (uint32_t i = 0; i < most; i++)
        for (uint32_t k = 0; k < most; k++) TRY(ctx, exchange_round(ctx, c, x, vranks, i, k));
    return TSR_SUCCESS;
}

static tsr_result gather(tsr_ctx *ctx, const tsr_collective *c, tsr_exchanger *x,
                         const tsr_vranks *vranks) {
    shares s;
    share(c, vranks, c->element_bytes, &s);
    return x->kind->all_gather(ctx, x, c->to, s.first);
}

tsr_result tsr_collective_exchange(tsr_ctx *ctx, const tsr_collective *collective,
                                   tsr_exchanger *exchanger, const tsr_vranks *vranks,
                                   uint64_t sums_bytes) {
    switch (collective->kind) {
    case TSR_COLLECTIVE_ALL_REDUCE:
    case TSR_COLLECTIVE_REDUCE_SCATTER:
        return reduce(ctx, collective, exchanger, vranks, sums_bytes);
    case TSR_COLLECTIVE_BROADCAST: /* virtual rank 0 is on rank 0 */
        return exchanger->kind->broadcast(ctx, exchanger, 0, collective->to,
                                          collective->count * collective->element_bytes);
    case TSR_COLLECTIVE_ALL_GATHER:
        return gather(ctx, collective, exchanger, vranks);
    case TSR_COLLECTIVE_SLICE:
        return TSR_SUCCESS;
    case TSR_COLLECTIVE_ALL_TO_ALL:
        return exchange_all(ctx, collective, exchanger, vranks);
    }
    TSR_ASSERT(!"a decoded program has no other collective");
    return TSR_SUCCESS;
}

/* Gathers on rank 0 the part of each other rank. */
static tsr_result gather_whole(tsr_ctx *ctx, const tsr_collective *c, tsr_transport *transport,
                               const tsr_vranks *vranks, char *whole) {
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
    uint64_t sent = transport->sent_bytes, received = transport->received_bytes;
    shares s;
    share(c, vranks, c->element_bytes, &s);
    for (uint32_t r = 0; r < vranks->rank_count; r++) {
        size_t size = s.first[r + 1] - s.first[r];
        sends[r] = receives[r] = (tsr_transport_segment){0};
        if (vranks->rank == 0 && r > 0)
            receives[r] = (tsr_transport_segment){whole + s.first[r], size, true};
        if (vranks->rank == r && r > 0)
            sends[0] = (tsr_transport_segment){(void *)(uintptr_t)c->own_sum, size, true};
    }
    TRY(ctx, tsr_all_to_all(ctx, transport, sends, receives));
    transport->sent_bytes = sent;
    transport->received_bytes = received;
    return TSR_SUCCESS;
}

static bool has_whole_sum(const tsr_collective *c, const tsr_vranks *vranks) {
    return vranks->rank_count == 1 || c->kind == TSR_COLLECTIVE_ALL_REDUCE;
}

uint64_t tsr_collective_own_bytes(const tsr_collective *c, const tsr_vranks *vranks) {
    if (has_whole_sum(c, vranks)) return c->count * c->element_bytes;
    return begin_bytes(c, tsr_vranks_first(vranks, vranks->rank + 1)) -
           begin_bytes(c, vranks->first);
}

tsr_result tsr_collective_tell(tsr_ctx *ctx, const tsr_collective *collective,
                               tsr_transport *transport, const tsr_vranks *vranks,
                               const tsr_loop_observer *observer) {
    if (!observer->find || !collective->own_sum) return TSR_SUCCESS;
    char *whole = observer->find(observer->user, collective->command);
    if (vranks->rank == 0)
        memcpy(whole, collective->own_sum, (size_t)tsr_collective_own_bytes(collective, vranks));
    return has_whole_sum(collective, vranks)
               ? TSR_SUCCESS
               : gather_whole(ctx, collective, transport, vranks, whole);
}

uint64_t tsr_collective_plan(const tsr_collective *c, const tsr_transport *transport,
                             const tsr_vranks *vranks) {
    shares s;
    bool reduces = c->kind == TSR_COLLECTIVE_ALL_REDUCE || c->kind == TSR_COLLECTIVE_REDUCE_SCATTER;
    share(c, vranks, reduces ? 1 : c->element_bytes, &s);
    const tsr_reduce_options options = reduction_of(c, vranks, 0, &s);
    uint64_t others = vranks->rank_count - 1, other_vranks = vranks->total - vranks->count;
    switch (c->kind) {
    case TSR_COLLECTIVE_ALL_REDUCE:
        return tsr_all_reduce_plan(transport, &options);
    case TSR_COLLECTIVE_REDUCE_SCATTER:
        return tsr_reduce_scatter_plan(transport, &options, s.first);
    case TSR_COLLECTIVE_BROADCAST:
        return vranks->rank == 0 ? others * c->count * c->element_bytes : 0;
    case TSR_COLLECTIVE_ALL_GATHER:
        return tsr_all_gather_plan(transport, s.first);
    case TSR_COLLECTIVE_ALL_TO_ALL:
        return vranks->count * other_vranks * c->part * c->element_bytes;
    case TSR_COLLECTIVE_SLICE:
        return 0;
    }
    TSR_ASSERT(!"a decoded program has no other collective");
    return 0;
}
