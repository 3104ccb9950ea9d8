/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/base/io/identity_json.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static tsr_identity make(const tsr_hyperparameter *list, size_t count) {
    return (tsr_identity){tsr_hash("p", 1), count, list};
}

Test(identity, what_is_valid) {
    static char long_name[300], long_value[40];
    memset(long_name, 'n', sizeof long_name - 1);
    memset(long_value, '1', sizeof long_value - 1);
    const struct {
        tsr_hyperparameter list[2];
        const char *wrong; /* part of the message; NULL: valid */
    } cases[] = {
        {{{"beta", "0.9", false}, {"lr", "0.001", false}}, NULL},
        {{{"entry with spaces.lr", "1", false}, {"\xc3\xbc", "1e-08", false}}, NULL},
        {{{"lr", "0.9", false}, {"beta", "1", false}}, "order"},
        {{{"lr", "0.9", false}, {"lr", "0.9", false}}, "order"},
        {{{"", "0.9", false}, {"lr", "1", false}}, "name"},
        {{{"a\n", "0.9", false}, {"lr", "1", false}}, "name"},
        {{{"\xff", "0.9", false}, {"lr", "1", false}}, "name"},
        {{{long_name, "0.9", false}, {"z", "1", false}}, "name"},
        {{{"a", "", false}, {"lr", "1", false}}, "value"},
        {{{"a", "1 2", false}, {"lr", "1", false}}, "value"},
        {{{"a", "\xc3\xbc", false}, {"lr", "1", false}}, "value"},
        {{{"a", long_value, false}, {"lr", "1", false}}, "value"},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        tsr_identity identity = make(cases[i].list, 2);
        const char *wrong = tsr_identity_check(&identity);
        cr_assert_eq(!wrong, !cases[i].wrong, "case %zu: %s", i, wrong ? wrong : "valid");
        if (wrong) cr_assert(strstr(wrong, cases[i].wrong), "case %zu: %s", i, wrong);
    }
}

Test(identity, limits) {
    enum { MANY = TSR_HYPERPARAMETERS_MAX + 1 };
    static char names[MANY][256];
    tsr_hyperparameter list[MANY];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "n%03zu", i);
        list[i] = (tsr_hyperparameter){names[i], "1", false};
    }
    tsr_identity identity = make(list, TSR_HYPERPARAMETERS_MAX);
    cr_assert_null(tsr_identity_check(&identity));
    identity.hyperparameter_count = MANY;
    cr_assert(strstr(tsr_identity_check(&identity), "too many"));
    for (size_t i = 0; i < 9; i++) memset(names[i] + 4, 'x', 240);
    identity.hyperparameter_count = 9;
    cr_assert_gt(tsr_identity_size(&identity), TSR_HYPERPARAMETERS_BYTES_MAX);
    cr_assert(strstr(tsr_identity_check(&identity), "too long"));
    identity = (tsr_identity){.hyperparameter_count = 1, .hyperparameters = list};
    cr_assert_not(tsr_identity_is_known(&identity));
    cr_assert_not(tsr_identity_is_known(NULL));
    cr_assert(strstr(tsr_identity_check(&identity), "no program digest"));
}

Test(identity, changes_in_the_order_of_names) {
    const tsr_hyperparameter left[] = {{"a", "1", false}, {"b", "2", false}, {"d", "4", false}};
    const tsr_hyperparameter right[] = {
        {"b", "3", false}, {"c", "3", false}, {"d", "4", false}, {"e", "5", false}};
    const tsr_hyperparameter_change expected[] = {{"a", "1", NULL, false, false},
                                                  {"b", "2", "3", false, false},
                                                  {"c", NULL, "3", false, false},
                                                  {"e", NULL, "5", false, false}};
    tsr_identity a = make(left, 3), b = make(right, 4);
    tsr_identity_cursor at = {0};
    tsr_hyperparameter_change found;
    for (size_t i = 0; i < 4; i++) {
        cr_assert(tsr_identity_next_change(&a, &b, &at, &found));
        cr_assert_str_eq(found.name, expected[i].name);
        cr_assert_eq(!found.a, !expected[i].a);
        cr_assert_eq(!found.b, !expected[i].b);
        if (found.a) cr_assert_str_eq(found.a, expected[i].a);
        if (found.b) cr_assert_str_eq(found.b, expected[i].b);
    }
    cr_assert_not(tsr_identity_next_change(&a, &b, &at, &found));
    at = (tsr_identity_cursor){0};
    cr_assert_not(tsr_identity_next_change(&a, &a, &at, &found));
}

Test(identity, a_copy_owns_its_texts) {
    char name[] = "lr", value[] = "0.1";
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_hyperparameter list[] = {{name, value, false}};
    tsr_identity identity = make(list, 1), copy;
    cr_assert_eq(tsr_identity_copy(&ctx, &identity, &arena, &copy).code, TSR_OK);
    name[0] = value[0] = 'x';
    cr_assert(tsr_digest_equal(&copy.program, &identity.program));
    cr_assert_str_eq(copy.hyperparameters[0].name, "lr");
    cr_assert_str_eq(copy.hyperparameters[0].value, "0.1");
    tsr_arena_finish(&arena);
}

static tsr_result read(tsr_ctx *ctx, const char *json, tsr_arena *arena, tsr_identity *out) {
    const tsr_json_options options = {.subject = "it", .code = TSR_DATA};
    struct cJSON *root = NULL;
    tsr_result result = tsr_json_parse(ctx, json, strlen(json), &options, &root);
    cr_assert_eq(result.code, TSR_OK, "%s", ctx->error.text);
    result = tsr_identity_read_json(ctx, root, &options, arena, out);
    tsr_json_destroy(root);
    return result;
}

Test(identity, written_and_read) {
    const tsr_hyperparameter list[] = {{"a\"b", "1", false}, {"lr", "1e-08", false}};
    tsr_identity identity = make(list, 2), back;
    tsr_identity_cursor at = {0};
    tsr_hyperparameter_change change;
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_buffer text = {0};
    tsr_buffer_text(&text, "{");
    tsr_identity_write_json(&text, &identity);
    tsr_buffer_text(&text, "}");
    cr_assert_eq(read(&ctx, text.bytes, &arena, &back).code, TSR_OK, "%s", ctx.error.text);
    cr_assert(tsr_digest_equal(&back.program, &identity.program));
    cr_assert_not(tsr_identity_next_change(&identity, &back, &at, &change));
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
Test(identity, json_that_is_refused) {
    static const char *const texts[] = {
        "{}",
        "{\"hyperparameters\":{}}",
        "{\"program\":\"" HEX "\"}",
        "{\"program\":7,\"hyperparameters\":{}}",
        "{\"program\":\"00\",\"hyperparameters\":{}}",
        "{\"program\":\"" ZEROS "\",\"hyperparameters\":{}}",
        "{\"program\":\"" HEX "\",\"hyperparameters\":[]}",
        "{\"program\":\"" HEX "\",\"hyperparameters\":{\"lr\":1}}",
        "{\"program\":\"" HEX "\",\"hyperparameters\":{\"lr\":null}}",
        "{\"program\":\"" HEX "\",\"hyperparameters\":{\"lr\":\"1\",\"a\":\"1\"}}",
        "{\"program\":\"" HEX "\",\"hyperparameters\":{\"\":\"1\"}}",
        "{\"program\":\"" HEX "\",\"hyperparameters\":{\"a\\n\":\"1\"}}",
    };
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        tsr_arena arena = {0};
        tsr_ctx ctx = {0};
        tsr_identity identity;
        cr_assert_eq(read(&ctx, texts[i], &arena, &identity).code, TSR_DATA, "%s", texts[i]);
        cr_assert(strncmp(ctx.error.text, "it: ", 4) == 0, "%s", ctx.error.text);
        tsr_arena_finish(&arena);
    }
}

Test(identity, numbers_have_their_shortest_form) {
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0.001, "0.001"}, {5e-3, "0.005"},      {1e-8, "1e-08"},
                {1, "1"},         {1234567, "1234567"}, {0.1 + 0.2, "0.30000000000000004"},
                {-0.5, "-0.5"},   {1e39, "1e+39"}};
    char text[TSR_HYPERPARAMETER_VALUE_MAX];
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        cr_assert_str_eq(tsr_hyperparameter_format(rows[i].value, text), rows[i].text);
}

Test(identity, marks_follow_the_list) {
    const tsr_hyperparameter list[] = {{"a", "1", true}, {"b", "2", false}, {"c", "3", true}};
    const tsr_hyperparameter other[] = {{"a", "2", false}, {"b", "2", true}, {"c", "3", false}};
    const tsr_identity one = {{{1}}, 3, list}, two = {{{1}}, 3, other};
    tsr_identity_cursor at = {0};
    tsr_hyperparameter_change change;
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_identity copy;
    cr_assert_eq(tsr_identity_get_set(&one), 5);
    cr_assert_eq(tsr_identity_find(&one, "c"), &list[2]);
    cr_assert_null(tsr_identity_find(&one, "d"));
    cr_assert(tsr_identity_next_change(&one, &two, &at, &change));
    cr_assert(change.a_is_set && !change.b_is_set && strcmp(change.name, "a") == 0);
    cr_assert_not(tsr_identity_next_change(&one, &two, &at, &change), "equal values do not differ");
    cr_assert_eq(tsr_identity_copy(&ctx, &one, &arena, &copy).code, TSR_OK);
    cr_assert_eq(tsr_identity_get_set(&copy), 5);
    tsr_arena_finish(&arena);
}
