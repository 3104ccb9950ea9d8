/* SPDX-License-Identifier: Apache-2.0
 *
 * What the attributes of a tile.attend say, and their rules: where heads are stored in its buffers
 * (they are a dimension, or adjacent columns), and the samples of dropout.
 */
#include "compiler/ir/samples.h"
#include "compiler/tile/attributes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { HEADS, KEY_HEADS, NUMBERS, COUNTS, BUFFERS_MAX = 16, SAMPLES = 3, HALF_INFINITY = 0x7c00 };

/* True for keys, values and their gradients. */
static bool is_of_keys(MlirOperation attend, size_t buffer) {
    bool keys = strcmp(tsr_op_string(attend, "how"), "backward_keys") == 0;
    size_t gradients = keys ? 6 : 8;
    return buffer == 1 || buffer == 2 || buffer == gradients || buffer == gradients + 1;
}

tsr_heads tsr_attend_heads(MlirOperation attend, size_t buffer) {
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
    tsr_heads heads = tsr_attend_heads(attend, buffer);
    MlirType type = mlirValueGetType(tsr_op_operand(attend, buffer));
    if (heads.first >= 0 && d == 2) return heads.d;
    int64_t size = mlirShapedTypeGetDimSize(type, d);
    return heads.first >= 0 && d == 0 ? size * heads.count : size;
}

size_t tsr_attend_buffers(MlirOperation attend) {
    MlirAttribute segments = tsr_op_attr(attend, "operandSegmentSizes");
    int64_t count = mlirDenseI32ArrayGetElement(segments, 0);
    return (size_t)count - (tsr_op_has(attend, "dropout") && count >= SAMPLES ? SAMPLES : 0);
}

bool tsr_attend_can_drop(double rate, int64_t queries, int64_t keys) {
    uint64_t numbers = 0;
    return rate > 0 && ceil(ldexp((double)(float)rate, TSR_SAMPLES_BITS)) <= HALF_INFINITY &&
           tsr_samples_of_head((uint64_t)queries, (uint64_t)keys, &numbers) &&
           numbers / TSR_SAMPLES_SHARED - 1 <= UINT32_MAX;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool check_buffer(MlirOperation op, size_t buffer) {
    tsr_heads heads = tsr_attend_heads(op, buffer);
    MlirType type = mlirValueGetType(tsr_op_operand(op, buffer));
    int64_t end = 0, width;
    if (heads.first < 0) return true;
    if (mlirShapedTypeGetRank(type) != 3)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                 "heads are interleaved in buffer %zu, which has %" PRId64
                                 " dimensions; expected 3",
                                 buffer, mlirShapedTypeGetRank(type));
    width = mlirShapedTypeGetDimSize(type, 2);
    if (heads.first % TSR_HEADS_UNIT || width % TSR_HEADS_UNIT)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                 "heads begin in column %" PRId64 " of %" PRId64
                                 " of buffer %zu; expected multiples of %d",
                                 heads.first, width, buffer, TSR_HEADS_UNIT);
    if (__builtin_mul_overflow(heads.count, heads.d, &end) ||
        __builtin_add_overflow(end, heads.first, &end) || end > width)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
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
        return tsr_op_emit_error(attend, TSR_DIAG_TILE_SHAPE,
                                 "expected %s of %" PRId64 " columns and %s of 3 counts",
                                 TSR_SIDES_NAME, buffers, TSR_HEADS_NAME);
    for (size_t i = 0; i < 3; i++)
        if (heads[i] < 1)
            return tsr_op_emit_error(attend, TSR_DIAG_TILE_SHAPE,
                                     "%s: %" PRId64 "; expected 1 or more", TSR_HEADS_NAME,
                                     heads[i]);
    for (size_t i = 0; i < side_count; i++)
        if (!check_buffer(attend, i)) return false;
    return true;
}

bool tsr_attend_check_samples(MlirOperation attend) {
    size_t at = tsr_attend_buffers(attend);
    double rate = 0;
    int64_t stream = -1;
    if (!tsr_op_has(attend, "dropout")) return true;
    if (!tsr_op_f64(attend, "dropout", &rate) || !tsr_op_i64(attend, "stream", &stream) ||
        stream < 0 || stream > UINT32_MAX ||
        !tsr_attend_can_drop(rate, tsr_attend_dim(attend, 0, 1), tsr_attend_dim(attend, 1, 1)))
        return tsr_op_emit_error(attend, TSR_DIAG_TILE_SHAPE,
                                 "dropout is %g, stream %" PRId64
                                 "; expected 0 < dropout <= 0.96875, a stream of 32 bits, and at "
                                 "most 2^35 numbers of a head",
                                 rate, stream);
    for (size_t i = 0; i < SAMPLES; i++) {
        MlirType type = mlirValueGetType(tsr_op_operand(attend, at + i));
        MlirType element = mlirShapedTypeGetElementType(type);
        if (!mlirTypeIsAInteger(element) || mlirIntegerTypeGetWidth(element) != 64 ||
            mlirShapedTypeGetRank(type) != (i ? 0 : 1) ||
            !mlirValueIsABlockArgument(tsr_op_operand(attend, at + i)))
            return tsr_op_emit_error(attend, TSR_DIAG_TILE_TYPE,
                                     "buffer %zu holds the dropout of the weights; expected an "
                                     "argument of the kernel, i64 of %d dimensions",
                                     at + i, i ? 0 : 1);
    }
    int64_t batch = mlirShapedTypeGetDimSize(mlirValueGetType(tsr_op_operand(attend, at)), 0);
    if (batch > 0 && tsr_attend_dim(attend, 0, 0) % batch == 0) return true;
    return tsr_op_emit_error(attend, TSR_DIAG_TILE_SHAPE,
                             "first heads of %" PRId64 " items; there are %" PRId64 " heads", batch,
                             tsr_attend_dim(attend, 0, 0));
}
