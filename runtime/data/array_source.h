/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: shared by the readers of all formats. An array is a window of bytes, in a
 * file or in memory. Opening starts with the complete file; each format verifies the contents and
 * narrows the window until it has only the elements (an .npz member is narrowed twice: to the
 * member, then as .npy).
 */
#ifndef TSR_RUNTIME_DATA_ARRAY_SOURCE_H
#define TSR_RUNTIME_DATA_ARRAY_SOURCE_H

#include "runtime/data/array_file.h"

enum {
    TSR_NPY_PREFIX_BYTES = 12,                /* up to the literal, in the longest version */
    TSR_NPY_HEADER_MAX = 64 * 1024,           /* bytes of the literal */
    TSR_ZIP_DIRECTORY_MAX = 16 * 1024 * 1024, /* bytes of the central directory */
    TSR_READ_BYTES = 64 * 1024,               /* buffer size for checksums and inflation */
    TSR_QUOTE_MAX = 80,
};

struct tsr_array {
    char *spec;            /* owned; begins every message */
    int fd;                /* owned; read through the context's io table */
    unsigned char *memory; /* owned; an inflated member; NULL: the window is in the file */
    uint64_t offset_bytes, size_bytes; /* the window, in the file or in memory */
    tsr_dtype dtype;
    tsr_shape shape;
    uint64_t count; /* elements */
    bool is_flat;
};

/* Reads `size_bytes` bytes of the window from `at`; asserts that they are inside. */
TSR_RESULT tsr_array_fetch(tsr_ctx *ctx, const tsr_array *array, uint64_t at, void *out_bytes,
                           size_t size_bytes);

/* Each function reads the window, sets dtype and shape, and narrows the window to the elements.
 * `member` is NULL if the spec has no member. */
TSR_RESULT tsr_npy_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat);
TSR_RESULT tsr_npz_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat);
TSR_RESULT tsr_safetensors_locate(tsr_ctx *ctx, tsr_array *array, const char *member,
                                  tsr_dtype flat);
TSR_RESULT tsr_flat_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat);

/* The least size of the NPY array whose first bytes are the window, as far as they tell it: with
 * TSR_NPY_PREFIX_BYTES that of the header, with the complete header that of the array, and then
 * dtype and shape are set. Does not change the window. */
TSR_RESULT tsr_npy_extent(tsr_ctx *ctx, tsr_array *array, uint64_t *out_size_bytes);

/* Prepares text of a file for a message: control characters and bytes that are not UTF-8 become
 * '?'; the end is truncated. Returns `out_text`. */
const char *tsr_quote(const char *text, size_t length, char out_text[static TSR_QUOTE_MAX]);

/* A comma-separated list for a message, truncated with "…" when full. Zero-initialised is empty. */
typedef struct tsr_name_list {
    char text[400];
    size_t length;
} tsr_name_list;
void tsr_name_list_add(tsr_name_list *list, const char *text, size_t length);

#endif
