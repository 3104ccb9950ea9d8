/* SPDX-License-Identifier: Apache-2.0
 *
 * `clip_norm` of minimize: gradients whose global norm is larger are scaled down to it (Pascanu,
 * Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks", algorithm 1;
 * the formula equals that of torch.nn.utils.clip_grad_norm_).
 */
#include "compiler/graph/rules.h"

#include <math.h>

static const char attribute[] = "clip_norm";
/* Thresholds for sums of squares: below them squares may have lost significant digits. */
static const double F32_SMALL = 0x1p-100, F64_SMALL = 0x1p-900;

bool tsr_clip_is_given(MlirOperation op) {
    return !mlirAttributeIsNull(tsr_op_attr(op, attribute));
}

bool tsr_clip_check(const tsr_rule *rule) {
    MlirAttribute attr = tsr_op_attr(rule->op, attribute);
    if (mlirAttributeIsNull(attr)) return true;
    if (!mlirAttributeIsAFloat(attr))
        return tsr_rule_fail(rule, TSR_DIAG_VALUE,
                             "clip_norm is not a floating-point number; write 1.0 for 1");
    double most = mlirFloatAttrGetValueDouble(attr);
    if (most > 0 && isfinite(most)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_RATE, "clip_norm is %g, needs a finite clip_norm > 0",
                         most);
}

/* Adjacent elements are added, and again, up to one: leaves split at the largest power of two. */
static MlirValue add_pairs(tsr_builder *b, MlirValue x) {
    for (int64_t count; (count = (int64_t)tsr_type_of(x).shape.dims[0]) > 1;) {
        if (count % 2) x = tsr_emit_pad(b, x, &(int64_t){0}, &(int64_t){1}, NULL, 0.0);
        const int64_t half = (count + 1) / 2, even = 0, odd = 1, stride = 2;
        MlirValue left = tsr_emit_slice(b, x, &even, &half, &stride);
        x = tsr_emit_add(b, left, tsr_emit_slice(b, x, &odd, &half, &stride));
    }
    return tsr_emit_reshape(b, x, &(tsr_shape){0});
}

/* Gradients as one vector, whose norm is computed. */
typedef struct vector {
    tsr_builder *b;
    size_t count;
    const MlirValue *gradients;
    uint64_t parts;
} vector;

/* The sum of the squares of these gradients, multiplied by `scale`, a power of two: each computed
 * in its own type, or all in f64. */
static MlirValue sum_squares(const vector *v, bool in_f64, double scale, tsr_dtype dtype) {
    tsr_builder *b = v->b;
    MlirValue sum = {NULL};
    for (size_t i = 0; i < v->count; i++) {
        MlirValue of = tsr_emit_wide(b, v->gradients[i]);
        tsr_type type = {.dtype = in_f64 ? TSR_DTYPE_F64 : tsr_type_of(of).dtype,
                         .shape = {.rank = 1, .dims = {v->parts}}};
        tsr_attr attrs[2] = {0};
        if (scale != 1.0 && tsr_type_of(of).dtype != TSR_DTYPE_F64) continue;
        if (scale != 1.0)
            attrs[0] = (tsr_attr){
                "scale", mlirFloatAttrDoubleGet(b->context, mlirF64TypeGet(b->context), scale)};
        MlirValue squares = tsr_build_value(b, "tessera_sr.squares", &of, 1,
                                            tsr_type_make(b->context, &type), attrs);
        squares = tsr_emit_cast(b, squares, dtype);
        sum = mlirValueIsNull(sum) ? squares : tsr_emit_add(b, sum, squares);
    }
    return add_pairs(b, sum);
}

static MlirValue root(tsr_builder *b, MlirValue x) {
    return tsr_emit_unary(b, TSR_GRAPH_NAME("sqrt"), x);
}

static MlirValue is(tsr_builder *b, tsr_predicate how, MlirValue x, double than) {
    return tsr_emit_compare(b, how, x, tsr_emit_number(b, x, than));
}

/* The norm in f64. Squares of f32 and smaller floats neither overflow nor vanish in f64; f64
 * gradients are scaled. */
static MlirValue wide_norm(const vector *v, bool has_f64) {
    tsr_builder *b = v->b;
    MlirValue sum = sum_squares(v, true, 1.0, TSR_DTYPE_F64), norm = root(b, sum);
    if (!has_f64) return norm;
    MlirValue down = root(b, sum_squares(v, true, 0x1p-600, TSR_DTYPE_F64));
    MlirValue up = root(b, sum_squares(v, true, 0x1p600, TSR_DTYPE_F64));
    MlirValue large = tsr_emit_mul(b, down, tsr_emit_number(b, down, 0x1p600));
    MlirValue small = tsr_emit_mul(b, up, tsr_emit_number(b, up, 0x1p-600));
    norm = tsr_emit_where(b, is(b, TSR_PREDICATE_LT, sum, F64_SMALL), small, norm);
    return tsr_emit_where(b, is(b, TSR_PREDICATE_EQ, sum, (double)INFINITY), large, norm);
}

/* Uses the squares in the gradients' own types, if their sum has neither overflowed nor come near
 * the smallest numbers; else f64. */
MlirValue tsr_global_norm_emit(tsr_builder *b, size_t count, const MlirValue *gradients,
                               uint64_t parts, tsr_dtype dtype) {
    const vector v = {b, count, gradients, parts};
    bool has_f64 = false, has_others = false;
    for (size_t i = 0; i < count; i++) {
        bool is_f64 = tsr_type_of(gradients[i]).dtype == TSR_DTYPE_F64;
        has_f64 |= is_f64;
        has_others |= !is_f64;
    }
    MlirValue sum = sum_squares(&v, false, 1.0, dtype);
    double least = dtype == TSR_DTYPE_F32 || has_others ? F32_SMALL : F64_SMALL;
    MlirValue fits = tsr_emit_binary(b, TSR_GRAPH_NAME("and"), is(b, TSR_PREDICATE_GE, sum, least),
                                     is(b, TSR_PREDICATE_LT, sum, (double)INFINITY));
    MlirValue wide = tsr_emit_cast(b, wide_norm(&v, has_f64), dtype);
    return tsr_emit_where(b, fits, root(b, sum), wide);
}

MlirValue tsr_clip_emit(tsr_builder *b, MlirOperation op, MlirValue norm) {
    double most = mlirFloatAttrGetValueDouble(tsr_op_attr(op, attribute));
    MlirValue above = tsr_emit_add(b, norm, tsr_emit_number(b, norm, 1e-6));
    const tsr_numbers numbers = tsr_numbers_of(b, op);
    MlirValue limit = tsr_number_emit(&numbers, attribute, most, tsr_type_of(norm).dtype);
    MlirValue scale = tsr_emit_div(b, limit, above);
    return tsr_emit_binary(b, TSR_GRAPH_NAME("min"), scale, tsr_emit_number(b, norm, 1.0));
}
