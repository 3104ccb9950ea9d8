/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of tile.segment.
 */
#include "compiler/ir/mlir.h"
#include "compiler/tile/tile.h"

#include <inttypes.h>

enum { OWN_RESULTS = 2 }; /* results before the buffers */

/* Counts the elements of a buffer; false, with a diagnostic, if they cannot be counted. */
static bool count_of(MlirOperation op, MlirValue buffer, uint64_t *out_count) {
    tsr_type type;
    if (tsr_value_type(buffer, &type) && tsr_shape_count(&type.shape, out_count)) return true;
    return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                             "a buffer or result is not that of a tensor, or has more than 2^63 "
                             "elements");
}

/* Buffer `part` of segment `segment`. */
static MlirValue buffer_of(MlirOperation op, size_t parts, size_t segment, size_t part) {
    return tsr_op_operand(op, 1 + segment * parts + part);
}

static bool check_first(MlirOperation op, size_t count) {
    MlirAttribute first = tsr_op_attr(op, "first");
    int64_t before = -1, number = 0;
    for (size_t i = 0; i < count; i++) {
        bool known = tsr_attr_i64(mlirArrayAttrGetElement(first, (intptr_t)i), &number);
        if (!known || number <= before || (i == 0 && number != 0))
            return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                     "segment %zu begins at program %" PRId64
                                     "; expected %s %" PRId64,
                                     i, number, i ? "more than" : "just", i ? before : 0);
        before = number;
    }
    return true;
}

bool tsr_tile_rule_segment(MlirOperation op) {
    size_t count = (size_t)mlirArrayAttrGetNumElements(tsr_op_attr(op, "first"));
    size_t parts = tsr_op_result_count(op) - OWN_RESULTS, buffers = tsr_op_operand_count(op) - 1;
    uint64_t largest = 0;
    if (!count || !parts || buffers != count * parts)
        return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                 "%zu segments of %zu buffers are given %zu buffers", count, parts,
                                 buffers);
    for (size_t i = 0; i < buffers; i++) {
        uint64_t own = 0, first = 0;
        MlirValue buffer = tsr_op_operand(op, 1 + i);
        MlirType wanted = mlirValueGetType(tsr_op_result(op, OWN_RESULTS + i % parts));
        if (!count_of(op, buffer, &own) ||
            !count_of(op, buffer_of(op, parts, i / parts, 0), &first))
            return false;
        if (own != first)
            return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                     "buffer %zu has %" PRIu64
                                     " elements; its segment's first has %" PRIu64,
                                     i, own, first);
        if (!mlirTypeEqual(mlirShapedTypeGetElementType(mlirValueGetType(buffer)),
                           mlirShapedTypeGetElementType(wanted)))
            return tsr_op_emit_error(op, TSR_DIAG_TILE_TYPE,
                                     "buffer %zu and its result differ in element type", i);
        if (own > largest) largest = own;
    }
    for (size_t i = 0; i < parts; i++) {
        uint64_t own = 0;
        if (!count_of(op, tsr_op_result(op, OWN_RESULTS + i), &own)) return false;
        if (own != largest)
            return tsr_op_emit_error(op, TSR_DIAG_TILE_SHAPE,
                                     "result %zu has %" PRIu64
                                     " elements; the largest segment has %" PRIu64,
                                     i, own, largest);
    }
    return check_first(op, count);
}
