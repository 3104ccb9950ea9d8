/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions, bit by bit against the documented order (order.h). The reference does not depend on
 * memory layout, so a sum over any axes of any shape must agree.
 */
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"
#include "tests/compiler/tile/order.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    const char *op;
    tsr_dtype dtype;
    tsr_shape shape;
    bool reduced[TSR_RANK_MAX];
    const void *x;
    size_t outputs;
    bool prologue; /* (x * x), epilogue y * 0.5 + 1 */
    bool weighted; /* x times 1, 2, 1, 2 … along the last dimension: a constant that is a buffer, */
} problem;         /* which keeps the reduction in one kernel */

static double rounded(tsr_dtype dtype, double x) {
    return dtype == TSR_DTYPE_F32 ? (double)(float)x : x;
}

static double combine(const void *user, double x, double y) {
    const problem *p = user;
    if (strcmp(p->op, "sum") == 0) {
        if (p->dtype == TSR_DTYPE_I32)
            return (double)(int32_t)((uint32_t)(int32_t)x + (uint32_t)(int32_t)y);
        return rounded(p->dtype, x + y);
    }
    if (strcmp(p->op, "reduce_prod") == 0) {
        if (p->dtype == TSR_DTYPE_I32) return (double)(int32_t)((int64_t)x * (int64_t)y);
        return rounded(p->dtype, x * y);
    }
    if (strcmp(p->op, "reduce_min") == 0) return x < y || isnan(x) ? x : y;
    return x > y || isnan(x) ? x : y;
}

/* The reduced index and the output index of element i. */
static void locate(const problem *p, size_t i, size_t *out_reduced, size_t *out_parallel) {
    size_t stride[2] = {1, 1}, sum[2] = {0, 0};
    for (uint32_t d = p->shape.rank; d-- > 0;) {
        size_t size = p->shape.dims[d], index = i % size;
        i /= size;
        sum[p->reduced[d]] += index * stride[p->reduced[d]];
        stride[p->reduced[d]] *= size;
    }
    *out_reduced = sum[1];
    *out_parallel = sum[0];
}

static double before(const problem *p, size_t i) {
    double x = element_get(p->dtype, p->x, i);
    if (p->weighted)
        return rounded(p->dtype, x * (1 + (double)(i % p->shape.dims[p->shape.rank - 1] % 2)));
    return p->prologue ? rounded(p->dtype, x * x) : x;
}

static double identity_of(const problem *p) {
    bool least = strcmp(p->op, "reduce_min") == 0;
    return strcmp(p->op, "sum") == 0           ? 0
           : strcmp(p->op, "reduce_prod") == 0 ? 1
           : least ? (p->dtype == TSR_DTYPE_I32 ? (double)INT32_MAX : (double)INFINITY)
           : p->dtype == TSR_DTYPE_I32    ? (double)INT32_MIN
           : tsr_dtype_is_float(p->dtype) ? -(double)INFINITY
                                          : -0x1p63;
}

static double first_largest(const double *values, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[best] || (isnan(values[i]) && !isnan(values[best]))) best = i;
    return (double)best;
}

static double reduce(const problem *p, size_t output, size_t count) {
    double *values = malloc(count * sizeof *values), y = 0;
    size_t reduced = 0;
    for (size_t i = 0; i < count; i++) {
        size_t r = 0, k = 0;
        locate(p, i, &r, &k);
        if (k != output) continue;
        values[r] = before(p, i);
        reduced++;
    }
    if (strcmp(p->op, "argmax") == 0)
        y = first_largest(values, reduced);
    else
        y = order_reduce(values, reduced, identity_of(p), combine, p);
    free(values);
    return p->prologue ? rounded(p->dtype, rounded(p->dtype, y * 0.5) + 1) : y;
}

static void check(const tsr_target *target, void *const *outs, void *user) {
    const problem *p = user;
    uint64_t count = 0;
    tsr_dtype result = strcmp(p->op, "argmax") == 0 ? TSR_DTYPE_I64 : p->dtype;
    char shape[TSR_TYPE_TEXT_MAX], axes[TSR_RANK_MAX + 1] = "";
    for (uint32_t d = 0; d < p->shape.rank; d++) axes[d] = p->reduced[d] ? '1' : '0';
    cr_assert(tsr_shape_count(&p->shape, &count));
    size_t step = p->outputs * count > 4000000 ? p->outputs / 7 + 1 : 1;
    for (size_t i = 0; i < p->outputs; i += step) {
        double expected = reduce(p, i, count), got = element_get(result, outs[0], i);
        cr_assert(expected == got || (isnan(expected) && isnan(got)),
                  "%s %s of %s, axes %s, output %zu: expected %a, got %a", target->name, p->op,
                  tsr_type_format(p->dtype, &p->shape, shape), axes, i, expected, got);
    }
}

static void write_group(const problem *p, const char *in, const char *out, tsr_buffer *text) {
    bool argmax = strcmp(p->op, "argmax") == 0;
    const char *dtype = tsr_dtype_name(p->dtype);
    tsr_buffer_printf(text, "tsched.func @g(%%x: %s) -> %s attributes {kind = \"reduce\"} {\n", in,
                      out);
    if (p->prologue)
        tsr_buffer_printf(text, "%%v = tessera.mul %%x, %%x : %s, %s -> %s\n", in, in, in);
    if (p->weighted) {
        uint64_t size = p->shape.dims[p->shape.rank - 1];
        tsr_buffer_printf(text, "%%w = tessera.constant dense<[");
        for (uint64_t i = 0; i < size; i++)
            tsr_buffer_printf(text, "%s%d.0", i ? ", " : "", (int)(1 + i % 2));
        tsr_buffer_printf(text,
                          "]> : tensor<%" PRIu64 "x%s>\n"
                          "%%v = tessera.mul %%x, %%w : %s, tensor<%" PRIu64 "x%s> -> %s\n",
                          size, dtype, in, size, dtype, in);
    }
    tsr_buffer_printf(text, "%%y = tessera.%s %s {%s = ", p->op,
                      p->prologue || p->weighted ? "%v" : "%x", argmax ? "axis" : "axes");
    const char *separator = argmax ? "" : "[";
    for (uint32_t d = 0; d < p->shape.rank; d++) {
        if (!p->reduced[d]) continue;
        tsr_buffer_printf(text, "%s%u", separator, d);
        separator = ", ";
    }
    tsr_buffer_printf(text, "%s} : %s -> %s\n", argmax ? " : i64" : "]", in, out);
    if (p->prologue)
        tsr_buffer_printf(text,
                          "%%h = tessera.constant dense<0.5> : tensor<%s>\n"
                          "%%o = tessera.constant dense<1.0> : tensor<%s>\n"
                          "%%s = tessera.mul %%y, %%h : %s, tensor<%s> -> %s\n"
                          "%%r = tessera.add %%s, %%o : %s, tensor<%s> -> %s\n",
                          dtype, dtype, out, dtype, out, out, dtype, out);
    tsr_buffer_printf(text, "tsched.return %s : %s\n}", p->prologue ? "%r" : "%y", out);
}

static void test_problem(const problem *of, unsigned axes) {
    problem p = *of;
    const char *op = p.op;
    tsr_dtype dtype = p.dtype;
    const tsr_shape *shape = &p.shape;
    tsr_shape out = {0};
    uint64_t count = 0, outputs = 0;
    tsr_dtype result = strcmp(op, "argmax") == 0 ? TSR_DTYPE_I64 : dtype;
    for (uint32_t d = 0; d < shape->rank; d++) {
        p.reduced[d] = axes >> d & 1;
        if (!p.reduced[d]) out.dims[out.rank++] = shape->dims[d];
    }
    cr_assert(tsr_shape_count(shape, &count) && tsr_shape_count(&out, &outputs));
    char in_text[TSR_TYPE_TEXT_MAX], out_text[TSR_TYPE_TEXT_MAX], in_type[256], out_type[256];
    snprintf(in_type, sizeof in_type, "tensor<%s>", tsr_type_format(dtype, shape, in_text));
    snprintf(out_type, sizeof out_type, "tensor<%s>", tsr_type_format(result, &out, out_text));
    tsr_buffer text = {0};
    write_group(&p, in_type, out_type, &text);
    fixture f = {0};
    fixture_open(&f, text.bytes);
    random_state random = {count * 31 + axes};
    void *x = malloc(count * 8);
    random_fill(&random, dtype, x, count, -50, 50);
    if (dtype == TSR_DTYPE_F32 && count > 500 && strcmp(op, "sum") != 0)
        ((float *)x)[count / 2] = NAN;
    /* Equal elements, zeros of both signs, a second NaN. */
    for (size_t i = 0; i < count && dtype == TSR_DTYPE_F32 && strcmp(op, "argmax") == 0; i++)
        ((float *)x)[i] = i * 3 == count * 2 ? NAN : roundf(((float *)x)[i] / 20);
    p.x = x;
    p.outputs = outputs;
    void *outs[] = {malloc(outputs * 8)};
    argument arguments[] = {{x, count * tsr_dtype_size(dtype)},
                            {NULL, outputs * tsr_dtype_size(result)}};
    kernel_test(&f, "g", arguments, 2, outs, check, &p);
    free(x);
    free(outs[0]);
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

static void test(const char *op, tsr_dtype dtype, const tsr_shape *shape, unsigned axes,
                 bool prologue) {
    test_problem(&(problem){.op = op, .dtype = dtype, .shape = *shape, .prologue = prologue}, axes);
}

static const struct {
    tsr_shape shape;
    unsigned axes; /* bit d: dimension d */
} cases[] = {
    {{1, {1}}, 1},           {{1, {7}}, 1},
    {{1, {64}}, 1},          {{1, {1000}}, 1},
    {{2, {64, 10}}, 2},      {{2, {64, 128}}, 1},
    {{2, {3, 200}}, 2},      {{2, {200, 3}}, 1},
    {{2, {131, 67}}, 1},     {{2, {67, 131}}, 2},
    {{2, {1, 9}}, 1},        {{2, {9, 1}}, 2},
    {{2, {33, 65}}, 3},      {{3, {5, 7, 11}}, 5},
    {{3, {5, 7, 11}}, 2},    {{3, {3, 70, 64}}, 5},
    {{3, {70, 3, 33}}, 3},   {{3, {4, 2, 128}}, 5},
    {{4, {2, 3, 5, 7}}, 10}, {{8, {2, 1, 3, 2, 1, 2, 5, 2}}, 0x5a},
};

Test(reduce, sum) {
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        test("sum", TSR_DTYPE_F32, &cases[i].shape, cases[i].axes, i % 2);
}

Test(reduce, types) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_I64, TSR_DTYPE_I32};
    for (size_t i = 0; i < TSR_COUNT(cases); i += 3)
        for (size_t d = 0; d < 3; d++)
            test("sum", dtypes[d], &cases[i].shape, cases[i].axes, false);
}

Test(reduce, max) {
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        test("reduce_max", i % 3 ? TSR_DTYPE_F32 : TSR_DTYPE_I32, &cases[i].shape, cases[i].axes,
             false);
}

Test(reduce, min) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F32, TSR_DTYPE_I32, TSR_DTYPE_F64};
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        test("reduce_min", dtypes[i % 3], &cases[i].shape, cases[i].axes, false);
}

Test(reduce, prod) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F32, TSR_DTYPE_I32, TSR_DTYPE_F64};
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        test("reduce_prod", dtypes[i % 3], &cases[i].shape, cases[i].axes, i % 3 == 0);
}

Test(reduce, argmax) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F32, TSR_DTYPE_I64, TSR_DTYPE_F64, TSR_DTYPE_I32};
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        if ((cases[i].axes & (cases[i].axes - 1)) == 0)
            test("argmax", dtypes[i % 4], &cases[i].shape, cases[i].axes, false);
}

/* Runs processed in vectors, with and without a remainder. */
Test(reduce, argmax_of_runs) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F32, TSR_DTYPE_I64, TSR_DTYPE_F64, TSR_DTYPE_I32};
    static const uint64_t sizes[] = {31, 32, 33, 63, 64, 65, 128, 999, 1530};
    for (size_t i = 0; i < TSR_COUNT(sizes); i++)
        for (size_t d = 0; d < 4; d++)
            test("argmax", dtypes[d], &(tsr_shape){2, {3, sizes[i]}}, 2, false);
}

Test(reduce, programs) { test("sum", TSR_DTYPE_F32, &(tsr_shape){2, {300, 1000}}, 2, true); }

/* Columns in several parts, the last one narrower; more rows than partial results. */
Test(reduce, columns) {
    test("sum", TSR_DTYPE_F32, &(tsr_shape){2, {70, 1061}}, 1, true);
    test("sum", TSR_DTYPE_F64, &(tsr_shape){3, {2, 130, 530}}, 2, false);
    test("reduce_max", TSR_DTYPE_I32, &(tsr_shape){2, {9, 4133}}, 1, false);
    test("sum", TSR_DTYPE_F32, &(tsr_shape){4, {2, 5, 31, 1040}}, 6, true);
}

/* Axes of more than one chunk, in one kernel. sequences.py tests those in two kernels. */
static const struct {
    tsr_shape shape;
    unsigned axes;
} long_cases[] = {
    {{1, {16384}}, 1}, /* the longest that is one chunk */
    {{1, {16385}}, 1}, /* one element in the last chunk of 9 */
    {{1, {20480}}, 1}, /* whole chunks, not a power of two */
    {{1, {65536}}, 1}, /* a power of two */
    {{1, {100003}}, 1},     {{2, {3, 30000}}, 2},
    {{2, {131, 251}}, 3},   /* neighbouring dims that become one axis */
    {{3, {5, 3, 4096}}, 5}, /* chunks that are parts of runs */
    {{3, {300, 2, 64}}, 5}, /* chunks that span runs */
    {{3, {90, 2, 192}}, 5}, /* ... and begin within them */
    {{3, {200, 2, 100}}, 5} /* runs of any length */
};

Test(reduce, long_axes, .timeout = 240) {
    static const char *const ops[] = {"sum", "sum", "reduce_prod", "sum", "reduce_max"};
    for (size_t i = 0; i < TSR_COUNT(long_cases); i++)
        for (size_t k = 0; k < TSR_COUNT(ops); k++)
            test(ops[k], k == 3 ? TSR_DTYPE_F64 : TSR_DTYPE_F32, &long_cases[i].shape,
                 long_cases[i].axes, k == 1);
}

Test(reduce, long_columns, .timeout = 240) {
    static const tsr_shape shapes[] = {
        {2, {16384, 5}}, {2, {16385, 5}}, {2, {16424, 33}}, {2, {20480, 64}}, {3, {2, 16500, 7}}};
    for (size_t i = 0; i < TSR_COUNT(shapes); i++)
        test_problem(&(problem){.op = i % 2 ? "sum" : "reduce_prod",
                                .dtype = i == 3 ? TSR_DTYPE_F64 : TSR_DTYPE_F32,
                                .shape = shapes[i],
                                .weighted = true},
                     1U << (shapes[i].rank - 2));
}
