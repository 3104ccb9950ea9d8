/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/base/result.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

Test(result, codes_have_their_numbers_and_names) {
    cr_assert_eq(TSR_OK, 0);
    cr_assert_eq(TSR_CORRUPT, 2);
    cr_assert_eq(TSR_MACHINE, 17);
    cr_assert_str_eq(tsr_code_name(TSR_CORRUPT), "CORRUPT");
    cr_assert_str_eq(tsr_code_text(TSR_LOCKED), "in use");
    cr_assert_str_eq(tsr_code_when(TSR_OK), "the command succeeded");
    cr_assert_str_eq(tsr_code_name((tsr_code)999), "INTERNAL", "an unknown number is our bug");
}

Test(result, codes_are_distinct_and_fit_an_exit_status) {
    static const int numbers[] = {
#define X(name, number, text, when) number,
#include "tessera/codes.def"
#undef X
    };
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) {
        cr_assert(numbers[i] >= 0 && numbers[i] < 64, "%d", numbers[i]);
        for (size_t j = 0; j < i; j++) cr_assert_neq(numbers[i], numbers[j]);
    }
}

static tsr_result fails(tsr_ctx *ctx) { FAIL(ctx, TSR_DATA, "row %d has %s", 3, "NaN"); }
static tsr_result passes_on(tsr_ctx *ctx) {
    TRY(ctx, fails(ctx));
    return TSR_SUCCESS;
}
static tsr_result cleans_up(tsr_ctx *ctx, int *cleaned) {
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, passes_on(ctx));
    *cleaned = -1;
done:
    ++*cleaned;
    return result;
}

Test(result, failure_carries_code_text_and_frames) {
    tsr_ctx ctx = {0};
    int cleaned = 0;
    cr_assert_eq(cleans_up(&ctx, &cleaned).code, TSR_DATA);
    cr_assert_eq(cleaned, 1);
    cr_assert_eq(ctx.error.code, TSR_DATA);
    cr_assert_str_eq(ctx.error.text, "row 3 has NaN");
    cr_assert_eq(ctx.error.frame_count, 3);
    cr_assert_eq(ctx.error.native, 0);
    cr_assert(strstr(ctx.error.frames[0].file, "test_result.c"));
    cr_assert_lt(ctx.error.frames[0].line, ctx.error.frames[1].line);
    tsr_error_clear(&ctx);
    cr_assert_eq(ctx.error.code, TSR_OK);
    cr_assert_str_empty(ctx.error.text);
}

static tsr_result recurse(tsr_ctx *ctx, int depth) {
    if (depth == 0) FAIL(ctx, TSR_IO, "deep");
    TRY(ctx, recurse(ctx, depth - 1));
    return TSR_SUCCESS;
}

Test(result, frames_stop_at_their_limit) {
    tsr_ctx ctx = {0};
    cr_assert_eq(recurse(&ctx, 100).code, TSR_IO);
    cr_assert_eq(ctx.error.frame_count, TSR_ERROR_FRAMES_MAX);
}

static tsr_result fails_errno(tsr_ctx *ctx) {
    FAIL_ERRNO(ctx, TSR_IO, ENOSPC, "cannot write '%s'", "x.tsb");
}

Test(result, errno_text_is_appended) {
    tsr_ctx ctx = {0};
    cr_assert_eq(fails_errno(&ctx).code, TSR_IO);
    cr_assert_eq(ctx.error.native, ENOSPC);
    cr_assert_str_eq(ctx.error.text, "cannot write 'x.tsb': No space left on device");
}

static tsr_result fails_long(tsr_ctx *ctx, const char *text) {
    FAIL_ERRNO(ctx, TSR_IO, EIO, "%s", text);
}

Test(result, long_text_is_cut) {
    static char text[3 * TSR_ERROR_TEXT_MAX];
    tsr_ctx ctx = {0};
    /* Around the limit every length must end in a NUL, with or without room for the errno text. */
    for (size_t length = TSR_ERROR_TEXT_MAX - 40; length < sizeof text - 1; length += 1) {
        memset(text, 'a', length);
        text[length] = 0;
        cr_assert_eq(fails_long(&ctx, text).code, TSR_IO);
        cr_assert_lt(strlen(ctx.error.text), (size_t)TSR_ERROR_TEXT_MAX);
        cr_assert_eq(tsr_error_prefix(&ctx, (tsr_result){TSR_IO}, "%s", text).code, TSR_IO);
        cr_assert_lt(strlen(ctx.error.text), (size_t)TSR_ERROR_TEXT_MAX);
        if (length > 1100) length += 100;
    }
}

static tsr_result fails_with_own_text(tsr_ctx *ctx) {
    FAIL(ctx, TSR_STATE, "tried again: %s", ctx->error.text);
}

Test(result, text_may_quote_the_text_it_replaces) {
    tsr_ctx ctx = {0};
    cr_assert_neq(fails(&ctx).code, TSR_OK);
    cr_assert_eq(fails_with_own_text(&ctx).code, TSR_STATE);
    cr_assert_str_eq(ctx.error.text, "tried again: row 3 has NaN");
    cr_assert_eq(tsr_error_prefix(&ctx, (tsr_result){TSR_STATE}, "entry %d", 2).code, TSR_STATE);
    cr_assert_str_eq(ctx.error.text, "entry 2: tried again: row 3 has NaN");
}

static void collect(void *user, tsr_log_level level, const char *text) {
    char *log = user;
    snprintf(log + strlen(log), 64, "%d:%s;", (int)level, text);
}

Test(result, log_obeys_its_level) {
    char log[256] = "";
    tsr_ctx ctx = {.log = collect, .log_user = log, .log_level = TSR_LOG_WARNING};
    tsr_log(&ctx, TSR_LOG_ERROR, "a%d", 1);
    tsr_log(&ctx, TSR_LOG_WARNING, "b");
    tsr_log(&ctx, TSR_LOG_NOTICE, "c");
    cr_assert_str_eq(log, "0:a1;1:b;");
    tsr_log(&(tsr_ctx){0}, TSR_LOG_ERROR, "nobody listens");
}

Test(result, fork_and_adopt) {
    char log[256] = "";
    tsr_ctx ctx = {.log = collect, .log_user = log, .log_level = TSR_LOG_DEBUG};
    cr_assert_neq(fails(&ctx).code, TSR_OK);
    tsr_ctx other = tsr_ctx_fork(&ctx);
    cr_assert_eq(other.error.code, TSR_OK, "the fork starts clean");
    cr_assert_eq(other.log_user, log);
    cr_assert_eq(other.log_level, TSR_LOG_DEBUG);
    cr_assert_eq(fails_errno(&other).code, TSR_IO);
    cr_assert_eq(tsr_error_adopt(&ctx, &other).code, TSR_IO);
    cr_assert_str_eq(ctx.error.text, other.error.text);
    cr_assert_eq(ctx.error.native, ENOSPC);
}

static void violate(void) { TSR_ASSERT(1 + 1 == 3); }

Test(result, assertions_stay_on, .signal = 6) { violate(); }
