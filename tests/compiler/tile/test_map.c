/* SPDX-License-Identifier: Apache-2.0
 *
 * Map kernels: every elementwise op on every type, broadcasting, awkward shapes. The reference is
 * plain C on one element at a time.
 */
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <inttypes.h>
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

/* Wrapping arithmetic in 64 bits; the caller truncates. */
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
                  "%s %s of element %zu: expected %" PRId64 ", got %" PRId64, binary_names[op],
                  dtype_names[dtype], i, expected, int_get(dtype, got, i));
    }
}

/* Adds values that ops often get wrong. */
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

/* ---- one operand ----------------------------------------------------------------------------- */

typedef enum unary { SIGN, FLOOR, CLAMP, RSQRT, UNARY_COUNT } unary;
static const char *const unary_ops[] = {"sign %x", "floor %x", "clamp %x {low = -1.5, high = 20.0}",
                                        "rsqrt %x"};

static double float_unary(unary op, double x) {
    switch (op) {
    case SIGN:
        return x > 0 ? 1 : x < 0 ? -1 : x;
    case FLOOR:
        return floor(x);
    case CLAMP:
        return x < -1.5 ? -1.5 : x > 20 ? 20 : x;
    default:
        return 1 / sqrt(x);
    }
}

/* rsqrt of a float: both roundings */
static float float_rsqrt(float x) { return 1 / sqrtf(x); }

Test(map, unary) {
    tsr_buffer text = {0};
    for (int wide = 0; wide < 2; wide++)
        for (int op = 0; op < UNARY_COUNT; op++)
            tsr_buffer_printf(&text,
                              "tsched.func @u%d_%s(%%x: tensor<%dx%s>) -> tensor<%dx%s> attributes "
                              "{kind = \"map\"} {\n%%y = tessera.%s : tensor<%dx%s>\n"
                              "tsched.return %%y : tensor<%dx%s>\n}\n",
                              op, wide ? "f64" : "f32", COUNT, wide ? "f64" : "f32", COUNT,
                              wide ? "f64" : "f32", unary_ops[op], COUNT, wide ? "f64" : "f32",
                              COUNT, wide ? "f64" : "f32");
    fixture f = {0};
    fixture_open(&f, text.bytes);
    static double x[COUNT], y[COUNT];
    random_state random = {17};
    for (int wide = 0; wide < 2; wide++) {
        tsr_dtype dtype = wide ? TSR_DTYPE_F64 : TSR_DTYPE_F32;
        size_t size = COUNT * tsr_dtype_size(dtype);
        random_fill(&random, dtype, x, COUNT, -30, 30);
        add_special(dtype, x, y);
        for (int op = 0; op < UNARY_COUNT; op++) {
            char name[32];
            snprintf(name, sizeof name, "u%d_%s", op, wide ? "f64" : "f32");
            void *outs[] = {y};
            argument arguments[] = {{x, size}, {NULL, size}};
            kernel_test(&f, name, arguments, 2, outs, NULL, NULL);
            for (size_t i = 0; i < COUNT; i++) {
                double from = element_get(dtype, x, i), got = element_get(dtype, y, i);
                double expected = float_unary((unary)op, from);
                if (op == RSQRT && !wide) expected = (double)float_rsqrt((float)from);
                cr_assert(equal_or_nan(got, expected) &&
                              (isnan(got) || !signbit(got) == !signbit(expected)),
                          "%s of %g: %g, not %g", unary_ops[op], from, got, expected);
            }
        }
    }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

Test(map, sign_of_integers) {
    static const char text[] =
        "tsched.func @l(%x: tensor<101xi64>) -> tensor<101xi64> attributes {kind = \"map\"} {\n"
        "%y = tessera.sign %x : tensor<101xi64>\n"
        "tsched.return %y : tensor<101xi64>\n}\n"
        "tsched.func @i(%x: tensor<101xi32>) -> tensor<101xi32> attributes {kind = \"map\"} {\n"
        "%y = tessera.sign %x : tensor<101xi32>\n"
        "tsched.return %y : tensor<101xi32>\n}\n";
    int64_t x[101], y[101];
    int32_t ix[101], iy[101];
    fixture f = {0};
    fixture_open(&f, text);
    random_state random = {18};
    random_fill(&random, TSR_DTYPE_I64, x, 101, -3, 3);
    x[0] = INT64_MIN;
    x[1] = INT64_MAX;
    for (size_t i = 0; i < 101; i++) ix[i] = (int32_t)(x[i] % 3);
    void *outs[] = {y}, *int_outs[] = {iy};
    argument arguments[] = {{x, sizeof x}, {NULL, sizeof y}};
    argument ints[] = {{ix, sizeof ix}, {NULL, sizeof iy}};
    kernel_test(&f, "l", arguments, 2, outs, NULL, NULL);
    kernel_test(&f, "i", ints, 2, int_outs, NULL, NULL);
    for (size_t i = 0; i < 101; i++) {
        cr_assert(y[i] == (x[i] > 0) - (x[i] < 0));
        cr_assert(iy[i] == (ix[i] > 0) - (ix[i] < 0));
    }
    fixture_close(&f);
}

static int64_t integer_at(tsr_dtype dtype, const void *data, size_t i) {
    switch (dtype) {
    case TSR_DTYPE_I64:
        return ((const int64_t *)data)[i];
    case TSR_DTYPE_I32:
        return ((const int32_t *)data)[i];
    case TSR_DTYPE_I16:
        return ((const int16_t *)data)[i];
    case TSR_DTYPE_I8:
        return ((const int8_t *)data)[i];
    case TSR_DTYPE_UI32:
        return ((const uint32_t *)data)[i];
    case TSR_DTYPE_UI16:
        return ((const uint16_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* Bounds at and inside the ends of each type. */
Test(map, clamp_of_integers) {
    static const struct {
        tsr_dtype dtype;
        int64_t low, high;
    } rows[] = {
        {TSR_DTYPE_I64, -3, 5},          {TSR_DTYPE_I64, -4503599627370497, 4503599627370497},
        {TSR_DTYPE_I32, INT32_MIN, 7},   {TSR_DTYPE_I32, -7, INT32_MAX},
        {TSR_DTYPE_I8, INT8_MIN, -1},    {TSR_DTYPE_I8, -5, INT8_MAX},
        {TSR_DTYPE_UI8, 100, UINT8_MAX}, {TSR_DTYPE_UI8, 0, 200},
        {TSR_DTYPE_I16, INT16_MIN, -1},  {TSR_DTYPE_I16, -5, INT16_MAX},
        {TSR_DTYPE_UI16, 0, 40000},      {TSR_DTYPE_UI16, 40000, UINT16_MAX},
        {TSR_DTYPE_UI32, 0, 3000000000}, {TSR_DTYPE_UI32, 3000000000, UINT32_MAX}};
    enum { ROWS = TSR_COUNT(rows), SIZE = 101 };
    tsr_buffer text = {0};
    for (size_t r = 0; r < ROWS; r++) {
        const char *name = tsr_dtype_name(rows[r].dtype);
        tsr_buffer_printf(
            &text,
            "tsched.func @c%zu(%%x: tensor<%dx%s>) -> tensor<%dx%s> attributes {kind = \"map\"} "
            "{\n%%y = tessera.clamp %%x {low = %" PRId64 ".0, high = %" PRId64
            ".0} : tensor<%dx%s>\ntsched.return %%y : tensor<%dx%s>\n}\n",
            r, SIZE, name, SIZE, name, rows[r].low, rows[r].high, SIZE, name, SIZE, name);
    }
    fixture f = {0};
    fixture_open(&f, text.bytes);
    random_state random = {19};
    for (size_t r = 0; r < ROWS; r++) {
        tsr_dtype dtype = rows[r].dtype;
        size_t size = tsr_dtype_size(dtype), bytes = SIZE * size;
        uint64_t x[SIZE], y[SIZE];
        char name[16];
        snprintf(name, sizeof name, "c%zu", r);
        for (size_t i = 0; i < SIZE; i++) x[i] = random_u64(&random); /* all patterns of the type */
        void *outs[] = {y};
        argument arguments[] = {{x, bytes}, {NULL, bytes}};
        kernel_test(&f, name, arguments, 2, outs, NULL, NULL);
        for (size_t i = 0; i < SIZE; i++) {
            int64_t from = integer_at(dtype, x, i), got = integer_at(dtype, y, i);
            int64_t least = from < rows[r].low ? rows[r].low : from;
            cr_assert_eq(got, least > rows[r].high ? rows[r].high : least,
                         "%s: %" PRId64 " gives %" PRId64, tsr_dtype_name(dtype), from, got);
        }
    }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

Test(map, logic) {
    static const char text[] =
        "tsched.func @g(%x: tensor<40x33xi1>, %y: tensor<33xi1>) -> (tensor<40x33xi1>, "
        "tensor<40x33xi1>, tensor<40x33xi1>, tensor<40x33xi1>) attributes {kind = \"map\"} {\n"
        "%a = tessera.and %x, %y : tensor<40x33xi1>, tensor<33xi1> -> tensor<40x33xi1>\n"
        "%o = tessera.or %x, %y : tensor<40x33xi1>, tensor<33xi1> -> tensor<40x33xi1>\n"
        "%e = tessera.xor %x, %y : tensor<40x33xi1>, tensor<33xi1> -> tensor<40x33xi1>\n"
        "%n = tessera.not %x : tensor<40x33xi1>\n"
        "tsched.return %a, %o, %e, %n : tensor<40x33xi1>, tensor<40x33xi1>, tensor<40x33xi1>, "
        "tensor<40x33xi1>\n}\n"
        "tsched.func @s(%x: tensor<i1>, %y: tensor<i1>) -> tensor<i1> attributes {kind = \"map\"} "
        "{\n%e = tessera.xor %x, %y : tensor<i1>, tensor<i1> -> tensor<i1>\n"
        "%n = tessera.not %e : tensor<i1>\n"
        "tsched.return %n : tensor<i1>\n}\n";
    enum { ALL = 40 * 33 };
    uint8_t x[ALL], y[33], a[ALL], o[ALL], e[ALL], n[ALL], one = 0;
    fixture f = {0};
    fixture_open(&f, text);
    random_state random = {19};
    random_fill(&random, TSR_DTYPE_I1, x, ALL, 0, 1);
    random_fill(&random, TSR_DTYPE_I1, y, 33, 0, 1);
    void *outs[] = {a, o, e, n}, *scalar_outs[] = {&one};
    argument arguments[] = {{x, ALL}, {y, 33}, {NULL, ALL}, {NULL, ALL}, {NULL, ALL}, {NULL, ALL}};
    kernel_test(&f, "g", arguments, 6, outs, NULL, NULL);
    for (size_t i = 0; i < ALL; i++) {
        bool p = x[i], q = y[i % 33];
        cr_assert(a[i] == (p && q) && o[i] == (p || q) && e[i] == (p != q) && n[i] == !p);
    }
    for (uint8_t p = 0; p < 2; p++)
        for (uint8_t q = 0; q < 2; q++) {
            argument scalars[] = {{&p, 1}, {&q, 1}, {NULL, 1}};
            kernel_test(&f, "s", scalars, 3, scalar_outs, NULL, NULL);
            cr_assert(one == (p == q));
        }
    fixture_close(&f);
}

/* ---- a CPU with dot products of bf16 --------------------------------------------------------- */

/* Without bf16 the code equals that for the CPU without dot products, byte by byte: the harness
 * relies on it. */
Test(map, without_bf16) {
    static const char text[] =
        "tsched.func @map(%x: tensor<1000xf32>, %y: tensor<1000xf32>) -> tensor<1000xf32> "
        "attributes {kind = \"map\"} {\n%a = tessera.gelu %x : tensor<1000xf32>\n"
        "%b = tessera.exp %y : tensor<1000xf32>\n"
        "%c = tessera.div %a, %b : tensor<1000xf32>, tensor<1000xf32> -> tensor<1000xf32>\n"
        "tsched.return %c : tensor<1000xf32>\n}\n"
        "tsched.func @small(%x: tensor<77xf16>) -> tensor<77xi32> attributes {kind = \"map\"} {\n"
        "%a = tessera.cast %x : tensor<77xf16> to tensor<77xi32>\n"
        "tsched.return %a : tensor<77xi32>\n}\n"
        "tsched.func @mm(%a: tensor<37x65xf32>, %b: tensor<65x43xf32>) -> tensor<37x43xf32> "
        "attributes {kind = \"matmul\"} {\n%c = tessera.matmul %a, %b : tensor<37x65xf32>, "
        "tensor<65x43xf32> -> tensor<37x43xf32>\ntsched.return %c : tensor<37x43xf32>\n}";
    fixture f = {.all_targets = true};
    fixture_open(&f, text);
    const built *last = &f.built[f.built_count - 1];
    if (!last->target->has_dot) cr_skip_test("this CPU has no dot products of bf16");
    cr_assert(last->elf_size == last[-1].elf_size &&
                  memcmp(last->elf, last[-1].elf, last->elf_size) == 0,
              "the code for %s is not that for %s", last->target->name, last[-1].target->name);
    fixture_close(&f);
    fixture_open(&f, text);
    cr_assert(!f.built[f.built_count - 1].target->has_dot, "it was compiled again");
    fixture_close(&f);
}
