/* SPDX-License-Identifier: Apache-2.0
 *
 * Files written by the safetensors package are read in reference_safetensors.py.
 */
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/data/array_file.h"
#include "tests/data/files.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static files dir;
static tsr_arena arena;
static void setup(void) { files_init(&dir); }
static void teardown(void) {
    files_finish(&dir);
    tsr_arena_finish(&arena);
}
TestSuite(safetensors, .init = setup, .fini = teardown);

static float weights[6] = {1, 2, 3, 4, 5, 6};
static double moments[2] = {0.5, -0.5};
static uint8_t flags[3] = {1, 0, 1};
static int64_t step = -7;

static const tsr_tensor tensors[] = {
    {"z.flags", TSR_DTYPE_I1, {1, {3}}, flags},
    {"b \"quoted\" \xc3\xa9", TSR_DTYPE_F32, {2, {2, 3}}, weights},
    {"m", TSR_DTYPE_F64, {1, {2}}, moments},
    {"step", TSR_DTYPE_I64, {0, {0}}, &step},
    {"empty", TSR_DTYPE_F32, {2, {0, 3}}, NULL},
};
enum { TENSOR_COUNT = TSR_COUNT(tensors) };
static const char *const metadata[] = {"format", "tessera", "a", "<\"&\n>", NULL};

static void decode(const void *bytes, size_t size, tsr_safetensors *out) {
    tsr_ctx ctx = {0};
    expect_success(
        &ctx, tsr_safetensors_decode(&ctx, bytes, size, size, "blob", TSR_CORRUPT, &arena, out));
}

Test(safetensors, encode_decode) {
    tsr_ctx ctx = {0};
    for (size_t align = 8; align <= 65536; align *= 8192) {
        void *bytes = NULL;
        size_t size = 0;
        tsr_safetensors index;
        expect_success(&ctx, tsr_safetensors_encode(&ctx, tensors, TENSOR_COUNT, align, metadata,
                                                    &arena, &bytes, &size));
        decode(bytes, size, &index);
        cr_assert_eq(index.data_offset_bytes % align, 0);
        cr_assert_eq(index.entry_count, TENSOR_COUNT);
        uint64_t total = 0;
        for (size_t i = 0; i < TENSOR_COUNT; i++) {
            const tsr_safetensors_entry *entry = &index.entries[i];
            const tsr_tensor *tensor = tensors;
            while (strcmp(tensor->name, entry->name) != 0) tensor++;
            cr_assert_eq(entry->dtype, tensor->dtype);
            cr_assert(tsr_shape_equal(&entry->shape, &tensor->shape));
            cr_assert_eq(entry->offset_bytes % tsr_dtype_size(entry->dtype), 0);
            if (entry->size_bytes)
                cr_assert_arr_eq((char *)bytes + entry->offset_bytes, (char *)tensor->data,
                                 entry->size_bytes);
            if (i) cr_assert_lt(strcmp(entry[-1].name, entry->name), 0);
            total += entry->size_bytes;
        }
        cr_assert_eq(index.data_offset_bytes + total, size);
    }
}

/* The bytes depend on the tensors, but not on their order. */
Test(safetensors, canonical) {
    tsr_ctx ctx = {0};
    tsr_tensor reversed[TENSOR_COUNT];
    void *a = NULL, *b = NULL;
    size_t a_size = 0, b_size = 0;
    for (size_t i = 0; i < TENSOR_COUNT; i++) reversed[i] = tensors[TENSOR_COUNT - 1 - i];
    expect_success(
        &ctx, tsr_safetensors_encode(&ctx, tensors, TENSOR_COUNT, 64, NULL, &arena, &a, &a_size));
    expect_success(
        &ctx, tsr_safetensors_encode(&ctx, reversed, TENSOR_COUNT, 64, NULL, &arena, &b, &b_size));
    cr_assert_eq(a_size, b_size);
    cr_assert_arr_eq((char *)a, (char *)b, a_size);
}

Test(safetensors, write_then_open) {
    tsr_ctx ctx = {0};
    char text[220];
    expect_success(&ctx, tsr_safetensors_write(&ctx, files_path(&dir, "p.safetensors"), tensors,
                                               TENSOR_COUNT, metadata));
    cr_assert_eq(files_count(&dir), 1);
    for (size_t i = 0; i < TENSOR_COUNT; i++) {
        tsr_array *array = NULL;
        unsigned char got[sizeof weights];
        uint64_t count = 0;
        strcpy(text, files_path(&dir, "p.safetensors:"));
        strcat(text, tensors[i].name);
        expect_success(&ctx, tsr_array_open(&ctx, text, TSR_DTYPE_NONE, &array));
        cr_assert_eq(tsr_array_get_dtype(array), tensors[i].dtype);
        cr_assert(tsr_shape_equal(tsr_array_get_shape(array), &tensors[i].shape));
        tsr_shape_count(&tensors[i].shape, &count);
        expect_success(&ctx, tsr_array_read(&ctx, array, 0, count, got));
        if (count)
            cr_assert_arr_eq(got, (unsigned char *)tensors[i].data,
                             count * tsr_dtype_size(tensors[i].dtype));
        tsr_array_close(&ctx, array);
    }
    tsr_array *array = NULL;
    expect_error(&ctx,
                 tsr_array_open(&ctx, files_path(&dir, "p.safetensors:n"), TSR_DTYPE_NONE, &array),
                 TSR_DATA, "no such tensor; the file has: b \"quoted\" \xc3\xa9, empty, m, step");
    expect_error(&ctx,
                 tsr_array_open(&ctx, files_path(&dir, "p.safetensors"), TSR_DTYPE_NONE, &array),
                 TSR_DATA, "name a tensor as FILE.safetensors:NAME");
}

Test(safetensors, nothing_to_write) {
    tsr_ctx ctx = {0};
    void *bytes = NULL;
    size_t size = 0;
    tsr_safetensors index;
    expect_success(&ctx, tsr_safetensors_encode(&ctx, NULL, 0, 8, NULL, &arena, &bytes, &size));
    decode(bytes, size, &index);
    cr_assert_eq(index.entry_count, 0);
    tsr_tensor twice[2] = {tensors[0], tensors[0]};
    expect_error(&ctx, tsr_safetensors_encode(&ctx, twice, 2, 8, NULL, &arena, &bytes, &size),
                 TSR_USAGE, "two tensors have the name 'z.flags'");
    static const char *const names[] = {"", "__metadata__", "\xff"};
    for (size_t i = 0; i < 3; i++) {
        tsr_tensor bad = tensors[0];
        bad.name = names[i];
        expect_error(&ctx, tsr_safetensors_encode(&ctx, &bad, 1, 8, NULL, &arena, &bytes, &size),
                     TSR_USAGE, "tensors[0] has the name");
    }
}

static tsr_result decode_index(tsr_ctx *ctx, const char *text, size_t data_bytes,
                               tsr_safetensors *out_index) {
    tsr_buffer blob = {0};
    tsr_buffer_u64(&blob, strlen(text));
    tsr_buffer_text(&blob, text);
    tsr_result result =
        tsr_safetensors_decode(ctx, blob.bytes, blob.size_bytes, blob.size_bytes + data_bytes,
                               "blob", TSR_CORRUPT, &arena, out_index);
    tsr_buffer_finish(&blob);
    return result;
}

static tsr_result decode_text(tsr_ctx *ctx, const char *text, size_t data_bytes) {
    tsr_safetensors index;
    return decode_index(ctx, text, data_bytes, &index);
}

#define ENTRY(name, dtype, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end   \
    "]}"

#define LONG "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(safetensors, refused_headers) {
    static const struct {
        const char *text;
        size_t data_bytes;
        const char *message;
    } rows[] = {
        {"", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{}", 1, "has 1 byte of data; its tensors need 0"},
        {"{" ENTRY("a", "F32", "[2]", "0", "8") "}", 7, "has 7 bytes of data; its tensors need 8"},
        {"{" ENTRY("a", "F32", "[2]", "0", "4") "}", 4,
         "tensor 'a' has the data offsets 0 to 4; 2xf32 needs 8 bytes"},
        {"{" ENTRY("a", "F32", "[2]", "8", "0") "}", 8, "data offsets 8 to 0"},
        {"{" ENTRY("a", "F32", "[2]", "4", "12") "}", 12,
         "begins at byte 4 of the data; expected 0"},
        {"{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "0", "4") "}", 4,
         "tensor 'b' begins at byte 0 of the data; expected 4"},
        {"{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "8", "12") "}", 12,
         "tensor 'b' begins at byte 8 of the data; expected 4"},
        {"{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("a", "F32", "[1]", "4", "8") "}", 8, "a"},
        {"{" ENTRY("a", "F32", "[4294967296,4294967296]", "0", "4") "}", 4, "too large"},
        {"{" ENTRY("a", "F32", "[-1]", "0", "4") "}", 4, "blob"},
        {"{" ENTRY("a", "F32", "[1.5]", "0", "4") "}", 4, "blob"},
        {"{" ENTRY("a", "F32", "[\"1\"]", "0", "4") "}", 4, "is not a list of numbers"},
        {"{" ENTRY("a", "F32", "1", "0", "4") "}", 4, "shape"},
        {"{" ENTRY("a", "F32", "[1]", "0", "4,4") "}", 4, "not a pair"},
        {"{" ENTRY("a", "F32", "[1]", "null", "4") "}", 4, "not a pair"},
        {"{\"a\":1}", 0, "expected an object of dtype, shape, data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
         "expected an object of"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4, "data_offsets"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "not an object of strings"},
        {"{\"__metadata__\":[]}", 0, "not an object of strings"},
        {"{\"__metadata__\":{\"a\":[]}}", 0, "not an object of strings"},
        {"{" ENTRY("a", "F32", "[[1]]", "0", "4") "}", 4, "is not a list of numbers"},
        {"{" ENTRY("a", "F32", "{}", "0", "4") "}", 4, "'shape' is not an array"},
        {"{" ENTRY("a", "F32\",\"dtype\":\"F32", "[1]", "0", "4") "}", 4, "expected each key once"},
        {"{\"a\":{\"dtype\":[\"F32\"],\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "'dtype' is not a string"},
        {"{" ENTRY("a", "U16", "[1]", "2", "0") "}", 2, "has the data offsets 2 to 0"},
        {"{" ENTRY("a", "U16", "[1]", "0", "2") "," ENTRY("b", "F32", "[1]", "1", "5") "}", 5,
         "tensor 'b' begins at byte 1 of the data; expected 2"},
        {"{}x", 0, "blob"},
        {"{", 0, "blob"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_ctx ctx = {0};
        expect_error(&ctx, decode_text(&ctx, rows[i].text, rows[i].data_bytes), TSR_CORRUPT,
                     rows[i].message);
    }
    tsr_ctx ctx = {0};
    expect_success(&ctx, decode_text(&ctx, "{" ENTRY("a", "F32", "[1]", "0", "4") "}   ", 4));
    expect_success(&ctx, decode_text(&ctx, "{\"__metadata__\":{\"a\":\"b\"}}", 0));
}

/* Each file also has a usable tensor. */
Test(safetensors, unusable_tensors_refuse_their_use_alone) {
    static const struct {
        const char *entry, *message;
    } rows[] = {
        {ENTRY("a", "U2", "[2]", "0", "4"), "tensor 'a' has the dtype 'U2'; expected one of"},
        {ENTRY("a", "C64", "[3]", "0", "4"), "tensor 'a' has the dtype 'C64'; expected one of"},
        {ENTRY("a", "", "[]", "0", "4"), "tensor 'a' has the dtype ''; expected one of"},
        {ENTRY("a", "F4", "[1,2,3,4,5,6,7,8,9]", "0", "4"), "tensor 'a' has the dtype 'F4'"},
        {ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4"),
         "tensor 'a': 'shape' has 9 dimensions; at most 8"},
        {ENTRY("", "F32", "[1]", "0", "4"), "0 bytes; expected 1 to 255"},
        {ENTRY(LONG LONG LONG LONG, "F32", "[1]", "0", "4"), "256 bytes; expected 1 to 255"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_ctx ctx = {0};
        tsr_safetensors index;
        char text[1024];
        snprintf(text, sizeof text, "{%s,%s}", rows[i].entry, ENTRY("x", "F32", "[2]", "4", "12"));
        expect_success(&ctx, decode_index(&ctx, text, 12, &index));
        cr_assert_eq(index.entry_count, 2);
        const tsr_safetensors_entry *used = &index.entries[1], *unusable = &index.entries[0];
        cr_assert_str_eq(used->name, "x");
        cr_assert_eq(used->dtype, TSR_DTYPE_F32);
        cr_assert_eq(used->offset_bytes, index.data_offset_bytes + 4);
        cr_assert_eq(unusable->size_bytes, 4);
        expect_success(&ctx, tsr_safetensors_check_entry(&ctx, used, "blob", TSR_DATA));
        expect_error(&ctx, tsr_safetensors_check_entry(&ctx, unusable, "blob", TSR_DATA), TSR_DATA,
                     rows[i].message);
        expect_error(&ctx, tsr_safetensors_check(&ctx, &index, "blob", TSR_CORRUPT), TSR_CORRUPT,
                     rows[i].message);
    }
}

/* A header of nearly 100 MB, the maximum: about 1,100,000 tensors. */
Test(safetensors, header_of_the_greatest_size) {
    tsr_ctx ctx = {0};
    tsr_safetensors index;
    tsr_buffer text = {0};
    size_t count = 0;
    tsr_buffer_text(&text, "{");
    for (; text.size_bytes < TSR_SAFETENSORS_HEADER_MAX - 200; count++)
        tsr_buffer_printf(&text,
                          "%s\"model.layers.%zu.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
                          "\"data_offsets\":[%zu,%zu]}",
                          count ? "," : "", count, 4 * count, 4 * count + 4);
    tsr_buffer_text(&text, "}");
    cr_assert_gt(count, 1000000);
    clock_t begin = clock();
    expect_success(&ctx, decode_index(&ctx, text.bytes, 4 * count, &index));
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    cr_assert_eq(index.entry_count, count);
    cr_assert_str_eq(index.entries[0].name, "model.layers.0.weight");
    cr_assert_eq(index.entries[0].offset_bytes, index.data_offset_bytes);
    /* Comparing all pairs of keys would take an hour. */
    cr_assert_lt(seconds, 30.0, "%.1f s", seconds);
    tsr_buffer_finish(&text);
}

Test(safetensors, lengths) {
    tsr_ctx ctx = {0};
    tsr_safetensors index;
    const unsigned char blob[10] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    static const struct {
        size_t size;
        uint64_t blob_size;
        unsigned char first, last;
        const char *message;
    } rows[] = {
        {7, 7, 2, 0, "has 7 bytes; a safetensors file has at least 8"},
        {10, 9, 2, 0, "has 9 bytes; its header ends at byte 10"},
        {9, 10, 2, 0, "9 bytes were read; its header ends at byte 10"},
        {10, 10, 2, 0x80, "header of 9223372036854775810 bytes; at most 100000000"},
        {10, 10, 3, 0, "has 10 bytes; its header ends at byte 11"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        unsigned char *copy = malloc(rows[i].size); /* a sanitizer detects reads past it */
        memcpy(copy, blob, rows[i].size);
        copy[0] = rows[i].first;
        if (rows[i].size > 7) copy[7] = rows[i].last;
        expect_error(&ctx,
                     tsr_safetensors_decode(&ctx, copy, rows[i].size, rows[i].blob_size, "blob",
                                            TSR_CORRUPT, &arena, &index),
                     TSR_CORRUPT, rows[i].message);
        free(copy);
    }
}

Test(safetensors, truncated_and_flipped) {
    tsr_ctx ctx = {0};
    unsigned char *bytes = NULL;
    size_t size = 0;
    tsr_array *array = NULL;
    expect_success(
        &ctx, tsr_safetensors_write(&ctx, files_path(&dir, "p.safetensors"), tensors + 1, 2, NULL));
    files_read(&dir, "p.safetensors", &bytes, &size);
    for (size_t size_left = 0; size_left < size; size_left++) {
        files_write(&dir, "q.safetensors", bytes, size_left);
        expect_error(
            &ctx, tsr_array_open(&ctx, files_path(&dir, "q.safetensors:m"), TSR_DTYPE_NONE, &array),
            TSR_DATA, size_left ? " byte" : "is empty");
    }
    for (size_t bit = 0; bit < (size - sizeof weights - sizeof moments) * 8; bit++) {
        double got[6];
        uint64_t count = 0;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        files_write(&dir, "q.safetensors", bytes, size);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        tsr_result result =
            tsr_array_open(&ctx, files_path(&dir, "q.safetensors:m"), TSR_DTYPE_NONE, &array);
        cr_assert(result.code == TSR_OK || result.code == TSR_DATA, "%s", ctx.error.text);
        if (result.code) continue;
        cr_assert(tsr_shape_count(tsr_array_get_shape(array), &count));
        cr_assert_eq(count * tsr_dtype_size(tsr_array_get_dtype(array)), sizeof moments);
        expect_success(&ctx, tsr_array_read(&ctx, array, 0, count, got));
        tsr_array_close(&ctx, array);
    }
    free(bytes);
}
