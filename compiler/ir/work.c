/* SPDX-License-Identifier: Apache-2.0
 *
 * The floating-point operations of one op that is not elementwise; a launch uses them to decide
 * whether to split its work among threads.
 */
#include "compiler/ir/op_rows.h"

static uint64_t multiply(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static tsr_shape shape_of(MlirValue value) {
    tsr_type type = {0};
    bool known = tsr_value_type(value, &type);
    TSR_ASSERT(known);
    return type.shape;
}

static uint64_t elements(const tsr_shape *shape) {
    uint64_t count = 0;
    return tsr_shape_count(shape, &count) ? count : UINT64_MAX;
}

static uint64_t matmul_work(MlirOperation op) {
    tsr_shape lhs = shape_of(tsr_op_operand(op, 0)), result = shape_of(tsr_op_result(op, 0));
    uint64_t depth = lhs.dims[lhs.rank - (tsr_op_flag(op, "transpose_a") ? 2 : 1)];
    return multiply(2 * depth, elements(&result));
}

/* Every element of a convolution's result is a sum over the filter of one feature. */
static uint64_t convolution_work(const tsr_shape *filter, const tsr_shape *result) {
    uint64_t each = filter->dims[0] * filter->dims[1] * filter->dims[2];
    return multiply(2 * each, elements(result));
}

/* Two products over all pairs of queries and keys, five for the gradient. */
static uint64_t attention_work(MlirOperation op, uint64_t products) {
    tsr_shape q = shape_of(tsr_op_operand(op, 0)), k = shape_of(tsr_op_operand(op, 1));
    return multiply(2 * products * k.dims[2], elements(&q));
}

/* Ops that only order others take and return tokens; they compute nothing. */
static bool has_shapes(MlirOperation op) {
    tsr_type type;
    size_t operands = tsr_op_operand_count(op) > 2 ? 2 : tsr_op_operand_count(op);
    if (tsr_op_result_count(op) == 0 || !tsr_value_type(tsr_op_result(op, 0), &type)) return false;
    for (size_t i = 0; i < operands; i++)
        if (!tsr_value_type(tsr_op_operand(op, i), &type)) return false;
    return true;
}

uint64_t tsr_op_work(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    if (!row || !has_shapes(op)) return 0;
    if (row->op_class == TSR_CLASS_MATMUL) return matmul_work(op);
    tsr_shape result = shape_of(tsr_op_result(op, 0));
    if (tsr_op_operand_count(op) == 0) return multiply(row->weight, elements(&result));
    tsr_shape first = shape_of(tsr_op_operand(op, 0));
    if (tsr_op_is(op, TSR_GRAPH_ATTENTION)) return attention_work(op, 2);
    if (tsr_op_is(op, TSR_GRAPH_ATTENTION_GRAD)) return attention_work(op, 5);
    if (tsr_op_operand_count(op) > 1) {
        tsr_shape second = shape_of(tsr_op_operand(op, 1));
        if (tsr_op_is(op, TSR_GRAPH_CONV2D)) return convolution_work(&second, &result);
        if (tsr_op_is(op, TSR_GRAPH_CONV2D_GRAD_INPUT)) return convolution_work(&first, &second);
        if (tsr_op_is(op, TSR_GRAPH_CONV2D_GRAD_FILTER)) return convolution_work(&result, &second);
    }
    return multiply(row->weight, elements(&first));
}
