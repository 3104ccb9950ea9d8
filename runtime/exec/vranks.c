/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/vranks.h"

#include "runtime/base/array.h"
#include "runtime/base/plural.h"

#include <inttypes.h>

uint32_t tsr_vranks_first(const tsr_vranks *vranks, uint32_t rank) {
    return (uint32_t)((uint64_t)vranks->total * rank / vranks->rank_count);
}

tsr_result tsr_vranks_share(tsr_ctx *ctx, uint64_t total, uint32_t rank, uint32_t rank_count,
                            tsr_vranks *out_vranks) {
    TSR_ASSERT(rank < rank_count);
    if (total > TSR_LEAVES_MAX)
        FAIL(ctx, TSR_USAGE, "the program has %" PRIu64 " virtual rank%s; at most %d can be run",
             total, TSR_PLURAL(total), TSR_LEAVES_MAX);
    if (rank_count > total)
        FAIL(ctx, TSR_USAGE,
             "%u rank%s for %" PRIu64 " virtual rank%s; expected at most one rank for each (a "
             "build with --virtual-ranks has more)",
             rank_count, TSR_PLURAL(rank_count), total, TSR_PLURAL(total));
    tsr_vranks vranks = {.total = (uint32_t)total, .rank = rank, .rank_count = rank_count};
    vranks.first = tsr_vranks_first(&vranks, rank);
    vranks.count = tsr_vranks_first(&vranks, rank + 1) - vranks.first;
    *out_vranks = vranks;
    return TSR_SUCCESS;
}

uint32_t tsr_vranks_number(const tsr_vranks *vranks, uint32_t index) {
    return vranks->by_rounds ? index * vranks->rank_count + vranks->rank : vranks->first + index;
}

bool tsr_vranks_have_rounds(const tsr_vranks *vranks) {
    uint32_t ranks = vranks->rank_count;
    return vranks->total % ranks == 0 && ((ranks & (ranks - 1)) == 0 || ranks == vranks->total);
}

/* One gather, or one gather for each round: where each gather begins, and the part of it that each
 * rank has. */
uint32_t tsr_vranks_divide_rows(const tsr_vranks *vranks, size_t vrank_bytes,
                                size_t *out_first_byte) {
    for (uint32_t r = 0; r <= vranks->rank_count; r++)
        out_first_byte[r] = (vranks->by_rounds ? r : tsr_vranks_first(vranks, r)) * vrank_bytes;
    return vranks->by_rounds ? vranks->count : 1;
}

tsr_result tsr_vranks_gather(tsr_ctx *ctx, const tsr_vranks *vranks, tsr_transport *transport,
                             void *bytes, size_t vrank_bytes) {
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    uint32_t rounds = tsr_vranks_divide_rows(vranks, vrank_bytes, first_byte);
    for (uint32_t i = 0; i < rounds; i++)
        TRY(ctx, tsr_all_gather(ctx, transport, (char *)bytes + i * first_byte[vranks->rank_count],
                                first_byte));
    return TSR_SUCCESS;
}

uint64_t tsr_vranks_plan_gather(const tsr_vranks *vranks, const tsr_transport *transport,
                                size_t vrank_bytes) {
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    uint32_t rounds = tsr_vranks_divide_rows(vranks, vrank_bytes, first_byte);
    return rounds * tsr_all_gather_plan(transport, first_byte);
}

tsr_reduce_options tsr_vranks_divide(const tsr_vranks *vranks, tsr_reduce_options of,
                                     uint32_t *first_leaf) {
    for (uint32_t r = 0; r <= vranks->rank_count; r++)
        first_leaf[r] = vranks->by_rounds ? r : tsr_vranks_first(vranks, r);
    of.leaf_count = first_leaf[vranks->rank_count];
    of.first_leaf = first_leaf;
    return of;
}

tsr_reduction tsr_vranks_reduction(tsr_dtype dtype) {
    return dtype == TSR_DTYPE_F32   ? TSR_REDUCTION_SUM_F32
           : dtype == TSR_DTYPE_F64 ? TSR_REDUCTION_SUM_F64
                                    : TSR_REDUCTION_SUM_I64;
}

/* Two subtrees side by side are one when together they are a subtree. */
static bool are_siblings(uint32_t total, tsr_subtree a, tsr_subtree b) {
    return tsr_tree_cover(total, a.first_leaf, a.leaf_count + b.leaf_count, NULL) == 1;
}

void tsr_vranks_fold(const tsr_vranks *vranks, uint32_t index, tsr_vrank_fold *out_fold) {
    /* Turns are the leaves of a tree, too: the upper part of the one of all virtual ranks. */
    uint32_t first = vranks->by_rounds ? 0 : vranks->first;
    uint32_t total = vranks->by_rounds ? vranks->count : vranks->total;
    tsr_subtree stack[2 * TSR_TREE_DEPTH_MAX], top = {first + index, 1};
    TSR_ASSERT(index < vranks->count);
    uint32_t depth = tsr_tree_cover(total, first, index, NULL);
    TSR_ASSERT(depth < TSR_COUNT(stack));
    tsr_tree_cover(total, first, index, stack);
    *out_fold = (tsr_vrank_fold){.copy_to = depth};
    for (uint32_t slot = TSR_VRANK_SUMMAND; depth > 0 && are_siblings(total, stack[depth - 1], top);
         slot = depth) {
        depth--;
        out_fold->steps[out_fold->step_count++] =
            (tsr_vrank_step){.out = depth, .a = depth, .b = slot};
        top.first_leaf = stack[depth].first_leaf;
        top.leaf_count += stack[depth].leaf_count;
    }
    out_fold->slots_taken = depth + 1;
}

uint32_t tsr_vranks_count_slots(const tsr_vranks *vranks) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < vranks->count; i++) {
        tsr_vrank_fold fold;
        tsr_vranks_fold(vranks, i, &fold);
        if (fold.slots_taken > most) most = fold.slots_taken;
    }
    return most;
}
