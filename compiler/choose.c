/* SPDX-License-Identifier: Apache-2.0
 *
 * Rejects tiles that do not lead to good code. Each kernel on matrix units, and each kernel over
 * rows that lanes hold, is assembled by itself. Where it spills registers or the assembler refuses
 * it, its group gets the next best tile, and after a number of tries no tile. If the assembler
 * crashes or its answer cannot be read, this does not show that the tile is bad, and the whole
 * search ends.
 *
 * Other kernels have a single tile, or no better one. The assembler chooses the number of
 * registers of a thread, and may prefer more warps with spills, or it was given a limit. Kernels
 * that spill are given the number of registers that they may use.
 */
#include "compiler/choose.h"

#include "compiler/ir/targets/target.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/gpu/pitch.h"
#include "compiler/tile/gpu/product.h"
#include "compiler/tile/tile.h"
#include "manifests/fatbin.h"
#include "runtime/base/array.h"

#include <string.h>

/* Attributes of a tsched.func while tiles are chosen: all its kernels are good; one of its kernels
 * is bad. */
#define GOOD_NAME "tile.good"
#define BAD_NAME "tile.bad"
/* Attribute of a tile.func: the maximum number of registers of a thread. */
#define REGISTERS_NAME "registers"

/* The number of tiles that are tried for a group: an assembler that refuses all these refuses every
 * other tile, too. */
enum { TRIES_MAX = 24, SYMBOL_MAX = 256 };

/* The registers of a multiprocessor on all architectures; the limits per thread that are tried
 * where the assembler's own choice spills. */
enum { REGISTERS_ALL = 64 << 10 };
static const uint32_t registers_tried[] = {64, 96, 128, 168, 255};

/* Returns a module that contains only a copy of this kernel. */
static MlirModule isolate(MlirOperation func) {
    MlirModule module = mlirModuleCreateEmpty(mlirOperationGetLocation(func));
    mlirBlockAppendOwnedOperation(mlirModuleGetBody(module), mlirOperationClone(func));
    return module;
}

static tsr_result assemble(tsr_ctx *ctx, MlirModule module, const tsr_target *target,
                           const tsr_ptxas *ptxas, tsr_arena *arena, tsr_fatbin *out_fatbin) {
    void *code = NULL;
    size_t size = 0;
    TRY(ctx, tsr_target_compile(ctx, module, target, arena, &code, &size));
    if (ptxas) TRY(ctx, tsr_ptxas_assemble(ctx, ptxas, module, target, arena, &code, &size));
    return tsr_fatbin_decode(ctx, code, size, arena, out_fatbin);
}

static tsr_result probe(tsr_ctx *ctx, MlirOperation func, const tsr_target *target,
                        const tsr_ptxas *ptxas, bool *out_good) {
    tsr_ctx own = tsr_ctx_fork(ctx);
    tsr_arena arena = {0};
    tsr_fatbin fatbin;
    MlirModule module = isolate(func);
    tsr_result result = assemble(&own, module, target, ptxas, &arena, &fatbin);
    uint32_t spill_bytes = result.code ? 0 : fatbin.kernels[0].spill_bytes;
    mlirModuleDestroy(module);
    tsr_arena_finish(&arena);
    *out_good = !result.code && !spill_bytes;
    if (!*out_good)
        tsr_log(ctx, TSR_LOG_DEBUG,
                "'%s' for %s gets another tile, because %u bytes of registers were spilled%s%s",
                tsr_op_symbol(func), target->name, spill_bytes, result.code ? "; " : "",
                result.code ? own.error.text : "");
    return !result.code || result.code == TSR_COMPILE ? TSR_SUCCESS : tsr_error_adopt(ctx, &own);
}

/* Returns the group with that name, or with the part of the name before `end`. */
static MlirOperation find_before(MlirModule schedule, const char *name, const char *end) {
    char start[SYMBOL_MAX];
    MlirOperation none = {NULL};
    if (!end || end - name >= SYMBOL_MAX) return none;
    memcpy(start, name, (size_t)(end - name));
    start[end - name] = 0;
    return tsr_module_find(schedule, start);
}

/* Returns the group that a kernel belongs to: the group has the kernel's name, the name without a
 * suffix (kernels on matrix units), or the name without the suffix for pitches. Null if it belongs
 * to no group whose tiles are chosen. */
static MlirOperation find_group(MlirModule schedule, MlirOperation func) {
    const char *name = tsr_op_symbol(func);
    MlirOperation none = {NULL};
    bool has_warps = tsr_op_has(func, "warps");
    if (!has_warps && !tsr_op_has(func, TSR_CHOICES_NAME)) return none;
    MlirOperation group = tsr_module_find(schedule, name);
    if (mlirOperationIsNull(group) && has_warps)
        group = find_before(schedule, name, strrchr(name, '_'));
    if (mlirOperationIsNull(group))
        group = find_before(schedule, name, strstr(name, "_" TSR_PITCHED_SUFFIX));
    return group;
}

/* Sets *out_changed if some group has to skip one more tile. */
static tsr_result scan_kernels(tsr_ctx *ctx, MlirModule schedule, MlirModule tile,
                               const tsr_target *target, const tsr_ptxas *ptxas,
                               bool *out_changed) {
    MlirAttribute unit = tsr_attr_make_unit(mlirModuleGetContext(schedule));
    *out_changed = false;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(tile)) {
        bool good = true;
        int64_t skip = 0;
        MlirOperation group = {NULL};
        if (tsr_op_is(func, TSR_TILE_FUNC)) group = find_group(schedule, func);
        if (mlirOperationIsNull(group) || tsr_op_has(group, GOOD_NAME) ||
            tsr_op_has(group, BAD_NAME))
            continue;
        TRY(ctx, probe(ctx, func, target, ptxas, &good));
        if (good) continue;
        tsr_op_i64(group, TSR_SKIP_NAME, &skip);
        skip = skip + 1 < TRIES_MAX ? skip + 1 : INT32_MAX;
        tsr_op_set(group, TSR_SKIP_NAME, tsr_attr_make_i64(mlirModuleGetContext(schedule), skip));
        tsr_op_set(group, BAD_NAME, unit);
        *out_changed = true;
    }
    TSR_FOR_EACH_OP(group, mlirModuleGetBody(schedule)) {
        if (tsr_op_is(group, TSR_SCHED_FUNC) &&
            !mlirOperationRemoveDiscardableAttributeByName(group, tsr_ref(BAD_NAME)))
            tsr_op_set(group, GOOD_NAME, unit);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_choose_tiles(tsr_ctx *ctx, MlirModule schedule, const tsr_target *target,
                            const tsr_ptxas *ptxas, const tsr_choices *choices,
                            MlirModule *inout_planned, MlirModule *inout_tile) {
    tsr_result result = TSR_SUCCESS;
    bool changed = true;
    /* The loop ends because a group runs out of tiles and then has no kernel on matrix units. */
    while (changed) {
        MlirModule planned, next;
        TRY_GOTO(ctx, result, scan_kernels(ctx, schedule, *inout_tile, target, ptxas, &changed));
        if (!changed) break;
        TRY_GOTO(ctx, result, tsr_tile_plan(ctx, schedule, target, choices, &planned));
        mlirModuleDestroy(*inout_planned);
        *inout_planned = planned;
        TRY_GOTO(ctx, result, tsr_tile_lower_planned(ctx, planned, target, &next));
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

/* ---- registers of other kernels ---- */

/* A kernel that spills, and its best result so far. */
typedef struct spiller {
    MlirOperation func;
    uint32_t threads, given;         /* threads of a block; the register limit it already has, 0: no
                                      * limit */
    uint32_t registers, spill_bytes; /* the limit that spills least, 0: the present one; the bytes
                                      * it spills */
} spiller;

static size_t find_spillers(MlirModule device, const tsr_fatbin *fatbin, spiller *out_all) {
    size_t count = 0;
    uint32_t index = 0;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(device)) {
        if (!tsr_op_is(func, TSR_TILE_FUNC)) continue;
        const tsr_fatbin_kernel *kernel = &fatbin->kernels[index++];
        int64_t given = 0;
        /* The number of blocks of some kernels is computed from their register count: skip those.
         */
        if (!kernel->spill_bytes || tsr_op_has(func, "warps") || kernel->blocks) continue;
        tsr_op_i64(func, REGISTERS_NAME, &given);
        out_all[count++] =
            (spiller){func, kernel->threads, (uint32_t)given, 0, kernel->spill_bytes};
    }
    return count;
}

static bool may_try(const spiller *s, uint32_t registers) {
    return s->spill_bytes && registers > s->given && s->threads * registers <= REGISTERS_ALL;
}

/* Assembles all kernels that still spill, in one module. */
static tsr_result try_registers(tsr_ctx *ctx, uint32_t registers, const tsr_target *target,
                                const tsr_ptxas *ptxas, spiller *all, size_t count) {
    tsr_arena arena = {0};
    tsr_fatbin fatbin;
    uint32_t index = 0;
    MlirModule module = mlirModuleCreateEmpty(mlirOperationGetLocation(all[0].func));
    MlirContext context = mlirOperationGetContext(all[0].func);
    for (size_t i = 0; i < count; i++) {
        if (!may_try(&all[i], registers)) continue;
        MlirOperation func = mlirOperationClone(all[i].func);
        tsr_op_set(func, REGISTERS_NAME, tsr_attr_make_i64(context, registers));
        mlirBlockAppendOwnedOperation(mlirModuleGetBody(module), func);
        index++;
    }
    tsr_result result = index ? assemble(ctx, module, target, ptxas, &arena, &fatbin) : TSR_SUCCESS;
    index = 0;
    for (size_t i = 0; i < count && !result.code; i++) {
        if (!may_try(&all[i], registers)) continue;
        uint32_t spill_bytes = fatbin.kernels[index++].spill_bytes;
        if (spill_bytes >= all[i].spill_bytes) continue;
        all[i].spill_bytes = spill_bytes;
        all[i].registers = registers;
    }
    mlirModuleDestroy(module);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_choose_registers(tsr_ctx *ctx, MlirModule device, const tsr_target *target,
                                const tsr_ptxas *ptxas, const void *code, size_t code_size_bytes,
                                bool *out_changed) {
    tsr_arena arena = {0};
    tsr_fatbin fatbin;
    tsr_result result = TSR_SUCCESS;
    *out_changed = false;
    TRY_GOTO(ctx, result, tsr_fatbin_decode(ctx, code, code_size_bytes, &arena, &fatbin));
    spiller *all = TSR_NEW(&arena, spiller, fatbin.kernel_count + 1);
    if (!all) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for %u kernels", fatbin.kernel_count);
    size_t count = find_spillers(device, &fatbin, all);
    for (size_t t = 0; count && t < TSR_COUNT(registers_tried); t++)
        TRY_GOTO(ctx, result, try_registers(ctx, registers_tried[t], target, ptxas, all, count));
    for (size_t i = 0; i < count; i++) {
        if (!all[i].registers) continue;
        tsr_log(ctx, TSR_LOG_DEBUG, "'%s' for %s may use %u registers, because fewer would spill",
                tsr_op_symbol(all[i].func), target->name, all[i].registers);
        tsr_op_set(all[i].func, REGISTERS_NAME,
                   tsr_attr_make_i64(mlirOperationGetContext(all[i].func), all[i].registers));
        *out_changed = true;
    }
done:
    tsr_arena_finish(&arena);
    return result;
}
