/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/buffer.h"
#include "tests/base/random.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(buffer, grows_and_stays_terminated) {
    tsr_buffer buffer = {0};
    char *want = calloc(1, 100000);
    size_t size = 0;
    uint64_t seed = 9;
    for (int i = 0; i < 2000; i++) {
        char piece[64];
        size_t length = random_below(&seed, sizeof piece);
        memset(piece, 'a' + i % 26, sizeof piece);
        tsr_buffer_append(&buffer, piece, length);
        memcpy(want + size, piece, length);
        size += length;
        cr_assert_eq(buffer.bytes[buffer.size_bytes], 0);
    }
    cr_assert_eq(buffer.size_bytes, size);
    cr_assert_arr_eq(buffer.bytes, want, size);
    cr_assert_not(buffer.failed);
    free(want);
    tsr_buffer_finish(&buffer);
    cr_assert_null(buffer.bytes);
    tsr_buffer_finish(NULL);
}

Test(buffer, appending_nothing_gives_an_empty_text) {
    tsr_buffer buffer = {0};
    tsr_buffer_append(&buffer, NULL, 0);
    cr_assert_str_eq(buffer.bytes, "");
    tsr_buffer_finish(&buffer);
}

Test(buffer, printf_of_any_length) {
    tsr_buffer buffer = {0};
    for (int width = 1; width < 3000; width += 7) {
        buffer.size_bytes = 0;
        tsr_buffer_printf(&buffer, "<%*d>", width, 5);
        cr_assert_eq(buffer.size_bytes, (size_t)width + 2);
        cr_assert_eq(buffer.bytes[width], '5');
        cr_assert_str_eq(buffer.bytes + width, "5>");
    }
    tsr_buffer_finish(&buffer);
}

Test(buffer, integers_are_little_endian) {
    tsr_buffer buffer = {0};
    tsr_buffer_u32(&buffer, 0x04030201);
    tsr_buffer_u64(&buffer, UINT64_C(0x0c0b0a0908070605));
    cr_assert_eq(buffer.size_bytes, 12);
    for (int i = 0; i < 12; i++) cr_assert_eq(buffer.bytes[i], i + 1);
    tsr_buffer_finish(&buffer);
}

/* cJSON parses the written string back to the original. */
Test(buffer, json_strings_survive) {
    char text[4096];
    size_t size = 0;
    for (int c = 1; c < 128; c++) text[size++] = (char)c;
    strcpy(text + size, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 <>&/ \"\\ end");
    tsr_buffer buffer = {0};
    tsr_buffer_json_string(&buffer, text);
    cJSON *json = cJSON_Parse(buffer.bytes);
    cr_assert(cJSON_IsString(json));
    cr_assert_str_eq(json->valuestring, text);
    cJSON_Delete(json);
    buffer.size_bytes = 0;
    tsr_buffer_json_string(&buffer, "a\"b\\c\n\x01<>&");
    cr_assert_str_eq(buffer.bytes, "\"a\\\"b\\\\c\\n\\u0001<>&\"", "one spelling");
    buffer.size_bytes = 0;
    tsr_buffer_json_string(&buffer, "caf\xe9 \"\\\x7f");
    cr_assert_str_eq(buffer.bytes, "\"caf\\u00e9 \\\"\\\\\\u007f\"", "JSON whatever it quotes");
    tsr_buffer_finish(&buffer);
}

Test(buffer, a_failure_is_kept) {
    tsr_buffer buffer = {0};
    tsr_buffer_text(&buffer, "kept");
    tsr_buffer_append(&buffer, NULL, SIZE_MAX - 4);
    cr_assert(buffer.failed);
    tsr_buffer_text(&buffer, "lost");
    tsr_buffer_printf(&buffer, "%d", 1);
    cr_assert_str_eq(buffer.bytes, "kept");
    tsr_buffer_finish(&buffer);
}
