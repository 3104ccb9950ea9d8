/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reductions and argmax share: the iteration space of the reduction's input, an
 * elementwise region before it, one after it.
 */
#ifndef TSR_COMPILER_TILE_REDUCE_H
#define TSR_COMPILER_TILE_REDUCE_H

#include "compiler/tile/region.h"

enum { TSR_PARTIALS = 64 };

/* How two partial results become one, and what partial results start with. */
typedef struct tsr_reduction_op {
    const char *name;
    MlirValue (*combine)(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
    MlirValue (*identity)(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);
} tsr_reduction_op;
extern const tsr_reduction_op tsr_reduction_sum, tsr_reduction_max;
/* Of tessera.sum and the like; NULL: another op. */
const tsr_reduction_op *tsr_reduction_op_of(MlirOperation op);

typedef struct tsr_reduction {
    tsr_tile_group *group;
    tsr_region before, after; /* the reduction's operand; the group's results */
    tsr_view *outputs;
    tsr_node *given;                              /* of `after`: the reduction's result */
    tsr_space space;                              /* collapsed; at least one dimension */
    tsr_dtype dtype;                              /* reduced in this type */
    const tsr_reduction_op *op;                   /* NULL: argmax */
    bool kept[TSR_RANK_MAX], outer[TSR_RANK_MAX]; /* outer: kept but for a kept last one */
    int64_t kept_count, reduced_count;            /* points */
    uint32_t reduced_dims;
    bool along; /* the last dimension is reduced */
} tsr_reduction;

TSR_RESULT tsr_reduction_init(tsr_tile_group *group, tsr_reduction *out_reduction);
/* x op y of partial results */
MlirValue tsr_reduction_combine(tsr_reduction *r, MlirValue x, MlirValue y);
MlirValue tsr_reduction_identity(tsr_reduction *r, uint32_t lanes);
/* The halving tree over the lanes of a vector. */
MlirValue tsr_reduction_tree(tsr_reduction *r, MlirValue partials, uint32_t lanes);
/* Sets the result, computes and stores what follows it. */
void tsr_reduction_finish(tsr_reduction *r, MlirValue result, const tsr_point *point);

/* A loop over this program's share of `count` items, at least `per_program` bytes worth; sets
 * group->grid. Ends with tsr_tile_loop_end. */
void tsr_reduction_programs(tsr_reduction *r, int64_t count, int64_t bytes_per_item,
                            tsr_tile_loop *loop);

#endif
