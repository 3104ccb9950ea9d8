/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/leaves.h"

#include "runtime/base/plural.h"

uint32_t tsr_leaves_first(const tsr_leaves *leaves, uint32_t rank) {
    return (uint32_t)((uint64_t)leaves->total * rank / leaves->rank_count);
}

tsr_result tsr_leaves_share(tsr_ctx *ctx, uint64_t total, uint32_t rank, uint32_t rank_count,
                            tsr_leaves *out_leaves) {
    TSR_ASSERT(rank < rank_count);
    if (total > TSR_LEAVES_MAX)
        FAIL(ctx, TSR_USAGE, "the program has %llu virtual rank%s; at most %d can be run",
             (unsigned long long)total, TSR_PLURAL(total), TSR_LEAVES_MAX);
    if (rank_count > total)
        FAIL(ctx, TSR_USAGE,
             "%u rank%s for %llu virtual rank%s; expected at most one rank for each (a build with "
             "--virtual-ranks has more)",
             rank_count, TSR_PLURAL(rank_count), (unsigned long long)total, TSR_PLURAL(total));
    tsr_leaves leaves = {.total = (uint32_t)total, .rank = rank, .rank_count = rank_count};
    leaves.first = tsr_leaves_first(&leaves, rank);
    leaves.count = tsr_leaves_first(&leaves, rank + 1) - leaves.first;
    *out_leaves = leaves;
    return TSR_SUCCESS;
}

uint32_t tsr_leaves_number(const tsr_leaves *leaves, uint32_t index) {
    return leaves->by_turns ? index * leaves->rank_count + leaves->rank : leaves->first + index;
}

bool tsr_leaves_can_turn(const tsr_leaves *leaves) {
    uint32_t ranks = leaves->rank_count;
    return leaves->total % ranks == 0 && ((ranks & (ranks - 1)) == 0 || ranks == leaves->total);
}

/* Divides one gather, or one gather per turn: the begin of each rank's bytes. Returns the number of
 * gathers. */
static uint32_t divide_rows(const tsr_leaves *leaves, size_t leaf_bytes, size_t *out_first_byte) {
    for (uint32_t r = 0; r <= leaves->rank_count; r++)
        out_first_byte[r] = (leaves->by_turns ? r : tsr_leaves_first(leaves, r)) * leaf_bytes;
    return leaves->by_turns ? leaves->count : 1;
}

tsr_result tsr_leaves_gather(tsr_ctx *ctx, const tsr_leaves *leaves, tsr_transport *transport,
                             void *bytes, size_t leaf_bytes) {
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    uint32_t turns = divide_rows(leaves, leaf_bytes, first_byte);
    for (uint32_t i = 0; i < turns; i++)
        TRY(ctx, tsr_all_gather(ctx, transport, (char *)bytes + i * first_byte[leaves->rank_count],
                                first_byte));
    return TSR_SUCCESS;
}

uint64_t tsr_leaves_plan_gather(const tsr_leaves *leaves, const tsr_transport *transport,
                                size_t leaf_bytes) {
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    uint32_t turns = divide_rows(leaves, leaf_bytes, first_byte);
    return turns * tsr_all_gather_plan(transport, first_byte);
}

tsr_reduce_options tsr_leaves_divide(const tsr_leaves *leaves, tsr_reduce_options of,
                                     uint32_t *first_leaf) {
    for (uint32_t r = 0; r <= leaves->rank_count; r++)
        first_leaf[r] = leaves->by_turns ? r : tsr_leaves_first(leaves, r);
    of.leaf_count = first_leaf[leaves->rank_count];
    of.first_leaf = first_leaf;
    return of;
}

tsr_reduction tsr_leaves_reduction(tsr_dtype dtype) {
    return dtype == TSR_DTYPE_F32   ? TSR_REDUCTION_SUM_F32
           : dtype == TSR_DTYPE_F64 ? TSR_REDUCTION_SUM_F64
                                    : TSR_REDUCTION_SUM_I64;
}

/* Two adjacent subtrees are siblings if together they are a subtree. */
static bool are_siblings(uint32_t total, tsr_subtree a, tsr_subtree b) {
    return tsr_tree_cover(total, a.first_leaf, a.leaf_count + b.leaf_count, NULL) == 1;
}

void tsr_leaves_fold(const tsr_leaves *leaves, uint32_t index, tsr_leaf_fold *out_fold) {
    /* Turns are the leaves of a tree, too: the upper part of the tree of all leaves. */
    uint32_t first = leaves->by_turns ? 0 : leaves->first;
    uint32_t total = leaves->by_turns ? leaves->count : leaves->total;
    tsr_subtree stack[2 * TSR_TREE_DEPTH_MAX], top = {first + index, 1};
    TSR_ASSERT(index < leaves->count);
    uint32_t depth = tsr_tree_cover(total, first, index, NULL);
    TSR_ASSERT(depth < sizeof stack / sizeof stack[0]);
    tsr_tree_cover(total, first, index, stack);
    *out_fold = (tsr_leaf_fold){.copy_to = depth};
    for (uint32_t slot = TSR_LEAF_SUMMAND; depth > 0 && are_siblings(total, stack[depth - 1], top);
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
