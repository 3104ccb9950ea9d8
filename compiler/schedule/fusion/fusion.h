/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which ops of one straight-line entry become one kernel. Works on plain structs: fuse.c
 * fills them from Graph IR and writes the groups back as Schedule IR.
 *
 * A group is one of
 *   map      elementwise nodes over one shape; every output has that shape;
 *   matmul   one matmul, then elementwise nodes over its result's shape; no nodes before it, for
 *            which it would have to pack its operand A (compiler/tile/PERFORMANCE.md);
 *   reduce   elementwise nodes over the input's shape, one reduction, elementwise nodes over its
 *            result's shape; outputs have the result's shape;
 *   rows     reductions over the same dims with the nodes around them (rows.h);
 *   alone    a single node of any other kind, with the PARTs that are its other results; if it
 *            `casts`, optionally with a cast of its operand 0 before it, and one of its result
 *            after it. An op that is not a kernel, such as a loop, is also alone.
 *
 * Method: every node begins as its own group; the pair of groups whose merger saves most by the
 * cost model is merged, repeatedly (Jangda & Guha's and XLA's priority fusion work alike).
 * Then three kinds of nodes are copied into all their readers if that saves more: the last nodes
 * after a product on matrix units, for example casts that widen; values that a rows group stores
 * and only other rows groups read, which can be recomputed from values that are stored in any case
 * and a few numbers of each row; and map groups whose values are cheap.
 * Nodes that a plan puts in one group are merged first, whatever it costs, and with no others.
 * All arithmetic uses exact integers, and ties go to the earlier node, so that equal inputs give
 * equal groups.
 *
 * Cost model, in units of the time to move one byte through the second-level cache: a launch, the
 * bytes each group reads and writes (each value once), and per element the weights of the
 * elementwise nodes at the size of the iteration they run in.
 */
#ifndef TSR_COMPILER_SCHEDULE_FUSION_FUSION_H
#define TSR_COMPILER_SCHEDULE_FUSION_FUSION_H

#include "runtime/base/arena.h"
#include "runtime/base/tensor.h"

enum {
    TSR_FUSE_NONE = UINT32_MAX,
    TSR_FUSE_LAUNCH_COST = 20000,
    TSR_FUSE_NODES_MAX = 64,     /* maximum nodes of a merged group */
    TSR_FUSE_ARGUMENTS_MAX = 32, /* maximum inputs and outputs of a merged group */
    /* Groups that only share an input are merged up to this many bytes of arguments: larger ones
     * gain nothing and would keep more values alive. */
    TSR_FUSE_SIDEWAYS_BYTES_MAX = 256 * 1024,
};

typedef enum tsr_fuse_kind {
    TSR_FUSE_SOURCE, /* available before any kernel: argument, parameter, state, dense constant
                      */
    TSR_FUSE_SPLAT,  /* constant of one value: free inside a kernel, a SOURCE if read whole */
    TSR_FUSE_MAP,    /* elementwise, operands broadcast to the result's shape */
    TSR_FUSE_MATMUL,
    TSR_FUSE_REDUCE,  /* a reduction of operand 0 */
    TSR_FUSE_RESHAPE, /* a reshape that adds or drops dims of size 1; alone, or in a rows group */
    TSR_FUSE_REPAIR, /* a repair of rows of operand 0, which has size 1 for these dims; alone, or in
                      * a rows group */
    TSR_FUSE_ALONE,
    TSR_FUSE_PART, /* a further result of an ALONE node, its only operand; PARTs follow their node
                    * directly */
} tsr_fuse_kind;

/* One op, or one result of an op with several. */
typedef struct tsr_fuse_node {
    tsr_fuse_kind kind;
    tsr_dtype dtype;
    tsr_shape shape;          /* shape of the result */
    uint32_t operand_count;   /* 0 for SOURCE and SPLAT */
    const uint32_t *operands; /* indices of earlier nodes; borrowed */
    uint32_t weight;          /* MAP: cost units per element */
    uint32_t trailing;        /* REDUCE: number of dims, if exactly the last ones are reduced; else
                               * 0 */
    /* REDUCE: first dim and number of dims, if these are consecutive and do not include the last
     * dim; else 0. If `trailing` is 0 as well, the node cannot be in a rows group. */
    uint32_t middle_begin, middle;
    bool sums_rows; /* REDUCE with `middle`: a sum of f32, which may be computed over the rows of a
                     * group */
    uint32_t axes;  /* REPAIR: a bit for each dim of a row */
    bool lone;      /* REPAIR: does not belong to a norm */
    bool pairs;     /* REPAIR: of rows of operands 0 and 1 */
    bool stays;     /* REPAIR: only rows groups read it, so it is not stored */
    bool live_out;  /* returned, or assigned to a tensor */
    uint32_t replaces; /* the SOURCE (or TSR_FUSE_NONE) whose tensor it is assigned to */
    bool faults;       /* its kernel can report a bad index, which ends the step */
    bool fills;        /* operand 0 is copied: a SPLAT is computed inside */
    bool on_units;     /* MATMUL: final nodes that store a wider type than necessary are left to its
                        * readers */
    bool apart; /* MAP: never in a group with an op that is not `apart`, or that only shares inputs
                 * with it */
    uint32_t
        planned; /* the group that a plan puts it in, 1-based; 0: none. Never merged with others. */
    bool casts;  /* ALONE: reads operand 0 through a cast to f32, and writes its result through a
                  * cast to 16 bits, if there are such casts */
    bool is_cast;   /* MAP: widens 16 bits to f32, or narrows f32 to 16 bits */
    bool vrank;     /* runs for each virtual rank: never merged with nodes that do not */
    bool no_kernel; /* ALONE: stays unchanged, with any number of operands and PARTs */
} tsr_fuse_node;

typedef struct tsr_fuse_group {
    uint32_t *nodes; /* ascending; includes SPLAT nodes and copies of other groups' nodes */
    uint32_t node_count;
    uint32_t root;    /* its MATMUL, REDUCE (the first), KEEP or ALONE node; TSR_FUSE_NONE: a map */
    bool rows;        /* a rows group */
    uint32_t *inputs; /* nodes, in the order of first use */
    uint32_t *outputs; /* nodes, ascending, REPAIR last; at least one */
    uint32_t input_count, output_count;
    uint64_t read_bytes, written_bytes;
    uint64_t operations; /* weighted elementwise work; the root's is not counted */
    uint32_t planned;    /* `planned` of its nodes */
} tsr_fuse_group;

typedef struct tsr_fuse_plan {
    tsr_fuse_group *groups; /* in execution order */
    uint32_t group_count;
} tsr_fuse_plan;

/* Builds the plan. Nodes without readers are left out. Everything is in the arena. A node with its
 * PARTs has at most TSR_FUSE_ARGUMENTS_MAX operands and results, unless it is `no_kernel`. Fails
 * with TSR_MEMORY. */
TSR_RESULT tsr_fuse_plan_build(tsr_ctx *ctx, const tsr_fuse_node *nodes, uint32_t node_count,
                               tsr_arena *arena, tsr_fuse_plan *out_plan);

/* Puts the groups of a plan into execution order. Operands come first. A group that overwrites a
 * tensor comes after all readers of its old value and after every group that can fault, if the
 * dependencies allow it. Otherwise, groups that free more memory than they allocate run as early
 * as possible, and the others in source order. */
TSR_RESULT tsr_fuse_plan_order(tsr_ctx *ctx, const tsr_fuse_node *nodes, uint32_t node_count,
                               tsr_arena *arena, tsr_fuse_plan *plan);

#endif
