/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-outline: each scan, while and if that pass tessera-flatten left becomes a
 * tessera.loop, and its regions become functions, which are lowered and scheduled like entries:
 *
 *     %r = tessera.scan %c, %s {
 *     ^bb0(%a, %x): … %w …
 *       tessera.yield %n, %y
 *     }
 *
 * becomes
 *
 *     %r = tessera.loop "scan"(%c, %s, %w) {bodies = [@f.0]}
 *
 *     func.func @f.0(%a, %x, %w') {tessera.body = "f"} {
 *       … %w' …
 *       return %n, %y
 *     }
 *
 * Reads of tensors and constants are moved into the functions; other values from outside become
 * arguments. This file also decides which ops stay loops: tsr_graph_loop_stays.
 */
#include "compiler/graph/rule.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "manifests/program.h"
#include "runtime/base/array.h"

#include <string.h>

enum {
    UNROLLED_OPS_MAX = 128, /* maximum ops of one unrolled loop: up to this size compile time hardly
                             * increases */
    BRANCH_OPS_MAX = 8,     /* maximum ops that both branches compute although one is unused, if
                             * they are cheap */
    NESTED_MAX = TSR_PROGRAM_DEPTH_MAX / 2,
};

static MlirBlock region(MlirOperation op, intptr_t index) {
    return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, index));
}

static bool is_control(MlirOperation op) {
    tsr_op id = tsr_op_of(op);
    return id == TSR_GRAPH_IF || id == TSR_GRAPH_WHILE || id == TSR_GRAPH_SCAN;
}

/* ---- loops that stay ------------------------------------------------------------------------- */

/* The properties of a region. */
typedef struct content {
    uint64_t ops;
    uint32_t depth; /* nesting of regions, itself included */
    bool costs;     /* more than elementwise ops */
} content;

static MlirOperation func_of(MlirOperation op) {
    while (!mlirOperationIsNull(op) && !tsr_op_is(op, TSR_FUNC_FUNC))
        op = mlirOperationGetParentOperation(op);
    return op;
}

static void scan_block(MlirBlock block, content *out) {
    uint32_t deepest = 0;
    if (mlirBlockIsNull(block)) return;
    TSR_FOR_EACH_OP(op, block) {
        const tsr_op_row *row = tsr_op_row_find(op);
        bool ends = tsr_op_is(op, TSR_GRAPH_YIELD);
        out->ops++;
        out->costs = out->costs || (!ends && (!row || (row->op_class != TSR_CLASS_MAP &&
                                                       row->op_class != TSR_CLASS_CONSTANT)));
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
            uint32_t outer = out->depth;
            out->depth = 0;
            scan_block(region(op, i), out);
            if (out->depth > deepest) deepest = out->depth;
            out->depth = outer;
        }
    }
    out->depth = deepest + 1;
}

/* Virtual ranks and regions of resilience support only straight-line ops. */
static bool is_straight(MlirOperation func) {
    MlirOperation module = mlirOperationGetParentOperation(func);
    int64_t vranks = 1;
    tsr_entry_kind kind;
    if (!mlirOperationIsNull(module)) tsr_op_i64(module, TSR_SR_VIRTUAL_RANKS, &vranks);
    if (vranks > 1 && tsr_graph_entry_kind(func, &kind) && kind == TSR_ENTRY_TRAIN) return true;
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (tsr_op_is_of(op, TSR_DIALECT_SR)) return true;
    }
    return false;
}

static bool is_repeated_enough(MlirOperation op, const content *inside) {
    int64_t times = 0;
    uint64_t ops;
    if (tsr_op_is(op, TSR_GRAPH_SCAN)) {
        if (!tsr_graph_scan_length(op, &times)) return false;
    } else {
        tsr_op_i64(op, "limit", &times);
    }
    return times > 1 &&
           (__builtin_mul_overflow((uint64_t)times, inside->ops, &ops) || ops > UNROLLED_OPS_MAX);
}

bool tsr_graph_loop_stays(MlirOperation op) {
    MlirOperation func = func_of(op);
    tsr_entry_kind kind;
    content inside = {0};
    if (mlirOperationIsNull(func) || !tsr_graph_entry_kind(func, &kind) || is_straight(func))
        return false;
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
        content one = {0};
        scan_block(region(op, i), &one);
        inside.ops += one.ops;
        inside.costs = inside.costs || one.costs;
        if (one.depth > inside.depth) inside.depth = one.depth;
    }
    if (inside.depth > NESTED_MAX) return false;
    if (!tsr_op_is(op, TSR_GRAPH_IF)) return is_repeated_enough(op, &inside);
    return inside.costs || inside.ops > BRANCH_OPS_MAX;
}

bool tsr_graph_scan_length(MlirOperation op, int64_t *out_length) {
    int64_t carried = 0;
    if (tsr_op_i64(op, "length", out_length)) return true;
    if (!tsr_op_i64(op, "carried", &carried)) return false;
    tsr_type type = tsr_type_of(tsr_op_operand(op, (size_t)carried));
    *out_length = (int64_t)type.shape.dims[0];
    return type.shape.dims[0] != TSR_DIM_DYNAMIC;
}

/* ---- functions ------------------------------------------------------------------------------- */

typedef struct outliner {
    MlirModule module;
    MlirSymbolTable
        taken;          /* symbols before the pass: each entry's bodies have names of their own */
    MlirOperation func; /* the entry */
    tsr_arena arena;
    uint32_t count; /* number of its bodies */
    MlirValue *captures;
    size_t capture_count, capture_capacity;
} outliner;

static bool is_of(MlirValue value, MlirBlock block) {
    return mlirBlockEqual(mlirValueIsABlockArgument(value)
                              ? mlirBlockArgumentGetOwner(value)
                              : mlirOperationGetBlock(tsr_value_owner(value)),
                          block);
}

/* Sources are read again in each function. */
static bool is_source(MlirValue value) {
    if (mlirValueIsABlockArgument(value)) return false;
    tsr_op id = tsr_op_of(tsr_value_owner(value));
    return id == TSR_GRAPH_PARAM || id == TSR_GRAPH_OPT_STATE || id == TSR_GRAPH_CONSTANT;
}

static size_t find_capture(const outliner *o, MlirValue value) {
    size_t i = 0;
    while (i < o->capture_count && !mlirValueEqual(o->captures[i], value)) i++;
    return i;
}

static void add_capture(outliner *o, MlirValue value) {
    if (find_capture(o, value) < o->capture_count) return;
    if (o->capture_count == o->capture_capacity) {
        MlirValue *larger = TSR_ARENA_GROW(&o->arena, o->captures, &o->capture_capacity, 16);
        TSR_NEED(larger);
        o->captures = larger;
    }
    o->captures[o->capture_count++] = value;
}

/* The ops of the block have no regions any more. */
static void collect_captures(outliner *o, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
            MlirValue operand = tsr_op_operand(op, i);
            if (!is_of(operand, block) && !is_source(operand)) add_capture(o, operand);
        }
    }
}

/* Operands from outside become arguments after the first `own`, or reads of their own. */
static void close_block(outliner *o, MlirBlock block, intptr_t own) {
    TSR_FOR_EACH_OP(op, block) {
        for (size_t i = 0; i < tsr_op_operand_count(op); i++) {
            MlirValue operand = tsr_op_operand(op, i), inside;
            if (is_of(operand, block)) continue;
            if (is_source(operand)) {
                MlirOperation read = mlirOperationClone(tsr_value_owner(operand));
                mlirBlockInsertOwnedOperation(block, 0, read);
                inside = tsr_op_result(read, 0);
            } else {
                inside = mlirBlockGetArgument(block, own + (intptr_t)find_capture(o, operand));
            }
            mlirOperationSetOperand(op, (intptr_t)i, inside);
        }
    }
}

static const char *body_name(outliner *o) {
    const char *name = NULL;
    do {
        name = tsr_arena_printf(&o->arena, "%s.%u", tsr_op_symbol(o->func), o->count++);
        TSR_NEED(name);
    } while (!mlirOperationIsNull(mlirSymbolTableLookup(o->taken, tsr_ref(name))));
    return name;
}

/* Makes the block the body of a function; returns its symbol. */
static MlirAttribute make_body(outliner *o, MlirBlock block, MlirLocation location) {
    MlirContext context = mlirModuleGetContext(o->module);
    MlirOperation yield = mlirBlockGetTerminator(block);
    intptr_t own = mlirBlockGetNumArguments(block), results = (intptr_t)tsr_op_operand_count(yield);
    mlirBlockDetach(block);
    for (size_t i = 0; i < o->capture_count; i++)
        mlirBlockAddArgument(block, mlirValueGetType(o->captures[i]), location);
    close_block(o, block, own);
    intptr_t arguments = mlirBlockGetNumArguments(block);
    MlirType *types = TSR_NEW(&o->arena, MlirType, (size_t)(arguments + results) + 1);
    MlirValue *values = TSR_NEW(&o->arena, MlirValue, (size_t)results + 1);
    TSR_NEED(types && values);
    for (intptr_t i = 0; i < arguments; i++)
        types[i] = mlirValueGetType(mlirBlockGetArgument(block, i));
    for (intptr_t i = 0; i < results; i++) {
        values[i] = tsr_op_operand(yield, (size_t)i);
        types[arguments + i] = mlirValueGetType(values[i]);
    }
    tsr_builder end = tsr_builder_at_end(block, mlirOperationGetLocation(yield));
    mlirOperationDestroy(yield);
    tsr_build(&end, &(tsr_op_desc){.name = "func.return",
                                   .operand_count = (size_t)results,
                                   .operands = values});
    MlirRegion body = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(body, block);
    const char *name = body_name(o);
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(context, name)},
        {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(context, arguments, types, results,
                                                                 types + arguments))},
        {"sym_visibility", tsr_attr_make_string(context, "private")},
        {TSR_BODY_NAME, tsr_attr_make_string(context, tsr_op_symbol(o->func))}};
    tsr_builder outside = tsr_builder_at_end(mlirModuleGetBody(o->module), location);
    tsr_build(&outside, &(tsr_op_desc){.name = "func.func",
                                       .attr_count = TSR_COUNT(attrs),
                                       .attrs = attrs,
                                       .region_count = 1,
                                       .regions = &body});
    return tsr_attr_make_symbol(context, name);
}

/* ---- the op ---------------------------------------------------------------------------------- */

static void outline_op(outliner *o, MlirOperation op) {
    tsr_builder b = tsr_builder_before(op);
    tsr_op id = tsr_op_of(op);
    intptr_t regions = mlirOperationGetNumRegions(op);
    MlirAttribute bodies[2];
    int64_t carried = 0, times = 0;
    size_t inputs = tsr_op_operand_count(op), results = tsr_op_result_count(op);
    o->capture_count = 0;
    for (intptr_t i = 0; i < regions; i++) collect_captures(o, region(op, i));
    for (intptr_t i = 0; i < regions; i++)
        bodies[i] = make_body(o, region(op, i), mlirOperationGetLocation(op));
    MlirValue *operands = TSR_NEW(&o->arena, MlirValue, inputs + o->capture_count + 1);
    MlirValue *values = TSR_NEW(&o->arena, MlirValue, results + 1);
    MlirType *types = TSR_NEW(&o->arena, MlirType, results + 1);
    TSR_NEED(operands && values && types);
    for (size_t i = 0; i < inputs; i++) operands[i] = tsr_op_operand(op, i);
    if (o->capture_count)
        memcpy(operands + inputs, o->captures, o->capture_count * sizeof *operands);
    for (size_t i = 0; i < results; i++) types[i] = mlirValueGetType(tsr_op_result(op, i));
    if (id == TSR_GRAPH_SCAN) {
        bool known = tsr_graph_scan_length(op, &times) && tsr_op_i64(op, "carried", &carried);
        TSR_ASSERT(known); /* or it does not stay */
    } else if (id == TSR_GRAPH_WHILE) {
        carried = (int64_t)inputs;
        tsr_op_i64(op, "limit", &times);
    }
    int64_t sequences = id == TSR_GRAPH_SCAN ? (int64_t)inputs - carried : 0;
    const tsr_attr attrs[] = {
        {"kind", tsr_attr_make_string(b.context, id == TSR_GRAPH_SCAN    ? "scan"
                                                 : id == TSR_GRAPH_WHILE ? "while"
                                                                         : "if")},
        {"bodies", mlirArrayAttrGet(b.context, regions, bodies)},
        {"carried", tsr_attr_make_i64(b.context, carried)},
        {"sequences", tsr_attr_make_i64(b.context, sequences)},
        {"times", tsr_attr_make_i64(b.context, times)},
        {"reverse", tsr_attr_make_unit(b.context)}};
    MlirOperation loop =
        tsr_build(&b, &(tsr_op_desc){.name = TSR_GRAPH_NAME("loop"),
                                     .operand_count = inputs + o->capture_count,
                                     .operands = operands,
                                     .result_count = results,
                                     .results = types,
                                     .attr_count = TSR_COUNT(attrs) - !tsr_op_flag(op, "reverse"),
                                     .attrs = attrs});
    for (size_t i = 0; i < results; i++) values[i] = tsr_op_result(loop, i);
    tsr_emit_replace(op, results, values);
}

/* Innermost first. */
static void outline_block(outliner *o, MlirBlock block) {
    TSR_FOR_EACH_OP(op, block) {
        if (!is_control(op)) continue;
        for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++)
            outline_block(o, region(op, i));
        outline_op(o, op);
    }
}

bool tsr_pass_outline(MlirModule module) {
    MlirSymbolTable taken = mlirSymbolTableCreate(mlirModuleGetOperation(module));
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_graph_is_lowered_func(func) || tsr_op_has(func, TSR_BODY_NAME)) continue;
        outliner o = {.module = module, .taken = taken, .func = func};
        outline_block(&o, tsr_op_body(func));
        tsr_arena_finish(&o.arena);
    }
    mlirSymbolTableDestroy(taken);
    return true;
}
