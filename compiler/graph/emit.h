/* SPDX-License-Identifier: Apache-2.0
 *
 * Building tessera ops with their types worked out. Operands must be static tensors of our element
 * types and fit the op: anything else is a bug of the caller.
 */
#ifndef TSR_COMPILER_GRAPH_EMIT_H
#define TSR_COMPILER_GRAPH_EMIT_H

#include "compiler/graph/graph.h"

tsr_type tsr_type_of(MlirValue value);
/* A scalar constant of this element type. */
MlirValue tsr_emit_constant(tsr_builder *builder, tsr_dtype dtype, double value);
/* Ops of one operand without attributes. */
MlirValue tsr_emit_unary(tsr_builder *builder, const char *name, MlirValue x);
/* add, sub, mul, div, max, min, pow, ipow: broadcast, element type of `a` */
MlirValue tsr_emit_binary(tsr_builder *builder, const char *name, MlirValue a, MlirValue b);
MlirValue tsr_emit_compare(tsr_builder *builder, tsr_predicate predicate, MlirValue a, MlirValue b);
MlirValue tsr_emit_where(tsr_builder *builder, MlirValue condition, MlirValue a, MlirValue b);
MlirValue tsr_emit_cast(tsr_builder *builder, MlirValue x, tsr_dtype dtype);
MlirValue tsr_emit_matmul(tsr_builder *builder, MlirValue a, MlirValue b, bool transpose_a,
                          bool transpose_b);
/* sum, mean, reduce_max, reduce_min or reduce_prod over sorted, distinct axes */
MlirValue tsr_emit_reduce(tsr_builder *builder, const char *name, MlirValue x, size_t axis_count,
                          const int64_t *axes);
MlirValue tsr_emit_reshape(tsr_builder *builder, MlirValue x, const tsr_shape *shape);
MlirValue tsr_emit_broadcast(tsr_builder *builder, MlirValue x, const tsr_shape *shape);

/* Sums `x` over what broadcasting `shape` to x's shape had stretched: the gradient of a broadcast.
 */
MlirValue tsr_emit_sum_to(tsr_builder *builder, MlirValue x, const tsr_shape *shape);
/* Undoes the removal of `axes` (of a tensor of shape `full`) and stretches to `full`. */
MlirValue tsr_emit_expand(tsr_builder *builder, MlirValue x, const tsr_shape *full,
                          size_t axis_count, const int64_t *axes);

/* ---- arithmetic ------------------------------------------------------------------------------ */

MlirValue tsr_emit_add(tsr_builder *builder, MlirValue a, MlirValue b);
MlirValue tsr_emit_sub(tsr_builder *builder, MlirValue a, MlirValue b);
MlirValue tsr_emit_mul(tsr_builder *builder, MlirValue a, MlirValue b);
MlirValue tsr_emit_div(tsr_builder *builder, MlirValue a, MlirValue b);
/* A scalar constant of x's element type. */
MlirValue tsr_emit_number(tsr_builder *builder, MlirValue x, double value);
/* bf16 and f16 as f32, others as they are: what sums and functions are computed in. */
MlirValue tsr_emit_wide(tsr_builder *builder, MlirValue x);
/* Over sorted, distinct axes, which disappear: the sum times 1/n. */
MlirValue tsr_emit_mean(tsr_builder *builder, MlirValue x, size_t axis_count, const int64_t *axes);
/* `plain`, one number for each row of x; where it is not finite, it is computed again. `of` is
 * "average" or "variance". At least one axis. */
MlirValue tsr_emit_repair(tsr_builder *builder, const char *of, MlirValue x, MlirValue plain,
                          size_t axis_count, const int64_t *axes);

/* ---- moving elements ------------------------------------------------------------------------- */

/* A constant of one value everywhere. */
MlirValue tsr_emit_filled(tsr_builder *builder, const tsr_type *type, double value);
/* `stride` and `interior` may be NULL: 1, and 0. */
MlirValue tsr_emit_slice(tsr_builder *builder, MlirValue x, const int64_t *start,
                         const int64_t *size, const int64_t *stride);
MlirValue tsr_emit_pad(tsr_builder *builder, MlirValue x, const int64_t *low, const int64_t *high,
                       const int64_t *interior, double value);
enum { TSR_CONCAT_PARTS_MAX = 16 }; /* of one op; a kernel has a limited number of arguments */
/* Any number of parts, by several ops if need be. */
MlirValue tsr_emit_concat(tsr_builder *builder, size_t count, const MlirValue *parts,
                          uint32_t axis);
MlirValue tsr_emit_transpose(tsr_builder *builder, MlirValue x, const int64_t *permutation);
/* The place along `axis`: dims before it are left out, those after it are 1, so that it broadcasts
 * to `shape`. `dtype` must hold the dim exactly. */
MlirValue tsr_emit_places(tsr_builder *builder, const tsr_shape *shape, uint32_t axis,
                          tsr_dtype dtype);
/* i64: where in the row-major elements of `full` the element lies that `indices` names along
 * `axis`. `indices` has the dims of `full`, except along the axis. */
MlirValue tsr_emit_flat_indices(tsr_builder *builder, MlirValue indices, uint32_t axis,
                                const tsr_shape *full);

/* Reads the state `name` of parameter `of`, which is all zeros at first. */
MlirValue tsr_emit_state(tsr_builder *builder, const tsr_type *type, const char *name,
                         const char *of, const char *kind);

/* Results of `op` are replaced by the values, and the op is destroyed. */
void tsr_emit_replace(MlirOperation op, size_t count, const MlirValue *values);

#endif
