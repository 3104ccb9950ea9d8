/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual ranks. A program fixes the number V of positions over which a batch is spread; all sums
 * over a batch (gradients, norms, the loss) are computed over these V leaves with one binary tree,
 * so that the bits do not depend on the number of ranks. In a tree of n leaves, the left subtree
 * has the largest power of two below n.
 *
 *                  +
 *             +         \           V = 6, two ranks of three leaves: rank 0 holds the subtrees
 *           +   +        +          {0 1} and {2}, rank 1 {3} and {4 5}. With W = 3 each rank
 *          0 1 2 3      4 5         has one subtree.
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

/* Number of leaves on the left of a tree with `leaf_count` leaves (2 or more). */
uint32_t tsr_tree_split(uint32_t leaf_count);

/* Finds the largest subtrees that together contain leaves [first, first + count) of a tree with
 * `leaf_count` leaves (up to TSR_LEAVES_MAX), in order; returns their number, at most `count`.
 * NULL: returns only the number. */
uint32_t tsr_tree_cover(uint32_t leaf_count, uint32_t first, uint32_t count,
                        tsr_subtree *out_subtrees);

/* out[i] = a[i] + b[i], or another reduction; out may be a or b. */
void tsr_tree_combine(tsr_reduction reduction, void *out, const void *a, const void *b,
                      size_t count);

/* Combines the results of subtrees into one result. */
typedef struct tsr_tree_inputs {
    tsr_reduction reduction;
    uint32_t leaf_count;
    const tsr_subtree *subtrees; /* borrowed; together they contain all leaves, in order */
    const void *const *values;   /* borrowed; for each subtree: `count` elements */
    size_t count;
    void *scratch; /* borrowed; TSR_TREE_DEPTH_MAX times `count` elements */
} tsr_tree_inputs;

/* out: `count` elements; may be one of the values, otherwise it must not overlap them. */
void tsr_tree_reduce(const tsr_tree_inputs *inputs, void *out);

/* The additions of tsr_tree_reduce as a list, for values that the host does not have: out = a and b
 * combined. An operand is the index of a subtree, TSR_TREE_OUT, or TSR_TREE_SCRATCH + n, which is
 * temporary value n. */
enum { TSR_TREE_OUT = TSR_LEAVES_MAX, TSR_TREE_SCRATCH };
typedef struct tsr_tree_step {
    uint32_t out, a, b;
} tsr_tree_step;
/* Writes one step less than there are subtrees; returns the number of temporary values. With a
 * single subtree there is no step: its value is the result. */
uint32_t tsr_tree_plan(uint32_t leaf_count, const tsr_subtree *subtrees, tsr_tree_step *out_steps);

#endif
