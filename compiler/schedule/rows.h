/* SPDX-License-Identifier: Apache-2.0
 *
 * When nodes make a `rows` group: reductions over the same last dims, and elementwise nodes before,
 * between and after them, so that one kernel goes over the rows and keeps each in cache: softmax,
 * the norms, their gradients.
 *
 * FULL is the shape reduced, KEPT what the reductions leave. A node lies over FULL (its rank is
 * that of FULL) or over KEPT. A reshape that adds or drops the reduced dims as dims of size 1 leads
 * from one to the other. Results have the shape FULL, KEPT, or KEPT with such dims.
 *
 * With native numerics sums over rows are there, too, of what is as large as FULL: all over
 * the same last ones of the kept dims, or all of them. Nothing in the group reads them.
 *
 * Columns are the same where other dims follow those that are reduced, as a softmax over channels
 * before places has it: of FULL [outer, reduced, inner] KEPT is [outer, inner], and elementwise
 * nodes over FULL read what reductions leave. Some columns side by side are gone over together.
 *
 * Repairs of the same rows, over any dims, are a group without a reduction, with the elementwise
 * nodes before the rows' elements. It reads nothing of a row that is not computed again.
 */
#ifndef TSR_COMPILER_SCHEDULE_ROWS_H
#define TSR_COMPILER_SCHEDULE_ROWS_H

#include "compiler/mlir.h"
#include "compiler/schedule/fusion.h"

enum {
    /* Of a row, all arguments together. The machine that runs a program is not the one that
     * compiles it: a second-level cache of 512 KiB to 2 MiB is what CPUs of these levels have. */
    TSR_ROWS_BYTES_MAX = 512 * 1024,
    /* The same of long rows, which stay in a core's share of a third-level cache, where there are
     * enough of them for threads: a row is one thread's. */
    TSR_ROWS_LONG_BYTES_MAX = 8 * 1024 * 1024,
    TSR_ROWS_LONG_MIN = 32,
    /* Where there are sums over rows. */
    TSR_ROWS_INPUTS_MAX = 12,
    TSR_ROWS_OUTPUTS_MAX = 8,
};

typedef struct tsr_rows_set {
    const tsr_fuse_node *nodes;
    const uint32_t *members; /* ascending */
    uint32_t member_count;
    const uint32_t *inputs, *outputs; /* of the group */
    uint32_t input_count, output_count;
} tsr_rows_set;

/* False if the nodes make none. *out_operations: their weighted elementwise work; the reductions
 * are not counted. *out_idle: columns that nothing goes over again; a reshape stands for a reader
 * that may be merged later. */
bool tsr_rows_fit(const tsr_rows_set *set, uint64_t *out_operations, bool *out_idle);

/* The first reduction of such nodes, not one over rows. */
uint32_t tsr_rows_root(const tsr_rows_set *set);

/* Sets what a rows group needs to know of the node of this op: `trailing`, `across`, `sums_rows`,
 * and kind KEEP. */
void tsr_rows_note(MlirOperation op, tsr_fuse_node *node);

#endif
