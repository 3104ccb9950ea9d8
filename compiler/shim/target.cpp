// SPDX-License-Identifier: Apache-2.0
//
// TableGen glue of dialect `tessera_target`. The rules of its ops are in C (compiler/target/host/).
#include "compiler/shim/glue.hpp"

#include <mlir/IR/SymbolTable.h>

// The generated files must be included in this order.
// clang-format off
#include "compiler/target_dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/target_types.h.inc"
#define GET_OP_CLASSES
#include "compiler/target_ops.h.inc"
#include "compiler/target_dialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/target_types.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/target_ops.cpp.inc"
// clang-format on

namespace tessera::target {
#define X(ID, mnemonic, Class, ...) TSR_VERIFY(Class, tsr_target_verify_op)
#include "compiler/target/host/ops.def"
#undef X

// Modules without @device declare kernels only.
mlir::LogicalResult KernelOp::verifySymbolUses(mlir::SymbolTableCollection &symbols) {
    mlir::Operation *device =
        symbols.lookupNearestSymbolFrom(*this, mlir::StringAttr::get(getContext(), "device"));
    if (!device) return mlir::success();
    mlir::Operation *body = symbols.lookupSymbolIn(device, getSymNameAttr());
    return mlir::success(tsr_target_verify_use(wrap(getOperation()), wrap(body)));
}

mlir::LogicalResult LaunchOp::verifySymbolUses(mlir::SymbolTableCollection &symbols) {
    mlir::Operation *kernel = symbols.lookupNearestSymbolFrom(*this, getKernelAttr());
    return mlir::success(tsr_target_verify_use(wrap(getOperation()), wrap(kernel)));
}

mlir::LogicalResult VrankSumOp::verifySymbolUses(mlir::SymbolTableCollection &symbols) {
    mlir::Operation *kernel = symbols.lookupNearestSymbolFrom(*this, getKernelAttr());
    return mlir::success(tsr_target_verify_use(wrap(getOperation()), wrap(kernel)));
}

void TargetDialect::initialize() {
    addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/target_types.cpp.inc"
        >();
    addOperations<
#define GET_OP_LIST
#include "compiler/target_ops.cpp.inc"
        >();
}
} // namespace tessera::target

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(TesseraTarget, tessera_target, tessera::target::TargetDialect)
