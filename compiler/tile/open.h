/* SPDX-License-Identifier: Apache-2.0
 *
 * Open dims at run time, on CPUs. The types of an entry have the largest sizes of its dims, and its
 * memory is planned for them. In a call, tensors are dense with the sizes of the call.
 *
 * A group whose values have the dim only as first dim, and whose ops keep the rows apart, computes
 * the rows that a call has: the kernel is that for the largest size, with another number of rows.
 * Any other group with open dims has extents (open/extent.h), and kernels that take strides and
 * ends of loops from them. In both, each element has the bits that it has in a program for exactly
 * those sizes.
 */
#ifndef TSR_COMPILER_TILE_OPEN_H
#define TSR_COMPILER_TILE_OPEN_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/region.h"

/* Finds the open values of each entry with an open dim. A group that computes some gets the dim as
 * its last input, and the attributes TSR_OPEN_TIMES_NAME and TSR_OPEN_HIGH_NAME; one with extents
 * has TSR_OPEN_TYPES_NAME, too. TSR_COMPILE after a diagnostic about an op that cannot compute
 * them. */
TSR_RESULT tsr_tile_open_entries(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                 tsr_arena *arena);
/* True if the family of this op (null: elementwise) computes rows of an open dim: lower.c. */
bool tsr_tile_op_is_open(MlirOperation root);
/* True if it has a kernel that takes extents. */
bool tsr_tile_op_takes_extents(MlirOperation root);

/* Reads the dim of a group that has one; its block is open. */
TSR_RESULT tsr_tile_open_begin(tsr_tile_group *group);
/* `count` rows, where the dim has its largest size: a constant if the group has no open dim. */
MlirValue tsr_tile_open_count(tsr_tile_group *group, int64_t count);
/* The kernel has parts * ceil(count / each) programs. */
void tsr_tile_open_grid(tsr_tile_group *group, int64_t count, int64_t each, int64_t parts);

/* ---- groups with extents --------------------------------------------------------------------- */

/* Sets the number of programs: for up to `high` items of `bytes` each, and fewer for smaller
 * dims. */
void tsr_open_programs(tsr_tile_group *group, int64_t high, int64_t bytes);
/* Begins a loop over this program's share of the items. */
void tsr_open_share(tsr_tile_group *group, MlirValue items, tsr_tile_loop *loop);
/* Computes a region at every point of a collapsed space, and stores its results. */
void tsr_open_emit_map(tsr_tile_group *group, tsr_region *region, tsr_view *outputs,
                       tsr_space *space);
TSR_RESULT tsr_open_lower_map(tsr_tile_group *group);
TSR_RESULT tsr_open_lower_reduce(tsr_tile_group *group); /* and argmax */
TSR_RESULT tsr_open_lower_matmul(tsr_tile_group *group);
TSR_RESULT tsr_open_lower_repair(tsr_tile_group *group);

#endif
