/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/tensor.h"

#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dtype_row {
    tsr_dtype dtype;
    size_t size;
    const char *mlir, *safetensors, *numpy;
} dtype_row;

static const dtype_row dtype_rows[] = {
#define X(name, number, size, mlir, safetensors, numpy)                                            \
    {TSR_DTYPE_##name, size, mlir, safetensors, numpy},
#include "tessera/dtype.def"
#undef X
};
enum { DTYPE_COUNT = TSR_COUNT(dtype_rows) };
static const dtype_row unknown_row = {TSR_DTYPE_NONE, 0, "?", "?", "?"};

static const dtype_row *find_row(tsr_dtype dtype) {
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        if (dtype_rows[i].dtype == dtype) return &dtype_rows[i];
    return &unknown_row;
}

size_t tsr_dtype_size(tsr_dtype dtype) { return find_row(dtype)->size; }
const char *tsr_dtype_name(tsr_dtype dtype) { return find_row(dtype)->mlir; }
const char *tsr_dtype_safetensors_name(tsr_dtype dtype) { return find_row(dtype)->safetensors; }
const char *tsr_dtype_numpy_name(tsr_dtype dtype) { return find_row(dtype)->numpy; }

#define FIND_BY(field, text)                                                                       \
    for (size_t i = 0; i < DTYPE_COUNT; i++)                                                       \
        if (strcmp(dtype_rows[i].field, text) == 0) return dtype_rows[i].dtype;                    \
    return TSR_DTYPE_NONE

tsr_dtype tsr_dtype_from_name(const char *name) { FIND_BY(mlir, name); }
tsr_dtype tsr_dtype_from_safetensors(const char *name) { FIND_BY(safetensors, name); }
tsr_dtype tsr_dtype_from_numpy(const char *descr) {
    if (strcmp(descr, "<V2") == 0) return TSR_DTYPE_BF16;
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

/* ---- 16-bit floats: IEEE 754, `mantissa` stored bits, 15 - mantissa exponent bits ---- */

enum { BF16_MANTISSA = 7, F16_MANTISSA = 10 };

static double narrow_read(uint16_t bits, int mantissa) {
    int bias = (1 << (14 - mantissa)) - 1, exponent = (bits & 0x7fff) >> mantissa;
    int fraction = bits & ((1 << mantissa) - 1);
    double value;
    if (exponent == 2 * bias + 1)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent)
        value = ldexp((double)(fraction | 1 << mantissa), exponent - bias - mantissa);
    else
        value = ldexp((double)fraction, 1 - bias - mantissa);
    return bits >> 15 ? -value : value;
}

/* Rounds to nearest, ties to even, in one step: with a detour through f32 some values would be
 * rounded twice. */
static uint16_t narrow_write(double value, int mantissa) {
    int bias = (1 << (14 - mantissa)) - 1, exponent = 0;
    unsigned sign = signbit(value) ? 0x8000u : 0, infinity = (2u * (unsigned)bias + 1) << mantissa;
    if (isnan(value)) return (uint16_t)(sign | infinity | 1u << (mantissa - 1));
    if (isinf(value)) return (uint16_t)(sign | infinity);
    if (value == 0) return (uint16_t)sign;
    frexp(value, &exponent); /* |value| in [2^(exponent - 1), 2^exponent) */
    int unit = (exponent < 2 - bias ? 2 - bias : exponent) - 1 - mantissa;
    double scaled = ldexp(fabs(value), -unit), whole = floor(scaled), rest = scaled - whole;
    unsigned steps = (unsigned)whole;
    if (rest > 0.5 || (rest == 0.5 && steps & 1)) steps++;
    /* A carry out of the fraction increments the exponent; a carry out of the exponent gives
     * infinity. */
    unsigned base = exponent < 2 - bias ? 0 : (unsigned)(exponent + bias - 2) << mantissa;
    unsigned bits = base + steps;
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

double tsr_dtype_read(tsr_dtype dtype, const void *data, uint64_t index) {
    switch (dtype) {
    case TSR_DTYPE_F64:
        return ((const double *)data)[index];
    case TSR_DTYPE_F32:
        return (double)((const float *)data)[index];
    case TSR_DTYPE_I64:
        return (double)((const int64_t *)data)[index];
    case TSR_DTYPE_I32:
        return (double)((const int32_t *)data)[index];
    case TSR_DTYPE_I1:
    case TSR_DTYPE_UI8:
        return (double)((const uint8_t *)data)[index];
    case TSR_DTYPE_I8:
        return (double)((const int8_t *)data)[index];
    case TSR_DTYPE_BF16:
        return narrow_read(((const uint16_t *)data)[index], BF16_MANTISSA);
    case TSR_DTYPE_F16:
        return narrow_read(((const uint16_t *)data)[index], F16_MANTISSA);
    case TSR_DTYPE_NONE:
        break;
    }
    TSR_ASSERT(!"a tensor has a known dtype");
    return 0;
}

void tsr_dtype_write(tsr_dtype dtype, double value, void *data, uint64_t index) {
    switch (dtype) {
    case TSR_DTYPE_F64:
        ((double *)data)[index] = value;
        return;
    case TSR_DTYPE_F32:
        ((float *)data)[index] = (float)value;
        return;
    case TSR_DTYPE_I64:
        ((int64_t *)data)[index] = (int64_t)value;
        return;
    case TSR_DTYPE_I32:
        ((int32_t *)data)[index] = (int32_t)value;
        return;
    case TSR_DTYPE_I8:
        ((int8_t *)data)[index] = (int8_t)value;
        return;
    case TSR_DTYPE_I1:
        ((uint8_t *)data)[index] = value != 0;
        return;
    case TSR_DTYPE_UI8:
        ((uint8_t *)data)[index] = (uint8_t)value;
        return;
    case TSR_DTYPE_BF16:
        ((uint16_t *)data)[index] = narrow_write(value, BF16_MANTISSA);
        return;
    case TSR_DTYPE_F16:
        ((uint16_t *)data)[index] = narrow_write(value, F16_MANTISSA);
        return;
    case TSR_DTYPE_NONE:
        break;
    }
    TSR_ASSERT(!"a tensor has a known dtype");
}

bool tsr_dtype_is_float(tsr_dtype dtype) {
    return dtype == TSR_DTYPE_F64 || dtype == TSR_DTYPE_F32 || dtype == TSR_DTYPE_BF16 ||
           dtype == TSR_DTYPE_F16;
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
    TSR_ASSERT(tsr_dtype_is_float(dtype));
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
#define X(name, wire, size, text, safetensors, numpy) ", " text
    static const char all[] =
#include "tessera/dtype.def"
        ;
#undef X
    return all + 2;
}
