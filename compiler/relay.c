/* SPDX-License-Identifier: Apache-2.0
 *
 * tsr_compile: runs the compilation in a child process, whose callbacks become messages. A message
 * consists of 32-bit numbers in this machine's byte order and of strings: length + 1 (0: NULL),
 * bytes, a NUL.
 */
#include "compiler/compile.h"
#include "compiler/process/guard.h"
#include "runtime/base/arena.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"

#include <string.h>

enum { MESSAGE_DIAG, MESSAGE_DUMP, MESSAGE_LOG, MESSAGE_REPORT };
enum { NOTES_DEPTH_MAX = 4 };

typedef struct relay {
    const tsr_compile_options *options;
    tsr_compile_report report;
    bool reported;
} relay;

/* ---- in the child ---------------------------------------------------------------------------- */

static void put_text(tsr_buffer *out, const char *text) {
    size_t length = text ? strlen(text) : 0;
    tsr_buffer_u64(out, text ? length + 1 : 0);
    if (text) tsr_buffer_append(out, text, length + 1);
}

static void put_diag(tsr_buffer *out, const tsr_diag *diag) {
    const uint32_t numbers[] = {
        diag->number, diag->severity,   diag->line,       diag->column,
        diag->length, diag->fix_column, diag->fix_length, (uint32_t)diag->note_count};
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) tsr_buffer_u32(out, numbers[i]);
    put_text(out, diag->file);
    put_text(out, diag->text);
    put_text(out, diag->source_line);
    put_text(out, diag->fix);
    for (size_t i = 0; i < diag->note_count; i++) put_diag(out, &diag->notes[i]);
}

static bool send(uint32_t kind, tsr_buffer *message) {
    bool whole = !message->failed;
    if (whole) tsr_guard_send(kind, message->bytes, message->size_bytes);
    tsr_buffer_finish(message);
    return whole;
}

static void send_diag(void *user, const tsr_diag *diag) {
    tsr_buffer message = {0};
    (void)user;
    put_diag(&message, diag);
    send(MESSAGE_DIAG, &message);
}

static tsr_result send_dump(tsr_ctx *ctx, void *user, tsr_stage stage, const char *target,
                            const char *text, size_t size_bytes) {
    tsr_buffer message = {0};
    (void)user;
    tsr_buffer_u32(&message, (uint32_t)stage);
    put_text(&message, target);
    tsr_buffer_append(&message, text, size_bytes);
    if (!send(MESSAGE_DUMP, &message))
        FAIL(ctx, TSR_MEMORY, "no memory to show stage %s", tsr_stage_get(stage)->name);
    return TSR_SUCCESS;
}

static void send_log(void *user, tsr_log_level level, const char *text) {
    tsr_buffer message = {0};
    (void)user;
    tsr_buffer_u32(&message, (uint32_t)level);
    tsr_buffer_text(&message, text);
    send(MESSAGE_LOG, &message);
}

static tsr_result work(tsr_ctx *ctx, void *user) {
    const relay *r = user;
    tsr_compile_options options = *r->options;
    tsr_compile_report report;
    if (options.on_diag) options.on_diag = send_diag;
    if (options.on_dump) options.on_dump = send_dump;
    if (ctx->log) ctx->log = send_log;
    TRY(ctx, tsr_compile_here(ctx, &options, &report));
    tsr_guard_send(MESSAGE_REPORT, &report, sizeof report);
    return TSR_SUCCESS;
}

/* ---- in the parent --------------------------------------------------------------------------- */

typedef struct reader {
    const char *bytes;
    size_t size_bytes, at;
    bool failed; /* the message is shorter than it says */
    tsr_arena arena;
} reader;

static uint32_t get_u32(reader *r) {
    uint32_t value = 0;
    r->failed = r->failed || r->size_bytes - r->at < sizeof value;
    if (r->failed) return 0;
    memcpy(&value, r->bytes + r->at, sizeof value);
    r->at += sizeof value;
    return value;
}

static const char *get_text(reader *r) {
    uint64_t size = 0;
    r->failed = r->failed || r->size_bytes - r->at < sizeof size;
    if (r->failed) return NULL;
    memcpy(&size, r->bytes + r->at, sizeof size);
    r->at += sizeof size;
    const char *text = r->bytes + r->at;
    r->failed = size > r->size_bytes - r->at || (size && text[size - 1]);
    if (r->failed || !size) return NULL;
    r->at += size;
    return text;
}

/* Checks that a diagnostic that was read can be shown. */
static bool is_whole(const tsr_diag *diag) {
    return diag->severity <= TSR_SEVERITY_REMARK && diag->file && diag->text &&
           (!diag->fix || diag->fix_column);
}

static void get_diag(reader *r, size_t depth, tsr_diag *out) {
    *out = (tsr_diag){0};
    out->number = (tsr_diag_number)get_u32(r);
    out->severity = (tsr_severity)get_u32(r);
    out->line = get_u32(r);
    out->column = get_u32(r);
    out->length = get_u32(r);
    out->fix_column = get_u32(r);
    out->fix_length = get_u32(r);
    out->note_count = get_u32(r);
    out->file = get_text(r);
    out->text = get_text(r);
    out->source_line = get_text(r);
    out->fix = get_text(r);
    r->failed = r->failed || !is_whole(out) || depth == NOTES_DEPTH_MAX ||
                out->note_count > r->size_bytes - r->at;
    if (r->failed || !out->note_count) return;
    out->notes = TSR_NEW(&r->arena, tsr_diag, out->note_count);
    r->failed = !out->notes;
    for (size_t i = 0; i < out->note_count && !r->failed; i++)
        get_diag(r, depth + 1, &out->notes[i]);
}

static void on_diag(void *user, const tsr_diag *diag) {
    const relay *to = user;
    if (to->options->on_diag) to->options->on_diag(to->options->user, diag);
}

static tsr_result on_dump(tsr_ctx *ctx, const tsr_compile_options *options, reader *r) {
    uint32_t stage = get_u32(r);
    const char *target = get_text(r);
    r->failed = r->failed || stage >= TSR_STAGE_COUNT;
    if (r->failed) return TSR_SUCCESS;
    return options->on_dump(ctx, options->user, (tsr_stage)stage, target, r->bytes + r->at,
                            r->size_bytes - r->at);
}

/* A child that is about to die may send anything. */
static tsr_result on_message(tsr_ctx *ctx, void *user, uint32_t kind, const char *bytes,
                             size_t size_bytes) {
    relay *to = user;
    reader r = {.bytes = bytes, .size_bytes = size_bytes};
    tsr_result result = TSR_SUCCESS;
    if (kind == MESSAGE_DIAG) {
        tsr_diag diag;
        get_diag(&r, 0, &diag);
        if (!r.failed) on_diag(to, &diag);
    } else if (kind == MESSAGE_DUMP && to->options->on_dump) {
        result = on_dump(ctx, to->options, &r);
    } else if (kind == MESSAGE_LOG && ctx->log) {
        uint32_t level = get_u32(&r);
        r.failed = r.failed || level > TSR_LOG_DEBUG;
        if (!r.failed) ctx->log(ctx->log_user, (tsr_log_level)level, bytes + r.at);
    } else if (kind == MESSAGE_REPORT && size_bytes == sizeof to->report) {
        memcpy(&to->report, bytes, sizeof to->report);
        to->reported = true;
    } else {
        r.failed = true;
    }
    tsr_arena_finish(&r.arena);
    if (r.failed && !result.code)
        FAIL(ctx, TSR_INTERNAL,
             "message %u of the compiler's process is damaged at byte %zu of %zu", kind, r.at,
             size_bytes);
    return result;
}

tsr_result tsr_compile(tsr_ctx *ctx, const tsr_compile_options *options,
                       tsr_compile_report *out_report) {
    relay r = {.options = options};
    TSR_ASSERT(options->size_bytes == sizeof *options);
    TSR_ASSERT(options->from < TSR_STAGE_COUNT);
    const char *slash = strrchr(options->source_path, '/');
    const tsr_guard_options guard = {.source = slash ? slash + 1 : options->source_path,
                                     .on_diag = on_diag,
                                     .on_message = on_message,
                                     .user = &r};
    TRY(ctx, tsr_guard_run(ctx, &guard, work, &r));
    if (!r.reported) FAIL(ctx, TSR_INTERNAL, "the compiler's process ended without a report");
    if (out_report) *out_report = r.report;
    return TSR_SUCCESS;
}
