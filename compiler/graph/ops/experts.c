/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtures of experts: shape rules, gradients, lowerings. In comments, G groups of T tokens have C
 * channels; each of E experts has S slots for each group; a token has k choices.
 *
 * dispatch, combine and dot are the three derivatives of one trilinear form, the sum over tokens
 * and choices of token * weight * contents of the slot; so the gradient of each is made of the
 * others.
 */
#include "compiler/graph/rules.h"

#include <inttypes.h>

static MlirValue operand(const tsr_gradient *of, size_t index) {
    return tsr_op_operand(of->op, index);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Reads an attribute that is at least 1. */
static bool read_count(const tsr_rule *rule, const char *name, int64_t *out_count) {
    int64_t count = 0;
    if (!tsr_op_i64(rule->op, name, &count) || count < 1)
        return tsr_rule_fail(rule, TSR_DIAG_EXPERTS, "%s is %" PRId64 ", must be at least 1", name,
                             count);
    *out_count = count;
    return true;
}

/* The dims of operand 0 and of the slots need sizes. */
static bool are_known(const tsr_rule *rule, size_t index, const char *what) {
    const tsr_shape *shape = &rule->operands[index].shape;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (tsr_dim_is_open(shape->dims[i]))
            return tsr_rule_fail_open(rule, what, i, shape->dims[i],
                                      "slots are numbered by sizes that must be known");
    return true;
}

/* The operand is [G, T, k] like the slots; `index` of the slots. */
static bool has_choices(const tsr_rule *rule, size_t index, const char *what, size_t slots) {
    if (!tsr_rule_rank(rule, index, what, 3)) return false;
    for (uint32_t i = 0; i < 3; i++)
        if (!tsr_rule_same_dim(rule, index, what, i, slots, "slots", i, "sizes")) return false;
    return true;
}

bool tsr_check_moe_route(tsr_rule *rule) {
    const tsr_type *logits = &rule->operands[0];
    int64_t k, capacity;
    uint64_t slots;
    if (!tsr_rule_rank(rule, 0, "logits", 3) || !are_known(rule, 0, "the logits'") ||
        !tsr_rule_dtype(rule, 0, "logits", TSR_DTYPES_WIDE_FLOAT) || !read_count(rule, "k", &k) ||
        !read_count(rule, "capacity", &capacity))
        return false;
    uint64_t experts = logits->shape.dims[2];
    if (tsr_dim_exceeds((uint64_t)k, experts)) {
        char text[TSR_DIM_TEXT_MAX];
        return tsr_rule_fail(rule, TSR_DIAG_TOP_K, "k is %" PRId64 ", needs 1 to %s experts", k,
                             tsr_dim_text(experts, text));
    }
    if (tsr_dim_is_known(experts) &&
        (__builtin_mul_overflow(experts, (uint64_t)capacity, &slots) || slots > INT32_MAX))
        return tsr_rule_fail(rule, TSR_DIAG_EXPERTS,
                             "%" PRIu64 " experts of capacity %" PRId64 " have more than %d slots",
                             experts, capacity, INT32_MAX);
    if (rule->operand_count > 1 &&
        (!tsr_rule_dtype(rule, 1, "limit", TSR_DTYPES_I64) || !tsr_rule_rank(rule, 1, "limit", 1) ||
         !tsr_rule_same_dim(rule, 1, "limit", 0, 0, "logits", 2, "numbers of experts")))
        return false;
    rule->results[0] = rule->results[1] = *logits;
    rule->results[0].shape.dims[2] = rule->results[1].shape.dims[2] = (uint64_t)k;
    rule->results[1].dtype = rule->results[3].dtype = TSR_DTYPE_I64;
    rule->results[2] = (tsr_type){.dtype = logits->dtype};
    rule->results[3].shape = (tsr_shape){.rank = 1, .dims = {experts}};
    return true;
}

static bool check_tokens(const tsr_rule *rule, size_t tokens) {
    return tsr_rule_rank(rule, tokens, "tokens", 3) && are_known(rule, tokens, "the tokens'") &&
           tsr_rule_dtype(rule, tokens, "tokens", TSR_DTYPES_FLOAT) &&
           tsr_rule_rank(rule, 1, "slots", 3) && are_known(rule, 1, "the slots'") &&
           tsr_rule_dtype(rule, 1, "slots", TSR_DTYPES_I64) &&
           tsr_rule_same_dim(rule, tokens, "tokens", 0, 1, "slots", 0, "numbers of groups") &&
           tsr_rule_same_dim(rule, tokens, "tokens", 1, 1, "slots", 1, "numbers of tokens");
}

bool tsr_check_moe_dispatch(tsr_rule *rule) {
    int64_t experts, capacity;
    if (!check_tokens(rule, 0) || !read_count(rule, "experts", &experts) ||
        !read_count(rule, "capacity", &capacity))
        return false;
    if (experts > INT32_MAX || capacity > INT32_MAX / experts)
        return tsr_rule_fail(rule, TSR_DIAG_EXPERTS,
                             "%" PRId64 " experts of capacity %" PRId64 " have more than %d slots",
                             experts, capacity, INT32_MAX);
    if (rule->operand_count > 2 && (!has_choices(rule, 2, "weights", 1) ||
                                    !tsr_rule_same_dtype(rule, 0, "tokens", 2, "weights")))
        return false;
    const tsr_shape *from = &rule->operands[0].shape;
    rule->results[0] = (tsr_type){
        .dtype = rule->operands[0].dtype,
        .shape = {.rank = 4,
                  .dims = {(uint64_t)experts, from->dims[0], (uint64_t)capacity, from->dims[2]}}};
    return true;
}

/* [E, G, S, C] and slots, one row of slots for each group. */
static bool check_slots(const tsr_rule *rule) {
    return tsr_rule_rank(rule, 0, "the operand", 4) && are_known(rule, 0, "the operand's") &&
           tsr_rule_dtype(rule, 0, "the operand", TSR_DTYPES_FLOAT) &&
           tsr_rule_rank(rule, 1, "slots", 3) && are_known(rule, 1, "the slots'") &&
           tsr_rule_dtype(rule, 1, "slots", TSR_DTYPES_I64) &&
           tsr_rule_same_dim(rule, 0, "the operand", 1, 1, "slots", 0, "numbers of groups");
}

bool tsr_check_moe_combine(tsr_rule *rule) {
    if (!check_slots(rule) || !has_choices(rule, 2, "weights", 1) ||
        !tsr_rule_same_dtype(rule, 0, "the operand", 2, "weights"))
        return false;
    rule->results[0] = rule->operands[1];
    rule->results[0].dtype = rule->operands[0].dtype;
    rule->results[0].shape.dims[2] = rule->operands[0].shape.dims[3];
    return true;
}

bool tsr_check_moe_dot(tsr_rule *rule) {
    if (!check_slots(rule) || !check_tokens(rule, 2) ||
        !tsr_rule_same_dtype(rule, 0, "the operand", 2, "tokens") ||
        !tsr_rule_same_dim(rule, 0, "the operand", 3, 2, "tokens", 2, "numbers of channels"))
        return false;
    rule->results[0] = rule->operands[1];
    rule->results[0].dtype = rule->operands[0].dtype;
    return true;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static MlirValue dispatch(tsr_builder *b, MlirValue tokens, MlirValue slots, MlirValue weights,
                          const tsr_shape *to) {
    tsr_type type = {.dtype = tsr_type_of(tokens).dtype, .shape = *to};
    const MlirValue operands[] = {tokens, slots, weights};
    const tsr_attr attrs[] = {{"experts", tsr_attr_make_i64(b->context, (int64_t)to->dims[0])},
                              {"capacity", tsr_attr_make_i64(b->context, (int64_t)to->dims[2])},
                              {0}};
    return tsr_build_value(b, TSR_GRAPH_NAME("moe_dispatch"), operands, 3,
                           tsr_type_make(b->context, &type), attrs);
}

static MlirValue combine(tsr_builder *b, MlirValue x, MlirValue slots, MlirValue weights) {
    tsr_type type = tsr_type_of(x);
    tsr_shape choices = tsr_type_of(slots).shape;
    choices.dims[2] = type.shape.dims[3];
    type.shape = choices;
    return tsr_build_value(b, TSR_GRAPH_NAME("moe_combine"), (MlirValue[]){x, slots, weights}, 3,
                           tsr_type_make(b->context, &type), NULL);
}

static MlirValue dot(tsr_builder *b, MlirValue x, MlirValue slots, MlirValue tokens) {
    tsr_type type = {.dtype = tsr_type_of(x).dtype, .shape = tsr_type_of(slots).shape};
    return tsr_build_value(b, TSR_GRAPH_NAME("moe_dot"), (MlirValue[]){x, slots, tokens}, 3,
                           tsr_type_make(b->context, &type), NULL);
}

static MlirValue ones(tsr_builder *b, MlirValue slots, tsr_dtype dtype) {
    tsr_type type = {.dtype = dtype, .shape = tsr_type_of(slots).shape};
    return tsr_emit_filled(b, &type, 1.0);
}

bool tsr_gradient_moe_dispatch(tsr_gradient *of) {
    MlirValue slots = operand(of, 1);
    bool weighted = tsr_op_operand_count(of->op) > 2;
    MlirValue weights =
        weighted ? operand(of, 2) : ones(of->builder, slots, tsr_type_of(of->of_result).dtype);
    if (of->wanted[0]) of->of_operands[0] = combine(of->builder, of->of_result, slots, weights);
    if (weighted && of->wanted[2])
        of->of_operands[2] = dot(of->builder, of->of_result, slots, operand(of, 0));
    return true;
}

bool tsr_gradient_moe_combine(tsr_gradient *of) {
    tsr_shape shape = tsr_type_of(operand(of, 0)).shape;
    MlirValue slots = operand(of, 1);
    if (of->wanted[0])
        of->of_operands[0] = dispatch(of->builder, of->of_result, slots, operand(of, 2), &shape);
    if (of->wanted[2]) of->of_operands[2] = dot(of->builder, operand(of, 0), slots, of->of_result);
    return true;
}

bool tsr_gradient_moe_dot(tsr_gradient *of) {
    tsr_shape shape = tsr_type_of(operand(of, 0)).shape;
    MlirValue slots = operand(of, 1);
    if (of->wanted[0])
        of->of_operands[0] = dispatch(of->builder, operand(of, 2), slots, of->of_result, &shape);
    if (of->wanted[2])
        of->of_operands[2] = combine(of->builder, operand(of, 0), slots, of->of_result);
    return true;
}

/* ---- lowering: routes ------------------------------------------------------------------------ */

typedef struct route {
    tsr_builder *b;
    MlirOperation op;
    tsr_shape logits;  /* G, T, E */
    tsr_shape choices; /* G, T, k */
    tsr_shape line;    /* G, k T: the choices in the order in which they take slots */
    tsr_shape grid;    /* G, k T, E */
    int64_t capacity;
} route;

/* [G, T, k] <-> [G, k T], first choices first */
static MlirValue in_order(const route *r, MlirValue x) {
    MlirValue permuted = tsr_emit_transpose(r->b, x, (int64_t[]){0, 2, 1});
    return tsr_emit_reshape(r->b, permuted, &r->line);
}

static MlirValue by_token(const route *r, MlirValue x) {
    tsr_shape permuted = r->choices;
    permuted.dims[1] = r->choices.dims[2];
    permuted.dims[2] = r->choices.dims[1];
    return tsr_emit_transpose(r->b, tsr_emit_reshape(r->b, x, &permuted), (int64_t[]){0, 2, 1});
}

/* 1 where a choice is the expert. */
static MlirValue marks(const route *r, MlirValue experts) {
    tsr_shape column = {.rank = 3, .dims = {r->line.dims[0], r->line.dims[1], 1}};
    MlirValue here = tsr_emit_compare(r->b, TSR_PREDICATE_EQ,
                                      tsr_emit_reshape(r->b, in_order(r, experts), &column),
                                      tsr_emit_iota(r->b, &r->grid, 2, TSR_DTYPE_I64));
    return tsr_emit_cast(r->b, here, TSR_DTYPE_I64);
}

static MlirValue sum_over(const route *r, MlirValue x, size_t count, const int64_t *axes) {
    return tsr_emit_reduce(r->b, TSR_GRAPH_NAME("sum"), x, count, axes);
}

/* The slot of each choice, in order: the number of its expert's choices before it. */
static MlirValue positions(const route *r, MlirValue marked) {
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(r->b->context, 1)},
                              {"exclusive", tsr_attr_make_bool(r->b->context, true)},
                              {0}};
    MlirValue before = tsr_build_value(r->b, TSR_GRAPH_NAME("cumsum"), &marked, 1,
                                       mlirValueGetType(marked), attrs);
    return sum_over(r, tsr_emit_mul(r->b, before, marked), 1, &(int64_t){2});
}

/* The number of slots that the expert of each choice has. */
static MlirValue capacities(const route *r, MlirValue marked) {
    MlirValue capacity = tsr_emit_constant(r->b, TSR_DTYPE_I64, (double)r->capacity);
    if (tsr_op_operand_count(r->op) < 2) return capacity;
    MlirValue limit =
        tsr_emit_binary(r->b, TSR_GRAPH_NAME("min"), tsr_op_operand(r->op, 1), capacity);
    return sum_over(r, tsr_emit_mul(r->b, marked, limit), 1, &(int64_t){2});
}

/* E times the sum over experts of share of choices times mean probability. */
static MlirValue balance(const route *r, MlirValue load, MlirValue probabilities) {
    tsr_dtype dtype = tsr_type_of(probabilities).dtype;
    double choices = (double)r->line.dims[0] * (double)r->line.dims[1];
    double tokens = (double)r->logits.dims[0] * (double)r->logits.dims[1];
    MlirValue sums = sum_over(r, probabilities, 2, (int64_t[]){0, 1});
    MlirValue product = tsr_emit_mul(r->b, tsr_emit_cast(r->b, load, dtype), sums);
    MlirValue sum = sum_over(r, product, 1, &(int64_t){0});
    double factor = choices * tokens > 0 ? (double)r->logits.dims[2] / (choices * tokens) : 0;
    return tsr_emit_mul(r->b, sum, tsr_emit_number(r->b, sum, factor));
}

/* [G, T, k]: the probabilities of the experts that are marked. Their gradient stays with the token,
 * as that of a gather would not. */
static MlirValue marked_of(const route *r, MlirValue probabilities, MlirValue marked) {
    uint64_t groups = r->choices.dims[0], tokens = r->choices.dims[1];
    tsr_shape all = {.rank = 4, .dims = {groups, r->choices.dims[2], tokens, r->logits.dims[2]}};
    tsr_shape once = all;
    once.dims[1] = 1;
    MlirValue here =
        tsr_emit_cast(r->b, tsr_emit_reshape(r->b, marked, &all), tsr_type_of(probabilities).dtype);
    MlirValue of = tsr_emit_mul(r->b, tsr_emit_reshape(r->b, probabilities, &once), here);
    return tsr_emit_transpose(r->b, sum_over(r, of, 1, &(int64_t){3}), (int64_t[]){0, 2, 1});
}

static MlirValue normalized(const route *r, MlirValue values) {
    tsr_shape one = r->choices;
    one.dims[2] = 1;
    MlirValue sum = tsr_emit_reshape(r->b, sum_over(r, values, 1, &(int64_t){2}), &one);
    return tsr_emit_div(r->b, values, sum);
}

static MlirValue softmax(const route *r, MlirValue logits) {
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(r->b->context, 2)}, {0}};
    return tsr_build_value(r->b, TSR_GRAPH_NAME("softmax_safe"), &logits, 1,
                           mlirValueGetType(logits), attrs);
}

static MlirOperation top(const route *r, MlirValue x) {
    const MlirType types[] = {mlirValueGetType(tsr_op_result(r->op, 0)),
                              mlirValueGetType(tsr_op_result(r->op, 1))};
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(r->b->context, 2)},
                              {"k", tsr_op_attr(r->op, "k")}};
    return tsr_build(r->b, &(tsr_op_desc){.name = TSR_GRAPH_NAME("top_k"),
                                          .operand_count = 1,
                                          .operands = &x,
                                          .result_count = 2,
                                          .results = types,
                                          .attr_count = 2,
                                          .attrs = attrs});
}

bool tsr_lower_moe_route(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    route r = {.b = &b,
               .op = op,
               .logits = tsr_type_of(tsr_op_operand(op, 0)).shape,
               .choices = tsr_type_of(tsr_op_result(op, 0)).shape};
    bool read = tsr_op_i64(op, "capacity", &r.capacity);
    TSR_ASSERT(read);
    r.line =
        (tsr_shape){.rank = 2, .dims = {r.choices.dims[0], r.choices.dims[1] * r.choices.dims[2]}};
    r.grid = (tsr_shape){.rank = 3, .dims = {r.line.dims[0], r.line.dims[1], r.logits.dims[2]}};
    MlirValue probabilities = softmax(&r, tsr_op_operand(op, 0));
    MlirOperation best = top(&r, probabilities);
    MlirValue experts = tsr_op_result(best, 1);
    MlirValue marked = marks(&r, experts), at = positions(&r, marked);
    MlirValue has_slot = tsr_emit_compare(&b, TSR_PREDICATE_LT, at, capacities(&r, marked));
    MlirValue capacity = tsr_emit_constant(&b, TSR_DTYPE_I64, (double)r.capacity);
    MlirValue slot = tsr_emit_add(&b, tsr_emit_mul(&b, in_order(&r, experts), capacity), at);
    MlirValue none =
        tsr_emit_constant(&b, TSR_DTYPE_I64, (double)r.logits.dims[2] * (double)r.capacity);
    MlirValue load = sum_over(&r, marked, 2, (int64_t[]){0, 1});
    MlirValue weights = marked_of(&r, probabilities, marked);
    if (tsr_op_flag(op, "normalize")) weights = normalized(&r, weights);
    const MlirValue results[] = {
        tsr_emit_where(&b, by_token(&r, has_slot), weights, tsr_emit_number(&b, weights, 0.0)),
        by_token(&r, tsr_emit_where(&b, has_slot, slot, none)), balance(&r, load, probabilities),
        load};
    tsr_emit_replace(op, 4, results);
    return true;
}

/* ---- lowering: tokens and slots -------------------------------------------------------------- */

/* All slots of a group, and one more that stands for no slot, are rows of one table. */
typedef struct table {
    tsr_builder *b;
    uint64_t groups, tokens, choices, experts, capacity, channels;
    MlirValue rows; /* G T k: the row of each choice */
} table;

static table table_of(tsr_builder *b, MlirValue slots, const tsr_shape *full) {
    tsr_shape choices = tsr_type_of(slots).shape;
    table t = {.b = b,
               .groups = choices.dims[0],
               .tokens = choices.dims[1],
               .choices = choices.dims[2],
               .experts = full->dims[0],
               .capacity = full->dims[2],
               .channels = full->dims[3]};
    double each = (double)(t.experts * t.capacity + 1);
    tsr_shape line = {.rank = 1, .dims = {t.groups * t.tokens * t.choices}};
    MlirValue first = tsr_emit_mul(b, tsr_emit_iota(b, &choices, 0, TSR_DTYPE_I64),
                                   tsr_emit_constant(b, TSR_DTYPE_I64, each));
    t.rows = tsr_emit_reshape(b, tsr_emit_add(b, slots, first), &line);
    return t;
}

/* [E, G, S, C] -> the table */
static MlirValue flatten(const table *t, MlirValue x) {
    uint64_t slots = t->experts * t->capacity;
    MlirValue permuted = tsr_emit_transpose(t->b, x, (int64_t[]){1, 0, 2, 3});
    tsr_shape shape = {.rank = 3, .dims = {t->groups, slots, t->channels}};
    x = tsr_emit_pad(t->b, tsr_emit_reshape(t->b, permuted, &shape), (int64_t[]){0, 0, 0},
                     (int64_t[]){0, 1, 0}, NULL, 0.0);
    shape = (tsr_shape){.rank = 2, .dims = {t->groups * (slots + 1), t->channels}};
    return tsr_emit_reshape(t->b, x, &shape);
}

static MlirValue unflatten(const table *t, MlirValue rows) {
    uint64_t slots = t->experts * t->capacity;
    tsr_shape shape = {.rank = 3, .dims = {t->groups, slots + 1, t->channels}};
    int64_t size[] = {(int64_t)t->groups, (int64_t)slots, (int64_t)t->channels};
    MlirValue x = tsr_emit_slice(t->b, tsr_emit_reshape(t->b, rows, &shape), (int64_t[]){0, 0, 0},
                                 size, NULL);
    shape = (tsr_shape){.rank = 4, .dims = {t->groups, t->experts, t->capacity, t->channels}};
    return tsr_emit_transpose(t->b, tsr_emit_reshape(t->b, x, &shape), (int64_t[]){1, 0, 2, 3});
}

/* [G, T, k, C]: the contents of each choice's slot. */
static MlirValue contents(const table *t, MlirValue x) {
    MlirValue from = flatten(t, x);
    tsr_type type = tsr_type_of(from);
    type.shape.dims[0] = t->groups * t->tokens * t->choices;
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(t->b->context, 0)}, {0}};
    MlirValue rows = tsr_build_value(t->b, TSR_GRAPH_NAME("gather"), (MlirValue[]){from, t->rows},
                                     2, tsr_type_make(t->b->context, &type), attrs);
    tsr_shape shape = {.rank = 4, .dims = {t->groups, t->tokens, t->choices, t->channels}};
    return tsr_emit_reshape(t->b, rows, &shape);
}

/* Without dim `at`. */
static MlirValue sum_dim(tsr_builder *b, MlirValue x, int64_t at) {
    tsr_shape shape = tsr_type_of(x).shape;
    if (shape.dims[at] != 1) return tsr_emit_reduce(b, TSR_GRAPH_NAME("sum"), x, 1, &at);
    for (uint32_t i = (uint32_t)at; i + 1 < shape.rank; i++) shape.dims[i] = shape.dims[i + 1];
    shape.rank--;
    return tsr_emit_reshape(b, x, &shape);
}

static MlirValue with_dim(tsr_builder *b, MlirValue x, uint32_t at) {
    tsr_shape from = tsr_type_of(x).shape, shape = {.rank = from.rank + 1};
    for (uint32_t i = 0, k = 0; i < shape.rank; i++) shape.dims[i] = i == at ? 1 : from.dims[k++];
    return tsr_emit_reshape(b, x, &shape);
}

bool tsr_lower_moe_dispatch(MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_type type = tsr_type_of(tsr_op_result(op, 0));
    table t = table_of(&b, tsr_op_operand(op, 1), &type.shape);
    tsr_shape each = {.rank = 4, .dims = {t.groups, t.tokens, t.choices, t.channels}};
    tsr_shape lines = {.rank = 2, .dims = {t.groups * t.tokens * t.choices, t.channels}};
    MlirValue tokens = with_dim(&b, tsr_op_operand(op, 0), 2);
    tokens = tsr_op_operand_count(op) > 2
                 ? tsr_emit_mul(&b, tokens, with_dim(&b, tsr_op_operand(op, 2), 3))
                 : tsr_emit_broadcast(&b, tokens, &each);
    tsr_type all = {
        .dtype = type.dtype,
        .shape = {.rank = 2, .dims = {t.groups * (t.experts * t.capacity + 1), t.channels}}};
    const tsr_attr attrs[] = {{"axis", tsr_attr_make_i64(b.context, 0)}, {0}};
    const MlirValue operands[] = {tsr_emit_filled(&b, &all, 0.0), t.rows,
                                  tsr_emit_reshape(&b, tokens, &lines)};
    MlirValue rows = tsr_build_value(&b, TSR_GRAPH_NAME("scatter_add"), operands, 3,
                                     tsr_type_make(b.context, &all), attrs);
    MlirValue result = unflatten(&t, rows);
    tsr_emit_replace(op, 1, &result);
    return true;
}

/* Multiplies the rows of the chosen slots by the last operand, which lacks dim `absent`, and sums
 * over dim `summed`. */
static bool lower_sum(MlirOperation op, uint32_t absent, uint32_t summed) {
    tsr_builder b = tsr_builder_before(op);
    tsr_shape full = tsr_type_of(tsr_op_operand(op, 0)).shape;
    table t = table_of(&b, tsr_op_operand(op, 1), &full);
    MlirValue products = tsr_emit_mul(&b, contents(&t, tsr_op_operand(op, 0)),
                                      with_dim(&b, tsr_op_operand(op, 2), absent));
    MlirValue sum = sum_dim(&b, products, summed);
    tsr_emit_replace(op, 1, &sum);
    return true;
}

bool tsr_lower_moe_combine(MlirOperation op) { return lower_sum(op, 3, 2); }

bool tsr_lower_moe_dot(MlirOperation op) { return lower_sum(op, 2, 3); }
