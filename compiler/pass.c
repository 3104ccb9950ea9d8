/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of passes, and running them by name.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/mlir.h"
#include "compiler/process/guard.h"
#include "compiler/resilience/passes.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <mlir-c/Pass.h>
#include <mlir-c/Transforms.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

const tsr_pass tsr_passes[] = {
#define X(function, pass_name, pass_summary)                                                       \
    {.name = pass_name, .summary = pass_summary, .run = function},
#include "compiler/passes.def"
#undef X
};
const size_t tsr_pass_count = TSR_COUNT(tsr_passes);

const tsr_pipeline tsr_pipelines[] = {
#define X(pipeline_name, pipeline_summary, pipeline_passes)                                        \
    {.name = pipeline_name, .summary = pipeline_summary, .passes = pipeline_passes},
#include "compiler/pipelines.def"
#undef X
};
const size_t tsr_pipeline_count = TSR_COUNT(tsr_pipelines);

static void register_all(void) {
    mlirRegisterTransformsPasses();
    for (size_t i = 0; i < tsr_pass_count; i++)
        tsr_shim_register_pass(tsr_ref(tsr_passes[i].name), tsr_ref(tsr_passes[i].summary),
                               tsr_passes[i].run);
    for (size_t i = 0; i < tsr_pipeline_count; i++)
        tsr_shim_register_pipeline(tsr_ref(tsr_pipelines[i].name),
                                   tsr_ref(tsr_pipelines[i].summary),
                                   tsr_ref(tsr_pipelines[i].passes));
}

int tsr_passes_print_general(void) {
    mlirRegisterTransformsPasses();
    return tsr_shim_print_passes();
}

/* Registers all our passes and MLIR's general ones with MLIR; may be called repeatedly. */
static void register_passes(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_all);
}

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

tsr_result tsr_mlir_run_pass(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                             const char *pipeline) {
    return tsr_mlir_run_passes(ctx, module, list, pipeline, NULL);
}

/* "pass 'x': …", from the pass manager's message about unknown names. */
static void describe_failure(const char *pipeline, const char *message, tsr_buffer *out) {
    static const char before[] = "'";
    char wrong[128] = "";
    /* The remaining lines show the text with a caret. */
    tsr_buffer_printf(out, "pass '%s': %.*s", pipeline, (int)strcspn(message, "\n"), message);
    const char *quoted = strstr(message, before);
    if (!quoted || sscanf(quoted + 1, "%127[^']", wrong) != 1) return;
    tsr_suggestion suggestion = {.wrong = wrong};
    for (size_t i = 0; i < tsr_pass_count; i++) tsr_suggest(&suggestion, tsr_passes[i].name);
    for (size_t i = 0; i < tsr_pipeline_count; i++) tsr_suggest(&suggestion, tsr_pipelines[i].name);
    if (!suggestion.best) return;
    while (out->size_bytes && strchr("\n .", out->bytes[out->size_bytes - 1]))
        out->bytes[--out->size_bytes] = '\0';
    tsr_buffer_printf(out, "; did you mean '%s'?", suggestion.best);
}

static void enable_printing(MlirPassManager manager, tsr_print_ir print) {
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    mlirPassManagerEnableIRPrinting(manager, false, true, true, print == TSR_PRINT_IR_AFTER_CHANGE,
                                    false, flags, tsr_ref(""));
    mlirOpPrintingFlagsDestroy(flags);
}

tsr_result tsr_mlir_run_passes(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                               const char *pipeline, const tsr_pass_options *options) {
    static const tsr_pass_options none = {0};
    tsr_buffer message = {0}, text = {0};
    tsr_result result = TSR_SUCCESS;
    size_t errors_before = list->error_count;
    if (!options) options = &none;
    register_passes();
    MlirPassManager manager = mlirPassManagerCreate(mlirModuleGetContext(module));
    MlirOpPassManager root = mlirPassManagerGetAsOpPassManager(manager);
    if (list->verified != tsr_shim_fingerprint(mlirModuleGetOperation(module))) list->verified = 0;
    tsr_shim_watch_passes(manager, &list->verified, tsr_guard_note, options->after_pass,
                          options->user);
    if (options->print != TSR_PRINT_IR_NEVER) enable_printing(manager, options->print);
    if (mlirLogicalResultIsFailure(
            mlirOpPassManagerAddPipeline(root, tsr_ref(pipeline), append, &message))) {
        describe_failure(pipeline, message.bytes ? message.bytes : "unknown", &text);
        FAIL_GOTO(ctx, result, TSR_USAGE, "%s", text.bytes ? text.bytes : pipeline);
    }
    if (mlirLogicalResultIsFailure(
            mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(module)))) {
        list->verified = 0;
        if (list->error_count == errors_before)
            tsr_diag_error(mlirOperationGetLocation(mlirModuleGetOperation(module)), TSR_DIAG_PASS,
                           "pass '%s' failed", pipeline);
        result = tsr_diag_fail(ctx, list, strchr(pipeline, ',') ? "compiling" : pipeline);
    }
done:
    mlirPassManagerDestroy(manager);
    tsr_buffer_finish(&message);
    tsr_buffer_finish(&text);
    return result;
}

tsr_result tsr_mlir_verify(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                           const char *stage) {
    if (mlirOperationVerify(mlirModuleGetOperation(module))) return TSR_SUCCESS;
    return tsr_diag_fail(ctx, list, stage);
}
