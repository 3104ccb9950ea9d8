/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of this folder share: a directory that is removed, files made of bytes, and an io
 * table that fails at the n-th operation or reads little at a time.
 */
#ifndef TSR_TESTS_DATA_FILES_H
#define TSR_TESTS_DATA_FILES_H

#include "runtime/base/io.h"
#include "runtime/base/tensor.h"

typedef struct files {
    char directory[64]; /* under /tmp; made by files_init */
    char path[160];     /* of the last files_path */
} files;

void files_init(files *self);
void files_finish(files *self); /* removes the directory and what lies in it */
/* directory/name; valid until the next call. */
const char *files_path(files *self, const char *name);
/* Writes over a file that is there and cuts it, which is much cheaper than truncating it first. */
void files_write(files *self, const char *name, const void *bytes, size_t size_bytes);
/* The caller frees *out_bytes. */
void files_read(files *self, const char *name, unsigned char **out_bytes, size_t *out_size);
int files_count(files *self); /* entries of the directory */

/* An io table over the system's. */
typedef struct faulty_io {
    tsr_io table;    /* give &self.table to a context */
    long fail_at;    /* this operation (from 1) gives -EIO; 0: none */
    long count;      /* operations so far */
    size_t read_max; /* bytes of a pread; 0: no limit */
} faulty_io;
void faulty_init(faulty_io *self);

/* Fails the test unless `result` is `code` and the text contains `part`. */
void expect_error(const tsr_ctx *ctx, tsr_result result, tsr_code code, const char *part);
void expect_success(const tsr_ctx *ctx, tsr_result result);

#endif
