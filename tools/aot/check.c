/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot check: the errors of a program, without a bundle.
 */
#include "runtime/base/array.h"
#include "tools/aot/aot.h"
#include "tools/aot/model.h"

typedef struct check {
    const char *source, *diagnostics;
    bool json, strict_python;
} check;

static void print_diag(void *user, const tsr_diag *diag) {
    const check *c = user;
    tsr_aot_print_diag(diag, c->json);
}

tsr_result tsr_aot_check(tsr_ctx *ctx, int argc, char **argv) {
    check c = {0};
    bool done = false;
    tsr_flag flags[] = {
        TSR_FLAG("--strict-python", SWITCH, NONE, &c.strict_python, NULL,
                 "refuse spellings of a .py that CPython does not read", 0, 0),
        TSR_FLAG("--diagnostics", TEXT, NONE, &c.diagnostics, "FORM", "text (default) or json", 0,
                 0),
    };
    const tsr_aot_word positional[] = {{"SRC", TSR_FILE_READ}, {NULL, TSR_FILE_NONE}};
    const tsr_aot_command_line line = {.name = "check",
                                       .flags = flags,
                                       .flag_count = TSR_COUNT(flags),
                                       .positional = positional,
                                       .out_words = &c.source,
                                       .user = &c};
    const char *targets[] = {"cpu:x86-64-v2"}; /* asked for, and not used by the first stage */
    tsr_compile_options options = {.size_bytes = sizeof options,
                                   .stage_limit = TSR_STAGE_GRAPH + 1,
                                   .targets = targets,
                                   .target_count = 1,
                                   .on_diag = print_diag,
                                   .user = &c};
    TRY(ctx, tsr_aot_parse(ctx, argc, argv, &line, &done));
    if (done) return TSR_SUCCESS;
    TRY(ctx, tsr_aot_read_form(ctx, "check", c.diagnostics, &c.json));
    options.source_path = c.source;
    options.strict_python = c.strict_python;
    TRY(ctx, tsr_aot_check_source(ctx, "check", &options));
    return tsr_compile(ctx, &options, NULL);
}
