/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces where a dim of an operand comes from: back through ops that pass it on, to the argument,
 * parameter or op that determines its size. Outline: one step back, one function for each form of
 * op · the path · errors with a note for each dim.
 */
#include "compiler/graph/rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { STEPS_MAX = 64, STEPS_NAMED = 4, TEXT_MAX = 768 };

typedef struct dim_position {
    MlirValue value;
    uint32_t dim;
} dim_position;

/* ---- one step back --------------------------------------------------------------------------- */

static bool read_shape(MlirValue value, tsr_shape *out_shape) {
    tsr_type type;
    if (!tsr_value_type(value, &type)) return false;
    *out_shape = type.shape;
    return true;
}

/* Moves to dim `dim` of operand `index`, if it exists. */
static bool step_to_operand(MlirOperation op, size_t index, uint32_t dim, dim_position *at) {
    tsr_shape shape;
    if (index >= tsr_op_operand_count(op) || !read_shape(tsr_op_operand(op, index), &shape) ||
        dim >= shape.rank)
        return false;
    *at = (dim_position){tsr_op_operand(op, index), dim};
    return true;
}

/* Shapes are aligned at their last dims: takes the first operand that is not broadcast along this
 * dim. */
static bool through_aligned(MlirOperation op, const tsr_shape *result, dim_position *at) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        tsr_shape shape;
        if (!read_shape(tsr_op_operand(op, i), &shape) || shape.rank > result->rank) return false;
        uint32_t added = result->rank - shape.rank;
        if (at->dim < added || shape.dims[at->dim - added] != result->dims[at->dim]) continue;
        return step_to_operand(op, i, at->dim - added, at);
    }
    return false;
}

static bool through_transpose(MlirOperation op, const tsr_shape *result, dim_position *at) {
    int64_t permutation[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_op_i64s(op, "permutation", TSR_RANK_MAX, permutation, &count) || count != result->rank)
        return false;
    int64_t dim = permutation[at->dim];
    return dim >= 0 && dim < TSR_RANK_MAX && step_to_operand(op, 0, (uint32_t)dim, at);
}

/* A dim is unchanged if the products of the dims before it are equal. */
static bool through_reshape(MlirOperation op, const tsr_shape *result, dim_position *at) {
    tsr_shape from;
    uint64_t wanted = 1, before = 1;
    if (!read_shape(tsr_op_operand(op, 0), &from)) return false;
    for (uint32_t i = 0; i < at->dim; i++)
        if (__builtin_mul_overflow(wanted, result->dims[i], &wanted)) return false;
    for (uint32_t i = 0; i < from.rank; i++) {
        if (before == wanted && from.dims[i] == result->dims[at->dim])
            return step_to_operand(op, 0, i, at);
        if (__builtin_mul_overflow(before, from.dims[i], &before)) return false;
    }
    return false;
}

/* Finds the at->dim-th dim that is not reduced. */
static bool through_reduction(MlirOperation op, const tsr_shape *result, dim_position *at) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 0;
    uint32_t dim = at->dim;
    TSR_ASSERT(dim < result->rank);
    if (!tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count)) {
        if (!tsr_op_i64(op, "axis", &axes[0])) return false;
        count = 1;
    }
    for (size_t i = 0; i < count; i++) dim += axes[i] <= (int64_t)dim;
    return step_to_operand(op, 0, dim, at);
}

static bool through_matmul(MlirOperation op, const tsr_shape *result, dim_position *at) {
    uint32_t from_end = result->rank - at->dim; /* 1: columns, 2: rows */
    size_t index = from_end == 1;
    bool swapped = tsr_op_flag(op, index ? "transpose_b" : "transpose_a");
    tsr_shape shape;
    if (from_end > 2) {
        for (size_t i = 0; i < 2; i++)
            if (read_shape(tsr_op_operand(op, i), &shape) && shape.rank >= from_end &&
                shape.dims[shape.rank - from_end] == result->dims[at->dim])
                return step_to_operand(op, i, shape.rank - from_end, at);
        return false;
    }
    if (!read_shape(tsr_op_operand(op, index), &shape) || shape.rank < 2) return false;
    if (swapped) from_end = 3 - from_end;
    return step_to_operand(op, index, shape.rank - from_end, at);
}

/* Results whose dims, except for one, equal the operand's dims. */
static bool through_other_dims(MlirOperation op, const tsr_shape *result, dim_position *at) {
    int64_t axis = 0;
    TSR_ASSERT(at->dim < result->rank);
    return tsr_op_i64(op, "axis", &axis) && axis != (int64_t)at->dim &&
           step_to_operand(op, 0, at->dim, at);
}

/* An operand of the result's shape; others may be broadcast to it. */
static bool through_same(MlirOperation op, const tsr_shape *result, dim_position *at) {
    TSR_ASSERT(at->dim < result->rank);
    return step_to_operand(op, 0, at->dim, at);
}

/* Follows only dims whose size did not change. */
static bool through_slice(MlirOperation op, const tsr_shape *result, dim_position *at) {
    tsr_shape from;
    return read_shape(tsr_op_operand(op, 0), &from) && at->dim < from.rank &&
           from.dims[at->dim] == result->dims[at->dim] && step_to_operand(op, 0, at->dim, at);
}

/* A path ends at every other op. */
static bool through_ends(MlirOperation op, const tsr_shape *result, dim_position *at) {
    (void)op, (void)result, (void)at;
    return false;
}

static bool (*const steps[TSR_OP_COUNT])(MlirOperation op, const tsr_shape *result,
                                         dim_position *at) = {
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    [TSR_GRAPH_##ID] = through_##dims,
#include "compiler/graph/ops.def"
#undef X
};

/* Steps to the operand that determines the dim's size; false if the op itself does, or is not
 * known. */
static bool step_back(MlirOperation op, dim_position *at) {
    tsr_op id = tsr_op_of(op);
    tsr_shape result;
    return steps[id] && tsr_op_operand_count(op) > 0 && read_shape(at->value, &result) &&
           at->dim < result.rank && steps[id](op, &result, at);
}

/* ---- the path -------------------------------------------------------------------------------- */

static void name_argument(MlirValue value, tsr_buffer *out) {
    MlirOperation func = mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value));
    intptr_t index = mlirBlockArgumentGetArgNumber(value);
    tsr_graph_port port;
    if (mlirOperationIsNull(func)) { /* while the function is parsed */
        tsr_buffer_printf(out, "argument %zd of the function", index);
        return;
    }
    const char *symbol = tsr_op_is(func, TSR_FUNC_FUNC) ? tsr_op_symbol(func) : NULL;
    bool named = symbol && tsr_op_has(func, "tessera.entry") &&
                 tsr_graph_input_read(func, (size_t)index, &port);
    if (named)
        tsr_buffer_printf(out, "argument '%s'", port.name);
    else
        tsr_buffer_printf(out, "argument %zd", index);
    tsr_buffer_printf(out, " of %s%s", symbol ? "@" : "", symbol ? symbol : tsr_op_name(func));
}

static void name_origin(MlirValue value, tsr_buffer *out) {
    MlirOperation op = tsr_value_owner(value);
    if (mlirOperationIsNull(op)) {
        name_argument(value, out);
        return;
    }
    tsr_op id = tsr_op_of(op);
    const char *name = tsr_op_string(op, "name");
    if (name && (id == TSR_GRAPH_PARAM || id == TSR_GRAPH_OPT_STATE))
        tsr_buffer_printf(out, "%s '%s'", id == TSR_GRAPH_PARAM ? "parameter" : "state", name);
    else
        tsr_buffer_printf(out, "the result of %s", tsr_op_name(op));
}

/* "lhs dim 1 is dim 0 of parameter 'w', by tessera.transpose"; returns the location of the
 * parameter. */
static MlirLocation describe(const tsr_rule *rule, const tsr_rule_dim *dim, tsr_buffer *out) {
    dim_position at = {tsr_op_operand(rule->op, dim->operand), dim->dim};
    tsr_buffer by = {0};
    uint32_t count = 0;
    for (; count < STEPS_MAX; count++) {
        MlirOperation op = tsr_value_owner(at.value);
        if (mlirOperationIsNull(op) || !step_back(op, &at)) break;
        if (count < STEPS_NAMED)
            tsr_buffer_printf(&by, "%s%s", count ? ", " : ", by ", tsr_op_name(op));
    }
    tsr_buffer_printf(out, "%s dim %" PRIu32 " is dim %" PRIu32 " of ", dim->name, dim->dim,
                      at.dim);
    name_origin(at.value, out);
    if (by.bytes) tsr_buffer_text(out, by.bytes);
    if (count > STEPS_NAMED) tsr_buffer_printf(out, " and %" PRIu32 " more", count - STEPS_NAMED);
    tsr_buffer_finish(&by);
    return mlirValueGetLocation(at.value);
}

/* ---- errors ---------------------------------------------------------------------------------- */

bool tsr_rule_fail_dims(const tsr_rule *rule, tsr_diag_number number, size_t count,
                        const tsr_rule_dim *dims, const char *format, ...) {
    char text[TEXT_MAX];
    tsr_diag_note notes[TSR_RULE_DIMS_MAX];
    tsr_buffer buffers[TSR_RULE_DIMS_MAX] = {{0}};
    size_t length = (size_t)snprintf(text, sizeof text, "%s: ", rule->name);
    va_list args;
    TSR_ASSERT(count <= TSR_RULE_DIMS_MAX && length < sizeof text);
    va_start(args, format);
    vsnprintf(text + length, sizeof text - length, format, args);
    va_end(args);
    for (size_t i = 0; i < count; i++) {
        notes[i].location = describe(rule, &dims[i], &buffers[i]);
        notes[i].text = buffers[i].failed ? "" : buffers[i].bytes;
    }
    tsr_diag_error_notes(mlirOperationGetLocation(rule->op), number, text, count, notes);
    for (size_t i = 0; i < count; i++) tsr_buffer_finish(&buffers[i]);
    return false;
}
