/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: a scan finds the begin and end of each value in the text; one value is changed. A text
 * that is not JSON is repaired; one text in sixteen gets libFuzzer's byte mutations.
 */
#include "runtime/base/array.h"
#include "tests/fuzz/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 256, DEPTH_MAX = 32, PIECE_MAX = 4096 };

typedef struct span {
    size_t begin, end;
} span;

typedef struct text {
    uint8_t *bytes;
    size_t size, size_max;
    span values[VALUES_MAX];
    size_t value_count;
} text;

static bool is_space(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static size_t string_end(const text *t, size_t at) {
    for (at++; at < t->size && t->bytes[at] != '"'; at++)
        if (t->bytes[at] == '\\') at++;
    return at + 1;
}

static void add(text *t, size_t begin, size_t end) {
    if (t->value_count < VALUES_MAX) t->values[t->value_count++] = (span){begin, end};
}

static bool is_scalar(const text *t, size_t begin, size_t end) {
    static const char *const words[] = {"true", "false", "null"};
    const char *at = (const char *)t->bytes + begin;
    size_t size = end - begin;
    for (size_t i = 0; i < 3; i++)
        if (size == strlen(words[i]) && memcmp(at, words[i], size) == 0) return true;
    for (size_t i = 0; i < size; i++)
        if (!strchr("0123456789.eE+-", at[i]) || !at[i]) return false;
    return size > 0 && at[size - 1] >= '0' && at[size - 1] <= '9';
}

/* Checks the grammar except for the contents of strings and numbers. Also finds the values that end
 * before the first error. */
static bool find_values(text *t) {
    enum { VALUE, FIRST_VALUE, FIRST_KEY, KEY, COLON, NEXT, END } want = VALUE;
    struct {
        size_t begin;
        bool object;
    } open[DEPTH_MAX];
    size_t depth = 0, at = 0;
    while (at < t->size) {
        uint8_t c = t->bytes[at];
        bool closes = (c == '}' || c == ']') && depth > 0 && open[depth - 1].object == (c == '}') &&
                      (want == NEXT || want == (c == '}' ? FIRST_KEY : FIRST_VALUE));
        if (is_space(c)) {
            at++;
        } else if (closes) {
            add(t, open[--depth].begin, ++at);
            want = depth ? NEXT : END;
        } else if (c == ',' && want == NEXT) {
            want = open[depth - 1].object ? KEY : VALUE;
            at++;
        } else if (c == ':' && want == COLON) {
            want = VALUE;
            at++;
        } else if (c == '"' && (want == KEY || want == FIRST_KEY)) {
            at = string_end(t, at);
            want = COLON;
        } else if ((c == '{' || c == '[') && (want == VALUE || want == FIRST_VALUE)) {
            if (depth == DEPTH_MAX) return false;
            open[depth].begin = at++;
            open[depth++].object = c == '{';
            want = c == '{' ? FIRST_KEY : FIRST_VALUE;
        } else if (want == VALUE || want == FIRST_VALUE) {
            size_t begin = at;
            if (c == '"')
                at = string_end(t, at);
            else
                while (at < t->size && !is_space(t->bytes[at]) && !strchr(",:{}[]\"", t->bytes[at]))
                    at++;
            if (at > t->size || (c != '"' && !is_scalar(t, begin, at))) return false;
            add(t, begin, at);
            want = depth ? NEXT : END;
        } else {
            return false;
        }
    }
    return want == END;
}

/* Reduces a text that is not JSON to the longest value in it. */
static void repair(text *t) {
    span longest = {0, 0};
    for (size_t i = 0; i < t->value_count; i++)
        if (t->values[i].end - t->values[i].begin > longest.end - longest.begin)
            longest = t->values[i];
    t->size = longest.end - longest.begin;
    memmove(t->bytes, t->bytes + longest.begin, t->size);
    if (t->size == 0 && t->size_max >= 2) memcpy(t->bytes, "{}", t->size = 2);
}

/* Replaces the span by `size` bytes. */
static bool replace(text *t, span old, const void *piece, size_t size) {
    size_t rest = t->size - old.end;
    if (t->size - (old.end - old.begin) + size > t->size_max) return false;
    memmove(t->bytes + old.begin + size, t->bytes + old.end, rest);
    memcpy(t->bytes + old.begin, piece, size);
    t->size = old.begin + size + rest;
    return true;
}

static span pick(const text *t, uint32_t *state) {
    return t->values[fuzz_random(state) % t->value_count];
}

static void put_known(text *t, uint32_t *state) {
    static const char *const known[] = {"0",
                                        "1",
                                        "2",
                                        "7",
                                        "64",
                                        "65536",
                                        "4194304",
                                        "4294967295",
                                        "4294967296",
                                        "{}",
                                        "[]",
                                        "[0]",
                                        "true",
                                        "false",
                                        "null",
                                        "9007199254740991",
                                        "9007199254740992",
                                        "\"\"",
                                        "\"x\"",
                                        "[[]]",
                                        "\"\\ud83d\\ude00\"",
                                        "\"\\u00e9\\n\"",
                                        "{\"a\":1}",
                                        "\"\xc3\xa9\"",
                                        "-1",
                                        "1.5",
                                        "1e3",
                                        "9007199254740993",
                                        "18446744073709551616",
                                        "\"\\u0000\"",
                                        "[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]",
                                        "{\"a\":1,\"a\":2}",
                                        "01"};
    enum { REFUSED = 9 };
    /* The last ones are not integers, not UTF-8 or nested too deeply, so they are rejected at
     * once. */
    size_t count = TSR_COUNT(known) - (fuzz_one_in(state, 8) ? 0 : REFUSED);
    const char *piece = known[fuzz_random(state) % count];
    replace(t, pick(t, state), piece, strlen(piece));
}

/* Mutates the contents of a string with libFuzzer, and turns the result into valid characters. */
static void change_string(text *t, uint32_t *state) {
    uint8_t piece[PIECE_MAX];
    span value = pick(t, state);
    for (int i = 0; i < 8 && t->bytes[value.begin] != '"'; i++) value = pick(t, state);
    if (t->bytes[value.begin] != '"' || value.end - value.begin > PIECE_MAX / 2) return;
    size_t size = value.end - value.begin - 2;
    memcpy(piece, t->bytes + value.begin + 1, size);
    size = LLVMFuzzerMutate(piece, size, size + 64);
    for (size_t i = 0; i < size; i++) {
        piece[i] &= 0x7f;
        if (piece[i] < 0x20 || piece[i] == '"' || piece[i] == '\\' || piece[i] == 0x7f)
            piece[i] = (uint8_t)('a' + piece[i] % 26);
    }
    replace(t, (span){value.begin + 1, value.end - 1}, piece, size);
}

static void change_number(text *t, uint32_t *state) {
    char piece[32];
    span value = pick(t, state);
    for (int i = 0; i < 8 && (t->bytes[value.begin] < '0' || t->bytes[value.begin] > '9'); i++)
        value = pick(t, state);
    if (t->bytes[value.begin] < '0' || t->bytes[value.begin] > '9') return;
    size_t size = value.end - value.begin;
    if (size >= sizeof piece) return;
    memcpy(piece, t->bytes + value.begin, size);
    piece[size] = 0;
    uint64_t number = strtoull(piece, NULL, 10);
    switch (fuzz_random(state) % 5) {
    case 0:
        number++;
        break;
    case 1:
        number -= number > 0;
        break;
    case 2:
        number *= 2;
        break;
    case 3:
        number = fuzz_random(state) % 300;
        break;
    default:
        number = (number << 32 & (1ull << 53) - 1) + fuzz_random(state) % 8;
        break;
    }
    int length = snprintf(piece, sizeof piece, "%" PRIu64, number);
    replace(t, value, piece, (size_t)length);
}

/* Removes a value with its key and one comma, so that the rest is JSON. */
static void drop(text *t, uint32_t *state) {
    span value = pick(t, state);
    while (value.begin > 0 && !strchr("{[,", t->bytes[value.begin - 1])) value.begin--;
    while (value.end < t->size && !strchr("}],", t->bytes[value.end])) value.end++;
    if (value.end < t->size && t->bytes[value.end] == ',')
        value.end++;
    else if (value.begin > 0 && t->bytes[value.begin - 1] == ',')
        value.begin--;
    replace(t, value, "", 0);
}

/* Inserts a copy of a value as the next element, or replaces another value with the copy. */
static void copy(text *t, uint32_t *state, bool beside) {
    uint8_t piece[PIECE_MAX];
    span from = pick(t, state), to = beside ? (span){from.end, from.end} : pick(t, state);
    size_t size = from.end - from.begin, comma = beside;
    if (size + comma > sizeof piece) return;
    piece[0] = ',';
    memcpy(piece + comma, t->bytes + from.begin, size);
    replace(t, to, piece, size + comma);
}

static void insert(text *t, uint32_t *state, const char *before, const char *after) {
    span value = pick(t, state);
    if (replace(t, (span){value.end, value.end}, after, strlen(after)))
        replace(t, (span){value.begin, value.begin}, before, strlen(before));
}

size_t fuzz_mutate_json(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *state) {
    text t = {.bytes = bytes, .size = size_bytes, .size_max = size_max};
    if (fuzz_one_in(state, 16)) return LLVMFuzzerMutate(bytes, size_bytes, size_max);
    if (!find_values(&t)) {
        repair(&t);
        return t.size;
    }
    switch (fuzz_random(state) % 10) {
    case 0:
    case 1:
        put_known(&t, state);
        break;
    case 2:
    case 3:
        change_string(&t, state);
        break;
    case 4:
    case 5:
        change_number(&t, state);
        break;
    case 6:
        drop(&t, state);
        break;
    case 7:
        copy(&t, state, fuzz_one_in(state, 3));
        break;
    case 8:
        insert(&t, state, "[", "]");
        break;
    default:
        insert(&t, state, " ", "\n");
        break;
    }
    return t.size;
}
