// SPDX-License-Identifier: Apache-2.0
//
// TableGen glue of dialect `tsched`. The rules of its ops are in C
// (compiler/schedule/verify/groups.c).
#include "compiler/shim/glue.hpp"

#include <mlir/IR/SymbolTable.h>
#include <mlir/Interfaces/ControlFlowInterfaces.h>
#include <mlir/Interfaces/FunctionImplementation.h>
#include <mlir/Interfaces/FunctionInterfaces.h>

// The generated files must be included in this order.
// clang-format off
#include "compiler/schedule_dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/schedule_types.h.inc"
#define GET_OP_CLASSES
#include "compiler/schedule_ops.h.inc"
#include "compiler/schedule_dialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/schedule_types.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/schedule_ops.cpp.inc"
// clang-format on

namespace tessera::schedule {
mlir::ParseResult FuncOp::parse(mlir::OpAsmParser &parser, mlir::OperationState &state) {
    auto type = [](mlir::Builder &builder, mlir::ArrayRef<mlir::Type> inputs,
                   mlir::ArrayRef<mlir::Type> results, mlir::function_interface_impl::VariadicFlag,
                   std::string &) { return builder.getFunctionType(inputs, results); };
    return mlir::function_interface_impl::parseFunctionOp(
        parser, state, /*allowVariadic=*/false, getFunctionTypeAttrName(state.name), type,
        getArgAttrsAttrName(state.name), getResAttrsAttrName(state.name));
}

void FuncOp::print(mlir::OpAsmPrinter &printer) {
    mlir::function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                                   getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                                   getResAttrsAttrName());
}

// Runs after the ops in the function have been checked.
mlir::LogicalResult FuncOp::verifyRegions() {
    return mlir::success(tsr_schedule_verify_func(wrap(getOperation())));
}

mlir::LogicalResult CallOp::verifySymbolUses(mlir::SymbolTableCollection &symbols) {
    mlir::Operation *callee = symbols.lookupNearestSymbolFrom(*this, getCalleeAttr());
    return mlir::success(tsr_schedule_verify_call(wrap(getOperation()), wrap(callee)));
}

// %a, %b (`:` types)?; if there are no types each is a !tsched.func.
mlir::ParseResult ReturnOp::parse(mlir::OpAsmParser &parser, mlir::OperationState &state) {
    llvm::SmallVector<mlir::OpAsmParser::UnresolvedOperand> operands;
    llvm::SmallVector<mlir::Type> types;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseOptionalAttrDict(state.attributes) || parser.parseOperandList(operands) ||
        parser.parseOptionalColonTypeList(types))
        return mlir::failure();
    if (types.empty()) types.assign(operands.size(), FuncType::get(parser.getContext()));
    return parser.resolveOperands(operands, types, loc, state.operands);
}

void ReturnOp::print(mlir::OpAsmPrinter &printer) {
    bool plan =
        llvm::all_of(getOperandTypes(), [](mlir::Type type) { return llvm::isa<FuncType>(type); });
    printer.printOptionalAttrDict((*this)->getAttrs());
    if (getNumOperands()) printer << ' ' << getOperands();
    if (getNumOperands() && !plan) printer << " : " << getOperandTypes();
}

#define TSR_RULE_GROUP(Class)
#define TSR_RULE_PLAN(Class) TSR_VERIFY(Class, tsr_schedule_verify_plan)
#define X(ID, mnemonic, Class, KIND, rule) TSR_RULE_##KIND(Class)
#include "compiler/schedule/dialect.def"
#undef X

void TschedDialect::initialize() {
    addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/schedule_types.cpp.inc"
        >();
    addOperations<
#define GET_OP_LIST
#include "compiler/schedule_ops.cpp.inc"
        >();
}
} // namespace tessera::schedule

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tsched, tsched, tessera::schedule::TschedDialect)
