/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/turn.h"

#include "runtime/exec/collective.h"
#include "runtime/transport/collective.h"

/* A rank has one leaf in a turn. */
typedef struct division {
    uint32_t first_leaf[TSR_TRANSPORT_RANKS_MAX + 1];
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1]; /* elements */
} division;

static tsr_reduce_options divide(const tsr_turn *turn, const tsr_vranks *vranks, division *out) {
    for (uint32_t r = 0; r <= vranks->rank_count; r++) {
        uint64_t first = tsr_vranks_first(vranks, r) * turn->part;
        out->first[r] = (size_t)(first < turn->count ? first : turn->count);
    }
    return tsr_vranks_divide(vranks,
                             (tsr_reduce_options){.reduction = turn->reduction,
                                                  .rows = turn->from,
                                                  .count = (size_t)turn->count},
                             out->first_leaf);
}

static char *slot_of(const tsr_turn *turn, uint32_t slot) {
    return slot == TSR_VRANK_SUMMAND ? turn->to : turn->slots + slot * turn->slot_bytes;
}

tsr_result tsr_turn_exchange(tsr_ctx *ctx, const tsr_turn *turn, tsr_transport *transport,
                             const tsr_vranks *vranks) {
    division d;
    const tsr_vrank_fold *fold = &turn->fold;
    if (turn->gather) return tsr_collective_exchange(ctx, turn->gather, transport, vranks, 0);
    const tsr_reduce_options options = divide(turn, vranks, &d);
    if (!turn->slots) return tsr_all_reduce(ctx, transport, &options, turn->to);
    TRY(ctx, tsr_reduce_scatter(ctx, transport, &options, d.first,
                                fold->step_count ? turn->to : slot_of(turn, fold->copy_to)));
    size_t count = d.first[vranks->rank + 1] - d.first[vranks->rank];
    for (uint32_t i = 0; i < fold->step_count; i++)
        tsr_tree_combine(turn->reduction, slot_of(turn, fold->steps[i].out),
                         slot_of(turn, fold->steps[i].a), slot_of(turn, fold->steps[i].b), count);
    return TSR_SUCCESS;
}

uint64_t tsr_turn_plan(const tsr_turn *turn, const tsr_transport *transport,
                       const tsr_vranks *vranks) {
    division d;
    if (turn->gather) return tsr_collective_plan(turn->gather, transport, vranks);
    const tsr_reduce_options options = divide(turn, vranks, &d);
    return turn->slots ? tsr_reduce_scatter_plan(transport, &options, d.first)
                       : tsr_all_reduce_plan(transport, &options);
}
