/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product and cross entropy: shape rules and gradients.
 */
#include "compiler/graph/rules.h"

#include <inttypes.h>

/* Broadcasts the dims before the last two. */
static bool broadcast_batch(tsr_rule *rule, tsr_shape *out_batch) {
    tsr_shape batch = rule->operands[0].shape, other = rule->operands[1].shape;
    uint32_t lhs_dim, rhs_dim;
    char lhs[TSR_TYPE_TEXT_MAX], rhs[TSR_TYPE_TEXT_MAX];
    char lhs_text[TSR_DIM_TEXT_MAX], rhs_text[TSR_DIM_TEXT_MAX];
    batch.rank -= 2;
    other.rank -= 2;
    if (tsr_shape_broadcast(&other, &batch, &rhs_dim, &lhs_dim)) {
        *out_batch = batch;
        return true;
    }
    return tsr_rule_fail_dims(rule, TSR_DIAG_BROADCAST, 2,
                              (const tsr_rule_dim[]){{"lhs", 0, lhs_dim}, {"rhs", 1, rhs_dim}},
                              "batch dims do not broadcast: lhs dim %u is %s (%s), rhs dim %u is "
                              "%s (%s)",
                              lhs_dim, tsr_dim_text(batch.dims[lhs_dim], lhs_text),
                              tsr_type_text(&rule->operands[0], lhs), rhs_dim,
                              tsr_dim_text(other.dims[rhs_dim], rhs_text),
                              tsr_type_text(&rule->operands[1], rhs));
}

static bool check_matrix(const tsr_rule *rule, size_t operand, const char *what) {
    char text[TSR_TYPE_TEXT_MAX];
    const tsr_type *type = &rule->operands[operand];
    if (type->shape.rank >= 2) return true;
    return tsr_rule_fail(rule, TSR_DIAG_RANK, "%s has %u dims (%s), needs at least 2", what,
                         type->shape.rank, tsr_type_text(type, text));
}

bool tsr_check_matmul(tsr_rule *rule) {
    uint32_t ta = tsr_op_flag(rule->op, "transpose_a"), tb = tsr_op_flag(rule->op, "transpose_b");
    const tsr_shape *a = &rule->operands[0].shape, *b = &rule->operands[1].shape;
    tsr_shape shape;
    tsr_dtype dtype;
    if (!tsr_rule_factors(rule, "lhs", "rhs", &dtype) || !check_matrix(rule, 0, "lhs") ||
        !check_matrix(rule, 1, "rhs") ||
        !tsr_rule_same_dim(rule, 0, "lhs", a->rank - 1 - ta, 1, "rhs", b->rank - 2 + tb,
                           "contracted dimensions") ||
        !broadcast_batch(rule, &shape))
        return false;
    shape.dims[shape.rank++] = a->dims[a->rank - 2 + ta];
    shape.dims[shape.rank++] = b->dims[b->rank - 1 - tb];
    rule->results[0] = (tsr_type){.dtype = dtype, .shape = shape};
    return true;
}

static void set_gradient(tsr_gradient *of, size_t index, MlirValue gradient) {
    tsr_shape shape = tsr_type_of(tsr_op_operand(of->op, index)).shape;
    of->of_operands[index] = tsr_emit_sum_to(of->builder, gradient, &shape);
}

/* All dims but the last as one. */
static MlirValue flatten_rows(tsr_gradient *of, MlirValue x) {
    tsr_shape shape = tsr_type_of(x).shape, flat = {.rank = 2, .dims = {1}};
    for (uint32_t i = 0; i + 1 < shape.rank; i++) flat.dims[0] *= shape.dims[i];
    flat.dims[1] = shape.dims[shape.rank - 1];
    return tsr_emit_reshape(of->builder, x, &flat);
}

/* A product that may be computed as the one it belongs to. */
static MlirValue multiply(tsr_gradient *of, MlirValue a, MlirValue b, bool ta, bool tb) {
    MlirValue product = tsr_emit_matmul(of->builder, a, b, ta, tb);
    if (tsr_op_has(of->op, TSR_TF32_NAME))
        tsr_op_set(tsr_value_owner(product), TSR_TF32_NAME,
                   tsr_attr_make_unit(of->builder->context));
    return product;
}

/* C = op(A) op(B), G the gradient of C: dA = G op(B)^T, transposed if A enters transposed; dB =
 * op(A)^T G, transposed likewise. Dims that were broadcast are summed; for a matrix B under
 * batches of A, by the product. */
bool tsr_gradient_matmul(tsr_gradient *of) {
    MlirValue a = tsr_op_operand(of->op, 0), b = tsr_op_operand(of->op, 1), g = of->of_result;
    bool ta = tsr_op_flag(of->op, "transpose_a"), tb = tsr_op_flag(of->op, "transpose_b");
    if (of->wanted[0])
        set_gradient(of, 0, ta ? multiply(of, b, g, tb, true) : multiply(of, g, b, false, !tb));
    if (!of->wanted[1]) return true;
    if (!ta && tsr_type_of(b).shape.rank == 2 && tsr_type_of(a).shape.rank > 2) {
        a = flatten_rows(of, a);
        g = flatten_rows(of, g);
    }
    set_gradient(of, 1, tb ? multiply(of, g, a, true, ta) : multiply(of, a, g, !ta, false));
    return true;
}

/* Kernels count them in 32 bits. */
static bool check_classes(const tsr_rule *rule) {
    uint64_t classes = rule->operands[0].shape.dims[1];
    return !tsr_dim_is_known(classes) || classes <= INT32_MAX ||
           tsr_rule_fail(rule, TSR_DIAG_SHAPE,
                         "logits have %" PRIu64 " classes, at most %d are possible", classes,
                         INT32_MAX);
}

static bool check_rows(const tsr_rule *rule) {
    return tsr_rule_dtype(rule, 0, "logits", TSR_DTYPES_FLOAT) &&
           tsr_rule_dtype(rule, 1, "labels", TSR_DTYPES_INDEX) &&
           tsr_rule_rank(rule, 0, "logits", 2) && tsr_rule_rank(rule, 1, "labels", 1) &&
           tsr_rule_same_dim(rule, 0, "logits", 0, 1, "labels", 0, "numbers of rows") &&
           check_classes(rule);
}

bool tsr_check_cross_entropy(tsr_rule *rule) {
    if (!check_rows(rule)) return false;
    rule->results[0] = rule->operands[1];
    rule->results[0].dtype = rule->operands[0].dtype;
    if (rule->results[0].shape.dims[0] == TSR_DIM_DYNAMIC)
        rule->results[0].shape.dims[0] = rule->operands[0].shape.dims[0];
    return true;
}

bool tsr_gradient_cross_entropy(tsr_gradient *of) {
    MlirValue operands[] = {tsr_op_operand(of->op, 0), tsr_op_operand(of->op, 1), of->of_result};
    if (of->wanted[0])
        of->of_operands[0] = tsr_build_value(of->builder, TSR_GRAPH_NAME("cross_entropy_grad"),
                                             operands, 3, mlirValueGetType(operands[0]), NULL);
    return true;
}

/* A column, for broadcasting. */
static MlirValue column(tsr_builder *b, MlirValue x) {
    tsr_shape shape = {.rank = 2, .dims = {tsr_type_of(x).shape.dims[0], 1}};
    return tsr_emit_reshape(b, x, &shape);
}

/* D = (p - onehot) d by rows, with p the softmax and G the gradient of D: the loss's gradient d has
 * that of one row's (p - onehot) G, and the logits, as softmax has, p (h - sum of h p) with
 * h = d G. */
bool tsr_gradient_cross_entropy_grad(tsr_gradient *of) {
    static const int64_t axes[] = {1};
    tsr_builder *b = of->builder;
    MlirValue logits = tsr_op_operand(of->op, 0), d = tsr_op_operand(of->op, 2);
    MlirValue g = tsr_emit_wide(b, of->of_result);
    tsr_dtype dtype = tsr_type_of(logits).dtype;
    if (of->wanted[2]) {
        tsr_type ones = tsr_type_of(d);
        MlirValue operands[] = {logits, tsr_op_operand(of->op, 1), tsr_emit_filled(b, &ones, 1.0)};
        MlirValue each =
            tsr_build_value(b, tsr_op_name(of->op), operands, 3, mlirValueGetType(logits), NULL);
        each = tsr_emit_mul(b, g, tsr_emit_wide(b, each));
        each = tsr_emit_reduce(b, TSR_GRAPH_NAME("sum"), each, 1, axes);
        of->of_operands[2] = tsr_emit_cast(b, each, dtype);
    }
    if (!of->wanted[0]) return true;
    MlirValue wide = tsr_emit_wide(b, logits);
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(b->context, 1)}, {0}};
    MlirValue p =
        tsr_build_value(b, TSR_GRAPH_NAME("softmax_safe"), &wide, 1, mlirValueGetType(wide), attrs);
    MlirValue h = tsr_emit_mul(b, g, column(b, tsr_emit_wide(b, d)));
    MlirValue sum = tsr_emit_reduce(b, TSR_GRAPH_NAME("sum"), tsr_emit_mul(b, h, p), 1, axes);
    MlirValue dx = tsr_emit_mul(b, p, tsr_emit_sub(b, h, column(b, sum)));
    of->of_operands[0] = tsr_emit_cast(b, dx, dtype);
    return true;
}

bool tsr_check_cross_entropy_grad(tsr_rule *rule) {
    if (!check_rows(rule) || !tsr_rule_same_dtype(rule, 0, "logits", 2, "dlosses") ||
        !tsr_rule_rank(rule, 2, "dlosses", 1) ||
        !tsr_rule_same_dim(rule, 0, "logits", 0, 2, "dlosses", 0, "numbers of rows"))
        return false;
    rule->results[0] = rule->operands[0];
    return true;
}
