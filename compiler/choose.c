/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles that no good code can be made of: each kernel on matrix units, and each over rows that
 * lanes hold, goes through the assembler by itself, and where it spills registers, or is refused,
 * its group gets the next best tile, and after some tries none.
 */
#include "compiler/choose.h"

#include "compiler/tile/gpu/product.h"
#include "compiler/tile/tile.h"
#include "manifests/fatbin.h"

#include <string.h>

/* Of a tsched.func, while tiles are chosen: its kernel is good. */
#define GOOD_NAME "tile.good"

/* Tiles of a group that are tried: an assembler that takes none of them takes no other. */
enum { TRIES_MAX = 24 };

/* The kernel alone in a module. */
static MlirModule isolate(MlirOperation func) {
    MlirModule module = mlirModuleCreateEmpty(mlirOperationGetLocation(func));
    mlirBlockAppendOwnedOperation(mlirModuleGetBody(module), mlirOperationClone(func));
    return module;
}

static tsr_result assemble(tsr_ctx *ctx, MlirModule module, const tsr_target *target,
                           const tsr_ptxas *ptxas, tsr_arena *arena, uint32_t *out_spill_bytes) {
    void *code = NULL;
    size_t size = 0;
    tsr_fatbin fatbin;
    TRY(ctx, tsr_target_compile(ctx, module, target, arena, &code, &size));
    TRY(ctx, tsr_ptxas_assemble(ctx, ptxas, module, target, arena, &code, &size));
    TRY(ctx, tsr_fatbin_decode(ctx, code, size, arena, &fatbin));
    *out_spill_bytes = fatbin.kernels[0].spill_bytes;
    return TSR_SUCCESS;
}

static tsr_result probe(tsr_ctx *ctx, MlirOperation func, const tsr_target *target,
                        const tsr_ptxas *ptxas, bool *out_good) {
    tsr_ctx own = tsr_ctx_fork(ctx);
    tsr_arena arena = {0};
    uint32_t spill_bytes = 0;
    MlirModule module = isolate(func);
    tsr_result result = assemble(&own, module, target, ptxas, &arena, &spill_bytes);
    mlirModuleDestroy(module);
    tsr_arena_finish(&arena);
    *out_good = !result.code && !spill_bytes;
    if (!*out_good)
        tsr_log(ctx, TSR_LOG_DEBUG,
                "'%s' for %s gets another tile: %u bytes of registers spilt%s%s",
                tsr_op_symbol(func), target->name, spill_bytes, result.code ? "; " : "",
                result.code ? own.error.text : "");
    return !result.code || result.code == TSR_COMPILE ? TSR_SUCCESS : tsr_error_adopt(ctx, &own);
}

/* *out_changed: some group has one tile more to leave out. */
static tsr_result look(tsr_ctx *ctx, MlirModule schedule, MlirModule tile, const tsr_target *target,
                       const tsr_ptxas *ptxas, bool *out_changed) {
    *out_changed = false;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(tile)) {
        bool good = true;
        int64_t skip = 0;
        if (!tsr_op_is(func, "tile.func")) continue;
        if (!tsr_op_has(func, "warps") && !tsr_op_has(func, TSR_CHOICES_NAME)) continue;
        MlirOperation group = tsr_module_find(schedule, tsr_op_symbol(func));
        if (mlirOperationIsNull(group) || tsr_op_has(group, GOOD_NAME)) continue;
        TRY(ctx, probe(ctx, func, target, ptxas, &good));
        MlirContext context = mlirOperationGetContext(group);
        if (good) {
            tsr_op_set(group, GOOD_NAME, tsr_attr_make_unit(context));
            continue;
        }
        tsr_op_i64(group, TSR_SKIP_NAME, &skip);
        skip = skip + 1 < TRIES_MAX ? skip + 1 : INT32_MAX;
        tsr_op_set(group, TSR_SKIP_NAME, tsr_attr_make_i64(context, skip));
        *out_changed = true;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_choose_tiles(tsr_ctx *ctx, MlirModule schedule, const tsr_target *target,
                            const tsr_ptxas *ptxas, MlirModule *inout_tile) {
    tsr_result result = TSR_SUCCESS;
    bool changed = true;
    /* It ends: a group runs out of tiles, and then has no kernel on matrix units. */
    while (changed) {
        MlirModule next;
        TRY_GOTO(ctx, result, look(ctx, schedule, *inout_tile, target, ptxas, &changed));
        if (!changed) break;
        TRY_GOTO(ctx, result, tsr_tile_lower(ctx, schedule, target, &next));
        mlirModuleDestroy(*inout_tile);
        *inout_tile = next;
    }
done:
    TSR_FOR_EACH_OP(group, mlirModuleGetBody(schedule)) {
        mlirOperationRemoveDiscardableAttributeByName(group, tsr_ref(TSR_SKIP_NAME));
        mlirOperationRemoveDiscardableAttributeByName(group, tsr_ref(GOOD_NAME));
    }
    return result;
}
