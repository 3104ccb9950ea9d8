/* SPDX-License-Identifier: Apache-2.0
 *
 * Tangents of scan, while and if, for pass tessera-autodiff. Each is replaced by an op of the same
 * kind with more values:
 *
 *   scan, while  also carry the tangents of the floats that they carry; a scan also takes slices of
 *                the tangents of its sequences, and stacks the tangents of its results
 *   if           also yields tangents from both regions, zeros where a region has no tangent
 */
#include "compiler/graph/derivatives/autodiff.h"
#include "compiler/process/guard.h"

#include <string.h>

/* An op of the same kind with other operands, results and yields; takes over the regions. */
typedef struct widened {
    MlirOperation op;
    MlirLocation location;
    MlirValue operands[2 * TSR_RULE_OPERANDS_MAX], yields[2 * TSR_RULE_RESULTS_MAX];
    MlirType types[2 * TSR_RULE_RESULTS_MAX];
    size_t operand_count, result_count;
    int64_t carried; /* number of carried values of a scan */
} widened;

static void add_operand(widened *w, MlirValue operand) {
    w->operands[w->operand_count++] = operand;
}

static void add_result(widened *w, MlirValue yielded, MlirType type) {
    w->types[w->result_count] = type;
    w->yields[w->result_count++] = yielded;
}

static bool check_limits(const widened *w) {
    if (w->operand_count <= TSR_RULE_OPERANDS_MAX && w->result_count <= TSR_RULE_RESULTS_MAX)
        return true;
    tsr_diag_error(w->location, TSR_DIAG_OPERANDS,
                   "%s: with tangents it has %zu operands and %zu results; at most %d and %d",
                   tsr_op_name(w->op), w->operand_count, w->result_count, TSR_RULE_OPERANDS_MAX,
                   TSR_RULE_RESULTS_MAX);
    return false;
}

/* Builds the new op before the old one, which stays, without its regions. */
static MlirOperation build(const widened *w) {
    MlirRegion regions[2];
    tsr_builder b = tsr_builder_before(w->op);
    size_t region_count = (size_t)mlirOperationGetNumRegions(w->op);
    for (size_t i = 0; i < region_count; i++) {
        regions[i] = mlirRegionCreate();
        mlirRegionTakeBody(regions[i], mlirOperationGetRegion(w->op, (intptr_t)i));
    }
    MlirOperation made = tsr_build(&b, &(tsr_op_desc){.name = tsr_op_name(w->op),
                                                      .operand_count = w->operand_count,
                                                      .operands = w->operands,
                                                      .result_count = w->result_count,
                                                      .results = w->types,
                                                      .region_count = region_count,
                                                      .regions = regions});
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(w->op); i++) {
        MlirNamedAttribute attr = mlirOperationGetAttribute(w->op, i);
        mlirOperationSetAttributeByName(made, mlirIdentifierStr(attr.name), attr.attribute);
    }
    if (tsr_op_is(w->op, TSR_GRAPH_SCAN))
        tsr_op_set(made, "carried", tsr_attr_make_i64(b.context, w->carried));
    return made;
}

/* The tangent of a value that the block yields. */
static MlirValue tangent_or_zeros(const tsr_forward *f, MlirBlock block, MlirLocation location,
                                  MlirValue value) {
    tsr_builder end = tsr_builder_at_end(block, location);
    end.before = mlirBlockGetTerminator(block);
    MlirValue tangent = tsr_forward_get(f, value);
    return mlirValueIsNull(tangent) ? tsr_emit_zeros(&end, value) : tangent;
}

/* ---- if -------------------------------------------------------------------------------------- */

static bool forward_if(tsr_forward *f, MlirOperation op) {
    MlirLocation location = mlirOperationGetLocation(op);
    size_t results = tsr_op_result_count(op), at[TSR_RULE_RESULTS_MAX] = {0}, count = results;
    MlirBlock blocks[] = {tsr_region_block(op, 0), tsr_region_block(op, 1)};
    widened w = {.op = op, .location = location};
    add_operand(&w, tsr_op_operand(op, 0));
    for (size_t i = 0; i < 2; i++)
        if (!tsr_forward_block(f, blocks[i])) return false;
    for (size_t k = 0; k < results; k++)
        for (size_t i = 0; i < 2 && !at[k]; i++) {
            MlirValue value = tsr_op_operand(mlirBlockGetTerminator(blocks[i]), k);
            if (!mlirValueIsNull(tsr_forward_get(f, value))) at[k] = count++;
        }
    if (count == results) return true;
    for (size_t i = 0; i < 2; i++) {
        MlirOperation end = mlirBlockGetTerminator(blocks[i]);
        w.result_count = 0;
        for (size_t k = 0; k < results; k++)
            add_result(&w, tsr_op_operand(end, k), mlirValueGetType(tsr_op_result(op, k)));
        for (size_t k = 0; k < results; k++)
            if (at[k])
                add_result(&w, tangent_or_zeros(f, blocks[i], location, tsr_op_operand(end, k)),
                           mlirValueGetType(tsr_op_result(op, k)));
        tsr_block_yield(blocks[i], location, w.yields, w.result_count);
    }
    if (!check_limits(&w)) return false;
    MlirOperation made = build(&w);
    MlirValue values[TSR_RULE_RESULTS_MAX];
    for (size_t k = 0; k < results; k++) {
        values[k] = tsr_op_result(made, k);
        if (at[k]) tsr_forward_set(f, values[k], tsr_op_result(made, at[k]));
    }
    tsr_emit_replace(op, results, values);
    return true;
}

/* ---- while ----------------------------------------------------------------------------------- */

static bool forward_while(tsr_forward *f, MlirOperation op) {
    MlirLocation location = mlirOperationGetLocation(op);
    MlirBlock holds = tsr_region_block(op, 0), body = tsr_region_block(op, 1);
    size_t count = tsr_op_operand_count(op), made_at = count;
    widened w = {.op = op, .location = location};
    tsr_builder before = tsr_builder_before(op);
    for (size_t k = 0; k < count; k++) add_operand(&w, tsr_op_operand(op, k));
    for (size_t k = 0; k < count; k++) {
        MlirValue operand = tsr_op_operand(op, k), tangent = tsr_forward_get(f, operand);
        if (!tsr_value_is_float(operand)) continue;
        add_operand(&w, mlirValueIsNull(tangent) ? tsr_emit_zeros(&before, operand) : tangent);
        mlirBlockAddArgument(holds, mlirValueGetType(operand), location);
        tsr_forward_set(f, mlirBlockGetArgument(body, (intptr_t)k),
                        mlirBlockAddArgument(body, mlirValueGetType(operand), location));
    }
    if (!tsr_forward_block(f, body)) return false;
    MlirOperation end = mlirBlockGetTerminator(body);
    for (size_t k = 0; k < count; k++)
        add_result(&w, tsr_op_operand(end, k), mlirValueGetType(w.operands[k]));
    for (size_t k = 0; k < count; k++)
        if (tsr_value_is_float(w.operands[k]))
            add_result(&w, tangent_or_zeros(f, body, location, tsr_op_operand(end, k)),
                       mlirValueGetType(w.operands[k]));
    if (!check_limits(&w)) return false;
    tsr_block_yield(body, location, w.yields, w.result_count);
    MlirOperation made = build(&w);
    MlirValue values[TSR_RULE_RESULTS_MAX];
    for (size_t k = 0; k < count; k++) {
        values[k] = tsr_op_result(made, k);
        if (tsr_value_is_float(values[k]))
            tsr_forward_set(f, values[k], tsr_op_result(made, made_at++));
    }
    tsr_emit_replace(op, count, values);
    return true;
}

/* ---- scan ------------------------------------------------------------------------------------ */

/* Carried values, their tangents, sequences, and tangents of the sequences that have tangents. */
static void take_all(tsr_forward *f, widened *w, size_t carried, size_t inputs) {
    MlirBlock body = tsr_region_block(w->op, 0);
    tsr_builder before = tsr_builder_before(w->op);
    MlirValue slices[TSR_RULE_OPERANDS_MAX];
    for (size_t k = 0; k < inputs; k++) slices[k] = mlirBlockGetArgument(body, (intptr_t)k);
    for (size_t k = 0; k < carried; k++) add_operand(w, tsr_op_operand(w->op, k));
    for (size_t k = 0; k < carried; k++) {
        MlirValue operand = tsr_op_operand(w->op, k), tangent = tsr_forward_get(f, operand);
        if (!tsr_value_is_float(operand)) continue;
        MlirValue inside = mlirBlockInsertArgument(body, (intptr_t)w->operand_count,
                                                   mlirValueGetType(slices[k]), w->location);
        add_operand(w, mlirValueIsNull(tangent) ? tsr_emit_zeros(&before, operand) : tangent);
        tsr_forward_set(f, slices[k], inside);
    }
    w->carried = (int64_t)w->operand_count;
    for (size_t k = carried; k < inputs; k++) add_operand(w, tsr_op_operand(w->op, k));
    for (size_t k = carried; k < inputs; k++) {
        MlirValue tangent = tsr_forward_get(f, tsr_op_operand(w->op, k));
        if (mlirValueIsNull(tangent)) continue;
        add_operand(w, tangent);
        tsr_forward_set(f, slices[k],
                        mlirBlockAddArgument(body, mlirValueGetType(slices[k]), w->location));
    }
}

/* The results in the same order. `out_at`: index of each result's tangent; 0: it has none. */
static void give_all(tsr_forward *f, widened *w, size_t carried, size_t *out_at) {
    MlirBlock body = tsr_region_block(w->op, 0);
    MlirOperation end = mlirBlockGetTerminator(body);
    size_t results = tsr_op_result_count(w->op);
    for (size_t k = 0; k < carried; k++)
        add_result(w, tsr_op_operand(end, k), mlirValueGetType(tsr_op_result(w->op, k)));
    for (size_t k = 0; k < carried; k++) {
        MlirValue value = tsr_op_operand(end, k);
        if (!tsr_value_is_float(value)) continue;
        out_at[k] = w->result_count;
        add_result(w, tangent_or_zeros(f, body, w->location, value),
                   mlirValueGetType(tsr_op_result(w->op, k)));
    }
    for (size_t k = carried; k < results; k++)
        add_result(w, tsr_op_operand(end, k), mlirValueGetType(tsr_op_result(w->op, k)));
    for (size_t k = carried; k < results; k++) {
        MlirValue tangent = tsr_forward_get(f, tsr_op_operand(end, k));
        if (mlirValueIsNull(tangent)) continue;
        out_at[k] = w->result_count;
        add_result(w, tangent, mlirValueGetType(tsr_op_result(w->op, k)));
    }
    tsr_block_yield(body, w->location, w->yields, w->result_count);
}

static bool forward_scan(tsr_forward *f, MlirOperation op) {
    size_t at[TSR_RULE_RESULTS_MAX] = {0}, results = tsr_op_result_count(op);
    widened w = {.op = op, .location = mlirOperationGetLocation(op)};
    MlirValue values[TSR_RULE_RESULTS_MAX];
    int64_t attr = 0;
    bool read = tsr_op_i64(op, "carried", &attr);
    size_t carried = (size_t)attr;
    TSR_ASSERT(read);
    take_all(f, &w, carried, tsr_op_operand_count(op));
    if (!tsr_forward_block(f, tsr_region_block(op, 0))) return false;
    give_all(f, &w, carried, at);
    if (!check_limits(&w)) return false;
    MlirOperation made = build(&w);
    for (size_t k = 0; k < results; k++) {
        /* The tangents of carried values come before the other results. */
        values[k] = tsr_op_result(made, k < carried ? k : (size_t)w.carried + k - carried);
        if (at[k]) tsr_forward_set(f, values[k], tsr_op_result(made, at[k]));
    }
    tsr_emit_replace(op, results, values);
    return true;
}

bool tsr_forward_control(tsr_forward *f, MlirOperation op) {
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_IF:
        return forward_if(f, op);
    case TSR_GRAPH_WHILE:
        return forward_while(f, op);
    default:
        return forward_scan(f, op);
    }
}
