/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross entropy and its gradient against double precision; labels outside the classes.
 */
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    size_t rows, classes;
    bool wide;
    void *logits, *dlosses;
    int64_t *labels;
} problem;

static double at(const problem *p, const void *data, size_t i) {
    return p->wide ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Rounding of the exponentials and of the sum, relative to the largest term. */
static double tolerance(const problem *p) { return (p->wide ? 1e-14 : 2e-6); }

static double log_sum(const problem *p, size_t row, double *out_highest) {
    double highest = -(double)INFINITY, sum = 0;
    for (size_t c = 0; c < p->classes; c++)
        highest = fmax(highest, at(p, p->logits, row * p->classes + c));
    for (size_t c = 0; c < p->classes; c++)
        sum += exp(at(p, p->logits, row * p->classes + c) - highest);
    *out_highest = highest;
    return log(sum);
}

static void check_loss(const tsr_target *target, void *const *outs, void *user) {
    const problem *p = user;
    for (size_t r = 0; r < p->rows; r++) {
        double highest = 0, sum = log_sum(p, r, &highest);
        double x = at(p, p->logits, r * p->classes + (size_t)p->labels[r]);
        double expected = sum - (x - highest), got = at(p, outs[0], r);
        cr_assert(fabs(got - expected) <= tolerance(p) * (1 + fabs(expected)),
                  "%s row %zu: expected %.9g, got %.9g", target->name, r, expected, got);
    }
}

static void check_gradient(const tsr_target *target, void *const *outs, void *user) {
    const problem *p = user;
    for (size_t r = 0; r < p->rows; r++) {
        double highest = 0, sum = log_sum(p, r, &highest);
        for (size_t c = 0; c < p->classes; c++) {
            size_t i = r * p->classes + c;
            double share = exp(at(p, p->logits, i) - highest - sum);
            double expected = (share - (p->labels[r] == (int64_t)c)) * at(p, p->dlosses, r);
            cr_assert(fabs(at(p, outs[0], i) - expected) <= tolerance(p),
                      "%s [%zu,%zu]: expected %.9g, got %.9g", target->name, r, c, expected,
                      at(p, outs[0], i));
        }
    }
}

static void open_both(fixture *f, size_t rows, size_t classes, const char *dtype,
                      const char *label) {
    tsr_buffer text = {0};
    tsr_buffer_printf(
        &text,
        "tsched.func @loss(%%x: tensor<%zux%zux%s>, %%l: tensor<%zux%s>) -> tensor<%zux%s> "
        "attributes {kind = \"cross_entropy\"} {\n"
        "%%y = tessera.cross_entropy %%x, %%l : tensor<%zux%zux%s>, tensor<%zux%s> -> "
        "tensor<%zux%s>\n"
        "tsched.return %%y : tensor<%zux%s>\n}\n",
        rows, classes, dtype, rows, label, rows, dtype, rows, classes, dtype, rows, label, rows,
        dtype, rows, dtype);
    tsr_buffer_printf(
        &text,
        "tsched.func @grad(%%x: tensor<%zux%zux%s>, %%l: tensor<%zux%s>, %%d: tensor<%zux%s>) -> "
        "tensor<%zux%zux%s> attributes {kind = \"cross_entropy_grad\"} {\n"
        "%%y = tessera.cross_entropy_grad %%x, %%l, %%d : tensor<%zux%zux%s>, tensor<%zux%s>, "
        "tensor<%zux%s> -> tensor<%zux%zux%s>\n"
        "tsched.return %%y : tensor<%zux%zux%s>\n}\n",
        rows, classes, dtype, rows, label, rows, dtype, rows, classes, dtype, rows, classes, dtype,
        rows, label, rows, dtype, rows, classes, dtype, rows, classes, dtype);
    fixture_open(f, text.bytes);
    tsr_buffer_finish(&text);
}

static problem make(size_t rows, size_t classes, bool wide, double range) {
    problem p = {.rows = rows, .classes = classes, .wide = wide};
    random_state random = {rows * 1000 + classes};
    tsr_dtype dtype = wide ? TSR_DTYPE_F64 : TSR_DTYPE_F32;
    p.logits = malloc(rows * classes * 8);
    p.dlosses = malloc(rows * 8);
    p.labels = malloc(rows * 8);
    random_fill(&random, dtype, p.logits, rows * classes, -range, range);
    random_fill(&random, dtype, p.dlosses, rows, -1, 1);
    for (size_t r = 0; r < rows; r++) p.labels[r] = (int64_t)(random_u64(&random) % classes);
    return p;
}

static void drop(problem *p) {
    free(p->logits);
    free(p->dlosses);
    free(p->labels);
}

static void test(size_t rows, size_t classes, bool wide, double range) {
    fixture f = {0};
    open_both(&f, rows, classes, wide ? "f64" : "f32", "i64");
    problem p = make(rows, classes, wide, range);
    size_t size = wide ? 8 : 4;
    void *outs[] = {malloc(rows * classes * size)};
    argument loss[] = {
        {p.logits, rows * classes * size}, {p.labels, rows * 8}, {NULL, rows * size}};
    argument grad[] = {{p.logits, rows * classes * size},
                       {p.labels, rows * 8},
                       {p.dlosses, rows * size},
                       {NULL, rows * classes * size}};
    kernel_test(&f, "loss", loss, 3, outs, check_loss, &p);
    kernel_test(&f, "grad", grad, 4, outs, check_gradient, &p);
    free(outs[0]);
    drop(&p);
    fixture_close(&f);
}

Test(cross_entropy, shapes) {
    static const size_t classes[] = {1, 2, 10, 63, 64, 65, 130, 1000};
    for (size_t i = 0; i < TSR_COUNT(classes); i++) test(5, classes[i], false, 8);
    test(64, 10, false, 80);
    test(301, 17, true, 300);
    test(1, 129, true, 3);
}

/* To the nearest bf16, ties to even. */
static uint16_t narrow(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Test `casts` reads logits, and writes the gradient, through casts: the bits equal those of the
 * separate ops. */
/* The logits are too large for the caches: the largest logit of a row is found together with the
 * exponentials of the row before. Programs have one row or several, the last one fewer; one case
 * has a single row. */
Test(cross_entropy, far) {
    test(70, 4099, false, 5);
    test(1001, 301, false, 5);
    test(63, 4161, false, 50);
    test(1, 270001, false, 5);
    test(130, 1030, true, 5);
}

Test(cross_entropy, casts) {
    enum { ROWS = 5, CLASSES = 130, COUNT = ROWS * CLASSES };
    static const char text[] =
        "tsched.func @loss(%x: tensor<5x130xf32>, %l: tensor<5xi64>) -> tensor<5xf32> attributes "
        "{kind = \"cross_entropy\"} {\n"
        "%y = tessera.cross_entropy %x, %l : tensor<5x130xf32>, tensor<5xi64> -> tensor<5xf32>\n"
        "tsched.return %y : tensor<5xf32>\n}\n"
        "tsched.func @grad(%x: tensor<5x130xf32>, %l: tensor<5xi64>, %d: tensor<5xf32>) -> "
        "tensor<5x130xf32> attributes {kind = \"cross_entropy_grad\"} {\n"
        "%y = tessera.cross_entropy_grad %x, %l, %d : tensor<5x130xf32>, tensor<5xi64>, "
        "tensor<5xf32> -> tensor<5x130xf32>\n"
        "tsched.return %y : tensor<5x130xf32>\n}\n"
        "tsched.func @loss16(%n: tensor<5x130xbf16>, %l: tensor<5xi64>) -> tensor<5xf32> "
        "attributes {kind = \"cross_entropy\"} {\n"
        "%x = tessera.cast %n : tensor<5x130xbf16> to tensor<5x130xf32>\n"
        "%y = tessera.cross_entropy %x, %l : tensor<5x130xf32>, tensor<5xi64> -> tensor<5xf32>\n"
        "tsched.return %y : tensor<5xf32>\n}\n"
        "tsched.func @grad16(%n: tensor<5x130xbf16>, %l: tensor<5xi64>, %d: tensor<5xf32>) -> "
        "tensor<5x130xbf16> attributes {kind = \"cross_entropy_grad\"} {\n"
        "%x = tessera.cast %n : tensor<5x130xbf16> to tensor<5x130xf32>\n"
        "%y = tessera.cross_entropy_grad %x, %l, %d : tensor<5x130xf32>, tensor<5xi64>, "
        "tensor<5xf32> -> tensor<5x130xf32>\n"
        "%z = tessera.cast %y : tensor<5x130xf32> to tensor<5x130xbf16>\n"
        "tsched.return %z : tensor<5x130xbf16>\n}\n";
    fixture f = {0};
    fixture_open(&f, text);
    problem p = make(ROWS, CLASSES, false, 8);
    uint16_t short_logits[COUNT], short_gradients[COUNT];
    float losses[ROWS], same[ROWS], gradients[COUNT], *logits = p.logits;
    for (size_t i = 0; i < COUNT; i++) {
        short_logits[i] = narrow(logits[i]);
        uint32_t bits = (uint32_t)short_logits[i] << 16;
        memcpy(&logits[i], &bits, sizeof bits);
    }
    argument loss[] = {{logits, 4 * COUNT}, {p.labels, 8 * ROWS}, {NULL, sizeof losses}};
    argument loss16[] = {{short_logits, 2 * COUNT}, {p.labels, 8 * ROWS}, {NULL, sizeof same}};
    argument grad[] = {
        {logits, 4 * COUNT}, {p.labels, 8 * ROWS}, {p.dlosses, 4 * ROWS}, {NULL, sizeof gradients}};
    argument grad16[] = {{short_logits, 2 * COUNT},
                         {p.labels, 8 * ROWS},
                         {p.dlosses, 4 * ROWS},
                         {NULL, sizeof short_gradients}};
    for (size_t t = 0; t < f.built_count; t++) {
        void *outs[] = {losses}, *same_outs[] = {same};
        void *grads[] = {gradients}, *short_grads[] = {short_gradients};
        kernel_run(&f.built[t], "loss", loss, 3, SPLIT_WHOLE, GUARD_END, outs);
        kernel_run(&f.built[t], "loss16", loss16, 3, SPLIT_WHOLE, GUARD_END, same_outs);
        kernel_run(&f.built[t], "grad", grad, 4, SPLIT_WHOLE, GUARD_START, grads);
        kernel_run(&f.built[t], "grad16", grad16, 4, SPLIT_WHOLE, GUARD_END, short_grads);
        cr_assert(memcmp(losses, same, sizeof losses) == 0);
        for (size_t i = 0; i < COUNT; i++)
            cr_assert(short_gradients[i] == narrow(gradients[i]), "[%zu]: %#x, expected %#x", i,
                      short_gradients[i], narrow(gradients[i]));
    }
    drop(&p);
    fixture_close(&f);
}

/* Infinity and NaN propagate to the loss and the whole row of the gradient, and to no other row. */
Test(cross_entropy, not_finite) {
    enum { ROWS = 3, CLASSES = 130 };
    static const float bad[] = {NAN, INFINITY};
    fixture f = {0};
    open_both(&f, ROWS, CLASSES, "f32", "i64");
    problem p = make(ROWS, CLASSES, false, 5);
    float losses[ROWS], gradients[ROWS * CLASSES], *logits = p.logits;
    for (size_t i = 0; i < 2 * CLASSES; i++) {
        float *at = &logits[CLASSES + i / 2], before = *at;
        *at = bad[i % 2];
        for (size_t t = 0; t < f.built_count; t++) {
            tsr_fault fault = {0};
            void *for_loss[] = {logits, p.labels, losses};
            void *for_gradient[] = {logits, p.labels, p.dlosses, gradients};
            kernel_find(&f.built[t], "loss")(&(tsr_kernel_args){for_loss, &fault}, 0,
                                             kernel_grid(&f.built[t], "loss"));
            kernel_find(&f.built[t], "grad")(&(tsr_kernel_args){for_gradient, &fault}, 0,
                                             kernel_grid(&f.built[t], "grad"));
            for (size_t r = 0; r < ROWS; r++) cr_assert(isnan(losses[r]) == (r == 1));
            for (size_t k = 0; k < ROWS * CLASSES; k++)
                cr_assert(isnan(gradients[k]) == (k / CLASSES == 1));
        }
        *at = before;
    }
    drop(&p);
    fixture_close(&f);
}

Test(cross_entropy, label_out_of_range) {
    static const int64_t bad[] = {10, -1, 1000000, INT64_MIN, INT64_MAX, 4294967296};
    fixture f = {0};
    open_both(&f, 7, 10, "f32", "i64");
    problem p = make(7, 10, false, 5);
    float losses[7], gradients[70];
    void *loss_outs[] = {losses}, *gradient_outs[] = {gradients};
    for (size_t i = 0; i < TSR_COUNT(bad); i++) {
        p.labels[3] = bad[i];
        p.labels[5] = -7;
        argument loss[] = {{p.logits, 280}, {p.labels, 56}, {NULL, sizeof losses}};
        argument grad[] = {
            {p.logits, 280}, {p.labels, 56}, {p.dlosses, 28}, {NULL, sizeof gradients}};
        for (size_t t = 0; t < f.built_count; t++)
            for (int k = 0; k < 2; k++) {
                tsr_fault fault = k ? kernel_run(&f.built[t], "grad", grad, 4, SPLIT_WHOLE,
                                                 GUARD_END, gradient_outs)
                                    : kernel_run(&f.built[t], "loss", loss, 3, SPLIT_WHOLE,
                                                 GUARD_START, loss_outs);
                cr_assert(fault.kind == TSR_FAULT_INDEX && fault.argument == 1 &&
                              fault.element == 3 && fault.value == bad[i] && fault.limit == 10,
                          "kind %" PRId64 " argument %" PRId64 " element %" PRId64 " value %" PRId64
                          " limit %" PRId64,
                          fault.kind, fault.argument, fault.element, fault.value, fault.limit);
            }
        cr_assert(isfinite(losses[3]) && isfinite(gradients[31]));
    }
    p.labels[3] = p.labels[5] = 9;
    argument loss[] = {{p.logits, 280}, {p.labels, 56}, {NULL, sizeof losses}};
    tsr_fault fault = kernel_run(&f.built[0], "loss", loss, 3, SPLIT_WHOLE, GUARD_END, loss_outs);
    cr_assert(fault.kind == TSR_FAULT_NONE);
    drop(&p);
    fixture_close(&f);
}

/* 32-bit labels give the same numbers and the same faults, also if they are negative. */
Test(cross_entropy, small_labels) {
    enum { ROWS = 7, CLASSES = 130, SIZE = 4 * ROWS * CLASSES };
    static const int32_t bad[] = {CLASSES, -1, INT32_MIN, INT32_MAX};
    static float out[ROWS * CLASSES];
    fixture f = {0};
    open_both(&f, ROWS, CLASSES, "f32", "i32");
    problem p = make(ROWS, CLASSES, false, 5);
    int32_t labels[ROWS];
    for (size_t r = 0; r < ROWS; r++) labels[r] = (int32_t)p.labels[r];
    void *outs[] = {out};
    argument loss[] = {{p.logits, SIZE}, {labels, sizeof labels}, {NULL, 4 * ROWS}};
    argument grad[] = {
        {p.logits, SIZE}, {labels, sizeof labels}, {p.dlosses, 4 * ROWS}, {NULL, SIZE}};
    kernel_test(&f, "loss", loss, 3, outs, check_loss, &p);
    kernel_test(&f, "grad", grad, 4, outs, check_gradient, &p);
    for (size_t i = 0; i < TSR_COUNT(bad); i++) {
        labels[ROWS - 1] = bad[i];
        for (size_t t = 0; t < f.built_count; t++)
            for (int k = 0; k < 2; k++) {
                tsr_fault fault = kernel_run(&f.built[t], k ? "grad" : "loss", k ? grad : loss,
                                             3 + (size_t)k, SPLIT_WHOLE, GUARD_END, outs);
                cr_assert(fault.kind == TSR_FAULT_INDEX && fault.argument == 1 &&
                              fault.element == ROWS - 1 && fault.value == bad[i] &&
                              fault.limit == CLASSES,
                          "kind %" PRId64 " element %" PRId64 " value %" PRId64 "; expected %d",
                          fault.kind, fault.element, fault.value, bad[i]);
            }
    }
    drop(&p);
    fixture_close(&f);
}
