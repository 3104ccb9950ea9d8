/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes an entry of kind "infer" as an ONNX model of the newest opset.
 */
#ifndef TSR_COMPILER_ONNX_EXPORT_H
#define TSR_COMPILER_ONNX_EXPORT_H

#include "compiler/frontend/onnx/exporting.h"
#include "compiler/ir/mlir.h"

/* `module` is Graph IR as it was written; it is changed. TSR_COMPILE after diagnostics, for ops
 * that have no form in ONNX; TSR_USAGE for an entry that does not exist; TSR_IO. */
TSR_RESULT tsr_onnx_export(tsr_ctx *ctx, tsr_diag_list *list, MlirModule module,
                           const tsr_onnx_export_options *options);

#endif
