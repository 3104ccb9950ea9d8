/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/tensor.h"

#include "runtime/base/array.h"
#include "runtime/base/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum dtype_kind { UNKNOWN, FLOAT, SIGNED, UNSIGNED, TRUTH, SMALL } dtype_kind;

typedef struct dtype_row {
    tsr_dtype dtype;
    size_t size;
    dtype_kind kind;
    const char *mlir, *safetensors, *numpy;
} dtype_row;

/* By wire number. */
static const dtype_row dtype_rows[] = {
    {TSR_DTYPE_NONE, 0, UNKNOWN, "?", "?", "?"},
#define X(name, number, size, kind, type, mlir, safetensors, numpy)                                \
    [number] = {TSR_DTYPE_##name, size, kind, mlir, safetensors, numpy},
#include "tessera/dtype.def"
#undef X
};
_Static_assert(TSR_COUNT(dtype_rows) == TSR_DTYPE_COUNT + 1, "wire numbers have no gaps");

static const dtype_row *find_row(tsr_dtype dtype) {
    return &dtype_rows[(unsigned)dtype <= TSR_DTYPE_COUNT ? dtype : TSR_DTYPE_NONE];
}

size_t tsr_dtype_size(tsr_dtype dtype) { return find_row(dtype)->size; }
const char *tsr_dtype_name(tsr_dtype dtype) { return find_row(dtype)->mlir; }
const char *tsr_dtype_safetensors_name(tsr_dtype dtype) { return find_row(dtype)->safetensors; }
const char *tsr_dtype_numpy_name(tsr_dtype dtype) { return find_row(dtype)->numpy; }

#define FIND_BY(field, text)                                                                       \
    for (size_t i = 1; i < TSR_COUNT(dtype_rows); i++)                                             \
        if (strcmp(dtype_rows[i].field, text) == 0) return dtype_rows[i].dtype;                    \
    return TSR_DTYPE_NONE

tsr_dtype tsr_dtype_from_name(const char *name) { FIND_BY(mlir, name); }
tsr_dtype tsr_dtype_from_safetensors(const char *name) { FIND_BY(safetensors, name); }
tsr_dtype tsr_dtype_from_numpy(const char *descr) {
    if (strcmp(descr, "<V2") == 0) return TSR_DTYPE_BF16;
    if (strcmp(descr, "<V1") == 0) return TSR_DTYPE_F8E4M3FN;
    FIND_BY(numpy, descr);
}

static int compare_name(const void *name, const void *tensor) {
    return strcmp(name, ((const tsr_tensor *)tensor)->name);
}

const tsr_tensor *tsr_tensor_find_sorted(const tsr_tensor *tensors, size_t count,
                                         const char *name) {
    return count ? bsearch(name, tensors, count, sizeof *tensors, compare_name) : NULL;
}

const tsr_tensor *tsr_tensor_find(const tsr_tensor *tensors, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
    return NULL;
}

static unsigned read_code(tsr_dtype dtype, const void *data, uint64_t index) {
    return tsr_dtype_size(dtype) == 1 ? ((const uint8_t *)data)[index]
                                      : ((const uint16_t *)data)[index];
}

double tsr_dtype_read(tsr_dtype dtype, const void *data, uint64_t index) {
    const tsr_format *format = tsr_format_of(dtype);
    if (format) return tsr_format_read(format, read_code(dtype, data, index));
    switch (dtype) {
#define X(name, number, size, kind, type, mlir, safetensors, numpy)                                \
    case TSR_DTYPE_##name:                                                                         \
        return (double)((const type *)data)[index];
#include "tessera/dtype.def"
#undef X
    case TSR_DTYPE_NONE:
        break;
    }
    TSR_ASSERT(!"a tensor has a known dtype");
    return 0;
}

void tsr_dtype_write(tsr_dtype dtype, double value, void *data, uint64_t index) {
    const tsr_format *format = tsr_format_of(dtype);
    if (format) {
        unsigned code = tsr_format_write(format, value, (tsr_encoding){TSR_ROUND_NEAREST_EVEN});
        if (tsr_dtype_size(dtype) == 1)
            ((uint8_t *)data)[index] = (uint8_t)code;
        else
            ((uint16_t *)data)[index] = (uint16_t)code;
        return;
    }
    if (dtype == TSR_DTYPE_I1) value = value != 0;
    switch (dtype) {
#define X(name, number, size, kind, type, mlir, safetensors, numpy)                                \
    case TSR_DTYPE_##name:                                                                         \
        ((type *)data)[index] = (type)value;                                                       \
        return;
#include "tessera/dtype.def"
#undef X
    case TSR_DTYPE_NONE:
        break;
    }
    TSR_ASSERT(!"a tensor has a known dtype");
}

bool tsr_dtype_is_float(tsr_dtype dtype) { return find_row(dtype)->kind == FLOAT; }
bool tsr_dtype_is_small(tsr_dtype dtype) { return find_row(dtype)->kind == SMALL; }
bool tsr_dtype_is_signed(tsr_dtype dtype) { return find_row(dtype)->kind == SIGNED; }
bool tsr_dtype_is_unsigned(tsr_dtype dtype) { return find_row(dtype)->kind == UNSIGNED; }

unsigned tsr_dtype_bits(tsr_dtype dtype) {
    const dtype_row *row = find_row(dtype);
    return row->kind == TRUTH ? 1 : 8 * (unsigned)row->size;
}

tsr_dtype tsr_dtype_of_integer(unsigned bits, bool is_unsigned) {
    for (size_t i = 1; i < TSR_COUNT(dtype_rows); i++) {
        const dtype_row *row = &dtype_rows[i];
        if (row->kind != FLOAT && row->kind != SMALL && tsr_dtype_bits(row->dtype) == bits &&
            (row->kind == UNSIGNED) == is_unsigned)
            return row->dtype;
    }
    return TSR_DTYPE_NONE;
}

tsr_dtype tsr_dtype_stored(tsr_dtype dtype) {
    return tsr_dtype_is_float(dtype)
               ? dtype
               : tsr_dtype_of_integer(8 * (unsigned)tsr_dtype_size(dtype), false);
}

static bool is_whole(tsr_dtype dtype) {
    return !tsr_dtype_is_float(dtype) && !tsr_dtype_is_small(dtype) && dtype != TSR_DTYPE_NONE;
}

int64_t tsr_dtype_lowest(tsr_dtype dtype) {
    TSR_ASSERT(is_whole(dtype));
    return tsr_dtype_is_signed(dtype) ? INT64_MIN >> (64 - tsr_dtype_bits(dtype)) : 0;
}

uint64_t tsr_dtype_highest(tsr_dtype dtype) {
    TSR_ASSERT(is_whole(dtype));
    return UINT64_MAX >> (64 - tsr_dtype_bits(dtype) + tsr_dtype_is_signed(dtype));
}

bool tsr_dtype_holds(tsr_dtype dtype, double value) {
    if (tsr_dtype_is_small(dtype)) return tsr_dtype_rounds_finite(dtype, value);
    /* The end of a range of 64 bits is not a double; the number after it is. */
    return value == floor(value) && value >= (double)tsr_dtype_lowest(dtype) &&
           value < 2 * (double)(tsr_dtype_highest(dtype) / 2 + 1);
}

double tsr_dtype_below(tsr_dtype dtype, double bound) {
    TSR_ASSERT(tsr_dtype_is_float(dtype));
    if (dtype == TSR_DTYPE_F64) return nextafter(bound, -INFINITY);
    if (dtype == TSR_DTYPE_F32) {
        float rounded = (float)bound;
        return (double)((double)rounded < bound ? rounded : nextafterf(rounded, -INFINITY));
    }
    uint16_t bits;
    tsr_dtype_write(dtype, bound, &bits, 0);
    if (tsr_dtype_read(dtype, &bits, 0) >= bound) {
        bool is_zero = (bits & 0x7fff) == 0, is_negative = bits >> 15;
        bits = is_zero ? 0x8001 : (uint16_t)(is_negative ? bits + 1 : bits - 1);
    }
    return tsr_dtype_read(dtype, &bits, 0);
}

bool tsr_dtype_rounds_finite(tsr_dtype dtype, double value) {
    double rounded = 0;
    TSR_ASSERT(tsr_dtype_is_float(dtype) || tsr_dtype_is_small(dtype));
    tsr_dtype_write(dtype, value, &rounded, 0);
    return isfinite(tsr_dtype_read(dtype, &rounded, 0));
}

bool tsr_shape_count(const tsr_shape *shape, uint64_t *out_count) {
    uint64_t count = 1;
    if (shape->rank > TSR_RANK_MAX) return false;
    /* A zero dimension makes the product zero, but the other factors must still be valid. */
    for (uint32_t i = 0; i < shape->rank; i++) {
        uint64_t dim = shape->dims[i] ? shape->dims[i] : 1;
        if (__builtin_mul_overflow(count, dim, &count) || count > INT64_MAX) return false;
    }
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->dims[i] == 0) count = 0;
    *out_count = count;
    return true;
}

bool tsr_shape_size(const tsr_shape *shape, tsr_dtype dtype, uint64_t *out_size_bytes) {
    uint64_t size;
    if (!tsr_shape_count(shape, &size)) return false;
    if (__builtin_mul_overflow(size, tsr_dtype_size(dtype), &size) || size > INT64_MAX)
        return false;
    *out_size_bytes = size;
    return true;
}

bool tsr_shape_equal(const tsr_shape *a, const tsr_shape *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

const char *tsr_type_format(tsr_dtype dtype, const tsr_shape *shape,
                            char out_text[TSR_TYPE_TEXT_MAX]) {
    size_t used = 0;
    for (uint32_t i = 0; i < shape->rank && i < TSR_RANK_MAX; i++)
        used += (size_t)snprintf(out_text + used, TSR_TYPE_TEXT_MAX - used, "%" PRIu64 "x",
                                 shape->dims[i]);
    snprintf(out_text + used, TSR_TYPE_TEXT_MAX - used, "%s", tsr_dtype_name(dtype));
    return out_text;
}

/* If all bits of the exponent are set, adding its lowest bit carries into the sign. With this test,
 * a save, which checks the whole state, runs at memory bandwidth. */
enum { FINITE_BLOCK = 512 };
#define HAS_NONFINITE(type, mask, one)                                                             \
    do {                                                                                           \
        type carries = 0, bits;                                                                    \
        for (size_t i = 0; i < FINITE_BLOCK; i++) {                                                \
            memcpy(&bits, bytes + i * sizeof bits, sizeof bits);                                   \
            carries |= (type)((bits & (type)(mask)) + (type)(one));                                \
        }                                                                                          \
        return carries >> (8 * sizeof carries - 1);                                                \
    } while (0)

#define X(name, type, mask, one)                                                                   \
    static bool has_nonfinite_##name(const char *bytes) { HAS_NONFINITE(type, mask, one); }
#include "runtime/base/floats.def"
#undef X

/* Returns the check of a block, for float dtypes. */
static bool (*find_block_check(tsr_dtype dtype))(const char *) {
    switch (dtype) {
#define X(name, type, mask, one)                                                                   \
    case TSR_DTYPE_##name:                                                                         \
        return has_nonfinite_##name;
#include "runtime/base/floats.def"
#undef X
    default:
        return NULL;
    }
}

/* Skips blocks of finite elements. */
static uint64_t find_element(tsr_dtype dtype, const void *data, uint64_t count, bool nan_only,
                             double *out_value) {
    bool (*const has_nonfinite)(const char *) = find_block_check(dtype);
    const size_t width = tsr_dtype_size(dtype);
    if (!has_nonfinite) return UINT64_MAX;
    for (uint64_t at = 0; at < count;) {
        const char *block = (const char *)data + at * width;
        uint64_t end = count - at < FINITE_BLOCK ? count : at + FINITE_BLOCK;
        bool is_finite = end - at == FINITE_BLOCK && !has_nonfinite(block);
        if (is_finite) at = end;
        for (; at < end; at++) {
            uint64_t element = 0; /* aligned */
            memcpy(&element, (const char *)data + at * width, width);
            double value = tsr_dtype_read(dtype, &element, 0);
            if (nan_only ? !isnan(value) : isfinite(value)) continue;
            /* The sign of a NaN has no meaning for the reader. */
            *out_value = isnan(value) ? (double)NAN : value;
            return at;
        }
    }
    return UINT64_MAX;
}

uint64_t tsr_dtype_find_nonfinite(tsr_dtype dtype, const void *data, uint64_t count,
                                  double *out_value) {
    return find_element(dtype, data, count, false, out_value);
}

uint64_t tsr_dtype_find_nan(tsr_dtype dtype, const void *data, uint64_t count) {
    double value;
    return find_element(dtype, data, count, true, &value);
}

uint64_t tsr_tensor_find_nonfinite(const tsr_tensor *tensor, double *out_value) {
    uint64_t count = 0;
    if (!tsr_shape_count(&tensor->shape, &count)) return UINT64_MAX;
    return tsr_dtype_find_nonfinite(tensor->dtype, tensor->data, count, out_value);
}

const char *tsr_dtype_names(void) {
#define X(name, number, size, kind, type, mlir, safetensors, numpy) ", " mlir
    static const char all[] =
#include "tessera/dtype.def"
        ;
#undef X
    return all + 2;
}
