/* SPDX-License-Identifier: Apache-2.0
 *
 * exp, log and tanh over every 251st float (a prime, so that exponents and mantissas mix) and over
 * random doubles, against libm in the next wider type; bits equal on all targets with FMA. The
 * bounds are the ones compiler/target/README.md states.
 */
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 65536, STRIDE = 251, FUNCTIONS = 3 };

static const char *const names[FUNCTIONS] = {"exp", "log", "tanh"};
/* units in the last place, of f32 and f64, with and without FMA */
static const double bounds[FUNCTIONS] = {1.0, 0.8, 1.4};

static long double reference(int function, long double x) {
    return function == 0 ? expl(x) : function == 1 ? logl(x) : tanhl(x);
}

static void open_functions(fixture *f) {
    tsr_buffer text = {0};
    for (int i = 0; i < FUNCTIONS; i++)
        for (int wide = 0; wide < 2; wide++) {
            const char *type = wide ? "65536xf64" : "65536xf32", *tail = wide ? "f64" : "f32";
            tsr_buffer_printf(
                &text,
                "tsched.func @%s_%s(%%x: tensor<%s>) -> tensor<%s> attributes {kind "
                "= \"map\"} {\n%%y = tessera.%s %%x : tensor<%s>\ntsched.return %%y : "
                "tensor<%s>\n}\n",
                names[i], tail, type, type, names[i], type, type);
            tsr_buffer_printf(&text,
                              "tsched.func @%s_%s_scalar(%%x: tensor<%s>) -> tensor<%s> attributes "
                              "{kind = \"map\"} {\n%%y = tessera.%s %%x : tensor<%s>\n"
                              "tsched.return %%y : tensor<%s>\n}\n",
                              names[i], tail, tail, tail, names[i], tail, tail);
        }
    fixture_open(f, text.bytes);
    tsr_buffer_finish(&text);
}

/* |got - exact| in units in the last place of the float nearest to exact. */
static double error_f32(float got, double exact) {
    float nearest = (float)exact;
    if (isnan(exact)) return isnan(got) ? 0 : (double)INFINITY;
    if (isinf(nearest) || isinf(got)) return nearest == got ? 0 : (double)INFINITY;
    int exponent = 0;
    frexp(exact, &exponent);
    double unit = ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
    return fabs((double)got - exact) / unit;
}

static double error_f64(double got, long double exact) {
    double nearest = (double)exact;
    if (isnan(nearest)) return isnan(got) ? 0 : (double)INFINITY;
    if (isinf(nearest) || isinf(got)) return nearest == got ? 0 : (double)INFINITY;
    int exponent = 0;
    frexpl(exact, &exponent);
    long double unit = ldexpl(1, exponent - 53 < -1074 ? -1074 : exponent - 53);
    return (double)(fabsl((long double)got - exact) / unit);
}

static void run(const built *b, const char *name, void *x, void *y) {
    tsr_fault fault = {0};
    void *buffers[] = {x, y};
    kernel_find(b, name)(&(tsr_kernel_args){buffers, &fault}, 0, kernel_grid(b, name));
}

static void test_f32(fixture *f, int function) {
    static float x[BLOCK], y[BLOCK], fused[BLOCK];
    static double exact[BLOCK];
    double worst[TARGETS_MAX] = {0};
    float worst_at[TARGETS_MAX] = {0};
    char name[32];
    snprintf(name, sizeof name, "%s_f32", names[function]);
    for (uint64_t from = 0; from < UINT64_C(1) << 32; from += (uint64_t)BLOCK * STRIDE) {
        for (size_t i = 0; i < BLOCK; i++) {
            uint32_t bits = (uint32_t)(from + i * STRIDE);
            memcpy(&x[i], &bits, sizeof bits);
            double wide = (double)x[i];
            exact[i] = function == 0 ? exp(wide) : function == 1 ? log(wide) : tanh(wide);
        }
        for (size_t t = 0; t < f->built_count; t++) {
            const built *b = &f->built[t];
            run(b, name, x, y);
            for (size_t i = 0; i < BLOCK; i++) {
                double error = error_f32(y[i], exact[i]);
                if (error <= worst[t]) continue;
                worst[t] = error;
                worst_at[t] = x[i];
            }
            if (!b->target->has_fma) continue;
            if (t == 0 || !f->built[t - 1].target->has_fma) memcpy(fused, y, sizeof y);
            cr_assert(memcmp(fused, y, sizeof y) == 0, "%s differs on %s", name, b->target->name);
        }
    }
    for (size_t t = 0; t < f->built_count; t++)
        cr_log_info("%s on %s: %.3f ulp\n", name, f->built[t].target->name, worst[t]);
    for (size_t t = 0; t < f->built_count; t++)
        cr_assert(worst[t] <= bounds[function], "%s on %s: %.3f ulp at %a", name,
                  f->built[t].target->name, worst[t], (double)worst_at[t]);
}

static void test_f64(fixture *f, int function) {
    static double x[BLOCK], y[BLOCK], fused[BLOCK];
    double worst[TARGETS_MAX] = {0}, worst_at[TARGETS_MAX] = {0};
    char name[32];
    snprintf(name, sizeof name, "%s_f64", names[function]);
    random_state random = {99};
    for (int block = 0; block < 40; block++) {
        for (size_t i = 0; i < BLOCK; i++) {
            uint64_t bits = random_u64(&random);
            memcpy(&x[i], &bits, sizeof bits);
            if (block % 2) x[i] = random_uniform(&random, -30, 30);
            if (block % 4 == 3) x[i] = random_uniform(&random, -760, 720);
            if (block % 8 == 5) x[i] = random_uniform(&random, 0.4, 1.9);
        }
        for (size_t t = 0; t < f->built_count; t++) {
            const built *b = &f->built[t];
            run(b, name, x, y);
            for (size_t i = 0; i < BLOCK; i++) {
                double error = error_f64(y[i], reference(function, (long double)x[i]));
                if (error <= worst[t]) continue;
                worst[t] = error;
                worst_at[t] = x[i];
            }
            if (!b->target->has_fma) continue;
            if (t == 0 || !f->built[t - 1].target->has_fma) memcpy(fused, y, sizeof y);
            cr_assert(memcmp(fused, y, sizeof y) == 0, "%s differs on %s", name, b->target->name);
        }
    }
    for (size_t t = 0; t < f->built_count; t++)
        cr_log_info("%s on %s: %.3f ulp\n", name, f->built[t].target->name, worst[t]);
    for (size_t t = 0; t < f->built_count; t++)
        cr_assert(worst[t] <= bounds[function], "%s on %s: %.3f ulp at %a", name,
                  f->built[t].target->name, worst[t], worst_at[t]);
}

Test(math, exp) {
    fixture f = {0};
    open_functions(&f);
    test_f32(&f, 0);
    test_f64(&f, 0);
    fixture_close(&f);
}

Test(math, log) {
    fixture f = {0};
    open_functions(&f);
    test_f32(&f, 1);
    test_f64(&f, 1);
    fixture_close(&f);
}

Test(math, tanh) {
    fixture f = {0};
    open_functions(&f);
    test_f32(&f, 2);
    test_f64(&f, 2);
    fixture_close(&f);
}

/* A scalar gets the bits a lane gets; special values get theirs. */
Test(math, scalars_and_specials) {
    static const float specials[] = {0.0f, -0.0f,   1.0f,  -1.0f,  INFINITY, -INFINITY, NAN,
                                     0.5f, -104.5f, 88.8f, 1e-40f, -1e-40f,  3.4e38f,   0.6249f};
    static float x[BLOCK], y[BLOCK];
    fixture f = {0};
    open_functions(&f);
    random_state random = {3};
    random_fill(&random, TSR_DTYPE_F32, x, BLOCK, -20, 20);
    memcpy(x, specials, sizeof specials);
    for (size_t t = 0; t < f.built_count; t++)
        for (int function = 0; function < FUNCTIONS; function++) {
            char vector[32], scalar[32];
            snprintf(vector, sizeof vector, "%s_f32", names[function]);
            snprintf(scalar, sizeof scalar, "%s_f32_scalar", names[function]);
            run(&f.built[t], vector, x, y);
            for (size_t i = 0; i < 300; i++) {
                float one = 0;
                run(&f.built[t], scalar, &x[i], &one);
                cr_assert(memcmp(&one, &y[i], sizeof one) == 0 || (isnan(one) && isnan(y[i])),
                          "%s of %a", scalar, (double)x[i]);
            }
            if (function == 0) cr_assert(y[0] == 1 && y[4] == INFINITY && y[5] == 0);
            if (function == 1) cr_assert(y[0] == -INFINITY && y[2] == 0 && isnan(y[3]));
            if (function == 2)
                cr_assert(signbit(y[1]) && y[4] == 1 && y[5] == -1 && y[11] == x[11]);
            cr_assert(isnan(y[6]));
        }
    fixture_close(&f);
}
