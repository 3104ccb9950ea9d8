/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans the kernels of a target: passes that depend on the target, then the sizes of each kernel.
 * The sizes are those of the schedule that somebody gave, or the family's own choice.
 */
#include "compiler/tile/plan.h"

#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/gpu/factors.h"
#include "compiler/tile/gpu/heads.h"
#include "compiler/tile/gpu/pitch.h"
#include "compiler/tile/gpu/relayout.h"
#include "compiler/tile/open.h"
#include "compiler/tile/products/gemm.h"
#include "compiler/tile/signature.h"
#include "compiler/tile/tile.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static tsr_result choose_matmul(tsr_tile_group *group, tsr_tiling *tiling) {
    if (group->multiplies) TRY(group->ctx, tsr_product_choose(group, tiling));
    return tiling->kind == TSR_TILING_NONE ? tsr_matmul_choose(group, tiling) : TSR_SUCCESS;
}

static const tsr_tile_choose families[TSR_OP_COUNT] = {
    [TSR_GRAPH_MATMUL] = choose_matmul,
};

typedef struct plan {
    tsr_ctx *ctx;
    const tsr_target *target;
    const tsr_choices *choices; /* or NULL */
    MlirModule module;
    tsr_arena arena;
    bool native;
} plan;

bool tsr_tile_refuse(tsr_tile_group *group, const char *format, ...) {
    va_list arguments;
    if (group->refusal[0]) return false;
    va_start(arguments, format);
    vsnprintf(group->refusal, sizeof group->refusal, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- passes that depend on the target -------------------------------------------------------- */

static bool is_native(MlirModule module) {
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    return numerics && strcmp(numerics, "native") == 0;
}

static tsr_result run_passes(plan *p) {
    const tsr_target *target = p->target;
    if (tsr_gemm_has_registers(target)) tsr_pass_fuse_epilogues(p->module);
    if (!target->warp_lanes) tsr_pass_narrow(p->module);
    if (target->vector_bytes <= TSR_STRIP_BYTES)
        tsr_schedule_pack(p->module, target->has_dot && p->native);
    TRY(p->ctx, tsr_tile_open_entries(p->ctx, target, p->module, &p->arena));
    if (p->native && tsr_target_has_matrix_units(target)) {
        TRY(p->ctx, tsr_gpu_transpose_factors(p->ctx, target, p->module, &p->arena));
        TRY(p->ctx, tsr_gpu_relayout_factors(p->ctx, target, p->module, &p->arena));
        tsr_pass_hoist(p->module);
        TRY(p->ctx, tsr_gpu_fuse_heads(p->ctx, target, p->module, &p->arena));
        TRY(p->ctx, tsr_gpu_choose_pitches(p->ctx, target, p->module, &p->arena));
    }
    if (target->arguments_max && !tsr_schedule_batch(p->module, target->arguments_max))
        FAIL(p->ctx, TSR_MEMORY, "no memory to batch the calls for '%s'", target->name);
    return TSR_SUCCESS;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static tsr_tile_choose family_of(const tsr_tile_group *group) {
    const char *kind = tsr_op_string(group->op, "kind");
    if (tsr_op_has(group->op, TSR_OPEN_TYPES_NAME)) return NULL; /* extents: a kernel of its own */
    if (kind && (strcmp(kind, "rows") == 0 || strcmp(kind, "batch") == 0)) return NULL;
    return families[tsr_op_of(group->root)];
}

/* Runs the family's choice with the group as the lowering sees it: with an open block. */
static tsr_result choose(tsr_tile_group *group, tsr_tile_choose family, tsr_tiling *tiling) {
    MlirBlock block;
    TRY(group->ctx, tsr_tile_group_open(group, &block));
    group->b.at.block = block;
    tsr_result result = tsr_tile_open_begin(group);
    if (!result.code) result = family(group, tiling);
    mlirBlockDestroy(block);
    return result;
}

/* Refuses sizes at the op that gives them: the choice, or the group itself. */
static tsr_result refuse(const plan *p, const tsr_tile_group *group, const tsr_choice *choice,
                         const char *why) {
    MlirOperation op = choice ? choice->op : group->op;
    tsr_op_emit_error(op, TSR_DIAG_SCHEDULE, "@%s for %s: %s", group->name, p->target->name, why);
    FAIL(p->ctx, TSR_COMPILE, "the schedule cannot be used");
}

/* Reads the sizes that the schedule gives a kernel: a choice for it, or those that a plan gave its
 * group. */
static tsr_result read_given(const plan *p, tsr_tile_group *group, const tsr_choice *choice,
                             const tsr_tiling *tiling) {
    size_t count = 0;
    if (choice) return tsr_choice_sizes(p->ctx, p->choices, choice, tiling->kind, group->given);
    if (!tsr_op_has(group->op, TSR_TILE_NAME)) return TSR_SUCCESS;
    if (!tsr_op_i64s(group->op, TSR_TILE_NAME, TSR_TILE_SIZES_MAX, group->given, &count) ||
        count > tsr_tiling_count(tiling->kind))
        return refuse(p, group, NULL, "its tile has more sizes than a kernel of its kind");
    return TSR_SUCCESS;
}

static tsr_tiling_source source_of(const tsr_tile_group *group, const tsr_choice *choice) {
    return choice ? tsr_choice_source(choice) : tsr_tiling_source_of(group->op);
}

static bool has_given(const tsr_tile_group *group) {
    for (size_t i = 0; i < TSR_TILE_SIZES_MAX; i++)
        if (group->given[i]) return true;
    return false;
}

/* Replaces the family's own choice by the sizes that the schedule gives. */
static tsr_result obey(const plan *p, tsr_tile_group *group, tsr_tile_choose family,
                       tsr_choice *choice, tsr_tiling *tiling) {
    tsr_tiling given = {.kind = tiling->kind};
    TRY(p->ctx, read_given(p, group, choice, &given));
    if (choice) choice->is_used = true;
    mlirOperationRemoveAttributeByName(group->op, tsr_ref(TSR_TILE_NAME));
    if (!has_given(group)) return TSR_SUCCESS;
    given.kind = TSR_TILING_NONE;
    TRY(p->ctx, choose(group, family, &given));
    if (group->refusal[0]) return refuse(p, group, choice, group->refusal);
    tsr_tiling_choose(tiling, given.sizes, source_of(group, choice));
    return TSR_SUCCESS;
}

/* Takes the sizes that were measured for the signature. Sizes that the kernel cannot have are
 * refused: they come from another compiler, or from an edited file. */
static tsr_result obey_measured(const plan *p, tsr_tile_group *group, tsr_tile_choose family,
                                tsr_tiling *tiling) {
    const tsr_measured *m =
        tsr_choices_find_measured(p->choices, p->target->name, tiling->signature);
    tsr_tiling given = {.kind = TSR_TILING_NONE};
    if (!m) return TSR_SUCCESS;
    if (m->count != tsr_tiling_count(tiling->kind))
        tsr_tile_refuse(group, "%zu sizes were stored; expected %zu for a kernel of kind '%s'",
                        m->count, tsr_tiling_count(tiling->kind), tsr_tiling_name(tiling->kind));
    memcpy(group->given, m->sizes, sizeof m->sizes);
    if (!group->refusal[0]) TRY(p->ctx, choose(group, family, &given));
    if (group->refusal[0]) return refuse(p, group, NULL, group->refusal);
    tsr_tiling_choose(tiling, given.sizes, TSR_TILING_AUTOTUNE);
    tiling->safe_ns = m->safe_ns;
    tiling->measured_ns = m->measured_ns;
    return TSR_SUCCESS;
}

static tsr_result plan_tiling(plan *p, tsr_tile_group *group, tsr_tile_choose family,
                              tsr_choice *choice, tsr_tiling *tiling) {
    tsr_buffer signature = {0};
    bool is_given = choice || tsr_op_has(group->op, TSR_TILE_NAME);
    tsr_signature_append(group->op, &signature);
    tiling->signature = signature.bytes;
    tsr_result result = TSR_SUCCESS;
    if (signature.failed)
        result = tsr_fail_(p->ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for a signature");
    else if (is_given)
        result = obey(p, group, family, choice, tiling);
    else if (p->choices)
        result = obey_measured(p, group, family, tiling);
    if (!result.code) tsr_tiling_write(tiling, group->op);
    tsr_buffer_finish(&signature);
    return result;
}

static tsr_result plan_group(plan *p, MlirOperation func) {
    tsr_tile_group group = tsr_tile_group_make(p->ctx, &p->arena, p->target, p->native, func);
    tsr_tiling tiling = {.kind = TSR_TILING_NONE};
    TRY(p->ctx, tsr_tile_group_read(&group));
    tsr_tile_choose family = family_of(&group);
    tsr_choice *choice =
        p->choices ? tsr_choices_find(p->choices, group.name, p->target->name) : NULL;
    bool is_given = choice || tsr_op_has(func, TSR_TILE_NAME);
    if (family) TRY(p->ctx, choose(&group, family, &tiling));
    if (tiling.kind == TSR_TILING_NONE)
        return is_given ? refuse(p, &group, choice, "it has no sizes that a schedule can choose")
                        : TSR_SUCCESS;
    return plan_tiling(p, &group, family, choice, &tiling);
}

/* Sizes that the module itself contains are among the choices. */
static void remove_tilings(MlirModule module) {
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_SCHED_TILE)) mlirOperationDestroy(op);
    }
}

static tsr_result plan_module(plan *p) {
    remove_tilings(p->module);
    TRY(p->ctx, run_passes(p));
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(p->module)) {
        if (tsr_op_is(op, TSR_SCHED_FUNC)) TRY(p->ctx, plan_group(p, op));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_tile_plan(tsr_ctx *ctx, MlirModule schedule_module, const tsr_target *target,
                         const tsr_choices *choices, MlirModule *out_planned) {
    MlirOperation op = mlirOperationClone(mlirModuleGetOperation(schedule_module));
    plan p = {.ctx = ctx,
              .target = target,
              .choices = choices,
              .module = mlirModuleFromOperation(op),
              .native = is_native(schedule_module)};
    tsr_op_set(op, TSR_TARGET_NAME,
               tsr_attr_make_string(mlirOperationGetContext(op), target->name));
    tsr_result result = plan_module(&p);
    if (!result.code)
        *out_planned = p.module;
    else
        mlirModuleDestroy(p.module);
    tsr_arena_finish(&p.arena);
    return result;
}
