/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: what the readers of the formats share. An array is a window of bytes, in
 * a file or in memory. Opening starts with the whole file; each format verifies what it finds and
 * narrows the window, until it holds the elements alone (an .npz member is narrowed twice: to the
 * member, then as .npy).
 */
#ifndef TSR_RUNTIME_DATA_ARRAY_SOURCE_H
#define TSR_RUNTIME_DATA_ARRAY_SOURCE_H

#include "runtime/data/array_file.h"

enum {
    TSR_NPY_HEADER_MAX = 64 * 1024,           /* bytes of the literal */
    TSR_ZIP_DIRECTORY_MAX = 16 * 1024 * 1024, /* bytes of the central directory */
    TSR_READ_BYTES = 64 * 1024,               /* for checksums and inflating */
    TSR_QUOTE_MAX = 80,
};

struct tsr_array {
    char *spec;            /* owned; begins every message */
    int fd;                /* owned; read through the context's io table */
    unsigned char *memory; /* owned; an inflated member; NULL: the window lies in the file */
    uint64_t offset_bytes, size_bytes; /* the window, in the file or in memory */
    tsr_dtype dtype;
    tsr_shape shape;
    uint64_t count; /* elements */
    bool is_flat;
};

/* `size_bytes` bytes of the window from `at`; asserts that they lie inside. */
TSR_RESULT tsr_array_fetch(tsr_ctx *ctx, const tsr_array *array, uint64_t at, void *out_bytes,
                           size_t size_bytes);

/* Each reads the window and sets dtype and shape, and the window to the elements. `member` is NULL
 * when the spec names none. */
TSR_RESULT tsr_npy_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat);
TSR_RESULT tsr_npz_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat);
TSR_RESULT tsr_safetensors_locate(tsr_ctx *ctx, tsr_array *array, const char *member,
                                  tsr_dtype flat);
TSR_RESULT tsr_flat_locate(tsr_ctx *ctx, tsr_array *array, const char *member, tsr_dtype flat);

/* Text of a file for use in a message: control characters, and what is not UTF-8, become '?'; the
 * end is cut. Returns `out_text`. */
const char *tsr_quote(const char *text, size_t length, char out_text[static TSR_QUOTE_MAX]);

/* A comma-separated list for a message, cut with "…" when full. Zero-initialised is empty. */
typedef struct tsr_name_list {
    char text[400];
    size_t length;
} tsr_name_list;
void tsr_name_list_add(tsr_name_list *list, const char *text, size_t length);

#endif
