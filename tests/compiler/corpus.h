/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the whole compiler go through: the modules of .mlir files, and the ops of our
 * dialects.
 */
#ifndef TSR_TESTS_COMPILER_CORPUS_H
#define TSR_TESTS_COMPILER_CORPUS_H

#include "compiler/mlir.h"

/* The bytes end with a NUL that is not counted; they are valid during the call. */
typedef void corpus_use(const char *path, const char *bytes, size_t size_bytes, void *user);

/* Appends the file's bytes, and a NUL that is not counted. False: it cannot be opened. */
bool corpus_read_file(const char *path, tsr_buffer *out);

/* Each module of the .mlir files of a folder and of those below it, in alphabetical order; a line
 * "// -----" separates the modules of a file. False: a folder or file cannot be read. */
bool corpus_each(const char *folder, corpus_use *use, void *user);

/* The names of the ops of our dialects, which live as long as the context. Returns their number,
 * of which at most `max` are written. */
size_t corpus_op_names(MlirContext context, const char **names, size_t max);

#endif
