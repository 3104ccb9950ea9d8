/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tsched-fuse-epilogues. A product and the elementwise group that is the only reader of its
 * result become one group, if a tile of the product takes long enough to compute the epilogue of
 * the previous tile concurrently (tile/matmul.c):
 *
 *     %g = tsched.call @k0_matmul(%x, %d)
 *     %n = tsched.call @k1_add(%w, %g)   ->   %n = tsched.call @k0_matmul_epilogue0(%x, %d, %w)
 *
 * The product's result is then neither written nor read. Under native numerics tsched-fuse keeps
 * the two groups separate, for GPUs: there the steps of an optimizer are one launch. The results
 * are bit-identical. The pass is for CPUs: tsr_tile_lower runs it.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/op_rows.h"
#include "compiler/schedule/fusion/fusion.h"
#include "compiler/schedule/schedule.h"

#include <stdio.h>
#include <string.h>

/* Attribute of elementwise groups while the pass runs: the number of the group. */
#define NUMBER_NAME "tsched.number"

enum {
    STEPS_LEAST = 64, /* steps of the loop over k: see plan_epilogue of tile/matmul_plan.c */
    ROWS_LEAST = 64,  /* some tiles of each block of rows, ... */
    COLUMNS_LEAST = 64,
    SUFFIX_BYTES = 32,
};

typedef struct pair {
    MlirOperation first, second; /* calls */
    MlirOperation product, map;  /* their groups */
    size_t index;                /* operand of `second` that `first` makes */
} pair;

static MlirOperation group_of(MlirModule module, MlirOperation call, const char *kind) {
    const char *callee = !tsr_op_is(call, TSR_SCHED_CALL) ? NULL : tsr_op_string(call, "callee");
    MlirOperation group = tsr_module_find(module, callee ? callee : "");
    if (!tsr_op_is(group, TSR_SCHED_FUNC) || mlirBlockIsNull(tsr_op_body(group)))
        return (MlirOperation){NULL};
    const char *is = tsr_op_string(group, "kind"), *source = tsr_op_string(group, "source");
    bool fits = is && strcmp(is, kind) == 0 && source && strcmp(source, "default") == 0;
    return fits ? group : (MlirOperation){NULL};
}

static bool is_used_once(MlirValue value) {
    MlirOpOperand use = mlirValueGetFirstUse(value);
    return !mlirOpOperandIsNull(use) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(use));
}

static MlirOperation find_matmul(MlirOperation group) {
    TSR_FOR_EACH_OP(op, tsr_op_body(group)) {
        if (tsr_op_is(op, TSR_GRAPH_MATMUL)) return op;
    }
    return (MlirOperation){NULL};
}

/* True if a tile of the product takes long enough. */
static bool is_long(MlirOperation group) {
    MlirOperation product = find_matmul(group);
    tsr_type a, result;
    if (mlirOperationIsNull(product) || !tsr_value_type(tsr_op_operand(product, 0), &a) ||
        !tsr_value_type(tsr_op_result(product, 0), &result) || a.shape.rank < 2)
        return false;
    const uint64_t *dims = result.shape.dims + result.shape.rank - 2;
    bool transposed = tsr_op_flag(product, "transpose_a");
    uint64_t depth = a.shape.dims[a.shape.rank - (transposed ? 2 : 1)];
    uint64_t unit = tsr_dtype_size(TSR_DTYPE_F32) / tsr_dtype_size(a.dtype); /* dot.h */
    return depth >= STEPS_LEAST * (unit ? unit : 1) && dims[0] >= ROWS_LEAST &&
           dims[1] >= COLUMNS_LEAST;
}

/* True if all results of the second call have the shape of the first call's result, and the second
 * call has enough operands. */
static bool is_epilogue(const pair *p) {
    tsr_type made, other;
    size_t large = 0;
    if (!tsr_value_type(tsr_op_result(p->first, 0), &made)) return false;
    for (size_t i = 0; i < tsr_op_result_count(p->second); i++)
        if (!tsr_value_type(tsr_op_result(p->second, i), &other) ||
            !tsr_shape_equal(&made.shape, &other.shape))
            return false;
    for (size_t i = 0; i < tsr_op_operand_count(p->second); i++)
        large += i != p->index && tsr_value_type(tsr_op_operand(p->second, i), &other) &&
                 tsr_shape_equal(&made.shape, &other.shape);
    return large >= TSR_EPILOGUE_OPERANDS_LEAST && tsr_op_operand_count(p->first) +
                                                           tsr_op_operand_count(p->second) - 1 +
                                                           tsr_op_result_count(p->second) <=
                                                       TSR_FUSE_ARGUMENTS_MAX;
}

/* Finds the pair of the call `second` and the product that it reads. */
static bool find_pair(MlirModule module, MlirOperation second, pair *out) {
    *out = (pair){.second = second, .map = group_of(module, second, "map")};
    if (mlirOperationIsNull(out->map)) return false;
    for (size_t i = 0; i < tsr_op_operand_count(second); i++) {
        MlirValue value = tsr_op_operand(second, i);
        out->index = i;
        out->first = tsr_value_owner(value);
        out->product = group_of(module, out->first, "matmul");
        if (!mlirOperationIsNull(out->product) && tsr_op_result_count(out->first) == 1 &&
            is_used_once(value) && is_long(out->product) && is_epilogue(out))
            return true;
    }
    return false;
}

static int64_t attribute(MlirOperation op, const char *name) {
    int64_t value = 0;
    tsr_op_i64(op, name, &value);
    return value;
}

/* Operations and bytes of both groups, without the bytes of the value between them. */
static void set_costs(const pair *p, MlirOperation made) {
    MlirContext context = mlirOperationGetContext(made);
    tsr_type type;
    uint64_t size = 0;
    bool known = tsr_value_type(tsr_op_result(p->first, 0), &type) &&
                 tsr_shape_size(&type.shape, type.dtype, &size);
    TSR_ASSERT(known);
    int64_t bytes = attribute(p->product, "bytes") + attribute(p->map, "bytes");
    int64_t flops = attribute(p->product, "flops") + attribute(p->map, "flops");
    tsr_op_set(made, "bytes", tsr_attr_make_i64(context, bytes - 2 * (int64_t)size));
    tsr_op_set(made, "flops", tsr_attr_make_i64(context, flops));
}

static void set_type(MlirModule module, MlirOperation made, MlirOperation map) {
    MlirType inputs[TSR_FUSE_ARGUMENTS_MAX], results[TSR_FUSE_ARGUMENTS_MAX];
    MlirType function = mlirTypeAttrGetValue(tsr_op_attr(map, "function_type"));
    intptr_t count = mlirFunctionTypeGetNumResults(function);
    MlirBlock block = tsr_op_body(made);
    intptr_t arguments = mlirBlockGetNumArguments(block);
    for (intptr_t i = 0; i < arguments; i++)
        inputs[i] = mlirValueGetType(mlirBlockGetArgument(block, i));
    for (intptr_t i = 0; i < count; i++) results[i] = mlirFunctionTypeGetResult(function, i);
    tsr_op_set(made, "function_type",
               tsr_attr_make_type(mlirFunctionTypeGet(mlirModuleGetContext(module), arguments,
                                                      inputs, count, results)));
}

/* Appends the ops of the map after the ops of the product. */
static MlirOperation fuse_groups(MlirModule module, const pair *p) {
    MlirOperation made = mlirOperationClone(p->product), from = mlirOperationClone(p->map);
    MlirBlock to = tsr_op_body(made), block = tsr_op_body(from);
    MlirOperation end = mlirBlockGetTerminator(to);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
        MlirValue argument = mlirBlockGetArgument(block, i), value = tsr_op_operand(end, 0);
        if ((size_t)i != p->index)
            value = mlirBlockAddArgument(to, mlirValueGetType(argument),
                                         mlirOperationGetLocation(p->map));
        mlirValueReplaceAllUsesOfWith(argument, value);
    }
    TSR_FOR_EACH_OP(op, block) mlirOperationMoveBefore(op, end);
    mlirOperationDestroy(end);
    mlirOperationDestroy(from);
    set_type(module, made, p->map);
    set_costs(p, made);
    return made;
}

static void fuse_calls(MlirModule module, const pair *p, uint32_t *count) {
    MlirValue operands[2 * TSR_FUSE_ARGUMENTS_MAX];
    MlirType results[TSR_FUSE_ARGUMENTS_MAX];
    MlirContext context = mlirModuleGetContext(module);
    char suffix[SUFFIX_BYTES];
    size_t operand_count = 0, result_count = tsr_op_result_count(p->second);
    if (!tsr_op_has(p->map, NUMBER_NAME))
        tsr_op_set(p->map, NUMBER_NAME, tsr_attr_make_i64(context, (*count)++));
    snprintf(suffix, sizeof suffix, "epilogue%d", (int)attribute(p->map, NUMBER_NAME));
    MlirOperation group = tsr_clone_find(module, p->product, suffix);
    if (mlirOperationIsNull(group)) {
        group = fuse_groups(module, p);
        tsr_clone_add(module, p->product, group, suffix);
    }
    for (size_t i = 0; i < tsr_op_operand_count(p->first); i++)
        operands[operand_count++] = tsr_op_operand(p->first, i);
    for (size_t i = 0; i < tsr_op_operand_count(p->second); i++)
        if (i != p->index) operands[operand_count++] = tsr_op_operand(p->second, i);
    for (size_t i = 0; i < result_count; i++)
        results[i] = mlirValueGetType(tsr_op_result(p->second, i));
    tsr_builder at = tsr_builder_before(p->second);
    at.location = mlirOperationGetLocation(p->first);
    const tsr_attr callee = {"callee", tsr_attr_make_symbol(context, tsr_op_symbol(group))};
    MlirOperation call = tsr_build(&at, &(tsr_op_desc){.name = "tsched.call",
                                                       .operand_count = operand_count,
                                                       .operands = operands,
                                                       .result_count = result_count,
                                                       .results = results,
                                                       .attr_count = 1,
                                                       .attrs = &callee});
    for (size_t i = 0; i < result_count; i++)
        mlirValueReplaceAllUsesOfWith(tsr_op_result(p->second, i), tsr_op_result(call, i));
    mlirOperationDestroy(p->second);
    mlirOperationDestroy(p->first);
}

/* Erases elementwise groups that are no longer called. */
static void drop_fused(MlirModule module) {
    TSR_FOR_EACH_OP(group, mlirModuleGetBody(module)) {
        if (!mlirOperationRemoveDiscardableAttributeByName(group, tsr_ref(NUMBER_NAME))) continue;
        if (!tsr_group_is_called(module, tsr_op_symbol(group))) mlirOperationDestroy(group);
    }
}

/* True if something runs for each virtual rank: a product that runs once would then run for each
 * virtual rank. */
static bool has_vranks(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        const tsr_op_row *row = tsr_op_row_find(op);
        if (row && (row->op_class == TSR_CLASS_VRANK || row->op_class == TSR_CLASS_TAKE))
            return true;
    }
    return false;
}

bool tsr_pass_fuse_epilogues(MlirModule module) {
    uint32_t count = 0;
    pair p;
    tsr_clones_begin(module);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_graph_is_lowered_func(func) || has_vranks(func)) continue;
        TSR_FOR_EACH_OP(call, tsr_op_body(func)) {
            if (find_pair(module, call, &p)) fuse_calls(module, &p, &count);
        }
    }
    tsr_clones_end(module);
    drop_fused(module);
    return true;
}
