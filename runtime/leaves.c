/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/leaves.h"

uint32_t tsr_leaves_first(const tsr_leaves *leaves, uint32_t rank) {
    return (uint32_t)((uint64_t)leaves->total * rank / leaves->rank_count);
}

tsr_result tsr_leaves_share(tsr_ctx *ctx, uint64_t total, uint32_t rank, uint32_t rank_count,
                            tsr_leaves *out_leaves) {
    TSR_ASSERT(rank < rank_count);
    if (total > TSR_LEAVES_MAX)
        FAIL(ctx, TSR_USAGE, "the program has %llu virtual ranks; at most %d can be run",
             (unsigned long long)total, TSR_LEAVES_MAX);
    if (rank_count > total)
        FAIL(ctx, TSR_USAGE,
             "%u ranks for %llu virtual rank%s; expected at most one rank for each (a build with "
             "--virtual-ranks has more)",
             rank_count, (unsigned long long)total, total == 1 ? "" : "s");
    tsr_leaves leaves = {.total = (uint32_t)total, .rank = rank, .rank_count = rank_count};
    leaves.first = tsr_leaves_first(&leaves, rank);
    leaves.count = tsr_leaves_first(&leaves, rank + 1) - leaves.first;
    *out_leaves = leaves;
    return TSR_SUCCESS;
}

tsr_reduction tsr_leaves_reduction(tsr_dtype dtype) {
    return dtype == TSR_DTYPE_F32   ? TSR_REDUCTION_SUM_F32
           : dtype == TSR_DTYPE_F64 ? TSR_REDUCTION_SUM_F64
                                    : TSR_REDUCTION_SUM_I64;
}

/* Two subtrees side by side are one when together they are a subtree. */
static bool are_siblings(const tsr_leaves *leaves, tsr_subtree a, tsr_subtree b) {
    return tsr_tree_cover(leaves->total, a.first_leaf, a.leaf_count + b.leaf_count, NULL) == 1;
}

void tsr_leaves_fold(const tsr_leaves *leaves, uint32_t index, tsr_leaf_fold *out_fold) {
    tsr_subtree stack[2 * TSR_TREE_DEPTH_MAX], top = {leaves->first + index, 1};
    TSR_ASSERT(index < leaves->count);
    uint32_t depth = tsr_tree_cover(leaves->total, leaves->first, index, NULL);
    TSR_ASSERT(depth < sizeof stack / sizeof stack[0]);
    tsr_tree_cover(leaves->total, leaves->first, index, stack);
    *out_fold = (tsr_leaf_fold){.copy_to = depth};
    for (uint32_t slot = TSR_LEAF_SUMMAND; depth > 0 && are_siblings(leaves, stack[depth - 1], top);
         slot = depth) {
        depth--;
        out_fold->steps[out_fold->step_count++] =
            (tsr_leaf_step){.out = depth, .a = depth, .b = slot};
        top.first_leaf = stack[depth].first_leaf;
        top.leaf_count += stack[depth].leaf_count;
    }
    out_fold->slots_taken = depth + 1;
}

uint32_t tsr_leaves_count_slots(const tsr_leaves *leaves) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < leaves->count; i++) {
        tsr_leaf_fold fold;
        tsr_leaves_fold(leaves, i, &fold);
        if (fold.slots_taken > most) most = fold.slots_taken;
    }
    return most;
}
