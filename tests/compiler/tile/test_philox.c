/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions and random numbers inside elementwise kernels: the numbers are those that
 * runtime/base/random/philox.h draws, bit for bit.
 */
#include "runtime/base/random/philox.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1003 };

Test(philox, numbers_of_the_runtime) {
    static const char text[] =
        "tsched.func @g(%e: tensor<1003xi64>, %t: tensor<i64>, %s: tensor<i64>) -> "
        "(tensor<1003xf32>, tensor<1003xf64>, tensor<1003xf32>, tensor<1003xf64>) attributes {kind "
        "= "
        "\"map\"} {\n"
        "%a = tessera.philox %e, %t, %s {stream = 3735928559 : i64, draw = 2 : i64} : "
        "tensor<1003xi64>, tensor<i64>, tensor<i64> -> tensor<1003xf32>\n"
        "%b = tessera.philox %e, %t, %s {stream = 3735928559 : i64, draw = 2 : i64} : "
        "tensor<1003xi64>, tensor<i64>, tensor<i64> -> tensor<1003xf64>\n"
        "%c = tessera.philox %e, %t, %s {stream = 17 : i64, draw = 0 : i64, normal} : "
        "tensor<1003xi64>, tensor<i64>, tensor<i64> -> tensor<1003xf32>\n"
        "%d = tessera.philox %e, %t, %s {stream = 17 : i64, draw = 0 : i64, normal} : "
        "tensor<1003xi64>, tensor<i64>, tensor<i64> -> tensor<1003xf64>\n"
        "tsched.return %a, %b, %c, %d : tensor<1003xf32>, tensor<1003xf64>, tensor<1003xf32>, "
        "tensor<1003xf64>\n}";
    static const int64_t steps[] = {1, 4294967297, 123456789}, seeds[] = {0, 0xffffffff, 42};
    static int64_t e[COUNT];
    static float a[COUNT], c[COUNT];
    static double b[COUNT], d[COUNT];
    fixture f = {0};
    fixture_open(&f, text);
    random_state random = {6};
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++)
            e[i] = i % 2 ? (int64_t)i : (int64_t)(random_u64(&random) >> 1);
        void *outs[] = {a, b, c, d};
        argument arguments[] = {{e, sizeof e},    {&steps[round], 8}, {&seeds[round], 8},
                                {NULL, sizeof a}, {NULL, sizeof b},   {NULL, sizeof c},
                                {NULL, sizeof d}};
        kernel_test(&f, "g", arguments, 7, outs, NULL, NULL);
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t keys[2][2] = {{(uint32_t)seeds[round], 0xdeadbeef},
                                   {(uint32_t)seeds[round], 17}};
            uint32_t counter[4] = {(uint32_t)steps[round], (uint32_t)e[i], (uint32_t)(e[i] >> 32),
                                   2};
            tsr_philox_words words = tsr_philox(keys[0], counter);
            cr_assert_eq(a[i], tsr_philox_uniform_f32(words.words[0]));
            cr_assert_eq(b[i], tsr_philox_uniform_f64(words.words[0], words.words[1]));
            counter[3] = 0;
            words = tsr_philox(keys[1], counter);
            double normal = tsr_philox_normal_f64(words.words[0], words.words[1]);
            cr_assert_eq(d[i], normal, "%a, not %a", d[i], normal);
            cr_assert_eq(c[i], (float)normal);
        }
    }
    fixture_close(&f);
}

/* Test `tails` covers the far tails, too: their words are rare, so the counters are chosen. */
/* Eight elements per counter, 15 bits each. */
Test(philox, shared_numbers) {
    static const char text[] =
        "tsched.func @g(%e: tensor<1003xi64>, %t: tensor<i64>, %s: tensor<i64>) -> "
        "(tensor<1003xf32>, tensor<1003xf64>) attributes {kind = \"map\"} {\n"
        "%a = tessera.philox %e, %t, %s {stream = 3735928559 : i64, draw = 2 : i64, shared} : "
        "tensor<1003xi64>, tensor<i64>, tensor<i64> -> tensor<1003xf32>\n"
        "%b = tessera.philox %e, %t, %s {stream = 3735928559 : i64, draw = 2 : i64, shared} : "
        "tensor<1003xi64>, tensor<i64>, tensor<i64> -> tensor<1003xf64>\n"
        "tsched.return %a, %b : tensor<1003xf32>, tensor<1003xf64>\n}";
    static const int64_t step = 4294967298, seed = 0x123456789a;
    static int64_t e[COUNT];
    static float a[COUNT];
    static double b[COUNT];
    fixture f = {0};
    fixture_open(&f, text);
    random_state random = {7};
    for (size_t i = 0; i < COUNT; i++)
        e[i] = i % 2 ? (int64_t)i : (int64_t)(random_u64(&random) >> 1);
    void *outs[] = {a, b};
    argument arguments[] = {
        {e, sizeof e}, {&step, 8}, {&seed, 8}, {NULL, sizeof a}, {NULL, sizeof b}};
    kernel_test(&f, "g", arguments, 5, outs, NULL, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t shared = (uint64_t)e[i] >> 3;
        uint32_t key[2] = {(uint32_t)seed, 0xdeadbeef};
        uint32_t counter[4] = {(uint32_t)step, (uint32_t)shared, (uint32_t)(shared >> 32), 2};
        uint32_t word = tsr_philox(key, counter).words[e[i] >> 1 & 3] >> (e[i] & 1 ? 16 : 0);
        cr_assert_eq(b[i], (double)(word & 0x7fff) * 0x1p-15);
        cr_assert_eq(a[i], (float)b[i]);
    }
    fixture_close(&f);
}

Test(philox, tails) {
    static const char text[] =
        "tsched.func @g(%e: tensor<65536xi64>, %t: tensor<i64>, %s: tensor<i64>) -> "
        "tensor<65536xf64> attributes {kind = \"map\"} {\n"
        "%d = tessera.philox %e, %t, %s {stream = 1 : i64, draw = 0 : i64, normal} : "
        "tensor<65536xi64>, tensor<i64>, tensor<i64> -> tensor<65536xf64>\n"
        "tsched.return %d : tensor<65536xf64>\n}";
    static int64_t e[65536];
    static double d[65536];
    int64_t step = 1, seed = 9;
    size_t far = 0, filled = 0;
    fixture f = {0};
    fixture_open(&f, text);
    for (int64_t i = 0; filled < 65536; i++) {
        tsr_philox_words w = tsr_philox((uint32_t[]){9, 1}, (uint32_t[]){1, (uint32_t)i, 0, 0});
        bool rare = w.words[0] < 0x10000 || w.words[0] > 0xfffeffff;
        far += rare;
        if (rare || i % 64 == 0) e[filled++] = i;
    }
    cr_assert_gt(far, 50);
    void *outs[] = {d};
    argument arguments[] = {{e, sizeof e}, {&step, 8}, {&seed, 8}, {NULL, sizeof d}};
    kernel_test(&f, "g", arguments, 4, outs, NULL, NULL);
    for (size_t i = 0; i < 65536; i++) {
        tsr_philox_words w = tsr_philox((uint32_t[]){9, 1}, (uint32_t[]){1, (uint32_t)e[i], 0, 0});
        cr_assert_eq(d[i], tsr_philox_normal_f64(w.words[0], w.words[1]));
    }
    fixture_close(&f);
}

Test(philox, positions) {
    static const char text[] =
        "tsched.func @g(%x: tensor<5x37xi32>) -> (tensor<5x37xi32>, tensor<5x37xf32>, "
        "tensor<5x37xi1>) attributes {kind = \"map\"} {\n"
        "%r = tessera.iota {axis = 0 : i64} : tensor<5x37xi32>\n"
        "%c = tessera.iota {axis = 0 : i64} : tensor<37xf32>\n"
        "%s = tessera.iota {axis = 1 : i64} : tensor<5x37xi32>\n"
        "%y = tessera.add %x, %r : tensor<5x37xi32>, tensor<5x37xi32> -> tensor<5x37xi32>\n"
        "%z = tessera.cast %y : tensor<5x37xi32> to tensor<5x37xf32>\n"
        "%w = tessera.mul %z, %c : tensor<5x37xf32>, tensor<37xf32> -> tensor<5x37xf32>\n"
        "%h = tessera.compare eq %x, %s : tensor<5x37xi32>, tensor<5x37xi32> -> tensor<5x37xi1>\n"
        "tsched.return %y, %w, %h : tensor<5x37xi32>, tensor<5x37xf32>, tensor<5x37xi1>\n}\n"
        "tsched.func @i() -> tensor<3x100xi64> attributes {kind = \"map\"} {\n"
        "%r = tessera.iota {axis = 1 : i64} : tensor<3x100xi64>\n"
        "tsched.return %r : tensor<3x100xi64>\n}\n"
        "tsched.func @s(%x: tensor<6x50xf32>) -> tensor<6xf32> attributes {kind = \"reduce\"} {\n"
        "%c = tessera.iota {axis = 1 : i64} : tensor<6x50xf32>\n"
        "%p = tessera.mul %x, %c : tensor<6x50xf32>, tensor<6x50xf32> -> tensor<6x50xf32>\n"
        "%y = tessera.sum %p {axes = [1]} : tensor<6x50xf32> -> tensor<6xf32>\n"
        "tsched.return %y : tensor<6xf32>\n}";
    int32_t x[185], y[185];
    float w[185], ones[300], sums[6];
    uint8_t h[185];
    int64_t positions[300];
    fixture f = {0};
    fixture_open(&f, text);
    for (int i = 0; i < 185; i++) x[i] = i * 7 % 40;
    for (int i = 0; i < 300; i++) ones[i] = 1;
    void *outs[] = {y, w, h}, *position_outs[] = {positions}, *sum_outs[] = {sums};
    argument arguments[] = {{x, sizeof x}, {NULL, sizeof y}, {NULL, sizeof w}, {NULL, sizeof h}};
    argument none[] = {{NULL, sizeof positions}},
             two[] = {{ones, sizeof ones}, {NULL, sizeof sums}};
    kernel_test(&f, "g", arguments, 4, outs, NULL, NULL);
    kernel_test(&f, "i", none, 1, position_outs, NULL, NULL);
    kernel_test(&f, "s", two, 2, sum_outs, NULL, NULL);
    for (int i = 0; i < 185; i++) {
        cr_assert_eq(y[i], x[i] + i / 37);
        cr_assert_eq(w[i], (float)(y[i] * (i % 37)));
        cr_assert_eq(h[i], x[i] == i % 37);
    }
    for (int i = 0; i < 300; i++) cr_assert_eq(positions[i], i % 100);
    for (int i = 0; i < 6; i++) cr_assert_eq(sums[i], 1225);
    fixture_close(&f);
}
