/* SPDX-License-Identifier: Apache-2.0
 *
 * Custom ops: nodes that call a function of the program (--op DOMAIN:NAME=@function).
 */
#ifndef TSR_COMPILER_ONNX_CUSTOM_H
#define TSR_COMPILER_ONNX_CUSTOM_H

#include "compiler/frontend/onnx/importer.h"

/* NULL if the options bind no function to the node's op. */
const tsr_custom_op *tsr_onnx_find_custom(const tsr_onnx_call *c);
/* Calls the function; the node's inputs and outputs are its arguments and results. */
bool tsr_onnx_call_custom(tsr_onnx_call *c, const tsr_custom_op *custom);
/* TSR_USAGE for a custom op that no node of the models has. */
TSR_RESULT tsr_link_check_ops(tsr_ctx *ctx, const tsr_links *links,
                              tsr_onnx_importer *const *importers, size_t count);

#endif
