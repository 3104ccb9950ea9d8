// SPDX-License-Identifier: Apache-2.0
//
// The generated classes of dialect `tessera`, and functions that their generated code calls.
#ifndef TSR_COMPILER_SHIM_GRAPH_HPP
#define TSR_COMPILER_SHIM_GRAPH_HPP

#include "compiler/shim/form.hpp"
#include "compiler/shim/glue.hpp"

#include <mlir/IR/PatternMatch.h>
#include <mlir/IR/TensorEncoding.h>

namespace tessera {
mlir::FailureOr<mlir::FloatAttr> parseF64(mlir::AsmParser &parser);
void printF64(mlir::AsmPrinter &printer, mlir::FloatAttr value);
mlir::FloatAttr makeF64(mlir::MLIRContext *context, double value);
} // namespace tessera

// The generated files must be included in this order.
// clang-format off
#include "compiler/graph_dialect.h.inc"
#include "compiler/graph_enums.h.inc"

// Tokens belong to dialect tessera_sr (resilience.cpp).
#define GET_TYPEDEF_CLASSES
#include "compiler/resilience_types.h.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/graph_types.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/graph_attrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/graph_ops.h.inc"
// clang-format on

namespace tessera::graph {
// `init` `=` rule, whose type is the result's; or `:` type
mlir::ParseResult parseRule(mlir::OpAsmParser &parser, mlir::Attribute &init, mlir::Type &type);
void printRule(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute init,
               mlir::Type type);
// `data` `=` elements, whose type is the result's; or a rule.
mlir::ParseResult parseInitial(mlir::OpAsmParser &parser, mlir::Attribute &init,
                               mlir::ElementsAttr &data, mlir::Type &type);
void printInitial(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Attribute init,
                  mlir::ElementsAttr data, mlir::Type type);
// The types of an op whose text has regions: those of a form (form.hpp), results included.
using Operands = llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand>;
mlir::ParseResult parseTypes(mlir::OpAsmParser &parser, const Operands &operands,
                             llvm::SmallVectorImpl<mlir::Type> &operandTypes,
                             llvm::SmallVectorImpl<mlir::Type> &resultTypes);
mlir::ParseResult parseTypes(mlir::OpAsmParser &parser,
                             const mlir::OpAsmParser::UnresolvedOperand &operand,
                             mlir::Type &operandType,
                             llvm::SmallVectorImpl<mlir::Type> &resultTypes);
void printTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ValueRange operands,
                mlir::TypeRange operandTypes, mlir::TypeRange resultTypes);
void printTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Value operand,
                mlir::Type operandType, mlir::TypeRange resultTypes);
} // namespace tessera::graph

#endif
