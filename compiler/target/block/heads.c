/* SPDX-License-Identifier: Apache-2.0
 *
 * Where heads are stored in the buffers of tile.attend: they are a dimension, or adjacent columns.
 */
#include "compiler/target/block/block.h"
#include "compiler/target/host/rules.h"

#include <inttypes.h>
#include <string.h>

enum { HEADS, KEY_HEADS, NUMBERS, COUNTS, BUFFERS_MAX = 16 };

/* True for keys, values and their gradients. */
static bool is_of_keys(MlirOperation attend, size_t buffer) {
    bool keys = strcmp(tsr_op_string(attend, "how"), "backward_keys") == 0;
    size_t gradients = keys ? 6 : 8;
    return buffer == 1 || buffer == 2 || buffer == gradients || buffer == gradients + 1;
}

static tsr_heads read_heads(MlirOperation attend, size_t buffer) {
    int64_t sides[BUFFERS_MAX], counts[COUNTS] = {0};
    size_t side_count = 0, count = 0;
    if (!tsr_op_i64s(attend, TSR_SIDES_NAME, BUFFERS_MAX, sides, &side_count) ||
        !tsr_op_i64s(attend, TSR_HEADS_NAME, COUNTS, counts, &count) || count != COUNTS ||
        buffer >= side_count || sides[buffer] < 0)
        return (tsr_heads){.first = -1};
    return (tsr_heads){.first = sides[buffer],
                       .count = counts[is_of_keys(attend, buffer) ? KEY_HEADS : HEADS],
                       .d = counts[NUMBERS]};
}

int64_t tsr_attend_dim(MlirOperation attend, size_t buffer, intptr_t d) {
    tsr_heads heads = read_heads(attend, buffer);
    MlirType type = mlirValueGetType(tsr_op_operand(attend, buffer));
    if (heads.first >= 0 && d == 2) return heads.d;
    int64_t size = mlirShapedTypeGetDimSize(type, d);
    return heads.first >= 0 && d == 0 ? size * heads.count : size;
}

void tsr_block_locate_head(tsr_emit *emit, MlirOperation attend, size_t buffer, LLVMValueRef head,
                           LLVMValueRef row, int64_t column, LLVMValueRef *out_at) {
    LLVMBuilderRef b = emit->builder;
    tsr_heads heads = read_heads(attend, buffer);
    out_at[0] = tsr_block_int(emit, column);
    out_at[1] = row;
    out_at[2] = head;
    if (heads.first < 0) return;
    /* Computed again each time: the copying role has few registers. */
    head = tsr_block_asm(emit, tsr_block_i32(emit), "mov.b32 $0, $1;", "=r,r", &head, 1);
    LLVMValueRef count = tsr_block_int(emit, heads.count);
    out_at[2] = LLVMBuildUDiv(b, head, count, "");
    LLVMValueRef of_batch = LLVMBuildURem(b, head, count, "");
    out_at[0] = tsr_block_add(emit, tsr_block_mul(emit, of_batch, heads.d), heads.first + column);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool check_buffer(MlirOperation op, size_t buffer) {
    tsr_heads heads = read_heads(op, buffer);
    MlirType type = mlirValueGetType(tsr_op_operand(op, buffer));
    int64_t end = 0, width;
    if (heads.first < 0) return true;
    if (mlirShapedTypeGetRank(type) != 3)
        return tsr_target_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                     "heads are interleaved in buffer %zu, which has %" PRId64
                                     " dimensions; expected 3",
                                     buffer, mlirShapedTypeGetRank(type));
    width = mlirShapedTypeGetDimSize(type, 2);
    if (heads.first % TSR_HEADS_UNIT || width % TSR_HEADS_UNIT)
        return tsr_target_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                     "heads begin in column %" PRId64 " of %" PRId64
                                     " of buffer %zu; expected multiples of %d",
                                     heads.first, width, buffer, TSR_HEADS_UNIT);
    if (__builtin_mul_overflow(heads.count, heads.d, &end) ||
        __builtin_add_overflow(end, heads.first, &end) || end > width)
        return tsr_target_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                     "%" PRId64 " heads of %" PRId64 " from column %" PRId64
                                     " on are more than the %" PRId64 " columns of buffer %zu",
                                     heads.count, heads.d, heads.first, width, buffer);
    return true;
}

bool tsr_attend_check_heads(MlirOperation attend) {
    int64_t sides[BUFFERS_MAX], heads[3];
    size_t side_count = 0, count = 0;
    MlirAttribute segments = tsr_op_attr(attend, "operandSegmentSizes");
    int64_t buffers = mlirDenseI32ArrayGetElement(segments, 0);
    if (!tsr_op_has(attend, TSR_SIDES_NAME) && !tsr_op_has(attend, TSR_HEADS_NAME)) return true;
    if (!tsr_op_i64s(attend, TSR_SIDES_NAME, BUFFERS_MAX, sides, &side_count) ||
        (int64_t)side_count != buffers || !tsr_op_i64s(attend, TSR_HEADS_NAME, 3, heads, &count) ||
        count != 3)
        return tsr_target_emit_error(attend, TSR_DIAG_TILE_SHAPE,
                                     "expected %s of %" PRId64 " columns and %s of 3 counts",
                                     TSR_SIDES_NAME, buffers, TSR_HEADS_NAME);
    for (size_t i = 0; i < 3; i++)
        if (heads[i] < 1)
            return tsr_target_emit_error(attend, TSR_DIAG_TILE_SHAPE,
                                         "%s: %" PRId64 "; expected 1 or more", TSR_HEADS_NAME,
                                         heads[i]);
    for (size_t i = 0; i < side_count; i++)
        if (!check_buffer(attend, i)) return false;
    return true;
}
