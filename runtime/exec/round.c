/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/round.h"

#include "runtime/exec/collective.h"
#include "runtime/transport/collective.h"

/* A rank has one virtual rank in a turn. */
typedef struct division {
    uint32_t first_leaf[TSR_TRANSPORT_RANKS_MAX + 1];
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1]; /* elements */
} division;

static tsr_reduce_options divide(const tsr_round *round, const tsr_vranks *vranks, division *out) {
    for (uint32_t r = 0; r <= vranks->rank_count; r++) {
        uint64_t first = tsr_vranks_first(vranks, r) * round->part;
        out->first[r] = (size_t)(first < round->count ? first : round->count);
    }
    return tsr_vranks_divide(vranks,
                             (tsr_reduce_options){.reduction = round->reduction,
                                                  .rows = round->from,
                                                  .count = (size_t)round->count},
                             out->first_leaf);
}

static char *slot_of(const tsr_round *round, uint32_t slot) {
    return slot == TSR_VRANK_SUMMAND ? round->to : round->slots + slot * round->slot_bytes;
}

tsr_result tsr_round_exchange(tsr_ctx *ctx, const tsr_round *round, tsr_exchanger *exchanger,
                              const tsr_vranks *vranks) {
    division d;
    const tsr_vrank_fold *fold = &round->fold;
    if (round->gather) return tsr_collective_exchange(ctx, round->gather, exchanger, vranks, 0);
    const tsr_reduce_options options = divide(round, vranks, &d);
    const tsr_exchanger_kind *kind = exchanger->kind;
    if (!round->slots) return kind->all_reduce(ctx, exchanger, &options, round->to);
    TRY(ctx, kind->reduce_scatter(ctx, exchanger, &options, d.first,
                                  fold->step_count ? round->to : slot_of(round, fold->copy_to)));
    size_t count = d.first[vranks->rank + 1] - d.first[vranks->rank];
    for (uint32_t i = 0; i < fold->step_count; i++)
        TRY(ctx, kind->combine(ctx, exchanger, round->reduction, slot_of(round, fold->steps[i].out),
                               slot_of(round, fold->steps[i].a), slot_of(round, fold->steps[i].b),
                               count));
    return TSR_SUCCESS;
}

uint64_t tsr_round_plan(const tsr_round *round, const tsr_transport *transport,
                        const tsr_vranks *vranks) {
    division d;
    if (round->gather) return tsr_collective_plan(round->gather, transport, vranks);
    const tsr_reduce_options options = divide(round, vranks, &d);
    return round->slots ? tsr_reduce_scatter_plan(transport, &options, d.first)
                        : tsr_all_reduce_plan(transport, &options);
}
