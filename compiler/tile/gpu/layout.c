/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/gpu/layout.h"

#include "compiler/graph/graph.h"
#include "compiler/schedule/schedule.h"
#include "runtime/base/array.h"

#include <string.h>

enum { ATTRIBUTES_MAX = 16 };

static int64_t swapped(size_t d, size_t dim) {
    return (int64_t)(d == dim ? dim + 1 : d == dim + 1 ? dim : d);
}

bool tsr_gpu_is_transpose(MlirOperation op, size_t dim) {
    int64_t permutation[TSR_RANK_MAX];
    size_t count = 0;
    if (!tsr_op_is(op, TSR_GRAPH_TRANSPOSE) ||
        !tsr_op_i64s(op, "permutation", TSR_RANK_MAX, permutation, &count) || count < dim + 2)
        return false;
    for (size_t d = 0; d < count; d++)
        if (permutation[d] != swapped(d, dim)) return false;
    return true;
}

static tsr_type read_type(MlirType type) {
    tsr_type read = {0};
    bool known = tsr_type_read(type, &read);
    TSR_ASSERT(known);
    return read;
}

MlirType tsr_gpu_transposed_type(MlirType type, size_t dim) {
    tsr_type from = read_type(type), to = from;
    for (size_t d = 0; d < from.shape.rank; d++)
        to.shape.dims[d] = from.shape.dims[swapped(d, dim)];
    return tsr_type_make(mlirTypeGetContext(type), &to);
}

MlirValue tsr_gpu_build_transpose(tsr_builder *b, MlirValue value, size_t dim) {
    int64_t permutation[TSR_RANK_MAX];
    MlirType type = mlirValueGetType(value);
    size_t rank = (size_t)mlirShapedTypeGetRank(type);
    for (size_t d = 0; d < rank; d++) permutation[d] = swapped(d, dim);
    const tsr_attr attrs[] = {{"permutation", tsr_attr_make_i64s(b->context, rank, permutation)},
                              {0}};
    return tsr_build_value(b, "tessera.transpose", &value, 1, tsr_gpu_transposed_type(type, dim),
                           attrs);
}

/* Returns NULL if memory runs out. */
static const char *free_name(MlirModule module, tsr_arena *arena, const char *group,
                             const char *suffix) {
    const char *name = tsr_arena_printf(arena, "%s_%s", group, suffix);
    for (unsigned i = 2; name && !mlirOperationIsNull(tsr_module_find(module, name)); i++)
        name = tsr_arena_printf(arena, "%s_%s_%u", group, suffix, i);
    return name;
}

/* Builds the op of a group of one argument. */
typedef MlirValue (*move)(tsr_builder *b, MlirValue value, size_t dim);

static MlirValue build_copy(tsr_builder *b, MlirValue value, size_t dim) {
    (void)dim;
    return tsr_build_value(b, "tessera.cast", &value, 1, mlirValueGetType(value), NULL);
}

static MlirOperation build_group(tsr_builder *at, const char *name, MlirType type, move build,
                                 size_t dim) {
    MlirBlock block = mlirBlockCreate(1, &type, &at->location);
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    tsr_builder inside = tsr_builder_at_end(block, at->location);
    MlirValue moved = build(&inside, mlirBlockGetArgument(block, 0), dim);
    MlirType result = mlirValueGetType(moved);
    tsr_build(&inside,
              &(tsr_op_desc){.name = "tsched.return", .operand_count = 1, .operands = &moved});
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
                                        .attr_count = TSR_COUNT(attrs),
                                        .attrs = attrs,
                                        .region_count = 1,
                                        .regions = &region});
}

static bool copies(MlirOperation op, size_t dim) {
    (void)dim;
    return tsr_op_is(op, TSR_GRAPH_CAST) && mlirTypeEqual(mlirValueGetType(tsr_op_operand(op, 0)),
                                                          mlirValueGetType(tsr_op_result(op, 0)));
}

/* Finds a group of one op that satisfies `is` and takes this type; else returns null. */
static MlirOperation find_group(MlirModule module, MlirType type, bool (*is)(MlirOperation, size_t),
                                size_t dim) {
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        if (!tsr_op_is(func, TSR_SCHED_FUNC) || tsr_op_has(func, TSR_HOISTED_NAME)) continue;
        MlirOperation op = mlirBlockGetFirstOperation(tsr_op_body(func));
        if (is(op, dim) && mlirTypeEqual(mlirValueGetType(tsr_op_operand(op, 0)), type) &&
            tsr_op_is(mlirOperationGetNextInBlock(op), TSR_SCHED_RETURN))
            return func;
    }
    return (MlirOperation){NULL};
}

MlirOperation tsr_gpu_find_transposing(tsr_builder *at, MlirModule module, tsr_arena *arena,
                                       const char *group, const char *suffix, MlirType type,
                                       size_t dim) {
    MlirOperation found = find_group(module, type, tsr_gpu_is_transpose, dim);
    if (!mlirOperationIsNull(found)) return found;
    const char *name = free_name(module, arena, group, suffix);
    return name ? build_group(at, name, type, tsr_gpu_build_transpose, dim) : found;
}

MlirOperation tsr_gpu_find_copying(tsr_builder *at, MlirModule module, tsr_arena *arena,
                                   const char *group, const char *suffix, MlirType type) {
    MlirOperation found = find_group(module, type, copies, 0);
    if (!mlirOperationIsNull(found)) return found;
    const char *name = free_name(module, arena, group, suffix);
    return name ? build_group(at, name, type, build_copy, 0) : found;
}

MlirValue tsr_gpu_call_before(MlirOperation group, MlirOperation call, MlirValue value) {
    const char *callee = tsr_op_symbol(group);
    MlirContext context = mlirOperationGetContext(call);
    TSR_FOR_EACH_OP(op, mlirOperationGetBlock(call)) {
        if (mlirOperationEqual(op, call)) break;
        if (tsr_op_is(op, TSR_SCHED_CALL) && strcmp(tsr_op_string(op, "callee"), callee) == 0 &&
            mlirValueEqual(tsr_op_operand(op, 0), value))
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
    MlirOperation end = mlirBlockGetTerminator(tsr_op_body(group));
    return tsr_build_value(&at, "tsched.call", &value, 1, mlirValueGetType(tsr_op_operand(end, 0)),
                           attrs);
}
