/* SPDX-License-Identifier: Apache-2.0
 *
 *     %y = tsched.call @product(%x, %w)        // w is 512 x 511
 *
 * becomes
 *
 *     %c = tsched.call @product_relayout(%w)   // a copy
 *     %y = tsched.call @product(%x, %c)
 */
#include "compiler/tile/gpu/relayout.h"

#include "compiler/ir/targets/target.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/gpu/layout.h"
#include "compiler/tile/gpu/pitch.h"
#include "compiler/tile/gpu/product.h"

#include <string.h>

enum { COPY_BYTES = 16, FACTORS = 2 };

typedef struct relayouter {
    tsr_ctx *ctx;
    tsr_arena *arena;
    const tsr_target *target;
    MlirModule module;
    tsr_tile_group group;
    size_t numbers[FACTORS]; /* indices of its factors in the group's arguments */
    bool refused[FACTORS];   /* the copy engine cannot read the factor */
    double cycles;           /* cycles of the group without changes */
    tsr_assigned *assigned;
} relayouter;

/* Finds the factor's argument, and whether the copy engine can read its rows. False if the factor
 * is not an argument. */
static bool read_factor(relayouter *l, size_t index) {
    MlirValue operand = tsr_op_operand(l->group.root, index);
    if (!mlirValueIsABlockArgument(operand)) return false;
    l->numbers[index] = (size_t)mlirBlockArgumentGetArgNumber(operand);
    const tsr_type *type = &l->group.types[l->numbers[index]];
    uint64_t bytes = tsr_dtype_size(type->dtype);
    l->refused[index] =
        tsr_gpu_pitch(type) && type->shape.dims[type->shape.rank - 1] * bytes % COPY_BYTES != 0;
    return true;
}

/* Fits if the group is a product on matrix units and the copy engine refuses a factor. */
static TSR_RESULT read_group(relayouter *l, MlirOperation func, bool *out_fits) {
    *out_fits = false;
    l->group = tsr_tile_group_make(l->ctx, l->arena, l->target, true, func);
    TRY(l->ctx, tsr_tile_group_read(&l->group));
    memset(l->refused, 0, sizeof l->refused);
    if (!tsr_op_is(l->group.root, TSR_GRAPH_MATMUL) || !read_factor(l, 0) || !read_factor(l, 1) ||
        (!l->refused[0] && !l->refused[1]))
        return TSR_SUCCESS;
    return tsr_tile_time_product(&l->group, out_fits, &l->cycles);
}

/* True if only kernels write and read the value. That tensor may then have a pitch without a
 * copy. */
static bool is_owned(MlirValue value) {
    if (mlirValueIsABlockArgument(value) || !tsr_op_is(tsr_value_owner(value), TSR_SCHED_CALL))
        return false;
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
        if (!tsr_op_is(mlirOpOperandGetOwner(use), TSR_SCHED_CALL)) return false;
    return true;
}

/* The cycles of a copy; 0 for an invariant, because it is copied only once. */
static double copy_time(const relayouter *l, MlirOperation entry, MlirValue value, size_t index) {
    const tsr_type *type = &l->group.types[l->numbers[index]];
    uint64_t size = 0;
    if (!mlirOperationIsNull(entry) && tsr_is_invariant(l->assigned, entry, value)) return 0;
    tsr_shape_size(&type->shape, type->dtype, &size);
    return tsr_product_copy_time(l->target, (double)size);
}

/* Decides which factors of the call are copied: all refused factors that kernels do not own, or no
 * factors. */
static TSR_RESULT weigh(relayouter *l, MlirOperation func, MlirOperation call,
                        bool out_copied[FACTORS]) {
    MlirOperation entry = tsr_entry_of(l->module, func);
    double before = l->cycles, after = 0;
    bool taken = false, any = false;
    for (size_t i = 0; i < FACTORS; i++) {
        MlirValue value = tsr_op_operand(call, l->numbers[i]);
        out_copied[i] = l->refused[i] && !is_owned(value);
        any |= out_copied[i];
        if (l->refused[i])
            l->group.pitches[l->numbers[i]] = tsr_gpu_pitch(&l->group.types[l->numbers[i]]);
        if (out_copied[i]) before -= copy_time(l, entry, value, i);
    }
    TRY(l->ctx, tsr_tile_time_product(&l->group, &taken, &after));
    memset(l->group.pitches, 0,
           (l->group.input_count + l->group.output_count) * sizeof *l->group.pitches);
    if (!any || !taken || after >= before) memset(out_copied, 0, FACTORS * sizeof *out_copied);
    return TSR_SUCCESS;
}

static TSR_RESULT relayout_factor(relayouter *l, MlirOperation call, size_t index) {
    MlirValue value = tsr_op_operand(call, l->numbers[index]);
    tsr_builder at = tsr_builder_before(l->group.op);
    MlirOperation copying = tsr_gpu_find_copying(&at, l->module, l->arena, l->group.name,
                                                 "relayout", mlirValueGetType(value));
    if (mlirOperationIsNull(copying))
        FAIL(l->ctx, TSR_MEMORY, "no memory to lower '%s'", l->group.name);
    mlirOperationSetOperand(call, (intptr_t)l->numbers[index],
                            tsr_gpu_call_before(copying, call, value));
    return TSR_SUCCESS;
}

static TSR_RESULT relayout_calls(relayouter *l) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(l->module)) {
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has_body(func)) continue;
        TSR_FOR_EACH_OP(call, tsr_op_body(func)) {
            bool copied[FACTORS];
            const char *callee =
                tsr_op_is(call, TSR_SCHED_CALL) ? tsr_op_string(call, "callee") : NULL;
            if (!callee || strcmp(callee, l->group.name) != 0) continue;
            TRY(l->ctx, weigh(l, func, call, copied));
            for (size_t i = 0; i < FACTORS; i++)
                if (copied[i]) TRY(l->ctx, relayout_factor(l, call, i));
        }
    }
    return TSR_SUCCESS;
}

tsr_result tsr_gpu_relayout_factors(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                    tsr_arena *arena) {
    tsr_assigned assigned = {0};
    tsr_result result = TSR_SUCCESS;
    relayouter l = {
        .ctx = ctx, .arena = arena, .target = target, .module = module, .assigned = &assigned};
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        bool fits = false;
        if (!tsr_op_is(func, TSR_SCHED_FUNC)) continue;
        TRY_GOTO(ctx, result, read_group(&l, func, &fits));
        if (fits) TRY_GOTO(ctx, result, relayout_calls(&l));
    }
done:
    tsr_assigned_finish(&assigned);
    return result;
}
