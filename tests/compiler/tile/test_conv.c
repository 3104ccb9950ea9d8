/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions and their gradients against sums in double precision, written window by window, and
 * bit for bit between the targets with FMA.
 */
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct conv {
    size_t n, h, w, c, f, kh, kw, groups;
    size_t strides[2], dilation[2], padding[4];
    const char *dtype; /* NULL: f32 */
    bool infinite;     /* a weight of the first tap and one of the last are infinite */
} conv;

typedef struct problem {
    const conv *s;
    size_t oh, ow;
    tsr_dtype dtype;
    void *image, *filter, *dresult; /* elements of type dtype */
    double tolerance;
} problem;

static size_t windows(size_t dim, size_t low, size_t high, size_t taps, size_t dilation,
                      size_t stride) {
    return (dim + low + high - (taps - 1) * dilation - 1) / stride + 1;
}

/* Visits every triple of image, filter and result elements that are multiplied. */
typedef void (*meet_fn)(const problem *p, size_t image, size_t filter, size_t result, double *out);

static void each_meeting(const problem *p, meet_fn meet, double *out) {
    const conv *s = p->s;
    size_t gc = s->c / s->groups, gf = s->f / s->groups;
    for (size_t n = 0; n < s->n; n++)
        for (size_t y = 0; y < p->oh; y++)
            for (size_t x = 0; x < p->ow; x++)
                for (size_t i = 0; i < s->kh; i++)
                    for (size_t j = 0; j < s->kw; j++) {
                        size_t iy = y * s->strides[0] + i * s->dilation[0] - s->padding[0];
                        size_t ix = x * s->strides[1] + j * s->dilation[1] - s->padding[2];
                        if (iy >= s->h || ix >= s->w) continue; /* negative ones wrap around */
                        for (size_t c = 0; c < gc; c++)
                            for (size_t f = 0; f < s->f; f++)
                                meet(p, ((n * s->h + iy) * s->w + ix) * s->c + f / gf * gc + c,
                                     ((i * s->kw + j) * gc + c) * s->f + f,
                                     ((n * p->oh + y) * p->ow + x) * s->f + f, out);
                    }
}

static double value(const problem *p, const void *data, size_t i) {
    return element_get(p->dtype, data, i);
}

static void meet_result(const problem *p, size_t i, size_t f, size_t r, double *out) {
    out[r] += value(p, p->image, i) * value(p, p->filter, f);
}
static void meet_image(const problem *p, size_t i, size_t f, size_t r, double *out) {
    out[i] += value(p, p->dresult, r) * value(p, p->filter, f);
}
static void meet_filter(const problem *p, size_t i, size_t f, size_t r, double *out) {
    out[f] += value(p, p->image, i) * value(p, p->dresult, r);
}

typedef struct expected {
    const problem *p;
    const double *values;
    size_t count;
    double largest;
} expected;

static void check(const tsr_target *target, void *const *outs, void *user) {
    const expected *e = user;
    for (size_t i = 0; i < e->count; i++) {
        double got = value(e->p, outs[0], i);
        if (isinf(e->values[i]) && got == e->values[i]) continue;
        cr_assert(fabs(got - e->values[i]) <= e->p->tolerance * (1 + e->largest),
                  "%s: %zux%zux%zux%zu, element %zu: expected %.9g, got %.9g", target->name,
                  e->p->s->n, e->p->s->h, e->p->s->w, e->p->s->c, i, e->values[i], got);
    }
}

static void type_of(char out[96], const problem *p, size_t a, size_t b, size_t c, size_t d) {
    snprintf(out, 96, "tensor<%zux%zux%zux%zux%s>", a, b, c, d, p->s->dtype ? p->s->dtype : "f32");
}

static void run(const problem *p, const char *op, const char *a_type, const char *b_type,
                const char *c_type, argument a, argument b, size_t count, meet_fn meet) {
    const conv *s = p->s;
    char text[2048];
    snprintf(text, sizeof text,
             "tsched.func @f(%%a: %s, %%b: %s) -> %s attributes {kind = \"%s\"} {\n"
             "%%c = tessera.%s %%a, %%b {strides = [%zu, %zu], padding = [%zu, %zu, %zu, %zu], "
             "dilation = [%zu, %zu], groups = %zu} : %s, %s -> %s\n"
             "tsched.return %%c : %s\n}",
             a_type, b_type, c_type, op, op, s->strides[0], s->strides[1], s->padding[0],
             s->padding[1], s->padding[2], s->padding[3], s->dilation[0], s->dilation[1], s->groups,
             a_type, b_type, c_type, c_type);
    fixture f = {0};
    fixture_open(&f, text);
    expected e = {.p = p, .count = count};
    double *values = calloc(count + 1, sizeof *values);
    each_meeting(p, meet, values);
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i])) e.largest = fmax(e.largest, fabs(values[i]));
    e.values = values;
    void *outs[] = {malloc(count * 8 + 8)};
    argument arguments[] = {a, b, {NULL, count * tsr_dtype_size(p->dtype)}};
    kernel_test(&f, "f", arguments, 3, outs, check, &e);
    free(values);
    free(outs[0]);
    fixture_close(&f);
}

static void *make(random_state *random, tsr_dtype dtype, size_t count) {
    void *data = malloc(count * 8 + 8);
    random_fill(random, dtype, data, count, -1, 1);
    return data;
}

static void test_conv(const conv *s) {
    problem p = {.s = s, .dtype = TSR_DTYPE_F32, .tolerance = 3e-6};
    static const struct {
        tsr_dtype dtype;
        double tolerance; /* 16-bit floats: rounding of the result */
    } others[] = {{TSR_DTYPE_F64, 1e-14}, {TSR_DTYPE_BF16, 0x1p-8}, {TSR_DTYPE_F16, 0x1p-11}};
    for (size_t i = 0; s->dtype && i < TSR_COUNT(others); i++)
        if (strcmp(s->dtype, tsr_dtype_name(others[i].dtype)) == 0) {
            p.dtype = others[i].dtype;
            p.tolerance = others[i].tolerance;
        }
    p.oh = windows(s->h, s->padding[0], s->padding[1], s->kh, s->dilation[0], s->strides[0]);
    p.ow = windows(s->w, s->padding[2], s->padding[3], s->kw, s->dilation[1], s->strides[1]);
    size_t size = tsr_dtype_size(p.dtype), images = s->n * s->h * s->w * s->c;
    size_t filters = s->kh * s->kw * (s->c / s->groups) * s->f, results = s->n * p.oh * p.ow * s->f;
    random_state random = {images * 31 + filters};
    char image[96], filter[96], result[96];
    p.image = make(&random, p.dtype, images);
    p.filter = make(&random, p.dtype, filters);
    p.dresult = make(&random, p.dtype, results);
    if (s->infinite) ((float *)p.filter)[0] = ((float *)p.filter)[filters - 1] = INFINITY;
    type_of(image, &p, s->n, s->h, s->w, s->c);
    type_of(filter, &p, s->kh, s->kw, s->c / s->groups, s->f);
    type_of(result, &p, s->n, p.oh, p.ow, s->f);
    argument i = {p.image, images * size}, f = {p.filter, filters * size};
    argument r = {p.dresult, results * size};
    run(&p, "conv2d", image, filter, result, i, f, results, meet_result);
    run(&p, "conv2d_grad_input", filter, result, image, f, r, images, meet_image);
    run(&p, "conv2d_grad_filter", image, result, filter, i, r, filters, meet_filter);
    free(p.image);
    free(p.filter);
    free(p.dresult);
}

/* ---- filters in strips ---- */

static void *run_kernel(const built *b, const char *name, void *x, void *y, size_t size) {
    void *out = malloc(size), *buffers[] = {x, y, out};
    tsr_fault fault = {0};
    kernel_find(b, name)(&(tsr_kernel_args){buffers, &fault}, 0, kernel_grid(b, name));
    return out;
}

static void write_strips(const problem *p, const char *strips, char text[static 4096]) {
    const conv *s = p->s;
    char image[96], filter[96], result[96], attributes[256];
    type_of(image, p, s->n, s->h, s->w, s->c);
    type_of(filter, p, s->kh, s->kw, s->c, s->f);
    type_of(result, p, s->n, p->oh, p->ow, s->f);
    snprintf(attributes, sizeof attributes,
             "{strides = [%zu, %zu], padding = [%zu, %zu, %zu, %zu], dilation = [%zu, %zu], "
             "groups = 1}",
             s->strides[0], s->strides[1], s->padding[0], s->padding[1], s->padding[2],
             s->padding[3], s->dilation[0], s->dilation[1]);
    snprintf(text, 4096,
             "tsched.func @pk(%%b: %s) -> %s attributes {kind = \"pack\"} {\n"
             "%%p = tsched.pack %%b : %s -> %s\ntsched.return %%p : %s\n}\n"
             "tsched.func @plain(%%a: %s, %%b: %s) -> %s attributes {kind = \"conv2d\"} {\n"
             "%%c = tessera.conv2d %%a, %%b %s : %s, %s -> %s\ntsched.return %%c : %s\n}\n"
             "tsched.func @packed(%%a: %s, %%p: %s) -> %s attributes {kind = \"conv2d\"} {\n"
             "%%b = tsched.unpack %%p : %s -> %s\n"
             "%%c = tessera.conv2d %%a, %%b %s : %s, %s -> %s\ntsched.return %%c : %s\n}\n",
             filter, strips, filter, strips, strips, image, filter, result, attributes, image,
             filter, result, result, image, strips, result, strips, filter, attributes, image,
             filter, result, result);
}

/* Strips must give the bits of the unpacked filter, which other tests check. */
static void test_strips(const conv *s) {
    problem p = {.s = s, .dtype = s->dtype ? TSR_DTYPE_F64 : TSR_DTYPE_F32};
    p.oh = windows(s->h, s->padding[0], s->padding[1], s->kh, s->dilation[0], s->strides[0]);
    p.ow = windows(s->w, s->padding[2], s->padding[3], s->kw, s->dilation[1], s->strides[1]);
    size_t size = tsr_dtype_size(p.dtype), width = 64 / size, count = (s->f + width - 1) / width;
    size_t rows = s->kh * s->kw * s->c, result_size = s->n * p.oh * p.ow * s->f * size;
    char strips[64], text[4096];
    snprintf(strips, sizeof strips, "tensor<%zux%zux%zux%s>", count, rows, width,
             s->dtype ? s->dtype : "f32");
    write_strips(&p, strips, text);
    fixture f = {0};
    fixture_open(&f, text);
    random_state random = {rows * 31 + s->f};
    void *x = make(&random, p.dtype, s->n * s->h * s->w * s->c);
    void *y = make(&random, p.dtype, rows * s->f);
    for (size_t t = 0; t < f.built_count; t++) {
        const built *b = &f.built[t];
        void *packed = malloc(count * rows * width * size), *pack[] = {y, packed};
        tsr_fault fault = {0};
        kernel_find(b, "pk")(&(tsr_kernel_args){pack, &fault}, 0, kernel_grid(b, "pk"));
        void *want = run_kernel(b, "plain", x, y, result_size);
        void *got = run_kernel(b, "packed", x, packed, result_size);
        cr_assert(memcmp(want, got, result_size) == 0, "%s: %zux%zux%zu by %zux%zux%zu",
                  b->target->name, s->h, s->w, s->c, s->kh, s->kw, s->f);
        free(packed);
        free(want);
        free(got);
    }
    free(x);
    free(y);
    fixture_close(&f);
}

#define PLAIN .groups = 1, .strides = {1, 1}, .dilation = {1, 1}
#define S(y, x) .strides = {y, x}
#define D(y, x) .dilation = {y, x}
#define P(...) .padding = {__VA_ARGS__}
#define TEST_ALL(list)                                                                             \
    for (size_t i_ = 0; i_ < TSR_COUNT(list); i_++) test_conv(&(list)[i_])

Test(conv, plain) {
    static const conv list[] = {
        {1, 1, 1, 1, 1, 1, 1, PLAIN},
        {2, 5, 6, 3, 4, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {1, 9, 7, 5, 50, 3, 2, PLAIN},
        {2, 8, 8, 16, 24, 1, 1, PLAIN},
        {1, 7, 16, 17, 9, 5, 5, PLAIN, P(2, 2, 2, 2)},
        {1, 4, 5, 2, 3, 4, 5, PLAIN, P(3, 0, 0, 4)},
    };
    TEST_ALL(list);
}

/* Rows that are not whole tiles, in one block and in several; a last block without a whole tile. */
Test(conv, flat) {
    static const conv list[] = {
        {1, 7, 7, 40, 33, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {2, 13, 7, 200, 17, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {1, 15, 15, 6, 20, 3, 3, 1, S(2, 2), D(1, 1), P(0)},
        {1, 33, 3, 150, 16, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {3, 2, 2, 5, 8, 2, 2, PLAIN, P(1, 0, 1, 0)},
        {1, 9, 5, 20, 24, 3, 3, PLAIN, .dtype = "f64"},
    };
    TEST_ALL(list);
}

/* Taps outside the image, with enough channels that skipping them pays off: several tiles in a row;
 * an image narrower than the filter; more groups of positions that share taps than there are loops;
 * phases. */
Test(conv, border) {
    static const conv list[] = {
        {1, 9, 31, 16, 33, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {1, 6, 31, 100, 40, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {2, 6, 2, 16, 20, 5, 5, PLAIN, P(2, 2, 2, 2)},
        {1, 4, 3, 18, 17, 3, 3, PLAIN, P(5, 1, 4, 5)},
        {1, 5, 20, 20, 17, 9, 9, PLAIN, P(4, 4, 4, 4)},
        {1, 10, 17, 24, 20, 3, 4, 1, S(2, 2), D(1, 1), P(1, 1, 1, 2)},
        {1, 8, 40, 16, 20, 3, 3, 1, S(1, 1), D(2, 9), P(2, 2, 9, 9)},
        {1, 7, 19, 18, 16, 3, 3, 1, S(2, 3), D(3, 2), P(3, 3, 2, 2)},
        {1, 7, 15, 20, 24, 3, 3, PLAIN, P(1, 1, 1, 1), .dtype = "f64"},
    };
    TEST_ALL(list);
    for (size_t i = 0; i < TSR_COUNT(list); i++) test_strips(&list[i]);
}

/* Skipped weights may be infinite. */
Test(conv, infinite) {
    static const conv list[] = {
        {1, 7, 9, 16, 20, 3, 3, PLAIN, P(1, 1, 1, 1), .infinite = true},
        {1, 6, 31, 100, 40, 3, 5, PLAIN, P(1, 1, 2, 2), .infinite = true},
        {1, 5, 20, 20, 17, 9, 9, PLAIN, P(4, 4, 4, 4), .infinite = true},
        {1, 10, 17, 24, 20, 3, 4, 1, S(2, 2), D(1, 1), P(1, 1, 1, 2), .infinite = true},
        {1, 9, 8, 3, 5, 3, 1, PLAIN, P(1, 1, 0, 0), .infinite = true},
        {1, 9, 8, 6, 6, 3, 3, 6, S(1, 1), D(1, 1), P(1, 1, 1, 1), .infinite = true},
    };
    TEST_ALL(list);
}

/* The last vector holds at most half of its filters. */
Test(conv, last_lanes) {
    static const conv list[] = {
        {1, 9, 16, 4, 19, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {1, 7, 7, 90, 36, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {2, 8, 20, 24, 20, 4, 4, 1, S(2, 2), D(1, 1), P(2, 2, 2, 2)},
        {1, 9, 10, 300, 24, 1, 1, PLAIN},
        {1, 9, 11, 3, 12, 2, 3, PLAIN, .dtype = "f64"},
    };
    TEST_ALL(list);
    for (size_t i = 0; i < TSR_COUNT(list); i++) test_strips(&list[i]);
}

Test(conv, strips) {
    static const conv list[] = {
        {1, 7, 7, 40, 33, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {2, 13, 7, 200, 17, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {1, 15, 15, 6, 64, 3, 3, 1, S(2, 2), D(1, 2), P(0, 1, 2, 0)},
        {1, 30, 11, 3, 100, 5, 5, PLAIN, P(2, 2, 2, 2)},
        {1, 4, 6, 900, 50, 1, 1, PLAIN},
        {1, 6, 70, 2, 16, 3, 3, 1, S(1, 1), D(2, 30), P(2, 2, 30, 30)},
        {1, 9, 5, 20, 24, 3, 3, PLAIN, P(1, 1, 1, 1), .dtype = "f64"},
    };
    for (size_t i = 0; i < TSR_COUNT(list); i++) test_strips(&list[i]);
}

Test(conv, strides_and_dilation) {
    static const conv list[] = {
        {1, 9, 9, 3, 8, 3, 3, 1, S(2, 2), D(1, 1), P(1, 1, 1, 1)},
        {2, 11, 13, 2, 5, 3, 4, 1, S(3, 2), D(1, 2), P(0, 2, 3, 1)},
        {1, 12, 10, 4, 7, 3, 3, 1, S(2, 3), D(2, 3), P(2, 2, 3, 3)},
        {1, 8, 8, 3, 6, 4, 4, 1, S(4, 4), D(1, 1), P(0)},
        {1, 7, 9, 3, 4, 2, 2, 1, S(5, 12), D(1, 1), P(0, 1, 0, 0)}, /* positions in no window */
        {1, 6, 70, 2, 3, 3, 3, 1, S(1, 1), D(2, 30), P(2, 2, 30, 30)},
    };
    TEST_ALL(list);
}

/* Channels in several blocks, several rows of taps, a patch that does not fit. */
Test(conv, blocks) {
    static const conv list[] = {
        {1, 5, 5, 200, 20, 3, 3, PLAIN, P(1, 1, 1, 1)},
        {1, 4, 4, 900, 10, 1, 1, PLAIN},
        {1, 40, 40, 1, 2, 37, 35, PLAIN, P(9, 9, 9, 9)},
        {1, 90, 130, 3, 5, 3, 3, 1, S(1, 1), D(40, 60), P(40, 40, 60, 60)},
        {1, 3, 300, 40, 6, 3, 3, PLAIN, P(1, 1, 1, 1)},
    };
    TEST_ALL(list);
}

Test(conv, groups) {
    static const conv list[] = {
        {2, 6, 5, 6, 9, 3, 3, 3, S(1, 1), D(1, 1), P(1, 1, 1, 1)},
        {1, 7, 8, 8, 4, 3, 3, 4, S(2, 1), D(1, 2), P(1, 1, 2, 2)},
        {1, 9, 9, 70, 70, 3, 3, 70, S(1, 1), D(1, 1), P(1, 1, 1, 1)},
        {2, 10, 7, 37, 37, 5, 3, 37, S(2, 3), D(2, 1), P(4, 3, 1, 1)},
        {1, 6, 6, 4, 12, 3, 3, 4, S(1, 1), D(1, 1), P(1, 1, 1, 1)},
        {1, 9, 15, 48, 34, 3, 3, 2, S(1, 1), D(1, 1), P(1, 1, 1, 1)},
    };
    TEST_ALL(list);
}

Test(conv, dtypes) {
    static const conv list[] = {
        {1, 7, 9, 5, 11, 3, 3, PLAIN, P(1, 1, 1, 1), .dtype = "f64"},
        {1, 5, 5, 150, 20, 3, 3, 1, S(2, 2), D(1, 1), P(1, 1, 1, 1), .dtype = "f64"},
        {2, 7, 9, 5, 11, 3, 3, PLAIN, P(1, 1, 1, 1), .dtype = "bf16"},
        {1, 5, 5, 150, 20, 3, 3, 1, S(2, 2), D(1, 1), P(1, 1, 1, 1), .dtype = "bf16"},
        {2, 6, 8, 16, 24, 1, 1, PLAIN, .dtype = "bf16"},
        {1, 7, 15, 20, 24, 3, 3, PLAIN, P(1, 1, 1, 1), .dtype = "bf16"},
        {1, 9, 9, 37, 37, 3, 3, 37, S(1, 1), D(1, 1), P(1, 1, 1, 1), .dtype = "bf16"},
        {1, 9, 9, 5, 5, 3, 3, 5, S(1, 1), D(1, 1), P(1, 1, 1, 1), .dtype = "bf16"},
        {1, 7, 7, 1, 1, 2, 2, PLAIN, .dtype = "bf16"},
        {1, 9, 7, 5, 50, 3, 2, PLAIN, .dtype = "f16"},
        {2, 10, 7, 37, 37, 5, 3, 37, S(2, 3), D(2, 1), P(4, 3, 1, 1), .dtype = "f16"},
    };
    TEST_ALL(list);
}
