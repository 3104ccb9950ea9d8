/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of tessera-aot share.
 */
#ifndef TSR_TOOLS_AOT_AOT_H
#define TSR_TOOLS_AOT_AOT_H

#include "tools/common/options.h"

/* argv: what stands after the command's name. Results go to stdout, diagnostics of a source to
 * stderr; an error is returned. */
#define X(id, name, arguments, about) TSR_RESULT tsr_aot_##id(tsr_ctx *ctx, int argc, char **argv);
#include "tools/aot/commands.def"
#undef X

/* The command line of one command. `positional` are the words without a flag that it needs:
 * "SRC", NULL. Handles --help: prints usage and flags and sets *out_done. TSR_USAGE for too few or
 * too many words. */
typedef struct tsr_aot_command_line {
    const char *name;  /* of the command */
    const char *notes; /* printed after the flags; or NULL */
    tsr_flag *flags;   /* the command's own; --help is added */
    size_t flag_count;
    const char *const *positional; /* ends with NULL */
    const char **out_words;        /* one for each */
} tsr_aot_command_line;
TSR_RESULT tsr_aot_parse(tsr_ctx *ctx, int argc, char **argv, const tsr_aot_command_line *line,
                         bool *out_done);

#endif
