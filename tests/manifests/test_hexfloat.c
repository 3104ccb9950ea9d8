/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference is the C library: printf("%a") writes, strtod reads.
 */
#include "manifests/hexfloat.h"
#include "runtime/base/array.h"
#include "tests/base/random.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(double value) {
    char text[TSR_HEXFLOAT_TEXT_MAX], want[64];
    double again = 1234.5;
    snprintf(want, sizeof want, "%a", value);
    cr_assert_str_eq(tsr_hexfloat_format(value, text), want);
    cr_assert(tsr_hexfloat_parse(text, &again), "%s", text);
    cr_assert_eq(memcmp(&value, &again, sizeof value), 0, "%s", text);
    again = strtod(text, NULL);
    cr_assert_eq(memcmp(&value, &again, sizeof value), 0, "%s", text);
}

Test(hexfloat, equals_printf) {
    static const double values[] = {0.0,     -0.0,        1.0,       -1.5,         0.1, DBL_MAX,
                                    DBL_MIN, DBL_EPSILON, 0x1p-1074, -0x1.8p-1073, 2e-3};
    for (size_t i = 0; i < TSR_COUNT(values); i++) check(values[i]);
    uint64_t seed = 3;
    for (int i = 0; i < 200000; i++) {
        double value;
        uint64_t bits = random_u64(&seed);
        if (i % 16 == 0) bits &= ~(UINT64_C(0x7ff) << 52);               /* subnormal */
        if (i % 5 == 0) bits &= ~UINT64_C(0) << random_below(&seed, 52); /* short */
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) check(value);
    }
}

Test(hexfloat, one_spelling_only) {
    static const char *const bad[] = {
        "",          "0",         "1.5",       "0x1.8p1",   "0x1.8P+1",     "0X1.8p+1",
        "0x1.80p+1", "0x1.p+1",   "0x1.8p+01", "0x1.8p+1 ", " 0x1.8p+1",    "+0x1.8p+1",
        "0x3p+0",    "0x0p+1",    "0x0p-0",    "0x0.8p+0",  "0x1p+1024",    "0x1p-1023",
        "0x1.8",     "0x1.8p",    "0x1.8p+",   "0x1.Ap+1",  "0x1.a0p+1",    "0x1.00000000000001p+0",
        "nan",       "inf",       "-inf",      "--0x1p+0",  "0x0.8p-1022x", "0x1p+0000000000001",
        "0x0p+0\n",  "0x1p+99999"};
    for (size_t i = 0; i < TSR_COUNT(bad); i++) {
        double value = 7;
        cr_assert_not(tsr_hexfloat_parse(bad[i], &value), "%s", bad[i]);
        cr_assert_eq(value, 7, "written only on success");
    }
}

Test(hexfloat, infinity_is_a_programmers_error, .signal = 6) {
    char text[TSR_HEXFLOAT_TEXT_MAX];
    tsr_hexfloat_format(HUGE_VAL, text);
}
