/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves transposes of a block, which rules emit around ops on images, together so that they cancel.
 */
#ifndef TSR_COMPILER_ONNX_LAYOUT_H
#define TSR_COMPILER_ONNX_LAYOUT_H

#include "compiler/ir/mlir.h"

/* No element is computed differently: only the order of dims changes. */
void tsr_onnx_move_transposes(MlirBlock block);

#endif
