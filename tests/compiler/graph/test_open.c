/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions through samples: those that have the form are found, others are not.
 */
#include "compiler/graph/open/open.h"
#include "runtime/base/array.h"
#include "tests/compiler/fixture.h"

static fixture f;
static tsr_samples samples;

static void open(void) {
    fixture_open(&f);
    samples = (tsr_samples){.context = f.mlir,
                            .symbol_count = 2,
                            .symbols = {"N", "S"},
                            .low = {1, 1},
                            .high = {7, 40}};
    tsr_samples_init(&samples);
}
static void close(void) { fixture_close(&f); }
TestSuite(open, .init = open, .fini = close);

/* The sizes of the symbols, in one sample or the largest. */
typedef struct sizes {
    int64_t n, s;
} sizes;

static tsr_dim_range size_of(void *user, const char *symbol) {
    const sizes *of = user;
    int64_t size = strcmp(symbol, "N") == 0 ? of->n : of->s;
    return (tsr_dim_range){size, size};
}

static int64_t value_of(uint64_t dim, sizes of) {
    uint64_t value = 0;
    cr_assert(tsr_dim_value(dim, size_of, &of, &value));
    return (int64_t)value;
}

/* Fits an expression to its own values. */
static bool fit(const char *text, uint64_t *out_want, uint64_t *out_dim) {
    int64_t values[TSR_SAMPLES];
    cr_assert(tsr_dim_read(tsr_attr_make_string(f.mlir, text), out_want), "%s", text);
    for (size_t s = 0; s < TSR_SAMPLES; s++)
        values[s] = value_of(*out_want, (sizes){samples.sizes[s][0], samples.sizes[s][1]});
    return tsr_samples_fit(&samples, values, out_dim);
}

Test(open, expressions_are_found) {
    static const char *const texts[] = {"5",
                                        "N",
                                        "S",
                                        "3*N",
                                        "N*S",
                                        "12*N*S*S",
                                        "N + S",
                                        "N - 1",
                                        "768*S + 3",
                                        "N*S + 2*S",
                                        "N*N*N",
                                        "S - N + 2000",
                                        "64*N*S - 7*N",
                                        "4096*N*S*S + N",
                                        "50257*N*S"};
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        uint64_t want = 0, dim = 0;
        int64_t high = 0;
        cr_expect(fit(texts[i], &want, &dim), "%s", texts[i]);
        cr_expect_eq(dim, want, "%s", texts[i]);
        cr_expect(tsr_samples_high(&samples, dim, &high));
        cr_expect_eq(high, value_of(want, (sizes){7, 40}), "%s", texts[i]);
    }
}

Test(open, others_are_not) {
    static const char *const texts[] = {"floor(N/2)", "floor((S + 1)/3)", "N*N*N*N",
                                        "N*S + N + S + 1"};
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        uint64_t want = 0, dim = 0;
        cr_expect(!fit(texts[i], &want, &dim), "%s", texts[i]);
    }
}

Test(open, negative_numbers_are_no_sizes) {
    uint64_t dim = 0;
    const int64_t same[TSR_SAMPLES] = {-1, -1, -1, -1};
    int64_t falls[TSR_SAMPLES];
    for (size_t s = 0; s < TSR_SAMPLES; s++) falls[s] = -samples.sizes[s][0];
    cr_expect(!tsr_samples_fit(&samples, same, &dim));
    cr_expect(!tsr_samples_fit(&samples, falls, &dim));
}
