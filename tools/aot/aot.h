/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the commands of tessera-aot.
 */
#ifndef TSR_TOOLS_AOT_AOT_H
#define TSR_TOOLS_AOT_AOT_H

#include "tools/common/files.h"

/* argv: the arguments after the command's name. Results go to stdout, diagnostics of a source to
 * stderr; errors are returned. */
#define X(id, name, arguments, about) TSR_RESULT tsr_aot_##id(tsr_ctx *ctx, int argc, char **argv);
#include "tools/aot/commands.def"
#include "tools/aot/compiler_commands.def"
#undef X

/* False in a build without the compiler, in which those of compiler_commands.def say so. */
extern const bool tsr_aot_compiles;

/* An argument without a flag, and how the command uses the file that it names. */
typedef struct tsr_aot_word {
    const char *name; /* "SRC"; "[SRC]" may be left out, and is NULL then */
    tsr_file_use use;
} tsr_aot_word;

/* The command line of one command. Handles --help: prints usage and flags and sets *out_done. Fails
 * with TSR_USAGE for too few or too many words. Checks the files named by flags and words
 * (tsr_files_check), and the files that `files` adds: those that the command writes next to them.
 */
typedef struct tsr_aot_command_line {
    const char *name;  /* name of the command */
    const char *notes; /* printed after the flags; or NULL */
    tsr_flag *flags;   /* the command's own; --help is added */
    size_t flag_count;
    const tsr_aot_word *positional; /* ends with a NULL name */
    const char **out_words;         /* one element for each word */
    /* May be NULL; called after flags and words were set. */
    TSR_RESULT (*files)(tsr_ctx *ctx, const void *user, tsr_files *files);
    const void *user; /* borrowed */
} tsr_aot_command_line;
TSR_RESULT tsr_aot_parse(tsr_ctx *ctx, int argc, char **argv, const tsr_aot_command_line *line,
                         bool *out_done);

#endif
