/* SPDX-License-Identifier: Apache-2.0
 *
 * Transposes of f32 that swap rows and columns: one program transposes one square,
 *
 *     begin to copy it to a stage
 *     wait for it; load its rows as columns of a fragment
 *     store; release the stage
 */
#include "compiler/tile/gpu/transpose.h"

#include "compiler/shim/shim.h"
#include "compiler/tile/gpu/layout.h"
#include "compiler/tile/gpu/ring.h"

#include <string.h>

enum { SIDE = 64, STAGES = 3, WARPS = 4, REGISTERS = 64 };

typedef struct transpose {
    tsr_tile_group *group;
    int64_t batch, rows, columns; /* sizes of the operand */
    MlirValue from;
} transpose;

static bool read_transpose(transpose *t) {
    tsr_tile_group *group = t->group;
    MlirValue operand = tsr_op_operand(group->root, 0);
    if (group->b.target->arch != 90 || !mlirValueIsABlockArgument(operand) ||
        group->output_count != 1)
        return false;
    uint32_t number = (uint32_t)mlirBlockArgumentGetArgNumber(operand);
    const tsr_type *type = &group->types[number];
    uint32_t rank = type->shape.rank;
    if (rank < 2 || !tsr_gpu_is_transpose(group->root, rank - 2)) return false;
    t->batch = 1;
    for (uint32_t d = 0; d + 2 < rank; d++) t->batch *= (int64_t)type->shape.dims[d];
    t->rows = (int64_t)type->shape.dims[rank - 2];
    t->columns = (int64_t)type->shape.dims[rank - 1];
    t->from = group->buffers[number];
    return type->dtype == TSR_DTYPE_F32 && t->batch > 0 && t->rows > 0 && t->columns > 0;
}

static void build(tsr_tile_builder *b, const char *name, const MlirValue *operands, size_t count,
                  const tsr_attr *attrs, size_t attr_count) {
    tsr_build(&b->at, &(tsr_op_desc){.name = name,
                                     .operand_count = count,
                                     .operands = operands,
                                     .attr_count = attr_count,
                                     .attrs = attrs});
}

static void emit(const transpose *t) {
    tsr_tile_group *group = t->group;
    tsr_tile_builder *b = &group->b;
    uint32_t rank = t->batch > 1 ? 3 : 2;
    int64_t dims[] = {t->batch, t->rows, t->columns},
            transposed[] = {t->batch, t->columns, t->rows};
    int64_t row_tiles = tsr_divide_up(t->rows, SIDE),
            column_tiles = tsr_divide_up(t->columns, SIDE);
    MlirValue from = tsr_gpu_view(b, t->from, rank, dims + 3 - rank);
    MlirValue to = tsr_gpu_view(b, group->buffers[group->input_count], rank, transposed + 3 - rank);
    MlirValue pid = tsr_tile_program_id(b), stage = tsr_tile_index(b, 0);
    MlirValue matrix = tsr_tile_div(b, pid, row_tiles * column_tiles);
    MlirValue rest = t->batch > 1 ? tsr_tile_rem(b, pid, row_tiles * column_tiles) : pid;
    MlirValue row = tsr_tile_mul(b, tsr_tile_div(b, rest, column_tiles), SIDE);
    MlirValue column = tsr_tile_mul(b, tsr_tile_rem(b, rest, column_tiles), SIDE);
    MlirValue ring = tsr_gpu_ring(b, STAGES, SIDE, SIDE, TSR_DTYPE_F32);
    group->grid = t->batch * row_tiles * column_tiles;
    MlirValue copied[] = {from, matrix, row, column, ring, stage};
    if (rank == 2) memmove(copied + 1, copied + 2, 4 * sizeof *copied);
    build(b, "tile.async_copy", copied, rank + 3, NULL, 0);
    build(b, "tile.wait_async", &stage, 1, NULL, 0);
    const int64_t side[] = {SIDE, SIDE};
    MlirType type =
        tsr_shim_tile_fragment_make(side, tsr_tile_value_type(b, TSR_DTYPE_F32, 0), true);
    const tsr_attr transposes[] = {{"transpose", tsr_attr_make_unit(b->at.context)}, {0}};
    MlirValue loaded = tsr_build_value(&b->at, "tile.load_shared", (MlirValue[]){ring, stage}, 2,
                                       type, transposes);
    MlirValue stored[] = {loaded, to, matrix, column, row};
    if (rank == 2) memmove(stored + 2, stored + 3, 2 * sizeof *stored);
    const int32_t sizes[] = {1, 1, (int32_t)rank, 0};
    const tsr_attr attrs[] = {
        {"operandSegmentSizes", mlirDenseI32ArrayGet(b->at.context, 4, sizes)}};
    build(b, "tile.store_fragment", stored, rank + 2, attrs, 1);
    /* A stage may be released only after all threads have read their values from it. */
    build(b, "tile.barrier", NULL, 0, NULL, 0);
    build(b, "tile.release", &stage, 1, NULL, 0);
}

bool tsr_tile_takes_shared_transpose(tsr_tile_group *group) {
    transpose t = {.group = group};
    return read_transpose(&t);
}

void tsr_tile_lower_shared_transpose(tsr_tile_group *group, bool *out_taken) {
    transpose t = {.group = group};
    *out_taken = read_transpose(&t);
    if (!*out_taken) return;
    group->warps = WARPS;
    group->registers = REGISTERS;
    emit(&t);
}
