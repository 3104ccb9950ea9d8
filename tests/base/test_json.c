/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/json.h"
#include "tests/base/random.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const tsr_json_options strict = {.subject = "blob", .code = TSR_CORRUPT};
static const tsr_json_options numbers = {
    .subject = "blob", .code = TSR_DATA, .allow_numbers = true};

/* Parses a copy of exactly this size, so that a sanitizer detects reads past its end. */
static tsr_result parse(tsr_ctx *ctx, const char *text, size_t size,
                        const tsr_json_options *options, cJSON **out_root) {
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    tsr_result result = tsr_json_parse(ctx, copy, size, options, out_root);
    free(copy);
    return result;
}

Test(json, accepts) {
    static const char *const texts[] = {
        "{}",
        "[]",
        "0",
        "true",
        "false",
        "null",
        "\"\"",
        " \t\r\n[ 1 , 2 ] \n",
        "{\"a\":{\"a\":1},\"b\":[{\"a\":1},{\"a\":2}]}",
        "[9007199254740992]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\u00e4\\uD83D\\uDE00\"",
        "\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"
        "\"",
        "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
        "{\"\":1,\"A\":2,\"a\":3}"};
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        tsr_ctx ctx = {0};
        cJSON *root = NULL;
        cr_assert_eq(parse(&ctx, texts[i], strlen(texts[i]), &strict, &root).code, TSR_OK, "%s: %s",
                     texts[i], ctx.error.text);
        cr_assert_not_null(root);
        tsr_json_destroy(root);
    }
    tsr_json_destroy(NULL);
}

#define LITERAL(text) text, sizeof text - 1

static const struct {
    const char *text;
    size_t size;
    const char *message;
} refused[] = {
    {LITERAL(""), "blob: offset 0: expected a value, got the end"},
    {LITERAL("  "), "blob: offset 2: expected a value, got the end"},
    {LITERAL("{}{}"), "blob: offset 2: expected the end, got '{'"},
    {LITERAL("{}\0"), "blob: offset 2: expected the end, got byte 0x00"},
    {LITERAL("\xef\xbb\xbf{}"), "blob: offset 0: expected a value, got byte 0xef"},
    {LITERAL("[1,]"), "blob: offset 3: expected a value, got ']'"},
    {LITERAL("[1 2]"), "blob: offset 3: expected ',' or ']', got '2'"},
    {LITERAL("{\"a\":1,}"), "blob: offset 7: expected a key, got '}'"},
    {LITERAL("{\"a\":1]"), "blob: offset 6: expected ',' or '}', got ']'"},
    {LITERAL("{\"a\" 1}"), "blob: offset 5: expected ':', got '1'"},
    {LITERAL("{a:1}"), "blob: offset 1: expected a key, got 'a'"},
    {LITERAL("[tru]"), "blob: offset 1: expected a value, got 't'"},
    {LITERAL("[True]"), "blob: offset 1: expected a value, got 'T'"},
    {LITERAL("[nullx]"), "blob: offset 5: expected ',' or ']', got 'x'"},
    {LITERAL("\"ab"),
     "blob: offset 3: expected '\"' to end the string begun at offset 0, got the end"},
    {LITERAL("\"a\nb\""), "blob: offset 2: expected a character of a string, got byte 0x0a"},
    {LITERAL("\"\\x\""),
     "blob: offset 2: expected an escape (one of \"\\/bfnrtu) after a backslash, got 'x'"},
    {LITERAL("\"\\"),
     "blob: offset 2: expected an escape (one of \"\\/bfnrtu) after a backslash, got the end"},
    {LITERAL("\"\\u00g0\""), "blob: offset 5: expected four hexadecimal digits after \\u, got 'g'"},
    {LITERAL("\"\\u00"), "blob: offset 5: expected four hexadecimal digits after \\u, got the end"},
    {LITERAL("\"a\\u0000\""), "blob: offset 2: expected no NUL in a string, got \\u0000"},
    {LITERAL("\"\\udc00\""), "blob: offset 1: expected a high surrogate first, got \\udc00"},
    {LITERAL("\"\\ud800\""), "blob: offset 1: expected a low surrogate after \\ud800, got none"},
    {LITERAL("\"\\ud800\\ud800\""),
     "blob: offset 1: expected a low surrogate after \\ud800, got \\ud800"},
    {LITERAL("\"\\ud800\\n\""), "blob: offset 1: expected a low surrogate after \\ud800, got none"},
    {LITERAL("\"\xc0\x80\""), "blob: offset 1: expected UTF-8 in a string, got byte 0xc0"},
    {LITERAL("\"\xed\xa0\x80\""), "blob: offset 1: expected UTF-8 in a string, got byte 0xed"},
    {LITERAL("\"\xf4\x90\x80\x80\""), "blob: offset 1: expected UTF-8 in a string, got byte 0xf4"},
    {LITERAL("\"\xe2\x82"), "blob: offset 1: expected UTF-8 in a string, got byte 0xe2"},
    {LITERAL("[-1]"), "blob: offset 1: expected an integer 0 ... 2^53, got -1"},
    {LITERAL("[-0]"), "blob: offset 1: expected an integer 0 ... 2^53, got -0"},
    {LITERAL("[1.0]"), "blob: offset 1: expected an integer 0 ... 2^53, got 1.0"},
    {LITERAL("[1e2]"), "blob: offset 1: expected an integer 0 ... 2^53, got 1e2"},
    {LITERAL("[9007199254740993]"),
     "blob: offset 1: expected an integer 0 ... 2^53, got 9007199254740993"},
    {LITERAL("[18446744073709551617]"),
     "blob: offset 1: expected an integer 0 ... 2^53, got 18446744073709551617"},
    {LITERAL("[01]"), "blob: offset 1: expected a number without leading zeros, got '01'"},
    {LITERAL("[-]"), "blob: offset 2: expected a digit, got ']'"},
    {LITERAL("[1.]"), "blob: offset 3: expected a digit, got ']'"},
    {LITERAL("[1e+]"), "blob: offset 4: expected a digit, got ']'"},
    {LITERAL("[.5]"), "blob: offset 1: expected a value, got '.'"},
    {LITERAL("[+1]"), "blob: offset 1: expected a value, got '+'"},
    {LITERAL("[NaN]"), "blob: offset 1: expected a value, got 'N'"},
    {LITERAL("{\"ab\":1,\"\\u0061b\":2}"),
     "blob: offset 8: expected each key once, got 'ab' again (first at offset 1)"},
    {LITERAL("{\"\":{\"\":1},\"\":2}"),
     "blob: offset 11: expected each key once, got '' again (first at offset 1)"},
    {LITERAL("{\"\\n\":1,\"\\u000a\":2}"),
     "blob: offset 8: expected each key once, got '?' again (first at offset 1)"},
    {LITERAL("[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]"),
     "blob: offset 16: expected a depth of at most 16, got more"},
};

Test(json, refuses_and_says_what_and_where) {
    for (size_t i = 0; i < TSR_COUNT(refused); i++) {
        tsr_ctx ctx = {0};
        cJSON *root = NULL;
        cr_assert_eq(parse(&ctx, refused[i].text, refused[i].size, &strict, &root).code,
                     TSR_CORRUPT, "%s", refused[i].text);
        cr_assert_str_eq(ctx.error.text, refused[i].message);
        cr_assert_null(root);
    }
}

Test(json, numbers_where_they_are_allowed) {
    static const struct {
        const char *text;
        double value;
    } good[] = {{"-1", -1},         {"-0.5", -0.5},
                {"1e3", 1000},      {"2E-3", 0.002},
                {"1e-400", 0},      {"9e306", 9e306},
                {"1.25E+2", 125.0}, {"123456789012345678", 123456789012345678.0}};
    static const char *const bad[] = {
        "1e308",  "0e99999", "1e99999999999999999999",
        "-1e400", "1e",      "-",
        "00",     "-01",     "1234567890123456789012345678901234567890123456789012345678901"};
    for (size_t i = 0; i < TSR_COUNT(good); i++) {
        tsr_ctx ctx = {0};
        cJSON *root = NULL;
        cr_assert_eq(parse(&ctx, good[i].text, strlen(good[i].text), &numbers, &root).code, TSR_OK,
                     "%s", ctx.error.text);
        cr_assert_eq(root->valuedouble, good[i].value, "%s", good[i].text);
        tsr_json_destroy(root);
    }
    for (size_t i = 0; i < TSR_COUNT(bad); i++) {
        tsr_ctx ctx = {0};
        cJSON *root = NULL;
        cr_assert_eq(parse(&ctx, bad[i], strlen(bad[i]), &numbers, &root).code, TSR_DATA, "%s",
                     bad[i]);
        cr_assert_null(root);
    }
}

Test(json, tokens_are_counted) {
    tsr_ctx ctx = {0};
    cJSON *root = NULL;
    tsr_buffer text = {0};
    tsr_buffer_text(&text, "[0"); /* two tokens */
    for (int i = 2; i < TSR_JSON_TOKENS_MAX; i++) tsr_buffer_text(&text, ",0");
    tsr_buffer_text(&text, "]");
    cr_assert_eq(parse(&ctx, text.bytes, text.size_bytes, &strict, &root).code, TSR_OK);
    cr_assert_eq(cJSON_GetArraySize(root), TSR_JSON_TOKENS_MAX - 1);
    tsr_json_destroy(root);
    root = NULL;
    text.size_bytes--;
    tsr_buffer_text(&text, ",0]");
    cr_assert_eq(parse(&ctx, text.bytes, text.size_bytes, &strict, &root).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text,
                     "blob: offset 16777215: expected at most 8388608 tokens, got more");
    tsr_buffer_finish(&text);
}

/* 500,000 keys that differ only in their last bytes: comparing all pairs would take hours. */
Test(json, many_keys_are_checked_quickly) {
    tsr_ctx ctx = {0};
    cJSON *root = NULL;
    tsr_buffer text = {0};
    for (int i = 0; i < 500000; i++) tsr_buffer_printf(&text, "%s\"%060d\":0", i ? "," : "{", i);
    size_t size = text.size_bytes;
    tsr_buffer_text(&text, "}");
    clock_t begin = clock();
    cr_assert_eq(parse(&ctx, text.bytes, text.size_bytes, &strict, &root).code, TSR_OK);
    tsr_json_destroy(root);
    root = NULL;
    text.size_bytes = size;
    tsr_buffer_printf(&text, ",\"%060d\":0}", 0);
    cr_assert_eq(parse(&ctx, text.bytes, text.size_bytes, &strict, &root).code, TSR_CORRUPT);
    cr_assert(strstr(ctx.error.text, "again (first at offset 1)"));
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    cr_assert_lt(seconds, 5.0, "%.1f s", seconds);
    tsr_buffer_finish(&text);
}

typedef struct spelled {
    tsr_buffer text;
    size_t limit; /* number of tokens after which the visitor fails; 0: never */
} spelled;

static tsr_result spell(tsr_ctx *ctx, void *user, const tsr_json_event *event) {
    static const char *const kinds[] = {"{", "}", "[", "]", "key", "string", "number", "word"};
    spelled *s = user;
    tsr_buffer_printf(&s->text, "%u%s", event->depth, kinds[event->kind]);
    if (event->text) tsr_buffer_printf(&s->text, "(%.*s)", (int)event->size_bytes, event->text);
    tsr_buffer_text(&s->text, " ");
    if (s->limit && --s->limit == 0) FAIL(ctx, TSR_STATE, "enough");
    return TSR_SUCCESS;
}

Test(json, scan_reports_every_token) {
    static const char text[] = "{\"a\\u0041\": [1, 20, {}], \"b\": {\"c\": true}, \"d\": \"\\n\"}";
    static const char want[] = "0{ 1key(aA) 1[ 2number(1) 2number(20) 2{ 2} 1] 1key(b) 1{ 2key(c) "
                               "2word(true) 1} 1key(d) 1string(\n) 0} ";
    tsr_ctx ctx = {0};
    spelled s = {0};
    cr_assert_eq(tsr_json_scan(&ctx, text, strlen(text), &strict, spell, &s).code, TSR_OK);
    tsr_buffer_text(&s.text, "");
    cr_assert_eq(s.text.size_bytes, strlen(want));
    cr_assert_arr_eq(s.text.bytes, want, strlen(want));
    tsr_buffer_finish(&s.text);
    s = (spelled){.limit = 3};
    cr_assert_eq(tsr_json_scan(&ctx, text, strlen(text), &strict, spell, &s).code, TSR_STATE);
    tsr_buffer_finish(&s.text);
}

/* The keys of an object are compared with each other, regardless of the values between them. */
Test(json, duplicates_around_closed_objects) {
    static const char text[] = "{\"a\":{\"x\":{\"y\":1},\"z\":2},\"b\":[{\"a\":1},{\"a\":1}],"
                               "\"x\":3,\"a\":4}";
    tsr_ctx ctx = {0};
    cJSON *root = NULL;
    cr_assert_eq(parse(&ctx, text, strlen(text), &strict, &root).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text,
                     "blob: offset 53: expected each key once, got 'a' again (first at offset 1)");
}

/* cJSON must accept every text that the scan accepts (otherwise TSR_MEMORY is reported). */
Test(json, mutated_texts) {
    static const char seed_text[] = "{\"formatVersion\":\"1.0\",\"a\":[1,2,{\"b\":null,\"c\":"
                                    "\"\\u00e4\\ud83d\\ude00\xe2\x82\xac\"}],"
                                    "\"d\":{\"e\":true,\"f\":9007199254740992,\"g\":[[],{},\"\"]}}";
    static const char alphabet[] = "{}[]\",:\\u0019dce-+.tfn \x80\xc3\xf4\xed";
    uint64_t seed = 11;
    int accepted = 0;
    for (int i = 0; i < 200000; i++) {
        char text[sizeof seed_text];
        size_t size = sizeof seed_text - 1;
        memcpy(text, seed_text, sizeof text);
        for (uint32_t j = 0, count = 1 + random_below(&seed, 4); j < count; j++)
            text[random_below(&seed, (uint32_t)size)] =
                alphabet[random_below(&seed, sizeof alphabet - 1)];
        if (random_below(&seed, 4) == 0) size = random_below(&seed, (uint32_t)size);
        tsr_ctx ctx = {0};
        cJSON *root = NULL;
        tsr_code code = parse(&ctx, text, size, i % 2 ? &strict : &numbers, &root).code;
        cr_assert(code == TSR_OK || code == (i % 2 ? TSR_CORRUPT : TSR_DATA), "%s: %.*s",
                  ctx.error.text, (int)size, text);
        accepted += code == TSR_OK;
        tsr_json_destroy(root);
    }
    cr_assert_gt(accepted, 1000, "the mutations must leave some texts good: %d", accepted);
}

Test(json, members) {
    static const char text[] = "{\"s\":\"x\",\"n\":9007199254740992,\"o\":{\"k\":1},\"a\":[1,2,3],"
                               "\"z\":null,\"f\":-1.5}";
    tsr_ctx ctx = {0};
    cJSON *root = NULL;
    const cJSON *item;
    const char *string;
    uint64_t value;
    size_t count;
    cr_assert_eq(parse(&ctx, text, strlen(text), &numbers, &root).code, TSR_OK);
    cr_assert_eq(tsr_json_get_string(&ctx, root, "s", &strict, &string).code, TSR_OK);
    cr_assert_str_eq(string, "x");
    cr_assert_eq(tsr_json_get_u64(&ctx, root, "n", &strict, &value).code, TSR_OK);
    cr_assert_eq(value, UINT64_C(1) << 53);
    cr_assert_eq(tsr_json_get_object(&ctx, root, "o", &strict, &item).code, TSR_OK);
    cr_assert_not_null(tsr_json_find(item, "k"));
    cr_assert_eq(tsr_json_get_array(&ctx, root, "a", &strict, &item, &count).code, TSR_OK);
    cr_assert_eq(count, 3);
    cr_assert_null(tsr_json_find(root, "S"), "case matters");
    cr_assert_null(tsr_json_find(item, "s"), "an array has no members");
    cr_assert_eq(tsr_json_get_string(&ctx, root, "n", &strict, &string).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "blob: member 'n': expected a string, got a number");
    cr_assert_eq(tsr_json_get_u64(&ctx, root, "y", &strict, &value).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "blob: member 'y': expected an integer, got nothing");
    cr_assert_eq(tsr_json_get_u64(&ctx, root, "f", &numbers, &value).code, TSR_DATA);
    cr_assert_str_eq(ctx.error.text, "blob: member 'f': expected an integer 0 ... 2^53, got -1.5");
    cr_assert_eq(tsr_json_get_object(&ctx, root, "z", &strict, &item).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "blob: member 'z': expected an object, got null");
    cr_assert_eq(
        tsr_json_get_array(&ctx, tsr_json_find(root, "a"), "x", &strict, &item, &count).code,
        TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "blob: expected an object with member 'x', got an array");
    tsr_json_destroy(root);
}

/* Counts the valid UTF-8 strings, and compares with the number that follows from Unicode. */
Test(json, utf8_is_exact) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < 1u << 24; i++) {
        const char bytes[3] = {(char)(i >> 16), (char)(i >> 8), (char)i};
        count += tsr_utf8_valid(bytes, 3);
    }
    uint64_t one = 127, two = 0x800 - 0x80, three = 0x10000 - 0x800 - 0x800; /* no surrogates */
    cr_assert_eq(count, one * one * one + 2 * one * two + three);
    static const char edges[] = "\x01\x7f\x80\xbf\xc0\xff";
    count = 0;
    for (uint32_t i = 0; i < 16u << 8; i++)
        for (int j = 0; j < 36; j++) {
            const char bytes[4] = {(char)(0xf0 + (i >> 8)), (char)i, edges[j / 6], edges[j % 6]};
            count += tsr_utf8_valid(bytes, 4);
        }
    cr_assert_eq(count, (0x110000 - 0x10000) / 64 / 64 * 2 * 2);
    cr_assert(tsr_utf8_valid("", 0));
    cr_assert_not(tsr_utf8_valid("a\0b", 3));
}
