/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the JSON reader: the reader accepts cJSON's print of an accepted text again; the accessors
 * accept any value of the tree.
 */
#include "runtime/base/io/json.h"

#include "runtime/base/array.h"
#include "tests/fuzz/fuzz.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static void seed(const char *folder) {
    static const char *const texts[] = {
        "{\"a\":1}",
        "[]",
        "{\"text\":\"\\u00e9\\ud83d\\ude00\",\"list\":[0,1,9007199254740992],\"o\":{\"p\":{}}}",
        " [ true , false , null , \"\\\"\\\\\\/\\b\\f\\n\\r\\t\" ] ",
        "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
        "[-0.5,1e300,1.25E-7]",
    };
    for (unsigned i = 0; i < TSR_COUNT(texts); i++) fuzz_put(folder, i, texts[i], strlen(texts[i]));
}

/* Calls every accessor on every object of the tree. */
static void use(const cJSON *value, const tsr_json_options *options) {
    static const char *const keys[] = {"a", "text", "list", "o"};
    for (const cJSON *item = value; item; item = item->next) {
        for (size_t i = 0; cJSON_IsObject(item) && i < TSR_COUNT(keys); i++) {
            tsr_ctx ctx = {0};
            const char *text = NULL;
            uint64_t number = 0;
            const cJSON *object = NULL, *array = NULL;
            size_t count = 0;
            bool there = tsr_json_find(item, keys[i]) != NULL;
            unsigned kinds = 0;
            kinds += !tsr_json_get_string(&ctx, item, keys[i], options, &text).code;
            kinds += !tsr_json_get_u64(&ctx, item, keys[i], options, &number).code;
            kinds += !tsr_json_get_object(&ctx, item, keys[i], options, &object).code;
            kinds += !tsr_json_get_array(&ctx, item, keys[i], options, &array, &count).code;
            fuzz_require(kinds <= there, "a member of one kind, or none");
        }
        if (item->child) use(item->child, options);
    }
}

static bool accepted(const uint8_t *bytes, size_t size_bytes, bool allow_numbers) {
    const tsr_json_options options = {"fuzz", TSR_DATA, allow_numbers};
    tsr_ctx ctx = {0};
    struct cJSON *root = NULL, *again = NULL;
    tsr_result result = tsr_json_parse(&ctx, (const char *)bytes, size_bytes, &options, &root);
    if (result.code) {
        fuzz_require(result.code == TSR_DATA || fuzz_faults, "the code of the options");
        fuzz_require(strncmp(ctx.error.text, "fuzz: ", 6) == 0 || fuzz_faults,
                     "the subject in the message");
        return false;
    }
    use(root, &options);
    char *text = cJSON_PrintUnformatted(root); /* 2^53 as 9.007199254740992e+15 */
    const tsr_json_options printed = {"fuzz", TSR_DATA, true};
    if (text && !fuzz_faults)
        fuzz_require(!tsr_json_parse(&ctx, text, strlen(text), &printed, &again).code,
                     "what was accepted, printed, to be accepted");
    cJSON_free(text);
    tsr_json_destroy(again);
    tsr_json_destroy(root);
    return true;
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    bool integers = accepted(bytes, size_bytes, false);
    bool numbers = accepted(bytes, size_bytes, true);
    fuzz_require(!integers || numbers || fuzz_faults, "integers where numbers are allowed");
    fuzz_require(!tsr_utf8_valid((const char *)bytes, size_bytes) || !memchr(bytes, 0, size_bytes),
                 "no NUL in valid text");
    return numbers;
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    return fuzz_mutate_json(bytes, size_bytes, size_max, &seed);
}

const fuzz_target fuzz_the_target = {"json", seed, run, mutate};
