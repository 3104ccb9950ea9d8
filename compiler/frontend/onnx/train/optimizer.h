/* SPDX-License-Identifier: Apache-2.0
 *
 * --optimizer 'adamw(lr=1e-3, clip_norm=1.0, schedule="cosine", total_steps=2000)' as attributes of
 * tessera.minimize: an optimizer with its fields (optimizer.def), then members of the step.
 */
#ifndef TSR_COMPILER_ONNX_OPTIMIZER_H
#define TSR_COMPILER_ONNX_OPTIMIZER_H

#include "compiler/frontend/onnx/train/expression.h"
#include "compiler/ir/mlir.h"

enum { TSR_OPTIMIZER_ATTRS_MAX = 3 };

/* False after a diagnostic. */
bool tsr_optimizer_read(const tsr_expression_source *source, tsr_arena *arena,
                        tsr_attr out_attrs[static TSR_OPTIMIZER_ATTRS_MAX], size_t *out_count);

#endif
