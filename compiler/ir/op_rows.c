/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of op_rows.def.
 */
#include "compiler/ir/op_rows.h"

#include <string.h>

static const tsr_op_row rows[TSR_OP_COUNT] = {
#define X(ID, cls, cost, can_fault)                                                                \
    [TSR_##ID] = {.id = TSR_##ID, .op_class = TSR_CLASS_##cls, .weight = cost, .faults = can_fault},
#include "compiler/ir/op_rows.def"
#undef X
};

const tsr_op_row *tsr_op_row_find(MlirOperation op) {
    const tsr_op_row *row = &rows[tsr_op_of(op)];
    return row->op_class == TSR_CLASS_OTHER ? NULL : row;
}

bool tsr_op_is_width_cast(MlirOperation op) {
    tsr_type from, to;
    if (!tsr_op_is(op, TSR_GRAPH_CAST) || !tsr_value_type(tsr_op_operand(op, 0), &from) ||
        !tsr_value_type(tsr_op_result(op, 0), &to))
        return false;
    bool widens = to.dtype == TSR_DTYPE_F32;
    tsr_dtype narrow = widens ? from.dtype : to.dtype;
    return (widens || from.dtype == TSR_DTYPE_F32) &&
           (narrow == TSR_DTYPE_BF16 || narrow == TSR_DTYPE_F16);
}

bool tsr_op_is_view(MlirOperation op) {
    int64_t axis = 0;
    tsr_type from, to;
    if (tsr_op_is(op, TSR_GRAPH_RESHAPE)) return true;
    return tsr_op_is(op, TSR_GRAPH_WORDS) && tsr_op_i64(op, "axis", &axis) &&
           tsr_value_type(tsr_op_operand(op, 0), &from) &&
           tsr_value_type(tsr_op_result(op, 0), &to) && axis + 1 == (int64_t)from.shape.rank &&
           from.shape.dims[axis] == to.shape.dims[axis] * tsr_dtype_size(to.dtype);
}

bool tsr_op_row_is_computed(const tsr_op_row *row) {
    switch (row->op_class) {
    case TSR_CLASS_CONSTANT:
    case TSR_CLASS_MAP:
    case TSR_CLASS_MATMUL:
    case TSR_CLASS_REDUCE:
    case TSR_CLASS_MOVE:
    case TSR_CLASS_ALONE:
    case TSR_CLASS_WIDE:
    case TSR_CLASS_VIEW:
        return true;
    default:
        return false;
    }
}

const char *tsr_op_group_kind(const tsr_op_row *row) {
    switch (row->op_class) {
    case TSR_CLASS_MATMUL:
        return "matmul";
    case TSR_CLASS_REDUCE:
        return "reduce";
    case TSR_CLASS_ALONE:
    case TSR_CLASS_WIDE:
        return strchr(tsr_op_text(row->id), '.') + 1;
    default:
        return "map";
    }
}

bool tsr_shape_stretches(const tsr_shape *from, const tsr_shape *to) {
    if (from->rank > to->rank) return false;
    for (uint32_t i = 0; i < from->rank; i++) {
        uint64_t dim = from->dims[from->rank - 1 - i];
        if (dim != 1 && dim != to->dims[to->rank - 1 - i]) return false;
    }
    return true;
}
