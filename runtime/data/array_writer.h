/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a file of arrays whose shapes are known before their elements: rows are written as they
 * arrive, also alternately for several arrays.
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

/* The extension determines the format: `.npy` (one array), `.npz` (one stored zip64 member NAME.npy
 * per array, without a date), `.safetensors`, `.bin` (only the elements of one array), `.txt` (the
 * same, for one-byte elements); a name without an extension is a `.npy`. Equal arrays give equal
 * bytes. The data of `arrays` is not read, names are copied. TSR_USAGE: another extension, more
 * than one array for a format with one, a name that the format does not allow, more than 2^63
 * bytes; TSR_IO. Space for the complete file is reserved: TSR_IO if there is not enough.
 * TSR_ARRAY_STREAM writes one array to standard output as a .npy, element by element, beginning
 * with the first append, or the commit of an array without elements: after an error its reader has
 * a part of it. */
TSR_RESULT tsr_array_writer_create(tsr_ctx *ctx, const char *path, const tsr_tensor *arrays,
                                   size_t array_count, tsr_array_writer **out_writer);
/* Writes the next elements of arrays[array], little-endian, row-major; asserts that there are not
 * too many. */
TSR_RESULT tsr_array_writer_append(tsr_ctx *ctx, tsr_array_writer *writer, size_t array,
                                   const void *elements, size_t size_bytes);
/* Gives the file its final name; asserts that every array is complete. */
TSR_RESULT tsr_array_writer_commit(tsr_ctx *ctx, tsr_array_writer *writer);
/* Removes an uncommitted file; accepts NULL. */
void tsr_array_writer_destroy(tsr_ctx *ctx, tsr_array_writer *writer);
/* Descriptor of the temporary file: two spellings of one path refer to the same file. */
int tsr_array_writer_get_fd(const tsr_array_writer *writer);

#endif
