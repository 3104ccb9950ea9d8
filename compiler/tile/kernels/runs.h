/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the families that move elements: the group's arguments, the split of a
 * row-major [rows, columns] result over programs, and runs of consecutive elements. Elements are
 * moved in their stored type.
 */
#ifndef TSR_COMPILER_TILE_KERNELS_RUNS_H
#define TSR_COMPILER_TILE_KERNELS_RUNS_H

#include "compiler/tile/region.h"

/* The number of the argument that is operand `index` of the root. TSR_INTERNAL if it is computed in
 * the group, or if the group returns anything but the root's results in order. */
TSR_RESULT tsr_runs_argument(tsr_tile_group *group, size_t index, uint32_t *out_number);

/* [outer, size, inner]: a shape seen from one axis. */
typedef struct tsr_axis {
    int64_t outer, size, inner;
} tsr_axis;
tsr_axis tsr_axis_of(const tsr_shape *shape, int64_t axis);

/* This program's share: the rows of a loop, and in each the columns [begin, end). */
typedef struct tsr_strip {
    tsr_tile_loop loop;
    MlirValue row, begin, end;
    int64_t width; /* end - begin is at most this */
} tsr_strip;
/* Splits the work over programs, also inside rows unless `whole_rows`; sets group->grid. rows and
 * columns are at least 1. `bytes` is the cost of a column. */
void tsr_strip_begin(tsr_tile_group *group, int64_t rows, int64_t columns, int64_t bytes,
                     bool whole_rows, tsr_strip *out_strip);
void tsr_strip_end(tsr_tile_group *group, tsr_strip *strip);

/* `count` elements, at most `most`; a count below 0 is 0. */
typedef struct tsr_run {
    tsr_dtype dtype;
    MlirValue count;
    int64_t most;
} tsr_run;
void tsr_run_copy(tsr_tile_builder *b, const tsr_run *run, MlirValue from, MlirValue from_offset,
                  MlirValue to, MlirValue to_offset);
/* value: a scalar of the stored type */
void tsr_run_fill(tsr_tile_builder *b, const tsr_run *run, MlirValue value, MlirValue to,
                  MlirValue to_offset);

MlirValue tsr_tile_max(tsr_tile_builder *b, MlirValue x, MlirValue y); /* index values */
/* True if x is sorted before y, regardless of their positions. NaNs are sorted last. */
MlirValue tsr_order_before(tsr_tile_builder *b, tsr_dtype dtype, bool descending, MlirValue x,
                           MlirValue y);

#endif
