/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-opt [options] [-PASS …] [FILE]: reads MLIR, runs passes in the order given, prints MLIR.
 */
#include "compiler/mlir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *path;
    tsr_buffer pipeline;
    bool generic, split, json, no_output;
} options;

static void print_help(void) {
    puts("usage: tessera-opt [options] [-PASS ...] [FILE]\n"
         "Reads MLIR from FILE (standard input if it is absent or '-'), runs the passes in the\n"
         "order given, and prints the result.\n\n"
         "  --help, --version\n"
         "  --split-input-file        parts divided by '// -----' are handled one by one\n"
         "  --mlir-print-op-generic   print the generic form\n"
         "  --diagnostics=json        one JSON object a line on standard error\n"
         "  --no-output               print only diagnostics\n\n"
         "passes (and every general pass of MLIR, such as -canonicalize, -cse, -inline):");
    for (size_t i = 0; i < tsr_pass_count; i++)
        printf("  -%-24s %s\n", tsr_passes[i].name, tsr_passes[i].summary);
    puts("\nsequences of passes:");
    for (size_t i = 0; i < tsr_pipeline_count; i++)
        printf("  -%-24s %s\n", tsr_pipelines[i].name, tsr_pipelines[i].summary);
}

static int parse_options(int argc, char **argv, options *out) {
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (arg[0] != '-' || !arg[1]) {
            if (out->path) {
                fprintf(stderr, "tessera-opt: two input files: '%s' and '%s'\n", out->path, arg);
                return TSR_USAGE;
            }
            out->path = arg;
            continue;
        }
        const char *name = arg + (arg[1] == '-' ? 2 : 1);
        if (!strcmp(name, "split-input-file"))
            out->split = true;
        else if (!strcmp(name, "mlir-print-op-generic"))
            out->generic = true;
        else if (!strcmp(name, "diagnostics=json"))
            out->json = true;
        else if (!strcmp(name, "diagnostics=text"))
            out->json = false;
        else if (!strcmp(name, "no-output"))
            out->no_output = true;
        else
            tsr_buffer_printf(&out->pipeline, "%s%s", out->pipeline.size_bytes ? "," : "", name);
    }
    return 0;
}

static void print_diag(void *user, const tsr_diag *diag) {
    const options *opts = user;
    tsr_buffer text = {0};
    if (opts->json) {
        tsr_diag_format_json(diag, &text);
        tsr_buffer_text(&text, "\n");
    } else {
        tsr_diag_format(diag, &text);
    }
    fwrite(text.bytes, 1, text.size_bytes, stderr);
    tsr_buffer_finish(&text);
}

/* Handles one part of the input. Errors of the program were printed as diagnostics; others are
 * printed here. */
static int run_part(options *opts, const char *text, size_t size_bytes, const char *name) {
    tsr_ctx ctx = {0};
    tsr_diag_list list = {.on_diag = print_diag, .user = opts};
    MlirContext context = {NULL};
    MlirModule module = {NULL};
    tsr_buffer out = {0};
    tsr_result result;
    TRY_GOTO(&ctx, result, tsr_mlir_context_create(&ctx, &list, &context));
    TRY_GOTO(&ctx, result, tsr_mlir_parse(&ctx, context, &list, text, size_bytes, name, &module));
    if (opts->pipeline.size_bytes)
        TRY_GOTO(&ctx, result, tsr_mlir_run_pass(&ctx, module, &list, opts->pipeline.bytes));
    tsr_mlir_print(mlirModuleGetOperation(module),
                   opts->generic ? TSR_PRINT_GENERIC : TSR_PRINT_PRETTY, &out);
    if (!opts->no_output) fwrite(out.bytes, 1, out.size_bytes, stdout);
done:
    if (result.code && result.code != TSR_COMPILE)
        fprintf(stderr, "tessera-opt: %s\n", ctx.error.text);
    tsr_buffer_finish(&out);
    if (!mlirModuleIsNull(module)) mlirModuleDestroy(module);
    tsr_mlir_context_destroy(context);
    tsr_diag_finish(&list);
    return (int)result.code;
}

/* Parts keep the line numbers of the whole file: what stands before becomes empty lines. */
static int run_parts(options *opts, const char *text, const char *name) {
    static const char divider[] = "// -----";
    int exit_code = 0;
    size_t lines = 0;
    for (const char *at = text; at;) {
        const char *stop = strstr(at, divider);
        size_t length = stop ? (size_t)(stop - at) : strlen(at);
        tsr_buffer part = {0};
        for (size_t i = 0; i < lines; i++) tsr_buffer_text(&part, "\n");
        tsr_buffer_append(&part, at, length);
        int code = run_part(opts, part.bytes ? part.bytes : "", part.size_bytes, name);
        if (code && !exit_code) exit_code = code;
        tsr_buffer_finish(&part);
        for (size_t i = 0; i < length; i++) lines += at[i] == '\n';
        at = stop ? stop + strlen(divider) : NULL;
        if (at && !opts->no_output) fputs("\n// -----\n", stdout);
    }
    return exit_code;
}

static int read_input(const char *path, tsr_buffer *out) {
    FILE *file = path && strcmp(path, "-") ? fopen(path, "rb") : stdin;
    char chunk[65536];
    size_t got;
    if (!file) {
        fprintf(stderr, "tessera-opt: cannot open '%s'\n", path);
        return TSR_IO;
    }
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0) tsr_buffer_append(out, chunk, got);
    bool failed = ferror(file) || out->failed;
    if (file != stdin) fclose(file);
    if (failed) fprintf(stderr, "tessera-opt: cannot read '%s'\n", path ? path : "-");
    return failed ? TSR_IO : 0;
}

int main(int argc, char **argv) {
    options opts = {0};
    tsr_buffer input = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return print_help(), 0;
        if (!strcmp(argv[i], "--version")) return puts("tessera-opt " TSR_VERSION_TEXT), 0;
    }
    int code = parse_options(argc, argv, &opts);
    if (!code) code = read_input(opts.path, &input);
    if (!code) {
        const char *slash = opts.path ? strrchr(opts.path, '/') : NULL;
        const char *name = !opts.path ? "-" : slash ? slash + 1 : opts.path;
        const char *text = input.bytes ? input.bytes : "";
        code = opts.split ? run_parts(&opts, text, name)
                          : run_part(&opts, text, input.size_bytes, name);
    }
    tsr_buffer_finish(&input);
    tsr_buffer_finish(&opts.pipeline);
    if (fflush(stdout) != 0 && !code) code = TSR_IO;
    return code;
}
