/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions over every 131st float (a prime, so that exponents and mantissas mix: 3 * 10^7 floats),
 * every bf16 and f16, and random doubles, against libm in the next wider type; bits equal on all
 * targets with FMA. The bounds are those of compiler/target/README.md. TESSERA_MATH_STRIDE=1 in the
 * environment tests every float.
 */
#include "compiler/ir/targets/target.h"
#include "runtime/base/array.h"
#include "tests/compiler/tile/functions.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 65536, STRIDE = 131 };

static const tsr_dtype f32 = TSR_DTYPE_F32, f64 = TSR_DTYPE_F64;

static uint64_t stride(void) {
    const char *text = getenv("TESSERA_MATH_STRIDE");
    uint64_t wanted = text ? strtoull(text, NULL, 10) : 0;
    return wanted ? wanted : STRIDE;
}

static void open_functions(fixture *f, const math_function *these, size_t count) {
    tsr_buffer text = {0};
    for (size_t i = 0; i < count; i++)
        for (int wide = 0; wide < 2; wide++)
            for (int scalar = 0; scalar < 2; scalar++) {
                const char *tail = wide ? "f64" : "f32", *size = scalar ? "" : "65536x";
                tsr_buffer_printf(&text,
                                  "tsched.func @%s_%s%s(%%x: tensor<%s%s>) -> tensor<%s%s> "
                                  "attributes {kind = \"map\"} {\n%%y = tessera.%s : tensor<%s%s>\n"
                                  "tsched.return %%y : tensor<%s%s>\n}\n",
                                  these[i].name, tail, scalar ? "_scalar" : "", size, tail, size,
                                  tail, these[i].op, size, tail, size, tail);
            }
    fixture_open(f, text.bytes);
    tsr_buffer_finish(&text);
}

static void run(const built *b, const char *name, void *x, void *y) {
    tsr_fault fault = {0};
    void *buffers[] = {x, y};
    kernel_find(b, name)(&(tsr_kernel_args){buffers, &fault}, 0, kernel_grid(b, name));
}

/* ---- equal results ------------------------------------------------------------------------------
 * Targets with FMA give the same bits: errors are measured for the first one alone. */

/* The results of the first target with FMA for a block. */
typedef struct fused_block {
    const void *bytes; /* NULL: not run yet */
    size_t size;
    const tsr_dtype *nans; /* as for same_output */
} fused_block;

/* True if the results have been measured already; asserts that they equal those of the first target
 * with FMA. */
static bool is_measured(fused_block *fused, void *copy, const built *b, const char *name,
                        const void *y) {
    if (!b->target->has_fma) return false;
    if (fused->bytes) {
        cr_assert(same_output(fused->bytes, y, fused->size, fused->nans), "%s differs on %s", name,
                  b->target->name);
        return true;
    }
    fused->bytes = memcpy(copy, y, fused->size);
    return false;
}

/* The largest errors of targets without FMA and with FMA. */
typedef struct largest {
    double error[2], at[2];
    const char *target[2];
} largest;

static void largest_take(largest *l, const tsr_target *target, double error, double at) {
    l->target[target->has_fma] = target->name;
    if (error <= l->error[target->has_fma]) return;
    l->error[target->has_fma] = error;
    l->at[target->has_fma] = at;
}

static void largest_check(const largest *l, const char *name, double bound) {
    for (int k = 0; k < 2; k++)
        if (l->target[k]) cr_log_info("%s on %s: %.3f ulp\n", name, l->target[k], l->error[k]);
    for (int k = 0; k < 2; k++)
        cr_assert(l->error[k] <= bound, "%s on %s: %.3f ulp at %a", name, l->target[k], l->error[k],
                  l->at[k]);
}

static void fill_apart(float x[static BLOCK], uint64_t from, uint64_t apart) {
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t bits = (uint32_t)(from + i * apart);
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* ---- functions of one operand ---------------------------------------------------------------- */

static void test_f32(fixture *f, const math_function *tested) {
    static float x[BLOCK], y[BLOCK], copy[BLOCK];
    static double exact[BLOCK];
    largest l = {0};
    char name[32];
    snprintf(name, sizeof name, "%s_f32", tested->name);
    const uint64_t apart = stride();
    for (uint64_t from = 0; from < UINT64_C(1) << 32; from += BLOCK * apart) {
        fused_block fused = {NULL, sizeof y, &f32};
        fill_apart(x, from, apart);
        for (size_t i = 0; i < BLOCK; i++) exact[i] = tested->of_double((double)x[i]);
        for (size_t t = 0; t < f->built_count; t++) {
            size_t at = 0;
            run(&f->built[t], name, x, y);
            if (is_measured(&fused, copy, &f->built[t], name, y)) continue;
            double worst = math_worst_f32(y, exact, BLOCK, &at);
            largest_take(&l, f->built[t].target, worst, (double)x[at]);
        }
    }
    largest_check(&l, name, tested->f32);
}

static void test_f64(fixture *f, const math_function *tested) {
    static double x[BLOCK], y[BLOCK], copy[BLOCK];
    static long double exact[BLOCK];
    largest l = {0};
    char name[32];
    snprintf(name, sizeof name, "%s_f64", tested->name);
    random_state random = {99};
    for (int block = 0; block < 40; block++) {
        fused_block fused = {NULL, sizeof y, &f64};
        for (size_t i = 0; i < BLOCK; i++) {
            uint64_t bits = random_u64(&random);
            memcpy(&x[i], &bits, sizeof bits);
            if (block % 2) x[i] = random_uniform(&random, -30, 30);
            if (block % 4 == 3) x[i] = random_uniform(&random, -760, 720);
            if (block % 8 == 5) x[i] = random_uniform(&random, 0.4, 1.9);
            if (block % 8 == 1) x[i] = random_uniform(&random, -1, 1);
            exact[i] = tested->of_long((long double)x[i]);
        }
        for (size_t t = 0; t < f->built_count; t++) {
            run(&f->built[t], name, x, y);
            if (is_measured(&fused, copy, &f->built[t], name, y)) continue;
            for (size_t i = 0; i < BLOCK; i++)
                largest_take(&l, f->built[t].target, math_error_f64(y[i], exact[i]), x[i]);
        }
    }
    largest_check(&l, name, tested->f64);
}

static void test_function(const math_function *tested) {
    fixture f = {0};
    open_functions(&f, tested, 1);
    test_f32(&f, tested);
    test_f64(&f, tested);
    fixture_close(&f);
}

#define TEST(name, WHICH)                                                                          \
    Test(math, name) { test_function(&math_functions[WHICH]); }
TEST(exp, MATH_EXP)
TEST(log, MATH_LOG)
TEST(tanh, MATH_TANH)
TEST(expm1, MATH_EXPM1)
TEST(log1p, MATH_LOG1P)
TEST(erf, MATH_ERF)
TEST(sigmoid, MATH_SIGMOID)
TEST(silu, MATH_SILU)
TEST(gelu, MATH_GELU)
TEST(gelu_tanh, MATH_GELU_TANH)
TEST(rsqrt, MATH_RSQRT)
TEST(sin, MATH_SIN)
TEST(cos, MATH_COS)
TEST(tan, MATH_TAN)
TEST(asin, MATH_ASIN)
TEST(acos, MATH_ACOS)
TEST(atan, MATH_ATAN)

/* ---- angles near multiples of pi / 2 -----------------------------------------------------------
 * Their sine, cosine or tangent is as small as for any float: all digits of the angle's remainder
 * but a few are lost. Multiples of every magnitude, and the angles that are known to be nearest to
 * a multiple (Muller, "Elementary Functions", 2006, section 9.3). */

/* The double nearest to n pi / 2, and its neighbours; sinl and its like reduce any angle. */
static void fill_multiples(random_state *random, double x[static BLOCK]) {
    static const double worst[] = {0x1.6ac5b262ca1ffp849, 0x1.6ac5b262ca1ffp852,
                                   0x1.fffffffffffffp1023, 0x1p20, 0x1.fffffffffffffp19};
    for (size_t i = 0; i < BLOCK; i++) {
        long double n = roundl(exp2l((long double)random_uniform(random, 0, 62)));
        double multiple = (double)(n * 1.57079632679489661923132169163975144L);
        x[i] = nextafter(multiple, i % 3 == 0 ? 0 : i % 3 == 1 ? multiple : (double)INFINITY);
        if (i % 2) x[i] = -x[i];
    }
    memcpy(x, worst, sizeof worst);
}

static void test_multiples(const math_function *tested) {
    static double x[BLOCK], y[BLOCK];
    static float narrow[BLOCK], of_narrow[BLOCK];
    fixture f = {0};
    random_state random = {7};
    char wide_name[32], narrow_name[32];
    snprintf(wide_name, sizeof wide_name, "%s_f64", tested->name);
    snprintf(narrow_name, sizeof narrow_name, "%s_f32", tested->name);
    open_functions(&f, tested, 1);
    fill_multiples(&random, x);
    for (size_t i = 0; i < BLOCK; i++) narrow[i] = (float)x[i];
    for (size_t t = 0; t < f.built_count; t++) {
        run(&f.built[t], wide_name, x, y);
        run(&f.built[t], narrow_name, narrow, of_narrow);
        for (size_t i = 0; i < BLOCK; i++) {
            double error = math_error_f64(y[i], tested->of_long((long double)x[i]));
            cr_assert(error <= tested->f64, "%s of %a: %.3f ulp", wide_name, x[i], error);
            error = math_error_f32(of_narrow[i], tested->of_double((double)narrow[i]));
            cr_assert(error <= tested->f32, "%s of %a: %.3f ulp", narrow_name, (double)narrow[i],
                      error);
        }
    }
    fixture_close(&f);
}

Test(math, multiples_of_right_angles) {
    static const int functions[] = {MATH_SIN, MATH_COS, MATH_TAN};
    for (size_t i = 0; i < TSR_COUNT(functions); i++) test_multiples(&math_functions[functions[i]]);
}

/* ---- the slope of gelu -----------------------------------------------------------------------
 * It crosses zero, so that the bound of compiler/target/llvm/emit.h is no relative one. */

static const math_function slope = {"gelu_slope", "gelu %x {slope}", NULL, NULL, 0x1p-22, 0x1p-50};

static long double exact_slope(long double x) {
    static const long double root_half = 0.70710678118654752440L, top = 0.39894228040143267794L;
    if (fabsl(x) > 40) return x > 0;
    return erfcl(-x * root_half) / 2 + x * top * expl(-x * x / 2);
}

/* For f32: rounding errors of double are negligible compared with the bound. */
static double near_slope(double x) {
    static const double root_half = 0.70710678118654752440, top = 0.39894228040143267794;
    if (fabs(x) > 40) return x > 0;
    return erfc(-x * root_half) / 2 + x * top * exp(-x * x / 2);
}

static void check_slope(const built *b, long double x, long double y, long double exact,
                        double bound) {
    if (isnan(x))
        cr_assert(isnan(y), "gelu_slope of NaN on %s: %La", b->target->name, y);
    else
        cr_assert(fabsl(y - exact) <= (long double)bound, "gelu_slope of %La on %s: %La", x,
                  b->target->name, y);
}

static void run_slope_f32(fixture *f, const float *x, double *worst) {
    static float y[BLOCK], copy[BLOCK];
    static double exact[BLOCK];
    fused_block fused = {NULL, sizeof y, &f32};
    for (size_t i = 0; i < BLOCK; i++) exact[i] = near_slope((double)x[i]);
    for (size_t t = 0; t < f->built_count; t++) {
        const built *b = &f->built[t];
        run(b, "gelu_slope_f32", (void *)x, y);
        if (is_measured(&fused, copy, b, "gelu_slope", y)) continue;
        for (size_t i = 0; i < BLOCK; i++) {
            double error = fabs((double)y[i] - exact[i]);
            if (error <= slope.f32) { /* not NaN: most values end here */
                if (error > *worst) *worst = error;
                continue;
            }
            check_slope(b, (long double)x[i], (long double)y[i], (long double)exact[i], slope.f32);
        }
    }
}

Test(math, gelu_slope) {
    static float x[BLOCK];
    static double wide[BLOCK], y[BLOCK];
    fixture f = {0};
    random_state random = {97};
    open_functions(&f, &slope, 1);
    double worst = 0;
    uint64_t count = 0;
    const uint64_t apart = stride();
    for (uint64_t from = 0; from < UINT64_C(1) << 32; from += BLOCK * apart) {
        fill_apart(x, from, apart);
        run_slope_f32(&f, x, &worst);
        count += BLOCK;
    }
    cr_log_info("gelu_slope_f32: 2^%.2f at most, %" PRIu64 " floats\n", log2(worst), count);
    cr_assert(getenv("TESSERA_MATH_STRIDE") || count >= (UINT64_C(1) << 32) / STRIDE,
              "%" PRIu64 " floats", count);
    for (size_t i = 0; i < BLOCK; i++) wide[i] = random_uniform(&random, i % 2 ? -45 : -2, 45);
    wide[0] = (double)INFINITY, wide[1] = -(double)INFINITY, wide[2] = (double)NAN;
    for (size_t t = 0; t < f.built_count; t++) {
        run(&f.built[t], "gelu_slope_f64", wide, y);
        for (size_t i = 0; i < BLOCK; i++)
            check_slope(&f.built[t], (long double)wide[i], (long double)y[i],
                        exact_slope((long double)wide[i]), slope.f64);
    }
    fixture_close(&f);
}

/* ---- exp of differences ----------------------------------------------------------------------
 * Of x <= 0 and NaN: the bound is that of compiler/target/target.h. */

static const math_function shifted = {"exp_shifted", "exp %x {tessera.shifted}", exp, expl, 0, 1.0};

static void check_shifted(const built *b, const float *x, const float *y, const double *exact,
                          double *worst) {
    for (size_t i = 0; i < BLOCK; i++) {
        double size = isnan(x[i]) ? 0 : fabs((double)x[i]);
        if (x[i] > 0) continue;
        if (exact[i] < 0x1p-126 && y[i] == 0) continue;
        bool fused = b->target->has_fma;
        double bound = fused ? 2.3 + 0.05 * size : math_functions[MATH_EXP].f32;
        double error = math_error_f32(y[i], exact[i]);
        cr_assert(error <= bound, "exp_shifted of %a on %s: %a, off by %.3f ulp", (double)x[i],
                  b->target->name, (double)y[i], error);
        cr_assert(x[i] != 0 || y[i] == 1, "exp_shifted of 0 on %s: %a", b->target->name,
                  (double)y[i]);
        double rest = error - 0.05 * size;
        if (fused && rest > *worst) *worst = rest;
    }
}

static void run_shifted(fixture *f, float *x, double *worst) {
    static float y[BLOCK], first[BLOCK];
    static double exact[BLOCK];
    bool have = false;
    for (size_t i = 0; i < BLOCK; i++) exact[i] = exp((double)x[i]);
    for (size_t t = 0; t < f->built_count; t++) {
        const built *b = &f->built[t];
        run(b, "exp_shifted_f32", x, y);
        if (have && b->target->has_fma) { /* results for x > 0 are unspecified */
            for (size_t i = 0; i < BLOCK; i++)
                cr_assert(x[i] > 0 || memcmp(&first[i], &y[i], sizeof y[i]) == 0,
                          "exp_shifted of %a differs on %s", (double)x[i], b->target->name);
            continue;
        }
        check_shifted(b, x, y, exact, worst);
        if (!b->target->has_fma) continue;
        memcpy(first, y, sizeof y);
        have = true;
    }
}

/* Same as exp: the polynomial is not shorter. */
static void check_shifted_f64(fixture *f) {
    static double x[BLOCK], y[BLOCK];
    random_state random = {98};
    for (size_t i = 0; i < BLOCK; i++) x[i] = random_uniform(&random, i % 2 ? -760 : -2, 0);
    for (size_t t = 0; t < f->built_count; t++) {
        run(&f->built[t], "exp_shifted_f64", x, y);
        for (size_t i = 0; i < BLOCK; i++)
            cr_assert(math_error_f64(y[i], expl((long double)x[i])) <= shifted.f64,
                      "exp_shifted of %a on %s: %a", x[i], f->built[t].target->name, y[i]);
    }
}

Test(math, exp_shifted) {
    static float x[BLOCK];
    fixture f = {0};
    double worst = 0;
    open_functions(&f, &shifted, 1);
    const uint64_t apart = stride();
    for (uint64_t from = UINT64_C(1) << 31; from < UINT64_C(1) << 32; from += BLOCK * apart) {
        fill_apart(x, from, apart);
        run_shifted(&f, x, &worst);
    }
    static const tsr_dtype smalls[] = {TSR_DTYPE_BF16, TSR_DTYPE_F16};
    for (size_t k = 0; k < 2; k++) {
        static uint16_t patterns[BLOCK];
        for (size_t i = 0; i < BLOCK; i++) patterns[i] = (uint16_t)i;
        for (size_t i = 0; i < BLOCK; i++) x[i] = (float)tsr_dtype_read(smalls[k], patterns, i);
        run_shifted(&f, x, &worst);
    }
    cr_log_info("exp_shifted_f32: %.3f ulp and 0.05 |x|\n", worst);
    check_shifted_f64(&f);
    fixture_close(&f);
}

static const float specials[] = {0.0f,    -0.0f,   1.0f,    -1.0f,  INFINITY, -INFINITY,
                                 NAN,     0.5f,    -104.5f, 88.8f,  1e-40f,   -1e-40f,
                                 3.4e38f, 0.6249f, -88.5f,  -13.5f, -2.0f,    0x1p-60f};

/* A special argument must give libm's value: the same infinity, NaN or zero with its sign. */
static void check_special(const math_function *tested, float x, float y) {
    double exact = tested->of_double((double)x);
    if (isnan(exact))
        cr_assert(isnan(y), "%s of %a: %a", tested->name, (double)x, (double)y);
    else if (isinf((float)exact) || exact == 0)
        cr_assert((double)y == (double)(float)exact && !signbit(y) == !signbit(exact),
                  "%s of %a: %a", tested->name, (double)x, (double)y);
}

/* A scalar has the same bits as a lane; special arguments have the correct values. */
Test(math, scalars_and_specials) {
    static float x[BLOCK], y[BLOCK];
    fixture f = {0};
    open_functions(&f, math_functions, MATH_FUNCTIONS);
    random_state random = {3};
    random_fill(&random, TSR_DTYPE_F32, x, BLOCK, -20, 20);
    memcpy(x, specials, sizeof specials);
    for (size_t t = 0; t < f.built_count; t++)
        for (int which = 0; which < MATH_FUNCTIONS; which++) {
            const math_function *tested = &math_functions[which];
            char vector[32], scalar[32];
            snprintf(vector, sizeof vector, "%s_f32", tested->name);
            snprintf(scalar, sizeof scalar, "%s_f32_scalar", tested->name);
            run(&f.built[t], vector, x, y);
            for (size_t i = 0; i < 300; i++) {
                float one = 0;
                run(&f.built[t], scalar, &x[i], &one);
                cr_assert(memcmp(&one, &y[i], sizeof one) == 0 || (isnan(one) && isnan(y[i])),
                          "%s of %a", scalar, (double)x[i]);
            }
            for (size_t i = 0; i < TSR_COUNT(specials); i++) check_special(tested, x[i], y[i]);
        }
    fixture_close(&f);
}

/* ---- pow ------------------------------------------------------------------------------------- */

static void open_pow(fixture *f) {
    tsr_buffer text = {0};
    for (int wide = 0; wide < 2; wide++) {
        const char *type = wide ? "65536xf64" : "65536xf32";
        tsr_buffer_printf(&text,
                          "tsched.func @pow_%s(%%x: tensor<%s>, %%n: tensor<%s>) -> tensor<%s> "
                          "attributes {kind = \"map\"} {\n%%y = tessera.pow %%x, %%n : tensor<%s>, "
                          "tensor<%s> -> tensor<%s>\ntsched.return %%y : tensor<%s>\n}\n",
                          wide ? "f64" : "f32", type, type, type, type, type, type, type);
    }
    fixture_open(f, text.bytes);
    tsr_buffer_finish(&text);
}

/* An exponent for base x: one whose power is in range, a whole number, or any number. */
static double exponent_for(random_state *random, double x, double range) {
    uint64_t which = random_u64(random) % 4;
    double log_x = log(fabs(x));
    if (which < 2 && log_x != 0 && isfinite(log_x))
        return random_uniform(random, -range, range) / log_x;
    if (which == 2) return floor(random_uniform(random, -40, 40));
    return random_uniform(random, -4, 4);
}

static void run_pow(const built *b, const char *name, void *x, void *n, void *y) {
    tsr_fault fault = {0};
    void *buffers[] = {x, n, y};
    kernel_find(b, name)(&(tsr_kernel_args){buffers, &fault}, 0, kernel_grid(b, name));
}

Test(math, pow_f32) {
    static float x[BLOCK], n[BLOCK], y[BLOCK], copy[BLOCK];
    static double exact[BLOCK];
    fixture f = {0};
    double worst = 0;
    open_pow(&f);
    random_state random = {21};
    const uint64_t apart = stride();
    for (uint64_t from = 0; from < UINT64_C(1) << 32; from += BLOCK * apart) {
        fused_block fused = {NULL, sizeof y, NULL};
        fill_apart(x, from, apart);
        for (size_t i = 0; i < BLOCK; i++) {
            n[i] = (float)exponent_for(&random, (double)x[i], 110);
            exact[i] = pow((double)x[i], (double)n[i]);
        }
        for (size_t t = 0; t < f.built_count; t++) {
            size_t at = 0;
            run_pow(&f.built[t], "pow_f32", x, n, y);
            if (is_measured(&fused, copy, &f.built[t], "pow_f32", y)) continue;
            double error = math_worst_f32(y, exact, BLOCK, &at);
            cr_assert(error <= pow_bound_f32, "%a ^ %a on %s: %.3f ulp", (double)x[at],
                      (double)n[at], f.built[t].target->name, error);
            if (error > worst) worst = error;
        }
    }
    cr_log_info("pow_f32: %.3f ulp\n", worst);
    fixture_close(&f);
}

Test(math, pow_f64) {
    static double x[BLOCK], n[BLOCK], y[BLOCK], copy[BLOCK];
    static long double exact[BLOCK];
    fixture f = {0};
    double worst = 0;
    open_pow(&f);
    random_state random = {22};
    for (int block = 0; block < 40; block++) {
        fused_block fused = {NULL, sizeof y, NULL};
        for (size_t i = 0; i < BLOCK; i++) {
            uint64_t bits = random_u64(&random);
            memcpy(&x[i], &bits, sizeof bits);
            if (block % 4 == 1) x[i] = random_uniform(&random, 0.5, 2);
            if (block % 4 == 2) x[i] = 1 + random_uniform(&random, -1e-6, 1e-6);
            n[i] = exponent_for(&random, x[i], 750);
            exact[i] = powl((long double)x[i], (long double)n[i]);
        }
        for (size_t t = 0; t < f.built_count; t++) {
            run_pow(&f.built[t], "pow_f64", x, n, y);
            if (is_measured(&fused, copy, &f.built[t], "pow_f64", y)) continue;
            for (size_t i = 0; i < BLOCK; i++) {
                double error = math_error_f64(y[i], exact[i]);
                cr_assert(error <= pow_bound_f64, "%a ^ %a on %s: %.3f ulp", x[i], n[i],
                          f.built[t].target->name, error);
                if (error > worst) worst = error;
            }
        }
    }
    cr_log_info("pow_f64: %.3f ulp\n", worst);
    fixture_close(&f);
}

/* Every pair of special values, against libm's pow. */
Test(math, pow_specials) {
    static const double values[] = {0.0,  -0.0, 1,    -1,   INFINITY, -INFINITY, NAN,   0.5, -0.5,
                                    2,    -2,   3,    -3,   1e30,     -1e30,     1e-30, 2.5, -2.5,
                                    1.25, 1e9,  -1e9, 1e-3, 16777215, -16777215, 0.999};
    enum { COUNT = TSR_COUNT(values) };
    static float x[BLOCK], n[BLOCK], y[BLOCK];
    static double wide_x[BLOCK], wide_n[BLOCK], wide_y[BLOCK];
    fixture f = {0};
    open_pow(&f);
    for (size_t i = 0; i < (size_t)COUNT * COUNT; i++) {
        wide_x[i] = values[i / COUNT];
        wide_n[i] = values[i % COUNT];
        x[i] = (float)wide_x[i];
        n[i] = (float)wide_n[i];
    }
    for (size_t t = 0; t < f.built_count; t++) {
        run_pow(&f.built[t], "pow_f32", x, n, y);
        run_pow(&f.built[t], "pow_f64", wide_x, wide_n, wide_y);
        for (size_t i = 0; i < (size_t)COUNT * COUNT; i++) {
            double exact = pow((double)x[i], (double)n[i]);
            cr_assert(math_error_f32(y[i], exact) <= pow_bound_f32 &&
                          (isnan(exact) || !signbit(y[i]) == !signbit(exact)),
                      "%a ^ %a: %a, not %a", (double)x[i], (double)n[i], (double)y[i], exact);
            exact = pow(wide_x[i], wide_n[i]);
            long double close = powl((long double)wide_x[i], (long double)wide_n[i]);
            cr_assert(math_error_f64(wide_y[i], close) <= pow_bound_f64 &&
                          (isnan(exact) || !signbit(wide_y[i]) == !signbit(exact)),
                      "%a ^ %a: %a, not %a", wide_x[i], wide_n[i], wide_y[i], exact);
        }
    }
    fixture_close(&f);
}
