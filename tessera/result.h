/* SPDX-License-Identifier: Apache-2.0
 *
 * Results, errors and the context of a call. A function that can fail returns a result: code 0
 * (TSR_OK) is success. The text of the error is stored in the context, so failing allocates
 * nothing.
 *
 *     tsr_ctx ctx = {0};                                      in C++: tsr_ctx ctx{};
 *     tsr_result result = tsr_model_open(&ctx, "digits.tsb", NULL, &model);
 *     if (result.code) fprintf(stderr, "%s: %s\n", tsr_code_text(result.code), ctx.error.text);
 *
 * A context belongs to one thread at a time.
 */
#ifndef TSR_TESSERA_RESULT_H
#define TSR_TESSERA_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exported from libtessera; everything else is hidden. */
#define TSR_API __attribute__((visibility("default")))

/* A macro X of the including program stays as it is. */
#pragma push_macro("X")
#undef X
typedef enum tsr_code {
#define X(name, number, text, when) TSR_##name = number,
#include "tessera/codes.def"
#undef X
} tsr_code;
#pragma pop_macro("X")

/* Clang can warn about an unused value of a type; GCC only about that of a function. */
#ifdef __clang__
#define TSR_MUST_USE __attribute__((warn_unused_result))
#else
#define TSR_MUST_USE
#endif
typedef struct TSR_MUST_USE tsr_result {
    tsr_code code;
} tsr_result;
#define TSR_RESULT __attribute__((warn_unused_result)) tsr_result
#ifdef __cplusplus
#define TSR_SUCCESS (tsr_result{TSR_OK})
#else
#define TSR_SUCCESS ((tsr_result){TSR_OK})
#endif

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
    const struct tsr_io *io; /* borrowed; NULL means the operating system */
    struct tsr_trace *trace; /* borrowed; records the run; NULL: no trace */
} tsr_ctx;

TSR_API const char *tsr_code_name(tsr_code code); /* "CORRUPT" */
TSR_API const char *tsr_code_text(tsr_code code); /* "corrupt" */
TSR_API const char *tsr_code_when(tsr_code code);

TSR_API void tsr_log(const tsr_ctx *ctx, tsr_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Stores the error in the context and returns it as a result: for callbacks of the caller. `code`
 * is not TSR_OK (asserted). Longer texts are truncated to TSR_ERROR_TEXT_MAX. */
TSR_API tsr_result tsr_fail(tsr_ctx *ctx, tsr_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
TSR_API void tsr_error_clear(tsr_ctx *ctx);

#ifdef __cplusplus
}
#endif

#endif
