/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing without verification; separate from shim.h, which every dialect includes.
 */
#ifndef TSR_COMPILER_SHIM_READ_H
#define TSR_COMPILER_SHIM_READ_H

#include <mlir-c/IR.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Like tsr_shim_parse, for text or bytecode. */
MlirModule tsr_shim_read(MlirContext context, MlirStringRef source, MlirStringRef name);

#ifdef __cplusplus
}
#endif

#endif
