/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/result.h"

#include "runtime/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct code_row {
    tsr_code code;
    const char *name, *text, *when;
} code_row;

static const code_row code_rows[] = {
#define X(name, number, text, when) {TSR_##name, #name, text, when},
#include "tessera/codes.def"
#undef X
};

static const code_row *find_code(tsr_code code) {
    for (size_t i = 0; i < TSR_COUNT(code_rows); i++)
        if (code_rows[i].code == code) return &code_rows[i];
    return &code_rows[1];
}

const char *tsr_code_name(tsr_code code) { return find_code(code)->name; }
const char *tsr_code_text(tsr_code code) { return find_code(code)->text; }
const char *tsr_code_when(tsr_code code) { return find_code(code)->when; }

void tsr_log(const tsr_ctx *ctx, tsr_log_level level, const char *format, ...) {
    if (!ctx->log || level > ctx->log_level) return;
    char text[TSR_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ctx->log(ctx->log_user, level, text);
}

static tsr_result fail(tsr_ctx *ctx, tsr_code code, int native, const char *format, va_list args) {
    tsr_error *error = &ctx->error;
    TSR_ASSERT(code != TSR_OK);
    /* Formatted into a separate buffer: an argument may point into the text that is replaced. */
    char text[TSR_ERROR_TEXT_MAX];
    int length = vsnprintf(text, sizeof text, format, args);
    if (native && length >= 0 && (size_t)length < sizeof text)
        snprintf(text + length, sizeof text - (size_t)length, ": %s", strerror(native));
    memcpy(error->text, text, sizeof text);
    error->code = code;
    error->native = native;
    error->frame_count = 0;
    return (tsr_result){code};
}

tsr_result tsr_fail_(tsr_ctx *ctx, tsr_code code, int native, const char *file, int line,
                     const char *format, ...) {
    va_list args;
    va_start(args, format);
    tsr_result result = fail(ctx, code, native, format, args);
    va_end(args);
    return tsr_trace_(ctx, result, file, line);
}

tsr_result tsr_fail(tsr_ctx *ctx, tsr_code code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    tsr_result result = fail(ctx, code, 0, format, args);
    va_end(args);
    return result;
}

tsr_result tsr_trace_(tsr_ctx *ctx, tsr_result result, const char *file, int line) {
    tsr_error *error = &ctx->error;
    if (error->frame_count < TSR_ERROR_FRAMES_MAX)
        error->frames[error->frame_count++] = (tsr_frame){file, line};
    return result;
}

tsr_result tsr_error_prefix(tsr_ctx *ctx, tsr_result result, const char *format, ...) {
    char prefix[TSR_ERROR_TEXT_MAX / 2];
    char text[TSR_ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    int capacity = (int)(sizeof text - strlen(prefix) - 3);
    snprintf(text, sizeof text, "%s: %.*s", prefix, capacity, ctx->error.text);
    memcpy(ctx->error.text, text, sizeof text);
    return result;
}

tsr_result tsr_error_adopt(tsr_ctx *ctx, const tsr_ctx *from) {
    ctx->error = from->error;
    return (tsr_result){from->error.code};
}

void tsr_error_clear(tsr_ctx *ctx) { ctx->error = (tsr_error){0}; }

_Noreturn void tsr_assert_fail_(const char *file, int line, const char *expr) {
    fprintf(stderr, "tessera: %s:%d: assertion failed: %s\n", file, line, expr);
    abort();
}
