// SPDX-License-Identifier: Apache-2.0
//
// What MLIR's C API leaves out; see shim.h.
#include "compiler/shim/shim.h"

#include <mlir/CAPI/IR.h>
#include <mlir/CAPI/Pass.h>
#include <mlir/CAPI/Support.h>
#include <mlir/Dialect/Func/Extensions/InlinerExtension.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/Diagnostics.h>
#include <mlir/Parser/Parser.h>
#include <mlir/Pass/Pass.h>
#include <mlir/Pass/PassInstrumentation.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Pass/PassRegistry.h>

MlirModule tsr_shim_parse(MlirContext context, MlirStringRef source, MlirStringRef name) {
    mlir::ParserConfig config(unwrap(context));
    // Parsers of ours that look ahead stop at the NUL behind the copy.
    const std::string text = unwrap(source).str();
    return wrap(mlir::parseSourceString<mlir::ModuleOp>(text, config, unwrap(name)).release());
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

void tsr_shim_op_names(MlirContext context, MlirStringCallback each, void *user) {
    for (mlir::RegisteredOperationName name : unwrap(context)->getRegisteredOperations())
        each(wrap(name.getStringRef()), user);
}

namespace {
struct Watcher : mlir::PassInstrumentation {
    explicit Watcher(void (*before)(const char *name)) : before(before) {}
    void runBeforePass(mlir::Pass *pass, mlir::Operation *) override {
        llvm::StringRef argument = pass->getArgument();
        if (!argument.empty()) before(argument.str().c_str());
    }
    void (*before)(const char *name);
};
} // namespace

void tsr_shim_watch_passes(MlirPassManager manager, void (*before)(const char *name)) {
    unwrap(manager)->addInstrumentation(std::make_unique<Watcher>(before));
}

void tsr_shim_print_passes(void) { mlir::printRegisteredPasses(); }

void tsr_shim_register_pass(MlirPass (*make)(void *row), void *row) {
    mlir::registerPass([make, row] { return std::unique_ptr<mlir::Pass>(unwrap(make(row))); });
}

void tsr_shim_register_pipeline(MlirStringRef name, MlirStringRef summary, MlirStringRef passes) {
    llvm::StringRef text = unwrap(passes);
    mlir::registerPassPipeline(
        unwrap(name), unwrap(summary),
        [text](mlir::OpPassManager &manager, llvm::StringRef,
               llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)>) {
            return mlir::parsePassPipeline(text, manager);
        },
        [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
}

void tsr_shim_allow_inlining(MlirDialectRegistry registry) {
    mlir::func::registerInlinerExtension(*unwrap(registry));
}
