/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot import: an ONNX model as Graph IR, with its parameters in a file of their own.
 */
#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "tools/aot/aot.h"
#include "tools/aot/model.h"

#include <stdio.h>
#include <string.h>

typedef struct import {
    const char *source, *output, *weights, *diagnostics;
    bool json;
    tsr_flag_list dims;
    tsr_aot_training training;
    tsr_aot_links links;
    tsr_dim_binding bindings[TSR_FLAG_LIST_MAX];
    tsr_arena arena;
} import;

static void print_diag(void *user, const tsr_diag *diag) {
    const import *im = user;
    tsr_aot_print_diag(diag, im->json);
}

static tsr_result write_text(tsr_ctx *ctx, void *user, tsr_stage stage, const char *target,
                             const char *text, size_t size_bytes) {
    const import *im = user;
    (void)stage, (void)target;
    return tsr_io_atomic_write(ctx, im->output, text, size_bytes);
}

/* OUT.mlir has its parameters in OUT.safetensors. */
static tsr_result name_weights(tsr_ctx *ctx, import *im) {
    size_t length = strlen(im->output);
    bool ends = length > 5 && strcmp(im->output + length - 5, ".mlir") == 0;
    im->weights = tsr_arena_printf(&im->arena, "%.*s.safetensors",
                                   (int)(ends ? length - 5 : length), im->output);
    if (!im->weights) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    return TSR_SUCCESS;
}

static tsr_result add_files(tsr_ctx *ctx, const void *user, tsr_files *files) {
    import *im = (import *)(uintptr_t)user;
    if (!im->output) FAIL(ctx, TSR_USAGE, "-o OUT is missing");
    TRY(ctx, name_weights(ctx, im));
    return tsr_files_add(ctx, files, "-o", TSR_FILE_WRITE, im->weights);
}

static tsr_result run(tsr_ctx *ctx, import *im) {
    /* The first stages need no target; the name of one that exists is asked for. */
    const char *targets[] = {"cpu:x86-64-v2"};
    tsr_compile_options options = {.size_bytes = sizeof options,
                                   .source_path = im->source,
                                   .stage_limit = TSR_STAGE_GRAPH + 1,
                                   .targets = targets,
                                   .target_count = 1,
                                   .dump = {[TSR_STAGE_GRAPH] = true},
                                   .dump_whole = true,
                                   .on_dump = write_text,
                                   .on_diag = print_diag,
                                   .user = im,
                                   .dims = im->bindings,
                                   .dim_count = im->dims.count,
                                   .weights_path = im->weights};
    if (!tsr_aot_is_onnx(im->source))
        FAIL(ctx, TSR_USAGE, "import: '%s' does not end in .onnx", im->source);
    TRY(ctx, tsr_aot_read_form(ctx, "import", im->diagnostics, &im->json));
    TRY(ctx, tsr_aot_read_dims(ctx, "import", &im->dims, &im->arena, im->bindings));
    TRY(ctx, tsr_aot_read_training(ctx, "import", &im->training, im->source, &options.training));
    TRY(ctx, tsr_aot_read_links(ctx, "import", &im->links, &im->training, &im->arena, &options));
    return tsr_compile(ctx, &options, NULL);
}

tsr_result tsr_aot_import(tsr_ctx *ctx, int argc, char **argv) {
import im = {0 };
    bool done = false;
    tsr_flag flags[] = {
        TSR_FLAG("-o", TEXT, WRITE, &im.output, "OUT",
                 "the program; its parameters go to a file beside it that ends in .safetensors", 0,
                 0),
        TSR_FLAG("--dim", LIST, NONE, &im.dims, "NAME=SIZE", "the size of an open dim of the model",
                 0, 0),
        TSR_FLAG("--train", TEXT, NONE, &im.training.loss, "EXPR",
                 "add a train entry: the loss, as cross_entropy(logits, labels)", 0, 0),
        TSR_FLAG("--optimizer", TEXT, NONE, &im.training.optimizer, "CALL",
                 "with --train: the optimizer, as adamw(lr=1e-3, weight_decay=0.01)", 0, 0),
        TSR_FLAG("--freeze", LIST, NONE, &im.training.freeze, "PATTERN",
                 "with --train: do not train parameters of such names, as 'stem.*'", 0, 0),
        TSR_FLAG("--data-type", LIST, NONE, &im.training.data_types, "NAME=TYPE",
                 "with --train: the type of new data, as labels=i64[N]", 0, 0),
        TSR_FLAG("--link", PAIR, READ, &im.links.files, "NAME=PATH",
                 "a program whose functions are added, for --op", 0, 0),
        TSR_FLAG("--op", LIST, NONE, &im.links.ops, "DOMAIN:NAME=@FUNCTION",
                 "nodes of a custom op call a function of a linked program", 0, 0),
        TSR_FLAG("--diagnostics", TEXT, NONE, &im.diagnostics, "FORM", "text (default) or json", 0,
                 0),
    };
    const tsr_aot_word positional[] = {{"MODEL", TSR_FILE_READ}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {.name = "import",
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &im.source,
                                       .files = add_files,
                                       .user = &im};
    tsr_result result = tsr_aot_parse(ctx, argc, argv, &line, &done);
    if (!result.code && !done) result = run(ctx, &im);
    tsr_flag_pairs_finish(&im.links.files);
    tsr_arena_finish(&im.arena);
    return result;
}
