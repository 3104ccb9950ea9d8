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

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exported from libtessera; everything else is hidden. */
#define TSR_API __attribute__((visibility("default")))

typedef enum tsr_code {
#define X(name, number, text, when) TSR_##name = number,
#include "runtime/base/codes.def"
#undef X
} tsr_code;

typedef struct tsr_result {
    tsr_code code;
} tsr_result;
#define TSR_RESULT __attribute__((warn_unused_result)) tsr_result
#define TSR_SUCCESS ((tsr_result){TSR_OK})

enum { TSR_ERROR_TEXT_MAX = 1024, TSR_ERROR_FRAMES_MAX = 8 };

typedef struct tsr_frame {
    const char *file; /* static storage */
    int line;
} tsr_frame;

typedef struct tsr_error {
    tsr_code code;
    int native; /* errno, or 0 */
    uint32_t frame_count;
    tsr_frame frames[TSR_ERROR_FRAMES_MAX]; /* innermost first */
    char text[TSR_ERROR_TEXT_MAX];
} tsr_error;

typedef enum tsr_log_level {
    TSR_LOG_ERROR,
    TSR_LOG_WARNING,
    TSR_LOG_NOTICE,
    TSR_LOG_DEBUG
} tsr_log_level;
typedef void (*tsr_log_fn)(void *user, tsr_log_level level, const char *text);

struct tsr_io;
struct tsr_trace;

/* Zero-initialised is valid: no log, io = the operating system, no trace. */
typedef struct tsr_ctx {
    tsr_error error;
    tsr_log_fn log;          /* may be NULL; must be callable from any thread that owns a context */
    void *log_user;          /* borrowed */
    tsr_log_level log_level; /* messages above it are not formatted */
    const struct tsr_io *io; /* borrowed; NULL means tsr_io_system() */
    struct tsr_trace *trace; /* borrowed; records the run; NULL: no trace */
} tsr_ctx;

/* A context for another thread: same log, io and trace, clean error. */
static inline tsr_ctx tsr_ctx_fork(const tsr_ctx *ctx) {
    return (tsr_ctx){.log = ctx->log,
                     .log_user = ctx->log_user,
                     .log_level = ctx->log_level,
                     .io = ctx->io,
                     .trace = ctx->trace};
}

TSR_API const char *tsr_code_name(tsr_code code); /* "CORRUPT" */
TSR_API const char *tsr_code_text(tsr_code code); /* "corrupt" */
TSR_API const char *tsr_code_when(tsr_code code);

TSR_API void tsr_log(const tsr_ctx *ctx, tsr_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

TSR_API tsr_result tsr_fail_(tsr_ctx *ctx, tsr_code code, int native, const char *file, int line,
                             const char *format, ...) __attribute__((format(printf, 6, 7)));
TSR_API tsr_result tsr_trace_(tsr_ctx *ctx, tsr_result result, const char *file, int line);
/* Puts "prefix: " before the text of the current error; returns `result`. */
TSR_API tsr_result tsr_error_prefix(tsr_ctx *ctx, tsr_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Copies the error of `from` (another thread's context) and returns it as a result. */
TSR_API tsr_result tsr_error_adopt(tsr_ctx *ctx, const tsr_ctx *from);
TSR_API void tsr_error_clear(tsr_ctx *ctx);

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

TSR_API _Noreturn void tsr_assert_fail_(const char *file, int line, const char *expr);
#define TSR_ASSERT(expr) ((expr) ? (void)0 : tsr_assert_fail_(__FILE__, __LINE__, #expr))

#endif
