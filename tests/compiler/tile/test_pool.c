/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling and its gradients against a walk over the windows one by one in double precision. Numbers
 * are small integers, so that many are equal and their sums are exact.
 */
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct pool {
    size_t n, h, w, c, window[2], strides[2], padding[4];
    tsr_dtype dtype;
} pool;

typedef enum kind { MAX, AVG, MAX_GRAD, AVG_GRAD } kind;

typedef struct problem {
    const pool *p;
    size_t size[2]; /* height and width of the result */
    bool excludes;
    size_t images, pooled; /* elements */
    void *image, *gradient;
    double *expected;
} problem;

static random_state dice = {7};

static void *whole_numbers(tsr_dtype dtype, size_t count) {
    void *data = calloc(count ? count : 1, sizeof(double));
    cr_assert(data);
    for (size_t i = 0; i < count; i++) {
        double value = floor(random_uniform(&dice, -8, 8));
        if (dtype == TSR_DTYPE_F64)
            ((double *)data)[i] = value;
        else if (dtype == TSR_DTYPE_F32)
            ((float *)data)[i] = (float)value;
        else {
            union {
                float number;
                uint32_t bits;
            } wide = {(float)value};
            ((uint16_t *)data)[i] = (uint16_t)(wide.bits >> 16);
        }
    }
    return data;
}

/* One window of one channel; `at` is its element of the result. */
static void walk(const problem *q, kind k, size_t n, size_t y, size_t x, size_t c, size_t at) {
    const pool *p = q->p;
    size_t count = 0, first = SIZE_MAX;
    double best = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        double divisor = (double)(q->excludes ? count : p->window[0] * p->window[1]);
        for (size_t i = 0; i < p->window[0]; i++)
            for (size_t j = 0; j < p->window[1]; j++) {
                size_t iy = y * p->strides[0] + i - p->padding[0];
                size_t ix = x * p->strides[1] + j - p->padding[2];
                if (iy >= p->h || ix >= p->w) continue; /* negative ones wrap around */
                size_t from = ((n * p->h + iy) * p->w + ix) * p->c + c;
                double value = element_get(p->dtype, q->image, from);
                if (pass && k == AVG_GRAD)
                    q->expected[from] += element_get(p->dtype, q->gradient, at) / divisor;
                if (pass) continue;
                count++;
                sum += value;
                if (first == SIZE_MAX || value > best) first = from;
                best = element_get(p->dtype, q->image, first);
            }
        if (pass && k == MAX_GRAD) q->expected[first] += element_get(p->dtype, q->gradient, at);
        if (pass && k == MAX) q->expected[at] = best;
        if (pass && k == AVG) q->expected[at] = sum / divisor;
    }
}

static void write_text(const problem *q, kind k, tsr_buffer *text) {
    static const char *const names[] = {"max_pool2d", "avg_pool2d", "max_pool2d_grad",
                                        "avg_pool2d_grad"};
    const pool *p = q->p;
    char image[80], pooled[80], attributes[200];
    const char *type = tsr_dtype_name(p->dtype), *from = k == AVG_GRAD ? pooled : image;
    const char *to = k < MAX_GRAD ? pooled : image;
    snprintf(image, sizeof image, "tensor<%zux%zux%zux%zux%s>", p->n, p->h, p->w, p->c, type);
    snprintf(pooled, sizeof pooled, "tensor<%zux%zux%zux%zux%s>", p->n, q->size[0], q->size[1],
             p->c, type);
    snprintf(attributes, sizeof attributes,
             "{window = [%zu, %zu], strides = [%zu, %zu], padding = [%zu, %zu, %zu, %zu]%s}",
             p->window[0], p->window[1], p->strides[0], p->strides[1], p->padding[0], p->padding[1],
             p->padding[2], p->padding[3],
             q->excludes && k != MAX && k != MAX_GRAD ? ", exclude_padding" : "");
    tsr_buffer_printf(text, "tsched.func @g(%%x: %s", from);
    if (k == MAX_GRAD) tsr_buffer_printf(text, ", %%g: %s", pooled);
    tsr_buffer_printf(text, ") -> %s attributes {kind = \"%s\"} {\n%%y = tessera.%s %%x", to,
                      names[k], names[k]);
    if (k == MAX_GRAD)
        tsr_buffer_printf(text, ", %%g %s : %s, %s\n", attributes, image, pooled);
    else
        tsr_buffer_printf(text, " %s : %s -> %s\n", attributes, from, to);
    tsr_buffer_printf(text, "tsched.return %%y : %s\n}", to);
}

static void check(const tsr_target *target, void *const *out, void *user) {
    const problem *q = user;
    double unit = q->p->dtype == TSR_DTYPE_BF16 ? 0x1p-8 : 0x1p-20; /* up to 45 roundings */
    for (size_t i = 0; i < q->images || i < q->pooled; i++) {
        if (isnan(q->expected[i])) break;
        double got = element_get(q->p->dtype, out[0], i), want = q->expected[i];
        cr_assert(fabs(got - want) <= unit * fmax(fabs(want), 1), "%s: element %zu is %g, not %g",
                  target->name, i, got, want);
    }
}

static void run(const pool *p, kind k, bool excludes) {
    problem q = {.p = p, .excludes = excludes};
    for (int i = 0; i < 2; i++)
        q.size[i] = ((i ? p->w : p->h) + p->padding[2 * i] + p->padding[2 * i + 1] - p->window[i]) /
                        p->strides[i] +
                    1;
    q.images = p->n * p->h * p->w * p->c;
    q.pooled = p->n * q.size[0] * q.size[1] * p->c;
    size_t most = q.images > q.pooled ? q.images : q.pooled, size = tsr_dtype_size(p->dtype);
    size_t made = k < MAX_GRAD ? q.pooled : q.images;
    q.image = whole_numbers(p->dtype, q.images);
    q.gradient = whole_numbers(p->dtype, q.pooled);
    q.expected = calloc(most + 1, sizeof *q.expected);
    cr_assert(q.expected);
    for (size_t at = 0; at < q.pooled; at++) {
        size_t c = at % p->c, x = at / p->c % q.size[1], y = at / p->c / q.size[1] % q.size[0];
        walk(&q, k, at / p->c / q.size[1] / q.size[0], y, x, c, at);
    }
    q.expected[made] = NAN;
    tsr_buffer text = {0};
    fixture f = {0};
    void *out[] = {malloc(most * size + 1)};
    argument arguments[3] = {
        {k == AVG_GRAD ? q.gradient : q.image, (k == AVG_GRAD ? q.pooled : q.images) * size}};
    size_t count = 1;
    if (k == MAX_GRAD) arguments[count++] = (argument){q.gradient, q.pooled * size};
    arguments[count++] = (argument){NULL, made * size};
    write_text(&q, k, &text);
    fixture_open(&f, text.bytes);
    kernel_test(&f, "g", arguments, count, out, check, &q);
    fixture_close(&f);
    tsr_buffer_finish(&text);
    free(out[0]);
    free(q.image);
    free(q.gradient);
    free(q.expected);
}

static const pool cases[] = {
    {2, 8, 12, 16, {2, 2}, {2, 2}, {0}, TSR_DTYPE_F32},          /* windows tile the image */
    {1, 9, 11, 19, {3, 3}, {2, 2}, {1, 1, 1, 1}, TSR_DTYPE_F32}, /* overlap, odd channels */
    {2, 7, 6, 8, {3, 3}, {1, 1}, {1, 1, 1, 1}, TSR_DTYPE_F64},   /* every position many times */
    {1, 11, 10, 3, {2, 1}, {3, 4}, {0, 1, 0, 0}, TSR_DTYPE_F32}, /* positions outside all windows */
    {1, 5, 4, 40, {5, 9}, {1, 2}, {4, 2, 8, 6}, TSR_DTYPE_F32},  /* windows wider than the image */
    {1, 13, 40, 600, {3, 2}, {2, 1}, {1, 1, 0, 1}, TSR_DTYPE_F32}, /* several programs per image */
    {3, 4, 4, 1, {1, 1}, {1, 1}, {0}, TSR_DTYPE_F32},
    {0, 4, 4, 8, {2, 2}, {2, 2}, {0}, TSR_DTYPE_F32},
    {1, 4, 4, 0, {2, 2}, {2, 2}, {0}, TSR_DTYPE_F32},
};
static const pool narrow = {1, 9, 11, 19, {3, 3}, {2, 2}, {1, 1, 1, 1}, TSR_DTYPE_BF16};

Test(pool, forward) {
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        for (kind k = MAX; k <= AVG; k++) run(&cases[i], k, i % 2);
    for (kind k = MAX; k <= AVG; k++) run(&narrow, k, false);
}

Test(pool, gradients) {
    for (size_t i = 0; i < TSR_COUNT(cases); i++)
        for (kind k = MAX_GRAD; k <= AVG_GRAD; k++) run(&cases[i], k, i % 2);
}
