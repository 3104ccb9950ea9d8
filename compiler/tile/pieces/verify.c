/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of tile.piece.
 */
#include "compiler/target/host/rules.h"
#include "compiler/tile/tile.h"

#include <inttypes.h>

enum { OWN_RESULTS = 2 }; /* before the buffers */

static uint64_t count_of(MlirValue buffer) {
    tsr_type type;
    uint64_t count = 0;
    bool counted = tsr_value_type(buffer, &type) && tsr_shape_count(&type.shape, &count);
    TSR_ASSERT(counted);
    return count;
}

/* Buffer `part` of piece `piece`. */
static MlirValue buffer_of(MlirOperation op, size_t parts, size_t piece, size_t part) {
    return tsr_op_operand(op, 1 + piece * parts + part);
}

static bool check_first(MlirOperation op, size_t count) {
    MlirAttribute first = tsr_op_attr(op, "first");
    int64_t before = -1, number = 0;
    for (size_t i = 0; i < count; i++) {
        bool known = tsr_attr_i64(mlirArrayAttrGetElement(first, (intptr_t)i), &number);
        if (!known || number <= before || (i == 0 && number != 0))
            return tsr_target_complain(op, TSR_DIAG_TILE_SHAPE,
                                       "piece %zu begins at program %" PRId64
                                       "; expected %s %" PRId64,
                                       i, number, i ? "more than" : "just", i ? before : 0);
        before = number;
    }
    return true;
}

bool tsr_tile_rule_piece(MlirOperation op) {
    size_t count = (size_t)mlirArrayAttrGetNumElements(tsr_op_attr(op, "first"));
    size_t parts = tsr_op_result_count(op) - OWN_RESULTS, buffers = tsr_op_operand_count(op) - 1;
    uint64_t largest = 0;
    if (!count || !parts || buffers != count * parts)
        return tsr_target_complain(op, TSR_DIAG_TILE_SHAPE,
                                   "%zu pieces of %zu buffers are given %zu buffers", count, parts,
                                   buffers);
    for (size_t i = 0; i < buffers; i++) {
        MlirValue buffer = tsr_op_operand(op, 1 + i);
        MlirValue first = buffer_of(op, parts, i / parts, 0);
        MlirType wanted = mlirValueGetType(tsr_op_result(op, OWN_RESULTS + i % parts));
        if (count_of(buffer) != count_of(first))
            return tsr_target_complain(op, TSR_DIAG_TILE_SHAPE,
                                       "buffer %zu has %" PRIu64
                                       " elements; its piece's first has %" PRIu64,
                                       i, count_of(buffer), count_of(first));
        if (!mlirTypeEqual(mlirShapedTypeGetElementType(mlirValueGetType(buffer)),
                           mlirShapedTypeGetElementType(wanted)))
            return tsr_target_complain(op, TSR_DIAG_TILE_TYPE,
                                       "buffer %zu and its result differ in their elements", i);
        if (count_of(buffer) > largest) largest = count_of(buffer);
    }
    for (size_t i = 0; i < parts; i++)
        if (count_of(tsr_op_result(op, OWN_RESULTS + i)) != largest)
            return tsr_target_complain(op, TSR_DIAG_TILE_SHAPE,
                                       "result %zu has %" PRIu64
                                       " elements; the largest piece has %" PRIu64,
                                       i, count_of(tsr_op_result(op, OWN_RESULTS + i)), largest);
    return check_first(op, count);
}
