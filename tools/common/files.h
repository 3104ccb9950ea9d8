/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a command line names. A tool lists all of them, and what it does with each; the
 * check refuses what would destroy data before anything is opened:
 *
 *     tsr_files files = {0};
 *     TRY_GOTO(ctx, result, tsr_files_add_flags(ctx, &files, flags, flag_count));
 *     TRY_GOTO(ctx, result, tsr_files_add(ctx, &files, "FILE", TSR_FILE_BUNDLE, path));
 *     TRY_GOTO(ctx, result, tsr_files_check(ctx, &files));
 * done:
 *     tsr_files_finish(&files);
 */
#ifndef TSR_TOOLS_COMMON_FILES_H
#define TSR_TOOLS_COMMON_FILES_H

#include "runtime/base/arena.h"
#include "tools/common/options.h"

typedef struct tsr_file {
    const char *flag; /* static: "--params", or the word of the usage line, "FILE" */
    const char *path; /* in the arena, or borrowed */
    tsr_file_use use;
    const char *prefix, *suffix; /* of TSR_FILE_FOLDER: names of the files written there; static */
    bool between;                /* of TSR_FILE_FOLDER: more may stand between prefix and suffix */
} tsr_file;

/* Zero-initialised is empty. */
typedef struct tsr_files {
    tsr_arena arena;
    tsr_file *rows; /* owned */
    size_t count, room;
} tsr_files;

void tsr_files_finish(tsr_files *files);
/* A path of NULL adds nothing. Of an array's spec the path is added, of a bundle its signatures
 * too. The path is borrowed. */
TSR_RESULT tsr_files_add(tsr_ctx *ctx, tsr_files *files, const char *flag, tsr_file_use use,
                         const char *path);
/* PATH followed by a suffix: "OUT.part". */
TSR_RESULT tsr_files_add_beside(tsr_ctx *ctx, tsr_files *files, const char *flag, tsr_file_use use,
                                const char *path, const char *suffix);
/* A file NAME.SUFFIX that is written in a folder; with `between` also all NAME.….SUFFIX. */
TSR_RESULT tsr_files_add_names(tsr_ctx *ctx, tsr_files *files, const char *flag, const char *folder,
                               const char *prefix, const char *suffix, bool between);
/* Every flag that was given, by the use that its row states. */
TSR_RESULT tsr_files_add_flags(tsr_ctx *ctx, tsr_files *files, const tsr_flag *flags,
                               size_t flag_count);

/* Compares files by path, whatever its spelling, by symbolic link and by inode, whether they exist
 * or not. What is no regular file (a terminal, a pipe, /dev/null) may be named twice. Standard
 * output and standard error count as files that are written where they are redirected to one.
 *
 * TSR_USAGE: a file that is written is also read, or is written by another flag (outputs of one
 * flag may share a file), or lies in a directory that is read, or in a state directory, or has a
 * name of another format than the tool writes. TSR_IO: a file to be written is a directory, cannot
 * be replaced (TSR_FILE_WRITE of a device or pipe), its folder does not exist or may not be written
 * in, or links lead in a circle. */
TSR_RESULT tsr_files_check(tsr_ctx *ctx, const tsr_files *files);

#endif
