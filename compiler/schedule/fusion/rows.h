/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions for a `rows` group: reductions over the same last dims, and elementwise nodes before,
 * between and after them, so that one kernel iterates over the rows and keeps each in cache.
 * Examples are softmax, the norms and their gradients.
 *
 * FULL is the shape that is reduced, KEPT the shape of the results. A node is over FULL (its rank
 * is that of FULL) or over KEPT. A reshape that adds or drops the reduced dims as dims of size 1
 * connects FULL and KEPT. Results have the shape FULL, KEPT, or KEPT with such dims.
 *
 * With native numerics a group may also contain sums over rows, of values as large as FULL. All
 * these sums are over the same last parallel dims, or over all parallel dims. No node of the group
 * reads them.
 *
 * Columns are the same case with other dims after the reduced ones, such as a softmax over
 * channels in front of positions: if FULL is [outer, reduced, inner], KEPT is [outer, inner], and
 * elementwise nodes over FULL read the results of reductions. Adjacent columns are processed
 * together.
 *
 * Repairs of the same rows, over any dims, are a group without a reduction, with the elementwise
 * nodes that compute the rows' elements. The group does not read rows that need no repair.
 */
#ifndef TSR_COMPILER_SCHEDULE_FUSION_ROWS_H
#define TSR_COMPILER_SCHEDULE_FUSION_ROWS_H

#include "compiler/ir/mlir.h"
#include "compiler/schedule/fusion/fusion.h"

enum {
    /* Maximum bytes of a row, all arguments together. The machine that runs a program is not the
     * one that compiles it: the CPU levels that targets name have a second-level cache of 512 KiB
     * to 2 MiB. */
    TSR_ROWS_BYTES_MAX = 512 * 1024,
    /* The same for long rows, which stay in a core's share of a third-level cache, if there are
     * enough rows for the threads: a row belongs to one thread. */
    TSR_ROWS_LONG_BYTES_MAX = 8 * 1024 * 1024,
    TSR_ROWS_LONG_MIN = 32,
    /* Limits for groups with sums over rows. */
    TSR_ROWS_INPUTS_MAX = 12,
    TSR_ROWS_OUTPUTS_MAX = 8,
};

typedef struct tsr_rows_set {
    const tsr_fuse_node *nodes;
    const uint32_t *members; /* ascending */
    uint32_t member_count;
    const uint32_t *inputs, *outputs; /* nodes of the group */
    uint32_t input_count, output_count;
} tsr_rows_set;

/* False if the nodes do not form a rows group. *out_operations: their weighted elementwise work,
 * without the reductions. *out_idle: columns that are only read once; a reshape represents a
 * reader that may be merged later. */
bool tsr_rows_fit(const tsr_rows_set *set, uint64_t *out_operations, bool *out_idle);

/* Returns the first reduction among the nodes that is not over rows. */
uint32_t tsr_rows_root(const tsr_rows_set *set);

/* Sets the fields of the op's node that a rows group needs: `trailing`, `across`, `sums_rows`, and
 * kind KEEP. */
void tsr_rows_note(MlirOperation op, tsr_fuse_node *node);

#endif
