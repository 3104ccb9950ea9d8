/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of --data-type: "labels=i64[N, 10]".
 */
#ifndef TSR_COMPILER_ONNX_DATA_TYPE_H
#define TSR_COMPILER_ONNX_DATA_TYPE_H

#include "compiler/frontend/onnx/binding.h"
#include "compiler/frontend/onnx/train/expression.h"
#include "compiler/ir/mlir.h"

/* Dims are integers, or names that `bindings` give a size. *out_name is in the arena. False after a
 * diagnostic. */
bool tsr_data_type_read(const tsr_expression_source *source, const tsr_dim_binding *bindings,
                        size_t binding_count, tsr_arena *arena, const char **out_name,
                        tsr_type *out_type);

#endif
