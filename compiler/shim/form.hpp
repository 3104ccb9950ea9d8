// SPDX-License-Identifier: Apache-2.0
//
// The text of the ops of dialect `tessera`:
//
//   %result = tessera.op %a, %b {attributes} : (types) -> types
//
// Operands that all have one type need it only once, without parentheses, and so does a result.
// Result types that follow from the operands may be left out. Older spellings are read, too: lists
// of types without parentheses, `cast`'s `to`, and one type for the tensors of an optimizer's step.
#ifndef TSR_COMPILER_SHIM_FORM_HPP
#define TSR_COMPILER_SHIM_FORM_HPP

#include <mlir/IR/OpImplementation.h>

namespace tessera {
enum class ResultTypes {
    Same,     // each result has the type of the first operand
    Inferred, // they follow from the operands, by the op's rule (compiler/graph/ops.def)
    Declared, // the text must have them
};

struct Form {
    ResultTypes resultTypes;
    int operandCount;    // -1: it varies
    int resultCount;     // -1: as many as the text has names for
    const char *keyword; // an attribute, written as a word before the operands; "" if there is none
    mlir::LogicalResult (*verifyOperands)(mlir::Operation *op); // the declaration's constraints
};

mlir::ParseResult parseForm(mlir::OpAsmParser &parser, mlir::OperationState &state,
                            const Form &form);
void printForm(mlir::OpAsmPrinter &printer, mlir::Operation *op, const Form &form);
} // namespace tessera

#endif
