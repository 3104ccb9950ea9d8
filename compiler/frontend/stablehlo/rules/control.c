/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops, branches, calls. A loop that counts from one known number to another is a scan, and is
 * unrolled if it is short; any other is a while without a limit. Values that an iteration passes on
 * unchanged are not carried.
 */
#include "compiler/frontend/stablehlo/importer.h"
#include "compiler/graph/rule.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <string.h>

enum { UNROLLED_TRIPS_MAX = 8, UNROLLED_OPS_MAX = 1024 };

/* ---- regions --------------------------------------------------------------------------------- */

/* A block of Graph IR that new ops go into, until it is closed. */
typedef struct opened {
    MlirRegion region;
    MlirBlock block;
    tsr_builder outside;
} opened;

static opened open_region(tsr_hlo_call *c, size_t count, const MlirValue *values,
                          MlirValue *out_arguments) {
    MlirType types[TSR_HLO_VALUES_MAX] = {{NULL}};
    MlirLocation locations[TSR_HLO_VALUES_MAX] = {{NULL}};
    opened o = {.outside = *c->builder};
    for (size_t i = 0; i < count; i++) {
        types[i] = mlirValueGetType(values[i]);
        locations[i] = c->builder->location;
    }
    o.block = mlirBlockCreate((intptr_t)count, types, locations);
    o.region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(o.region, o.block);
    for (size_t i = 0; i < count; i++)
        out_arguments[i] = mlirBlockGetArgument(o.block, (intptr_t)i);
    c->builder->block = o.block;
    c->builder->before = (MlirOperation){NULL};
    return o;
}

static void close_region(tsr_hlo_call *c, const opened *o, size_t count, const MlirValue *values) {
    MlirLocation location = c->builder->location;
    if (!c->failed)
        tsr_build(c->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("yield"),
                                             .operands = values,
                                             .operand_count = count});
    *c->builder = o->outside;
    c->builder->location = location;
}

static bool build(tsr_hlo_call *c, const tsr_op_desc *desc, MlirValue *out) {
    if (c->failed) {
        for (size_t i = 0; i < desc->region_count; i++) mlirRegionDestroy(desc->regions[i]);
        return false;
    }
    MlirOperation op = tsr_build(c->builder, desc);
    if (!tsr_graph_verify_op(op)) {
        c->failed = true;
        return false;
    }
    for (size_t i = 0; i < desc->result_count; i++) out[i] = tsr_op_result(op, i);
    return true;
}

/* ---- branches -------------------------------------------------------------------------------- */

static bool import_branch(tsr_hlo_call *c, size_t region, MlirValue *out) {
    return tsr_hlo_import_block(c, tsr_hlo_block(c, region, 0), NULL, false, c->out_count, out);
}

static bool import_cases(tsr_hlo_call *c, size_t first, size_t count, MlirValue index,
                         MlirValue *out);

static bool choose(tsr_hlo_call *c, MlirValue condition, size_t yes, size_t no, size_t no_count,
                   MlirValue index, MlirValue *out) {
    MlirRegion regions[2];
    MlirType types[TSR_HLO_VALUES_MAX];
    MlirValue values[TSR_HLO_VALUES_MAX];
    for (size_t i = 0; i < 2; i++) {
        opened o = open_region(c, 0, NULL, NULL);
        regions[i] = o.region;
        if (i == 0)
            import_branch(c, yes, values);
        else
            import_cases(c, no, no_count, index, values);
        for (size_t k = 0; k < c->out_count && !c->failed; k++)
            types[k] = mlirValueGetType(values[k]);
        close_region(c, &o, c->out_count, values);
    }
    return build(c,
                 &(tsr_op_desc){.name = TSR_GRAPH_NAME("if"),
                                .operands = &condition,
                                .operand_count = 1,
                                .results = types,
                                .result_count = c->out_count,
                                .region_count = 2,
                                .regions = regions},
                 out);
}

/* Region `first` if the index is that number, else a later one; the last one for any
 * other index. */
static bool import_cases(tsr_hlo_call *c, size_t first, size_t count, MlirValue index,
                         MlirValue *out) {
    if (count == 1) return import_branch(c, first, out);
    MlirValue here =
        tsr_hlo_compare(c, TSR_PREDICATE_EQ, index, tsr_hlo_like(c, index, (double)first));
    return choose(c, here, first, first + 1, count - 1, index, out);
}

bool tsr_hlo_rule_case(tsr_hlo_call *c) {
    size_t count = (size_t)mlirOperationGetNumRegions(c->op);
    if (count == 0 || count > TSR_HLO_DEPTH_MAX || tsr_hlo_rank(c->in[0]) != 0)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu branches; expected 1 to %d", count,
                            TSR_HLO_DEPTH_MAX);
    return import_cases(c, 0, count, c->in[0], c->out);
}

bool tsr_hlo_rule_if(tsr_hlo_call *c) {
    if (mlirOperationGetNumRegions(c->op) != 2)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %d branches; expected 2",
                            (int)mlirOperationGetNumRegions(c->op));
    return choose(c, c->in[0], 0, 1, 1, c->in[0], c->out);
}

/* ---- loops ----------------------------------------------------------------------------------- */

typedef struct loop {
    MlirBlock condition, body;
    size_t count;                       /* operands */
    bool same[TSR_HLO_VALUES_MAX];      /* passed on unchanged */
    size_t carried[TSR_HLO_VALUES_MAX]; /* operands that are not */
    size_t carried_count;
    int64_t trips; /* -1: not known */
} loop;

static MlirValue returned(MlirBlock block, size_t index) {
    MlirOperation end = tsr_hlo_end(block);
    return mlirOperationIsNull(end) || tsr_op_operand_count(end) <= index
               ? (MlirValue){NULL}
               : tsr_op_operand(end, index);
}

/* The number of the block's argument; SIZE_MAX for any other value. */
static size_t argument_number(MlirBlock block, MlirValue value) {
    bool is =
        mlirValueIsABlockArgument(value) && mlirBlockEqual(mlirBlockArgumentGetOwner(value), block);
    return is ? (size_t)mlirBlockArgumentGetArgNumber(value) : SIZE_MAX;
}

/* A number of the condition that no iteration changes. */
static bool known_limit(tsr_hlo_call *c, const loop *l, MlirValue value, int64_t *out_value) {
    size_t argument = argument_number(l->condition, value);
    double number;
    if (argument == SIZE_MAX) return tsr_hlo_known_int(c, value, out_value);
    if (!l->same[argument] || !tsr_hlo_splat(c->in[argument], &number)) return false;
    *out_value = (int64_t)number;
    return true;
}

/* The condition is `counter < limit`, the body returns `counter + 1`, both known numbers. */
static int64_t count_trips(tsr_hlo_call *c, const loop *l) {
    tsr_hlo_call inner = *c;
    int64_t limit, step;
    double first;
    MlirValue compared = returned(l->condition, 0);
    if (!tsr_hlo_made_by(compared, "stablehlo.compare")) return -1;
    inner.op = mlirOpResultGetOwner(compared);
    const char *word = tsr_hlo_word(&inner, "comparison_direction", 0);
    size_t counter = argument_number(l->condition, tsr_op_operand(inner.op, 0));
    if (!word || strcmp(word, "LT") != 0 || counter == SIZE_MAX ||
        tsr_hlo_is_float(c->in[counter]) ||
        !known_limit(c, l, tsr_op_operand(inner.op, 1), &limit) ||
        !tsr_hlo_splat(c->in[counter], &first))
        return -1;
    MlirValue next = returned(l->body, counter);
    if (!tsr_hlo_made_by(next, "stablehlo.add")) return -1;
    MlirOperation add = mlirOpResultGetOwner(next);
    if (argument_number(l->body, tsr_op_operand(add, 0)) != counter ||
        !tsr_hlo_known_int(c, tsr_op_operand(add, 1), &step) || step != 1)
        return -1;
    return limit > (int64_t)first ? limit - (int64_t)first : 0;
}

static void find_carried(tsr_hlo_call *c, loop *l) {
    l->count = c->in_count;
    for (size_t i = 0; i < l->count; i++) {
        MlirValue next = returned(l->body, i);
        l->same[i] = !mlirValueIsNull(next) && argument_number(l->body, next) == i;
        if (!l->same[i]) l->carried[l->carried_count++] = i;
    }
}

/* Imports a region for these carried values; the others are those outside. */
static bool run(tsr_hlo_call *c, const loop *l, MlirBlock block, const MlirValue *carried,
                size_t out_count, MlirValue *out) {
    MlirValue arguments[TSR_HLO_VALUES_MAX];
    memcpy(arguments, c->in, l->count * sizeof *arguments);
    for (size_t i = 0; i < l->carried_count; i++) arguments[l->carried[i]] = carried[i];
    return tsr_hlo_import_block(c, block, arguments, false, out_count, out);
}

static bool run_body(tsr_hlo_call *c, const loop *l, const MlirValue *carried, MlirValue *out) {
    MlirValue all[TSR_HLO_VALUES_MAX];
    if (!run(c, l, l->body, carried, l->count, all)) return false;
    for (size_t i = 0; i < l->carried_count; i++) out[i] = all[l->carried[i]];
    return true;
}

static void first_values(const tsr_hlo_call *c, const loop *l, MlirValue *out) {
    for (size_t i = 0; i < l->carried_count; i++) out[i] = c->in[l->carried[i]];
}

static void set_results(tsr_hlo_call *c, const loop *l, const MlirValue *carried) {
    memcpy(c->out, c->in, l->count * sizeof *c->out);
    for (size_t i = 0; i < l->carried_count; i++) c->out[l->carried[i]] = carried[i];
}

static MlirWalkResult count_op(MlirOperation op, void *user) {
    (void)op;
    ++*(size_t *)user;
    return MlirWalkResultAdvance;
}

/* Ops of the body, with those of the functions that it calls itself. */
static size_t count_body(tsr_hlo_call *c, MlirBlock block) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, block) {
        MlirOperation walked = op;
        MlirAttribute callee = tsr_op_attr(op, "callee");
        if (tsr_op_is(op, TSR_FUNC_CALL) && !mlirAttributeIsNull(callee)) {
            MlirOperation func =
                tsr_module_find(c->importer->source, mlirFlatSymbolRefAttrGetValue(callee).data);
            if (!mlirOperationIsNull(func)) walked = func;
        }
        mlirOperationWalk(walked, count_op, &count, MlirWalkPreOrder);
    }
    return count;
}

static bool unroll(tsr_hlo_call *c, const loop *l) {
    MlirValue now[TSR_HLO_VALUES_MAX], next[TSR_HLO_VALUES_MAX];
    first_values(c, l, now);
    for (int64_t i = 0; i < l->trips; i++) {
        if (!run_body(c, l, now, next)) return false;
        memcpy(now, next, l->carried_count * sizeof *now);
    }
    set_results(c, l, now);
    return true;
}

static bool check_carried(tsr_hlo_call *c, const loop *l) {
    if (l->carried_count <= TSR_RULE_OPERANDS_MAX && l->carried_count) return true;
    return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM,
                        "its iterations change %zu values; loops that are not unrolled carry 1 to "
                        "%d",
                        l->carried_count, TSR_RULE_OPERANDS_MAX);
}

static void types_of(size_t count, const MlirValue *values, MlirType *out) {
    for (size_t i = 0; i < count; i++) out[i] = mlirValueGetType(values[i]);
}

static bool as_scan(tsr_hlo_call *c, const loop *l) {
    MlirValue first[TSR_HLO_VALUES_MAX], arguments[TSR_HLO_VALUES_MAX], next[TSR_HLO_VALUES_MAX];
    MlirType types[TSR_HLO_VALUES_MAX];
    size_t count = l->carried_count;
    if (!check_carried(c, l)) return false;
    first_values(c, l, first);
    types_of(count, first, types);
    opened o = open_region(c, count, first, arguments);
    run_body(c, l, arguments, next);
    close_region(c, &o, count, next);
    const tsr_attr attrs[] = {tsr_hlo_i64_attr(c, "carried", (int64_t)count),
                              tsr_hlo_i64_attr(c, "length", l->trips)};
    if (!build(c,
               &(tsr_op_desc){.name = TSR_GRAPH_NAME("scan"),
                              .operands = first,
                              .operand_count = count,
                              .results = types,
                              .result_count = count,
                              .attrs = attrs,
                              .attr_count = 2,
                              .region_count = 1,
                              .regions = &o.region},
               next))
        return false;
    set_results(c, l, next);
    return true;
}

static bool as_while(tsr_hlo_call *c, const loop *l) {
    MlirValue first[TSR_HLO_VALUES_MAX], arguments[TSR_HLO_VALUES_MAX], next[TSR_HLO_VALUES_MAX];
    MlirType types[TSR_HLO_VALUES_MAX];
    MlirRegion regions[2];
    size_t count = l->carried_count;
    if (!check_carried(c, l)) return false;
    first_values(c, l, first);
    types_of(count, first, types);
    for (size_t i = 0; i < 2; i++) {
        opened o = open_region(c, count, first, arguments);
        regions[i] = o.region;
        if (i == 0)
            run(c, l, l->condition, arguments, 1, next);
        else
            run_body(c, l, arguments, next);
        close_region(c, &o, i == 0 ? 1 : count, next);
    }
    const tsr_attr limit = tsr_hlo_i64_attr(c, "limit", INT32_MAX); /* as good as none */
    if (!build(c,
               &(tsr_op_desc){.name = TSR_GRAPH_NAME("while"),
                              .operands = first,
                              .operand_count = count,
                              .results = types,
                              .result_count = count,
                              .attrs = &limit,
                              .attr_count = 1,
                              .region_count = 2,
                              .regions = regions},
               next))
        return false;
    set_results(c, l, next);
    return true;
}

bool tsr_hlo_rule_while(tsr_hlo_call *c) {
    loop l = {.condition = tsr_hlo_block(c, 0, c->in_count), .trips = -1};
    if (c->failed) return false;
    l.body = tsr_hlo_block(c, 1, c->in_count);
    if (c->failed) return false;
    if (c->in_count != c->out_count)
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "it has %zu operands and %zu results",
                            c->in_count, c->out_count);
    find_carried(c, &l);
    l.trips = count_trips(c, &l);
    if (l.trips < 0) return as_while(c, &l);
    if (l.trips <= 1 || (l.trips <= UNROLLED_TRIPS_MAX &&
                         (size_t)l.trips * count_body(c, l.body) <= UNROLLED_OPS_MAX))
        return unroll(c, &l);
    return as_scan(c, &l);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool call_function(tsr_hlo_call *c, const char *callee) {
    MlirOperation func =
        callee ? tsr_hlo_need_function(c->importer, callee) : (MlirOperation){NULL};
    MlirType types[TSR_HLO_VALUES_MAX];
    if (mlirOperationIsNull(func) || !tsr_op_is(func, TSR_FUNC_FUNC))
        return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "the module has no function '@%s' with a body",
                            callee ? callee : "");
    MlirBlock body = tsr_op_body(func);
    if (c->importer->lifted) { /* its scalars are tensors here */
        if ((size_t)mlirBlockGetNumArguments(body) != c->in_count)
            return tsr_hlo_fail(c, TSR_DIAG_HLO_FORM, "'@%s' has %d arguments; %zu are given",
                                callee, (int)mlirBlockGetNumArguments(body), c->in_count);
        return tsr_hlo_import_block(c, body, c->in, true, c->out_count, c->out);
    }
    for (size_t i = 0; i < c->out_count; i++)
        types[i] = tsr_type_make(c->builder->context, &c->types[i]);
    const tsr_attr attr = {"callee",
                           mlirFlatSymbolRefAttrGet(c->builder->context, tsr_ref(callee))};
    MlirOperation op = tsr_build(c->builder, &(tsr_op_desc){.name = "func.call",
                                                            .operands = c->in,
                                                            .operand_count = c->in_count,
                                                            .results = types,
                                                            .result_count = c->out_count,
                                                            .attrs = &attr,
                                                            .attr_count = 1});
    for (size_t i = 0; i < c->out_count; i++) tsr_hlo_out(c, i, tsr_op_result(op, i));
    return true;
}

bool tsr_hlo_rule_call(tsr_hlo_call *c) {
    return call_function(c, tsr_hlo_text(c, "callee", NULL));
}

/* Its decomposition says what it computes. */
bool tsr_hlo_rule_composite(tsr_hlo_call *c) {
    return call_function(c, tsr_hlo_text(c, "decomposition", NULL));
}

/* Calls that only mark a value; all others are code of another compiler. */
bool tsr_hlo_rule_custom_call(tsr_hlo_call *c) {
    static const char *const marks[] = {"Sharding", "annotate_device_placement",
                                        "LayoutConstraint"};
    const char *target = tsr_hlo_text(c, "call_target_name", NULL);
    for (size_t i = 0; i < TSR_COUNT(marks) && target; i++)
        if (strcmp(marks[i], target) == 0) return tsr_hlo_rule_same(c);
    return tsr_hlo_fail(
        c, TSR_DIAG_HLO_CUSTOM,
        "it calls '%s', code outside of the program; compute it before the step and "
        "pass the result, or write it with other functions of jax",
        target ? target : "");
}
