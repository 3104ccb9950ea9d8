/* SPDX-License-Identifier: Apache-2.0
 *
 * What each op of Graph IR is to the passes that decide about kernels, and what it costs
 * (op_rows.def).
 */
#ifndef TSR_COMPILER_IR_OP_ROWS_H
#define TSR_COMPILER_IR_OP_ROWS_H

#include "compiler/ir/mlir.h"

typedef enum tsr_op_class {
    TSR_CLASS_OTHER, /* not in op_rows.def */
    TSR_CLASS_SOURCE,
    TSR_CLASS_CONSTANT,
    TSR_CLASS_MAP,
    TSR_CLASS_MATMUL,
    TSR_CLASS_REDUCE,
    TSR_CLASS_MOVE,
    TSR_CLASS_ALONE,
    TSR_CLASS_WIDE,
    TSR_CLASS_BARRIER,
    TSR_CLASS_LOOP,
    TSR_CLASS_VIEW,
    TSR_CLASS_VRANK,
    TSR_CLASS_COLLECTIVE,
    TSR_CLASS_TAKE,
    TSR_CLASS_JOIN,
    TSR_CLASS_SINK,
} tsr_op_class;

typedef struct tsr_op_row {
    tsr_op id;
    tsr_op_class op_class;
    uint32_t weight;
    bool faults;
} tsr_op_row;

/* The op's row of op_rows.def; NULL if it has none, or the op is null. */
const tsr_op_row *tsr_op_row_find(MlirOperation op);
/* True if a kernel computes the op, so that it may be in a fusion group. */
bool tsr_op_row_is_computed(const tsr_op_row *row);
/* True if the op widens 16 bits to f32, or narrows f32 to 16 bits. */
bool tsr_op_is_width_cast(MlirOperation op);
/* True for a reshape, and for words of elements that are neighbours: the result has the bytes of
 * the operand, and between kernels it is the operand's buffer. */
bool tsr_op_is_view(MlirOperation op);
/* "map", "reduce", "matmul", or the name of an op that is the only op of its group
 * ("cross_entropy"). */
const char *tsr_op_group_kind(const tsr_op_row *row);
/* Approximate floating-point operations of an op that is not elementwise; saturates. */
uint64_t tsr_op_work(MlirOperation op);
/* NumPy broadcasting: true if `from` can be broadcast to `to`. */
bool tsr_shape_stretches(const tsr_shape *from, const tsr_shape *to);

#endif
