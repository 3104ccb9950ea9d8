/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16, f16 and i8. Conversions of every 16-bit pattern and of random ones against the one-step
 * rounding of runtime/base; then the rule that an op on bf16 or f16 is the op on f32, rounded once.
 */
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERNS = 65536 };

static const tsr_dtype narrows[] = {TSR_DTYPE_BF16, TSR_DTYPE_F16};

static void cast_text(tsr_buffer *text, tsr_dtype from, tsr_dtype to) {
    const char *a = tsr_dtype_name(from), *b = tsr_dtype_name(to);
    tsr_buffer_printf(text,
                      "tsched.func @%s_%s(%%x: tensor<%dx%s>) -> tensor<%dx%s> attributes {kind = "
                      "\"map\"} {\n%%y = tessera.cast %%x : tensor<%dx%s> to tensor<%dx%s>\n"
                      "tsched.return %%y : tensor<%dx%s>\n}\n",
                      a, b, PATTERNS, a, PATTERNS, b, PATTERNS, a, PATTERNS, b, PATTERNS, b);
}

static void cast_run(fixture *f, tsr_dtype from, tsr_dtype to, const void *x, void *y) {
    char name[32];
    void *outs[] = {y};
    argument arguments[] = {{x, PATTERNS * tsr_dtype_size(from)},
                            {NULL, PATTERNS * tsr_dtype_size(to)}};
    snprintf(name, sizeof name, "%s_%s", tsr_dtype_name(from), tsr_dtype_name(to));
    kernel_test(f, name, arguments, 2, outs, NULL, NULL);
}

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) != 0 : a == b && signbit(a) == signbit(b);
}

/* ---- from 16 bits ---------------------------------------------------------------------------- */

static double clamped(double x, double low, double high) {
    return isnan(x) ? 0 : x < low ? low : x > high ? high : trunc(x);
}

static double converted(double x, tsr_dtype to) {
    if (to == TSR_DTYPE_I1) return x != 0;
    if (!tsr_dtype_is_float(to) &&
        !tsr_dtype_is_small(to)) /* the largest i64 is not a double: compared as 2^63 */
        return clamped(x, (double)tsr_dtype_lowest(to), (double)tsr_dtype_highest(to));
    if (to == TSR_DTYPE_F64 || to == TSR_DTYPE_F32) return x;
    uint16_t bits = 0;
    tsr_dtype_write(to, x, &bits, 0);
    return tsr_dtype_read(to, &bits, 0);
}

Test(narrow, every_pattern_to_every_dtype) {
    static uint16_t x[PATTERNS];
    static double y[PATTERNS];
    tsr_buffer text = {0};
    for (size_t i = 0; i < PATTERNS; i++) x[i] = (uint16_t)i;
    for (int n = 0; n < 2; n++)
        for (tsr_dtype to = TSR_DTYPE_F64; to <= (tsr_dtype)TSR_DTYPE_COUNT; to++)
            cast_text(&text, narrows[n], to);
    fixture f = {0};
    fixture_open(&f, text.bytes);
    for (int n = 0; n < 2; n++)
        for (tsr_dtype to = TSR_DTYPE_F64; to <= (tsr_dtype)TSR_DTYPE_COUNT; to++) {
            cast_run(&f, narrows[n], to, x, y);
            for (size_t i = 0; i < PATTERNS; i++) {
                double from = tsr_dtype_read(narrows[n], x, i), got = tsr_dtype_read(to, y, i);
                double want = converted(from, to);
                if (!tsr_dtype_is_float(to) && !tsr_dtype_is_small(to)) want += 0.0; /* no -0 */
                cr_assert(same(got, want), "%s %zx to %s: %g, not %g", tsr_dtype_name(narrows[n]),
                          i, tsr_dtype_name(to), got, want);
            }
        }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

/* ---- to 16 bits ------------------------------------------------------------------------------ */

/* Ties, and the numbers next to them, in the range of `to`; then any bits. */
static void fill_floats(tsr_dtype from, tsr_dtype to, void *x) {
    random_state random = {(uint64_t)from * 16 + (uint64_t)to};
    for (size_t i = 0; i < PATTERNS; i++) {
        uint16_t bits[2] = {(uint16_t)random_u64(&random), 0};
        bits[1] = (uint16_t)(bits[0] + 1);
        double a = tsr_dtype_read(to, bits, 0), b = tsr_dtype_read(to, bits, 1);
        double tie = a / 2 + b / 2, value = tie;
        if (i % 4 == 1) value = nextafter(tie, INFINITY);
        if (i % 4 == 2) value = nextafter(tie, -INFINITY);
        if (from == TSR_DTYPE_F32 && i % 4 == 1) value = (double)nextafterf((float)tie, INFINITY);
        if (from == TSR_DTYPE_F32 && i % 4 == 2) value = (double)nextafterf((float)tie, -INFINITY);
        tsr_dtype_write(from, value, x, i);
        uint64_t any = random_u64(&random);
        if (i % 4 == 3) memcpy((char *)x + i * tsr_dtype_size(from), &any, tsr_dtype_size(from));
    }
}

static void fill_integers(tsr_dtype from, void *x) {
    random_state random = {(uint64_t)from};
    for (size_t i = 0; i < PATTERNS; i++) {
        uint64_t value = random_u64(&random) >> (i % 64);
        if (tsr_dtype_size(from) == 8 && value >> 53) value >>= 11; /* exact in f64 */
        if (from == TSR_DTYPE_I1) value &= 1;
        if (tsr_dtype_is_signed(from) && i % 3 == 0) value = -value;
        memcpy((char *)x + i * tsr_dtype_size(from), &value, tsr_dtype_size(from));
    }
}

Test(narrow, everything_is_rounded_once) {
    static double x[PATTERNS];
    static uint16_t y[PATTERNS];
    tsr_buffer text = {0};
    for (int n = 0; n < 2; n++)
        for (tsr_dtype from = TSR_DTYPE_F64; from <= (tsr_dtype)TSR_DTYPE_COUNT; from++)
            if (from != TSR_DTYPE_BF16 && from != TSR_DTYPE_F16) cast_text(&text, from, narrows[n]);
    fixture f = {0};
    fixture_open(&f, text.bytes);
    for (int n = 0; n < 2; n++)
        for (tsr_dtype from = TSR_DTYPE_F64; from <= (tsr_dtype)TSR_DTYPE_COUNT; from++) {
            if (from == TSR_DTYPE_BF16 || from == TSR_DTYPE_F16) continue;
            if (tsr_dtype_is_float(from))
                fill_floats(from, narrows[n], x);
            else
                fill_integers(from, x);
            cast_run(&f, from, narrows[n], x, y);
            for (size_t i = 0; i < PATTERNS; i++) {
                double exact = tsr_dtype_read(from, x, i), got = tsr_dtype_read(narrows[n], y, i);
                cr_assert(same(got, converted(exact, narrows[n])), "%s %a to %s: %a",
                          tsr_dtype_name(from), exact, tsr_dtype_name(narrows[n]), got);
            }
        }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static const char *const ops[] = {"neg",  "abs",     "relu",  "exp",   "log",
                                  "tanh", "sqrt",    "rsqrt", "erf",   "expm1",
                                  "silu", "sigmoid", "gelu",  "floor", "sign"};
static const char *const pairs[] = {"add", "sub", "mul", "div", "max", "min", "pow"};
enum { OPS = TSR_COUNT(ops), PAIRS = TSR_COUNT(pairs), COUNT = 4099 };

static void append_op(tsr_buffer *text, const char *name, const char *dtype, bool pair) {
    char type[32];
    snprintf(type, sizeof type, "tensor<%dx%s>", COUNT, dtype);
    tsr_buffer_printf(text, "tsched.func @%s_%s(%%x: %s%s%s) -> %s attributes {kind = \"map\"} {\n",
                      name, dtype, type, pair ? ", %y: " : "", pair ? type : "", type);
    if (pair)
        tsr_buffer_printf(text, "%%z = tessera.%s %%x, %%y : %s, %s -> %s\n", name, type, type,
                          type);
    else
        tsr_buffer_printf(text, "%%z = tessera.%s %%x : %s\n", name, type);
    tsr_buffer_printf(text, "tsched.return %%z : %s\n}\n", type);
}

static void op_run(fixture *f, const char *name, tsr_dtype dtype, const void *x, const void *y,
                   void *z) {
    char symbol[32];
    size_t size = COUNT * tsr_dtype_size(dtype);
    void *outs[] = {z};
    argument two[] = {{x, size}, {y, size}, {NULL, size}}, one[] = {{x, size}, {NULL, size}};
    snprintf(symbol, sizeof symbol, "%s_%s", name, tsr_dtype_name(dtype));
    f->nans = &dtype;
    kernel_test(f, symbol, y ? two : one, y ? 3 : 2, outs, NULL, NULL);
}

/* Results of targets without FMA differ in f32 as well: only the strongest is compared. */
static void check_op(fixture *f, const char *name, bool pair, tsr_dtype dtype) {
    static uint16_t x[COUNT], y[COUNT], z[COUNT], want[COUNT];
    static float wide_x[COUNT], wide_y[COUNT], wide_z[COUNT];
    random_state random = {99};
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = (uint16_t)random_u64(&random);
        y[i] = (uint16_t)random_u64(&random);
        wide_x[i] = (float)tsr_dtype_read(dtype, x, i);
        wide_y[i] = (float)tsr_dtype_read(dtype, y, i);
    }
    op_run(f, name, dtype, x, pair ? y : NULL, z);
    op_run(f, name, TSR_DTYPE_F32, wide_x, pair ? wide_y : NULL, wide_z);
    for (size_t i = 0; i < COUNT; i++) {
        tsr_dtype_write(dtype, (double)wide_z[i], want, i);
        cr_assert(same(tsr_dtype_read(dtype, z, i), tsr_dtype_read(dtype, want, i)),
                  "%s of %s %04x, %04x: %04x, not %04x", name, tsr_dtype_name(dtype), x[i], y[i],
                  z[i], want[i]);
    }
}

Test(narrow, ops_are_f32_ops_rounded_once) {
    static const char *const dtypes[] = {"f32", "bf16", "f16"};
    tsr_buffer text = {0};
    for (int d = 0; d < 3; d++) {
        for (size_t i = 0; i < OPS; i++) append_op(&text, ops[i], dtypes[d], false);
        for (size_t i = 0; i < PAIRS; i++) append_op(&text, pairs[i], dtypes[d], true);
    }
    fixture f = {0};
    fixture_open(&f, text.bytes);
    for (int n = 0; n < 2; n++) {
        for (size_t i = 0; i < OPS; i++) check_op(&f, ops[i], false, narrows[n]);
        for (size_t i = 0; i < PAIRS; i++) check_op(&f, pairs[i], true, narrows[n]);
    }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

/* Each op of a chain is rounded, as if it had its own kernel. */
Test(narrow, a_chain_rounds_at_each_op) {
    static const char text[] =
        "tsched.func @g(%x: tensor<257xbf16>, %y: tensor<257xbf16>) -> tensor<257xbf16> attributes "
        "{kind = \"map\"} {\n"
        "%m = tessera.mul %x, %y : tensor<257xbf16>, tensor<257xbf16> -> tensor<257xbf16>\n"
        "%s = tessera.sub %m, %x : tensor<257xbf16>, tensor<257xbf16> -> tensor<257xbf16>\n"
        "tsched.return %s : tensor<257xbf16>\n}";
    uint16_t x[257], y[257], z[257], product, want;
    fixture f = {0};
    fixture_open(&f, text);
    random_state random = {5};
    random_fill(&random, TSR_DTYPE_BF16, x, 257, 0.5, 2);
    random_fill(&random, TSR_DTYPE_BF16, y, 257, 0.9, 1.1);
    void *outs[] = {z};
    argument arguments[] = {{x, 514}, {y, 514}, {NULL, 514}};
    kernel_test(&f, "g", arguments, 3, outs, NULL, NULL);
    for (size_t i = 0; i < 257; i++) {
        double a = tsr_dtype_read(TSR_DTYPE_BF16, x, i);
        tsr_dtype_write(TSR_DTYPE_BF16, a * tsr_dtype_read(TSR_DTYPE_BF16, y, i), &product, 0);
        tsr_dtype_write(TSR_DTYPE_BF16, tsr_dtype_read(TSR_DTYPE_BF16, &product, 0) - a, &want, 0);
        cr_assert_eq(z[i], want, "%zu", i);
    }
    fixture_close(&f);
}

/* Reductions are computed in f32 and rounded once, at the end. */
Test(narrow, reductions) {
    static const char *const names[] = {"sum", "reduce_max", "reduce_min", "reduce_prod"};
    static const char *const types[] = {"f32", "bf16", "f16"};
    enum { R = 37, C = 203 };
    tsr_buffer text = {0};
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < 4; i++)
            for (int axis = 0; axis < 2; axis++)
                tsr_buffer_printf(&text,
                                  "tsched.func @%s%d_%s(%%x: tensor<%dx%dx%s>) -> tensor<%dx%s> "
                                  "attributes {kind = \"reduce\"} {\n%%y = tessera.%s %%x {axes = "
                                  "[%d]} : tensor<%dx%dx%s> -> tensor<%dx%s>\ntsched.return %%y : "
                                  "tensor<%dx%s>\n}\n",
                                  names[i], axis, types[d], R, C, types[d], axis ? R : C, types[d],
                                  names[i], axis, R, C, types[d], axis ? R : C, types[d],
                                  axis ? R : C, types[d]);
    fixture f = {0};
    fixture_open(&f, text.bytes);
    static uint16_t x[R * C], y[C], want;
    static float wide[R * C], sums[C];
    for (int n = 0; n < 2; n++) {
        random_state random = {(uint64_t)n};
        random_fill(&random, narrows[n], x, R * C, -1.5, 1.5);
        for (size_t i = 0; i < R * C; i++) wide[i] = (float)tsr_dtype_read(narrows[n], x, i);
        for (int i = 0; i < 8; i++) {
            char name[32];
            size_t count = i % 2 ? R : C;
            void *outs[] = {y}, *wide_outs[] = {sums};
            argument arguments[] = {{x, sizeof x}, {NULL, count * 2}};
            argument wides[] = {{wide, sizeof wide}, {NULL, count * 4}};
            snprintf(name, sizeof name, "%s%d_%s", names[i / 2], i % 2, types[n + 1]);
            kernel_test(&f, name, arguments, 2, outs, NULL, NULL);
            snprintf(name, sizeof name, "%s%d_f32", names[i / 2], i % 2);
            kernel_test(&f, name, wides, 2, wide_outs, NULL, NULL);
            for (size_t k = 0; k < count; k++) {
                tsr_dtype_write(narrows[n], (double)sums[k], &want, 0);
                cr_assert_eq(y[k], want, "%s, element %zu", name, k);
            }
        }
    }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

Test(narrow, transposes_and_constants) {
    static const char text[] =
        "tsched.func @t(%x: tensor<33x70xbf16>) -> tensor<70x33xbf16> attributes {kind = \"map\"} "
        "{\n"
        "%y = tessera.transpose %x {permutation = [1, 0]} : tensor<33x70xbf16> -> "
        "tensor<70x33xbf16>\n"
        "tsched.return %y : tensor<70x33xbf16>\n}\n"
        "tsched.func @c(%x: tensor<3xf16>) -> tensor<3xf16> attributes {kind = \"map\"} {\n"
        "%c = tessera.constant dense<[1.0, 0.5, -2.0]> : tensor<3xf16>\n"
        "%s = tessera.constant dense<0.25> : tensor<f16>\n"
        "%y = tessera.mul %x, %c : tensor<3xf16>, tensor<3xf16> -> tensor<3xf16>\n"
        "%z = tessera.add %y, %s : tensor<3xf16>, tensor<f16> -> tensor<3xf16>\n"
        "tsched.return %z : tensor<3xf16>\n}";
    static uint16_t x[33 * 70], y[33 * 70];
    uint16_t v[3], w[3];
    fixture f = {0};
    fixture_open(&f, text);
    random_state random = {3};
    random_fill(&random, TSR_DTYPE_BF16, x, 33 * 70, -9, 9);
    void *outs[] = {y}, *small[] = {w};
    argument arguments[] = {{x, sizeof x}, {NULL, sizeof y}}, three[] = {{v, 6}, {NULL, 6}};
    kernel_test(&f, "t", arguments, 2, outs, NULL, NULL);
    for (size_t i = 0; i < 33; i++)
        for (size_t k = 0; k < 70; k++) cr_assert_eq(y[k * 33 + i], x[i * 70 + k]);
    for (uint64_t i = 0; i < 3; i++) tsr_dtype_write(TSR_DTYPE_F16, 3, v, i);
    kernel_test(&f, "c", three, 2, small, NULL, NULL);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_F16, w, 0), 3.25);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_F16, w, 1), 1.75);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_F16, w, 2), -5.75);
    fixture_close(&f);
}

/* The last vector of a row has one lane: nothing next to it may be touched. */
Test(narrow, tails_of_one_lane) {
    static const tsr_dtype types[] = {TSR_DTYPE_BF16, TSR_DTYPE_F16, TSR_DTYPE_I8, TSR_DTYPE_UI8};
    static const size_t sizes[] = {1, 5, 9, 17, 33, 65, 129, 257};
    enum { ROWS = 3, MOST = 257 };
    float x[ROWS * MOST];
    uint16_t y[ROWS * MOST];
    random_state random = {8};
    random_fill(&random, TSR_DTYPE_F32, x, ROWS * MOST, 0, 99);
    for (size_t i = 0; i < TSR_COUNT(types); i++)
        for (size_t k = 0; k < TSR_COUNT(sizes); k++) {
            const char *name = tsr_dtype_name(types[i]);
            size_t count = sizes[k], size = tsr_dtype_size(types[i]);
            char text[512];
            snprintf(text, sizeof text,
                     "tsched.func @f(%%x: tensor<%dx%zuxf32>) -> tensor<%zux%s> attributes {kind = "
                     "\"reduce\"} {\n%%m = tessera.reduce_max %%x {axes = [0]} : "
                     "tensor<%dx%zuxf32> -> tensor<%zuxf32>\n%%y = tessera.cast %%m : "
                     "tensor<%zuxf32> to tensor<%zux%s>\ntsched.return %%y : tensor<%zux%s>\n}",
                     ROWS, count, count, name, ROWS, count, count, count, count, name, count, name);
            fixture f = {0};
            fixture_open(&f, text);
            void *outs[] = {y};
            argument arguments[] = {{x, ROWS * count * sizeof *x}, {NULL, count * size}};
            kernel_test(&f, "f", arguments, 2, outs, NULL, NULL);
            for (size_t c = 0; c < count; c++) {
                float most = fmaxf(x[c], fmaxf(x[count + c], x[2 * count + c]));
                double got = tsr_dtype_read(types[i], y, c);
                cr_assert(same(got, converted((double)most, types[i])), "%s, %zu of %zu: %g", name,
                          c, count, got);
            }
            fixture_close(&f);
        }
}

/* i8 wraps, and divides, compares and reduces with its sign. */
Test(narrow, signed_bytes) {
    static const char text[] =
        "tsched.func @g(%x: tensor<256xi8>, %y: tensor<256xi8>) -> (tensor<256xi8>, "
        "tensor<256xi8>, "
        "tensor<256xi8>, tensor<256xi1>, tensor<256xi32>) attributes {kind = \"map\"} {\n"
        "%a = tessera.add %x, %y : tensor<256xi8>, tensor<256xi8> -> tensor<256xi8>\n"
        "%d = tessera.div %x, %y : tensor<256xi8>, tensor<256xi8> -> tensor<256xi8>\n"
        "%m = tessera.max %x, %y : tensor<256xi8>, tensor<256xi8> -> tensor<256xi8>\n"
        "%c = tessera.compare lt %x, %y : tensor<256xi8>, tensor<256xi8> -> tensor<256xi1>\n"
        "%i = tessera.cast %x : tensor<256xi8> to tensor<256xi32>\n"
        "tsched.return %a, %d, %m, %c, %i : tensor<256xi8>, tensor<256xi8>, tensor<256xi8>, "
        "tensor<256xi1>, tensor<256xi32>\n}";
    int8_t x[256], y[256], a[256], d[256], m[256];
    uint8_t c[256];
    int32_t wide[256];
    fixture f = {0};
    fixture_open(&f, text);
    for (int i = 0; i < 256; i++) {
        x[i] = (int8_t)(i - 128);
        y[i] = (int8_t)(i * 37 % 256 - 128);
    }
    y[0] = -1; /* -128 / -1 */
    y[1] = 0;
    void *outs[] = {a, d, m, c, wide};
    argument arguments[] = {{x, 256},    {y, 256},    {NULL, 256}, {NULL, 256},
                            {NULL, 256}, {NULL, 256}, {NULL, 1024}};
    kernel_test(&f, "g", arguments, 7, outs, NULL, NULL);
    for (int i = 0; i < 256; i++) {
        int quotient = y[i] ? x[i] / y[i] : 0;
        cr_assert_eq(a[i], (int8_t)(uint8_t)(x[i] + y[i]));
        cr_assert_eq(d[i], (int8_t)(uint8_t)quotient, "%d / %d = %d", x[i], y[i], d[i]);
        cr_assert_eq(m[i], x[i] > y[i] ? x[i] : y[i]);
        cr_assert_eq(c[i], x[i] < y[i]);
        cr_assert_eq(wide[i], x[i]);
    }
    fixture_close(&f);
}
