/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of integers that replace products of dequantized floats.
 */
#ifndef TSR_COMPILER_ONNX_QUANTIZED_H
#define TSR_COMPILER_ONNX_QUANTIZED_H

#include "compiler/frontend/onnx/rules/windows.h"

/* A convolution or a product whose operands are results of DequantizeLinear on integers of 8 bits;
 * null, without a failure, if they are not, or if their scales do not allow it. */
MlirValue tsr_onnx_quantized_conv(tsr_onnx_call *c, MlirValue x, MlirValue filter,
                                  const tsr_onnx_windows *windows);
MlirValue tsr_onnx_quantized_product(tsr_onnx_call *c, MlirValue a, MlirValue b, bool transpose_a,
                                     bool transpose_b);

#endif
