/* SPDX-License-Identifier: Apache-2.0
 *
 * Results and errors. A function that can fail for an operating reason returns TSR_RESULT; the text
 * is stored in the context, so failing never allocates. Programmer errors are TSR_ASSERT, kept on
 * in release builds.
 *
 *     TSR_RESULT f(tsr_ctx *ctx, const char *path) {
 *         if (!path[0]) FAIL(ctx, TSR_USAGE, "path is empty");
 *         TRY(ctx, g(ctx, path));
 *         return TSR_SUCCESS;
 *     }
 *
 * A context belongs to one thread at a time. Text: the failed operation, the subject in quotes,
 * both values; no capital, no full stop.
 */
#ifndef TSR_BASE_RESULT_H
#define TSR_BASE_RESULT_H

#include "tessera/result.h"

#include <assert.h>
#include <stdarg.h>

/* Drops a result on purpose; `why` is a string that says why no caller needs it. */
#define TSR_DROP(expr, why)                                                                        \
    do {                                                                                           \
        static_assert(sizeof(why) > 1, "a reason");                                                \
        tsr_result dropped_ = (expr);                                                              \
        (void)dropped_;                                                                            \
    } while (0)

/* A context for another thread: same log, io and trace, clean error. */
static inline tsr_ctx tsr_ctx_fork(const tsr_ctx *ctx) {
    return (tsr_ctx){.log = ctx->log,
                     .log_user = ctx->log_user,
                     .log_level = ctx->log_level,
                     .io = ctx->io,
                     .trace = ctx->trace};
}

tsr_result tsr_fail_(tsr_ctx *ctx, tsr_code code, int native, const char *file, int line,
                     const char *format, ...) __attribute__((format(printf, 6, 7)));
tsr_result tsr_trace_(tsr_ctx *ctx, tsr_result result, const char *file, int line);
/* Puts "prefix: " before the text of the current error; returns `result`. */
tsr_result tsr_error_prefix(tsr_ctx *ctx, tsr_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Copies the error of `from` (another thread's context) and returns it as a result. */
tsr_result tsr_error_adopt(tsr_ctx *ctx, const tsr_ctx *from);
#define FAIL(ctx, code, ...) return tsr_fail_((ctx), (code), 0, __FILE__, __LINE__, __VA_ARGS__)
/* err is a positive errno value; its text is appended after ": ". */
#define FAIL_ERRNO(ctx, code, err, ...)                                                            \
    return tsr_fail_((ctx), (code), (err), __FILE__, __LINE__, __VA_ARGS__)
#define TRY(ctx, expr)                                                                             \
    do {                                                                                           \
        tsr_result r_ = (expr);                                                                    \
        if (r_.code) return tsr_trace_((ctx), r_, __FILE__, __LINE__);                             \
    } while (0)
/* The same with one exit: stores into `result` and jumps to the `done:` label. */
#define TRY_GOTO(ctx, result, expr)                                                                \
    do {                                                                                           \
        (result) = (expr);                                                                         \
        if ((result).code) {                                                                       \
            (result) = tsr_trace_((ctx), (result), __FILE__, __LINE__);                            \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)
#define FAIL_GOTO(ctx, result, code, ...)                                                          \
    do {                                                                                           \
        (result) = tsr_fail_((ctx), (code), 0, __FILE__, __LINE__, __VA_ARGS__);                   \
        goto done;                                                                                 \
    } while (0)

_Noreturn void tsr_assert_fail_(const char *file, int line, const char *expr);
#define TSR_ASSERT(expr) ((expr) ? (void)0 : tsr_assert_fail_(__FILE__, __LINE__, #expr))

#endif
