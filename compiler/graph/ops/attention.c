/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention and rotary embedding: shape rules, gradients and lowering to simpler ops.
 */
#include "compiler/graph/rules.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/samples.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>

enum { QUERY, KEY, VALUE, MASK, RESULT = 3, LOGSUMEXP, DRESULT, GRAD_MASK };
/* Operands of dropout, after all other operands: the number of the first head of each item of the
 * batch, the step, the seed. */
enum { HEADS, STEP, SEED, SAMPLES, OPERANDS_MAX = GRAD_MASK + 1 + SAMPLES, RESULTS_MAX = 3 };

/* Index of the mask, whether or not it is present. */
static size_t mask_of(MlirOperation op) {
    return tsr_op_is(op, TSR_GRAPH_ATTENTION) ? MASK : GRAD_MASK;
}

static bool has_samples(MlirOperation op) {
    return tsr_op_has(op, "dropout") && tsr_op_operand_count(op) >= mask_of(op) + SAMPLES;
}

static bool has_mask(MlirOperation op) {
    return tsr_op_operand_count(op) - (has_samples(op) ? SAMPLES : 0) > mask_of(op);
}

static MlirValue sample_operand(MlirOperation op, size_t index) {
    return tsr_op_operand(op, tsr_op_operand_count(op) - SAMPLES + index);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Query, key and value fit each other. */
static bool check_qkv(const tsr_rule *rule) {
    static const char *const names[] = {"query", "key", "value"};
    const tsr_shape *q = &rule->operands[QUERY].shape, *k = &rule->operands[KEY].shape;
    double scale;
    if (!tsr_rule_dtype(rule, QUERY, names[0], TSR_DTYPES_FLOAT)) return false;
    for (size_t i = 0; i < 3; i++)
        if (!tsr_rule_rank(rule, i, names[i], 4) ||
            !tsr_rule_same_dtype(rule, QUERY, names[0], i, names[i]))
            return false;
    if (!tsr_rule_same_dim(rule, QUERY, "query", 0, KEY, "key", 0, "batches") ||
        !tsr_rule_same_dim(rule, QUERY, "query", 3, KEY, "key", 3, "head sizes") ||
        !tsr_rule_same_dim(rule, KEY, "key", 0, VALUE, "value", 0, "batches") ||
        !tsr_rule_same_dim(rule, KEY, "key", 1, VALUE, "value", 1, "numbers of heads") ||
        !tsr_rule_same_dim(rule, KEY, "key", 2, VALUE, "value", 2, "numbers of keys"))
        return false;
    for (size_t i = 0; i < 2; i++) {
        uint64_t heads = rule->operands[i].shape.dims[1];
        if (tsr_dim_is_open(heads) && !tsr_dim_fits(q->dims[1], k->dims[1]))
            return tsr_rule_fail_open(rule, names[i], 1, heads,
                                      "different numbers of heads must be known");
    }
    if (tsr_dim_is_known(q->dims[1]) && tsr_dim_is_known(k->dims[1]) &&
        (k->dims[1] == 0 ? q->dims[1] != 0 : q->dims[1] % k->dims[1] != 0))
        return tsr_rule_fail_dims(rule, TSR_DIAG_MULTIPLE, 2,
                                  (const tsr_rule_dim[]){{names[0], QUERY, 1}, {names[1], KEY, 1}},
                                  "%" PRIu64 " query heads are not a multiple of %" PRIu64
                                  " key heads",
                                  q->dims[1], k->dims[1]);
    return tsr_rule_f64(rule, "scale", 1.0, &scale);
}

/* Elements are numbered with 64 bits. */
static bool check_samples(const tsr_rule *rule) {
    uint64_t queries = rule->operands[QUERY].shape.dims[2], numbers;
    uint64_t keys = rule->operands[KEY].shape.dims[2];
    if (!tsr_op_has(rule->op, "dropout") || !tsr_dim_is_known(queries) || !tsr_dim_is_known(keys) ||
        tsr_samples_of_head(queries, keys, &numbers))
        return true;
    return tsr_rule_fail(rule, TSR_DIAG_SAMPLES,
                         "%" PRIu64 " queries and %" PRIu64 " keys have more than 2^63 weights",
                         queries, keys);
}

static bool check_mask(const tsr_rule *rule) {
    size_t index = mask_of(rule->op);
    const tsr_type *mask = &rule->operands[index];
    tsr_type logits = {.dtype = rule->operands[QUERY].dtype, .shape = rule->operands[QUERY].shape};
    char is[TSR_TYPE_TEXT_MAX], must[TSR_TYPE_TEXT_MAX];
    if (!has_mask(rule->op)) return true;
    if (mask->dtype != TSR_DTYPE_I1 && mask->dtype != logits.dtype)
        return tsr_rule_fail(rule, TSR_DIAG_MASK, "element type of the mask is %s, needs i1 or %s",
                             tsr_dtype_name(mask->dtype), tsr_dtype_name(logits.dtype));
    logits.shape.dims[3] = rule->operands[KEY].shape.dims[2];
    tsr_shape wide = logits.shape;
    uint32_t from_dim, dim;
    bool is_inferred = tsr_type_is_inferred(&logits) && tsr_type_is_inferred(mask);
    if (tsr_shape_broadcast(&mask->shape, &wide, &from_dim, &dim) &&
        (!is_inferred || tsr_shape_equal(&wide, &logits.shape)))
        return true;
    return tsr_rule_fail(rule, TSR_DIAG_MASK, "the mask (%s) does not broadcast to %s",
                         tsr_type_text(mask, is), tsr_type_text(&logits, must));
}

static tsr_type result_type(const tsr_rule *rule) {
    tsr_type type = rule->operands[QUERY];
    type.shape.dims[3] = rule->operands[VALUE].shape.dims[3];
    return type;
}

static tsr_type logsumexp_type(const tsr_rule *rule) {
    tsr_type type = rule->operands[QUERY];
    type.shape.rank = 3;
    if (type.dtype != TSR_DTYPE_F64) type.dtype = TSR_DTYPE_F32;
    return type;
}

/* Also checks the number of operands. */
static bool check_dropout(const tsr_rule *rule) {
    size_t low = mask_of(rule->op), first = rule->operand_count - SAMPLES;
    double rate = 0;
    int64_t stream = 0;
    if (!tsr_rule_f64(rule, "dropout", 0.0, &rate)) return false;
    if (!(rate >= 0 && rate < 1))
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "dropout is %g, needs 0 <= dropout < 1", rate);
    tsr_op_i64(rule->op, "stream", &stream);
    if (stream < 0 || stream > UINT32_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_STREAM, "stream is %" PRId64 ", needs 0 to 2^32 - 1",
                             stream);
    if (!has_samples(rule->op)) return tsr_rule_operand_count(rule, low, low + 1);
    return tsr_rule_operand_count(rule, low + SAMPLES, low + 1 + SAMPLES) &&
           tsr_rule_dtype(rule, first + HEADS, "heads", TSR_DTYPES_I64) &&
           tsr_rule_rank(rule, first + HEADS, "heads", 1) &&
           tsr_rule_same_dim(rule, QUERY, "query", 0, first + HEADS, "heads", 0, "batches") &&
           tsr_rule_dtype(rule, first + STEP, "step", TSR_DTYPES_I64) &&
           tsr_rule_rank(rule, first + STEP, "step", 0) &&
           tsr_rule_dtype(rule, first + SEED, "seed", TSR_DTYPES_I64) &&
           tsr_rule_rank(rule, first + SEED, "seed", 0);
}

bool tsr_check_attention(tsr_rule *rule) {
    if (!check_dropout(rule) || !check_qkv(rule) || !check_samples(rule) || !check_mask(rule))
        return false;
    if (rule->result_count < 1 || rule->result_count > 2)
        return tsr_rule_fail(rule, TSR_DIAG_OPERANDS, "has %zu results, needs 1 or 2",
                             rule->result_count);
    rule->results[0] = result_type(rule);
    if (rule->result_count == 2) rule->results[1] = logsumexp_type(rule);
    return true;
}

bool tsr_check_attention_grad(tsr_rule *rule) {
    if (!check_dropout(rule) || !check_qkv(rule) || !check_samples(rule) || !check_mask(rule))
        return false;
    tsr_type result = result_type(rule), logsumexp = logsumexp_type(rule);
    if (!tsr_rule_shape(rule, RESULT, "the result", &result.shape) ||
        !tsr_rule_shape(rule, LOGSUMEXP, "the logsumexp", &logsumexp.shape) ||
        !tsr_rule_shape(rule, DRESULT, "the result's gradient", &result.shape) ||
        !tsr_rule_same_dtype(rule, QUERY, "query", RESULT, "the result") ||
        !tsr_rule_same_dtype(rule, QUERY, "query", DRESULT, "the result's gradient"))
        return false;
    if (rule->operands[LOGSUMEXP].dtype != logsumexp.dtype)
        return tsr_rule_fail(rule, TSR_DIAG_DTYPE_MIX, "the logsumexp is of %s, needs %s",
                             tsr_dtype_name(rule->operands[LOGSUMEXP].dtype),
                             tsr_dtype_name(logsumexp.dtype));
    for (size_t i = 0; i < 3; i++) rule->results[i] = rule->operands[i];
    return true;
}

/* ---- lowering to simpler ops ----------------------------------------------------------------- */

/* Heads are [B, G, R, ...]: group G of R query heads reads key head G. */
typedef struct parts {
    tsr_builder *b;
    MlirOperation op;
    uint64_t batch, groups, per_group, queries, keys;
    double scale;
    MlirValue query, key, value; /* wide; [B, G, R, S, D], [B, G, 1, T, D], [B, G, 1, T, E] */
    MlirValue logits;            /* [B, G, R, S, T] */
} parts;

static MlirValue grouped(const parts *p, MlirValue x, uint64_t per_group) {
    tsr_shape shape = tsr_type_of(x).shape;
    tsr_shape to = {.rank = 5,
                    .dims = {p->batch, p->groups, per_group, shape.dims[2], shape.dims[3]}};
    if (shape.rank == 3)
        to = (tsr_shape){.rank = 5, .dims = {to.dims[0], to.dims[1], to.dims[2], shape.dims[2], 1}};
    return tsr_emit_reshape(p->b, tsr_emit_wide(p->b, x), &to);
}

static MlirValue splat_like(const parts *p, MlirValue x, double value) {
    return tsr_emit_number(p->b, x, value);
}

/* The dim of heads, where the mask has it, becomes two. */
static MlirValue masked(const parts *p, MlirValue logits, MlirValue mask) {
    tsr_type type = tsr_type_of(mask);
    if (type.shape.rank >= 3) {
        tsr_shape to = {.rank = type.shape.rank + 1};
        uint32_t heads = type.shape.rank - 3;
        bool one = type.shape.dims[heads] == 1;
        for (uint32_t i = 0, k = 0; i < type.shape.rank; i++) {
            to.dims[k++] = i == heads && !one ? p->groups : type.shape.dims[i];
            if (i == heads) to.dims[k++] = one ? 1 : p->per_group;
        }
        mask = tsr_emit_reshape(p->b, mask, &to);
    }
    if (type.dtype != TSR_DTYPE_I1) return tsr_emit_add(p->b, logits, tsr_emit_wide(p->b, mask));
    return tsr_emit_where(p->b, mask, logits, splat_like(p, logits, -(double)INFINITY));
}

/* Query i sees the keys j <= i + T - S. */
static MlirValue causal(const parts *p, MlirValue logits) {
    tsr_builder *b = p->b;
    tsr_shape square = {.rank = 2, .dims = {p->queries, p->keys}};
    MlirValue row = tsr_emit_iota(b, &square, 0, TSR_DTYPE_I64);
    MlirValue column = tsr_emit_iota(b, &square, 1, TSR_DTYPE_I64);
    double shift = (double)p->keys - (double)p->queries;
    row = tsr_emit_add(b, row, tsr_emit_constant(b, TSR_DTYPE_I64, shift));
    MlirValue seen = tsr_emit_compare(b, TSR_PREDICATE_LE, column, row);
    return tsr_emit_where(b, seen, logits, splat_like(p, logits, -(double)INFINITY));
}

static parts parts_of(tsr_builder *b, MlirOperation op) {
    tsr_shape q = tsr_type_of(tsr_op_operand(op, QUERY)).shape;
    tsr_shape k = tsr_type_of(tsr_op_operand(op, KEY)).shape;
    parts p = {.b = b,
               .op = op,
               .batch = q.dims[0],
               .groups = k.dims[1],
               .per_group = k.dims[1] ? q.dims[1] / k.dims[1] : 1,
               .queries = q.dims[2],
               .keys = k.dims[2],
               .scale = 1.0 / sqrt((double)q.dims[3])};
    tsr_op_f64(op, "scale", &p.scale);
    p.query = grouped(&p, tsr_op_operand(op, QUERY), p.per_group);
    p.key = grouped(&p, tsr_op_operand(op, KEY), 1);
    p.value = grouped(&p, tsr_op_operand(op, VALUE), 1);
    p.logits = tsr_emit_matmul(b, p.query, p.key, false, true);
    p.logits = tsr_emit_mul(b, p.logits, splat_like(&p, p.logits, p.scale));
    if (has_mask(op)) p.logits = masked(&p, p.logits, tsr_op_operand(op, mask_of(op)));
    if (tsr_op_flag(op, "causal")) p.logits = causal(&p, p.logits);
    return p;
}

static const int64_t last[] = {4};

static MlirValue over_keys(const parts *p, const char *reduction, MlirValue x) {
    tsr_shape shape = tsr_type_of(x).shape;
    x = tsr_emit_reduce(p->b, reduction, x, 1, last);
    shape.dims[4] = 1;
    return tsr_emit_reshape(p->b, x, &shape);
}

static MlirValue unless_equal(const parts *p, MlirValue x, double value, double instead) {
    MlirValue is = tsr_emit_compare(p->b, TSR_PREDICATE_EQ, x, splat_like(p, x, value));
    return tsr_emit_where(p->b, is, splat_like(p, x, instead), x);
}

static MlirValue shaped_as(const parts *p, MlirValue x, MlirValue like) {
    tsr_type type = tsr_type_of(like);
    x = tsr_emit_reshape(p->b, x, &type.shape);
    return tsr_emit_cast(p->b, x, type.dtype);
}

/* exp(logits - shift) */
static MlirValue powers(const parts *p, MlirValue shift) {
    return tsr_emit_unary(p->b, TSR_GRAPH_NAME("exp"), tsr_emit_sub(p->b, p->logits, shift));
}

/* ---- dropout --------------------------------------------------------------------------------- */

static size_t copy_attrs(MlirOperation op, tsr_attr attrs[static 5]) {
    size_t count = 0;
    static const char *const names[] = {"causal", "scale", "dropout", "stream", TSR_SEED_NAME};
    for (size_t i = 0; i < TSR_COUNT(names); i++)
        if (tsr_op_has(op, names[i]))
            attrs[count++] = (tsr_attr){names[i], tsr_op_attr(op, names[i])};
    return count;
}

bool tsr_attention_will_sample(MlirOperation op) {
    double rate = 0;
    tsr_op id = tsr_op_of(op);
    return (id == TSR_GRAPH_ATTENTION || id == TSR_GRAPH_ATTENTION_GRAD) &&
           tsr_op_f64(op, "dropout", &rate) && !has_samples(op);
}

/* The number of the first head of each item of the batch; an iteration's heads follow the heads of
 * the previous iteration. */
static MlirValue number_heads(tsr_builder *b, MlirOperation op, const tsr_samples *samples) {
    tsr_shape q = tsr_type_of(tsr_op_operand(op, QUERY)).shape;
    tsr_shape batches = {.rank = 1, .dims = {q.dims[0]}};
    MlirValue heads = tsr_emit_mul(b, tsr_emit_iota(b, &batches, 0, TSR_DTYPE_I64),
                                   tsr_emit_constant(b, TSR_DTYPE_I64, (double)q.dims[1]));
    if (samples) {
        double all = (double)q.dims[0] * (double)q.dims[1];
        MlirValue before =
            tsr_emit_mul(b, samples->iteration, tsr_emit_constant(b, TSR_DTYPE_I64, all));
        heads = tsr_emit_add(b, heads, before);
    }
    return heads;
}

bool tsr_attention_sample(MlirOperation op, const tsr_samples *samples) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue operands[OPERANDS_MAX], results[RESULTS_MAX];
    MlirType types[RESULTS_MAX];
    tsr_attr attrs[5];
    size_t count = tsr_op_operand_count(op), result_count = tsr_op_result_count(op);
    if (!tsr_op_has(op, "stream")) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_STREAM_MISSING,
                       "%s: has no stream; pass tessera-streams gives it one", tsr_op_name(op));
        return false;
    }
    for (size_t i = 0; i < count; i++) operands[i] = tsr_op_operand(op, i);
    for (size_t i = 0; i < result_count; i++) types[i] = mlirValueGetType(tsr_op_result(op, i));
    operands[count + HEADS] = number_heads(&b, op, samples);
    operands[count + STEP] =
        samples ? samples->step : tsr_random_source(&b, TSR_GRAPH_NAME("step"));
    operands[count + SEED] = tsr_random_seed(&b, op, samples);
    MlirOperation made = tsr_build(&b, &(tsr_op_desc){.name = tsr_op_name(op),
                                                      .operand_count = count + SAMPLES,
                                                      .operands = operands,
                                                      .result_count = result_count,
                                                      .results = types,
                                                      .attr_count = copy_attrs(op, attrs),
                                                      .attrs = attrs});
    mlirOperationRemoveDiscardableAttributeByName(made, tsr_ref(TSR_SEED_NAME));
    for (size_t i = 0; i < result_count; i++) results[i] = tsr_op_result(made, i);
    tsr_emit_replace(op, result_count, results);
    return true;
}

/* Removes the rate if nothing is dropped: it is 0, or the entry does not train. */
static bool resolve_dropout(MlirOperation op) {
    double rate = 0;
    tsr_op_f64(op, "dropout", &rate);
    if (rate > 0 && tsr_random_trains(op)) return tsr_attention_sample(op, NULL);
    mlirOperationRemoveAttributeByName(op, tsr_ref("dropout"));
    mlirOperationRemoveAttributeByName(op, tsr_ref("stream"));
    mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref(TSR_SEED_NAME));
    return true;
}

/* i64, a number of each query or key (samples.h), as dim `dim` of five. */
static MlirValue samples_over_dim(tsr_builder *b, uint64_t count, uint32_t dim, uint64_t keys) {
    tsr_type type = {.dtype = TSR_DTYPE_I64, .shape = {.rank = 5, .dims = {1, 1, 1, 1, 1}}};
    tsr_arena arena = {0};
    type.shape.dims[dim] = count;
    int64_t *positions = TSR_NEW(&arena, int64_t, count + 1);
    TSR_NEED(positions);
    for (uint64_t i = 0; i < count; i++)
        positions[i] = (int64_t)(dim == 3 ? tsr_samples_of_query(i, keys) : tsr_samples_of_key(i));
    tsr_attr attrs[] = {{"value", tsr_attr_make_elements(b->context, &type, positions)}, {0}};
    MlirValue constant = tsr_build_value(b, TSR_GRAPH_NAME("constant"), NULL, 0,
                                         tsr_type_make(b->context, &type), attrs);
    tsr_arena_finish(&arena);
    return constant;
}

/* [B, G, R, S, T] */
static MlirValue dropped(const parts *p, MlirValue weights) {
    double rate = 0;
    int64_t stream = 0;
    if (!has_samples(p->op)) return weights;
    tsr_op_f64(p->op, "dropout", &rate);
    tsr_op_i64(p->op, "stream", &stream);
    tsr_shape all = tsr_type_of(weights).shape, item = all;
    tsr_shape first = {.rank = 5, .dims = {p->batch, 1, 1, 1, 1}};
    uint64_t queries = all.dims[3], keys = all.dims[4], numbers = 0;
    bool counted = tsr_samples_of_head(queries, keys, &numbers);
    TSR_ASSERT(counted);
    item.dims[0] = item.dims[3] = item.dims[4] = 1;
    MlirValue heads = tsr_emit_reshape(p->b, sample_operand(p->op, HEADS), &first);
    heads = tsr_emit_add(p->b, heads, tsr_random_positions(p->b, &item));
    MlirValue size = tsr_emit_constant(p->b, TSR_DTYPE_I64, (double)numbers);
    MlirValue elements = tsr_emit_add(p->b, tsr_emit_mul(p->b, heads, size),
                                      samples_over_dim(p->b, queries, 3, keys));
    elements = tsr_emit_add(p->b, elements, samples_over_dim(p->b, keys, 4, keys));
    elements = tsr_emit_broadcast(p->b, elements, &all);
    return tsr_random_drop(p->b, weights, rate, stream, elements, sample_operand(p->op, STEP),
                           sample_operand(p->op, SEED));
}

bool tsr_attention_is_legal(MlirOperation op) {
    enum { HEAD_MAX = 256 }; /* maximum head size of the kernel */
    if (tsr_attention_will_sample(op)) return false;
    tsr_type query = tsr_type_of(tsr_op_operand(op, QUERY));
    tsr_type value = tsr_type_of(tsr_op_operand(op, VALUE));
    return tsr_type_is_static(&query) && tsr_type_is_static(&value) &&
           query.shape.dims[3] <= HEAD_MAX && value.shape.dims[3] <= HEAD_MAX;
}

bool tsr_lower_attention(MlirOperation op) {
    if (tsr_attention_will_sample(op)) return resolve_dropout(op);
    tsr_builder b = tsr_builder_before(op);
    parts p = parts_of(&b, op);
    MlirValue largest = over_keys(&p, TSR_GRAPH_NAME("reduce_max"), p.logits);
    largest = unless_equal(&p, largest, -(double)INFINITY, 0.0);
    MlirValue power = powers(&p, largest);
    MlirValue sum = over_keys(&p, TSR_GRAPH_NAME("sum"), power);
    MlirValue values[2] = {tsr_emit_matmul(&b, dropped(&p, power), p.value, false, false)};
    values[0] = tsr_emit_div(&b, values[0], unless_equal(&p, sum, 0.0, 1.0));
    values[0] = shaped_as(&p, values[0], tsr_op_result(op, 0));
    if (tsr_op_result_count(op) == 2) {
        /* -inf where no key is seen; a gradient through it is 0 there, not 0 times infinity. */
        MlirValue none = tsr_emit_compare(&b, TSR_PREDICATE_EQ, sum, splat_like(&p, sum, 0.0));
        MlirValue log = tsr_emit_unary(&b, TSR_GRAPH_NAME("log"), unless_equal(&p, sum, 0.0, 1.0));
        values[1] = tsr_emit_where(&b, none, splat_like(&p, sum, -(double)INFINITY),
                                   tsr_emit_add(&b, log, largest));
        values[1] = shaped_as(&p, values[1], tsr_op_result(op, 1));
    }
    tsr_emit_replace(op, tsr_op_result_count(op), values);
    return true;
}

/* P = exp(logits - logsumexp), dP = dO V^T and t = sum of dO O per query (Dao et al. 2022,
 * appendix B.2): dV = P^T dO, dS = P (dP - t) scale, dQ = dS K, dK = dS^T Q; keys and values are
 * summed over the heads of their group. Dropout is linear: dV uses the weights that are left, and
 * dP the elements of dO V^T that are left. */
bool tsr_lower_attention_grad(MlirOperation op) {
    if (tsr_attention_will_sample(op)) return resolve_dropout(op);
    tsr_builder b = tsr_builder_before(op);
    parts p = parts_of(&b, op);
    MlirValue logsumexp = grouped(&p, tsr_op_operand(op, LOGSUMEXP), p.per_group);
    MlirValue chances = powers(&p, unless_equal(&p, logsumexp, -(double)INFINITY, 0.0));
    MlirValue result = grouped(&p, tsr_op_operand(op, RESULT), p.per_group);
    MlirValue dresult = grouped(&p, tsr_op_operand(op, DRESULT), p.per_group);
    MlirValue total = over_keys(&p, TSR_GRAPH_NAME("sum"), tsr_emit_mul(&b, dresult, result));
    MlirValue dchances = dropped(&p, tsr_emit_matmul(&b, dresult, p.value, false, true));
    MlirValue dlogits = tsr_emit_mul(&b, chances, tsr_emit_sub(&b, dchances, total));
    dlogits = tsr_emit_mul(&b, dlogits, splat_like(&p, dlogits, p.scale));
    MlirValue values[] = {tsr_emit_matmul(&b, dlogits, p.key, false, false),
                          tsr_emit_matmul(&b, dlogits, p.query, true, false),
                          tsr_emit_matmul(&b, dropped(&p, chances), dresult, true, false)};
    tsr_shape key = tsr_type_of(p.key).shape, value = tsr_type_of(p.value).shape;
    values[1] = tsr_emit_sum_to(&b, values[1], &key);
    values[2] = tsr_emit_sum_to(&b, values[2], &value);
    for (size_t i = 0; i < 3; i++) values[i] = shaped_as(&p, values[i], tsr_op_result(op, i));
    tsr_emit_replace(op, 3, values);
    return true;
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* The same attention with its logsumexp; replaces the op. */
static MlirOperation with_logsumexp(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_rule rule;
    tsr_attr attrs[5];
    MlirValue operands[OPERANDS_MAX];
    size_t count = tsr_op_operand_count(op);
    bool valid = tsr_graph_check(op, &rule);
    TSR_ASSERT(valid);
    tsr_type logsumexp = logsumexp_type(&rule);
    for (size_t i = 0; i < count; i++) operands[i] = tsr_op_operand(op, i);
    MlirType results[] = {mlirValueGetType(tsr_op_result(op, 0)),
                          tsr_type_make(b.context, &logsumexp)};
    MlirOperation both = tsr_build(&b, &(tsr_op_desc){.name = TSR_GRAPH_NAME("attention"),
                                                      .operand_count = count,
                                                      .operands = operands,
                                                      .result_count = 2,
                                                      .results = results,
                                                      .attr_count = copy_attrs(op, attrs),
                                                      .attrs = attrs});
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), tsr_op_result(both, 0));
    return both;
}

bool tsr_gradient_attention(tsr_gradient *of) {
    MlirOperation op = of->op;
    bool is_masked = has_mask(op);
    tsr_attr attrs[5];
    if (tsr_op_has(op, "dropout") && !tsr_op_has(op, "stream")) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_STREAM_MISSING,
                       "%s: has no stream yet; run -tessera-streams first", tsr_op_name(op));
        return false;
    }
    /* Gradients of an added mask, and gradients through the logsumexp, need the simpler ops. */
    if (!mlirValueIsNull(of->of_results[1]) || (is_masked && of->wanted[MASK]))
        return tsr_gradient_lowered(of);
    if (tsr_op_result_count(op) == 1) op = with_logsumexp(op);
    MlirValue operands[OPERANDS_MAX] = {tsr_op_operand(op, 0), tsr_op_operand(op, 1),
                                        tsr_op_operand(op, 2), tsr_op_result(op, 0),
                                        tsr_op_result(op, 1),  of->of_result};
    size_t count = GRAD_MASK;
    for (size_t i = MASK; i < tsr_op_operand_count(op); i++)
        operands[count++] = tsr_op_operand(op, i);
    MlirType types[] = {mlirValueGetType(operands[0]), mlirValueGetType(operands[1]),
                        mlirValueGetType(operands[2])};
    MlirOperation grad =
        tsr_build(of->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("attention_grad"),
                                              .operand_count = count,
                                              .operands = operands,
                                              .result_count = 3,
                                              .results = types,
                                              .attr_count = copy_attrs(op, attrs),
                                              .attrs = attrs});
    for (size_t i = 0; i < 3; i++) of->of_operands[i] = tsr_op_result(grad, i);
    return true;
}

/* ---- rotary embedding ------------------------------------------------------------------------ */

bool tsr_check_rotary(tsr_rule *rule) {
    const tsr_shape *shape = &rule->operands[0].shape;
    int64_t axis, offset = 0;
    double base;
    if (!tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_FLOAT)) return false;
    if (shape->rank < 2)
        return tsr_rule_fail(rule, TSR_DIAG_RANK,
                             "the operand has %" PRIu32 " dims, needs at least 2", shape->rank);
    if (!tsr_rule_axis(rule, shape->rank - 1, &axis) || !tsr_rule_f64(rule, "base", 1e4, &base))
        return false;
    uint64_t size = shape->dims[shape->rank - 1];
    if (tsr_dim_is_known(size) && size % 2)
        return tsr_rule_fail_dims(rule, TSR_DIAG_MULTIPLE, 1,
                                  &(tsr_rule_dim){"operand", 0, shape->rank - 1},
                                  "the last dim is %" PRIu64 ", needs to be even", size);
    tsr_op_i64(rule->op, "offset", &offset);
    if (!(base > 0) || offset < 0 || offset > INT32_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_ROTARY,
                             "base is %g, offset %" PRId64 "; needs base > 0, 0 <= offset < 2^31",
                             base, offset);
    rule->results[0] = rule->operands[0];
    return true;
}

/* The elements of both tables are stored in the program. */
static bool tables_fit(MlirOperation op, const tsr_type *type) {
    enum { TABLE_BYTES_MAX = 1 << 30 };
    int64_t axis = 0;
    bool read = tsr_op_i64(op, "axis", &axis);
    TSR_ASSERT(read);
    uint64_t positions = type->shape.dims[axis], pairs = type->shape.dims[type->shape.rank - 1] / 2;
    if (!pairs || positions <= TABLE_BYTES_MAX / tsr_dtype_size(type->dtype) / pairs) return true;
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_MEMORY,
                   "%s: a table of %" PRIu64 " positions by %" PRIu64
                   " angles has more than %d bytes",
                   tsr_op_name(op), positions, pairs, TABLE_BYTES_MAX);
    return false;
}

/* A table [positions, pairs] of the cosines or sines, with dims of 1 between and after them. */
static MlirValue table(tsr_builder *b, MlirOperation op, const tsr_shape *shape,
                       double (*of)(double), tsr_dtype dtype, bool split) {
    int64_t axis = 0, offset = 0;
    double base = 1e4;
    bool read = tsr_op_i64(op, "axis", &axis);
    TSR_ASSERT(read);
    tsr_op_i64(op, "offset", &offset);
    tsr_op_f64(op, "base", &base);
    uint64_t positions = shape->dims[axis], pairs = shape->dims[shape->rank - 1] / 2;
    tsr_type type = {.dtype = dtype, .shape = {.rank = shape->rank - (uint32_t)axis}};
    for (uint32_t i = 0; i < type.shape.rank; i++) type.shape.dims[i] = 1;
    type.shape.dims[0] = positions;
    type.shape.dims[type.shape.rank - 1] = pairs;
    if (split) type.shape.dims[type.shape.rank++] = 1;
    tsr_arena arena = {0};
    size_t width = tsr_dtype_size(dtype);
    char *data = TSR_NEW(&arena, char, positions *pairs *width + 1);
    TSR_NEED(data);
    for (uint64_t position = 0; position < positions; position++)
        for (uint64_t pair = 0; pair < pairs; pair++) {
            double frequency = pow(base, -(double)pair / (double)pairs);
            double value = of(((double)offset + (double)position) * frequency);
            tsr_dtype_write(dtype, value, data, position * pairs + pair);
        }
    tsr_attr attrs[] = {{"value", tsr_attr_make_elements(b->context, &type, data)}, {0}};
    MlirValue constant = tsr_build_value(b, TSR_GRAPH_NAME("constant"), NULL, 0,
                                         tsr_type_make(b->context, &type), attrs);
    tsr_arena_finish(&arena);
    return constant;
}

/* The operand as two halves: its pairs' first and second elements, and back. Interleaved pairs are
 * a dim of 2 of their own. */
static MlirValue half(tsr_builder *b, MlirValue x, uint64_t which) {
    tsr_shape shape = tsr_type_of(x).shape;
    int64_t start[TSR_RANK_MAX] = {0}, size[TSR_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++) size[i] = (int64_t)shape.dims[i];
    size[shape.rank - 1] /= 2;
    start[shape.rank - 1] = (int64_t)which * size[shape.rank - 1];
    return tsr_emit_slice(b, x, start, size, NULL);
}

bool tsr_lower_rotary(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    MlirValue x = tsr_emit_wide(&b, tsr_op_operand(op, 0));
    tsr_type type = tsr_type_of(x);
    tsr_shape pairs = type.shape;
    bool split = tsr_op_flag(op, "interleaved");
    if (!tables_fit(op, &type)) return false;
    if (split) {
        if (pairs.rank == TSR_RANK_MAX) {
            tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_LIMIT,
                           "%s: interleaved needs at most %d dims", tsr_op_name(op),
                           TSR_RANK_MAX - 1);
            return false;
        }
        pairs.dims[pairs.rank - 1] /= 2;
        pairs.dims[pairs.rank++] = 2;
        x = tsr_emit_reshape(&b, x, &pairs);
    }
    MlirValue first = half(&b, x, 0), second = half(&b, x, 1);
    MlirValue c = table(&b, op, &type.shape, cos, type.dtype, split);
    MlirValue s = table(&b, op, &type.shape, sin, type.dtype, split);
    if (tsr_op_flag(op, "inverse")) s = tsr_emit_unary(&b, TSR_GRAPH_NAME("neg"), s);
    MlirValue rotated[] = {
        tsr_emit_sub(&b, tsr_emit_mul(&b, first, c), tsr_emit_mul(&b, second, s)),
        tsr_emit_add(&b, tsr_emit_mul(&b, second, c), tsr_emit_mul(&b, first, s))};
    MlirValue y = tsr_emit_concat(&b, 2, rotated, pairs.rank - 1);
    y = tsr_emit_reshape(&b, y, &type.shape);
    y = tsr_emit_cast(&b, y, tsr_type_of(tsr_op_result(op, 0)).dtype);
    tsr_emit_replace(op, 1, &y);
    return true;
}

/* Rotates back by the same angles. */
bool tsr_gradient_rotary(tsr_gradient *of) {
    static const char *const names[] = {"axis", "offset", "base", "interleaved"};
    tsr_attr attrs[6] = {0};
    size_t count = 0;
    if (!of->wanted[0]) return true;
    for (size_t i = 0; i < 4; i++)
        if (tsr_op_has(of->op, names[i]))
            attrs[count++] = (tsr_attr){names[i], tsr_op_attr(of->op, names[i])};
    if (!tsr_op_flag(of->op, "inverse"))
        attrs[count] = (tsr_attr){"inverse", tsr_attr_make_unit(of->builder->context)};
    of->of_operands[0] = tsr_build_value(of->builder, TSR_GRAPH_NAME("rotary"), &of->of_result, 1,
                                         mlirValueGetType(of->of_result), attrs);
    return true;
}
