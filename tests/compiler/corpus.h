/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of tests of the whole compiler: the modules of .mlir files, and the ops of our
 * dialects.
 */
#ifndef TSR_TESTS_COMPILER_CORPUS_H
#define TSR_TESTS_COMPILER_CORPUS_H

#include "compiler/ir/mlir.h"

/* The bytes end with a NUL that is not counted; they are valid during the call. */
typedef void corpus_use(const char *path, const char *bytes, size_t size_bytes, void *user);

/* Appends the bytes of the file, and a NUL that is not counted. False: the file cannot be opened.
 */
bool corpus_read_file(const char *path, tsr_buffer *out);

/* Calls `use` for each module of the .mlir files in a folder and its subfolders, in alphabetical
 * order; a line "// -----" separates the modules of a file. The modules of a page (.md) are its
 * blocks of MLIR. False: a folder or file cannot be read.
 */
bool corpus_each(const char *folder, corpus_use *use, void *user);

/* Writes at most `max` names of the ops of our dialects; they are valid as long as the context.
 * Returns the number of all ops. */
size_t corpus_op_names(MlirContext context, const char **names, size_t max);

#endif
