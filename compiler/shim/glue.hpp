// SPDX-License-Identifier: Apache-2.0
//
// Common parts of the glue of all dialects: headers for the generated code, and shared definitions.
#ifndef TSR_COMPILER_SHIM_GLUE_HPP
#define TSR_COMPILER_SHIM_GLUE_HPP

#include "compiler/shim/shim.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/CAPI/IR.h>
#include <mlir/CAPI/Registration.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/DialectImplementation.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>
#include <mlir/Transforms/InliningUtils.h>

namespace tessera {
// Ops of the dialect may be inlined anywhere.
struct Inliner : mlir::DialectInlinerInterface {
    using DialectInlinerInterface::DialectInlinerInterface;
    bool isLegalToInline(mlir::Operation *, mlir::Region *, bool, mlir::IRMapping &) const final {
        return true;
    }
    bool isLegalToInline(mlir::Region *, mlir::Region *, bool, mlir::IRMapping &) const final {
        return true;
    }
};
} // namespace tessera

// The op's rule is in C.
#define TSR_VERIFY(Class, rule)                                                                    \
    mlir::LogicalResult Class::verify() { return mlir::success(rule(wrap(getOperation()))); }

#endif
