/* SPDX-License-Identifier: Apache-2.0
 *
 * Folding: replaces an op whose result is an operand, or a constant. Only if the folded value has
 * exactly the bits that the op would compute: no x + 0 (because of -0), no reassociation, no
 * functions that the targets compute with polynomials of their own.
 *
 * Floating-point arithmetic is done in double and rounded once more to f32, which gives the
 * correctly rounded f32 result for + - * / and sqrt (Figueroa 1995: 53 >= 2 * 24 + 2).
 */
#include "compiler/graph/rules.h"
#include "compiler/shim/shim.h"

#include <math.h>

typedef struct folding {
    MlirOperation op;
    tsr_op id;
    const MlirAttribute *constants; /* constants of the operands; null if unknown */
    tsr_type result;
    double x, y; /* the first two operands, valid if is_x, is_y */
    bool is_x, is_y;
} folding;

static MlirValue operand(const folding *f, size_t index) { return tsr_op_operand(f->op, index); }

/* Types with a dynamic dim may be those of different shapes. */
static bool same_type(const folding *f, size_t index) {
    return tsr_type_is_inferred(&f->result) &&
           mlirTypeEqual(mlirValueGetType(operand(f, index)),
                         mlirValueGetType(tsr_op_result(f->op, 0)));
}

/* True if numbers of this type are folded here. Loops count with i64 scalars. */
static bool is_computed(const tsr_type *type) {
    return tsr_dtype_is_float(type->dtype) ||
           (type->dtype == TSR_DTYPE_I64 && type->shape.rank == 0);
}

/* Reads a constant operand whose elements are all the same number. */
static bool read_splat(const folding *f, size_t index, double *out_value) {
    tsr_type type;
    return index < tsr_op_operand_count(f->op) && tsr_value_type(operand(f, index), &type) &&
           is_computed(&type) && tsr_attr_splat(f->constants[index], out_value);
}

/* ---- results that are operands --------------------------------------------------------------- */

static bool is_identity_permutation(MlirOperation op) {
    int64_t permutation[TSR_RANK_MAX];
    size_t count;
    if (!tsr_op_i64s(op, "permutation", TSR_RANK_MAX, permutation, &count)) return false;
    for (size_t i = 0; i < count; i++)
        if (permutation[i] != (int64_t)i) return false;
    return true;
}

/* The operand of the op that defines the operand, if it is of the same kind; else null. */
static MlirValue inner_operand(const folding *f) {
    MlirOperation inner = tsr_value_owner(operand(f, 0));
    if (mlirOperationIsNull(inner) || tsr_op_of(inner) != f->id) return (MlirValue){NULL};
    return tsr_op_operand(inner, 0);
}

/* Returns the index of the operand that equals the result; -1 if there is no such operand. */
static int fold_to_operand(const folding *f, MlirValue *out_inner) {
    MlirValue inner = {NULL};
    double condition;
    switch (f->id) {
    case TSR_GRAPH_MUL:
        if (f->is_y && f->y == 1.0 && same_type(f, 0)) return 0;
        return f->is_x && f->x == 1.0 && same_type(f, 1) ? 1 : -1;
    case TSR_GRAPH_DIV:
        return f->is_y && f->y == 1.0 && same_type(f, 0) ? 0 : -1;
    case TSR_GRAPH_SUB:
        return f->is_y && f->y == 0.0 && !signbit(f->y) && same_type(f, 0) ? 0 : -1;
    case TSR_GRAPH_CAST:
    case TSR_GRAPH_BROADCAST:
    case TSR_GRAPH_SUM:
    case TSR_GRAPH_MEAN:
    case TSR_GRAPH_REDUCE_MAX:
    case TSR_GRAPH_REDUCE_MIN:
    case TSR_GRAPH_REDUCE_PROD:
        return same_type(f, 0) ? 0 : -1;
    case TSR_GRAPH_TRANSPOSE:
        return is_identity_permutation(f->op) && same_type(f, 0) ? 0 : -1;
    case TSR_GRAPH_WHERE:
        if (!tsr_attr_splat(f->constants[0], &condition)) return -1;
        return same_type(f, condition != 0 ? 1 : 2) ? (condition != 0 ? 1 : 2) : -1;
    case TSR_GRAPH_GATHER:
        return same_type(f, 0) && tsr_takes_first(f->op) ? 0 : -1;
    case TSR_GRAPH_RELU:
        inner = inner_operand(f);
        return mlirValueIsNull(inner) ? -1 : 0;
    case TSR_GRAPH_NEG:
    case TSR_GRAPH_RESHAPE:
        if (f->id == TSR_GRAPH_RESHAPE && same_type(f, 0)) return 0;
        inner = inner_operand(f);
        if (!mlirValueIsNull(inner) &&
            mlirTypeEqual(mlirValueGetType(inner), mlirValueGetType(tsr_op_result(f->op, 0))))
            *out_inner = inner;
        return -1;
    default:
        return -1;
    }
}

/* ---- results that are constants -------------------------------------------------------------- */

static bool compute(const folding *f, double *out_value) {
    switch (f->id) {
    case TSR_GRAPH_ADD:
        *out_value = f->x + f->y;
        return f->is_x && f->is_y;
    case TSR_GRAPH_SUB:
        *out_value = f->x - f->y;
        return f->is_x && f->is_y;
    case TSR_GRAPH_MUL:
        *out_value = f->x * f->y;
        return f->is_x && f->is_y;
    case TSR_GRAPH_DIV:
        *out_value = f->x / f->y;
        return f->is_x && f->is_y;
    case TSR_GRAPH_NEG:
        *out_value = -f->x;
        return f->is_x;
    case TSR_GRAPH_SQRT:
        *out_value = sqrt(f->x);
        return f->is_x;
    case TSR_GRAPH_CAST:
        *out_value = f->x;
        return f->is_x && tsr_cast_is_plain(f->op);
    case TSR_GRAPH_RESHAPE:
    case TSR_GRAPH_TRANSPOSE:
    case TSR_GRAPH_BROADCAST:
        *out_value = f->x;
        return f->is_x;
    default:
        return false;
    }
}

/* Integers, operands included, must be exact in double; the quotient is truncated elsewhere. */
static bool is_exact(const folding *f, double value) {
    const double limit = 0x1p53;
    tsr_type type;
    bool from_integer = tsr_value_type(operand(f, 0), &type) && type.dtype == TSR_DTYPE_I64;
    if (f->result.dtype != TSR_DTYPE_I64) return !from_integer;
    return from_integer && f->id != TSR_GRAPH_DIV && fabs(value) < limit && fabs(f->x) < limit &&
           (!f->is_y || fabs(f->y) < limit);
}

bool tsr_graph_fold_op(MlirOperation op, const MlirAttribute *constants, size_t constant_count,
                       MlirAttribute *out_attr, MlirValue *out_value) {
    folding f = {.op = op, .id = tsr_op_of(op), .constants = constants};
    MlirValue inner = {NULL};
    double value;
    if (f.id == TSR_GRAPH_CONSTANT) {
        *out_attr = tsr_op_attr(op, "value");
        return true;
    }
    if (constant_count != tsr_op_operand_count(op)) return false;
    if (!tsr_value_type(tsr_op_result(op, 0), &f.result)) return false;
    f.is_x = read_splat(&f, 0, &f.x);
    f.is_y = read_splat(&f, 1, &f.y);
    int index = fold_to_operand(&f, &inner);
    if (index >= 0) inner = operand(&f, (size_t)index);
    if (!mlirValueIsNull(inner)) {
        *out_value = inner;
        return true;
    }
    if (!tsr_type_is_static(&f.result) || !is_computed(&f.result) || !compute(&f, &value) ||
        isnan(value) || !is_exact(&f, value))
        return false;
    *out_attr = tsr_attr_make_splat(mlirOperationGetContext(op), &f.result, value);
    return true;
}
