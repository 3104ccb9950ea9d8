/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-decompose: ops that are combinations of others become those.
 *
 *   mean   sum, times 1/n
 *   adamw  elementwise ops, in the order of PyTorch's torch.optim.AdamW
 */
#include "compiler/graph/emit.h"
#include "compiler/graph/passes.h"

static MlirValue two(tsr_builder *b, const char *name, MlirValue x, MlirValue y) {
    return tsr_emit_binary(b, name, x, y);
}

static MlirValue add(tsr_builder *b, MlirValue x, MlirValue y) {
    return two(b, TSR_GRAPH_NAME("add"), x, y);
}

static MlirValue sub(tsr_builder *b, MlirValue x, MlirValue y) {
    return two(b, TSR_GRAPH_NAME("sub"), x, y);
}

static MlirValue mul(tsr_builder *b, MlirValue x, MlirValue y) {
    return two(b, TSR_GRAPH_NAME("mul"), x, y);
}

static MlirValue divide(tsr_builder *b, MlirValue x, MlirValue y) {
    return two(b, TSR_GRAPH_NAME("div"), x, y);
}

static MlirValue root(tsr_builder *b, MlirValue x) {
    return tsr_emit_unary(b, TSR_GRAPH_NAME("sqrt"), x);
}

/* 1 - beta^step, in f64: in f32 it would lose half its digits at the first steps. */
static MlirValue correction(tsr_builder *b, double beta, MlirValue step) {
    MlirValue base = tsr_emit_constant(b, TSR_DTYPE_F64, beta);
    MlirValue one = tsr_emit_constant(b, TSR_DTYPE_F64, 1.0);
    return sub(b, one, two(b, TSR_GRAPH_NAME("ipow"), base, step));
}

/* With g the gradient and t the step, from 1:
 *   p1 = p * (1 - lr * weight_decay)
 *   m' = m + (g - m) * (1 - beta1)
 *   v' = v * beta2 + (g * g) * (1 - beta2)
 *   p' = p1 - lr / (1 - beta1^t) * (m' / (sqrt(v') / sqrt(1 - beta2^t) + eps))
 */
static void decompose_adamw(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue p = tsr_op_operand(op, 0), g = tsr_op_operand(op, 1), m = tsr_op_operand(op, 2),
              v = tsr_op_operand(op, 3), step = tsr_op_operand(op, 4);
    tsr_dtype dtype = tsr_type_of(p).dtype;
    tsr_adamw o;
    TSR_ASSERT(tsr_graph_adamw(op, &o));
    MlirValue lr = tsr_emit_constant(&b, TSR_DTYPE_F64, o.lr);
    MlirValue rate = tsr_emit_cast(&b, divide(&b, lr, correction(&b, o.beta1, step)), dtype);
    MlirValue scale = tsr_emit_cast(&b, root(&b, correction(&b, o.beta2, step)), dtype);
    MlirValue decayed = mul(&b, p, tsr_emit_constant(&b, dtype, 1.0 - o.lr * o.weight_decay));
    MlirValue new_m =
        add(&b, m, mul(&b, sub(&b, g, m), tsr_emit_constant(&b, dtype, 1.0 - o.beta1)));
    MlirValue new_v = add(&b, mul(&b, v, tsr_emit_constant(&b, dtype, o.beta2)),
                          mul(&b, mul(&b, g, g), tsr_emit_constant(&b, dtype, 1.0 - o.beta2)));
    MlirValue denominator =
        add(&b, divide(&b, root(&b, new_v), scale), tsr_emit_constant(&b, dtype, o.eps));
    MlirValue new_p = sub(&b, decayed, mul(&b, rate, divide(&b, new_m, denominator)));
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), new_p);
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 1), new_m);
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 2), new_v);
    mlirOperationDestroy(op);
}

static void decompose_mean(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_type from = tsr_type_of(tsr_op_operand(op, 0));
    int64_t axes[TSR_RANK_MAX];
    size_t count;
    double elements = 1;
    TSR_ASSERT(tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count));
    for (size_t i = 0; i < count; i++) elements *= (double)from.shape.dims[axes[i]];
    MlirValue sum = tsr_emit_reduce(&b, TSR_GRAPH_NAME("sum"), tsr_op_operand(op, 0), count, axes);
    MlirValue mean = mul(&b, sum, tsr_emit_constant(&b, from.dtype, 1.0 / elements));
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), mean);
    mlirOperationDestroy(op);
}

static bool is_static(MlirOperation op) {
    tsr_type type;
    for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
        char text[TSR_TYPE_TEXT_MAX];
        TSR_ASSERT(tsr_value_type(tsr_op_operand(op, i), &type));
        if (tsr_type_is_static(&type)) continue;
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_DYNAMIC,
                       "%s: operand %zu is %s; its dims must be known", tsr_op_name(op), i,
                       tsr_type_text(&type, text));
        return false;
    }
    return true;
}

bool tsr_pass_decompose(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, "func.func") || !tsr_op_has_body(func)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
            tsr_graph_op id = tsr_graph_op_of(op);
            if (id != TSR_GRAPH_ADAMW && id != TSR_GRAPH_MEAN) continue;
            if (!is_static(op))
                done = false;
            else if (id == TSR_GRAPH_ADAMW)
                decompose_adamw(op);
            else
                decompose_mean(op);
        }
    }
    return done;
}
