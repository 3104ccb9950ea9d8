/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile IR -> Target IR, in place: kernels move to @device and are declared; tensors' data is
 * listed; each entry becomes its host program.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/schedule/config.h"
#include "compiler/target/host/host.h"
#include "compiler/target/host/plan.h"
#include "compiler/target/target.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

MlirType tsr_target_buffer_type(MlirContext context, const tsr_type *type, int64_t pitch) {
    int64_t dims[TSR_RANK_MAX];
    for (uint32_t i = 0; i < type->shape.rank; i++) dims[i] = (int64_t)type->shape.dims[i];
    return tsr_buffer_make(tsr_dtype_make(context, type->dtype), type->shape.rank, dims, pitch);
}

/* ---- kernels ---- */

static MlirAttribute kernel_type(MlirContext context, MlirOperation func, size_t outputs) {
    MlirType types[TSR_PROGRAM_ARGUMENTS_MAX];
    MlirBlock body = tsr_op_body(func);
    size_t count = (size_t)mlirBlockGetNumArguments(body);
    for (size_t i = 0; i < count; i++)
        types[i] = mlirValueGetType(mlirBlockGetArgument(body, (intptr_t)i));
    return tsr_attr_make_type(mlirFunctionTypeGet(context, (intptr_t)(count - outputs), types,
                                                  (intptr_t)outputs, types + (count - outputs)));
}

static TSR_RESULT declare_kernel(tsr_ctx *ctx, MlirOperation func) {
    static const char *const facts[] = {"grid",   "in_place",        TSR_SEGMENTS_NAME,
                                        "faults", "prepacks",        "flops",
                                        "bytes",  TSR_OPEN_GRID_NAME};
    tsr_builder at = tsr_builder_before(func);
    int64_t outputs = 0;
    size_t arguments = (size_t)mlirBlockGetNumArguments(tsr_op_body(func)), count = 2;
    if (arguments > TSR_PROGRAM_ARGUMENTS_MAX)
        FAIL(ctx, TSR_COMPILE, "kernel '%s' has %zu arguments; at most %d are possible",
             tsr_op_symbol(func), arguments, TSR_PROGRAM_ARGUMENTS_MAX);
    if (!tsr_op_i64(func, "outputs", &outputs) || outputs < 1 || (size_t)outputs > arguments)
        FAIL(ctx, TSR_COMPILE, "kernel '%s' has %zu arguments and writes %" PRId64 " of them",
             tsr_op_symbol(func), arguments, outputs);
    tsr_attr attrs[2 + TSR_COUNT(facts)] = {
        {"sym_name", tsr_attr_make_string(at.context, tsr_op_symbol(func))},
        {"function_type", kernel_type(at.context, func, (size_t)outputs)}};
    for (size_t i = 0; i < TSR_COUNT(facts); i++)
        if (tsr_op_has(func, facts[i]))
            attrs[count++] = (tsr_attr){facts[i], tsr_op_attr(func, facts[i])};
    tsr_build(&at,
              &(tsr_op_desc){.name = "tessera_target.kernel", .attr_count = count, .attrs = attrs});
    return TSR_SUCCESS;
}

static TSR_RESULT lower_kernels(tsr_ctx *ctx, MlirModule module) {
    MlirOperation self = mlirModuleGetOperation(module);
    MlirModule device = mlirModuleCreateEmpty(mlirOperationGetLocation(self));
    MlirOperation op = mlirModuleGetOperation(device);
    tsr_op_set(op, "sym_name",
               tsr_attr_make_string(mlirOperationGetContext(op), TSR_TARGET_DEVICE));
    mlirBlockInsertOwnedOperation(mlirModuleGetBody(module), 0, op);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_TILE_FUNC)) continue;
        TRY(ctx, declare_kernel(ctx, func));
        mlirOperationRemoveFromParent(func);
        mlirBlockAppendOwnedOperation(mlirModuleGetBody(device), func);
    }
    return TSR_SUCCESS;
}

/* ---- data, entries ---- */

static TSR_RESULT list_data(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                            tsr_arena *arena) {
    MlirAttribute *data = NULL;
    MlirOperation self = mlirModuleGetOperation(module);
    tsr_builder at = tsr_builder_at_end(mlirModuleGetBody(module), mlirOperationGetLocation(self));
    TRY(ctx, tsr_module_data(ctx, module, config, arena, &data));
    for (size_t i = 0; i < config->tensor_count; i++) {
        if (mlirAttributeIsNull(data[i])) continue;
        const tsr_attr attrs[] = {
            {"name", tsr_attr_make_string(at.context, config->tensors[i].name)},
            {"value", data[i]}};
        tsr_build(&at,
                  &(tsr_op_desc){.name = "tessera_target.data", .attr_count = 2, .attrs = attrs});
    }
    return TSR_SUCCESS;
}

static uint32_t count_calls(MlirModule module) {
    uint32_t count = 0;
    TSR_FOR_EACH_OP(entry, mlirModuleGetBody(module)) {
        if (!tsr_op_is(entry, TSR_FUNC_FUNC) || !tsr_op_has_body(entry)) continue;
        TSR_FOR_EACH_OP(op, tsr_op_body(entry)) count += tsr_op_is(op, TSR_SCHED_CALL);
    }
    return count;
}

tsr_result tsr_host_lower(tsr_ctx *ctx, MlirModule module, const tsr_config *config,
                          tsr_arena *arena) {
    tsr_prepacked_list prepacked = {.capacity = count_calls(module)};
    prepacked.items = TSR_NEW(arena, tsr_prepacked_item, (size_t)prepacked.capacity + 1);
    if (!prepacked.items) FAIL(ctx, TSR_MEMORY, "no memory for %u calls", prepacked.capacity);
    TRY(ctx, list_data(ctx, module, config, arena));
    TRY(ctx, lower_kernels(ctx, module));
    for (size_t i = 0; i < config->entry_count; i++) {
        MlirOperation func = tsr_module_find(module, config->entries[i].name);
        if (!tsr_op_is(func, TSR_FUNC_FUNC))
            FAIL(ctx, TSR_INTERNAL, "entry @%s is not in the module", config->entries[i].name);
        TRY(ctx, tsr_host_plan(ctx, module, func, config, &config->entries[i], &prepacked, arena));
        mlirOperationDestroy(func);
    }
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_FUNC_FUNC) && tsr_op_has(op, TSR_BODY_NAME)) mlirOperationDestroy(op);
    }
    return TSR_SUCCESS;
}
