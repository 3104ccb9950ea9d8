/* SPDX-License-Identifier: Apache-2.0
 *
 * Map kernels beyond two equal operands: broadcasting, several results, conversions between all
 * types, unary ops, integer powers, dense constants. The reference is plain C.
 */
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- broadcasting ---------------------------------------------------------------------------- */

typedef struct broadcast {
    tsr_shape z, x, y;
} broadcast;

/* The index in a tensor of `shape` of flat element i of the result. */
static size_t source(const tsr_shape *result, const tsr_shape *shape, size_t i) {
    size_t index[TSR_RANK_MAX], at = 0, stride = 1;
    for (uint32_t d = result->rank; d-- > 0; i /= result->dims[d]) index[d] = i % result->dims[d];
    for (uint32_t d = shape->rank; d-- > 0;) {
        size_t from = index[d + result->rank - shape->rank];
        at += (shape->dims[d] == 1 ? 0 : from) * stride;
        stride *= shape->dims[d];
    }
    return at;
}

static void test_broadcast(const broadcast *t) {
    char z[TSR_TYPE_TEXT_MAX], x[TSR_TYPE_TEXT_MAX], y[TSR_TYPE_TEXT_MAX], c[TSR_TYPE_TEXT_MAX];
    uint64_t nz = 0, nx = 0, ny = 0;
    cr_assert(tsr_shape_count(&t->z, &nz) && tsr_shape_count(&t->x, &nx) &&
              tsr_shape_count(&t->y, &ny));
    tsr_type_format(TSR_DTYPE_F32, &t->z, z);
    tsr_type_format(TSR_DTYPE_F32, &t->x, x);
    tsr_type_format(TSR_DTYPE_F32, &t->y, y);
    tsr_type_format(TSR_DTYPE_I1, &t->z, c);
    tsr_buffer text = {0};
    tsr_buffer_printf(
        &text,
        "tsched.func @g(%%x: tensor<%s>, %%y: tensor<%s>) -> (tensor<%s>, tensor<%s>) attributes "
        "{kind = \"map\"} {\n"
        "%%n = tessera.neg %%y : tensor<%s>\n"
        "%%p = tessera.mul %%x, %%n : tensor<%s>, tensor<%s> -> tensor<%s>\n"
        "%%s = tessera.add %%p, %%x : tensor<%s>, tensor<%s> -> tensor<%s>\n"
        "%%l = tessera.compare lt %%s, %%n : tensor<%s>, tensor<%s> -> tensor<%s>\n"
        "tsched.return %%s, %%l : tensor<%s>, tensor<%s>\n}",
        x, y, z, c, y, x, y, z, z, x, z, z, y, c, z, c);
    fixture f = {0};
    fixture_open(&f, text.bytes);
    float *a = malloc(nx * 4), *b = malloc(ny * 4), *s = malloc(nz * 4);
    uint8_t *l = malloc(nz);
    random_state random = {nz};
    random_fill(&random, TSR_DTYPE_F32, a, nx, -3, 3);
    random_fill(&random, TSR_DTYPE_F32, b, ny, -3, 3);
    void *outs[] = {s, l};
    argument arguments[] = {{a, nx * 4}, {b, ny * 4}, {NULL, nz * 4}, {NULL, nz}};
    kernel_test(&f, "g", arguments, 4, outs, NULL, NULL);
    for (size_t i = 0; i < nz; i++) {
        float v = a[source(&t->z, &t->x, i)], w = -b[source(&t->z, &t->y, i)];
        float product = v * w, sum = product + v;
        cr_assert(s[i] == sum && l[i] == (sum < w), "%s with %s, element %zu", x, y, i);
    }
    free(a);
    free(b);
    free(s);
    free(l);
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

Test(element, broadcast) {
    static const broadcast cases[] = {
        {{0, {0}}, {0, {0}}, {0, {0}}},
        {{1, {1}}, {1, {1}}, {0, {0}}},
        {{1, {37}}, {0, {0}}, {1, {37}}},
        {{2, {5, 7}}, {2, {5, 7}}, {1, {7}}},
        {{2, {64, 10}}, {2, {64, 1}}, {1, {10}}},
        {{2, {3, 9000}}, {2, {3, 1}}, {2, {3, 9000}}},
        {{2, {9000, 3}}, {1, {3}}, {2, {9000, 1}}},
        {{3, {4, 33, 65}}, {3, {4, 1, 65}}, {2, {33, 1}}},
        {{3, {17, 1, 19}}, {2, {1, 19}}, {3, {17, 1, 1}}},
        {{4, {2, 3, 5, 7}}, {4, {2, 1, 5, 1}}, {3, {3, 1, 7}}},
        {{8, {2, 3, 1, 2, 3, 2, 2, 5}}, {8, {2, 3, 1, 2, 1, 2, 1, 5}}, {5, {2, 3, 1, 2, 1}}},
        {{2, {128, 1000}}, {2, {128, 1000}}, {0, {0}}},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++) test_broadcast(&cases[i]);
}

/* ---- conversions ----------------------------------------------------------------------------- */

static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_I64,
                                   TSR_DTYPE_I32, TSR_DTYPE_I1,  TSR_DTYPE_UI8};
enum { DTYPES = 6, CASTS = 331 };

static bool is_float(tsr_dtype dtype) { return dtype == TSR_DTYPE_F64 || dtype == TSR_DTYPE_F32; }

static int64_t saturated(double x, double low, double high, int64_t lowest, int64_t highest) {
    if (isnan(x)) return 0;
    return x < low ? lowest : x >= high ? highest : (int64_t)x;
}

static int64_t integer_get(tsr_dtype dtype, const void *data, size_t i) {
    return dtype == TSR_DTYPE_I64   ? ((const int64_t *)data)[i]
           : dtype == TSR_DTYPE_I32 ? ((const int32_t *)data)[i]
                                    : ((const uint8_t *)data)[i];
}

static int64_t cast_to_int(tsr_dtype from, tsr_dtype to, const void *x, size_t i) {
    if (is_float(from)) {
        double value = element_get(from, x, i);
        switch (to) {
        case TSR_DTYPE_I64:
            return saturated(value, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
        case TSR_DTYPE_I32:
            return saturated(value, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX);
        case TSR_DTYPE_UI8:
            return saturated(value, 0, 256, 0, 255);
        default:
            return value != 0;
        }
    }
    int64_t value = integer_get(from, x, i);
    switch (to) {
    case TSR_DTYPE_I64:
        return value;
    case TSR_DTYPE_I32:
        return (int32_t)value;
    case TSR_DTYPE_UI8:
        return (uint8_t)value;
    default:
        return value != 0;
    }
}

static void check_cast(tsr_dtype from, tsr_dtype to, const void *x, const void *y) {
    for (size_t i = 0; i < CASTS; i++) {
        if (!is_float(to)) {
            cr_assert(integer_get(to, y, i) == cast_to_int(from, to, x, i),
                      "%s to %s, element %zu: %g gives %" PRId64, tsr_dtype_name(from),
                      tsr_dtype_name(to), i, element_get(from, x, i), integer_get(to, y, i));
            continue;
        }
        double exact = is_float(from) ? element_get(from, x, i) : (double)integer_get(from, x, i);
        if (to == TSR_DTYPE_F32)
            exact = is_float(from) ? (double)(float)exact : (double)(float)integer_get(from, x, i);
        double got = element_get(to, y, i);
        cr_assert(got == exact || (isnan(got) && isnan(exact)), "%s to %s, element %zu",
                  tsr_dtype_name(from), tsr_dtype_name(to), i);
    }
}

static void fill_casts(tsr_dtype dtype, void *x) {
    static const double odd[] = {0,      -0.0,     0.5,    -0.5,  1,        -1,        255,
                                 256,    -1e10,    1e10,   3e9,   -3e9,     0x1p63,    -0x1p63,
                                 1e300,  -1e300,   1e-300, 127.9, INFINITY, -INFINITY, NAN,
                                 2.5e19, 16777217, 0x1p53, 1e-45};
    random_state random = {(uint64_t)dtype};
    random_fill(&random, dtype, x, CASTS, -300, 300);
    for (size_t i = 0; i < TSR_COUNT(odd); i++) {
        if (dtype == TSR_DTYPE_F64) ((double *)x)[i] = odd[i];
        if (dtype == TSR_DTYPE_F32) ((float *)x)[i] = (float)odd[i];
        if (dtype == TSR_DTYPE_I64) ((int64_t *)x)[i] = (int64_t)random_u64(&random);
        if (dtype == TSR_DTYPE_I32) ((int32_t *)x)[i] = (int32_t)random_u64(&random);
    }
    /* Every magnitude around those of integers. */
    for (int i = TSR_COUNT(odd), power = -9; power < 67; i++, power++) {
        double value = ldexp(1 + (double)(random_u64(&random) >> 12) * 0x1p-52, power);
        if (dtype == TSR_DTYPE_F64) ((double *)x)[i] = i % 2 ? -value : value;
        if (dtype == TSR_DTYPE_F32) ((float *)x)[i] = (float)(i % 2 ? -value : value);
    }
}

Test(element, casts) {
    tsr_buffer text = {0};
    for (size_t a = 0; a < DTYPES; a++)
        for (size_t b = 0; b < DTYPES; b++) {
            const char *from = tsr_dtype_name(dtypes[a]), *to = tsr_dtype_name(dtypes[b]);
            tsr_buffer_printf(&text,
                              "tsched.func @%s_%s(%%x: tensor<%dx%s>) -> tensor<%dx%s> attributes "
                              "{kind = \"map\"} {\n%%y = tessera.cast %%x : tensor<%dx%s> to "
                              "tensor<%dx%s>\ntsched.return %%y : tensor<%dx%s>\n}\n",
                              from, to, CASTS, from, CASTS, to, CASTS, from, CASTS, to, CASTS, to);
        }
    fixture f = {0};
    fixture_open(&f, text.bytes);
    static double x[CASTS], y[CASTS];
    for (size_t a = 0; a < DTYPES; a++)
        for (size_t b = 0; b < DTYPES; b++) {
            char name[32];
            fill_casts(dtypes[a], x);
            snprintf(name, sizeof name, "%s_%s", tsr_dtype_name(dtypes[a]),
                     tsr_dtype_name(dtypes[b]));
            void *outs[] = {y};
            argument arguments[] = {{x, CASTS * tsr_dtype_size(dtypes[a])},
                                    {NULL, CASTS * tsr_dtype_size(dtypes[b])}};
            kernel_test(&f, name, arguments, 2, outs, NULL, NULL);
            check_cast(dtypes[a], dtypes[b], x, y);
        }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

/* ---- the rest -------------------------------------------------------------------------------- */

Test(element, unary_and_where) {
    static const char text[] =
        "tsched.func @f(%x: tensor<101xf32>, %c: tensor<101xi1>) -> (tensor<101xf32>, "
        "tensor<101xf32>, tensor<101xf32>, tensor<101xf32>) attributes {kind = \"map\"} {\n"
        "%r = tessera.relu %x : tensor<101xf32>\n"
        "%a = tessera.abs %x : tensor<101xf32>\n"
        "%q = tessera.sqrt %a : tensor<101xf32>\n"
        "%w = tessera.where %c, %x, %q : tensor<101xi1>, tensor<101xf32>, tensor<101xf32> -> "
        "tensor<101xf32>\n"
        "tsched.return %r, %a, %q, %w : tensor<101xf32>, tensor<101xf32>, tensor<101xf32>, "
        "tensor<101xf32>\n}\n"
        "tsched.func @i(%x: tensor<101xi32>) -> (tensor<101xi32>, tensor<101xi32>) attributes "
        "{kind = \"map\"} {\n"
        "%r = tessera.relu %x : tensor<101xi32>\n"
        "%a = tessera.abs %x : tensor<101xi32>\n"
        "tsched.return %r, %a : tensor<101xi32>, tensor<101xi32>\n}";
    fixture f = {0};
    fixture_open(&f, text);
    float x[101], r[101], a[101], q[101], w[101];
    int32_t ix[101], ir[101], ia[101];
    uint8_t c[101];
    random_state random = {8};
    random_fill(&random, TSR_DTYPE_F32, x, 101, -9, 9);
    random_fill(&random, TSR_DTYPE_I32, ix, 101, -9, 9);
    random_fill(&random, TSR_DTYPE_I1, c, 101, 0, 1);
    x[0] = NAN;
    x[1] = -0.0f;
    ix[0] = INT32_MIN;
    void *outs[] = {r, a, q, w}, *int_outs[] = {ir, ia};
    argument arguments[] = {{x, 404}, {c, 101}, {NULL, 404}, {NULL, 404}, {NULL, 404}, {NULL, 404}};
    argument ints[] = {{ix, 404}, {NULL, 404}, {NULL, 404}};
    kernel_test(&f, "f", arguments, 6, outs, NULL, NULL);
    kernel_test(&f, "i", ints, 3, int_outs, NULL, NULL);
    cr_assert(isnan(r[0]) && isnan(q[0]) && !signbit(r[1]));
    for (size_t i = 1; i < 101; i++) {
        float root = sqrtf(fabsf(x[i]));
        cr_assert(r[i] == (x[i] > 0 ? x[i] : 0) && a[i] == fabsf(x[i]) && q[i] == root);
        cr_assert(w[i] == (c[i] ? x[i] : root));
        cr_assert(ir[i] == (ix[i] > 0 ? ix[i] : 0) && ia[i] == abs(ix[i]));
    }
    cr_assert(ir[0] == 0 && ia[0] == INT32_MIN);
    fixture_close(&f);
}

Test(element, powers) {
    static const char text[] =
        "tsched.func @s(%x: tensor<f64>, %n: tensor<i64>) -> tensor<f64> attributes {kind = "
        "\"map\"} {\n"
        "%y = tessera.ipow %x, %n : tensor<f64>, tensor<i64> -> tensor<f64>\n"
        "tsched.return %y : tensor<f64>\n}\n"
        "tsched.func @v(%x: tensor<50xf64>, %n: tensor<50xi64>) -> tensor<50xf64> attributes "
        "{kind = \"map\"} {\n"
        "%y = tessera.ipow %x, %n : tensor<50xf64>, tensor<50xi64> -> tensor<50xf64>\n"
        "tsched.return %y : tensor<50xf64>\n}";
    fixture f = {0};
    fixture_open(&f, text);
    double x[50], y[50], z = 0;
    int64_t n[50];
    random_state random = {4};
    random_fill(&random, TSR_DTYPE_F64, x, 50, -2, 2);
    random_fill(&random, TSR_DTYPE_I64, n, 50, -40, 40);
    n[0] = 0;
    x[1] = 0.999;
    n[1] = 100000;
    x[2] = 1;
    n[2] = INT64_MIN;
    x[3] = 2, n[3] = -1074; /* the smallest number, whose inverse is not finite */
    x[4] = -2, n[4] = -1073;
    x[5] = -0.0, n[5] = -3;
    x[6] = -INFINITY, n[6] = -3;
    x[7] = 0.5, n[7] = -1024;
    void *outs[] = {y}, *scalar_outs[] = {&z};
    argument arguments[] = {{x, 400}, {n, 400}, {NULL, 400}};
    kernel_test(&f, "v", arguments, 3, outs, NULL, NULL);
    for (size_t i = 0; i < 50; i++) {
        double expected = pow(x[i], (double)n[i]);
        cr_assert(y[i] == expected || fabs(y[i] - expected) <= 1e-10 * fabs(expected),
                  "%a ^ %" PRId64 ": %a, not %a", x[i], n[i], y[i], expected);
        argument scalars[] = {{&x[i], 8}, {&n[i], 8}, {NULL, 8}};
        kernel_test(&f, "s", scalars, 3, scalar_outs, NULL, NULL);
        cr_assert(memcmp(&z, &y[i], sizeof z) == 0);
    }
    fixture_close(&f);
}

Test(element, dense_constants) {
    static const char text[] =
        "tsched.func @g(%x: tensor<5x3xf32>, %b: tensor<5x3xui8>) -> (tensor<5x3xf32>, "
        "tensor<5x3xi1>) attributes {kind = \"map\"} {\n"
        "%c = tessera.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>\n"
        "%m = tessera.constant dense<[[true], [false], [true], [true], [false]]> : tensor<5x1xi1>\n"
        "%u = tessera.constant dense<200> : tensor<ui8>\n"
        "%y = tessera.mul %x, %c : tensor<5x3xf32>, tensor<3xf32> -> tensor<5x3xf32>\n"
        "%z = tessera.where %m, %y, %x : tensor<5x1xi1>, tensor<5x3xf32>, tensor<5x3xf32> -> "
        "tensor<5x3xf32>\n"
        "%g = tessera.compare gt %b, %u : tensor<5x3xui8>, tensor<ui8> -> tensor<5x3xi1>\n"
        "tsched.return %z, %g : tensor<5x3xf32>, tensor<5x3xi1>\n}";
    static const float factors[] = {1, 2, 4};
    static const bool chosen[] = {true, false, true, true, false};
    fixture f = {0};
    fixture_open(&f, text);
    float x[15], z[15];
    uint8_t b[15], g[15];
    for (size_t i = 0; i < 15; i++) {
        x[i] = (float)i + 0.25f;
        b[i] = (uint8_t)(i * 19);
    }
    void *outs[] = {z, g};
    argument arguments[] = {{x, 60}, {b, 15}, {NULL, 60}, {NULL, 15}};
    kernel_test(&f, "g", arguments, 4, outs, NULL, NULL);
    for (size_t i = 0; i < 15; i++)
        cr_assert(z[i] == (chosen[i / 3] ? x[i] * factors[i % 3] : x[i]) && g[i] == (b[i] > 200));
    fixture_close(&f);
}

/* An output may overlap an input of the same shape and element size without changing the result. */
Test(element, in_place) {
    static const char text[] =
        "tsched.func @g(%x: tensor<64x130xf32>, %y: tensor<130xf32>) -> (tensor<64x130xf32>, "
        "tensor<64x130xi32>) attributes {kind = \"map\"} {\n"
        "%a = tessera.mul %x, %y : tensor<64x130xf32>, tensor<130xf32> -> tensor<64x130xf32>\n"
        "%b = tessera.add %a, %x : tensor<64x130xf32>, tensor<64x130xf32> -> tensor<64x130xf32>\n"
        "%c = tessera.cast %x : tensor<64x130xf32> to tensor<64x130xi32>\n"
        "tsched.return %b, %c : tensor<64x130xf32>, tensor<64x130xi32>\n}";
    static float x[64 * 130], y[130], z[64 * 130], over[64 * 130];
    static int32_t c[64 * 130];
    fixture f = {0};
    fixture_open(&f, text);
    random_state random = {12};
    random_fill(&random, TSR_DTYPE_F32, x, 64 * 130, -9, 9);
    random_fill(&random, TSR_DTYPE_F32, y, 130, -9, 9);
    void *outs[] = {z, c};
    argument arguments[] = {{x, sizeof x}, {y, sizeof y}, {NULL, sizeof z}, {NULL, sizeof c}};
    kernel_test(&f, "g", arguments, 4, outs, NULL, NULL);
    for (size_t t = 0; t < f.built_count; t++)
        for (int which = 0; which < 2; which++) {
            tsr_fault fault = {0};
            void *buffers[] = {over, y, which ? (void *)z : over, which ? (void *)over : c};
            memcpy(over, x, sizeof x);
            kernel_find(&f.built[t], "g")(&(tsr_kernel_args){buffers, &fault}, 0,
                                          kernel_grid(&f.built[t], "g"));
            for (size_t i = 0; i < 64 * 130; i++) {
                float product = x[i] * y[i % 130];
                int32_t cast = which ? ((int32_t *)over)[i] : c[i];
                cr_assert((which ? z[i] : over[i]) == product + x[i] && cast == (int32_t)x[i]);
            }
        }
    fixture_close(&f);
}
