/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions over symbols of dims: canonical texts, refused texts, and random expressions whose
 * value is known from the way they were made.
 */
#include "compiler/ir/dim_expression.h"
#include "runtime/base/array.h"
#include "tests/compiler/fixture.h"

#include <inttypes.h>

static const char *canonical(tsr_arena *arena, const char *text, char out_text[TSR_DIM_TEXT_MAX]) {
    tsr_dim_expression e;
    tsr_dim_error error = {0};
    bool read = tsr_dim_expression_parse(arena, text, strlen(text), &e, &error);
    cr_assert(read, "%s: %s", text, error.text);
    cr_assert(tsr_dim_expression_print(&e, out_text), "%s", text);
    return out_text;
}

Test(dims, canonical_texts) {
    static const char *const texts[][2] = {
        {"N", "N"},
        {"S + N", "N + S"},
        {"2 * (N + 1) - N", "N + 2"},
        {"N - N", "0"},
        {"-3 + N*S*N", "N*N*S - 3"},
        {"(N + S)*(N - S)", "N*N - S*S"},
        {"floor(N/1)", "N"},
        {"floor((4*N + 3)/4)", "N"},
        {"floor((2*N + 3)/4)", "floor((N + 1)/2)"},
        {"floor((N + 5)/2)", "floor((N + 1)/2) + 2"},
        {"floor((N - 3)/2)", "floor((N + 1)/2) - 2"},
        {"floor((N*S + S)/(N + 1))", "S"},
        {"floor(N/S)", "floor(N/S)"},
        {"floor(N/(S + 1))", "floor(N/(S + 1))"},
        {"floor(7/2)", "3"},
        {"floor((0 - 7)/2)", "-4"},
        {"min(N, N + 1)", "N"},
        {"max(N, N + 1)", "N + 1"},
        {"max(S, N)", "max(N, S)"},
        {"min(2*S, 2*S)", "2*S"},
        {"past_length.1 + 1", "past_length.1 + 1"},
        {"9223372036854775807", "9223372036854775807"},
        {"floor((-9223372036854775807*N - N)/5)", "floor(2*N/5) - 1844674407370955162*N"},
    };
    tsr_arena arena = {0};
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        char got[TSR_DIM_TEXT_MAX], wanted[TSR_DIM_TEXT_MAX];
        canonical(&arena, texts[i][0], got);
        cr_assert_str_eq(got, canonical(&arena, texts[i][1], wanted), "%s: %s", texts[i][0], got);
        cr_assert_str_eq(canonical(&arena, got, wanted), got, "%s is not canonical", got);
    }
    tsr_arena_finish(&arena);
}

Test(dims, refused_texts) {
    static const struct {
        const char *text, *error;
        size_t at;
    } texts[] = {
        {"", "expected a symbol or an integer", 0},
        {"N +", "expected a symbol or an integer", 3},
        {"N 2", "expected an operator or the end", 2},
        {"N/2", "expected an operator or the end", 1},
        {"floor(N + 1/2)", "expected '/'", 8},
        {"floor(N/0)", "the divisor is below 1", 10},
        {"floor N", "expected '('", 6},
        {"min(N)", "expected ','", 5},
        {"max(N, S", "expected ')'", 8},
        {"(N", "expected ')'", 2},
        {"9223372036854775808", "the number has more than 63 bits", 18},
        {"9223372036854775807 + 1", "the expression is too large", 23},
        {"N*N*N*N*N*N*N*N*N", "the expression is too large", 17},
        {"a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q",
         "the expression is too large", 65},
    };
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        tsr_arena arena = {0};
        tsr_dim_expression e;
        tsr_dim_error error = {0};
        cr_assert_not(
            tsr_dim_expression_parse(&arena, texts[i].text, strlen(texts[i].text), &e, &error),
            "%s", texts[i].text);
        cr_assert_str_eq(error.text, texts[i].error, "%s: %s", texts[i].text, error.text);
        cr_assert_eq(error.at, texts[i].at, "%s: %zu", texts[i].text, error.at);
        tsr_arena_finish(&arena);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *const names[] = {"N", "S", "T"};

typedef struct made {
    char text[1024];
    __extension__ __int128 value;
} made;

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

/* A random expression and its value where symbol i is values[i]; false if it has none. */
static bool make(uint32_t *state, const int64_t *values, unsigned depth, made *out) {
    made a, b;
    uint32_t kind = next(state) % (depth ? 8 : 2);
    if (kind < 2) {
        uint32_t i = next(state) % TSR_COUNT(names);
        int64_t number = next(state) % 9;
        snprintf(out->text, sizeof out->text, "%s", names[i]);
        if (kind) snprintf(out->text, sizeof out->text, "%" PRId64, number);
        out->value = kind ? number : values[i];
        return true;
    }
    if (!make(state, values, depth - 1, &a) || !make(state, values, depth - 1, &b)) return false;
    static const char *const forms[] = {"(%s + %s)",        "(%s - %s)",   "(%s) * (%s)",
                                        "floor((%s)/(%s))", "min(%s, %s)", "max(%s, %s)"};
    snprintf(out->text, sizeof out->text, forms[kind - 2], a.text, b.text);
    switch (kind - 2) {
    case 0:
        out->value = a.value + b.value;
        return true;
    case 1:
        out->value = a.value - b.value;
        return true;
    case 2:
        out->value = a.value * b.value;
        return true;
    case 3:
        if (b.value < 1) return false;
        out->value = a.value / b.value - (a.value % b.value < 0);
        return true;
    case 4:
        out->value = a.value < b.value ? a.value : b.value;
        return true;
    default:
        out->value = a.value > b.value ? a.value : b.value;
        return true;
    }
}

typedef struct ranges {
    const int64_t *values;
    int64_t slack;
} ranges;

static tsr_dim_range range_of(void *user, const char *symbol) {
    const ranges *r = user;
    size_t i = 0;
    while (strcmp(names[i], symbol) != 0) i++;
    return (tsr_dim_range){r->values[i] - r->slack, r->values[i] + r->slack};
}

/* The canonical form has the value of the expression, and its range contains the value. */
Test(dims, values) {
    size_t compared = 0;
    uint32_t state = 1;
    for (size_t i = 0; i < 20000; i++) {
        int64_t values[TSR_COUNT(names)];
        char text[TSR_DIM_TEXT_MAX];
        made one;
        tsr_arena arena = {0};
        tsr_dim_expression e, again;
        tsr_dim_error error;
        for (size_t k = 0; k < TSR_COUNT(names); k++) values[k] = 3 + next(&state) % 60;
        if (make(&state, values, 3, &one) &&
            tsr_dim_expression_parse(&arena, one.text, strlen(one.text), &e, &error) &&
            tsr_dim_expression_print(&e, text)) {
            tsr_dim_range exact = tsr_dim_expression_range(&e, range_of, &(ranges){values, 0});
            tsr_dim_range wide = tsr_dim_expression_range(&e, range_of, &(ranges){values, 2});
            cr_assert(exact.low == one.value && exact.high == one.value,
                      "%s, which is %s: %" PRId64 " to %" PRId64 ", N = %" PRId64 ", S = %" PRId64
                      ", T = %" PRId64,
                      one.text, text, exact.low, exact.high, values[0], values[1], values[2]);
            cr_assert(wide.low <= one.value && wide.high >= one.value, "%s", text);
            cr_assert(tsr_dim_expression_parse(&arena, text, strlen(text), &again, &error));
            char twice[TSR_DIM_TEXT_MAX];
            cr_assert(tsr_dim_expression_print(&again, twice));
            cr_assert_str_eq(text, twice);
            compared++;
        }
        tsr_arena_finish(&arena);
    }
    cr_assert_gt(compared, 10000, "%zu", compared);
}

/* A bound of more than 63 bits is no bound: the value of each expression is outside 64 bits, or the
 * quotient of such a value, so no range is a single number. */
Test(dims, large_values) {
    static const char *const texts[] = {
        "N*N + S*S - T*T*T", /* 2^63 - 2^66 */
        "N*N*N - T*T*T*T",   /* 2^93 - 2^88 */
        "floor((N*N + S*S)/(T*T*T))",
        "floor((0 - N*N*N)/(T*T*T*T))",
    };
    const int64_t values[] = {INT64_C(1) << 31, INT64_C(1) << 31, INT64_C(1) << 22};
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        tsr_arena arena = {0};
        tsr_dim_expression e;
        tsr_dim_error error = {0};
        ranges exact = {.values = values};
        cr_assert(tsr_dim_expression_parse(&arena, texts[i], strlen(texts[i]), &e, &error), "%s",
                  texts[i]);
        tsr_dim_range range = tsr_dim_expression_range(&e, range_of, &exact);
        cr_assert_lt(range.low, range.high, "%s: %" PRId64, texts[i], range.low);
        tsr_arena_finish(&arena);
    }
}

/* Equal polynomials have one form. */
Test(dims, equal_forms) {
    uint32_t state = 7;
    const int64_t values[] = {3, 4, 5};
    size_t compared = 0;
    for (size_t i = 0; i < 3000; i++) {
        made a, b;
        char text[4096], swapped[4096], one[TSR_DIM_TEXT_MAX], other[TSR_DIM_TEXT_MAX];
        tsr_arena arena = {0};
        tsr_dim_expression e, f;
        tsr_dim_error error;
        if (!make(&state, values, 2, &a) || !make(&state, values, 1, &b)) continue;
        snprintf(text, sizeof text, "(%s) * (%s) - (%s)", a.text, b.text, a.text);
        snprintf(swapped, sizeof swapped, "(%s) * ((%s) - 1)", a.text, b.text);
        if (tsr_dim_expression_parse(&arena, text, strlen(text), &e, &error) &&
            tsr_dim_expression_parse(&arena, swapped, strlen(swapped), &f, &error) &&
            tsr_dim_expression_print(&e, one) && tsr_dim_expression_print(&f, other)) {
            cr_assert_str_eq(one, other, "%s", text);
            compared++;
        }
        tsr_arena_finish(&arena);
    }
    cr_assert_gt(compared, 1500, "%zu", compared);
}
