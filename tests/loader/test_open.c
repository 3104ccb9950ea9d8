/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of an entry whose dim N is open, 1 to 64 (open.mlir). Rows do not depend on each other, so
 * a call with n rows must give the bits of the first n rows of a call with 64, which are compared
 * with the same model in double precision. Before each call, the memory of the executor is filled
 * with NaN; rows that the call does not have must stay as they are. The linker redirects calls of
 * the allocator to this file.
 */
#include "loader/model.h"
#include "runtime/base/array.h"
#include "runtime/exec/bound.h"
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, X = 24, B = 6, Y = 10, HIDDEN = 40, PAST = 32 };

static _Atomic uint64_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

void *__wrap_malloc(size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *old, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __real_realloc(old, size);
}
void *__wrap_aligned_alloc(size_t align, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __real_aligned_alloc(align, size);
}

typedef struct results {
    float y[MOST * Y + PAST], z[2 * MOST + PAST], copy[MOST * X + PAST], fixed[Y + PAST];
} results;

static tsr_ctx ctx;
static tsr_model *model;
static float x[MOST * X], b[2 * MOST * B], s[Y];

static void must(tsr_result result) { cr_assert_eq(result.code, 0, "%s", ctx.error.text); }

static tsr_model *open_bundle(const char *variable) {
    const char *path = getenv(variable);
    const tsr_model_options options = {.size_bytes = sizeof options, .threads = 2};
    tsr_model *opened = NULL;
    if (!path) cr_skip_test("%s names no bundle", variable);
    must(tsr_model_open(&ctx, path, &options, &opened));
    must(tsr_model_initialize(&ctx, opened, 7));
    return opened;
}

static void init(void) {
    unsigned state = 1;
    for (size_t i = 0; i < TSR_COUNT(x); i++)
        x[i] = (float)((state = state * 1103515245u + 12345u) >> 16) / 32768.0f - 1.0f;
    for (size_t i = 0; i < TSR_COUNT(b); i++)
        b[i] = (float)((state = state * 1103515245u + 12345u) >> 16) / 32768.0f - 1.0f;
    for (size_t i = 0; i < TSR_COUNT(s); i++) s[i] = 0.25f * (float)i;
    model = open_bundle("TESSERA_OPEN_BUNDLE");
}

static void finish(void) { tsr_model_close(&ctx, model); }
TestSuite(open, .init = init, .fini = finish);

static void fill(void *memory, size_t size_bytes) { memset(memory, 0xff, size_bytes); } /* NaN */

/* Fills the workspace, and all inputs and outputs. */
static void spoil(tsr_model *of) {
    const tsr_config_entry *entry = &of->config.entries[0];
    uint64_t size = 0;
    fill(of->executor->workspace, of->executor->workspace_bytes);
    for (size_t i = 0; i < entry->input_count; i++) {
        tsr_shape_size(&entry->inputs[i].shape, entry->inputs[i].dtype, &size);
        fill(tsr_executor_get_input(of->executor, 0, i), size);
    }
    for (size_t i = 0; i < entry->output_count; i++) {
        tsr_shape_size(&entry->outputs[i].shape, entry->outputs[i].dtype, &size);
        fill(tsr_executor_get_output(of->executor, 0, i), size);
    }
}

static tsr_result call(tsr_model *of, uint64_t n, uint64_t b_rows, results *out) {
    const tsr_tensor inputs[] = {{"x", TSR_DTYPE_F32, {2, {n, X}}, x},
                                 {"b", TSR_DTYPE_F32, {2, {b_rows, B}}, b},
                                 {"s", TSR_DTYPE_F32, {1, {Y}}, s}};
    const tsr_tensor outputs[] = {{"y", TSR_DTYPE_F32, {2, {n, Y}}, out->y},
                                  {"z", TSR_DTYPE_F32, {1, {2 * n}}, out->z},
                                  {"copy", TSR_DTYPE_F32, {2, {n, X}}, out->copy},
                                  {"fixed", TSR_DTYPE_F32, {1, {Y}}, out->fixed}};
    return tsr_model_call(&ctx, of, "predict", inputs, 3, outputs, 4);
}

/* The first `count` elements are those of the whole call, and nothing follows them. */
static void check_rows(const char *what, const float *got, const float *whole, size_t count,
                       size_t size, uint64_t n) {
    cr_assert_eq(memcmp(got, whole, count * sizeof *got), 0, "%s of %zu rows", what, (size_t)n);
    for (size_t i = count; i < size; i++)
        cr_assert(isnan(got[i]), "%s of %zu rows: element %zu was written", what, (size_t)n, i);
}

static const float *param(const char *name) {
    size_t count = 0;
    const tsr_tensor *state = tsr_model_get_state(model, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(state[i].name, name) == 0) return state[i].data;
    cr_assert_fail("no parameter %s", name);
    return NULL;
}

/* The rounding error of f32 in 24 and 40 products is far below 1e-5. */
static void check_whole(const results *whole) {
    const float *w = param("w"), *v = param("v");
    for (size_t r = 0; r < MOST; r++) {
        double hidden[HIDDEN], out[Y], most = -INFINITY, sum = 0;
        for (size_t h = 0; h < HIDDEN; h++) {
            double at = 0;
            for (size_t k = 0; k < X; k++) at += (double)x[r * X + k] * (double)w[k * HIDDEN + h];
            hidden[h] = tanh(at);
        }
        for (size_t k = 0; k < Y; k++) {
            out[k] = (double)s[k];
            for (size_t h = 0; h < HIDDEN; h++) out[k] += hidden[h] * (double)v[h * Y + k];
            most = fmax(most, out[k]);
        }
        for (size_t k = 0; k < Y; k++) sum += exp(out[k] - most);
        for (size_t k = 0; k < Y; k++)
            cr_assert_float_eq((double)whole->y[r * Y + k], exp(out[k] - most) / sum, 1e-5);
    }
    for (size_t r = 0; r < 2 * MOST; r++) {
        double sum = 0;
        for (size_t k = 0; k < B; k++) sum += (double)b[r * B + k];
        cr_assert_float_eq((double)whole->z[r], sum, 1e-5);
    }
    cr_assert_eq(memcmp(whole->copy, x, sizeof x), 0);
    for (size_t k = 0; k < Y; k++) cr_assert_eq(whole->fixed[k], s[k] * s[k]);
}

static void check_call(const results *whole, uint64_t n) {
    static results got;
    fill(&got, sizeof got);
    spoil(model);
    must(call(model, n, 2 * n, &got));
    check_rows("y", got.y, whole->y, n * Y, TSR_COUNT(got.y), n);
    check_rows("z", got.z, whole->z, 2 * n, TSR_COUNT(got.z), n);
    check_rows("copy", got.copy, whole->copy, n * X, TSR_COUNT(got.copy), n);
    check_rows("fixed", got.fixed, whole->fixed, Y, TSR_COUNT(got.fixed), n);
    for (size_t o = 0; o < model->config.entries[0].output_count; o++) {
        const tsr_config_port *port = &model->config.entries[0].outputs[o];
        uint64_t count = 0;
        tsr_shape_count(&port->shape, &count);
        const float *y = tsr_executor_get_output(model->executor, 0, o);
        for (uint64_t i = port->dim_times ? count / MOST * n : count; i < count; i++)
            cr_assert(isnan(y[i]), "%s of %zu rows: row past the last one", port->name, (size_t)n);
    }
}

Test(open, every_size_has_the_bits_of_its_rows) {
    static results whole;
    static const uint64_t jumps[] = {64, 3, 64, 1, 63, 2, 33, 64};
    spoil(model);
    must(call(model, MOST, 2 * MOST, &whole));
    check_whole(&whole);
    for (size_t i = 0; i < TSR_COUNT(jumps); i++) check_call(&whole, jumps[i]);
    for (uint64_t n = 1; n <= MOST; n++) check_call(&whole, n);
}

Test(open, calls_allocate_nothing) {
    static results got;
    static const uint64_t sizes[] = {64, 3, 17, 64, 1, 40};
    must(call(model, 5, 10, &got)); /* the C library fills its buffers */
    cr_assert(atomic_load(&allocations) > 0, "the allocator is not redirected");
    uint64_t before = atomic_load(&allocations);
    for (size_t i = 0; i < TSR_COUNT(sizes); i++) must(call(model, sizes[i], 2 * sizes[i], &got));
    cr_assert_eq(atomic_load(&allocations), before);
}

static void refused(tsr_result result, const char *text) {
    cr_assert_eq(result.code, TSR_DATA);
    cr_assert(strstr(ctx.error.text, text), "%s", ctx.error.text);
    tsr_error_clear(&ctx);
}

Test(open, sizes_that_cannot_be) {
    static results got;
    refused(call(model, 0, 0, &got),
            "dim 'N' of entry 'predict' is 0 in input 'x'; the bundle was built for 1 to 64");
    refused(call(model, 65, 130, &got),
            "dim 'N' of entry 'predict' is 65 in input 'x'; the bundle was built for 1 to 64");
    refused(call(model, 5, 12, &got),
            "dim 'N' of entry 'predict' is 5 in input 'x' and 6 in input 'b'");
    refused(call(model, 5, 11, &got),
            "dim 0 of input 'b' is 11; expected 2 times dim 'N', a multiple of 2");
    refused(call(model, UINT64_MAX / 2, 10, &got), "dim 'N'");
    const tsr_tensor wrong = {"x", TSR_DTYPE_F32, {2, {5, X + 1}}, x};
    refused(tsr_model_call(&ctx, model, "predict", &wrong, 1, NULL, 0),
            "input 'x' is 5x25xf32; expected 64x24xf32 or fewer rows");
    must(call(model, 5, 10, &got));
}

/* One program for each of 1, 8 and 64: the same source, the same bits. */
Test(open, copies_of_the_entry_have_the_same_bits) {
    static results got, expected;
    static const uint64_t sizes[] = {1, 8, 64, 8};
    tsr_model *exact = open_bundle("TESSERA_COPIES_BUNDLE");
    for (size_t i = 0; i < TSR_COUNT(sizes); i++) {
        fill(&got, sizeof got);
        fill(&expected, sizeof expected);
        must(call(exact, sizes[i], 2 * sizes[i], &got));
        must(call(model, sizes[i], 2 * sizes[i], &expected));
        cr_assert_eq(memcmp(&got, &expected, sizeof got), 0);
    }
    refused(call(exact, 7, 14, &got), "the bundle was built for 1, 8, 64");
    tsr_model_close(&ctx, exact);
}
