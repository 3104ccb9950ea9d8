/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops of domain ai.onnx.ml.
 */
#include "compiler/frontend/onnx/rules.h"

/* 1 above the threshold, else 0 */
bool tsr_onnx_rule_binarizer(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0);
    double threshold = tsr_onnx_attr_f(c, "threshold", 0);
    MlirValue above = tsr_onnx_compare(c, TSR_PREDICATE_GT, x, tsr_onnx_number(c, x, threshold));
    return tsr_onnx_out(c, 0, tsr_onnx_cast(c, above, tsr_onnx_dtype(x)));
}

/* Elements of the last dim, by a list of indices. */
bool tsr_onnx_rule_array_feature_extractor(tsr_onnx_call *c) {
    MlirValue x = tsr_onnx_in(c, 0), indices = tsr_onnx_in(c, 1);
    if (!tsr_onnx_need_rank(c, "the input", x, 1, TSR_RANK_MAX)) return false;
    uint32_t rank = tsr_onnx_rank(x);
    tsr_shape shape = tsr_onnx_type_of(indices).shape;
    const tsr_shape list = {.rank = 1, .dims = {tsr_onnx_volume(c, &shape, 0, shape.rank)}};
    const tsr_shape row = {.rank = 2, .dims = {1, list.dims[0]}};
    MlirValue y = tsr_onnx_gather(c, x, tsr_onnx_reshape(c, indices, &list), rank - 1);
    return tsr_onnx_out(c, 0, rank == 1 ? tsr_onnx_reshape(c, y, &row) : y);
}
