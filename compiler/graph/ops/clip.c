/* SPDX-License-Identifier: Apache-2.0
 *
 * `clip_norm` of minimize: gradients whose global norm is larger are scaled down to it (Pascanu,
 * Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks", algorithm 1;
 * the formula is that of torch.nn.utils.clip_grad_norm_).
 */
#include "compiler/graph/rules.h"

#include <math.h>

static const char attribute[] = "clip_norm";

bool tsr_clip_is_given(MlirOperation op) {
    return !mlirAttributeIsNull(tsr_op_attr(op, attribute));
}

bool tsr_clip_check(const tsr_rule *rule) {
    MlirAttribute attr = tsr_op_attr(rule->op, attribute);
    if (mlirAttributeIsNull(attr)) return true;
    if (!mlirAttributeIsAFloat(attr))
        return tsr_rule_fail(rule, TSR_DIAG_VALUE,
                             "clip_norm is no floating-point number; write 1.0 for 1");
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

MlirValue tsr_global_norm_emit(tsr_builder *b, size_t count, const MlirValue *gradients,
                               uint64_t parts, tsr_dtype dtype) {
    MlirValue sum = {NULL};
    for (size_t i = 0; i < count; i++) {
        MlirValue of = tsr_emit_wide(b, gradients[i]);
        tsr_type type = {.dtype = tsr_type_of(of).dtype, .shape = {.rank = 1, .dims = {parts}}};
        MlirValue squares = tsr_build_value(b, "tessera_sr.squares", &of, 1,
                                            tsr_type_make(b->context, &type), NULL);
        squares = tsr_emit_cast(b, squares, dtype);
        sum = i ? tsr_emit_add(b, sum, squares) : squares;
    }
    return tsr_emit_unary(b, TSR_GRAPH_NAME("sqrt"), add_pairs(b, sum));
}

MlirValue tsr_clip_emit(tsr_builder *b, MlirOperation op, MlirValue norm) {
    double most = mlirFloatAttrGetValueDouble(tsr_op_attr(op, attribute));
    MlirValue above = tsr_emit_add(b, norm, tsr_emit_number(b, norm, 1e-6));
    MlirValue scale = tsr_emit_div(b, tsr_emit_number(b, norm, most), above);
    return tsr_emit_binary(b, TSR_GRAPH_NAME("min"), scale, tsr_emit_number(b, norm, 1.0));
}
