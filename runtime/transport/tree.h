/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual ranks. A program fixes the number V of positions that a batch is spread over; whatever a
 * batch is summed to (gradients, norms, the loss) is summed over these V leaves by one binary tree,
 * so that the bits do not depend on how many ranks there are. A tree of n leaves has the largest
 * power of two below n on its left.
 *
 *                  +
 *             +         \           V = 6, two ranks of three leaves: rank 0 holds the subtrees
 *           +   +        +          {0 1} and {2}, rank 1 {3} and {4 5}. With W = 3 each rank
 *          0 1 2 3      4 5         holds one.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TREE_H
#define TSR_RUNTIME_TRANSPORT_TREE_H

#include "runtime/base/result.h"

enum { TSR_LEAVES_MAX = 4096, TSR_TREE_DEPTH_MAX = 13 };

typedef enum tsr_reduction {
#define X(name, type, expression) TSR_REDUCTION_##name,
#include "runtime/transport/reductions.def"
#undef X
    TSR_REDUCTION_COUNT
} tsr_reduction;
size_t tsr_reduction_get_size(tsr_reduction reduction); /* bytes of an element */

typedef struct tsr_subtree {
    uint32_t first_leaf, leaf_count;
} tsr_subtree;

/* How many of `leaf_count` leaves (2 or more) are on the left. */
uint32_t tsr_tree_split(uint32_t leaf_count);

/* The largest subtrees that together hold leaves [first, first + count) of a tree of `leaf_count`
 * (up to TSR_LEAVES_MAX), in order; their number, at most `count`. NULL: only the number. */
uint32_t tsr_tree_cover(uint32_t leaf_count, uint32_t first, uint32_t count,
                        tsr_subtree *out_subtrees);

/* out[i] = a[i] + b[i], or what the reduction is; out may be a or b. */
void tsr_tree_combine(tsr_reduction reduction, void *out, const void *a, const void *b,
                      size_t count);

/* One result from the results of subtrees. */
typedef struct tsr_tree_inputs {
    tsr_reduction reduction;
    uint32_t leaf_count;
    const tsr_subtree *subtrees; /* borrowed; together all leaves, in order */
    const void *const *values;   /* borrowed; by subtree: `count` elements */
    size_t count;
    void *scratch; /* borrowed; TSR_TREE_DEPTH_MAX times `count` elements */
} tsr_tree_inputs;

/* out: `count` elements; may be one of the values, otherwise apart from them. */
void tsr_tree_reduce(const tsr_tree_inputs *inputs, void *out);

#endif
