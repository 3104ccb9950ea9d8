/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of groups of kind "batch": only elementwise ops, and no op reads two segments.
 */
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/schedule/schedule.h"

#include <string.h>

enum { NO_SEGMENT = UINT32_MAX - 1 }; /* marks values that all segments read */

typedef struct checker {
    MlirOperation func, last;
    tsr_arena arena;
    tsr_segments segments;
    tsr_value_map owners; /* value -> segment */
} checker;

static bool set_owner(checker *c, MlirValue value, uint32_t segment) {
    return tsr_value_map_set(&c->owners, &c->arena, value, segment) ||
           tsr_op_emit_error(c->func, TSR_DIAG_MEMORY, "no memory to verify");
}

static bool check_op(checker *c, MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    uint32_t segment = NO_SEGMENT;
    if (!row || (row->op_class != TSR_CLASS_MAP && row->op_class != TSR_CLASS_CONSTANT))
        return tsr_op_emit_error(op, TSR_DIAG_GROUP_OP, "is not allowed in a group of segments");
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        uint32_t of = tsr_value_map_get(&c->owners, tsr_op_operand(op, i));
        if (of == NO_SEGMENT) continue;
        if (segment != NO_SEGMENT && of != segment)
            return tsr_op_emit_error(op, TSR_DIAG_GROUP_OP, "reads values of two segments");
        segment = of;
    }
    return set_owner(c, tsr_op_result(op, 0), segment);
}

static bool check_return(checker *c) {
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(c->func, "function_type"));
    size_t count = tsr_op_operand_count(c->last);
    if ((size_t)mlirFunctionTypeGetNumResults(type) != count)
        return tsr_op_emit_error(c->last, TSR_DIAG_GROUP_RETURN,
                                 "returns another number of values than the function declares");
    for (size_t i = 0; i < count; i++) {
        MlirValue value = tsr_op_operand(c->last, i);
        if (mlirOperationIsNull(tsr_value_owner(value)) ||
            !mlirTypeEqual(mlirValueGetType(value), mlirFunctionTypeGetResult(type, (intptr_t)i)))
            return tsr_op_emit_error(
                c->last, TSR_DIAG_GROUP_RETURN,
                "returns an input, or another type than the function declares");
        if (tsr_value_map_get(&c->owners, value) != i / c->segments.outputs)
            return tsr_op_emit_error(c->last, TSR_DIAG_GROUP_RETURN,
                                     "returns a value of another segment");
    }
    return true;
}

/* All values of a segment can be broadcast to the shape of its results, which have one common
 * shape. */
static bool check_shapes(const checker *c) {
    for (size_t i = 0; i < tsr_op_operand_count(c->last); i++) {
        tsr_type type, first;
        size_t of = i / c->segments.outputs * c->segments.outputs;
        if (!tsr_value_type(tsr_op_operand(c->last, i), &type) ||
            !tsr_value_type(tsr_op_operand(c->last, of), &first) || !tsr_type_is_static(&type))
            return tsr_op_emit_error(c->last, TSR_DIAG_GROUP_TYPE, "output of unknown type");
        if (!tsr_shape_equal(&type.shape, &first.shape))
            return tsr_op_emit_error(c->last, TSR_DIAG_GROUP_SHAPE,
                                     "all outputs of a segment must have the same shape");
    }
    TSR_FOR_EACH_OP(op, tsr_op_body(c->func)) {
        tsr_type type, wanted;
        if (mlirOperationEqual(op, c->last)) break;
        uint32_t segment = tsr_value_map_get(&c->owners, tsr_op_result(op, 0));
        if (segment == NO_SEGMENT) continue;
        if (!tsr_value_type(tsr_op_result(op, 0), &type) ||
            !tsr_value_type(tsr_op_operand(c->last, segment * c->segments.outputs), &wanted) ||
            !tsr_shape_stretches(&type.shape, &wanted.shape))
            return tsr_op_emit_error(op, TSR_DIAG_GROUP_SHAPE,
                                     "its shape does not broadcast to its segment's shape");
    }
    return true;
}

static bool check(checker *c) {
    MlirBlock block = tsr_op_body(c->func);
    size_t inputs = (size_t)mlirBlockGetNumArguments(block);
    c->last = (MlirOperation){NULL};
    TSR_FOR_EACH_OP(op, block) {
        if (tsr_op_is(op, TSR_SCHED_RETURN)) c->last = op;
    }
    if (mlirOperationIsNull(c->last))
        return tsr_op_emit_error(c->func, TSR_DIAG_GROUP_RETURN,
                                 "the body must end in tsched.return");
    if (!tsr_segments_read(c->func, inputs, tsr_op_operand_count(c->last), &c->segments))
        return tsr_op_emit_error(c->func, TSR_DIAG_GROUP_KIND,
                                 TSR_SEGMENTS_NAME
                                 " is not [segments, inputs of one] for its arguments");
    for (size_t i = 0; i < inputs; i++) {
        bool own = i < (size_t)c->segments.count * c->segments.inputs;
        if (!set_owner(c, mlirBlockGetArgument(block, (intptr_t)i),
                       own ? (uint32_t)(i / c->segments.inputs) : NO_SEGMENT))
            return false;
    }
    TSR_FOR_EACH_OP(op, block) {
        if (mlirOperationEqual(op, c->last)) break;
        if (!check_op(c, op)) return false;
    }
    return check_return(c) && check_shapes(c);
}

bool tsr_segments_verify(MlirOperation func) {
    checker c = {.func = func};
    bool good = check(&c);
    tsr_arena_finish(&c.arena);
    return good;
}
