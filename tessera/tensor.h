/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and the plain description of a dense, row-major, little-endian tensor.
 */
#ifndef TSR_TESSERA_TENSOR_H
#define TSR_TESSERA_TENSOR_H

#include "tessera/result.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A macro X of the including program stays as it is. */
#pragma push_macro("X")
#undef X
typedef enum tsr_dtype {
    TSR_DTYPE_NONE = 0,
#define X(name, number, size, kind, type, mlir, safetensors, numpy) TSR_DTYPE_##name = number,
#include "tessera/dtype.def"
#undef X
} tsr_dtype;
#pragma pop_macro("X")

enum { TSR_RANK_MAX = 8, TSR_NAME_MAX = 255 };

typedef struct tsr_shape {
    uint32_t rank;               /* 0 … TSR_RANK_MAX; 0 is a scalar */
    uint64_t dims[TSR_RANK_MAX]; /* elements; outermost first */
} tsr_shape;

/* A view of memory. */
typedef struct tsr_tensor {
    const char *name; /* borrowed; may be NULL */
    tsr_dtype dtype;
    tsr_shape shape;
    void *data; /* borrowed, tsr_tensor_size() bytes */
} tsr_tensor;

TSR_API size_t tsr_dtype_size(tsr_dtype dtype);      /* bytes; 0 for an unknown number */
TSR_API const char *tsr_dtype_name(tsr_dtype dtype); /* "f32"; "?" for an unknown number */
TSR_API const char *tsr_dtype_safetensors_name(tsr_dtype dtype); /* "F32" */
TSR_API const char *tsr_dtype_numpy_name(tsr_dtype dtype);       /* "<f4" */
TSR_API tsr_dtype tsr_dtype_from_name(const char *name);         /* TSR_DTYPE_NONE if unknown */
TSR_API tsr_dtype tsr_dtype_from_safetensors(const char *name);
/* "|V1", the descr of each float of 8 bits, is f8E4M3FN. */
TSR_API tsr_dtype tsr_dtype_from_numpy(const char *descr);

/* Returns the element at `index` as f64 (integers of 64 bits are rounded); dtype is valid. */
TSR_API double tsr_dtype_read(tsr_dtype dtype, const void *data, uint64_t index);
/* Stores `value` at `index`: floats are rounded to the nearest, ties to even; an integer dtype must
 * be able to hold the value. */
TSR_API void tsr_dtype_write(tsr_dtype dtype, double value, void *data, uint64_t index);
TSR_API bool tsr_dtype_is_float(tsr_dtype dtype); /* f64, f32, bf16 or f16 */

/* Product of the dims, or the product of dims and element size; false if it reaches 2^63 or rank >
 * TSR_RANK_MAX. */
TSR_API bool tsr_shape_count(const tsr_shape *shape, uint64_t *out_count);
TSR_API bool tsr_shape_size(const tsr_shape *shape, tsr_dtype dtype, uint64_t *out_size_bytes);
TSR_API bool tsr_shape_equal(const tsr_shape *a, const tsr_shape *b);
/* Formats "64x128xf32", or "f32" for a scalar. Returns `out_text`. */
enum { TSR_TYPE_TEXT_MAX = 200 };
TSR_API const char *tsr_type_format(tsr_dtype dtype, const tsr_shape *shape,
                                    char out_text[TSR_TYPE_TEXT_MAX]);

#ifdef __cplusplus
}
#endif

#endif
