/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of this folder, one file each; see passes.def for names. False after an error.
 */
#ifndef TSR_COMPILER_RESILIENCE_PASSES_H
#define TSR_COMPILER_RESILIENCE_PASSES_H

#include "compiler/mlir.h"

bool tsr_pass_open_regions(MlirModule module);     /* open.c */
bool tsr_pass_insert_recompute(MlirModule module); /* recompute.c */

#endif
