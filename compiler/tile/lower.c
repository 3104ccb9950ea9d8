/* SPDX-License-Identifier: Apache-2.0
 *
 * Each tsched.func becomes a tile.func: this file creates the function, and the kernel family adds
 * its body.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/resilience_ops.h"
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/gpu/attention.h"
#include "compiler/tile/gpu/attention_grad.h"
#include "compiler/tile/gpu/heads.h"
#include "compiler/tile/gpu/product.h"
#include "compiler/tile/gpu/transpose.h"
#include "compiler/tile/kernels/scatter.h"
#include "compiler/tile/open.h"
#include "compiler/tile/plan.h"
#include "compiler/tile/products/gemm.h"
#include "compiler/tile/reductions/reduce_parts.h"
#include "compiler/tile/region.h"
#include "compiler/tile/rows/rows.h"
#include "compiler/tile/segments/segments.h"
#include "compiler/tile/tile.h"

#include <mlir-c/Pass.h>
#include <mlir-c/Transforms.h>

#include <string.h>

typedef struct family {
    tsr_result (*lower)(tsr_tile_group *group);
    tsr_carries carries;
    bool is_open;                                      /* rows of an open dim: open.h */
    tsr_result (*with_extents)(tsr_tile_group *group); /* NULL: there is no such kernel */
} family;

/* By the group's op that is not elementwise; TSR_OP_NONE: the group has only elementwise ops. */
static const family families[TSR_OP_COUNT] = {
    [TSR_OP_NONE] = {tsr_tile_lower_map, TSR_CARRIES_VIEWS, true, tsr_open_lower_map},
#define OPEN true
#define FIXED false
#define X(ID, lower, carries, open, with_extents)                                                  \
    [TSR_##ID] = {lower, TSR_CARRIES_##carries, open, with_extents},
#include "compiler/tile/families.def"
#undef X
#undef OPEN
#undef FIXED
};

static const family *find_family(MlirOperation root) {
    const family *found = &families[tsr_op_of(root)];
    return found->lower ? found : NULL;
}

/* Several reductions: the family does not follow from a single op. */
static bool is_rows(const tsr_tile_group *group) {
    const char *kind = tsr_op_string(group->op, "kind");
    return kind && strcmp(kind, "rows") == 0;
}

/* The group may contain ops that move its heads: gpu/heads.h. */
static bool is_attention(const tsr_tile_group *group) {
    TSR_FOR_EACH_OP(op, group->body) {
        if (tsr_op_is(op, TSR_GRAPH_ATTENTION) || tsr_op_is(op, TSR_GRAPH_ATTENTION_GRAD))
            return true;
    }
    return false;
}

static bool is_batch(const tsr_tile_group *group) {
    const char *kind = tsr_op_string(group->op, "kind");
    return kind && strcmp(kind, "batch") == 0;
}

tsr_carries tsr_tile_group_carries(const tsr_tile_group *group) {
    const family *found = find_family(group->root);
    if (is_batch(group) || !found) return TSR_CARRIES_NONE;
    if (is_rows(group))
        return tsr_rows_are_columns(group->body) ? TSR_CARRIES_NONE : TSR_CARRIES_ROWS;
    return found->carries;
}

tsr_tile_group tsr_tile_group_make(tsr_ctx *ctx, tsr_arena *arena, const tsr_target *target,
                                   bool native, MlirOperation func) {
    tsr_tile_group group = {.ctx = ctx,
                            .arena = arena,
                            .name = tsr_op_symbol(func),
                            .op = func,
                            .body = tsr_op_body(func),
                            .is_native = native && tsr_target_has_matrix_units(target),
                            .multiplies = native && tsr_target_has_matrix_products(target),
                            .has_dot = native && target->has_dot};
    group.b.target = target;
    group.b.at.context = mlirOperationGetContext(func);
    group.b.at.location = mlirOperationGetLocation(func);
    return group;
}

static bool has_pitches(const tsr_tile_group *group) {
    for (uint32_t i = 0; i < group->input_count + group->output_count; i++)
        if (group->pitches[i]) return true;
    return false;
}

static tsr_result read_pitches(tsr_tile_group *group) {
    size_t count = group->input_count + group->output_count, given = count;
    if (tsr_op_has(group->op, TSR_PITCHES_NAME) &&
        (!tsr_op_i64s(group->op, TSR_PITCHES_NAME, count, group->pitches, &given) ||
         given != count))
        FAIL(group->ctx, TSR_INTERNAL, "'%s' has %zu pitches; expected %zu", group->name, given,
             count);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_group_read(tsr_tile_group *group) {
    tsr_ctx *ctx = group->ctx;
    MlirOperation end = mlirBlockGetTerminator(group->body);
    group->input_count = (uint32_t)mlirBlockGetNumArguments(group->body);
    group->output_count = (uint32_t)tsr_op_operand_count(end);
    uint32_t count = group->input_count + group->output_count;
    MlirValue *values = TSR_NEW(group->arena, MlirValue, count + 1);
    group->buffers = TSR_NEW(group->arena, MlirValue, count + 1);
    group->types = TSR_NEW(group->arena, tsr_type, count + 1);
    group->pitches = TSR_NEW(group->arena, int64_t, count + 1);
    if (!values || !group->buffers || !group->types || !group->pitches)
        FAIL(ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    TRY(ctx, read_pitches(group));
    for (uint32_t i = 0; i < count; i++) {
        values[i] = i < group->input_count ? mlirBlockGetArgument(group->body, (intptr_t)i)
                                           : tsr_op_operand(end, i - group->input_count);
        if (!tsr_value_type(values[i], &group->types[i]) || !tsr_type_is_static(&group->types[i]))
            FAIL(ctx, TSR_INTERNAL, "'%s': argument %u has no static shape", group->name, i);
    }
    group->returned = values + group->input_count;
    group->root = (MlirOperation){NULL};
    TSR_FOR_EACH_OP(op, group->body) {
        if (tsr_element_is(op) || tsr_op_is(op, TSR_GRAPH_CONSTANT) ||
            tsr_op_is(op, TSR_GRAPH_IOTA) || tsr_op_is(op, TSR_SCHED_UNPACK) ||
            tsr_op_is(op, TSR_SCHED_RETURN) || (tsr_gpu_is_move(op) && is_attention(group)))
            continue;
        if (!mlirOperationIsNull(group->root) && !is_rows(group))
            FAIL(ctx, TSR_INTERNAL, "'%s' holds both %s and %s", group->name,
                 tsr_op_name(group->root), tsr_op_name(op));
        group->root = op;
    }
    if (!group->output_count) FAIL(ctx, TSR_INTERNAL, "'%s' has no result", group->name);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_group_open(tsr_tile_group *group, MlirBlock *out_block) {
    uint32_t count = group->input_count + group->output_count;
    MlirType *types = TSR_NEW(group->arena, MlirType, count);
    MlirLocation *locations = TSR_NEW(group->arena, MlirLocation, count);
    if (!types || !locations) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    for (uint32_t i = 0; i < count; i++) {
        int64_t dims[TSR_RANK_MAX];
        const tsr_type *type = &group->types[i];
        for (uint32_t d = 0; d < type->shape.rank; d++) dims[d] = (int64_t)type->shape.dims[d];
        types[i] = tsr_buffer_make(tsr_tile_storage_type(&group->b, type->dtype), type->shape.rank,
                                   dims, group->pitches[i]);
        locations[i] = group->b.at.location;
    }
    MlirBlock block = mlirBlockCreate((intptr_t)count, types, locations);
    for (uint32_t i = 0; i < count; i++)
        group->buffers[i] = mlirBlockGetArgument(block, (intptr_t)i);
    *out_block = block;
    return TSR_SUCCESS;
}

/* True if the operand is the argument, or the argument widened. */
static bool is_read(MlirValue operand, MlirValue argument) {
    MlirOperation cast = tsr_value_owner(operand);
    if (mlirValueEqual(operand, argument)) return true;
    return tsr_op_is(cast, TSR_GRAPH_CAST) && mlirValueEqual(tsr_op_operand(cast, 0), argument);
}

bool tsr_tile_op_is_open(MlirOperation root) {
    const family *found = find_family(root);
    return found && found->is_open;
}

bool tsr_tile_op_takes_extents(MlirOperation root) {
    const family *found = find_family(root);
    return found && found->with_extents;
}

/* True if only elementwise ops read the argument, so that an output of its type may share its
 * memory. */
static bool is_replaceable(const tsr_tile_group *group, MlirValue argument) {
    bool is_dim = group->open_high &&
                  mlirBlockArgumentGetArgNumber(argument) + 1 == (intptr_t)group->input_count;
    if (is_dim) return false;
    TSR_FOR_EACH_OP(op, group->body) {
        const tsr_op_row *row = tsr_op_row_find(op);
        if (!row || row->op_class == TSR_CLASS_MAP || row->op_class == TSR_CLASS_CONSTANT) continue;
        for (size_t i = 0; i < tsr_op_operand_count(op); i++)
            if (is_read(tsr_op_operand(op, i), argument)) return false;
    }
    return true;
}

/* The bytes of all arguments, each counted once; 0 if they exceed 64 bits. */
static int64_t count_bytes(const tsr_tile_group *group) {
    uint64_t sum = 0, size = 0;
    for (uint32_t i = 0; i < group->input_count + group->output_count; i++) {
        if (i + 1 == group->over) continue; /* same memory as the output */
        if (!tsr_shape_size(&group->types[i].shape, group->types[i].dtype, &size) ||
            __builtin_add_overflow(sum, size, &sum))
            return 0;
    }
    return sum <= INT64_MAX ? (int64_t)sum : 0;
}

/* Writes the attributes of the kernel that memory planning needs. The list ends with an attribute
 * without a name. */
static tsr_result write_facts(const tsr_tile_group *group, tsr_attr *attrs) {
    MlirContext context = group->b.at.context;
    const char *kind = tsr_op_string(group->op, "kind");
    int64_t *inputs = TSR_NEW(group->arena, int64_t, group->input_count + 1);
    size_t count = 0, at = 0;
    bool faults = false;
    if (!inputs) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    bool in_place = kind && !tsr_op_has(group->op, TSR_HOISTED_NAME) &&
                    (strcmp(kind, "map") == 0 || strcmp(kind, "matmul") == 0 || is_batch(group));
    if (group->over) inputs[count++] = (int64_t)group->over - 1;
    for (uint32_t i = 0; i < group->input_count && in_place && !group->over; i++)
        if (is_replaceable(group, mlirBlockGetArgument(group->body, (intptr_t)i)))
            inputs[count++] = i;
    TSR_FOR_EACH_OP(op, group->body) {
        const tsr_op_row *row = tsr_op_row_find(op);
        faults |= row && row->faults && !tsr_op_has(op, TSR_CHECKED_NAME);
    }
    attrs[at++] = (tsr_attr){"outputs", tsr_attr_make_i64(context, group->output_count)};
    if (count) attrs[at++] = (tsr_attr){"in_place", tsr_attr_make_i64s(context, count, inputs)};
    if (faults) attrs[at++] = (tsr_attr){"faults", tsr_attr_make_unit(context)};
    if (tsr_op_has(group->op, "flops") && !group->is_aside)
        attrs[at++] = (tsr_attr){"flops", tsr_op_attr(group->op, "flops")};
    if (group->is_aside)
        attrs[at++] = (tsr_attr){"bytes", tsr_attr_make_i64(context, count_bytes(group))};
    else if (tsr_op_has(group->op, "bytes"))
        attrs[at++] = (tsr_attr){"bytes", tsr_op_attr(group->op, "bytes")};
    if (is_batch(group))
        attrs[at++] = (tsr_attr){TSR_SEGMENTS_NAME, tsr_op_attr(group->op, TSR_SEGMENTS_NAME)};
    if ((kind && strcmp(kind, "pack") == 0) || tsr_op_has(group->op, TSR_HOISTED_NAME))
        attrs[at++] = (tsr_attr){"prepacks", tsr_attr_make_unit(context)};
    attrs[at] = (tsr_attr){0};
    return TSR_SUCCESS;
}

/* Matrix units compute products and attention if the bundle's numerics allow it. */
static tsr_result lower_body(tsr_tile_group *group, const family *found) {
    bool taken = false;
    if (group->has_extents) return found->with_extents(group);
    if (is_rows(group)) return tsr_tile_lower_rows(group);
    if (is_batch(group)) return tsr_tile_lower_batch(group);
    if (group->multiplies && found->lower == tsr_tile_lower_matmul)
        TRY(group->ctx, tsr_tile_lower_product(group, &taken));
    if (group->is_native && found->lower == tsr_tile_lower_transpose)
        tsr_tile_lower_shared_transpose(group, &taken);
    if (group->is_native && found->lower == tsr_tile_lower_attention)
        TRY(group->ctx, tsr_tile_lower_attend(group, &taken));
    if (!taken && found->carries >= TSR_CARRIES_PRODUCT && has_pitches(group))
        FAIL(group->ctx, TSR_INTERNAL, "'%s' has pitches, but no kernel that takes them",
             group->name);
    return taken ? TSR_SUCCESS : found->lower(group);
}

/* Writes the kernel before its group. The tile.func then owns the block. */
static tsr_result write_func(tsr_tile_group *group, MlirBlock block) {
    tsr_build(&group->b.at, &(tsr_op_desc){.name = "tile.return"});
    MlirRegion body = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(body, block);
    MlirContext context = group->b.at.context;
    tsr_attr attrs[21] = {{"sym_name", tsr_attr_make_string(context, group->name)},
                          {"grid", tsr_attr_make_i64(context, group->grid)}};
    size_t count = 2;
    if (group->tile_count)
        attrs[count++] =
            (tsr_attr){TSR_TILE_NAME, tsr_attr_make_i64s(context, group->tile_count, group->tile)};
    if (group->warps)
        attrs[count++] = (tsr_attr){"warps", tsr_attr_make_i64(context, group->warps)};
    if (group->registers)
        attrs[count++] = (tsr_attr){"registers", tsr_attr_make_i64(context, group->registers)};
    if (group->teams > 1)
        attrs[count++] = (tsr_attr){TSR_TEAMS_NAME, tsr_attr_make_i64(context, group->teams)};
    if (group->has_choices)
        attrs[count++] = (tsr_attr){TSR_CHOICES_NAME, tsr_attr_make_unit(context)};
    if (group->block_programs > 1)
        attrs[count++] =
            (tsr_attr){TSR_BLOCK_PROGRAMS_NAME, tsr_attr_make_i64(context, group->block_programs)};
    if (group->contracts)
        attrs[count++] = (tsr_attr){TSR_CONTRACT_NAME, tsr_attr_make_unit(context)};
    if (group->cooperative > 1)
        attrs[count++] =
            (tsr_attr){TSR_COOPERATIVE_NAME, tsr_attr_make_i64(context, group->cooperative)};
    if (group->open_high)
        attrs[count++] =
            (tsr_attr){TSR_OPEN_GRID_NAME, tsr_attr_make_i64s(context, 3, group->open_grid)};
    if (group->together > 1)
        attrs[count++] = (tsr_attr){TSR_TOGETHER_NAME, tsr_attr_make_i64(context, group->together)};
    tsr_result result = write_facts(group, attrs + count);
    if (result.code) {
        mlirRegionDestroy(body);
        return result;
    }
    while (attrs[count].name) count++;
    tsr_builder at = tsr_builder_before(group->op);
    tsr_build(&at, &(tsr_op_desc){.name = "tile.func",
                                  .attr_count = count,
                                  .attrs = attrs,
                                  .region_count = 1,
                                  .regions = &body});
    return TSR_SUCCESS;
}

/* Lowers one kernel: a family's, or a step's. */
static tsr_result lower_kernel(tsr_tile_group *group, const family *found,
                               const tsr_tile_step *step, const void *plan) {
    MlirBlock block;
    TRY(group->ctx, tsr_tile_group_open(group, &block));
    group->b.at.block = block;
    group->grid = 1;
    tsr_result result = tsr_tile_open_begin(group);
    if (!result.code) result = step ? step->lower(group, plan) : lower_body(group, found);
    if (result.code) {
        mlirBlockDestroy(block);
        return tsr_trace_(group->ctx, result, __FILE__, __LINE__);
    }
    return write_func(group, block);
}

static tsr_result lower_steps(tsr_tile_group *group, const tsr_tile_sequence *sequence) {
    for (uint32_t i = 0; i < sequence->step_count; i++) {
        const tsr_tile_step *of = &sequence->steps[i];
        tsr_tile_group step;
        TRY(group->ctx, tsr_tile_step_group(group, sequence, i, &step));
        TRY(group->ctx, lower_kernel(&step, NULL, of, of->plan ? of->plan : sequence->plan));
    }
    return tsr_tile_call_sequence(group, sequence, mlirOperationGetBlock(group->op));
}

static tsr_result lower_group(tsr_tile_group *group) {
    tsr_ctx *ctx = group->ctx;
    tsr_tile_sequence sequence = {0};
    bool is_sequence = false;
    TRY(ctx, tsr_tile_group_read(group));
    const family *found = find_family(group->root);
    if (!found)
        FAIL(ctx, TSR_INTERNAL, "'%s': there is no kernel for %s", group->name,
             tsr_op_name(group->root));
    if (has_pitches(group) && tsr_tile_group_carries(group) == TSR_CARRIES_NONE)
        FAIL(ctx, TSR_INTERNAL, "'%s': a kernel for %s takes no pitches", group->name,
             mlirOperationIsNull(group->root) ? "segments" : tsr_op_name(group->root));
    if (found->lower == tsr_tile_lower_attention_grad) {
        if (group->is_native) TRY(ctx, tsr_tile_plan_attend_grad(group, &sequence, &is_sequence));
        if (!is_sequence) tsr_tile_plan_wide_grad(group, &sequence, &is_sequence);
    }
    bool is_open = tsr_op_has(group->op, TSR_OPEN_HIGH_NAME); /* one kernel */
    if (is_open) return lower_kernel(group, found, NULL, NULL);
    if (found->lower == tsr_tile_lower_reduce && !is_rows(group))
        TRY(ctx, tsr_tile_plan_reduce(group, &sequence, &is_sequence));
    if (found->lower == tsr_tile_lower_scatter)
        TRY(ctx, tsr_tile_plan_scatter(group, &sequence, &is_sequence));
    if (is_rows(group)) TRY(ctx, tsr_tile_plan_rows(group, &sequence, &is_sequence));
    return is_sequence ? lower_steps(group, &sequence) : lower_kernel(group, found, NULL, NULL);
}

/* The sizes that the schedule chose for the kernel of the group after this op. */
static void read_given(tsr_tile_group *group, MlirOperation tiling) {
    const char *kernel = mlirOperationIsNull(tiling) ? NULL : tsr_tiling_kernel(tiling);
    size_t count = 0;
    if (!kernel || strcmp(kernel, group->name) != 0) return;
    if (tsr_tiling_read(tiling, group->given, &count)) group->planned = tsr_tiling_kind_of(tiling);
}

static tsr_result lower_groups(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                               tsr_arena *arena) {
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    bool native = numerics && strcmp(numerics, "native") == 0;
    MlirOperation tiling = {NULL};
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_SCHED_TILE)) tiling = op;
        if (!tsr_op_is(op, TSR_SCHED_FUNC)) continue;
        tsr_tile_group group = tsr_tile_group_make(ctx, arena, target, native, op);
        read_given(&group, tiling);
        TRY(ctx, lower_group(&group));
        mlirOperationDestroy(op);
    }
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_SCHED_TILE)) mlirOperationDestroy(op);
    }
    return TSR_SUCCESS;
}

/* The families repeat constants and offsets; this pass removes the duplicates. */
static bool share_values(MlirModule module) {
    MlirOperation op = mlirModuleGetOperation(module);
    MlirPassManager passes = mlirPassManagerCreate(mlirOperationGetContext(op));
    mlirOpPassManagerAddOwnedPass(mlirPassManagerGetNestedUnder(passes, tsr_ref("tile.func")),
                                  mlirCreateTransformsCSE());
    bool done = mlirLogicalResultIsSuccess(mlirPassManagerRunOnOp(passes, op));
    mlirPassManagerDestroy(passes);
    return done;
}

tsr_result tsr_tile_lower_planned(tsr_ctx *ctx, MlirModule planned, const tsr_target *target,
                                  MlirModule *out_tile_module) {
    tsr_arena arena = {0};
    MlirModule module =
        mlirModuleFromOperation(mlirOperationClone(mlirModuleGetOperation(planned)));
    tsr_result result = lower_groups(ctx, target, module, &arena);
    if (!result.code &&
        (!mlirOperationVerify(mlirModuleGetOperation(module)) || !share_values(module)))
        result = tsr_fail_(ctx, TSR_INTERNAL, 0, __FILE__, __LINE__,
                           "Tile IR for '%s' does not verify", target->name);
    if (!result.code)
        *out_tile_module = module;
    else
        mlirModuleDestroy(module);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_tile_lower(tsr_ctx *ctx, MlirModule schedule_module, const tsr_target *target,
                          MlirModule *out_tile_module) {
    MlirModule planned;
    TRY(ctx, tsr_tile_plan(ctx, schedule_module, target, NULL, &planned));
    tsr_result result = tsr_tile_lower_planned(ctx, planned, target, out_tile_module);
    mlirModuleDestroy(planned);
    return result;
}
