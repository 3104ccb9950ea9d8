/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-opt [options] [-PASS …] [FILE]: reads MLIR, runs passes in the order given, prints MLIR.
 */
#include "compiler/ir/mlir.h"
#include "compiler/process/guard.h"
#include "tools/common/files.h"
#include "tools/opt/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tool[] = "tessera-opt";

typedef struct options {
    const char *path, *name; /* as given; base name */
    tsr_buffer pipeline;
    tsr_print_form form;
    tsr_pass_options pass;
    bool split, json, no_output, bytecode, expect;
    tsr_expectations expectations; /* expectations of the current part */
} options;

static tsr_result print_help(tsr_ctx *ctx) {
    puts("usage: tessera-opt [options] [-PASS ...] [FILE]\n"
         "Reads MLIR, text or bytecode, from FILE (standard input if it is absent or '-'), runs "
         "the\n"
         "passes in the order given, and prints the result.\n\n"
         "  --help, --version\n"
         "  --split-input-file        parts divided by '// -----' are handled one by one\n"
         "  --verify-diagnostics      compare the diagnostics with comments of the text such as\n"
         "                            // expected-error@+1 {{words}} (error, warning, remark, "
         "note;\n"
         "                            @+N, @-N, @above, @below, @unknown); exit code 0 if they "
         "agree\n"
         "  --diagnostics=text|json   one JSON object a line on standard error\n"
         "  --mlir-print-op-generic   print the generic form\n"
         "  --mlir-print-debuginfo    print the location of every op\n"
         "  --emit-bytecode           write bytecode\n"
         "  --no-output               print only diagnostics\n"
         "  --print-ir-after-all      the module after each pass, on standard error\n"
         "  --print-ir-after-change   after each pass that changed it\n\n"
         "passes of Tessera:");
    for (size_t i = 0; i < tsr_pass_count; i++)
        printf("  -%-24s %s\n", tsr_passes[i].name, tsr_passes[i].summary);
    puts("\nsequences of passes:");
    for (size_t i = 0; i < tsr_pipeline_count; i++)
        printf("  -%-24s %s\n", tsr_pipelines[i].name, tsr_pipelines[i].summary);
    puts("\nA name may be a textual pipeline: '-cse,func.func(canonicalize{max-iterations=2})'.\n"
         "\npasses of MLIR, with their options:");
    if (fflush(stdout) != 0) return TSR_SUCCESS; /* tsr_tool_finish reports the reason */
    int error = tsr_passes_print_general();
    if (error) FAIL_ERRNO(ctx, TSR_IO, error, "cannot write to standard output");
    return TSR_SUCCESS;
}

static bool parse_flag(options *out, const char *name) {
    if (!strcmp(name, "split-input-file"))
        out->split = true;
    else if (!strcmp(name, "verify-diagnostics"))
        out->expect = true;
    else if (!strcmp(name, "mlir-print-op-generic"))
        out->form |= TSR_PRINT_GENERIC;
    else if (!strcmp(name, "mlir-print-debuginfo"))
        out->form |= TSR_PRINT_LOCATIONS;
    else if (!strcmp(name, "emit-bytecode"))
        out->bytecode = true;
    else if (!strcmp(name, "print-ir-after-all"))
        out->pass.print = TSR_PRINT_IR_AFTER_ALL;
    else if (!strcmp(name, "print-ir-after-change"))
        out->pass.print = TSR_PRINT_IR_AFTER_CHANGE;
    else if (!strcmp(name, "diagnostics=json"))
        out->json = true;
    else if (!strcmp(name, "diagnostics=text"))
        out->json = false;
    else if (!strcmp(name, "no-output"))
        out->no_output = true;
    else
        return false;
    return true;
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
        if (!parse_flag(out, name))
            tsr_buffer_printf(&out->pipeline, "%s%s", out->pipeline.size_bytes ? "," : "", name);
    }
    if (!out->expect || !out->json) return 0;
    fputs("tessera-opt: --verify-diagnostics compares, and prints no JSON\n", stderr);
    return TSR_USAGE;
}

static void print_diag(void *user, const tsr_diag *diag) {
    options *opts = user;
    tsr_buffer text = {0};
    if (opts->expect) {
        tsr_expect_meet(&opts->expectations, diag);
        return;
    }
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
 * printed here. After the last part the process exits without destroying the module op by op. */
static int run_part(options *opts, const char *text, size_t size_bytes, bool last) {
    tsr_ctx ctx = {0};
    tsr_diag_list list = {.on_diag = print_diag, .user = opts};
    MlirContext context = {NULL};
    MlirModule module = {NULL};
    tsr_buffer out = {0};
    tsr_result result = TSR_SUCCESS;
    if (opts->expect)
        TRY_GOTO(&ctx, result, tsr_expect_read(&ctx, opts->name, text, &opts->expectations));
    TRY_GOTO(&ctx, result, tsr_mlir_context_create(&ctx, &list, &context));
    TRY_GOTO(&ctx, result,
             tsr_mlir_parse(&ctx, context, &list, text, size_bytes, opts->name, &module));
    if (opts->pipeline.size_bytes)
        TRY_GOTO(&ctx, result,
                 tsr_mlir_run_passes(&ctx, module, &list, opts->pipeline.bytes, &opts->pass));
    if (!opts->no_output) {
        if (opts->bytecode)
            tsr_mlir_write_bytecode(module, &out);
        else
            tsr_mlir_print(mlirModuleGetOperation(module), opts->form, &out);
        fwrite(out.bytes, 1, out.size_bytes, stdout);
    }
done:
    if (result.code && result.code != TSR_COMPILE)
        fprintf(stderr, "tessera-opt: %s\n", ctx.error.text);
    if (opts->expect && (!result.code || result.code == TSR_COMPILE))
        result.code = tsr_expect_finish(&opts->expectations) ? TSR_OK : TSR_COMPILE;
    tsr_buffer_finish(&out);
    if (!last) {
        if (!mlirModuleIsNull(module)) mlirModuleDestroy(module);
        tsr_mlir_context_destroy(context);
    }
    tsr_diag_finish(&list);
    return (int)result.code;
}

/* Each part keeps the line numbers of the whole file: empty lines replace the text before it. */
static int run_parts(options *opts, const char *text) {
    static const char divider[] = "// -----";
    int exit_code = 0;
    size_t lines = 0;
    for (const char *at = text; at;) {
        const char *stop = strstr(at, divider);
        size_t length = stop ? (size_t)(stop - at) : strlen(at);
        tsr_buffer part = {0};
        for (size_t i = 0; i < lines; i++) tsr_buffer_text(&part, "\n");
        tsr_buffer_append(&part, at, length);
        int code = run_part(opts, part.bytes ? part.bytes : "", part.size_bytes, !stop);
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

/* Runs in a child process, because MLIR ends the process on some damaged inputs. */
static tsr_result run(tsr_ctx *ctx, void *user) {
    options *opts = user;
    tsr_buffer input = {0};
    (void)ctx; /* the failure has been printed */
    int code = read_input(opts->path, &input);
    if (!code) {
        const char *text = input.bytes ? input.bytes : "";
        code = opts->split ? run_parts(opts, text) : run_part(opts, text, input.size_bytes, true);
    }
    tsr_buffer_finish(&input);
    return (tsr_result){(tsr_code)code};
}

static tsr_result run_guarded(tsr_ctx *ctx, options *opts) {
    const tsr_guard_options guard = {
        .source = opts->name, .on_diag = print_diag, .user = opts, .owns_process = true};
    tsr_result result = tsr_guard_run(ctx, &guard, run, opts);
    /* Failures of the program have been printed; failures of the guard have a text. */
    if (result.code && ctx->error.text[0])
        fprintf(stderr, "%s: error: %s\n", tool, ctx->error.text);
    return result;
}

/* Standard output may be the input file. */
static tsr_result check_files(tsr_ctx *ctx, const options *opts) {
    tsr_files files = {0};
    bool is_stream = !opts->path || strcmp(opts->path, "-") == 0;
    tsr_result result =
        tsr_files_add(ctx, &files, "FILE", TSR_FILE_READ, is_stream ? NULL : opts->path);
    if (!result.code) result = tsr_files_check(ctx, &files);
    tsr_files_finish(&files);
    if (result.code) fprintf(stderr, "%s: error: %s\n", tool, ctx->error.text);
    return result;
}

static tsr_result read_and_run(tsr_ctx *ctx, int argc, char **argv) {
    options opts = {0};
    tsr_result result = {(tsr_code)parse_options(argc, argv, &opts)};
    if (!result.code) result = check_files(ctx, &opts);
    if (!result.code) {
        const char *slash = opts.path ? strrchr(opts.path, '/') : NULL;
        opts.name = !opts.path ? "-" : slash ? slash + 1 : opts.path;
        result = run_guarded(ctx, &opts);
    }
    tsr_buffer_finish(&opts.pipeline);
    return result;
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    bool help = false, version = false;
    tsr_tool_begin();
    for (int i = 1; i < argc && !help && !version; i++) {
        help = !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");
        version = !strcmp(argv[i], "--version");
    }
    if (help) return tsr_tool_finish(&ctx, tool, print_help(&ctx));
    tsr_result result = TSR_SUCCESS;
    if (version)
        puts("tessera-opt " TSR_VERSION_TEXT);
    else
        result = read_and_run(&ctx, argc, argv);
    return tsr_tool_end(tool, result);
}
