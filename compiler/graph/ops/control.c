/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape rules of ops with regions. Pass tessera-flatten removes them before gradients are taken.
 */
#include "compiler/graph/rules.h"
#include "compiler/resilience/resilience.h"

#include <inttypes.h>

bool tsr_check_yield(tsr_rule *rule) {
    MlirOperation parent = mlirOperationGetParentOperation(rule->op);
    tsr_graph_op id = mlirOperationIsNull(parent) ? TSR_GRAPH_NONE : tsr_graph_op_of(parent);
    if (id == TSR_GRAPH_IF || id == TSR_GRAPH_WHILE || id == TSR_GRAPH_SCAN) return true;
    if (tsr_sr_is_region(parent)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_REGION,
                         "stands outside tessera.if, while and scan, and regions of tessera_sr");
}

/* The block of region `index`, with its yield; false after an error. */
static bool body_of(const tsr_rule *rule, intptr_t index, const char *what, MlirBlock *out_block,
                    MlirOperation *out_yield) {
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(rule->op, index));
    MlirOperation end =
        mlirBlockIsNull(block) ? (MlirOperation){NULL} : mlirBlockGetTerminator(block);
    if (mlirOperationIsNull(end) || tsr_graph_op_of(end) != TSR_GRAPH_YIELD ||
        !mlirBlockIsNull(mlirBlockGetNextInRegion(block)))
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

bool tsr_check_while(tsr_rule *rule) {
    MlirBlock blocks[2];
    MlirOperation yields[2];
    int64_t limit = 0;
    if (!tsr_op_i64(rule->op, "limit", &limit) || limit < 0)
        return tsr_rule_fail(rule, TSR_DIAG_LOOP, "limit is %" PRId64 ", needs at least 0", limit);
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
    if (tsr_op_i64(rule->op, "length", &given)) {
        if (given < 0)
            return tsr_rule_fail(rule, TSR_DIAG_LOOP, "length is %" PRId64 ", needs at least 0",
                                 given);
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
                "sequence %zu has %" PRIu64 " slices, %s %" PRIu64, i - carried, shape->dims[0],
                by < i ? "others" : "the length is", length);
        if (length != TSR_DIM_DYNAMIC) continue;
        length = shape->dims[0];
        by = i;
    }
    *out_length = length;
    return true;
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
