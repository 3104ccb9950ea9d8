/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and the norms: shape rules, gradients and lowering to simpler ops. For bf16 and f16, all
 * is computed in f32 and rounded once.
 */
#include "compiler/graph/rules.h"
#include "runtime/base/array.h"

#include <math.h>
#include <string.h>

static MlirValue operand(MlirOperation op, size_t index) { return tsr_op_operand(op, index); }

/* The dims that a row of the op runs over. */
typedef struct rows {
    tsr_builder *b;
    tsr_shape full;
    int64_t axes[TSR_RANK_MAX];
    size_t axis_count;
} rows;

static rows rows_of(tsr_builder *b, MlirOperation op) {
    rows r = {.b = b, .full = tsr_type_of(operand(op, 0)).shape, .axis_count = 1};
    bool read = tsr_op_i64(op, "axis", &r.axes[0]) ||
                tsr_op_i64s(op, "axes", TSR_RANK_MAX, r.axes, &r.axis_count);
    TSR_ASSERT(read);
    return r;
}

static MlirValue reduce(const rows *r, const char *name, MlirValue x) {
    return tsr_emit_reduce(r->b, name, x, r->axis_count, r->axes);
}

static MlirValue sum(const rows *r, MlirValue x) { return reduce(r, TSR_GRAPH_NAME("sum"), x); }

/* Restores the axes with size 1: readers broadcast the result, so that no tensor as large as the
 * operand is stored for one number per row. */
static MlirValue expand(const rows *r, MlirValue x) {
    tsr_shape reduced = r->full;
    for (size_t i = 0; i < r->axis_count; i++) reduced.dims[r->axes[i]] = 1;
    return tsr_emit_reshape(r->b, x, &reduced);
}

/* The mean over the axes, for broadcasting. */
static MlirValue mean(const rows *r, MlirValue x) {
    return expand(r, tsr_emit_mean(r->b, x, r->axis_count, r->axes));
}

enum { REPAIR_X, REPAIR_PLAIN, REPAIR_MEAN, REPAIR_OPERANDS };
/* Operands of repairs of incoming gradients: the gradient of the normalized row, that row, minus
 * the plain mean of their product, the row's reciprocal size, and if it was centred minus the plain
 * mean of the gradient. */
enum {
    INCOMING_ROW,
    INCOMING_NORMAL,
    INCOMING_PRODUCT,
    INCOMING_SIZE,
    INCOMING_MEAN,
    INCOMING_OPERANDS
};

typedef struct repair_kind {
    const char *of;
    bool removes;       /* the result is without the axes */
    bool incoming;      /* of incoming gradients */
    size_t least, most; /* operands */
    size_t plain;       /* the operand that is the plain result; 0: `number` is */
    double number;
} repair_kind;

static const repair_kind repair_kinds[] = {
    {"mean", false, false, 2, 2, REPAIR_PLAIN, 0},
    {"average", true, false, 2, 2, REPAIR_PLAIN, 0},
    {"size", false, false, 2, 2, REPAIR_PLAIN, 0},
    {"deviation", false, false, 2, 2, REPAIR_PLAIN, 0},
    {"variance", true, false, 2, 2, REPAIR_PLAIN, 0},
    {"offset", false, false, 3, 3, 0, -0.0},
    {"incoming_mean", false, true, 5, 5, INCOMING_MEAN, 0},
    {"incoming_product", false, true, 4, 5, INCOMING_PRODUCT, 0},
    {"incoming_size", false, true, 4, 5, INCOMING_SIZE, 0},
    {"incoming_scale", false, true, 4, 5, 0, 1},
};

/* NULL: the attribute `of` names none. */
static const repair_kind *repair_kind_of(MlirOperation op) {
    const char *of = tsr_op_string(op, "of");
    for (size_t i = 0; of && i < TSR_COUNT(repair_kinds); i++)
        if (strcmp(of, repair_kinds[i].of) == 0) return &repair_kinds[i];
    return NULL;
}

size_t tsr_repair_plain(MlirOperation op, double *out_number) {
    const repair_kind *kind = repair_kind_of(op);
    TSR_ASSERT(kind);
    *out_number = kind->number;
    return kind->plain;
}

/* The repair of `plain`, for broadcasting; `of` and `eps` become its attributes. `centre` may be
 * null. */
static MlirValue repair(const rows *r, const char *of, double eps, MlirValue x, MlirValue plain,
                        MlirValue centre) {
    const tsr_repair what = {of, eps, r->axis_count, r->axes};
    return tsr_emit_repair(r->b, &what, x, plain, centre);
}

/* The shape without the axes, or with size 1 for them. */
static tsr_shape reduced_of(const tsr_shape *full, size_t count, const int64_t *axes,
                            bool removes) {
    tsr_shape reduced = *full;
    if (removes) return tsr_shape_remove(full, count, axes);
    for (size_t i = 0; i < count; i++) reduced.dims[axes[i]] = 1;
    return reduced;
}

bool tsr_check_repair(tsr_rule *rule) {
    static const char *const names[][INCOMING_OPERANDS] = {
        {"the operand", "the plain result", "the mean"},
        {"the operand", "the normalized row", "minus the plain mean of products",
         "the reciprocal size", "minus the plain mean"}};
    int64_t axes[TSR_RANK_MAX];
    size_t count;
    double eps = 0;
    const repair_kind *kind = repair_kind_of(rule->op);
    const char *of = tsr_op_string(rule->op, "of");
    if (!kind)
        return tsr_rule_fail(
            rule, TSR_DIAG_WORD,
            "attribute \"of\" is '%s'; expected mean, average, size, deviation, variance, "
            "offset, incoming_mean, incoming_product, incoming_size or "
            "incoming_scale",
            of ? of : "");
    const char *const *name = names[kind->incoming];
    if (!tsr_rule_operand_count(rule, kind->least, kind->most) ||
        !tsr_rule_dtype(rule, 0, name[0], TSR_DTYPES_WIDE_FLOAT) ||
        !tsr_rule_axes(rule, axes, &count) || !tsr_rule_f64(rule, "eps", 0, &eps))
        return false;
    if (eps < 0) return tsr_rule_fail(rule, TSR_DIAG_EPSILON, "eps is %g, needs eps >= 0", eps);
    if (!count) return tsr_rule_fail(rule, TSR_DIAG_AXIS_MISSING, "needs at least one axis");
    tsr_shape reduced = reduced_of(&rule->operands[0].shape, count, axes, kind->removes);
    for (size_t i = 1; i < rule->operand_count; i++) {
        bool whole = kind->incoming && i == INCOMING_NORMAL;
        if (!tsr_rule_same_dtype(rule, 0, name[0], i, name[i]) ||
            !tsr_rule_shape(rule, i, name[i], whole ? &rule->operands[0].shape : &reduced))
            return false;
    }
    rule->results[0] = (tsr_type){.dtype = rule->operands[0].dtype, .shape = reduced};
    return true;
}

/* A row that is not repaired passes the gradient to its plain number; offsets and scales have no
 * gradient. */
bool tsr_gradient_repair(tsr_gradient *of) {
    double number;
    size_t plain = tsr_repair_plain(of->op, &number);
    if (plain && of->wanted[plain]) of->of_operands[plain] = of->of_result;
    return true;
}

static MlirValue equals(tsr_builder *b, MlirValue x, double value) {
    return tsr_emit_compare(b, TSR_PREDICATE_EQ, x, tsr_emit_number(b, x, value));
}

static MlirValue unless_equal(tsr_builder *b, MlirValue x, double value, double instead) {
    return tsr_emit_where(b, equals(b, x, value), tsr_emit_number(b, x, instead), x);
}

static bool finish(MlirOperation op, tsr_builder *b, MlirValue y) {
    y = tsr_emit_cast(b, y, tsr_type_of(tsr_op_result(op, 0)).dtype);
    tsr_emit_replace(op, 1, &y);
    return true;
}

/* ---- softmax, logsumexp ---------------------------------------------------------------------- */

bool tsr_check_softmax(tsr_rule *rule) {
    int64_t axis;
    rule->results[0] = rule->operands[0];
    return tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_FLOAT) &&
           tsr_rule_axis(rule, rule->operands[0].shape.rank, &axis);
}

/* The largest element of each row, or 0 if all are -inf, so that x - largest is never NaN. */
static MlirValue largest_of(const rows *r, MlirValue x) {
    MlirValue largest = reduce(r, TSR_GRAPH_NAME("reduce_max"), x);
    return unless_equal(r->b, largest, -(double)INFINITY, 0.0);
}

static MlirValue exponentials(const rows *r, MlirValue x, MlirValue largest) {
    MlirValue shifted = tsr_emit_sub(r->b, x, expand(r, largest));
    MlirValue powers = tsr_emit_unary(r->b, TSR_GRAPH_NAME("exp"), shifted);
    tsr_op_set(tsr_value_owner(powers), TSR_EXP_SHIFTED, tsr_attr_make_unit(r->b->context));
    return powers;
}

/* A sum of 0: every element was -inf. One division a row: an element's would take longer than all
 * else of its last walk. */
bool tsr_lower_softmax(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    rows r = rows_of(&b, op);
    MlirValue x = tsr_emit_wide(&b, operand(op, 0));
    MlirValue powers = exponentials(&r, x, largest_of(&r, x));
    MlirValue total = unless_equal(&b, sum(&r, powers), 0.0, 1.0);
    MlirValue share = tsr_emit_div(&b, tsr_emit_number(&b, total, 1.0), total);
    return finish(op, &b, tsr_emit_mul(&b, powers, expand(&r, share)));
}

/* y (g - sum of g y) */
bool tsr_gradient_softmax(tsr_gradient *of) {
    tsr_builder *b = of->builder;
    rows r = rows_of(b, of->op);
    tsr_dtype dtype = tsr_type_of(of->of_result).dtype;
    if (!of->wanted[0]) return true;
    MlirValue y = tsr_emit_wide(b, tsr_op_result(of->op, 0)), g = tsr_emit_wide(b, of->of_result);
    MlirValue common = expand(&r, sum(&r, tsr_emit_mul(b, g, y)));
    MlirValue dx = tsr_emit_mul(b, y, tsr_emit_sub(b, g, common));
    of->of_operands[0] = tsr_emit_cast(b, dx, dtype);
    return true;
}

bool tsr_check_logsumexp(tsr_rule *rule) { return tsr_check_mean(rule); }

bool tsr_lower_logsumexp(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    rows r = rows_of(&b, op);
    MlirValue x = tsr_emit_wide(&b, operand(op, 0)), largest = largest_of(&r, x);
    MlirValue total = sum(&r, exponentials(&r, x, largest));
    MlirValue log = tsr_emit_unary(&b, TSR_GRAPH_NAME("log"), total);
    return finish(op, &b, tsr_emit_add(&b, log, largest));
}

/* g exp(x - y), and 0 where all are -inf. */
bool tsr_gradient_logsumexp(tsr_gradient *of) {
    tsr_builder *b = of->builder;
    rows r = rows_of(b, of->op);
    if (!of->wanted[0]) return true;
    MlirValue x = tsr_emit_wide(b, operand(of->op, 0)), g = tsr_emit_wide(b, of->of_result);
    MlirValue y = tsr_emit_wide(b, tsr_op_result(of->op, 0));
    MlirValue share = exponentials(&r, x, unless_equal(b, y, -(double)INFINITY, 0.0));
    MlirValue dx = tsr_emit_mul(b, expand(&r, g), share);
    of->of_operands[0] = tsr_emit_cast(b, dx, tsr_type_of(of->of_result).dtype);
    return true;
}

/* ---- norms ----------------------------------------------------------------------------------- */

static bool check_norm(tsr_rule *rule, size_t most) {
    static const char *const names[] = {"the operand", "scale", "bias"};
    int64_t axes[TSR_RANK_MAX];
    size_t count;
    double eps;
    if (!tsr_rule_operand_count(rule, 1, most) ||
        !tsr_rule_dtype(rule, 0, names[0], TSR_DTYPES_FLOAT) ||
        !tsr_rule_axes(rule, axes, &count) || !tsr_rule_f64(rule, "eps", 1e-5, &eps))
        return false;
    if (eps < 0) return tsr_rule_fail(rule, TSR_DIAG_EPSILON, "eps is %g, needs eps >= 0", eps);
    if (!count) return tsr_rule_fail(rule, TSR_DIAG_AXIS_MISSING, "needs at least one axis");
    rule->results[0] = rule->operands[0];
    for (size_t i = 1; i < rule->operand_count; i++) {
        tsr_shape shape = rule->operands[0].shape;
        uint32_t from_dim = 0, dim = 0;
        if (!tsr_rule_same_dtype(rule, 0, names[0], i, names[i])) return false;
        bool broadcasts = tsr_shape_broadcast(&rule->operands[i].shape, &shape, &from_dim, &dim);
        if (broadcasts && (tsr_shape_equal(&shape, &rule->operands[0].shape) ||
                           !tsr_type_is_inferred(&rule->operands[0])))
            continue;
        char is[TSR_TYPE_TEXT_MAX], must[TSR_TYPE_TEXT_MAX];
        const tsr_rule_dim dims[] = {{names[i], i, from_dim}, {"the operand's", 0, dim}};
        return tsr_rule_fail_dims(rule, TSR_DIAG_STRETCH, broadcasts ? 0 : 2, dims,
                                  "%s (%s) does not broadcast to %s", names[i],
                                  tsr_type_text(&rule->operands[i], is),
                                  tsr_type_text(&rule->operands[0], must));
    }
    return true;
}

bool tsr_check_layernorm(tsr_rule *rule) { return check_norm(rule, 3); }

bool tsr_check_rmsnorm(tsr_rule *rule) { return check_norm(rule, 2); }

static double eps_of(MlirOperation op) {
    double eps = 1e-5;
    tsr_op_f64(op, "eps", &eps);
    return eps;
}

static MlirValue square(tsr_builder *b, MlirValue x) { return tsr_emit_mul(b, x, x); }

/* The factor of scale in a norm: x without its mean (`centred`), divided by its size. Numbers of a
 * row that have overflowed or vanished are computed again; *out_power, the plain mean of squares,
 * is not. Both outputs may be NULL. */
static MlirValue normal(const rows *r, MlirOperation op, MlirValue x, bool centred,
                        MlirValue *out_rscale, MlirValue *out_power) {
    tsr_builder *b = r->b;
    double eps = eps_of(op);
    MlirValue centre = {NULL}, apart = x;
    if (centred) {
        centre = repair(r, "mean", 0, x, mean(r, x), (MlirValue){NULL});
        apart = tsr_emit_sub(b, x, centre);
    }
    MlirValue power = tsr_emit_mean(b, square(b, apart), r->axis_count, r->axes);
    if (out_power) *out_power = power;
    power = tsr_emit_add(b, power, tsr_emit_number(b, x, eps));
    MlirValue plain = expand(r, tsr_emit_unary(b, TSR_GRAPH_NAME("rsqrt"), power));
    MlirValue rscale = repair(r, centred ? "deviation" : "size", eps, x, plain, (MlirValue){NULL});
    if (out_rscale) *out_rscale = rscale;
    if (!centred) return tsr_emit_mul(b, apart, rscale);
    MlirValue operands[] = {apart, rscale, repair(r, "offset", eps, x, plain, centre)};
    return tsr_build_value(b, TSR_GRAPH_NAME("mul_add"), operands, 3, mlirValueGetType(x), NULL);
}

static bool lower_norm(MlirOperation op, bool centred) {
    tsr_builder b = tsr_builder_before(op);
    rows r = rows_of(&b, op);
    size_t count = tsr_op_operand_count(op);
    MlirValue y = normal(&r, op, tsr_emit_wide(&b, operand(op, 0)), centred, NULL, NULL);
    if (count > 1) y = tsr_emit_mul(&b, y, tsr_emit_wide(&b, operand(op, 1)));
    if (count > 2) y = tsr_emit_add(&b, y, tsr_emit_wide(&b, operand(op, 2)));
    return finish(op, &b, y);
}

bool tsr_lower_layernorm(MlirOperation op) { return lower_norm(op, true); }

bool tsr_lower_rmsnorm(MlirOperation op) { return lower_norm(op, false); }

/* Summed to the operand's shape, in its element type. */
static void set_gradient(tsr_gradient *of, size_t index, MlirValue gradient) {
    tsr_type type = tsr_type_of(operand(of->op, index));
    gradient = tsr_emit_sum_to(of->builder, gradient, &type.shape);
    of->of_operands[index] = tsr_emit_cast(of->builder, gradient, type.dtype);
}

static MlirValue repair_incoming(const rows *r, const char *of, const MlirValue *operands,
                                 size_t count) {
    const tsr_repair what = {of, 0, r->axis_count, r->axes};
    return tsr_emit_repair_of(r->b, &what, operands, count);
}

/* Minus the mean over the axes, for broadcasting: what is added needs no op that negates it. */
static MlirValue minus_mean(const rows *r, MlirValue x) {
    double count = 1;
    for (size_t i = 0; i < r->axis_count; i++) count *= (double)r->full.dims[r->axes[i]];
    MlirValue total = sum(r, x);
    return expand(r, tsr_emit_mul(r->b, total, tsr_emit_number(r->b, x, -1.0 / count)));
}

/* With n the normalized x and h the gradient of n: (h - mean h - n mean(h n)) / size; without the
 * mean of h if x was not centred. In a row whose means overflow, or whose differences may, all of h
 * is scaled down, and 1 / size up. Sums of f16 never overflow in f32. */
static MlirValue through_normal(const rows *r, const tsr_gradient *of, MlirValue n,
                                MlirValue rscale, MlirValue h, bool centred) {
    tsr_builder *b = r->b;
    MlirValue operands[INCOMING_OPERANDS] = {h, n, minus_mean(r, tsr_emit_mul(b, h, n)), rscale};
    size_t count = centred ? INCOMING_OPERANDS : INCOMING_MEAN;
    bool is_half = tsr_type_of(of->of_result).dtype == TSR_DTYPE_F16;
    bool repairs = !of->is_linear && !is_half && r->axis_count;
    MlirValue product = operands[INCOMING_PRODUCT], size = rscale;
    MlirValue scale = {NULL}, centre = {NULL}, rest;
    if (centred) operands[INCOMING_MEAN] = centre = minus_mean(r, h);
    if (repairs) {
        product = repair_incoming(r, "incoming_product", operands, count);
        size = repair_incoming(r, "incoming_size", operands, count);
        scale = repair_incoming(r, "incoming_scale", operands, count);
        if (centred) centre = repair_incoming(r, "incoming_mean", operands, count);
    }
    MlirValue shift = tsr_emit_mul(b, n, product);
    MlirValue terms[] = {h, scale, centred ? centre : shift};
    if (repairs)
        rest = tsr_build_value(b, TSR_GRAPH_NAME("mul_add"), terms, 3, mlirValueGetType(h), NULL);
    else
        rest = tsr_emit_add(b, h, terms[2]);
    if (centred) rest = tsr_emit_add(b, rest, shift);
    return tsr_emit_mul(b, size, rest);
}

static bool gradient_norm(tsr_gradient *of, bool centred) {
    tsr_builder *b = of->builder;
    rows r = rows_of(b, of->op);
    size_t count = tsr_op_operand_count(of->op);
    MlirValue g = tsr_emit_wide(b, of->of_result), h = g, rscale;
    MlirValue n = normal(&r, of->op, tsr_emit_wide(b, operand(of->op, 0)), centred, &rscale, NULL);
    if (count > 1) h = tsr_emit_mul(b, g, tsr_emit_wide(b, operand(of->op, 1)));
    if (of->wanted[0]) set_gradient(of, 0, through_normal(&r, of, n, rscale, h, centred));
    if (of->wanted[1]) set_gradient(of, 1, tsr_emit_mul(b, g, n));
    if (of->wanted[2]) set_gradient(of, 2, g);
    return true;
}

bool tsr_gradient_layernorm(tsr_gradient *of) { return gradient_norm(of, true); }

bool tsr_gradient_rmsnorm(tsr_gradient *of) { return gradient_norm(of, false); }

/* ---- batch norm ------------------------------------------------------------------------------ */

enum { INPUT, SCALE, BIAS, MEAN, VARIANCE, BATCH_NORM_OPERANDS };

static bool check_batch(tsr_rule *rule) {
    static const char *const names[] = {"the operand", "scale", "bias", "mean", "variance"};
    int64_t axis;
    double eps;
    if (!tsr_rule_operand_count(rule, BATCH_NORM_OPERANDS, BATCH_NORM_OPERANDS) ||
        !tsr_rule_dtype(rule, 0, names[0], TSR_DTYPES_FLOAT) ||
        !tsr_rule_axis(rule, rule->operands[0].shape.rank, &axis) ||
        !tsr_rule_f64(rule, "eps", 1e-5, &eps))
        return false;
    if (eps < 0) return tsr_rule_fail(rule, TSR_DIAG_EPSILON, "eps is %g, needs eps >= 0", eps);
    tsr_shape channels = {.rank = 1, .dims = {rule->operands[0].shape.dims[axis]}};
    for (size_t i = 1; i < BATCH_NORM_OPERANDS; i++)
        if (!tsr_rule_same_dtype(rule, 0, names[0], i, names[i]) ||
            !tsr_rule_shape(rule, i, names[i], &channels))
            return false;
    rule->results[0] = rule->operands[0];
    return true;
}

bool tsr_check_batch_norm(tsr_rule *rule) { return check_batch(rule); }

bool tsr_check_batch_norm_train(tsr_rule *rule) {
    double momentum;
    if (!check_batch(rule) || !tsr_rule_f64(rule, "momentum", 0.1, &momentum)) return false;
    if (momentum < 0 || momentum > 1)
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "momentum is %g, needs 0 <= momentum <= 1",
                             momentum);
    rule->results[1] = rule->operands[MEAN];
    rule->results[2] = rule->operands[VARIANCE];
    return true;
}

/* The rows of a batch norm run over all dims but the channels'. */
static rows channels_of(tsr_builder *b, MlirOperation op) {
    rows r = {.b = b, .full = tsr_type_of(operand(op, 0)).shape};
    int64_t axis = 0;
    bool read = tsr_op_i64(op, "axis", &axis);
    TSR_ASSERT(read);
    for (uint32_t i = 0; i < r.full.rank; i++)
        if (i != axis) r.axes[r.axis_count++] = i;
    return r;
}

static MlirValue channel(const rows *r, MlirOperation op, size_t index) {
    return expand(r, tsr_emit_wide(r->b, operand(op, index)));
}

static MlirValue root_of(tsr_builder *b, MlirOperation op, MlirValue variance) {
    variance = tsr_emit_add(b, variance, tsr_emit_number(b, variance, eps_of(op)));
    return tsr_emit_unary(b, TSR_GRAPH_NAME("rsqrt"), variance);
}

bool tsr_lower_batch_norm(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    rows r = channels_of(&b, op);
    MlirValue x = tsr_emit_wide(&b, operand(op, INPUT));
    MlirValue root = expand(&r, root_of(&b, op, tsr_emit_wide(&b, operand(op, VARIANCE))));
    MlirValue y = tsr_emit_mul(&b, tsr_emit_sub(&b, x, channel(&r, op, MEAN)), root);
    y = tsr_emit_mul(&b, y, channel(&r, op, SCALE));
    return finish(op, &b, tsr_emit_add(&b, y, channel(&r, op, BIAS)));
}

/* total * -root^2 / 2, in two steps if the square is not a normal number. */
static MlirValue through_root(tsr_builder *b, MlirValue total, MlirValue root) {
    bool wide = tsr_type_of(root).dtype == TSR_DTYPE_F64;
    MlirValue half = tsr_emit_number(b, root, -0.5);
    MlirValue slope = tsr_emit_mul(b, square(b, root), half);
    MlirValue least = tsr_emit_number(b, root, wide ? -0x1p-1022 : -0x1p-126);
    MlirValue infinite = tsr_emit_number(b, root, -(double)INFINITY);
    MlirValue normal = tsr_emit_binary(b, TSR_GRAPH_NAME("and"),
                                       tsr_emit_compare(b, TSR_PREDICATE_LE, slope, least),
                                       tsr_emit_compare(b, TSR_PREDICATE_GT, slope, infinite));
    MlirValue steps = tsr_emit_mul(b, tsr_emit_mul(b, total, root), tsr_emit_mul(b, root, half));
    return tsr_emit_where(b, normal, tsr_emit_mul(b, total, slope), steps);
}

bool tsr_gradient_batch_norm(tsr_gradient *of) {
    tsr_builder *b = of->builder;
    rows r = channels_of(b, of->op);
    MlirValue variance = tsr_emit_wide(b, operand(of->op, VARIANCE)), g = of->of_result;
    MlirValue root = root_of(b, of->op, variance), x = tsr_emit_wide(b, operand(of->op, INPUT));
    MlirValue apart = tsr_emit_sub(b, x, channel(&r, of->op, MEAN));
    g = tsr_emit_wide(b, g);
    MlirValue scaled =
        tsr_emit_mul(b, tsr_emit_mul(b, g, channel(&r, of->op, SCALE)), expand(&r, root));
    if (of->wanted[INPUT]) set_gradient(of, INPUT, scaled);
    if (of->wanted[SCALE])
        set_gradient(of, SCALE,
                     sum(&r, tsr_emit_mul(b, tsr_emit_mul(b, g, apart), expand(&r, root))));
    if (of->wanted[BIAS]) set_gradient(of, BIAS, sum(&r, g));
    if (of->wanted[MEAN])
        set_gradient(of, MEAN, tsr_emit_unary(b, TSR_GRAPH_NAME("neg"), sum(&r, scaled)));
    if (of->wanted[VARIANCE]) {
        MlirValue total = sum(&r, tsr_emit_mul(b, scaled, apart));
        set_gradient(of, VARIANCE, through_root(b, total, root));
    }
    return true;
}

/* -inf < x < inf */
static MlirValue is_finite(tsr_builder *b, MlirValue x) {
    MlirValue size = tsr_emit_unary(b, TSR_GRAPH_NAME("abs"), x);
    return tsr_emit_compare(b, TSR_PREDICATE_LT, size, tsr_emit_number(b, x, (double)INFINITY));
}

/* old + (new - old) * momentum, in two products where the difference is too large; the new variance
 * without bias, times n / (n - 1). */
static MlirValue next_running(const rows *r, MlirOperation op, size_t index, MlirValue now) {
    double momentum = 0.1;
    tsr_builder *b = r->b;
    tsr_op_f64(op, "momentum", &momentum);
    MlirValue old = tsr_emit_wide(b, operand(op, index)), part = tsr_emit_number(b, old, momentum);
    MlirValue apart = tsr_emit_sub(b, now, old);
    MlirValue change = tsr_emit_sub(b, tsr_emit_mul(b, now, part), tsr_emit_mul(b, old, part));
    change = tsr_emit_where(b, is_finite(b, apart), tsr_emit_mul(b, apart, part), change);
    return tsr_emit_cast(b, tsr_emit_add(b, old, change), tsr_type_of(tsr_op_result(op, 0)).dtype);
}

bool tsr_lower_batch_norm_train(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    rows r = channels_of(&b, op);
    double count = 1;
    for (size_t i = 0; i < r.axis_count; i++) count *= (double)r.full.dims[r.axes[i]];
    MlirValue x = tsr_emit_wide(&b, operand(op, INPUT));
    MlirValue variance, y = normal(&r, op, x, true, NULL, &variance);
    MlirValue centre = tsr_emit_mean(&b, x, r.axis_count, r.axes);
    centre = repair(&r, "average", 0, x, centre, (MlirValue){NULL});
    variance = repair(&r, "variance", 0, x, variance, (MlirValue){NULL});
    y = tsr_emit_add(&b, tsr_emit_mul(&b, y, channel(&r, op, SCALE)), channel(&r, op, BIAS));
    double unbiased = count > 1 ? count / (count - 1) : 1;
    MlirValue wide = tsr_emit_mul(&b, variance, tsr_emit_number(&b, variance, unbiased));
    MlirValue values[] = {tsr_emit_cast(&b, y, tsr_type_of(tsr_op_result(op, 0)).dtype),
                          next_running(&r, op, MEAN, centre), next_running(&r, op, VARIANCE, wide)};
    tsr_emit_replace(op, 3, values);
    return true;
}

/* The running mean and variance are not part of the result: they have no gradients. */
bool tsr_gradient_batch_norm_train(tsr_gradient *of) {
    tsr_builder *b = of->builder;
    rows r = channels_of(b, of->op);
    MlirValue rscale;
    if (!mlirValueIsNull(of->of_results[1]) || !mlirValueIsNull(of->of_results[2])) {
        tsr_diag_error(mlirOperationGetLocation(of->op), TSR_DIAG_GRADIENT_PATH,
                       "%s: no gradient passes through the running mean and variance",
                       tsr_op_name(of->op));
        return false;
    }
    MlirValue g = tsr_emit_wide(b, of->of_result);
    MlirValue n = normal(&r, of->op, tsr_emit_wide(b, operand(of->op, INPUT)), true, &rscale, NULL);
    MlirValue h = tsr_emit_mul(b, g, channel(&r, of->op, SCALE));
    if (of->wanted[INPUT]) set_gradient(of, INPUT, through_normal(&r, of, n, rscale, h, true));
    if (of->wanted[SCALE]) set_gradient(of, SCALE, sum(&r, tsr_emit_mul(b, g, n)));
    if (of->wanted[BIAS]) set_gradient(of, BIAS, sum(&r, g));
    return true;
}
