/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/gpu/heads.h"

#include "compiler/tile/attributes.h"
#include "compiler/tile/gpu/layout.h"
#include "compiler/tile/gpu/ring.h"

enum { UNIT = TSR_HEADS_UNIT, HEAD_DIMS = 4 };

bool tsr_gpu_is_move(MlirOperation op) {
    return !mlirOperationIsNull(op) &&
           (tsr_op_is(op, TSR_GRAPH_SLICE) || tsr_op_is(op, TSR_GRAPH_RESHAPE) ||
            tsr_op_is(op, TSR_GRAPH_TRANSPOSE) || tsr_op_is(op, TSR_GRAPH_CONCAT));
}

bool tsr_gpu_is_heads_transpose(MlirOperation op) {
    return !mlirOperationIsNull(op) && tsr_gpu_is_transpose(op, TSR_GPU_HEADS_DIM) &&
           mlirShapedTypeGetRank(mlirValueGetType(tsr_op_result(op, 0))) == HEAD_DIMS;
}

bool tsr_gpu_slice_columns(MlirOperation slice, int64_t *out_first) {
    int64_t start[TSR_RANK_MAX], step[TSR_RANK_MAX];
    size_t count = 0, steps = 0;
    tsr_type from, to;
    if (!tsr_op_is(slice, TSR_GRAPH_SLICE) ||
        !tsr_op_i64s(slice, "start", TSR_RANK_MAX, start, &count) || count != 3 ||
        !tsr_value_type(tsr_op_operand(slice, 0), &from) ||
        !tsr_value_type(tsr_op_result(slice, 0), &to))
        return false;
    if (tsr_op_i64s(slice, "stride", TSR_RANK_MAX, step, &steps))
        for (size_t d = 0; d < steps; d++)
            if (step[d] != 1) return false;
    for (uint32_t d = 0; d < 2; d++)
        if (start[d] || from.shape.dims[d] != to.shape.dims[d]) return false;
    *out_first = start[2];
    return start[2] % UNIT == 0 && from.shape.dims[2] % UNIT == 0;
}

/* ---- heads of a group ------------------------------------------------------------------------ */

static int64_t width_of(const tsr_type *type) {
    uint64_t width = 1;
    for (uint32_t d = 2; d < type->shape.rank; d++) width *= type->shape.dims[d];
    return (int64_t)width;
}

/* `heads`: [B, H, S, D]. */
static void set_sides(tsr_gpu_heads *found, const tsr_type *argument, MlirValue heads,
                      int64_t first) {
    tsr_type type;
    bool known = tsr_value_type(heads, &type);
    TSR_ASSERT(known && type.shape.rank == HEAD_DIMS);
    found->sides = (tsr_heads){first, (int64_t)type.shape.dims[1], (int64_t)type.shape.dims[3]};
    found->batch = (int64_t)type.shape.dims[0];
    found->rows = (int64_t)type.shape.dims[2];
    found->width = width_of(argument);
}

tsr_gpu_heads tsr_gpu_heads_read(const tsr_tile_group *group, size_t index) {
    tsr_gpu_heads found = {.sides = {.first = -1}};
    MlirValue operand = tsr_op_operand(group->root, index), from = operand;
    int64_t first = 0;
    while (!mlirValueIsABlockArgument(from)) {
        MlirOperation move = tsr_value_owner(from);
        TSR_ASSERT(tsr_gpu_is_move(move));
        if (tsr_op_is(move, TSR_GRAPH_SLICE)) {
            bool columns = tsr_gpu_slice_columns(move, &first);
            TSR_ASSERT(columns);
        }
        from = tsr_op_operand(move, 0);
    }
    found.argument = (uint32_t)mlirBlockArgumentGetArgNumber(from);
    if (!mlirValueEqual(from, operand))
        set_sides(&found, &group->types[found.argument], operand, first);
    return found;
}

/* The number of columns of a concat before operand `value`. */
static int64_t columns_before(MlirOperation concat, MlirValue value) {
    int64_t columns = 0;
    tsr_type type;
    for (size_t i = 0; !mlirValueEqual(tsr_op_operand(concat, i), value); i++)
        if (tsr_value_type(tsr_op_operand(concat, i), &type)) columns += width_of(&type);
    return columns;
}

tsr_gpu_heads tsr_gpu_heads_given(const tsr_tile_group *group, size_t index) {
    tsr_gpu_heads found = {.argument = UINT32_MAX, .sides = {.first = -1}};
    MlirValue result = tsr_op_result(group->root, index), to = result;
    int64_t first = 0;
    for (;;) {
        MlirOpOperand use = mlirValueGetFirstUse(to);
        if (mlirOpOperandIsNull(use)) return found;
        MlirOperation user = mlirOpOperandGetOwner(use);
        if (!tsr_gpu_is_move(user)) break;
        if (tsr_op_is(user, TSR_GRAPH_CONCAT)) first = columns_before(user, to);
        to = tsr_op_result(user, 0);
    }
    for (uint32_t i = 0; i < group->output_count; i++)
        if (mlirValueEqual(group->returned[i], to)) found.argument = group->input_count + i;
    TSR_ASSERT(found.argument != UINT32_MAX);
    if (!mlirValueEqual(to, result))
        set_sides(&found, &group->types[found.argument], result, first);
    return found;
}

MlirValue tsr_gpu_heads_view(tsr_tile_builder *b, MlirValue buffer, const tsr_gpu_heads *heads,
                             int64_t head_count, int64_t rows, int64_t d) {
    int64_t dense[] = {head_count, rows, d}, sides[] = {heads->batch, heads->rows, heads->width};
    return tsr_gpu_view(b, buffer, 3, heads->sides.first < 0 ? dense : sides);
}

size_t tsr_gpu_heads_attributes(MlirContext context, const int64_t *firsts, size_t count,
                                const int64_t heads[3], tsr_attr *out_attrs) {
    bool some = false;
    for (size_t i = 0; i < count; i++) some = some || firsts[i] >= 0;
    if (!some) return 0;
    out_attrs[0] = (tsr_attr){TSR_SIDES_NAME, tsr_attr_make_i64s(context, count, firsts)};
    out_attrs[1] = (tsr_attr){TSR_HEADS_NAME, tsr_attr_make_i64s(context, 3, heads)};
    return 2;
}

bool tsr_gpu_counts_chunks(const tsr_tile_group *group) {
    enum { CHUNK_BYTES = 16 };
    for (uint32_t i = 0; i < group->input_count + group->output_count; i++) {
        uint64_t size = 0;
        if (!tsr_shape_size(&group->types[i].shape, group->types[i].dtype, &size) ||
            size / CHUNK_BYTES > UINT32_MAX)
            return false;
    }
    return true;
}

/* ---- dropout --------------------------------------------------------------------------------- */

bool tsr_gpu_can_drop(const tsr_attention *of, size_t operands) {
    size_t samples = of->dropout ? TSR_ATTENTION_SAMPLES : 0;
    return tsr_op_operand_count(of->group->root) == operands + samples &&
           (!samples || tsr_attend_can_drop(of->dropout, of->queries, of->keys));
}

size_t tsr_gpu_drop_attributes(MlirContext context, const tsr_attention *of, tsr_attr *out_attrs) {
    if (!of->dropout) return 0;
    out_attrs[0] = (tsr_attr){
        "dropout", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), of->dropout)};
    out_attrs[1] = (tsr_attr){"stream", tsr_attr_make_i64(context, of->stream)};
    return 2;
}
