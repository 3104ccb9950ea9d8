/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/round.h"

#include "runtime/exec/collective.h"
#include "runtime/transport/collective.h"

/* A rank has one leaf of a round. */
typedef struct division {
    uint32_t first_leaf[TSR_TRANSPORT_RANKS_MAX + 1];
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1]; /* elements */
} division;

static tsr_reduce_options divide(const tsr_round *round, const tsr_leaves *leaves, division *out) {
    for (uint32_t r = 0; r <= leaves->rank_count; r++) {
        uint64_t first = tsr_leaves_first(leaves, r) * round->part;
        out->first[r] = (size_t)(first < round->count ? first : round->count);
    }
    return tsr_leaves_divide(leaves,
                             (tsr_reduce_options){.reduction = round->reduction,
                                                  .rows = round->from,
                                                  .count = (size_t)round->count},
                             out->first_leaf);
}

static char *slot_of(const tsr_round *round, uint32_t slot) {
    return slot == TSR_LEAF_SUMMAND ? round->to : round->slots + slot * round->slot_bytes;
}

tsr_result tsr_round_exchange(tsr_ctx *ctx, const tsr_round *round, tsr_transport *transport,
                              const tsr_leaves *leaves) {
    division d;
    const tsr_leaf_fold *fold = &round->fold;
    if (round->gather) return tsr_collective_exchange(ctx, round->gather, transport, leaves, 0);
    const tsr_reduce_options options = divide(round, leaves, &d);
    if (!round->slots) return tsr_all_reduce(ctx, transport, &options, round->to);
    TRY(ctx, tsr_reduce_scatter(ctx, transport, &options, d.first,
                                fold->step_count ? round->to : slot_of(round, fold->copy_to)));
    size_t count = d.first[leaves->rank + 1] - d.first[leaves->rank];
    for (uint32_t i = 0; i < fold->step_count; i++)
        tsr_tree_combine(round->reduction, slot_of(round, fold->steps[i].out),
                         slot_of(round, fold->steps[i].a), slot_of(round, fold->steps[i].b), count);
    return TSR_SUCCESS;
}

uint64_t tsr_round_plan(const tsr_round *round, const tsr_transport *transport,
                        const tsr_leaves *leaves) {
    division d;
    if (round->gather) return tsr_collective_plan(round->gather, transport, leaves);
    const tsr_reduce_options options = divide(round, leaves, &d);
    return round->slots ? tsr_reduce_scatter_plan(transport, &options, d.first)
                        : tsr_all_reduce_plan(transport, &options);
}
