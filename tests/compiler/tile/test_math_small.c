/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of every bf16 and f16, against libm in double: the error is at most that of f32 plus
 * one rounding. pow has every base with 32 exponents, and every exponent with 32 bases.
 */
#include "compiler/ir/targets/target.h"
#include "tests/compiler/tile/functions.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <math.h>
#include <stdio.h>

enum { PATTERNS = 65536, POWERS = 64 };

static const tsr_dtype smalls[] = {TSR_DTYPE_BF16, TSR_DTYPE_F16};

static void append(tsr_buffer *text, const char *name, const char *op, tsr_dtype dtype) {
    char type[32];
    bool pair = op[0] == 'p';
    snprintf(type, sizeof type, "tensor<%dx%s>", PATTERNS, tsr_dtype_name(dtype));
    tsr_buffer_printf(text,
                      "tsched.func @%s_%s(%%x: %s%s%s) -> %s attributes {kind = \"map\"} {\n"
                      "%%y = tessera.%s : %s%s%s%s%s\ntsched.return %%y : %s\n}\n",
                      name, tsr_dtype_name(dtype), type, pair ? ", %n: " : "", pair ? type : "",
                      type, op, type, pair ? ", " : "", pair ? type : "", pair ? " -> " : "",
                      pair ? type : "", type);
}

typedef struct check {
    const char *name;
    tsr_dtype dtype;
    const uint16_t *x;
    const double *exact;
    double bound, worst;
} check;

static void compare(const tsr_target *target, void *const *out_bytes, void *user) {
    check *c = user;
    const uint16_t *y = out_bytes[0];
    for (size_t i = 0; i < PATTERNS; i++) {
        double got = tsr_dtype_read(c->dtype, y, i);
        double error = math_error_small(c->dtype, got, c->exact[i]);
        cr_assert(error <= c->bound, "%s of %a (%s) on %s: %a, not %a", c->name,
                  tsr_dtype_read(c->dtype, c->x, i), tsr_dtype_name(c->dtype), target->name, got,
                  c->exact[i]);
        if (error > c->worst) c->worst = error;
    }
}

static void run(fixture *f, check *c, const uint16_t *exponents) {
    static uint16_t y[PATTERNS];
    char name[32];
    void *outs[] = {y};
    argument arguments[3] = {{c->x, sizeof y}, {exponents, sizeof y}, {NULL, sizeof y}};
    if (!exponents) arguments[1] = arguments[2];
    snprintf(name, sizeof name, "%s_%s", c->name, tsr_dtype_name(c->dtype));
    f->nans = &c->dtype;
    kernel_test(f, name, arguments, exponents ? 3 : 2, outs, compare, c);
}

Test(math_small, every_number) {
    static uint16_t x[PATTERNS];
    static double exact[PATTERNS];
    fixture f = {0};
    tsr_buffer text = {0};
    for (int n = 0; n < 2; n++)
        for (int which = 0; which < MATH_FUNCTIONS; which++)
            append(&text, math_functions[which].name, math_functions[which].op, smalls[n]);
    fixture_open(&f, text.bytes);
    for (size_t i = 0; i < PATTERNS; i++) x[i] = (uint16_t)i;
    for (int n = 0; n < 2; n++)
        for (int which = 0; which < MATH_FUNCTIONS; which++) {
            const math_function *tested = &math_functions[which];
            check c = {
                tested->name, smalls[n], x, exact, math_bound_small(smalls[n], tested->f32), 0};
            for (size_t i = 0; i < PATTERNS; i++)
                exact[i] = tested->of_double(tsr_dtype_read(smalls[n], x, i));
            run(&f, &c, NULL);
            cr_log_info("%s of %s: %.4f ulp\n", c.name, tsr_dtype_name(c.dtype), c.worst);
        }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

Test(math_small, pow) {
    static uint16_t x[PATTERNS], n[PATTERNS];
    static double exact[PATTERNS];
    fixture f = {0};
    tsr_buffer text = {0};
    random_state random = {31};
    for (int k = 0; k < 2; k++) append(&text, "pow", "pow %x, %n", smalls[k]);
    fixture_open(&f, text.bytes);
    for (int k = 0; k < 2; k++) {
        check c = {"pow", smalls[k], x, exact, math_bound_small(smalls[k], pow_bound_f32), 0};
        for (int round = 0; round < POWERS; round++) {
            uint16_t near = 0, any = (uint16_t)random_u64(&random);
            tsr_dtype_write(smalls[k], random_uniform(&random, -3, 3), &near, 0);
            if (round % 4 < 2) tsr_dtype_write(smalls[k], round / 4 - 8, &near, 0);
            uint16_t other = round % 4 == 3 ? any : near;
            for (size_t i = 0; i < PATTERNS; i++) {
                x[i] = round % 2 ? (uint16_t)i : other;
                n[i] = round % 2 ? other : (uint16_t)i;
                exact[i] = pow(tsr_dtype_read(smalls[k], x, i), tsr_dtype_read(smalls[k], n, i));
            }
            run(&f, &c, n);
        }
        cr_log_info("pow of %s: %.4f ulp\n", tsr_dtype_name(c.dtype), c.worst);
    }
    tsr_buffer_finish(&text);
    fixture_close(&f);
}
