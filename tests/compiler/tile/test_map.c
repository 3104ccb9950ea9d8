/* SPDX-License-Identifier: Apache-2.0
 *
 * Map kernels: every elementwise op on every type, broadcasting, awkward shapes. The reference is
 * plain C on one element at a time.
 */
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1237 };

static const char *const dtype_names[] = {
    [TSR_DTYPE_F64] = "f64", [TSR_DTYPE_F32] = "f32", [TSR_DTYPE_I64] = "i64",
    [TSR_DTYPE_I32] = "i32", [TSR_DTYPE_I1] = "i1",   [TSR_DTYPE_UI8] = "ui8"};

/* ---- binary ops ------------------------------------------------------------------------------ */

typedef enum binary { ADD, SUB, MUL, DIV, MAX, MIN, BINARY_COUNT } binary;
static const char *const binary_names[] = {"add", "sub", "mul", "div", "max", "min"};

static double float_binary(binary op, double x, double y) {
    switch (op) {
    case ADD:
        return x + y;
    case SUB:
        return x - y;
    case MUL:
        return x * y;
    case DIV:
        return x / y;
    case MAX:
        return isnan(x) || isnan(y) ? (double)NAN : x > y ? x : y;
    default:
        return isnan(x) || isnan(y) ? (double)NAN : x < y ? x : y;
    }
}

/* Wrapping arithmetic in 64 bits, cut by the caller. */
static int64_t int_binary(binary op, int64_t x, int64_t y) {
    uint64_t a = (uint64_t)x, b = (uint64_t)y;
    switch (op) {
    case ADD:
        return (int64_t)(a + b);
    case SUB:
        return (int64_t)(a - b);
    case MUL:
        return (int64_t)(a * b);
    case DIV:
        return y == 0 ? 0 : y == -1 ? (int64_t)(0 - a) : x / y;
    case MAX:
        return x > y ? x : y;
    default:
        return x < y ? x : y;
    }
}

static int64_t int_get(tsr_dtype dtype, const void *data, size_t i) {
    switch (dtype) {
    case TSR_DTYPE_I64:
        return ((const int64_t *)data)[i];
    case TSR_DTYPE_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

static bool equal_or_nan(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

static void check_binary(tsr_dtype dtype, binary op, const void *x, const void *y, size_t count,
                         const void *got) {
    for (size_t i = 0; i < count; i++) {
        if (tsr_dtype_is_float(dtype)) {
            double expected = dtype == TSR_DTYPE_F64
                                  ? float_binary(op, ((const double *)x)[i], ((const double *)y)[i])
                                  : (double)(float)float_binary(op, (double)((const float *)x)[i],
                                                                (double)((const float *)y)[i]);
            cr_assert(equal_or_nan(element_get(dtype, got, i), expected),
                      "%s %s of element %zu: %g, %g: expected %g, got %g", binary_names[op],
                      dtype_names[dtype], i, element_get(dtype, x, i), element_get(dtype, y, i),
                      expected, element_get(dtype, got, i));
            continue;
        }
        int64_t expected = int_binary(op, int_get(dtype, x, i), int_get(dtype, y, i));
        if (dtype == TSR_DTYPE_I32) expected = (int32_t)expected;
        cr_assert(int_get(dtype, got, i) == expected,
                  "%s %s of element %zu: expected %lld, got %lld", binary_names[op],
                  dtype_names[dtype], i, (long long)expected, (long long)int_get(dtype, got, i));
    }
}

/* Values on which ops like to be wrong. */
static void add_special(tsr_dtype dtype, void *x, void *y) {
    static const double specials[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-310, -1, 1e30};
    for (size_t i = 0; i < 64; i++) {
        if (dtype == TSR_DTYPE_F64) {
            ((double *)x)[i] = specials[i % 8];
            ((double *)y)[i] = specials[i / 8];
        } else if (dtype == TSR_DTYPE_F32) {
            ((float *)x)[i] = (float)specials[i % 8];
            ((float *)y)[i] = (float)specials[i / 8];
        } else if (dtype == TSR_DTYPE_I64) {
            ((int64_t *)x)[i] = i % 2 ? INT64_MIN : INT64_MAX;
            ((int64_t *)y)[i] = (int64_t)(i % 5) - 2;
        } else {
            ((int32_t *)x)[i] = i % 2 ? INT32_MIN : INT32_MAX;
            ((int32_t *)y)[i] = (int32_t)(i % 5) - 2;
        }
    }
}

Test(map, binary) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_I64, TSR_DTYPE_I32};
    tsr_buffer text = {0};
    for (size_t d = 0; d < 4; d++)
        for (int op = 0; op < BINARY_COUNT; op++)
            tsr_buffer_printf(&text,
                              "tsched.func @%s_%s(%%x: tensor<%dx%s>, %%y: tensor<%dx%s>) -> "
                              "tensor<%dx%s> attributes {kind = \"map\"} {\n"
                              "%%z = tessera.%s %%x, %%y : tensor<%dx%s>, tensor<%dx%s> -> "
                              "tensor<%dx%s>\ntsched.return %%z : tensor<%dx%s>\n}\n",
                              binary_names[op], dtype_names[dtypes[d]], COUNT,
                              dtype_names[dtypes[d]], COUNT, dtype_names[dtypes[d]], COUNT,
                              dtype_names[dtypes[d]], binary_names[op], COUNT,
                              dtype_names[dtypes[d]], COUNT, dtype_names[dtypes[d]], COUNT,
                              dtype_names[dtypes[d]], COUNT, dtype_names[dtypes[d]]);
    fixture f = {0};
    fixture_open(&f, text.bytes);
    static double x[COUNT], y[COUNT], z[COUNT];
    random_state random = {1};
    for (size_t d = 0; d < 4; d++) {
        random_fill(&random, dtypes[d], x, COUNT, -100, 100);
        random_fill(&random, dtypes[d], y, COUNT, -100, 100);
        add_special(dtypes[d], x, y);
        size_t size = COUNT * tsr_dtype_size(dtypes[d]);
        for (int op = 0; op < BINARY_COUNT; op++) {
            char name[32];
            snprintf(name, sizeof name, "%s_%s", binary_names[op], dtype_names[dtypes[d]]);
            void *outs[] = {z};
            argument arguments[] = {{x, size}, {y, size}, {NULL, size}};
            kernel_test(&f, name, arguments, 3, outs, NULL, NULL);
            check_binary(dtypes[d], (binary)op, x, y, COUNT, z);
        }
    }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}
