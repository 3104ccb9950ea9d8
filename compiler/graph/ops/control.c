/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape rules of ops with regions.
 */
#include "compiler/graph/rules.h"
#include "compiler/ir/resilience_ops.h"
#include "manifests/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool tsr_check_yield(tsr_rule *rule) {
    MlirOperation parent = mlirOperationGetParentOperation(rule->op);
    switch (tsr_op_of(parent)) {
    case TSR_GRAPH_IF:
    case TSR_GRAPH_WHILE:
    case TSR_GRAPH_SCAN:
    case TSR_GRAPH_JVP:
    case TSR_GRAPH_VJP:
    case TSR_GRAPH_CUSTOM_DERIVATIVE:
        return true;
    default:
        break;
    }
    if (tsr_sr_is_region(parent)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_REGION,
                         "is outside tessera.if, while, scan, jvp, vjp and custom_derivative, "
                         "and regions of tessera_sr");
}

/* The block of region `index`, with its yield; false after an error. */
static bool body_of(const tsr_rule *rule, intptr_t index, const char *what, MlirBlock *out_block,
                    MlirOperation *out_yield) {
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(rule->op, index));
    MlirOperation end =
        mlirBlockIsNull(block) ? (MlirOperation){NULL} : mlirBlockGetTerminator(block);
    if (!tsr_op_is(end, TSR_GRAPH_YIELD) || !mlirBlockIsNull(mlirBlockGetNextInRegion(block)))
        return tsr_rule_fail(rule, TSR_DIAG_REGION, "%s must end with tessera.yield", what);
    *out_block = block;
    *out_yield = end;
    return true;
}

static bool check_count(const tsr_rule *rule, const char *what, size_t is, size_t must) {
    if (is == must) return true;
    return tsr_rule_fail(rule, TSR_DIAG_REGION_COUNT, "%s: %zu, must be %zu", what, is, must);
}

static bool type_fits(const tsr_type *a, const tsr_type *b) {
    bool fits = a->dtype == b->dtype && a->shape.rank == b->shape.rank;
    for (uint32_t i = 0; fits && i < a->shape.rank; i++)
        fits = tsr_dim_fits(a->shape.dims[i], b->shape.dims[i]);
    return fits;
}

static bool check_type(const tsr_rule *rule, const char *what, size_t index, MlirValue value,
                       const tsr_type *must) {
    tsr_type is;
    char is_text[TSR_TYPE_TEXT_MAX], must_text[TSR_TYPE_TEXT_MAX];
    if (tsr_value_type(value, &is) && type_fits(&is, must)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_REGION_TYPE, "%s %zu is %s, must be %s", what, index,
                         tsr_value_type(value, &is) ? tsr_type_text(&is, is_text) : "no tensor",
                         tsr_type_text(must, must_text));
}

static bool check_truth(const tsr_rule *rule, const char *what, MlirValue value) {
    tsr_type type, must = tsr_type_scalar(TSR_DTYPE_I1);
    char text[TSR_TYPE_TEXT_MAX];
    if (tsr_value_type(value, &type) && type_fits(&type, &must)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_SCALAR, "%s is %s, needs a scalar i1", what,
                         tsr_value_type(value, &type) ? tsr_type_text(&type, text) : "no tensor");
}

bool tsr_check_if(tsr_rule *rule) {
    static const char *const names[] = {"then", "else"};
    if (!check_truth(rule, "the condition", tsr_op_operand(rule->op, 0))) return false;
    for (intptr_t i = 0; i < 2; i++) {
        MlirBlock block;
        MlirOperation yield;
        if (!body_of(rule, i, names[i], &block, &yield) ||
            !check_count(rule, "arguments of a branch", (size_t)mlirBlockGetNumArguments(block),
                         0) ||
            !check_count(rule, "values of a branch", tsr_op_operand_count(yield),
                         rule->result_count))
            return false;
        for (size_t k = 0; k < rule->result_count; k++)
            if (!check_type(rule, names[i], k, tsr_op_operand(yield, k), &rule->declared[k]))
                return false;
    }
    return true;
}

/* A valid number of iterations. */
static bool is_count(int64_t value) {
    return value >= 0 && (uint64_t)value <= TSR_PROGRAM_TIMES_MAX;
}

bool tsr_check_while(tsr_rule *rule) {
    MlirBlock blocks[2];
    MlirOperation yields[2];
    int64_t limit = 0;
    if (!tsr_op_i64(rule->op, "limit", &limit) || !is_count(limit))
        return tsr_rule_fail(rule, TSR_DIAG_LOOP, "limit is %" PRId64 ", needs 0 to %" PRIu64,
                             limit, TSR_PROGRAM_TIMES_MAX);
    if (!body_of(rule, 0, "condition", &blocks[0], &yields[0]) ||
        !body_of(rule, 1, "body", &blocks[1], &yields[1]) ||
        !check_count(rule, "results", rule->result_count, rule->operand_count) ||
        !check_count(rule, "values of the condition", tsr_op_operand_count(yields[0]), 1) ||
        !check_truth(rule, "the condition's value", tsr_op_operand(yields[0], 0)) ||
        !check_count(rule, "values of the body", tsr_op_operand_count(yields[1]),
                     rule->operand_count))
        return false;
    for (size_t i = 0; i < 2; i++)
        if (!check_count(rule, "arguments of a region", (size_t)mlirBlockGetNumArguments(blocks[i]),
                         rule->operand_count))
            return false;
    for (size_t k = 0; k < rule->operand_count; k++) {
        const tsr_type *type = &rule->operands[k];
        if (!check_type(rule, "condition argument", k, mlirBlockGetArgument(blocks[0], (intptr_t)k),
                        type) ||
            !check_type(rule, "body argument", k, mlirBlockGetArgument(blocks[1], (intptr_t)k),
                        type) ||
            !check_type(rule, "body value", k, tsr_op_operand(yields[1], k), type))
            return false;
        rule->results[k] = *type;
    }
    return true;
}

/* Sequences agree in dim 0, which is also the length where that is given. */
static bool scan_length(const tsr_rule *rule, size_t carried, uint64_t *out_length) {
    uint64_t length = TSR_DIM_DYNAMIC;
    size_t by = rule->operand_count; /* the sequence that says the length */
    int64_t given;
    char slices[TSR_DIM_TEXT_MAX], other[TSR_DIM_TEXT_MAX];
    if (tsr_op_i64(rule->op, "length", &given)) {
        if (!is_count(given))
            return tsr_rule_fail(rule, TSR_DIAG_LOOP, "length is %" PRId64 ", needs 0 to %" PRIu64,
                                 given, TSR_PROGRAM_TIMES_MAX);
        length = (uint64_t)given;
    } else if (carried == rule->operand_count) {
        return tsr_rule_fail(rule, TSR_DIAG_LOOP, "has neither sequences nor a length");
    }
    for (size_t i = carried; i < rule->operand_count; i++) {
        const tsr_shape *shape = &rule->operands[i].shape;
        if (shape->rank == 0)
            return tsr_rule_fail(rule, TSR_DIAG_SEQUENCE, "sequence %zu is a scalar", i - carried);
        if (!tsr_dim_fits(shape->dims[0], length))
            return tsr_rule_fail_dims(
                rule, TSR_DIAG_SEQUENCE, by < i ? 2 : 1,
                (const tsr_rule_dim[]){{"the sequence's", i, 0}, {"the other's", by, 0}},
                "sequence %zu has %s slices, %s %s", i - carried,
                tsr_dim_text(shape->dims[0], slices), by < i ? "others" : "the length is",
                tsr_dim_text(length, other));
        if (length != TSR_DIM_DYNAMIC) continue;
        length = shape->dims[0];
        by = i;
    }
    *out_length = length;
    return true;
}

/* The function of a body; null after an error. */
static MlirOperation body_func(const tsr_rule *rule, size_t index, size_t inputs, size_t results) {
    MlirAttribute bodies = tsr_op_attr(rule->op, "bodies"), name = {NULL};
    if ((intptr_t)index < mlirArrayAttrGetNumElements(bodies))
        name = mlirArrayAttrGetElement(bodies, (intptr_t)index);
    MlirOperation top = rule->op, none = {NULL}, func = none;
    while (!mlirOperationIsNull(top) && !tsr_op_is(top, TSR_BUILTIN_MODULE))
        top = mlirOperationGetParentOperation(top);
    if (!mlirAttributeIsNull(name) && mlirAttributeIsAFlatSymbolRef(name) &&
        !mlirOperationIsNull(top))
        TSR_FOR_EACH_OP(op, tsr_op_body(top)) {
            if (tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has(op, TSR_BODY_NAME) &&
                tsr_op_has_body(op) &&
                tsr_ref_is(mlirFlatSymbolRefAttrGetValue(name), tsr_op_symbol(op)))
                func = op;
        }
    if (mlirOperationIsNull(func)) {
        tsr_rule_fail(rule, TSR_DIAG_REGION, "body %zu is not a function with " TSR_BODY_NAME,
                      index);
        return none;
    }
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    return check_count(rule, "arguments of a body", (size_t)mlirFunctionTypeGetNumInputs(type),
                       inputs) &&
                   check_count(rule, "results of a body",
                               (size_t)mlirFunctionTypeGetNumResults(type), results)
               ? func
               : none;
}

static tsr_type slice_of(const tsr_type *sequence) {
    tsr_type type = {.dtype = sequence->dtype, .shape = {.rank = sequence->shape.rank - 1}};
    for (uint32_t i = 0; i < type.shape.rank; i++) type.shape.dims[i] = sequence->shape.dims[i + 1];
    return type;
}

bool tsr_check_scan(tsr_rule *rule) {
    MlirBlock block;
    MlirOperation yield;
    int64_t carried = -1;
    uint64_t length = 0;
    if (!tsr_op_i64(rule->op, "carried", &carried) || carried < 0 ||
        (uint64_t)carried > rule->operand_count || (uint64_t)carried > rule->result_count)
        return tsr_rule_fail(rule, TSR_DIAG_LOOP,
                             "carried is %" PRId64 ", with %zu operands and %zu results", carried,
                             rule->operand_count, rule->result_count);
    if (!scan_length(rule, (size_t)carried, &length) ||
        !body_of(rule, 0, "the body", &block, &yield) ||
        !check_count(rule, "arguments of the body", (size_t)mlirBlockGetNumArguments(block),
                     rule->operand_count) ||
        !check_count(rule, "values of the body", tsr_op_operand_count(yield), rule->result_count))
        return false;
    for (size_t i = 0; i < rule->operand_count; i++) {
        bool whole = i < (size_t)carried;
        tsr_type type = whole ? rule->operands[i] : slice_of(&rule->operands[i]);
        if (!check_type(rule, "body argument", i, mlirBlockGetArgument(block, (intptr_t)i), &type))
            return false;
        if (!whole) continue;
        if (!check_type(rule, "body value", i, tsr_op_operand(yield, i), &type)) return false;
        rule->results[i] = type;
    }
    for (size_t i = (size_t)carried; i < rule->result_count; i++) {
        tsr_type type;
        if (!tsr_value_type(tsr_op_operand(yield, i), &type) || type.shape.rank == TSR_RANK_MAX)
            return tsr_rule_fail(rule, TSR_DIAG_LIMIT, "result %zu has more than %d dims", i,
                                 TSR_RANK_MAX);
        for (uint32_t d = type.shape.rank++; d > 0; d--)
            type.shape.dims[d] = type.shape.dims[d - 1];
        type.shape.dims[0] = length;
        rule->results[i] = type;
    }
    return true;
}

/* ---- derivatives ---- */

/* Types, and where they are in messages. */
typedef struct listed {
    tsr_type types[TSR_RULE_OPERANDS_MAX];
    size_t count;
} listed;

static void add_types(listed *to, const tsr_type *types, size_t count, bool floats) {
    for (size_t i = 0; i < count; i++) {
        if (floats && !tsr_dtype_is_float(types[i].dtype)) continue;
        if (to->count < TSR_RULE_OPERANDS_MAX) to->types[to->count] = types[i];
        to->count++;
    }
}

/* Lists the yielded values of the region; false after an error. */
static bool yielded(const tsr_rule *rule, MlirOperation yield, listed *out) {
    size_t count = tsr_op_operand_count(yield);
    *out = (listed){.count = count};
    if (count > TSR_RULE_RESULTS_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_OPERANDS, "the region yields %zu values; at most %d",
                             count, TSR_RULE_RESULTS_MAX);
    for (size_t i = 0; i < count; i++)
        if (!tsr_value_type(tsr_op_operand(yield, i), &out->types[i]))
            return tsr_rule_fail(rule, TSR_DIAG_LIMIT, "value %zu has more than %d dims", i,
                                 TSR_RANK_MAX);
    return true;
}

static bool check_arguments(const tsr_rule *rule, const char *what, MlirBlock block,
                            const listed *must) {
    if (!check_count(rule, what, (size_t)mlirBlockGetNumArguments(block), must->count))
        return false;
    for (size_t i = 0; i < must->count; i++)
        if (!check_type(rule, "argument", i, mlirBlockGetArgument(block, (intptr_t)i),
                        &must->types[i]))
            return false;
    return true;
}

/* Checks the operands after the first `inputs`: one for each float of `of`. */
static bool check_directions(const tsr_rule *rule, const char *what, size_t inputs,
                             const listed *of) {
    listed must = {.count = 0};
    char is_text[TSR_TYPE_TEXT_MAX], must_text[TSR_TYPE_TEXT_MAX];
    add_types(&must, of->types, of->count, true);
    if (rule->operand_count - inputs != must.count)
        return tsr_rule_fail(rule, TSR_DIAG_DIRECTION,
                             "%zu operands after the %zu that the region takes, must be %zu: a %s "
                             "for each float",
                             rule->operand_count - inputs, inputs, must.count, what);
    for (size_t i = 0; i < must.count; i++) {
        const tsr_type *is = &rule->operands[inputs + i];
        if (type_fits(is, &must.types[i])) continue;
        return tsr_rule_fail(rule, TSR_DIAG_DIRECTION, "%s %zu is %s, must be %s", what, i,
                             tsr_type_text(is, is_text), tsr_type_text(&must.types[i], must_text));
    }
    return true;
}

static bool give_results(tsr_rule *rule, const listed *results) {
    if (!check_count(rule, "results", rule->result_count, results->count)) return false;
    for (size_t i = 0; i < results->count; i++) rule->results[i] = results->types[i];
    return true;
}

static bool check_derivative(tsr_rule *rule, bool forward) {
    MlirBlock block;
    MlirOperation yield;
    listed x = {.count = 0}, y, results;
    if (!body_of(rule, 0, "the function", &block, &yield)) return false;
    size_t inputs = (size_t)mlirBlockGetNumArguments(block);
    if (inputs > rule->operand_count)
        return check_count(rule, "arguments of the function", inputs, rule->operand_count);
    add_types(&x, rule->operands, inputs, false);
    if (!check_arguments(rule, "arguments of the function", block, &x) ||
        !yielded(rule, yield, &y) ||
        !check_directions(rule, forward ? "tangent" : "cotangent", inputs, forward ? &x : &y))
        return false;
    results = y;
    if (forward)
        add_types(&results, y.types, y.count, true);
    else
        add_types(&results, x.types, x.count, true);
    return give_results(rule, &results);
}

bool tsr_check_jvp(tsr_rule *rule) { return check_derivative(rule, true); }

bool tsr_check_vjp(tsr_rule *rule) { return check_derivative(rule, false); }

/* A rule takes x, y and a direction for each float of `from`, and yields one for each of `to`. */
static bool check_custom_rule(const tsr_rule *rule, intptr_t index, const char *name,
                              const listed *x, const listed *y) {
    const listed *from = index == 1 ? y : x, *to = index == 1 ? x : y;
    listed arguments = *x, must = {.count = 0}, is;
    MlirBlock block;
    MlirOperation yield;
    char what[48];
    if (mlirBlockIsNull(mlirRegionGetFirstBlock(mlirOperationGetRegion(rule->op, index))))
        return true;
    add_types(&arguments, y->types, y->count, false);
    add_types(&arguments, from->types, from->count, true);
    add_types(&must, to->types, to->count, true);
    if (arguments.count > TSR_RULE_OPERANDS_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_OPERANDS, "%s takes %zu values; at most %d", name,
                             arguments.count, TSR_RULE_OPERANDS_MAX);
    snprintf(what, sizeof what, "arguments of %s", name);
    if (!body_of(rule, index, name, &block, &yield) ||
        !check_arguments(rule, what, block, &arguments) || !yielded(rule, yield, &is))
        return false;
    snprintf(what, sizeof what, "values of %s", name);
    if (!check_count(rule, what, is.count, must.count)) return false;
    snprintf(what, sizeof what, "value of %s", name);
    for (size_t i = 0; i < must.count; i++)
        if (!check_type(rule, what, i, tsr_op_operand(yield, i), &must.types[i])) return false;
    return true;
}

bool tsr_check_custom_derivative(tsr_rule *rule) {
    listed x = {.count = 0}, y;
    MlirBlock block;
    MlirOperation yield;
    bool any = false;
    if (!body_of(rule, 0, "the function", &block, &yield)) return false;
    add_types(&x, rule->operands, rule->operand_count, false);
    if (!check_arguments(rule, "arguments of the function", block, &x) ||
        !yielded(rule, yield, &y) || !give_results(rule, &y))
        return false;
    for (intptr_t i = 1; i < 3; i++)
        any = any || !mlirBlockIsNull(mlirRegionGetFirstBlock(mlirOperationGetRegion(rule->op, i)));
    if (!any) return tsr_rule_fail(rule, TSR_DIAG_RULE, "has neither `vjp` nor `jvp`");
    return check_custom_rule(rule, 1, "vjp", &x, &y) && check_custom_rule(rule, 2, "jvp", &x, &y);
}

/* ---- bodies that are functions ---- */

/* The positions of its operands: the condition, carried values, sequences, captures. */
typedef struct layout {
    size_t first, carried, sequences, captures;
    int64_t times;
} layout;

static bool read_layout(const tsr_rule *rule, bool branches, layout *out) {
    int64_t carried = -1, sequences = -1, times = -1;
    tsr_op_i64(rule->op, "carried", &carried);
    tsr_op_i64(rule->op, "sequences", &sequences);
    tsr_op_i64(rule->op, "times", &times);
    size_t limit = rule->operand_count - (branches && rule->operand_count > 0);
    if (carried < 0 || sequences < 0 || times < 0 || (uint64_t)carried > limit ||
        (uint64_t)sequences > limit - (uint64_t)carried || (branches && !rule->operand_count))
        return tsr_rule_fail(rule, TSR_DIAG_LOOP,
                             "carried %" PRId64 ", sequences %" PRId64 ", times %" PRId64
                             ", with %zu operands",
                             carried, sequences, times, rule->operand_count);
    *out = (layout){branches, (size_t)carried, (size_t)sequences,
                    limit - (size_t)carried - (size_t)sequences, times};
    return true;
}

static bool check_body(const tsr_rule *rule, const layout *l, size_t index, bool is_condition) {
    size_t inputs = l->carried + l->sequences + l->captures;
    MlirOperation func = body_func(rule, index, inputs, is_condition ? 1 : rule->result_count);
    if (mlirOperationIsNull(func)) return false;
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(func, "function_type"));
    for (size_t i = 0; i < inputs; i++) {
        tsr_type must = rule->operands[l->first + i];
        bool is_sequence = i >= l->carried && i < l->carried + l->sequences;
        if (is_sequence && (must.shape.rank == 0 || must.shape.dims[0] != (uint64_t)l->times))
            return tsr_rule_fail(rule, TSR_DIAG_SEQUENCE,
                                 "sequence %zu does not have %" PRId64 " slices", i - l->carried,
                                 l->times);
        if (is_sequence) must = slice_of(&must);
        if (!check_type(rule, "body argument", i,
                        mlirBlockGetArgument(tsr_op_body(func), (intptr_t)i), &must))
            return false;
    }
    for (size_t i = 0; i < rule->result_count && !is_condition; i++) {
        tsr_type result = {0}, must = rule->declared[i];
        if (i >= l->carried && !l->first && must.shape.rank > 0) must = slice_of(&must);
        if (!tsr_type_read(mlirFunctionTypeGetResult(type, (intptr_t)i), &result) ||
            !type_fits(&result, &must))
            return tsr_rule_fail(rule, TSR_DIAG_REGION_TYPE,
                                 "result %zu differs from the result of body %zu", i, index);
    }
    return true;
}

bool tsr_check_loop(tsr_rule *rule) {
    const char *kind = tsr_op_string(rule->op, "kind");
    bool branches = kind && strcmp(kind, "if") == 0, repeats = kind && strcmp(kind, "while") == 0;
    layout l;
    if (!branches && !repeats && !(kind && strcmp(kind, "scan") == 0))
        return tsr_rule_fail(rule, TSR_DIAG_LOOP, "kind is \"%s\", must be scan, while or if",
                             kind ? kind : "");
    if (!read_layout(rule, branches, &l)) return false;
    if (branches && !check_truth(rule, "the condition", tsr_op_operand(rule->op, 0))) return false;
    if (branches && !check_count(rule, "carried values of a branch", l.carried + l.sequences, 0))
        return false;
    if (repeats && (!check_count(rule, "sequences of a while", l.sequences, 0) ||
                    !check_count(rule, "results", rule->result_count, l.carried)))
        return false;
    if (rule->result_count < l.carried)
        return tsr_rule_fail(rule, TSR_DIAG_LOOP, "%zu results of %zu carried values",
                             rule->result_count, l.carried);
    for (size_t i = 0; i < rule->result_count; i++) {
        const tsr_type *is = &rule->declared[i];
        if (i < l.carried && !type_fits(is, &rule->operands[i]))
            return tsr_rule_fail(rule, TSR_DIAG_REGION_TYPE,
                                 "the type of result %zu differs from its carried value", i);
        if (i >= l.carried && !branches &&
            (is->shape.rank == 0 || is->shape.dims[0] != (uint64_t)l.times))
            return tsr_rule_fail(rule, TSR_DIAG_SEQUENCE,
                                 "result %zu does not have %" PRId64 " slices", i, l.times);
    }
    if (!check_body(rule, &l, 0, repeats)) return false;
    return (!repeats && !branches) || check_body(rule, &l, 1, false);
}
