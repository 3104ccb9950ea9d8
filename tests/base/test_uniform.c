/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of uniform rules are in [low, high), for all 16-bit numbers as bounds.
 */
#include "runtime/base/array.h"
#include "runtime/base/random/uniform.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

static double number(tsr_dtype dtype, unsigned bits) {
    return tsr_dtype_read(dtype, (uint16_t[]){(uint16_t)bits}, 0);
}

/* Writes the bit patterns of the finite numbers in ascending order, without -0; returns their
 * number. */
static unsigned ascending(unsigned infinity, uint16_t *out_bits) {
    unsigned count = 0;
    for (unsigned bits = infinity - 1; bits > 0; bits--)
        out_bits[count++] = (uint16_t)(bits | 0x8000);
    for (unsigned bits = 0; bits < infinity; bits++) out_bits[count++] = (uint16_t)bits;
    return count;
}

static double drawn(const tsr_uniform *uniform, tsr_dtype dtype, double u) {
    uint16_t bits;
    tsr_uniform_write(uniform, dtype, u, &bits, 0);
    return tsr_dtype_read(dtype, &bits, 0);
}

static void check_all(tsr_dtype dtype, unsigned infinity) {
    static uint16_t order[1 << 16];
    static const double samples[] = {0, 0x1p-53, 0.25, 0.5, 0.75, 1 - 0x1p-24, 1 - 0x1p-53};
    unsigned count = ascending(infinity, order);
    for (unsigned i = 0; i + 2 < count; i++) {
        double low = number(dtype, order[i]), next = number(dtype, order[i + 1]);
        double high = number(dtype, order[i + 2]);
        cr_assert(low < next && next < high);
        cr_assert_eq(tsr_dtype_below(dtype, next), low, "%s %a", tsr_dtype_name(dtype), next);
        cr_assert_eq(tsr_dtype_below(dtype, nextafter(next, INFINITY)), next);
        cr_assert_eq(tsr_dtype_below(dtype, nextafter(next, -INFINITY)), low);
        tsr_uniform one = tsr_uniform_make(TSR_DTYPE_F64, dtype, low, next);
        tsr_uniform two = tsr_uniform_make(TSR_DTYPE_F64, dtype, low, high);
        for (size_t k = 0; k < TSR_COUNT(samples); k++) {
            cr_assert_eq(drawn(&one, dtype, samples[k]), low, "%s [%a, %a)", tsr_dtype_name(dtype),
                         low, next);
            double x = drawn(&two, dtype, samples[k]);
            cr_assert(x == low || x == next, "%s [%a, %a): %a", tsr_dtype_name(dtype), low, high,
                      x);
        }
    }
    cr_assert_eq(tsr_dtype_below(dtype, (double)INFINITY), number(dtype, infinity - 1));
}

Test(uniform, every_number_of_16_bits_as_a_bound) {
    check_all(TSR_DTYPE_BF16, 0x7f80);
    check_all(TSR_DTYPE_F16, 0x7c00);
}

Test(uniform, numbers_below_a_bound) {
    cr_assert_eq(tsr_dtype_below(TSR_DTYPE_F32, 1), (double)nextafterf(1, 0));
    cr_assert_eq(tsr_dtype_below(TSR_DTYPE_F32, 0.7), (double)0.7f); /* 0.7f is below 0.7 */
    cr_assert_eq(tsr_dtype_below(TSR_DTYPE_F32, 0.1), (double)nextafterf(0.1f, 0));
    cr_assert_eq(tsr_dtype_below(TSR_DTYPE_F32, 0), -0x1p-149);
    cr_assert_eq(tsr_dtype_below(TSR_DTYPE_F32, (double)INFINITY), (double)FLT_MAX);
    cr_assert_eq(tsr_dtype_below(TSR_DTYPE_F64, 1), 1 - 0x1p-53);
    cr_assert_eq(tsr_dtype_below(TSR_DTYPE_F64, (double)INFINITY), DBL_MAX);
}

Test(uniform, finite_numbers_of_a_type) {
    cr_assert(tsr_dtype_rounds_finite(TSR_DTYPE_F16, 65519));
    cr_assert_not(tsr_dtype_rounds_finite(TSR_DTYPE_F16, 65520));
    cr_assert(tsr_dtype_rounds_finite(TSR_DTYPE_F32, (double)FLT_MAX));
    cr_assert_not(tsr_dtype_rounds_finite(TSR_DTYPE_F32, -1e39));
    cr_assert(tsr_dtype_rounds_finite(TSR_DTYPE_F64, -1e300));
}

/* high - low overflows, but low + (high - low) u does not. */
Test(uniform, widest_intervals_are_finite) {
    static const double samples[] = {0, 0.25, 0.5, 1 - 0x1p-53};
    tsr_uniform wide = tsr_uniform_make(TSR_DTYPE_F64, TSR_DTYPE_F64, -DBL_MAX, DBL_MAX);
    for (size_t k = 0; k < 4; k++) {
        double x;
        tsr_uniform_write(&wide, TSR_DTYPE_F64, samples[k], &x, 0);
        cr_assert_float_eq(x / DBL_MAX, 2 * samples[k] - 1, 1e-15, "%g", x);
        cr_assert(x >= -DBL_MAX && x < DBL_MAX);
    }
}
