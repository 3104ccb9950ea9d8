/* SPDX-License-Identifier: Apache-2.0
 *
 *     %y = tsched.call @product(%x, %w)        // matmul %x, %w {allow_tf32}: w lies as K x N
 *
 * becomes
 *
 *     %t = tsched.call @product_factor(%w)     // transpose
 *     %y = tsched.call @product(%x, %t)        // matmul %x, %t {transpose_b, allow_tf32}
 *
 * so that tsched-keep turns weights once where an entry only reads them.
 */
#include "compiler/tile/gpu/factors.h"

#include "compiler/graph/graph.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/gpu/transpose.h"

#include <string.h>

enum {
    OPERANDS_MAX = 256,
    RESULTS_MAX = 256,
    ATTRIBUTES_MAX = 16,
    USES_MIN = 64, /* of each element of a factor: fewer are computed sooner than it is turned */
};

typedef struct turner {
    tsr_ctx *ctx;
    tsr_arena *arena;
    MlirModule module;
    MlirOperation func, root; /* the group, its product */
} turner;

typedef bool (*visit)(const turner *t, MlirOperation entry, MlirOperation call, void *context);

/* Of each call of the group; false: one visit gave false. */
static bool visit_calls(const turner *t, visit visitor, void *context) {
    TSR_FOR_EACH_OP(entry, mlirModuleGetBody(t->module)) {
        if (!tsr_op_is(entry, "func.func") || !tsr_op_has_body(entry)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(entry)) {
            const char *callee = tsr_op_is(op, "tsched.call") ? tsr_op_string(op, "callee") : NULL;
            if (callee && strcmp(callee, tsr_op_symbol(t->func)) == 0 &&
                !visitor(t, entry, op, context))
                return false;
        }
    }
    return true;
}

/* ---- what is turned -------------------------------------------------------------------------- */

/* A product of two arguments of f32 that may be tf32; null: none. */
static MlirOperation find_product(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (!tsr_op_is(op, "tessera.matmul")) continue;
        bool fits = tsr_op_has(op, TSR_TF32_NAME);
        for (size_t i = 0; i < 2; i++) {
            tsr_type type = {0};
            MlirValue operand = tsr_op_operand(op, i);
            fits = fits && mlirValueIsABlockArgument(operand) && tsr_value_type(operand, &type) &&
                   type.dtype == TSR_DTYPE_F32 && type.shape.rank >= 2;
        }
        if (fits) return op;
    }
    return (MlirOperation){NULL};
}

static bool lies_across(const turner *t, size_t index) {
    return index ? !tsr_op_flag(t->root, "transpose_b") : tsr_op_flag(t->root, "transpose_a");
}

static bool is_still(const turner *t, MlirOperation entry, MlirOperation call, void *context) {
    MlirOperation of = tsr_entry_of(t->module, entry);
    return !mlirOperationIsNull(of) &&
           tsr_is_still(of, tsr_op_operand(call, *(const size_t *)context));
}

/* How often the product uses an element of the factor. */
static uint64_t count_uses(const turner *t, size_t index) {
    tsr_type result = {0}, factor = {0};
    tsr_value_type(tsr_op_result(t->root, 0), &result);
    tsr_value_type(tsr_op_operand(t->root, index), &factor);
    uint32_t rank = result.shape.rank;
    uint64_t uses = result.shape.dims[index ? rank - 2 : rank - 1];
    for (uint32_t d = 0; d + factor.shape.rank < rank; d++) uses *= result.shape.dims[d];
    return uses;
}

static bool is_worth_it(const turner *t, size_t index) {
    size_t argument = (size_t)mlirBlockArgumentGetArgNumber(tsr_op_operand(t->root, index));
    return count_uses(t, index) >= USES_MIN || visit_calls(t, is_still, &argument);
}

/* ---- turning it ------------------------------------------------------------------------------ */

static MlirType turned_type(MlirType of) {
    tsr_type type = {0};
    bool known = tsr_type_read(of, &type);
    TSR_ASSERT(known);
    uint64_t *dims = type.shape.dims + type.shape.rank - 2, rows = dims[0];
    dims[0] = dims[1];
    dims[1] = rows;
    return tsr_type_make(mlirTypeGetContext(of), &type);
}

static MlirValue build_transpose(tsr_builder *b, MlirValue value) {
    int64_t permutation[TSR_RANK_MAX];
    MlirType type = mlirValueGetType(value);
    size_t rank = (size_t)mlirShapedTypeGetRank(type);
    for (size_t d = 0; d < rank; d++) permutation[d] = (int64_t)d;
    permutation[rank - 2] = (int64_t)rank - 1;
    permutation[rank - 1] = (int64_t)rank - 2;
    const tsr_attr attrs[] = {{"permutation", tsr_attr_make_i64s(b->context, rank, permutation)},
                              {0}};
    return tsr_build_value(b, "tessera.transpose", &value, 1, turned_type(type), attrs);
}

/* The group's name and `suffix`, or what of that is free; NULL: no memory. */
static const char *free_name(const turner *t, const char *suffix) {
    const char *group = tsr_op_symbol(t->func);
    const char *name = tsr_arena_printf(t->arena, "%s_%s", group, suffix);
    for (unsigned i = 2; name && !mlirOperationIsNull(tsr_module_find(t->module, name)); i++)
        name = tsr_arena_printf(t->arena, "%s_%s_%u", group, suffix, i);
    return name;
}

/* A group that turns values of this type: one that there is, or a new one; null: no memory. */
static MlirOperation find_turning(const turner *t, MlirType type, size_t index) {
    MlirContext context = mlirTypeGetContext(type);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(t->module)) {
        if (!tsr_op_is(func, "tsched.func") || tsr_op_has(func, TSR_KEPT_NAME)) continue;
        MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(func));
        if (tsr_gpu_swaps(op) && mlirTypeEqual(mlirValueGetType(tsr_op_operand(op, 0)), type) &&
            tsr_op_is(mlirOperationGetNextInBlock(op), "tsched.return"))
            return func;
    }
    const char *name = free_name(t, index ? "rhs" : "lhs");
    if (!name) return (MlirOperation){NULL};
    MlirLocation location = mlirOperationGetLocation(t->func);
    MlirBlock block = mlirBlockCreate(1, &type, &location);
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    tsr_builder inside = tsr_builder_at_end(block, location);
    MlirValue turned = build_transpose(&inside, mlirBlockGetArgument(block, 0));
    MlirType result = mlirValueGetType(turned);
    tsr_build(&inside,
              &(tsr_op_desc){.name = "tsched.return", .operand_count = 1, .operands = &turned});
    tsr_type read = {0};
    uint64_t size = 0;
    bool known = tsr_type_read(type, &read) && tsr_shape_size(&read.shape, read.dtype, &size);
    TSR_ASSERT(known);
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(context, name)},
        {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(context, 1, &type, 1, &result))},
        {"kind", tsr_attr_make_string(context, "map")},
        {"source", tsr_attr_make_string(context, "default")},
        {"flops", tsr_attr_make_i64(context, 0)},
        {"bytes", tsr_attr_make_i64(context, (int64_t)(2 * size))}};
    tsr_builder outside = tsr_builder_before(t->func);
    return tsr_build(&outside, &(tsr_op_desc){.name = "tsched.func",
                                              .attr_count = sizeof attrs / sizeof attrs[0],
                                              .attrs = attrs,
                                              .region_count = 1,
                                              .regions = &region});
}

typedef struct change {
    MlirOperation turning; /* the group that turns the factor */
    size_t argument;       /* which it was */
    bool drops;            /* nothing else of the group reads it */
} change;

/* The factor turned: by a call that stands before, or a new one, which has the attributes that are
 * not the call's own. */
static MlirValue turn(MlirOperation turning, MlirOperation call, MlirValue factor) {
    const char *callee = tsr_op_symbol(turning);
    MlirContext context = mlirOperationGetContext(call);
    TSR_FOR_EACH_OP(op, mlirOperationGetBlock(call)) {
        if (mlirOperationEqual(op, call)) break;
        if (tsr_op_is(op, "tsched.call") && strcmp(tsr_op_string(op, "callee"), callee) == 0 &&
            mlirValueEqual(tsr_op_operand(op, 0), factor))
            return tsr_op_result(op, 0);
    }
    tsr_attr attrs[ATTRIBUTES_MAX + 2] = {{"callee", tsr_attr_make_symbol(context, callee)}};
    size_t count = 1;
    for (intptr_t i = 0; i < mlirOperationGetNumDiscardableAttributes(call); i++) {
        MlirNamedAttribute named = mlirOperationGetDiscardableAttribute(call, i);
        if (count > ATTRIBUTES_MAX) break;
        attrs[count++] = (tsr_attr){mlirIdentifierStr(named.name).data, named.attribute};
    }
    tsr_builder at = tsr_builder_before(call);
    return tsr_build_value(&at, "tsched.call", &factor, 1, turned_type(mlirValueGetType(factor)),
                           attrs);
}

static bool change_call(const turner *t, MlirOperation entry, MlirOperation call, void *context) {
    const change *c = context;
    MlirValue operands[OPERANDS_MAX + 1];
    size_t count = 0, before = tsr_op_operand_count(call);
    (void)t;
    (void)entry;
    for (; count < before; count++) operands[count] = tsr_op_operand(call, count);
    MlirValue turned = turn(c->turning, call, operands[c->argument]);
    if (c->drops)
        operands[c->argument] = turned;
    else
        operands[count++] = turned;
    mlirOperationSetOperands(call, (intptr_t)count, operands);
    return true;
}

static void set_type(MlirOperation func) {
    MlirType inputs[OPERANDS_MAX + 1], results[RESULTS_MAX];
    MlirBlock body = tsr_op_body(func);
    MlirOperation end = mlirBlockGetTerminator(body);
    intptr_t input_count = mlirBlockGetNumArguments(body);
    size_t result_count = tsr_op_operand_count(end);
    for (intptr_t i = 0; i < input_count; i++)
        inputs[i] = mlirValueGetType(mlirBlockGetArgument(body, i));
    for (size_t i = 0; i < result_count; i++) results[i] = mlirValueGetType(tsr_op_operand(end, i));
    tsr_op_set(func, "function_type",
               tsr_attr_make_type(mlirFunctionTypeGet(mlirOperationGetContext(func), input_count,
                                                      inputs, (intptr_t)result_count, results)));
}

static bool is_read_once(MlirValue value) {
    MlirOpOperand use = mlirValueGetFirstUse(value);
    return !mlirOpOperandIsNull(use) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(use));
}

static tsr_result turn_factor(turner *t, size_t index) {
    MlirBlock body = tsr_op_body(t->func);
    MlirValue argument = tsr_op_operand(t->root, index);
    MlirContext context = mlirOperationGetContext(t->func);
    MlirType type = mlirValueGetType(argument);
    change c = {.turning = find_turning(t, type, index),
                .argument = (size_t)mlirBlockArgumentGetArgNumber(argument)};
    if (mlirOperationIsNull(c.turning))
        FAIL(t->ctx, TSR_MEMORY, "no memory to lower '%s'", tsr_op_symbol(t->func));
    c.drops = is_read_once(argument);
    MlirValue turned = argument;
    if (c.drops)
        mlirValueSetType(argument, turned_type(type));
    else
        turned = mlirBlockAddArgument(body, turned_type(type), mlirOperationGetLocation(t->func));
    mlirOperationSetOperand(t->root, (intptr_t)index, turned);
    const char *flag = index ? "transpose_b" : "transpose_a";
    tsr_op_set(t->root, flag, tsr_attr_make_bool(context, !tsr_op_flag(t->root, flag)));
    visit_calls(t, change_call, &c);
    set_type(t->func);
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_turn_factors(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                tsr_arena *arena) {
    turner t = {.ctx = ctx, .arena = arena, .module = module};
    if (target->arch != 90) return TSR_SUCCESS; /* mma.sync reads in any order */
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, "tsched.func")) continue;
        t.func = func;
        t.root = find_product(func);
        if (mlirOperationIsNull(t.root) ||
            mlirBlockGetNumArguments(tsr_op_body(func)) >= OPERANDS_MAX ||
            tsr_op_operand_count(mlirBlockGetTerminator(tsr_op_body(func))) > RESULTS_MAX)
            continue;
        bool across[] = {lies_across(&t, 0), lies_across(&t, 1)};
        if ((across[0] && !is_worth_it(&t, 0)) || (across[1] && !is_worth_it(&t, 1))) continue;
        for (size_t i = 0; i < 2; i++)
            if (across[i]) TRY(ctx, turn_factor(&t, i));
    }
    return TSR_SUCCESS;
}
