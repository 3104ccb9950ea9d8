// SPDX-License-Identifier: Apache-2.0
//
// Functions that MLIR's C API lacks; see shim.h.
#include "compiler/shim/read.h"
#include "compiler/shim/shim.h"

#include <llvm/Support/ErrorHandling.h>
#include <mlir/CAPI/IR.h>
#include <mlir/CAPI/Support.h>
#include <mlir/Dialect/Func/Extensions/InlinerExtension.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/IR/SymbolTable.h>
#include <mlir/Parser/Parser.h>

#include <cassert>
#include <new>

static MlirModule parse(MlirContext context, llvm::StringRef text, MlirStringRef name) {
    mlir::ParserConfig config(unwrap(context), /*verifyAfterParse=*/false);
    return wrap(mlir::parseSourceString<mlir::ModuleOp>(text, config, unwrap(name)).release());
}

// The text must be followed by a NUL.
MlirModule tsr_shim_parse(MlirContext context, MlirStringRef source, MlirStringRef name) {
    assert(source.data[source.length] == '\0' && "parsers that look ahead stop there");
    return parse(context, unwrap(source), name);
}

// The copy is aligned, as the bytecode reader requires, and ends with a NUL.
MlirModule tsr_shim_read(MlirContext context, MlirStringRef source, MlirStringRef name) {
    const std::string text = unwrap(source).str();
    return parse(context, text, name);
}

void tsr_shim_verify_ops(MlirModule module, bool symbols, bool (*goes_on)(void *user), void *user) {
    mlir::SymbolTableCollection tables;
    unwrap(module)->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) {
        if (!goes_on(user)) return mlir::WalkResult::interrupt();
        auto info = op->getRegisteredInfo();
        if (!info || mlir::failed(info->verifyInvariants(op)) || !symbols)
            return mlir::WalkResult::advance();
        if (auto names = llvm::dyn_cast<mlir::SymbolUserOpInterface>(op))
            (void)names.verifySymbolUses(tables);
        return mlir::WalkResult::advance();
    });
}

void tsr_shim_quiet_diagnostics(MlirContext context) {
    unwrap(context)->printOpOnDiagnostic(false);
}

void tsr_shim_emit_error(MlirLocation location, MlirStringRef text, size_t note_count,
                         const MlirLocation *note_locations, const MlirStringRef *notes) {
    mlir::InFlightDiagnostic diagnostic = mlir::emitError(unwrap(location)) << unwrap(text);
    for (size_t i = 0; i < note_count; i++)
        diagnostic.attachNote(unwrap(note_locations[i])) << unwrap(notes[i]);
}

bool tsr_shim_shape(MlirType type, size_t limit, MlirType *out_element, int64_t *out_dims,
                    size_t *out_rank, MlirAttribute *out_encoding) {
    llvm::ArrayRef<int64_t> dims;
    *out_encoding = {nullptr};
    if (auto tensor = llvm::dyn_cast_if_present<mlir::RankedTensorType>(unwrap(type))) {
        dims = tensor.getShape(); /* the most frequent type: needs no interface lookup */
        *out_element = wrap(tensor.getElementType());
        *out_encoding = wrap(tensor.getEncoding());
    } else {
        auto shaped = llvm::dyn_cast_if_present<mlir::ShapedType>(unwrap(type));
        if (!shaped || !shaped.hasRank()) return false;
        dims = shaped.getShape();
        *out_element = wrap(shaped.getElementType());
    }
    if (dims.size() > limit) return false;
    llvm::copy(dims, out_dims);
    *out_rank = dims.size();
    return true;
}

const void *tsr_shim_op_type(MlirContext context, MlirStringRef name) {
    auto info = mlir::RegisteredOperationName::lookup(unwrap(name), unwrap(context));
    return info ? info->getTypeID().getAsOpaquePointer() : nullptr;
}

void tsr_shim_op_names(MlirContext context, MlirStringCallback each, void *user) {
    for (mlir::RegisteredOperationName name : unwrap(context)->getRegisteredOperations())
        each(wrap(name.getStringRef()), user);
}

void tsr_shim_attribute_names(MlirOperation op, MlirStringCallback each, void *user) {
    if (auto info = unwrap(op)->getRegisteredInfo())
        for (mlir::StringAttr name : info->getAttributeNames()) each(wrap(name.getValue()), user);
}

void tsr_shim_allow_inlining(MlirDialectRegistry registry) {
    mlir::func::registerInlinerExtension(*unwrap(registry));
}

static void (*on_no_memory)(void);

void tsr_shim_on_no_memory(void (*handler)(void)) {
    on_no_memory = handler;
    std::set_new_handler(handler);
    llvm::remove_bad_alloc_error_handler();
    llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { on_no_memory(); },
                                          nullptr);
}
