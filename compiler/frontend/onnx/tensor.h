/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of tensors of a model: in raw_data, in a typed field, or in another file in the
 * model's folder.
 *
 *     tsr_onnx_files files = {.folder = "models"};
 *     TRY_GOTO(ctx, result, tsr_onnx_elements(ctx, &files, tensor, &arena, &view));
 *     … view.data, borrowed from the model, the files or the arena …
 *     tsr_onnx_files_finish(&files);
 */
#ifndef TSR_COMPILER_ONNX_TENSOR_H
#define TSR_COMPILER_ONNX_TENSOR_H

#include "compiler/frontend/onnx/model.h"
#include "runtime/base/tensor.h"

typedef enum tsr_onnx_data_type {
    TSR_ONNX_UNDEFINED = 0,
#define X(name, number, text, bits, dtype, field) TSR_ONNX_##name = number,
#include "compiler/frontend/onnx/types.def"
#undef X
} tsr_onnx_data_type;

const char *tsr_onnx_type_name(int64_t data_type); /* "int4"; "?" for an unknown number */
tsr_dtype tsr_onnx_type_dtype(int64_t data_type);  /* TSR_DTYPE_NONE if Graph IR has no such */
int64_t tsr_onnx_type_of_dtype(tsr_dtype dtype);   /* the reverse; 0 for TSR_DTYPE_NONE */

typedef struct tsr_onnx_map {
    const uint8_t *bytes; /* mapped; NULL for an empty file */
    size_t size_bytes;
    const char *path; /* in the arena of the files */
    struct tsr_onnx_map *next;
} tsr_onnx_map;

/* Files with external data, each mapped once. */
typedef struct tsr_onnx_files {
    const char *folder;  /* of the model, borrowed; "": the current one */
    tsr_onnx_map *first; /* in the arena */
    tsr_arena arena;
} tsr_onnx_files;

/* Maps a file whole, for reading. TSR_IO. */
TSR_RESULT tsr_onnx_map_open(tsr_ctx *ctx, const char *path, tsr_onnx_map *out_map);
void tsr_onnx_map_close(tsr_onnx_map *map); /* accepts a zeroed one */
void tsr_onnx_files_finish(tsr_onnx_files *files);

/* Reads the shape. TSR_COMPILE: a negative dim, more than TSR_RANK_MAX dims, too many elements. */
TSR_RESULT tsr_onnx_tensor_shape(tsr_ctx *ctx, const tsr_onnx_tensor *tensor, tsr_shape *out_shape);

/* Returns the elements of a tensor with one of our types in our layout; the data may be unaligned.
 * `out_view->name` is the tensor's. TSR_COMPILE: a type that Graph IR lacks, too few or too many
 * elements, external data that is missing, too short, or outside of the folder; TSR_IO; TSR_MEMORY.
 */
TSR_RESULT tsr_onnx_elements(tsr_ctx *ctx, tsr_onnx_files *files, const tsr_onnx_tensor *tensor,
                             tsr_arena *arena, tsr_tensor *out_view);

#endif
