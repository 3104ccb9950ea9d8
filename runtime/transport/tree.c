/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/transport/tree.h"

#include "runtime/base/array.h"

#include <string.h>

/* The compiler vectorises blocks of a fixed length. */
enum { BLOCK = 16 };
#define X(name, type, expression)                                                                  \
    static void combine_##name(void *out_bytes, const void *a_bytes, const void *b_bytes,          \
                               size_t count) {                                                     \
        type *out = out_bytes;                                                                     \
        const type *as = a_bytes, *bs = b_bytes;                                                   \
        size_t i = 0;                                                                              \
        for (; i + BLOCK <= count; i += BLOCK) {                                                   \
            type results[BLOCK];                                                                   \
            for (size_t j = 0; j < BLOCK; j++) {                                                   \
                type a = as[i + j], b = bs[i + j];                                                 \
                results[j] = expression;                                                           \
            }                                                                                      \
            memcpy(out + i, results, sizeof results);                                              \
        }                                                                                          \
        for (; i < count; i++) {                                                                   \
            type a = as[i], b = bs[i];                                                             \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }
#include "runtime/transport/reductions.def"
#undef X

static const struct {
    size_t size_bytes;
    void (*combine)(void *out, const void *a, const void *b, size_t count);
} reductions[] = {
#define X(name, type, expression) [TSR_REDUCTION_##name] = {sizeof(type), combine_##name},
#include "runtime/transport/reductions.def"
#undef X
};
static_assert(TSR_COUNT(reductions) == TSR_REDUCTION_COUNT, "one row each");

size_t tsr_reduction_get_size(tsr_reduction reduction) { return reductions[reduction].size_bytes; }

void tsr_tree_combine(tsr_reduction reduction, void *out, const void *a, const void *b,
                      size_t count) {
    reductions[reduction].combine(out, a, b, count);
}

uint32_t tsr_tree_split(uint32_t leaf_count) {
    TSR_ASSERT(leaf_count >= 2);
    return UINT32_C(1) << (31 - __builtin_clz(leaf_count - 1));
}

/* Covers within the subtree of `all` leaves that starts at `begin`. */
static uint32_t cover(uint32_t begin, uint32_t all, uint32_t first, uint32_t end,
                      tsr_subtree *out) {
    if (first >= begin + all || end <= begin) return 0;
    if (first <= begin && begin + all <= end) {
        if (out) *out = (tsr_subtree){begin, all};
        return 1;
    }
    uint32_t left = tsr_tree_split(all);
    uint32_t count = cover(begin, left, first, end, out);
    return count + cover(begin + left, all - left, first, end, out ? out + count : NULL);
}

uint32_t tsr_tree_cover(uint32_t leaf_count, uint32_t first, uint32_t count,
                        tsr_subtree *out_subtrees) {
    TSR_ASSERT(leaf_count <= TSR_LEAVES_MAX && first <= leaf_count && count <= leaf_count - first);
    return count ? cover(0, leaf_count, first, first + count, out_subtrees) : 0;
}

typedef struct walk {
    const tsr_tree_inputs *inputs;
    uint32_t next; /* index of a subtree */
    size_t row_bytes;
} walk;

static const void *reduce(walk *w, tsr_subtree part, uint32_t level, void *out) {
    const tsr_tree_inputs *in = w->inputs;
    tsr_subtree given = in->subtrees[w->next];
    if (given.leaf_count == part.leaf_count) {
        TSR_ASSERT(given.first_leaf == part.first_leaf);
        return in->values[w->next++];
    }
    TSR_ASSERT(part.leaf_count > 1 && level < TSR_TREE_DEPTH_MAX);
    uint32_t split = tsr_tree_split(part.leaf_count);
    unsigned char *own = (unsigned char *)in->scratch + level * w->row_bytes;
    const void *left = reduce(w, (tsr_subtree){part.first_leaf, split}, level, own);
    const void *right = reduce(w, (tsr_subtree){part.first_leaf + split, part.leaf_count - split},
                               level + 1, own + w->row_bytes);
    reductions[in->reduction].combine(out, left, right, in->count);
    return out;
}

void tsr_tree_reduce(const tsr_tree_inputs *inputs, void *out) {
    walk w = {.inputs = inputs,
              .row_bytes = inputs->count * tsr_reduction_get_size(inputs->reduction)};
    const void *result = reduce(&w, (tsr_subtree){0, inputs->leaf_count}, 0, out);
    if (result != out && w.row_bytes) memcpy(out, result, w.row_bytes);
}

typedef struct planner {
    const tsr_subtree *subtrees;
    tsr_tree_step *steps;
    uint32_t next, step_count, temporary_count; /* next: index of a subtree */
} planner;

/* Returns the operand with the result, which is `out` unless the part is one of the subtrees. */
static uint32_t plan(planner *p, tsr_subtree part, uint32_t level, uint32_t out) {
    if (p->subtrees[p->next].leaf_count == part.leaf_count) return p->next++;
    TSR_ASSERT(part.leaf_count > 1 && level < TSR_TREE_DEPTH_MAX);
    uint32_t split = tsr_tree_split(part.leaf_count);
    uint32_t left = plan(p, (tsr_subtree){part.first_leaf, split}, level, TSR_TREE_SCRATCH + level);
    uint32_t right = plan(p, (tsr_subtree){part.first_leaf + split, part.leaf_count - split},
                          level + 1, TSR_TREE_SCRATCH + level + 1);
    const uint32_t operands[] = {left, right};
    for (size_t i = 0; i < TSR_COUNT(operands); i++)
        if (operands[i] >= TSR_TREE_SCRATCH && operands[i] - TSR_TREE_SCRATCH >= p->temporary_count)
            p->temporary_count = operands[i] - TSR_TREE_SCRATCH + 1;
    p->steps[p->step_count++] = (tsr_tree_step){out, left, right};
    return out;
}

uint32_t tsr_tree_plan(uint32_t leaf_count, const tsr_subtree *subtrees, tsr_tree_step *out_steps) {
    planner p = {.subtrees = subtrees, .steps = out_steps};
    plan(&p, (tsr_subtree){0, leaf_count}, 0, TSR_TREE_OUT);
    return p.temporary_count;
}
