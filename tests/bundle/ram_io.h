/* SPDX-License-Identifier: Apache-2.0
 *
 * An in-memory file system: one file under any path, or one directory of files. It has only the
 * operations that a reader of bundles calls; those that write fail with -EROFS.
 */
#ifndef TSR_TESTS_RAM_IO_H
#define TSR_TESTS_RAM_IO_H

#include "runtime/base/io/io.h"

typedef struct ram_file {
    const char *name; /* relative to the directory: "index.json", "blobs/sha256/…" */
    const void *bytes;
    size_t size_bytes;
} ram_file;

typedef struct ram_io {
    tsr_io io; /* the context points to this */
    bool is_directory;
    const ram_file *files; /* borrowed; if it is not a directory, only the first is used */
    size_t file_count;
    long fail_at;    /* the n-th pread (from 0) fails with -EIO; -1: none */
    size_t part_max; /* a pread returns at most this many bytes; 0: all */
    long read_count, open_count, close_count;
} ram_io;

void ram_io_init(ram_io *ram, bool is_directory, const ram_file *files, size_t file_count);

#endif
