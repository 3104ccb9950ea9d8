/* SPDX-License-Identifier: Apache-2.0
 *
 * Row rules of ops with regions: branches, loops, derivatives. The rules set outcomes, because one
 * result may mix rows while another does not.
 */
#include "compiler/graph/rows/flow.h"

bool tsr_row_rule_has_regions(tsr_rows_fn rule) {
    return rule == tsr_rows_if || rule == tsr_rows_while || rule == tsr_rows_scan ||
           rule == tsr_rows_jvp || rule == tsr_rows_vjp || rule == tsr_rows_custom_derivative;
}

static MlirBlock block_of(MlirOperation op, intptr_t region) {
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, region));
}

static void set_argument(tsr_row_flow *flow, intptr_t region, size_t index, MlirValue from,
                         tsr_row_value value) {
    if (!value.reason) value.from = from;
    tsr_row_raise(flow->walk, mlirBlockGetArgument(block_of(flow->op, region), (intptr_t)index),
                  &value);
}

static tsr_row_value yielded(tsr_row_flow *flow, MlirOperation yield, size_t index) {
    MlirValue value = tsr_op_operand(yield, index);
    tsr_row_value is = tsr_row_get(flow->walk, value);
    uint64_t rows = tsr_row_get_scope(flow->walk)->rows;
    if (is.kind == TSR_ROWS_APART && tsr_row_digits(&is.layout) != rows)
        return tsr_row_mixed(flow, value, "reads all rows in each of its iterations over the rows");
    is.from = value;
    is.reason = NULL;
    return is;
}

/* A value that a scalar selects, or that is computed as often as a scalar says. */
static tsr_row_value chosen_by(tsr_row_value value, tsr_row_value by) {
    if (by.kind <= value.kind) return value;
    by.layout = value.layout;
    by.reason = NULL;
    by.is_sum = false;
    return by;
}

/* ---- branches -------------------------------------------------------------------------------- */

bool tsr_rows_if(tsr_row_flow *flow) {
    MlirOperation then_end = tsr_row_walk_region(flow->walk, flow->op, 0);
    MlirOperation else_end = tsr_row_walk_region(flow->walk, flow->op, 1);
    tsr_row_value condition = flow->operands[0];
    condition.from = tsr_op_operand(flow->op, 0);
    for (size_t r = 0; r < flow->result_count; r++) {
        tsr_row_value a = yielded(flow, then_end, r), b = yielded(flow, else_end, r);
        flow->outcomes[r] = chosen_by(tsr_row_join_values(flow, &a, &b), condition);
    }
    return true;
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* Raises a carried value to include the value that the body yields for it. True if that changed
 * it. */
static bool carry(tsr_row_flow *flow, intptr_t region, size_t index, MlirOperation yield) {
    MlirValue argument = mlirBlockGetArgument(block_of(flow->op, region), (intptr_t)index);
    tsr_row_value is = tsr_row_get(flow->walk, argument), next = yielded(flow, yield, index);
    tsr_row_value joined = tsr_row_join_values(flow, &is, &next);
    return tsr_row_raise(flow->walk, argument, &joined);
}

/* The body's argument, as a value that is read here. */
static tsr_row_value carried(tsr_row_flow *flow, intptr_t region, size_t index) {
    MlirValue argument = mlirBlockGetArgument(block_of(flow->op, region), (intptr_t)index);
    tsr_row_value is = tsr_row_get(flow->walk, argument);
    is.from = argument;
    is.reason = NULL;
    return is;
}

bool tsr_rows_while(tsr_row_flow *flow) {
    tsr_row_value condition = {0};
    size_t count = flow->operand_count;
    for (size_t i = 0; i < count; i++)
        for (intptr_t region = 0; region < 2; region++)
            set_argument(flow, region, i, tsr_op_operand(flow->op, i), flow->operands[i]);
    for (bool changed = true; changed;) {
        condition = yielded(flow, tsr_row_walk_region(flow->walk, flow->op, 0), 0);
        MlirOperation end = tsr_row_walk_region(flow->walk, flow->op, 1);
        changed = false;
        for (size_t i = 0; i < count; i++) {
            changed = carry(flow, 1, i, end) || changed;
            MlirValue body = mlirBlockGetArgument(block_of(flow->op, 1), (intptr_t)i);
            set_argument(flow, 0, i, body, carried(flow, 1, i));
        }
    }
    for (size_t i = 0; i < count; i++)
        flow->outcomes[i] = chosen_by(carried(flow, 1, i), condition);
    return true;
}

/* A slice of a sequence; `sequence` is the layout of its dim 0 if the iterations are rows, else
 * empty. */
static tsr_row_value slice_of(tsr_row_flow *flow, size_t operand, const tsr_row_layout *sequence) {
    tsr_row_value slice = flow->operands[operand];
    MlirValue from = tsr_op_operand(flow->op, operand);
    tsr_row_dims dims;
    if (slice.kind == TSR_ROWS_MIXED) return slice;
    if (!tsr_row_split(&slice.layout, &flow->types[operand].shape, &dims))
        return tsr_row_mixed(flow, from, "reads rows that cannot be followed through its dims");
    tsr_row_layout first = dims.dims[0];
    dims.dims[0].count = 0;
    tsr_row_merge(&dims, &slice.layout);
    if (sequence->count == 0) return slice;
    if (slice.kind == TSR_ROWS_APART && !tsr_row_layout_equal(&first, sequence))
        return tsr_row_mixed(flow, from, "combines rows with other rows");
    if (slice.kind == TSR_ROWS_FREE && first.count && first.factors[0].label == TSR_ROW_VARIES)
        return tsr_row_mixed(flow, from,
                             "iterates over the rows, and reads a value that differs from row to "
                             "row by the row's number");
    return slice;
}

/* Finds the digits of the rows that the iterations follow; empty if they follow something else.
 * False, with all outcomes mixed, if they follow rows and something else. */
static bool find_sequence(tsr_row_flow *flow, size_t first, tsr_row_layout *out_sequence) {
    *out_sequence = (tsr_row_layout){0};
    for (size_t k = first; k < flow->operand_count; k++) {
        tsr_row_dims dims;
        if (flow->operands[k].kind != TSR_ROWS_APART) continue;
        if (!tsr_row_split(&flow->operands[k].layout, &flow->types[k].shape, &dims)) continue;
        if (!tsr_row_has_digit(&dims.dims[0])) continue;
        *out_sequence = dims.dims[0];
        if (tsr_row_digits(out_sequence) == flow->types[k].shape.dims[0]) return true;
        for (size_t r = 0; r < flow->result_count; r++)
            flow->outcomes[r] = tsr_row_mixed(
                flow, tsr_op_operand(flow->op, k),
                "runs over dim 0 of a sequence, where rows are mixed with other elements");
        return false;
    }
    return true;
}

/* If iterations are rows, carried values must be unchanged by all iterations. */
static void check_carried(tsr_row_flow *flow, size_t index) {
    MlirBlock block = block_of(flow->op, 0);
    MlirOperation yield = mlirBlockGetTerminator(block);
    MlirValue argument = mlirBlockGetArgument(block, (intptr_t)index);
    MlirValue from = tsr_op_operand(flow->op, index);
    tsr_row_value is = flow->operands[index];
    if (is.kind == TSR_ROWS_APART)
        is = tsr_row_mixed(flow, from, "reads all rows in each of its iterations over the rows");
    else if (is.kind == TSR_ROWS_FREE && !mlirValueEqual(tsr_op_operand(yield, index), argument))
        is = tsr_row_mixed(flow, from,
                           "iterates over the rows, and carries a value from row to row");
    set_argument(flow, 0, index, from, is);
}

/* The value that a result stacks along its dim 0. */
static tsr_row_value stack(tsr_row_flow *flow, tsr_row_value slice, size_t result,
                           const tsr_row_layout *sequence) {
    uint64_t length = flow->result_types[result].shape.dims[0];
    tsr_row_layout whole = *sequence;
    if (slice.kind == TSR_ROWS_MIXED) {
        slice.is_sum = false;
        return slice;
    }
    if (sequence->count == 0) whole = tsr_row_layout_of(length, TSR_ROW_VARIES);
    if (sequence->count && slice.kind == TSR_ROWS_FREE)
        whole = tsr_row_layout_of(length, TSR_ROW_SAME);
    if (!tsr_row_append(&whole, &slice.layout))
        return tsr_row_mixed(flow, slice.from, "arranges the rows in too many parts");
    slice.layout = whole;
    return slice;
}

bool tsr_rows_scan(tsr_row_flow *flow) {
    int64_t given = 0;
    tsr_row_layout sequence;
    tsr_op_i64(flow->op, "carried", &given);
    size_t count = (size_t)given;
    if (!find_sequence(flow, count, &sequence)) return true;
    tsr_row_scope *scope = tsr_row_get_scope(flow->walk), outside = *scope;
    for (size_t i = 0; i < flow->operand_count; i++) {
        MlirValue from = tsr_op_operand(flow->op, i);
        if (i >= count)
            set_argument(flow, 0, i, from, slice_of(flow, i, &sequence));
        else if (sequence.count)
            check_carried(flow, i);
        else
            set_argument(flow, 0, i, from, flow->operands[i]);
    }
    scope->rows /= tsr_row_digits(&sequence);
    scope->by_row = scope->by_row || sequence.count;
    MlirOperation end = {NULL};
    for (bool changed = true; changed;) {
        end = tsr_row_walk_region(flow->walk, flow->op, 0);
        changed = false;
        for (size_t i = 0; i < count && !sequence.count; i++)
            changed = carry(flow, 0, i, end) || changed;
    }
    for (size_t r = 0; r < flow->result_count; r++)
        flow->outcomes[r] =
            r < count ? carried(flow, 0, r) : stack(flow, yielded(flow, end, r), r, &sequence);
    *scope = outside;
    return true;
}

/* ---- derivatives ----------------------------------------------------------------------------- */

/* Operands, results or arguments that correspond to the floats among others, in their order. */
static bool is_float(const tsr_type *type) { return tsr_dtype_is_float(type->dtype); }

static MlirOperation derive(tsr_row_flow *flow, intptr_t region) {
    tsr_row_scope *scope = tsr_row_get_scope(flow->walk), outside = *scope;
    scope->derived = true;
    MlirOperation end = tsr_row_walk_region(flow->walk, flow->op, region);
    *scope = outside;
    return end;
}

/* A tangent depends on the rows of its value, and on those of the operands' tangents. */
bool tsr_rows_jvp(tsr_row_flow *flow) {
    size_t count = (size_t)mlirBlockGetNumArguments(block_of(flow->op, 0)), tangent = count;
    for (size_t i = 0; i < count; i++) {
        tsr_row_value value = flow->operands[i];
        value.from = tsr_op_operand(flow->op, i);
        value.reason = NULL;
        if (is_float(&flow->types[i])) {
            tsr_row_value direction = flow->operands[tangent];
            direction.from = tsr_op_operand(flow->op, tangent++);
            direction.reason = NULL;
            value = tsr_row_join_values(flow, &value, &direction);
        }
        set_argument(flow, 0, i, value.from, value);
    }
    MlirOperation end = derive(flow, 0);
    size_t values = tsr_op_operand_count(end), result = values;
    for (size_t i = 0; i < values; i++) {
        flow->outcomes[i] = yielded(flow, end, i);
        if (is_float(&flow->result_types[i])) flow->outcomes[result++] = flow->outcomes[i];
    }
    return true;
}

/* Gradients of the yielded values of region 0, with cotangents from operand `cotangent` on: all of
 * one kind. A sum over the rows, with each term depending on one row, passes gradients back only
 * to that row. */
static tsr_row_value pull_back(tsr_row_flow *flow, MlirOperation end, size_t cotangent) {
    tsr_row_value all = {.kind = TSR_ROWS_FREE};
    for (size_t i = 0; i < tsr_op_operand_count(end); i++) {
        if (!is_float(&flow->result_types[i])) continue;
        tsr_row_value value = yielded(flow, end, i), with = flow->operands[cotangent];
        with.from = tsr_op_operand(flow->op, cotangent++);
        with.reason = NULL;
        tsr_row_value joined = tsr_row_join_values(flow, &value, &with);
        if (value.kind == TSR_ROWS_MIXED && value.is_sum && with.kind == TSR_ROWS_FREE)
            joined = (tsr_row_value){.kind = TSR_ROWS_APART, .from = value.from};
        if (joined.kind > all.kind) all = joined;
    }
    return all;
}

bool tsr_rows_vjp(tsr_row_flow *flow) {
    size_t count = (size_t)mlirBlockGetNumArguments(block_of(flow->op, 0));
    for (size_t i = 0; i < count; i++)
        set_argument(flow, 0, i, tsr_op_operand(flow->op, i), flow->operands[i]);
    MlirOperation end = derive(flow, 0);
    size_t result = tsr_op_operand_count(end);
    for (size_t i = 0; i < result; i++) flow->outcomes[i] = yielded(flow, end, i);
    tsr_row_value passed = pull_back(flow, end, count);
    for (size_t i = 0; i < count; i++) {
        if (!is_float(&flow->types[i])) continue;
        tsr_row_value gradient = passed;
        gradient.is_sum = false;
        gradient.layout = tsr_row_vary(&flow->operands[i].layout);
        if (passed.kind == TSR_ROWS_APART && flow->operands[i].kind == TSR_ROWS_FREE)
            gradient = tsr_row_mixed(flow, passed.from,
                                     "sums the gradient of an operand without rows over all rows");
        flow->outcomes[result++] = gradient;
    }
    return true;
}

/* Checks a rule of the op: it takes x, y and directions, and returns directions, which must fit
 * `out`. */
static bool rule_preserves_rows(tsr_row_flow *flow, intptr_t region, bool backward) {
    MlirBlock block = block_of(flow->op, region);
    size_t at = 0, count = flow->operand_count;
    if (mlirBlockIsNull(block)) return true;
    for (size_t i = 0; i < count; i++)
        set_argument(flow, region, at++, tsr_op_operand(flow->op, i), flow->operands[i]);
    for (size_t i = 0; i < flow->result_count; i++)
        set_argument(flow, region, at++, flow->outcomes[i].from, flow->outcomes[i]);
    for (size_t i = 0; i < (backward ? flow->result_count : count); i++) {
        const tsr_row_value *of = backward ? &flow->outcomes[i] : &flow->operands[i];
        MlirValue from = backward ? of->from : tsr_op_operand(flow->op, i);
        if (is_float(backward ? &flow->result_types[i] : &flow->types[i]))
            set_argument(flow, region, at++, from, *of);
    }
    MlirOperation end = tsr_row_walk_region(flow->walk, flow->op, region);
    at = 0;
    for (size_t i = 0; i < (backward ? count : flow->result_count); i++) {
        if (!is_float(backward ? &flow->types[i] : &flow->result_types[i])) continue;
        tsr_row_value out = yielded(flow, end, at++);
        const tsr_row_value *to = backward ? &flow->operands[i] : &flow->outcomes[i];
        tsr_row_value joined = tsr_row_join_values(flow, &out, to);
        if (joined.kind == TSR_ROWS_MIXED && to->kind != TSR_ROWS_MIXED) return false;
    }
    return true;
}

/* Derivatives of the op run its rules, which must keep the rows separate as well. */
bool tsr_rows_custom_derivative(tsr_row_flow *flow) {
    for (size_t i = 0; i < flow->operand_count; i++)
        set_argument(flow, 0, i, tsr_op_operand(flow->op, i), flow->operands[i]);
    MlirOperation end = tsr_row_walk_region(flow->walk, flow->op, 0);
    for (size_t r = 0; r < flow->result_count; r++) flow->outcomes[r] = yielded(flow, end, r);
    if (!tsr_row_get_scope(flow->walk)->derived) return true;
    if (rule_preserves_rows(flow, 1, true) && rule_preserves_rows(flow, 2, false)) return true;
    for (size_t r = 0; r < flow->result_count; r++)
        flow->outcomes[r] = tsr_row_mixed(flow, tsr_op_operand(flow->op, 0),
                                          "has a rule for its derivatives that mixes the rows");
    return true;
}
