/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers shared by the tests in this folder: a temporary directory, files with given bytes, and an
 * io table that fails at the n-th operation or returns short reads.
 */
#ifndef TSR_TESTS_DATA_FILES_H
#define TSR_TESTS_DATA_FILES_H

#include "runtime/base/io/io.h"
#include "runtime/base/tensor.h"

typedef struct files {
    char directory[64]; /* a folder in /tmp; created by files_init */
    char path[160];     /* result of the last files_path */
} files;

void files_init(files *self);
void files_finish(files *self); /* removes the directory and its contents */
/* Returns directory/name, valid until the next call. */
const char *files_path(files *self, const char *name);
/* Overwrites an existing file and then shortens it, which is much cheaper than truncating it
 * first. */
void files_write(files *self, const char *name, const void *bytes, size_t size_bytes);
/* Reads the whole file; the caller frees *out_bytes. */
void files_read(files *self, const char *name, unsigned char **out_bytes, size_t *out_size);
int files_count(files *self); /* entries of the directory */

/* An io table that calls the system's table. */
typedef struct faulty_io {
    tsr_io table;    /* a context points to this */
    long fail_at;    /* number of the operation that returns -EIO, from 1; 0: none */
    long count;      /* number of operations since faulty_init */
    size_t read_max; /* maximum size of a pread; 0: no limit */
} faulty_io;
void faulty_init(faulty_io *self);

/* Fails the test unless `result` is `code` and the text contains `part`. */
void expect_error(const tsr_ctx *ctx, tsr_result result, tsr_code code, const char *part);
void expect_success(const tsr_ctx *ctx, tsr_result result);

#endif
