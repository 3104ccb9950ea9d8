/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are linked to a program (--link NAME=FILE).
 */
#ifndef TSR_COMPILER_ONNX_LINK_H
#define TSR_COMPILER_ONNX_LINK_H

#include "compiler/frontend/onnx/import.h"

/* Adds the functions of linked programs to the module; all links must be programs. TSR_COMPILE
 * after diagnostics; TSR_USAGE; TSR_IO. */
TSR_RESULT tsr_link_programs(tsr_ctx *ctx, tsr_diag_list *list, const tsr_links *links,
                             MlirModule module);

typedef struct tsr_link_options {
    tsr_links links;
    const char *weights_path;          /* as tsr_onnx_options */
    const tsr_onnx_training *training; /* patterns only */
} tsr_link_options;
/* Links programs, then models: each becomes the body of the function of its name, which the module
 * declares with the types of its inputs and outputs. In one with the attribute
 * TSR_LINK_TRAINING_NAME it has the form of training: batch norm uses the statistics of the batch
 * and updates the running ones, dropout drops. */
TSR_RESULT tsr_link_all(tsr_ctx *ctx, tsr_diag_list *list, const tsr_link_options *options,
                        MlirModule module);
#define TSR_LINK_TRAINING_NAME "tessera.training"

#endif
