/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of this folder, one file each; see passes.def for names. False after an error.
 */
#ifndef TSR_COMPILER_GRAPH_PASSES_H
#define TSR_COMPILER_GRAPH_PASSES_H

#include "compiler/mlir.h"

bool tsr_pass_verify(MlirModule module); /* verify.c */
bool tsr_pass_verify_scheduled(MlirModule module);
bool tsr_pass_name_calls(MlirModule module);     /* streams.c */
bool tsr_pass_streams(MlirModule module);        /* streams.c */
bool tsr_pass_flatten(MlirModule module);        /* flatten.c */
bool tsr_pass_keep_entries(MlirModule module);   /* keep_entries.c */
bool tsr_pass_infer_shapes(MlirModule module);   /* infer_shapes.c */
bool tsr_pass_autodiff(MlirModule module);       /* autodiff.c */
bool tsr_pass_decompose(MlirModule module);      /* decompose.c */
bool tsr_pass_verify_lowered(MlirModule module); /* verify_lowered.c */

#endif
