/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera-aot: makes and examines bundles. The commands are in tools/aot/.
 */
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/suggest.h"
#include "tools/aot/aot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tool[] = "tessera-aot";

typedef struct command {
    const char *name, *arguments, *about;
    tsr_result (*run)(tsr_ctx *ctx, int argc, char **argv);
    bool compiles; /* needs the compiler */
} command;

static const command commands[] = {
#define X(id, command_name, command_arguments, command_about)                                      \
    {command_name, command_arguments, command_about, tsr_aot_##id, true},
#include "tools/aot/compiler_commands.def"
#undef X
#define X(id, command_name, command_arguments, command_about)                                      \
    {command_name, command_arguments, command_about, tsr_aot_##id, false},
#include "tools/aot/commands.def"
#undef X
};
enum { COMMAND_COUNT = TSR_COUNT(commands), FLAGS_MAX = 32 };

static const command *find_command(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static bool is_there(const command *c) { return tsr_aot_compiles || !c->compiles; }

static void print_help(void) {
    printf("usage: tessera-aot COMMAND ...\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (is_there(&commands[i]))
            printf("  %-8s %-22s %s\n", commands[i].name, commands[i].arguments, commands[i].about);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!is_there(&commands[i]))
            printf("\nNot in this build, which has no compiler: %s (%s).\n", commands[i].name,
                   commands[i].about);
    printf("\n  --help, COMMAND --help, --version\n\nExit codes: docs/exit-codes.md.\n");
}

static tsr_result check_words(tsr_ctx *ctx, const tsr_aot_command_line *line, const char **words,
                              size_t count) {
    size_t wanted = 0, needed = 0;
    for (; line->positional[wanted].name; wanted++)
        if (line->positional[wanted].name[0] != '[') needed = wanted + 1;
    if (count < needed)
        FAIL(ctx, TSR_USAGE, "%s: %s is missing; see tessera-aot %s --help", line->name,
             line->positional[count].name, line->name);
    if (count > wanted)
        FAIL(ctx, TSR_USAGE, "%s: unexpected argument '%s'", line->name, words[wanted]);
    for (size_t i = 0; i < wanted; i++) line->out_words[i] = i < count ? words[i] : NULL;
    return TSR_SUCCESS;
}

static tsr_result check_files(tsr_ctx *ctx, const tsr_aot_command_line *line,
                              const tsr_flag *flags) {
    tsr_files files = {0};
    tsr_result result = TSR_SUCCESS;
    for (size_t i = 0; line->positional[i].name; i++)
        TRY_GOTO(ctx, result,
                 tsr_files_add(ctx, &files, line->positional[i].name, line->positional[i].use,
                               line->out_words[i]));
    TRY_GOTO(ctx, result, tsr_files_add_flags(ctx, &files, flags, line->flag_count));
    if (line->files) TRY_GOTO(ctx, result, line->files(ctx, line->user, &files));
    TRY_GOTO(ctx, result, tsr_files_check(ctx, &files));
done:
    tsr_files_finish(&files);
    return result.code ? tsr_error_prefix(ctx, result, "%s", line->name) : result;
}

tsr_result tsr_aot_parse(tsr_ctx *ctx, int argc, char **argv, const tsr_aot_command_line *line,
                         bool *out_done) {
    tsr_flag flags[FLAGS_MAX];
    bool help = false;
    size_t count = 0;
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    if (!words) FAIL(ctx, TSR_MEMORY, "no memory for the arguments");
    TSR_ASSERT(line->flag_count + 1 <= FLAGS_MAX);
    for (size_t i = 0; i < line->flag_count; i++) flags[i] = line->flags[i];
    flags[line->flag_count] =
        (tsr_flag)TSR_FLAG("--help", SWITCH, NONE, &help, NULL, "this text", 0, 0);
    tsr_result result =
        tsr_flags_parse(ctx, argc, argv, flags, line->flag_count + 1, words, &count);
    if (result.code) result = tsr_error_prefix(ctx, result, "%s", line->name);
    if (!result.code && help) {
        const command *self = find_command(line->name);
        TSR_ASSERT(self);
        printf("usage: tessera-aot %s %s\n%s\n\n", self->name, self->arguments, self->about);
        tsr_flags_print(flags, line->flag_count + 1);
        if (line->notes) printf("\n%s", line->notes);
    } else if (!result.code) {
        result = check_words(ctx, line, words, count);
        if (!result.code) result = check_files(ctx, line, flags);
    }
    free(words);
    *out_done = help;
    return result;
}

static tsr_result run(tsr_ctx *ctx, int argc, char **argv) {
    tsr_buffer names = {0};
    const command *chosen = argc > 1 ? find_command(argv[1]) : NULL;
    if (chosen) return chosen->run(ctx, argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        print_help();
        return TSR_SUCCESS;
    }
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("%s %s%s\n", tool, TSR_VERSION_TEXT,
               tsr_aot_compiles ? "" : " without the compiler");
        return TSR_SUCCESS;
    }
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = argc > 1 ? argv[1] : ""};
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (!is_there(&commands[i])) continue;
        tsr_buffer_printf(&names, " %s", commands[i].name);
        tsr_suggest(&likely, commands[i].name);
    }
    tsr_result result =
        tsr_fail_(ctx, TSR_USAGE, 0, __FILE__, __LINE__, "%s '%s'; known are%s%s",
                  argc > 1 ? "unknown command" : "no command", argc > 1 ? argv[1] : "",
                  names.bytes ? names.bytes : "", tsr_suggestion_text(&likely, meant));
    tsr_buffer_finish(&names);
    return result;
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {
        .log = tsr_tool_log, .log_user = (void *)(uintptr_t)tool, .log_level = TSR_LOG_NOTICE};
    tsr_tool_begin();
    return tsr_tool_finish(&ctx, tool, run(&ctx, argc, argv));
}
