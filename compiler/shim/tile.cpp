// SPDX-License-Identifier: Apache-2.0
//
// TableGen glue of dialect `tile`, and the syntax of tile.func.
// clang-format off
#include "compiler/shim/shim.h"

#include <mlir/CAPI/IR.h>
#include <mlir/CAPI/Registration.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/IR/TypeUtilities.h>
#include <mlir/Interfaces/ControlFlowInterfaces.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>

#include "compiler/tile_dialect.h.inc"

#define GET_OP_CLASSES
#include "compiler/tile_ops.h.inc"

#include "compiler/tile_dialect.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/tile_ops.cpp.inc"
// clang-format on

namespace tessera::tile {
void TileDialect::initialize() {
    addOperations<
#define GET_OP_LIST
#include "compiler/tile_ops.cpp.inc"
        >();
}

// @name(%a: type, ...) grid N (attributes {...})? { ... }
mlir::ParseResult FuncOp::parse(mlir::OpAsmParser &parser, mlir::OperationState &result) {
    mlir::StringAttr name;
    mlir::IntegerAttr grid;
    llvm::SmallVector<mlir::OpAsmParser::Argument> arguments;
    if (parser.parseSymbolName(name, "sym_name", result.attributes) ||
        parser.parseArgumentList(arguments, mlir::OpAsmParser::Delimiter::Paren, true) ||
        parser.parseKeyword("grid") ||
        parser.parseAttribute(grid, parser.getBuilder().getI64Type(), "grid", result.attributes) ||
        parser.parseOptionalAttrDictWithKeyword(result.attributes))
        return mlir::failure();
    return parser.parseRegion(*result.addRegion(), arguments);
}

void FuncOp::print(mlir::OpAsmPrinter &printer) {
    printer << ' ';
    printer.printSymbolName(getSymName());
    printer << '(';
    llvm::interleaveComma(getBody().getArguments(), printer, [&](mlir::BlockArgument argument) {
        printer.printRegionArgument(argument);
    });
    printer << ") grid " << getGrid();
    printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"sym_name", "grid"});
    printer << ' ';
    printer.printRegion(getBody(), false, true);
}
} // namespace tessera::tile

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tile, tile, tessera::tile::TileDialect)
