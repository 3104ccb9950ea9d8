// SPDX-License-Identifier: Apache-2.0
//
// Passes, pipelines and instrumentation of pass managers; see shim.h.
//
// MLIR's manager verifies the module after each pass that does not report that it preserved all
// analyses. Our passes report this if the module's fingerprint is that of the last verified module,
// which this manager verified, or another one before it (tsr_diag_list.verified).
#include "compiler/shim/shim.h"

#include <llvm/Support/raw_ostream.h>
#include <mlir/CAPI/IR.h>
#include <mlir/CAPI/Pass.h>
#include <mlir/CAPI/Support.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/Pass/Pass.h>
#include <mlir/Pass/PassInstrumentation.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Pass/PassRegistry.h>

namespace {
class Fingerprint {
  public:
    void add(uint64_t word) {
        state = (state ^ word) * 0x9e3779b97f4a7c15u;
        state ^= state >> 32;
    }
    void add(const void *pointer) { add(reinterpret_cast<uintptr_t>(pointer)); }
    void add(mlir::Operation *op) {
        add(static_cast<const void *>(op));
        add(op->getName().getAsOpaquePointer());
        add(op->getLoc().getAsOpaquePointer());
        add(op->getRawDictionaryAttrs().getAsOpaquePointer());
        if (op->getPropertiesStorageSize()) add(static_cast<size_t>(op->hashProperties()));
        add(op->getNumOperands());
        for (mlir::Value operand : op->getOperands()) add(operand.getAsOpaquePointer());
        add(op->getNumResults());
        for (mlir::Type type : op->getResultTypes()) add(type.getAsOpaquePointer());
        for (mlir::Block *block : op->getSuccessors()) add(static_cast<const void *>(block));
        for (mlir::Region &region : op->getRegions()) {
            add(region.getBlocks().size());
            for (mlir::Block &block : region) add(block);
        }
    }
    uint64_t get() const { return state ? state : 1; } // 0 means: not verified

  private:
    void add(mlir::Block &block) {
        add(static_cast<const void *>(&block));
        for (mlir::BlockArgument argument : block.getArguments()) {
            add(argument.getType().getAsOpaquePointer());
            add(argument.getLoc().getAsOpaquePointer());
        }
        for (mlir::Operation &op : block) add(&op);
        add(uint64_t{0}); // end of the block
    }
    uint64_t state = 0x6a09e667f3bcc908u;
};

uint64_t fingerprint(mlir::Operation *op) {
    Fingerprint print;
    print.add(op);
    return print.get();
}

class ModulePass : public mlir::OperationPass<mlir::ModuleOp> {
  public:
    MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ModulePass)
    ModulePass(llvm::StringRef name, llvm::StringRef summary, bool (*run)(MlirModule module))
        : OperationPass(mlir::TypeID::get<ModulePass>()), name(name), summary(summary), run(run) {}

    llvm::StringRef getName() const override { return name; }
    llvm::StringRef getArgument() const override { return name; }
    llvm::StringRef getDescription() const override { return summary; }
    void runOnOperation() override {
        if (!run(wrap(getOperation()))) return signalPassFailure();
        if (!verified || getOperation()->getParentOp()) return;
        uint64_t is = fingerprint(getOperation());
        if (is == *verified) markAllAnalysesPreserved();
        *verified = is; // if verification fails, the manager stops here
    }

    uint64_t *verified = nullptr; // borrowed

  protected:
    std::unique_ptr<Pass> clonePass() const override {
        return std::make_unique<ModulePass>(name, summary, run);
    }

  private:
    llvm::StringRef name, summary;
    bool (*run)(MlirModule module);
};

struct Watcher : mlir::PassInstrumentation {
    Watcher(uint64_t *verified, void (*before)(const char *name),
            void (*after)(void *user, const char *name, MlirModule module), void *user)
        : verified(verified), before(before), after(after), user(user) {}
    void runBeforePass(mlir::Pass *pass, mlir::Operation *) override {
        if (isOurs(pass)) static_cast<ModulePass *>(pass)->verified = verified;
        std::string name = pass->getArgument().str();
        if (!name.empty()) before(name.c_str());
    }
    // Other passes leave a verified module verified or unchanged; an unknown state stays unknown.
    void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override {
        auto module = llvm::dyn_cast<mlir::ModuleOp>(op);
        if (!module || op->getParentOp()) return;
        if (*verified && !isOurs(pass)) *verified = fingerprint(op);
        std::string name = pass->getArgument().str();
        if (after && !name.empty()) after(user, name.c_str(), wrap(module));
    }
    static bool isOurs(mlir::Pass *pass) {
        return pass->getTypeID() == mlir::TypeID::get<ModulePass>();
    }
    uint64_t *verified;
    void (*before)(const char *name);
    void (*after)(void *user, const char *name, MlirModule module);
    void *user;
};
} // namespace

uint64_t tsr_shim_fingerprint(MlirOperation op) { return fingerprint(unwrap(op)); }

void tsr_shim_watch_passes(MlirPassManager manager, uint64_t *verified,
                           void (*before)(const char *name),
                           void (*after)(void *user, const char *name, MlirModule module),
                           void *user) {
    unwrap(manager)->addInstrumentation(std::make_unique<Watcher>(verified, before, after, user));
}

int tsr_shim_print_passes(void) {
    mlir::printRegisteredPasses();
    llvm::outs().flush();
    int error = llvm::outs().error().value();
    llvm::outs().clear_error(); // otherwise LLVM ends the process with a crash report
    return error;
}

void tsr_shim_register_pass(MlirStringRef name, MlirStringRef summary,
                            bool (*run)(MlirModule module)) {
    mlir::registerPass([name, summary, run]() -> std::unique_ptr<mlir::Pass> {
        return std::make_unique<ModulePass>(unwrap(name), unwrap(summary), run);
    });
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
