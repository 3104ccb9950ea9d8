/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of an entry's rows in a value, for tessera-prove-rows.
 *
 * The elements of a value, in row-major order, are numbered by factors, like the digits of a
 * number with mixed radix; the outermost factor comes first. A factor is a digit of the row's
 * number, or it is not: then elements along it are all the same, or they vary. An [N, S, D] tensor
 * with its rows along dim 0 is (digit N)(varies S*D); it keeps these factors when it is reshaped
 * to [N*S, D], since a reshape changes no element's offset. Factors of size 1 are left out.
 */
#ifndef TSR_COMPILER_GRAPH_ROWS_LAYOUT_H
#define TSR_COMPILER_GRAPH_ROWS_LAYOUT_H

#include "runtime/base/tensor.h"

typedef enum tsr_row_label {
    TSR_ROW_SAME,   /* elements are equal along it */
    TSR_ROW_VARIES, /* elements may differ, for other reasons than the row */
    TSR_ROW_DIGIT,  /* it is row / stride % size */
} tsr_row_label;

typedef struct tsr_row_factor {
    uint64_t size, stride; /* stride: for digits only, else 0 */
    tsr_row_label label;
} tsr_row_factor;

enum { TSR_ROW_FACTORS_MAX = 32 };
typedef struct tsr_row_layout {
    uint32_t count;
    tsr_row_factor factors[TSR_ROW_FACTORS_MAX];
} tsr_row_layout;

/* The factors of each dim of a value. */
typedef struct tsr_row_dims {
    uint32_t rank;
    tsr_row_layout dims[TSR_RANK_MAX];
} tsr_row_dims;

/* One factor; empty if size is 1 or 0. */
tsr_row_layout tsr_row_layout_of(uint64_t size, tsr_row_label label);
/* Appends factors inside the existing ones. False if there are too many. */
bool tsr_row_append(tsr_row_layout *layout, const tsr_row_layout *inner);
/* Splits the layout by dims of a shape. False if a digit crosses the boundary of two dims so that
 * it would be cut. All dims of a shape without elements are SAME. */
bool tsr_row_split(const tsr_row_layout *layout, const tsr_shape *shape, tsr_row_dims *out_dims);
/* Concatenates the dims. False if there are too many factors. */
bool tsr_row_merge(const tsr_row_dims *dims, tsr_row_layout *out_layout);

typedef enum tsr_row_fault {
    TSR_ROW_FINE,
    TSR_ROW_NUMBERED, /* rows are combined with values that vary: results would depend on the row's
                       * number */
    TSR_ROW_PAIRED,   /* rows are combined with other rows */
} tsr_row_fault;
/* Joins the layouts of `a` and `b` for a value that combines their elements at the same indices. */
tsr_row_fault tsr_row_join(const tsr_row_layout *a, const tsr_row_layout *b,
                           tsr_row_layout *out_layout);

bool tsr_row_has_digit(const tsr_row_layout *layout);
/* The product of all digits' sizes. */
uint64_t tsr_row_digits(const tsr_row_layout *layout);
/* The same layout with all factors varying except digits. */
tsr_row_layout tsr_row_vary(const tsr_row_layout *layout);
bool tsr_row_layout_equal(const tsr_row_layout *a, const tsr_row_layout *b);

#endif
