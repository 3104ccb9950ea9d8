/* SPDX-License-Identifier: Apache-2.0
 *
 *     %y = tsched.call @product(%x, %w)        // matmul %x, %w {allow_tf32}: w is K x N
 *
 * becomes
 *
 *     %t = tsched.call @product_factor(%w)     // transpose
 *     %y = tsched.call @product(%x, %t)        // matmul %x, %t {transpose_b, allow_tf32}
 *
 * so that tsched-hoist transposes weights only once if an entry only reads them.
 */
#include "compiler/tile/gpu/factors.h"

#include "compiler/graph/graph.h"
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/gpu/layout.h"

#include <string.h>

enum {
    OPERANDS_MAX = 256,
    RESULTS_MAX = 256,
    USES_MIN = 64, /* with fewer uses of an element a transpose costs more than it saves */
};

typedef struct transposer {
    tsr_ctx *ctx;
    tsr_arena *arena;
    MlirModule module;
    MlirOperation func, root; /* the group, its product */
    tsr_assigned *assigned;
} transposer;

typedef bool (*visit)(const transposer *t, MlirOperation entry, MlirOperation call, void *context);

/* Visits the calls of the group until a visitor returns false. Returns false if a visitor did. */
static bool visit_calls(const transposer *t, visit visitor, void *context) {
    TSR_FOR_EACH_OP(entry, mlirModuleGetBody(t->module)) {
        if (!tsr_op_is(entry, TSR_FUNC_FUNC) || !tsr_op_has_body(entry)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(entry)) {
            const char *callee = tsr_op_is(op, TSR_SCHED_CALL) ? tsr_op_string(op, "callee") : NULL;
            if (callee && strcmp(callee, tsr_op_symbol(t->func)) == 0 &&
                !visitor(t, entry, op, context))
                return false;
        }
    }
    return true;
}

/* ---- choosing factors ------------------------------------------------------------------------ */

/* A product of two f32 arguments that may be computed as tf32, or null. */
static MlirOperation find_product(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (!tsr_op_is(op, TSR_GRAPH_MATMUL)) continue;
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

static bool is_strided(const transposer *t, size_t index) {
    return index ? !tsr_op_flag(t->root, "transpose_b") : tsr_op_flag(t->root, "transpose_a");
}

static bool is_still(const transposer *t, MlirOperation entry, MlirOperation call, void *context) {
    MlirOperation of = tsr_entry_of(t->module, entry);
    return !mlirOperationIsNull(of) &&
           tsr_is_invariant(t->assigned, of, tsr_op_operand(call, *(const size_t *)context));
}

/* The number of times that the product uses an element of the factor. */
static uint64_t count_uses(const transposer *t, size_t index) {
    tsr_type result = {0}, factor = {0};
    tsr_value_type(tsr_op_result(t->root, 0), &result);
    tsr_value_type(tsr_op_operand(t->root, index), &factor);
    uint32_t rank = result.shape.rank;
    uint64_t uses = result.shape.dims[index ? rank - 2 : rank - 1];
    for (uint32_t d = 0; d + factor.shape.rank < rank; d++) uses *= result.shape.dims[d];
    return uses;
}

static bool is_worth_it(const transposer *t, size_t index) {
    size_t argument = (size_t)mlirBlockArgumentGetArgNumber(tsr_op_operand(t->root, index));
    return count_uses(t, index) >= USES_MIN || visit_calls(t, is_still, &argument);
}

/* ---- transposing factors --------------------------------------------------------------------- */

/* The first of the last two dims, which are rows and columns. */
static size_t rows_of(MlirType type) { return (size_t)mlirShapedTypeGetRank(type) - 2; }

static MlirType transposed_type(MlirType type) {
    return tsr_gpu_transposed_type(type, rows_of(type));
}

typedef struct change {
    MlirOperation transposing; /* the group that transposes the factor */
    size_t argument;           /* index of the factor in the group's arguments */
    bool drops;                /* no other op of the group reads it */
} change;

static bool change_call(const transposer *t, MlirOperation entry, MlirOperation call,
                        void *context) {
    const change *c = context;
    MlirValue operands[OPERANDS_MAX + 1];
    size_t count = 0, before = tsr_op_operand_count(call);
    (void)t;
    (void)entry;
    for (; count < before; count++) operands[count] = tsr_op_operand(call, count);
    MlirValue transposed = tsr_gpu_call_before(c->transposing, call, operands[c->argument]);
    if (c->drops)
        operands[c->argument] = transposed;
    else
        operands[count++] = transposed;
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

static tsr_result transpose_factor(transposer *t, size_t index) {
    MlirBlock body = tsr_op_body(t->func);
    MlirValue argument = tsr_op_operand(t->root, index);
    MlirContext context = mlirOperationGetContext(t->func);
    MlirType type = mlirValueGetType(argument);
    tsr_builder at = tsr_builder_before(t->func);
    change c = {.transposing =
                    tsr_gpu_find_transposing(&at, t->module, t->arena, tsr_op_symbol(t->func),
                                             index ? "rhs" : "lhs", type, rows_of(type)),
                .argument = (size_t)mlirBlockArgumentGetArgNumber(argument)};
    if (mlirOperationIsNull(c.transposing))
        FAIL(t->ctx, TSR_MEMORY, "no memory to lower '%s'", tsr_op_symbol(t->func));
    c.drops = is_read_once(argument);
    MlirValue transposed = argument;
    if (c.drops)
        mlirValueSetType(argument, transposed_type(type));
    else
        transposed =
            mlirBlockAddArgument(body, transposed_type(type), mlirOperationGetLocation(t->func));
    mlirOperationSetOperand(t->root, (intptr_t)index, transposed);
    const char *flag = index ? "transpose_b" : "transpose_a";
    tsr_op_set(t->root, flag, tsr_attr_make_bool(context, !tsr_op_flag(t->root, flag)));
    visit_calls(t, change_call, &c);
    set_type(t->func);
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_transpose_factors(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                     tsr_arena *arena) {
    tsr_assigned assigned = {0};
    tsr_result result = TSR_SUCCESS;
    transposer t = {.ctx = ctx, .arena = arena, .module = module, .assigned = &assigned};
    if (target->arch != 90) return TSR_SUCCESS; /* mma.sync reads in any order */
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_SCHED_FUNC)) continue;
        t.func = func;
        t.root = find_product(func);
        if (mlirOperationIsNull(t.root) ||
            mlirBlockGetNumArguments(tsr_op_body(func)) >= OPERANDS_MAX ||
            tsr_op_operand_count(mlirBlockGetTerminator(tsr_op_body(func))) > RESULTS_MAX)
            continue;
        bool strided[] = {is_strided(&t, 0), is_strided(&t, 1)};
        if ((strided[0] && !is_worth_it(&t, 0)) || (strided[1] && !is_worth_it(&t, 1))) continue;
        for (size_t i = 0; i < 2; i++)
            if (strided[i]) TRY_GOTO(ctx, result, transpose_factor(&t, i));
    }
done:
    tsr_assigned_finish(&assigned);
    return result;
}
