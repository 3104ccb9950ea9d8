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

#endif
