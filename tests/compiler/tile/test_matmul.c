/* SPDX-License-Identifier: Apache-2.0
 *
 * Matmul kernels, bit by bit: the specification is chains of fused multiply-adds per element
 * (order.h), so the reference is fma() in a loop (a product and a sum, each rounded, for targets
 * without FMA).
 */
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"
#include "tests/compiler/tile/order.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    size_t m, n, k;
} shape;

typedef struct problem {
    shape s;
    bool ta, tb, wide; /* wide: f64 */
    const void *a, *b, *bias, *other;
} problem;

static double at(const problem *p, const void *data, size_t i) {
    return p->wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* acc + a * b in the problem's type */
static double step(const problem *p, bool fused, double a, double b, double acc) {
    if (p->wide) return fused ? fma(a, b, acc) : a * b + acc;
    if (fused) return (double)fmaf((float)a, (float)b, (float)acc);
    float product = (float)a * (float)b;
    return (double)(product + (float)acc);
}

typedef struct element {
    const problem *problem;
    bool fused;
    size_t i, j;
} element;

static double chain_of(const void *user, size_t first, size_t count) {
    const element *e = user;
    const problem *p = e->problem;
    double acc = 0;
    for (size_t k = first; k < first + count; k++) {
        double a = at(p, p->a, p->ta ? k * p->s.m + e->i : e->i * p->s.k + k);
        double b = at(p, p->b, p->tb ? e->j * p->s.k + k : k * p->s.n + e->j);
        acc = step(p, e->fused, a, b, acc);
    }
    return acc;
}

static double add(const void *user, double x, double y) {
    const element *e = user;
    return e->problem->wide ? x + y : (double)((float)x + (float)y);
}

static double chain(const problem *p, bool fused, size_t i, size_t j) {
    element e = {p, fused, i, j};
    return order_product(p->s.k, chain_of, add, &e);
}

/* Large problems are sampled; edges always belong to the sample. */
static bool is_sampled(const problem *p, size_t i, size_t j) {
    if (p->s.m * p->s.n * p->s.k < 2000000) return true;
    return i == 0 || j == 0 || i == p->s.m - 1 || j == p->s.n - 1 || (i * 31 + j * 17) % 97 == 0;
}

static void check_plain(const tsr_target *target, void *const *outs, void *user) {
    const problem *p = user;
    for (size_t i = 0; i < p->s.m; i++)
        for (size_t j = 0; j < p->s.n; j++) {
            if (!is_sampled(p, i, j)) continue;
            double expected = chain(p, target->has_fma, i, j), got = at(p, outs[0], i * p->s.n + j);
            cr_assert(memcmp(&expected, &got, sizeof got) == 0,
                      "%s %zux%zux%zu ta %d tb %d [%zu,%zu]: expected %a, got %a", target->name,
                      p->s.m, p->s.n, p->s.k, p->ta, p->tb, i, j, expected, got);
        }
}

static void matrix_type(char out[64], const char *dtype, size_t rows, size_t columns, bool t) {
    snprintf(out, 64, "tensor<%zux%zux%s>", t ? columns : rows, t ? rows : columns, dtype);
}

static void *make(random_state *random, bool wide, size_t count) {
    void *data = malloc(count * 8 + 8);
    random_fill(random, wide ? TSR_DTYPE_F64 : TSR_DTYPE_F32, data, count, -1, 1);
    return data;
}

/* Compiling takes most of the time: of two problems one is built for the weakest target (x86-64-v2,
 * no FMA), the other for the next one (AVX2); all are built for the strongest. */
static unsigned choose_left_out(shape s, bool ta, bool tb) {
    return (s.m + s.n + s.k + ta + tb) % 2 ? 1 : 2;
}

static void test_tiled(shape s, bool ta, bool tb, bool wide, const char *tile) {
    char a[64], b[64], c[64], text[1024];
    const char *dtype = wide ? "f64" : "f32";
    size_t size = wide ? 8 : 4;
    random_state random = {s.m * 7919 + s.n * 104729 + s.k};
    matrix_type(a, dtype, s.m, s.k, ta);
    matrix_type(b, dtype, s.k, s.n, tb);
    matrix_type(c, dtype, s.m, s.n, false);
    snprintf(text, sizeof text,
             "tsched.func @mm(%%a: %s, %%b: %s) -> %s attributes {kind = \"matmul\"%s} {\n"
             "%%c = tessera.matmul %%a, %%b {transpose_a = %s, transpose_b = %s} : %s, %s -> %s\n"
             "tsched.return %%c : %s\n}",
             a, b, c, tile, ta ? "true" : "false", tb ? "true" : "false", a, b, c, c);
    fixture f = {.left_out = choose_left_out(s, ta, tb)};
    fixture_open(&f, text);
    problem p = {.s = s, .ta = ta, .tb = tb, .wide = wide};
    void *x = make(&random, wide, s.m * s.k), *y = make(&random, wide, s.k * s.n);
    p.a = x;
    p.b = y;
    void *outs[] = {malloc(s.m * s.n * size + 1)};
    argument arguments[] = {
        {p.a, s.m * s.k * size}, {p.b, s.k * s.n * size}, {NULL, s.m * s.n * size}};
    kernel_test(&f, "mm", arguments, 3, outs, check_plain, &p);
    free(x);
    free(y);
    free(outs[0]);
    fixture_close(&f);
}

/* ---- B in strips ---- */

typedef struct packing {
    shape s;
    bool transposed, wide;
    size_t width;
    const void *b;
} packing;

static void check_pack(const tsr_target *target, void *const *outs, void *user) {
    const packing *p = user;
    problem as = {.s = p->s, .wide = p->wide};
    for (size_t c = 0; c < (p->s.n + p->width - 1) / p->width * p->width; c++)
        for (size_t k = 0; k < p->s.k; k++) {
            size_t from = p->transposed ? c * p->s.k + k : k * p->s.n + c;
            double expected = c < p->s.n ? at(&as, p->b, from) : 0;
            double got =
                at(&as, outs[0], c / p->width * p->s.k * p->width + k * p->width + c % p->width);
            cr_assert(memcmp(&expected, &got, sizeof got) == 0, "%s [%zu, %zu]: %a, not %a",
                      target->name, k, c, got, expected);
        }
}

/* A pack and a product of its result. */
static void test_strips(shape s, bool ta, bool tb, bool wide, const char *tile) {
    char a[64], b[64], c[64], strips[64], text[2048];
    const char *dtype = wide ? "f64" : "f32";
    size_t size = wide ? 8 : 4, width = 64 / size, count = (s.n + width - 1) / width;
    random_state random = {s.m * 7919 + s.n * 104729 + s.k};
    matrix_type(a, dtype, s.m, s.k, ta);
    matrix_type(b, dtype, s.k, s.n, tb);
    matrix_type(c, dtype, s.m, s.n, false);
    snprintf(strips, sizeof strips, "tensor<%zux%zux%zux%s>", count, s.k, width, dtype);
    snprintf(text, sizeof text,
             "tsched.func @pk(%%b: %s) -> %s attributes {kind = \"pack\"} {\n"
             "%%p = tsched.pack %%b {transpose = %s} : %s -> %s\ntsched.return %%p : %s\n}\n"
             "tsched.func @mm(%%a: %s, %%p: %s) -> %s attributes {kind = \"matmul\"%s} {\n"
             "%%b = tsched.unpack %%p : %s -> tensor<%zux%zux%s>\n"
             "%%c = tessera.matmul %%a, %%b {transpose_a = %s} : %s, tensor<%zux%zux%s> -> %s\n"
             "tsched.return %%c : %s\n}",
             b, strips, tb ? "true" : "false", b, strips, strips, a, strips, c, tile, strips, s.k,
             s.n, dtype, ta ? "true" : "false", a, s.k, s.n, dtype, c, c);
    fixture f = {.left_out = choose_left_out(s, ta, tb)};
    fixture_open(&f, text);
    problem p = {.s = s, .ta = ta, .tb = tb, .wide = wide};
    void *x = make(&random, wide, s.m * s.k), *y = make(&random, wide, s.k * s.n);
    p.a = x;
    p.b = y;
    packing how = {s, tb, wide, width, y};
    size_t strips_size = count * s.k * width * size;
    void *packed[] = {malloc(strips_size)}, *outs[] = {malloc(s.m * s.n * size + 1)};
    argument pack[] = {{y, s.k * s.n * size}, {NULL, strips_size}};
    kernel_test(&f, "pk", pack, 2, packed, check_pack, &how);
    argument multiply[] = {
        {x, s.m * s.k * size}, {packed[0], strips_size}, {NULL, s.m * s.n * size}};
    kernel_test(&f, "mm", multiply, 3, outs, check_plain, &p);
    free(x);
    free(y);
    free(packed[0]);
    free(outs[0]);
    fixture_close(&f);
}

Test(matmul, strips) {
    static const shape shapes[] = {{1, 5, 2},     {1, 100, 70},  {2, 48, 31},  {7, 33, 64},
                                   {45, 101, 67}, {64, 128, 64}, {13, 16, 257}};
    for (size_t i = 0; i < TSR_COUNT(shapes); i++)
        for (int t = 0; t < 4; t++) test_strips(shapes[i], t & 1, t & 2, t & 1, "");
    test_strips((shape){70, 130, 6001}, false, false, false, ""); /* several blocks of K */
    test_strips((shape){300, 1100, 90}, true, true, true, "");
}

Test(matmul, strips_in_tiles) {
    static const char *const tiles[] = {"[1]", "[2, 16, 6, 1, 8]", "[5, 16, 20, 2, 16]",
                                        "[0, 16, 0, 3]", "[2, 32, 4, 2, 16]"};
    for (size_t i = 0; i < TSR_COUNT(tiles); i++) {
        char tile[64];
        snprintf(tile, sizeof tile, ", tile = %s", tiles[i]);
        test_strips((shape){45, 101, 67}, false, i & 1, i & 2, tile);
    }
}

static void test_plain(shape s, bool ta, bool tb, bool wide) { test_tiled(s, ta, tb, wide, ""); }

Test(matmul, shapes) {
    static const shape shapes[] = {{1, 1, 1},    {1, 5, 2},    {4, 1, 3},    {3, 17, 1},
                                   {2, 3, 5},    {7, 13, 11},  {64, 10, 64}, {17, 48, 31},
                                   {13, 50, 70}, {31, 97, 64}, {5, 33, 257}, {64, 128, 64}};
    for (size_t i = 0; i < TSR_COUNT(shapes); i++)
        for (int t = 0; t < 4; t++) test_plain(shapes[i], t & 1, t & 2, false);
}

Test(matmul, wide) {
    static const shape shapes[] = {{1, 1, 1}, {7, 13, 11}, {29, 31, 37}, {64, 10, 64}};
    for (size_t i = 0; i < TSR_COUNT(shapes); i++)
        for (int t = 0; t < 4; t++) test_plain(shapes[i], t & 1, t & 2, true);
}

/* The last vector holds at most half of its columns, or one more; B is packed, in strips, or read
 * in place; one row without a loop over K. */
Test(matmul, last_lanes) {
    static const size_t columns[] = {17, 20, 24, 25, 36, 40, 41, 53, 56, 137};
    for (size_t i = 0; i < TSR_COUNT(columns); i++) {
        test_plain((shape){1, columns[i], 19}, false, false, false);
        test_plain((shape){47, columns[i], 33}, i & 1, false, false);
        test_plain((shape){15, columns[i] / 2, 70}, false, true, true);
        test_strips((shape){29, columns[i], 21}, false, i & 1, i & 2, "");
    }
    test_plain((shape){200, 1108, 90}, false, false, false);
    test_plain((shape){1, 1108, 301}, false, false, false);
    test_strips((shape){70, 132, 6001}, false, false, false, "");
}

/* Several blocks of rows, panels packed in several blocks of K. */
Test(matmul, large) {
    test_plain((shape){300, 100, 90}, false, false, false);
    test_plain((shape){40, 130, 3001}, false, false, false);
    test_plain((shape){40, 130, 3001}, true, true, false);
    test_plain((shape){37, 67, 1700}, false, true, true);
}

/* A is packed in tiles: groups of tiles, single tiles, an edge; as a whole and in several blocks of
 * K. */
Test(matmul, transposed) {
    test_plain((shape){333, 100, 260}, true, false, false);
    test_plain((shape){230, 75, 1300}, true, false, false);
    test_plain((shape){101, 65, 700}, true, true, true);
    test_plain((shape){3, 200, 65}, true, false, true);
}

/* The first tile of a panel packs it, and the last tiles prefetch the next one: several blocks of
 * rows and of K, an edge; a last block of rows without a whole tile. */
Test(matmul, packed_by_tiles) {
    test_plain((shape){523, 150, 300}, false, false, false);
    test_plain((shape){523, 150, 300}, false, false, true);
    test_plain((shape){1030, 75, 130}, false, false, false);
    test_plain((shape){260, 117, 2300}, false, false, false);
    test_tiled((shape){243, 301, 300}, false, false, false, ", tile = [5, 0, 80, 1, 0]");
    test_tiled((shape){250, 301, 300}, false, false, false, ", tile = [5, 0, 80, 2, 80]");
}

/* Few rows and a B that is contiguous along K: transposed tiles of C with edges in both dims, in
 * one block of K and in several. */
Test(matmul, swapped) {
    test_plain((shape){16, 17, 5}, false, true, false);
    test_plain((shape){33, 97, 64}, false, true, false);
    test_plain((shape){100, 1030, 70}, false, true, false);
    test_plain((shape){128, 523, 90}, false, true, true);
    test_plain((shape){127, 150, 2301}, false, true, false);
    test_tiled((shape){45, 301, 67}, false, true, false, ", tile = [1, 16]");
    test_tiled((shape){45, 301, 67}, false, true, true, ", tile = [4, 0, 40, 2, 16]");
}

/* Few rows and a B that is streamed; a transposed A with rows 4096 bytes apart; a B so large that
 * its columns are processed in several rounds. */
Test(matmul, streamed) {
    test_plain((shape){1, 1100, 300}, false, false, false);
    test_plain((shape){1, 1024, 301}, false, false, false);
    test_plain((shape){5, 1023, 211}, false, false, false);
    test_plain((shape){9, 700, 515}, true, false, true);
    test_plain((shape){2, 1501, 99}, false, false, false); /* several programs, an edge */
    test_plain((shape){4, 769, 131}, false, false, false);
    test_plain((shape){3, 300, 401}, false, false, true);
}

/* B is read in place, and the next panel is prefetched: one tile of rows, several, and more than
 * one block. */
Test(matmul, asked_for) {
    test_plain((shape){6, 1000, 101}, false, false, false);
    test_plain((shape){13, 245, 2001}, false, false, false);
    test_plain((shape){50, 1024, 77}, false, false, false);
    test_plain((shape){96, 333, 250}, false, false, true);
    test_plain((shape){191, 97, 1900}, false, false, false);
    test_tiled((shape){45, 301, 267}, false, false, false, ", tile = [4, 0, 16, 2, 50]");
}

/* More than one chain: chunks of one block of K, or of several; blocks that are parts of a chunk;
 * full groups of chunks, and groups of groups. */
Test(matmul, long_k, .timeout = 240) {
    static const size_t steps[] = {2048, 2049, 2304, 8192, 8193, 8448};
    for (size_t i = 0; i < TSR_COUNT(steps); i++)
        for (int t = 0; t < 4; t++)
            test_plain((shape){7 + 6 * (size_t)t, 19, steps[i]}, t & 1, t & 2,
                       (i + (size_t)t) % 3 == 0);
    test_plain((shape){1, 1100, 2500}, false, false, false);
    test_plain((shape){5, 1100, 2500}, false, false, false);
    test_plain((shape){300, 50, 2600}, true, false, false);
    test_plain((shape){2, 3, 300001}, false, true, false);
    test_tiled((shape){21, 70, 2600}, false, false, false, ", tile = [4, 0, 8, 1, 64]");
    test_tiled((shape){21, 70, 8500}, true, false, true, ", tile = [4, 0, 12, 2, 8]");
    test_tiled((shape){21, 70, 2600}, false, true, false, ", tile = [0, 0, 0, 0, 512]");
    test_strips((shape){21, 70, 2600}, false, true, true, "");
}

Test(matmul, aliased) {
    test_plain((shape){1024, 130, 77}, true, false, false);
    test_plain((shape){1024, 150, 1100}, true, true, false);
    test_plain((shape){300, 2100, 801}, false, false, false);
}

/* Sizes from the schedule change nothing but the order of the work. */
Test(matmul, tiles) {
    static const char *const tiles[] = {"[1]", "[2, 16, 6, 1, 8]", "[5, 16, 20, 2, 16]",
                                        "[0, 16, 0, 3]", "[2, 32, 4, 2, 16]"};
    for (size_t i = 0; i < TSR_COUNT(tiles); i++) {
        char tile[64];
        snprintf(tile, sizeof tile, ", tile = %s", tiles[i]);
        for (int t = 0; t < 4; t++) test_tiled((shape){45, 101, 67}, t & 1, t & 2, i == 1, tile);
    }
}

/* ---- B of 16 bits ---------------------------------------------------------------------------- */

/* B is widened when it is read, or is stored in strips of f32 or of its own type: the result is the
 * chain of the same numbers in f32. */
typedef enum lie { LIES_PLAIN, LIES_NARROW, LIES_WIDE } lie;

static void narrow_text(char *text, size_t size, shape s, bool tb, const char *dtype, lie how) {
    char b[64], wide[64], strips[64] = "";
    size_t width = how == LIES_WIDE ? 16 : 32;
    const char *as = how == LIES_WIDE ? "f32" : dtype, *t = tb ? "true" : "false";
    matrix_type(b, dtype, s.k, s.n, tb);
    matrix_type(wide, "f32", s.k, s.n, tb && how == LIES_PLAIN);
    snprintf(strips, sizeof strips, "tensor<%zux%zux%zux%s>", (s.n + width - 1) / width, s.k, width,
             as);
    int used = 0;
    if (how != LIES_PLAIN)
        used = snprintf(text, size,
                        "tsched.func @pk(%%b: %s) -> %s attributes {kind = \"pack\"} {\n"
                        "%%p = tsched.pack %%b {transpose = %s} : %s -> %s\n"
                        "tsched.return %%p : %s\n}\n",
                        b, strips, t, b, strips, strips);
    snprintf(text + used, size - (size_t)used,
             "tsched.func @mm(%%a: tensor<%zux%zuxf32>, %%b: %s) -> tensor<%zux%zuxf32> attributes "
             "{kind = \"matmul\"} {\n%%w = %s %%b : %s %s %s\n"
             "%%c = tessera.matmul %%a, %%w {transpose_b = %s} : tensor<%zux%zuxf32>, %s -> "
             "tensor<%zux%zuxf32>\ntsched.return %%c : tensor<%zux%zuxf32>\n}",
             s.m, s.k, how == LIES_PLAIN ? b : strips, s.m, s.n,
             how == LIES_PLAIN ? "tessera.cast" : "tsched.unpack", how == LIES_PLAIN ? b : strips,
             how == LIES_PLAIN ? "to" : "->", wide, tb && how == LIES_PLAIN ? "true" : "false", s.m,
             s.k, wide, s.m, s.n, s.m, s.n);
}

static void test_narrow(shape s, bool tb, tsr_dtype dtype, lie how) {
    char text[2048];
    random_state random = {s.m * 7919 + s.n * 104729 + s.k};
    size_t count = s.k * s.n, width = how == LIES_WIDE ? 16 : 32;
    size_t strips_size = (s.n + width - 1) / width * s.k * 64;
    void *a = make(&random, false, s.m * s.k), *narrow = make(&random, false, count);
    float *wide = make(&random, false, count);
    for (size_t i = 0; i < count; i++) {
        tsr_dtype_write(dtype, (double)wide[i], narrow, i);
        wide[i] = (float)element_get(dtype, narrow, i);
    }
    problem p = {.s = s, .tb = tb, .a = a, .b = wide};
    void *outs[] = {malloc(s.m * s.n * 4 + 1)}, *packed[] = {malloc(strips_size + 1)};
    narrow_text(text, sizeof text, s, tb, tsr_dtype_name(dtype), how);
    fixture f = {0};
    fixture_open(&f, text);
    argument pack[] = {{narrow, count * 2}, {NULL, strips_size}};
    argument multiply[] = {{a, s.m * s.k * 4}, {narrow, count * 2}, {NULL, s.m * s.n * 4}};
    if (how != LIES_PLAIN) {
        kernel_test(&f, "pk", pack, 2, packed, NULL, NULL);
        multiply[1] = (argument){packed[0], strips_size};
    }
    kernel_test(&f, "mm", multiply, 3, outs, check_plain, &p);
    free(a);
    free(narrow);
    free(wide);
    free(outs[0]);
    free(packed[0]);
    fixture_close(&f);
}

Test(matmul, narrow) {
    static const shape shapes[] = {{1, 200, 70}, {7, 33, 65}, {45, 101, 67}};
    for (size_t i = 0; i < TSR_COUNT(shapes); i++)
        for (int how = 0; how < 3; how++) {
            test_narrow(shapes[i], how & 1, TSR_DTYPE_BF16, (lie)how);
            test_narrow(shapes[i], !(how & 1), TSR_DTYPE_F16, (lie)how);
        }
    test_narrow((shape){1, 1100, 300}, false, TSR_DTYPE_BF16, LIES_PLAIN); /* streamed */
}

/* ---- epilogue -------------------------------------------------------------------------------- */

static void check_epilogue(const tsr_target *target, void *const *outs, void *user) {
    const problem *p = user;
    for (size_t i = 0; i < p->s.m; i++)
        for (size_t j = 0; j < p->s.n; j++) {
            float sum = (float)chain(p, target->has_fma, i, j) + (float)at(p, p->bias, j);
            float relu = sum > 0 ? sum : 0, scaled = relu * (float)at(p, p->other, i);
            size_t e = i * p->s.n + j;
            cr_assert(((const float *)outs[0])[e] == scaled &&
                          ((const uint8_t *)outs[1])[e] == (sum > 0),
                      "%s [%zu,%zu]", target->name, i, j);
        }
}

static void test_epilogue(bool tb) {
    char b[64], text[1024];
    matrix_type(b, "f32", 23, 37, tb);
    snprintf(
        text, sizeof text,
        "tsched.func @mm(%%a: tensor<19x23xf32>, %%b: %s, %%bias: tensor<37xf32>, "
        "%%rows: tensor<19x1xf32>) -> (tensor<19x37xf32>, tensor<19x37xi1>) attributes {kind = "
        "\"matmul\"} {\n"
        "%%z = tessera.constant dense<0.0> : tensor<f32>\n"
        "%%c = tessera.matmul %%a, %%b {transpose_b = %s} : tensor<19x23xf32>, %s -> "
        "tensor<19x37xf32>\n"
        "%%s = tessera.add %%c, %%bias : tensor<19x37xf32>, tensor<37xf32> -> tensor<19x37xf32>\n"
        "%%r = tessera.relu %%s : tensor<19x37xf32>\n"
        "%%g = tessera.compare gt %%s, %%z : tensor<19x37xf32>, tensor<f32> -> tensor<19x37xi1>\n"
        "%%m = tessera.mul %%r, %%rows : tensor<19x37xf32>, tensor<19x1xf32> -> "
        "tensor<19x37xf32>\n"
        "tsched.return %%m, %%g : tensor<19x37xf32>, tensor<19x37xi1>\n}",
        b, tb ? "true" : "false", b);
    random_state random = {5};
    problem p = {.s = {19, 37, 23}, .tb = tb};
    void *data[] = {make(&random, false, 19 * 23), make(&random, false, 23 * 37),
                    make(&random, false, 37), make(&random, false, 19)};
    p.a = data[0];
    p.b = data[1];
    p.bias = data[2];
    p.other = data[3];
    fixture f = {0};
    fixture_open(&f, text);
    static float scaled[19 * 37];
    static uint8_t positive[19 * 37];
    void *outs[] = {scaled, positive};
    argument arguments[] = {{p.a, 19 * 23 * 4}, {p.b, 23 * 37 * 4},    {p.bias, 37 * 4},
                            {p.other, 19 * 4},  {NULL, sizeof scaled}, {NULL, sizeof positive}};
    kernel_test(&f, "mm", arguments, 6, outs, check_epilogue, &p);
    for (size_t i = 0; i < 4; i++) free(data[i]);
    fixture_close(&f);
}

Test(matmul, epilogue) {
    test_epilogue(false);
    test_epilogue(true);
}

/* ---- an epilogue that overlaps with the next tile -------------------------------------------- */

/* A step of an optimizer: w, m and v have the shape of the product, `rate` one element per column.
 */
typedef struct following {
    problem p;
    const float *w, *m, *v, *rate;
} following;

static void check_following(const tsr_target *target, void *const *outs, void *user) {
    const following *f = user;
    for (size_t i = 0; i < f->p.s.m; i++)
        for (size_t j = 0; j < f->p.s.n; j++) {
            if (!is_sampled(&f->p, i, j)) continue;
            size_t e = i * f->p.s.n + j;
            float g = (float)chain(&f->p, target->has_fma, i, j), change = g - f->m[e];
            float square = g * g, m = f->m[e] + change * 0.125F, v = f->v[e] + square;
            float ratio = m / (sqrtf(v) + 0.5F), moved = ratio * f->rate[j], w = f->w[e] - moved;
            const float expected[] = {w, m, v};
            for (size_t o = 0; o < 3; o++) {
                float got = ((const float *)outs[o])[e];
                cr_assert(memcmp(&expected[o], &got, sizeof got) == 0,
                          "%s %zux%zux%zu ta %d [%zu,%zu] of %zu: expected %a, got %a",
                          target->name, f->p.s.m, f->p.s.n, f->p.s.k, f->p.ta, i, j, o,
                          (double)expected[o], (double)got);
            }
        }
}

static void following_text(char *text, size_t size, shape s, bool ta, const char *tile) {
    char a[64], b[64], c[64], row[64];
    matrix_type(a, "f32", s.m, s.k, ta);
    matrix_type(b, "f32", s.k, s.n, false);
    matrix_type(c, "f32", s.m, s.n, false);
    snprintf(row, sizeof row, "tensor<%zuxf32>", s.n);
    snprintf(text, size,
             "tsched.func @mm(%%a: %s, %%b: %s, %%w: %s, %%m: %s, %%v: %s, %%rate: %s) -> (%s, %s, "
             "%s) attributes {kind = \"matmul\"%s} {\n"
             "%%eighth = tessera.constant dense<0.125> : tensor<f32>\n"
             "%%half = tessera.constant dense<0.5> : tensor<f32>\n"
             "%%g = tessera.matmul %%a, %%b {transpose_a = %s} : %s, %s -> %s\n"
             "%%d = tessera.sub %%g, %%m : %s, %s -> %s\n"
             "%%e = tessera.mul %%d, %%eighth : %s, tensor<f32> -> %s\n"
             "%%n = tessera.add %%m, %%e : %s, %s -> %s\n"
             "%%q = tessera.mul %%g, %%g : %s, %s -> %s\n"
             "%%u = tessera.add %%v, %%q : %s, %s -> %s\n"
             "%%r = tessera.sqrt %%u : %s\n"
             "%%h = tessera.add %%r, %%half : %s, tensor<f32> -> %s\n"
             "%%i = tessera.div %%n, %%h : %s, %s -> %s\n"
             "%%j = tessera.mul %%i, %%rate : %s, %s -> %s\n"
             "%%x = tessera.sub %%w, %%j : %s, %s -> %s\n"
             "tsched.return %%x, %%n, %%u : %s, %s, %s\n}",
             a, b, c, c, c, row, c, c, c, tile, ta ? "true" : "false", a, b, c, c, c, c, c, c, c, c,
             c, c, c, c, c, c, c, c, c, c, c, c, c, c, row, c, c, c, c, c, c, c);
}

static void test_following(shape s, bool ta, const char *tile) {
    char text[4096];
    size_t count = s.m * s.n, bytes = count * sizeof(float);
    random_state random = {s.m * 7919 + s.n * 104729 + s.k};
    following_text(text, sizeof text, s, ta, tile);
    void *data[] = {make(&random, false, s.m * s.k), make(&random, false, s.k * s.n),
                    make(&random, false, count),     make(&random, false, count),
                    make(&random, false, count),     make(&random, false, s.n)};
    void *outs[] = {malloc(bytes), malloc(bytes), malloc(bytes)};
    float *v = data[4];
    for (size_t i = 0; i < count; i++) v[i] = fabsf(v[i]);
    following f = {.p = {.s = s, .ta = ta, .a = data[0], .b = data[1]},
                   .w = data[2],
                   .m = data[3],
                   .v = v,
                   .rate = data[5]};
    fixture x = {0};
    fixture_open(&x, text);
    argument arguments[] = {{data[0], s.m * s.k * 4},
                            {data[1], s.k * s.n * 4},
                            {data[2], bytes},
                            {data[3], bytes},
                            {data[4], bytes},
                            {data[5], s.n * 4},
                            {NULL, bytes},
                            {NULL, bytes},
                            {NULL, bytes}};
    kernel_test(&x, "mm", arguments, 9, outs, check_following, &f);
    for (size_t i = 0; i < 6; i++) free(data[i]);
    for (size_t i = 0; i < 3; i++) free(outs[i]);
    fixture_close(&x);
}

/* Edges of rows and of columns, a single tile, a last block without a whole tile, a number of k
 * steps that the vectors of a tile do not divide, several blocks of K, too few steps. */
Test(matmul, epilogue_beside_tiles) {
    test_following((shape){96, 96, 128}, true, "");
    test_following((shape){101, 100, 131}, true, "");
    test_following((shape){333, 49, 260}, true, "");
    test_following((shape){64, 64, 30}, true, "");
    test_following((shape){64, 64, 61}, true, "");
    test_following((shape){230, 75, 1300}, true, "");
    test_following((shape){45, 130, 400}, false, "");
    test_following((shape){523, 150, 300}, false, "");
    test_following((shape){29, 301, 267}, false, ", tile = [4, 0, 16, 2, 144]");
    test_following((shape){42, 301, 300}, true, ", tile = [6, 0, 18, 2, 0]");
    test_following((shape){20, 48, 200}, true, ", tile = [6, 0, 18, 1, 0]");
}

/* ---- batches --------------------------------------------------------------------------------- */

typedef struct batched {
    size_t batch, a_step, b_step, m, n, k; /* a_step 0: all batches read the same A */
    const float *a, *b, *bias;
    bool tb;
} batched;

static void check_batched(const tsr_target *target, void *const *outs, void *user) {
    const batched *p = user;
    for (size_t g = 0; g < p->batch; g++)
        for (size_t i = 0; i < p->m; i++)
            for (size_t j = 0; j < p->n; j++) {
                problem one = {.s = {p->m, p->n, p->k},
                               .tb = p->tb,
                               .a = p->a + g * p->a_step,
                               .b = p->b + g * p->b_step};
                float expected = (float)chain(&one, target->has_fma, i, j);
                if (p->bias) expected += p->bias[j];
                float got = ((const float *)outs[0])[(g * p->m + i) * p->n + j];
                cr_assert(memcmp(&expected, &got, sizeof got) == 0,
                          "%s batch %zu [%zu,%zu]: expected %a, got %a", target->name, g, i, j,
                          (double)expected, (double)got);
            }
}

/* a_dims and b_dims: the dims before the last two, as in "2x3x" or "". */
static void test_batched(const char *a_dims, const char *b_dims, const char *dims, batched p,
                         bool bias) {
    char a[64], b[64], c[64], text[1024], added[256] = "", argument_text[64] = "";
    random_state random = {p.m * 31 + p.n};
    size_t a_count = p.a_step ? p.batch * p.m * p.k : p.m * p.k;
    size_t b_count = p.b_step ? p.batch * p.k * p.n : p.k * p.n, c_count = p.batch * p.m * p.n;
    snprintf(a, sizeof a, "tensor<%s%zux%zuxf32>", a_dims, p.m, p.k);
    snprintf(b, sizeof b, "tensor<%s%zux%zuxf32>", b_dims, p.tb ? p.n : p.k, p.tb ? p.k : p.n);
    snprintf(c, sizeof c, "tensor<%s%zux%zuxf32>", dims, p.m, p.n);
    if (bias) {
        snprintf(argument_text, sizeof argument_text, ", %%bias: tensor<%zuxf32>", p.n);
        snprintf(added, sizeof added, "%%d = tessera.add %%c, %%bias : %s, tensor<%zuxf32> -> %s\n",
                 c, p.n, c);
    }
    snprintf(text, sizeof text,
             "tsched.func @mm(%%a: %s, %%b: %s%s) -> %s attributes {kind = \"matmul\"} {\n"
             "%%c = tessera.matmul %%a, %%b {transpose_b = %s} : %s, %s -> %s\n"
             "%stsched.return %s : %s\n}",
             a, b, argument_text, c, p.tb ? "true" : "false", a, b, c, added, bias ? "%d" : "%c",
             c);
    fixture f = {0};
    fixture_open(&f, text);
    void *data[] = {make(&random, false, a_count), make(&random, false, b_count),
                    make(&random, false, p.n)};
    p.a = data[0];
    p.b = data[1];
    p.bias = bias ? data[2] : NULL;
    void *outs[] = {malloc(c_count * 4 + 1)};
    argument arguments[] = {{p.a, a_count * 4}, {p.b, b_count * 4}, {NULL, c_count * 4}, {0}};
    if (bias) {
        arguments[3] = arguments[2];
        arguments[2] = (argument){p.bias, p.n * 4};
    }
    kernel_test(&f, "mm", arguments, bias ? 4 : 3, outs, check_batched, &p);
    for (size_t i = 0; i < 3; i++) free(data[i]);
    free(outs[0]);
    fixture_close(&f);
}

Test(matmul, batches) {
    test_batched("3x", "3x", "3x", (batched){3, 35, 77, 5, 11, 7, 0, 0, 0, false}, false);
    test_batched("2x3x", "2x3x", "2x3x", (batched){6, 9 * 8, 8 * 20, 9, 20, 8, 0, 0, 0, false},
                 true);
    test_batched("2x3x", "", "2x3x", (batched){6, 9 * 8, 0, 9, 20, 8, 0, 0, 0, false}, true);
    test_batched("4x", "", "4x", (batched){4, 13 * 64, 0, 13, 100, 64, 0, 0, 0, false}, false);
    test_batched("", "5x", "5x", (batched){5, 0, 6 * 40, 7, 40, 6, 0, 0, 0, false}, true);
    test_batched("300x", "300x", "300x", (batched){300, 4, 6, 2, 3, 2, 0, 0, 0, false}, false);
    test_batched("2x3x", "2x3x", "2x3x", (batched){6, 17 * 9, 9 * 40, 17, 40, 9, 0, 0, 0, true},
                 true);
    test_batched("3x", "", "3x", (batched){3, 21 * 70, 0, 21, 133, 70, 0, 0, 0, true}, true);
    test_batched("", "5x", "5x", (batched){5, 0, 67 * 40, 19, 67, 40, 0, 0, 0, true}, false);
}
