/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the file of a model whose nodes are complete.
 */
#ifndef TSR_COMPILER_ONNX_WRITE_H
#define TSR_COMPILER_ONNX_WRITE_H

#include "compiler/frontend/onnx/export/exporter.h"

/* Whole or not at all. TSR_IO; TSR_DATA for a parameter that the file of parameters lacks. */
TSR_RESULT tsr_export_write(tsr_exporter *x, MlirOperation func);

#endif
