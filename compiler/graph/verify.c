/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/mlir.h"
bool tsr_pass_verify(MlirModule module);
bool tsr_pass_verify(MlirModule module) { return !mlirModuleIsNull(module); }
