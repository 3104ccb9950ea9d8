// SPDX-License-Identifier: Apache-2.0
#include "compiler/shim/form.hpp"

#include "compiler/shim/graph.hpp"

#include <mlir/IR/BuiltinAttributes.h>

#include <optional>
#include <string>

namespace tessera {
namespace {
using Types = llvm::SmallVectorImpl<mlir::Type>;

constexpr llvm::StringLiteral missingResults =
    "has no result types, which do not follow from the operands; expected '->'";

// Types in parentheses; in older texts also without.
mlir::ParseResult parseTypeGroup(mlir::OpAsmParser &parser, Types &types, bool &isEnclosed) {
    isEnclosed = mlir::succeeded(parser.parseOptionalLParen());
    if (!isEnclosed) return parser.parseTypeList(types);
    if (mlir::succeeded(parser.parseOptionalRParen())) return mlir::success();
    if (parser.parseTypeList(types)) return mlir::failure();
    return parser.parseRParen();
}

// One type stands for all operands. In older texts the first type of an optimizer's step stands for
// all operands but the last ones, which have the others.
void repeatType(Types &types, size_t count, bool isOptimizer) {
    if (types.size() >= count || types.empty()) return;
    if (types.size() > 1 && !isOptimizer) return;
    types.insert(types.begin(), count - types.size(), types.front());
}

// A type without an arrow would be read as the next op.
mlir::ParseResult refuseType(mlir::OpAsmParser &parser) {
    mlir::Type type;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (!parser.parseOptionalType(type).has_value()) return mlir::success();
    return parser.emitError(loc) << "expected '->' before the result type";
}

// "[`(`] types [`)`] [`->` types]"; hasResults is false if there is no arrow.
mlir::ParseResult parseBoth(mlir::OpAsmParser &parser, llvm::StringRef name, size_t operandCount,
                            Types &operandTypes, Types &resultTypes, bool &hasResults) {
    bool isEnclosed, isOptimizer = name == graph::AdamWOp::getOperationName() ||
                                   name == graph::SgdOp::getOperationName();
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parseTypeGroup(parser, operandTypes, isEnclosed)) return mlir::failure();
    hasResults = mlir::succeeded(parser.parseOptionalArrow()) ||
                 (name == graph::CastOp::getOperationName() &&
                  mlir::succeeded(parser.parseOptionalKeyword("to")));
    if (hasResults && parseTypeGroup(parser, resultTypes, isEnclosed)) return mlir::failure();
    if (!hasResults && refuseType(parser)) return mlir::failure();
    if (!operandCount && !hasResults && operandTypes.size() == 1) { // the type of the result
        resultTypes.assign(operandTypes.begin(), operandTypes.end());
        operandTypes.clear();
        hasResults = true;
    }
    if (!isEnclosed || operandTypes.size() == 1 || isOptimizer)
        repeatType(operandTypes, operandCount, isOptimizer);
    if (operandTypes.size() == operandCount) return mlir::success();
    return parser.emitError(loc) << "has " << operandCount << " operand"
                                 << (operandCount == 1 ? "" : "s") << " and " << operandTypes.size()
                                 << " operand type" << (operandTypes.size() == 1 ? "" : "s");
}

mlir::ParseResult parsePredicate(mlir::OpAsmParser &parser, mlir::OperationState &state,
                                 llvm::StringRef name) {
    llvm::SMLoc loc = parser.getCurrentLocation();
    llvm::StringRef word;
    std::string quoted;
    if (mlir::failed(parser.parseOptionalKeyword(&word))) {
        if (mlir::failed(parser.parseOptionalString(&quoted)))
            return parser.emitError(loc) << "needs a comparison: eq, ne, lt, le, gt or ge";
        word = quoted;
    }
    std::optional<graph::Predicate> predicate = graph::symbolizePredicate(word);
    if (!predicate)
        return parser.emitError(loc)
               << "has no comparison '" << word << "'; expected eq, ne, lt, le, gt or ge";
    state.addAttribute(name, graph::PredicateAttr::get(parser.getContext(), *predicate));
    return mlir::success();
}

mlir::ParseResult parseAttributes(mlir::OpAsmParser &parser, mlir::OperationState &state) {
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseOptionalAttrDict(state.attributes)) return mlir::failure();
    return state.name.getRegisteredInfo()->verifyInherentAttrs(state.attributes, [&] {
        return parser.emitError(loc) << "'" << state.name.getStringRef() << "' op ";
    });
}

// The result types of the op's rule; emits an error if the operands or attributes break it. The
// rule reads an op, which is made for this purpose.
mlir::ParseResult inferTypes(mlir::OperationState &state, const Form &form, size_t count) {
    mlir::OperationState copy(state.location, state.name);
    llvm::SmallVector<MlirType> types(count);
    copy.addOperands(state.operands);
    copy.addTypes(llvm::SmallVector<mlir::Type>(count, state.operands[0].getType()));
    copy.attributes = state.attributes;
    mlir::Operation *op = mlir::Operation::create(copy);
    bool done =
        mlir::succeeded(form.verifyOperands(op)) && tsr_graph_infer(wrap(op), count, types.data());
    op->destroy();
    if (!done) return mlir::failure();
    for (MlirType type : types) state.types.push_back(unwrap(type));
    return mlir::success();
}

mlir::ParseResult addResults(mlir::OpAsmParser &parser, mlir::OperationState &state,
                             const Form &form, llvm::SMLoc loc) {
    size_t names = parser.getNumResults();
    size_t count = form.resultCount >= 0 ? static_cast<size_t>(form.resultCount) : names;
    if (form.resultTypes == ResultTypes::Declared || state.operands.empty())
        return parser.emitError(loc) << missingResults;
    if (form.operandCount >= 0 && state.operands.size() != static_cast<size_t>(form.operandCount))
        return parser.emitError(loc) << "expected " << form.operandCount << " operands, but found "
                                     << state.operands.size();
    if (form.resultTypes == ResultTypes::Inferred)
        return inferTypes(state, form, count ? count : 1);
    state.types.append(count, state.operands[0].getType());
    return mlir::success();
}

// Attributes that have their default values.
llvm::SmallVector<llvm::StringRef> findDefaults(mlir::Operation *op) {
    llvm::SmallVector<llvm::StringRef> names;
    mlir::Operation *plain = nullptr;
    for (mlir::StringAttr name : op->getRegisteredInfo()->getAttributeNames()) {
        std::optional<mlir::Attribute> value = op->getInherentAttr(name);
        if (!value || !*value) continue;
        if (!plain)
            plain = mlir::Operation::create(op->getLoc(), op->getName(), {}, {},
                                            mlir::DictionaryAttr::get(op->getContext()),
                                            mlir::OpaqueProperties(nullptr), {}, 0);
        if (plain->getInherentAttr(name) == value) names.push_back(name);
    }
    if (plain) plain->destroy();
    return names;
}

bool isInferred(mlir::Operation *op) {
    MlirType type;
    return llvm::cast<mlir::ShapedType>(op->getResult(0).getType()).hasStaticShape() ||
           (tsr_graph_infer(wrap(op), 1, &type) && unwrap(type) == op->getResult(0).getType());
}

// A result type that is the operands' is left out if reading the text infers it.
bool hasToPrintResults(mlir::Operation *op, const Form &form) {
    if (form.resultTypes == ResultTypes::Same) return false;
    if (form.resultTypes == ResultTypes::Declared || op->getNumResults() != 1) return true;
    auto isResult = [&](mlir::Type type) { return type == op->getResult(0).getType(); };
    return !llvm::all_of(op->getOperandTypes(), isResult) || !isInferred(op);
}

void printTypeGroup(mlir::OpAsmPrinter &printer, mlir::TypeRange types) {
    if (types.size() == 1)
        printer << types.front();
    else
        printer << '(' << types << ')';
}

void printOperandTypes(mlir::OpAsmPrinter &printer, mlir::TypeRange types) {
    printTypeGroup(printer, llvm::all_equal(types) && !types.empty() ? types.take_front() : types);
}
} // namespace

mlir::ParseResult parseForm(mlir::OpAsmParser &parser, mlir::OperationState &state,
                            const Form &form) {
    llvm::SmallVector<mlir::OpAsmParser::UnresolvedOperand> operands;
    llvm::SmallVector<mlir::Type> operandTypes, resultTypes;
    bool hasResults = false;
    if (form.keyword[0] && parsePredicate(parser, state, form.keyword)) return mlir::failure();
    if (parser.parseOperandList(operands) || parseAttributes(parser, state) || parser.parseColon())
        return mlir::failure();
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parseBoth(parser, state.name.getStringRef(), operands.size(), operandTypes, resultTypes,
                  hasResults) ||
        parser.resolveOperands(operands, operandTypes, loc, state.operands))
        return mlir::failure();
    if (!hasResults) return addResults(parser, state, form, loc);
    state.addTypes(resultTypes);
    return mlir::success();
}

void printForm(mlir::OpAsmPrinter &printer, mlir::Operation *op, const Form &form) {
    llvm::SmallVector<llvm::StringRef> hidden = findDefaults(op);
    if (form.keyword[0]) {
        auto value = op->getAttrOfType<graph::PredicateAttr>(form.keyword);
        printer << ' ' << graph::stringifyPredicate(value.getValue());
        hidden.push_back(form.keyword);
    }
    if (op->getNumOperands()) printer << ' ' << op->getOperands();
    printer.printOptionalAttrDict(op->getAttrs(), hidden);
    printer << " : ";
    if (!op->getNumOperands()) {
        printTypeGroup(printer, op->getResultTypes());
        return;
    }
    printOperandTypes(printer, op->getOperandTypes());
    if (!hasToPrintResults(op, form)) return;
    printer << " -> ";
    printTypeGroup(printer, op->getResultTypes());
}

namespace graph {
mlir::ParseResult parseTypes(mlir::OpAsmParser &parser, const Operands &operands,
                             llvm::SmallVectorImpl<mlir::Type> &operandTypes,
                             llvm::SmallVectorImpl<mlir::Type> &resultTypes) {
    bool hasResults = false;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parseBoth(parser, "the op", operands.size(), operandTypes, resultTypes, hasResults))
        return mlir::failure();
    if (hasResults) return mlir::success();
    return parser.emitError(loc) << missingResults;
}

mlir::ParseResult parseTypes(mlir::OpAsmParser &parser,
                             const mlir::OpAsmParser::UnresolvedOperand &operand,
                             mlir::Type &operandType,
                             llvm::SmallVectorImpl<mlir::Type> &resultTypes) {
    llvm::SmallVector<mlir::OpAsmParser::UnresolvedOperand> operands = {operand};
    llvm::SmallVector<mlir::Type> types;
    if (parseTypes(parser, operands, types, resultTypes)) return mlir::failure();
    operandType = types.front();
    return mlir::success();
}

void printTypes(mlir::OpAsmPrinter &printer, mlir::Operation *, mlir::ValueRange,
                mlir::TypeRange operandTypes, mlir::TypeRange resultTypes) {
    printOperandTypes(printer, operandTypes);
    printer << " -> ";
    printTypeGroup(printer, resultTypes);
}
void printTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Value operand,
                mlir::Type operandType, mlir::TypeRange resultTypes) {
    printTypes(printer, op, mlir::ValueRange(operand), mlir::TypeRange(operandType), resultTypes);
}
} // namespace graph
} // namespace tessera
