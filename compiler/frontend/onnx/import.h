/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports an ONNX model as Graph IR: one entry `main` of kind "infer", whose arguments and results
 * have the names of the graph's inputs and outputs; with options for training, also `train` of kind
 * "train" over the same parameters. Initializers become parameters, whose values are written into a
 * file of their own. Locations name the node by its line in a listing of the model.
 */
#ifndef TSR_COMPILER_ONNX_IMPORT_H
#define TSR_COMPILER_ONNX_IMPORT_H

#include "compiler/frontend/onnx/binding.h"
#include "compiler/frontend/onnx/links.h"
#include "compiler/frontend/onnx/training.h"
#include "compiler/ir/dim_expression.h"
#include "compiler/ir/mlir.h"
#include "runtime/base/hash/hash.h"

typedef struct tsr_onnx_options {
    const char *path; /* of the model */
    const tsr_dim_binding *bindings;
    size_t binding_count;
    bool dims_stay_open;               /* dims without a size stay open */
    const char *weights_path;          /* written if the model has parameters; NULL: not written */
    const tsr_onnx_training *training; /* NULL: no training */
    tsr_links links;                   /* only programs */
} tsr_onnx_options;

/* The symbol that a program has for an open dim of a model that is called `name`: the name, where
 * it is one. */
void tsr_onnx_symbol(const char *name, char out_symbol[static TSR_DIM_SYMBOL_MAX + 1]);

/* True for a name that ends in ".onnx". */
bool tsr_onnx_is_model(const char *path);

/* `list` is attached to the context and keeps the listing. TSR_COMPILE after diagnostics; TSR_IO;
 * TSR_USAGE for a binding that no dim has, and a pattern that no parameter fits. */
TSR_RESULT tsr_onnx_import(tsr_ctx *ctx, MlirContext context, tsr_diag_list *list,
                           const tsr_onnx_options *options, MlirModule *out_module,
                           tsr_digest *out_digest);

#endif
