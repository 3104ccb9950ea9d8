/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/frontend/onnx/rules/loop.h"

#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <string.h>

static tsr_type slice_type(MlirValue sequence) {
    tsr_type type = tsr_onnx_type_of(sequence);
    type.shape.rank--;
    memmove(type.shape.dims, type.shape.dims + 1, type.shape.rank * sizeof type.shape.dims[0]);
    return type;
}

bool tsr_onnx_loop_begin(tsr_onnx_call *c, size_t carried_count, const MlirValue *carried,
                         size_t sequence_count, const MlirValue *sequences, uint64_t length,
                         tsr_onnx_loop *out_loop) {
    size_t count = carried_count + sequence_count;
    MlirType types[TSR_ONNX_LOOP_VALUES_MAX] = {{NULL}};
    MlirLocation locations[TSR_ONNX_LOOP_VALUES_MAX] = {{NULL}};
    tsr_onnx_loop loop = {.carried_count = carried_count,
                          .sequence_count = sequence_count,
                          .length = length,
                          .outside = *c->builder};
    if (c->failed) return false;
    if (count > TSR_ONNX_LOOP_VALUES_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT,
                             "a loop over %zu values; at most %d can be "
                             "imported",
                             count, TSR_ONNX_LOOP_VALUES_MAX);
    for (size_t i = 0; i < count; i++) {
        MlirValue value = i < carried_count ? carried[i] : sequences[i - carried_count];
        loop.operands[i] = value;
        types[i] = mlirValueGetType(value);
        locations[i] = c->builder->location;
        if (i < carried_count) continue;
        if (tsr_onnx_rank(value) == 0)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "a sequence is a scalar");
        loop.length = tsr_onnx_dim_of(value, 0);
        if (i > carried_count && loop.length != tsr_onnx_dim_of(sequences[0], 0))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "sequences have different lengths");
        tsr_type type = slice_type(value);
        types[i] = tsr_type_make(c->builder->context, &type);
    }
    MlirBlock block = mlirBlockCreate((intptr_t)count, types, locations);
    loop.region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(loop.region, block);
    for (size_t i = 0; i < count; i++) loop.arguments[i] = mlirBlockGetArgument(block, (intptr_t)i);
    c->builder->block = block;
    c->builder->before = (MlirOperation){NULL};
    *out_loop = loop;
    return true;
}

/* Builds the scan with its region. */
static MlirOperation build_scan(tsr_onnx_call *c, tsr_onnx_loop *loop, bool reverse,
                                size_t slice_count, const MlirValue *slices) {
    MlirType results[2 * TSR_ONNX_LOOP_VALUES_MAX];
    tsr_attr attrs[3] = {tsr_onnx_i64_attr(c, "carried", (int64_t)loop->carried_count)};
    size_t attr_count = 1;
    for (size_t i = 0; i < loop->carried_count; i++)
        results[i] = mlirValueGetType(loop->operands[i]);
    for (size_t i = 0; i < slice_count; i++) {
        tsr_type type = tsr_onnx_type_of(slices[i]);
        memmove(type.shape.dims + 1, type.shape.dims,
                type.shape.rank++ * sizeof type.shape.dims[0]);
        type.shape.dims[0] = loop->length;
        results[loop->carried_count + i] = tsr_type_make(c->builder->context, &type);
    }
    if (!loop->sequence_count)
        attrs[attr_count++] = tsr_onnx_i64_attr(c, "length", (int64_t)loop->length);
    if (reverse)
        attrs[attr_count++] = (tsr_attr){"reverse", tsr_attr_make_unit(c->builder->context)};
    return tsr_build(c->builder,
                     &(tsr_op_desc){.name = TSR_GRAPH_NAME("scan"),
                                    .operands = loop->operands,
                                    .operand_count = loop->carried_count + loop->sequence_count,
                                    .results = results,
                                    .result_count = loop->carried_count + slice_count,
                                    .attrs = attrs,
                                    .attr_count = attr_count,
                                    .region_count = 1,
                                    .regions = &loop->region});
}

static bool check_yielded(tsr_onnx_call *c, const tsr_onnx_loop *loop, const MlirValue *next,
                          size_t slice_count, const MlirValue *slices) {
    for (size_t i = 0; i < loop->carried_count && !c->failed; i++) {
        if (mlirValueIsNull(next[i])) return false;
        tsr_type is = tsr_onnx_type_of(next[i]), must = tsr_onnx_type_of(loop->operands[i]);
        if (is.dtype != must.dtype || !tsr_shape_equal(&is.shape, &must.shape))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE,
                                 "carried value %zu changes its type from "
                                 "one iteration to the next",
                                 i);
    }
    for (size_t i = 0; i < slice_count && !c->failed; i++) {
        if (mlirValueIsNull(slices[i])) return false;
        if (tsr_onnx_rank(slices[i]) == TSR_RANK_MAX)
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "a stacked value has more than %d dims",
                                 TSR_RANK_MAX);
    }
    return !c->failed;
}

bool tsr_onnx_loop_end(tsr_onnx_call *c, tsr_onnx_loop *loop, bool reverse, const MlirValue *next,
                       size_t slice_count, const MlirValue *slices, MlirValue *out_results) {
    MlirValue yielded[2 * TSR_ONNX_LOOP_VALUES_MAX];
    bool fits = slice_count <= TSR_ONNX_LOOP_VALUES_MAX &&
                check_yielded(c, loop, next, slice_count, slices);
    if (fits) {
        memcpy(yielded, next, loop->carried_count * sizeof *next);
        memcpy(yielded + loop->carried_count, slices, slice_count * sizeof *slices);
        tsr_build(c->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("yield"),
                                             .operands = yielded,
                                             .operand_count = loop->carried_count + slice_count});
    }
    MlirLocation location = c->builder->location;
    *c->builder = loop->outside;
    c->builder->location = location;
    if (!fits) {
        mlirRegionDestroy(loop->region);
        c->failed = true;
        return false;
    }
    MlirOperation op = build_scan(c, loop, reverse, slice_count, slices);
    if (!tsr_graph_verify_op(op)) {
        c->failed = true;
        return false;
    }
    for (size_t i = 0; i < loop->carried_count + slice_count; i++)
        out_results[i] = tsr_op_result(op, i);
    return true;
}
