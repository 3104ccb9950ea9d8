/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a command line names. A tool lists all of them with their use; the check refuses
 * combinations that would destroy data, before any file is opened:
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
    const char *prefix, *suffix; /* TSR_FILE_FOLDER: names of the files written there; static */
    /* TSR_FILE_FOLDER: other text may come between prefix and suffix */
    bool between;
} tsr_file;

/* Zero-initialised means empty. */
typedef struct tsr_files {
    tsr_arena arena;
    tsr_file *rows; /* owned */
    size_t count, capacity;
} tsr_files;

void tsr_files_finish(tsr_files *files);
/* Adds a path; NULL adds nothing. For an array's spec its path is added, for a bundle its
 * signatures too. The path is borrowed. */
TSR_RESULT tsr_files_add(tsr_ctx *ctx, tsr_files *files, const char *flag, tsr_file_use use,
                         const char *path);
/* Adds PATH followed by a suffix: "OUT.part". */
TSR_RESULT tsr_files_add_sibling(tsr_ctx *ctx, tsr_files *files, const char *flag, tsr_file_use use,
                                 const char *path, const char *suffix);
/* Adds a file NAME.SUFFIX that is written in a folder; with `between` also all NAME.….SUFFIX. */
TSR_RESULT tsr_files_add_names(tsr_ctx *ctx, tsr_files *files, const char *flag, const char *folder,
                               const char *prefix, const char *suffix, bool between);
/* Adds the files of every given flag, with the use stated in its row. */
TSR_RESULT tsr_files_add_flags(tsr_ctx *ctx, tsr_files *files, const tsr_flag *flags,
                               size_t flag_count);

/* Compares files by path in any spelling, by symbolic link and by inode, whether they exist or not.
 * Only regular files conflict: a terminal, a pipe or /dev/null may be named twice. Standard output
 * and standard error count as written files if they are redirected to a file. Fails with TSR_USAGE
 * if a written file is also read, is written by another flag (outputs of one flag may share a
 * file), is in a directory that is read or in a state directory, or has a name of another format
 * than the tool writes. Fails with TSR_IO if a file to be written is a directory, cannot be
 * replaced (TSR_FILE_WRITE to a device or pipe), its folder does not exist or is not writable, or
 * links form a cycle. */
TSR_RESULT tsr_files_check(tsr_ctx *ctx, const tsr_files *files);

#endif
