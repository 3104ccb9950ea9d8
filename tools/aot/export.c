/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot export: an entry of a bundle as an ONNX model. The program is that of the bundle's
 * text, the parameters are those of the bundle or of a state.
 */
#include "bundle/bundle.h"
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "tessera/tessera.h"
#include "tools/aot/aot.h"
#include "tools/aot/model.h"

#include <stdio.h>
#include <unistd.h>

typedef struct export {
    const char *bundle, *output, *state, *diagnostics;
    bool json;
    tsr_onnx_export_options options;
    const char *graph, *params; /* temporary files */
    tsr_arena arena;
}
export;

static void print_diag(void *user, const tsr_diag *diag) {
    const export *e = user;
    if (diag->severity == TSR_SEVERITY_ERROR) tsr_aot_print_diag(diag, e->json);
}

static tsr_result add_files(tsr_ctx *ctx, const void *user, tsr_files *files) {
    const export *e = user;
    if (!e->output) FAIL(ctx, TSR_USAGE, "-o OUT is missing");
    return tsr_files_add_sibling(ctx, files, "-o", TSR_FILE_WRITE, e->output, ".data");
}

/* Writes the text of the program to a file that the compiler reads. */
static tsr_result write_graph(tsr_ctx *ctx, export *e) {
    tsr_bundle *bundle = NULL;
    tsr_bundle_layer layer;
    void *text = NULL;
    size_t size_bytes = 0;
    TRY(ctx, tsr_bundle_open(ctx, e->bundle, NULL, &bundle));
    tsr_result result = tsr_bundle_need_layer(ctx, bundle, 0, TSR_MEDIA_IR, &layer);
    if (!result.code)
        result = tsr_bundle_read_layer(ctx, bundle, &layer, &e->arena, &text, &size_bytes);
    if (!result.code) result = tsr_io_atomic_write(ctx, e->graph, text, size_bytes);
    tsr_bundle_close(ctx, bundle);
    return result;
}

/* Writes the parameters: those of the newest generation, or the initial ones. */
static tsr_result write_params(tsr_ctx *ctx, const export *e) {
    const tsr_model_options options = {.size_bytes = sizeof options};
    tsr_model *model = NULL;
    tsr_generation generation;
    TRY(ctx, tsr_model_open(ctx, e->bundle, &options, &model));
    tsr_result result = tsr_model_initialize(ctx, model, 0);
    if (!result.code && e->state)
        result = tsr_model_load_state(ctx, model, e->state, TSR_RESUME_AUTO, 0, &generation);
    if (!result.code) result = tsr_model_export_params(ctx, model, e->params);
    tsr_model_close(ctx, model);
    return result;
}

static tsr_result write_model(tsr_ctx *ctx, export *e) {
    const char *targets[] = {"cpu:x86-64-v2"}; /* asked for, and not used by the first stage */
    const tsr_compile_options options = {.size_bytes = sizeof options,
                                         .source_path = e->graph,
                                         .stage_limit = TSR_STAGE_GRAPH + 1,
                                         .targets = targets,
                                         .target_count = 1,
                                         .on_diag = print_diag,
                                         .user = e,
                                         .export = &e->options};
    e->options.path = e->output;
    e->options.params_path = e->params;
    TRY(ctx, write_graph(ctx, e));
    TRY(ctx, write_params(ctx, e));
    return tsr_compile(ctx, &options, NULL);
}

static tsr_result run(tsr_ctx *ctx, export *e) {
    const tsr_io *io = tsr_ctx_io(ctx);
    TRY(ctx, tsr_aot_read_form(ctx, "export", e->diagnostics, &e->json));
    if (!tsr_aot_is_onnx(e->output))
        FAIL(ctx, TSR_USAGE, "export: -o '%s' does not end in .onnx", e->output);
    e->graph = tsr_arena_printf(&e->arena, "%s.graph.%ld.mlir", e->output, (long)getpid());
    e->params = tsr_arena_printf(&e->arena, "%s.params.%ld.safetensors", e->output, (long)getpid());
    if (!e->graph || !e->params) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    tsr_result result = write_model(ctx, e);
    io->unlink(io->self, TSR_IO_CWD, e->graph, 0);
    io->unlink(io->self, TSR_IO_CWD, e->params, 0);
    return result;
}

tsr_result tsr_aot_export(tsr_ctx *ctx, int argc, char **argv) {
    export e = {0};
    bool done = false;
    tsr_flag flags[] = {
        TSR_FLAG("-o", TEXT, WRITE, &e.output, "OUT", "the model, whose name ends in .onnx", 0, 0),
        TSR_FLAG("--entry", TEXT, NONE, &e.options.entry, "NAME",
                 "the entry of kind \"infer\" (default: the only one)", 0, 0),
        TSR_FLAG("--state-dir", TEXT, READ, &e.state, "DIR",
                 "the parameters of the newest state in DIR (default: those of the bundle)", 0, 0),
        TSR_FLAG("--external", SWITCH, NONE, &e.options.is_external, NULL,
                 "store the parameters in OUT.data, as is always done above 2 GiB", 0, 0),
        TSR_FLAG("--diagnostics", TEXT, NONE, &e.diagnostics, "FORM", "text (default) or json", 0,
                 0),
    };
    const tsr_aot_word positional[] = {{"FILE", TSR_FILE_BUNDLE}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {.name = "export",
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &e.bundle,
                                       .files = add_files,
                                       .user = &e};
    tsr_result result = tsr_aot_parse(ctx, argc, argv, &line, &done);
    if (!result.code && !done) result = run(ctx, &e);
    tsr_arena_finish(&e.arena);
    return result;
}
