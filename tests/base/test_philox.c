/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/base/random/philox.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Random123's kat_vectors, philox4x32 10. */
Test(philox, published_vectors) {
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_philox_words words = tsr_philox(rows[i].key, rows[i].counter);
        cr_assert_arr_eq(words.words, rows[i].expected, sizeof words.words, "vector %zu", i);
    }
}

Test(philox, uniform_is_half_open) {
    cr_assert_eq(tsr_philox_uniform_f32(0), 0.0f);
    cr_assert_eq(tsr_philox_uniform_f32(0xff), 0.0f);
    cr_assert_eq(tsr_philox_uniform_f32(0x80000000u), 0.5f);
    cr_assert_eq(tsr_philox_uniform_f32(0xffffffffu), 1.0f - 0x1p-24f);
    cr_assert_eq(tsr_philox_uniform_f64(0, 0x7ff), 0.0);
    cr_assert_eq(tsr_philox_uniform_f64(0, 0x800), 0x1p-53);
    cr_assert_eq(tsr_philox_uniform_f64(0x80000000u, 0), 0.5);
    cr_assert_eq(tsr_philox_uniform_f64(0xffffffffu, 0xffffffffu), 1.0 - 0x1p-53);
}

/* Quantiles by Newton's method on erfc with 220 bits (mpmath), 20 digits. */
static const struct {
    double u, expected;
} quantiles[] = {
    {0x0.0000000000001p-1022, -38.467405617144346251},
    {0x1.0000000000000p-1022, -37.519379347144499821},
    {0x1.56e1fc2f8f359p-997, -37.047096299361199237},
    {0x1.bff2ee48e0530p-333, -21.273453560965324294},
    {0x1.4484bfeebc2a0p-100, -11.46402468844361572},
    {0x1.cd2b297d889bcp-54, -8.2220822161304356152},
    {0x1.e8a37a45fc32dp-37, -6.6579046435011036008},
    {0x1.e8a37a45fc321p-37, -6.6579046435011038061},
    {0x1.12e0be826d695p-30, -5.9978070150076868614},
    {0x1.4f8b588e368f1p-17, -4.2648907939228246102},
    {0x1.0624dd2f1a9fcp-10, -3.0902323061678135354},
    {0x1.47ae147ae147bp-7, -2.3263478740408410931},
    {0x1.999999999999ap-5, -1.644853626951472688},
    {0x1.3333333333332p-4, -1.439531470938456033},
    {0x1.3333333333333p-4, -1.4395314709384559349},
    {0x1.999999999999ap-4, -1.2815515655446004353},
    {0x1.0000000000000p-2, -0.6744897501960817432},
    {0x1.3333333333333p-2, -0.52440051270804081597},
    {0x1.999999999999ap-2, -0.25334710313579974132},
    {0x1.fffd60e94ee39p-2, -0.000025066282748960008527},
    {0x1.fffffffe48320p-2, -2.5066284820303539022e-10},
    {0x1.00000000dbe70p-1, 2.5066284820303539022e-10},
    {0x1.3333333333333p-1, 0.25334710313579974132},
    {0x1.8000000000000p-1, 0.6744897501960817432},
    {0x1.ccccccccccccdp-1, 1.2815515655446005935},
    {0x1.d99999999999ap-1, 1.4395314709384562291},
    {0x1.d99999999999bp-1, 1.4395314709384570134},
    {0x1.e666666666666p-1, 1.6448536269514722843},
    {0x1.fae147ae147aep-1, 2.3263478740408407676},
    {0x1.ff7ced916872bp-1, 3.0902323061678132778},
    {0x1.fffeb074a771dp-1, 4.2648907939238407699},
    {0x1.fffffca501acbp-1, 5.1993375822906610937},
    {0x1.fffffffffdcd1p-1, 7.0344869100478352057},
    {0x1.fffffffffffffp-1, 8.2095361516013868556},
    {0x1.ffffffffffffep-1, 8.1258906647019068585},
};

Test(normal, error_bound) {
    for (size_t i = 0; i < TSR_COUNT(quantiles); i++) {
        double got = tsr_normal_quantile(quantiles[i].u), want = quantiles[i].expected;
        cr_assert_leq(fabs(got - want), fabs(want) * 0x1p-50, "u = %a: got %a, expected %a",
                      quantiles[i].u, got, want);
    }
    cr_assert_eq(tsr_normal_quantile(0.5), 0.0);
}

Test(normal, symmetric_and_increasing) {
    double last = -INFINITY;
    for (int i = 1; i < 4096; i++) {
        double u = i * 0x1p-12, value = tsr_normal_quantile(u);
        cr_assert_gt(value, last, "u = %a", u);
        cr_assert_eq(value, -tsr_normal_quantile(1.0 - u), "u = %a", u);
        last = value;
    }
}

/* Every pair of words gives a finite number; the extremes are those of 52 bits. */
Test(normal, every_word_is_good) {
    double low = tsr_philox_normal_f64(0, 0), high = tsr_philox_normal_f64(UINT32_MAX, UINT32_MAX);
    cr_assert_eq(low, tsr_normal_quantile(0x1p-53));
    cr_assert_eq(high, -low);
    cr_assert_float_eq(low, -8.2095, 1e-4);
}

/* 2^18 fixed draws: the bounds are six standard errors of the sample moments. */
Test(normal, moments) {
    const uint32_t key[2] = {7, 9};
    const int count = 1 << 18;
    double sum = 0, square = 0, cube = 0, fourth = 0;
    for (int i = 0; i < count; i++) {
        tsr_philox_words words = tsr_philox(key, (uint32_t[]){0, (uint32_t)i, 0, 0});
        double x = tsr_philox_normal_f64(words.words[0], words.words[1]);
        sum += x;
        square += x * x;
        cube += x * x * x;
        fourth += x * x * x * x;
    }
    const double n = count, error = 6 / sqrt(n);
    cr_assert_float_eq(sum / n, 0, error);
    cr_assert_float_eq(square / n, 1, error * sqrt(2));
    cr_assert_float_eq(cube / n, 0, error * sqrt(15));
    cr_assert_float_eq(fourth / n, 3, error * sqrt(96));
}

/* Initial values of every existing model depend on these bits, so they may never change. */
Test(normal, frozen_bits) {
    static const struct {
        double u;
        uint64_t bits;
    } rows[] = {
        {0x1.56e1fc2f8f359p-997, 0xc04286074064c26e}, {0x1.19799812dea11p-40, 0xc01c234fba57a32a},
        {0x1.0624dd2f1a9fcp-10, 0xc008b8cbb7204470},  {0x1.1eb851eb851ecp-4, 0xbff79cd70d9c27f0},
        {0x1.3333333333333p-2, 0xbfe0c7e39582c5fa},   {0x1.a3d70a3d70a3dp-2, 0xbfcd20319c857b27},
        {0x1.3d70a3d70a3d7p-1, 0x3fd38cff4a9c5dae},   {0x1.dc28f5c28f5c3p-1, 0x3ff79cd70d9c27f3},
        {0x1.fff2e48e8a71ep-1, 0x400dc08bb712897a},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        double value = tsr_normal_quantile(rows[i].u);
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        cr_assert_eq(bits, rows[i].bits, "u = %a: got %#" PRIx64 ", expected %#" PRIx64, rows[i].u,
                     bits, rows[i].bits);
    }
}
