/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that move, pick and order elements, for every element size, against plain loops.
 */
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20, TEXT = 256 };

static unsigned char in[4][BYTES], out[2][BYTES], want[2][BYTES];
static random_state dice = {41};

typedef struct moved {
    fixture f;
    tsr_buffer text;
    size_t size; /* bytes of an element */
    tsr_dtype dtype;
} moved;

static const char *type_text(tsr_dtype dtype, const tsr_shape *shape, char text[static TEXT]) {
    char inner[TSR_TYPE_TEXT_MAX];
    snprintf(text, TEXT, "tensor<%s>", tsr_type_format(dtype, shape, inner));
    return text;
}

static size_t count_of(const tsr_shape *shape) {
    uint64_t count = 0;
    cr_assert(tsr_shape_count(shape, &count));
    return (size_t)count;
}

static void fill(tsr_dtype dtype, void *data, size_t count) {
    for (size_t i = 0; i < count * tsr_dtype_size(dtype); i++)
        ((unsigned char *)data)[i] = (unsigned char)random_u64(&dice);
    if (dtype == TSR_DTYPE_I1)
        for (size_t i = 0; i < count; i++) ((unsigned char *)data)[i] &= 1;
}

static void numbers(const int64_t *values, uint32_t count, char text[static TEXT]) {
    size_t used = (size_t)snprintf(text, TEXT, "[");
    for (uint32_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, TEXT - used, "%s%" PRId64, i ? ", " : "", values[i]);
    snprintf(text + used, TEXT - used, "]");
}

/* Runs one op on one operand; `attributes`: the text inside the braces. */
static void run_unary(const char *op, const char *attributes, tsr_dtype dtype,
                      const tsr_shape *from, const tsr_shape *to) {
    char a[TEXT], b[TEXT];
    tsr_buffer text = {0};
    fixture f = {0};
    type_text(dtype, from, a);
    type_text(dtype, to, b);
    bool same = strcmp(op, "cumsum") == 0;
    tsr_buffer_printf(
        &text,
        "tsched.func @g(%%x: %s) -> %s attributes {kind = \"%s\"} {\n%%y = tessera.%s "
        "%%x {%s} : %s%s%s\ntsched.return %%y : %s\n}",
        a, b, same ? op : "map", op, attributes, a, same ? "" : " -> ", same ? "" : b, b);
    fixture_open(&f, text.bytes);
    void *outs[] = {out[0]};
    size_t size = tsr_dtype_size(dtype);
    cr_assert(count_of(from) * size <= BYTES && count_of(to) * size <= BYTES);
    argument arguments[] = {{in[0], count_of(from) * size}, {NULL, count_of(to) * size}};
    kernel_test(&f, "g", arguments, 2, outs, NULL, NULL);
    fixture_close(&f);
    tsr_buffer_finish(&text);
}

/* The index of flat element i, and back. */
static void unflatten(const tsr_shape *shape, size_t i, int64_t *index) {
    for (uint32_t d = shape->rank; d-- > 0; i /= shape->dims[d])
        index[d] = (int64_t)(i % shape->dims[d]);
}

static size_t flatten(const tsr_shape *shape, const int64_t *index) {
    size_t at = 0;
    for (uint32_t d = 0; d < shape->rank; d++) at = at * shape->dims[d] + (size_t)index[d];
    return at;
}

/* ---- slice, pad, concat ---------------------------------------------------------------------- */

static const tsr_dtype kinds[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_BF16, TSR_DTYPE_I8,
                                  TSR_DTYPE_I1};
enum { KINDS = TSR_COUNT(kinds) };

typedef struct slice_case {
    tsr_shape from;
    int64_t start[4], size[4], stride[4];
} slice_case;

static void test_slice(const slice_case *t, tsr_dtype dtype) {
    char start[TEXT], size[TEXT], stride[TEXT], attributes[4 * TEXT];
    tsr_shape to = t->from;
    size_t bytes = tsr_dtype_size(dtype);
    for (uint32_t d = 0; d < to.rank; d++) to.dims[d] = (uint64_t)t->size[d];
    numbers(t->start, to.rank, start);
    numbers(t->size, to.rank, size);
    numbers(t->stride, to.rank, stride);
    snprintf(attributes, sizeof attributes, "start = %s, size = %s, stride = %s", start, size,
             stride);
    fill(dtype, in[0], count_of(&t->from));
    run_unary("slice", attributes, dtype, &t->from, &to);
    for (size_t i = 0; i < count_of(&to); i++) {
        int64_t index[TSR_RANK_MAX];
        unflatten(&to, i, index);
        for (uint32_t d = 0; d < to.rank; d++) index[d] = t->start[d] + index[d] * t->stride[d];
        size_t from = flatten(&t->from, index);
        cr_assert(memcmp(out[0] + i * bytes, in[0] + from * bytes, bytes) == 0, "%s element %zu",
                  attributes, i);
    }
}

Test(move, slice) {
    static const slice_case cases[] = {
        {{0, {0}}, {0}, {0}, {0}},
        {{1, {100}}, {7}, {90}, {1}},
        {{1, {100}}, {99}, {1}, {1}},
        {{1, {100}}, {3}, {33}, {3}},
        {{1, {100}}, {5}, {0}, {1}},
        {{2, {30, 70}}, {2, 0}, {11, 70}, {1, 1}},
        {{2, {30, 70}}, {1, 3}, {29, 64}, {1, 1}},
        {{2, {30, 70}}, {0, 5}, {10, 13}, {3, 5}},
        {{3, {5, 1, 37}}, {4, 0, 36}, {1, 1, 1}, {1, 1, 1}},
        {{4, {3, 4, 5, 17}}, {1, 0, 2, 1}, {2, 2, 3, 16}, {1, 3, 1, 1}},
        {{2, {3, 30000}}, {0, 1}, {3, 29000}, {1, 1}},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        for (size_t k = 0; k < KINDS; k++) test_slice(&cases[i], kinds[k]);
}

typedef struct pad_case {
    tsr_shape from;
    int64_t low[4], high[4], gap[4];
} pad_case;

static void test_pad(const pad_case *t, tsr_dtype dtype) {
    char low[TEXT], high[TEXT], gap[TEXT], attributes[4 * TEXT];
    tsr_shape to = t->from;
    size_t bytes = tsr_dtype_size(dtype);
    for (uint32_t d = 0; d < to.rank; d++) {
        int64_t size = (int64_t)t->from.dims[d];
        to.dims[d] =
            (uint64_t)(t->low[d] + t->high[d] + size + (size ? (size - 1) * t->gap[d] : 0));
    }
    numbers(t->low, to.rank, low);
    numbers(t->high, to.rank, high);
    numbers(t->gap, to.rank, gap);
    snprintf(attributes, sizeof attributes,
             "low = %s, high = %s, interior = %s, value = 1.0e0 : f64", low, high, gap);
    fill(dtype, in[0], count_of(&t->from));
    run_unary("pad", attributes, dtype, &t->from, &to);
    for (size_t i = 0; i < count_of(&to); i++) tsr_dtype_write(dtype, 1, want[0], i);
    for (size_t i = 0; i < count_of(&t->from); i++) {
        int64_t index[TSR_RANK_MAX];
        unflatten(&t->from, i, index);
        for (uint32_t d = 0; d < to.rank; d++) index[d] = t->low[d] + index[d] * (t->gap[d] + 1);
        memcpy(want[0] + flatten(&to, index) * bytes, in[0] + i * bytes, bytes);
    }
    cr_assert(memcmp(out[0], want[0], count_of(&to) * bytes) == 0, "%s of %s", attributes,
              tsr_dtype_name(dtype));
}

Test(move, pad) {
    static const pad_case cases[] = {
        {{0, {0}}, {0}, {0}, {0}},
        {{1, {10}}, {0}, {0}, {0}},
        {{1, {10}}, {3}, {100}, {0}},
        {{1, {0}}, {2}, {3}, {5}},
        {{1, {33}}, {1}, {2}, {2}},
        {{2, {5, 70}}, {1, 0}, {2, 0}, {0, 0}},
        {{2, {5, 70}}, {0, 1}, {0, 60}, {0, 0}},
        {{2, {5, 70}}, {2, 9}, {1, 4}, {3, 0}},
        {{2, {0, 7}}, {1, 1}, {1, 1}, {0, 0}},
        {{2, {7, 0}}, {1, 1}, {1, 1}, {0, 0}},
        {{3, {2, 3, 20}}, {1, 1, 1}, {0, 2, 3}, {2, 0, 1}},
        {{4, {2, 5, 6, 3}}, {0, 1, 2, 0}, {0, 3, 1, 0}, {0, 0, 0, 0}},
        {{1, {60000}}, {5000}, {7000}, {0}},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        for (size_t k = 0; k < KINDS; k++) test_pad(&cases[i], kinds[k]);
}

typedef struct concat_case {
    tsr_shape shape; /* dims[axis] is ignored */
    uint32_t axis, count;
    uint64_t sizes[3];
} concat_case;

static void test_concat(const concat_case *t, tsr_dtype dtype) {
    char type[TEXT];
    tsr_buffer operands = {0}, types = {0}, arguments_text = {0}, text = {0};
    tsr_shape to = t->shape, part = t->shape;
    argument arguments[4];
    size_t bytes = tsr_dtype_size(dtype);
    to.dims[t->axis] = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        part.dims[t->axis] = t->sizes[i];
        to.dims[t->axis] += t->sizes[i];
        type_text(dtype, &part, type);
        tsr_buffer_printf(&operands, "%s%%x%u", i ? ", " : "", i);
        tsr_buffer_printf(&types, "%s%s", i ? ", " : "", type);
        tsr_buffer_printf(&arguments_text, "%s%%x%u: %s", i ? ", " : "", i, type);
        fill(dtype, in[i], count_of(&part));
        arguments[i] = (argument){in[i], count_of(&part) * bytes};
    }
    type_text(dtype, &to, type);
    tsr_buffer_printf(
        &text,
        "tsched.func @g(%s) -> %s attributes {kind = \"map\"} {\n%%y = tessera.concat "
        "%s {axis = %u : i64} : %s -> %s\ntsched.return %%y : %s\n}",
        arguments_text.bytes, type, operands.bytes, t->axis, types.bytes, type, type);
    fixture f = {0};
    fixture_open(&f, text.bytes);
    void *outs[] = {out[0]};
    arguments[t->count] = (argument){NULL, count_of(&to) * bytes};
    kernel_test(&f, "g", arguments, t->count + 1, outs, NULL, NULL);
    uint64_t at = 0;
    for (uint32_t i = 0; i < t->count; at += t->sizes[i++]) {
        part.dims[t->axis] = t->sizes[i];
        for (size_t k = 0; k < count_of(&part); k++) {
            int64_t index[TSR_RANK_MAX];
            unflatten(&part, k, index);
            index[t->axis] += (int64_t)at;
            cr_assert(memcmp(out[0] + flatten(&to, index) * bytes, in[i] + k * bytes, bytes) == 0);
        }
    }
    fixture_close(&f);
    tsr_buffer_finish(&operands);
    tsr_buffer_finish(&types);
    tsr_buffer_finish(&arguments_text);
    tsr_buffer_finish(&text);
}

Test(move, concat) {
    static const concat_case cases[] = {
        {{1, {0}}, 0, 1, {5}},
        {{1, {0}}, 0, 3, {5, 0, 71}},
        {{1, {0}}, 0, 2, {40000, 30001}},
        {{2, {7, 0}}, 1, 3, {1, 33, 2}},
        {{2, {0, 7}}, 0, 3, {1, 33, 2}},
        {{3, {3, 0, 5}}, 1, 2, {4, 1}},
        {{3, {2, 3, 0}}, 2, 2, {64, 64}},
        {{2, {0, 3}}, 1, 2, {4, 1}},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        for (size_t k = 0; k < KINDS; k++) test_concat(&cases[i], kinds[k]);
}

/* ---- gather, scatter_add --------------------------------------------------------------------- */

typedef struct gather_case {
    tsr_shape shape, indices;
    uint32_t axis;
} gather_case;

static tsr_shape gathered(const gather_case *t) {
    tsr_shape to = {.rank = t->shape.rank + t->indices.rank - 1};
    uint32_t at = 0;
    for (uint32_t d = 0; d < t->shape.rank; d++) {
        if (d != t->axis) to.dims[at++] = t->shape.dims[d];
        for (uint32_t k = 0; d == t->axis && k < t->indices.rank; k++)
            to.dims[at++] = t->indices.dims[k];
    }
    return to;
}

/* The sizes of x before, along and after the axis. */
static void sizes_of(const gather_case *t, size_t *outer, size_t *size, size_t *inner) {
    *outer = *inner = 1;
    *size = t->shape.dims[t->axis];
    for (uint32_t d = 0; d < t->shape.rank; d++)
        if (d != t->axis) *(d < t->axis ? outer : inner) *= t->shape.dims[d];
}

static void fill_indices(tsr_dtype dtype, void *data, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++)
        tsr_dtype_write(dtype, (double)(random_u64(&dice) % size), data, i);
}

static void test_gather(const gather_case *t, tsr_dtype dtype, tsr_dtype index_dtype) {
    char a[TEXT], b[TEXT], c[TEXT];
    tsr_shape to = gathered(t);
    tsr_buffer text = {0};
    fixture f = {0};
    size_t outer, size, inner, count = count_of(&t->indices), bytes = tsr_dtype_size(dtype);
    sizes_of(t, &outer, &size, &inner);
    type_text(dtype, &t->shape, a);
    type_text(index_dtype, &t->indices, b);
    type_text(dtype, &to, c);
    tsr_buffer_printf(
        &text,
        "tsched.func @g(%%x: %s, %%i: %s) -> %s attributes {kind = \"gather\"} {\n%%y = "
        "tessera.gather %%x, %%i {axis = %u : i64} : %s, %s -> %s\ntsched.return %%y : "
        "%s\n}",
        a, b, c, t->axis, a, b, c, c);
    fixture_open(&f, text.bytes);
    fill(dtype, in[0], count_of(&t->shape));
    fill_indices(index_dtype, in[1], count, size);
    void *outs[] = {out[0]};
    argument arguments[] = {{in[0], count_of(&t->shape) * bytes},
                            {in[1], count * tsr_dtype_size(index_dtype)},
                            {NULL, count_of(&to) * bytes}};
    kernel_test(&f, "g", arguments, 3, outs, NULL, NULL);
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < count; i++) {
            size_t index = (size_t)tsr_dtype_read(index_dtype, in[1], i);
            cr_assert(memcmp(out[0] + (o * count + i) * inner * bytes,
                             in[0] + (o * size + index) * inner * bytes, inner * bytes) == 0);
        }
    fixture_close(&f);
    tsr_buffer_finish(&text);
}

static const gather_case gathers[] = {
    {{1, {9}}, {1, {1}}, 0},        {{1, {9}}, {2, {3, 50}}, 0},
    {{2, {50, 64}}, {1, {70}}, 0},  {{2, {50, 7}}, {1, {70}}, 0},
    {{2, {13, 50}}, {1, {31}}, 1},  {{3, {3, 20, 33}}, {2, {4, 5}}, 1},
    {{2, {5, 12000}}, {1, {3}}, 0}, {{2, {5, 3}}, {0, {0}}, 0},
    {{2, {5, 3}}, {1, {0}}, 0},
};

Test(move, gather) {
    for (size_t i = 0; i < TSR_COUNT(gathers); i++)
        for (size_t k = 0; k < KINDS; k++)
            test_gather(&gathers[i], kinds[k], k % 2 ? TSR_DTYPE_I32 : TSR_DTYPE_I64);
}

static double sum_of(double x, double y) { return x + y; }
static double product_of(double x, double y) { return x * y; }
static double second_of(double x, double y) {
    (void)x;
    return y;
}

typedef struct scatter_way {
    const char *op, *how; /* how: the attribute's text */
    double (*combine)(double element, double update);
} scatter_way;
static const scatter_way adding = {"scatter_add", "", sum_of};
static const scatter_way ways[] = {{"scatter", "", second_of},
                                   {"scatter", ", how = \"max\"", fmax},
                                   {"scatter", ", how = \"min\"", fmin},
                                   {"scatter", ", how = \"mul\"", product_of}};

static void test_scatter(const gather_case *t, tsr_dtype dtype, const scatter_way *way) {
    char a[TEXT], b[TEXT], c[TEXT];
    tsr_shape updates = gathered(t);
    tsr_buffer text = {0};
    fixture f = {0};
    size_t outer, size, inner, count = count_of(&t->indices), bytes = tsr_dtype_size(dtype);
    sizes_of(t, &outer, &size, &inner);
    type_text(dtype, &t->shape, a);
    type_text(TSR_DTYPE_I64, &t->indices, b);
    type_text(dtype, &updates, c);
    tsr_buffer_printf(&text,
                      "tsched.func @g(%%x: %s, %%i: %s, %%u: %s) -> %s attributes {kind = "
                      "\"%s\"} {\n%%y = tessera.%s %%x, %%i, %%u {axis = %u : i64%s} "
                      ": %s, %s, %s\ntsched.return %%y : %s\n}",
                      a, b, c, a, way->op, way->op, t->axis, way->how, a, b, c, a);
    fixture_open(&f, text.bytes);
    random_fill(&dice, dtype, in[0], count_of(&t->shape), -50, 50);
    fill_indices(TSR_DTYPE_I64, in[1], count, size);
    random_fill(&dice, dtype, in[2], count_of(&updates), -2, 2);
    void *outs[] = {out[0]};
    argument arguments[] = {{in[0], count_of(&t->shape) * bytes},
                            {in[1], count * 8},
                            {in[2], count_of(&updates) * bytes},
                            {NULL, count_of(&t->shape) * bytes}};
    kernel_test(&f, "g", arguments, 4, outs, NULL, NULL);
    memcpy(want[0], in[0], count_of(&t->shape) * bytes);
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < inner; k++) {
                size_t to = (o * size + (size_t)((int64_t *)(void *)in[1])[i]) * inner + k;
                double y = way->combine(tsr_dtype_read(dtype, want[0], to),
                                        tsr_dtype_read(dtype, in[2], (o * count + i) * inner + k));
                tsr_dtype_write(dtype, y, want[0], to);
            }
    cr_assert(memcmp(out[0], want[0], count_of(&t->shape) * bytes) == 0, "%s%s, %s, axis %u",
              way->op, way->how, a, t->axis);
    fixture_close(&f);
    tsr_buffer_finish(&text);
}

Test(move, scatter_add) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_BF16, TSR_DTYPE_I32};
    for (size_t i = 0; i < TSR_COUNT(gathers); i++)
        for (size_t k = 0; k < 4; k++) test_scatter(&gathers[i], dtypes[k], &adding);
}

/* Of several updates of an element the last one remains, and products are rounded one by one. */
Test(move, scatter) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F16, TSR_DTYPE_I64, TSR_DTYPE_UI8};
    for (size_t i = 0; i < TSR_COUNT(gathers); i++)
        for (size_t k = 0; k < TSR_COUNT(dtypes); k++)
            for (size_t w = 0; w < TSR_COUNT(ways); w++)
                if (dtypes[k] != TSR_DTYPE_UI8 || ways[w].combine != product_of)
                    test_scatter(&gathers[i], dtypes[k], &ways[w]);
}

/* The fault of an index out of range has its value, its position and the limit; memory outside is
 * not touched. */
Test(move, indices_out_of_bounds) {
    static const char text[] =
        "tsched.func @g(%x: tensor<5x3xf32>, %i: tensor<4xi64>) -> tensor<4x3xf32> attributes "
        "{kind "
        "= \"gather\"} {\n"
        "%y = tessera.gather %x, %i {axis = 0 : i64} : tensor<5x3xf32>, tensor<4xi64> -> "
        "tensor<4x3xf32>\n"
        "tsched.return %y : tensor<4x3xf32>\n}\n"
        "tsched.func @e(%x: tensor<0x3xf32>, %i: tensor<4xi32>) -> tensor<4x3xf32> attributes "
        "{kind "
        "= \"gather\"} {\n"
        "%y = tessera.gather %x, %i {axis = 0 : i64} : tensor<0x3xf32>, tensor<4xi32> -> "
        "tensor<4x3xf32>\n"
        "tsched.return %y : tensor<4x3xf32>\n}\n"
        "tsched.func @s(%x: tensor<5x3xf32>, %i: tensor<4xi64>, %u: tensor<4x3xf32>) -> "
        "tensor<5x3xf32> attributes {kind = \"scatter_add\"} {\n"
        "%y = tessera.scatter_add %x, %i, %u {axis = 0 : i64} : tensor<5x3xf32>, tensor<4xi64>, "
        "tensor<4x3xf32>\n"
        "tsched.return %y : tensor<5x3xf32>\n}\n";
    static const int64_t bad[] = {5, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 32};
    fixture f = {0};
    fixture_open(&f, text);
    float x[15] = {0}, u[12] = {0}, y[15];
    void *outs[] = {y};
    for (size_t k = 0; k < TSR_COUNT(bad); k++)
        for (size_t b = 0; b < f.built_count; b++) {
            int64_t i[4] = {4, 0, bad[k], 1};
            argument three[] = {{x, sizeof x}, {i, sizeof i}, {NULL, 48}};
            argument four[] = {{x, sizeof x}, {i, sizeof i}, {u, sizeof u}, {NULL, sizeof x}};
            tsr_fault fault = kernel_run(&f.built[b], "g", three, 3, SPLIT_WHOLE, GUARD_END, outs);
            cr_assert(fault.kind && fault.value == bad[k] && fault.limit == 5 &&
                      fault.argument == 1 && fault.element == 2);
            fault = kernel_run(&f.built[b], "s", four, 4, SPLIT_WHOLE, GUARD_START, outs);
            cr_assert(fault.kind && fault.value == bad[k] && fault.limit == 5 &&
                      fault.argument == 1 && fault.element == 2);
        }
    for (size_t b = 0; b < f.built_count; b++) {
        int32_t none[4] = {0};
        argument three[] = {{x, 0}, {none, sizeof none}, {NULL, 48}};
        tsr_fault fault = kernel_run(&f.built[b], "e", three, 3, SPLIT_WHOLE, GUARD_END, outs);
        cr_assert(fault.kind && fault.value == 0 && fault.limit == 0 && fault.element == 0);
    }
    fixture_close(&f);
}

/* ---- cumsum ---------------------------------------------------------------------------------- */

static void test_cumsum(const gather_case *t, tsr_dtype dtype, bool reverse, bool exclusive) {
    char attributes[TEXT];
    size_t outer, size, inner, bytes = tsr_dtype_size(dtype);
    sizes_of(t, &outer, &size, &inner);
    snprintf(attributes, sizeof attributes, "axis = %u : i64, reverse = %s, exclusive = %s",
             t->axis, reverse ? "true" : "false", exclusive ? "true" : "false");
    random_fill(&dice, dtype, in[0], count_of(&t->shape), -9, 9);
    run_unary("cumsum", attributes, dtype, &t->shape, &t->shape);
    for (size_t o = 0; o < outer; o++)
        for (size_t k = 0; k < inner; k++) {
            double sum = 0;
            for (size_t i = 0; i < size; i++) {
                size_t at = (o * size + (reverse ? size - 1 - i : i)) * inner + k;
                double next = sum + tsr_dtype_read(dtype, in[0], at);
                if (dtype != TSR_DTYPE_F64) next = (double)(float)next;
                tsr_dtype_write(dtype, exclusive ? sum : next, want[0], at);
                sum = next;
            }
        }
    cr_assert(memcmp(out[0], want[0], count_of(&t->shape) * bytes) == 0, "%s %s", attributes,
              tsr_dtype_name(dtype));
}

Test(move, cumsum) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_BF16, TSR_DTYPE_I32};
    for (size_t i = 0; i < TSR_COUNT(gathers); i++)
        for (size_t k = 0; k < 4; k++)
            test_cumsum(&gathers[i], dtypes[k], (i + k) & 1, (i + k) & 2);
}

/* ---- sort ------------------------------------------------------------------------------------ */

static tsr_dtype sorted_dtype;
static bool sorted_down;
static const void *sorted_line;
static size_t sorted_stride;

static int compare_positions(const void *a, const void *b) {
    uint64_t i = *(const uint64_t *)a, j = *(const uint64_t *)b;
    double x = tsr_dtype_read(sorted_dtype, sorted_line, i * sorted_stride);
    double y = tsr_dtype_read(sorted_dtype, sorted_line, j * sorted_stride);
    if (isnan(x) != isnan(y)) return isnan(x) ? 1 : -1;
    if (x != y && !isnan(x)) return (x < y) != sorted_down ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void test_sort(const gather_case *t, tsr_dtype dtype, bool down) {
    char a[TEXT], b[TEXT];
    tsr_buffer text = {0};
    fixture f = {0};
    size_t outer, size, inner, bytes = tsr_dtype_size(dtype), count = count_of(&t->shape);
    sizes_of(t, &outer, &size, &inner);
    type_text(dtype, &t->shape, a);
    type_text(TSR_DTYPE_I64, &t->shape, b);
    tsr_buffer_printf(
        &text,
        "tsched.func @g(%%x: %s) -> (%s, %s) attributes {kind = \"sort\"} {\n%%y, %%i = "
        "tessera.sort %%x {axis = %u : i64, descending = %s} : %s -> %s, %s\n"
        "tsched.return %%y, %%i : %s, %s\n}",
        a, a, b, t->axis, down ? "true" : "false", a, a, b, a, b);
    fixture_open(&f, text.bytes);
    random_fill(&dice, dtype, in[0], count, -20, 20);
    for (size_t i = 0; i < count; i += 7) {
        tsr_dtype_write(dtype, (double)(i % 3), in[0], i); /* ties */
        if (tsr_dtype_is_float(dtype) && i % 5 == 0) tsr_dtype_write(dtype, NAN, in[0], i);
        if (tsr_dtype_is_float(dtype) && i % 5 == 1) tsr_dtype_write(dtype, -0.0, in[0], i);
        if (tsr_dtype_is_float(dtype) && i % 5 == 2) tsr_dtype_write(dtype, -INFINITY, in[0], i);
    }
    void *outs[] = {out[0], out[1]};
    argument arguments[] = {{in[0], count * bytes}, {NULL, count * bytes}, {NULL, count * 8}};
    kernel_test(&f, "g", arguments, 3, outs, NULL, NULL);
    sorted_dtype = dtype;
    sorted_down = down;
    sorted_stride = inner;
    for (size_t o = 0; o < outer; o++)
        for (size_t k = 0; k < inner; k++) {
            static uint64_t positions[20000];
            size_t base = o * size * inner + k;
            cr_assert(size <= 20000);
            sorted_line = in[0] + base * bytes;
            for (size_t i = 0; i < size; i++) positions[i] = i;
            qsort(positions, size, sizeof positions[0], compare_positions);
            for (size_t i = 0; i < size; i++) {
                size_t at = base + i * inner;
                cr_assert_eq(((uint64_t *)(void *)out[1])[at], positions[i], "%s, position %zu", a,
                             i);
                cr_assert(memcmp(out[0] + at * bytes, in[0] + (base + positions[i] * inner) * bytes,
                                 bytes) == 0);
            }
        }
    fixture_close(&f);
    tsr_buffer_finish(&text);
}

Test(move, sort, .timeout = 200) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_I32, TSR_DTYPE_F16};
    static const gather_case cases[] = {
        {{1, {1}}, {0}, 0},      {{1, {2}}, {0}, 0},        {{1, {3}}, {0}, 0},
        {{1, {100}}, {0}, 0},    {{1, {1025}}, {0}, 0},     {{2, {40, 17}}, {0}, 1},
        {{2, {17, 40}}, {0}, 0}, {{3, {3, 33, 5}}, {0}, 1}, {{2, {0, 5}}, {0}, 1},
        {{1, {5000}}, {0}, 0},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        for (size_t k = 0; k < 4; k++) test_sort(&cases[i], dtypes[k], (i + k) & 1);
}
