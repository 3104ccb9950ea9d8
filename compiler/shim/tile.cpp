// SPDX-License-Identifier: Apache-2.0
//
// TableGen glue of dialect `tile`, and the syntax of tile.func and of its types. The rules of its
// ops are in C (compiler/tile/verify.c).
// clang-format off
#include "compiler/shim/glue.hpp"

#include <mlir/IR/TypeUtilities.h>
#include <mlir/Interfaces/ControlFlowInterfaces.h>

#include "compiler/tile_dialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/tile_types.h.inc"

#define GET_OP_CLASSES
#include "compiler/tile_ops.h.inc"

#include "compiler/tile_dialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/tile_types.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/tile_ops.cpp.inc"
// clang-format on

namespace tessera::tile {
void TileDialect::initialize() {
    addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/tile_types.cpp.inc"
        >();
    addOperations<
#define GET_OP_LIST
#include "compiler/tile_ops.cpp.inc"
        >();
}

#define TSR_RULE_NEVER(Class)
#define TSR_RULE_OP(Class) TSR_VERIFY(Class, tsr_tile_verify_op)
#define TSR_RULE_REGIONS(Class)                                                                    \
    mlir::LogicalResult Class::verifyRegions() {                                                   \
        return mlir::success(tsr_tile_verify_op(wrap(getOperation())));                            \
    }
#define X(ID, mnemonic, Class, WHEN, rule) TSR_RULE_##WHEN(Class)
#include "compiler/tile/ops.def"
#undef X

// <SxRxCxtype>
mlir::Type SharedType::parse(mlir::AsmParser &parser) {
    llvm::SmallVector<int64_t> dims;
    mlir::Type element;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseLess() || parser.parseDimensionList(dims, false) || parser.parseType(element) ||
        parser.parseGreater())
        return {};
    if (dims.size() != 3) {
        parser.emitError(loc, "expected stages, rows and columns");
        return {};
    }
    return get(parser.getContext(), dims[0], dims[1], dims[2], element);
}

void SharedType::print(mlir::AsmPrinter &printer) const {
    printer << '<' << getStages() << 'x' << getRows() << 'x' << getColumns() << 'x' << getElement()
            << '>';
}

// <RxCxtype, role>
mlir::Type FragmentType::parse(mlir::AsmParser &parser) {
    llvm::SmallVector<int64_t> dims;
    mlir::Type element;
    llvm::StringRef role;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseLess() || parser.parseDimensionList(dims, false) || parser.parseType(element) ||
        parser.parseComma() || parser.parseKeyword(&role) || parser.parseGreater())
        return {};
    if (dims.size() != 2 || (role != "acc" && role != "a")) {
        parser.emitError(loc, "expected rows and columns, and 'acc' or 'a'");
        return {};
    }
    return get(parser.getContext(), dims[0], dims[1], element, role);
}

void FragmentType::print(mlir::AsmPrinter &printer) const {
    printer << '<' << getRows() << 'x' << getColumns() << 'x' << getElement() << ", " << getRole()
            << '>';
}

// @name(%a: type, ...) grid N (warps N)? (registers N)? (shared N)? (attributes {...})? { ... }
static const char *const counts[] = {"warps", "registers", "shared"};

mlir::ParseResult FuncOp::parse(mlir::OpAsmParser &parser, mlir::OperationState &result) {
    mlir::StringAttr name;
    mlir::IntegerAttr grid;
    llvm::SmallVector<mlir::OpAsmParser::Argument> arguments;
    if (parser.parseSymbolName(name, "sym_name", result.attributes) ||
        parser.parseArgumentList(arguments, mlir::OpAsmParser::Delimiter::Paren, true) ||
        parser.parseKeyword("grid") ||
        parser.parseAttribute(grid, parser.getBuilder().getI64Type(), "grid", result.attributes))
        return mlir::failure();
    for (const char *name : counts) {
        mlir::IntegerAttr count;
        if (mlir::succeeded(parser.parseOptionalKeyword(name)) &&
            parser.parseAttribute(count, parser.getBuilder().getI64Type(), name, result.attributes))
            return mlir::failure();
    }
    if (parser.parseOptionalAttrDictWithKeyword(result.attributes)) return mlir::failure();
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
    for (const char *name : counts)
        if (auto count = (*this)->getAttrOfType<mlir::IntegerAttr>(name))
            printer << ' ' << name << ' ' << count.getInt();
    printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                             {"sym_name", "grid", "warps", "registers", "shared"});
    printer << ' ';
    printer.printRegion(getBody(), false, true);
}
} // namespace tessera::tile

bool tsr_shim_tile_shared(MlirType type, int64_t out_dims[3], MlirType *out_element) {
    auto shared = mlir::dyn_cast<tessera::tile::SharedType>(unwrap(type));
    if (!shared) return false;
    out_dims[0] = shared.getStages();
    out_dims[1] = shared.getRows();
    out_dims[2] = shared.getColumns();
    *out_element = wrap(shared.getElement());
    return true;
}

bool tsr_shim_tile_fragment(MlirType type, int64_t out_dims[2], MlirType *out_element,
                            bool *out_is_acc) {
    auto fragment = mlir::dyn_cast<tessera::tile::FragmentType>(unwrap(type));
    if (!fragment) return false;
    out_dims[0] = fragment.getRows();
    out_dims[1] = fragment.getColumns();
    *out_element = wrap(fragment.getElement());
    *out_is_acc = fragment.getRole() == "acc";
    return true;
}

MlirType tsr_shim_tile_shared_make(const int64_t dims[3], MlirType element) {
    return wrap(tessera::tile::SharedType::get(unwrap(element).getContext(), dims[0], dims[1],
                                               dims[2], unwrap(element)));
}

MlirType tsr_shim_tile_fragment_make(const int64_t dims[2], MlirType element, bool is_acc) {
    return wrap(tessera::tile::FragmentType::get(unwrap(element).getContext(), dims[0], dims[1],
                                                 unwrap(element), is_acc ? "acc" : "a"));
}

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tile, tile, tessera::tile::TileDialect)
