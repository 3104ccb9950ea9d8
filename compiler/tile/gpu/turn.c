/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/gpu/turn.h"

#include "compiler/graph/graph.h"
#include "compiler/schedule/schedule.h"

static int64_t place_of(size_t d, size_t dim) {
    return (int64_t)(d == dim ? dim + 1 : d == dim + 1 ? dim : d);
}

bool tsr_gpu_turns(MlirOperation op, size_t dim) {
    int64_t permutation[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_op_is(op, "tessera.transpose") ||
        !tsr_op_i64s(op, "permutation", TSR_RANK_MAX, permutation, &count) || count < dim + 2)
        return false;
    for (size_t d = 0; d < count; d++)
        if (permutation[d] != place_of(d, dim)) return false;
    return true;
}

static tsr_type read_type(MlirType type) {
    tsr_type read = {0};
    bool known = tsr_type_read(type, &read);
    TSR_ASSERT(known);
    return read;
}

MlirType tsr_gpu_turned_type(MlirType type, size_t dim) {
    tsr_type from = read_type(type), to = from;
    for (size_t d = 0; d < from.shape.rank; d++)
        to.shape.dims[d] = from.shape.dims[place_of(d, dim)];
    return tsr_type_make(mlirTypeGetContext(type), &to);
}

MlirValue tsr_gpu_build_turn(tsr_builder *b, MlirValue value, size_t dim) {
    int64_t permutation[TSR_RANK_MAX];
    MlirType type = mlirValueGetType(value);
    size_t rank = (size_t)mlirShapedTypeGetRank(type);
    for (size_t d = 0; d < rank; d++) permutation[d] = place_of(d, dim);
    const tsr_attr attrs[] = {{"permutation", tsr_attr_make_i64s(b->context, rank, permutation)},
                              {0}};
    return tsr_build_value(b, "tessera.transpose", &value, 1, tsr_gpu_turned_type(type, dim),
                           attrs);
}

/* NULL: no memory. */
static const char *free_name(MlirModule module, tsr_arena *arena, const char *group,
                             const char *suffix) {
    const char *name = tsr_arena_printf(arena, "%s_%s", group, suffix);
    for (unsigned i = 2; name && !mlirOperationIsNull(tsr_module_find(module, name)); i++)
        name = tsr_arena_printf(arena, "%s_%s_%u", group, suffix, i);
    return name;
}

static MlirOperation build_turning(tsr_builder *at, const char *name, MlirType type, size_t dim) {
    MlirBlock block = mlirBlockCreate(1, &type, &at->location);
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    tsr_builder inside = tsr_builder_at_end(block, at->location);
    MlirValue turned = tsr_gpu_build_turn(&inside, mlirBlockGetArgument(block, 0), dim);
    MlirType result = mlirValueGetType(turned);
    tsr_build(&inside,
              &(tsr_op_desc){.name = "tsched.return", .operand_count = 1, .operands = &turned});
    tsr_type read = read_type(type);
    uint64_t size = 0;
    bool fits = tsr_shape_size(&read.shape, read.dtype, &size);
    TSR_ASSERT(fits);
    const tsr_attr attrs[] = {{"sym_name", tsr_attr_make_string(at->context, name)},
                              {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(
                                                    at->context, 1, &type, 1, &result))},
                              {"kind", tsr_attr_make_string(at->context, "map")},
                              {"source", tsr_attr_make_string(at->context, "default")},
                              {"flops", tsr_attr_make_i64(at->context, 0)},
                              {"bytes", tsr_attr_make_i64(at->context, (int64_t)(2 * size))}};
    return tsr_build(at, &(tsr_op_desc){.name = "tsched.func",
                                        .attr_count = sizeof attrs / sizeof attrs[0],
                                        .attrs = attrs,
                                        .region_count = 1,
                                        .regions = &region});
}

MlirOperation tsr_gpu_find_turning(tsr_builder *at, MlirModule module, tsr_arena *arena,
                                   const char *group, const char *suffix, MlirType type,
                                   size_t dim) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, "tsched.func") || tsr_op_has(func, TSR_KEPT_NAME)) continue;
        MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(func));
        if (tsr_gpu_turns(op, dim) &&
            mlirTypeEqual(mlirValueGetType(tsr_op_operand(op, 0)), type) &&
            tsr_op_is(mlirOperationGetNextInBlock(op), "tsched.return"))
            return func;
    }
    const char *name = free_name(module, arena, group, suffix);
    return name ? build_turning(at, name, type, dim) : (MlirOperation){NULL};
}
