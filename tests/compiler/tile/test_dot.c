/* SPDX-License-Identifier: Apache-2.0
 *
 * Dot products of bf16, bit by bit. The op consists of two multiply-adds, the second element's
 * first; the instruction flushes denormal inputs and results to zero, other CPUs do not. Then
 * products made of the op: the kernels are those for the CPU that has the instruction, compiled for
 * every CPU.
 */
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t to_bf16(float value) {
    uint16_t bits;
    tsr_dtype_write(TSR_DTYPE_BF16, (double)value, &bits, 0);
    return bits;
}

/* ---- the op ---------------------------------------------------------------------------------- */

static float flush(bool flushes, float value) {
    return flushes && fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static float add_product(const tsr_target *target, float a, float b, float sum) {
    bool flushes = target->has_dot;
    a = flush(flushes, a), b = flush(flushes, b), sum = flush(flushes, sum);
    float product = a * b;
    return flush(flushes, target->has_fma ? fmaf(a, b, sum) : product + sum);
}

/* a[0] b[0] + (a[1] b[1] + sum) */
static float dot(const tsr_target *target, const uint16_t *a, const uint16_t *b, float sum) {
    float second = add_product(target, from_bf16(a[1]), from_bf16(b[1]), sum);
    return add_product(target, from_bf16(a[0]), from_bf16(b[0]), second);
}

static bool is_same(float x, float y) {
    return memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y));
}

enum { ROUNDS = 100, LANES_MAX = 64 };

/* All kinds of patterns: any bits; small exponents; zeros, infinity, NaN. */
static uint16_t draw_bf16(random_state *random) {
    static const uint16_t special[] = {0, 0x8000, 0x7f80, 0xff80, 0x7fc1, 1, 0x8001, 0x7f, 0x80};
    uint64_t bits = random_u64(random);
    if (bits % 4 == 0) return special[(bits >> 8) % (TSR_COUNT(special))];
    if (bits % 4 == 1) return (uint16_t)(bits >> 8);
    return to_bf16((float)random_uniform(random, -4, 4) * (bits % 4 == 2 ? 1 : 0x1p-64f));
}

static float draw_f32(random_state *random) {
    uint32_t bits = (uint32_t)random_u64(random);
    float value;
    memcpy(&value, &bits, sizeof value);
    if (bits % 3 == 0) return (float)random_uniform(random, -9, 9);
    return bits % 3 == 1 ? (float)random_uniform(random, -1, 1) * 0x1p-127f : value;
}

static void test_op(unsigned lanes, bool one_pair) {
    static uint16_t a[2 * LANES_MAX], b[2 * LANES_MAX];
    static float sums[LANES_MAX], got[LANES_MAX];
    unsigned a_count = one_pair ? 2 : 2 * lanes, flushed = 0;
    char text[2048];
    random_state random = {lanes + one_pair};
    snprintf(text, sizeof text,
             "tile.func @dot(%%a: memref<%uxbf16>, %%b: memref<%uxbf16>, %%c: memref<%uxf32>, "
             "%%r: memref<%uxf32>) grid 1 attributes {outputs = 1 : i64} {\n"
             "%%0 = arith.constant 0 : index\n"
             "%%x = tile.load %%a[%%0] : memref<%uxbf16> -> vector<%uxbf16>\n"
             "%%y = tile.load %%b[%%0] : memref<%uxbf16> -> vector<%uxbf16>\n"
             "%%s = tile.load %%c[%%0] : memref<%uxf32> -> vector<%uxf32>\n"
             "%%d = tile.dot %%x, %%y, %%s : vector<%uxbf16>, vector<%uxbf16>, vector<%uxf32>\n"
             "tile.store %%d, %%r[%%0] : vector<%uxf32>, memref<%uxf32>\ntile.return\n}",
             a_count, 2 * lanes, lanes, lanes, a_count, a_count, 2 * lanes, 2 * lanes, lanes, lanes,
             a_count, 2 * lanes, lanes, lanes, lanes);
    fixture f = {0};
    fixture_open(&f, text);
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < a_count; i++) a[i] = draw_bf16(&random);
        for (unsigned i = 0; i < 2 * lanes; i++) b[i] = draw_bf16(&random);
        for (unsigned i = 0; i < lanes; i++) sums[i] = draw_f32(&random);
        const argument arguments[] = {
            {a, a_count * 2}, {b, lanes * 4}, {sums, lanes * 4}, {NULL, lanes * 4}};
        void *outs[] = {got};
        for (size_t t = 0; t < f.built_count; t++) {
            const tsr_target *target = f.built[t].target;
            kernel_run(&f.built[t], "dot", arguments, 4, SPLIT_WHOLE, GUARD_END, outs);
            for (unsigned i = 0; i < lanes; i++) {
                float wanted = dot(target, one_pair ? a : a + 2 * i, b + 2 * i, sums[i]);
                flushed += fpclassify(wanted) == FP_SUBNORMAL;
                cr_assert(is_same(wanted, got[i]), "%s, %u lanes, lane %u: expected %a, got %a",
                          target->name, lanes, i, (double)wanted, (double)got[i]);
            }
        }
    }
    cr_assert(flushed, "no denormal number was seen");
    fixture_close(&f);
}

Test(dot, op) {
    static const unsigned lanes[] = {1, 2, 4, 6, 8, 16, 20, 32, 64};
    for (size_t i = 0; i < TSR_COUNT(lanes); i++) {
        test_op(lanes[i], true);
        test_op(lanes[i], false);
    }
}

/* With and without the CPU's instruction, all numbers that are not denormal give the same bits. */
static void test_rounding(unsigned lanes) {
    static float values[LANES_MAX];
    static uint16_t by_cpu[LANES_MAX], plain[LANES_MAX];
    char text[1024];
    random_state random = {lanes};
    snprintf(text, sizeof text,
             "tile.func @round(%%x: memref<%uxf32>, %%y: memref<%uxbf16>, %%z: memref<%uxbf16>) "
             "grid 1 attributes {outputs = 2 : i64} {\n%%0 = arith.constant 0 : index\n"
             "%%v = tile.load %%x[%%0] : memref<%uxf32> -> vector<%uxf32>\n"
             "%%a = arith.truncf %%v {tile.normal} : vector<%uxf32> to vector<%uxbf16>\n"
             "%%b = arith.truncf %%v : vector<%uxf32> to vector<%uxbf16>\n"
             "tile.store %%a, %%y[%%0] : vector<%uxbf16>, memref<%uxbf16>\n"
             "tile.store %%b, %%z[%%0] : vector<%uxbf16>, memref<%uxbf16>\ntile.return\n}",
             lanes, lanes, lanes, lanes, lanes, lanes, lanes, lanes, lanes, lanes, lanes, lanes,
             lanes);
    fixture f = {0};
    fixture_open(&f, text);
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < lanes; i++) {
            uint32_t bits = (uint32_t)random_u64(&random);
            if (bits % 4 == 0) bits = bits << 8 | 0x8000;   /* ties */
            if (bits % 4 == 1) bits |= 0x7f800000;          /* NaN */
            if (bits % 64 == 2) bits = bits & 0x80000000;   /* zeros */
            if (bits % 64 == 3) bits = (bits | 0x7f7fffff); /* the largest, NaN */
            if (!(bits & 0x7f800000)) bits &= 0x80000000;
            memcpy(&values[i], &bits, sizeof bits);
        }
        const argument arguments[] = {{values, lanes * 4}, {NULL, lanes * 2}, {NULL, lanes * 2}};
        void *outs[] = {by_cpu, plain};
        for (size_t t = 0; t < f.built_count; t++) {
            kernel_run(&f.built[t], "round", arguments, 3, SPLIT_WHOLE, GUARD_END, outs);
            for (unsigned i = 0; i < lanes; i++)
                cr_assert(by_cpu[i] == plain[i], "%s, %u lanes: %a becomes %x, expected %x",
                          f.built[t].target->name, lanes, (double)values[i], by_cpu[i], plain[i]);
        }
    }
    fixture_close(&f);
}

Test(dot, rounding) {
    static const unsigned lanes[] = {1, 4, 6, 16, 20, 32, 64};
    for (size_t i = 0; i < TSR_COUNT(lanes); i++) test_rounding(lanes[i]);
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct problem {
    size_t m, n, k, batch, a_step, b_step; /* elements between a batch's matrices */
    bool ta, tb;
    const uint16_t *a, *b, *bias;
    const uint16_t *added, *factor; /* result's shape: (c + added) * factor; NULL: not applied */
} problem;

static float chain(const problem *p, const tsr_target *target, size_t g, size_t i, size_t j) {
    float sum = 0;
    for (size_t k = 0; k < p->k; k += 2) {
        uint16_t a[2] = {0}, b[2] = {0};
        for (size_t e = 0; e < 2 && k + e < p->k; e++) {
            a[e] = p->a[g * p->a_step + (p->ta ? (k + e) * p->m + i : i * p->k + k + e)];
            b[e] = p->b[g * p->b_step + (p->tb ? j * p->k + k + e : (k + e) * p->n + j)];
        }
        sum = dot(target, a, b, sum);
    }
    return sum;
}

/* Large problems are sampled; edges always belong to the sample. */
static bool is_sampled(const problem *p, size_t i, size_t j) {
    if (p->m * p->n * p->k * p->batch < 1000000) return true;
    return i == 0 || j == 0 || i == p->m - 1 || j == p->n - 1 || (i * 31 + j * 17) % 97 == 0;
}

static void check_product(const tsr_target *target, void *const *outs, void *user) {
    const problem *p = user;
    const uint16_t *got = outs[0];
    for (size_t g = 0; g < p->batch; g++)
        for (size_t i = 0; i < p->m; i++)
            for (size_t j = 0; j < p->n; j++) {
                if (!is_sampled(p, i, j)) continue;
                uint16_t wanted = to_bf16(chain(p, target, g, i, j));
                if (p->bias) {
                    wanted = to_bf16(from_bf16(wanted) + from_bf16(p->bias[j]));
                    if (from_bf16(wanted) < 0) wanted = 0;
                }
                if (p->added) {
                    wanted = to_bf16(from_bf16(wanted) + from_bf16(p->added[i * p->n + j]));
                    wanted = to_bf16(from_bf16(wanted) * from_bf16(p->factor[i * p->n + j]));
                }
                uint16_t has = got[(g * p->m + i) * p->n + j];
                cr_assert(wanted == has || (isnan(from_bf16(wanted)) && isnan(from_bf16(has))),
                          "%s %zux%zux%zu ta %d tb %d [%zu,%zu,%zu]: expected %a, got %a",
                          target->name, p->m, p->n, p->k, p->ta, p->tb, g, i, j,
                          (double)from_bf16(wanted), (double)from_bf16(has));
            }
}

static uint16_t *make(random_state *random, size_t count) {
    uint16_t *data = malloc(count * sizeof *data + 2);
    random_fill(random, TSR_DTYPE_BF16, data, count, -1, 1);
    return data;
}

static void matrix_type(char out[64], const char *dims, size_t rows, size_t columns, bool t) {
    snprintf(out, 64, "tensor<%s%zux%zuxbf16>", dims, t ? columns : rows, t ? rows : columns);
}

/* Compiling for AVX2 takes most of the time of a problem: only every other problem is built for it.
 */
static unsigned choose_left_out(const problem *p) {
    return (p->m + p->n + p->k + p->ta) % 2 ? 1 : 0;
}

static void run_problem(problem *p, const char *text, size_t b_count, bool strips) {
    random_state random = {p->m * 7919 + p->n * 104729 + p->k};
    fixture f = {0};
    size_t a_count = p->a_step ? p->a_step * p->batch : p->m * p->k;
    size_t c_count = p->m * p->n * p->batch;
    uint16_t *a = make(&random, a_count), *b = make(&random, b_count), *bias = make(&random, p->n);
    size_t packed_size = (p->n + 15) / 16 * ((p->k + 1) / 2) * 64;
    void *outs[] = {malloc(c_count * 2 + 1)}, *packed[] = {malloc(packed_size + 1)};
    bool has_bias = p->bias != NULL;
    p->a = a, p->b = b;
    /* The element after an odd row is not multiplied, not even by zero. */
    if (p->k % 2 && !p->ta) a[p->m / 2 * p->k] = 0x7fc0;
    if (has_bias) p->bias = bias;
    f.left_out = choose_left_out(p);
    fixture_open_dots(&f, text);
    argument pack[] = {{b, b_count * 2}, {NULL, packed_size}};
    if (strips) kernel_test(&f, "pk", pack, 2, packed, NULL, NULL);
    argument arguments[] = {{a, a_count * 2}, {b, b_count * 2}, {NULL, c_count * 2}, {0}, {0}};
    uint16_t *added = make(&random, c_count), *factor = make(&random, c_count);
    bool follows = p->added != NULL;
    if (strips) arguments[1] = (argument){packed[0], packed_size};
    if (has_bias) {
        arguments[3] = arguments[2];
        arguments[2] = (argument){bias, p->n * 2};
    }
    if (follows) {
        p->added = added, p->factor = factor;
        arguments[4] = arguments[2];
        arguments[2] = (argument){added, c_count * 2};
        arguments[3] = (argument){factor, c_count * 2};
    }
    size_t count = 3 + (size_t)has_bias + 2 * (size_t)follows;
    kernel_test(&f, "mm", arguments, count, outs, check_product, p);
    free(a);
    free(b);
    free(bias);
    free(added);
    free(factor);
    free(outs[0]);
    free(packed[0]);
    fixture_close(&f);
}

static void test_tiled(size_t m, size_t n, size_t k, bool ta, bool tb, const char *tile) {
    char a[64], b[64], c[64], text[1024];
    matrix_type(a, "", m, k, ta);
    matrix_type(b, "", k, n, tb);
    matrix_type(c, "", m, n, false);
    snprintf(text, sizeof text,
             "tsched.func @mm(%%a: %s, %%b: %s) -> %s attributes {kind = \"matmul\"%s} {\n"
             "%%c = tessera.matmul %%a, %%b {transpose_a = %s, transpose_b = %s} : %s, %s -> %s\n"
             "tsched.return %%c : %s\n}",
             a, b, c, tile, ta ? "true" : "false", tb ? "true" : "false", a, b, c, c);
    problem p = {.m = m, .n = n, .k = k, .batch = 1, .ta = ta, .tb = tb};
    run_problem(&p, text, k * n, false);
}

/* Each shape is tested with two of the four combinations of transposes; two neighbouring shapes
 * cover all four. */
Test(dot, shapes) {
    static const size_t shapes[][3] = {{1, 1, 1},    {1, 5, 2},    {4, 1, 3},    {3, 17, 1},
                                       {2, 3, 5},    {7, 13, 11},  {64, 10, 64}, {17, 48, 31},
                                       {31, 97, 65}, {5, 33, 257}, {64, 128, 64}};
    for (size_t i = 0; i < TSR_COUNT(shapes); i++)
        for (size_t ta = 0; ta < 2; ta++)
            test_tiled(shapes[i][0], shapes[i][1], shapes[i][2], ta, (ta + i) % 2, "");
}

/* The last vector holds at most half of its columns, or one more. */
Test(dot, last_lanes) {
    static const size_t columns[] = {17, 20, 24, 25, 36, 40, 53, 137};
    for (size_t i = 0; i < TSR_COUNT(columns); i++)
        test_tiled(29, columns[i], 33 + i % 2, i & 1, i & 2, "");
}

/* Several blocks of rows and of K; A packed in groups of tiles; few rows of a large B; rows 4096
 * bytes apart. */
Test(dot, large) {
    test_tiled(300, 100, 91, false, false, "");
    test_tiled(40, 130, 6001, false, false, "");
    test_tiled(333, 100, 521, true, false, "");
    test_tiled(230, 75, 2600, true, false, "");
    test_tiled(1, 1100, 601, false, false, "");
    test_tiled(1, 1024, 600, true, false, "");
    test_tiled(5, 1023, 423, false, false, "");
    test_tiled(20, 200, 2048, false, true, "");
}

/* The first tile of a panel packs it: several blocks of rows and of K, an odd K, an edge; a last
 * block of rows without a whole tile. */
Test(dot, packed_by_tiles) {
    test_tiled(523, 150, 301, false, false, "");
    test_tiled(1030, 75, 130, false, false, "");
    test_tiled(130, 117, 4601, false, false, "");
    test_tiled(243, 301, 300, false, false, ", tile = [5, 0, 80, 1, 0]");
    test_tiled(250, 301, 299, true, false, ", tile = [5, 0, 80, 2, 64]");
}

/* Few rows and a B that is contiguous along K: transposed tiles of C. */
Test(dot, transposed) {
    test_tiled(16, 17, 5, false, true, "");
    test_tiled(33, 97, 64, false, true, "");
    test_tiled(128, 150, 4601, false, true, "");
    test_tiled(45, 301, 67, false, true, ", tile = [5, 0, 40, 1, 16]");
}

Test(dot, tiles) {
    static const char *const tiles[] = {"[1]", "[3, 16, 6, 1, 16]", "[5, 32, 20, 2, 16]",
                                        "[0, 0, 0, 1, 32]", "[2, 48, 4, 1, 16]"};
    for (size_t i = 0; i < TSR_COUNT(tiles); i++) {
        char tile[64];
        snprintf(tile, sizeof tile, ", tile = %s", tiles[i]);
        test_tiled(45, 101, 67, i & 1, i & 2, tile);
    }
}

static void test_strips(size_t m, size_t n, size_t k, bool ta, bool tb, const char *tile) {
    char a[64], b[64], c[64], strips[64], text[2048];
    matrix_type(a, "", m, k, ta);
    matrix_type(b, "", k, n, tb);
    matrix_type(c, "", m, n, false);
    snprintf(strips, sizeof strips, "tensor<%zux%zux32xbf16>", (n + 15) / 16, (k + 1) / 2);
    snprintf(text, sizeof text,
             "tsched.func @pk(%%b: %s) -> %s attributes {kind = \"pack\"} {\n"
             "%%p = tsched.pack %%b {pairs = true, transpose = %s} : %s -> %s\n"
             "tsched.return %%p : %s\n}\n"
             "tsched.func @mm(%%a: %s, %%p: %s) -> %s attributes {kind = \"matmul\"%s} {\n"
             "%%b = tsched.unpack %%p {pairs = true} : %s -> tensor<%zux%zuxbf16>\n"
             "%%c = tessera.matmul %%a, %%b {transpose_a = %s} : %s, tensor<%zux%zuxbf16> -> %s\n"
             "tsched.return %%c : %s\n}",
             b, strips, tb ? "true" : "false", b, strips, strips, a, strips, c, tile, strips, k, n,
             ta ? "true" : "false", a, k, n, c, c);
    problem p = {.m = m, .n = n, .k = k, .batch = 1, .ta = ta, .tb = tb};
    run_problem(&p, text, k * n, true);
}

Test(dot, strips) {
    static const size_t shapes[][3] = {{1, 5, 2},     {1, 100, 70},  {2, 48, 31},  {7, 33, 64},
                                       {45, 101, 67}, {64, 128, 64}, {13, 16, 257}};
    for (size_t i = 0; i < TSR_COUNT(shapes); i++)
        for (size_t ta = 0; ta < 2; ta++)
            test_strips(shapes[i][0], shapes[i][1], shapes[i][2], ta, (ta + i) % 2, "");
    test_strips(70, 130, 6001, false, false, "");
    test_strips(31, 20, 67, false, false, "");
    test_strips(31, 40, 66, true, false, "");
    test_strips(301, 1100, 91, true, true, "");
    test_strips(45, 101, 67, false, false, ", tile = [3, 16, 6, 1, 7]");
}

/* a_dims and b_dims: the dims before the last two, as in "2x3x" or "". */
static void test_batched(const char *a_dims, const char *b_dims, const char *dims, problem p) {
    char a[64], b[64], c[64], text[1024];
    matrix_type(a, a_dims, p.m, p.k, false);
    matrix_type(b, b_dims, p.k, p.n, false);
    matrix_type(c, dims, p.m, p.n, false);
    snprintf(text, sizeof text,
             "tsched.func @mm(%%a: %s, %%b: %s, %%bias: tensor<%zuxbf16>) -> %s attributes {kind = "
             "\"matmul\"} {\n%%c = tessera.matmul %%a, %%b : %s, %s -> %s\n"
             "%%d = tessera.add %%c, %%bias : %s, tensor<%zuxbf16> -> %s\n"
             "%%e = tessera.relu %%d : %s\ntsched.return %%e : %s\n}",
             a, b, p.n, c, a, b, c, c, p.n, c, c, c);
    p.bias = (const uint16_t *)""; /* bias is used */
    run_problem(&p, text, p.b_step ? p.b_step * p.batch : p.k * p.n, false);
}

Test(dot, batches) {
    test_batched("2x3x", "2x3x", "2x3x",
                 (problem){.m = 9, .n = 20, .k = 7, .batch = 6, .a_step = 63, .b_step = 140});
    test_batched("2x3x", "", "2x3x", (problem){.m = 9, .n = 20, .k = 8, .batch = 6, .a_step = 72});
    test_batched("4x", "", "4x", (problem){.m = 13, .n = 100, .k = 65, .batch = 4, .a_step = 845});
    test_batched("", "5x", "5x", (problem){.m = 7, .n = 40, .k = 5, .batch = 5, .b_step = 200});
}

/* An epilogue that reads as much as it writes, twice: it overlaps with the next tile if there are
 * enough steps. */
static void test_following(size_t m, size_t n, size_t k, bool ta) {
    char a[64], b[64], c[64], text[2048];
    matrix_type(a, "", m, k, ta);
    matrix_type(b, "", k, n, false);
    matrix_type(c, "", m, n, false);
    snprintf(
        text, sizeof text,
        "tsched.func @mm(%%a: %s, %%b: %s, %%m: %s, %%v: %s) -> %s attributes {kind = "
        "\"matmul\"} {\n%%c = tessera.matmul %%a, %%b {transpose_a = %s} : %s, %s -> %s\n"
        "%%d = tessera.add %%c, %%m : %s, %s -> %s\n%%e = tessera.mul %%d, %%v : %s, %s -> %s\n"
        "tsched.return %%e : %s\n}",
        a, b, c, c, c, ta ? "true" : "false", a, b, c, c, c, c, c, c, c, c);
    problem p = {.m = m, .n = n, .k = k, .batch = 1, .ta = ta};
    p.added = (const uint16_t *)""; /* added is used */
    run_problem(&p, text, k * n, false);
}

Test(dot, epilogue_beside_tiles) {
    test_following(96, 96, 256, true);
    test_following(101, 100, 257, true); /* an odd last step */
    test_following(101, 130, 353, false);
    test_following(64, 70, 60, true); /* too few steps */
    test_following(230, 75, 2601, true);
}
