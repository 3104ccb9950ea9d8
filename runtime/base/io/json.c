/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: one loop walks the text with an explicit stack (no recursion), checks the grammar of RFC
 * 8259 and the limits of json.h, and reports each token to the visitor. The keys of all open
 * objects form a stack. When an object closes, its keys are the top of that stack: they are sorted
 * to find duplicates, then dropped. The cost is therefore O(n log n), and only open objects take
 * memory. tsr_json_parse passes scanned text to cJSON, which on its own would also accept text that
 * the scan refuses.
 */
#include "runtime/base/io/json.h"

#include "runtime/base/array.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_CHARS_MAX = 60,     /* cJSON truncates longer ones */
    NUMBER_EXPONENT_MAX = 308, /* |x| < 10^308 */
    QUOTE_MAX = 64,            /* bytes of a key in a message */
};
static const uint64_t integer_max = UINT64_C(1) << 53;

typedef struct key_record {
    uint32_t text, size; /* position of the decoded key in scan.decoded */
    uint32_t offset;     /* offset in the text, for the message */
} key_record;

typedef struct level {
    bool is_object;
    size_t key_first;     /* index of its first key in scan.keys */
    size_t decoded_first; /* offset of its first key in scan.decoded */
} level;

typedef struct scan {
    tsr_ctx *ctx;
    const tsr_json_options *options;
    tsr_json_visit *visit; /* NULL: tokens are counted instead */
    void *user;
    const unsigned char *text;
    size_t size, at;
    uint32_t token_count, depth;
    level levels[TSR_JSON_DEPTH_MAX];
    char *decoded; /* owned; the keys of open objects without escapes, one after the other */
    size_t decoded_size;
    key_record *keys; /* owned; keys of open objects, the innermost last */
    size_t key_count, key_capacity;
} scan;

/* The text at the current position, for a message. */
typedef struct found_text {
    char text[24];
} found_text;

static found_text found_here(const scan *s) {
    found_text found;
    if (s->at >= s->size)
        snprintf(found.text, sizeof found.text, "the end");
    else if (s->text[s->at] >= 0x20 && s->text[s->at] < 0x7f)
        snprintf(found.text, sizeof found.text, "'%c'", s->text[s->at]);
    else
        snprintf(found.text, sizeof found.text, "byte 0x%02x", s->text[s->at]);
    return found;
}

#define SCAN_FAIL(s, offset, ...) return scan_fail((s), (offset), __LINE__, __VA_ARGS__)
__attribute__((format(printf, 4, 5))) static TSR_RESULT scan_fail(scan *s, size_t offset, int line,
                                                                  const char *format, ...) {
    char text[TSR_ERROR_TEXT_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tsr_fail_(s->ctx, s->options->code, 0, __FILE__, line, "%s: offset %zu: %s",
                     s->options->subject, offset, text);
}

static TSR_RESULT expected(scan *s, const char *what) {
    SCAN_FAIL(s, s->at, "expected %s, got %s", what, found_here(s).text);
}

static void skip_space(scan *s) {
    while (s->at < s->size && s->text[s->at] &&
           memchr(" \t\r\n", s->text[s->at], sizeof " \t\r\n" - 1))
        s->at++;
}

static TSR_RESULT count_token(scan *s) {
    if (!s->visit && ++s->token_count > TSR_JSON_TOKENS_MAX)
        SCAN_FAIL(s, s->at, "expected at most %d tokens, got more", TSR_JSON_TOKENS_MAX);
    return TSR_SUCCESS;
}

static TSR_RESULT report(scan *s, tsr_json_kind kind, const char *text, size_t size_bytes) {
    if (!s->visit) return TSR_SUCCESS;
    const tsr_json_event event = {kind, s->depth, text, size_bytes};
    return s->visit(s->ctx, s->user, &event);
}

/* Length of the well-formed UTF-8 sequence at `text` (Unicode 15, table 3-7), or 0. */
static size_t utf8_length(const unsigned char *text, size_t left) {
    unsigned char lead = text[0], low = 0x80, high = 0xbf;
    size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead > 0xf4 || length == 0 || length > left) return 0;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    for (size_t i = 1; i < length; i++) {
        if (text[i] < low || text[i] > high) return 0;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

bool tsr_utf8_valid(const char *text, size_t size_bytes) {
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t at = 0; at < size_bytes;) {
        size_t length = utf8_length(bytes + at, size_bytes - at);
        if (!length || bytes[at] == 0) return false;
        at += length;
    }
    return true;
}

static void put_code_point(scan *s, uint32_t code) {
    char *out = s->decoded + s->decoded_size;
    if (code < 0x80) {
        out[0] = (char)code;
        s->decoded_size += 1;
    } else if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        s->decoded_size += 2;
    } else if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 63));
        out[2] = (char)(0x80 | (code & 63));
        s->decoded_size += 3;
    } else {
        out[0] = (char)(0xf0 | code >> 18);
        out[1] = (char)(0x80 | (code >> 12 & 63));
        out[2] = (char)(0x80 | (code >> 6 & 63));
        out[3] = (char)(0x80 | (code & 63));
        s->decoded_size += 4;
    }
}

/* Scans four digits after `\u`. */
static TSR_RESULT scan_hex(scan *s, uint32_t *out_unit) {
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        unsigned char c = s->at < s->size ? s->text[s->at] : 0;
        if (c >= '0' && c <= '9')
            unit = unit << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            unit = unit << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return expected(s, "four hexadecimal digits after \\u");
    }
    *out_unit = unit;
    return TSR_SUCCESS;
}

static TSR_RESULT scan_unicode_escape(scan *s) {
    size_t begin = s->at - 2;
    uint32_t high = 0, low = 0;
    TRY(s->ctx, scan_hex(s, &high));
    if (high == 0) SCAN_FAIL(s, begin, "expected no NUL in a string, got \\u0000");
    if (high >= 0xdc00 && high <= 0xdfff)
        SCAN_FAIL(s, begin, "expected a high surrogate first, got \\u%04x", high);
    if (high < 0xd800 || high > 0xdbff) {
        put_code_point(s, high);
        return TSR_SUCCESS;
    }
    if (s->size - s->at < 2 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u')
        SCAN_FAIL(s, begin, "expected a low surrogate after \\u%04x, got none", high);
    s->at += 2;
    TRY(s->ctx, scan_hex(s, &low));
    if (low < 0xdc00 || low > 0xdfff)
        SCAN_FAIL(s, begin, "expected a low surrogate after \\u%04x, got \\u%04x", high, low);
    put_code_point(s, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
    return TSR_SUCCESS;
}

static TSR_RESULT scan_escape(scan *s) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    s->at++;
    if (s->at < s->size && s->text[s->at] == 'u') {
        s->at++;
        return scan_unicode_escape(s);
    }
    const char *name =
        s->at < s->size && s->text[s->at] ? strchr(names, (char)s->text[s->at]) : NULL;
    if (!name) return expected(s, "an escape (one of \"\\/bfnrtu) after a backslash");
    put_code_point(s, (uint32_t)values[name - names]);
    s->at++;
    return TSR_SUCCESS;
}

/* Scans a string at its opening quote. The decoded text of the string is appended to s->decoded. */
static TSR_RESULT scan_string(scan *s) {
    size_t begin = s->at++;
    TRY(s->ctx, count_token(s));
    while (s->at < s->size && s->text[s->at] != '"') {
        if (s->text[s->at] == '\\') {
            TRY(s->ctx, scan_escape(s));
            continue;
        }
        if (s->text[s->at] < 0x20) return expected(s, "a character of a string");
        size_t length = utf8_length(s->text + s->at, s->size - s->at);
        if (!length) return expected(s, "UTF-8 in a string");
        memcpy(s->decoded + s->decoded_size, s->text + s->at, length);
        s->decoded_size += length;
        s->at += length;
    }
    if (s->at >= s->size)
        SCAN_FAIL(s, s->at, "expected '\"' to end the string begun at offset %zu, got the end",
                  begin);
    s->at++;
    return TSR_SUCCESS;
}

/* Scans a key and its colon. */
static TSR_RESULT scan_key(scan *s) {
    skip_space(s);
    if (s->at >= s->size || s->text[s->at] != '"') return expected(s, "a key");
    if (s->key_count == s->key_capacity) {
        key_record *keys = tsr_grow(s->keys, &s->key_capacity, 64, sizeof *keys);
        if (!keys) FAIL(s->ctx, TSR_MEMORY, "no memory to read %s", s->options->subject);
        s->keys = keys;
    }
    key_record key = {.text = (uint32_t)s->decoded_size, .offset = (uint32_t)s->at};
    TRY(s->ctx, scan_string(s));
    key.size = (uint32_t)s->decoded_size - key.text;
    s->keys[s->key_count++] = key;
    TRY(s->ctx, report(s, TSR_JSON_KEY, s->decoded + key.text, key.size));
    skip_space(s);
    if (s->at >= s->size || s->text[s->at] != ':') return expected(s, "':'");
    s->at++;
    return TSR_SUCCESS;
}

static size_t skip_digits(scan *s) {
    size_t begin = s->at;
    while (s->at < s->size && s->text[s->at] >= '0' && s->text[s->at] <= '9') s->at++;
    return s->at - begin;
}

/* Scans the sign and digits of an exponent, after its `e`. */
static TSR_RESULT scan_exponent(scan *s, int64_t *out_exponent) {
    bool negative = s->at < s->size && s->text[s->at] == '-';
    if (s->at < s->size && (s->text[s->at] == '-' || s->text[s->at] == '+')) s->at++;
    size_t begin = s->at;
    if (!skip_digits(s)) return expected(s, "a digit");
    int64_t exponent = 0;
    for (size_t i = begin; i < s->at && exponent < 100000; i++)
        exponent = exponent * 10 + (s->text[i] - '0');
    *out_exponent = negative ? -exponent : exponent;
    return TSR_SUCCESS;
}

static TSR_RESULT scan_number(scan *s) {
    size_t begin = s->at, whole;
    int64_t exponent = 0;
    bool plain = s->text[s->at] != '-';
    TRY(s->ctx, count_token(s));
    if (!plain) s->at++;
    size_t first = s->at;
    whole = skip_digits(s);
    if (!whole) return expected(s, "a digit");
    if (whole > 1 && s->text[first] == '0')
        SCAN_FAIL(s, first, "expected a number without leading zeros, got '0%c'",
                  s->text[first + 1]);
    if (s->at < s->size && s->text[s->at] == '.') {
        plain = false;
        s->at++;
        if (!skip_digits(s)) return expected(s, "a digit");
    }
    if (s->at < s->size && (s->text[s->at] == 'e' || s->text[s->at] == 'E')) {
        plain = false;
        s->at++;
        TRY(s->ctx, scan_exponent(s, &exponent));
    }
    if (s->at - begin > NUMBER_CHARS_MAX)
        SCAN_FAIL(s, begin, "expected a number of at most %d characters, got %zu", NUMBER_CHARS_MAX,
                  s->at - begin);
    int shown = (int)(s->at - begin);
    const char *number = (const char *)s->text + begin;
    if (s->options->allow_numbers) {
        if (exponent + (int64_t)whole > NUMBER_EXPONENT_MAX)
            SCAN_FAIL(s, begin, "expected a number below 1e%d, got %.*s", NUMBER_EXPONENT_MAX,
                      shown, number);
        return TSR_SUCCESS;
    }
    uint64_t value = 0;
    for (size_t i = begin; plain && i < s->at && value <= integer_max; i++)
        value = value * 10 + (uint64_t)(s->text[i] - '0');
    if (!plain || value > integer_max)
        SCAN_FAIL(s, begin, "expected an integer 0 ... 2^53, got %.*s", shown, number);
    return TSR_SUCCESS;
}

static bool take_word(scan *s, const char *word) {
    size_t length = strlen(word);
    if (s->size - s->at < length || memcmp(s->text + s->at, word, length) != 0) return false;
    s->at += length;
    return true;
}

static TSR_RESULT open_container(scan *s, bool is_object) {
    TRY(s->ctx, count_token(s));
    if (s->depth == TSR_JSON_DEPTH_MAX)
        SCAN_FAIL(s, s->at, "expected a depth of at most %d, got more", TSR_JSON_DEPTH_MAX);
    TRY(s->ctx, report(s, is_object ? TSR_JSON_OBJECT : TSR_JSON_ARRAY, NULL, 0));
    s->levels[s->depth++] = (level){is_object, s->key_count, s->decoded_size};
    s->at++;
    return TSR_SUCCESS;
}

/* Consumes a scalar completely; opens a container. */
static TSR_RESULT scan_value(scan *s, bool *out_opened) {
    skip_space(s);
    *out_opened = false;
    size_t begin = s->at, decoded_before = s->decoded_size;
    unsigned char c = s->at < s->size ? s->text[s->at] : 0;
    const char *text = (const char *)s->text + begin;
    if (c == '"') {
        TRY(s->ctx, scan_string(s));
        TRY(s->ctx, report(s, TSR_JSON_STRING, s->decoded + decoded_before,
                           s->decoded_size - decoded_before));
        s->decoded_size = decoded_before;
        return TSR_SUCCESS;
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        TRY(s->ctx, scan_number(s));
        return report(s, TSR_JSON_NUMBER, text, s->at - begin);
    }
    if (c == '{' || c == '[') {
        *out_opened = true;
        return open_container(s, c == '{');
    }
    if (take_word(s, "true") || take_word(s, "false") || take_word(s, "null")) {
        TRY(s->ctx, count_token(s));
        return report(s, TSR_JSON_WORD, text, s->at - begin);
    }
    return expected(s, "a value");
}

static int compare_keys(const void *a, const void *b, void *decoded) {
    const key_record *x = a, *y = b;
    const char *text = decoded;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    int order = memcmp(text + x->text, text + y->text, x->size);
    if (order) return order;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static TSR_RESULT check_duplicates(scan *s, key_record *keys, size_t count) {
    if (count < 2) return TSR_SUCCESS;
    qsort_r(keys, count, sizeof *keys, compare_keys, s->decoded);
    for (size_t i = 1; i < count; i++) {
        const key_record *a = &keys[i - 1], *b = &keys[i];
        if (a->size != b->size || memcmp(s->decoded + a->text, s->decoded + b->text, a->size) != 0)
            continue;
        char shown[QUOTE_MAX + 1];
        size_t length = b->size < QUOTE_MAX ? b->size : QUOTE_MAX;
        for (size_t j = 0; j < length; j++) {
            char c = s->decoded[b->text + j];
            shown[j] = c >= 0x20 && c < 0x7f ? c : '?';
        }
        shown[length] = 0;
        SCAN_FAIL(s, b->offset, "expected each key once, got '%s' again (first at offset %u)",
                  shown, a->offset);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT take_closer(scan *s, bool *out_taken) {
    const level *top = &s->levels[s->depth - 1];
    skip_space(s);
    *out_taken = s->at < s->size && s->text[s->at] == (top->is_object ? '}' : ']');
    if (!*out_taken) return TSR_SUCCESS;
    size_t key_count = s->key_count - top->key_first;
    if (key_count) TRY(s->ctx, check_duplicates(s, s->keys + top->key_first, key_count));
    s->key_count = top->key_first;
    s->decoded_size = top->decoded_first;
    s->at++;
    s->depth--;
    return report(s, top->is_object ? TSR_JSON_OBJECT_END : TSR_JSON_ARRAY_END, NULL, 0);
}

static TSR_RESULT scan_document(scan *s) {
    for (;;) {
        bool opened, closed = true;
        TRY(s->ctx, scan_value(s, &opened));
        if (opened) {
            TRY(s->ctx, take_closer(s, &closed));
            if (!closed && s->levels[s->depth - 1].is_object) TRY(s->ctx, scan_key(s));
            if (!closed) continue;
        }
        for (closed = true; closed && s->depth;) TRY(s->ctx, take_closer(s, &closed));
        skip_space(s);
        if (s->depth == 0) {
            if (s->at < s->size) return expected(s, "the end");
            return TSR_SUCCESS;
        }
        bool object = s->levels[s->depth - 1].is_object;
        if (s->at >= s->size || s->text[s->at] != ',')
            return expected(s, object ? "',' or '}'" : "',' or ']'");
        s->at++;
        if (object) TRY(s->ctx, scan_key(s));
    }
}

tsr_result tsr_json_scan(tsr_ctx *ctx, const char *text, size_t size_bytes,
                         const tsr_json_options *options, tsr_json_visit *visit, void *user) {
    tsr_result result = TSR_SUCCESS;
    scan s = {.ctx = ctx,
              .options = options,
              .visit = visit,
              .user = user,
              .text = (const unsigned char *)text,
              .size = size_bytes};
    if (size_bytes > UINT32_MAX)
        FAIL(ctx, options->code, "%s: expected at most %u bytes of JSON, got %zu", options->subject,
             UINT32_MAX, size_bytes);
    s.decoded = malloc(size_bytes ? size_bytes : 1); /* never longer than the text */
    if (!s.decoded)
        FAIL(ctx, TSR_MEMORY, "no memory for the %zu bytes of %s", size_bytes, options->subject);
    result = scan_document(&s);
    free(s.keys);
    free(s.decoded);
    return result;
}

tsr_result tsr_json_parse(tsr_ctx *ctx, const char *text, size_t size_bytes,
                          const tsr_json_options *options, struct cJSON **out_root) {
    TRY(ctx, tsr_json_scan(ctx, text, size_bytes, options, NULL, NULL));
    cJSON *root = cJSON_ParseWithLength(text, size_bytes);
    /* The scan accepts only JSON, so only an allocation can have failed. */
    if (!root) FAIL(ctx, TSR_MEMORY, "no memory to read %s", options->subject);
    *out_root = root;
    return TSR_SUCCESS;
}

void tsr_json_destroy(struct cJSON *root) { cJSON_Delete(root); }

const struct cJSON *tsr_json_find(const struct cJSON *object, const char *key) {
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

static const char *type_text(const cJSON *item) {
    if (cJSON_IsObject(item)) return "an object";
    if (cJSON_IsArray(item)) return "an array";
    if (cJSON_IsString(item)) return "a string";
    if (cJSON_IsNumber(item)) return "a number";
    if (cJSON_IsBool(item)) return "a boolean";
    return cJSON_IsNull(item) ? "null" : "nothing";
}

static TSR_RESULT get(tsr_ctx *ctx, const cJSON *object, const char *key,
                      const tsr_json_options *options, int type, const char *wanted,
                      const cJSON **out_item) {
    if (!cJSON_IsObject(object))
        FAIL(ctx, options->code, "%s: expected an object with member '%s', got %s",
             options->subject, key, type_text(object));
    const cJSON *item = tsr_json_find(object, key);
    if (!item || (item->type & 0xff) != type)
        FAIL(ctx, options->code, "%s: member '%s': expected %s, got %s", options->subject, key,
             wanted, type_text(item));
    *out_item = item;
    return TSR_SUCCESS;
}

tsr_result tsr_json_get_string(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                               const tsr_json_options *options, const char **out_text) {
    const cJSON *item = NULL;
    TRY(ctx, get(ctx, object, key, options, cJSON_String, "a string", &item));
    *out_text = item->valuestring;
    return TSR_SUCCESS;
}

tsr_result tsr_json_get_u64(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                            const tsr_json_options *options, uint64_t *out_value) {
    const cJSON *item = NULL;
    TRY(ctx, get(ctx, object, key, options, cJSON_Number, "an integer", &item));
    double value = item->valuedouble;
    if (!(value >= 0 && value <= (double)integer_max) || value != (double)(uint64_t)value)
        FAIL(ctx, options->code, "%s: member '%s': expected an integer 0 ... 2^53, got %.17g",
             options->subject, key, value);
    *out_value = (uint64_t)value;
    return TSR_SUCCESS;
}

tsr_result tsr_json_get_object(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                               const tsr_json_options *options, const struct cJSON **out_object) {
    TRY(ctx, get(ctx, object, key, options, cJSON_Object, "an object", out_object));
    return TSR_SUCCESS;
}

tsr_result tsr_json_get_array(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                              const tsr_json_options *options, const struct cJSON **out_array,
                              size_t *out_count) {
    TRY(ctx, get(ctx, object, key, options, cJSON_Array, "an array", out_array));
    *out_count = (size_t)cJSON_GetArraySize(*out_array);
    return TSR_SUCCESS;
}
