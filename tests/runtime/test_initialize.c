/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/random/philox.h"
#include "runtime/initialize.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { COUNT = 100000 };
static float values[COUNT], again[COUNT];

static tsr_config_tensor make(tsr_init_kind kind, double a, double b, uint64_t count) {
    return (tsr_config_tensor){.name = "w",
                               .role = TSR_ROLE_PARAM,
                               .dtype = TSR_DTYPE_F32,
                               .shape = {1, {count}},
                               .init = kind,
                               .init_a = a,
                               .init_b = b,
                               .init_stream = 42};
}

static void fill(const tsr_config_tensor *tensor, uint32_t seed, void *data) {
    tsr_ctx ctx = {0};
    cr_assert_eq(tsr_initialize_tensor(&ctx, tensor, seed, NULL, data).code, TSR_OK, "%s",
                 ctx.error.text);
}

static void moments(double *out_mean, double *out_deviation) {
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) sum += (double)values[i];
    for (int i = 0; i < COUNT; i++)
        squares += ((double)values[i] - sum / COUNT) * ((double)values[i] - sum / COUNT);
    *out_mean = sum / COUNT;
    *out_deviation = sqrt(squares / COUNT);
}

Test(initialize, uniform_has_its_range_and_moments) {
    tsr_config_tensor tensor = make(TSR_INIT_UNIFORM, -0.25, 0.5, COUNT);
    double mean, deviation;
    fill(&tensor, 1, values);
    for (int i = 0; i < COUNT; i++)
        cr_assert(values[i] >= -0.25f && values[i] < 0.5f, "element %d is %g", i,
                  (double)values[i]);
    moments(&mean, &deviation);
    cr_assert_float_eq(mean, 0.125, 0.003); /* 4 standard errors: 0.2165 / sqrt(1e5) * 4 */
    cr_assert_float_eq(deviation, 0.75 / sqrt(12), 0.002);
}

/* The bounds are adjacent numbers, so half of the values would be rounded up to the upper one. */
Test(initialize, uniform_never_reaches_its_bound) {
    static double wide[1000];
    tsr_config_tensor tensor = make(TSR_INIT_UNIFORM, 1, nextafterf(1, 2), 1000);
    fill(&tensor, 1, values);
    for (int i = 0; i < 1000; i++) cr_assert_eq(values[i], 1);
    tensor.dtype = TSR_DTYPE_F64;
    tensor.init_b = nextafter(1, 2);
    fill(&tensor, 1, wide);
    for (int i = 0; i < 1000; i++) cr_assert_eq(wide[i], 1);
}

Test(initialize, normal_has_its_moments) {
    tsr_config_tensor tensor = make(TSR_INIT_NORMAL, 1, 2, COUNT);
    double mean, deviation;
    fill(&tensor, 1, values);
    moments(&mean, &deviation);
    cr_assert_float_eq(mean, 1, 0.026); /* 4 standard errors */
    cr_assert_float_eq(deviation, 2, 0.019);
}

/* Many values at once, also split among threads, have the same bits as values drawn one by one. */
Test(initialize, many_at_once_are_as_one_by_one) {
    enum { ODD = 200003 };
    static double many[ODD], given[ODD];
    static float alone[ODD], shared[ODD];
    const uint32_t key[2] = {7, 42};
    const uint64_t first = UINT32_MAX - 1000ull; /* the element's upper half changes */
    tsr_config_tensor tensor = make(TSR_INIT_NORMAL, 1, 2, ODD);
    tsr_ctx ctx = {0};
    tsr_threads *threads = NULL;
    tsr_philox_normals(key, first, ODD, many);
    for (uint64_t i = 0; i < ODD; i++) {
        const uint32_t counter[4] = {0, (uint32_t)(first + i), (uint32_t)((first + i) >> 32), 0};
        tsr_philox_words words = tsr_philox(key, counter);
        double one = tsr_philox_normal_f64(words.words[0], words.words[1]);
        cr_assert_eq(memcmp(&one, &many[i], sizeof one), 0, "element %lu: %a, %a", i, one, many[i]);
    }
    /* Mixes values of the far tails, which are hardly ever drawn, with others. */
    for (int i = 0; i < ODD; i++) {
        double u = ldexp(1 + i % 4096, -52 + i % 40);
        given[i] = many[i] = i % 3 && u < 0.5 ? i % 2 ? u : 1 - u : 0.25 + 0.5 * i / ODD;
    }
    tsr_normal_quantiles(many, ODD);
    for (int i = 0; i < ODD; i++) {
        double one = tsr_normal_quantile(given[i]);
        cr_assert_eq(memcmp(&one, &many[i], sizeof one), 0, "u %a: %a, %a", given[i], one, many[i]);
    }
    fill(&tensor, 5, alone);
    cr_assert_eq(tsr_threads_create(&ctx, 3, &threads).code, TSR_OK);
    cr_assert_eq(tsr_initialize_tensor(&ctx, &tensor, 5, threads, shared).code, TSR_OK);
    tsr_threads_destroy(threads);
    cr_assert_eq(memcmp(alone, shared, sizeof alone), 0);
}

Test(initialize, depends_on_seed_name_and_index_alone) {
    tsr_config_tensor tensor = make(TSR_INIT_UNIFORM, 0, 1, COUNT),
                      shorter = make(TSR_INIT_UNIFORM, 0, 1, 10);
    fill(&tensor, 5, values);
    fill(&shorter, 5, again);
    cr_assert_eq(memcmp(values, again, 10 * sizeof *values), 0);
    fill(&tensor, 6, again);
    cr_assert_neq(memcmp(values, again, 10 * sizeof *values), 0);
    tensor.init_stream = 43;
    fill(&tensor, 5, again);
    cr_assert_neq(memcmp(values, again, 10 * sizeof *values), 0);
}

Test(initialize, constants_of_every_dtype) {
    for (tsr_dtype dtype = TSR_DTYPE_F64; dtype <= (tsr_dtype)TSR_DTYPE_COUNT; dtype++) {
        tsr_config_tensor tensor = make(TSR_INIT_CONSTANT, 1, 0, 3);
        _Alignas(8) unsigned char bytes[25] = {0};
        tensor.dtype = dtype;
        fill(&tensor, 0, bytes);
        for (uint64_t k = 0; k < 3; k++) cr_assert_eq(tsr_dtype_read(dtype, bytes, k), 1);
        cr_assert_eq(bytes[3 * tsr_dtype_size(dtype)], 0);
    }
}

Test(initialize, sixteen_bits_stay_below_the_bound) {
    for (tsr_dtype dtype = TSR_DTYPE_BF16; dtype <= TSR_DTYPE_F16; dtype++) {
        tsr_config_tensor tensor = make(TSR_INIT_UNIFORM, -1, 0.001, 100000);
        static uint16_t narrow[100000];
        double highest = -1;
        tensor.dtype = dtype;
        fill(&tensor, 3, narrow);
        for (uint64_t i = 0; i < 100000; i++) {
            double x = tsr_dtype_read(dtype, narrow, i);
            cr_assert(x >= -1 && x < 0.001, "%g", x);
            if (x > highest) highest = x;
        }
        cr_assert(highest > 0.0009, "%g", highest);
        tensor.init_a = -1e-30; /* rounds up to the bound 0 */
        tensor.init_b = 0;
        fill(&tensor, 3, narrow);
        for (uint64_t i = 0; i < 100000; i++) cr_assert(tsr_dtype_read(dtype, narrow, i) < 0);
    }
}

/* Bounds whose difference overflows, and normal values beyond the largest number. */
Test(initialize, values_are_finite) {
    static double wide[COUNT];
    tsr_config_tensor tensor = make(TSR_INIT_UNIFORM, -1.7e308, 1.7e308, COUNT);
    tensor.dtype = TSR_DTYPE_F64;
    fill(&tensor, 1, wide);
    for (int i = 0; i < COUNT; i++) cr_assert(fabs(wide[i]) < 1.7e308, "%g", wide[i]);
    for (tsr_dtype dtype = TSR_DTYPE_F64; dtype <= TSR_DTYPE_F16; dtype++) {
        if (!tsr_dtype_is_float(dtype)) continue;
        double most = tsr_dtype_below(dtype, (double)INFINITY), value;
        tensor = make(TSR_INIT_NORMAL, 0, most / 2, COUNT);
        tensor.dtype = dtype;
        fill(&tensor, 1, wide);
        cr_assert_eq(tsr_dtype_find_nonfinite(dtype, wide, COUNT, &value), UINT64_MAX, "%s",
                     tsr_dtype_name(dtype));
    }
}

Test(initialize, random_integers_are_refused) {
    tsr_ctx ctx = {0};
    tsr_config_tensor tensor = make(TSR_INIT_UNIFORM, 0, 1, 3);
    int64_t data[3];
    tensor.dtype = TSR_DTYPE_I64;
    cr_assert_eq(tsr_initialize_tensor(&ctx, &tensor, 0, NULL, data).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "i64"), "%s", ctx.error.text);
}
