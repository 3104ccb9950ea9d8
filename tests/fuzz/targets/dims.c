/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the reader of expressions over the symbols of open dims. What it accepts has a canonical
 * text, which is read back as the same expression and has the same values.
 */
#include "compiler/ir/dim_expression.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

static tsr_dim_range value_of(void *user, const char *symbol) {
    const int64_t *factor = user;
    int64_t value = 1 + (int64_t)(unsigned char)symbol[0] * *factor;
    return (tsr_dim_range){value, value};
}

static void count(void *user, const char *symbol) {
    fuzz_require(tsr_dim_is_symbol(symbol, strlen(symbol)), "symbols are symbols");
    ++*(size_t *)user;
}

static void compare(tsr_arena *arena, const tsr_dim_expression *e) {
    char text[TSR_DIM_TEXT_MAX], twice[TSR_DIM_TEXT_MAX];
    tsr_dim_expression again;
    tsr_dim_error error;
    size_t symbols = 0;
    if (!tsr_dim_expression_print(e, text)) return;
    bool read = tsr_dim_expression_parse(arena, text, strlen(text), &again, &error);
    fuzz_require(read || fuzz_faults, "a canonical text is an expression");
    if (!read) return;
    fuzz_require(tsr_dim_expression_print(&again, twice) && strcmp(text, twice) == 0,
                 "the canonical text of a canonical text is the same");
    tsr_dim_expression_symbols(e, count, &symbols);
    for (int64_t factor = 1; factor < 100; factor *= 7) {
        tsr_dim_range a = tsr_dim_expression_range(e, value_of, &factor);
        tsr_dim_range b = tsr_dim_expression_range(&again, value_of, &factor);
        fuzz_require(fuzz_faults || (a.low == b.low && a.high == b.high), "equal texts are equal");
        fuzz_require(a.low <= a.high, "a range has a value");
    }
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_arena arena = {0};
    tsr_dim_expression e, sum;
    tsr_dim_error error = {0};
    fuzz_armed = true;
    bool read = tsr_dim_expression_parse(&arena, (const char *)bytes, size_bytes, &e, &error);
    fuzz_require(read || (error.text && error.at <= size_bytes), "an error has text and position");
    if (read) compare(&arena, &e);
    if (read && tsr_dim_expression_add(&e, &e, &sum)) compare(&arena, &sum);
    fuzz_armed = false;
    tsr_arena_finish(&arena);
    return read;
}

/* Appends a random expression, as far as there is room. */
static void append(char *text, size_t size, unsigned depth, uint32_t *state) {
    static const char *const atoms[] = {"N", "S", "batch.1", "7", "2", "0", "40"};
    static const char *const forms[][3] = {{"", " + ", ""},     {"(", " - ", ")"},
                                           {"(", ")*", ""},     {"floor((", ")/", ")"},
                                           {"min(", ", ", ")"}, {"max(", ", ", ")"}};
    size_t used = strlen(text);
    uint32_t form = fuzz_random(state) % 6;
    if (depth == 0 || fuzz_one_in(state, 4)) {
        snprintf(text + used, size - used, "%s", atoms[fuzz_random(state) % 7]);
        return;
    }
    snprintf(text + used, size - used, "%s", forms[form][0]);
    append(text, size, depth - 1, state);
    used = strlen(text);
    snprintf(text + used, size - used, "%s", forms[form][1]);
    append(text, size, form == 2 || form == 3 ? 0 : depth - 1, state);
    used = strlen(text);
    snprintf(text + used, size - used, "%s", forms[form][2]);
}

static size_t encode(uint32_t seed, tsr_arena *arena, const void **out_bytes) {
    uint32_t state = seed * 2654435761u + 1;
    char *text = tsr_arena_alloc(arena, 1, 512, 1);
    fuzz_require(text != NULL, "memory for a text");
    append(text, 512, 1 + fuzz_random(&state) % 4, &state);
    *out_bytes = text;
    return strlen(text);
}

static void seed(const char *folder) { fuzz_put_valid(folder, 16, encode); }

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed_number) {
    uint32_t state = seed_number | 1;
    if (fuzz_one_in(&state, 2)) return LLVMFuzzerMutate(bytes, size_bytes, size_max);
    tsr_arena arena = {0};
    const void *other;
    size_t size = encode(fuzz_random(&state), &arena, &other);
    if (size <= size_max) {
        memcpy(bytes, other, size);
        size_bytes = size;
    }
    tsr_arena_finish(&arena);
    return size_bytes;
}

const fuzz_target fuzz_the_target = {"dims", seed, run, mutate};
