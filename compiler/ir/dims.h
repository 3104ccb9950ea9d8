/* SPDX-License-Identifier: Apache-2.0
 *
 * Dims of types. A dim of a tsr_shape is one of
 *
 *     known      its size
 *     open       an expression over symbols, whose values are bound later (dim_expression.h)
 *     dynamic    TSR_DIM_DYNAMIC: not inferred yet
 *
 * An open dim is the address of its expression, a string that MLIR keeps once per context, plus
 * TSR_DIM_OPEN. So == compares dims of one context, and tsr_shape_count refuses a shape with an
 * open dim, because no known dim is that large.
 */
#ifndef TSR_COMPILER_IR_DIMS_H
#define TSR_COMPILER_IR_DIMS_H

#include "compiler/ir/dim_expression.h"

#include <mlir-c/IR.h>

#define TSR_DIM_DYNAMIC UINT64_MAX
#define TSR_DIM_OPEN (UINT64_C(1) << 63)

static inline bool tsr_dim_is_known(uint64_t dim) { return dim < TSR_DIM_OPEN; }
static inline bool tsr_dim_is_open(uint64_t dim) {
    return dim >= TSR_DIM_OPEN && dim != TSR_DIM_DYNAMIC;
}
/* True if the dims are equal or one is dynamic. */
bool tsr_dim_fits(uint64_t a, uint64_t b);
/* "17", "N + 1" or "?". Returns `out_text`. */
const char *tsr_dim_text(uint64_t dim, char out_text[TSR_DIM_TEXT_MAX]);
/* The symbol, if the dim is one; else NULL. Borrowed from the MLIR context. */
const char *tsr_dim_symbol(uint64_t dim);

/* ---- attributes ------------------------------------------------------------------------------ */

/* The dim that a string or an integer describes; false for any other attribute, for a text that is
 * no expression, for a number below 0, and for an expression that is below 0 for all sizes. */
bool tsr_dim_read(MlirAttribute attr, uint64_t *out_dim);
/* A string, or an i64 for a known dim. The dim is not dynamic. */
MlirAttribute tsr_dim_attr(MlirContext context, uint64_t dim);

/* The expression of a known or open dim; its atoms are in the arena. */
tsr_dim_expression tsr_dim_to_expression(tsr_arena *arena, uint64_t dim);
/* The dim that an expression describes; false if it is below 0 for all sizes, or too long. */
bool tsr_dim_from_expression(MlirContext context, const tsr_dim_expression *expression,
                             uint64_t *out_dim);

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Dynamic if an operand is. False if the result is negative for all sizes of the symbols, needs
 * more than 63 bits, or is too long an expression. */
bool tsr_dim_add(uint64_t a, uint64_t b, uint64_t *out_dim);
bool tsr_dim_subtract(uint64_t a, uint64_t b, uint64_t *out_dim);
bool tsr_dim_multiply(uint64_t a, uint64_t b, uint64_t *out_dim);
/* a / b; false if that is no polynomial. */
bool tsr_dim_divide(uint64_t a, uint64_t b, uint64_t *out_dim);

typedef struct tsr_dim_affine {
    int64_t factor, offset, divisor;
} tsr_dim_affine;
/* floor((factor * dim + offset) / divisor) */
bool tsr_dim_map(uint64_t dim, const tsr_dim_affine *map, uint64_t *out_dim);

/* ---- values ---------------------------------------------------------------------------------- */

/* True if a is larger than b for all sizes of the symbols; they are at least 1. */
bool tsr_dim_exceeds(uint64_t a, uint64_t b);
/* The smallest and the largest size that the dim can have, for all sizes of the symbols. */
tsr_dim_range tsr_dim_sizes(uint64_t dim);
/* The dim's value for these values of its symbols. False if it is negative or needs more than 63
 * bits; a known dim is its own value. */
bool tsr_dim_value(uint64_t dim, tsr_dim_range_of value_of, void *user, uint64_t *out_value);
/* Calls `each` for every symbol of the dim. */
void tsr_dim_symbols(uint64_t dim, void (*each)(void *user, const char *symbol), void *user);

#endif
