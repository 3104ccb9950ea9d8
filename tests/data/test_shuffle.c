/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/data/shuffle.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_permutation(uint32_t seed, uint64_t count, uint64_t epoch) {
    unsigned char *seen = calloc(count, 1);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t index = tsr_shuffle_index(seed, count, epoch * count + i);
        cr_assert_lt(index, count, "count %" PRIu64, count);
        cr_assert_eq(seen[index], 0, "count %" PRIu64 ": %" PRIu64 " came twice", count, index);
        seen[index] = 1;
    }
    free(seen);
}

Test(shuffle, is_a_permutation) {
    for (uint64_t count = 1; count <= 2000; count++) check_permutation((uint32_t)count, count, 3);
    static const uint64_t others[] = {4093, 4096, 4097, 10007, 65535, 65536, 65537, 250007};
    for (size_t i = 0; i < TSR_COUNT(others); i++)
        check_permutation(5, others[i], (uint64_t)1 << 33);
}

/* Large counts cannot be visited completely: 100,000 values are in range and distinct. */
static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}
Test(shuffle, large_counts) {
    static const uint64_t counts[] = {((uint64_t)1 << 32) - 5, (uint64_t)1 << 32,
                                      ((uint64_t)1 << 32) + 1, ((uint64_t)1 << 62) + 12345,
                                      INT64_MAX};
    enum { DRAWS = 100000 };
    uint64_t *drawn = calloc(DRAWS, sizeof *drawn);
    for (size_t i = 0; i < TSR_COUNT(counts); i++) {
        double mean = 0;
        for (uint64_t k = 0; k < DRAWS; k++) {
            drawn[k] = tsr_shuffle_index(9, counts[i], k);
            cr_assert_lt(drawn[k], counts[i]);
            mean += (double)drawn[k] / (double)counts[i] / DRAWS;
        }
        cr_assert_float_eq(mean, 0.5, 6 * sqrt(1.0 / 12 / DRAWS));
        qsort(drawn, DRAWS, sizeof *drawn, by_value);
        for (size_t k = 1; k < DRAWS; k++) cr_assert_neq(drawn[k - 1], drawn[k]);
    }
    free(drawn);
}

/* tsr_shuffler_index() agrees with tsr_shuffle_index(), with a table and without: forwards,
 * backwards and with changing seeds. */
Test(shuffle, shuffler_agrees) {
    static const uint64_t counts[] = {1, 2, 7, 1023, 1024, 1438, 50000};
    for (size_t i = 0; i < TSR_COUNT(counts); i++) {
        uint32_t *table = calloc(tsr_shuffler_table_count(counts[i]), sizeof *table);
        tsr_shuffler shuffler;
        tsr_shuffler_init(&shuffler, counts[i], table);
        for (uint64_t k = 0; k < 3000; k++) {
            uint64_t sample = k % 500 < 250 ? k : 5000 - k;
            uint32_t seed = k / 1000 % 2 ? 8 : 9;
            cr_assert_eq(tsr_shuffler_index(&shuffler, seed, sample),
                         tsr_shuffle_index(seed, counts[i], sample));
        }
        free(table);
    }
    cr_assert_neq(tsr_shuffler_table_count((uint64_t)1 << 32), 0);
    cr_assert_eq(tsr_shuffler_table_count(((uint64_t)1 << 32) + 1), 0);
}

/* Returns chi-square as the number of standard deviations from its mean. */
static double deviation(double chi_square, double degrees) {
    return (chi_square - degrees) / sqrt(2 * degrees);
}

/* Each sample is equally frequent at each position over many epochs, and so is each difference
 * between adjacent samples. The seeds are fixed, so the result is, too; the limit is six
 * deviations. */
static void check_uniform(uint64_t count, uint64_t epochs) {
    uint32_t *positions = calloc(count * count, sizeof *positions);
    uint32_t *steps = calloc(count, sizeof *steps);
    uint32_t *table = calloc(tsr_shuffler_table_count(count), sizeof *table);
    tsr_shuffler shuffler;
    tsr_shuffler_init(&shuffler, count, table);
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        uint64_t last = 0;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t index = tsr_shuffler_index(&shuffler, 17, epoch * count + i);
            positions[i * count + index]++;
            if (i) steps[(index + count - last) % count]++;
            last = index;
        }
    }
    double chi = 0, expected = (double)epochs / (double)count;
    for (uint64_t i = 0; i < count * count; i++)
        chi += (positions[i] - expected) * (positions[i] - expected) / expected;
    double n = (double)count;
    cr_assert_lt(fabs(deviation(chi, (n - 1) * (n - 1))), 6, "positions of %" PRIu64, count);
    chi = 0;
    for (uint64_t i = 1; i < count; i++)
        chi += (steps[i] - (double)epochs) * (steps[i] - (double)epochs) / (double)epochs;
    cr_assert_lt(deviation(chi, n - 2), 6, "differences of %" PRIu64, count);
    free(table);
    free(steps);
    free(positions);
}

Test(shuffle, is_uniform) {
    check_uniform(10, 100000);
    check_uniform(16, 50000);
    check_uniform(100, 20000);
    check_uniform(256, 8000);
    check_uniform(1438, 2000);
}

Test(shuffle, seeds_and_epochs_differ) {
    static const struct {
        uint32_t seed;
        uint64_t epoch;
    } other[] = {{1, 0}, {0, 1}, {1u << 31, 0}, {0, (uint64_t)1 << 32}};
    for (size_t i = 0; i < TSR_COUNT(other); i++) {
        int same = 0;
        for (uint64_t k = 0; k < 1000; k++)
            same += tsr_shuffle_index(0, 1000, k) ==
                    tsr_shuffle_index(other[i].seed, 1000, other[i].epoch * 1000 + k);
        cr_assert_lt(same, 10, "row %zu: %d of 1000 alike", i, same); /* 1 expected */
    }
}

/* Version 1 is part of every saved state, so these values may never change. They were made by
 * tests/data/shuffle_reference.py, which shares no code with the library. */
Test(shuffle, frozen) {
    static const struct {
        uint32_t seed;
        uint64_t count, sample, index[4];
    } rows[] = {
        {0u, 1u, 0u, {0u, 0u, 0u, 0u}},
        {0u, 2u, 10u, {1u, 0u, 0u, 1u}},
        {1u, 10u, 0u, {8u, 4u, 5u, 1u}},
        {2u, 64u, 62u, {43u, 60u, 2u, 49u}},
        {3u, 1023u, 5000u, {1010u, 610u, 140u, 265u}},
        {4u, 1024u, 0u, {171u, 714u, 729u, 835u}},
        {0u, 1438u, 0u, {366u, 459u, 929u, 945u}},
        {42u, 1438u, 1437u, {828u, 1348u, 518u, 711u}},
        {4294967295u, 1438u, 123456789u, {1u, 1283u, 1167u, 439u}},
        {7u, 60000u, 59998u, {30073u, 32779u, 6933u, 42553u}},
        {8u, 4294967296u, 1099511627776u, {1630883672u, 3399750627u, 2892513665u, 2032490540u}},
        {9u, 4294967297u, 77u, {2932966606u, 3911608933u, 134626975u, 1574117277u}},
        {10u,
         9223372036854775807u,
         18446744073709551612u,
         {2532612033762000948u, 5120712487490797414u, 838123215042354283u, 970213246624857869u}},
    };
    cr_assert_eq(TSR_SHUFFLE_VERSION, 1);
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t got = tsr_shuffle_index(rows[i].seed, rows[i].count, rows[i].sample + k);
            cr_assert_eq(got, rows[i].index[k], "row %zu, %" PRIu64 ": %" PRIu64, i, k, got);
        }
}
