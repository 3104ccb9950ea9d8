/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds tessera ops and infers their types. Operands must be static tensors of our element types
 * and fit the op: anything else is a bug of the caller.
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

/* Sums `x` over the dims along which `shape` was broadcast to x's shape: the gradient of a
 * broadcast. */
MlirValue tsr_emit_sum_to(tsr_builder *builder, MlirValue x, const tsr_shape *shape);
/* Restores the removed `axes` (of a tensor of shape `full`) and broadcasts to `full`. */
MlirValue tsr_emit_expand(tsr_builder *builder, MlirValue x, const tsr_shape *full,
                          size_t axis_count, const int64_t *axes);

/* ---- arithmetic ------------------------------------------------------------------------------ */

MlirValue tsr_emit_add(tsr_builder *builder, MlirValue a, MlirValue b);
MlirValue tsr_emit_sub(tsr_builder *builder, MlirValue a, MlirValue b);
MlirValue tsr_emit_mul(tsr_builder *builder, MlirValue a, MlirValue b);
MlirValue tsr_emit_div(tsr_builder *builder, MlirValue a, MlirValue b);
/* A scalar constant of x's element type. */
MlirValue tsr_emit_number(tsr_builder *builder, MlirValue x, double value);
/* Converts bf16 and f16 to f32, the type in which sums and functions are computed; other types are
 * unchanged. */
MlirValue tsr_emit_wide(tsr_builder *builder, MlirValue x);
/* The mean over sorted, distinct axes, which are removed: the sum times 1/n. */
MlirValue tsr_emit_mean(tsr_builder *builder, MlirValue x, size_t axis_count, const int64_t *axes);
typedef struct tsr_repair {
    const char *of; /* the op's attribute: rows.td */
    double eps;
    size_t axis_count; /* sorted, distinct */
    const int64_t *axes;
} tsr_repair;

/* `plain` has one number for each row of x; numbers that are not finite are computed again.
 * `centre` is the mean of an offset; else null. Without axes, the result is `plain`; of an offset,
 * -0. */
MlirValue tsr_emit_repair(tsr_builder *builder, const tsr_repair *repair, MlirValue x,
                          MlirValue plain, MlirValue centre);
/* With these operands, the last of which has the type of the result. There must be axes. */
MlirValue tsr_emit_repair_of(tsr_builder *builder, const tsr_repair *repair,
                             const MlirValue *operands, size_t operand_count);
/* The operand that is the result for a row that is not computed again; 0: *out_number is. */
size_t tsr_repair_plain(MlirOperation op, double *out_number);

/* ---- moving elements ------------------------------------------------------------------------- */

/* A constant with one value for all elements. */
MlirValue tsr_emit_filled(tsr_builder *builder, const tsr_type *type, double value);
/* `stride` and `interior` may be NULL: 1, and 0. */
MlirValue tsr_emit_slice(tsr_builder *builder, MlirValue x, const int64_t *start,
                         const int64_t *size, const int64_t *stride);
MlirValue tsr_emit_pad(tsr_builder *builder, MlirValue x, const int64_t *low, const int64_t *high,
                       const int64_t *interior, double value);
enum {
    TSR_CONCAT_PARTS_MAX = 16
}; /* maximum parts of one op; a kernel has a limited number of
    * arguments */
/* Any number of parts, using several ops if necessary. */
MlirValue tsr_emit_concat(tsr_builder *builder, size_t count, const MlirValue *parts,
                          uint32_t axis);
MlirValue tsr_emit_transpose(tsr_builder *builder, MlirValue x, const int64_t *permutation);
/* The index along `axis`: dims before it are left out and those after it are 1, so that it
 * broadcasts to `shape`. `dtype` must represent the dim exactly. */
MlirValue tsr_emit_iota(tsr_builder *builder, const tsr_shape *shape, uint32_t axis,
                        tsr_dtype dtype);
/* i64: the offset, in the row-major elements of `full`, of the element that `indices` selects
 * along `axis`. `indices` has the dims of `full`, except along the axis. */
MlirValue tsr_emit_flat_indices(tsr_builder *builder, MlirValue indices, uint32_t axis,
                                const tsr_shape *full);

/* Reads the state `name` of parameter `of`, whose initial value is zero. */
MlirValue tsr_emit_state(tsr_builder *builder, const tsr_type *type, const char *name,
                         const char *of, const char *kind);

/* Replaces the results of `op` by the values and destroys the op. */
void tsr_emit_replace(MlirOperation op, size_t count, const MlirValue *values);

#endif
