/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/trace.h"

#include "runtime/base/arena.h"
#include "runtime/base/io/io.h"

#include <stdlib.h>
#include <string.h>

/* Parses digits up to `end`; returns false for anything else, and for 0. */
static bool parse_step(const char *text, char end, const char **out_rest, uint64_t *out_step) {
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    if (at == text || *at != end || value == 0) return false;
    *out_rest = end ? at + 1 : at;
    *out_step = value;
    return true;
}

/* A run may take days, so an unwritable file is reported before it starts. */
static tsr_result check_writable(tsr_ctx *ctx, const char *path) {
    tsr_arena arena = {0};
    tsr_io_atomic file = {0};
    if (!path) return TSR_SUCCESS;
    tsr_result result = tsr_io_atomic_open(ctx, path, &arena, &file);
    tsr_io_atomic_abandon(ctx, &file);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_run_trace_parse(tsr_ctx *ctx, const tsr_run_trace *options, uint64_t *out_first,
                               uint64_t *out_last) {
    uint64_t first = 0, last = 0;
    const char *rest = options->steps;
    if (options->steps && !options->trace && !options->roofline)
        FAIL(ctx, TSR_USAGE, "--trace-steps needs --trace or --roofline");
    if (options->steps &&
        !(parse_step(rest, ':', &rest, &first) && parse_step(rest, 0, &rest, &last)))
        FAIL(ctx, TSR_USAGE,
             "--trace-steps is '%s'; expected FIRST:LAST, two steps, which count from 1",
             options->steps);
    *out_first = first;
    *out_last = last;
    return TSR_SUCCESS;
}

tsr_result tsr_run_trace_begin(tsr_ctx *ctx, const tsr_run_trace *options, uint32_t rank) {
    tsr_trace_options trace = {.size_bytes = sizeof trace, .rank = rank};
    TRY(ctx, tsr_run_trace_parse(ctx, options, &trace.first_step, &trace.last_step));
    TRY(ctx, check_writable(ctx, options->trace));
    TRY(ctx, check_writable(ctx, options->roofline));
    /* The variable with which NVIDIA's profilers name their library. */
    const char *profiler = getenv("NVTX_INJECTION64_PATH");
    tsr_ctx opening = tsr_ctx_fork(ctx);
    if (profiler && profiler[0] && tsr_nvtx_open(&opening, profiler, &trace.ranges).code)
        tsr_log(ctx, TSR_LOG_WARNING, "%s", opening.error.text);
    trace.ranges_only = !options->trace && !options->roofline;
    if (trace.ranges_only && !trace.ranges) return TSR_SUCCESS;
    return tsr_trace_create(ctx, &trace, &ctx->trace);
}

const char *tsr_run_trace_path(const char *path, uint32_t rank, tsr_arena *arena) {
    if (!path) return NULL;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name) dot = path + strlen(path);
    return tsr_arena_printf(arena, "%.*s.rank%u%s", (int)(dot - path), path, rank, dot);
}

static const char *path_of(const char *path, const tsr_transport *transport, tsr_arena *arena) {
    if (!transport) return path;
    return tsr_run_trace_path(path, tsr_rank_get_number(transport), arena);
}

tsr_result tsr_run_trace_write(tsr_ctx *ctx, const tsr_run_trace *options, tsr_model *model,
                               const tsr_transport *transport) {
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    tsr_trace *trace = ctx->trace;
    if (!trace) return TSR_SUCCESS;
    const char *json = path_of(options->trace, transport, &arena);
    const char *csv = path_of(options->roofline, transport, &arena);
    ctx->trace = NULL; /* later events are not part of the trace */
    if ((options->trace && !json) || (options->roofline && !csv))
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the names of a trace's files");
    if (json) TRY_GOTO(ctx, result, tsr_trace_write(ctx, trace, json));
    if (csv && model) TRY_GOTO(ctx, result, tsr_model_write_roofline(ctx, model, csv));
done:
    ctx->trace = trace;
    tsr_arena_finish(&arena);
    return result;
}

void tsr_run_trace_end(tsr_ctx *ctx) {
    tsr_trace_destroy(ctx->trace);
    ctx->trace = NULL;
}
