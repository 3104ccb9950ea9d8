/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of arrays whose shapes are known before their elements: rows are written as they come, of
 * several arrays by turns.
 *
 *     tsr_array_writer *writer = NULL;
 *     TRY_GOTO(ctx, result, tsr_array_writer_create(ctx, "out.npz", arrays, 2, &writer));
 *     … tsr_array_writer_append(ctx, writer, 0, rows, size) … until each array is complete …
 *     TRY_GOTO(ctx, result, tsr_array_writer_commit(ctx, writer));
 * done:
 *     tsr_array_writer_destroy(ctx, writer);
 */
#ifndef TSR_RUNTIME_DATA_ARRAY_WRITER_H
#define TSR_RUNTIME_DATA_ARRAY_WRITER_H

#include "runtime/base/tensor.h"

typedef struct tsr_array_writer tsr_array_writer;

/* The extension is the format: `.npy` (one array), `.npz` (a stored, zip64 member NAME.npy each,
 * without a date), `.safetensors`, `.bin` (one array, its elements alone), `.txt` (the same, of
 * elements of one byte); a name without an extension is a `.npy`. Equal arrays make equal bytes.
 * The data of `arrays` is not looked at, names are copied. TSR_USAGE: another extension, more than
 * one array for a file of one, a name that the format cannot hold, more than 2^63 bytes; TSR_IO.
 * Space for the whole file is reserved: TSR_IO where there is too little. */
TSR_RESULT tsr_array_writer_create(tsr_ctx *ctx, const char *path, const tsr_tensor *arrays,
                                   size_t array_count, tsr_array_writer **out_writer);
/* The next elements of arrays[array], little-endian, row-major; asserts that they are not too many.
 */
TSR_RESULT tsr_array_writer_append(tsr_ctx *ctx, tsr_array_writer *writer, size_t array,
                                   const void *elements, size_t size_bytes);
/* Makes the file appear under its name; asserts that every array is complete. */
TSR_RESULT tsr_array_writer_commit(tsr_ctx *ctx, tsr_array_writer *writer);
/* Leaves nothing of what was not committed; accepts NULL. */
void tsr_array_writer_destroy(tsr_ctx *ctx, tsr_array_writer *writer);
/* Of the temporary file: two spellings of one path have the same. */
int tsr_array_writer_get_fd(const tsr_array_writer *writer);

#endif
